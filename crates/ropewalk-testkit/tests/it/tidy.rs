//! The house rules that a compiler does not know, as tests.
//!
//! Each rule is a function from text to findings, so that it can be shown a bad example as well as the
//! repository. A finding says where and what to do about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ropewalk_testkit::captures::workspace_root;
use toml::{Table, Value};

/// The floors of the house, lowest first. An edge goes to a strictly lower floor, so crates of one floor
/// (store and wire, proxy and server) never see each other.
const FLOORS: [&[&str]; 5] = [
    &["ropewalk-core"],
    &["ropewalk-store", "ropewalk-wire"],
    &["ropewalk-engine"],
    &["ropewalk-proxy", "ropewalk-server", "ropewalk-import"],
    &["ropewalk"],
];
const TESTKIT: &str = "ropewalk-testkit";
const LINES_MAX: usize = 800;
const EMPTY_WORDS: [&str; 6] = ["util", "utils", "helper", "helpers", "manager", "managers"];
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

#[test]
fn edges_between_crates_go_down() {
    assert_none(manifests().iter().flat_map(|(_, text)| bad_edges(text)));
}

#[test]
fn an_upward_or_sideways_edge_is_found() {
    let manifest =
        |name: &str, table: &str, on: &str| format!("[package]\nname = \"{name}\"\n[{table}]\n{on}.workspace = true\n");
    let count = |name, table, on| bad_edges(&manifest(name, table, on)).len();
    assert_eq!(count("ropewalk-core", "dependencies", "ropewalk-wire"), 1);
    assert_eq!(count("ropewalk-core", "dev-dependencies", "ropewalk-wire"), 1);
    assert_eq!(count("ropewalk-proxy", "dependencies", "ropewalk-server"), 1);
    assert_eq!(count("ropewalk-store", "dependencies", "ropewalk-wire"), 1);
    assert_eq!(count("ropewalk", "dependencies", TESTKIT), 1);
    assert_eq!(count("ropewalk", "target.'cfg(unix)'.dependencies", TESTKIT), 1);
    assert_eq!(count("ropewalk-new", "dependencies", "serde"), 1);
    assert_eq!(count("ropewalk-core", "dev-dependencies", TESTKIT), 0);
    assert_eq!(count("ropewalk-engine", "dependencies", "ropewalk-core"), 0);
    assert_eq!(count(TESTKIT, "dependencies", "ropewalk-engine"), 0);
}

fn bad_edges(manifest: &str) -> Vec<String> {
    let manifest: Table = manifest.parse().unwrap();
    let name = manifest["package"]["name"].as_str().unwrap().to_owned();
    let Some(own) = floor_of(&name) else {
        return vec![format!(
            "{name} has no floor: add it to the layout in tidy.rs and ARCHITECTURE.md"
        )];
    };
    let mut findings = Vec::new();
    for (table, on, _) in dependencies(&manifest) {
        if on == TESTKIT && table != "dev-dependencies" {
            findings.push(format!("{name}: {TESTKIT} may only be a dev-dependency"));
        } else if on != TESTKIT && floor_of(&on).is_some_and(|floor| floor >= own) {
            findings.push(format!("{name} may not depend on {on}: edges go to a lower floor"));
        }
    }
    findings
}

/// The testkit stands beside the house: it may look at everything below the two fronts.
fn floor_of(name: &str) -> Option<usize> {
    if name == TESTKIT {
        return Some(3);
    }
    FLOORS.iter().position(|floor| floor.contains(&name))
}

#[test]
fn every_dependency_comes_from_the_workspace_table() {
    assert_none(manifests().iter().flat_map(|(path, text)| {
        let findings = own_versions(text);
        findings
            .into_iter()
            .map(move |finding| format!("{}: {finding}", path.display()))
    }));
}

#[test]
fn a_version_of_its_own_is_found() {
    let lints = "[lints]\nworkspace = true\n";
    assert_eq!(
        own_versions(&format!("[dependencies]\nserde = \"1\"\n{lints}")).len(),
        1
    );
    assert_eq!(
        own_versions(&format!("[dev-dependencies]\nserde = {{ version = \"1\" }}\n{lints}")).len(),
        1
    );
    assert_eq!(
        own_versions(&format!("[dependencies]\nserde.workspace = true\n{lints}")).len(),
        0
    );
    assert_eq!(own_versions("").len(), 1);
}

fn own_versions(manifest: &str) -> Vec<String> {
    let manifest: Table = manifest.parse().unwrap();
    let from_workspace = |value: &Value| value.get("workspace") == Some(&Value::Boolean(true));
    let mut findings: Vec<_> = dependencies(&manifest)
        .filter(|(_, _, value)| !from_workspace(value))
        .map(|(_, name, _)| format!("{name} needs `workspace = true` and an entry in the workspace table"))
        .collect();
    if !manifest.get("lints").is_some_and(from_workspace) {
        findings.push("`[lints] workspace = true` is missing".to_owned());
    }
    findings
}

/// (table, crate, entry) of every dependency, those for one target only included.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&'static str, String, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let for_targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(manifest).chain(for_targets).flat_map(|place| {
        TABLES.into_iter().flat_map(|table| {
            let entries = place.get(table).and_then(Value::as_table);
            entries
                .into_iter()
                .flatten()
                .map(move |(name, value)| (table, name.clone(), value))
        })
    })
}

#[test]
fn source_files_stay_short() {
    assert_none(sources().into_iter().filter_map(|(path, text)| {
        let lines = lines_without_tests(&text);
        (lines > LINES_MAX).then(|| {
            format!(
                "{} has {lines} lines without its tests; {LINES_MAX} are enough",
                path.display()
            )
        })
    }));
}

#[test]
fn tests_inside_a_file_do_not_count() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {}\n}\nfn c() {}\n";
    assert_eq!(lines_without_tests(text), 2);
    assert_eq!(lines_without_tests("#[cfg(test)]\nmod tests;\nfn c() {}\n"), 3);
}

fn lines_without_tests(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let opens_tests = line == "#[cfg(test)]"
            && lines
                .peek()
                .is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if opens_tests {
            // rustfmt puts the closing brace of the module at the start of a line, and no other one.
            lines.by_ref().find(|line| *line == "}");
        } else {
            count += 1;
        }
    }
    count
}

#[test]
fn modules_have_names_that_say_something() {
    assert_none(sources().into_iter().flat_map(|(path, text)| {
        let mut names = declared_modules(&text);
        names.extend(
            path.iter()
                .map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned()),
        );
        let empty = names.into_iter().filter(|name| EMPTY_WORDS.contains(&name.as_str()));
        empty
            .map(|name| format!("{}: `{name}` says nothing; name what it does", path.display()))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn a_module_name_is_found_in_its_declaration() {
    assert_eq!(
        declared_modules("pub(crate) mod utils;\nmod a {\n// mod helpers\n"),
        ["utils", "a"]
    );
}

fn declared_modules(text: &str) -> Vec<String> {
    let after_mod = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        (words.next() == Some("mod")).then(|| words.next().unwrap_or_default().trim_end_matches([';', '{']).to_owned())
    };
    text.lines().filter_map(after_mod).collect()
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    assert_none(tracked_files().into_iter().flat_map(|(path, text)| {
        let made_up = path.starts_with("fixtures") || path.iter().any(|part| part == "snapshots");
        let findings = if made_up { Vec::new() } else { machine_paths(&text) };
        findings
            .into_iter()
            .map(move |line| format!("{}:{line} names a folder of one machine", path.display()))
    }));
}

#[test]
fn a_folder_of_one_machine_is_found() {
    let home = ["", "home", "ann", "x"].join("/");
    assert_eq!(machine_paths(&format!("a\nsee {home}\n")), [2]);
    assert_eq!(machine_paths(&format!("\"{home}\"")), [1]);
    assert_eq!(machine_paths(&format!("https://site.example{home}")), [0; 0]);
}

/// Numbers of the lines that hold an absolute path into somebody's machine.
fn machine_paths(text: &str) -> Vec<usize> {
    // Put together here, so that this file does not find itself.
    let folders = ["home", "work", "root"].map(|name| format!("/{name}/"));
    let goes_on = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "._-~}*/".contains(c));
    let is_bad = |line: &str| {
        let mut hits = folders.iter().flat_map(|folder| line.match_indices(folder.as_str()));
        hits.any(|(at, _)| !goes_on(&line[..at]))
    };
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| is_bad(line))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn lock_files_name_no_download_address() {
    assert_none(tracked_files().into_iter().flat_map(|(path, text)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let findings = match name.as_str() {
            "Cargo.lock" => foreign_sources(&text),
            "package-lock.json" => resolved_addresses(&text),
            _ => Vec::new(),
        };
        findings
            .into_iter()
            .map(move |finding| format!("{}: {finding}", path.display()))
    }));
}

#[test]
fn a_download_address_in_a_lock_file_is_found() {
    assert_eq!(foreign_sources("source = \"git+https://x.example/y\"\n").len(), 1);
    assert_eq!(foreign_sources(&format!("{CRATES_IO}\n")).len(), 0);
    assert_eq!(
        resolved_addresses("  \"resolved\": \"https://x.example/y.tgz\",\n").len(),
        1
    );
}

/// How Cargo itself names the default registry; a mirror or a Git address would pin one machine's set-up.
const CRATES_IO: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

fn foreign_sources(lock: &str) -> Vec<String> {
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    sources.filter(|line| *line != CRATES_IO).map(str::to_owned).collect()
}

fn resolved_addresses(lock: &str) -> Vec<String> {
    let lines = lock.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with("\"resolved\"") && line.contains("://"))
        .map(str::to_owned)
        .collect()
}

fn assert_none(findings: impl IntoIterator<Item = String>) {
    let findings: Vec<_> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// `crates/*/Cargo.toml`, by path below the workspace.
fn manifests() -> Vec<(PathBuf, String)> {
    let root = workspace_root();
    let crates = fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let manifests = crates
        .map(|folder| folder.join("Cargo.toml"))
        .filter(|file| file.is_file());
    manifests.map(|file| read_below(&root, &file)).collect()
}

/// Every Rust file below `crates/*/src`.
fn sources() -> Vec<(PathBuf, String)> {
    let root = workspace_root();
    let mut folders: Vec<_> = fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(read_below(&root, &path));
            }
        }
    }
    found
}

fn read_below(root: &Path, file: &Path) -> (PathBuf, String) {
    let below = file.strip_prefix(root).unwrap().to_path_buf();
    (below, fs::read_to_string(file).unwrap())
}

/// Text files that Git knows. Without Git (an unpacked archive) there is nothing to ask.
fn tracked_files() -> Vec<(PathBuf, String)> {
    let root = workspace_root();
    let listing = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output();
    let Some(listing) = listing.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: this is no Git work tree");
        return Vec::new();
    };
    let names = String::from_utf8(listing.stdout).unwrap();
    let names = names.split('\0').filter(|name| !name.is_empty());
    // A file that is no UTF-8 is no text; one that is missing is about to be removed.
    names
        .filter_map(|name| Some((PathBuf::from(name), fs::read_to_string(root.join(name)).ok()?)))
        .collect()
}

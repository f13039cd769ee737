//! The documentation: its links lead somewhere, its table of contents is whole, and its commands do what it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ropewalk_testkit::captures::workspace_root;

use crate::store::TestStore;
use crate::{stderr, stdout};

/// Every document that people read, below the root of the workspace.
fn documents() -> Vec<PathBuf> {
    let root = workspace_root();
    let in_folder = |folder: PathBuf| {
        let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<PathBuf> = [root.clone(), root.join("docs"), root.join("docs/decisions")]
        .into_iter()
        .flat_map(in_folder)
        .collect();
    all.sort();
    all
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Where links lead: `[words](target)`, outside of code.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut without_code = String::new();
    for (at, piece) in prose.split('`').enumerate() {
        without_code.push_str(if at % 2 == 0 { piece } else { "code" });
    }
    let targets = without_code.split("](").skip(1);
    targets
        .filter_map(|rest| Some(rest.split_once(')')?.0.split_whitespace().next()?.to_owned()))
        .collect()
}

/// The names that headings have in links, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link
                .split_once('#')
                .map_or((&*link, None), |(path, anchor)| (path, Some(anchor)));
            let target = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            let leads = target.exists()
                && anchor
                    .is_none_or(|anchor| anchors(&fs::read_to_string(&target).unwrap_or_default()).contains(anchor));
            if !leads {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_table_of_contents_has_every_page() {
    let docs = workspace_root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|page| docs.join(page)).collect();
    let pages = documents()
        .into_iter()
        .filter(|path| path.starts_with(&docs) && !path.ends_with("SUMMARY.md"));
    let missing: Vec<PathBuf> = pages.filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "not in SUMMARY.md: {missing:?}");
}

/// A book has the pages of its table of contents and nothing else; what lies outside of it is named, not linked.
#[test]
fn no_link_leads_out_of_the_book() {
    let docs = workspace_root().join("docs");
    let mut out = Vec::new();
    for document in documents().into_iter().filter(|path| path.starts_with(&docs)) {
        for link in links(&fs::read_to_string(&document).unwrap()) {
            let path = link.split('#').next().unwrap_or_default();
            let is_page = path.is_empty() || (path.ends_with(".md") && !leaves(&document, path, &docs));
            if !link.contains("://") && !is_page {
                out.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(out.is_empty(), "{out:#?}");
}

fn leaves(document: &Path, link: &str, docs: &Path) -> bool {
    let target = document.parent().unwrap().join(link).canonicalize();
    !target.is_ok_and(|target| target.starts_with(docs.canonicalize().unwrap()))
}

/// The commands of a document's `console` blocks, each with the exit code that it says (`# exit 1`), else 0.
fn commands(text: &str) -> Vec<(String, i32)> {
    let mut is_console = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            let (command, code) = command.split_once("# exit ").unwrap_or((command, "0"));
            commands.push((command.trim().to_owned(), code.trim().parse().unwrap()));
        }
    }
    commands
}

/// The conversation that documents use as an example. Its name has the moment in it at which it was recorded.
const EXAMPLE: &str = "leap_days_5847";

#[test]
fn every_command_in_the_documentation_works() {
    let store = TestStore::new();
    store.ok(&["demo", "--pace", "1"]);
    let conversations = store.json(&["log"]);
    let names = conversations.iter().filter_map(|row| row["friendly_id"].as_str());
    let example = names.into_iter().find(|name| name.starts_with("leap_days_")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_ropewalk")).parent().unwrap().to_owned();
    let home = store.folder().join("home");
    let work = store.folder().join("work");
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&work).unwrap();
    let mut run = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let (mut of_tour, mut tour) = (EXAMPLE.to_owned(), None);
        for (command, code) in commands(&text) {
            // A tour in a folder of its own has other names.
            let is_of_tour = command.contains("--data ./tour");
            let name = if is_of_tour { &of_tour } else { example };
            let output = Command::new("sh")
                .args(["-c", &command.replace(EXAMPLE, name)])
                .current_dir(&work)
                .env_clear()
                .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
                .env("HOME", &home)
                .env("ROPEWALK_DATA", store.data())
                .output()
                .unwrap();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{}: {command}\n{}{}",
                document.display(),
                stdout(&output),
                stderr(&output)
            );
            run += 1;
            if is_of_tour && tour.is_none() {
                let listed = crate::ropewalk(&["--data", work.join("tour").to_str().unwrap(), "log", "--json"]);
                let name = stdout(&listed);
                let name = name.split('"').find(|word| word.starts_with("leap_days_"));
                of_tour = name.unwrap().to_owned();
                tour = Some(());
            }
        }
    }
    assert!(run > 40, "{run} commands were run");
}

#[test]
fn every_piece_of_configuration_in_the_documentation_can_be_read() {
    let store = TestStore::new();
    let mut read = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            let file = store.file("piece.toml", block);
            let output = crate::ropewalk(&["--config", file.to_str().unwrap(), "--data", "/nowhere", "config"]);
            assert!(
                output.status.success(),
                "{}: {block}\n{}",
                document.display(),
                stderr(&output)
            );
            read += 1;
        }
    }
    assert!(read > 5, "{read} pieces were read");
}

//! `config`, `completions`, `man`, and what every verb says about itself.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use ropewalk_testkit::captures::workspace_root;
use serde_json::Value;

use crate::store::TestStore;
use crate::{ropewalk, stderr, stdout};

/// The verbs, as the program lists them.
pub(crate) fn verbs() -> Vec<String> {
    let help = stdout(&ropewalk(&["--help"]));
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned()));
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_verb_has_examples() {
    let verbs = verbs();
    assert!(verbs.len() > 25, "{verbs:?}");
    for verb in verbs {
        let help = stdout(&ropewalk(&[&verb, "--help"]));
        assert!(help.contains("Examples:\n  "), "{verb}");
    }
}

#[test]
fn every_shell_gets_a_script_that_knows_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ropewalk(&["completions", shell]);
        assert!(output.status.success(), "{}", stderr(&output));
        let script = stdout(&output);
        for verb in verbs() {
            assert!(script.contains(&verb), "{shell}: {verb}");
        }
    }
    assert_eq!(ropewalk(&["completions", "cmd"]).status.code(), Some(2));
}

#[test]
fn bash_can_read_its_script() {
    let store = TestStore::new();
    let script = store.file("ropewalk.bash", &stdout(&ropewalk(&["completions", "bash"])));
    let asked =
        "COMP_WORDS=(ropewalk lo); COMP_CWORD=1; _ropewalk ropewalk lo ropewalk; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-c", &format!("source {}; {asked}", script.display())])
        .output()
        .unwrap();
    assert_eq!(stdout(&output).trim(), "log", "{}", stderr(&output));
}

#[test]
fn there_is_a_page_for_every_verb() {
    let page = stdout(&ropewalk(&["man"]));
    assert!(page.contains(".TH ropewalk 1"), "{page}");
    let store = TestStore::new();
    let folder = store.folder().join("man1");
    let output = ropewalk(&["man", "--dir", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    for verb in verbs() {
        let page = std::fs::read_to_string(folder.join(format!("ropewalk-{verb}.1"))).unwrap();
        assert!(page.contains(&format!("ropewalk {verb}").replace('-', "\\-")), "{verb}");
        assert!(page.contains("Examples:"), "{verb}");
    }
    for page in ["ropewalk.1", "ropewalk-store-distribute.1"] {
        assert!(folder.join(page).exists(), "{page}");
    }
}

/// Runs `config` in a home of its own.
fn config(store: &TestStore, variables: &[(&str, &str)], arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .arg("config")
        .args(arguments)
        .env_clear()
        .env("HOME", store.folder())
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn a_commented_file_is_written_once_and_changes_nothing() {
    let store = TestStore::new();
    let before = stdout(&config(&store, &[], &["--json"]));
    let output = config(&store, &[], &["--init"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let path = store.folder().join(".config/ropewalk/config.toml");
    assert_eq!(stdout(&output), format!("wrote {}\n", path.display()));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(stdout(&config(&store, &[], &["--json"])), before);
    std::fs::write(&path, "owner = 'mine'").unwrap();
    let again = config(&store, &[], &["--init"]);
    assert_eq!(again.status.code(), Some(3));
    assert!(stderr(&again).contains("left as it is"), "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "owner = 'mine'");
}

#[test]
fn every_value_is_shown_with_who_says_so_and_no_secret() {
    let store = TestStore::new();
    let file = store.file(
        "c.toml",
        "owner = 'ann'\n\n[limits]\nthreads = 3\n[owners.tokens]\nhunter2-hunter2 = 'ann'\n\
         [upstreams.gate]\nurl = 'https://me:hunter2@gate.example/api'\n[otel]\nendpoint = 'http://c:4318'\n",
    );
    let file = file.to_str().unwrap();
    let variables = [
        ("ROPEWALK_CONFIG", file),
        ("ROPEWALK_STORE", "postgres://me:hunter2@db/d"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
    ];
    let output = config(&store, &variables, &["--data", "/there", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("hunter2"), "{}", stdout(&output));
    let lines: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |key: &str| {
        let setting = lines.iter().find(|line| line["key"] == key);
        let setting = setting.unwrap_or_else(|| panic!("{key} in {lines:#?}"));
        (setting["value"].clone(), setting["origin"].clone())
    };
    let in_file = |line: u64| serde_json::json!({"kind": "file", "file": file, "line": line});
    assert_eq!(
        of("data"),
        (
            "\"/there\"".into(),
            serde_json::json!({"kind": "flag", "flag": "--data"})
        )
    );
    let variable = serde_json::json!({"kind": "environment", "variable": "ROPEWALK_STORE"});
    assert_eq!(of("store"), ("\"postgres://me:…@db/d\"".into(), variable));
    assert_eq!(of("owner"), ("\"ann\"".into(), in_file(1)));
    assert_eq!(of("limits.threads"), ("3".into(), in_file(4)));
    assert_eq!(of("owners.tokens.(token 1)").1, in_file(6));
    assert_eq!(of("upstreams.gate.url").0, "\"https://me:…@gate.example/api\"");
    assert_eq!(of("otel.timeout_s").0, "1.5");
    assert_eq!(of("otel.timeout_s").1["variable"], "OTEL_EXPORTER_OTLP_TIMEOUT");
    assert_eq!(
        of("limits.connections"),
        ("8192".into(), serde_json::json!({"kind": "default"}))
    );
    assert!(lines.iter().all(|line| line["v"] == 1));

    let some = stdout(&config(&store, &variables, &["--show", "limits.h"]));
    assert_eq!(
        some,
        "limits.header_bytes  65536  default\nlimits.header_s      30     default\n"
    );
    assert_eq!(config(&store, &variables, &["nothing.like.it"]).status.code(), Some(1));
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_line() {
    let store = TestStore::new();
    let file = store.file("c.toml", "owner = 'ann'\n[limits]\nthreds = 3\n");
    let output = config(&store, &[("ROPEWALK_CONFIG", file.to_str().unwrap())], &[]);
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.contains("c.toml:3: unknown key `limits.threds`"), "{said}");
    assert!(said.contains("did you mean `limits.threads`?"), "{said}");
}

/// `docs/cli.md`, from what the program says of itself.
fn reference() -> String {
    let own = "Options of every command:";
    let help = stdout(&ropewalk(&["--help"]));
    let mut text = format!(
        "# Commands\n\nWhat `ropewalk VERB --help` says. Made by a test: `UPDATE=1 cargo test -p ropewalk --test it reference` \
         writes it anew.\n\n```text\n{}\n```\n",
        help.trim_end()
    );
    for verb in verbs() {
        let help = stdout(&ropewalk(&[&verb, "--help"]));
        // Said once is enough.
        let (before, behind) = help.split_once(own).unwrap_or((&help, ""));
        let examples = behind.find("Examples:").map_or("", |at| &behind[at..]);
        text.push_str(&format!("\n## {verb}\n\n```text\n{}\n", before.trim_end()));
        if !examples.is_empty() {
            text.push_str(&format!("\n{}\n", examples.trim_end()));
        }
        text.push_str("```\n");
    }
    text
}

#[test]
fn the_reference_is_current() {
    let path = workspace_root().join("docs/cli.md");
    let now = reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == now,
        "docs/cli.md is not what the program says: UPDATE=1 cargo test -p ropewalk --test it reference"
    );
}

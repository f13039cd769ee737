//! Where settings come from, what is said when they are wrong, and what a store that is not there looks like.

use std::process::{Command, Output};

use serde_json::Value;

use crate::store::{TestStore, jsonl, talk};
use crate::{ropewalk, stderr, stdout};

fn with_environment(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn flags_win_over_the_environment_and_it_over_the_file() {
    let store = TestStore::with(&talk());
    let data = store.data();
    let data = data.to_str().unwrap();
    let config = store.file("config.toml", "data = '/nowhere/at/all'\nowner = 'nobody'\n");
    let config = config.to_str().unwrap();

    let from_file = with_environment(&[("ROPEWALK_CONFIG", config)], &["log"]);
    assert!(stderr(&from_file).contains("nothing recorded yet in /nowhere/at/all"));

    let variables = [("ROPEWALK_CONFIG", config), ("ROPEWALK_DATA", data)];
    let from_environment = with_environment(&variables, &["log"]);
    assert_eq!(from_environment.status.code(), Some(1));
    assert!(
        stderr(&from_environment).contains("owner `nobody`"),
        "{}",
        stderr(&from_environment)
    );

    let from_flag = with_environment(&variables, &["--owner", "local", "log", "--json"]);
    assert_eq!(stdout(&from_flag).lines().count(), 2, "{}", stderr(&from_flag));

    let elsewhere = with_environment(&variables, &["--data", "/nowhere/else", "--owner", "local", "log"]);
    assert!(stderr(&elsewhere).contains("/nowhere/else"));
}

#[test]
fn the_usual_folders_are_those_of_xdg() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let output = with_environment(&[("HOME", home)], &["log"]);
    assert!(stderr(&output).contains(&format!("{home}/.local/share/ropewalk")));
    let output = with_environment(&[("HOME", home), ("XDG_DATA_HOME", "/x/data")], &["log"]);
    assert!(stderr(&output).contains("/x/data/ropewalk"));
    assert_eq!(ropewalk(&["log"]).status.code(), Some(3), "no home, no folder");
}

#[test]
fn a_bad_configuration_is_told_with_a_suggestion() {
    let store = TestStore::new();
    for (text, hint) in [
        ("stroe = 'x'", "did you mean `store`?"),
        ("[identity]\nclaim = true", "did you mean `identity.claims`?"),
        ("owner = ", "TOML"),
    ] {
        let file = store.file("bad.toml", text);
        let output = store.run(&["--json", "--config", file.to_str().unwrap(), "log"]);
        assert_eq!(output.status.code(), Some(3));
        let error: Value = serde_json::from_str(&stderr(&output)).unwrap();
        assert_eq!(error["error"]["kind"], "configuration");
        assert!(error["error"]["hint"].as_str().unwrap().contains(hint), "{error}");
    }
    assert_eq!(store.run(&["--config", "/nowhere.toml", "log"]).status.code(), Some(3));
    assert_eq!(store.run(&["--store", "mysql://x", "log"]).status.code(), Some(3));
}

#[test]
fn an_unreadable_argument_is_a_usage_error() {
    let output = ropewalk(&["log", "--nonsense", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let error: Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["kind"]),
        (&2.into(), &"usage".into())
    );
    assert_eq!(ropewalk(&["log", "--nonsense"]).status.code(), Some(2));
}

#[test]
fn reading_where_nothing_was_recorded_makes_nothing() {
    let store = TestStore::new();
    for verb in ["log", "stats", "fsck", "tree", "export", "rebuild"] {
        let output = store.run(&[verb]);
        assert_eq!(
            (output.status.code(), stdout(&output)),
            (Some(0), String::new()),
            "{verb}"
        );
        assert!(
            stderr(&output).contains("nothing recorded yet"),
            "{verb}: {}",
            stderr(&output)
        );
    }
    assert_eq!(store.run(&["show", "abcd"]).status.code(), Some(1));
    assert!(!store.data().exists());
}

#[test]
fn prices_of_ones_own_come_before_those_that_are_built_in() {
    let store = TestStore::new();
    let config = store.file(
        "prices.toml",
        "[[prices.overrides]]\nmodel = 'claude-*'\nrates = { input = 1_000_000.0, output = 0.0 }\n",
    );
    let file = store.file("traffic.exchanges.jsonl", &jsonl(&talk()[..1]));
    let file = file.to_str().unwrap();
    let config = config.to_str().unwrap();
    store.ok(&["--config", config, "import", file]);
    assert_eq!(
        store.json(&["log", "--exchanges"])[0]["cost_usd"],
        10.0,
        "a dollar a token"
    );
    store.ok(&["rebuild", "--projections"]);
    let dear = store.json(&["log", "--exchanges"])[0]["cost_usd"].as_f64().unwrap();
    assert!(
        (dear - 10.0).abs() < f64::EPSILON,
        "what was recorded keeps its cost while its version is the newest"
    );
    let bad = store.file(
        "bad.toml",
        "[[prices.overrides]]\nmodel = 'x'\nrates = { input = -1.0, output = 0.0 }\n",
    );
    let refused = store.run(&["--config", bad.to_str().unwrap(), "log"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(stderr(&refused).contains("is not a price"), "{}", stderr(&refused));
}

//! Errors: what happened, what to do, and the exit code that scripts rely on; the same as JSON. And what a time in the past works on.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Sqlite;
use ropewalk_store::sqlite::Options;
use ropewalk_wire::exchange::ExchangeLine;
use serde_json::Value;

use crate::mcp::told;
use crate::store::{TestStore, talk, turn};
use crate::{stderr, stdout};

/// Command lines that fail: the exit code, a piece of the error, a piece of the hint.
const FAILING: [(&[&str], i32, &str, &str); 22] = [
    (&["lgo"], 2, "unrecognized subcommand 'lgo'", "did you mean `log`?"),
    (
        &["log", "--grahp"],
        2,
        "unexpected argument '--grahp'",
        "did you mean `--graph`?",
    ),
    (
        &["stats", "--by", "modl"],
        2,
        "invalid value 'modl'",
        "did you mean `model`?",
    ),
    (&["show"], 2, "<REF>", "--help"),
    (&["log", "--since", "soon"], 2, "`soon` is no time", "2h"),
    (&["log", "--hash", "xyz"], 2, "no beginning of a hash", "hex"),
    (&["log", "--hashes"], 2, "hashes are those of exchanges", "--exchanges"),
    (&["retain"], 2, "what is to be dropped", "--older-than"),
    (&["forget", "talk-1"], 2, "cannot be undone", "--yes"),
    (&["title", "talk-1", " "], 2, "has to say something", "title REF"),
    (
        &["--as-of", "1h", "forget", "talk-1"],
        2,
        "`--as-of`",
        "log, show, tree",
    ),
    (&["show", "nothing"], 1, "nothing is named `nothing`", "`ropewalk log`"),
    (&["show", "talk-2~9"], 1, "goes back 9 turns", "--graph"),
    (&["search", "zebra"], 1, "nobody said that", "fewer words"),
    (&["spread", "zebra"], 1, "nobody", ""),
    (&["resolve", "@conversation_none_message_1"], 1, "", ""),
    (
        &["hash", "/nowhere.json"],
        1,
        "cannot read /nowhere.json",
        "standard input",
    ),
    (&["import", "/nowhere"], 1, "/nowhere", ""),
    (&["--owner", "nobody", "log"], 1, "owner `nobody`", "`ropewalk stats`"),
    (
        &["--config", "/nowhere.toml", "log"],
        3,
        "cannot read /nowhere.toml",
        "config --init",
    ),
    (&["--store", "mysql://x", "log"], 3, "of no kind we know", "postgres://"),
    (
        &[
            "replay",
            "talk-1",
            "--model",
            "m",
            "--upstream",
            "anthropic=http://127.0.0.1:9",
        ],
        4,
        "",
        "",
    ),
];

#[test]
fn an_error_says_what_happened_and_what_to_do() {
    let store = TestStore::with(&talk());
    for (arguments, code, error, hint) in FAILING {
        let failed = store.run(arguments);
        let said = stderr(&failed);
        assert_eq!(failed.status.code(), Some(code), "{arguments:?}: {said}");
        let line = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
        let (told, advice) = (line("error: "), line("hint: "));
        assert!(told.is_some_and(|told| told.contains(error)), "{arguments:?}: {said}");
        assert!(
            advice.is_some_and(|advice| advice.contains(hint)),
            "{arguments:?}: {said}"
        );

        let mut asked = vec!["--json"];
        asked.extend(arguments);
        let failed = store.run(&asked);
        assert_eq!(failed.status.code(), Some(code), "{asked:?}");
        let said = stderr(&failed);
        let problem: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let problem = &problem["error"];
        assert_eq!(problem["code"], code, "{asked:?}: {said}");
        assert!(
            problem["message"].as_str().unwrap().contains(error),
            "{asked:?}: {said}"
        );
        assert!(problem["hint"].as_str().unwrap().contains(hint), "{asked:?}: {said}");
        let kinds = ["", "not_found", "usage", "configuration", "upstream", "internal"];
        assert_eq!(problem["kind"], kinds[code as usize], "{asked:?}");
    }
}

#[test]
fn a_damaged_store_is_an_internal_error() {
    let store = TestStore::with(&talk());
    std::fs::write(
        store.data().join("ropewalk.db"),
        "this is no database at all, whatever its name says",
    )
    .unwrap();
    let failed = store.run(&["log"]);
    assert_eq!(failed.status.code(), Some(5), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("\nhint: "), "{}", stderr(&failed));
}

/// As a server leaves it that was killed before it had indexed what it recorded.
#[tokio::test]
async fn what_cannot_be_found_yet_is_said() {
    let store = TestStore::with(&talk());
    assert_eq!(stderr(&store.run(&["search", "walk"])), "");
    let line = turn("late", 50, &["where is the zebra", "in the zoo"]).to_string();
    let raw = RawExchange::try_from(ExchangeLine::parse(line.as_bytes()).unwrap()).unwrap();
    let sqlite = Sqlite::open(&store.data(), &Options::default()).unwrap();
    let mut recorder = Recorder::new(&sqlite, "local", &BundledPrices).await.unwrap();
    recorder.record(&[raw]).await.unwrap();
    drop(recorder);
    drop(sqlite);
    for verb in ["search", "spread"] {
        let said = stderr(&store.run(&[verb, "where is the zebra"]));
        assert!(said.contains("2 texts are not searchable yet"), "{verb}: {said}");
    }
    let found = told(&store, "search", &serde_json::json!({"query": "zebra"}));
    assert_eq!(found, r#"{"hits":[],"not_searchable_yet":2,"next_cursor":null}"#);
}

#[test]
fn every_verb_that_shows_something_shows_what_was_known_then() {
    let store = TestStore::with(&talk());
    let request = store.file("request.json", &talk()[1]["request"]["body"].to_string());
    let friendly = store.json(&["log"])[1]["friendly_id"].as_str().unwrap().to_owned();
    let reference = format!("@conversation_{friendly}_message_3");
    // Between the first turn and the second.
    let then = "2026-03-01T10:00:05Z";
    let request = request.to_str().unwrap();
    for (arguments, now, before) in [
        (&["log", "--exchanges"][..], 4, 1),
        (&["log"], 2, 1),
        (&["tree"], 2, 1),
        (&["search", "walk"], 2, 1),
    ] {
        assert_eq!(store.json(arguments).len(), now, "{arguments:?}");
        let mut asked = vec!["--as-of", then];
        asked.extend(arguments);
        assert_eq!(store.json(&asked).len(), before, "{arguments:?}");
    }
    for arguments in [&["show", "talk-2"][..], &["resolve", &reference], &["match", request]] {
        store.ok(arguments);
        let mut asked = vec!["--as-of", then];
        asked.extend(arguments);
        let early = store.run(&asked);
        assert_eq!(early.status.code(), Some(1), "{arguments:?}: {}", stdout(&early));
    }
    let sums =
        |as_of: &str| store.json(&["--as-of", as_of, "stats"])[0]["models"]["claude-sonnet-4-5"]["exchanges"].clone();
    assert_eq!((sums(then), sums("2026-03-02")), (1.into(), 4.into()));
    let rebuilt = &store.json(&["--as-of", then, "rebuild"])[0];
    assert_eq!(rebuilt["linked"], 1, "{rebuilt}");
}

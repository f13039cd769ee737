//! `demo`: what a newcomer sees is what was scripted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::store::TestStore;
use crate::{stderr, stdout};

const QUICK: [&str; 3] = ["demo", "--pace", "1"];

fn count_by<'r>(rows: &[&'r Value], of: impl Fn(&'r Value) -> &'r Value) -> BTreeMap<&'r str, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(of(row).as_str().unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn shows_everything_as_it_was_scripted() {
    let store = TestStore::new();
    let said = store.json(&QUICK);
    let conversations = store.json(&["log"]);
    let exchanges = store.json(&["log", "--exchanges"]);
    assert_eq!(said[0]["exchanges"], exchanges.len());
    assert_eq!(conversations.len(), 6);

    let of = |conversation: &Value| -> Vec<&Value> {
        let is_in = |row: &&Value| row["conversation_id"] == conversation["conversation_id"];
        exchanges.iter().filter(is_in).collect()
    };
    let claude = of(&conversations[5]);
    assert_eq!(
        count_by(&claude, |row| &row["branch_kind"]),
        [
            ("main", 17),
            ("edit", 1),
            ("regeneration", 1),
            ("compact", 1),
            ("subtask", 8)
        ]
        .into()
    );
    assert_eq!(
        count_by(&claude, |row| &row["kind"]),
        [("turn", 25), ("auxiliary", 1), ("retry", 1), ("compaction", 1)].into()
    );
    assert_eq!(
        count_by(&claude, |row| &row["status"]),
        [("complete", 26), ("error", 1), ("client_cancelled", 1)].into()
    );
    assert_eq!(
        count_by(&claude, |row| &row["link"]["method"]),
        [
            ("new", 1),
            ("session", 1),
            ("prefix", 19),
            ("retry", 1),
            ("header", 4),
            ("partial", 1),
            ("summary", 1)
        ]
        .into()
    );
    for (conversation, provider, turns) in [(&conversations[4], "openai", 3), (&conversations[3], "openai", 2)] {
        let rows = of(conversation);
        assert_eq!(count_by(&rows, |row| &row["provider"]), [(provider, turns)].into());
        assert_eq!(
            count_by(&rows, |row| &row["link"]["method"]),
            [("new", 1), ("prefix", turns - 1)].into()
        );
    }
}

#[test]
fn a_program_quotes_a_conversation_and_another_is_answered_from_the_store() {
    let store = TestStore::new();
    let said = store.json(&QUICK);
    let command = |verb: &str| {
        let commands = said[0]["commands"].as_array().unwrap().iter();
        let mut words = commands.filter_map(|command| {
            let (_, words) = command.as_str().unwrap().split_once(verb)?;
            Some(words.split(' ').next().unwrap().to_owned())
        });
        words.next_back().unwrap()
    };
    let (reference, quoting) = (command(" resolve "), command(" show "));
    let resolved = store.ok(&["resolve", &reference]);
    assert!(resolved.contains("and then the commit"), "{resolved}");
    let raw = |half: &str| store.ok(&["show", &quoting, "--raw", half]);
    let said: Value = serde_json::from_str(&raw("request")).unwrap();
    let sent: Value = serde_json::from_str(&raw("sent")).unwrap();
    let text = |body: &Value| body["messages"][1]["content"].as_str().unwrap().to_owned();
    assert_eq!(text(&sent), format!("{}\n\n{}", text(&said), resolved.trim_end()));

    let exchanges = store.json(&["log", "--exchanges"]);
    let reuse: Vec<&str> = exchanges.iter().map(|row| row["reuse"].as_str().unwrap()).collect();
    let count = |kind: &str| reuse.iter().filter(|found| **found == kind).count();
    assert_eq!((count("hit"), count("stored")), (1, 1));
    assert_eq!(exchanges.last().unwrap()["reuse"], "hit");
    let graph = store.ok(&["log", "--graph"]);
    assert_eq!(graph.matches("reused").count(), 1, "{graph}");
    assert_eq!(graph.matches("brings a reference").count(), 1, "{graph}");
    let sums = store.ok(&["stats"]);
    assert!(sums.contains("1 answer reused of 2"), "{sums}");
}

#[test]
fn agents_hang_under_those_that_started_them() {
    let store = TestStore::new();
    store.json(&QUICK);
    let agents = store.json(&["tree"]);
    let parents = agents.iter().filter_map(|agent| {
        let parent = agent["parent_id"].as_str()?;
        Some((agent["id"].as_str().unwrap(), parent))
    });
    let main = "main";
    assert_eq!(
        parents.collect::<BTreeSet<_>>(),
        [
            ("a1c0de0000000001", main),
            ("a1c0de0000000002", main),
            ("a1c0de0000000003", "a1c0de0000000001"),
            ("a1c0de0000000004", main),
        ]
        .into()
    );
}

#[test]
fn another_system_prompt_is_the_same_conversation() {
    let store = TestStore::new();
    store.json(&QUICK);
    let exchanges = store.json(&["log", "--exchanges"]);
    let main = exchanges
        .iter()
        .filter(|row| row["branch_kind"] == "main" && row["kind"] == "turn" && row["model"] == "claude-opus-4-5");
    let prompts: BTreeSet<&str> = main.map(|row| row["system_hash"].as_str().unwrap()).collect();
    assert_eq!(prompts.len(), 2);
}

#[test]
fn prints_a_preview_and_commands_that_work() {
    let store = TestStore::new();
    let text = store.ok(&QUICK);
    for word in [
        "log --graph",
        "├─╯",
        "compaction",
        "client_cancelled",
        "Explore",
        "by header",
    ] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let commands: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("ropewalk --data "))
        .map(|rest| {
            let command = rest.split("  ").next().unwrap();
            command.split(' ').skip(1).collect()
        })
        .collect();
    assert_eq!(commands.len(), 8);
    for command in commands {
        assert!(!store.ok(&command).is_empty(), "{command:?}");
    }
}

#[test]
fn keeps_away_from_the_recordings_of_others() {
    let store = TestStore::new();
    store.ok(&QUICK);
    let again = store.run(&QUICK);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("has recordings already"));
    let database = TestStore::new().run(&["--store", "postgres://nobody@127.0.0.1:1/none", "demo"]);
    assert_eq!((database.status.code(), stdout(&database)), (Some(2), String::new()));
}

#[test]
fn every_agent_hangs_below_the_call_that_started_it() {
    let store = TestStore::new();
    store.json(&QUICK);
    let conversations = store.json(&["log"]);
    let id = conversations[5]["conversation_id"].as_str().unwrap();
    let page = store.json(&["show", id, "--tree"]).remove(0);
    let messages = page["messages"].as_array().unwrap();
    let by_uuid: BTreeMap<&str, &Value> = messages
        .iter()
        .map(|message| (message["uuid"].as_str().unwrap(), message))
        .collect();
    let mut agents = 0;
    for call in messages.iter().filter(|message| message["type"] == "tool_use") {
        let block: Value = serde_json::from_str(call["content"].as_str().unwrap()).unwrap();
        if block["name"] != "Agent" {
            continue;
        }
        let of_agent = |message: &&Value| {
            let parent = message["parent_uuid"].as_str().and_then(|parent| by_uuid.get(parent));
            message["type"] == "user" && parent.is_some_and(|parent| parent["uuid"] == call["uuid"])
        };
        let first = messages.iter().find(of_agent).expect("the agent's first message");
        assert_eq!(first["content"], block["input"]["prompt"]);
        agents += 1;
    }
    assert_eq!(agents, 4);
}

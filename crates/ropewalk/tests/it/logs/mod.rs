//! `import` of clients' logs: the same trees as if the proxy had been there.

mod bad_input;
mod claude;
mod following;
mod shared;

use std::fs;

use ropewalk_testkit::postgres::PrivatePostgres;
use serde_json::{Value, json};

use crate::claude_log::call;
use crate::store::TestStore;
use claude::{Session, talk, talk_at};

fn count(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap()
}

fn exchanges(store: &TestStore) -> Vec<Value> {
    store.json(&["log", "--exchanges"])
}

fn total(rows: &[Value], tokens: &str) -> u64 {
    rows.iter().filter_map(|row| row["usage"][tokens].as_u64()).sum()
}

#[test]
fn an_answer_on_several_lines_is_one_exchange_and_counted_once() {
    let store = TestStore::new();
    let file = talk("s").save(&store.folder());
    let summary = store.import(&file);
    assert_eq!((count(&summary, "read"), count(&summary, "new")), (2, 2), "{summary}");
    let rows = exchanges(&store);
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["msg_s_1:req_s_1", "msg_s_2:req_s_2"]);
    // The last line has the last word.
    assert_eq!(total(&rows, "output_tokens"), 7 + 5);
    assert_eq!(rows[1]["parent_exchange_id"], rows[0]["id"]);
    let (session, project) = (&rows[0]["session"], store.ok(&["show", "msg_s_1:req_s_1"]));
    assert_eq!(session, "s");
    assert!(project.contains("How long is the rope"), "{project}");
    let request = store.ok(&["show", "msg_s_2:req_s_2", "--raw", "request"]);
    let request: Value = serde_json::from_str(&request).unwrap();
    assert_eq!(request["model"], "claude-sonnet-4-5");
    let roles: Vec<&str> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert!(store.ok(&["search", "quarter mile"]).contains("quarter"));
}

#[test]
fn results_of_parallel_calls_are_all_in_the_next_request() {
    let mut session = Session::new("s");
    session
        .user("Compare both.")
        .answer("1", &[call("t1", "Read", &json!({})), call("t2", "Read", &json!({}))]);
    session.behind(Some("s-2")).result("t1", "the first file");
    session.behind(Some("s-3")).result("t2", "the second file");
    session.says("2", "They are different.");
    let store = TestStore::new();
    store.import(&session.save(&store.folder()));
    let request = store.ok(&["show", "msg_2:req_2", "--raw", "request"]);
    assert!(
        request.contains("the first file") && request.contains("the second file"),
        "{request}"
    );
}

#[test]
fn a_fork_copies_lines_and_adds_no_call() {
    let original = talk("s");
    let mut fork = original.clone();
    fork.lines.iter_mut().for_each(|line| line["sessionId"] = json!("fork"));
    fork.id = "fork".to_owned();
    // A fork begins with a line of its own time.
    let opening = json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "fork", "timestamp": "2026-03-01T11:00:00Z"});
    fork.lines.insert(0, json!({"type": "attachment", "uuid": "f0", "parentUuid": null, "sessionId": "fork", "timestamp": "2026-03-01T11:00:00Z"}));
    fork.lines.insert(0, opening);
    let mut fork = fork.at_second(4_000 % 3_600);
    fork.user("And in the attic?").says("fork_3", "None.");
    let mut lists = Vec::new();
    for order in [[&original, &fork], [&fork, &original]] {
        let store = TestStore::new();
        for session in order {
            store.import(&session.save(&store.folder()));
        }
        let rows = exchanges(&store);
        assert_eq!(rows.len(), 3);
        let sessions: Vec<&str> = rows.iter().map(|row| row["session"].as_str().unwrap()).collect();
        assert_eq!(
            sessions,
            ["s", "s", "fork"],
            "the older file is the one that was copied"
        );
        assert_eq!(rows[2]["parent_exchange_id"], rows[1]["id"]);
        assert_eq!(rows[2]["conversation_id"], rows[0]["conversation_id"]);
        lists.push(rows);
    }
    assert_eq!(lists[0], lists[1]);
}

#[test]
fn subagents_hang_on_the_call_that_started_them() {
    let mut session = Session::new("s");
    let prompt = "Look into every corner of the cellar and report what lies there.";
    session.user("Ask somebody.").answer(
        "1",
        &[call(
            "t1",
            "Agent",
            &json!({"subagent_type": "scout", "prompt": prompt}),
        )],
    );
    let mut agent = session.agent("a1");
    agent.user(prompt).says("agent_1", "A rope lies there.");
    let mut session = session.at_second(10);
    session.result("t1", "A rope lies there.").says("2", "There is a rope.");
    let store = TestStore::new();
    let folder = store.folder();
    session.save(&folder);
    let path = agent.save(&folder);
    let meta = json!({"agentType": "scout", "description": "look", "toolUseId": "t1", "spawnDepth": 1});
    fs::write(path.with_extension("meta.json"), meta.to_string()).unwrap();
    store.import(&folder.join("-srv-rope"));
    let rows = exchanges(&store);
    let child = rows.iter().find(|row| row["id"] == "msg_agent_1:req_agent_1").unwrap();
    assert_eq!(
        (&child["branch_id"], &child["branch_kind"]),
        (&json!("subtask_1"), &json!("subtask"))
    );
    assert_eq!(child["parent_exchange_id"], "msg_1:req_1");
    assert!(
        rows.iter()
            .all(|row| row["conversation_id"] == rows[0]["conversation_id"])
    );
}

#[test]
fn old_logs_with_inline_sidechains_have_the_same_agents() {
    let prompt = "Look into every corner of the cellar and report what lies there.";
    let mut session = Session::new("s");
    session.user("Ask somebody.").answer(
        "1",
        &[call("t1", "Task", &json!({"subagent_type": "scout", "prompt": prompt}))],
    );
    let spawned = session.lines.last().unwrap()["uuid"].as_str().unwrap().to_owned();
    session.behind(None).user(prompt).says("agent_1", "A rope lies there.");
    for line in session.lines.iter_mut().skip(2) {
        line["isSidechain"] = json!(true);
    }
    session
        .behind(Some(&spawned))
        .result("t1", "A rope lies there.")
        .says("2", "There is a rope.");
    session.lines.insert(
        0,
        json!({"type": "summary", "summary": "Ropes in cellars", "leafUuid": "s-2"}),
    );
    let store = TestStore::new();
    store.import(&session.save(&store.folder()));
    let rows = exchanges(&store);
    let child = rows.iter().find(|row| row["id"] == "msg_agent_1:req_agent_1").unwrap();
    assert_eq!(
        (&child["branch_id"], &child["parent_exchange_id"]),
        (&json!("subtask_1"), &json!("msg_1:req_1"))
    );
    assert_eq!(rows.len(), 3);
}

#[test]
fn a_title_of_the_log_names_the_conversation_until_a_person_gives_another() {
    let leaf = talk("s").lines.last().unwrap()["uuid"].clone();
    let with = |lines: &[&Value]| {
        let store = TestStore::new();
        let mut session = talk("s");
        session.lines.extend(lines.iter().copied().cloned());
        store.import(&session.save(&store.folder()));
        store
    };
    let title = |store: &TestStore| store.json(&["log"])[0]["title"].clone();
    let summary = json!({"type": "summary", "summary": "Ropes and their walks", "leafUuid": leaf});
    let of_another = json!({"type": "summary", "summary": "Elsewhere", "leafUuid": "not-here"});
    assert_ne!(title(&with(&[&of_another])), "Elsewhere");
    assert_eq!(title(&with(&[&summary, &of_another])), "Ropes and their walks");
    let by_client = json!({"type": "ai-title", "aiTitle": "Walking ropes", "sessionId": "s"});
    assert_eq!(title(&with(&[&by_client, &summary])), "Walking ropes");
    let renamed = |name: &str| json!({"type": "custom-title", "customTitle": name, "sessionId": "s"});
    let store = with(&[&renamed("Mine"), &renamed("Mine, again"), &by_client]);
    assert_eq!(title(&store), "Mine, again");
    let id = store.json(&["log"])[0]["friendly_id"].as_str().unwrap().to_owned();
    store.ok(&["title", &id, "By hand"]);
    assert_eq!(title(&store), "By hand");
}

#[test]
fn a_regenerated_answer_is_a_branch() {
    let mut session = talk("s");
    let asked = session.lines[4]["uuid"].as_str().unwrap().to_owned();
    session.behind(Some(&asked)).says("again", "About four hundred metres.");
    let store = TestStore::new();
    store.import(&session.save(&store.folder()));
    let rows = exchanges(&store);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2]["branch_kind"], "regeneration", "{}", rows[2]);
}

#[test]
fn orphans_circles_and_late_parents_are_taken_as_they_are() {
    let mut session = talk("s");
    // The first record comes last.
    session.lines.rotate_left(1);
    let mut lost = Session::new("lost");
    lost.behind(Some("nowhere"))
        .user("Who am I?")
        .says("lost", "An orphan.");
    let mut round = Session::new("round");
    round.user("Where does it begin?").says("round", "Nowhere.");
    round.lines[0]["parentUuid"] = json!("round-2");
    let store = TestStore::new();
    for session in [&session, &lost, &round] {
        session.save(&store.folder());
    }
    let summary = store.import(&store.folder().join("-srv-rope"));
    assert_eq!(
        (count(&summary, "new"), count(&summary, "skipped")),
        (4, 0),
        "{summary}"
    );
    let in_order = TestStore::new();
    in_order.import(&talk("s").save(&in_order.folder()));
    let nodes = |store: &TestStore| -> Vec<Value> {
        let rows = exchanges(store);
        let rows = rows.iter().filter(|row| row["session"] == "s");
        rows.map(|row| json!([row["id"], row["input_node"], row["output_node"]]))
            .collect()
    };
    assert_eq!(nodes(&store), nodes(&in_order));
}

#[test]
fn a_failed_calls_notice_is_no_call_and_no_message() {
    let mut session = Session::new("s");
    session.user("Hello?");
    let notice = json!({"id": "x", "model": "<synthetic>", "role": "assistant", "content": [{"type": "text", "text": "API Error: 500"}]});
    session.record("assistant", &json!({"isApiErrorMessage": true, "message": notice}));
    session.says("1", "Hello.");
    let store = TestStore::new();
    let summary = store.import(&session.save(&store.folder()));
    assert_eq!(count(&summary, "new"), 1);
    let request = store.ok(&["show", "msg_1:req_1", "--raw", "request"]);
    assert!(!request.contains("API Error"), "{request}");
}

#[test]
fn both_stores_hold_the_same() {
    let server = PrivatePostgres::shared().unwrap();
    let url = server.fresh_database().unwrap();
    let folder = TestStore::new();
    talk("s").save(&folder.folder());
    talk_at("t", 100).save(&folder.folder());
    let projects = folder.folder().join("-srv-rope");
    folder.import(&projects);
    let projects = projects.to_str().unwrap();
    folder.ok(&["--store", &url, "import", projects]);
    folder.ok(&["--store", &url, "import", projects]);
    let list = ["log", "--exchanges", "--json"];
    let there = folder.ok(&[&["--store", &url], &list[..]].concat());
    assert_eq!(there, folder.ok(&list));
}

#[test]
fn secrets_in_a_log_are_redacted_before_they_are_kept() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let mut session = Session::new("s");
    session
        .user(&format!("my token is {secret}"))
        .says("1", &format!("{secret}? I will keep it."));
    let store = TestStore::new();
    store.import(&session.save(&store.folder()));
    let row = &exchanges(&store)[0];
    assert_eq!(row["redactions"], 2, "{row}");
    for half in ["request", "response"] {
        let body = store.ok(&["show", "msg_1:req_1", "--raw", half]);
        assert!(
            body.contains("[redacted:github-token:") && !body.contains(secret),
            "{body}"
        );
    }
}

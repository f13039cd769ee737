//! `show --tree`: seed 004's examples, its testing scenarios, and the damage that logs have.

use serde_json::{Value, json};

use crate::claude_log::{Log, call, imported, read, text, working};
use crate::store::{TestStore, talk};

fn messages(store: &TestStore, reference: &str) -> Vec<Value> {
    let mut pages = store.json(&["show", "--tree", reference]);
    assert_eq!(pages.len(), 1);
    let page = pages.remove(0);
    let messages = page["messages"].as_array().unwrap().clone();
    assert_eq!(page["total"], messages.len());
    assert_eq!(page["next"], Value::Null);
    messages
}

fn drawn(log: &Log) -> String {
    imported(log).ok(&["show", "--tree", log.session])
}

#[test]
fn example_1_simple_tool_use() {
    let mut log = Log::new("example-1");
    log.user("u1", None, "What's in README.md?");
    log.answer("a1", Some("u1"), "msg_1", &[text("I'll read that for you")]);
    log.answer("a2", Some("a1"), "msg_2", &[read("toolu_1", "README.md")]);
    log.result("r1", "a2", "toolu_1", "# Project Title...");
    log.user("u2", Some("r1"), "Can you summarize it?");
    log.answer("a3", Some("u2"), "msg_3", &[text("The README contains...")]);
    insta::assert_snapshot!(drawn(&log), @r##"
    User: "What's in README.md?"
    └── Assistant: "I'll read that for you"
        └── Assistant: [tool_use: Read README.md]
            ├── Tool Use: Read(README.md)
            │   └── Tool Result: "# Project Title..."
            └── User: "Can you summarize it?"
                └── Assistant: "The README contains..."
    "##);
}

#[test]
fn example_2_multiple_tool_uses() {
    let mut log = Log::new("example-2");
    log.user("u1", None, "Compare config.json and package.json");
    log.answer("a1", Some("u1"), "msg_1", &[text("I'll read both files")]);
    log.answer("a2", Some("a1"), "msg_2", &[read("toolu_1", "config.json")]);
    log.result("r1", "a2", "toolu_1", "{config content}");
    log.answer("a3", Some("r1"), "msg_3", &[read("toolu_2", "package.json")]);
    log.result("r2", "a3", "toolu_2", "{package content}");
    log.answer("a4", Some("r2"), "msg_4", &[text("Here's the comparison...")]);
    log.user("u2", Some("a4"), "Thanks!");
    log.answer("a5", Some("u2"), "msg_5", &[text("Any time.")]);
    insta::assert_snapshot!(drawn(&log), @r##"
    User: "Compare config.json and package.json"
    └── Assistant: "I'll read both files"
        └── Assistant: [tool_use: Read config.json]
            ├── Tool Use: Read(config.json)
            │   └── Tool Result: {config content}
            └── Assistant: [tool_use: Read package.json]
                ├── Tool Use: Read(package.json)
                │   └── Tool Result: {package content}
                └── Assistant: "Here's the comparison..."
                    └── User: "Thanks!"
                        └── Assistant: "Any time."
    "##);
}

#[test]
fn example_3_complex_tool_chain() {
    let mut log = Log::new("example-3");
    log.user("u1", None, "Update all test files to use the new API");
    log.answer("a1", Some("u1"), "msg_1", &[text("I'll update the test files")]);
    let edit = |id: &str, path: &str| {
        call(
            id,
            "Edit",
            &json!({"file_path": path, "old_string": "a", "new_string": "b"}),
        )
    };
    let steps = [
        (
            call("toolu_1", "Glob", &json!({"pattern": "*.test.js"})),
            "[\"test1.js\", \"test2.js\"]",
        ),
        (read("toolu_2", "test1.js"), "{content}"),
        (edit("toolu_3", "test1.js"), "Success"),
        (read("toolu_4", "test2.js"), "{content}"),
        (edit("toolu_5", "test2.js"), "Success"),
    ];
    let mut parent = "a1".to_owned();
    for (i, (block, result)) in steps.into_iter().enumerate() {
        let (answer, record) = (format!("a{}", i + 2), format!("r{}", i + 2));
        let id = block["id"].as_str().unwrap().to_owned();
        log.answer(&answer, Some(&parent), &format!("msg_{}", i + 2), &[block]);
        log.result(&record, &answer, &id, result);
        parent = record;
    }
    log.answer(
        "a7",
        Some(&parent),
        "msg_7",
        &[text("All test files have been updated")],
    );
    insta::assert_snapshot!(drawn(&log), @r##"
    User: "Update all test files to use the new API"
    └── Assistant: "I'll update the test files"
        └── Assistant: [tool_use: Glob *.test.js]
            ├── Tool Use: Glob(*.test.js)
            │   └── Tool Result: ["test1.js", "test2.js"]
            └── Assistant: [tool_use: Read test1.js]
                ├── Tool Use: Read(test1.js)
                │   └── Tool Result: {content}
                └── Assistant: [tool_use: Edit test1.js]
                    ├── Tool Use: Edit(test1.js)
                    │   └── Tool Result: "Success"
                    └── Assistant: [tool_use: Read test2.js]
                        ├── Tool Use: Read(test2.js)
                        │   └── Tool Result: {content}
                        └── Assistant: [tool_use: Edit test2.js]
                            ├── Tool Use: Edit(test2.js)
                            │   └── Tool Result: "Success"
                            └── Assistant: "All test files have been updated"
    "##);
}

/// The seed's record, with the lines around it that it leaves out.
fn example_4() -> Log {
    let mut log = Log::new("test-session-001");
    let line = |kind: &str, uuid: &str, parent: Value, second: u32, message: Value| {
        json!({
            "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "test-session-001",
            "timestamp": format!("2025-08-06T10:00:{second:02}Z"), "message": message,
            "model": "claude-opus-4-1-20250805", "isSidechain": false,
        })
    };
    let listing = "src/\nconfig.json\npackage.json\nREADME.md\ntests/";
    let content = json!([call("tool-001", "LS", &json!({"path": "/projects/demo"}))]);
    let result = json!([{"type": "tool_result", "tool_use_id": "tool-001", "content": listing}]);
    log.lines = vec![
        line(
            "user",
            "msg-2",
            Value::Null,
            5,
            json!({"role": "user", "content": "analyze project"}),
        ),
        line(
            "assistant",
            "msg-3",
            json!("msg-2"),
            8,
            json!({"role": "assistant", "content": content}),
        ),
        line(
            "user",
            "raw-result",
            json!("msg-3"),
            10,
            json!({"role": "user", "content": result}),
        ),
        line(
            "assistant",
            "msg-4",
            json!("raw-result"),
            12,
            json!({"role": "assistant", "content": [{"type": "text", "text": "A small site."}]}),
        ),
    ];
    log
}

#[test]
fn example_4_as_drawn() {
    let store = imported(&example_4());
    insta::assert_snapshot!(store.ok(&["show", "--tree", "--ids", "test-session-001"]), @r##"
    msg-2 (user: "analyze project")
    └── msg-3 (assistant: [tool_use: LS /projects/demo])
        ├── msg-3_tool_0 (tool_use: LS)
        │   └── msg-3_result_0 (tool_result: "src/ config.json package.json README.md tests/")
        └── msg-4 (assistant: "A small site.")
    "##);
}

#[test]
fn example_4_as_the_api_answers() {
    let store = imported(&example_4());
    let messages = messages(&store, "test-session-001");
    let told: Vec<Value> = messages
        .iter()
        .map(|message| {
            json!([
                message["uuid"],
                message["parent_uuid"],
                message["type"],
                message["is_sidechain"],
                message["content"],
                message["timestamp"]
            ])
        })
        .collect();
    let block = r#"{"id":"tool-001","input":{"path":"/projects/demo"},"name":"LS","type":"tool_use"}"#;
    let listing = "src/\nconfig.json\npackage.json\nREADME.md\ntests/";
    let at = |second: u32| format!("2025-08-06T10:00:{second:02}.000000Z");
    assert_eq!(
        told,
        [
            json!(["msg-2", null, "user", false, "analyze project", at(5)]),
            json!([
                "msg-3",
                "msg-2",
                "assistant",
                false,
                "📁 Listing directory: /projects/demo",
                at(8)
            ]),
            json!(["msg-3_tool_0", "msg-3", "tool_use", true, block, at(8)]),
            json!(["msg-3_result_0", "msg-3_tool_0", "tool_result", true, listing, at(10)]),
            json!(["msg-4", "msg-3", "assistant", false, "A small site.", at(12)]),
        ]
    );
    for message in &messages {
        assert_eq!(message["_id"], message["uuid"]);
        assert_eq!(message["message_uuid"], message["uuid"]);
        assert_eq!(message["session_id"], "test-session-001");
        assert_eq!(message["session_id_alias"], "test-session-001");
        assert_eq!(message["isSidechain"], message["is_sidechain"]);
        assert_eq!(message["created_at"], message["timestamp"]);
        for key in ["parent_uuid_alias", "cost_usd", "usage", "model", "message_data"] {
            assert!(message.get(key).is_some(), "{key}");
        }
    }
    assert_eq!(
        messages[4]["parent_uuid_alias"], "raw-result",
        "the record that was absorbed"
    );
}

#[test]
fn lines_of_one_answer_are_one_message() {
    let store = imported(&working());
    insta::assert_snapshot!(store.ok(&["show", "--tree", "--ids", "working"]), @r##"
    u1 (user: "Compare the two.")
    └── a1 (assistant: "I'll read both." [tool_use: Read config.json] [tool_use: Read package.json])
        ├── a2_tool_0 (tool_use: Read)
        │   └── a2_result_0 (tool_result: {"port": 1})
        ├── a3_tool_0 (tool_use: Read)
        │   └── a3_result_0 (tool_result: {"name": "x"})
        └── a4 (assistant: "They differ.")
            └── u2 (user: "Thanks!")
                └── a5 (assistant: "Any time.")
    "##);
    let messages = messages(&store, "working");
    assert_eq!(
        messages[1]["content"],
        "I'll read both.\n📄 Reading file: config.json\n📄 Reading file: package.json"
    );
    let tool = &messages[2];
    assert_eq!(
        tool["usage"], messages[1]["usage"],
        "a tool message shows its assistant's"
    );
    let counted = messages.iter().filter(|message| message["type"] == "assistant");
    let tokens: u64 = counted
        .map(|message| message["usage"]["input_tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(tokens, 30, "each answer once");
}

#[test]
fn a_talk_without_tools_has_none() {
    let mut log = Log::new("plain");
    log.user("u1", None, "Hello");
    log.answer("a1", Some("u1"), "msg_1", &[text("Hi.")]);
    let messages = messages(&imported(&log), "plain");
    let kinds: Vec<&str> = messages
        .iter()
        .map(|message| message["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["user", "assistant"]);
    assert!(messages.iter().all(|message| message["is_sidechain"] == false));
    assert!(
        messages
            .iter()
            .all(|message| message["branch"] == json!({"index": 1, "of": 1}))
    );
}

#[test]
fn regenerated_answers_are_branches_and_tools_are_not() {
    let mut log = Log::new("again");
    log.user("u1", None, "Read it.");
    log.answer("a1", Some("u1"), "msg_1", &[read("toolu_1", "a.txt")]);
    log.result("r1", "a1", "toolu_1", "A");
    log.answer("a2", Some("r1"), "msg_2", &[text("It says A.")]);
    log.answer("a3", Some("u1"), "msg_3", &[text("I would rather not.")]);
    log.user("u2", Some("a2"), "Thanks");
    log.answer("a4", Some("u2"), "msg_4", &[text("Welcome.")]);
    insta::assert_snapshot!(drawn(&log), @r##"
    User: "Read it."
    ├── Assistant: [tool_use: Read a.txt] (branch 1 of 2)
    │   ├── Tool Use: Read(a.txt)
    │   │   └── Tool Result: "A"
    │   └── Assistant: "It says A."
    │       └── User: "Thanks"
    │           └── Assistant: "Welcome."
    └── Assistant: "I would rather not." (branch 2 of 2)
    "##);
}

#[test]
fn subagents_hang_below_the_call_that_started_them() {
    let prompt = "Count the files in this folder and tell me.";
    let task = call(
        "toolu_9",
        "Task",
        &json!({"description": "count", "prompt": prompt, "subagent_type": "scout"}),
    );
    let mut log = Log::new("inline");
    log.user("u1", None, "How many?");
    log.answer("a1", Some("u1"), "msg_1", &[task]);
    // Older logs have the subagent's lines between the others.
    log.user("s1", None, prompt)["isSidechain"] = json!(true);
    log.answer(
        "s2",
        Some("s1"),
        "msg_2",
        &[call("toolu_10", "LS", &json!({"path": "."}))],
    )["isSidechain"] = json!(true);
    log.result("s3", "s2", "toolu_10", "a\nb")["isSidechain"] = json!(true);
    log.answer("s4", Some("s3"), "msg_3", &[text("Two.")])["isSidechain"] = json!(true);
    log.result("r1", "a1", "toolu_9", "Two.");
    log.answer("a2", Some("r1"), "msg_4", &[text("Two files.")]);
    insta::assert_snapshot!(drawn(&log), @r##"
    User: "How many?"
    └── Assistant: [tool_use: Task count]
        ├── Tool Use: Task(count)
        │   ├── User: "Count the files in this folder and tell me." (subagent)
        │   │   └── Assistant: [tool_use: LS .]
        │   │       ├── Tool Use: LS(.)
        │   │       │   └── Tool Result: "a b"
        │   │       └── Assistant: "Two."
        │   └── Tool Result: "Two."
        └── Assistant: "Two files."
    "##);
    let store = imported(&log);
    let messages = messages(&store, "inline");
    let beside: Vec<&str> = messages
        .iter()
        .filter(|message| message["is_sidechain"] == true)
        .map(|message| message["uuid"].as_str().unwrap())
        .collect();
    assert_eq!(
        beside,
        ["a1_tool_0", "s1", "s2", "s2_tool_0", "s2_result_0", "s4", "a1_result_0"]
    );
}

#[test]
fn five_hundred_messages_are_all_there_and_each_line_has_a_bound() {
    let mut log = Log::new("long");
    let mut parent: Option<String> = None;
    for turn in 0..300 {
        let (user, answer) = (format!("u{turn:04}"), format!("a{turn:04}"));
        log.user(&user, parent.as_deref(), &format!("Question {turn}"));
        log.answer(
            &answer,
            Some(&user),
            &format!("msg_{turn}"),
            &[text(&format!("Answer {turn}"))],
        );
        parent = Some(answer);
    }
    let store = imported(&log);
    let messages = messages(&store, "long");
    assert_eq!(messages.len(), 600);
    assert_eq!(messages[599]["content"], "Answer 299");
    assert_eq!(messages[598]["content"], "Question 299");
    for pair in messages.windows(2) {
        assert_eq!(pair[1]["parent_uuid"], pair[0]["uuid"]);
    }
    let drawing = store.ok(&["show", "--tree", "long"]);
    assert_eq!(drawing.lines().count(), 600);
    assert!(drawing.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn damage_is_shown_and_nothing_is_lost() {
    let mut log = Log::new("damaged");
    log.user("orphan", Some("gone"), "Where was I?");
    log.answer("a1", Some("orphan"), "msg_1", &[text("Here.")]);
    // A parent that comes later.
    log.answer("a2", Some("later"), "msg_2", &[text("Early.")]);
    log.user("later", Some("a1"), "I come late.");
    // A circle.
    log.user("c1", Some("c2"), "Round");
    log.answer("c2", Some("c1"), "msg_3", &[text("and round.")]);
    // The same record twice.
    log.user("later", Some("a1"), "I come late.");
    insta::assert_snapshot!(drawn(&log), @r##"
    User: "Where was I?" (orphan: its parent is not recorded)
    └── Assistant: "Here."
        └── User: "I come late."
            └── Assistant: "Early."
    User: "Round" (its parents go in a circle, cut here)
    └── Assistant: "and round."
    "##);
    let again = {
        let store = TestStore::new();
        log.lines.reverse();
        log.import(&store);
        store.ok(&["show", "--tree", "--ids", "damaged"])
    };
    assert_eq!(again.lines().count(), 6, "{again}");
}

#[test]
fn legacy_lines_without_flags_are_told_by_their_kind() {
    let mut log = working();
    for line in &mut log.lines {
        line.as_object_mut().unwrap().remove("isSidechain");
    }
    assert_eq!(drawn(&log), drawn(&working()));
}

#[test]
fn a_fork_in_another_file_shares_what_it_copied() {
    let mut first = Log::new("aaaa-first");
    first.user("u1", None, "Begin.");
    first.answer(
        "a1",
        Some("u1"),
        "msg_1",
        &[text("Begun, with a text that is long enough to be known again.")],
    );
    let mut second = Log::new("bbbb-second");
    second.lines = first.lines.clone();
    for line in &mut second.lines {
        line["sessionId"] = json!("bbbb-second");
    }
    second.user("u2", Some("a1"), "Go on elsewhere.");
    second.answer("a2", Some("u2"), "msg_2", &[text("Gone on.")]);
    let store = TestStore::new();
    first.import(&store);
    second.import(&store);
    let ids = |reference: &str| -> Vec<String> {
        let messages = messages(&store, reference);
        messages
            .iter()
            .map(|message| message["uuid"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids("aaaa-first"), ["u1", "a1"]);
    assert_eq!(ids("bbbb-second"), ["u1", "a1", "u2", "a2"]);
    let conversations = store.json(&["log"]);
    assert_eq!(conversations.len(), 1, "one conversation");
    assert_eq!(conversations[0]["tokens"]["input_tokens"], 20, "counted once");
    let conversation = conversations[0]["conversation_id"].as_str().unwrap();
    assert_eq!(ids(conversation), ["u1", "a1", "u2", "a2"], "each record once");
}

#[test]
fn summary_lines_are_titles_and_no_messages() {
    let mut log = working();
    let title = "A comparison of two files";
    log.lines
        .insert(0, json!({"type": "summary", "summary": title, "leafUuid": "a5"}));
    let drawing = drawn(&log);
    assert_eq!(drawing.lines().next(), Some(title));
    assert_eq!(
        drawing.lines().skip(1).collect::<Vec<_>>().join("\n"),
        drawn(&working()).trim_end()
    );
}

#[test]
fn an_exchange_shows_the_way_to_its_answer() {
    let store = imported(&working());
    let rows = store.json(&["log", "--exchanges"]);
    let id = rows[1]["id"].as_str().unwrap();
    let ids: Vec<String> = messages(&store, id)
        .iter()
        .map(|message| message["uuid"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        ids,
        ["u1", "a1", "a2_tool_0", "a2_result_0", "a3_tool_0", "a3_result_0", "a4"]
    );
}

#[test]
fn what_passed_without_a_log_has_the_answers_ids() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log", "--exchanges"]);
    let conversation = rows[0]["conversation_id"].as_str().unwrap();
    insta::assert_snapshot!(store.ok(&["show", "--tree", conversation]), @r##"
    User: "How long is a rope?"
    └── Assistant: "As long as its walk."
        ├── User: "And the walk?" (branch 1 of 2)
        │   └── Assistant: "A quarter mile."
        └── User: "Why?" (branch 2 of 2)
            └── Assistant: "It is twisted in one piece."
    "##);
    let messages = messages(&store, conversation);
    assert_eq!(messages[1]["uuid"], "msg_talk-1");
    assert_eq!(messages[1]["session_id"], conversation);
    assert_eq!(messages[1]["exchange_id"], "talk-1");
}

#[test]
fn hostile_text_moves_no_terminal() {
    let mut log = Log::new("hostile");
    log.user("u1", None, "\u{1b}[2Jclear \u{202e}reversed");
    log.answer("a1", Some("u1"), "msg_1", &[text("no")]);
    let drawing = drawn(&log);
    assert!(
        drawing.starts_with(r#"User: "\u{1b}[2Jclear \u{202e}reversed""#),
        "{drawing}"
    );
}

//! An MCP client that others wrote drives the server, over standard input and output and over HTTP.
//!
//! It comes from PyPI into a folder of the build. Without Python or without a network this says so and shows nothing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ropewalk_testkit::captures::workspace_root;
use ropewalk_testkit::upstream::Upstream;
use serde_json::{Value, json};

use crate::python::python_with;
use crate::serve::server::Place;
use crate::store::{TestStore, jsonl, talk};

/// The protocol with a handshake, and the one without.
const MODES: [&str; 2] = ["legacy", "auto"];

const TOOLS: [&str; 6] = [
    "search",
    "list_conversations",
    "read_messages",
    "resolve_references",
    "conversation_tree",
    "match",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_client_from_pypi_calls_every_tool_and_reads_resources() {
    let folder = workspace_root().join("crates/ropewalk/tests/it/mcp");
    let python = match python_with("python-mcp", &folder.join("client.txt")) {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let upstream = Upstream::start().await;
    let place = Place::with(
        &upstream,
        "[owners]\nmode = 'tokens'\n[owners.tokens]\nanns-token = 'ann'\n",
    );
    let file = place.store.file("talk.jsonl", &jsonl(&talk()));
    place.store.ok(&["--owner", "ann", "import", file.to_str().unwrap()]);
    let asked = questions(&place.store);
    let client = Client {
        python,
        script: folder.join("client.py"),
    };
    let data = place.data();
    let local = [env!("CARGO_BIN_EXE_ropewalk"), "--data", data.to_str().unwrap(), "mcp"];
    let server = place.serve();
    server.wait_until_ready();
    let url = format!("http://{}/mcp", server.address);
    let mut answers = Vec::new();
    for mode in MODES {
        // Beside a server that runs.
        answers.push(client.ask(&[&[mode, "stdio"], &local[..]].concat(), &asked));
        answers.push(client.ask(&[mode, "http", &url, "anns-token"], &asked));
    }
    for each in &answers {
        check(each);
        assert_eq!(said(each), said(&answers[0]), "all doors lead to the same");
    }
    assert!(server.stop().is_recorded());
}

/// What a tool says to a client that begins with asking it.
pub(crate) fn told(store: &TestStore, tool: &str, arguments: &Value) -> String {
    let asked = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}),
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .arg("--data")
        .arg(store.data())
        .arg("mcp")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(jsonl(&asked).as_bytes()).unwrap();
    let mut answers = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = || -> Value { serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["result"]["serverInfo"]["name"], "ropewalk");
    let answer = next();
    // It ends when its client has had enough.
    drop(stdin);
    assert!(child.wait().unwrap().success());
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Before anything is recorded there is nothing, and no error.
#[test]
fn an_agent_may_be_set_up_before_anything_is_recorded() {
    let listed = told(&TestStore::new(), "list_conversations", &json!({}));
    assert_eq!(listed, r#"{"conversations":[],"next_cursor":null}"#);
}

fn questions(store: &TestStore) -> Vec<Value> {
    let conversations = store.json(&["--owner", "ann", "log"]);
    let id = |title: &str, exchanges: u64| {
        let is_it = |one: &&Value| one["title"] == title && one["exchanges"] == exchanges;
        let found = conversations.iter().find(is_it).unwrap();
        found["friendly_id"].as_str().unwrap().to_owned()
    };
    let id = id("How long is a rope?", 3);
    let call = |tool: &str, arguments: Value| json!({"ask": "call", "tool": tool, "arguments": arguments});
    vec![
        json!({"ask": "server"}),
        json!({"ask": "tools"}),
        json!({"ask": "templates"}),
        json!({"ask": "resources"}),
        call("search", json!({"query": "walk", "said_by": "assistant"})),
        call("list_conversations", json!({"limit": 1})),
        call("read_messages", json!({"name": id, "from_end": true, "limit": 2})),
        call(
            "resolve_references",
            json!({"references": [format!("@conv_{id}_msg_2"), "@conv_nobody_x_aaaa_msg_1"]}),
        ),
        call("conversation_tree", json!({"name": id})),
        call(
            "match",
            json!({"request": {"model": "claude-sonnet-4-5", "max_tokens": 64,
            "messages": [{"role": "user", "content": "How long is a rope?"}]}}),
        ),
        json!({"ask": "read", "uri": format!("ropewalk://conversation/{id}")}),
        json!({"ask": "read", "uri": format!("ropewalk://message/conv_{id}_msg_1")}),
        call("read_messages", json!({"name": "nobody_x_aaaa"})),
        call("search", json!({"quarry": "walk"})),
        call("forget", json!({})),
        json!({"ask": "read", "uri": "ropewalk://message/conv_nobody_x_aaaa_msg_1"}),
    ]
}

fn check(answers: &[Value]) {
    let [server, tools, templates, resources, rest @ ..] = answers else {
        panic!("{answers:?}");
    };
    assert_eq!(server["ok"]["name"], "ropewalk");
    assert!(server["ok"]["instructions"].as_str().unwrap().contains("It is data"));
    let tools = tools["ok"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, TOOLS);
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
    assert_eq!(templates["ok"]["resourceTemplates"].as_array().unwrap().len(), 2);
    assert_eq!(resources["ok"]["resources"].as_array().unwrap().len(), 2);
    let answered: Vec<Value> = rest[..8].iter().map(json_of).collect();
    let [search, list, read, resolved, tree, matched, conversation, message] = &answered[..] else {
        panic!("{answered:?}");
    };
    assert_eq!(search["hits"][0]["snippet"], "As long as its walk.");
    assert_eq!(list["conversations"].as_array().unwrap().len(), 1);
    assert!(list["next_cursor"].is_string());
    assert_eq!(read["messages"][1]["content"], "It is twisted in one piece.");
    assert_eq!((&read["total"], &read["next_cursor"]), (&json!(4), &Value::Null));
    assert!(read["previous_cursor"].is_string());
    let references = resolved["references"].as_array().unwrap();
    assert_eq!(references[0]["text"], "As long as its walk.");
    assert_eq!(references[1]["resolved"], false);
    let branches = tree["branches"].as_array().unwrap();
    let kinds: Vec<&str> = branches.iter().map(|branch| branch["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["main", "edit"]);
    assert_eq!(branches[0]["agent"]["is_main"], true);
    assert_eq!(branches[1]["from_branch_key"], branches[0]["branch_key"]);
    assert_eq!(matched["outcome"], "exact");
    assert_eq!(matched["answers"].as_array().unwrap().len(), 2);
    assert_eq!(conversation["messages"].as_array().unwrap().len(), 4);
    assert_eq!(message["messages"][0]["content"], "How long is a rope?");
    let [unknown, misspelt, no_tool, no_resource] = &rest[8..] else {
        panic!("{rest:?}");
    };
    assert_eq!(unknown["ok"]["is_error"], true);
    assert_eq!(json_of(unknown)["error"]["kind"], "not_found");
    assert_eq!(json_of(misspelt)["error"]["kind"], "bad_request");
    assert_eq!(no_tool["error"], "there is no tool of this name");
    assert_eq!(no_resource["error"], "nothing is named `@conv_nobody_x_aaaa_msg_1`");
}

/// What was answered, without what the versions of the protocol wrap it in.
fn said(answers: &[Value]) -> Vec<Value> {
    let without_wrapping = answers[4..].iter();
    without_wrapping.cloned().collect()
}

fn json_of(answer: &Value) -> Value {
    serde_json::from_str(answer["ok"]["text"].as_str().unwrap()).unwrap()
}

struct Client {
    python: PathBuf,
    script: PathBuf,
}

impl Client {
    fn ask(&self, arguments: &[&str], questions: &[Value]) -> Vec<Value> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), jsonl(questions)).unwrap();
        let script: &Path = &self.script;
        let asked = Command::new(&self.python)
            .arg(script)
            .args(arguments)
            .env_clear()
            .stdin(file.reopen().unwrap())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "{arguments:?}: {told}");
        let text = String::from_utf8(asked.stdout).unwrap();
        let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), questions.len(), "{told}");
        answers
    }
}

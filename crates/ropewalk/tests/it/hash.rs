//! `ropewalk hash`, against a second implementation in Python and as a person uses it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ropewalk_testkit::captures::{CaptureFile, captures, fixtures, workspace_root};
use serde_json::Value;

use crate::{ropewalk, stderr, stdout};

/// What both implementations compute from a whole exchange.
const PROJECTIONS: [&str; 13] = [
    "message_hash",
    "current_message_hash",
    "parent_message_hash",
    "system_hash",
    "system_raw_hash",
    "toolset_hash",
    "agent_type_hash",
    "first_user_hash",
    "first_response_hash",
    "conversation_hash",
    "prompt_hash",
    "response_hash",
    "path_hash",
];

fn lines_by_id(text: &str) -> BTreeMap<String, Value> {
    let values = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values
        .map(|value| (value["id"].as_str().unwrap().to_owned(), value))
        .collect()
}

fn reference(path: &Path) -> BTreeMap<String, Value> {
    let script = workspace_root().join("fixtures/reference/hashes.py");
    let output = Command::new("python3").arg(script).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    lines_by_id(&stdout(&output))
}

/// Fixtures that are no requests at all: `hash` refuses them, the reference gives nulls.
fn is_readable(file: &CaptureFile, id: &str) -> bool {
    let exchange = file.exchanges.iter().find(|exchange| exchange.id == id).unwrap();
    exchange.request_body.starts_with(b"{") && std::str::from_utf8(&exchange.request_body).is_ok()
}

fn compare(file: &CaptureFile) -> usize {
    let expected = reference(&file.path);
    let mut compared = 0;
    for (id, expected) in expected.iter().filter(|(id, _)| is_readable(file, id)) {
        let output = hash_one(file, id);
        for name in PROJECTIONS {
            assert_eq!(output[name], expected[name], "{id}: {name}");
            compared += 1;
        }
    }
    compared
}

/// Hashes one exchange of a file, as a file of its own.
fn hash_one(file: &CaptureFile, id: &str) -> Value {
    let text = std::fs::read_to_string(&file.path).unwrap();
    let marker = format!("{id:?}");
    let line = text.lines().find(|line| line.contains(&marker)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.exchanges.jsonl");
    std::fs::write(&path, line).unwrap();
    let output = ropewalk(&["hash", path.to_str().unwrap()]);
    assert!(output.status.success(), "{id}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn projections_of_our_own_exchanges_equal_the_reference() {
    let compared: usize = fixtures().unwrap().iter().map(compare).sum();
    println!("{compared} hashes equal");
    assert!(compared > 500);
}

#[test]
fn projections_of_every_captured_exchange_equal_the_reference() {
    let Some(files) = captures().unwrap() else { return };
    let compared: usize = files.iter().map(compare).sum();
    println!("{compared} hashes equal");
    assert!(compared > 1_000);
}

/// A folder with a request and two answers to it.
fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let root: PathBuf = folder.path().to_owned();
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    write(
        "request.json",
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}"#,
    );
    write(
        "answer.json",
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi!"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#,
    );
    write("notes.txt", "no JSON");
    let path = move |name: &str| root.join(name).to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn prints_every_hash_of_a_request_with_its_response() {
    let (_folder, path) = folder();
    let output = ropewalk(&[
        "hash",
        &path("request.json"),
        "--response",
        &path("answer.json"),
        "--chain",
    ]);
    let hashes: Value = serde_json::from_str(&stdout(&output)).unwrap();
    insta::assert_json_snapshot!(hashes, @r#"
    {
      "agent_type_hash": "4056ed77a2620d7f",
      "chain": [
        {
          "kind": "text",
          "node": "v1:81821591675843ba8bb32671ebf6007c8a99497957efc3cd12db7e18409f7ceb",
          "role": "user",
          "value": "v1:86a44c8f7d671cc28095578d773f09ce6e29bcdabd518e96f32212c020fe7452"
        },
        {
          "kind": "text",
          "node": "v1:94b00a5da4997b87260accfe4a61f84d8f02758a8ba21763867838adef3dbdb1",
          "role": "assistant",
          "value": "v1:e0198d6749a8e8d08085129520cc1339426770413921834a73b0e13b8bb7c548"
        }
      ],
      "conversation_hash": "c2a74abb2b17e843",
      "current_message_hash": "ebdeb188f7a2cac009a02cfc5d4edaacf0ea635cef72cd31e1fe86b15787c3a7",
      "first_response_hash": "ca51ce1fb15acc6d",
      "first_user_hash": "185f8db32271fe25",
      "input_node": "v1:81821591675843ba8bb32671ebf6007c8a99497957efc3cd12db7e18409f7ceb",
      "message_hash": "d642823e082386e1a4c90a7f559c33b528282c8cd579d828e7597c0d8c7df812",
      "model": "m",
      "output_node": "v1:94b00a5da4997b87260accfe4a61f84d8f02758a8ba21763867838adef3dbdb1",
      "parent_message_hash": null,
      "path_hash": "4bdf661c0d6a0065606989ec497124d33f79484e782683bb49b534149c2ff975",
      "prompt_hash": "4bdf661c0d6a0065606989ec497124d33f79484e782683bb49b534149c2ff975",
      "provider": "anthropic",
      "request_sha256": "a99848b68c09b279d66583c15bb652704a71ec57b2f6c9a0250fb2a75349e26d",
      "response_hash": "ca51ce1fb15acc6d69b8a5700256172fcc507e02073e6f19592e341bd6508ab8",
      "response_sha256": "faf705556f2511c732d9a44b5f6a6c315948769ec6e9c2b3f7cc82b73b68f60d",
      "rules_version": 1,
      "system_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "system_raw_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "tools_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "toolset_hash": "e3b0c44298fc1c14",
      "v": 1
    }
    "#);
}

#[test]
fn hashes_that_need_an_answer_are_null_without_one() {
    let (_folder, path) = folder();
    let hashes: Value = serde_json::from_str(&stdout(&ropewalk(&["hash", &path("request.json")]))).unwrap();
    for name in [
        "output_node",
        "first_response_hash",
        "conversation_hash",
        "response_hash",
        "response_sha256",
    ] {
        assert_eq!(hashes[name], Value::Null, "{name}");
    }
}

#[test]
fn says_what_is_wrong_and_what_to_do() {
    let (_folder, path) = folder();
    let output = ropewalk(&["hash", &path("notes.txt")]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output).replace(&path("notes.txt"), "notes.txt");
    insta::assert_snapshot!(said, @r#"
    error: notes.txt is no request we know
    hint: a request has `messages`, `input` or `contents`; `--format` says which kind it is
    "#);

    let output = ropewalk(&["--json", "hash", &path("missing.json")]);
    assert_eq!(output.status.code(), Some(1));
    let error: Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(error["error"]["kind"], "not_found");
}

#[test]
fn explains_itself() {
    insta::assert_snapshot!(stdout(&ropewalk(&["--help"])), @r#"
    Git for LLM conversations

    Usage: ropewalk [OPTIONS] <COMMAND>

    Commands:
      serve      Stand between clients and providers, and record what passes
      run        Run a command with everything it asks a model recorded
      demo       Show everything there is, without a key and without a network
      import     Bring in what was recorded elsewhere
      log        List conversations, newest first, or exchanges, oldest first
      show       Show a conversation or an exchange
      tree       Show who worked on a conversation, started by whom, with tokens and cost
      diff       Show where two branches or exchanges part, and what became of each
      explain    Say why an exchange is linked where it is, and what else it might have been
      blame      Say which exchange brought each system block and each tool, and what it has cost since
      resolve    Print what the proxy would add to a text with these references in it
      title      Give a conversation another title
      search     Find words in what users, models and tools said
      spread     Show everybody who saw a text: conversations, models, providers, exchanges
      suggest    List conversations that are nearly the same, with a score
      templates  List prompts that recur, with the places that vary
      match      Say whether messages were sent before, how much of them is known, and what was answered
      replay     Send a recorded request again, to another model or with other options
      bisect     Find the turn from which on a check fails
      export     Write exchanges so that importing them gives the same store, or one path to be read
                 elsewhere
      rebuild    Link everything again from what was recorded
      stats      Exchanges, bytes, tokens and cost, of every owner or of one
      fsck       Look for damage
      hash       Print every hash of a request, or of a request with its response
      mcp        Answer an agent's questions about what was recorded, over MCP
      doctor     Check the set-up and say what to do
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Options of every command:
          --data <DIR>     The data folder [default: $XDG_DATA_HOME/ropewalk] [env: ROPEWALK_DATA]
          --store <URL>    A PostgreSQL server instead of the data folder: postgres://user@host/database
                           [env: ROPEWALK_STORE]
          --config <FILE>  The configuration file [default: $XDG_CONFIG_HOME/ropewalk/config.toml] [env:
                           ROPEWALK_CONFIG]
          --owner <NAME>   Whose data [default: the only owner there is, else `local`] [env:
                           ROPEWALK_OWNER]
          --as-of <TIME>   What was known then: a time, a day, or how long ago (2h, 3d). For verbs that
                           show something
          --json           Data as JSON on stdout, errors as JSON on stderr
    "#);
    insta::assert_snapshot!(stdout(&ropewalk(&["hash", "--help"])), @r#"
    Print every hash of a request, or of a request with its response

    FILE is a request body as it was sent, or exchanges in the exchange format (one JSON line each).
    Prints one JSON object per exchange: the nodes of the chain and the compatibility hashes. Hashes
    that need an answer are null without one.

    Usage: ropewalk hash [OPTIONS] <FILE>

    Arguments:
      <FILE>
              The request, or exchanges; `-` is standard input

    Options:
          --response <FILE>
              The response body, streamed or not

          --format <FORMAT>
              What the request is written in, when its members do not say
              
              [default: auto]
              [possible values: auto, anthropic, chat, responses, gemini]

          --chain
              Also list role, kind, value and node of every block in the chain

      -h, --help
              Print help (see a summary with '-h')

    Options of every command:
          --data <DIR>
              The data folder [default: $XDG_DATA_HOME/ropewalk]
              
              [env: ROPEWALK_DATA]

          --store <URL>
              A PostgreSQL server instead of the data folder: postgres://user@host/database
              
              [env: ROPEWALK_STORE]

          --config <FILE>
              The configuration file [default: $XDG_CONFIG_HOME/ropewalk/config.toml]
              
              [env: ROPEWALK_CONFIG]

          --owner <NAME>
              Whose data [default: the only owner there is, else `local`]
              
              [env: ROPEWALK_OWNER]

          --as-of <TIME>
              What was known then: a time, a day, or how long ago (2h, 3d). For verbs that show
              something

          --json
              Data as JSON on stdout, errors as JSON on stderr

    Examples:
      ropewalk hash request.json
      ropewalk hash request.json --response response.sse
      ropewalk hash traffic.exchanges.jsonl
      ropewalk hash request.json --chain        every node, one per block
    "#);
}

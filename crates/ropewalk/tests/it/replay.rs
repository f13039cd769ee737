//! `replay` and `bisect`: recorded requests for other models, and the turn that changed the answer.

use std::process::{Command, Output};

use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Received, Upstream};
use serde_json::{Value, json};

use crate::serve::client::Client;
use crate::serve::server::Place;
use crate::store::{TestStore, jsonl, talk, turn};
use crate::{stderr, stdout};

const KEY: &str = "sk-only-for-the-provider";

/// Runs the binary on a store with a key in its environment.
fn run_with(store: &TestStore, variable: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .arg("--data")
        .arg(store.data())
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env(variable, KEY)
        .output()
        .unwrap()
}

fn run(store: &TestStore, arguments: &[&str]) -> Output {
    run_with(store, "ANTHROPIC_API_KEY", arguments)
}

fn said_by(model: &str, text: &str) -> Answer {
    let body = json!({"id": format!("msg_{model}"), "type": "message", "role": "assistant", "model": model,
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5}});
    Answer::json(body.to_string())
}

/// An upstream that answers with the model's name and how many messages it was sent.
async fn counting() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.answer_by(|_, body| {
        let body: Value = serde_json::from_slice(body).unwrap();
        let (model, count) = (
            body["model"].as_str().unwrap(),
            body["messages"].as_array().unwrap().len(),
        );
        said_by(model, &format!("{model} heard {count}"))
    });
    upstream
}

fn address(upstream: &Upstream) -> String {
    format!("anthropic={}", upstream.url())
}

/// Every file below a folder, to look for what must not be there.
fn has_key(folder: &std::path::Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => has_key(&path),
            false => {
                std::fs::read(&path).is_ok_and(|bytes| bytes.windows(KEY.len()).any(|piece| piece == KEY.as_bytes()))
            }
        }
    })
}

async fn received(upstream: &Upstream) -> (Received, Value) {
    let received = upstream.next_request().await;
    let body = serde_json::from_slice(&received.body_so_far()).unwrap();
    (received, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_models_answer_is_filed_beside_the_recorded_one() {
    let upstream = counting().await;
    let store = TestStore::with(&talk());
    let replayed = run(
        &store,
        &[
            "replay",
            "talk-2",
            "--model",
            "claude-opus-4-5",
            "--set",
            "temperature=0",
            "--unset",
            "max_tokens",
            "--upstream",
            &address(&upstream),
        ],
    );
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), "claude-opus-4-5 heard 3\n");
    assert!(
        stderr(&replayed).contains("show talk-2 --answers"),
        "{}",
        stderr(&replayed)
    );
    let (received, body) = received(&upstream).await;
    assert_eq!(received.header("x-api-key"), Some(KEY));
    let mut expected: Value = serde_json::from_str(&store.ok(&["show", "talk-2", "--raw", "request"])).unwrap();
    expected["model"] = json!("claude-opus-4-5");
    expected["temperature"] = json!(0);
    expected.as_object_mut().unwrap().remove("max_tokens");
    assert_eq!(body, expected);

    let exchanges = store.json(&["log", "--exchanges"]);
    let first = exchanges.iter().find(|row| row["id"] == "talk-2").unwrap();
    let second = exchanges.last().unwrap();
    assert_eq!(second["model"], "claude-opus-4-5");
    for same in ["input_node", "conversation_id", "parent_exchange_id", "owner"] {
        assert_eq!(second[same], first[same], "{same}");
    }
    assert_eq!(second["branch_kind"], "regeneration");
    let answers = store.json(&["show", "talk-2", "--answers"]);
    let models: Vec<&str> = answers.iter().map(|answer| answer["model"].as_str().unwrap()).collect();
    assert!(
        models.contains(&"claude-opus-4-5") && models.contains(&"claude-sonnet-4-5"),
        "{models:?}"
    );
    assert!(!has_key(&store.data()), "no key is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_in_a_dry_run() {
    let upstream = counting().await;
    let store = TestStore::with(&talk());
    let arguments = [
        "replay",
        "talk-1",
        "--model",
        "other",
        "--dry-run",
        "--upstream",
        &address(&upstream),
    ];
    let shown = run(&store, &arguments);
    let body: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(body["model"], "other");
    assert_eq!(upstream.request_count(), 0);
    for (arguments, code) in [
        (&["replay", "nothing", "--model", "m"][..], 1),
        (&["replay", "talk-1", "--set", "temperature"][..], 2),
        (&["replay", "talk-1", "--as-of", "1d", "--model", "m"][..], 2),
        (&["replay", "talk-1", "--model", "m", "--key-env", "NOT_THERE"][..], 3),
    ] {
        assert_eq!(run(&store, arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_gives_no_answer_is_exit_code_4() {
    let upstream = Upstream::start().await;
    let store = TestStore::with(&talk());
    let refusing = json!({"type": "error", "error": {"type": "overloaded_error", "message": "too much \u{1b}[2J"}});
    let unknown = json!({"type": "error", "error": {"type": "authentication_error", "message": "who is this"}});
    let half = said_by("m", "never whole").body();
    let json_of = |status: u16, body: &Value| {
        Answer::status(status)
            .header("content-type", "application/json")
            .chunk(body.to_string())
    };
    let cases = [
        (json_of(529, &refusing), "529 overloaded_error: too much"),
        (json_of(401, &unknown), "set ANTHROPIC_API_KEY"),
        (
            Answer::json(half[..half.len() / 2].to_vec()),
            "the text ends in the middle of a value",
        ),
        (
            Answer::events(["event: message_start\ndata: {}\n\n"]).then_reset(),
            "no whole answer came",
        ),
    ];
    let way = address(&upstream);
    for (answer, expected) in cases {
        upstream.answer_always(answer);
        let failed = run(&store, &["replay", "talk-1", "--model", "m", "--upstream", &way]);
        let said = stderr(&failed);
        assert_eq!(failed.status.code(), Some(4), "{said}");
        assert!(said.contains(expected) && !said.contains('\u{1b}'), "{said}");
        assert!(failed.stdout.is_empty());
    }
    let nobody = [
        "--json",
        "replay",
        "talk-1",
        "--model",
        "m",
        "--upstream",
        "anthropic=http://127.0.0.1:1",
    ];
    let failed = run(&store, &nobody);
    assert_eq!(failed.status.code(), Some(4));
    let said = stderr(&failed);
    let error: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["kind"], "upstream");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_is_replayed_through_a_running_server() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = place.serve();
    server.wait_until_ready();
    let mut client = Client::connect(server.address).await.unwrap();
    let message = json!([{"role": "user", "content": "!say Aye\nAre you there?"}]);
    let parts = json!([{"role": "user", "parts": [{"text": "!say Aye\nAre you there?"}]}]);
    let gemini = |model: &str| format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
    for (path, body, variable, header, target) in [
        (
            "/v1/messages".to_owned(),
            json!({"model": "a", "max_tokens": 9, "stream": true, "messages": message}),
            "ANTHROPIC_AUTH_TOKEN",
            "authorization",
            "/v1/messages".to_owned(),
        ),
        (
            "/v1/chat/completions".to_owned(),
            json!({"model": "a", "messages": message}),
            "OPENAI_API_KEY",
            "authorization",
            "/v1/chat/completions".to_owned(),
        ),
        (
            "/v1/responses".to_owned(),
            json!({"model": "a", "stream": true, "input": message}),
            "OPENAI_API_KEY",
            "authorization",
            "/v1/responses".to_owned(),
        ),
        (
            gemini("a"),
            json!({"contents": parts}),
            "GEMINI_API_KEY",
            "x-goog-api-key",
            gemini("other-1.5"),
        ),
    ] {
        let seen = client
            .post(&path, &[("x-api-key", "of-the-client")], body.to_string())
            .await
            .unwrap();
        assert_eq!(seen.status, 200, "{}", seen.text());
        upstream.next_request().await;
        let id = seen.id();
        crate::serve::server::wait_until(|| {
            let rows = place.store.run(&["--json", "log", "--exchanges"]);
            stdout(&rows).contains(&id).then_some(())
        });
        let replayed = run_with(
            &place.store,
            variable,
            &["--json", "replay", &id, "--model", "other-1.5"],
        );
        assert!(replayed.status.success(), "{path}: {}", stderr(&replayed));
        let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
        assert_eq!(
            (&replayed["replayed"], &replayed["content"]),
            (&json!(id), &json!("Aye"))
        );
        assert_eq!(replayed["exchange"]["model"], "other-1.5", "{replayed}");
        let (received, body) = received(&upstream).await;
        assert_eq!(received.target, target);
        assert!(received.header(header).unwrap().contains(KEY), "{path}");
        if !path.contains("gemini") && !path.contains("v1beta") {
            assert_eq!(body["model"], "other-1.5");
        }
    }
    assert!(server.stop().is_recorded());
    assert!(!has_key(&place.data()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owners_request_is_replayed_for_that_owner_only() {
    let upstream = counting().await;
    let tokens = "[owners]\nmode = 'tokens'\n[owners.tokens]\nanns-token = 'ann'\nbobs-token = 'bob'\n";
    let place = Place::with(&upstream, tokens);
    for owner in ["ann", "bob"] {
        let first = format!("{owner}-1");
        let file = place
            .store
            .file(&format!("{owner}.jsonl"), &jsonl(&[turn(&first, 0, &["Hello", "Hi"])]));
        place.store.ok(&["--owner", owner, "import", file.to_str().unwrap()]);
    }
    let config = place.store.folder().join("config.toml");
    let replay = |owner: &str, reference: &str| {
        let way = address(&upstream);
        let config = config.to_str().unwrap();
        let arguments = [
            "--config",
            config,
            "--owner",
            owner,
            "replay",
            reference,
            "--model",
            "m",
            "--upstream",
            &way,
        ];
        run(&place.store, &arguments)
    };
    let replayed = replay("ann", "ann-1");
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(replay("ann", "bob-1").status.code(), Some(1));
    let count = |owner: &str| place.store.json(&["--owner", owner, "log", "--exchanges"]).len();
    assert_eq!((count("ann"), count("bob")), (2, 1));
    // A server that records for somebody else is not used.
    place.configure("");
    let server = place.serve();
    server.wait_until_ready();
    let refused = run(&place.store, &["--owner", "ann", "replay", "ann-1", "--model", "m"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("records for `local`"), "{}", stderr(&refused));
    assert!(server.stop().is_recorded());
}

/// Eight turns, of which the answers from the fifth on are not as they should be.
fn eight_turns() -> Vec<Value> {
    let mut said: Vec<String> = Vec::new();
    let mut turns = Vec::new();
    for number in 1..=8_u32 {
        said.push(format!("Question {number}"));
        said.push(match number {
            5.. => format!("Answer {number}, broken"),
            _ => format!("Answer {number}"),
        });
        let texts: Vec<&str> = said.iter().map(|text| &**text).collect();
        turns.push(turn(&format!("turn-{number}"), number * 10, &texts));
    }
    turns
}

fn bisected(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

#[test]
fn the_turn_from_which_on_a_check_fails_is_found_among_recorded_answers() {
    let store = TestStore::with(&eight_turns());
    let check = |arguments: &[&str], script: &str| {
        let mut all = vec!["--json", "bisect", "turn-8"];
        all.extend(arguments);
        all.extend(["--", "sh", "-c", script]);
        run(&store, &all)
    };
    let output = check(&[], "! grep -q broken");
    assert!(output.status.success(), "{}", stderr(&output));
    let found = bisected(&output);
    assert_eq!((&found["outcome"], &found["turns"]), (&json!("found"), &json!(8)));
    assert_eq!(found["first_bad"], json!([{"turn": 5, "exchange_id": "turn-5"}]));
    let tried: Vec<&Value> = found["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["turn"])
        .collect();
    assert!(tried.len() <= 5, "both ends and a search in six: {tried:?}");
    assert_eq!(found["steps"][0]["answer_exchange_id"], "turn-8");

    // One that is known to be good is not tried.
    let output = check(&["--good", "turn-4"], "! grep -q broken");
    let found = bisected(&output);
    assert_eq!(found["first_bad"], json!([{"turn": 5, "exchange_id": "turn-5"}]));
    assert!(
        found["steps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|step| step["turn"].as_u64() > Some(4))
    );

    // What cannot be told is left out, and named if it matters.
    let output = check(
        &[],
        "case $ROPEWALK_EXCHANGE in turn-4|turn-5) exit 125;; esac; ! grep -q broken",
    );
    assert_eq!(output.status.code(), Some(1));
    let found = bisected(&output);
    assert_eq!(found["outcome"], "skipped");
    let suspects: Vec<&Value> = found["first_bad"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["turn"])
        .collect();
    assert_eq!(suspects, [4, 5, 6]);

    let output = check(&[], "exit 0");
    assert_eq!(
        (output.status.code(), &bisected(&output)["outcome"]),
        (Some(1), &json!("good"))
    );
    let output = check(&[], "exit 3");
    assert_eq!(
        bisected(&output)["first_bad"],
        json!([{"turn": 1, "exchange_id": "turn-1"}])
    );
    assert_eq!(check(&[], "exit 126").status.code(), Some(2));
    assert_eq!(check(&[], "kill -9 $$").status.code(), Some(2));
    assert_eq!(check(&["--good", "turn-8"], "exit 1").status.code(), Some(2));
    let missing = run(&store, &["bisect", "turn-8", "--", "there-is-no-such-check"]);
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));

    let shown = run(
        &store,
        &["bisect", "turn-8", "--", "sh", "-c", "echo noise; ! grep -q broken"],
    );
    assert_eq!(stdout(&shown), "the first bad turn:\n  turn 5 of 8  turn-5\n");
    assert!(
        stderr(&shown).contains("turn 8 of 8 (turn-8): bad"),
        "{}",
        stderr(&shown)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_asked_again_where_another_model_is_to_be_checked() {
    let upstream = counting().await;
    let store = TestStore::with(&eight_turns());
    let way = address(&upstream);
    // A turn has an odd number of messages; this model stops to be good at the eleventh, which is turn 6.
    let script = "read model heard count; test $count -lt 11";
    let arguments = [
        "--json",
        "bisect",
        "turn-8",
        "--model",
        "m",
        "--upstream",
        &way,
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = run(&store, &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = bisected(&output);
    assert_eq!(found["first_bad"], json!([{"turn": 6, "exchange_id": "turn-6"}]));
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(upstream.request_count(), steps.len() as u64);
    // Each answer is recorded where its step says.
    let exchanges = store.json(&["log", "--exchanges"]);
    assert_eq!(exchanges.len(), 8 + steps.len());
    for step in steps {
        let of = |id: &Value| exchanges.iter().find(|row| row["id"] == *id).unwrap();
        let (asked, answered) = (of(&step["exchange_id"]), of(&step["answer_exchange_id"]));
        assert_eq!(
            (&asked["input_node"], &answered["model"]),
            (&answered["input_node"], &json!("m"))
        );
    }
    upstream.answer_always(Answer::status(500));
    assert_eq!(run(&store, &arguments).status.code(), Some(4));
}

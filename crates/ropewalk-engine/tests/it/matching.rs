//! Messages found among what was recorded: the table, the edge cases and the use cases of seed 002.

use std::convert::Infallible;

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::matching::{Asked, FoundOrCreated, Match, Outcome, UnreadableMessages};
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::{Micros, Store as _};
use serde_json::{Value, json};

use crate::prepare::raw;

const MINUTE: i64 = 60_000_000;

/// A request with the answer that it got.
fn exchange(id: &str, at: i64, request: &Value, answer: &str) -> RawExchange {
    let response = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": request["model"],
        "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    let mut raw = raw("/v1/messages", &request.to_string(), Some((200, &response.to_string())));
    raw.id = id.to_owned();
    raw.at = Micros(raw.at.0 + at * MINUTE);
    raw.ended_at = Some(Micros(raw.at.0 + 1_000_000));
    raw
}

/// A request of user and assistant in turns, with members over it.
fn request(said: &[&str], members: &Value) -> Value {
    let messages = said.iter().enumerate().map(|(index, text)| {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": text})
    });
    let mut request = json!({"model": "m", "max_tokens": 64, "messages": messages.collect::<Vec<_>>()});
    for (name, value) in members.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn asked(request: &Value) -> Asked {
    Asked::read_at("/v1/messages", &Bytes::from(request.to_string())).unwrap()
}

async fn recorded(exchanges: &[RawExchange]) -> Sqlite {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for raw in exchanges {
        recorder.record(std::slice::from_ref(raw)).await.unwrap();
    }
    recorder.link().await.unwrap();
    store
}

async fn matched(store: &Sqlite, asked: &Asked) -> Match {
    let owner = store.owner("me").await.unwrap();
    View::new(store, owner, "me").find_match(asked).await.unwrap()
}

fn contents(found: &Match) -> Vec<&str> {
    found.answers.answers.iter().map(|answer| &*answer.content).collect()
}

/// How a request stands to one that was recorded and answered with `yes`.
async fn outcome(known: &Value, asked_for: &Value) -> Outcome {
    let store = recorded(&[exchange("one", 0, known, "yes")]).await;
    matched(&store, &asked(asked_for)).await.outcome
}

#[tokio::test]
async fn what_counts_for_a_match_is_as_the_table_says() {
    let image = |data: &str| {
        json!([{"role": "user", "content": [{"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data}}]}])
    };
    let url =
        |url: &str| json!([{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}]);
    let call = |name: &str, id: &str, path: &str| {
        json!([
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {"path": path}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "text"}]},
        ])
    };
    let result = |text: &str| {
        json!([
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": text}]},
        ])
    };
    let with = |members: Value| request(&["Capital of France?"], &members);
    let messages = |messages: Value| with(json!({"messages": messages}));
    let (exact, partial, none) = (Outcome::Exact, Outcome::Partial, Outcome::None);
    for (what, known, other, expected) in [
        (
            "system message",
            with(json!({"system": "a"})),
            with(json!({"system": "b"})),
            partial,
        ),
        (
            "user message",
            with(json!({})),
            request(&["Capital of Spain?"], &json!({})),
            none,
        ),
        (
            "assistant message",
            request(&["a", "b", "c"], &json!({})),
            request(&["a", "x", "c"], &json!({})),
            partial,
        ),
        (
            "attachment with other content",
            messages(image("AAAA")),
            messages(image("BBBB")),
            none,
        ),
        (
            "attachment by another url",
            messages(url("https://x/1")),
            messages(url("https://x/2")),
            none,
        ),
        (
            "the same attachment",
            messages(image("AAAA")),
            messages(image("AAAA")),
            exact,
        ),
        (
            "the same url",
            messages(url("https://x/1")),
            messages(url("https://x/1")),
            exact,
        ),
        (
            "another tool",
            messages(call("Read", "t1", "/a")),
            messages(call("Write", "t1", "/a")),
            partial,
        ),
        (
            "the same call",
            messages(call("Read", "t1", "/a")),
            messages(call("Read", "t1", "/a")),
            exact,
        ),
        (
            "another result",
            messages(result("one")),
            messages(result("two")),
            partial,
        ),
        ("another model", with(json!({})), with(json!({"model": "n"})), exact),
        (
            "temperature 0",
            with(json!({})),
            with(json!({"temperature": 0})),
            partial,
        ),
        (
            "temperatures above 0",
            with(json!({"temperature": 0.3})),
            with(json!({"temperature": 0.9})),
            exact,
        ),
        ("max_tokens", with(json!({})), with(json!({"max_tokens": 65})), partial),
        (
            "stop sequences",
            with(json!({})),
            with(json!({"stop_sequences": ["x"]})),
            partial,
        ),
        ("streaming", with(json!({})), with(json!({"stream": true})), exact),
        (
            "metadata about the call",
            with(json!({})),
            with(json!({"metadata": {"user_id": "u"}})),
            exact,
        ),
        (
            "the set of tools",
            with(json!({})),
            with(json!({"tools": [{"name": "Read", "input_schema": {}}]})),
            partial,
        ),
        (
            "unicode",
            messages(json!([{"role": "user", "content": "Grüße 漢字 🚀"}])),
            messages(json!([{"role": "user", "content": "Grüße 漢字 🚀"}])),
            exact,
        ),
        (
            "other unicode",
            messages(json!([{"role": "user", "content": "é"}])),
            messages(json!([{"role": "user", "content": "e\u{301}"}])),
            none,
        ),
    ] {
        assert_eq!(outcome(&known, &other).await, expected, "{what}");
    }
}

#[tokio::test]
async fn empty_values_say_nothing() {
    let known = request(&["a"], &json!({}));
    for members in [
        json!({"system": ""}),
        json!({"system": []}),
        json!({"tools": []}),
        json!({"temperature": null}),
        json!({"stop_sequences": null}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "a"}]}]}),
    ] {
        assert_eq!(
            outcome(&known, &request(&["a"], &members)).await,
            Outcome::Exact,
            "{members}"
        );
    }
    let nothing = Asked::read(&Bytes::from(r#"{"model":"m","messages":[]}"#), None);
    assert!(matches!(nothing, Err(UnreadableMessages::NoMessages)));
}

#[tokio::test]
async fn a_very_long_prompt_is_found() {
    let long = "many words ".repeat(100_000);
    let known = request(&[&long], &json!({}));
    assert_eq!(outcome(&known, &known).await, Outcome::Exact);
    let longer = request(&[&format!("{long}!")], &json!({}));
    assert_eq!(outcome(&known, &longer).await, Outcome::None);
}

/// Edge case 1: another answer than the one that is stored branches where the two part.
#[tokio::test]
async fn another_answer_branches_behind_the_question() {
    let first = request(&["Capital of France?"], &json!({}));
    let store = recorded(&[exchange("one", 0, &first, "Paris")]).await;
    let found = matched(
        &store,
        &asked(&request(&["Capital of France?", "Lyon", "Sure?"], &json!({}))),
    )
    .await;
    assert_eq!((found.outcome, found.depth, found.blocks), (Outcome::Partial, 1, 3));
    let diverges = found.diverges.clone().unwrap();
    assert_eq!(
        (diverges.message, diverges.role, &*diverges.text),
        (1, "assistant", "Lyon")
    );
    assert_eq!(contents(&found), ["Paris"]);
    assert_eq!(found.first_exchange_id.as_deref(), Some("one"));
    assert_eq!(found.continues_exchange_id, None);
}

/// Edge cases 2 and 3: other models and other attempts are alternatives at one node.
#[tokio::test]
async fn models_and_attempts_are_alternatives() {
    let ask = |members: Value| request(&["Tell me a joke"], &members);
    let store = recorded(&[
        exchange("a", 0, &ask(json!({"temperature": 0.9})), "Why did the chicken"),
        exchange("b", 1, &ask(json!({"temperature": 0.9})), "What do you call"),
        exchange("c", 2, &ask(json!({"model": "n"})), "Knock knock"),
        exchange("d", 3, &ask(json!({"temperature": 0})), "A horse"),
    ])
    .await;
    let found = matched(&store, &asked(&ask(json!({})))).await;
    assert_eq!(found.outcome, Outcome::Exact);
    assert_eq!(
        contents(&found),
        ["Knock knock", "What do you call", "Why did the chicken", "A horse"]
    );
    let answers = &found.answers.answers;
    assert_eq!(answers[3].differs, ["options"]);
    assert_eq!(
        (&answers[0].model, &answers[1].options["temperature"]),
        (&Some("n".to_owned()), &json!(0.9))
    );
    let of_other = matched(&store, &asked(&ask(json!({}))).by_model("n")).await;
    assert_eq!(of_other.outcome, Outcome::Exact);
    let of_nobody = matched(&store, &asked(&ask(json!({}))).by_model("x")).await;
    assert_eq!(of_nobody.outcome, Outcome::Partial);
}

#[tokio::test]
async fn an_answer_that_failed_or_broke_off_is_none() {
    let ask = request(&["a"], &json!({}));
    let mut failed = exchange("a", 0, &ask, "x");
    failed.status = Some(500);
    let mut cut = exchange("b", 1, &ask, "y");
    cut.cut_off = true;
    let store = recorded(&[failed, cut]).await;
    let found = matched(&store, &asked(&ask)).await;
    assert_eq!((found.outcome, found.depth), (Outcome::Partial, 1));
    assert!(found.diverges.is_none() && found.answers.answers.is_empty());
}

#[tokio::test]
async fn messages_that_end_with_a_stored_answer_are_known_to_the_end() {
    let ask = request(&["Capital of France?"], &json!({}));
    let store = recorded(&[exchange("one", 0, &ask, "Paris")]).await;
    let found = matched(&store, &asked(&request(&["Capital of France?", "Paris"], &json!({})))).await;
    assert_eq!((found.outcome, found.depth), (Outcome::Exact, 2));
    assert_eq!(found.continues_exchange_id.as_deref(), Some("one"));
    assert_eq!(contents(&found), ["Paris"]);
}

#[tokio::test]
async fn what_was_not_known_then_is_not_found() {
    let ask = request(&["a"], &json!({}));
    let (first, second) = (exchange("a", 0, &ask, "one"), exchange("b", 10, &ask, "two"));
    let (begin, end, later) = (first.at, first.ended_at.unwrap(), second.ended_at.unwrap());
    let store = recorded(&[first, second]).await;
    let then = async |at: i64| matched(&store, &asked(&ask).as_of(Micros(at))).await;
    assert_eq!(then(begin.0 - 1).await.outcome, Outcome::None);
    assert_eq!(
        then(begin.0).await.outcome,
        Outcome::Partial,
        "it was asked, and not answered yet"
    );
    assert_eq!(contents(&then(end.0).await), ["one"]);
    assert_eq!(contents(&then(later.0).await), ["two", "one"]);
}

#[tokio::test]
async fn every_provider_asks_for_the_same_node() {
    let anthropic = request(&["Capital of France?"], &json!({}));
    let store = recorded(&[exchange("one", 0, &anthropic, "Paris")]).await;
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "Capital of France?"}]}),
        ),
        ("/v1/responses", json!({"model": "m", "input": "Capital of France?"})),
        (
            "/v1beta/models/g:generateContent",
            json!({"contents": [{"role": "user", "parts": [{"text": "Capital of France?"}]}]}),
        ),
    ] {
        let asked = Asked::read_at(path, &Bytes::from(body.to_string())).unwrap();
        let found = matched(&store, &asked).await;
        assert_eq!((found.depth, contents(&found)), (1, vec!["Paris"]), "{path}");
        let detected = Asked::read(&Bytes::from(body.to_string()), None).unwrap();
        assert_eq!(matched(&store, &detected).await.node, found.node);
    }
}

#[tokio::test]
async fn owners_find_only_their_own() {
    let ask = request(&["a"], &json!({}));
    let store = recorded(&[exchange("a", 0, &ask, "mine")]).await;
    let other = store.owner("other").await.unwrap();
    let found = View::new(&store, other, "other")
        .find_match(&asked(&ask))
        .await
        .unwrap();
    assert_eq!((found.outcome, found.depth), (Outcome::None, 0));
}

/// Use case 1: the same messages are found, longer ones branch off, and every answer is kept.
#[tokio::test]
async fn messages_are_answered_once() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    let system = json!({"system": "You are helpful"});
    let short = request(&["Capital of France?"], &system);
    let long = request(&["Capital of France?", "Paris", "Germany?"], &system);
    let mut told = Vec::new();
    for (number, (body, answer)) in [
        (&short, "Paris"),
        (&short, "never"),
        (&long, "Berlin"),
        (&long, "never"),
    ]
    .into_iter()
    .enumerate()
    {
        let raw = exchange(&format!("x{number}"), number as i64, body, answer);
        let create = async |known: &Match| Ok::<_, Infallible>((known.depth, raw.clone()).1);
        let done = recorder
            .find_or_create_from_messages(&asked(body), create)
            .await
            .unwrap();
        told.push(match done {
            FoundOrCreated::Found { answer, alternatives } => (answer.content, Some(alternatives.len())),
            FoundOrCreated::Created { branch_point, .. } => (branch_point.is_some().to_string(), None),
        });
    }
    let expected = [("false", None), ("Paris", Some(0)), ("true", None), ("Berlin", Some(0))];
    let told: Vec<_> = told.iter().map(|(what, count)| (&**what, *count)).collect();
    assert_eq!(told, expected);
    // The new one is a child of what it goes on from.
    let view = View::new(&store, recorder.owner(), "me");
    let rows = view.rows_after(None, 10).await.unwrap();
    let shown = view.exchange(&rows[1]).await.unwrap();
    assert_eq!(shown.parent_exchange_id.as_deref(), Some("x0"));
}

/// Use case 4: all instances of a prompt, by its hash, and the path by its.
#[tokio::test]
async fn a_match_has_the_hashes_that_exchanges_are_listed_by() {
    let long = request(&["a", "b", "c"], &json!({"system": "s"}));
    let store = recorded(&[
        exchange("one", 0, &request(&["a"], &json!({"system": "s"})), "b"),
        exchange("two", 1, &long, "d"),
    ])
    .await;
    let found = matched(&store, &asked(&long)).await;
    let view = View::new(&store, store.owner("me").await.unwrap(), "me");
    let row = view.resolve_exchange("two").await.unwrap();
    let shown = view.exchange(&row).await.unwrap();
    assert_eq!(shown.prompt_hash, Some(found.prompt_hash));
    assert_eq!(shown.path_hash, Some(found.path_hash));
    assert_eq!(shown.input_node, found.input_node);
}

/// Use case 3: the answers to one input beside each other, from an exchange.
#[tokio::test]
async fn all_answers_to_one_input_are_listed() {
    let ask = |members: Value| request(&["a"], &members);
    let store = recorded(&[
        exchange("a", 0, &ask(json!({"model": "m"})), "one"),
        exchange("b", 1, &ask(json!({"model": "n", "top_k": 3})), "two"),
        exchange("c", 2, &request(&["b"], &json!({})), "other"),
    ])
    .await;
    let view = View::new(&store, store.owner("me").await.unwrap(), "me");
    let row = view.resolve_exchange("a").await.unwrap();
    let answers = view.answers_to(&row).await.unwrap();
    let shown: Vec<_> = answers
        .answers
        .iter()
        .map(|answer| (&*answer.exchange_id, &*answer.content))
        .collect();
    assert_eq!(shown, [("a", "one"), ("b", "two")]);
    assert_eq!(answers.answers[1].differs, ["options"]);
    assert_eq!(answers.answers_left_out, 0);
}

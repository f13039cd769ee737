//! The chain over real traffic: turn N with its answer is a prefix of turn N+1.

use std::collections::HashMap;

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Message, Role};
use ropewalk_testkit::captures::{CapturedExchange, captures};
use ropewalk_wire::auxiliary::{RequestKind, classify};
use ropewalk_wire::hints::Hints;
use ropewalk_wire::provider::route;
use ropewalk_wire::read_request;
use ropewalk_wire::response::decode_response;

struct Turn {
    id: String,
    /// Who speaks: session and agent where the client names them, else the file.
    thread: String,
    nodes: Vec<NodeHash>,
    /// Request and answer.
    with_answer: Vec<NodeHash>,
    continues: Option<String>,
}

/// A conversational turn that was answered; `None` for everything else.
fn turn(file: &str, exchange: &CapturedExchange) -> Option<Turn> {
    let route = route(&exchange.path);
    let provider = route.endpoint.provider()?;
    let body = read_request(provider, &Bytes::from(exchange.request_body.clone()), None).unwrap();
    let headers = exchange
        .request_headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let hints = Hints::read(headers, Some(&body.request));
    let kind = classify(&route.endpoint, &body.request, &hints).kind;
    let content_type = exchange.response_headers.get("content-type").map(String::as_str);
    let answer = decode_response(provider, exchange.status?, content_type, &exchange.response_body);
    if kind != RequestKind::Turn || !answer.complete || answer.error.is_some() {
        return None;
    }
    let message = Message {
        role: Role::Assistant,
        is_string: false,
        blocks: answer.blocks,
        extra: None,
    };
    let mut with_answer = body.nodes().to_vec();
    chain::extend(body.input_node(), &message, &mut with_answer);
    let session = hints.session.map(|session| session.id.to_string());
    Some(Turn {
        id: exchange.id.clone(),
        thread: format!("{file} {session:?} {:?} {:?}", hints.agent, hints.thread),
        nodes: body.nodes().to_vec(),
        with_answer,
        continues: None,
    })
}

/// Links each turn to the latest earlier one of its thread whose answer it contains.
fn link(turns: &mut [Turn]) {
    for index in 0..turns.len() {
        let (before, rest) = turns.split_at_mut(index);
        let contained =
            |earlier: &&Turn| earlier.thread == rest[0].thread && rest[0].nodes.starts_with(&earlier.with_answer);
        let parent = before.iter().rev().find(contained).map(|parent| parent.id.clone());
        rest[0].continues = parent;
    }
}

/// How many turns of a file contain no earlier answer of their thread: the openings of conversations and agents, the
/// fork under a new session, the request after a compaction, and those that name their history by id.
const STARTS: [(&str, usize); 22] = [
    ("ai-sdk", 3),
    ("cc-bg", 2),
    ("cc-compact", 2),
    ("cc-continue", 2),
    ("cc-drop", 1),
    ("cc-dup", 3),
    ("cc-err429", 1),
    ("cc-err500", 1),
    ("cc-hello", 1),
    ("cc-reminder-claude-opus-4-8", 1),
    ("cc-task", 2),
    ("cc-task2", 3),
    ("cc-tools", 1),
    ("cc-tools-sonnet45", 1),
    ("cc-websearch", 1),
    ("codex-hello", 1),
    ("codex-sub", 2),
    ("codex-tools", 1),
    ("codex-ws-426", 1),
    ("llm", 3),
    ("opencode", 2),
    ("py-sdk", 9),
];

#[test]
fn each_turn_with_its_answer_is_a_prefix_of_the_next() {
    let Some(files) = captures().unwrap() else { return };
    let expected: HashMap<_, _> = STARTS.into_iter().collect();
    for file in files {
        let mut turns: Vec<Turn> = file
            .exchanges
            .iter()
            .filter_map(|exchange| turn(&file.name, exchange))
            .collect();
        link(&mut turns);
        let starts: Vec<&str> = turns
            .iter()
            .filter(|turn| turn.continues.is_none())
            .map(|turn| &*turn.id)
            .collect();
        if let Some(count) = expected.get(&*file.name) {
            assert_eq!(starts.len(), *count, "{}: {starts:?}", file.name);
        }
    }
}

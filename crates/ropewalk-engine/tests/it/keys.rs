//! What linking finds an exchange by.

use ropewalk_core::chain;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::hash::sha256;
use ropewalk_core::model::{Block, Role, ToolInput, ToolUse};
use ropewalk_engine::keys::{id_key, summary_key};
use ropewalk_engine::prepare;
use ropewalk_store::NewExchange;
use ropewalk_store::facts::{HashKind, Key, KeyKind};
use ropewalk_testkit::captures::captures;

use crate::prepare::{prepared, raw};
use crate::recorded;

const ASK: &str = r#"{"model":"m","messages":[{"role":"user","content":"go"}]}"#;

fn of_kind(exchange: &NewExchange, kind: KeyKind) -> Vec<[u8; 32]> {
    let keys = exchange.keys.iter().filter(|key| key.kind == kind);
    keys.map(|key| key.hash).collect()
}

fn answered(blocks: &str) -> NewExchange {
    let response = format!(r#"{{"id":"msg_1","content":[{blocks}],"stop_reason":"end_turn"}}"#);
    prepared(&raw("/v1/messages", ASK, Some((200, &response))))
}

#[test]
fn spawning_calls_are_found_by_their_normalised_prompts() {
    let exchange = answered(
        r#"{"type":"tool_use","id":"t1","name":"Agent","input":{"subagent_type":"a","prompt":" look\r\naround "}},
           {"type":"tool_use","id":"t2","name":"Task","input":{"prompt":"<system-reminder>x</system-reminder>stay"}},
           {"type":"tool_use","id":"t3","name":"Read","input":{"prompt":"no"}}"#,
    );
    let mut expected = [sha256(b"look\naround"), sha256(b"stay")];
    expected.sort_unstable();
    assert_eq!(of_kind(&exchange, KeyKind::SpawnPrompt), expected);
}

#[test]
fn tool_calls_and_long_texts_are_anchors() {
    let long = "x".repeat(100);
    let exchange = answered(&format!(
        r#"{{"type":"text","text":"short"}},{{"type":"text","text":"{long}"}},{{"type":"tool_use","id":"t1","name":"Read","input":{{}}}}"#
    ));
    let text = Block::Text {
        text: long.into(),
        extra: None,
    };
    let call = Block::ToolUse(ToolUse {
        id: Some("t1".into()),
        name: "Read".into(),
        input: ToolInput::Json("{}".into()),
        extra: None,
    });
    let anchor = |block| {
        Key::short(
            KeyKind::Anchor,
            chain::value(Role::Assistant, &block, &|_| None).unwrap().0,
        )
        .hash
    };
    let mut expected = [text, call].map(anchor);
    expected.sort_unstable();
    assert_eq!(of_kind(&exchange, KeyKind::Anchor), expected);
    assert_eq!(of_kind(&exchange, KeyKind::Item), [id_key(KeyKind::Item, "msg_1").hash]);
    assert!(of_kind(&exchange, KeyKind::Summary).is_empty(), "it is no compaction");
}

#[test]
fn a_compaction_is_found_by_its_summary() {
    let request = r#"{"model":"m","messages":[{"role":"user","content":"work"},{"role":"assistant","content":"done"},
        {"role":"user","content":"Summarise. Use <analysis> and then <summary> tags."}]}"#;
    let summary = "we did this and that ".repeat(20);
    let response = format!(
        r#"{{"id":"msg_1","content":[{{"type":"text","text":"<analysis>a</analysis><summary>{summary}</summary>"}}],"stop_reason":"end_turn"}}"#
    );
    let exchange = prepared(&raw("/v1/messages", request, Some((200, &response))));
    assert_eq!(exchange.kind, "compaction");
    assert_eq!(
        of_kind(&exchange, KeyKind::Summary),
        [summary_key(&summary).unwrap().hash]
    );
}

#[test]
fn an_exchange_has_every_hash_but_that_of_a_parent_it_lacks() {
    let exchange = answered(r#"{"type":"text","text":"hi"}"#);
    let kinds: Vec<HashKind> = exchange.hashes.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), HashKind::ALL.len() - 1, "no parent yet: {kinds:?}");
}

#[test]
fn keys_are_sorted_and_each_there_once() {
    let exchange = answered(
        r#"{"type":"tool_use","id":"t1","name":"Task","input":{"prompt":"same"}},{"type":"tool_use","id":"t2","name":"Task","input":{"prompt":"same"}}"#,
    );
    assert!(exchange.keys.is_sorted_by(|one, other| one < other));
    assert_eq!(of_kind(&exchange, KeyKind::SpawnPrompt), [sha256(b"same")]);
}

#[test]
fn recorded_subagents_are_found_by_prompt_agent_and_session() {
    let Some(captures) = captures().unwrap() else { return };
    let exchanges: Vec<_> = captures
        .iter()
        .filter(|file| file.name == "cc-task")
        .flat_map(|file| &file.exchanges)
        .map(|captured| prepare(&recorded::raw(captured), None, &BundledPrices).exchange)
        .collect();
    let spawned: Vec<_> = exchanges
        .iter()
        .flat_map(|exchange| of_kind(exchange, KeyKind::SpawnPrompt))
        .collect();
    let child = exchanges.iter().find(|exchange| exchange.agent.is_some()).unwrap();
    let told = child.texts.first().unwrap();
    assert!(spawned.contains(&sha256(told.text().trim().as_bytes())));
    let has = |key: Key| child.keys.contains(&key);
    assert!(has(id_key(KeyKind::Agent, child.agent.as_deref().unwrap())));
    let session = child.session.as_deref().unwrap();
    assert!(has(id_key(KeyKind::Session, session)));
    // The main agent goes by its session's id.
    let main = exchanges.iter().find(|exchange| exchange.agent.is_none()).unwrap();
    assert!(main.keys.contains(&id_key(KeyKind::Agent, session)));
    assert!(!has(id_key(KeyKind::Agent, session)));
}

#[test]
fn output_items_are_found_by_their_ids() {
    let response = r#"{"id":"resp_1","object":"response","status":"completed","output":[
        {"id":"msg_a","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi"}]},
        {"id":"fc_b","type":"function_call","call_id":"call_b","name":"f","arguments":"{}","status":"completed"}]}"#;
    let exchange = prepared(&raw(
        "/v1/responses",
        r#"{"model":"m","input":"go"}"#,
        Some((200, response)),
    ));
    let mut expected = ["resp_1", "msg_a", "fc_b"].map(|id| id_key(KeyKind::Item, id).hash);
    expected.sort_unstable();
    assert_eq!(of_kind(&exchange, KeyKind::Item), expected);
}

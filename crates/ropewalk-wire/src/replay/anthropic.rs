//! Messages: a start, blocks that start, grow and stop, what ended it, and a stop.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};

use super::{event, object};
use crate::stream::anthropic::OpenBlock;
use crate::stream::growing::Growing;

/// The message that events make.
pub(super) fn whole(datas: &[String]) -> Option<String> {
    let mut message: Option<Growing> = None;
    let mut blocks: BTreeMap<u64, OpenBlock> = BTreeMap::new();
    for data in datas {
        let doc = Doc::parse_str(data).ok()?;
        let event = doc.root();
        let index = event.get("index").and_then(|index| index.as_u64());
        match &*event.get_str("type")? {
            "message_start" => message = Some(Growing::of(event.get("message")?)),
            "content_block_start" => {
                blocks.insert(index?, OpenBlock::start(event.get("content_block")?));
            }
            "content_block_delta" => blocks.get_mut(&index?)?.delta(event.get("delta")?),
            "message_delta" => {
                let message = message.as_mut()?;
                for (name, value) in event.get("delta")?.members() {
                    *message.member(&name.to_text()?)? = Growing::of(value);
                }
                let usage = event.get("usage").into_iter().flat_map(|usage| usage.members());
                for (name, value) in usage.filter(|(_, value)| !value.is_null()) {
                    *message.member("usage")?.member(&name.to_text()?)? = Growing::of(value);
                }
            }
            _ => {}
        }
    }
    let mut message = message?;
    let blocks: Vec<String> = blocks.values().map(OpenBlock::to_json).collect();
    *message.member("content")? = Growing::raw(format!("[{}]", blocks.join(",")));
    Some(message.to_json())
}

/// The events of a message.
pub(super) fn events(message: Node<'_>) -> Option<String> {
    let usage = message.get("usage").map_or("{}", |usage| usage.raw());
    let begun = message.members().map(|(name, value)| {
        let name = name.to_text().unwrap_or_default();
        let json = match &*name {
            "content" => "[]",
            "stop_reason" | "stop_sequence" => "null",
            _ => value.raw(),
        };
        (name, json.to_owned())
    });
    let begun: Vec<(String, String)> = begun.collect();
    let begun = object(begun.iter().map(|(name, json)| (&**name, json.clone())));
    let mut out = event(
        "message_start",
        &format!(r#"{{"type":"message_start","message":{begun}}}"#),
    );
    for (index, block) in message.get("content")?.items().enumerate() {
        block_events(index, block, &mut out);
    }
    let said = |name: &str| message.get(name).map_or("null", |value| value.raw()).to_owned();
    let (reason, sequence) = (said("stop_reason"), said("stop_sequence"));
    out.push_str(&event(
        "message_delta",
        &format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":{sequence}}},"usage":{usage}}}"#
        ),
    ));
    out.push_str(&event("message_stop", r#"{"type":"message_stop"}"#));
    Some(out)
}

/// (member, what it is at the start, its delta, the delta's member)
type Grows = (&'static str, &'static str, &'static str, &'static str);

fn block_events(index: usize, block: Node<'_>, out: &mut String) {
    let grows: &[Grows] = match &*block.get_str("type").unwrap_or_default() {
        "text" => &[
            ("citations", "[]", "citations_delta", "citation"),
            ("text", "\"\"", "text_delta", "text"),
        ],
        "thinking" => &[
            ("thinking", "\"\"", "thinking_delta", "thinking"),
            ("signature", "\"\"", "signature_delta", "signature"),
        ],
        "tool_use" | "server_tool_use" | "mcp_tool_use" => &[("input", "{}", "input_json_delta", "partial_json")],
        _ => &[],
    };
    let grown = |name: &str| grows.iter().find(|(member, ..)| *member == name);
    let begun = block.members().map(|(name, value)| {
        let name = name.to_text().unwrap_or_default();
        let json = match grown(&name) {
            Some((_, start, ..)) if !value.is_null() => *start,
            _ => value.raw(),
        };
        (name, json.to_owned())
    });
    let begun: Vec<(String, String)> = begun.collect();
    let begun = object(begun.iter().map(|(name, json)| (&**name, json.clone())));
    out.push_str(&event(
        "content_block_start",
        &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{begun}}}"#),
    ));
    for (member, _, delta, to) in grows {
        for json in deltas(block, member) {
            out.push_str(&event(
                "content_block_delta",
                &format!(
                    r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{delta}","{to}":{json}}}}}"#
                ),
            ));
        }
    }
    out.push_str(&event(
        "content_block_stop",
        &format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
    ));
}

/// What the deltas of a member bring: a text in one piece, an input as a text of JSON, citations one by one.
fn deltas(block: Node<'_>, member: &str) -> Vec<String> {
    let Some(value) = block.get(member).filter(|value| !value.is_null()) else {
        return Vec::new();
    };
    match member {
        "citations" => value.items().map(|citation| citation.raw().to_owned()).collect(),
        "input" => vec![ropewalk_core::json::quote(
            value.raw(),
            ropewalk_core::json::Style::Plain,
        )],
        _ => vec![value.raw().to_owned()],
    }
}

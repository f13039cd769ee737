//! When the tool calls of a stream were complete, from when its bytes came.

use std::borrow::Cow;

use ropewalk_core::model::{Block, Provider, Response};
use ropewalk_store::Micros;
use ropewalk_wire::response::decode_response;

use crate::raw::RawExchange;
use crate::spawn::SpawnTools;

/// When each spawning call was complete: as the exchange says, else from the arrivals.
///
/// The earliest arrival by which a call read as it does in the end is searched by halving, so a spawning answer is decoded
/// about ten times more, and every other answer not once.
pub(crate) fn spawned_at<'r>(
    raw: &'r RawExchange,
    provider: Provider,
    answer: Option<&Response>,
    tools: &SpawnTools,
) -> Cow<'r, [(String, Micros)]> {
    let arrivals = &raw.witness.arrivals;
    let (Some(answer), Some(body)) = (answer, &raw.response_body) else {
        return Cow::Borrowed(&raw.spawned_at);
    };
    if arrivals.is_empty() || !raw.spawned_at.is_empty() {
        return Cow::Borrowed(&raw.spawned_at);
    }
    let content_type = raw.response_header("content-type");
    let is_complete = |offset: u64, id: &str, call: &Block| {
        let length = usize::try_from(offset).unwrap_or(usize::MAX).min(body.len());
        let so_far = decode_response(provider, 200, content_type, &body[..length]);
        so_far
            .blocks
            .iter()
            .any(|block| tool_id(block) == Some(id) && block == call)
    };
    let calls = tools.calls(&answer.blocks).into_iter();
    let times = calls.filter_map(|call| {
        let (id, block) = (call.tool_use_id?, answer.blocks.get(call.index)?);
        let first = arrivals.partition_point(|(offset, _)| !is_complete(*offset, &id, block));
        Some((id.into(), arrivals.get(first)?.1))
    });
    Cow::Owned(times.collect())
}

fn tool_id(block: &Block) -> Option<&str> {
    match block {
        Block::ToolUse(call) => call.id.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ropewalk_core::cost::BundledPrices;
    use ropewalk_wire::exchange::ExchangeLine;

    use super::*;
    use crate::prepare::prepare;

    #[test]
    fn a_spawn_is_as_old_as_the_end_of_its_call() {
        let call = |index: usize, id: &str, prompt: &str| {
            [
                format!(
                    r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{id}","name":"Task","input":{{}}}}}}"#
                ),
                format!(
                    r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":"{{\"prompt\":"}}}}"#
                ),
                format!(
                    r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":"\"{prompt}\"}}"}}}}"#
                ),
                format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
            ]
        };
        let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}"#;
        let mut events = vec![start.to_owned()];
        events.extend(call(0, "toolu_1", "one"));
        events.extend(call(1, "toolu_2", "two"));
        events.push(r#"{"type":"message_stop"}"#.to_owned());
        let line = br#"{"v":1,"id":"x","at":"1970-01-01T00:00:00Z","path":"/v1/messages","request":{"body":{"model":"claude","messages":[{"role":"user","content":"go"}]}}}"#;
        let mut raw = RawExchange::try_from(ExchangeLine::parse(line).unwrap()).unwrap();
        let mut body = String::new();
        for (second, event) in (1..).zip(&events) {
            body.push_str(&format!("data: {event}\n\n"));
            raw.witness
                .arrivals
                .push((body.len() as u64, Micros(second * 1_000_000)));
        }
        raw.response_body = Some(Bytes::from(body));
        raw.response_headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        raw.status = Some(200);
        raw.ended_at = Some(Micros(60_000_000));
        let exchange = prepare(&raw, None, &BundledPrices).exchange;
        let spawns: Vec<_> = exchange
            .spawns
            .iter()
            .map(|spawn| (spawn.call.as_deref(), spawn.at.0 / 1_000_000))
            .collect();
        // The event with the last of its input, or the one that closes the block.
        assert!(
            [4, 5].contains(&spawns[0].1) && [8, 9].contains(&spawns[1].1),
            "{spawns:?}"
        );
        assert_eq!((spawns[0].0, spawns[1].0), (Some("toolu_1"), Some("toolu_2")));
        assert!(exchange.detail.contains("toolu_2"));
    }
}

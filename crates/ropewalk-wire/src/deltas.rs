//! Where a body spells texts in pieces.
//!
//! An answer that is streamed has no place where a text stands whole: it grows by deltas. [`read`] finds the JSON values in a
//! body and, for each text that grows, the literals that it is joined from, so that what is looked for in the text can be
//! changed in its pieces. It knows the providers' places for deltas and nothing else about the answer.
//!
//! Invariants: ranges are places in the body, at the boundaries of characters; the values do not overlap; each range of a
//! channel is the inside of one string literal within one of the values, and no literal is in two channels.

use std::collections::BTreeMap;
use std::ops::Range;

use ropewalk_core::json::{Doc, Node, parse_value_at};

use crate::stream_split::{data_line, events, looks_like_events};

/// Members of a delta that name something and do not grow.
const NAMES: [&str; 6] = ["id", "type", "role", "name", "index", "call_id"];

/// Members that say which text a Responses event continues.
const RESPONSES_PLACE: [&str; 5] = ["type", "item_id", "output_index", "content_index", "summary_index"];

/// The values of a body and the texts that grow over several of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// JSON values, in the order of the body. What lies between them is framing, or no JSON at all.
    pub values: Vec<Range<usize>>,
    /// Texts of more than one piece: the insides of string literals, in their order.
    pub channels: Vec<Vec<Range<usize>>>,
    /// The body is server-sent events: what lies between the values is lines with fields.
    pub is_events: bool,
}

/// Finds the values and channels of a body: one JSON value, server-sent events, or neither.
pub fn read(body: &str) -> Layout {
    if looks_like_events(body) {
        return of_events(body);
    }
    let Ok(doc) = Doc::parse_str(body) else {
        return Layout::default();
    };
    let mut channels = Channels::default();
    // Gemini streams an array of chunks where it is not asked for events.
    for chunk in doc.root().items() {
        channels.event(chunk);
    }
    Layout {
        values: vec![doc.root().range()],
        channels: channels.finish(),
        is_events: false,
    }
}

/// Whether texts may be spread over several values of this body.
pub fn may_spell(body: &[u8]) -> bool {
    let start = body.iter().position(|byte| !byte.is_ascii_whitespace());
    start.is_some_and(|start| body[start] != b'{')
}

fn of_events(body: &str) -> Layout {
    let mut values = Vec::new();
    let mut channels = Channels::default();
    for event in events(body) {
        let Some(line) = data_line(body, &event) else { continue };
        let Ok((doc, end)) = parse_value_at(&body[..line.end], line.start) else {
            continue;
        };
        if body[end..line.end].trim().is_empty() {
            values.push(doc.root().range());
            channels.event(doc.root());
        }
    }
    Layout {
        values,
        channels: channels.finish(),
        is_events: true,
    }
}

/// Pieces by the text that they belong to.
#[derive(Debug, Default)]
struct Channels(BTreeMap<String, Vec<Range<usize>>>);

impl Channels {
    fn event(&mut self, event: Node<'_>) {
        if let Some(delta) = event.get("delta") {
            if delta.is_string() {
                let place = RESPONSES_PLACE.iter().map(|name| raw(event, name));
                self.piece(place.collect::<Vec<_>>().join(" "), delta);
            } else {
                self.members(&format!("block {}", raw(event, "index")), delta);
            }
        }
        if let Some(block) = event.get("content_block") {
            self.members(&format!("block {}", raw(event, "index")), block);
        }
        for choice in items(event, "choices") {
            let place = format!("choice {}", raw(choice, "index"));
            if let Some(delta) = choice.get("delta") {
                self.members(&place, delta);
            }
            if let Some(text) = choice.get("text") {
                self.piece(place, text);
            }
        }
        for candidate in items(event, "candidates") {
            let parts = candidate.get("content").map(|content| items(content, "parts"));
            for part in parts.into_iter().flatten() {
                let place = format!("candidate {} {}", raw(candidate, "index"), raw(part, "thought"));
                if let Some(text) = part.get("text") {
                    self.piece(place, text);
                }
            }
        }
    }

    /// Every string below a delta grows, but for those that name something.
    fn members(&mut self, place: &str, object: Node<'_>) {
        for (name, value) in object.members() {
            let Some(name) = name.as_str().filter(|name| !NAMES.contains(&&**name)) else {
                continue;
            };
            let place = format!("{place}.{name}");
            if value.is_string() {
                self.piece(place, value);
                continue;
            }
            self.members(&place, value);
            for (position, item) in value.items().enumerate() {
                let index = item
                    .get("index")
                    .map_or(position.to_string(), |index| index.raw().to_owned());
                self.members(&format!("{place}[{index}]"), item);
            }
        }
    }

    fn piece(&mut self, place: String, string: Node<'_>) {
        if string.is_string() {
            let range = string.range();
            self.0.entry(place).or_default().push(range.start + 1..range.end - 1);
        }
    }

    fn finish(self) -> Vec<Vec<Range<usize>>> {
        // A text of one piece is a string like any other.
        self.0.into_values().filter(|pieces| pieces.len() > 1).collect()
    }
}

fn items<'d>(node: Node<'d>, name: &str) -> impl Iterator<Item = Node<'d>> + use<'d> {
    node.get(name).into_iter().flat_map(|list| list.items())
}

fn raw<'d>(node: Node<'d>, name: &str) -> &'d str {
    node.get(name).map_or("", |value| value.raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the channels, by place.
    #[track_caller]
    fn check(body: &str, values: usize, texts: &[&str]) {
        let layout = read(body);
        assert_eq!(layout.values.len(), values);
        let mut joined: Vec<String> = layout
            .channels
            .iter()
            .map(|pieces| pieces.iter().map(|piece| &body[piece.clone()]).collect())
            .collect();
        joined.sort();
        assert_eq!(joined, texts);
    }

    #[test]
    fn finds_the_texts_of_every_format() {
        check(
            "event: x\ndata: {\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n\
             data: {\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"b\"}}\n\n\
             data: {\"index\":1,\"delta\":{\"partial_json\":\"1\"}}\n\ndata: {\"index\":1,\"delta\":{\"partial_json\":\"2\"}}\n\n\
             data: {\"index\":0,\"delta\":{\"text\":\"c\"}}\n\n",
            5,
            &["12", "abc"],
        );
        check(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}},{\"index\":1,\"delta\":{\"content\":\"x\"}}]}\n\n\
             data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"y\"}}]}\n\n\
             data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\",\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"f\",\"arguments\":\"1\"}}]}}]}\n\n\
             data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"2\"}}]}}]}\n\ndata: [DONE]\n\n",
            4,
            &["12", "ab", "xy"],
        );
        check(
            "data: {\"type\":\"t\",\"item_id\":\"1\",\"delta\":\"a\"}\n\ndata: {\"type\":\"t\",\"item_id\":\"2\",\"delta\":\"x\"}\n\n\
             data: {\"type\":\"t\",\"item_id\":\"1\",\"delta\":\"b\",\"sequence_number\":3}\n\n",
            3,
            &["ab"],
        );
        check(
            "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]},\n{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"t\",\"thought\":true},{\"text\":\"b\"}]}}]}]",
            1,
            &["ab"],
        );
    }

    #[test]
    fn a_plain_body_is_one_value_and_rubbish_is_none() {
        check("{\"a\":[\"b\"]}", 1, &[]);
        check("{\"a\":", 0, &[]);
        check("data: {\"delta\":\n\ndata: x\n\n: {}\n\n", 0, &[]);
        assert!(!may_spell(b" {\"a\":1}"));
        assert!(may_spell(b"data: 1") && may_spell(b"[1]"));
    }
}

//! A message without what it says: the same shape, so that it can be read, with nothing in it.
//!
//! Every string becomes [`BLANK`] and every number 0, but for the few members that say what a block is and which others it belongs
//! to; what a tool was called with becomes an empty object. All other bytes of the body stay.

use std::ops::Range;

use ropewalk_core::json::{Doc, JsonError, Node};

/// What stands in the place of a text.
pub const BLANK: &str = "[forgotten]";

/// Members that are kept: roles, kinds, and the ids and names by which blocks and calls find each other.
const KEPT: [&str; 12] = [
    "role",
    "type",
    "id",
    "name",
    "tool_use_id",
    "tool_call_id",
    "call_id",
    "media_type",
    "mimeType",
    "mime_type",
    "status",
    "format",
];

/// Members that are what a tool was called with: an object, or one as a text.
const CALLED_WITH: [&str; 3] = ["input", "arguments", "args"];

/// The body with the messages at these places blank. The places are those of whole JSON values, in order.
pub fn blanked(body: &[u8], places: &[Range<usize>]) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::with_capacity(body.len());
    let mut done = 0;
    for place in places {
        let Some(message) = body.get(place.clone()).filter(|_| place.start >= done) else {
            continue;
        };
        out.extend_from_slice(&body[done..place.start]);
        let doc = Doc::parse(message)?;
        blank(doc.root(), &mut out);
        done = place.end;
    }
    out.extend_from_slice(&body[done..]);
    Ok(out)
}

fn blank(node: Node<'_>, out: &mut Vec<u8>) {
    if node.is_object() {
        out.push(b'{');
        for (index, (name, value)) in node.members().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name.raw().as_bytes());
            out.push(b':');
            let is = |known: &[&str]| known.iter().any(|known| name.is(known));
            if is(&KEPT) && !value.is_object() && !value.is_array() {
                out.extend_from_slice(value.raw().as_bytes());
            } else if is(&CALLED_WITH) && value.is_string() {
                out.extend_from_slice(br#""{}""#);
            } else if is(&CALLED_WITH) && value.is_object() {
                out.extend_from_slice(b"{}");
            } else {
                blank(value, out);
            }
        }
        out.push(b'}');
    } else if node.is_array() {
        out.push(b'[');
        for (index, item) in node.items().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            blank(item, out);
        }
        out.push(b']');
    } else if node.is_string() {
        out.push(b'"');
        out.extend_from_slice(BLANK.as_bytes());
        out.push(b'"');
    } else if node.is_number() {
        out.push(b'0');
    } else {
        // true, false, null.
        out.extend_from_slice(node.raw().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &str) {
        let body = format!("[1, {message} ,2]");
        let place = 4..4 + message.len();
        let blanked = blanked(body.as_bytes(), &[place]).unwrap();
        assert_eq!(String::from_utf8(blanked).unwrap(), format!("[1, {expected} ,2]"));
    }

    #[test]
    fn nothing_that_was_said_is_left_and_the_shape_stays() {
        check(r#""a text""#, r#""[forgotten]""#);
        check(
            r#"{"role":"user","content":"the code is 4711"}"#,
            r#"{"role":"user","content":"[forgotten]"}"#,
        );
        check(
            r#"{"role": "assistant", "content": [{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","n":7}}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"[forgotten]"},{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}"#,
        );
        check(
            r#"{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}"#,
            r#"{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"[forgotten]"}}]}"#,
        );
        check(
            r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}],"seen":3}"#,
            r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"seen":0}"#,
        );
    }
}

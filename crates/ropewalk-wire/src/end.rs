//! The last messages of a request, read from the end of its body.
//!
//! A request repeats everything that was said before it, so what it adds stands near its end: behind it are only the members that come
//! after the messages. JSON can be read backwards without knowing how it begins, since a quote that no backslash escapes always
//! bounds a string. What an array is called stands before it, though, and may be out of sight: messages are told by what they look
//! like, and who asks has to compare their values with the chain.

use std::sync::Arc;

use ropewalk_core::hash::ValueHash;
use ropewalk_core::json::{Node, parse_value_at};
use ropewalk_core::model::{Message, Provider};

use crate::assemble;
use crate::body::{Said, Section, read_element};

/// Messages that a request ends with, in order, each with the values of its blocks in the chain.
pub type LastMessages = Vec<(Arc<Message>, Vec<ValueHash>)>;

/// Reads the last messages that together have at least so many blocks in the chain; all of them where there are fewer. `None` where
/// `end`, the last bytes of a body, does not have them, or is no request.
pub fn read_last_messages(provider: Provider, end: &[u8], blocks: usize) -> Option<LastMessages> {
    let mut at = before_space(end, end.len());
    at = before(end, at, b'}')?;
    loop {
        // The value of a member, from the last to the first.
        let value = Array::ending_at(end, at);
        if let Some(array) = &value
            && let Some(messages) = array.messages(provider, blocks)?
        {
            return Some(messages);
        }
        let key = before(end, start_of_value(end, at)?, b':')?;
        at = before(end, start_of_value(end, key)?, b',')?;
    }
}

/// An array whose end is in sight.
struct Array<'b> {
    bytes: &'b [u8],
    /// Where its `]` stands.
    end: usize,
}

impl<'b> Array<'b> {
    fn ending_at(bytes: &'b [u8], at: usize) -> Option<Self> {
        let end = before(bytes, at, b']')?;
        Some(Array { bytes, end })
    }

    /// Its last elements, if they are messages: `Some(None)` where they are not.
    fn messages(&self, provider: Provider, blocks: usize) -> Option<Option<LastMessages>> {
        let mut messages: LastMessages = Vec::new();
        let (mut at, mut found) = (before_space(self.bytes, self.end), 0);
        let mut scratch = String::new();
        while self.bytes.get(at.checked_sub(1)?) != Some(&b'[') {
            let start = start_of_value(self.bytes, at)?;
            let text = std::str::from_utf8(&self.bytes[start..at]).ok()?;
            let (doc, _) = parse_value_at(text, 0).ok()?;
            if messages.is_empty() && !is_message(provider, doc.root()) {
                return Some(None);
            }
            let element = read_element(provider, Section::Messages, text, doc.root(), &mut scratch);
            if let Said::Message(message) = element.said {
                found += element.values.len();
                messages.push((message, element.values));
            }
            if found >= blocks && found > 0 {
                messages.reverse();
                return Some(Some(messages));
            }
            at = before_space(self.bytes, start);
            if self.bytes.get(at.checked_sub(1)?) == Some(&b',') {
                at = before_space(self.bytes, at - 1);
            }
        }
        // All of them: then its name is in sight.
        let colon = before(self.bytes, at - 1, b':')?;
        let start = start_of_value(self.bytes, colon)?;
        let text = std::str::from_utf8(&self.bytes[start..colon]).ok()?;
        let (key, _) = parse_value_at(text, 0).ok()?;
        let key = key.root().to_text()?;
        messages.reverse();
        let is_section = assemble::section(provider, &key) == Some(Section::Messages);
        Some(is_section.then_some(messages))
    }
}

/// Whether an element of some array looks like a message rather than a tool or a block.
fn is_message(provider: Provider, element: Node<'_>) -> bool {
    let has = |key: &str| element.get(key).is_some();
    match provider {
        Provider::Anthropic | Provider::OpenAiChat => has("role"),
        Provider::Gemini => has("parts"),
        Provider::OpenAiResponses => has("role") || has("call_id") || has("id") || has("summary"),
    }
}

/// Where the value that ends at `end` begins; `None` where that is out of sight. Right for JSON, whatever it is for others.
fn start_of_value(bytes: &[u8], end: usize) -> Option<usize> {
    let mut at = before_space(bytes, end);
    let mut depth = 0_usize;
    loop {
        let last = at.checked_sub(1)?;
        match bytes[last] {
            b'"' => at = start_of_string(bytes, last)?,
            b']' | b'}' => {
                depth += 1;
                at = last;
                continue;
            }
            b'[' | b'{' => {
                depth = depth.checked_sub(1)?;
                at = last;
            }
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => {
                at = last;
                continue;
            }
            _ => at = start_of_word(bytes, at)?,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The opening quote of the string whose closing quote stands at `closing`.
fn start_of_string(bytes: &[u8], closing: usize) -> Option<usize> {
    let mut at = closing;
    loop {
        at = memchr::memrchr(b'"', &bytes[..at])?;
        let escapes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            // Backslashes up to the edge may go on beyond it.
            return (escapes < at).then_some(at);
        }
    }
}

/// A number, `true`, `false` or `null`.
fn start_of_word(bytes: &[u8], end: usize) -> Option<usize> {
    let is_bound = |byte: &u8| matches!(byte, b',' | b':' | b'[' | b'{' | b' ' | b'\n' | b'\r' | b'\t' | b'"');
    bytes[..end].iter().rposition(is_bound).map(|bound| bound + 1)
}

fn before_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = at.checked_sub(1).and_then(|last| bytes.get(last)) {
        at -= 1;
    }
    at
}

/// Where `expected` stands, which must be the last before `at` but for white space.
fn before(bytes: &[u8], at: usize, expected: u8) -> Option<usize> {
    let last = before_space(bytes, at).checked_sub(1)?;
    (bytes.get(last) == Some(&expected)).then_some(last)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::read_request;

    /// From every length of the end, for every number of blocks: nothing, or exactly what the whole body ends with.
    #[track_caller]
    fn check(provider: Provider, body: &str) {
        let read = read_request(provider, &Bytes::copy_from_slice(body.as_bytes()), None).unwrap();
        let mut values = read.values();
        let whole: LastMessages = read
            .messages()
            .map(|(message, count)| (Arc::clone(message), values.by_ref().take(count).collect()))
            .collect();
        let depth: usize = whole.iter().map(|(_, values)| values.len()).sum();
        for blocks in 1..=depth {
            let mut has_found = false;
            for length in 0..=body.len() {
                let end = &body.as_bytes()[body.len() - length..];
                let Some(messages) = read_last_messages(provider, end, blocks) else {
                    assert!(!has_found, "more bytes have fewer messages");
                    continue;
                };
                has_found = true;
                assert_eq!(
                    messages,
                    whole[whole.len() - messages.len()..],
                    "{length} bytes, {blocks} blocks"
                );
                let found: usize = messages.iter().map(|(_, values)| values.len()).sum();
                assert!(found >= blocks);
                assert!(
                    messages.len() == 1 || found - messages[0].1.len() < blocks,
                    "no more than was asked for"
                );
            }
            assert!(has_found, "the whole body has {blocks} blocks");
        }
    }

    #[test]
    fn the_end_of_a_body_has_its_last_messages() {
        check(
            Provider::Anthropic,
            r#" {"model":"m","messages":[{"role":"user","content":"a \\"},{"role":"assistant","content":[{"type":"text","text":"say \"b\" [ \\"},
                {"type":"tool_use","id":"t1","name":"Read","input":{"path":"/}]"}}] } , {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",
                "content":[{"type":"text","text":"häh\\\"]}"}]},{"type":"text","text":"go on"}]}],"system":[{"type":"text","text":"you are"}],
                "tools":[{"name":"Read","input_schema":{"type":"object","properties":{"role":{"type":"string"}}}}],"stop_sequences":[],
                "stream":true,"max_tokens":12,"metadata":null}
"#,
        );
        check(
            Provider::OpenAiChat,
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"assistant","content":null,"tool_calls":
                [{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}],
                "tools":[{"type":"function","function":{"name":"f"}}],"model":"m"}"#,
        );
        check(
            Provider::OpenAiResponses,
            r#"{"input":[{"role":"user","content":"q"},{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"c","output":"x"}],"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"model":"m"}"#,
        );
        check(
            Provider::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"a"}]},{"parts":[{"text":"and?"}]}],
                "tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"stopSequences":["]"]}}"#,
        );
    }

    #[test]
    fn what_is_no_request_has_no_last_messages() {
        for body in [
            "",
            "{",
            "}",
            "]}",
            "{}",
            r#"{"model":"m"}"#,
            r#"{"tools":[{"name":"a"}]}"#,
            "\"}",
            ":[]}",
            "[]}",
        ] {
            assert_eq!(
                read_last_messages(Provider::Anthropic, body.as_bytes(), 1),
                None,
                "{body}"
            );
        }
        let none = read_last_messages(Provider::Anthropic, br#"{"messages":[]}"#, 1);
        assert_eq!(none, Some(Vec::new()));
    }
}

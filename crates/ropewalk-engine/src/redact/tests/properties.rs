//! What holds for every body.

use proptest::prelude::*;
use ropewalk_core::json::Doc;
use ropewalk_testkit::upstream::{Encoding, encode};
use serde_json::Value;

use super::*;
use crate::decode::{DecodeLimits, decode};

/// Text without secrets, with everything that needs escaping.
fn clean_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z ]{1,12}",
        Just("\n".to_owned()),
        Just("\"quoted\" \\ and é😀".to_owned()),
        Just("task-force https://example.org/x ".to_owned()),
        Just("<b>&amp;</b>\t".to_owned()),
        Just("\u{2028}\u{7f}".to_owned()),
    ];
    prop::collection::vec(word, 0..6).prop_map(|words| words.concat())
}

fn any_sample() -> impl Strategy<Value = Sample> {
    prop::sample::select(SAMPLES.to_vec())
}

/// (text, its secret): something, the secret between characters that no token has, something.
fn dirty_text() -> impl Strategy<Value = (String, Sample)> {
    let edge = prop::sample::select(vec![" ", "\n", "\"", "'", "=", "(", ",", "é"]);
    (clean_text(), edge.clone(), any_sample(), edge, clean_text()).prop_map(|(start, before, sample, after, end)| {
        (format!("{start}{before}{}{after}{end}", sample.secret()), sample)
    })
}

/// A literal in which any character may be written as an escape.
fn literal(text: &str, escapes: &[bool]) -> String {
    let mut out = String::from("\"");
    for (c, escape) in text.chars().zip(escapes.iter().cycle()) {
        if *escape {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        } else {
            let quoted = serde_json::to_string(&c).unwrap();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
    out.push('"');
    out
}

fn expected_text(text: &str, sample: &Sample) -> String {
    let secret = sample.secret();
    text.replace(&secret, &placeholder::write(sample.name, secret.as_bytes(), &key()))
}

fn body_of(place: usize, literal: &str) -> String {
    match place {
        0 => format!(r#"{{"messages":[{{"role":"user","content":{literal}}}],"n":1.0}}"#),
        1 => format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":{literal},"cache_control":{{}}}}]}}]}}"#
        ),
        2 => format!(r#"{{"content":[{{"type":"tool_result","tool_use_id":"t","content":{literal}}}]}}"#),
        3 => format!("{{ {literal} : [1, null]}}\n"),
        _ => literal.to_owned(),
    }
}

fn replaced(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::String(text) if text == from => Value::String(to.to_owned()),
        Value::Array(items) => items.iter().map(|item| replaced(item, from, to)).collect(),
        Value::Object(members) => {
            let name = |name: &String| if name == from { to.to_owned() } else { name.clone() };
            Value::Object(
                members
                    .iter()
                    .map(|(key, value)| (name(key), replaced(value, from, to)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// Events that spell a text, in the manner of four formats, with as many pieces as cuts.
fn stream_of(format: usize, pieces: &[String]) -> String {
    let mut out = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        let text = serde_json::to_string(piece).unwrap();
        out.push_str(&match format {
            0 => format!("event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}\n\n"),
            1 => format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":1,\"function\":{{\"arguments\":{text}}}}}]}}}}],\"obfuscation\":\"{number}\"}}\n\n"),
            2 => format!("data: {{\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"delta\":{text},\"sequence_number\":{number}}}\r\n\r\n"),
            _ => format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":{text}}}]}}}}],\"usageMetadata\":{{\"n\":{number}}}}}\n\n"),
        });
    }
    out + ": the end\n\n"
}

/// The strings at the places of deltas joined, and the stream without them.
fn spelled(stream: &str) -> (String, String) {
    let (mut text, mut rest) = (String::new(), String::new());
    for line in stream.split_inclusive('\n') {
        let Some(data) = line.strip_prefix("data: ") else {
            rest.push_str(line);
            continue;
        };
        let doc = Doc::parse_str(data).unwrap();
        let delta = doc.strings().find(|string| {
            let before = &data[..string.range().start];
            ["\"text\":", "\"arguments\":", "\"delta\":"]
                .iter()
                .any(|name| before.ends_with(name))
        });
        let delta = delta.unwrap();
        text.push_str(&delta.as_str().unwrap());
        rest.push_str(&data[..delta.range().start]);
        rest.push_str(&data[delta.range().end..]);
    }
    (text, rest)
}

/// The text in pieces that end after these numbers of characters.
fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut chars = text.chars().peekable();
    let mut sizes = sizes.iter().cycle();
    let mut pieces = Vec::new();
    while chars.peek().is_some() {
        pieces.push(chars.by_ref().take(*sizes.next().unwrap()).collect());
    }
    pieces
}

proptest! {
    #[test]
    fn no_secret_survives_in_json_and_nothing_else_changes(
        (text, sample) in dirty_text(),
        place in 0_usize..5,
        escapes in prop::collection::vec(prop::bool::weighted(0.2), 1..20),
    ) {
        let body = body_of(place, &literal(&text, &escapes));
        let redactor = builtin();
        let result = redacted(&redactor, &body);
        let expected = replaced(&serde_json::from_str(&body).unwrap(), &text, &expected_text(&text, &sample));
        prop_assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), expected);
        // The bytes around the secret are those that were there.
        let range = placeholder::ranges(result.as_bytes()).next().unwrap();
        prop_assert!(body.starts_with(&result[..range.start]) && body.ends_with(&result[range.end..]));
    }

    #[test]
    fn no_secret_survives_in_json_within_json((text, sample) in dirty_text()) {
        let arguments = serde_json::to_string(&serde_json::json!({"command": text})).unwrap();
        let body = serde_json::to_string(&serde_json::json!({"arguments": arguments})).unwrap();
        let result = redacted(&builtin(), &body);
        prop_assert!(!result.contains(&sample.secret()));
        let outer: Value = serde_json::from_str(&result).unwrap();
        let inner: Value = serde_json::from_str(outer["arguments"].as_str().unwrap()).unwrap();
        prop_assert_eq!(inner["command"].as_str().unwrap(), expected_text(&text, &sample));
    }

    #[test]
    fn no_secret_survives_in_any_chunking_of_a_stream(
        (text, sample) in dirty_text(),
        format in 0_usize..4,
        sizes in prop::collection::vec(1_usize..9, 1..6),
        encoding in prop::sample::select(Encoding::ALL.to_vec()),
    ) {
        let stream = stream_of(format, &cut(&text, &sizes));
        let sent = Bytes::from(encode(encoding, [Bytes::from(stream.clone())]).concat());
        let decoded = decode(&sent, encoding.name(), &DecodeLimits::default());
        let result = redacted(&builtin(), str::from_utf8(&decoded.bytes).unwrap());
        let (before, after) = (spelled(&stream), spelled(&result));
        prop_assert_eq!(&after.0, &expected_text(&text, &sample));
        prop_assert_eq!(after.1, before.1);
        prop_assert_eq!(count_redactions(result.as_bytes()), 1);
    }

    #[test]
    fn a_text_is_redacted_alike_wherever_it_stands(
        (text, _) in dirty_text(),
        format in 0_usize..4,
        sizes in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let redactor = builtin();
        let alone: String = serde_json::from_str(&redacted(&redactor, &serde_json::to_string(&text).unwrap())).unwrap();
        let streamed = redacted(&redactor, &stream_of(format, &cut(&text, &sizes)));
        prop_assert_eq!(spelled(&streamed).0, alone);
    }

    #[test]
    fn text_without_secrets_is_not_touched(text in clean_text(), place in 0_usize..5, format in 0_usize..4) {
        let redactor = builtin();
        for body in [body_of(place, &literal(&text, &[false])), stream_of(format, &cut(&text, &[3])), text] {
            let body = Bytes::from(body);
            prop_assert_eq!(redactor.body(&body, &key()).bytes.as_ptr(), body.as_ptr());
        }
    }

    #[test]
    fn rubbish_never_panics_and_is_redacted_once(bytes in prop::collection::vec(any::<u8>(), 0..300), sample in any_sample(), at in 0_usize..300) {
        let redactor = builtin();
        let mut bytes = bytes;
        let secret = format!(" {} ", sample.secret());
        let at = at.min(bytes.len());
        bytes.splice(at..at, secret.bytes());
        let once = redactor.body(&Bytes::from(bytes), &key());
        prop_assert!(memchr::memmem::find(&once.bytes, sample.secret().as_bytes()).is_none());
        prop_assert!(redactor.body(&once.bytes, &key()).found.is_empty());
    }
}

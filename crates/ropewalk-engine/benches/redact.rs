//! What looking for secrets costs, beside one search for a byte over the same bytes.
//!
//! `cargo bench -p ropewalk-engine --bench redact`. The goal: a clean body of 500 KB in less than 0.3 ms.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail and prints what it measured"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ropewalk_engine::redact::{Found, RedactRules, Redactor, TagKey};
use ropewalk_testkit::conversation::{Conversation, Random};
use ropewalk_testkit::source_text::SourceText;
use serde_json::json;

const BODY_BYTES: usize = 500_000;
const ROUNDS: usize = 41;

fn main() {
    let redactor = Redactor::new(&RedactRules::default()).unwrap();
    let key = TagKey::new(&[7; 32]);
    println!(
        "{:<34} {:>8} {:>9} {:>9} {:>7}  found",
        "body", "KB", "redact", "memchr", "ratio"
    );
    for (name, body) in bodies() {
        let (mut ours, mut byte) = (Vec::new(), Vec::new());
        let mut found = Found::default();
        // In turn, so that a noisy machine disturbs both alike.
        for _ in 0..ROUNDS {
            ours.push(timed(|| found = black_box(redactor.body(&body, &key)).found));
            byte.push(timed(|| _ = black_box(memchr::memchr(0, black_box(&body)))));
        }
        let (ours, byte) = (least(ours), least(byte));
        let found: Vec<String> = found.iter().map(|(name, count)| format!("{count} {name}")).collect();
        println!(
            "{name:<34} {:>8} {:>6.3} ms {:>6.3} ms {:>7.1}  {}",
            body.len() / 1_000,
            ours.as_secs_f64() * 1e3,
            byte.as_secs_f64() * 1e3,
            ours.as_secs_f64() / byte.as_secs_f64(),
            found.join(", "),
        );
    }
}

fn bodies() -> Vec<(&'static str, Bytes)> {
    let (_, turn) = Conversation::new(7, 4_000).grow_to(BODY_BYTES);
    // What these are made of contains this crate, with the examples in its tests.
    let clean = |text: Vec<u8>| {
        let redactor = Redactor::new(&RedactRules::default()).unwrap();
        let clean = redactor.body(&Bytes::from(text), &TagKey::new(b"x")).bytes;
        String::from_utf8(clean.to_vec()).unwrap()
    };
    let conversation = clean(turn.request);
    let code = clean(SourceText::new(3).code(BODY_BYTES).into_bytes());
    let words = Random(5).prose(BODY_BYTES);
    let secret = ["sk", "ant", "api03", &"b7Kx2Pq9Rt".repeat(9)].join("-");
    let with_secret = conversation.replacen("\"text\":\"", &format!("\"text\":\"{secret} "), 1);
    let quoted = |text: &str| json!({"messages": [{"role": "user", "content": text}]}).to_string();
    let filled = |piece: &str| quoted(&piece.repeat(BODY_BYTES / piece.len()));
    vec![
        ("words", Bytes::from(quoted(&words))),
        ("a long conversation", Bytes::from(conversation)),
        ("the same with one secret", Bytes::from(with_secret)),
        ("source code in one string", Bytes::from(quoted(&code))),
        ("a stream of deltas", Bytes::from(stream(&code))),
        (
            "links: `https://example.org/a `",
            Bytes::from(filled("https://example.org/a ")),
        ),
        ("hostile: `sk-ant-`", Bytes::from(filled("sk-ant-"))),
        ("near misses: `sk-abcdefg `", Bytes::from(filled("sk-abcdefg "))),
        ("hostile: `://a:b`", Bytes::from(filled("://a:b"))),
        ("hostile: `.eyJaaaaaaaa`", Bytes::from(filled(".eyJaaaaaaaa"))),
        (
            "hostile: `-----BEGIN PRIVATE KEY-----`",
            Bytes::from(filled("-----BEGIN PRIVATE KEY-----")),
        ),
        (
            "hostile: `\\u0061`",
            Bytes::from(format!("\"{}\"", "\\u0061".repeat(BODY_BYTES / 6))),
        ),
    ]
}

/// As many events as 500 KB take.
fn stream(text: &str) -> String {
    let mut out = String::new();
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(20) {
        let delta = json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": piece.iter().collect::<String>()}});
        out.push_str(&format!("event: content_block_delta\ndata: {delta}\n\n"));
        if out.len() > BODY_BYTES {
            break;
        }
    }
    out
}

fn timed(mut work: impl FnMut()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// The least is what the work itself takes; the rest is the machine's other business.
fn least(times: Vec<Duration>) -> Duration {
    times.into_iter().min().unwrap_or_default()
}

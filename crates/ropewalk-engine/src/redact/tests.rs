//! What is found, what is not, and what stays.

mod properties;
mod samples;
mod table;

use bytes::Bytes;

use super::*;
use samples::{SAMPLES, Sample};

fn key() -> TagKey {
    TagKey::new(b"the key of a test")
}

fn builtin() -> Redactor {
    Redactor::new(&RedactRules::default()).unwrap()
}

fn with(patterns: &[(&str, &str)], paths: &[&str]) -> Result<Redactor, RedactError> {
    let patterns = patterns.iter().map(|(name, regex)| PatternRule {
        name: (*name).to_owned(),
        regex: (*regex).to_owned(),
    });
    Redactor::new(&RedactRules {
        builtin: false,
        patterns: patterns.collect(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    })
}

fn redacted(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.body(&Bytes::copy_from_slice(text.as_bytes()), &key());
    let again = redactor.body(&redacted.bytes, &key());
    assert!(
        again.found.is_empty(),
        "redacting twice finds {:?} in {text}",
        again.found
    );
    assert_eq!(again.bytes.as_ptr(), redacted.bytes.as_ptr());
    String::from_utf8(redacted.bytes.to_vec()).unwrap()
}

/// Placeholders as `<name>`, so that expectations can be written down.
fn shown(text: &str) -> String {
    let mut out = String::new();
    let mut done = 0;
    for range in placeholder::ranges(text.as_bytes()) {
        out.push_str(&text[done..range.start]);
        let name = text[range.clone()].split(':').nth(1).unwrap();
        out.push_str(&format!("<{name}>"));
        done = range.end;
    }
    out + &text[done..]
}

#[track_caller]
fn check(redactor: &Redactor, text: &str, expected: &str) {
    assert_eq!(shown(&redacted(redactor, text)), expected, "{text}");
}

#[test]
fn a_clean_body_is_the_same_body() {
    let redactor = builtin();
    for text in [
        "",
        r#"{"messages":[{"role":"user","content":"see https://example.org/a?b=c, task-force-of-many-people-and-things"}]}"#,
        "data: {\"index\":0,\"delta\":{\"text\":\"a\"}}\n\ndata: {\"index\":0,\"delta\":{\"text\":\"b\"}}\n\n",
        "no JSON \u{0} at all",
    ] {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let redacted = redactor.body(&body, &key());
        assert_eq!(redacted.bytes.as_ptr(), body.as_ptr(), "{text}");
        assert!(redacted.found.is_empty());
    }
}

#[test]
fn equal_secrets_have_equal_tags_for_one_owner_only() {
    let secret = Sample::named("github-token").secret();
    let body = Bytes::from(format!(r#"{{"a":"{secret}","b":["x {secret} y"]}}"#));
    let redactor = builtin();
    let ours = redactor.body(&body, &key());
    let text = String::from_utf8(ours.bytes.to_vec()).unwrap();
    let tags: Vec<&str> = placeholder::ranges(text.as_bytes()).map(|range| &text[range]).collect();
    assert_eq!(tags.len(), 2);
    assert_eq!(tags[0], tags[1]);
    assert_eq!(ours.found.iter().collect::<Vec<_>>(), [("github-token", 2)]);
    assert_eq!((ours.found.total(), count_redactions(&ours.bytes)), (2, 2));
    let theirs = redactor.body(&body, &TagKey::new(b"another key"));
    assert!(!String::from_utf8(theirs.bytes.to_vec()).unwrap().contains(tags[0]));
}

#[test]
fn a_key_file_is_one_secret_however_it_is_quoted() {
    let file = format!(
        "-----BEGIN {0} PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234\nabcd+/==\n-----END {0} PRIVATE KEY-----\n",
        "RSA"
    );
    let once = serde_json::to_string(&file).unwrap();
    let twice = serde_json::to_string(&format!(r#"{{"content":{once}}}"#)).unwrap();
    let redactor = builtin();
    let results = [&file, &once, &twice].map(|text| redacted(&redactor, text));
    assert_eq!(shown(&results[0]), "<private-key>\n");
    assert_eq!(shown(&results[1]), r#""<private-key>\n""#);
    assert_eq!(shown(&results[2]), r#""{\"content\":\"<private-key>\\n\"}""#);
    let tags = results.map(|text| text[placeholder::ranges(text.as_bytes()).next().unwrap()].to_owned());
    assert_eq!((&tags[0], &tags[1]), (&tags[1], &tags[2]));
    // Cut off in the middle: what is there goes.
    check(&redactor, &file[..60], "<private-key>");
}

#[test]
fn patterns_replace_their_group_or_all_they_match() {
    let redactor = with(&[("ticket", r"TKT-(\d+)"), ("name", "(?i)Zoë")], &[]).unwrap();
    check(
        &redactor,
        r#"{"a":"TKT-123 for zoË","TKT-9":"Zo\u00eb\n"}"#,
        r#"{"a":"TKT-<ticket> for <name>","TKT-<ticket>":"<name>\n"}"#,
    );
    check(
        &redactor,
        "event: TKT-1\ndata: {\"a\":\"TKT-2\"}\n\ndata: TKT-3\n\n",
        "event: TKT-1\ndata: {\"a\":\"TKT-<ticket>\"}\n\ndata: TKT-<ticket>\n\n",
    );
    // A pattern that finds its own placeholders.
    let greedy = with(&[("words", "[a-z]{3,}")], &[]).unwrap();
    check(&greedy, r#"["some words"]"#, r#"["<words> <words>"]"#);
}

#[test]
fn paths_replace_whole_values() {
    let redactor = with(&[], &["metadata.user_id", "messages[*].content", "n"]).unwrap();
    check(
        &redactor,
        r#"{"metadata":{"user_id":"u","x":"u"},"messages":[{"content":"a"},{"content":[{"text":"b"}]},{"content":null}],"n": 3.5 }"#,
        r#"{"metadata":{"user_id":"<path>","x":"u"},"messages":[{"content":"<path>"},{"content":"<path>"},{"content":null}],"n": "<path>" }"#,
    );
    check(
        &redactor,
        "data: {\"n\":1,\"m\":2}\n\ndata: [DONE]\n\n",
        "data: {\"n\":\"<path>\",\"m\":2}\n\ndata: [DONE]\n\n",
    );
}

#[test]
fn bad_rules_say_what_is_wrong() {
    let message = |result: Result<Redactor, RedactError>| {
        let error = result.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        (error.to_string(), source.unwrap_or_default())
    };
    let (error, source) = message(with(&[("a", "(")], &[]));
    assert_eq!(error, "the redaction pattern `a` is no regular expression");
    assert!(source.contains("unclosed group"));
    assert_eq!(
        message(with(&[("a", "x*")], &[])).0,
        "the redaction pattern `a` matches the empty text"
    );
    assert!(
        message(with(&[("No good", "x")], &[]))
            .0
            .starts_with("`No good` names no redaction pattern")
    );
    assert_eq!(
        message(with(&[], &["a[x]"])),
        (
            "the redaction path `a[x]` cannot be read".to_owned(),
            "`[` at character 1 needs a number or `*`, and a `]`".to_owned()
        )
    );
}

#[test]
fn both_bodies_of_an_exchange_are_redacted_compressed_or_not() {
    use ropewalk_testkit::upstream::{Encoding, encode};
    let secret = Sample::named("anthropic-key").secret();
    let line = format!(
        r#"{{"v":1,"id":"x","at":"2026-01-01T00:00:00Z","path":"/v1/messages","request":{{"body":{{"k":"{secret}"}}}},"response":{{"status":200,"headers":{{"content-encoding":"br"}},"body":""}}}}"#
    );
    let line = ropewalk_wire::exchange::ExchangeLine::parse(line.as_bytes()).unwrap();
    let mut raw = RawExchange::try_from(line).unwrap();
    let answer = Bytes::from(format!("\"{secret}\""));
    raw.response_body = Some(Bytes::from(encode(Encoding::Brotli, [answer]).concat()));
    let found = builtin().exchange(&mut raw, &key());
    assert_eq!(found.iter().collect::<Vec<_>>(), [("anthropic-key", 2)]);
    assert!(raw.response_headers.is_empty());
    assert_eq!(
        shown(str::from_utf8(raw.response_body.as_ref().unwrap()).unwrap()),
        "\"<anthropic-key>\""
    );
    let prices = ropewalk_core::cost::BundledPrices;
    let detail = crate::prepare(&raw, None, &prices).exchange.detail;
    assert!(detail.contains(r#""redactions":2"#), "{detail}");
    assert_eq!(
        shown(str::from_utf8(&raw.request_body).unwrap()),
        r#"{"k":"<anthropic-key>"}"#
    );
}

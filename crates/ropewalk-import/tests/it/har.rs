use ropewalk_import::Format;
use ropewalk_store::Micros;
use serde_json::{Value, json};

use crate::support::{Collected, fixture, read, read_text, text};

fn recorded() -> Collected {
    read(Format::Har, &fixture("browser.har"))
}

#[test]
fn calls_become_exchanges_and_the_rest_is_counted() {
    let found = recorded();
    assert_eq!(found.problems, []);
    let paths: Vec<&str> = found.exchanges.iter().map(|raw| &*raw.path).collect();
    assert_eq!(
        paths,
        [
            "/v1/messages?beta=true",
            "/v1/messages",
            "/v1/chat/completions",
            "/v1/chat/completions"
        ]
    );
    assert_eq!(
        found.skipped,
        [
            "requests that post nothing",
            "requests that post nothing",
            "requests that call no model"
        ]
    );
}

#[test]
fn bodies_are_what_they_say_whatever_their_headers_say() {
    let found = recorded();
    let [stream, whole, chat, broken] = &found.exchanges[..] else {
        panic!()
    };
    assert!(
        stream
            .response_body
            .as_ref()
            .unwrap()
            .starts_with(b"event: message_start\n")
    );
    assert!(
        whole
            .response_body
            .as_ref()
            .unwrap()
            .starts_with(b"{\"id\": \"msg_har2\"")
    );
    assert!(chat.request_body.starts_with(b"{\"model\": \"gpt-4o-mini\""));
    assert!(
        found
            .exchanges
            .iter()
            .all(|raw| !raw.response_headers.iter().any(|(name, _)| name == "content-encoding"))
    );
    assert!(broken.cut_off && broken.status.is_none());
    assert_eq!((stream.status, stream.cut_off), (Some(200), false));
}

#[test]
fn times_are_kept_to_the_first_byte() {
    let first = &recorded().exchanges[0];
    let noon = Micros(
        "2025-05-01T10:00:00Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_microsecond(),
    );
    assert_eq!(first.at, noon);
    assert_eq!(first.ended_at, Some(Micros(noon.0 + 903_500)));
    assert_eq!(first.witness.first_byte_at, Some(Micros(noon.0 + 203_000)));
}

#[test]
fn no_secret_comes_in() {
    let found = recorded();
    for raw in &found.exchanges {
        let all = format!("{:?} {:?} {}", raw.request_headers, raw.response_headers, raw.path);
        for secret in [
            "har-secret",
            "har-cookie",
            "har-bearer",
            "har-query",
            "har-gateway",
            "har-set-cookie",
        ] {
            assert!(!all.contains(secret), "{secret} in {all}");
        }
    }
    let names: Vec<&str> = found.exchanges[0]
        .request_headers
        .iter()
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(names, ["anthropic-version", "content-type", "user-agent"]);
}

#[test]
fn ids_depend_on_the_entry_alone() {
    let ids = |found: &Collected| found.exchanges.iter().map(|raw| raw.id.clone()).collect::<Vec<_>>();
    let mut har: Value = serde_json::from_str(&text("browser.har")).unwrap();
    har["log"]["entries"].as_array_mut().unwrap().rotate_left(1);
    let mut turned = ids(&read_text(Format::Har, &har.to_string()));
    turned.rotate_right(1);
    let all = ids(&recorded());
    assert_eq!(turned, all);
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
}

#[test]
fn a_bad_entry_is_told_with_its_number() {
    let har = json!({"log": {"entries": [
        {"request": {"method": "POST", "url": "https://x/v1/messages", "postData": {"text": "%%%", "encoding": "base64"}}},
        {"request": {"method": "POST", "url": "https://x/v1/messages", "postData": {"text": "{\"messages\":[],\"max_tokens\":1}"}},
         "startedDateTime": "noon"},
        {"request": 7}, 8, null,
    ]}});
    let found = read_text(Format::Har, &har.to_string());
    let problems: Vec<String> = found
        .problems
        .iter()
        .map(|(line, problem)| format!("{line} {problem}"))
        .collect();
    assert_eq!(
        problems,
        [
            "1 entry 1: `postData.text` is no base64",
            "2 entry 2: `startedDateTime` is no time",
            "3 entry 3: `request.url` is missing",
            "4 entry 4: `request` is missing",
            "5 entry 5: `request` is missing",
        ]
    );
}

#[test]
fn a_file_without_entries_says_so() {
    let found = read_text(Format::Har, "{\"log\":{\"version\":\"1.2\"}}");
    assert_eq!(
        found.problems,
        [(0, "behind element 0: `log.entries` is not there or no list".to_owned())]
    );
}

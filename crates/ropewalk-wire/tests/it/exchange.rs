//! The exchange format, as the product reads it and as the tests' own loader does.

use ropewalk_wire::exchange::{ExchangeError, ExchangeLine};

use crate::split::all_files;

#[test]
fn every_line_reads_as_the_tests_loader_reads_it() {
    let mut lines = 0;
    for file in all_files() {
        let text = std::fs::read_to_string(&file.path).unwrap();
        let read = text.lines().map(|line| ExchangeLine::parse(line.as_bytes()).unwrap());
        for (line, expected) in read.zip(&file.exchanges) {
            assert_eq!(
                (&line.id, &line.at, &line.path),
                (&expected.id, &expected.at, &expected.path)
            );
            assert_eq!(
                (line.status, line.cut_off),
                (expected.status, expected.cut_off),
                "{}",
                line.id
            );
            assert_eq!(
                (&line.owner, &line.ended_at),
                (&expected.owner, &expected.ended_at),
                "{}",
                line.id
            );
            assert!(line.request.body == expected.request_body, "{}", line.id);
            let response = line.response.unwrap_or_default();
            assert!(response.body == expected.response_body, "{}", line.id);
            let content_type = expected.response_headers.get("content-type").map(String::as_str);
            assert_eq!(response.header("content-type"), content_type, "{}", line.id);
            lines += 1;
        }
    }
    assert!(lines > 40, "{lines} lines");
}

#[test]
fn what_is_no_exchange_says_what_is_missing() {
    let missing = |line: &str| ExchangeLine::parse(line.as_bytes()).unwrap_err();
    assert_eq!(missing(r#"{"v":2}"#), ExchangeError::Member("v"));
    assert_eq!(missing(r#"{"v":1,"id":"x","at":"t"}"#), ExchangeError::Member("path"));
    let bad = r#"{"v":1,"id":"x","at":"t","path":"/","request":{"body_base64":"?"}}"#;
    assert_eq!(missing(bad), ExchangeError::Base64);
    assert!(matches!(missing("{"), ExchangeError::Json(_)));
}

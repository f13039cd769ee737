//! An exchange as a line of the exchange format.

use std::fmt::Write as _;

use jiff::Timestamp;
use ropewalk_wire::exchange::{ExchangeLine, Half};

/// The line without its line feed. Bodies are written as text, so that every byte of them survives.
pub fn write_line(line: &ExchangeLine) -> String {
    let mut out = format!(r#"{{"v":1,"id":{},"at":{}"#, quoted(&line.id), quoted(&line.at));
    if let Some(ended_at) = &line.ended_at {
        member(&mut out, "ended_at", &quoted(ended_at));
    }
    if !line.spawned_at.is_empty() {
        member(&mut out, "spawned_at", &object(&line.spawned_at));
    }
    if let Some(owner) = &line.owner {
        member(&mut out, "owner", &quoted(owner));
    }
    member(&mut out, "method", &quoted(&line.method));
    member(&mut out, "path", &quoted(&line.path));
    member(&mut out, "request", &format!("{{{}}}", half(&line.request)));
    if let Some(response) = &line.response {
        let status = line
            .status
            .map_or_else(|| "null".to_owned(), |status| status.to_string());
        let response = format!(r#"{{"status":{status},{},"cut_off":{}}}"#, half(response), line.cut_off);
        member(&mut out, "response", &response);
    }
    out.push('}');
    out
}

/// JSON text of a string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("every string can be written as JSON")
}

/// RFC 3339 with microseconds.
pub(super) fn time(micros: i64) -> String {
    let time = Timestamp::from_microsecond(micros).expect("generated times lie in this century");
    format!("{time:.6}")
}

fn half(half: &Half) -> String {
    let body = std::str::from_utf8(&half.body).expect("generated bodies are text");
    format!(r#""headers":{},"body":{}"#, object(&half.headers), quoted(body))
}

fn object(members: &[(String, String)]) -> String {
    let members = members
        .iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn member(out: &mut String, name: &str, json: &str) {
    write!(out, r#","{name}":{json}"#).expect("a string takes everything");
}

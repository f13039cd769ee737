//! Server-Sent Events from bytes in any chunking.
//!
//! Follows the event stream format of the HTML standard: lines end in LF, CR or CRLF, a blank line dispatches,
//! `data` lines are joined by LF, a byte order mark at the start is skipped, comments are ignored, and what
//! stands after the last blank line is never dispatched.
//!
//! Invariants: the events do not depend on where the chunks were cut; one event never holds more than
//! [`MAX_EVENT_BYTES`]; nothing panics, invalid UTF-8 is replaced in the decoded view.

use std::borrow::Cow;

/// Largest event that is kept. A whole Responses answer with an inline image travels in one event, and
/// those stay below this; anything larger is dropped and counted, so that memory stays bounded.
pub const MAX_EVENT_BYTES: usize = 32 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field; empty if there was none.
    pub name: Cow<'a, str>,
    pub data: Cow<'a, str>,
}

/// The incremental parser.
#[derive(Debug, Default)]
pub struct Parser {
    /// The line that has not ended yet.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    last_id: Vec<u8>,
    retry_ms: Option<u64>,
    /// The last byte was a CR that ended a line: an LF right behind it belongs to it.
    after_cr: bool,
    past_first_line: bool,
    /// The current event is over the bound: swallow until its blank line.
    dropping: bool,
    /// While dropping: the current line has at least one byte.
    dropped_line_has_bytes: bool,
    dropped_events: u64,
}

impl Parser {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and calls `on_event` for every event they complete.
    pub fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(Event<'_>)) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.extend_line(bytes);
                return;
            };
            self.extend_line(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(&mut on_event);
        }
    }

    /// Events that were larger than [`MAX_EVENT_BYTES`] and therefore lost.
    pub fn dropped_events(&self) -> u64 {
        self.dropped_events
    }

    /// The last `id` field, which a client would send back to resume.
    pub fn last_id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.last_id)
    }

    /// The last `retry` field.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn held_bytes(&self) -> usize {
        self.line.len() + self.data.len() + self.name.len()
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        if !self.dropping && self.held_bytes() + bytes.len() > MAX_EVENT_BYTES {
            self.dropping = true;
            self.dropped_line_has_bytes = !self.line.is_empty();
            self.dropped_events += 1;
            self.line = Vec::new();
            self.clear_event();
            self.data = Vec::new();
        }
        if self.dropping {
            self.dropped_line_has_bytes |= !bytes.is_empty();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, on_event: &mut impl FnMut(Event<'_>)) {
        if self.dropping {
            // A blank line ends the event that is being dropped.
            self.dropping = std::mem::take(&mut self.dropped_line_has_bytes);
            self.past_first_line = true;
            return;
        }
        let line = std::mem::take(&mut self.line);
        let mut text = &line[..];
        if !self.past_first_line {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        self.past_first_line = true;
        if text.is_empty() {
            self.dispatch(on_event);
        } else {
            self.field(text);
        }
        // The buffer is kept for the next line.
        self.line = line;
        self.line.clear();
    }

    fn field(&mut self, line: &[u8]) {
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => value.clone_into(&mut self.name),
            b"id" if !value.contains(&0) => value.clone_into(&mut self.last_id),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).ok();
                self.retry_ms = digits.and_then(|d| d.parse().ok()).or(self.retry_ms);
            }
            // A comment has an empty field name; unknown fields are ignored.
            _ => {}
        }
    }

    fn dispatch(&mut self, on_event: &mut impl FnMut(Event<'_>)) {
        if self.has_data {
            on_event(Event {
                name: String::from_utf8_lossy(&self.name),
                data: String::from_utf8_lossy(&self.data),
            });
        }
        self.clear_event();
    }

    fn clear_event(&mut self) {
        self.data.clear();
        self.has_data = false;
        self.name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(parser: &mut Parser, chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk, |event| {
                events.push((event.name.into_owned(), event.data.into_owned()));
            });
        }
        events
    }

    #[track_caller]
    fn check(text: &[u8], expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
            .collect();
        assert_eq!(events_of(&mut Parser::new(), &[text]), expected, "whole");
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(events_of(&mut Parser::new(), &bytes), expected, "by byte");
    }

    #[test]
    fn reads_the_fields_of_an_event() {
        check(b"event: a\ndata: 1\n\ndata:2\n\n", &[("a", "1"), ("", "2")]);
        check(b"data: one\ndata: two\ndata\n\n", &[("", "one\ntwo\n")]);
        check(b"data:  two spaces\n\n", &[("", " two spaces")]);
        check(b": comment\n\nnonsense: 1\ndata: x\n\n", &[("", "x")]);
    }

    #[test]
    fn accepts_every_line_end() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("event: a{end}data: 1{end}data: 2{end}{end}data: 3{end}{end}");
            check(text.as_bytes(), &[("a", "1\n2"), ("", "3")]);
        }
        check(b"data: 1\r\n\ndata: 2\n\r\n", &[("", "1"), ("", "2")]);
    }

    #[test]
    fn never_dispatches_a_truncated_end() {
        check(b"data: 1\n\ndata: 2\n", &[("", "1")]);
        check(b"data: 1", &[]);
        check(b"event: lonely\n\n", &[]);
    }

    #[test]
    fn skips_a_byte_order_mark_only_at_the_start() {
        check(b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n", &[("", "1")]);
    }

    #[test]
    fn replaces_invalid_utf8_and_keeps_split_characters() {
        check(b"data: \xff!\n\n", &[("", "\u{fffd}!")]);
        check("data: é😀\n\n".as_bytes(), &[("", "é😀")]);
    }

    #[test]
    fn keeps_id_and_retry() {
        let mut parser = Parser::new();
        events_of(&mut parser, &[b"id: 7\nretry: 250\n\nid: a\0b\nretry: soon\n\n"]);
        assert_eq!(parser.last_id(), "7");
        assert_eq!(parser.retry_ms(), Some(250));
    }

    #[test]
    fn drops_an_event_over_the_bound_and_goes_on() {
        let mut parser = Parser::new();
        let block = vec![b'x'; 1 << 20];
        let mut events = events_of(&mut parser, &[b"data: "]);
        for _ in 0..=(MAX_EVENT_BYTES >> 20) {
            events.extend(events_of(&mut parser, &[&block]));
            assert!(parser.held_bytes() <= MAX_EVENT_BYTES);
        }
        events.extend(events_of(&mut parser, &[b"\r\ndata: more\r\n\r\ndata: next\n\n"]));
        assert_eq!(events, [(String::new(), "next".to_owned())]);
        assert_eq!(parser.dropped_events(), 1);
    }
}

//! The text that the chain sees.
//!
//! Clients replay a text with reminders added or dropped, with white space around it, with other line
//! ends. [`normalise`] removes exactly that: reminder spans, outer white space, CR in front of LF.
//! Invariants: idempotent; linear in the text; a text it does not change is borrowed, not copied.

use std::borrow::Cow;

use crate::text::{is_js_space, js_trim};

const OPEN: &[u8] = b"<system-reminder>";
const CLOSE: &[u8] = b"</system-reminder>";

pub fn normalise(text: &str) -> Cow<'_, str> {
    let stripped = strip_reminder_spans(text);
    match stripped {
        Cow::Borrowed(text) => fold_line_ends(js_trim(text)),
        Cow::Owned(text) => Cow::Owned(fold_line_ends(js_trim(&text)).into_owned()),
    }
}

/// Removes reminder spans with the white space in front of them. A closing tag takes the *nearest*
/// opening tag before it, so that a text which merely mentions the tag keeps everything up to the
/// reminder a client appended; what a removal brings together is looked at again, so that a second
/// run finds nothing.
fn strip_reminder_spans(text: &str) -> Cow<'_, str> {
    if !has_tag(text.as_bytes(), CLOSE) {
        return Cow::Borrowed(text);
    }
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut opened: Vec<usize> = Vec::new();
    let mut rest = text.as_bytes();
    while let Some(end) = memchr::memchr(b'>', rest) {
        out.extend_from_slice(&rest[..=end]);
        rest = &rest[end + 1..];
        if ends_with_tag(&out, CLOSE) {
            if let Some(start) = opened.pop() {
                out.truncate(start);
                let kept = trim_end_len(&out);
                out.truncate(kept);
            }
        } else if ends_with_tag(&out, OPEN) {
            opened.push(out.len() - OPEN.len());
        }
        // A removal may have cut into what an outer tag stands on.
        while opened.last().is_some_and(|start| start + OPEN.len() > out.len()) {
            opened.pop();
        }
    }
    out.extend_from_slice(rest);
    match String::from_utf8(out) {
        Ok(stripped) if stripped.len() != text.len() => Cow::Owned(stripped),
        _ => Cow::Borrowed(text),
    }
}

fn has_tag(bytes: &[u8], tag: &[u8]) -> bool {
    memchr::memchr_iter(b'<', bytes).any(|at| {
        let found = bytes.get(at..at + tag.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(tag))
    })
}

fn ends_with_tag(bytes: &[u8], tag: &[u8]) -> bool {
    bytes.len() >= tag.len() && bytes[bytes.len() - tag.len()..].eq_ignore_ascii_case(tag)
}

/// Length without white space at the end. Looks at the end only: called once per span, on a text that grows.
fn trim_end_len(bytes: &[u8]) -> usize {
    let mut end = bytes.len();
    while let Some(start) = bytes[..end].iter().rposition(|byte| *byte & 0xc0 != 0x80) {
        let last = std::str::from_utf8(&bytes[start..end]).unwrap_or_default();
        if last.is_empty() || !last.chars().all(is_js_space) {
            break;
        }
        end = start;
    }
    end
}

/// CRLF becomes LF, and so does a run of CRs before LF: once folded, nothing is left to fold.
fn fold_line_ends(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() {
            out.push_str(line.trim_end_matches('\r'));
            out.push('\n');
        } else {
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn removes_what_clients_add_and_keeps_the_rest() {
        for (text, expected) in [
            ("plain", "plain"),
            ("  two\r\nlines \n", "two\nlines"),
            ("<system-reminder>\nx\n</system-reminder>\n\nquestion", "question"),
            ("output\n<SYSTEM-Reminder>x</system-REMINDER>\nmore", "output\nmore"),
            (
                "a <system-reminder>one</system-reminder> b <system-reminder>two</system-reminder>",
                "a b",
            ),
            (
                "the tag <system-reminder> opens it",
                "the tag <system-reminder> opens it",
            ),
            (
                "the tag <system-reminder> is\n<system-reminder>x</system-reminder>",
                "the tag <system-reminder> is",
            ),
            (
                "<system-reminder>a<system-reminder>b</system-reminder>c</system-reminder>",
                "",
            ),
            ("x</system-reminder>", "x</system-reminder>"),
            (
                "<system-rem<system-reminder></system-reminder>inder>gone</system-reminder>",
                "",
            ),
            ("a\r\r\nb\rc", "a\nb\rc"),
            ("\u{feff}\u{a0}x\u{85}", "x\u{85}"),
        ] {
            assert_eq!(normalise(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn is_idempotent(pieces in proptest::collection::vec(prop_oneof![
            Just("<system-reminder>".to_owned()), Just("</system-reminder>".to_owned()),
            Just("<system-rem".to_owned()), Just("inder>".to_owned()), Just("</SYSTEM-".to_owned()),
            Just("reminder>".to_owned()), Just("\r".to_owned()), Just("\n".to_owned()), Just(" ".to_owned()),
            "\\PC{0,3}",
        ], 0..24)) {
            let text = pieces.concat();
            let once = normalise(&text).into_owned();
            prop_assert_eq!(normalise(&once), once.as_str());
        }
    }
}

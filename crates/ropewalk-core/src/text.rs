//! Text as the seeds' JavaScript saw it.
//!
//! Hashes that must agree to the bit need JavaScript's idea of white space, not Rust's: U+FEFF belongs to
//! it and U+0085 does not. Reminders are the spans that clients weave into messages and that identity
//! must not see.
//!
//! Invariants: everything here is linear in the text; a text that needs no change is borrowed.

use std::borrow::Cow;

const REMINDER_OPEN: &[u8] = b"<system-reminder>";
const REMINDER_CLOSE: &[u8] = b"</system-reminder>";

/// JavaScript's `\s`, which is also what `String.prototype.trim` strips.
pub fn is_js_space(c: char) -> bool {
    matches!(
        c,
        '\t'..='\r'
            | ' '
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
            | '\u{feff}'
    )
}

/// `String.prototype.trim`.
pub fn js_trim(text: &str) -> &str {
    text.trim_matches(is_js_space)
}

/// CRLF becomes LF; a CR alone stays.
pub fn fold_crlf(text: &str) -> Cow<'_, str> {
    if memchr::memmem::find(text.as_bytes(), b"\r\n").is_some() {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Removes every `\s*<system-reminder>[\s\S]*?</system-reminder>`, in any case of ASCII letters.
///
/// One pass, as the expression would do it: what the removal joins together is not looked at again.
pub fn strip_reminders(text: &str) -> Cow<'_, str> {
    strip_spans(text, |rest| {
        let open = find_ignoring_case(rest, REMINDER_OPEN)?;
        let inside = open + REMINDER_OPEN.len();
        let close = find_ignoring_case(&rest[inside..], REMINDER_CLOSE)?;
        let start = rest[..open].trim_end_matches(is_js_space).len();
        Some((start, inside + close + REMINDER_CLOSE.len()))
    })
}

/// Removes every `open…close`, exactly as written, shortest match from the first opener.
pub fn strip_between<'a>(text: &'a str, open: &str, close: &str) -> Cow<'a, str> {
    strip_spans(text, |rest| {
        let start = rest.find(open)?;
        let inside = start + open.len();
        let end = inside + rest[inside..].find(close)?;
        Some((start, end + close.len()))
    })
}

/// Removes the spans that `next` finds, each search starting behind the last span. An opener without a
/// closer ends the search: no later opener can have one either.
fn strip_spans(text: &str, next: impl Fn(&str) -> Option<(usize, usize)>) -> Cow<'_, str> {
    let Some((mut start, mut end)) = next(text) else {
        return Cow::Borrowed(text);
    };
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        kept.push_str(&rest[..start]);
        rest = &rest[end..];
        match next(rest) {
            Some(span) => (start, end) = span,
            None => break,
        }
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Where an ASCII `needle` that begins with `<` first stands, whatever the case of its letters.
fn find_ignoring_case(text: &str, needle: &[u8]) -> Option<usize> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'<', bytes).find(|&at| {
        bytes
            .get(at..at + needle.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(needle))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trims_what_javascript_trims() {
        assert_eq!(js_trim("\u{feff}\u{a0} \u{2028}\u{3000}x\u{2029}\t\r\n"), "x");
        assert_eq!(js_trim("\u{85}x\u{85}"), "\u{85}x\u{85}");
        assert_eq!(js_trim("\u{180e}x"), "\u{180e}x");
    }

    #[test]
    fn strips_reminders_with_the_space_before_them() {
        for (given, kept) in [
            ("plain", "plain"),
            ("<system-reminder>x</system-reminder>", ""),
            ("a \n\u{feff}<system-reminder>x\ny</system-reminder> b", "a b"),
            ("a<System-Reminder>x</SYSTEM-reminder>b", "ab"),
            (
                "a<system-reminder>1</system-reminder>  <system-reminder>2</system-reminder>\n",
                "a\n",
            ),
            (
                "a<system-reminder>1<system-reminder>2</system-reminder>3</system-reminder>",
                "a3</system-reminder>",
            ),
            ("a <system-reminder>no end", "a <system-reminder>no end"),
            (
                "</system-reminder><system-reminder>",
                "</system-reminder><system-reminder>",
            ),
            ("\u{85}<system-reminder>x</system-reminder>", "\u{85}"),
            (
                "<ſystem-reminder>x</system-reminder>",
                "<ſystem-reminder>x</system-reminder>",
            ),
        ] {
            assert_eq!(strip_reminders(given), kept, "{given:?}");
        }
    }

    #[test]
    fn many_openers_without_an_end_stay_linear() {
        let text = "<system-reminder>".repeat(200_000);
        assert!(matches!(strip_reminders(&text), Cow::Borrowed(_)));
        let spaces = format!("{}<", " ".repeat(1000)).repeat(1000);
        assert_eq!(strip_reminders(&spaces), spaces);
    }

    /// The expression, read letter by letter: at each place white space, an opener, the nearest closer.
    fn strip_slowly(text: &str) -> String {
        let lower = text.to_ascii_lowercase();
        let mut kept = String::new();
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let open = text.len() - text[at..].trim_start_matches(is_js_space).len();
            let end = lower[open..]
                .starts_with("<system-reminder>")
                .then(|| lower[open + 17..].find("</system-reminder>"))
                .flatten();
            match end {
                Some(close) => at = open + 17 + close + 18,
                None => {
                    kept.push(c);
                    at += c.len_utf8();
                }
            }
        }
        kept
    }

    proptest! {
        #[test]
        fn agrees_with_the_expression(parts in prop::collection::vec(prop::sample::select(vec![
            "<system-reminder>", "</System-Reminder>", "<", ">", "\u{a0}", " \n", "é", "\u{85}", "</",
        ]), 0..24)) {
            let text = parts.concat();
            prop_assert_eq!(strip_reminders(&text), strip_slowly(&text));
        }

        #[test]
        fn stripping_again_changes_nothing_unless_the_join_made_a_new_opener(
            parts in prop::collection::vec(prop::sample::select(vec![
                "<system-reminder>", "</system-reminder>", "<SYSTEM-", "reminder>", " ", "\n", "é", "x", "\u{feff}",
            ]), 0..24),
        ) {
            let text = parts.concat();
            let once = strip_reminders(&text);
            prop_assert!(once.len() <= text.len());
            if !once.to_ascii_lowercase().contains("<system-reminder>") {
                prop_assert_eq!(strip_reminders(&once), &*once);
            }
        }
    }
}

//! References to messages (seed 003): `@conversation_<friendly id>_message_<hash or index>`.
//!
//! [`find`] looks for them in a text, [`Reference`] is what one says, [`injected`] is what the model gets
//! to read in its place. Nothing here resolves: which message is meant is the store's to answer.
//!
//! Invariants: a text without `@conv` costs one scan; ranges are whole characters and never overlap.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use memchr::memmem;

/// How much of a referenced message is injected, in characters.
pub const INJECTED_CHARS_MAX: usize = 8_000;
const CUT_MARK: &str = " […]";
const MARKER: &[u8] = b"@conv";
/// Length of a short hash; digits alone of this length may be either a hash or an index.
const HASH_CHARS: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    pub friendly_id: Box<str>,
    /// Hash or index, as written.
    pub message: Box<str>,
}

/// One way to read what stands behind `_message_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading<'a> {
    ShortHash(&'a str),
    /// Counted from 1 over the active path.
    Index(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a reference: @conversation_<id>_message_<hash or index> is expected")]
pub struct ReferenceParseError(String);

impl Reference {
    /// The readings to try, in this order; the first that names a message counts.
    pub fn readings(&self) -> impl Iterator<Item = Reading<'_>> {
        let digits = self.message.bytes().all(|byte| byte.is_ascii_digit());
        let hash = (!digits || self.message.len() == HASH_CHARS).then_some(Reading::ShortHash(&self.message));
        let index = self
            .message
            .parse()
            .ok()
            .filter(|index| digits && *index > 0)
            .map(Reading::Index);
        hash.into_iter().chain(index)
    }

    /// `^(?:conversation|conv)_(.+)_(?:message|msg)_([a-z0-9]+)$`. The identifier has no underscore, so the
    /// last one in the token ends the last separator.
    fn from_token(token: &str) -> Option<Self> {
        let rest = token
            .strip_prefix("conversation_")
            .or_else(|| token.strip_prefix("conv_"))?;
        let (front, message) = rest.rsplit_once('_')?;
        let friendly_id = front.strip_suffix("_message").or_else(|| front.strip_suffix("_msg"))?;
        let is_identifier = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = !friendly_id.is_empty() && !message.is_empty() && message.bytes().all(is_identifier);
        valid.then(|| Reference {
            friendly_id: friendly_id.into(),
            message: message.into(),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@conversation_{}_message_{}", self.friendly_id, self.message)
    }
}

impl FromStr for Reference {
    type Err = ReferenceParseError;

    /// Reads a whole reference, with or without its `@`.
    fn from_str(text: &str) -> Result<Self, ReferenceParseError> {
        let token = text.strip_prefix('@').unwrap_or(text);
        let is_token = token.bytes().all(is_token_byte);
        is_token
            .then(|| Self::from_token(token))
            .flatten()
            .ok_or_else(|| ReferenceParseError(text.to_owned()))
    }
}

/// A reference and where it stands in the text, `@` included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub range: Range<usize>,
    pub reference: Reference,
}

/// Whether [`find`] has anything to look at. Also answers for a raw JSON body, where `@` is never escaped
/// by the encoders we know.
pub fn may_contain(bytes: &[u8]) -> bool {
    memmem::find(bytes, MARKER).is_some()
}

/// The same of bytes in pieces, wherever they are parted.
pub fn may_contain_in<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> bool {
    const SEAM: usize = MARKER.len() - 1;
    // The last bytes that came, too few to hold it.
    let mut last: Vec<u8> = Vec::with_capacity(2 * SEAM);
    for piece in pieces {
        let behind = last.len();
        last.extend_from_slice(&piece[..piece.len().min(SEAM)]);
        if may_contain(&last) || may_contain(piece) {
            return true;
        }
        if piece.len() >= SEAM {
            last.truncate(behind);
            last.extend_from_slice(&piece[piece.len() - SEAM..]);
        }
        last.drain(..last.len().saturating_sub(SEAM));
    }
    false
}

/// All references in a text, in order: not behind a word character, not inside fenced code.
pub fn find(text: &str) -> Vec<Found> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut fences: Option<Fences<'_>> = None;
    for at in memmem::find_iter(bytes, MARKER) {
        if text[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let length = bytes[at + 1..].iter().take_while(|byte| is_token_byte(**byte)).count();
        let token = text[at + 1..at + 1 + length].trim_end_matches(['-', '_']);
        let Some(reference) = Reference::from_token(token) else {
            continue;
        };
        if !fences.get_or_insert_with(|| Fences::new(text)).covers(at) {
            found.push(Found {
                range: at..at + 1 + token.len(),
                reference,
            });
        }
    }
    found
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Fenced code as Markdown has it, read line by line as far as asked. Each line is looked at once, however
/// many references it holds.
struct Fences<'a> {
    rest: std::str::SplitInclusive<'a, char>,
    line: &'a str,
    line_end: usize,
    /// Character and length of the fence that is open.
    open: Option<(u8, usize)>,
    /// The current line is a fence itself; its info string is not prose either.
    on_fence: bool,
}

impl<'a> Fences<'a> {
    fn new(text: &'a str) -> Self {
        Fences {
            rest: text.split_inclusive('\n'),
            line: "",
            line_end: 0,
            open: None,
            on_fence: false,
        }
    }

    /// Whether the place lies inside a fence. Places must be asked for in order.
    fn covers(&mut self, at: usize) -> bool {
        while self.line_end <= at {
            self.leave_line();
            let Some(line) = self.rest.next() else {
                break;
            };
            self.line = line;
            self.line_end += line.len();
            self.on_fence = fence(line).is_some();
        }
        self.open.is_some() || self.on_fence
    }

    fn leave_line(&mut self) {
        match (self.open, fence(self.line)) {
            (None, Some((mark, length, _))) => self.open = Some((mark, length)),
            (Some((open, least)), Some((mark, length, info)))
                if mark == open && length >= least && info.trim().is_empty() =>
            {
                self.open = None;
            }
            _ => {}
        }
    }
}

/// A line that opens or closes fenced code: its character, its length and what stands behind it.
fn fence(line: &str) -> Option<(u8, usize, &str)> {
    let indented = line.trim_start_matches(' ');
    let mark = indented.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let info = indented.trim_start_matches(mark);
    let length = indented.len() - info.len();
    let is_fence = length >= 3 && line.len() - indented.len() <= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then_some((mark as u8, length, info))
}

/// The message that a reference names, as it is shown to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// The reference as written, `@` included.
    pub written: &'a str,
    pub friendly_id: &'a str,
    pub index: u64,
    pub is_user: bool,
    pub text: &'a str,
}

/// The injected element. The text cannot close it, and is cut where it is too long.
pub fn injected(quoted: &Quoted<'_>) -> String {
    let Quoted {
        written,
        friendly_id,
        index,
        ..
    } = quoted;
    let sender = if quoted.is_user { "user" } else { "assistant" };
    let end = quoted.text.char_indices().nth(INJECTED_CHARS_MAX).map(|(at, _)| at);
    let text = escape_close(&quoted.text[..end.unwrap_or(quoted.text.len())]);
    let mark = if end.is_some() { CUT_MARK } else { "" };
    format!(
        "<pkb_item source=\"referenced\" type=\"conversation_message\" ref=\"{written}\">\
         from {friendly_id} #{index} ({sender}):\n{text}{mark}</pkb_item>"
    )
}

/// Appends elements to the text that holds their references, each after an empty line.
pub fn append(text: &str, elements: &[String]) -> String {
    let mut whole = text.to_owned();
    for element in elements {
        whole.push_str("\n\n");
        whole.push_str(element);
    }
    whole
}

/// Writes `</pkb_item` as `<\/pkb_item`, in any case: a lenient reader would take those as the end too.
fn escape_close(text: &str) -> String {
    const CLOSE: &[u8] = b"</pkb_item";
    let mut escaped = String::with_capacity(text.len());
    let mut done = 0;
    for at in memmem::find_iter(text.as_bytes(), b"</") {
        let tag = text.as_bytes().get(at..at + CLOSE.len());
        if tag.is_some_and(|tag| tag.eq_ignore_ascii_case(CLOSE)) {
            escaped.push_str(&text[done..=at]);
            escaped.push('\\');
            done = at + 1;
        }
    }
    escaped.push_str(&text[done..]);
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<&str> {
        find(text).into_iter().map(|found| &text[found.range]).collect()
    }

    #[test]
    fn a_marker_is_seen_wherever_it_is_parted() {
        for text in ["@conv", "x@conv", "@conv_a", "@@conv@", "@con", "con v@co", ""] {
            let bytes = text.as_bytes();
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(may_contain_in(pieces), may_contain(bytes), "{pieces:?}");
                }
            }
            assert_eq!(may_contain_in(bytes.chunks(1)), may_contain(bytes), "{text}");
        }
    }

    #[test]
    fn seed_003_reads_both_spellings() {
        let long: Reference = "@conversation_react_optimization_b4f2_message_a3f2b1".parse().unwrap();
        let short: Reference = "conv_react_optimization_b4f2_msg_a3f2b1".parse().unwrap();
        assert_eq!(long, short);
        assert_eq!(
            (&*long.friendly_id, &*long.message),
            ("react_optimization_b4f2", "a3f2b1")
        );
        assert_eq!(
            short.to_string(),
            "@conversation_react_optimization_b4f2_message_a3f2b1"
        );
        for wrong in [
            "@conversation__message_5",
            "@conversation_x_message_",
            "@conversation_x_message_A1",
            "@conv_x",
            "@conversation_x y_message_5",
            "@Conversation_x_message_5",
            "",
            "@conversation_x_message_5-",
        ] {
            assert!(wrong.parse::<Reference>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn seed_003_is_greedy_to_the_last_separator() {
        let reference: Reference = "@conv_a_msg_b_message_c_msg_7".parse().unwrap();
        assert_eq!(
            (&*reference.friendly_id, &*reference.message),
            ("a_msg_b_message_c", "7")
        );
    }

    #[test]
    fn six_digits_are_a_hash_first_and_an_index_second() {
        let readings = |id: &str| {
            let reference = Reference {
                friendly_id: "x".into(),
                message: id.into(),
            };
            format!("{:?}", reference.readings().collect::<Vec<_>>())
        };
        assert_eq!(readings("708159"), "[ShortHash(\"708159\"), Index(708159)]");
        assert_eq!(readings("a3f2b1"), "[ShortHash(\"a3f2b1\")]");
        assert_eq!(readings("5"), "[Index(5)]");
        assert_eq!(readings("0"), "[]");
        assert_eq!(readings("000000"), "[ShortHash(\"000000\")]");
        assert_eq!(readings("99999999999999999999999"), "[]");
    }

    #[test]
    fn finds_tokens_in_prose() {
        let reference = "@conversation_react_b4f2_message_5";
        for (text, expected) in [
            ("see @conversation_react_b4f2_message_5, please", vec![reference]),
            ("(@conversation_react_b4f2_message_5)", vec![reference]),
            ("é @conversation_react_b4f2_message_5é", vec![reference]),
            (
                "@conversation_react_b4f2_message_5- and _@conversation_react_b4f2_message_5",
                vec![reference],
            ),
            ("@conversation_react_b4f2_message_5__-.", vec![reference]),
            ("me@conversation_react_b4f2_message_5", vec![]),
            ("é@conversation_react_b4f2_message_5", vec![]),
            ("@@conversation_react_b4f2_message_5", vec![reference]),
            ("@conversation_react_b4f2_message_5-x", vec![]),
            (
                "@conv_a_msg_1 @conv_a_msg_2\n@conv_b",
                vec!["@conv_a_msg_1", "@conv_a_msg_2"],
            ),
            ("no reference", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn leaves_fenced_code_alone() {
        for (text, expected) in [
            ("```\n@conv_a_msg_1\n```\n@conv_b_msg_2", vec!["@conv_b_msg_2"]),
            ("```js\n@conv_a_msg_1", vec![]),
            ("~~~\n```\n@conv_a_msg_1\n~~~\n@conv_b_msg_2", vec!["@conv_b_msg_2"]),
            ("````\n```\n@conv_a_msg_1\n````\n@conv_b_msg_2", vec!["@conv_b_msg_2"]),
            ("``` @conv_a_msg_1\n```", vec![]),
            ("```x``` @conv_a_msg_1", vec!["@conv_a_msg_1"]),
            ("    ```\n@conv_a_msg_1", vec!["@conv_a_msg_1"]),
            (
                "   ```\r\n@conv_a_msg_1\r\n   ```  \r\n@conv_b_msg_2",
                vec!["@conv_b_msg_2"],
            ),
            ("`@conv_a_msg_1`", vec!["@conv_a_msg_1"]),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    #[test]
    fn seed_003_injected_text() {
        let quoted = Quoted {
            written: "@conv_x_msg_5",
            friendly_id: "x",
            index: 5,
            is_user: false,
            text: "a</pkb_item>b</PKB_ITEM </p",
        };
        assert_eq!(
            injected(&quoted),
            "<pkb_item source=\"referenced\" type=\"conversation_message\" ref=\"@conv_x_msg_5\">from x #5 \
             (assistant):\na<\\/pkb_item>b<\\/PKB_ITEM </p</pkb_item>"
        );
        assert_eq!(
            append("q", &["<a/>".to_owned(), "<b/>".to_owned()]),
            "q\n\n<a/>\n\n<b/>"
        );
    }

    #[test]
    fn a_long_text_is_cut_by_characters() {
        let body = |length: usize| {
            let text = "é".repeat(length);
            let quoted = Quoted {
                written: "@c",
                friendly_id: "x",
                index: 1,
                is_user: true,
                text: &text,
            };
            injected(&quoted).split_once(":\n").unwrap().1.to_owned()
        };
        assert_eq!(body(8_000), format!("{}</pkb_item>", "é".repeat(8_000)));
        assert_eq!(body(8_001), format!("{} […]</pkb_item>", "é".repeat(8_000)));
    }

    proptest! {
        #[test]
        fn ranges_are_references_again(parts in prop::collection::vec(prop::sample::select(vec![
            "@conv", "@conversation_", "ersation_", "_msg_", "_message_", "a", "7", "-", "_", " ", "\n", "```", "é", "@",
        ]), 0..30)) {
            let text = parts.concat();
            let mut end = 0;
            for found in find(&text) {
                prop_assert!(found.range.start >= end);
                end = found.range.end;
                prop_assert_eq!(text[found.range].parse(), Ok(found.reference));
            }
        }

        #[test]
        fn any_text_can_be_searched_and_quoted(text in "\\PC*") {
            prop_assert!(find(&text).is_empty() || may_contain(text.as_bytes()));
            let quoted = Quoted { written: "@c", friendly_id: "x", index: 1, is_user: true, text: &text };
            let element = injected(&quoted);
            prop_assert_eq!(element.matches("</pkb_item").count(), 1);
        }
    }
}

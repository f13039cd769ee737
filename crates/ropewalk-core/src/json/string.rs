//! String literals: decoding them, and knowing which encoder would write them again.
//!
//! A text is stored decoded, so that a block, a bare string and a stream of deltas share it. That is
//! only lossless if encoding gives back the very bytes that were sent. [`Literal::read`] finds out
//! while it decodes: it names the [`Style`] whose encoder reproduces the literal, or none.

use std::borrow::Cow;

/// How an encoder escapes. The encoders agree on `"`, `\` and the control characters and differ in the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Style {
    /// JavaScript's `JSON.stringify`, serde_json, Python with `ensure_ascii=False`: nothing else escaped.
    Plain,
    /// Python's default: everything outside printable ASCII as `\uXXXX`.
    Ascii,
    /// Go's default: also `<`, `>`, `&`, U+2028 and U+2029.
    Html,
}

impl Style {
    /// In order of preference: a literal that several styles reproduce is filed under the first.
    pub const ALL: [Style; 3] = [Style::Plain, Style::Ascii, Style::Html];
}

/// A decoded literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal<'a> {
    pub text: Cow<'a, str>,
    /// The style that encodes `text` back to the same bytes; `None` if no encoder we know does.
    pub style: Option<Style>,
}

impl<'a> Literal<'a> {
    /// Decodes what stands between the quotes.
    pub fn read(literal: &'a str) -> Self {
        let mut scratch = String::new();
        let style = read_into(literal, &mut scratch);
        let text = if scratch.is_empty() {
            Cow::Borrowed(literal)
        } else {
            Cow::Owned(scratch)
        };
        Literal { text, style }
    }

    /// The same with a buffer to decode into, for callers that copy the text anyway.
    pub fn read_with(literal: &'a str, scratch: &'a mut String) -> (&'a str, Option<Style>) {
        scratch.clear();
        let style = read_into(literal, scratch);
        (if scratch.is_empty() { literal } else { scratch }, style)
    }
}

/// Decodes into `out`, which stays empty if there is nothing to decode.
fn read_into(literal: &str, out: &mut String) -> Option<Style> {
    let mut fit = Fit::of_bytes(literal.as_bytes());
    let mut done = 0;
    // One iterator for all backslashes: a search per escape would cost more than the copying.
    for at in memchr::memchr_iter(b'\\', literal.as_bytes()) {
        if at < done {
            continue;
        }
        if done == 0 {
            out.reserve(literal.len());
        }
        out.push_str(&literal[done..at]);
        let (decoded, width) = decode_escape(&literal.as_bytes()[at..]);
        fit.escape(decoded, &literal.as_bytes()[at..at + width]);
        out.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
        done = at + width;
    }
    if out.is_empty() {
        return fit.style(literal, literal);
    }
    out.push_str(&literal[done..]);
    fit.style(out, literal)
}

/// A decoded literal that knows where each character stood, so that a place found in the text can be changed in the literal.
#[derive(Debug, Clone, Default)]
pub struct Mapped {
    pub text: String,
    /// For each escape: where its character begins in the text and in the literal, and the widths of both.
    escapes: Vec<Escape>,
}

#[derive(Debug, Clone, Copy)]
struct Escape {
    in_text: usize,
    in_literal: usize,
    text_width: usize,
    literal_width: usize,
}

impl Mapped {
    pub fn read(literal: &str) -> Self {
        let mut mapped = Mapped::default();
        let mut done = 0;
        for at in memchr::memchr_iter(b'\\', literal.as_bytes()) {
            if at < done {
                continue;
            }
            mapped.text.push_str(&literal[done..at]);
            let (decoded, width) = decode_escape(&literal.as_bytes()[at..]);
            let c = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
            mapped.escapes.push(Escape {
                in_text: mapped.text.len(),
                in_literal: at,
                text_width: c.len_utf8(),
                literal_width: width,
            });
            mapped.text.push(c);
            done = at + width;
        }
        mapped.text.push_str(&literal[done..]);
        mapped
    }

    /// Where a place of the text stands in the literal. A place within an escaped character is where its escape begins.
    pub fn in_literal(&self, at: usize) -> usize {
        let behind = self.escapes.partition_point(|escape| escape.in_text <= at);
        let Some(escape) = behind.checked_sub(1).map(|index| self.escapes[index]) else {
            return at;
        };
        match at.checked_sub(escape.in_text + escape.text_width) {
            Some(rest) => escape.in_literal + escape.literal_width + rest,
            None => escape.in_literal,
        }
    }
}

/// Decodes a literal where the style does not matter.
pub(super) fn decode(literal: &str) -> String {
    Literal::read(literal).text.into_owned()
}

/// Writes `text` as the interior of a literal in that style.
pub fn encode_into(text: &str, style: Style, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    while let Some(offset) = find_escape(&bytes[done..], style) {
        let at = done + offset;
        out.extend_from_slice(&bytes[done..at]);
        done = at + encode_one(text, at, style, out);
    }
    out.extend_from_slice(&bytes[done..]);
}

/// `text` as a whole literal in that style, quotes included.
pub fn quote(text: &str, style: Style) -> String {
    let mut literal = vec![b'"'];
    encode_into(text, style, &mut literal);
    literal.push(b'"');
    String::from_utf8(literal).expect("only whole characters are written")
}

/// Writes a literal again in another style. Unlike decoding and encoding, it keeps lone surrogates, as
/// JavaScript and Python do when they write the strings they have read.
pub(super) fn recode_into(literal: &str, style: Style, out: &mut Vec<u8>) {
    let mut done = 0;
    for at in memchr::memchr_iter(b'\\', literal.as_bytes()) {
        if at < done {
            continue;
        }
        encode_into(&literal[done..at], style, out);
        let (decoded, width) = decode_escape(&literal.as_bytes()[at..]);
        match decoded {
            Some(c) => encode_into(c.encode_utf8(&mut [0; 4]), style, out),
            None => out.extend(literal.as_bytes()[at..at + width].to_ascii_lowercase()),
        }
        done = at + width;
    }
    encode_into(&literal[done..], style, out);
}

/// Where the first byte is that may start an escape in that style; the rest is copied as it is.
fn find_escape(bytes: &[u8], style: Style) -> Option<usize> {
    let is_always = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    match style {
        Style::Plain => find(bytes, is_always),
        Style::Ascii => find(bytes, |byte| is_always(byte) | (byte >= 0x7f)),
        Style::Html => find(bytes, |byte| {
            is_always(byte) | (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == 0xe2)
        }),
    }
}

/// Bytes that are looked at together.
const AT_ONCE: usize = 32;

/// Like `position`. Texts are long and escapes are rare, so many bytes are asked about without a branch for each.
fn find(bytes: &[u8], is_it: impl Fn(u8) -> bool) -> Option<usize> {
    let has_one = |chunk: &[u8]| chunk.iter().fold(false, |found, byte| found | is_it(*byte));
    let clear = bytes.chunks_exact(AT_ONCE).take_while(|chunk| !has_one(chunk)).count() * AT_ONCE;
    let found = bytes[clear..].iter().position(|byte| is_it(*byte))?;
    Some(clear + found)
}

/// Writes the character at `at`, escaped if the style asks for it; returns its width in the text.
fn encode_one(text: &str, at: usize, style: Style, out: &mut Vec<u8>) -> usize {
    let Some(c) = text[at..].chars().next() else {
        return 0;
    };
    let short = match c {
        '"' => Some(b'"'),
        '\\' => Some(b'\\'),
        '\n' => Some(b'n'),
        '\r' => Some(b'r'),
        '\t' => Some(b't'),
        '\u{8}' => Some(b'b'),
        '\u{c}' => Some(b'f'),
        _ => None,
    };
    let long = match style {
        _ if c < ' ' => true,
        Style::Plain => false,
        Style::Ascii => c >= '\u{7f}',
        Style::Html => matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'),
    };
    if let Some(letter) = short {
        out.extend_from_slice(&[b'\\', letter]);
    } else if long {
        for unit in c.encode_utf16(&mut [0; 2]) {
            push_hex_escape(*unit, out);
        }
    } else {
        out.extend_from_slice(&text.as_bytes()[at..at + c.len_utf8()]);
    }
    c.len_utf8()
}

fn push_hex_escape(unit: u16, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(DIGITS[usize::from(unit >> shift) & 15]);
    }
}

/// Which styles still fit what was read so far.
struct Fit {
    plain: bool,
    ascii: bool,
    html: bool,
}

impl Fit {
    const NONE: Fit = Fit {
        plain: false,
        ascii: false,
        html: false,
    };

    /// What the bytes of a literal allow: no encoder leaves a control character, one escapes all but printable ASCII.
    fn of_bytes(literal: &[u8]) -> Self {
        // Folds without early exit: the compiler turns them into vector code.
        let lowest = literal.iter().fold(0xff_u8, |low, byte| low.min(*byte));
        let highest = literal.iter().fold(0_u8, |high, byte| high.max(*byte));
        if lowest < 0x20 {
            return Fit::NONE;
        }
        Fit {
            plain: true,
            ascii: highest < 0x7f,
            html: true,
        }
    }

    /// An escape: a style fits if it writes that character in exactly this way.
    fn escape(&mut self, decoded: Option<char>, written: &[u8]) {
        // The usual ones, which all styles share.
        if let Some(b'n' | b'"' | b'\\' | b't' | b'r' | b'b' | b'f') = written.get(1) {
            return;
        }
        let Some(c) = decoded else {
            // A lone surrogate: the decoded text has lost it.
            *self = Fit::NONE;
            return;
        };
        let writes = |style| {
            let mut again = Vec::with_capacity(12);
            encode_into(c.encode_utf8(&mut [0; 4]), style, &mut again);
            again == written
        };
        self.plain = self.plain && writes(Style::Plain);
        self.ascii = self.ascii && writes(Style::Ascii);
        self.html = self.html && writes(Style::Html);
    }

    /// `plain` and `ascii` are exact by now. `html` has only seen the escapes, because looking for its
    /// characters in every run would cost all the texts that need it never: it is tried for real.
    fn style(&self, text: &str, literal: &str) -> Option<Style> {
        if self.plain {
            return Some(Style::Plain);
        }
        if self.ascii {
            return Some(Style::Ascii);
        }
        let mut again = Vec::new();
        if self.html {
            encode_into(text, Style::Html, &mut again);
        }
        (self.html && again == literal.as_bytes()).then_some(Style::Html)
    }
}

/// Decodes the escape at the start; `None` for a lone surrogate.
fn decode_escape(escape: &[u8]) -> (Option<char>, usize) {
    let short = |c| (Some(c), 2);
    match escape.get(1) {
        Some(b'n') => short('\n'),
        Some(b't') => short('\t'),
        Some(b'r') => short('\r'),
        Some(b'b') => short('\u{8}'),
        Some(b'f') => short('\u{c}'),
        Some(b'u') => decode_hex_escape(escape),
        Some(other) if other.is_ascii() => short(char::from(*other)),
        // No escape at all: the backslash stands alone, and no style will reproduce it.
        _ => (None, 1),
    }
}

fn decode_hex_escape(escape: &[u8]) -> (Option<char>, usize) {
    let Some(unit) = hex_unit(escape) else {
        return (None, 2);
    };
    if !(0xd800..0xe000).contains(&unit) {
        return (char::from_u32(unit), 6);
    }
    if unit < 0xdc00
        && let Some(low) = escape.get(6..).and_then(hex_unit)
        && (0xdc00..0xe000).contains(&low)
    {
        let c = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        return (char::from_u32(c), 12);
    }
    (None, 6)
}

fn hex_unit(escape: &[u8]) -> Option<u32> {
    if escape.get(..2)? != b"\\u" {
        return None;
    }
    let digits = std::str::from_utf8(escape.get(2..6)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_decoded_text_are_found_in_its_literal() {
        let literal = r#"a\n\u00e9b\ud83d\ude00é\"c"#;
        let mapped = Mapped::read(literal);
        assert_eq!(mapped.text, Literal::read(literal).text);
        for (at, c) in mapped.text.char_indices() {
            let start = mapped.in_literal(at);
            let end = mapped.in_literal(at + c.len_utf8());
            assert_eq!(Literal::read(&literal[start..end]).text, c.to_string());
        }
        assert_eq!(mapped.in_literal(mapped.text.len()), literal.len());
        let plain = Mapped::read("plain");
        assert_eq!((plain.text.as_str(), plain.in_literal(3)), ("plain", 3));
    }
}

//! How much of anything an answer has, and how it is written.

use serde::Serialize;

/// Characters of a title.
pub(crate) const TITLE_CHARS_MAX: usize = 200;

/// Characters of what was said in one answer; more is on the next page. Agents pay for every one of them.
pub(crate) const SAID_CHARS_MAX: usize = 60_000;

/// A text from some character on, and how many characters behind it were left out.
pub(crate) fn cut(text: &str, skip: usize, chars_max: usize) -> (String, usize) {
    let mut rest = text.chars().skip(skip);
    let taken = rest.by_ref().take(chars_max).collect();
    (taken, rest.count())
}

pub(crate) fn title(text: Option<String>) -> Option<String> {
    text.map(|text| cut(&text, 0, TITLE_CHARS_MAX).0)
}

/// JSON whose texts show what they are: characters that are invisible or turn the direction of reading, which are how a text says one
/// thing to people and another to models, are written as escapes.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    // What we answer with has no maps with keys other than texts, so it always serialises.
    let json = serde_json::to_string(value).unwrap_or_default();
    if !json.contains(is_hidden) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// A text for one line of a list.
pub(crate) fn visible(text: &str) -> String {
    text.replace(|c: char| c.is_control() || is_hidden(c), " ")
}

fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("añb", 0, 2), ("añ".to_owned(), 1));
        assert_eq!(cut("añb", 2, 9), ("b".to_owned(), 0));
        assert_eq!(cut("añb", 9, 9), (String::new(), 0));
    }

    #[test]
    fn hidden_characters_are_written_as_escapes_and_read_as_they_were() {
        let hostile = "a\u{202e}b\u{e0041}c\u{200b}\u{1b}[2J\"\\";
        let json = to_json(&hostile);
        assert!(!json.contains(is_hidden), "{json}");
        assert!(json.contains("\\u202e") && json.contains("\\udb40\\udc41"), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }
}

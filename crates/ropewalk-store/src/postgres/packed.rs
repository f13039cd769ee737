//! Texts that PostgreSQL would not take as they are. The formats are stored; extend them, never change them.

use std::borrow::Cow;

/// Stands in front of what replaces a character that TEXT cannot hold, and of itself.
const ESCAPE: char = '\u{1a}';
const NUL: char = '\0';

/// A text for a TEXT column, which cannot hold NUL. Nearly every text is its own escape.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(NUL as u8, ESCAPE as u8, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            NUL => out.extend([ESCAPE, '0']),
            ESCAPE => out.extend([ESCAPE, '1']),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

pub(super) fn unescape(text: String) -> String {
    if memchr::memchr(ESCAPE as u8, text.as_bytes()).is_none() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != ESCAPE {
            out.push(character);
            continue;
        }
        out.push(match characters.next() {
            Some('0') => NUL,
            _ => ESCAPE,
        });
    }
    out
}

/// Ends each text of a list; an escaped text never contains it.
const TEXT_END: &str = "\u{1a}2";

/// Several texts as one.
pub(super) fn write_texts(texts: &[String]) -> String {
    texts
        .iter()
        .flat_map(|text| [escape(text), Cow::Borrowed(TEXT_END)])
        .collect()
}

pub(super) fn read_texts(list: &str) -> Vec<String> {
    let texts = list.split_terminator(TEXT_END);
    texts.map(|text| unescape(text.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives_escaping_and_holds_no_nul() {
        for text in [
            "",
            "plain",
            "\0",
            "a\0b\u{1a}c",
            "\u{1a}0",
            "\u{1a}",
            "\0\0\u{1a}\u{1a}",
        ] {
            let escaped = escape(text);
            assert!(!escaped.contains('\0'));
            assert_eq!(unescape(escaped.into_owned()), text);
        }
    }

    #[test]
    fn lists_survive_packing() {
        for texts in [
            vec![],
            vec![String::new()],
            vec!["a\u{1a}2\0".to_owned(), "b\n".to_owned()],
        ] {
            assert_eq!(read_texts(&write_texts(&texts)), texts);
        }
    }
}

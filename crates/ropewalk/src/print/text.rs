//! Text from models is hostile: it may move the cursor, change colours or turn the direction of writing.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// One line: everything that is not plain text escaped, white space as one blank.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        word.chars().for_each(|c| push_escaped(&mut line, c));
    }
    line
}

/// Several lines: as [`one_line`], but line ends and tabs stay.
pub(crate) fn lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' | '\t' => lines.push(c),
            other => push_escaped(&mut lines, other),
        }
    }
    lines
}

/// At most `width` columns of one line; what is cut off is an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = one_line(text);
    if line.width() <= width {
        return line;
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in line.chars() {
        used += c.width().unwrap_or(0);
        if used >= width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// `text` filled up with blanks to a number of columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

fn push_escaped(out: &mut String, c: char) {
    if c.is_control() || turns_direction(c) || is_unseen_break(c) {
        out.extend(c.escape_unicode());
    } else {
        out.push(c);
    }
}

/// Marks, embeddings, overrides and isolates: they make a line read otherwise than it is written.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Line and paragraph separators, and the tags that hide text.
fn is_unseen_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_fool_a_terminal_is_escaped() {
        assert_eq!(
            one_line("a\u{1b}[31m b\u{202e}c\u{7}"),
            "a\\u{1b}[31m b\\u{202e}c\\u{7}"
        );
        assert_eq!(lines("a\r\nb\tc\rd\u{9b}2J"), "a\nb\tc\\u{d}d\\u{9b}2J");
        assert_eq!(one_line("  two\n\nlines "), "two lines");
        assert_eq!(one_line("žluť 漢字 🚀"), "žluť 漢字 🚀");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 7), "漢字漢…");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(padded("漢", 4), "漢  ");
    }
}

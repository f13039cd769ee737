//! Text from models is hostile: it may move the cursor, change colours or turn the direction of writing.

use std::borrow::Cow;

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

/// JSON that says the same and does nothing to a terminal. Outside of strings, JSON has white space and nothing else that would.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let is_white_space = |c: char| matches!(c, '\n' | '\r' | '\t');
    let is_raw = |c: char| is_escaped(c) && !is_white_space(c);
    if !text.chars().any(is_raw) {
        return Cow::Borrowed(text);
    }
    let mut json = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        match is_raw(c) {
            true => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| json.push_str(&format!("\\u{unit:04x}"))),
            false => json.push(c),
        }
    }
    Cow::Owned(json)
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

/// What our own colours begin and end with. Nobody else's reach a line: see [`one_line`].
const PAINT_BEGINS: char = '\u{1b}';
const PAINT_ENDS: char = 'm';

/// At most `width` columns of a line that we have painted: colours take none, and do not run on behind the cut.
pub(crate) fn cut_painted(line: &str, width: usize) -> String {
    let is_too_wide = painted_width(line) > width;
    let room = if is_too_wide { width.saturating_sub(1) } else { width };
    let mut kept = String::with_capacity(line.len());
    let (mut used, mut is_cut) = (0, false);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == PAINT_BEGINS {
            kept.push(c);
            for c in rest.by_ref() {
                kept.push(c);
                if c == PAINT_ENDS {
                    break;
                }
            }
            continue;
        }
        used += c.width().unwrap_or(0);
        match used <= room {
            true => kept.push(c),
            false if is_cut => {}
            false => {
                kept.push('…');
                is_cut = true;
            }
        }
    }
    kept
}

/// Columns of a line that we have painted.
pub(crate) fn painted_width(line: &str) -> usize {
    let mut is_paint = false;
    let mut plain = String::with_capacity(line.len());
    for c in line.chars() {
        match (is_paint, c) {
            (false, PAINT_BEGINS) => is_paint = true,
            (false, c) => plain.push(c),
            (true, c) => is_paint = c != PAINT_ENDS,
        }
    }
    plain.width()
}

/// `text` filled up with blanks to a number of columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

fn push_escaped(out: &mut String, c: char) {
    if is_escaped(c) {
        out.extend(c.escape_unicode());
    } else {
        out.push(c);
    }
}

fn is_escaped(c: char) -> bool {
    c.is_control() || turns_direction(c) || is_unseen_break(c)
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
    fn json_stays_what_it_says() {
        let said = "a\u{202e}b\u{9b}2J\u{7f}\u{e0041}漢";
        let written = serde_json::to_string(said).unwrap();
        assert_eq!(json(&written), "\"a\\u202eb\\u009b2J\\u007f\\udb40\\udc41漢\"");
        assert_eq!(serde_json::from_str::<String>(&json(&written)).unwrap(), said);
        assert!(matches!(json("{}"), Cow::Borrowed("{}")));
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 7), "漢字漢…");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(padded("漢", 4), "漢  ");
    }

    #[test]
    fn colours_take_no_room_and_end_where_the_line_is_cut() {
        let painted = "\u{1b}[1mabcdef\u{1b}[0m gh";
        assert_eq!(cut_painted(painted, 9), painted);
        assert_eq!(cut_painted(painted, 4), "\u{1b}[1mabc…\u{1b}[0m");
        assert_eq!(cut_painted("漢字漢字", 6), "漢字…");
    }
}

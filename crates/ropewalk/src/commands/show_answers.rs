//! Answers to one input, side by side.

use ropewalk_engine::matching::{Answers, StoredAnswer};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{dollars, short};
use crate::print::out::Out;
use crate::print::text::{cut, lines, padded};
use crate::print::time;

/// Narrower than this, a column is no pleasure to read: then there are fewer beside each other.
const COLUMN_MIN: usize = 36;

/// Between two columns.
const GAP: &str = "  ";

/// Lines of one answer that are shown to people; all of it is in `--json`.
const LINES_MAX: usize = 40;

pub(super) fn run(context: &Context, answers: &Answers, out: &mut Out) -> Result<(), Failure> {
    if context.json {
        return answers.answers.iter().try_for_each(|answer| out.versioned(answer));
    }
    if answers.answers.is_empty() {
        return out.line("no complete answer is stored");
    }
    let beside = ((out.width + GAP.len()) / (COLUMN_MIN + GAP.len())).max(1);
    let beside = beside.min(answers.answers.len());
    let width = (out.width + GAP.len()) / beside - GAP.len();
    for (band, row) in answers.answers.chunks(beside).enumerate() {
        if band > 0 {
            out.line("")?;
        }
        let columns: Vec<Column> = row.iter().map(|answer| Column::of(answer, width)).collect();
        let height = columns.iter().map(|column| column.lines.len()).max().unwrap_or(0);
        for line in 0..height {
            print_line(&columns, line, width, out)?;
        }
    }
    if answers.answers_left_out > 0 {
        out.line(&format!("… and {} answers more", answers.answers_left_out))?;
    }
    Ok(())
}

fn print_line(columns: &[Column], line: usize, width: usize, out: &mut Out) -> Result<(), Failure> {
    let cells = columns.iter().map(|column| {
        let text = column.lines.get(line).map_or("", |text| text);
        let cell = padded(text, width);
        match line {
            0 => out.name(&cell),
            line if line < column.head => out.faint(&cell),
            _ => cell,
        }
    });
    let text = cells.collect::<Vec<_>>().join(GAP);
    out.line(text.trim_end())
}

/// One answer, laid out.
struct Column {
    lines: Vec<String>,
    /// How many of them are about the answer.
    head: usize,
}

impl Column {
    fn of(answer: &StoredAnswer, width: usize) -> Self {
        let model = answer.model.as_deref().unwrap_or("unknown model");
        let options = answer.options.iter().map(|(name, value)| format!("{name}={value}"));
        let spent = match (answer.usage.output_tokens, answer.cost_usd) {
            (Some(tokens), Some(cost)) => format!(" · {} out · {}", short(tokens), dollars(cost)),
            (Some(tokens), None) => format!(" · {} out", short(tokens)),
            (None, _) => String::new(),
        };
        let mut head = vec![
            answer.exchange_id.clone(),
            format!("{model}{spent}"),
            time::local(answer.ended_at.as_deref().unwrap_or(&answer.at)),
            options.collect::<Vec<_>>().join(" "),
        ];
        if answer.reuse == "hit" {
            head.push("reused".to_owned());
        }
        if !answer.differs.is_empty() {
            head.push(format!("asked with other {}", answer.differs.join(", ")));
        }
        head.retain(|line| !line.is_empty());
        let mut lines: Vec<String> = head.iter().map(|line| cut(line, width)).collect();
        let head = lines.len();
        lines.push("─".repeat(width.min(24)));
        let mut said = wrapped(&answer.content, width);
        if said.len() > LINES_MAX {
            let left = said.len() - LINES_MAX;
            said.truncate(LINES_MAX);
            said.push(format!("… {left} lines more"));
        }
        lines.extend(said);
        Column { lines, head }
    }
}

/// A text in lines of at most so many columns, broken at blanks where there are any.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut all = Vec::new();
    for line in lines(text).replace('\t', "    ").lines() {
        let mut current = String::new();
        for word in line.split_inclusive(' ') {
            if !current.is_empty() && current.width() + word.trim_end().width() > width {
                all.push(std::mem::take(&mut current).trim_end().to_owned());
            }
            for c in word.chars() {
                if current.width() + c.width().unwrap_or(0) > width {
                    all.push(std::mem::take(&mut current));
                }
                current.push(c);
            }
        }
        all.push(current.trim_end().to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_blanks_and_within_words_that_are_too_long() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("漢字漢字", 4), ["漢字", "漢字"]);
        assert_eq!(wrapped("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(wrapped("a\u{1b}[31mb", 20), ["a\\u{1b}[31mb"]);
    }
}

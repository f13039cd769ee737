//! A path as Markdown, for reading and sharing.

use std::fmt::Write as _;

use ropewalk_core::model::Role;
use ropewalk_engine::view::transcript::Reach;
use ropewalk_engine::view::utc;

use super::reading::{Piece, Reading, Written, arguments, pieces};
use crate::print::text::{lines, one_line};

pub(super) const WRITTEN: Written = Written {
    reach: Reach::Everything,
    text,
};

fn text(reading: &Reading) -> String {
    let mut out = format!(
        "# {}\n\n`{}`\n",
        heading(&reading.title),
        one_line(&reading.conversation)
    );
    for spoken in &reading.spoken {
        let pieces = pieces(&spoken.content);
        let is_of_tools = pieces.iter().all(|piece| matches!(piece, Piece::Result(..)));
        if !is_of_tools {
            let who = match spoken.role {
                Role::Assistant => "Assistant",
                Role::User | Role::System => "User",
            };
            let model = spoken.answer.as_ref().and_then(|answer| answer.model.as_deref());
            let facts = [model.map(one_line), spoken.at.map(utc)];
            let facts: Vec<String> = facts.into_iter().flatten().collect();
            // Writing to a string cannot fail.
            let _ = write!(out, "\n## {who}\n\n*{}*\n", facts.join(" · "));
        }
        for piece in &pieces {
            out.push('\n');
            out.push_str(&block(piece));
        }
    }
    out
}

fn block(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => format!("{}\n", prose(text)),
        Piece::Thinking(text) => folded("Thinking", text),
        Piece::Call(name, input) => folded(&format!("Tool: {}", one_line(name)), &arguments(input)),
        Piece::Result(text, false) => folded("Result", text),
        Piece::Result(text, true) => folded("Result (failed)", text),
        Piece::Attached(what) => format!("*[{}]*\n", heading(what)),
    }
}

fn folded(title: &str, text: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    format!("<details><summary>{title}</summary>\n\n{}\n</details>\n", fenced(text))
}

/// In a fence that is longer than any in the text.
fn fenced(text: &str) -> String {
    let text = lines(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Markdown stays Markdown; only what would be markup of a page is taken literally.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_code = false;
    for line in lines(text).split('\n') {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        match is_code {
            true => out.push_str(line),
            // Whoever opens the page must not fetch what a model named.
            false => out.push_str(&line.replace('<', "&lt;").replace("![", "!\\[")),
        }
    }
    // What opened and never ended must not swallow the rest.
    if is_code {
        out.push_str("\n```");
    }
    out
}

fn heading(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' => out.extend(['\\', c]),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_fence_or_becomes_markup() {
        assert_eq!(fenced("a ```` b"), "`````\na ```` b\n`````");
        assert_eq!(prose("<script>x</script> & y"), "&lt;script>x&lt;/script> & y");
        assert_eq!(prose("```\n<b>"), "```\n<b>\n```");
        assert_eq!(prose("![x](//example.org/a.png)"), "!\\[x](//example.org/a.png)");
        assert_eq!(heading("a *b* <c> \u{202e}"), "a \\*b\\* &lt;c> \\\\u{202e}");
    }
}

//! A path as one HTML file: no script, nothing from elsewhere, everything that was said as text.

use ropewalk_core::model::Role;
use ropewalk_engine::view::transcript::{Reach, Spoken};
use ropewalk_engine::view::utc;

use super::reading::{Piece, Reading, Written, arguments, pieces};
use crate::print::text::{lines, one_line};

pub(super) const WRITTEN: Written = Written {
    reach: Reach::Everything,
    text,
};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1d1f;--paper:#fdfdfc;--faint:#6b6f76;--line:#dddcd8;--user:#f1f0ec;--alarm:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e4e3df;--paper:#17181a;--faint:#9a9ea6;--line:#35373b;--user:#222427;--alarm:#f2b8b5}}
body{margin:0 auto;padding:2rem 1rem;max-width:48rem;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0 0 .2rem}
.faint,summary,header{color:var(--faint);font-size:.85rem}
article{border-top:1px solid var(--line);padding:1rem 0;overflow-wrap:anywhere}
article.user{background:var(--user);margin:0 -1rem;padding:1rem}
article.tools{border:0;padding:0 0 1rem}
h2{font-size:.95rem;margin:0 0 .4rem}
.text{white-space:pre-wrap;margin:.4rem 0}
details{border:1px solid var(--line);border-radius:6px;padding:.3rem .7rem;margin:.4rem 0}
summary{cursor:pointer}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem;max-height:40rem;overflow:auto}
.failed summary{color:var(--alarm)}
@media print{details>*{display:block}}";

fn text(reading: &Reading) -> String {
    let title = escaped(&one_line(&reading.title));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style></head><body>\n\
         <header><h1>{title}</h1>{}</header>\n<main>\n",
        escaped(&one_line(&reading.conversation))
    );
    for spoken in &reading.spoken {
        article(spoken, &mut out);
    }
    out.push_str("</main></body></html>\n");
    out
}

fn article(spoken: &Spoken, out: &mut String) {
    let pieces = pieces(&spoken.content);
    let is_of_tools = pieces.iter().all(|piece| matches!(piece, Piece::Result(..)));
    let (class, who) = match spoken.role {
        _ if is_of_tools => ("tools", ""),
        Role::Assistant => ("assistant", "Assistant"),
        Role::User | Role::System => ("user", "User"),
    };
    out.push_str(&format!("<article class=\"{class}\">\n"));
    if !is_of_tools {
        let model = spoken.answer.as_ref().and_then(|answer| answer.model.as_deref());
        let facts = [model.map(one_line), spoken.at.map(utc)];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let facts = escaped(&facts.join(" · "));
        out.push_str(&format!("<h2>{who} <span class=\"faint\">{facts}</span></h2>\n"));
    }
    for piece in &pieces {
        out.push_str(&block(piece));
    }
    out.push_str("</article>\n");
}

fn block(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => format!("<div class=\"text\">{}</div>\n", escaped(&lines(text))),
        Piece::Thinking(text) => folded("Thinking", text, ""),
        Piece::Call(name, input) => folded(&format!("Tool: {}", one_line(name)), &arguments(input), ""),
        Piece::Result(text, false) => folded("Result", text, ""),
        Piece::Result(text, true) => folded("Result (failed)", text, " class=\"failed\""),
        Piece::Attached(what) => format!("<div class=\"faint\">[{}]</div>\n", escaped(&one_line(what))),
    }
}

fn folded(title: &str, text: &str, class: &str) -> String {
    let (title, text) = (escaped(title), escaped(&lines(text)));
    format!("<details{class}><summary>{title}</summary><pre>{text}</pre></details>\n")
}

/// Nothing is markup. Controls and marks that turn the direction of writing are spelled out before.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

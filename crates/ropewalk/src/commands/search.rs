//! `ropewalk search`: words in what was said.

use std::collections::HashMap;

use jiff::Timestamp;
use ropewalk_engine::view::{View, utc};
use ropewalk_store::Store as _;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{Hit, SearchQuery};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::any_store::AnyStore;
use crate::cli::Search;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::counted;
use crate::print::out::{Out, say};
use crate::print::text::one_line;
use crate::print::time;

/// How the store marks the words that were found.
const MATCH_BEGINS: char = '\u{2}';
const MATCH_ENDS: char = '\u{3}';

pub(crate) async fn run(context: &Context, arguments: &Search) -> Result<(), Failure> {
    let store = context.read().await?;
    let Some(view) = context.view(&store).await? else {
        return Ok(());
    };
    let since = arguments.since.as_ref().map(|text| time::parse(text, Timestamp::now()));
    let query = SearchQuery {
        text: arguments.words.join(" "),
        source: None,
        model: arguments.model.clone(),
        since: since.transpose()?,
        limit: arguments.count,
    };
    say_if_behind(&view).await?;
    let hits = view.store.search(view.owner, query).await?;
    if hits.is_empty() {
        return Err(
            Failure::new(Kind::NotFound, "nobody said that").hint("every word must occur; fewer words find more")
        );
    }
    let rows = view.rows(hits.iter().map(|hit| hit.exchange).collect()).await?;
    let rows: HashMap<ExchangeNumber, _> = rows.into_iter().map(|row| (row.number, row)).collect();
    let mut out = context.out();
    for hit in &hits {
        let Some(row) = rows.get(&hit.exchange) else {
            continue;
        };
        if context.json {
            let snippet: String = hit
                .snippet
                .chars()
                .filter(|c| ![MATCH_BEGINS, MATCH_ENDS].contains(c))
                .collect();
            out.json(&serde_json::json!({
                "v": 1, "exchange_id": row.id, "at": utc(row.at), "source": hit.source.name(), "snippet": snippet,
            }))?;
            continue;
        }
        let id = out.name(&one_line(&row.id));
        let when = out.faint(&format!("{} · {}", hit.source.name(), time::local(&utc(row.at))));
        out.line(&format!("{id}  {when}"))?;
        let text = marked(hit, &out);
        out.fitted(&format!("{INDENT}{text}"))?;
    }
    out.finish()
}

/// Says how much cannot be found yet: who looks for a secret must not take silence for an answer.
pub(super) async fn say_if_behind(view: &View<'_, AnyStore>) -> Result<(), Failure> {
    let waiting = view.store.search_lag(view.owner).await?.waiting;
    if waiting > 0 {
        let texts = counted(waiting, "text is", "texts are");
        say(&format!(
            "{texts} not searchable yet; a running server or the next import makes them so"
        ));
    }
    Ok(())
}

/// In front of a snippet.
const INDENT: &str = "    ";

/// The snippet with what was found made strong, from so far in front of it that it stays in sight.
fn marked(hit: &Hit, out: &Out) -> String {
    let mut pieces: Vec<(bool, String)> = Vec::new();
    for (at, piece) in hit.snippet.split(MATCH_BEGINS).enumerate() {
        match piece.split_once(MATCH_ENDS).filter(|_| at > 0) {
            Some((found, behind)) => pieces.extend([(true, plain(found)), (false, plain(behind))]),
            None => pieces.push((false, plain(piece))),
        }
    }
    let room = out.width.saturating_sub(INDENT.len());
    let whole: usize = pieces.iter().map(|(_, text)| text.width()).sum();
    if let Some((false, before)) = pieces.first_mut()
        && out.is_narrow()
        && whole > room
    {
        *before = end_of(before, room / 3);
    }
    let painted = pieces.iter().map(|(is_found, text)| match is_found {
        true => out.found(text),
        false => text.clone(),
    });
    painted.collect()
}

/// At most `width` columns from the end of a line.
fn end_of(text: &str, width: usize) -> String {
    let mut used = 0;
    let kept = text.char_indices().rev().take_while(|(_, c)| {
        used += c.width().unwrap_or(0);
        used < width
    });
    match kept.last() {
        Some((0, _)) | None => text.to_owned(),
        Some((at, _)) => format!("…{}", &text[at..]),
    }
}

/// As [`one_line`], with the blanks at both ends, which stand between the pieces.
fn plain(text: &str) -> String {
    let blank = |is: bool| if is { " " } else { "" };
    let inside = one_line(text);
    let (before, behind) = (
        text.starts_with(char::is_whitespace),
        text.ends_with(char::is_whitespace),
    );
    match inside.is_empty() {
        true => blank(before).to_owned(),
        false => format!("{}{inside}{}", blank(before), blank(behind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_line_is_what_stands_before_a_match() {
        assert_eq!(end_of("one two three", 6), "…three");
        assert_eq!(end_of("one", 6), "one");
        assert_eq!(end_of("漢字漢字", 6), "…漢字");
    }
}

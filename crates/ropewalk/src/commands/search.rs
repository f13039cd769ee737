//! `ropewalk search`: words in what was said.

use std::collections::HashMap;

use jiff::Timestamp;
use ropewalk_engine::view::utc;
use ropewalk_store::Store as _;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{Hit, SearchQuery};

use crate::cli::Search;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;
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
    let hits = view.store.search(view.owner, query).await?;
    if hits.is_empty() {
        return Err(
            Failure::new(Kind::NotFound, "nobody said that").hint("every word must occur; fewer words find more")
        );
    }
    let rows = view.rows(hits.iter().map(|hit| hit.exchange).collect()).await?;
    let rows: HashMap<ExchangeNumber, _> = rows.into_iter().map(|row| (row.number, row)).collect();
    let mut out = Out::new();
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
        out.line(&format!("    {text}"))?;
    }
    out.finish()
}

/// The snippet with what was found made strong.
fn marked(hit: &Hit, out: &Out) -> String {
    let pieces = hit.snippet.split(MATCH_BEGINS).enumerate();
    let pieces = pieces.map(|(at, piece)| match piece.split_once(MATCH_ENDS) {
        Some((found, behind)) if at > 0 => format!("{}{}", out.strong(&plain(found)), plain(behind)),
        _ => plain(piece),
    });
    pieces.collect()
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

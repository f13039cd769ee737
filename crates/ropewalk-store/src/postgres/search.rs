//! Full text: texts wait in a queue, are indexed later, and are found by their words.
//!
//! A text that is stored as a part is not stored again: the queue and the index name the part, and snippets are cut
//! from it. TEXT cannot hold NUL, so the index sees a copy without it; Rust's strings hold no lone surrogates.

use std::borrow::Cow;
use std::collections::HashMap;

use deadpool_postgres::{Client, Transaction};
use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::part::PartData;

use super::bodies::Bodies;
use super::body::Parts;
use super::packed::escape;
use super::problem::{damaged, problem};
use super::read::page;
use super::rows::Row;
use super::{query, sql, unsigned};
use crate::codec::Unpacker;
use crate::facts::{ExchangeNumber, OwnerId, SearchText};
use crate::packed::{source_code, source_of};
use crate::store::{Hit, QUERY_WORDS_MAX, Result, SearchLag, SearchQuery};

/// A longer text is indexed in fragments: a tsvector holds 1 MiB, and words may be counted in several forms each.
const FRAGMENT_MAX: usize = 128 * 1024;

/// Texts indexed in one transaction, so that a long queue neither holds locks nor memory for long.
const TEXTS_MAX: i64 = 512;

/// Bytes of one query; the rest is left out.
const QUERY_BYTES_MAX: usize = 4 << 10;

/// How a snippet looks: a few words around the match, which stands between U+0002 and U+0003.
const HEADLINE: &str =
    "StartSel=\"\u{2}\", StopSel=\"\u{3}\", MaxWords=24, MinWords=8, MaxFragments=2, FragmentDelimiter=\" … \"";

/// Puts the texts of a batch into the queue.
pub(super) async fn queue(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    rows: &[Row<'_>],
    bodies: &Bodies<'_>,
) -> Result<()> {
    let mut waiting = Waiting::default();
    for row in rows {
        waiting.push_texts(row, bodies);
    }
    if waiting.exchanges.is_empty() {
        return Ok(());
    }
    query(
        transaction,
        sql::INSERT_WAITING_TEXTS,
        &[
            &owner.0,
            &waiting.exchanges,
            &waiting.digests,
            &waiting.sources,
            &waiting.at,
            &waiting.parts,
            &waiting.texts,
        ],
    )
    .await?;
    Ok(())
}

#[derive(Debug, Default)]
struct Waiting<'b> {
    exchanges: Vec<i64>,
    digests: Vec<i64>,
    sources: Vec<i16>,
    at: Vec<i64>,
    parts: Vec<Option<i64>>,
    texts: Vec<Option<Cow<'b, str>>>,
}

impl<'b> Waiting<'b> {
    fn push_texts(&mut self, row: &Row<'b>, bodies: &Bodies<'_>) {
        let begin = row.is_new.then_some(&row.begin.texts);
        let end = (!row.is_new || !std::ptr::eq(row.begin, row.end)).then_some(&row.end.texts);
        let texts = begin.into_iter().chain(end).flatten();
        let texts: Vec<&SearchText> = texts.filter(|text| !text.text().is_empty()).collect();
        if texts.is_empty() {
            return;
        }
        let shared = shared_parts(row);
        for text in texts {
            let whole = match &text.strings[..] {
                [only] => Cow::Borrowed(&**only),
                _ => Cow::Owned(text.text()),
            };
            let part = shared.get(&whole.as_ptr()).filter(|(_, length)| *length == whole.len());
            let hash = part.map_or_else(|| sha256(whole.as_bytes()), |(hash, _)| hash.0);
            let number = part.and_then(|(hash, _)| bodies.part_number(hash));
            self.exchanges.push(row.number);
            self.digests.push(digest(text, &hash));
            self.sources.push(source_code(text.source));
            self.at.push(row.at);
            self.parts.push(number);
            self.texts.push(number.is_none().then(|| match whole {
                Cow::Borrowed(text) => sanitised(text),
                Cow::Owned(text) => sanitised(&text).into_owned().into(),
            }));
        }
    }
}

/// Text parts by where their memory is: a text that is said in a body shares it with the part.
fn shared_parts(row: &Row<'_>) -> HashMap<*const u8, (PartHash, usize)> {
    let bodies = row.end.response.iter().chain([&row.begin.request]);
    bodies
        .flat_map(|body| body.recipe.parts())
        .filter_map(|part| match &part.data {
            PartData::Text(text) => Some((text.as_ptr(), (part.hash, text.len()))),
            PartData::Bytes(_) => None,
        })
        .collect()
}

/// Names a text within its exchange, so that the same one is not indexed twice.
fn digest(text: &SearchText, hash: &[u8; 32]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(first) ^ i64::from(source_code(text.source))
}

/// A copy without what TEXT cannot hold. Lossy on purpose: it is only searched, never shown as the record.
fn sanitised(text: &str) -> Cow<'_, str> {
    if memchr::memchr(0, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\0', " "))
}

/// As much of a query as is answered: PostgreSQL takes a minute to show where two thousand words stand.
fn first_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(QUERY_WORDS_MAX).collect();
    let mut words = words.join(" ");
    words.truncate(words.floor_char_boundary(QUERY_BYTES_MAX));
    words
}

/// A text in pieces that can be indexed, none empty.
fn fragments(mut text: &str) -> Vec<&str> {
    let mut fragments = Vec::new();
    while text.len() > FRAGMENT_MAX {
        let end = text.floor_char_boundary(FRAGMENT_MAX);
        // Between words where there are any; nothing is lost where there are none.
        let end = text[..end]
            .rfind(char::is_whitespace)
            .filter(|end| *end > 0)
            .unwrap_or(end);
        let (fragment, rest) = text.split_at(end);
        fragments.push(fragment);
        text = rest;
    }
    fragments.push(text);
    fragments
}

pub(super) async fn lag(client: &Client, owner: OwnerId) -> Result<SearchLag> {
    let rows = query(client, sql::WAITING_TEXTS, &[&owner.0]).await?;
    let waiting = rows.first().map_or(0, |row| unsigned(row.get(0)));
    Ok(SearchLag { waiting })
}

/// Indexes waiting texts of all owners, one owner after the other.
pub(super) async fn index_texts(client: &mut Client, limit: usize) -> Result<SearchLag> {
    let mut left = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut waiting = 0;
    for row in query(client, sql::WAITING_OWNERS, &[]).await? {
        let (owner, mut of_owner): (i64, i64) = (row.get(0), row.get(1));
        while left > 0 && of_owner > 0 {
            let done = index_some(client, OwnerId(owner), left.min(TEXTS_MAX)).await?;
            if done == 0 {
                break;
            }
            left -= done;
            of_owner -= done;
        }
        waiting += unsigned(of_owner);
    }
    Ok(SearchLag { waiting })
}

#[derive(Debug, Default)]
struct Indexed {
    exchanges: Vec<i64>,
    digests: Vec<i64>,
    fragments: Vec<i32>,
    sources: Vec<i16>,
    at: Vec<i64>,
    parts: Vec<Option<i64>>,
    texts: Vec<String>,
}

async fn index_some(client: &mut Client, owner: OwnerId, limit: i64) -> Result<i64> {
    let transaction = client.transaction().await.map_err(problem)?;
    let rows = query(&transaction, sql::TAKE_WAITING_TEXTS, &[&owner.0, &limit]).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let numbers: Vec<i64> = rows.iter().filter_map(|row| row.get(4)).collect();
    let parts = Parts::read(&transaction, owner, &numbers, &mut Unpacker::default()).await?;
    let mut indexed = Indexed::default();
    for row in &rows {
        let part: Option<i64> = row.get(4);
        let text = text_of(part, row.get(5), &parts)?;
        for (place, fragment) in (0..).zip(fragments(&text)) {
            indexed.exchanges.push(row.get(0));
            indexed.digests.push(row.get(1));
            indexed.fragments.push(place);
            indexed.sources.push(row.get(2));
            indexed.at.push(row.get(3));
            indexed.parts.push(part);
            indexed.texts.push(fragment.to_owned());
        }
    }
    query(
        &transaction,
        sql::INSERT_TEXTS,
        &[
            &owner.0,
            &indexed.exchanges,
            &indexed.digests,
            &indexed.fragments,
            &indexed.sources,
            &indexed.at,
            &indexed.parts,
            &indexed.texts,
        ],
    )
    .await?;
    transaction.commit().await.map_err(problem)?;
    Ok(rows.len() as i64)
}

/// The sanitised text of a row that has either a part or the text itself. A part that is gone has no words.
fn text_of(part: Option<i64>, text: Option<String>, parts: &Parts) -> Result<String> {
    let Some(part) = part else {
        return Ok(text.unwrap_or_default());
    };
    let bytes = parts.get(part).unwrap_or_default();
    let text = std::str::from_utf8(bytes).map_err(|_| damaged(format!("part {part} should be a text")))?;
    Ok(sanitised(text).into_owned())
}

pub(super) async fn search(client: &Client, owner: OwnerId, asked: &SearchQuery) -> Result<Vec<Hit>> {
    let words = first_words(&sanitised(&asked.text));
    let source = asked.source.map(source_code);
    let since = asked.since.map(|at| at.0);
    let model = asked.model.as_deref().map(escape);
    let limit = page(asked.limit);
    let rows = query(
        client,
        sql::SEARCH,
        &[&owner.0, &words, &source, &since, &model, &limit],
    )
    .await?;
    let numbers: Vec<i64> = rows.iter().filter_map(|row| row.get(2)).collect();
    let parts = Parts::read(client, owner, &numbers, &mut Unpacker::default()).await?;
    let mut texts = Vec::with_capacity(rows.len());
    for row in &rows {
        let part: Option<i64> = row.get(2);
        let text = text_of(part, row.get(4), &parts)?;
        // A text of its own is stored fragment by fragment, a part is stored whole.
        let fragment = usize::try_from(row.get::<_, i32>(3)).unwrap_or_default();
        let fragment = if part.is_some() { fragment } else { 0 };
        texts.push(fragments(&text).get(fragment).copied().unwrap_or_default().to_owned());
    }
    let headlines = query(client, sql::HEADLINES, &[&words, &texts, &HEADLINE]).await?;
    rows.iter()
        .zip(headlines)
        .map(|(row, headline)| {
            Ok(Hit {
                exchange: ExchangeNumber(row.get(0)),
                source: source_of(row.get(1))?,
                snippet: headline.get(0),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_lose_nothing_and_are_short_enough() {
        for text in [String::new(), "word ".repeat(100_000), "ä".repeat(200_000)] {
            let fragments = fragments(&text);
            assert_eq!(fragments.concat(), text);
            assert!(fragments.iter().all(|fragment| fragment.len() <= FRAGMENT_MAX));
        }
    }
}

//! Full text. Recording only queues what there is to index; [`index_texts`] follows.
//!
//! The index has no copy of the texts: a hit's text is its part, which is stored anyway, or a few bytes beside the hit.

use ropewalk_core::hash::{PartHash, sha256};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec::Codec;
use crate::facts::{ExchangeNumber, OwnerId, SearchText, TextSource};
use crate::packed::{source_code, source_of};
use crate::sqlite::bodies::{Parts, Unpacking};
use crate::sqlite::keys::key;
use crate::sqlite::problem;
use crate::sqlite::record::Recorder;
use crate::store::{Hit, PAGE_MAX, Result, SearchLag, SearchQuery, StoreError};

/// Characters around a match.
const SNIPPET_BEFORE: usize = 60;
const SNIPPET_AFTER: usize = 100;

/// Words of one query; the rest is left out.
const WORDS_MAX: usize = 32;

/// Remembers what an exchange says, to be indexed soon.
pub(super) fn queue<'t>(
    recorder: &mut Recorder<'_>,
    texts: impl IntoIterator<Item = &'t SearchText>,
    number: i64,
) -> Result<()> {
    for text in texts {
        let bytes = text.text.as_bytes();
        let part = recorder.find_part(&PartHash(sha256(bytes)))?;
        recorder.counters.last_text += 1;
        let text_number = recorder.counters.last_text;
        let (codec, packed) = match part {
            Some(_) => (Codec::Plain, None),
            None => {
                let (codec, packed) = recorder.pack(bytes)?;
                (codec, Some(packed))
            }
        };
        let owner = recorder.owner;
        let connection = recorder.session.connection();
        let insert = "INSERT INTO search_text (key, owner_id, exchange, source, part, length, codec, bytes) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let row = params![
            key(owner, text_number),
            owner.0,
            number,
            source_code(text.source),
            part,
            bytes.len() as i64,
            codec.code(),
            packed
        ];
        connection
            .prepare_cached(insert)
            .and_then(|mut insert| insert.execute(row))
            .map_err(problem)?;
        let insert = "INSERT INTO search_queue (owner_id, text) VALUES (?1, ?2)";
        let row = params![owner.0, text_number];
        connection
            .prepare_cached(insert)
            .and_then(|mut insert| insert.execute(row))
            .map_err(problem)?;
    }
    Ok(())
}

pub(super) fn index_texts(connection: &Connection, limit: usize) -> Result<SearchLag> {
    let select = "SELECT number, owner_id, text FROM search_queue ORDER BY number LIMIT ?1";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let waiting: Vec<(i64, OwnerId, i64)> = statement
        .query_map([limit as i64], |row| {
            Ok((row.get(0)?, OwnerId(row.get(1)?), row.get(2)?))
        })
        .and_then(Iterator::collect)
        .map_err(problem)?;
    for (_, owner, text) in &waiting {
        if let Some(found) = text_of(connection, *owner, *text)? {
            let insert = "INSERT INTO search (rowid, owner, text) VALUES (?1, ?2, ?3)";
            let row = params![key(*owner, *text), owner_token(*owner), found.text];
            connection
                .prepare_cached(insert)
                .and_then(|mut insert| insert.execute(row))
                .map_err(problem)?;
        }
    }
    if let Some((last, _, _)) = waiting.last() {
        let delete = "DELETE FROM search_queue WHERE number <= ?1";
        connection.execute(delete, [last]).map_err(problem)?;
    }
    let left = connection.query_row("SELECT count(*) FROM search_queue", [], |row| row.get::<_, i64>(0));
    Ok(SearchLag {
        waiting: left.map_err(problem)? as u64,
    })
}

struct Found {
    exchange: ExchangeNumber,
    source: TextSource,
    text: String,
}

fn text_of(connection: &Connection, owner: OwnerId, number: i64) -> Result<Option<Found>> {
    let select =
        "SELECT exchange, source, part, length, codec, bytes FROM search_text WHERE key = ?1 AND owner_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = statement.query_row(params![key(owner, number), owner.0], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, i16>(1)?,
            row.get::<_, Option<i64>>(2)?,
            (
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
                row.get::<_, Option<Vec<u8>>>(5)?,
            ),
        ))
    });
    let Some((exchange, source, part, (length, codec, bytes))) = row.optional().map_err(problem)? else {
        return Ok(None);
    };
    let damaged = || StoreError::Damaged(format!("text {number} cannot be read"));
    let bytes = match (part, bytes) {
        (Some(part), _) => Parts::new(connection, owner).load(part)?.bytes,
        (None, Some(bytes)) => Unpacking::new(connection, owner).unpack(codec, &bytes, length)?,
        (None, None) => Vec::new(),
    };
    Ok(Some(Found {
        exchange: ExchangeNumber(exchange),
        source: source_of(source)?,
        text: String::from_utf8(bytes).map_err(|_| damaged())?,
    }))
}

pub(super) fn search(connection: &Connection, owner: OwnerId, query: &SearchQuery) -> Result<Vec<Hit>> {
    let phrases = phrases(&query.text);
    if phrases.is_empty() {
        return Ok(Vec::new());
    }
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("text : \"{phrase}\"")).collect();
    let expression = format!("owner : {} AND {}", owner_token(owner), quoted.join(" AND "));
    let select = "SELECT t.key FROM search s JOIN search_text t ON t.key = s.rowid AND t.owner_id = ?1 \
                  JOIN exchange e ON e.key = (t.owner_id << 40 | t.exchange) AND e.owner_id = t.owner_id \
                  WHERE search MATCH ?2 AND t.owner_id = ?1 AND (?3 IS NULL OR t.source = ?3) \
                  AND (?4 IS NULL OR e.model = ?4) AND (?5 IS NULL OR e.at >= ?5) ORDER BY e.at DESC, t.key DESC LIMIT ?6";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = params![
        owner.0,
        expression,
        query.source.map(source_code),
        query.model,
        query.since.map(|since| since.0),
        query.limit.min(PAGE_MAX) as i64
    ];
    let found: Vec<i64> = statement
        .query_map(row, |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(problem)?;
    let mut hits = Vec::new();
    for text in found {
        if let Some(found) = text_of(connection, owner, super::keys::number(text))? {
            hits.push(Hit {
                exchange: found.exchange,
                source: found.source,
                snippet: snippet(&found.text, &phrases),
            });
        }
    }
    Ok(hits)
}

/// Words and quoted phrases of a query, with nothing in them that the query language could mistake for syntax.
fn phrases(query: &str) -> Vec<String> {
    let mut phrases = Vec::new();
    for (index, piece) in query.split('"').enumerate() {
        let clean: String = piece
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { ' ' })
            .collect();
        let words: Vec<&str> = clean.split_whitespace().collect();
        if index % 2 == 1 && !words.is_empty() {
            phrases.push(words.join(" "));
        } else {
            phrases.extend(words.into_iter().map(str::to_owned));
        }
    }
    phrases.truncate(WORDS_MAX);
    phrases
}

/// Text around the first match, with the match marked.
fn snippet(text: &str, phrases: &[String]) -> String {
    let lower = text.to_lowercase();
    let first_word = |phrase: &String| phrase.split(' ').next().map(str::to_lowercase);
    let hit = phrases
        .iter()
        .filter_map(first_word)
        .filter_map(|word| Some((lower.find(&word)?, word.len())))
        .min();
    let Some((at, length)) =
        hit.filter(|(at, length)| text.is_char_boundary(*at) && text.is_char_boundary(at + length))
    else {
        // Lower-casing moved the places, or the word was folded: show the beginning, unmarked.
        return text.chars().take(SNIPPET_BEFORE + SNIPPET_AFTER).collect();
    };
    let start = text.floor_char_boundary(at.saturating_sub(SNIPPET_BEFORE));
    let end = text.ceil_char_boundary((at + length + SNIPPET_AFTER).min(text.len()));
    format!(
        "{}\u{2}{}\u{3}{}",
        &text[start..at],
        &text[at..at + length],
        &text[at + length..end]
    )
}

/// A word that stands for an owner in the index.
fn owner_token(owner: OwnerId) -> String {
    format!("o{}", owner.0)
}

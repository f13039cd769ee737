//! Full text. Recording only queues what there is to index; [`index_texts`] follows.
//!
//! The index has no copy of the texts: a hit's strings are parts, which are stored anyway, or a few bytes beside the hit.

use std::sync::Arc;

use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::leb128;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use crate::codec::{Codec, Unpacker};
use crate::facts::{ExchangeNumber, OwnerId, SearchText, TextSource};
use crate::packed::{source_code, source_of};
use crate::sqlite::bodies::Parts;
use crate::sqlite::fresh_texts::FreshTexts;
use crate::sqlite::keys::{key, keys_of};
use crate::sqlite::packs::cannot_pack;
use crate::sqlite::problem;
use crate::sqlite::record::Recorder;
use crate::sqlite::writer::Session;
use crate::store::{Hit, PAGE_MAX, QUERY_WORDS_MAX, Result, SearchLag, SearchQuery, StoreError};

/// Characters around a match.
const SNIPPET_BEFORE: usize = 60;
const SNIPPET_AFTER: usize = 100;

/// Longest string that is kept beside the parts; damaged lengths must not ask for all memory.
const STRING_BYTES_MAX: usize = 1 << 30;

/// Remembers what an exchange says, to be indexed soon.
pub(super) fn queue<'t>(
    recorder: &mut Recorder<'_>,
    texts: impl IntoIterator<Item = &'t SearchText>,
    number: i64,
) -> Result<()> {
    for text in texts {
        let strings = write_strings(recorder, &text.strings)?;
        recorder.counters.last_text += 1;
        let text_number = recorder.counters.last_text;
        let owner = recorder.owner;
        recorder.session.texts.keep(owner, text_number, &text.strings);
        let connection = recorder.session.connection();
        let insert = "INSERT INTO search_text (key, owner_id, exchange, source, strings) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![
            key(owner, text_number),
            owner.0,
            number,
            source_code(text.source),
            strings
        ];
        connection
            .prepare_cached(insert)
            .and_then(|mut insert| insert.execute(row))
            .map_err(problem)?;
    }
    Ok(())
}

/// Strings as they are stored: the number of a part, or 0 and the string itself, packed.
fn write_strings(recorder: &mut Recorder<'_>, strings: &[Arc<str>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for string in strings {
        let bytes = string.as_bytes();
        if let Some(part) = recorder.find_part(&PartHash(sha256(bytes)))? {
            leb128::write(part as u64, &mut out);
            continue;
        }
        let (codec, packed) = recorder.session.packer()?.1.pack(bytes).map_err(cannot_pack)?;
        leb128::write(0, &mut out);
        leb128::write(codec.code() as u64, &mut out);
        leb128::write(bytes.len() as u64, &mut out);
        leb128::write(packed.len() as u64, &mut out);
        out.extend_from_slice(&packed);
    }
    Ok(out)
}

/// The parts among stored strings.
pub(super) fn parts_of(mut rest: &[u8]) -> Result<Vec<i64>> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut next = || leb128::read(&mut rest).ok_or_else(unreadable);
        match next()? {
            0 => {
                let (_codec, _length, packed) = (next()?, next()?, next()?);
                (_, rest) = rest.split_at_checked(packed as usize).ok_or_else(unreadable)?;
            }
            part => parts.push(part as i64),
        }
    }
    Ok(parts)
}

/// Texts that are not found any more, by their keys.
pub(super) fn remove(connection: &Connection, owner: OwnerId, texts: &[i64]) -> Result<()> {
    // Of one that waits to be indexed there is nothing to remove.
    let of_index = "DELETE FROM search WHERE rowid = (SELECT key FROM search_text WHERE key = ?1 AND owner_id = ?2)";
    let of_texts = "DELETE FROM search_text WHERE key = ?1 AND owner_id = ?2";
    for delete in [of_index, of_texts] {
        let mut statement = connection.prepare_cached(delete).map_err(problem)?;
        for text in texts {
            statement.execute([*text, owner.0]).map_err(problem)?;
        }
    }
    Ok(())
}

fn unreadable() -> StoreError {
    StoreError::Damaged("a text to be found cannot be read".to_owned())
}

pub(super) fn lag(connection: &Connection, owner: OwnerId) -> Result<SearchLag> {
    let select = "SELECT last_text - indexed_text FROM owner WHERE owner_id = ?1";
    let waiting = connection.query_row(select, [owner.0], |row| row.get::<_, i64>(0));
    Ok(SearchLag {
        waiting: waiting.map_err(problem)?.cast_unsigned(),
    })
}

/// Texts are indexed in the order of their numbers, owners side by side.
pub(super) fn index_texts(session: &mut Session, limit: usize) -> Result<SearchLag> {
    let mut fresh = std::mem::take(&mut session.texts);
    let lag = index_with(session.connection(), &mut fresh, limit);
    session.texts = fresh;
    lag
}

fn index_with(connection: &Connection, fresh: &mut FreshTexts, limit: usize) -> Result<SearchLag> {
    let select = "SELECT owner_id, indexed_text, last_text FROM owner WHERE indexed_text < last_text";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let waiting: Vec<(OwnerId, i64, i64)> = statement
        .query_map([], |row| Ok((OwnerId(row.get(0)?), row.get(1)?, row.get(2)?)))
        .and_then(Iterator::collect)
        .map_err(problem)?;
    let mut left = limit;
    let mut lag = 0;
    for (place, (owner, indexed, last)) in waiting.iter().enumerate() {
        // What an owner does not need of its share is for those behind it.
        let share = left.div_ceil(waiting.len() - place).min((last - indexed) as usize);
        left -= share;
        index_owner(connection, fresh, *owner, *indexed, share as i64)?;
        lag += (last - indexed) as u64 - share as u64;
    }
    Ok(SearchLag { waiting: lag })
}

fn index_owner(
    connection: &Connection,
    fresh: &mut FreshTexts,
    owner: OwnerId,
    indexed: i64,
    count: i64,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let mut texts = Texts::new(connection, owner);
    // A text that was forgotten is not there.
    let is_there = "SELECT 1 FROM search_text WHERE key = ?1 AND owner_id = ?2";
    let insert = "INSERT INTO search (rowid, text) VALUES (?1, ?2)";
    let mut is_there = connection.prepare_cached(is_there).map_err(problem)?;
    let mut insert = connection.prepare_cached(insert).map_err(problem)?;
    for number in indexed + 1..=indexed + count {
        let row = key(owner, number);
        let text = match fresh.take(owner, number) {
            Some(text) => is_there.exists([row, owner.0]).map_err(problem)?.then_some(text),
            None => texts.find(number)?.map(|found| found.text),
        };
        if let Some(text) = text {
            insert.execute(params![row, text]).map_err(problem)?;
        }
    }
    let update = "UPDATE owner SET indexed_text = ?2 WHERE owner_id = ?1";
    let row = [owner.0, indexed + count];
    connection
        .prepare_cached(update)
        .and_then(|mut update| update.execute(row))
        .map_err(problem)?;
    Ok(())
}

struct Found {
    exchange: ExchangeNumber,
    source: TextSource,
    text: String,
}

/// Texts of one owner. What is said about the same time lies in the same pack, which is unpacked once for all of them.
struct Texts<'c> {
    connection: &'c Connection,
    owner: OwnerId,
    parts: Parts<'c>,
    unpacker: Unpacker,
}

impl<'c> Texts<'c> {
    fn new(connection: &'c Connection, owner: OwnerId) -> Self {
        Texts {
            connection,
            owner,
            parts: Parts::new(connection, owner),
            unpacker: Unpacker::default(),
        }
    }

    fn find(&mut self, number: i64) -> Result<Option<Found>> {
        let select = "SELECT exchange, source, strings FROM search_text WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.connection.prepare_cached(select).map_err(problem)?;
        let row = statement.query_row(params![key(self.owner, number), self.owner.0], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i16>(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        let Some((exchange, source, strings)) = row.optional().map_err(problem)? else {
            return Ok(None);
        };
        Ok(Some(Found {
            exchange: ExchangeNumber(exchange),
            source: source_of(source)?,
            text: self.strings(&strings)?.join("\n"),
        }))
    }

    fn strings(&mut self, mut rest: &[u8]) -> Result<Vec<String>> {
        let mut strings = Vec::new();
        while !rest.is_empty() {
            let mut next = || leb128::read(&mut rest).ok_or_else(unreadable);
            let bytes = match next()? {
                0 => {
                    let codec = i64::try_from(next()?)
                        .ok()
                        .and_then(Codec::of_code)
                        .ok_or_else(unreadable)?;
                    let (length, packed) = (next()? as usize, next()? as usize);
                    let (packed, behind) = rest.split_at_checked(packed).ok_or_else(unreadable)?;
                    rest = behind;
                    let unpacked = self.unpacker.unpack(codec, packed, length.min(STRING_BYTES_MAX));
                    unpacked.map_err(|_| unreadable())?
                }
                part => self.parts.load(part as i64)?.to_vec(),
            };
            strings.push(String::from_utf8(bytes).map_err(|_| unreadable())?);
        }
        Ok(strings)
    }
}

/// Texts with the words of a query that are looked at together, those first that were recorded last. Words that everybody says are in
/// millions of texts, and nobody asks for the oldest of them.
const WINDOW: usize = 10_000;

/// The newest first; where more than [`WINDOW`] texts have the words, the newest of those that were recorded last.
pub(super) fn search(connection: &Connection, owner: OwnerId, query: &SearchQuery) -> Result<Vec<Hit>> {
    let phrases = phrases(&query.text);
    if phrases.is_empty() {
        return Ok(Vec::new());
    }
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("\"{phrase}\"")).collect();
    let words = quoted.join(" AND ");
    let limit = query.limit.min(PAGE_MAX);
    let mut found: Vec<(i64, i64)> = Vec::new();
    let mut end = keys_of(owner).end;
    let mut filter = Filter::new(connection, owner, query)?;
    while found.len() < limit {
        let window = texts_with(connection, owner, &words, end)?;
        for text in &window {
            found.extend(filter.asked_at(text)?.map(|at| (at, text.key)));
        }
        match window.last() {
            Some(last) if window.len() == WINDOW => end = last.key,
            _ => break,
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    let mut hits = Vec::new();
    let mut texts = Texts::new(connection, owner);
    for (_, text) in found.into_iter().take(limit) {
        if let Some(found) = texts.find(super::keys::number(text))? {
            hits.push(Hit {
                exchange: found.exchange,
                source: found.source,
                snippet: snippet(&found.text, &phrases),
            });
        }
    }
    Ok(hits)
}

/// A text that has the words.
struct WithWords {
    key: i64,
    exchange: i64,
    source: i16,
}

/// Texts before `end` that have the words, the last first.
fn texts_with(connection: &Connection, owner: OwnerId, words: &str, end: i64) -> Result<Vec<WithWords>> {
    // In this order: the words give the texts, the last first, and each is looked at once.
    let select = "SELECT s.rowid, t.exchange, t.source FROM search s CROSS JOIN search_text t ON t.key = s.rowid AND t.owner_id = ?5 \
                  WHERE search MATCH ?1 AND s.rowid >= ?2 AND s.rowid < ?3 ORDER BY s.rowid DESC LIMIT ?4";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = params![words, keys_of(owner).start, end, WINDOW as i64, owner.0];
    let texts = statement.query_map(row, |row| {
        Ok(WithWords {
            key: row.get(0)?,
            exchange: row.get(1)?,
            source: row.get(2)?,
        })
    });
    texts.and_then(Iterator::collect).map_err(problem)
}

/// What a query asks for beside its words. Thousands of texts may have those, so each is asked for no more than the query needs.
struct Filter<'c> {
    owner: OwnerId,
    query: &'c SearchQuery,
    source: Option<i16>,
    exchange: CachedStatement<'c>,
    /// What was told anew counts as it was told last. `None` where nothing was, which is usual.
    retold: Option<CachedStatement<'c>>,
    /// The exchange that was looked at last, and when it was asked if it fits. Its texts follow each other.
    last: Option<(i64, Option<i64>)>,
}

impl<'c> Filter<'c> {
    fn new(connection: &'c Connection, owner: OwnerId, query: &'c SearchQuery) -> Result<Self> {
        let exchange = match query.model {
            None => "SELECT at FROM exchange WHERE key = ?2 AND owner_id = ?1 AND ?3 IS NULL",
            Some(_) => {
                "SELECT e.at FROM exchange e \
                 JOIN context c ON c.key = (e.owner_id << 40 | e.context) AND c.owner_id = e.owner_id \
                 WHERE e.key = ?2 AND e.owner_id = ?1 AND c.model = ?3"
            }
        };
        let any_retold = "SELECT 1 FROM retold WHERE owner_id = ?1 LIMIT 1";
        let is_retold = "SELECT 1 FROM retold WHERE owner_id = ?1 AND exchange = ?2 AND first_text > ?3";
        let has_retold = connection
            .prepare_cached(any_retold)
            .and_then(|mut any| any.exists([owner.0]))
            .map_err(problem)?;
        let retold = has_retold.then(|| connection.prepare_cached(is_retold)).transpose();
        Ok(Filter {
            owner,
            query,
            source: query.source.map(source_code),
            exchange: connection.prepare_cached(exchange).map_err(problem)?,
            retold: retold.map_err(problem)?,
            last: None,
        })
    }

    /// When what has a text was asked, if the rest of the query is true of it.
    fn asked_at(&mut self, text: &WithWords) -> Result<Option<i64>> {
        if self.source.is_some_and(|source| source != text.source) {
            return Ok(None);
        }
        if let Some(retold) = &mut self.retold
            && retold
                .exists([self.owner.0, text.exchange, text.key])
                .map_err(problem)?
        {
            return Ok(None);
        }
        if let Some((_, at)) = self.last.filter(|(exchange, _)| *exchange == text.exchange) {
            return Ok(at);
        }
        let row = params![self.owner.0, key(self.owner, text.exchange), self.query.model];
        let at = self.exchange.query_row(row, |row| row.get(0)).optional();
        let is_asked = |at: &i64| self.query.since.is_none_or(|since| *at >= since.0);
        let at = at.map_err(problem)?.filter(is_asked);
        self.last = Some((text.exchange, at));
        Ok(at)
    }
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
    phrases.truncate(QUERY_WORDS_MAX);
    phrases
}

/// Where a word stands by itself; inside of another where it stands nowhere else.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_by_itself = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let behind = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !behind.is_some_and(char::is_alphanumeric)
    };
    let mut places = text.match_indices(word).map(|(at, _)| at);
    places.find(is_by_itself).or_else(|| text.find(word))
}

/// Text around the first match, with the match marked.
fn snippet(text: &str, phrases: &[String]) -> String {
    let lower = text.to_lowercase();
    let first_word = |phrase: &String| phrase.split(' ').next().map(str::to_lowercase);
    let hit = phrases
        .iter()
        .filter_map(first_word)
        .filter_map(|word| Some((find_word(&lower, &word)?, word.len())))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_marked_where_it_stands_by_itself() {
        let marked = |text: &str, word: &str| snippet(text, &[word.to_owned()]);
        assert_eq!(marked("a trope of Rope", "rope"), "a trope of \u{2}Rope\u{3}");
        assert_eq!(marked("tropes only", "rope"), "t\u{2}rope\u{3}s only");
        assert_eq!(marked("no such word", "rope"), "no such word");
    }
}

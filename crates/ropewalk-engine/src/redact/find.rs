//! Finding secrets in a text.
//!
//! [`Finder::places`] looks at bytes as they stand, escapes and all, and says where something may be: that is the whole cost
//! of a body without secrets. [`Finder::spans`] looks at a decoded text and says what is there.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind, packed};
use regex::bytes::Regex;

use super::RedactError;
use super::detectors::{Before, DETECTORS, Look};
use super::placeholder;
use super::rules::{Pattern, RedactRules};

/// Furthest end of a secret behind its anchor: a private key of 16,384 bits with its escapes.
const SECRET_BYTES_MAX: usize = 32 << 10;

/// Anchors that are searched for at once. With as many as the vector search has buckets it hardly ever looks twice; with all
/// of them it takes three times as long.
const ANCHORS_AT_ONCE: usize = 16;

/// Token characters that follow every anchor that is looked at in this way; escaped, they are more.
const LOOK_BYTES: usize = 12;
/// How far an `@` is looked for: the longest name and password of a URL, every character escaped.
const AUTHORITY_BYTES_MAX: usize = 2_400;

/// An escaped ASCII character, which could be part of an anchor.
const ESCAPE: &str = r"\u00";

/// A secret: where it stands, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) range: Range<usize>,
    /// Index into the names of the [`Finder`].
    pub(super) kind: usize,
}

#[derive(Debug)]
pub(super) struct Finder {
    searches: Vec<Search>,
    /// By detector, empty if the built-in ones are off.
    shapes: Vec<Regex>,
    patterns: Vec<Pattern>,
}

/// Some anchors, and the detectors of each.
#[derive(Debug)]
struct Search {
    searcher: Searcher,
    anchors: Vec<Known>,
}

#[derive(Debug)]
enum Searcher {
    Packed(packed::Searcher),
    /// Where the processor has no vectors that it could use.
    General(AhoCorasick),
}

#[derive(Debug)]
struct Known {
    literal: &'static str,
    look: Look,
    before: Before,
    detectors: Vec<usize>,
}

impl Finder {
    pub(super) fn new(rules: &RedactRules) -> Result<Finder, RedactError> {
        let patterns = rules.patterns.iter().map(Pattern::new);
        let patterns = patterns.collect::<Result<_, _>>()?;
        let (searches, shapes) = if rules.builtin { built_in()? } else { Default::default() };
        Ok(Finder {
            searches,
            shapes,
            patterns,
        })
    }

    pub(super) fn name(&self, kind: usize) -> &str {
        match kind.checked_sub(DETECTORS.len()) {
            None => DETECTORS[kind].name,
            Some(index) => &self.patterns[index].name,
        }
    }

    /// Whether [`Finder::places`] says nothing about a text: patterns of users have no anchors.
    pub(super) fn looks_everywhere(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Where something may be found once the text is decoded, in order.
    pub(super) fn places(&self, raw: &[u8]) -> Vec<usize> {
        let mut places = Vec::new();
        for search in &self.searches {
            search.each(raw, |known, at| {
                let end = self.may_match(known, raw, at)?;
                places.push(at);
                Some(end)
            });
        }
        places.sort_unstable();
        places
    }

    /// The secrets of a text, in order, none overlapping another or a placeholder.
    pub(super) fn spans(&self, text: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        for search in &self.searches {
            search.each(text, |known, at| {
                if !is_worth_a_look(known, text, at) {
                    return None;
                }
                let before = spans.len();
                spans.extend(known.detectors.iter().filter_map(|kind| self.shape_at(*kind, text, at)));
                spans[before..].iter().map(|span| span.range.end).max()
            });
        }
        for (index, pattern) in self.patterns.iter().enumerate() {
            let kind = DETECTORS.len() + index;
            spans.extend(pattern.ranges(text).map(|range| Span { range, kind }));
        }
        if spans.is_empty() {
            return spans;
        }
        for placeholder in placeholder::ranges(text) {
            spans.retain(|span| span.range.end <= placeholder.start || placeholder.end <= span.range.start);
        }
        merged(spans)
    }

    /// The end of what a detector matches here, or could if an escape were decoded. What has no escape is what it will be.
    fn may_match(&self, known: &Known, raw: &[u8], at: usize) -> Option<usize> {
        if !is_worth_a_look(known, raw, at) {
            return None;
        }
        let end = at + known.literal.len();
        let behind = &raw[end..raw.len().min(end + AUTHORITY_BYTES_MAX)];
        let is_escaped = match known.look {
            Look::Nothing => known.detectors.is_empty() || behind.iter().take(LOOK_BYTES).any(|byte| *byte == b'\\'),
            Look::Token => behind.iter().find(|byte| !is_token(**byte)) == Some(&b'\\'),
            Look::At => {
                let mut authority = behind.iter().take_while(|byte| **byte != b'@');
                known.literal.contains('\\') || authority.any(|byte| *byte == b'\\')
            }
        };
        if is_escaped {
            return Some(end);
        }
        let mut shapes = known.detectors.iter().filter_map(|kind| self.shape_at(*kind, raw, at));
        shapes.next().map(|span| span.range.end)
    }

    fn shape_at(&self, kind: usize, text: &[u8], at: usize) -> Option<Span> {
        let detector = &DETECTORS[kind];
        if !may_stand_behind(detector.before, &text[..at]) {
            return None;
        }
        let window = &text[at..text.len().min(at + SECRET_BYTES_MAX)];
        let captures = self.shapes[kind].captures(window)?;
        let found = captures.get(1).or_else(|| captures.get(0))?;
        // The placeholder of a password stands where the password stood.
        if found.as_bytes().starts_with(placeholder::START.as_bytes()) {
            return None;
        }
        let is_followed = || window.get(found.end()).is_some_and(|byte| is_base64(*byte));
        let has_digit = || found.as_bytes().iter().any(u8::is_ascii_digit);
        if (detector.is_exact && is_followed()) || (detector.needs_digit && !has_digit()) {
            return None;
        }
        Some(Span {
            range: at + found.start()..at + found.end(),
            kind,
        })
    }
}

fn built_in() -> Result<(Vec<Search>, Vec<Regex>), RedactError> {
    let shapes = DETECTORS.iter().map(|detector| {
        let pattern = format!(r"(?-u)\A(?:{})", detector.pattern);
        Regex::new(&pattern).map_err(|source| RedactError::pattern(detector.name, source))
    });
    let shapes = shapes.collect::<Result<_, _>>()?;
    let mut known: Vec<Known> = vec![Known {
        literal: ESCAPE,
        look: Look::Nothing,
        before: Before::Anything,
        detectors: Vec::new(),
    }];
    for (kind, detector) in DETECTORS.iter().enumerate() {
        for anchor in detector.anchors {
            match known.iter_mut().find(|known| known.literal == anchor.literal) {
                Some(known) => known.detectors.push(kind),
                None => known.push(Known {
                    literal: anchor.literal,
                    look: anchor.look,
                    before: detector.before,
                    detectors: vec![kind],
                }),
            }
        }
    }
    // Anchors that begin alike share a bucket; so they should share a search.
    known.sort_unstable_by_key(|known| known.literal);
    let at_once = known.len().div_ceil(known.len().div_ceil(ANCHORS_AT_ONCE));
    let mut searches = Vec::new();
    while !known.is_empty() {
        let anchors: Vec<Known> = known.drain(..known.len().min(at_once)).collect();
        searches.push(Search::new(anchors)?);
    }
    Ok((searches, shapes))
}

impl Search {
    fn new(anchors: Vec<Known>) -> Result<Search, RedactError> {
        let literals = || anchors.iter().map(|known| known.literal);
        let searcher = match packed::Searcher::new(literals()) {
            Some(searcher) => Searcher::Packed(searcher),
            None => {
                let mut builder = AhoCorasickBuilder::new();
                builder.match_kind(MatchKind::LeftmostFirst);
                Searcher::General(builder.build(literals()).map_err(RedactError::Anchors)?)
            }
        };
        Ok(Search { searcher, anchors })
    }

    /// Calls for each anchor; what it returns is the end of what was found there. The same anchor within it is no news, and
    /// looking at it again would make a text of nothing but anchors expensive.
    fn each(&self, text: &[u8], mut found: impl FnMut(&Known, usize) -> Option<usize>) {
        let mut done = [0; ANCHORS_AT_ONCE];
        let mut hit = |anchor: usize, at: usize| {
            if at >= done[anchor] {
                done[anchor] = found(&self.anchors[anchor], at).unwrap_or(at);
            }
        };
        match &self.searcher {
            Searcher::Packed(searcher) => {
                for found in searcher.find_iter(text) {
                    hit(found.pattern().as_usize(), found.start());
                }
            }
            Searcher::General(searcher) => {
                for found in searcher.find_iter(text) {
                    hit(found.pattern().as_usize(), found.start());
                }
            }
        }
    }
}

/// A cheap test that no secret fails, however the text around it is escaped.
fn is_worth_a_look(known: &Known, raw: &[u8], at: usize) -> bool {
    if !may_stand_behind(known.before, &raw[..at]) {
        return false;
    }
    let behind = &raw[at + known.literal.len()..];
    if known.literal == ESCAPE {
        return escaped_byte(behind).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-:/.= ".contains(&byte));
    }
    match known.look {
        Look::Nothing => true,
        Look::Token => {
            let mut next = behind.iter().take(LOOK_BYTES);
            behind.len() >= LOOK_BYTES && next.all(|byte| is_token(*byte) || *byte == b'\\')
        }
        Look::At => has_at_sign(&behind[..behind.len().min(AUTHORITY_BYTES_MAX)]),
    }
}

/// The character of `\u00XX`.
fn escaped_byte(digits: &[u8]) -> Option<u8> {
    let digits = str::from_utf8(digits.get(..2)?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

fn has_at_sign(authority: &[u8]) -> bool {
    let mut bytes = authority.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'@' => return true,
            b'\\' => match bytes.next() {
                Some(b'u') => {}
                _ => return false,
            },
            b'/' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'{' | b'}' | b'$' => return false,
            byte if byte.is_ascii_whitespace() => return false,
            _ => {}
        }
    }
    false
}

/// Whether the end of this text lets a secret begin behind it.
fn may_stand_behind(before: Before, text: &[u8]) -> bool {
    let Some(last) = text.last() else { return true };
    let is_part = match before {
        Before::Anything => return true,
        Before::NoWord => last.is_ascii_alphanumeric() || *last == b'_',
        Before::NoBase64 => is_base64(*last),
    };
    !is_part || ends_in_escape(text)
}

/// The letter in front belongs to an escape that was not decoded: `\n`, `\u00e9`.
fn ends_in_escape(text: &[u8]) -> bool {
    let is_escape = |length: usize, letters: &[u8]| {
        let Some(escape) = text.len().checked_sub(length).map(|start| &text[start..]) else {
            return false;
        };
        escape[0] == b'\\' && letters.contains(&escape[1])
    };
    is_escape(2, b"nrtbf/") || (is_escape(6, b"u") && text[text.len() - 4..].iter().all(u8::is_ascii_hexdigit))
}

/// Letters of tokens; those of JWTs are separated by dots.
fn is_token(byte: u8) -> bool {
    is_base64(byte) || byte == b'.'
}

/// Letters of both base64 alphabets, without the padding.
fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/_-".contains(&byte)
}

/// Overlapping spans as one, named by the first detector of the table.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.range.start, span.kind));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.range.start < last.range.end => {
                last.range.end = last.range.end.max(span.range.end);
                last.kind = last.kind.min(span.kind);
            }
            _ => merged.push(span),
        }
    }
    merged
}

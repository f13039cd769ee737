//! The tape: one entry per value, in the order of the text, each knowing where its subtree ends.

use std::borrow::Cow;
use std::ops::Range;

use super::string;

/// Deepest nesting that is read. Real bodies stay below 40; the bound keeps the walkers' recursion
/// far away from the end of the stack.
pub const MAX_DEPTH: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 { at: usize },
    #[error("unexpected byte at {at}")]
    Unexpected { at: usize },
    #[error("the text ends in the middle of a value")]
    Truncated,
    #[error("nested deeper than {MAX_DEPTH} at byte {at}")]
    TooDeep { at: usize },
    #[error("larger than 4 GiB")]
    TooLarge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: Kind,
    /// A string that contains at least one backslash.
    escaped: bool,
    start: u32,
    end: u32,
    /// Index of the first entry behind this value's subtree.
    next: u32,
}

/// A parsed text. Borrows it; owns only the tape.
#[derive(Debug, Clone)]
pub struct Doc<'a> {
    text: &'a str,
    entries: Vec<Entry>,
}

impl<'a> Doc<'a> {
    /// Parses a whole text: one value, white space around it, nothing else.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(bytes).map_err(|e| JsonError::NotUtf8 { at: e.valid_up_to() })?;
        Self::parse_str(text)
    }

    pub fn parse_str(text: &'a str) -> Result<Self, JsonError> {
        let mut parser = Parser::new(text)?;
        let start = skip_space(text.as_bytes(), 0);
        let end = parser.value(start)?;
        let rest = skip_space(text.as_bytes(), end);
        if rest != text.len() {
            return Err(JsonError::Unexpected { at: rest });
        }
        Ok(Self {
            text,
            entries: parser.entries,
        })
    }

    pub fn root(&self) -> Node<'_> {
        Node {
            text: self.text,
            entries: &self.entries,
            index: 0,
        }
    }

    /// Every string, names of members included, in the order of the text.
    pub fn strings(&self) -> impl Iterator<Item = Node<'_>> {
        let strings = self.entries.iter().enumerate();
        let strings = strings.filter(|(_, entry)| entry.kind == Kind::String);
        strings.map(|(index, _)| Node {
            text: self.text,
            entries: &self.entries,
            index,
        })
    }
}

/// Parses the one value that starts at `at` (white space allowed before it) and returns its tape
/// with the place behind it. Ranges of its nodes are positions in `text`.
pub fn parse_value_at(text: &str, at: usize) -> Result<(Doc<'_>, usize), JsonError> {
    let mut parser = Parser::new(text)?;
    let start = skip_space(text.as_bytes(), at);
    let end = parser.value(start)?;
    let doc = Doc {
        text,
        entries: parser.entries,
    };
    Ok((doc, end))
}

/// One value of a [`Doc`].
#[derive(Debug, Clone, Copy)]
pub struct Node<'d> {
    text: &'d str,
    entries: &'d [Entry],
    index: usize,
}

impl<'d> Node<'d> {
    fn entry(&self) -> Entry {
        self.entries[self.index]
    }

    pub fn kind(&self) -> Kind {
        self.entry().kind
    }

    /// Where the value stands in the text, quotes and brackets included.
    pub fn range(&self) -> Range<usize> {
        let entry = self.entry();
        entry.start as usize..entry.end as usize
    }

    /// The value exactly as written.
    pub fn raw(&self) -> &'d str {
        &self.text[self.range()]
    }

    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    pub fn is_string(&self) -> bool {
        self.kind() == Kind::String
    }

    pub fn is_number(&self) -> bool {
        self.kind() == Kind::Number
    }

    pub fn is_array(&self) -> bool {
        self.kind() == Kind::Array
    }

    pub fn is_object(&self) -> bool {
        self.kind() == Kind::Object
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    /// A number's digits as written.
    pub fn as_number(&self) -> Option<&'d str> {
        (self.kind() == Kind::Number).then(|| self.raw())
    }

    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.parse().ok()
    }

    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.parse().ok()
    }

    /// What stands between a string's quotes, undecoded.
    pub fn literal(&self) -> Option<&'d str> {
        let entry = self.entry();
        (entry.kind == Kind::String).then(|| &self.text[entry.start as usize + 1..entry.end as usize - 1])
    }

    /// A string's text. Lone surrogates become U+FFFD, as in every language that writes UTF-8.
    pub fn as_str(&self) -> Option<Cow<'d, str>> {
        let literal = self.literal()?;
        if self.entry().escaped {
            Some(Cow::Owned(string::decode(literal)))
        } else {
            Some(Cow::Borrowed(literal))
        }
    }

    pub fn to_text(&self) -> Option<String> {
        self.as_str().map(Cow::into_owned)
    }

    /// The elements of an array; nothing for any other value.
    pub fn items(&self) -> Items<'d> {
        self.children(Kind::Array)
    }

    /// The members of an object as (key, value), in the order written, duplicates included.
    pub fn members(&self) -> impl Iterator<Item = (Node<'d>, Node<'d>)> + use<'d> {
        let mut children = self.children(Kind::Object);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    fn children(&self, of: Kind) -> Items<'d> {
        let entry = self.entry();
        let end = if entry.kind == of {
            entry.next as usize
        } else {
            self.index
        };
        Items {
            text: self.text,
            entries: self.entries,
            at: self.index + 1,
            end,
        }
    }

    /// The member of that name; the last one where a name is repeated.
    pub fn get(&self, key: &str) -> Option<Node<'d>> {
        let mut found = None;
        for (name, value) in self.members() {
            if name.is(key) {
                found = Some(value);
            }
        }
        found
    }

    /// Whether this is a string with exactly that text.
    pub fn is(&self, text: &str) -> bool {
        match self.literal() {
            Some(literal) if !self.entry().escaped => literal == text,
            Some(literal) => string::decode(literal) == text,
            None => false,
        }
    }

    pub fn get_str(&self, key: &str) -> Option<Cow<'d, str>> {
        self.get(key)?.as_str()
    }
}

/// Elements of an array, see [`Node::items`].
#[derive(Debug, Clone)]
pub struct Items<'d> {
    text: &'d str,
    entries: &'d [Entry],
    at: usize,
    end: usize,
}

impl<'d> Iterator for Items<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Node<'d>> {
        if self.at >= self.end {
            return None;
        }
        let node = Node {
            text: self.text,
            entries: self.entries,
            index: self.at,
        };
        self.at = self.entries[self.at].next as usize;
        Some(node)
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
    /// Entries of the containers that are still open.
    open: Vec<usize>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, JsonError> {
        if text.len() > u32::MAX as usize {
            return Err(JsonError::TooLarge);
        }
        Ok(Self {
            bytes: text.as_bytes(),
            entries: Vec::new(),
            open: Vec::new(),
        })
    }

    /// Reads one value, containers by a loop rather than by recursion.
    fn value(&mut self, start: usize) -> Result<usize, JsonError> {
        let mut at = start;
        loop {
            at = skip_space(self.bytes, at);
            at = match self.byte(at)? {
                b'{' => match self.open_container(at, Kind::Object)? {
                    Some(inside) => {
                        at = self.key(inside)?;
                        continue;
                    }
                    None => at + self.empty_width(at),
                },
                b'[' => match self.open_container(at, Kind::Array)? {
                    Some(inside) => {
                        at = inside;
                        continue;
                    }
                    None => at + self.empty_width(at),
                },
                b'"' => self.string(at)?,
                _ => self.scalar(at)?,
            };
            match self.after_value(at)? {
                Next::Value(next) => at = next,
                Next::Done(end) => return Ok(end),
            }
        }
    }

    fn byte(&self, at: usize) -> Result<u8, JsonError> {
        self.bytes.get(at).copied().ok_or(JsonError::Truncated)
    }

    /// Opens a container; `None` if it is empty and therefore already closed again.
    fn open_container(&mut self, at: usize, kind: Kind) -> Result<Option<usize>, JsonError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(JsonError::TooDeep { at });
        }
        let close = if kind == Kind::Object { b'}' } else { b']' };
        let inside = skip_space(self.bytes, at + 1);
        let empty = self.byte(inside)? == close;
        let end = if empty { inside + 1 } else { 0 };
        self.push(kind, false, at, end);
        if empty {
            return Ok(None);
        }
        self.open.push(self.entries.len() - 1);
        Ok(Some(inside))
    }

    /// Width of an empty container, white space between its brackets included.
    fn empty_width(&self, at: usize) -> usize {
        skip_space(self.bytes, at + 1) + 1 - at
    }

    /// Reads a key and its colon; returns where the member's value starts.
    fn key(&mut self, at: usize) -> Result<usize, JsonError> {
        if self.byte(at)? != b'"' {
            return Err(JsonError::Unexpected { at });
        }
        let end = self.string(at)?;
        let colon = skip_space(self.bytes, end);
        if self.byte(colon)? != b':' {
            return Err(JsonError::Unexpected { at: colon });
        }
        Ok(colon + 1)
    }

    fn after_value(&mut self, mut at: usize) -> Result<Next, JsonError> {
        while let Some(&container) = self.open.last() {
            at = skip_space(self.bytes, at);
            let in_object = self.entries[container].kind == Kind::Object;
            match self.byte(at)? {
                b',' => {
                    at = skip_space(self.bytes, at + 1);
                    if in_object {
                        at = self.key(at)?;
                    }
                    return Ok(Next::Value(at));
                }
                b'}' if in_object => {}
                b']' if !in_object => {}
                _ => return Err(JsonError::Unexpected { at }),
            }
            at += 1;
            let next = self.entries.len() as u32;
            let entry = &mut self.entries[container];
            entry.end = at as u32;
            entry.next = next;
            self.open.pop();
        }
        Ok(Next::Done(at))
    }

    /// Only the end is looked for. What the escapes mean is found out by whoever decodes the string; most
    /// strings are skipped or compared, and a wrong escape is the provider's to refuse.
    fn string(&mut self, at: usize) -> Result<usize, JsonError> {
        let mut from = at + 1;
        loop {
            let rest = self.bytes.get(from..).ok_or(JsonError::Truncated)?;
            let quote = from + memchr::memchr(b'"', rest).ok_or(JsonError::Truncated)?;
            let backslashes = self.bytes[at + 1..quote]
                .iter()
                .rev()
                .take_while(|byte| **byte == b'\\');
            if backslashes.count() % 2 == 0 {
                let escaped = memchr::memchr(b'\\', &self.bytes[at + 1..quote]).is_some();
                self.push(Kind::String, escaped, at, quote + 1);
                return Ok(quote + 1);
            }
            from = quote + 1;
        }
    }

    fn scalar(&mut self, at: usize) -> Result<usize, JsonError> {
        for (word, kind) in [("true", Kind::True), ("false", Kind::False), ("null", Kind::Null)] {
            if self.bytes[at..].starts_with(word.as_bytes()) {
                self.push(kind, false, at, at + word.len());
                return Ok(at + word.len());
            }
        }
        let end = number_end(self.bytes, at)?;
        self.push(Kind::Number, false, at, end);
        Ok(end)
    }

    fn push(&mut self, kind: Kind, escaped: bool, start: usize, end: usize) {
        let next = self.entries.len() as u32 + 1;
        self.entries.push(Entry {
            kind,
            escaped,
            start: start as u32,
            end: end as u32,
            next,
        });
    }
}

enum Next {
    Value(usize),
    Done(usize),
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

fn number_end(bytes: &[u8], start: usize) -> Result<usize, JsonError> {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
    at = match bytes.get(at) {
        Some(b'0') => at + 1,
        Some(b'1'..=b'9') => digits(at),
        Some(_) => return Err(JsonError::Unexpected { at }),
        None => return Err(JsonError::Truncated),
    };
    if bytes.get(at) == Some(&b'.') {
        let end = digits(at + 1);
        if end == at + 1 {
            return Err(JsonError::Unexpected { at });
        }
        at = end;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(at + 1 + sign);
        if end == at + 1 + sign {
            return Err(JsonError::Unexpected { at });
        }
        at = end;
    }
    Ok(at)
}

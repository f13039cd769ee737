//! The elements of a JSON list that may be larger than memory.
//!
//! An export is one list of conversations, a HAR has its entries two members deep. Only where each element begins and ends is looked
//! for, by brackets and strings; whether an element is JSON is seen by whoever parses it. So a broken element costs
//! itself and not the rest.
//!
//! Invariants: one element is in memory at a time and no more than [`ELEMENT_BYTES_MAX`] of it; depth is a number, not a stack.

use std::io::{self, BufRead};

use memchr::memchr2;

/// Longest element that is read: a conversation with its attachments as text. Two files may be read at once.
pub(crate) const ELEMENT_BYTES_MAX: usize = 64 << 20;

/// Longest name of a member that is compared with one that is looked for.
const NAME_BYTES_MAX: usize = 256;

/// What came next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Element,
    /// It is passed over; its length.
    TooLong(u64),
    End,
}

/// Why there is no next element.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElementError {
    #[error("the file cannot be read on at byte {at}: {source}")]
    Read { at: u64, source: io::Error },
    #[error("the file ends in the middle, at byte {at}")]
    Cut { at: u64 },
    #[error("no JSON at byte {at}")]
    Unexpected { at: u64 },
    #[error("`{0}` is not there or no list")]
    NoList(String),
}

type Result<T> = std::result::Result<T, ElementError>;

/// Reads the elements one after the other.
#[derive(Debug)]
pub(crate) struct Elements<R> {
    reader: R,
    /// Of the next byte.
    at: u64,
    /// Of the element that came last, from 1.
    number: u64,
    state: State,
    /// Names of the members that lead from the root to the list.
    way: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    First,
    Behind,
    Ended,
}

impl<R: BufRead> Elements<R> {
    /// Of the list that `way` leads to; of the root where it is empty. A root that is one object is a list of it.
    pub(crate) fn new(reader: R, way: &'static [&'static str]) -> Self {
        Elements {
            reader,
            at: 0,
            number: 0,
            state: State::Start,
            way,
        }
    }

    /// Of the element that came last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Puts the next element into `element`. Behind an error there is nothing more.
    pub(crate) fn next(&mut self, element: &mut Vec<u8>) -> Result<Next> {
        let next = self.find_next(element);
        if next.is_err() {
            self.state = State::Ended;
        }
        next
    }

    fn find_next(&mut self, element: &mut Vec<u8>) -> Result<Next> {
        element.clear();
        match self.state {
            State::Ended => return Ok(Next::End),
            State::Start => {
                self.skip_mark()?;
                if self.way.is_empty() && self.peek()? == Some(b'{') {
                    self.state = State::Ended;
                    return self.element(element);
                }
                self.find_list()?;
                self.state = State::First;
            }
            State::First | State::Behind => {}
        }
        match (self.peek()?, self.state) {
            (Some(b']'), _) => {
                self.step();
                self.pass_rest()?;
                self.state = State::Ended;
                return Ok(Next::End);
            }
            (Some(b','), State::Behind) => self.step(),
            (Some(_), State::First) => {}
            (Some(_), _) => return Err(ElementError::Unexpected { at: self.at }),
            (None, _) => return Err(ElementError::Cut { at: self.at }),
        }
        self.state = State::Behind;
        self.element(element)
    }

    fn element(&mut self, element: &mut Vec<u8>) -> Result<Next> {
        self.number += 1;
        let length = self.value(Some((element, ELEMENT_BYTES_MAX)))?;
        if length > ELEMENT_BYTES_MAX as u64 {
            element.clear();
            return Ok(Next::TooLong(length));
        }
        Ok(Next::Element)
    }

    /// Goes on to the first element of the list.
    fn find_list(&mut self) -> Result<()> {
        let missing = || match self.way {
            [] => "the file".to_owned(),
            way => way.join("."),
        };
        let missing = missing();
        for wanted in self.way {
            if !self.find_member(wanted)? {
                return Err(ElementError::NoList(missing));
            }
        }
        match self.peek()? {
            Some(b'[') => self.step(),
            Some(_) => return Err(ElementError::NoList(missing)),
            None => return Err(ElementError::Cut { at: self.at }),
        }
        Ok(())
    }

    /// What stands behind the list, to its end: a file that was cut there is told as one.
    fn pass_rest(&mut self) -> Result<()> {
        for _ in self.way {
            while self.next_name()?.is_some() {
                self.value(None)?;
            }
            self.step();
        }
        Ok(())
    }

    /// Goes on to the value of a member of the object that begins here.
    fn find_member(&mut self, wanted: &str) -> Result<bool> {
        if self.peek()? != Some(b'{') {
            return Ok(false);
        }
        self.step();
        while let Some(name) = self.next_name()? {
            if name == wanted.as_bytes() {
                return Ok(true);
            }
            self.value(None)?;
        }
        Ok(false)
    }

    /// The name of the next member, as it is written between its quotes, and on to the value. `None` at the object's end.
    fn next_name(&mut self) -> Result<Option<Vec<u8>>> {
        if self.peek()? == Some(b',') {
            self.step();
        }
        match self.peek()? {
            Some(b'"') => {}
            Some(b'}') => return Ok(None),
            Some(_) => return Err(ElementError::Unexpected { at: self.at }),
            None => return Err(ElementError::Cut { at: self.at }),
        }
        let mut name = Vec::new();
        self.value(Some((&mut name, NAME_BYTES_MAX)))?;
        match self.peek()? {
            Some(b':') => self.step(),
            Some(_) => return Err(ElementError::Unexpected { at: self.at }),
            None => return Err(ElementError::Cut { at: self.at }),
        }
        Ok(Some(match &name[..] {
            [b'"', inside @ .., b'"'] => inside.to_vec(),
            _ => Vec::new(),
        }))
    }

    /// Whether the first element, or the root where `way` is empty and it is an object, has one of these members, and which. Only
    /// what stands before it is read.
    pub(crate) fn first_member_of(mut self, wanted: &[&'static str]) -> Result<Option<&'static str>> {
        self.skip_mark()?;
        if !(self.way.is_empty() && self.peek()? == Some(b'{')) {
            self.find_list()?;
        }
        if self.peek()? != Some(b'{') {
            return Ok(None);
        }
        self.step();
        while let Some(name) = self.next_name()? {
            let found = wanted.iter().find(|wanted| wanted.as_bytes() == name);
            if found.is_some() {
                return Ok(found.copied());
            }
            self.value(None)?;
        }
        Ok(None)
    }

    /// Reads one value, and keeps it as far as it is short enough. Its length.
    fn value(&mut self, mut kept: Option<(&mut Vec<u8>, usize)>) -> Result<u64> {
        self.peek()?;
        let mut scan = Scan::default();
        let mut length = 0;
        loop {
            let buffer = self.reader.fill_buf();
            let buffer = buffer.map_err(|source| ElementError::Read { at: self.at, source })?;
            if buffer.is_empty() {
                return Err(ElementError::Cut { at: self.at });
            }
            let (taken, ended) = scan.take(buffer);
            length += taken as u64;
            if let Some((out, max)) = &mut kept {
                let room = (*max + 1).saturating_sub(out.len());
                out.extend_from_slice(&buffer[..taken.min(room)]);
            }
            self.reader.consume(taken);
            self.at += taken as u64;
            if ended {
                if length == 0 {
                    return Err(ElementError::Unexpected { at: self.at });
                }
                return Ok(length);
            }
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            let buffer = self.reader.fill_buf();
            let buffer = buffer.map_err(|source| ElementError::Read { at: self.at, source })?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let found = buffer.get(blank).copied();
            self.reader.consume(blank);
            self.at += blank as u64;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn step(&mut self) {
        self.reader.consume(1);
        self.at += 1;
    }

    /// Some tools begin a file with a byte order mark.
    fn skip_mark(&mut self) -> Result<()> {
        for byte in *b"\xef\xbb\xbf" {
            if self.peek()? == Some(byte) {
                self.step();
            }
        }
        Ok(())
    }
}

/// Where in a value we are.
#[derive(Debug, Default)]
struct Scan {
    depth: u64,
    is_text: bool,
    is_escaped: bool,
    /// A number or a word, which ends before what follows it.
    is_word: bool,
}

impl Scan {
    /// How many bytes belong to the value, and whether it ends with them.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_text {
                at = self.inside_text(bytes, at);
                if !self.is_text && self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match bytes[at] {
                b'"' if self.is_word => return (at, true),
                b'"' => self.is_text = true,
                b'[' | b'{' if self.is_word => return (at, true),
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' if self.depth == 0 => return (at, true),
                b']' | b'}' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                byte if self.depth == 0 && (byte == b',' || byte == b':' || byte.is_ascii_whitespace()) => {
                    return (at, true);
                }
                _ if self.depth == 0 => self.is_word = true,
                _ => {}
            }
            at += 1;
        }
        (at, false)
    }

    /// Goes on behind the end of the text, or to the end of the bytes.
    fn inside_text(&mut self, bytes: &[u8], at: usize) -> usize {
        if self.is_escaped {
            self.is_escaped = false;
            return at + 1;
        }
        match memchr2(b'"', b'\\', &bytes[at..]) {
            None => bytes.len(),
            Some(found) => {
                let found = at + found;
                match bytes[found] {
                    b'"' => self.is_text = false,
                    _ => self.is_escaped = true,
                }
                found + 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    /// Elements as they come through a buffer of `size`, and what ended them.
    fn read(text: &str, way: &'static [&'static str], size: usize) -> (Vec<String>, Option<String>) {
        let mut elements = Elements::new(BufReader::with_capacity(size, text.as_bytes()), way);
        let (mut found, mut element) = (Vec::new(), Vec::new());
        loop {
            match elements.next(&mut element) {
                Ok(Next::Element) => found.push(String::from_utf8_lossy(&element).into_owned()),
                Ok(Next::TooLong(_)) => found.push("too long".to_owned()),
                Ok(Next::End) => return (found, None),
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }

    #[track_caller]
    fn check(text: &str, way: &'static [&'static str], expected: &[&str], error: Option<&str>) {
        for size in [1, 2, 3, 7, 4096] {
            let (found, ended) = read(text, way, size);
            assert_eq!(found, expected, "{text} in pieces of {size}");
            assert_eq!(ended.as_deref(), error, "{text} in pieces of {size}");
        }
    }

    #[test]
    fn finds_the_elements_of_a_list() {
        check(" [ ] ", &[], &[], None);
        check(
            "\u{feff}[1, {\"a\": [\"]\"]} ,\"x,\\\"]\",null]x",
            &[],
            &["1", "{\"a\": [\"]\"]}", "\"x,\\\"]\"", "null"],
            None,
        );
        check("{\"a\":1}", &[], &["{\"a\":1}"], None);
        check("[\"\\\\\",[[]]]", &[], &["\"\\\\\"", "[[]]"], None);
    }

    #[test]
    fn finds_a_list_inside_objects() {
        let text = r#"{"comment":"\"log\":{","log":{"version":"1.2","pages":[{"entries":[0]}],"entries":[{"x":1},2],"more":[3]}}"#;
        check(text, &["log", "entries"], &["{\"x\":1}", "2"], None);
        check(
            r#"{"log":{}}"#,
            &["log", "entries"],
            &[],
            Some("`log.entries` is not there or no list"),
        );
        check(
            r#"{"log":{"entries":7}}"#,
            &["log", "entries"],
            &[],
            Some("`log.entries` is not there or no list"),
        );
        check(
            "[1]",
            &["log", "entries"],
            &[],
            Some("`log.entries` is not there or no list"),
        );
    }

    #[test]
    fn what_stands_before_a_cut_is_found() {
        check("[1,[2", &[], &["1"], Some("the file ends in the middle, at byte 5"));
        check("[{},", &[], &["{}"], Some("the file ends in the middle, at byte 4"));
        check("", &[], &[], Some("the file ends in the middle, at byte 0"));
        check("[1 2]", &[], &["1"], Some("no JSON at byte 3"));
        check("[,]", &[], &[], Some("no JSON at byte 1"));
    }

    #[test]
    fn an_element_that_is_too_long_is_passed_over() {
        let long = format!("[\"{}\",7]", "x".repeat(ELEMENT_BYTES_MAX));
        let (found, ended) = read(&long, &[], 1 << 16);
        assert_eq!((found, ended), (vec!["too long".to_owned(), "7".to_owned()], None));
    }

    #[test]
    fn tells_a_list_by_a_member_of_its_first_element() {
        let first = |text: &str| {
            let elements = Elements::new(text.as_bytes(), &[]);
            elements.first_member_of(&["mapping", "chat_messages"]).ok().flatten()
        };
        assert_eq!(
            first(r#"[{"title":"mapping","x":{"chat_messages":1},"mapping":{"cut"#),
            Some("mapping")
        );
        assert_eq!(first(r#"{"name":"a","chat_messages":[]}"#), Some("chat_messages"));
        assert_eq!(first("[]"), None);
        assert_eq!(first("[{}]"), None);
        assert_eq!(first("[1]"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_for_ever(text in ".{0,200}", size in 1_usize..9) {
            let (found, _) = read(&text, &[], size);
            prop_assert!(found.len() <= text.len());
            read(&text, &["log", "entries"], size);
        }

        #[test]
        fn pieces_do_not_matter(text in r#"[\[\]{}",:\\ a1]{0,80}"#) {
            let whole = read(&text, &[], 4096);
            for size in 1..6 {
                prop_assert_eq!(read(&text, &[], size), whole.clone());
            }
        }
    }
}

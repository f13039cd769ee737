//! Reading a request body: the common model, the chain and the split, in one pass.
//!
//! The body is walked member by member; arrays of messages, system blocks and tools element by element. Each
//! element is read once and kept: next turn's body repeats nearly all of them byte for byte, and a
//! [`Memo`] of this turn lets those be compared instead of parsed, decoded and hashed.
//!
//! Invariants: the pieces join to the body whatever it is; a body that is no JSON object is one part and no request;
//! reading with a memo gives exactly what reading without it gives.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, ValueHash};
use ropewalk_core::json::{JsonError, Node, parse_value_at};
use ropewalk_core::model::{Block, Message, Provider, Request, Tool};
use ropewalk_core::part::Part;
use ropewalk_core::recipe::Piece;

use crate::assemble;
use crate::cut::{Cut, Depth, Texts, cut_with, push_frame};
use crate::split::{Segment, Split};

/// A value without long strings up to this length is part of the envelope around it.
const ENVELOPE_MAX: usize = 512;

/// How many elements of the turn before are tried for each element: context messages come and go.
const MEMO_WINDOW: usize = 4;

/// A request body that was read.
#[derive(Debug, Clone)]
pub struct RequestBody {
    pub request: Request,
    /// The node before the first block.
    pub start: NodeHash,
    pub split: Split,
    pub(crate) memo: Memo,
}

impl RequestBody {
    /// The position after the whole request.
    pub fn input_node(&self) -> NodeHash {
        self.nodes().last().copied().unwrap_or(self.start)
    }

    /// What to hand to the reading of the next turn.
    pub fn into_memo(self) -> Memo {
        self.memo
    }

    /// One node per block that is in the chain.
    pub fn nodes(&self) -> &[NodeHash] {
        &self.memo.nodes
    }

    /// The messages in the order of the chain, each with how many of its blocks are in it.
    pub fn messages(&self) -> impl Iterator<Item = (&Arc<Message>, usize)> {
        self.memo.chained().filter_map(|element| match &element.said {
            Said::Message(message) => Some((message, element.values.len())),
            _ => None,
        })
    }

    /// Where each message of the chain stands in the body, with how many of its blocks are in it.
    pub fn places(&self) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let counted = self.memo.members.iter().filter(|member| !member.is_shadowed);
        let held = counted.flat_map(|member| &member.held);
        let chained = held.filter(|held| held.element.is_chained());
        chained.map(|held| (held.range.clone(), held.element.values.len()))
    }

    /// The value of each block in the chain, beside its node.
    pub fn values(&self) -> impl Iterator<Item = ValueHash> + '_ {
        self.memo.chained().flat_map(|element| element.values.iter().copied())
    }
}

/// One turn, kept to read the next one faster.
#[derive(Debug, Clone)]
pub struct Memo {
    pub(crate) provider: Provider,
    pub(crate) body: Bytes,
    pub(crate) members: Vec<Member>,
    pub(crate) start: NodeHash,
    pub(crate) nodes: Vec<NodeHash>,
}

impl Memo {
    /// The body that was read.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    fn chained(&self) -> impl Iterator<Item = &Arc<Element>> {
        chained(&self.members)
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members
            .iter()
            .find(|member| !member.is_shadowed && &*member.key == key)
    }
}

/// A top-level member: one value, or the elements of an array that is read one by one.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) key: Box<str>,
    pub(crate) held: Vec<Held>,
    /// A later member has the same name, and the later one counts.
    pub(crate) is_shadowed: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) range: Range<usize>,
    pub(crate) element: Arc<Element>,
}

/// A value that was read: what it says, what the chain makes of it, how it is stored.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) said: Said,
    pub(crate) values: Vec<ValueHash>,
    pub(crate) pieces: Arc<[Piece]>,
    pub(crate) parts: Vec<Part>,
    /// Small and without long strings: stored with the envelope around it, not by its own pieces.
    in_envelope: bool,
}

#[derive(Debug)]
pub(crate) enum Said {
    Message(Arc<Message>),
    System(Vec<Arc<Block>>),
    Tools(Vec<Arc<Tool>>),
    /// Any other member, as JSON.
    Option(Box<str>),
}

impl Element {
    pub(crate) fn of_pieces(pieces: Vec<Piece>, parts: Vec<Part>) -> Self {
        Element {
            said: Said::Option(Box::default()),
            values: Vec::new(),
            pieces: pieces.into(),
            parts,
            in_envelope: false,
        }
    }

    /// Its pieces and parts behind some framing.
    pub(crate) fn led_by(&self, framing: &[u8]) -> (Vec<Piece>, Vec<Part>) {
        let (mut pieces, mut parts) = (
            Vec::with_capacity(self.pieces.len() + 1),
            Vec::with_capacity(self.parts.len() + 1),
        );
        push_frame(framing, &mut pieces, &mut parts);
        pieces.extend_from_slice(&self.pieces);
        parts.extend_from_slice(&self.parts);
        (pieces, parts)
    }

    fn is_chained(&self) -> bool {
        matches!(self.said, Said::Message(_))
    }
}

/// Reads a body. Errors when it is no JSON object; its bytes are then one opaque part ([`Split::opaque`]).
pub fn read_request(provider: Provider, body: &Bytes, memo: Option<&Memo>) -> Result<RequestBody, JsonError> {
    let text = std::str::from_utf8(body).map_err(|error| JsonError::NotUtf8 {
        at: error.valid_up_to(),
    })?;
    let mut reader = Reader {
        provider,
        text,
        memo: memo.filter(|memo| memo.provider == provider),
        done: 0,
        members: Vec::new(),
        split: Split::default(),
        scratch: String::new(),
    };
    reader.object()?;
    let Reader {
        memo, members, split, ..
    } = reader;
    let request = assemble::request(provider, &members);
    let start = chain::root(&request.start);
    let mut memo = Memo {
        provider,
        body: body.clone(),
        start,
        nodes: reused_nodes(start, &members, memo),
        members,
    };
    let mut nodes = std::mem::take(&mut memo.nodes);
    let mut last = nodes.last().copied().unwrap_or(start);
    let values = memo.chained().flat_map(|element| &element.values);
    for value in values.skip(nodes.len()) {
        last = chain::node(last, *value);
        nodes.push(last);
    }
    memo.nodes = nodes;
    Ok(RequestBody {
        request,
        start,
        split,
        memo,
    })
}

/// Reads one element of a section, which stands in `text`.
pub(crate) fn read_element(
    provider: Provider,
    section: Section,
    text: &str,
    node: Node<'_>,
    scratch: &mut String,
) -> Element {
    let depth = if section == Section::Tools {
        Depth::Whole
    } else {
        Depth::Texts
    };
    element(text, node, depth, scratch, |node, texts| {
        assemble::element(provider, section, node, texts)
    })
}

fn element(
    text: &str,
    node: Node<'_>,
    depth: Depth,
    scratch: &mut String,
    say: impl FnOnce(Node<'_>, &Texts) -> Said,
) -> Element {
    let Cut { pieces, parts, texts } = cut_with(text, node, node.range(), depth, scratch);
    let said = say(node, &texts);
    let values = match &said {
        Said::Message(message) => {
            let value = |block| chain::value(message.role, block, &|text| texts.digest(text));
            message.blocks.iter().filter_map(value).collect()
        }
        _ => Vec::new(),
    };
    let is_plain = matches!(&pieces[..], [] | [Piece::Inline(_) | Piece::Raw(_)]);
    let in_envelope = is_plain && matches!(said, Said::Option(_)) && node.raw().len() <= ENVELOPE_MAX;
    Element {
        said,
        values,
        pieces: pieces.into(),
        parts,
        in_envelope,
    }
}

/// The nodes of the elements that both turns begin with.
fn reused_nodes(start: NodeHash, members: &[Member], memo: Option<&Memo>) -> Vec<NodeHash> {
    let Some(memo) = memo.filter(|memo| memo.start == start) else {
        return Vec::new();
    };
    let same = chained(members).zip(memo.chained());
    let same = same.take_while(|(new, old)| Arc::ptr_eq(new, old));
    let count = same.map(|(element, _)| element.values.len()).sum();
    memo.nodes[..count].to_vec()
}

/// The elements that are messages, in the order of the chain.
fn chained(members: &[Member]) -> impl Iterator<Item = &Arc<Element>> {
    let counted = members.iter().filter(|member| !member.is_shadowed);
    let held = counted.flat_map(|member| &member.held);
    held.map(|held| &held.element).filter(|element| element.is_chained())
}

/// What an array's elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Messages,
    System,
    Tools,
}

struct Reader<'a> {
    provider: Provider,
    text: &'a str,
    memo: Option<&'a Memo>,
    /// Everything before this place is in the split.
    done: usize,
    members: Vec<Member>,
    split: Split,
    /// Strings are decoded in here before they are shared.
    scratch: String,
}

impl<'a> Reader<'a> {
    fn object(&mut self) -> Result<(), JsonError> {
        let mut at = self.expect(0, b'{')?;
        if self.peek(at)? == b'}' {
            at = self.expect(at, b'}')?;
        } else {
            loop {
                at = self.member(at)?;
                match self.peek(at)? {
                    b',' => at = self.expect(at, b',')?,
                    _ => break,
                }
            }
            at = self.expect(at, b'}')?;
        }
        let rest = self.skip_space(at);
        if rest != self.text.len() {
            return Err(JsonError::Unexpected { at: rest });
        }
        self.split.push_frame(&self.text.as_bytes()[self.done..]);
        Ok(())
    }

    fn member(&mut self, at: usize) -> Result<usize, JsonError> {
        let (key, end) = parse_value_at(self.text, at)?;
        let key = key.root().to_text().ok_or(JsonError::Unexpected { at })?;
        let start = self.skip_space(self.expect(end, b':')?);
        for earlier in self.members.iter_mut().filter(|member| *member.key == *key) {
            earlier.is_shadowed = true;
            // A memo could not tell which of the two is meant.
            self.memo = None;
        }
        let known = self.memo.and_then(|memo| memo.member(&key));
        let section = assemble::section(self.provider, &key);
        let (end, held) = match section {
            Some(section) if self.text.as_bytes().get(start) == Some(&b'[') => self.elements(start, section, known)?,
            _ => self.single(start, &key, known)?,
        };
        self.members.push(Member {
            key: key.into(),
            held,
            is_shadowed: false,
        });
        Ok(end)
    }

    fn single(&mut self, start: usize, key: &str, known: Option<&Member>) -> Result<(usize, Vec<Held>), JsonError> {
        let known = known.and_then(|member| member.held.first());
        let (held, is_known) = match known.filter(|held| self.repeats(start, held)) {
            Some(old) => (self.moved(start, old), true),
            None => {
                let (doc, end) = parse_value_at(self.text, start)?;
                let provider = self.provider;
                let element = element(self.text, doc.root(), Depth::Texts, &mut self.scratch, |node, texts| {
                    assemble::member(provider, key, node, texts)
                });
                (
                    Held {
                        range: start..end,
                        element: Arc::new(element),
                    },
                    false,
                )
            }
        };
        let end = held.range.end;
        self.emit(&held, is_known);
        Ok((end, vec![held]))
    }

    fn elements(
        &mut self,
        open: usize,
        section: Section,
        known: Option<&Member>,
    ) -> Result<(usize, Vec<Held>), JsonError> {
        let old = known.map_or(&[][..], |member| &member.held);
        let mut next_old = 0;
        let mut held = Vec::with_capacity(old.len() + 4);
        let mut at = self.expect(open, b'[')?;
        if self.peek(at)? == b']' {
            return Ok((self.expect(at, b']')?, held));
        }
        loop {
            let start = self.skip_space(at);
            let window = old.iter().enumerate().skip(next_old).take(MEMO_WINDOW);
            let repeated = window.into_iter().find(|(_, old)| self.repeats(start, old));
            let (element, is_known) = match repeated {
                Some((index, old)) => {
                    next_old = index + 1;
                    (self.moved(start, old), true)
                }
                None => (self.read_element(start, section)?, false),
            };
            at = element.range.end;
            let first = self.split.segments.len();
            self.emit(&element, is_known);
            if section == Section::Messages {
                self.split.newest = Some(first..self.split.segments.len());
            }
            held.push(element);
            match self.peek(at)? {
                b',' => at = self.expect(at, b',')?,
                _ => return Ok((self.expect(at, b']')?, held)),
            }
        }
    }

    fn read_element(&mut self, start: usize, section: Section) -> Result<Held, JsonError> {
        let (doc, end) = parse_value_at(self.text, start)?;
        let element = read_element(self.provider, section, self.text, doc.root(), &mut self.scratch);
        Ok(Held {
            range: start..end,
            element: Arc::new(element),
        })
    }

    /// Whether the value at `start` is, byte for byte, one of the turn before. Only values that carry their
    /// own end (strings, arrays, objects) can be compared like this.
    fn repeats(&self, start: usize, old: &Held) -> bool {
        let Some(memo) = self.memo else { return false };
        let old = &memo.body[old.range.clone()];
        matches!(old.first(), Some(b'{' | b'[' | b'"')) && self.text.as_bytes()[start..].starts_with(old)
    }

    fn moved(&self, start: usize, old: &Held) -> Held {
        Held {
            range: start..start + old.range.len(),
            element: Arc::clone(&old.element),
        }
    }

    fn emit(&mut self, held: &Held, known: bool) {
        if held.element.in_envelope {
            return;
        }
        self.split
            .push_frame(&self.text.as_bytes()[self.done..held.range.start]);
        self.split.segments.push(Segment::Element {
            element: Arc::clone(&held.element),
            known,
        });
        self.done = held.range.end;
    }

    fn skip_space(&self, mut at: usize) -> usize {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.as_bytes().get(at) {
            at += 1;
        }
        at
    }

    fn peek(&self, at: usize) -> Result<u8, JsonError> {
        let byte = self.text.as_bytes().get(self.skip_space(at));
        byte.copied().ok_or(JsonError::Truncated)
    }

    /// Skips white space and that byte.
    fn expect(&self, at: usize, byte: u8) -> Result<usize, JsonError> {
        let at = self.skip_space(at);
        match self.text.as_bytes().get(at) {
            Some(found) if *found == byte => Ok(at + 1),
            Some(_) => Err(JsonError::Unexpected { at }),
            None => Err(JsonError::Truncated),
        }
    }
}

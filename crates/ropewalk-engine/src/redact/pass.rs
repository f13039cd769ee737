//! One pass over a body: what is found in its texts, as changes to its bytes.

use std::cmp::Reverse;
use std::ops::Range;

use bytes::Bytes;
use ropewalk_core::json::{Doc, Mapped, Node, parse_value_at};
use ropewalk_wire::deltas::{self, Layout};

use super::find::Span;
use super::{Found, Redactor, TagKey, placeholder};

/// The name of what a path names.
const PATH_NAME: &str = "path";

pub(super) struct Pass<'p> {
    redactor: &'p Redactor,
    key: &'p TagKey,
    /// Where something may be, in the bytes as they stand.
    places: Vec<usize>,
    edits: Vec<Edit>,
    found: Found,
}

#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    text: String,
}

impl<'p> Pass<'p> {
    /// The changed body; `None` if there is nothing to change.
    pub(super) fn over(redactor: &'p Redactor, key: &'p TagKey, bytes: &Bytes) -> Option<(Bytes, Found)> {
        let places = redactor.finder.places(bytes);
        let mut pass = Pass {
            redactor,
            key,
            places,
            edits: Vec::new(),
            found: Found::default(),
        };
        // A secret in pieces has no place: the pieces have to be joined first.
        if pass.places.is_empty() && !pass.looks_everywhere() && !deltas::may_spell(bytes) {
            return None;
        }
        match str::from_utf8(bytes) {
            Ok(text) => pass.text(text),
            // No JSON then, and no events that could be read.
            Err(_) => pass.plain(bytes, 0),
        }
        if pass.edits.is_empty() {
            return None;
        }
        Some((apply(pass.edits, bytes), pass.found))
    }

    fn looks_everywhere(&self) -> bool {
        self.redactor.finder.looks_everywhere() || !self.redactor.paths.is_empty()
    }

    fn text(&mut self, text: &str) {
        if !deltas::may_spell(text.as_bytes()) {
            return match Doc::parse_str(text) {
                Ok(doc) => self.value(&doc, &[]),
                Err(_) => self.plain(text.as_bytes(), 0),
            };
        }
        let layout = deltas::read(text);
        for channel in &layout.channels {
            self.channel(text, channel);
        }
        let mut in_channels: Vec<usize> = layout.channels.iter().flatten().map(|piece| piece.start).collect();
        in_channels.sort_unstable();
        for value in &layout.values {
            if self.has_place(value)
                && let Ok((doc, _)) = parse_value_at(text, value.start)
            {
                self.value(&doc, &in_channels);
            }
        }
        self.framing(text, &layout);
    }

    /// Whether this part of the body has to be looked at.
    fn has_place(&self, range: &Range<usize>) -> bool {
        let first = self.places.partition_point(|place| *place < range.start);
        self.looks_everywhere() || self.places.get(first).is_some_and(|place| *place < range.end)
    }

    /// A text in pieces: found in what they join to, changed in each of them.
    fn channel(&mut self, text: &str, pieces: &[Range<usize>]) {
        let joined: String = pieces.iter().map(|piece| &text[piece.clone()]).collect();
        let finder = &self.redactor.finder;
        if !finder.looks_everywhere() && finder.places(joined.as_bytes()).is_empty() {
            return;
        }
        let mapped = Mapped::read(&joined);
        for span in finder.spans(mapped.text.as_bytes()) {
            let range = in_literal(&mapped, &span);
            let mut replacement = self.replacement(&span, mapped.text.as_bytes());
            let mut start = 0;
            for piece in pieces {
                let end = start + piece.len();
                let (from, to) = (range.start.max(start), range.end.min(end));
                if from < to {
                    // The first piece takes the placeholder, the others lose their share.
                    self.edits.push(Edit {
                        range: piece.start + from - start..piece.start + to - start,
                        text: std::mem::take(&mut replacement),
                    });
                }
                start = end;
            }
        }
    }

    fn value(&mut self, doc: &Doc<'_>, in_channels: &[usize]) {
        for path in &self.redactor.paths {
            for node in path.find(doc.root()) {
                self.whole(node);
            }
        }
        for string in doc.strings() {
            let inside = string.range().start + 1;
            if self.has_place(&string.range()) && in_channels.binary_search(&inside).is_err() {
                self.string(string.literal().unwrap_or_default(), inside);
            }
        }
    }

    /// A value that is replaced whatever it is. Nothing is not worth hiding.
    fn whole(&mut self, node: Node<'_>) {
        let is_nothing = node.is_null() || node.literal() == Some("");
        let is_redacted = node
            .literal()
            .is_some_and(|literal| placeholder::ranges(literal.as_bytes()).any(|range| range == (0..literal.len())));
        if is_nothing || is_redacted {
            return;
        }
        let secret = node.to_text().unwrap_or_else(|| node.raw().to_owned());
        let written = placeholder::write(PATH_NAME, secret.as_bytes(), self.key);
        self.found.add(PATH_NAME);
        self.edits.push(Edit {
            range: node.range(),
            text: format!("\"{written}\""),
        });
    }

    fn string(&mut self, literal: &str, inside: usize) {
        let mapped = Mapped::read(literal);
        for span in self.redactor.finder.spans(mapped.text.as_bytes()) {
            let range = in_literal(&mapped, &span);
            let text = self.replacement(&span, mapped.text.as_bytes());
            self.edits.push(Edit {
                range: inside + range.start..inside + range.end,
                text,
            });
        }
    }

    /// What lies between the values. Of events that is field names, which must stay, and data that is no JSON.
    fn framing(&mut self, text: &str, layout: &Layout) {
        let ends = layout.values.iter().map(|value| value.end);
        let starts = layout.values.iter().map(|value| value.start);
        let gaps = std::iter::once(0).chain(ends).zip(starts.chain([text.len()]));
        for (start, end) in gaps {
            if !self.has_place(&(start..end)) {
                continue;
            }
            if !layout.is_events {
                self.plain(&text.as_bytes()[start..end], start);
                continue;
            }
            let mut at = start;
            for line in text[start..end].split_inclusive('\n') {
                let value = ["data:", ":"].iter().find_map(|field| line.strip_prefix(field));
                if let Some(value) = value.map(str::trim_end) {
                    let field = if line.starts_with(':') { 1 } else { "data:".len() };
                    self.plain(value.as_bytes(), at + field);
                }
                at += line.len();
            }
        }
    }

    /// Text that stands for itself.
    fn plain(&mut self, text: &[u8], start: usize) {
        for span in self.redactor.finder.spans(text) {
            let replacement = self.replacement(&span, text);
            self.edits.push(Edit {
                range: start + span.range.start..start + span.range.end,
                text: replacement,
            });
        }
    }

    fn replacement(&mut self, span: &Span, text: &[u8]) -> String {
        let name = self.redactor.finder.name(span.kind);
        self.found.add(name);
        placeholder::write(name, &text[span.range.clone()], self.key)
    }
}

/// Where a span of the decoded text stands in the literal, whole characters only.
fn in_literal(mapped: &Mapped, span: &Span) -> Range<usize> {
    let start = mapped.text.floor_char_boundary(span.range.start);
    let end = mapped.text.ceil_char_boundary(span.range.end);
    mapped.in_literal(start)..mapped.in_literal(end)
}

/// Where two changes overlap, the one that begins first and reaches further is made: a path names a whole value.
fn apply(mut edits: Vec<Edit>, bytes: &[u8]) -> Bytes {
    edits.sort_by_key(|edit| (edit.range.start, Reverse(edit.range.end)));
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for edit in edits {
        if edit.range.start >= done {
            out.extend_from_slice(&bytes[done..edit.range.start]);
            out.extend_from_slice(edit.text.as_bytes());
            done = edit.range.end;
        }
    }
    out.extend_from_slice(&bytes[done..]);
    Bytes::from(out)
}

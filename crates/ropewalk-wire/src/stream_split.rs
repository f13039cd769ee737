//! A stream of server-sent events as framing over the texts it spells.
//!
//! An answer streamed in 20-byte deltas is six times as long as its text, and the next request sends that text again
//! in one string. So events that differ only in their delta become a channel: one template, one text, and the
//! lengths of the deltas. All other events are cut like any JSON. Nothing here knows a provider: a delta is the first
//! string at one of a few places where providers put it, and an event without one is kept as it is.

use std::collections::HashMap;
use std::ops::Range;

use ropewalk_core::hash::PartHash;
use ropewalk_core::json::{Doc, Literal, Node, Style, encode_into, parse_value_at};
use ropewalk_core::part::Part;
use ropewalk_core::recipe::{Channel, Piece, Step, Stream};

use crate::cut::{Depth, TEXT_MIN, cut, push_frame};

/// Members of an Anthropic delta, and of a Chat delta, that spell a text.
const DELTA_MEMBERS: [&str; 7] = [
    "text",
    "partial_json",
    "thinking",
    "signature",
    "content",
    "reasoning_content",
    "refusal",
];

pub(crate) fn looks_like_events(text: &str) -> bool {
    let start = text.trim_start_matches('\u{feff}');
    ["event:", "data:", "id:", "retry:", ":"]
        .iter()
        .any(|field| start.starts_with(field))
}

pub(crate) fn split(text: &str) -> (Vec<Piece>, Vec<Part>) {
    let events: Vec<Event<'_>> = events(text).map(|range| Event::read(text, range)).collect();
    let style = common_style(&events);
    let mut builder = Builder::new(text, style);
    for event in &events {
        builder.event(event);
    }
    builder.finish()
}

/// Ranges of the events, each with the blank line that ends it. Together they are the whole text.
pub(crate) fn events(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &text.as_bytes()[start..];
        if rest.is_empty() {
            return None;
        }
        let end = start + blank_line_end(rest).unwrap_or(rest.len());
        let range = start..end;
        start = end;
        Some(range)
    })
}

/// The place behind the first blank line.
fn blank_line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..) {
        Some([b'\n', ..]) => Some(at + 2),
        Some([b'\r', b'\n', ..]) => Some(at + 3),
        _ => None,
    })
}

struct Event<'a> {
    range: Range<usize>,
    data: Option<Doc<'a>>,
    delta: Option<Delta<'a>>,
}

/// The string that an event adds to its text.
struct Delta<'a> {
    /// Between the quotes.
    range: Range<usize>,
    literal: Literal<'a>,
    counter: Option<(Range<usize>, u64)>,
}

impl<'a> Event<'a> {
    fn read(text: &'a str, range: Range<usize>) -> Self {
        let data = data_line(text, &range).and_then(|line| {
            let (doc, end) = parse_value_at(&text[..line.end], line.start).ok()?;
            text[end..line.end].trim().is_empty().then_some(doc)
        });
        let delta = data.as_ref().and_then(|doc| Delta::find(text, doc.root()));
        Event { range, data, delta }
    }
}

/// The payload of an event with exactly one data line.
pub(crate) fn data_line(text: &str, event: &Range<usize>) -> Option<Range<usize>> {
    let mut found = None;
    let mut start = event.start;
    for line in text[event.clone()].split_inclusive('\n') {
        if let Some(payload) = line.strip_prefix("data:") {
            let payload_start = start + line.len() - payload.len();
            if found.replace(payload_start..start + line.len()).is_some() {
                return None;
            }
        }
        start += line.len();
    }
    found
}

impl<'a> Delta<'a> {
    fn find(text: &'a str, root: Node<'_>) -> Option<Self> {
        let node = delta_string(root)?;
        let range = node.range().start + 1..node.range().end - 1;
        let counter = root.get("sequence_number").and_then(|number| {
            let value = number.as_u64()?;
            (value.to_string() == number.raw()).then(|| (number.range(), value))
        });
        Some(Delta {
            literal: Literal::read(&text[range.clone()]),
            range,
            counter,
        })
    }
}

fn delta_string(root: Node<'_>) -> Option<Node<'_>> {
    if let Some(delta) = root.get("delta") {
        return if delta.is_string() { Some(delta) } else { spelled(delta) };
    }
    if let Some(choice) = root.get("choices").and_then(|choices| choices.items().next()) {
        if let Some(delta) = choice.get("delta") {
            return spelled(delta).or_else(|| {
                let call = delta.get("tool_calls")?.items().next()?;
                call.get("function")?.get("arguments").filter(|text| text.is_string())
            });
        }
        return choice.get("text").filter(|text| text.is_string());
    }
    let candidate = root.get("candidates")?.items().next()?;
    let part = candidate.get("content")?.get("parts")?.items().next()?;
    part.get("text").filter(|text| text.is_string())
}

fn spelled(delta: Node<'_>) -> Option<Node<'_>> {
    DELTA_MEMBERS
        .iter()
        .find_map(|name| delta.get(name).filter(|text| text.is_string()))
}

/// One style for the stream: a server has one encoder, and plain ASCII fits them all.
fn common_style(events: &[Event<'_>]) -> Style {
    let styles = events.iter().filter_map(|event| event.delta.as_ref()?.literal.style);
    styles.fold(Style::Plain, |common, style| common.max(style))
}

struct Builder<'a> {
    text: &'a str,
    style: Style,
    parts: Vec<Part>,
    channels: Vec<Channel>,
    spelled: Vec<String>,
    channel_of: HashMap<(PartHash, u32, Option<u32>), u32>,
    steps: Vec<Step>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, style: Style) -> Self {
        Builder {
            text,
            style,
            parts: Vec::new(),
            channels: Vec::new(),
            spelled: Vec::new(),
            channel_of: HashMap::new(),
            steps: Vec::new(),
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match &event.delta {
            Some(delta) if self.reproduces(delta) => self.delta(event, delta),
            _ => self.bytes(event),
        }
    }

    fn reproduces(&self, delta: &Delta<'_>) -> bool {
        let mut again = Vec::with_capacity(delta.range.len());
        encode_into(&delta.literal.text, self.style, &mut again);
        delta.literal.style.is_some() && again == self.text.as_bytes()[delta.range.clone()]
    }

    fn delta(&mut self, event: &Event<'_>, delta: &Delta<'_>) {
        let (template, text_at, counter_at) = self.template(event, delta);
        let counter = delta.counter.as_ref().map_or(0, |(_, value)| *value);
        let channel = self.channel(template, text_at, counter_at);
        let text = &delta.literal.text;
        self.spelled[channel as usize].push_str(text);
        let length = text.len() as u32;
        match self.steps.last_mut() {
            Some(Step::Run {
                channel: last,
                counter: first,
                lengths,
            }) if *last == channel && (counter_at.is_none() || *first + lengths.len() as u64 == counter) => {
                lengths.push(length);
            }
            _ => self.steps.push(Step::Run {
                channel,
                counter,
                lengths: vec![length],
            }),
        }
    }

    /// The event without its delta and counter, and where these two stood.
    fn template(&self, event: &Event<'_>, delta: &Delta<'_>) -> (Part, u32, Option<u32>) {
        let mut holes = vec![(delta.range.clone(), false)];
        holes.extend(delta.counter.iter().map(|(range, _)| (range.clone(), true)));
        holes.sort_by_key(|(range, _)| range.start);
        let mut template = Vec::with_capacity(event.range.len());
        let (mut text_at, mut counter_at) = (0, None);
        let mut done = event.range.start;
        for (hole, is_counter) in holes {
            template.extend_from_slice(&self.text.as_bytes()[done..hole.start]);
            done = hole.end;
            let at = template.len() as u32;
            if is_counter {
                counter_at = Some(at);
            } else {
                text_at = at;
            }
        }
        template.extend_from_slice(&self.text.as_bytes()[done..event.range.end]);
        (Part::bytes(&template), text_at, counter_at)
    }

    fn channel(&mut self, template: Part, text_at: u32, counter_at: Option<u32>) -> u32 {
        let key = (template.hash, text_at, counter_at);
        if let Some(channel) = self.channel_of.get(&key) {
            return *channel;
        }
        let number = self.channels.len() as u32;
        self.channel_of.insert(key, number);
        self.channels.push(Channel {
            template: template.hash,
            text_at,
            counter_at,
            style: self.style,
            text: Vec::new(),
        });
        self.spelled.push(String::new());
        self.parts.push(template);
        number
    }

    fn bytes(&mut self, event: &Event<'_>) {
        let mut pieces = Vec::new();
        match &event.data {
            Some(doc) => {
                let cut = cut(self.text, doc.root(), event.range.clone(), Depth::TextsAndNumbers);
                pieces.extend(cut.pieces);
                self.parts.extend(cut.parts);
            }
            None => push_frame(&self.text.as_bytes()[event.range.clone()], &mut pieces, &mut self.parts),
        }
        match self.steps.last_mut() {
            Some(Step::Bytes(before)) => before.extend(pieces),
            _ => self.steps.push(Step::Bytes(pieces)),
        }
    }

    fn finish(mut self) -> (Vec<Piece>, Vec<Part>) {
        for (channel, text) in self.channels.iter_mut().zip(&self.spelled) {
            channel.text = spelled_pieces(text, &mut self.parts);
        }
        let stream = Stream {
            channels: self.channels,
            steps: self.steps,
        };
        (vec![Piece::Stream(Box::new(stream))], self.parts)
    }
}

/// A spelled text as pieces. Arguments are JSON, whose long strings the next request sends in its own way.
fn spelled_pieces(text: &str, parts: &mut Vec<Part>) -> Vec<Piece> {
    if text.starts_with(['{', '['])
        && let Ok(doc) = Doc::parse_str(text)
    {
        let cut = cut(text, doc.root(), 0..text.len(), Depth::Texts);
        parts.extend(cut.parts);
        return cut.pieces;
    }
    if text.len() >= TEXT_MIN {
        let part = Part::text(text.into());
        let piece = Piece::Raw(part.hash);
        parts.push(part);
        return vec![piece];
    }
    let mut pieces = Vec::new();
    push_frame(text.as_bytes(), &mut pieces, parts);
    pieces
}

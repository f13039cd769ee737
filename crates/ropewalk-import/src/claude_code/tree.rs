//! From records to messages and turns.
//!
//! Every record has a *tail*: the message that a request ends with which goes on from the record. A user's record adds a message,
//! an answer's records add one message together, what stands between adds nothing. The tail of a result that was one of several is
//! behind all of them, because the next request has them all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use ropewalk_core::json::{Doc, Style, quote};
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::{LogMessage, LogTurn, Logged, MessageNumber};
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;

use super::FileFacts;
use super::line::{Block, Kind, Line};
use super::records;
use crate::reader::{Found, Sink};

/// Records of the latest answer that may still grow while the file is being read.
const LINES_HELD_BACK: usize = 64;

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) facts: FileFacts,
    pub(super) lines: Vec<Line>,
    pub(super) by_uuid: HashMap<Box<str>, usize>,
    /// The lines of each answer, in order.
    groups: HashMap<Box<str>, Group>,
    /// The line of each call, and the lines of its results.
    pub(super) calls: HashMap<Box<str>, usize>,
    results: HashMap<Box<str>, Vec<usize>>,
    /// What stays behind a summary, by the summary's record.
    preserved: HashMap<Box<str>, Vec<Box<str>>>,
    tails: HashMap<usize, Option<MessageNumber>>,
    /// The message of a user's record, and its first block in it.
    said: HashMap<usize, (MessageNumber, usize)>,
    /// The answer that was told first for each request.
    answered: HashMap<Option<MessageNumber>, Box<str>>,
    told_lines: usize,
    next_message: u32,
    pub(super) begun: Option<Micros>,
}

#[derive(Debug, Default)]
struct Group {
    lines: Vec<usize>,
    /// Lines that were told, and the message that they are.
    told: usize,
    message: Option<MessageNumber>,
}

impl Tree {
    pub(super) fn new(facts: FileFacts) -> Self {
        Tree {
            facts,
            lines: Vec::new(),
            by_uuid: HashMap::new(),
            groups: HashMap::new(),
            calls: HashMap::new(),
            results: HashMap::new(),
            preserved: HashMap::new(),
            tails: HashMap::new(),
            said: HashMap::new(),
            answered: HashMap::new(),
            told_lines: 0,
            next_message: 0,
            begun: None,
        }
    }

    pub(super) fn add(&mut self, line: Line) {
        let place = self.lines.len();
        self.begun = self.begun.or(line.at);
        if let Some(uuid) = line.uuid.clone().filter(|_| !matches!(line.kind, Kind::Title(_))) {
            // A record that comes again says the same again.
            match self.by_uuid.entry(uuid) {
                Entry::Occupied(_) => return,
                Entry::Vacant(vacant) => vacant.insert(place),
            };
        }
        if let Some(message) = &line.message {
            for block in &message.blocks {
                match block {
                    Block::Call(Some(id)) => drop(self.calls.entry(id.clone()).or_insert(place)),
                    Block::Result(Some(id)) => self.results.entry(id.clone()).or_default().push(place),
                    _ => {}
                }
            }
        }
        if let Some(name) = group_name(&line) {
            self.groups.entry(name).or_default().lines.push(place);
        }
        if let Some((anchor, uuids)) = &line.preserved {
            self.preserved.insert(anchor.clone(), uuids.clone());
        }
        self.lines.push(line);
    }

    /// Tells of everything that was not told yet; what may still grow only at the end.
    pub(super) fn tell(&mut self, is_end: bool, sink: &mut dyn Sink) -> Found {
        let upto = match is_end {
            true => self.lines.len(),
            false => self.lines.len().saturating_sub(LINES_HELD_BACK),
        };
        for place in self.told_lines..upto {
            if self.tell_line(place, sink) == Found::Stop {
                return Found::Stop;
            }
            self.told_lines = place + 1;
        }
        Found::GoOn
    }

    fn tell_line(&mut self, place: usize, sink: &mut dyn Sink) -> Found {
        self.tail(place, sink);
        let line = &self.lines[place];
        let name = group_name(line).filter(|_| !line.is_synthetic());
        if let Some(name) = name {
            let is_last = self.groups[&name].lines.last() == Some(&place);
            if is_last && self.tell_turn(&name, sink) == Found::Stop {
                return Found::Stop;
            }
        }
        for (row, said) in records::of(self, place) {
            if sink.found(Logged::Record(Box::new(row), said)) == Found::Stop {
                return Found::Stop;
            }
        }
        Found::GoOn
    }

    /// The message that a record adds, with the block that is its first.
    pub(super) fn said(&self, place: usize) -> Option<(MessageNumber, usize)> {
        if let Some(said) = self.said.get(&place) {
            return Some(*said);
        }
        let group = self.groups.get(&group_name(&self.lines[place])?)?;
        let before = group.lines.iter().take_while(|line| **line != place);
        let blocks = before.map(|line| self.block_count(*line)).sum();
        Some((group.message?, blocks))
    }

    pub(super) fn block_count(&self, place: usize) -> usize {
        let message = self.lines[place].message.as_ref();
        message.map_or(0, |message| message.blocks.len())
    }

    /// The message that a request ends with which goes on from a record, which is told if it was not yet.
    fn tail(&mut self, place: usize, sink: &mut dyn Sink) -> Option<MessageNumber> {
        // Parents first. A way that comes back to itself is cut where it does.
        let mut waiting = vec![place];
        let mut seen = vec![place];
        while let Some(&at) = waiting.last() {
            if self.is_settled(at) {
                waiting.pop();
                continue;
            }
            let needed = self.needs(at);
            let missing = needed
                .into_iter()
                .find(|other| !self.is_settled(*other) && !seen.contains(other));
            match missing {
                Some(other) => {
                    seen.push(other);
                    waiting.push(other);
                }
                None => {
                    let tail = self.settle(at, sink);
                    self.tails.insert(at, tail);
                    waiting.pop();
                }
            }
        }
        self.tails.get(&place).copied().flatten()
    }

    fn is_settled(&self, place: usize) -> bool {
        let has_grown = || {
            let group = group_name(&self.lines[place]).and_then(|name| self.groups.get(&name));
            group.is_some_and(|group| group.told < group.lines.len())
        };
        self.tails.contains_key(&place) && !has_grown()
    }

    /// Records whose tails come first.
    fn needs(&self, place: usize) -> Vec<usize> {
        let parent = match group_name(&self.lines[place]) {
            Some(name) => self.parent_of_group(&name),
            None => self.parent(place),
        };
        parent.into_iter().collect()
    }

    pub(super) fn parent(&self, place: usize) -> Option<usize> {
        let parent = self.lines[place].parent.as_ref()?;
        self.by_uuid.get(parent).copied().filter(|parent| *parent != place)
    }

    fn parent_of_group(&self, name: &str) -> Option<usize> {
        let lines = &self.groups.get(name)?.lines;
        let parents = lines.iter().filter_map(|line| self.parent(*line));
        let mut outside = parents.filter(|parent| !lines.contains(parent));
        outside.next()
    }

    fn settle(&mut self, place: usize, sink: &mut dyn Sink) -> Option<MessageNumber> {
        let line = &self.lines[place];
        if let Some(name) = group_name(line) {
            if line.is_error_notice {
                return self.tail_of(self.parent_of_group(&name));
            }
            return self.settle_group(&name, sink);
        }
        let before = self.tail_of(self.parent(place));
        let is_user = line.kind == Kind::User && line.message.is_some();
        if !is_user {
            return before;
        }
        let siblings = self.results_beside(place);
        let last = Some(self.tell_users(&siblings, before, sink));
        for sibling in siblings.iter().filter(|sibling| **sibling != place) {
            self.tails.insert(*sibling, last);
        }
        self.preserved_behind(place, last, sink)
    }

    fn tail_of(&self, place: Option<usize>) -> Option<MessageNumber> {
        place.and_then(|place| self.tails.get(&place).copied().flatten())
    }

    /// The results of one answer's calls, which the next request has all of, in the order of the file; or the record alone.
    fn results_beside(&self, place: usize) -> Vec<usize> {
        let line = &self.lines[place];
        let ids = |place: usize| {
            let message = self.lines[place].message.as_ref();
            let blocks = message.into_iter().flat_map(|message| &message.blocks);
            blocks.filter_map(|block| match block {
                Block::Result(Some(id)) => Some(id.clone()),
                _ => None,
            })
        };
        let call = ids(place).next().and_then(|id| self.calls.get(&id).copied());
        let group = call.and_then(|call| group_name(&self.lines[call]));
        let Some(group) = group.and_then(|name| self.groups.get(&name)) else {
            return vec![place];
        };
        let calls = group.lines.iter().filter_map(|line| self.lines[*line].message.as_ref());
        let calls = calls
            .flat_map(|message| &message.blocks)
            .filter_map(|block| match block {
                Block::Call(Some(id)) => Some(id),
                _ => None,
            });
        let mut beside = vec![place];
        for id in calls {
            let results = self.results.get(id).map_or(&[][..], |results| results);
            let is_here = results.contains(&place) || beside.iter().any(|other| results.contains(other));
            // A call that was made again has two results; the one of the same side counts.
            let found = results
                .iter()
                .find(|other| self.lines[**other].is_sidechain == line.is_sidechain);
            beside.extend(found.filter(|_| !is_here));
        }
        beside.sort_unstable();
        beside.dedup();
        beside
    }

    /// What users' records say, as one message: that is how it is sent.
    fn tell_users(&mut self, places: &[usize], behind: Option<MessageNumber>, sink: &mut dyn Sink) -> MessageNumber {
        let content = match places {
            [place] => {
                let message = self.lines[*place].message.as_ref();
                message.map(|message| message.content.to_vec()).unwrap_or_default()
            }
            several => self.content(several),
        };
        let number = self.tell_message("user", &content, behind, sink);
        let mut first = 0;
        for place in places {
            self.said.insert(*place, (number, first));
            first += self.block_count(*place);
        }
        number
    }

    fn tell_message(
        &mut self,
        role: &str,
        content: &[u8],
        behind: Option<MessageNumber>,
        sink: &mut dyn Sink,
    ) -> MessageNumber {
        let content = if content.is_empty() { b"[]" } else { content };
        let json = [format!("{{\"role\":\"{role}\",\"content\":").as_bytes(), content, b"}"].concat();
        let number = MessageNumber(self.next_message);
        self.next_message += 1;
        // A sink that has had enough is asked again with the turn.
        let _ = sink.found(Logged::Message(LogMessage {
            behind,
            provider: Provider::Anthropic,
            json: Bytes::from(json),
        }));
        number
    }

    /// What a compaction left standing behind its summary.
    fn preserved_behind(
        &mut self,
        place: usize,
        last: Option<MessageNumber>,
        sink: &mut dyn Sink,
    ) -> Option<MessageNumber> {
        let uuid = self.lines[place].uuid.as_ref();
        let Some(kept) = uuid.and_then(|uuid| self.preserved.get(uuid)).cloned() else {
            return last;
        };
        let mut last = last;
        let mut told: Vec<Box<str>> = Vec::new();
        for place in kept
            .iter()
            .filter_map(|uuid| self.by_uuid.get(uuid).copied())
            .collect::<Vec<_>>()
        {
            match group_name(&self.lines[place]) {
                Some(name) if !told.contains(&name) => {
                    let content = self.answer_content(&name);
                    last = Some(self.tell_message("assistant", &content, last, sink));
                    told.push(name);
                }
                None if self.lines[place].kind == Kind::User => {
                    let message = self.lines[place].message.as_ref();
                    let content = message.map(|message| message.content.clone()).unwrap_or_default();
                    last = Some(self.tell_message("user", &content, last, sink));
                }
                _ => {}
            }
        }
        last
    }

    /// The blocks of all lines of an answer, as one array.
    fn answer_content(&self, name: &str) -> Vec<u8> {
        self.content(self.groups.get(name).map_or(&[], |group| &group.lines))
    }

    /// The blocks of some lines, as one array.
    fn content(&self, lines: &[usize]) -> Vec<u8> {
        let mut content = vec![b'['];
        for message in lines.iter().filter_map(|line| self.lines[*line].message.as_ref()) {
            let text = message.content.trim_ascii();
            let inside = match text {
                [b'[', inside @ .., b']'] => inside.trim_ascii().to_vec(),
                [b'"', ..] => [b"{\"type\":\"text\",\"text\":", text, b"}"].concat(),
                _ => continue,
            };
            if !inside.is_empty() {
                if content.len() > 1 {
                    content.push(b',');
                }
                content.extend_from_slice(&inside);
            }
        }
        content.push(b']');
        content
    }

    fn settle_group(&mut self, name: &str, sink: &mut dyn Sink) -> Option<MessageNumber> {
        let behind = self.tail_of(self.parent_of_group(name));
        let content = self.answer_content(name);
        let number = self.tell_message("assistant", &content, behind, sink);
        let group = self.groups.get_mut(name)?;
        (group.told, group.message) = (group.lines.len(), Some(number));
        for line in group.lines.clone() {
            self.tails.insert(line, Some(number));
        }
        Some(number)
    }

    fn tell_turn(&mut self, name: &str, sink: &mut dyn Sink) -> Found {
        let asked_at = self.parent_of_group(name);
        let asked = self.tail_of(asked_at);
        let answered_first = self.answered.entry(asked).or_insert_with(|| name.into());
        let is_regenerated = **answered_first != *name;
        let places = &self.groups[name].lines;
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Found::GoOn;
        };
        let (first, last) = (&self.lines[*first], &self.lines[*last]);
        let Some(message) = &last.message else {
            return Found::GoOn;
        };
        let began = first.at.or(last.at);
        // Asked again, the same words were sent later, and the log does not say when.
        let asked_at = self.asked_at(asked_at).filter(|_| !is_regenerated);
        let Some(at) = asked_at.into_iter().chain(began).min() else {
            sink.problem(first.number, "the answer has no time".to_owned());
            return Found::GoOn;
        };
        let lines = places.iter().map(|place| &self.lines[*place]);
        let has_ended = lines
            .clone()
            .any(|line| line.message.as_ref().is_some_and(|message| message.has_ended));
        let mut uuids = lines.clone().filter_map(|line| line.uuid.as_deref().map(str::to_owned));
        sink.found(Logged::Turn(Box::new(LogTurn {
            id: id(name, message),
            provider: Provider::Anthropic,
            at,
            ended_at: lines.clone().filter_map(|line| line.at).max(),
            spawned_at: spawned_at(lines.clone()),
            model: message.model.as_deref().map(str::to_owned),
            project: last.cwd.as_deref().map(str::to_owned),
            hints: self.hints(last),
            request_id: message.request_id.as_deref().map(str::to_owned),
            asked,
            answer: Bytes::from(answer(message, &self.answer_content(name))),
            cut_off: false,
            is_estimate: !has_ended,
            provenance: Provenance {
                file: self.facts.name.clone(),
                line: first.number,
                uuid: uuids.next(),
                aliases: uuids.collect(),
                log_begun: Some(self.begun.unwrap_or(at)),
            },
        })))
    }

    /// When the request was complete: the latest of the records that it ends with.
    fn asked_at(&self, parent: Option<usize>) -> Option<Micros> {
        let mut at = parent;
        let mut latest = None;
        // Past what stands between to what was said; no further than there are records.
        for _ in 0..self.lines.len() {
            let Some(place) = at else { break };
            latest = latest.max(self.lines[place].at);
            if self.lines[place].kind != Kind::Between {
                let beside = self.results_beside(place);
                return latest.max(beside.iter().filter_map(|place| self.lines[*place].at).max());
            }
            at = self.parent(place);
        }
        latest
    }

    fn hints(&self, line: &Line) -> Vec<(String, String)> {
        let named = [
            ("x-claude-code-session-id", line.session.as_deref()),
            ("x-claude-code-agent-id", line.agent.as_deref()),
            ("x-claude-code-agent-type", self.facts.agent_type.as_deref()),
        ];
        let said = named
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        said.collect()
    }
}

/// Lines of one answer have one message id. Without one, a line is an answer of its own.
pub(super) fn group_name(line: &Line) -> Option<Box<str>> {
    let message = line.message.as_ref().filter(|_| line.kind == Kind::Assistant)?;
    let name = match (&message.id, &message.request_id) {
        (Some(id), Some(request)) => format!("{id}\0{request}").into(),
        (Some(id), None) => id.clone(),
        (None, _) => format!("\0{}", line.uuid.as_deref().unwrap_or_default()).into(),
    };
    Some(name)
}

/// The same in every copy of the log.
fn id(name: &str, message: &super::line::Message) -> String {
    match (&message.id, &message.request_id) {
        (Some(id), Some(request)) => format!("{id}:{request}"),
        (Some(id), None) => id.to_string(),
        (None, _) => name.trim_start_matches('\0').to_owned(),
    }
}

fn spawned_at<'l>(lines: impl Iterator<Item = &'l Line>) -> Vec<(String, Micros)> {
    let calls = lines.filter_map(|line| Some((line.message.as_ref()?, line.at?)));
    let calls = calls.flat_map(|(message, at)| {
        message.blocks.iter().filter_map(move |block| match block {
            Block::Call(Some(id)) => Some((id.to_string(), at)),
            _ => None,
        })
    });
    calls.collect()
}

/// The answer whole: the last line's message, which has the last word on usage, with the blocks of all lines.
fn answer(last: &super::line::Message, content: &[u8]) -> Vec<u8> {
    let mut out = vec![b'{'];
    if let Ok(doc) = Doc::parse(&last.json) {
        for (name, value) in doc.root().members() {
            if name.is("content") {
                continue;
            }
            out.extend_from_slice(quote(&name.as_str().unwrap_or_default(), Style::Plain).as_bytes());
            out.push(b':');
            out.extend_from_slice(value.raw().as_bytes());
            out.push(b',');
        }
    }
    out.extend_from_slice(b"\"content\":");
    out.extend_from_slice(content);
    out.push(b'}');
    out
}

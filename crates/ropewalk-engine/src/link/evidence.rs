//! What is known when a link is decided.
//!
//! A decision is a pure function of the evidence. Where it would need more it says what ([`Need`]), the linker fetches that
//! for a whole batch at once, and the function runs again.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_store::Micros;
use ropewalk_store::facts::{ExchangeNumber, Key, Spawn};
use ropewalk_store::store::{Asked, KnownNode};

use crate::link::decision::Linked;
use crate::link::fact::Fact;
use crate::link::maps::{HashMap, HashSet};

/// Something that is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    Node(Asked<NodeHash>),
    Key(Asked<Key>),
    Fact(ExchangeNumber),
    /// The decision about another exchange, made or to be made first.
    Link(ExchangeNumber),
    Children(ExchangeNumber),
    Spawns(ExchangeNumber),
    SpawnsBetween(Micros, Micros),
    /// The nodes of an exchange's request.
    Chain(ExchangeNumber),
    /// The text of an exchange's answer.
    Answer(ExchangeNumber),
    /// The hash of an exchange's request without `stream`.
    Request(ExchangeNumber),
    /// Who waits for a hash.
    Wanting([u8; 8]),
}

/// What is missing before a decision can be made.
pub type Missing = Vec<Need>;

pub type Known<T> = std::result::Result<T, Missing>;

#[derive(Debug, Default)]
pub struct Evidence {
    pub nodes: HashMap<Asked<NodeHash>, Option<KnownNode>>,
    pub keys: HashMap<Asked<Key>, Vec<ExchangeNumber>>,
    pub facts: HashMap<ExchangeNumber, Option<Arc<Fact>>>,
    pub links: HashMap<ExchangeNumber, Option<Arc<Linked>>>,
    pub children: HashMap<ExchangeNumber, Vec<ExchangeNumber>>,
    pub spawns: HashMap<ExchangeNumber, Vec<Spawn>>,
    pub spawns_between: HashMap<(Micros, Micros), Vec<(ExchangeNumber, Spawn)>>,
    pub chains: HashMap<ExchangeNumber, Arc<Vec<NodeHash>>>,
    pub bodies: BodiesRead,
    pub wanting: HashMap<[u8; 8], Vec<ExchangeNumber>>,
    /// What was asked for in vain.
    absent: Vec<ExchangeNumber>,
    /// Whose links were read since the evidence was begun.
    fetched: Vec<ExchangeNumber>,
    /// Decided since the evidence was begun, and so newer in `links` than in the store.
    decided: HashSet<ExchangeNumber>,
    /// Exchanges that wait for the decision at hand, and so cannot be asked about.
    pub waiting: HashSet<ExchangeNumber>,
}

/// What was read of bodies. It holds as long as their exchanges are told as they are.
#[derive(Debug, Default)]
pub struct BodiesRead {
    answers: HashMap<ExchangeNumber, Arc<str>>,
    answer_bytes: usize,
    requests: HashMap<ExchangeNumber, [u8; 32]>,
}

impl BodiesRead {
    pub(super) fn keep_answer(&mut self, number: ExchangeNumber, text: Arc<str>) {
        self.answer_bytes += text.len();
        let before = self.answers.insert(number, text);
        self.answer_bytes -= before.map_or(0, |before| before.len());
    }

    pub(super) fn keep_request(&mut self, number: ExchangeNumber, hash: [u8; 32]) {
        self.requests.insert(number, hash);
    }

    /// The exchange ended, or is told anew.
    pub(super) fn forget(&mut self, number: ExchangeNumber) {
        self.requests.remove(&number);
        let answer = self.answers.remove(&number);
        self.answer_bytes -= answer.map_or(0, |answer| answer.len());
    }

    /// How many were read, and the bytes of answers among them.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.answers.len().max(self.requests.len()), self.answer_bytes)
    }
}

impl Evidence {
    /// What is known from before, all of it as the store has it.
    pub fn of(
        facts: HashMap<ExchangeNumber, Option<Arc<Fact>>>,
        links: HashMap<ExchangeNumber, Option<Arc<Linked>>>,
        children: HashMap<ExchangeNumber, Vec<ExchangeNumber>>,
        bodies: BodiesRead,
    ) -> Self {
        Evidence {
            facts,
            links,
            children,
            bodies,
            ..Evidence::default()
        }
    }

    /// For each node: who ends there. Asks for all that are missing at once.
    pub fn nodes(&self, nodes: &[NodeHash], as_of: Micros) -> Known<Vec<Option<&KnownNode>>> {
        let asked = nodes.iter().map(|node| Asked { what: *node, as_of });
        all(asked.map(|asked| self.nodes.get(&asked).map(Option::as_ref).ok_or(Need::Node(asked))))
    }

    /// For each key: the exchanges that have it, newest first.
    pub fn keys(&self, keys: impl IntoIterator<Item = Key>, as_of: Micros) -> Known<Vec<&[ExchangeNumber]>> {
        let asked = keys.into_iter().map(|key| Asked { what: key, as_of });
        all(asked.map(|asked| self.keys.get(&asked).map(|found| &**found).ok_or(Need::Key(asked))))
    }

    /// Those of the exchanges that exist.
    pub fn facts(&self, numbers: impl IntoIterator<Item = ExchangeNumber>) -> Known<Vec<&Arc<Fact>>> {
        let numbers = numbers.into_iter();
        let found = all(numbers.map(|number| self.facts.get(&number).ok_or(Need::Fact(number))))?;
        let present = found.into_iter().flatten();
        Ok(present.filter(|fact| !self.waiting.contains(&fact.number())).collect())
    }

    pub fn has(&self, need: &Need) -> bool {
        match need {
            Need::Node(asked) => self.nodes.contains_key(asked),
            Need::Key(asked) => self.keys.contains_key(asked),
            Need::Fact(number) => self.facts.contains_key(number),
            Need::Link(number) => self.links.contains_key(number),
            Need::Children(number) => self.children.contains_key(number),
            Need::Spawns(number) => self.spawns.contains_key(number),
            Need::SpawnsBetween(first, last) => self.spawns_between.contains_key(&(*first, *last)),
            Need::Chain(number) => self.chains.contains_key(number),
            Need::Answer(number) => self.bodies.answers.contains_key(number),
            Need::Request(number) => self.bodies.requests.contains_key(number),
            Need::Wanting(hash) => self.wanting.contains_key(hash),
        }
    }

    /// No such fact.
    pub(super) fn lacks_fact(&mut self, number: ExchangeNumber) {
        self.facts.insert(number, None);
        self.absent.push(number);
    }

    /// The exchange has no link yet.
    pub(super) fn lacks_link(&mut self, number: ExchangeNumber) {
        self.links.insert(number, None);
        self.absent.push(number);
    }

    /// Forgets what was not there: it may be there next time.
    pub(super) fn forget_absent(&mut self) {
        for number in std::mem::take(&mut self.absent) {
            if self.facts.get(&number).is_some_and(Option::is_none) {
                self.facts.remove(&number);
            }
            if self.links.get(&number).is_some_and(Option::is_none) {
                self.links.remove(&number);
            }
        }
    }

    /// Takes a link for known as the store has it, unless it is known already.
    pub(super) fn add_link(&mut self, linked: Linked) {
        let number = linked.exchange;
        if let Entry::Vacant(place) = self.links.entry(number) {
            place.insert(Some(Arc::new(linked)));
            self.fetched.push(number);
        }
    }

    /// The conversations of links that were read.
    pub(super) fn fetched_conversations(&self) -> impl Iterator<Item = ExchangeNumber> {
        let links = self
            .fetched
            .iter()
            .filter_map(|number| self.links.get(number)?.as_ref());
        links.map(|linked| linked.conversation)
    }

    /// Takes a decision for known.
    pub fn decide(&mut self, linked: &Arc<Linked>) {
        let number = linked.exchange;
        let before = self.links.insert(number, Some(linked.clone())).flatten();
        let (old, new) = (before.and_then(|before| before.decision.parent), linked.decision.parent);
        if old != new {
            if let Some(children) = old.and_then(|parent| self.children.get_mut(&parent)) {
                children.retain(|child| *child != number);
            }
            if let Some(children) = new.and_then(|parent| self.children.get_mut(&parent)) {
                children.push(number);
            }
        }
        self.decided.insert(number);
    }

    /// Children as the store has them, with what was decided since.
    pub(super) fn with_decided(&self, parent: ExchangeNumber, mut saved: Vec<ExchangeNumber>) -> Vec<ExchangeNumber> {
        let is_child = |number: &ExchangeNumber| {
            let linked = self.links.get(number).and_then(Option::as_ref);
            linked.is_some_and(|linked| linked.decision.parent == Some(parent))
        };
        saved.retain(|number| is_child(number));
        let new = self.decided.iter().copied().filter(is_child);
        let new: Vec<_> = new.filter(|number| !saved.contains(number)).collect();
        saved.extend(new);
        saved
    }

    pub fn link(&self, number: ExchangeNumber) -> Known<&Arc<Linked>> {
        match self.links.get(&number) {
            Some(Some(linked)) => Ok(linked),
            _ => Err(vec![Need::Link(number)]),
        }
    }

    /// The exchanges that go on from this one.
    pub fn children(&self, number: ExchangeNumber) -> Known<&[ExchangeNumber]> {
        let found = self.children.get(&number);
        found.map(|found| &**found).ok_or_else(|| vec![Need::Children(number)])
    }

    /// For each exchange: those that go on from it.
    pub fn children_of(&self, numbers: impl IntoIterator<Item = ExchangeNumber>) -> Known<Vec<&[ExchangeNumber]>> {
        let found = numbers.into_iter().map(|number| {
            let found = self.children.get(&number).map(|found| &**found);
            found.ok_or(Need::Children(number))
        });
        all(found)
    }

    pub fn spawns(&self, numbers: impl IntoIterator<Item = ExchangeNumber>) -> Known<Vec<&[Spawn]>> {
        let numbers = numbers.into_iter();
        all(numbers.map(|number| {
            self.spawns
                .get(&number)
                .map(|found| &**found)
                .ok_or(Need::Spawns(number))
        }))
    }

    pub fn spawns_between(&self, first: Micros, last: Micros) -> Known<&[(ExchangeNumber, Spawn)]> {
        let found = self.spawns_between.get(&(first, last));
        found
            .map(|found| &**found)
            .ok_or_else(|| vec![Need::SpawnsBetween(first, last)])
    }

    pub fn chain(&self, number: ExchangeNumber) -> Known<&[NodeHash]> {
        let found = self.chains.get(&number);
        found.map(|found| &***found).ok_or_else(|| vec![Need::Chain(number)])
    }

    /// For each exchange: the text of its answer.
    pub fn answers(&self, numbers: impl IntoIterator<Item = ExchangeNumber>) -> Known<Vec<&str>> {
        let numbers = numbers.into_iter();
        let answers = &self.bodies.answers;
        all(numbers.map(|number| answers.get(&number).map(|found| &**found).ok_or(Need::Answer(number))))
    }

    /// For each exchange: the hash of its request without `stream`.
    pub fn requests(&self, numbers: impl IntoIterator<Item = ExchangeNumber>) -> Known<Vec<[u8; 32]>> {
        let numbers = numbers.into_iter();
        let requests = &self.bodies.requests;
        all(numbers.map(|number| requests.get(&number).copied().ok_or(Need::Request(number))))
    }
}

/// All of them, or everything that is missing.
fn all<T>(found: impl Iterator<Item = std::result::Result<T, Need>>) -> Known<Vec<T>> {
    let mut present = Vec::new();
    let mut missing = Vec::new();
    for item in found {
        match item {
            Ok(item) => present.push(item),
            Err(need) => missing.push(need),
        }
    }
    if missing.is_empty() { Ok(present) } else { Err(missing) }
}

//! One batch of exchanges, decided and settled.
//!
//! All evidence that the batch needs is fetched in a few rounds for everybody at once; then each exchange is decided in order.
//! A new last exchange of a conversation is appended to it; where something else changed, the whole conversation is
//! folded again.

use std::collections::BTreeSet;
use std::sync::Arc;

use ropewalk_store::derived::{BranchRow, Conversations, LinkChanges, LinkKind};
use ropewalk_store::facts::{ExchangeNumber, KeyKind};
use ropewalk_store::{Micros, Store};

use crate::link::LinkError;
use crate::link::decide::{Settings, decide, first_needs};
use crate::link::decision::{Decision, Linked, Method};
use crate::link::evidence::{Evidence, Need};
use crate::link::fact::{Fact, Subject};
use crate::link::fetch::Source;
use crate::link::maps::{HashMap, HashSet};
use crate::link::memory::{Memory, Outlines};
use crate::link::outline::Outline;
use crate::link::places::Conversation;
use crate::link::settle::{AgentRecord, conversation_row};
use crate::link::{reach, reach_claims};

/// Rounds of fetching for many exchanges before they are decided one by one.
const PREFETCH_ROUNDS: usize = 4;

/// Exchanges to be decided again that are fetched for at once.
const PREFETCHED_MAX: usize = 256;

/// How often one exchange is decided again in a round. A decision only reads what precedes it, so this is never reached.
const DECISIONS_MAX: usize = 16;

/// Ends of answers that an exchange may wait for.
const WANTED_MAX: usize = 4_096;

type OrderKey = (Micros, u32, String, ExchangeNumber);

pub(super) struct Round<'r, S> {
    pub(super) source: Source<'r, S>,
    pub(super) owner_name: &'r str,
    pub(super) settings: &'r Settings,
    pub(super) known: Evidence,
    pub(super) subjects: HashMap<ExchangeNumber, Subject>,
    /// What is to be decided, in order.
    pub(super) queue: BTreeSet<OrderKey>,
    pub(super) decided: HashMap<ExchangeNumber, usize>,
    /// Those that was fetched for.
    prefetched: HashSet<ExchangeNumber>,
    /// What the log gave: new, ended, or told anew.
    pub(super) told: HashSet<ExchangeNumber>,
    /// As they were before this round, by exchange; `None` for those that had no link.
    pub(super) before: HashMap<ExchangeNumber, Option<Arc<Linked>>>,
    pub(super) conversations: HashMap<ExchangeNumber, Option<Conversation>>,
    /// Roots that no conversation has, or has any more.
    pub(super) absent_conversations: Vec<ExchangeNumber>,
    pub(super) branches: HashMap<ExchangeNumber, Vec<BranchRow>>,
    pub(super) changed_links: HashSet<ExchangeNumber>,
    pub(super) changed_conversations: HashSet<ExchangeNumber>,
    pub(super) changed_branches: HashSet<ExchangeNumber>,
    pub(super) gone_branches: HashSet<ExchangeNumber>,
    pub(super) gone_conversations: HashSet<ExchangeNumber>,
    /// Conversations that have to be folded as a whole.
    pub(super) unsettled: BTreeSet<ExchangeNumber>,
    pub(super) wanted: Vec<([u8; 8], ExchangeNumber)>,
    /// When the newest request was made that is linked, if any is. What is later reaches nobody by its time.
    pub(super) newest: Option<Micros>,
    pub(super) outlines: Outlines,
    unlinked: HashSet<ExchangeNumber>,
    /// Turns whose answers are counted for the first time.
    pub(super) answered: BTreeSet<ExchangeNumber>,
    /// Agents as they were, of conversations that were folded.
    pub(super) agents_before: HashMap<ExchangeNumber, (ExchangeNumber, AgentRecord)>,
}

/// What a decision was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The exchange ended; where it belongs was known.
    Ended,
    /// It is the newest of its conversation, or begins one.
    Appended,
    /// It stands among others, or stood elsewhere before.
    Moved,
}

impl<'r, S: Store> Round<'r, S> {
    pub(super) fn new(source: Source<'r, S>, owner_name: &'r str, settings: &'r Settings, memory: Memory) -> Self {
        Round {
            source,
            owner_name,
            settings,
            known: Evidence::of(memory.facts, memory.links, memory.children, memory.bodies),
            subjects: HashMap::default(),
            queue: BTreeSet::new(),
            decided: HashMap::default(),
            prefetched: HashSet::default(),
            told: HashSet::default(),
            before: HashMap::default(),
            conversations: memory.conversations,
            absent_conversations: Vec::new(),
            branches: memory.branches,
            changed_links: HashSet::default(),
            changed_conversations: HashSet::default(),
            changed_branches: HashSet::default(),
            gone_branches: HashSet::default(),
            gone_conversations: HashSet::default(),
            unsettled: BTreeSet::new(),
            wanted: Vec::new(),
            newest: memory.newest,
            outlines: memory.outlines,
            unlinked: memory.unlinked,
            answered: BTreeSet::new(),
            agents_before: HashMap::default(),
        }
    }

    pub(super) async fn add(&mut self, fact: Arc<Fact>) -> Result<(), LinkError> {
        let outline = self.outline(&fact).await?;
        self.known.facts.insert(fact.number(), Some(fact.clone()));
        if self.unlinked.remove(&fact.number()) && !self.known.links.contains_key(&fact.number()) {
            self.known.lacks_link(fact.number());
        }
        self.queue.insert(order_key(&fact));
        self.told.insert(fact.number());
        self.subjects.insert(fact.number(), Subject { fact, outline });
        Ok(())
    }

    pub(super) async fn outline(&mut self, fact: &Fact) -> Result<Arc<Outline>, LinkError> {
        if let Some(outline) = self.outlines.get(fact) {
            return Ok(outline);
        }
        let outline = Arc::new(self.source.outline(fact).await?);
        self.outlines.keep_read(fact, outline.clone());
        Ok(outline)
    }

    pub(super) async fn run(&mut self) -> Result<(), LinkError> {
        if self.newest.is_none() {
            let newest = Conversations::Newest { before: None, limit: 1 };
            let newest = self.source.store.conversations(self.source.owner, newest).await?;
            self.newest = newest.first().map(|row| row.last_at);
        }
        self.prefetch(self.subjects.keys().copied().collect()).await?;
        while let Some((.., number)) = self.queue.first() {
            if !self.prefetched.contains(number) {
                let queued = self.queue.iter().map(|(.., number)| *number);
                let next = queued.filter(|number| !self.prefetched.contains(number));
                self.prefetch(next.take(PREFETCHED_MAX).collect()).await?;
            }
            if let Some((.., number)) = self.queue.pop_first() {
                self.decide_with_those_before(number).await?;
            }
        }
        self.settle().await
    }

    /// Decides exchanges that are at hand for the sake of what they need, and fetches that for all at once.
    async fn prefetch(&mut self, numbers: Vec<ExchangeNumber>) -> Result<(), LinkError> {
        self.prefetched.extend(&numbers);
        let mut undecided: Vec<&Subject> = numbers.iter().filter_map(|number| self.subjects.get(number)).collect();
        let mut first: HashSet<Need> = numbers.iter().map(|number| Need::Link(*number)).collect();
        for subject in &undecided {
            first.extend(first_needs(subject));
            first.extend(reach::needs(&subject.fact));
            if Some(subject.fact.row.at) <= self.newest {
                first.insert(reach::needs_of_late(&subject.fact, self.settings.retry_window));
            }
            if self.may_be_heard(&subject.fact) {
                first.extend(reach::needs_of_heard(&subject.fact));
            }
        }
        self.source.fetch(&first, &mut self.known).await?;
        for _ in 0..PREFETCH_ROUNDS {
            let mut needs = HashSet::default();
            undecided.retain(|subject| {
                let Err(missing) = decide(subject, &self.known, self.settings) else {
                    return false;
                };
                // Members of this batch are decided in their turn.
                let others = missing.into_iter().filter(|need| match need {
                    Need::Link(number) => !self.known.links.contains_key(number),
                    _ => true,
                });
                needs.extend(others);
                true
            });
            if needs.is_empty() {
                break;
            }
            self.source.fetch(&needs, &mut self.known).await?;
        }
        let roots = self.known.fetched_conversations();
        let roots: BTreeSet<ExchangeNumber> = roots.filter(|root| !self.conversations.contains_key(root)).collect();
        self.load_conversations(roots.into_iter().collect()).await
    }

    /// Decides an exchange, and first those that its decision depends on.
    async fn decide_with_those_before(&mut self, number: ExchangeNumber) -> Result<(), LinkError> {
        let mut stack = vec![number];
        self.known.waiting.clear();
        while let Some(number) = stack.last().copied() {
            self.load(number).await?;
            let Some(subject) = self.subjects.get(&number).cloned() else {
                stack.pop();
                continue;
            };
            // Whoever waits for this decision cannot have a part in it.
            self.known.waiting = stack.iter().copied().filter(|other| *other != number).collect();
            match decide(&subject, &self.known, self.settings) {
                Ok(decision) => {
                    stack.pop();
                    self.queue.remove(&order_key(&subject.fact));
                    self.known.waiting.clear();
                    self.take(&subject, decision).await?;
                }
                Err(missing) => self.provide(missing, &mut stack).await?,
            }
        }
        self.known.waiting.clear();
        Ok(())
    }

    async fn provide(&mut self, missing: Vec<Need>, stack: &mut Vec<ExchangeNumber>) -> Result<(), LinkError> {
        let needs: HashSet<Need> = missing.into_iter().collect();
        self.source.fetch(&needs, &mut self.known).await?;
        for need in needs {
            if let Need::Link(other) = need
                && self.known.links.get(&other).is_none_or(Option::is_none)
                && !stack.contains(&other)
            {
                stack.push(other);
            }
        }
        Ok(())
    }

    /// Reads an exchange that is to be decided, if it is not at hand.
    async fn load(&mut self, number: ExchangeNumber) -> Result<(), LinkError> {
        if self.subjects.contains_key(&number) {
            return Ok(());
        }
        let needs = HashSet::from_iter([Need::Fact(number), Need::Link(number)]);
        self.source.fetch(&needs, &mut self.known).await?;
        if let Some(Some(fact)) = self.known.facts.get(&number).cloned() {
            let outline = self.outline(&fact).await?;
            self.subjects.insert(number, Subject { fact, outline });
        }
        Ok(())
    }

    /// Queues an exchange to be decided again.
    pub(super) async fn decide_again(&mut self, number: ExchangeNumber) -> Result<(), LinkError> {
        if self.decided.get(&number).is_some_and(|times| *times >= DECISIONS_MAX) {
            return Ok(());
        }
        self.load(number).await?;
        if let Some(subject) = self.subjects.get(&number) {
            self.queue.insert(order_key(&subject.fact));
        }
        Ok(())
    }

    async fn take(&mut self, subject: &Subject, decision: Decision) -> Result<(), LinkError> {
        let number = subject.number();
        *self.decided.entry(number).or_default() += 1;
        let before = self.known.links.get(&number).cloned().flatten();
        self.before.entry(number).or_insert_with(|| before.clone());
        let is_same = before.as_ref().is_some_and(|before| {
            let mut known = before.decision.clone();
            known.is_counted = false;
            known == decision
        });
        if !is_same {
            self.want(subject, &decision);
        }
        let of_claims = reach_claims::wanted(subject, &decision, &self.known, self.settings);
        self.wanted.extend(of_claims.into_iter().map(|hash| (hash, number)));
        let was_answered = before.as_ref().is_some_and(|before| before.decision.is_counted);
        if subject.fact.is_turn() && subject.fact.ended().is_some() && !was_answered {
            self.answered.insert(number);
        }
        // It had ended and comes again: it is told anew, with another id, time or usage than its conversation was folded with.
        let is_retold = was_answered && self.told.contains(&number);
        let change = match &before {
            Some(before) if is_same && !is_retold => {
                self.count_answer(subject, before).await?;
                Change::Ended
            }
            None => self.place_new(subject, decision).await?,
            Some(before) => {
                self.unsettled.insert(before.conversation);
                self.place_later(subject, decision)
            }
        };
        self.reach(subject, change, before.as_ref()).await?;
        if is_retold {
            self.decide_children_again(number).await?;
        }
        self.newest = self.newest.max(Some(subject.fact.row.at));
        Ok(())
    }

    /// Those that went on from an exchange did so from what was told of it then: its session, its time, its answer.
    async fn decide_children_again(&mut self, number: ExchangeNumber) -> Result<(), LinkError> {
        let needs = HashSet::from_iter([Need::Children(number)]);
        self.source.fetch(&needs, &mut self.known).await?;
        for child in self.known.children.get(&number).cloned().unwrap_or_default() {
            self.decide_again(child).await?;
        }
        Ok(())
    }

    /// Remembers what would have linked an exchange if it had been recorded.
    fn want(&mut self, subject: &Subject, decision: &Decision) {
        let mut wanted = unheard(subject, decision);
        if !wanted.is_empty() || subject.is_opening() {
            let summaries = subject.outline.continues().into_iter().flatten();
            wanted.extend(summaries.map(|key| prefix(&key.hash)));
        }
        if decision.kind == LinkKind::Auxiliary && subject.fact.session().is_none() {
            // Any conversation that begins with what it quotes.
            wanted.extend(subject.fact.keys(KeyKind::Opening).map(|key| prefix(&key.hash)));
        }
        let number = subject.number();
        self.wanted.extend(wanted.into_iter().map(|hash| (hash, number)));
    }

    /// What to save, and what to remember once it is saved as that version.
    pub(super) fn finish(mut self, version: u64) -> (LinkChanges, Memory) {
        let changes = self.changes();
        self.known.forget_absent();
        for root in self.absent_conversations {
            if self.conversations.get(&root).is_some_and(Option::is_none) {
                self.conversations.remove(&root);
            }
        }
        let memory = Memory {
            version,
            facts: self.known.facts,
            links: self.known.links,
            children: self.known.children,
            bodies: self.known.bodies,
            conversations: self.conversations,
            branches: self.branches,
            newest: self.newest,
            outlines: self.outlines,
            unlinked: self.unlinked,
        };
        (changes, memory.bounded())
    }

    /// Branches that are otherwise than before. Where one is, its conversation is: what else is remembered is not looked at.
    pub(super) fn changed_rows(&self) -> impl Iterator<Item = &BranchRow> {
        let rows = self.changed_conversations.iter();
        let rows = rows.filter_map(|root| self.branches.get(root)).flatten();
        rows.filter(|row| self.changed_branches.contains(&row.first))
    }

    /// Conversations that somebody left, or stands otherwise in than before. That an answer was counted changes no course.
    fn turned(&self) -> BTreeSet<ExchangeNumber> {
        let mut turned = BTreeSet::new();
        for number in &self.changed_links {
            let before = self.before.get(number).and_then(Option::as_deref);
            let (Some(before), Some(Some(now))) = (before, self.known.links.get(number)) else {
                continue;
            };
            let mut stood = before.clone();
            stood.decision.is_counted = now.decision.is_counted;
            if stood != **now {
                turned.extend([before.conversation, now.conversation]);
            }
        }
        turned
    }

    fn changes(&self) -> LinkChanges {
        let links = self
            .changed_links
            .iter()
            .filter_map(|number| self.known.links.get(number)?.as_ref());
        let conversations = self
            .changed_conversations
            .iter()
            .filter_map(|root| self.conversations.get(root)?.as_ref());
        let conversations = conversations.map(|conversation| {
            let row = &conversation.row;
            conversation_row(row.root, row.id, row.started_at, row.last_at, &conversation.record)
        });
        let mut changes = LinkChanges {
            links: links.map(|linked| linked.to_row()).collect(),
            conversations: conversations.collect(),
            branches: self.changed_rows().cloned().collect(),
            gone_branches: self.gone_branches.iter().copied().collect(),
            gone_conversations: self.gone_conversations.iter().copied().collect(),
            turned: self.turned().into_iter().collect(),
            wanted: self.wanted.clone(),
            ..LinkChanges::default()
        };
        // In the order in which a store keeps them: each is written behind the one before it.
        changes.links.sort_unstable_by_key(|link| link.exchange);
        changes
            .conversations
            .sort_unstable_by_key(|conversation| conversation.root);
        changes.branches.sort_unstable_by_key(|branch| branch.first);
        changes.wanted.sort_unstable();
        changes
    }
}

/// Answers in a history that nobody recorded as they were given: where they and their questions end, and what could anchor them.
pub(super) fn unheard(subject: &Subject, decision: &Decision) -> Vec<[u8; 8]> {
    let outline = &subject.outline;
    // Up to a recorded answer everything was heard. Whatever else links leaves open what was, and an anchor what was changed.
    let from = match decision.method {
        Method::Prefix | Method::Partial => decision.shared,
        _ => decision.rewritten.map_or(0, |(first, _)| first),
    } as usize;
    let ends = outline.answer_ends().take_while(|at| *at >= from).take(WANTED_MAX);
    let mut unheard: Vec<[u8; 8]> = ends
        .flat_map(|at| outline.nodes_around(at))
        .map(|node| prefix(&node.0))
        .collect();
    let silence = outline.silence().filter(|at| *at >= from);
    unheard.extend(silence.map(|at| prefix(&outline.steps()[at].node.0)));
    let named_up_to = match decision.method {
        Method::Reference => decision.shared as usize,
        _ => 0,
    };
    let references = outline.references();
    let references = references.take_while(|(at, _)| *at >= named_up_to).take(WANTED_MAX);
    unheard.extend(references.map(|(_, key)| prefix(&key.hash)));
    if !unheard.is_empty() {
        let anchors = outline.anchors(from).take(WANTED_MAX);
        unheard.extend(anchors.map(|(_, key)| prefix(&key.hash)));
    }
    unheard
}

pub(super) fn prefix(hash: &[u8; 32]) -> [u8; 8] {
    let mut prefix = [0; 8];
    prefix.copy_from_slice(&hash[..8]);
    prefix
}

fn order_key(fact: &Fact) -> OrderKey {
    (fact.row.at, fact.row.depth, fact.row.id.clone(), fact.number())
}

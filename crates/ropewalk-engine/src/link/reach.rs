//! Whom a late fact reaches: exchanges that were linked before it came and that it may link otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind};
use ropewalk_store::{Micros, Store};

use crate::link::LinkError;
use crate::link::decision::{Linked, Method, Place};
use crate::link::evidence::Need;
use crate::link::fact::{Fact, SKEW, Sort, Subject};
use crate::link::maps::HashSet;
use crate::link::round::{Change, Round, prefix, unheard};
use crate::link::rules::session::keys_of_agent;
use crate::link::sharers::Shared;

/// What an exchange with the first key offers to exchanges with the second.
const OFFERS: [(KeyKind, KeyKind); 2] = [
    (KeyKind::SpawnPrompt, KeyKind::Opening),
    (KeyKind::Item, KeyKind::Reference),
];

/// What has to be known to see whom a fact reaches, whatever was decided about it.
pub(super) fn needs(fact: &Fact) -> Vec<Need> {
    let mut needs: Vec<Need> = offered(fact).map(|key| Shared::Key(key).need(Micros::MAX)).collect();
    needs.extend(wanted_by(fact).map(Need::Wanting));
    needs.extend(fact.ended().map(|_| Need::Spawns(fact.number())));
    needs
}

/// What has to be known beside it where others are later.
pub(super) fn needs_of_late(fact: &Fact, retry_window: i64) -> Need {
    Shared::Input(fact.row.input_node).need(repeated_until(fact, retry_window))
}

/// And where others may have heard it, as far as clocks can tell.
pub(super) fn needs_of_heard(fact: &Fact) -> Option<Need> {
    let answer = fact.row.output_node.map(Shared::Output);
    answer.map(|answer| answer.need(Micros::MAX))
}

/// The keys of those that wait for what this exchange offers.
fn offered(fact: &Fact) -> impl Iterator<Item = Key> + '_ {
    OFFERS
        .into_iter()
        .flat_map(|(offer, kind)| fact.keys(offer).map(move |key| Key { kind, hash: key.hash }))
}

/// Until when those that ask the same are other attempts.
fn repeated_until(fact: &Fact, retry_window: i64) -> Micros {
    Micros(fact.row.at.0.saturating_add(retry_window))
}

/// What it may be wanted by: its answer, its first words. Of an answer that was cut off only the question is sure.
fn wanted_by(fact: &Fact) -> impl Iterator<Item = [u8; 8]> + '_ {
    let is_begun = fact.ended().is_some() && fact.row.output_node.is_none();
    let question = is_begun.then(|| prefix(&fact.row.input_node.0));
    let output = fact.row.output_node.iter().map(|node| prefix(&node.0));
    let said = [KeyKind::Anchor, KeyKind::Summary, KeyKind::Opening, KeyKind::Item]
        .into_iter()
        .flat_map(|kind| fact.keys(kind));
    output.chain(question).chain(said.map(|key| prefix(&key.hash)))
}

impl<S: Store> Round<'_, S> {
    /// Queues whom a fact reaches.
    pub(super) async fn reach(
        &mut self,
        subject: &Subject,
        change: Change,
        before: Option<&Arc<Linked>>,
    ) -> Result<(), LinkError> {
        let fact = &subject.fact;
        self.fetch(needs(fact).into_iter().collect()).await?;
        let wanting = wanted_by(fact)
            .filter_map(|hash| self.known.wanting.get(&hash))
            .flatten();
        let mut waiting: BTreeSet<ExchangeNumber> = wanting.copied().collect();
        for key in offered(fact) {
            waiting.extend(self.sharing_around(Shared::Key(key), fact.row.at, Micros::MAX).await?);
        }
        let mut again = self.hearing(fact, waiting).await?;
        if Some(fact.row.at) <= self.newest {
            let until = repeated_until(fact, self.settings.retry_window);
            let repeats = Shared::Input(fact.row.input_node);
            let repeats = self.sharing_around(repeats, fact.row.at, until).await?;
            again.extend(self.later(fact, repeats).await?);
        }
        if self.may_be_heard(fact) {
            again.extend(self.torn_between(fact).await?);
        }
        again.extend(self.reached_by_calls(fact).await?);
        if change != Change::Ended {
            again.extend(self.reached_by_place(subject, change, before).await?);
        }
        again.remove(&fact.number());
        for number in again {
            self.decide_again(number).await?;
        }
        Ok(())
    }

    /// Those that hang on an equal answer of another exchange, and may be closer to this one.
    async fn torn_between(&mut self, fact: &Fact) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let Some(answer) = fact.row.output_node else {
            return Ok(BTreeSet::new());
        };
        let mut equal = self
            .sharing_around(Shared::Output(answer), fact.row.at, Micros::MAX)
            .await?;
        equal.remove(&fact.number());
        self.fetch(
            equal
                .iter()
                .flat_map(|number| [Need::Fact(*number), Need::Children(*number)])
                .collect(),
        )
        .await?;
        let children = equal
            .iter()
            .filter_map(|number| self.known.children.get(number))
            .flatten();
        let children: BTreeSet<_> = children.copied().collect();
        self.hearing(fact, children).await
    }

    /// Those that share its conversation, its session or its place as a child.
    async fn reached_by_place(
        &mut self,
        subject: &Subject,
        change: Change,
        before: Option<&Arc<Linked>>,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let fact = &subject.fact;
        let Some(Some(linked)) = self.known.links.get(&fact.number()).cloned() else {
            return Ok(BTreeSet::new());
        };
        // Who shares a history with it that neither heard as it was said.
        let shared: BTreeSet<[u8; 8]> = unheard(subject, &linked.decision).into_iter().collect();
        self.fetch(shared.iter().map(|hash| Need::Wanting(*hash)).collect())
            .await?;
        let sharing = shared.iter().filter_map(|hash| self.known.wanting.get(hash)).flatten();
        let sharing: BTreeSet<ExchangeNumber> = sharing.copied().collect();
        let mut reached = self.later(fact, sharing).await?;
        // Also where it has a parent now: as long as it had none, others of its session may have hung on to it. And where it came late:
        // who knows nothing but the session goes on from the last turn before, whatever that one goes on from. And where it is a fork:
        // a helper call may have come before it, and found nobody of its session.
        let is_late = Some(fact.row.at) <= self.newest;
        let parent = linked
            .decision
            .parent
            .and_then(|parent| self.known.facts.get(&parent)?.clone());
        let begins_session = parent.is_none_or(|parent| parent.session() != fact.session());
        let may_be_gone_on_from = begins_session || change == Change::Moved || is_late;
        if let Some(session) = fact.session().filter(|_| may_be_gone_on_from) {
            reached.extend(self.of_session(fact, session).await?);
        }
        reached.extend(self.reached_by_child(fact, before, &linked.decision).await?);
        let was_child = before.is_some_and(|before| before.decision.place == Place::Child);
        if was_child || linked.decision.place == Place::Child {
            for opening in fact.keys(KeyKind::Opening) {
                let same = Shared::Key(opening);
                let same = self.sharing_around(same, fact.row.at, Micros::MAX).await?;
                reached.extend(self.later(fact, same).await?);
            }
        }
        if change == Change::Moved {
            reached.extend(self.in_conversation(fact, &linked).await?);
        }
        Ok(reached)
    }

    /// Of a session that has another turn to go on from: its helper calls, and its later exchanges that only the session links.
    async fn of_session(&mut self, fact: &Fact, session: &str) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let mut numbers = BTreeSet::new();
        for key in keys_of_agent(session, fact.own_id()) {
            numbers.extend(self.sharing_around(Shared::Key(key), fact.row.at, Micros::MAX).await?);
        }
        self.fetch(
            numbers
                .iter()
                .flat_map(|number| [Need::Fact(*number), Need::Link(*number)])
                .collect(),
        )
        .await?;
        let mut reached = BTreeSet::new();
        for number in numbers {
            let Some((other, linked)) = self.linked_fact(number) else {
                continue;
            };
            let is_by_session = matches!(
                linked.decision.method,
                Method::New | Method::Session | Method::Opening | Method::CompactedSession | Method::Header
            );
            // Helper calls and orphans may come before what they belong to.
            let may_be_early = other.sort() == Sort::Auxiliary || linked.decision.orphan;
            if may_be_early || (fact.is_before(&other) && is_by_session) {
                reached.insert(number);
            }
        }
        Ok(reached)
    }

    /// Later members of its conversation that share no more with what they are linked to than they may with it.
    async fn in_conversation(&mut self, fact: &Fact, linked: &Linked) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let from = (Micros(fact.row.at.0 - 1), ExchangeNumber(i64::MAX));
        let members = self.source.links_in(linked.conversation, Some(from)).await?;
        let reached = members.into_iter().filter(|other| {
            let is_sibling = other.decision.shared <= fact.row.depth || other.decision.parent == linked.decision.parent;
            is_sibling || other.decision.place == Place::Child
        });
        let reached = reached.map(|other| other.exchange).collect();
        self.later(fact, reached).await
    }

    /// Those that are linked and come after `fact`.
    pub(super) async fn later(
        &mut self,
        fact: &Fact,
        numbers: BTreeSet<ExchangeNumber>,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        if Some(fact.row.at) > self.newest {
            return Ok(BTreeSet::new());
        }
        self.linked_that(numbers, |other| fact.is_before(other)).await
    }

    /// Those that are linked and may have heard the answer of `fact`, as far as clocks can tell.
    async fn hearing(
        &mut self,
        fact: &Fact,
        numbers: BTreeSet<ExchangeNumber>,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        if !self.may_be_heard(fact) {
            return Ok(BTreeSet::new());
        }
        self.linked_that(numbers, |other| other.horizon() >= fact.row.at).await
    }

    /// Whether anybody who is linked may have heard the answer of `fact`, also one whose clock says that it was earlier.
    pub(super) fn may_be_heard(&self, fact: &Fact) -> bool {
        Some(Micros(fact.row.at.0.saturating_sub(SKEW))) <= self.newest
    }

    async fn linked_that(
        &mut self,
        mut numbers: BTreeSet<ExchangeNumber>,
        is_wanted: impl Fn(&Fact) -> bool,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let needs = numbers
            .iter()
            .flat_map(|number| [Need::Fact(*number), Need::Link(*number)]);
        self.fetch(needs.collect()).await?;
        numbers.retain(|number| self.linked_fact(*number).is_some_and(|(other, _)| is_wanted(&other)));
        Ok(numbers)
    }

    fn linked_fact(&self, number: ExchangeNumber) -> Option<(Arc<Fact>, Arc<Linked>)> {
        let fact = self.known.facts.get(&number)?.clone()?;
        let linked = self.known.links.get(&number)?.clone()?;
        Some((fact, linked))
    }

    pub(super) async fn fetch(&mut self, needs: HashSet<Need>) -> Result<(), LinkError> {
        self.source.fetch(&needs, &mut self.known).await
    }
}

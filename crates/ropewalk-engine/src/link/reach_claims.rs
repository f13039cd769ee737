//! Whom claims reach: exchanges that began while somebody expected a child.
//!
//! An exchange that only a claim could link, or that none did, waits for calls around its time, and for a child of its own type
//! under each name that is asked for then. Both are found when a call, a child or its type comes late.

use std::collections::BTreeSet;
use std::sync::Arc;

use ropewalk_core::hash::sha256;
use ropewalk_store::facts::{ExchangeNumber, HashKind};
use ropewalk_store::{Micros, Store};

use crate::link::LinkError;
use crate::link::decide::Settings;
use crate::link::decision::{Decision, Linked, Method, Spawned};
use crate::link::evidence::{Evidence, Need};
use crate::link::fact::{Fact, Subject};
use crate::link::maps::HashSet;
use crate::link::round::{Round, prefix};
use crate::link::rules::claimed::{claims_for, last_child_named};
use crate::link::rules::spawned::ANSWER_MAX;

/// Exchanges that began within so many microseconds wait under one hash.
const SPAN: i64 = 10_000_000;

/// How often what is missing to find the last child of a name is fetched. Three times is enough.
const FETCHES_MAX: usize = 8;

/// What an exchange waits for that a claim may link: calls around its time, and types of the names that are asked for then.
pub(super) fn wanted(
    subject: &Subject,
    decision: &Decision,
    known: &Evidence,
    settings: &Settings,
) -> BTreeSet<[u8; 8]> {
    let fact = &subject.fact;
    let may_be_claimed = matches!(
        decision.method,
        Method::New
            | Method::Session
            | Method::ClaimNameAndType
            | Method::ClaimName
            | Method::ClaimType
            | Method::ClaimAny
    );
    if !settings.claims || !may_be_claimed || !fact.is_turn() || !subject.is_opening() {
        return BTreeSet::new();
    }
    let calls = known.spawns_between.get(&claims_for(fact.row.at, settings));
    let names = calls.into_iter().flatten().filter_map(|(_, call)| call.name.as_deref());
    let types = names.map(|name| type_hash(name, fact));
    types.chain([span_hash(fact.row.at.0.div_euclid(SPAN))]).collect()
}

/// Under which those wait that began in a span of time.
fn span_hash(span: i64) -> [u8; 8] {
    prefix(&sha256(format!("began:{span}").as_bytes()))
}

/// Under which those wait that are of that one's type, and begin while somebody of that name is expected.
fn type_hash(name: &str, fact: &Fact) -> [u8; 8] {
    let kind = fact.hash(HashKind::AgentType).map(hex::encode).unwrap_or_default();
    prefix(&sha256(format!("type:{kind}:{name}").as_bytes()))
}

/// The hashes of the spans behind a time in which somebody may begin whom a call of another time expects. The call's time may be
/// anything that an import says, so they are bounded on both sides.
fn spans(from: Micros, call: i64, settings: &Settings) -> impl Iterator<Item = [u8; 8]> + use<> {
    let first = from.0.max(call.saturating_sub(ANSWER_MAX));
    let last = call.saturating_add(settings.claim_window);
    (first.div_euclid(SPAN)..=last.div_euclid(SPAN)).map(span_hash)
}

impl<S: Store> Round<'_, S> {
    /// Those that began while one of this exchange's calls was open.
    pub(super) async fn reached_by_calls(&mut self, fact: &Fact) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        if fact.ended().is_none() || !self.is_watching_claims(fact) {
            return Ok(BTreeSet::new());
        }
        self.fetch(HashSet::from_iter([Need::Spawns(fact.number())])).await?;
        let calls = self.known.spawns.get(&fact.number()).into_iter().flatten();
        let waiting = calls.flat_map(|call| spans(fact.row.at, call.at.0, self.settings));
        let waiting = waiting.collect();
        self.waiting_behind(fact, waiting).await
    }

    /// Those that may take the place of a child that came or went, or be taken for its like.
    pub(super) async fn reached_by_child(
        &mut self,
        fact: &Fact,
        before: Option<&Arc<Linked>>,
        now: &Decision,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let before = before.and_then(|before| before.decision.spawned.as_ref());
        if before == now.spawned.as_ref() || !self.is_watching_claims(fact) {
            return Ok(BTreeSet::new());
        }
        let mut waiting = BTreeSet::new();
        for spawned in before.into_iter().chain(&now.spawned) {
            let Spawned { index, at, name } = spawned;
            if index.is_some() {
                // A call may have been made long before its child came; then nobody else can be taken for it any more.
                waiting.extend(spans(fact.row.at, *at, self.settings));
            }
            if let Some(name) = name {
                waiting.insert(type_hash(name, fact));
                let last = self.last_child_before(fact, name).await?;
                waiting.extend(last.map(|last| type_hash(name, &last)));
            }
        }
        self.waiting_behind(fact, waiting).await
    }

    /// Nobody begins after the newest.
    fn is_watching_claims(&self, fact: &Fact) -> bool {
        self.settings.claims && Some(fact.row.at) <= self.newest
    }

    async fn last_child_before(&mut self, fact: &Fact, name: &str) -> Result<Option<Arc<Fact>>, LinkError> {
        for _ in 0..FETCHES_MAX {
            let last = last_child_named(&self.known, name, fact.row.at, None, |child| child.is_before(fact));
            match last {
                Ok(last) => return Ok(last.cloned()),
                Err(missing) => self.fetch(missing.into_iter().collect()).await?,
            }
        }
        Ok(None)
    }

    async fn waiting_behind(
        &mut self,
        fact: &Fact,
        waiting: BTreeSet<[u8; 8]>,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        self.fetch(waiting.iter().map(|hash| Need::Wanting(*hash)).collect())
            .await?;
        let found = waiting.iter().filter_map(|hash| self.known.wanting.get(hash)).flatten();
        let found = found.copied().collect();
        self.later(fact, found).await
    }
}

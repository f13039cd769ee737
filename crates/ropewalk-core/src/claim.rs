//! Claims (seed 001): an agent that starts a child expects it, and the next fitting newcomer is taken for it.
//!
//! One registry holds the open claims of one owner. It has no clock: the caller says what time it is, so
//! that a rebuild decides as the live system did.
//!
//! Invariants: one claim links one child; a claim is valid from its parent's start while
//! `expires_at > now`; the answer depends on the set of claims, not on the order in which they came.

use jiff::{SignedDuration, Timestamp};

/// How long a claim is open unless the configuration says otherwise.
pub const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_secs(30);

/// An expected child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who expects it: any id that stays the same, since the conversation hash may still be unknown.
    pub parent: String,
    pub session: Option<String>,
    /// The call that starts the child. Its result closes the claim.
    pub tool_use_id: Option<String>,
    pub expected_name: String,
    /// The type last linked for that name, if there was one.
    pub expected_type: Option<String>,
    /// When the parent started: no child comes before.
    pub valid_from: Timestamp,
    pub spawned_at: Timestamp,
    /// Which of the answer's calls it is.
    pub index: u32,
}

/// A conversation that begins and may be somebody's child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newcomer<'a> {
    /// `None` if the client does not say.
    pub name: Option<&'a str>,
    pub type_hash: &'a str,
    pub session: Option<&'a str>,
}

/// Why a claim fits, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    NameAndType,
    Name,
    Type,
    /// The newcomer's name is unknown.
    Any,
}

impl Tier {
    /// A name that differs from a known one is only overruled by an equal type.
    pub fn of(same_name: bool, same_type: bool, name_is_known: bool) -> Option<Self> {
        match (same_name, same_type) {
            (true, true) => Some(Tier::NameAndType),
            (true, false) => Some(Tier::Name),
            (false, true) => Some(Tier::Type),
            (false, false) => (!name_is_known).then_some(Tier::Any),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    pub claim: Claim,
    pub tier: Tier,
    pub same_session: bool,
}

#[derive(Debug, Clone)]
pub struct ClaimRegistry {
    window: SignedDuration,
    claims: Vec<Claim>,
}

impl Default for ClaimRegistry {
    fn default() -> Self {
        Self::new(DEFAULT_WINDOW)
    }
}

impl ClaimRegistry {
    pub fn new(window: SignedDuration) -> Self {
        Self {
            window,
            claims: Vec::new(),
        }
    }

    pub fn create(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    pub fn expires_at(&self, claim: &Claim) -> Timestamp {
        claim.spawned_at.checked_add(self.window).unwrap_or(Timestamp::MAX)
    }

    /// Takes the claim that fits best: by tier, in a tier those of the newcomer's session first, then the oldest.
    pub fn take_match(&mut self, newcomer: &Newcomer<'_>, now: Timestamp) -> Option<Matched> {
        let fitting = self
            .claims
            .iter()
            .enumerate()
            .filter(|(_, claim)| self.is_valid(claim, now));
        let ranked = fitting.filter_map(|(at, claim)| Some((rank(claim, newcomer)?, at)));
        let (rank, at) = ranked.min()?;
        let (tier, other_session) = (rank.tier, rank.other_session);
        let claim = self.claims.swap_remove(at);
        Some(Matched {
            claim,
            tier,
            same_session: !other_session,
        })
    }

    /// The result of the call has come: nobody is expected any more.
    pub fn close(&mut self, tool_use_id: &str) -> Option<Claim> {
        let at = self
            .claims
            .iter()
            .position(|claim| claim.tool_use_id.as_deref() == Some(tool_use_id))?;
        Some(self.claims.swap_remove(at))
    }

    /// Claims that nobody answered, oldest first. They stay until [`Self::remove_expired`].
    pub fn expired(&self, now: Timestamp) -> Vec<&Claim> {
        let mut expired: Vec<&Claim> = self
            .claims
            .iter()
            .filter(|claim| self.expires_at(claim) <= now)
            .collect();
        expired.sort_by_key(|claim| age(claim));
        expired
    }

    /// Removes what [`Self::expired`] lists, for a warning each.
    pub fn remove_expired(&mut self, now: Timestamp) -> Vec<Claim> {
        let expired = self.expired(now).into_iter().cloned().collect();
        let window = self.window;
        self.claims
            .retain(|claim| claim.spawned_at.checked_add(window).unwrap_or(Timestamp::MAX) > now);
        expired
    }

    pub fn len(&self) -> usize {
        self.claims.len()
    }

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    fn is_valid(&self, claim: &Claim, now: Timestamp) -> bool {
        claim.valid_from <= now && self.expires_at(claim) > now
    }
}

/// Lower fits better. The last two members only make equal ages deterministic.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    tier: Tier,
    other_session: bool,
    age: Age<'a>,
}

type Age<'a> = (Timestamp, u32, &'a str, Option<&'a str>);

fn age(claim: &Claim) -> Age<'_> {
    (
        claim.spawned_at,
        claim.index,
        &claim.parent,
        claim.tool_use_id.as_deref(),
    )
}

fn rank<'a>(claim: &'a Claim, newcomer: &Newcomer<'_>) -> Option<Rank<'a>> {
    let other_session = claim.session.is_none() || claim.session.as_deref() != newcomer.session;
    let same_name = newcomer.name == Some(&*claim.expected_name);
    let same_type = claim.expected_type.as_deref() == Some(newcomer.type_hash);
    Some(Rank {
        tier: Tier::of(same_name, same_type, newcomer.name.is_some())?,
        other_session,
        age: age(claim),
    })
}

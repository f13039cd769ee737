//! What the linker keeps between batches, so that a turn's own past need not be read again.
//!
//! Facts do not change but for their ends, and an end comes through the log like a new fact. Conclusions are the store's. Both hold as
//! long as nobody else saved: whoever did has read a piece of the log that we shall not see, so [`Memory::trust`] forgets all but
//! the chains of requests, which are those of their bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ropewalk_store::Micros;
use ropewalk_store::derived::BranchRow;
use ropewalk_store::facts::ExchangeNumber;

use crate::link::decision::Linked;
use crate::link::fact::Fact;
use crate::link::outline::Outline;
use crate::link::places::Conversation;

/// Facts, and links, that are kept; a fact has one or two kilobytes. Beyond them all are forgotten at once.
const KEPT_MAX: usize = 8_192;

/// Bytes of requests whose chains are kept; others are read from their bodies.
const OUTLINE_BYTES_MAX: u64 = 32 << 20;

/// What a chain takes beside the texts of its request.
const OUTLINE_BYTES: u64 = 2 << 10;

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// [`LinkState::version`](ropewalk_store::derived::LinkState) that the conclusions are of.
    pub(super) version: u64,
    pub(super) facts: HashMap<ExchangeNumber, Option<Arc<Fact>>>,
    pub(super) links: HashMap<ExchangeNumber, Option<Arc<Linked>>>,
    pub(super) children: HashMap<ExchangeNumber, Vec<ExchangeNumber>>,
    pub(super) conversations: HashMap<ExchangeNumber, Option<Conversation>>,
    pub(super) branches: HashMap<ExchangeNumber, Vec<BranchRow>>,
    /// When the newest request was made that is linked, if it is known.
    pub(super) newest: Option<Micros>,
    pub(super) outlines: Outlines,
}

impl Memory {
    /// Forgets what is of another version.
    pub(super) fn trust(&mut self, version: u64) {
        if self.version != version {
            self.forget();
            self.version = version;
        }
    }

    /// Somebody else saved.
    pub(super) fn forget(&mut self) {
        self.facts.clear();
        self.links.clear();
        self.children.clear();
        self.conversations.clear();
        self.branches.clear();
        self.newest = None;
    }

    /// A fact as the log gives it, in place of an older reading.
    pub(super) fn learn(&mut self, fact: &Arc<Fact>) {
        self.facts.insert(fact.number(), Some(fact.clone()));
    }

    /// Without what was not there, because it may be there next time, and no more than is to be kept.
    pub(super) fn bounded(mut self) -> Self {
        self.facts.retain(|_, fact| fact.is_some());
        self.links.retain(|_, linked| linked.is_some());
        self.conversations.retain(|_, conversation| conversation.is_some());
        if self.facts.len() > KEPT_MAX {
            self.facts.clear();
        }
        if self.links.len().max(self.children.len()) > KEPT_MAX {
            self.links.clear();
            self.children.clear();
        }
        if self.conversations.len().max(self.branches.len()) > KEPT_MAX {
            self.conversations.clear();
            self.branches.clear();
        }
        self
    }
}

#[derive(Debug)]
struct KeptOutline {
    outline: Arc<Outline>,
    /// Of the request. A call that is told anew has another one under the same number.
    sha256: [u8; 32],
    bytes: u64,
}

/// Chains of requests, the last ones that were read.
#[derive(Debug, Default)]
pub(super) struct Outlines {
    kept: HashMap<ExchangeNumber, KeptOutline>,
    order: VecDeque<ExchangeNumber>,
    bytes: u64,
}

impl Outlines {
    pub(super) fn get(&self, fact: &Fact) -> Option<Arc<Outline>> {
        let kept = self.kept.get(&fact.number())?;
        (kept.sha256 == fact.row.request_sha256).then(|| kept.outline.clone())
    }

    /// Keeps the chain of a request of so many bytes, and drops the oldest ones for it.
    pub(super) fn keep(&mut self, exchange: ExchangeNumber, outline: Arc<Outline>, sha256: [u8; 32], bytes: u64) {
        let bytes = bytes + OUTLINE_BYTES;
        if bytes > OUTLINE_BYTES_MAX {
            return;
        }
        let kept = KeptOutline { outline, sha256, bytes };
        match self.kept.insert(exchange, kept) {
            Some(before) => self.bytes -= before.bytes,
            None => self.order.push_back(exchange),
        }
        self.bytes += bytes;
        while self.bytes > OUTLINE_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.kept.remove(&oldest).map_or(0, |kept| kept.bytes);
        }
    }
}

//! What the linker keeps between batches, so that a turn's own past need not be read again.
//!
//! Facts do not change but for their ends, and an end comes through the log like a new fact. Conclusions are the store's. Both hold as
//! long as nobody else saved: whoever did has read a piece of the log that we shall not see, so [`Memory::trust`] forgets all but
//! the chains of requests, which are those of their bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use ropewalk_store::Micros;
use ropewalk_store::derived::BranchRow;
use ropewalk_store::facts::ExchangeNumber;

use crate::link::decision::Linked;
use crate::link::evidence::BodiesRead;
use crate::link::fact::Fact;
use crate::link::maps::{HashMap, HashSet};
use crate::link::outline::Outline;
use crate::link::places::Conversation;

/// Facts, and links, that are kept; a fact has one or two kilobytes. Beyond them the older half is forgotten: candidates are
/// the newest there are.
const KEPT_MAX: usize = 8_192;

/// Bytes of requests whose chains are kept: of those that were just recorded, and of those that were read from their bodies. Apart, because
/// one long request that is read again would push out hundreds that wait to be linked.
pub const RECORDED_BYTES_MAX: u64 = 24 << 20;
const READ_BYTES_MAX: u64 = 8 << 20;

/// Bytes of answers that were read to compare them. What many ask alike is compared again and again.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// What a chain takes beside the texts of its request.
const OUTLINE_BYTES: u64 = 2 << 10;

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// [`LinkState::version`](ropewalk_store::derived::LinkState) that the conclusions are of.
    pub(super) version: u64,
    pub(super) facts: HashMap<ExchangeNumber, Option<Arc<Fact>>>,
    pub(super) links: HashMap<ExchangeNumber, Option<Arc<Linked>>>,
    pub(super) children: HashMap<ExchangeNumber, Vec<ExchangeNumber>>,
    pub(super) bodies: BodiesRead,
    pub(super) conversations: HashMap<ExchangeNumber, Option<Conversation>>,
    pub(super) branches: HashMap<ExchangeNumber, Vec<BranchRow>>,
    /// When the newest request was made that is linked, if it is known.
    pub(super) newest: Option<Micros>,
    pub(super) outlines: Outlines,
    /// Recorded here as something new: nobody has linked them.
    pub(super) unlinked: HashSet<ExchangeNumber>,
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
        self.bodies = BodiesRead::default();
        self.conversations.clear();
        self.branches.clear();
        self.newest = None;
        self.unlinked.clear();
    }

    /// A fact as the log gives it, in place of an older reading.
    pub(super) fn learn(&mut self, fact: &Arc<Fact>) {
        self.facts.insert(fact.number(), Some(fact.clone()));
        self.bodies.forget(fact.number());
    }

    /// No more than is to be kept.
    pub(super) fn bounded(mut self) -> Self {
        if self.unlinked.len() > KEPT_MAX {
            self.unlinked.clear();
        }
        forget_older(&mut self.facts);
        forget_older(&mut self.children);
        if forget_older(&mut self.links) {
            // Whose children are known, of those the links are.
            let links = &self.links;
            let are_known = |children: &[ExchangeNumber]| children.iter().all(|child| links.contains_key(child));
            self.children.retain(|_, children| are_known(children));
        }
        let (read, answer_bytes) = self.bodies.size();
        if read > KEPT_MAX || answer_bytes > ANSWER_BYTES_MAX {
            self.bodies = BodiesRead::default();
        }
        if self.conversations.len().max(self.branches.len()) > KEPT_MAX {
            self.conversations.clear();
            self.branches.clear();
        }
        self
    }
}

/// Where there is more than is to be kept, leaves half of that: those that were recorded last. Says whether there was.
fn forget_older<T>(kept: &mut HashMap<ExchangeNumber, T>) -> bool {
    let is_too_much = kept.len() > KEPT_MAX;
    if is_too_much {
        let mut numbers: Vec<ExchangeNumber> = kept.keys().copied().collect();
        let (_, first, _) = numbers.select_nth_unstable_by(KEPT_MAX / 2, |a, b| b.cmp(a));
        let first = *first;
        kept.retain(|number, _| *number > first);
    }
    is_too_much
}

#[derive(Debug)]
struct KeptOutline {
    outline: Arc<Outline>,
    /// Of the request. A call that is told anew has another one under the same number.
    sha256: [u8; 32],
    bytes: u64,
}

/// Chains of requests, the last ones that came.
#[derive(Debug, Default)]
pub(super) struct Outlines {
    recorded: Last,
    read: Last,
}

impl Outlines {
    pub(super) fn get(&self, fact: &Fact) -> Option<Arc<Outline>> {
        self.recorded.get(fact).or_else(|| self.read.get(fact))
    }

    /// Keeps the chain of a request that was just recorded.
    pub(super) fn keep_recorded(
        &mut self,
        exchange: ExchangeNumber,
        outline: Arc<Outline>,
        sha256: [u8; 32],
        bytes: u64,
    ) {
        let kept = KeptOutline { outline, sha256, bytes };
        self.recorded.keep(exchange, kept, RECORDED_BYTES_MAX);
    }

    /// Keeps the chain of a request that had to be read.
    pub(super) fn keep_read(&mut self, fact: &Fact, outline: Arc<Outline>) {
        let kept = KeptOutline {
            outline,
            sha256: fact.row.request_sha256,
            bytes: fact.row.request_length,
        };
        self.read.keep(fact.number(), kept, READ_BYTES_MAX);
    }
}

#[derive(Debug, Default)]
struct Last {
    kept: HashMap<ExchangeNumber, KeptOutline>,
    order: VecDeque<ExchangeNumber>,
    bytes: u64,
}

impl Last {
    fn get(&self, fact: &Fact) -> Option<Arc<Outline>> {
        let kept = self.kept.get(&fact.number())?;
        (kept.sha256 == fact.row.request_sha256).then(|| kept.outline.clone())
    }

    /// Drops the oldest ones for it.
    fn keep(&mut self, exchange: ExchangeNumber, mut new: KeptOutline, bytes_max: u64) {
        new.bytes += OUTLINE_BYTES;
        if new.bytes > bytes_max {
            return;
        }
        self.bytes += new.bytes;
        match self.kept.insert(exchange, new) {
            Some(before) => self.bytes -= before.bytes,
            None => self.order.push_back(exchange),
        }
        while self.bytes > bytes_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.kept.remove(&oldest).map_or(0, |kept| kept.bytes);
        }
    }
}

//! From the exchanges that said a text first to those that sent it again.

use std::collections::{HashMap, VecDeque};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::Store;
use ropewalk_store::facts::{ExchangeNumber, Micros};
use ropewalk_store::store::ExchangeRow;

use super::held::{Half, Held};
use super::{FirstSaid, Wanted};
use crate::link::decision::{Linked, Method};
use crate::view::{Result, View, utc};

/// Requests that are read because no link says whether they hold the text. Behind that they are listed as not certain: a list that is
/// too long is better than one that comes too late.
const READ_MAX: usize = 64;

/// Clocks of recorders may differ by this much, in microseconds: a request may seem older than what it repeats.
const CLOCKS_APART: i64 = 5_000_000;

#[derive(Debug)]
pub(super) struct Following<'w> {
    wanted: &'w Wanted,
    reads_left: usize,
    /// The first exchange with the text of each conversation.
    begun: HashMap<ExchangeNumber, Micros>,
    pub(super) held: HashMap<ExchangeNumber, Held>,
    /// The conversation of each exchange that was linked.
    pub(super) conversations: HashMap<ExchangeNumber, ExchangeNumber>,
    pub(super) first_said: Vec<FirstSaid>,
    pub(super) nodes: Vec<NodeHash>,
    pub(super) parts: Vec<PartHash>,
}

/// Whether an exchange repeats what the one that it is linked to holds.
enum Repeats {
    /// These blocks of it.
    Blocks(Vec<usize>),
    /// Its provider has it from that call.
    ByReference,
    No,
    /// Only its bytes can tell.
    Perhaps,
}

impl<'w> Following<'w> {
    pub(super) fn new(wanted: &'w Wanted) -> Self {
        Following {
            wanted,
            reads_left: READ_MAX,
            begun: HashMap::new(),
            held: HashMap::new(),
            conversations: HashMap::new(),
            first_said: Vec::new(),
            nodes: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Confirms that an exchange, which has the words, has the text.
    pub(super) async fn begin<S: Store>(&mut self, view: &View<'_, S>, row: &ExchangeRow) -> Result<()> {
        if !self.read(view, row).await? {
            return Ok(());
        }
        if let Some(link) = view.find_link(row.number).await? {
            self.conversations.insert(row.number, link.conversation);
            let first = self.begun.entry(link.conversation).or_insert(row.at);
            *first = row.at.min(*first);
        }
        Ok(())
    }

    /// Whether an exchange has the text by its bytes.
    async fn read<S: Store>(&mut self, view: &View<'_, S>, row: &ExchangeRow) -> Result<bool> {
        let read = view.read_for(row, self.wanted).await?;
        let Some(held) = read.held() else {
            return Ok(false);
        };
        for found in &read.found {
            let node = found.place.map(|(_, node)| node);
            if node.is_some_and(|node| self.nodes.contains(&node)) {
                continue;
            }
            self.nodes.extend(node);
            self.first_said.push(FirstSaid {
                exchange_id: row.id.clone(),
                at: utc(row.at),
                said_by: found.said_by,
                node,
            });
        }
        self.parts.extend(read.parts);
        self.held.insert(row.number, held);
        Ok(true)
    }

    /// Goes along the links of every conversation that has the text.
    pub(super) async fn follow<S: Store>(&mut self, view: &View<'_, S>) -> Result<()> {
        let mut begun: Vec<(ExchangeNumber, Micros)> = self.begun.drain().collect();
        begun.sort_unstable();
        for (root, first_at) in begun {
            let since = Micros(first_at.0.saturating_sub(CLOCKS_APART));
            let links = view.all_links_in(root, Some((since, ExchangeNumber(0)))).await?;
            self.follow_in(view, &links).await?;
        }
        Ok(())
    }

    async fn follow_in<S: Store>(&mut self, view: &View<'_, S>, links: &[Linked]) -> Result<()> {
        let mut next: HashMap<ExchangeNumber, Vec<&Linked>> = HashMap::new();
        for link in links {
            if let Some(anchor) = link.decision.anchor() {
                next.entry(anchor).or_default().push(link);
            }
        }
        let holding = links
            .iter()
            .map(|link| link.exchange)
            .filter(|exchange| self.held.contains_key(exchange));
        let mut waiting: VecDeque<ExchangeNumber> = holding.collect();
        while let Some(exchange) = waiting.pop_front() {
            for link in next.remove(&exchange).unwrap_or_default() {
                if self.held.contains_key(&link.exchange) || self.take(view, exchange, link).await? {
                    self.conversations.insert(link.exchange, link.conversation);
                    waiting.push_back(link.exchange);
                }
            }
        }
        Ok(())
    }

    /// Whether an exchange that is linked to one with the text has it, too.
    async fn take<S: Store>(&mut self, view: &View<'_, S>, from: ExchangeNumber, link: &Linked) -> Result<bool> {
        let before = &self.held[&from];
        let (blocks, half, is_certain) = match repeats(before, link) {
            Repeats::No => return Ok(false),
            Repeats::Blocks(blocks) => (blocks, Half::Request, before.is_certain),
            Repeats::ByReference => (Vec::new(), Half::Context, before.is_certain),
            Repeats::Perhaps if self.reads_left > 0 => {
                self.reads_left -= 1;
                return match view.find_row(link.exchange).await? {
                    Some(row) => self.read(view, &row).await,
                    None => Ok(false),
                };
            }
            Repeats::Perhaps => (before.blocks.clone(), Half::Request, false),
        };
        let held = Held {
            blocks,
            half,
            is_certain,
        };
        self.held.insert(link.exchange, held);
        Ok(true)
    }
}

fn repeats(before: &Held, link: &Linked) -> Repeats {
    let decision = &link.decision;
    let shared = decision.shared as usize;
    match decision.method {
        Method::Reference => Repeats::ByReference,
        // It has the same chain, as far as it is shared; what it says beyond that is in the index itself.
        Method::Prefix | Method::Opening | Method::History | Method::Retry => {
            if before.half == Half::Context && before.blocks.is_empty() {
                return Repeats::ByReference;
            }
            let blocks: Vec<usize> = before.blocks.iter().copied().filter(|block| *block < shared).collect();
            match blocks.is_empty() {
                true => Repeats::No,
                false => Repeats::Blocks(blocks),
            }
        }
        // All that it says is new, so the index has it.
        Method::New
        | Method::SpawnPrompt
        | Method::ClaimNameAndType
        | Method::ClaimName
        | Method::ClaimType
        | Method::ClaimAny => Repeats::No,
        // Cut off, rewritten, compacted, or a call beside it.
        Method::Header
        | Method::Partial
        | Method::Anchor
        | Method::Summary
        | Method::CompactedSession
        | Method::Session
        | Method::Quote => Repeats::Perhaps,
    }
}

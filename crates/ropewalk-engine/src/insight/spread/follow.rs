//! From the exchanges that said a text first to those that sent it again.

use std::collections::{HashMap, HashSet, VecDeque};

use ropewalk_core::hash::PartHash;
use ropewalk_store::Store;
use ropewalk_store::facts::{ExchangeNumber, Micros};
use ropewalk_store::store::ExchangeRow;

use super::held::{Half, Held, Read, Reader};
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
    reader: Reader<'w>,
    reads_left: usize,
    /// The first exchange with the text of each conversation.
    begun: HashMap<ExchangeNumber, Micros>,
    pub(super) held: HashMap<ExchangeNumber, Held>,
    /// Of those that were read and have it.
    pub(super) rows: Vec<ExchangeRow>,
    /// The conversation of each exchange that was linked.
    pub(super) conversations: HashMap<ExchangeNumber, ExchangeNumber>,
    /// Who was read to say it, and when.
    said: Vec<((Micros, ExchangeNumber), FirstSaid)>,
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
            reader: Reader::new(wanted),
            reads_left: READ_MAX,
            begun: HashMap::new(),
            held: HashMap::new(),
            rows: Vec::new(),
            conversations: HashMap::new(),
            said: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Confirms which of the exchanges that have the words have the text.
    pub(super) async fn begin<S: Store>(&mut self, view: &View<'_, S>, mut rows: Vec<ExchangeRow>) -> Result<()> {
        let links = view.links(rows.iter().map(|row| row.number).collect()).await?;
        let roots: HashMap<ExchangeNumber, ExchangeNumber> =
            links.iter().map(|link| (link.exchange, link.conversation)).collect();
        // A turn repeats the one before it, and is then read with it.
        rows.sort_by_key(|row| (roots.get(&row.number).copied(), row.at, row.number));
        let read = self.reader.read(view, &rows).await?;
        for (row, read) in rows.into_iter().zip(read) {
            let root = roots.get(&row.number).filter(|_| read.held().is_some());
            if let Some(root) = root {
                self.conversations.insert(row.number, *root);
                let first = self.begun.entry(*root).or_insert(row.at);
                *first = row.at.min(*first);
            }
            self.add(row, read);
        }
        Ok(())
    }

    /// Takes what was read of an exchange; whether it has the text.
    fn add(&mut self, row: ExchangeRow, read: Read) -> bool {
        let Some(held) = read.held() else {
            return false;
        };
        let said = read.found.iter().map(|found| FirstSaid {
            exchange_id: row.id.clone(),
            at: utc(row.at),
            said_by: found.said_by,
            node: found.place.map(|(_, node)| node),
        });
        self.said.extend(said.map(|said| ((row.at, row.number), said)));
        self.parts.extend(read.parts);
        self.held.insert(row.number, held);
        self.rows.push(row);
        true
    }

    /// The exchanges that said it, oldest first, each node once.
    pub(super) fn first_said(&mut self) -> Vec<FirstSaid> {
        let mut said = std::mem::take(&mut self.said);
        said.sort_by_key(|(at, _)| *at);
        let mut nodes = HashSet::new();
        said.retain(|(_, said)| said.node.is_none_or(|node| nodes.insert(node)));
        said.into_iter().map(|(_, said)| said).collect()
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
                let rows = view.rows(vec![link.exchange]).await?;
                let read = self.reader.read(view, &rows).await?;
                return Ok(rows.into_iter().zip(read).any(|(row, read)| self.add(row, read)));
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

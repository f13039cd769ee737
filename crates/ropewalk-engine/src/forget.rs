//! What forgetting something comes to: which exchanges go whole, which lose something, and what else names them.
//!
//! A conversation goes whole. A message, or what one exchange brought, goes from the requests that repeat it as well: they are in the
//! same conversation, and are rewritten. What other conversations say stays theirs.
//!
//! Invariants: planning changes nothing; what is planned is of one owner; a session's log records go only when all of its
//! exchanges do.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use ropewalk_core::hash::NodeHash;
use ropewalk_store::derived::{ConversationRow, Conversations};
use ropewalk_store::facts::{ExchangeNumber, KeyKind};
use ropewalk_store::forget::{Forgetting, Holed, HoledRequest, Tombstones};
use ropewalk_store::names::{MessageNames, Names};
use ropewalk_store::store::{Asked, ExchangeRow, Half, PAGE_MAX, Questions};
use ropewalk_store::{Micros, Store, StoreError};
use ropewalk_wire::blank::blanked;
use ropewalk_wire::read_request;
use serde::{Deserialize, Serialize};

use crate::detail::Kept;
use crate::link::settle::ConversationRecord;
use crate::names::beginning;
use crate::recipe;
use crate::view::message::Placed;
use crate::view::named::Quotation;
use crate::view::{Result, Target, View, uuid_text};

/// Longest chain that is looked at.
const CHAIN_MAX: usize = 1 << 20;

/// What is to go.
#[derive(Debug, Default)]
pub struct Plan {
    pub forgetting: Forgetting,
    pub counts: Counts,
}

/// What it comes to, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Conversations that go whole.
    pub conversations: u64,
    /// Exchanges that go whole.
    pub exchanges: u64,
    /// Exchanges that lose what they brought, or one of their messages.
    pub holes: u64,
    /// Others whose requests repeat it and are rewritten.
    pub rewritten: u64,
    /// Bytes of bodies that go.
    pub bytes: u64,
}

/// What happens to conversations that are old enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// What was said goes; hashes, links, usage and cost stay.
    Bodies,
    All,
}

impl<S: Store> View<'_, S> {
    /// What forgetting these things comes to. `at` is when it was asked for.
    pub async fn plan_forgetting(&self, references: &[String], at: Micros) -> Result<Plan> {
        let mut roots = BTreeSet::new();
        let mut in_part: BTreeMap<ExchangeNumber, Vec<Target>> = BTreeMap::new();
        for reference in references {
            match self.resolve(reference).await? {
                Target::Conversation(row) => {
                    roots.insert(row.root);
                }
                target @ Target::Message(_) | target @ Target::Exchange(_) => {
                    let root = self.resolve_root(reference).await?;
                    in_part.entry(root).or_default().push(target);
                }
            }
        }
        let mut plan = Plan::default();
        let mut names = Vec::new();
        for root in &roots {
            names.extend(self.plan_removal(*root, &mut plan).await?);
        }
        for (root, targets) in in_part {
            if !roots.contains(&root) {
                self.plan_holes(root, &targets, &mut plan).await?;
            }
        }
        self.plan_sessions(&mut plan).await?;
        plan.forgetting.tombstones = Some(Tombstones { at, names });
        Ok(plan)
    }

    /// What dropping whole conversations comes to. They may come back.
    pub async fn plan_retention(&self, roots: &[ExchangeNumber], drop: Drop) -> Result<Plan> {
        let mut plan = Plan::default();
        for root in roots {
            match drop {
                Drop::All => {
                    self.plan_removal(*root, &mut plan).await?;
                }
                Drop::Bodies => self.plan_bodies(*root, &mut plan).await?,
            }
        }
        if drop == Drop::All {
            self.plan_sessions(&mut plan).await?;
        }
        Ok(plan)
    }

    /// Everything of a conversation; gives what people may ask for it by.
    async fn plan_removal(&self, root: ExchangeNumber, plan: &mut Plan) -> Result<Vec<String>> {
        let rows = self.all_rows_of(root).await?;
        plan.counts.conversations += 1;
        plan.counts.exchanges += rows.len() as u64;
        plan.counts.bytes += rows.iter().map(bytes_of).sum::<u64>();
        plan.forgetting.removed.extend(rows.iter().map(|row| row.number));
        let mut names = self.friendly_ids(root).await?;
        plan.forgetting.quoted.extend(names.iter().cloned());
        let found = self
            .store
            .conversations(self.owner, Conversations::Of(vec![root]))
            .await?;
        names.extend(found.iter().map(|row| uuid_text(&row.id)));
        Ok(names)
    }

    async fn friendly_ids(&self, root: ExchangeNumber) -> Result<Vec<String>> {
        let names = self.store.names(self.owner, Names::OfConversations(vec![root])).await?;
        Ok(names.into_iter().map(|name| name.friendly_id).collect())
    }

    /// The bodies of a conversation that have not gone already.
    async fn plan_bodies(&self, root: ExchangeNumber, plan: &mut Plan) -> Result<()> {
        let mut count = 0;
        for row in self.all_rows_of(root).await? {
            let (request, response) = row.lengths_left();
            if request.is_none() && response.is_none() {
                continue;
            }
            count += 1;
            plan.counts.bytes += request.unwrap_or_default() + response.unwrap_or_default();
            plan.forgetting.holed.push(Holed {
                exchange: row.number,
                request: HoledRequest::Dropped,
                drops_response: true,
                drops_hashes: false,
            });
        }
        plan.counts.holes += count;
        plan.counts.conversations += u64::from(count > 0);
        Ok(())
    }

    /// Sessions all of whose exchanges go: what logs told of them goes too.
    async fn plan_sessions(&self, plan: &mut Plan) -> Result<()> {
        let removed: HashSet<ExchangeNumber> = plan.forgetting.removed.iter().copied().collect();
        let mut sessions = BTreeMap::new();
        for row in self.rows(plan.forgetting.removed.clone()).await? {
            let key = row.keys.iter().find(|key| key.kind == KeyKind::Session);
            if let (Some(session), Some(key)) = (row.session, key) {
                sessions.insert(session, *key);
            }
        }
        for (session, key) in sessions {
            let questions = Questions {
                keys: vec![Asked::of(key)],
                limit: PAGE_MAX,
                ..Questions::default()
            };
            let answers = self.store.look_up(self.owner, questions, Micros::MAX).await?;
            let mut of_session = answers.exchanges.iter().flatten();
            if of_session.all(|number| removed.contains(number)) {
                plan.forgetting.sessions.push(session);
            }
        }
        Ok(())
    }

    /// What some exchanges and messages of a conversation said, wherever the conversation repeats it.
    async fn plan_holes(&self, root: ExchangeNumber, targets: &[Target], plan: &mut Plan) -> Result<()> {
        let mut gone: HashSet<NodeHash> = HashSet::new();
        let mut brought_by: BTreeSet<ExchangeNumber> = BTreeSet::new();
        for target in targets {
            let (nodes, exchange) = match target {
                Target::Exchange(row) => (self.nodes_brought(row).await?, row.number),
                Target::Message(message) => (self.nodes_of(message).await?, message.row.number),
                Target::Conversation(_) => continue,
            };
            gone.extend(nodes);
            brought_by.insert(exchange);
        }
        let mut says_it = false;
        for row in self.all_rows_of(root).await? {
            let is_own = brought_by.contains(&row.number);
            let Some((holed, bytes)) = self.holed(&row, &gone, is_own).await? else {
                continue;
            };
            match is_own || holed.drops_response {
                true => plan.counts.holes += 1,
                false => plan.counts.rewritten += 1,
            }
            plan.counts.bytes += bytes;
            says_it = true;
            plan.forgetting.holed.push(holed);
        }
        if says_it {
            self.plan_names(root, &gone, plan).await?;
        }
        Ok(())
    }

    /// The nodes that an exchange was the first of its conversation to have: its new messages and its answer.
    async fn nodes_brought(&self, row: &ExchangeRow) -> Result<Vec<NodeHash>> {
        let shared = self
            .find_link(row.number)
            .await?
            .map_or(0, |link| link.decision.shared as usize);
        let placed = self.decode(row).await?;
        let own = placed
            .iter()
            .filter(|placed| placed.is_answer || placed.first_step >= shared);
        Ok(own.flat_map(|placed| placed.nodes.clone()).collect())
    }

    async fn nodes_of(&self, message: &Quotation) -> Result<Vec<NodeHash>> {
        let role = message.role();
        let placed = self.decode(&message.row).await?;
        let is_it = |placed: &&Placed| crate::view::message::text_and_role(placed) == (message.text.clone(), role);
        // The last that says so: an exchange brings what stands at its end.
        let found = placed.iter().rev().find(is_it);
        Ok(found.map(|placed| placed.nodes.clone()).unwrap_or_default())
    }

    /// What an exchange loses, and how many bytes; `None` if it says nothing of it.
    async fn holed(&self, row: &ExchangeRow, gone: &HashSet<NodeHash>, is_own: bool) -> Result<Option<(Holed, u64)>> {
        let chain = match self.store.chain(self.owner, row.number, CHAIN_MAX).await {
            Err(StoreError::NoExchange) => return Ok(None),
            chain => chain?,
        };
        let in_request = chain.iter().any(|node| gone.contains(node));
        let mut drops_response = row.output_node.is_some_and(|node| gone.contains(&node));
        if !drops_response && is_own {
            // One that was cut off has no node that it ends at.
            let placed = self.decode(row).await?;
            drops_response = placed
                .iter()
                .any(|placed| placed.is_answer && placed.nodes.iter().any(|node| gone.contains(node)));
        }
        if !in_request && !drops_response {
            return Ok(None);
        }
        let mut bytes = match drops_response {
            true => row.response_length.unwrap_or_default(),
            false => 0,
        };
        let request = match in_request {
            true => self.without(row, &chain, gone, is_own, &mut bytes).await?,
            false => HoledRequest::Kept,
        };
        let holed = Holed {
            exchange: row.number,
            request,
            drops_response,
            drops_hashes: is_own,
        };
        Ok(Some((holed, bytes)))
    }

    /// A request with the messages blank that end at one of these nodes.
    async fn without(
        &self,
        row: &ExchangeRow,
        chain: &[NodeHash],
        gone: &HashSet<NodeHash>,
        is_own: bool,
        bytes: &mut u64,
    ) -> Result<HoledRequest> {
        let body = self.store.body(self.owner, row.number, Half::Request).await?;
        let (Some(body), Some(provider)) = (body.map(Bytes::from), Kept::of(row).provider(row)) else {
            return Ok(HoledRequest::Dropped);
        };
        let Ok(read) = read_request(provider, &body, None) else {
            return Ok(HoledRequest::Dropped);
        };
        let mut places = Vec::new();
        let mut first = 0;
        for (place, count) in read.places() {
            let end = (first + count).min(chain.len());
            if chain[first.min(end)..end].iter().any(|node| gone.contains(node)) {
                *bytes += place.len() as u64;
                places.push(place);
            }
            first += count;
        }
        places.sort_by_key(|place| place.start);
        // What cannot be written again goes whole.
        let left = blanked(&body, &places).ok().map(Bytes::from);
        let split = left.and_then(|left| Some((read_request(provider, &left, None).ok()?, left)));
        Ok(match split {
            Some((read, left)) => HoledRequest::Replaced {
                body: recipe::body(read.split, &left),
                drops_texts: is_own,
            },
            None => HoledRequest::Dropped,
        })
    }

    /// Names of the messages, pins that may quote them, and the title that one of them may have given its conversation.
    async fn plan_names(&self, root: ExchangeNumber, gone: &HashSet<NodeHash>, plan: &mut Plan) -> Result<()> {
        let nodes: HashSet<[u8; 8]> = gone.iter().map(beginning).collect();
        let names = self.store.names(self.owner, Names::OfConversations(vec![root])).await?;
        for name in names {
            let mut after = None;
            loop {
                let which = MessageNames::Of {
                    name: name.exchange,
                    after: after.take(),
                    limit: PAGE_MAX,
                };
                let messages = self.store.message_names(self.owner, which).await?;
                let Some(last) = messages.last() else { break };
                after = Some(last.short_hash.clone());
                let own = messages.into_iter().filter(|message| nodes.contains(&message.node));
                let own = own.map(|message| (message.name, message.short_hash));
                plan.forgetting.message_names.extend(own);
            }
            plan.forgetting.quoted.push(name.friendly_id);
        }
        let found = self
            .store
            .conversations(self.owner, Conversations::Of(vec![root]))
            .await?;
        let untitled = found.into_iter().filter_map(|row| {
            let record: ConversationRecord = serde_json::from_slice(&row.record).ok()?;
            let record = ConversationRecord { title: None, ..record };
            let record = serde_json::to_vec(&record).ok()?;
            Some(ConversationRow { record, ..row })
        });
        plan.forgetting.conversations.extend(untitled);
        Ok(())
    }

    /// Every exchange of a conversation, in the order of their requests.
    async fn all_rows_of(&self, root: ExchangeNumber) -> Result<Vec<ExchangeRow>> {
        let links = self.all_links_in(root, None).await?;
        let mut rows = self.rows(links.iter().map(|link| link.exchange).collect()).await?;
        rows.sort_by_key(|row| (row.at, row.number));
        Ok(rows)
    }
}

fn bytes_of(row: &ExchangeRow) -> u64 {
    row.request_length + row.response_length.unwrap_or_default()
}

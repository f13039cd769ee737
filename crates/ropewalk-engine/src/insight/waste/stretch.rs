//! The requests of a conversation as stretches, each of which repeats the one before: what its blocks are, and how often each was sent.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use ropewalk_core::chain;
use ropewalk_core::cost::{PriceTable, Served};
use ropewalk_core::hash::NodeHash;
use ropewalk_core::hierarchy::{ToolOutput, tool_argument};
use ropewalk_core::model::{self, ToolInput, Usage};
use ropewalk_store::Store;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;

use super::super::files::{Files, add_files};
use crate::detail::Kept;
use crate::link::decision::{Linked, Method};
use crate::view::message::{answer_message, starts_over};
use crate::view::{Result, View};

/// Exchanges of one conversation that are looked at, the first.
const EXCHANGES_MAX: usize = 10_000;

/// Bytes of a request that are one token where the provider did not count.
const BYTES_OF_TOKEN: f64 = 4.0;

/// How often something was sent, and what it took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) times: u64,
    pub(super) tokens: f64,
    pub(super) nano_usd: f64,
}

impl Sent {
    pub(super) fn add(&mut self, other: Sent) {
        self.times += other.times;
        self.tokens += other.tokens;
        self.nano_usd += other.nano_usd;
    }
}

#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) agent: ExchangeNumber,
    pub(super) exchanges: u64,
    /// Of its requests as a whole.
    pub(super) sent: Sent,
    pub(super) cost_nano_usd: u64,
    pub(super) blocks: Vec<Block>,
    pub(super) is_cut: bool,
}

#[derive(Debug)]
pub(super) struct Block {
    /// Its place: branches repeat what lies before them.
    pub(super) node: NodeHash,
    pub(super) kind: &'static str,
    pub(super) text: String,
    pub(super) tool: Option<String>,
    pub(super) argument: Option<String>,
    /// The provider's id of the call.
    pub(super) call: Option<String>,
    /// The file that the call names, if it is one.
    pub(super) file: Option<String>,
    pub(super) sent: Sent,
}

impl<S: Store> View<'_, S> {
    /// Every exchange that asked a model is in one of them.
    pub(super) async fn stretches_of(
        &self,
        root: ExchangeNumber,
        prices: &(dyn PriceTable + Sync),
    ) -> Result<Vec<Stretch>> {
        let (links, is_cut) = self.first_links(root).await?;
        let rows = self.rows(links.iter().map(|link| link.exchange).collect()).await?;
        let rows: HashMap<ExchangeNumber, ExchangeRow> = rows.into_iter().map(|row| (row.number, row)).collect();
        let mut stretches = Vec::new();
        for members in cut(&links) {
            let members: Vec<&ExchangeRow> = members.iter().filter_map(|link| rows.get(&link.exchange)).collect();
            let Some(last) = members.iter().max_by_key(|row| (row.depth, row.number)) else {
                continue;
            };
            let agent = links.iter().find(|link| link.exchange == last.number);
            let agent = agent.map_or(root, |link| link.agent);
            let mut blocks = self.blocks_of(last).await?;
            let spent = Spent::new(&members, prices);
            for (depth, block) in &mut blocks {
                block.sent = spent.on(*depth, block.text.len());
            }
            stretches.push(Stretch {
                agent,
                exchanges: members.len() as u64,
                sent: spent.total(),
                cost_nano_usd: members.iter().filter_map(|row| row.cost_nano_usd).sum(),
                blocks: blocks.into_iter().map(|(_, block)| block).collect(),
                is_cut,
            });
        }
        Ok(stretches)
    }

    async fn first_links(&self, root: ExchangeNumber) -> Result<(Vec<Linked>, bool)> {
        let mut links: Vec<Linked> = Vec::new();
        let mut after = None;
        loop {
            let page = self.links_in(root, after).await?;
            let Some(last) = page.last() else {
                return Ok((links, false));
            };
            after = Some((last.at, last.exchange));
            links.extend(page.into_iter().filter(|link| link.kind() != LinkKind::Auxiliary));
            if links.len() > EXCHANGES_MAX {
                links.truncate(EXCHANGES_MAX);
                return Ok((links, true));
            }
        }
    }

    /// The blocks of a request with their places in its chain, and the calls of its answer, which were not sent yet.
    async fn blocks_of(&self, row: &ExchangeRow) -> Result<Vec<(usize, Block)>> {
        let mut blocks = Vec::new();
        let mut calls: HashMap<String, (String, String)> = HashMap::new();
        let mut depth = 0;
        let Some(request) = self.read_request(row).await? else {
            return Ok(blocks);
        };
        let answer = self.read_answer(row).await?.map(answer_message);
        let mut nodes = request.nodes().to_vec();
        if let Some(answer) = &answer {
            chain::extend(request.input_node(), answer, &mut nodes);
        }
        let mut nodes = nodes.into_iter();
        let messages = request.messages().map(|(message, _)| &**message);
        for message in messages.chain(&answer) {
            let chained = message
                .blocks
                .iter()
                .filter(|block| chain::has_value(message.role, block));
            for (block, node) in chained.zip(nodes.by_ref()) {
                blocks.extend(described(message.role.name(), block, node, &mut calls).map(|block| (depth, block)));
                depth += 1;
            }
        }
        Ok(blocks)
    }
}

fn described(
    role: &'static str,
    block: &model::Block,
    node: NodeHash,
    calls: &mut HashMap<String, (String, String)>,
) -> Option<Block> {
    let text = |kind, text: String| Block {
        node,
        kind,
        text,
        tool: None,
        argument: None,
        call: None,
        file: None,
        sent: Sent::default(),
    };
    match block {
        model::Block::Text { text: said, .. } => Some(text(role, said.to_string())),
        model::Block::ToolUse(call) => {
            let input = match &call.input {
                ToolInput::Json(json) => json.to_string(),
                ToolInput::Text(text) => text.to_string(),
            };
            let id = call.id.as_deref().map(str::to_owned);
            if let Some(id) = &id {
                calls.insert(id.clone(), (call.name.to_string(), input.clone()));
            }
            Some(Block {
                tool: Some(call.name.to_string()),
                argument: tool_argument(&input),
                call: id,
                ..text("tool_use", input)
            })
        }
        model::Block::ToolResult(result) => {
            let called = result.tool_use_id.as_deref().and_then(|id| calls.get(id));
            Some(Block {
                tool: called.map(|(name, _)| name.clone()),
                argument: called.and_then(|(_, input)| tool_argument(input)),
                call: result.tool_use_id.as_deref().map(str::to_owned),
                file: called.and_then(|(name, input)| only_file(name, input)),
                ..text("tool_result", ToolOutput::from_model(result).text)
            })
        }
        _ => None,
    }
}

/// The file that a call is about, if it is about one.
fn only_file(name: &str, input: &str) -> Option<String> {
    let mut files = Files::new();
    add_files(name, &serde_json::from_str(input).ok()?, &mut files);
    let only = files.pop_first()?;
    files.is_empty().then_some(only.0)
}

/// Paths from the leaves up, cut where an exchange does not replay what came before it; each exchange in the first that has it.
fn cut(links: &[Linked]) -> Vec<Vec<&Linked>> {
    let by_number: HashMap<ExchangeNumber, &Linked> = links.iter().map(|link| (link.exchange, link)).collect();
    let parents: HashSet<ExchangeNumber> = links.iter().filter_map(|link| link.decision.parent).collect();
    let mut seen: HashSet<ExchangeNumber> = HashSet::new();
    let mut stretches = Vec::new();
    let leaves = links.iter().rev().filter(|link| !parents.contains(&link.exchange));
    // What only a damaged store has, a circle without a leaf, is looked at last.
    for leaf in leaves.chain(links.iter().rev()) {
        let mut stretch = Vec::new();
        let mut next = Some(leaf);
        while let Some(link) = next.filter(|link| seen.insert(link.exchange)) {
            stretch.push(link);
            let parent = link.decision.parent.and_then(|parent| by_number.get(&parent).copied());
            let is_replayed = !starts_over(link)
                && link.decision.method != Method::Reference
                && parent.is_some_and(|parent| parent.agent == link.agent);
            if !is_replayed {
                stretches.push(std::mem::take(&mut stretch));
            }
            next = parent;
        }
        if !stretch.is_empty() {
            stretches.push(stretch);
        }
    }
    stretches
}

/// What the requests of a stretch took for each of their bytes, from the deepest on.
struct Spent {
    /// Depth, tokens and money for a byte of this request and of all that are deeper, deepest first.
    sums: Vec<(usize, Sent)>,
    total: Sent,
}

impl Spent {
    fn new(members: &[&ExchangeRow], prices: &dyn PriceTable) -> Self {
        let mut members: Vec<&ExchangeRow> = members.to_vec();
        members.sort_by_key(|row| std::cmp::Reverse(row.depth));
        let (mut sum, mut total) = (Sent::default(), Sent::default());
        let mut sums = Vec::with_capacity(members.len());
        for row in members {
            let bytes = (row.request_length as f64).max(1.0);
            let tokens = sent_tokens(row);
            let nano_usd = input_cost(row, prices);
            total.add(Sent {
                times: 1,
                tokens,
                nano_usd,
            });
            sum.add(Sent {
                times: 1,
                tokens: tokens / bytes,
                nano_usd: nano_usd / bytes,
            });
            sums.push((row.depth as usize, sum));
        }
        Spent { sums, total }
    }

    fn total(&self) -> Sent {
        self.total
    }

    /// What so many bytes at a place of the chain took, in all requests that reach it.
    fn on(&self, place: usize, bytes: usize) -> Sent {
        let reaching = self.sums.partition_point(|(depth, _)| *depth > place);
        let sum = reaching
            .checked_sub(1)
            .map(|last| self.sums[last].1)
            .unwrap_or_default();
        Sent {
            times: sum.times,
            tokens: sum.tokens * bytes as f64,
            nano_usd: sum.nano_usd * bytes as f64,
        }
    }
}

fn sent_tokens(row: &ExchangeRow) -> f64 {
    match &row.usage {
        Some(usage) => (usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens) as f64,
        None => row.request_length as f64 / BYTES_OF_TOKEN,
    }
}

/// What the request took, without the answer; nothing where no price is known.
fn input_cost(row: &ExchangeRow, prices: &dyn PriceTable) -> f64 {
    let cost = || {
        let usage = Usage {
            output_tokens: 0,
            reasoning_tokens: 0,
            web_searches: 0,
            ..row.usage?
        };
        let served = Served {
            provider: Kept::of(row).provider(row)?,
            model: row.model.as_deref()?,
            at: Timestamp::from_microsecond(row.ended_at.unwrap_or(row.at).0).ok()?,
            service_tier: None,
            usage_is_final: true,
        };
        Some(prices.price(&served, &usage)?.amount.0 as f64)
    };
    cost().unwrap_or(0.0)
}

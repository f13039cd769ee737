//! Two branches, or two exchanges, side by side.
//!
//! A node is the hash of everything up to it, so the deepest node that both sides have ends what they have in common; nothing before
//! it is compared. Exchanges are shared where both paths go through them: what they cost was paid once and is in neither sum.

use std::collections::{BTreeSet, HashMap};

use ropewalk_core::hash::NodeHash;
use ropewalk_core::hierarchy::tool_argument;
use ropewalk_store::Store;
use ropewalk_store::facts::{ExchangeNumber, HashKind};
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::files::{Files, add_files};
use crate::view::{MessageView, Result, View, ViewError, hash_of, usd};

/// Messages of one side that are given, the first behind the common part.
pub const MESSAGES_MAX: usize = 500;

/// Characters of a message that are given.
const CONTENT_CHARS_MAX: usize = 4_000;

/// Characters of a tool call's argument that are given.
const ARGUMENT_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Diff {
    pub v: u32,
    pub common: Common,
    pub a: Side,
    pub b: Side,
    /// What else differs between the two exchanges: `model`, `system`, `tools`.
    pub context_differs: Vec<&'static str>,
    /// Files that tool calls name behind the common part, by their path.
    pub files: Vec<FileDiff>,
}

/// What both have.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = DiffCommon)]
pub struct Common {
    pub messages: usize,
    pub exchanges: usize,
    /// The last node that both have.
    #[schema(value_type = Option<String>)]
    pub node: Option<NodeHash>,
    /// The message that ends there.
    pub last: Option<DiffMessage>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = DiffSide)]
pub struct Side {
    pub exchange_id: String,
    pub conversation_id: Option<String>,
    pub friendly_id: Option<String>,
    pub branch_id: Option<String>,
    pub model: Option<String>,
    /// Behind the common part.
    pub messages: Vec<DiffMessage>,
    pub messages_left_out: usize,
    pub tool_calls: Vec<ToolCall>,
    /// Of the exchanges that are not common.
    pub sums: Sums,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DiffMessage {
    pub uuid: String,
    /// `user`, `assistant`, `tool_result` or `system`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub content: String,
    /// Characters of the content that are not given.
    pub content_left_out: usize,
    pub exchange_id: Option<String>,
    #[schema(value_type = Option<String>)]
    pub node: Option<NodeHash>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolCall {
    pub name: String,
    /// The argument that tells most about it.
    pub argument: Option<String>,
    /// Whether the other side made the same call.
    pub is_in_both: bool,
}

/// A file on both sides: `read`, `written`, or not named there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FileDiff {
    pub path: String,
    pub a: Option<&'static str>,
    pub b: Option<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = DiffSums)]
pub struct Sums {
    pub exchanges: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_usd: f64,
    /// Of one exchange at least; one whose cost is not known is not in the sum.
    pub cost_is_estimate: bool,
    pub latency_ms: i64,
}

impl Sums {
    /// All that went to the model.
    pub fn sent(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    fn of(rows: &[ExchangeRow]) -> Self {
        let mut sums = Sums {
            exchanges: rows.len() as u64,
            ..Sums::default()
        };
        let mut cost_nano_usd = 0;
        for row in rows {
            let usage = row.usage.unwrap_or_default();
            sums.input_tokens += usage.input_tokens;
            sums.output_tokens += usage.output_tokens;
            sums.cache_read_tokens += usage.cache_read_tokens;
            sums.cache_write_tokens += usage.cache_write_tokens;
            cost_nano_usd += row.cost_nano_usd.unwrap_or(0);
            sums.cost_is_estimate |= row.cost_is_estimate || (row.usage.is_some() && row.cost_nano_usd.is_none());
            sums.latency_ms += row.ended_at.map_or(0, |ended| (ended.0 - row.at.0) / 1_000);
        }
        sums.cost_usd = usd(cost_nano_usd);
        sums
    }
}

/// One side before it is compared.
struct Read {
    row: ExchangeRow,
    path: Vec<ExchangeNumber>,
    messages: Vec<MessageView>,
}

impl<S: Store> View<'_, S> {
    /// The ways to two exchanges, from where they part.
    pub async fn diff(&self, a: &ExchangeRow, b: &ExchangeRow) -> Result<Diff> {
        let (a, b) = (self.read_side(a).await?, self.read_side(b).await?);
        let (end_a, end_b) = common_messages(&a.messages, &b.messages);
        let exchanges = a.path.iter().zip(&b.path).take_while(|(a, b)| a == b).count();
        let (calls_a, files_a) = called(&a.messages[end_a..]);
        let (calls_b, files_b) = called(&b.messages[end_b..]);
        let last = end_a.checked_sub(1).map(|at| &a.messages[at]);
        let common = Common {
            messages: end_a,
            exchanges,
            node: last.and_then(|message| message.node),
            last: last.map(diff_message),
        };
        let [in_a, in_b] = [&calls_a, &calls_b].map(|calls| calls.iter().cloned().collect::<BTreeSet<_>>());
        Ok(Diff {
            v: 1,
            common,
            context_differs: context_differs(&a.row, &b.row),
            files: file_diffs(&files_a, &files_b),
            a: self.side(a, end_a, exchanges, compared(calls_a, &in_b)).await?,
            b: self.side(b, end_b, exchanges, compared(calls_b, &in_a)).await?,
        })
    }

    async fn read_side(&self, row: &ExchangeRow) -> Result<Read> {
        let link = self.find_link(row.number).await?;
        let link = link.ok_or_else(|| ViewError::NotLinked { id: row.id.clone() })?;
        let path = self.path_to(link.clone()).await?;
        Ok(Read {
            row: row.clone(),
            path: path.iter().map(|link| link.exchange).collect(),
            messages: self.messages_to(link).await?,
        })
    }

    async fn side(&self, read: Read, end: usize, shared: usize, tool_calls: Vec<ToolCall>) -> Result<Side> {
        let exchange = self.exchange(&read.row).await?;
        let own = self.rows(read.path[shared..].to_vec()).await?;
        let messages = &read.messages[end..];
        Ok(Side {
            exchange_id: exchange.id,
            conversation_id: exchange.conversation_id,
            friendly_id: exchange.friendly_id,
            branch_id: exchange.branch_id,
            model: exchange.model,
            messages: messages.iter().take(MESSAGES_MAX).map(diff_message).collect(),
            messages_left_out: messages.len().saturating_sub(MESSAGES_MAX),
            tool_calls,
            sums: Sums::of(&own),
        })
    }
}

/// How many messages of each side lie before the point where they part.
fn common_messages(a: &[MessageView], b: &[MessageView]) -> (usize, usize) {
    let places: HashMap<NodeHash, usize> = (0..)
        .zip(b)
        .filter_map(|(at, message)| Some((message.node?, at)))
        .collect();
    let deepest = a.iter().enumerate().rev().find_map(|(at, message)| {
        let there = places.get(&message.node?)?;
        Some((at + 1, there + 1))
    });
    deepest.unwrap_or((0, 0))
}

fn diff_message(message: &MessageView) -> DiffMessage {
    let mut rest = message.content.chars();
    DiffMessage {
        uuid: message.uuid.clone(),
        kind: message.kind,
        content: rest.by_ref().take(CONTENT_CHARS_MAX).collect(),
        content_left_out: rest.count(),
        exchange_id: message.exchange_id.clone(),
        node: message.node,
    }
}

type Call = (String, Option<String>);

/// The tool calls of some messages, and the files that they name.
fn called(messages: &[MessageView]) -> (Vec<Call>, Files) {
    let mut calls = Vec::new();
    let mut files = Files::new();
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    for block in blocks.filter(|block| block["type"] == "tool_use") {
        let name = block["name"].as_str().unwrap_or_default();
        let input = &block["input"];
        add_files(name, input, &mut files);
        let argument = match input {
            Value::String(text) => Some(text.clone()),
            input => tool_argument(&input.to_string()),
        };
        let argument = argument.map(|text| text.chars().take(ARGUMENT_CHARS_MAX).collect());
        calls.push((name.to_owned(), argument));
    }
    (calls, files)
}

fn compared(calls: Vec<Call>, others: &BTreeSet<Call>) -> Vec<ToolCall> {
    let compared = calls.into_iter().map(|call| ToolCall {
        is_in_both: others.contains(&call),
        name: call.0,
        argument: call.1,
    });
    compared.collect()
}

fn file_diffs(a: &Files, b: &Files) -> Vec<FileDiff> {
    let how = |files: &Files, path: &str| {
        files
            .get(path)
            .map(|is_written| if *is_written { "written" } else { "read" })
    };
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let diffs = paths.into_iter().map(|path| FileDiff {
        path: path.clone(),
        a: how(a, path),
        b: how(b, path),
    });
    diffs.collect()
}

fn context_differs(a: &ExchangeRow, b: &ExchangeRow) -> Vec<&'static str> {
    let differs = |kind| hash_of(a, kind) != hash_of(b, kind);
    let all = [
        ("model", a.model != b.model),
        ("system", differs(HashKind::SystemRaw)),
        ("tools", differs(HashKind::Tools)),
    ];
    let differing = all.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(name, _)| name).collect()
}

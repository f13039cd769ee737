//! The messages of a conversation along its active path: from the root to the tip of the branch that was extended last
//! and is no subtask.
//!
//! A request replays the history, so the tip has nearly all of the path. Where a client started over (a compaction, a
//! gap) or sends only what is new, the path is put together from the last exchange of each stretch.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Block, Message, Response, Role};
use ropewalk_store::Store;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_wire::response::decode_response;
use ropewalk_wire::{RequestBody, read_request};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::detail::Kept;
use crate::link::decision::{BranchKind, Linked, Method, Place};
use crate::view::directory::{Conversation, Directory};
use crate::view::exchange::UsageView;
use crate::view::{Result, View, derived_uuid, usd, utc, uuid_text};

mod content;
mod end;
mod ids;
mod slice;

pub use content::{block_json, text_of};
pub use ids::MessageIds;
pub use slice::Slice;

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MessageView {
    pub uuid: String,
    pub conversation_id: Option<String>,
    pub friendly_id: Option<String>,
    /// Among the user's and the assistant's messages of the active path, from 1; `None` for tool results and context.
    pub index: Option<usize>,
    pub short_hash: Option<String>,
    pub reference: Option<String>,
    pub parent_uuid: Option<String>,
    /// `user`, `assistant`, `tool_result` or `system`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub role: &'static str,
    pub content: String,
    pub blocks: Vec<Value>,
    pub timestamp: Option<String>,
    pub is_sidechain: bool,
    pub branch: BranchOfMessage,
    pub model: Option<String>,
    pub usage: Option<UsageView>,
    pub cost_usd: Option<f64>,
    pub exchange_id: Option<String>,
    #[schema(value_type = Option<String>)]
    pub node: Option<NodeHash>,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct BranchOfMessage {
    pub id: Option<String>,
    /// Which of the branches at this place it is, from 1, and how many there are; `None` where nothing branches.
    pub index: Option<usize>,
    pub of: Option<usize>,
}

/// One exchange of the path, as far as its messages need it.
struct Step {
    row: ExchangeRow,
    branch: Option<String>,
}

/// A message with its place in its request's chain.
pub(crate) struct Placed {
    pub(crate) message: Message,
    pub(crate) first_step: usize,
    pub(crate) node: Option<NodeHash>,
    /// The nodes of its blocks, those that are in the chain.
    pub(crate) nodes: Vec<NodeHash>,
    pub(crate) is_answer: bool,
}

/// What a message says as a reference quotes it, and who says it.
pub(crate) fn text_and_role(placed: &Placed) -> (String, &'static str) {
    let role = if kind_of(&placed.message) == "assistant" {
        "assistant"
    } else {
        "user"
    };
    (text_of(&placed.message), role)
}

impl<S: Store> View<'_, S> {
    /// The last turn of the active path.
    pub async fn tip(&self, root: ExchangeNumber, directory: &mut Directory) -> Result<Option<Linked>> {
        let Some(conversation) = directory.conversation(self, root).await? else {
            return Ok(None);
        };
        let (mut tip, mut after) = (None, None);
        loop {
            let links = self.links_in(root, after).await?;
            let Some(last) = links.last() else { break };
            after = Some((last.at, last.exchange));
            let is_tip = |link: &Linked| {
                let branch = conversation.branch_of(link);
                let is_subtask = branch.is_some_and(|branch| branch.record.kind == BranchKind::Subtask);
                let is_of_main = conversation.branches.get(&link.agent);
                let is_of_main = is_of_main.is_none_or(|agent| agent.record.kind != BranchKind::Subtask);
                matches!(link.kind(), LinkKind::Turn | LinkKind::Retry) && !is_subtask && is_of_main
            };
            tip = links.into_iter().rfind(is_tip).or(tip);
        }
        Ok(tip)
    }

    /// From the root to an exchange, along the parents. Attempts that were repeated are left out.
    pub async fn path_to(&self, tip: Linked) -> Result<Vec<Linked>> {
        let mut path = Vec::new();
        let mut met = HashSet::new();
        let mut next = Some(tip);
        while let Some(link) = next {
            // Links never go in a circle; a damaged store may.
            let parent = match link.decision.parent.filter(|parent| met.insert(*parent)) {
                Some(parent) => self.find_link(parent).await?,
                None => None,
            };
            // A retry stands for the attempt before it, whose place in the path it takes.
            next = match parent {
                Some(attempt) if link.kind() == LinkKind::Retry => Some(Linked {
                    exchange: link.exchange,
                    at: link.at,
                    ..attempt
                }),
                parent => {
                    path.push(link);
                    parent
                }
            };
        }
        path.reverse();
        Ok(path)
    }

    /// The messages of a conversation's active path.
    pub async fn messages(&self, root: ExchangeNumber) -> Result<Vec<MessageView>> {
        let mut directory = Directory::default();
        let Some(conversation) = directory.conversation(self, root).await? else {
            return Ok(Vec::new());
        };
        let Some(tip) = self.tip(root, &mut directory).await? else {
            return Ok(Vec::new());
        };
        let mut messages = self.messages_on(&self.path_to(tip).await?, &conversation).await?;
        number(&mut messages, &uuid_text(&conversation.row.id));
        self.add_names(root, &mut messages).await?;
        Ok(messages)
    }

    async fn messages_on(&self, path: &[Linked], conversation: &Conversation) -> Result<Vec<MessageView>> {
        let mut messages = Vec::new();
        for stretch in stretches(path) {
            let steps = self.steps(stretch, Some(conversation)).await?;
            self.add_messages(&steps, &mut messages).await?;
        }
        Ok(messages)
    }

    /// The messages on the way to an exchange, with its answer, as they would be if it were the active one.
    pub(crate) async fn messages_to(&self, link: Linked) -> Result<Vec<MessageView>> {
        let root = link.conversation;
        let Some(conversation) = Directory::default().conversation(self, root).await? else {
            return Ok(Vec::new());
        };
        let mut messages = self.messages_on(&self.path_to(link).await?, &conversation).await?;
        number(&mut messages, &uuid_text(&conversation.row.id));
        Ok(messages)
    }

    /// The messages of one exchange: its whole request and its answer.
    pub async fn messages_of(&self, row: &ExchangeRow) -> Result<Vec<MessageView>> {
        let step = Step {
            row: row.clone(),
            branch: None,
        };
        let mut messages = Vec::new();
        self.add_messages(&[step], &mut messages).await?;
        number(&mut messages, &row.id);
        let link = self.find_link(row.number).await?;
        if let Some(link) = &link {
            self.add_names(link.conversation, &mut messages).await?;
        }
        for message in &mut messages {
            message.conversation_id = None;
        }
        Ok(messages)
    }

    async fn steps(&self, links: &[Linked], conversation: Option<&Conversation>) -> Result<Vec<Step>> {
        let rows = self.rows(links.iter().map(|link| link.exchange).collect()).await?;
        let mut rows: HashMap<ExchangeNumber, ExchangeRow> = rows.into_iter().map(|row| (row.number, row)).collect();
        let steps = links.iter().filter_map(|link| {
            let branch = conversation.and_then(|conversation| conversation.branch_of(link));
            Some(Step {
                row: rows.remove(&link.exchange)?,
                branch: branch.map(|branch| branch.shown.clone()),
            })
        });
        Ok(steps.collect())
    }

    /// Adds the messages of the last step, each with the exchange that brought it.
    async fn add_messages(&self, steps: &[Step], messages: &mut Vec<MessageView>) -> Result<()> {
        let Some(last) = steps.last() else { return Ok(()) };
        for placed in self.decode(&last.row).await? {
            messages.push(message_view(&placed, brought_by(&placed, steps)));
        }
        Ok(())
    }

    /// The messages of a path and the exchange that brought each, for `transcript`.
    pub(super) async fn said_on(&self, path: &[Linked]) -> Result<Vec<(Message, Option<ExchangeRow>)>> {
        let mut said = Vec::new();
        for stretch in stretches(path) {
            let steps = self.steps(stretch, None).await?;
            let Some(last) = steps.last() else { continue };
            for placed in self.decode(&last.row).await? {
                let row = brought_by(&placed, &steps).map(|step| step.row.clone());
                said.push((placed.message, row));
            }
        }
        Ok(said)
    }

    pub(crate) async fn decode(&self, row: &ExchangeRow) -> Result<Vec<Placed>> {
        let Some(read) = self.read_request(row).await? else {
            return Ok(Vec::new());
        };
        // What was cut out of a request is still where it was in the chain.
        let chain = match &row.hole {
            Some(_) => self.store.chain(self.owner, row.number, read.nodes().len()).await.ok(),
            None => None,
        };
        let chain = chain.filter(|chain| chain.len() == read.nodes().len());
        let chain = chain.as_deref().unwrap_or(read.nodes());
        let mut placed = Vec::new();
        let mut done = 0;
        for (message, count) in read.messages() {
            let last = done + count;
            placed.push(Placed {
                message: Message::clone(message),
                first_step: done,
                node: chain.get(last.wrapping_sub(1)).filter(|_| count > 0).copied(),
                nodes: chain.get(done..last).unwrap_or_default().to_vec(),
                is_answer: false,
            });
            done = last;
        }
        placed.extend(self.placed_answer(row, done).await?);
        Ok(placed)
    }

    /// An exchange's answer behind so many blocks.
    pub(crate) async fn placed_answer(&self, row: &ExchangeRow, first_step: usize) -> Result<Option<Placed>> {
        Ok(self.read_answer(row).await?.map(|answer| {
            let message = answer_message(answer);
            let mut nodes = Vec::new();
            chain::extend(row.input_node, &message, &mut nodes);
            Placed {
                message,
                first_step,
                node: nodes.last().copied(),
                nodes,
                is_answer: true,
            }
        }))
    }

    /// The messages of an exchange's request and its answer, each with the node that it ends at.
    pub(super) async fn said_by(&self, row: &ExchangeRow) -> Result<Vec<(Option<NodeHash>, Message)>> {
        let placed = self.decode(row).await?;
        Ok(placed.into_iter().map(|placed| (placed.node, placed.message)).collect())
    }

    /// A recorded request; `None` for one that cannot be read.
    pub(crate) async fn read_request(&self, row: &ExchangeRow) -> Result<Option<RequestBody>> {
        let Some(provider) = Kept::of(row).provider(row) else {
            return Ok(None);
        };
        let body = self.store.body(self.owner, row.number, Half::Request).await?;
        Ok(read_request(provider, &Bytes::from(body.unwrap_or_default()), None).ok())
    }

    /// A recorded answer; `None` where nothing was said.
    pub(crate) async fn read_answer(&self, row: &ExchangeRow) -> Result<Option<Response>> {
        let body = self.store.body(self.owner, row.number, Half::Response).await?;
        Ok(body.and_then(|body| answer_in(row, &body)))
    }

    /// The recorded answers of some exchanges, each with its body; `None` where nothing was said.
    pub(super) async fn read_answers(&self, rows: &[&ExchangeRow]) -> Result<Vec<Option<(Response, Vec<u8>)>>> {
        let numbers = rows.iter().map(|row| row.number).collect();
        let bodies = self.store.bodies(self.owner, numbers, Half::Response).await?;
        let read = rows.iter().zip(bodies).map(|(row, body)| {
            let body = body?;
            Some((answer_in(row, &body)?, body))
        });
        Ok(read.collect())
    }
}

/// The answer that a recorded body holds; `None` where nothing was said.
pub(crate) fn answer_in(row: &ExchangeRow, body: &[u8]) -> Option<Response> {
    let detail = Kept::of(row);
    let content_type = detail.response_headers.get("content-type").map(|value| &**value);
    let answer = decode_response(
        detail.provider(row)?,
        row.http_status.unwrap_or(200),
        content_type,
        body,
    );
    Some(answer).filter(|answer| answer.error.is_none() && !answer.blocks.is_empty())
}

/// An answer as the next request repeats it.
pub(crate) fn answer_message(answer: Response) -> Message {
    Message {
        role: Role::Assistant,
        is_string: false,
        blocks: answer.blocks,
        extra: None,
    }
}

/// The exchange that a message came with first: as its answer, or in its request.
fn brought_by<'s>(placed: &Placed, steps: &'s [Step]) -> Option<&'s Step> {
    let last = steps.last();
    match (placed.is_answer, placed.message.role) {
        (true, _) => last,
        (false, Role::Assistant) => {
            let before = |step: &&Step| step.row.depth as usize <= placed.first_step;
            steps.iter().rev().find(before)
        }
        (false, _) => {
            let brought = steps.iter().find(|step| step.row.depth as usize > placed.first_step);
            brought.or(last)
        }
    }
}

/// Whether an exchange does not replay what came before it, and does not mean to.
pub(crate) fn starts_over(link: &Linked) -> bool {
    match link.decision.method {
        Method::Summary | Method::CompactedSession | Method::Session | Method::New => true,
        _ => link.decision.place == Place::Beside(BranchKind::Compact),
    }
}

/// Cuts a path where an exchange does not replay what came before it.
fn stretches(path: &[Linked]) -> impl Iterator<Item = &[Linked]> {
    path.chunk_by(|_, next| !starts_over(next) && next.decision.method != Method::Reference)
}

/// `user`, `assistant`, `tool_result` or `system`.
pub(crate) fn kind_of(message: &Message) -> &'static str {
    let is_tool_result = |block: &Block| matches!(block, Block::ToolResult(_)) || content::is_only_reminders(block);
    match message.role {
        Role::System => "system",
        Role::Assistant => "assistant",
        Role::User if content::has_tool_result(message) && message.blocks.iter().all(is_tool_result) => "tool_result",
        Role::User => "user",
    }
}

fn message_view(placed: &Placed, step: Option<&Step>) -> MessageView {
    let message = &placed.message;
    let is_assistant = message.role == Role::Assistant;
    let row = step.map(|step| &step.row);
    let kind = kind_of(message);
    let timestamp = row.map(|row| match is_assistant {
        true => row.ended_at.unwrap_or(row.at),
        false => row.at,
    });
    // Usage is counted once, with the answer that it paid for.
    let paid = row.filter(|_| is_assistant);
    MessageView {
        uuid: String::new(),
        conversation_id: None,
        friendly_id: None,
        index: None,
        short_hash: None,
        reference: None,
        parent_uuid: None,
        kind,
        role: message.role.name(),
        content: text_of(message),
        blocks: message.blocks.iter().map(block_json).collect(),
        timestamp: timestamp.map(utc),
        is_sidechain: kind == "tool_result",
        branch: BranchOfMessage {
            id: step.and_then(|step| step.branch.clone()),
            index: None,
            of: None,
        },
        model: paid.and_then(|row| row.model.clone()),
        usage: paid
            .and_then(|row| row.usage.as_ref())
            .map(|usage| UsageView::of(Some(usage))),
        cost_usd: paid.and_then(|row| row.cost_nano_usd).map(usd),
        exchange_id: row.map(|row| row.id.clone()),
        node: placed.node,
    }
}

fn message_uuid(conversation: &str, place: &str) -> String {
    derived_uuid(&["v1:message", conversation, place])
}

/// Gives the messages of a path their names and numbers.
fn number(messages: &mut [MessageView], conversation: &str) {
    number_from(messages, conversation, (0, 0), None);
}

/// The same behind so many others, so many of which have a number.
fn number_from(
    messages: &mut [MessageView],
    conversation: &str,
    (first, numbered): (usize, usize),
    mut parent: Option<String>,
) {
    let mut index = numbered;
    for (place, message) in messages.iter_mut().enumerate() {
        let place = (first + place).to_string();
        let node = message.node.map(|node| node.to_string());
        message.uuid = message_uuid(conversation, node.as_deref().unwrap_or(&place));
        message.conversation_id = Some(conversation.to_owned());
        message.parent_uuid = parent.replace(message.uuid.clone());
        if matches!(message.kind, "user" | "assistant") {
            index += 1;
            message.index = Some(index);
        }
    }
}

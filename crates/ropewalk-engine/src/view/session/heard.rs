//! Drafts of what passed without a log.
//!
//! The recorded answer's id stands for the uuid of its record (the exchange's id where the provider gave none, or gave it before);
//! what a user said is named after its node. A request repeats those before it, so the deepest are read first and only those whose
//! end no other has.

use std::collections::{BTreeSet, HashMap, HashSet};

use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::hierarchy::{MessageKind, Part, ToolOutput, call_index, extract, result_name};
use ropewalk_core::model::{Block, Message, Role};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;
use ropewalk_store::{Micros, Store};
use ropewalk_wire::RequestBody;
use serde_json::Value;

use super::draft::{Brief, Draft, Said, Source, record};
use super::texts::{attached, message_data, parts, said_by_parts};
use crate::link::decision::{Linked, Place};
use crate::link::settle::BranchRecord;
use crate::spawn::{SpawnTools, prompt_hash};
use crate::view::message::{answer_message, text_of};
use crate::view::{Result, View, derived_uuid};

/// Answers that are read together.
const ANSWERS_AT_ONCE: usize = 64;

/// A position, and the agent that is there: agents that are started with one prompt stand on the same nodes.
type Spot = (ExchangeNumber, NodeHash);

/// Agents that others started, by their first exchanges, with their ids.
pub(super) type Subagents = HashMap<ExchangeNumber, Option<String>>;

/// An assistant's message, and what its calls gave.
#[derive(Debug)]
struct Answer {
    draft: Draft,
    parts: Vec<Part>,
    outputs: Vec<Given>,
}

/// What a tool gave back.
#[derive(Debug)]
struct Given {
    output: ToolOutput,
    /// Pictures and files.
    attached: Option<Value>,
    at: Option<Micros>,
}

#[derive(Debug, Default)]
pub(super) struct Heard {
    conversation: String,
    drafts: Vec<Draft>,
    answers: Vec<Answer>,
    /// What hangs below a position hangs below this message.
    names: HashMap<Spot, String>,
    /// Answers by where they end, and by the calls in them.
    ends: HashMap<Spot, usize>,
    calls: HashMap<(ExchangeNumber, String), usize>,
    /// When a request that ends there was first sent.
    asked_at: HashMap<Spot, Micros>,
    subagents: Subagents,
    /// Calls that start agents, in the order of their answers: prompt and id.
    spawns: Vec<([u8; 32], String)>,
}

impl<S: Store> View<'_, S> {
    /// Adds drafts for exchanges that no log told of.
    pub(super) async fn heard_drafts(
        &self,
        logged: Vec<Draft>,
        links: &[Linked],
        rows: &HashMap<ExchangeNumber, ExchangeRow>,
        subagents: Subagents,
        conversation: &str,
    ) -> Result<Vec<Draft>> {
        if links.is_empty() {
            return Ok(logged);
        }
        let mut heard = Heard {
            subagents,
            ..Heard::of(conversation)
        };
        let mut taken: HashSet<String> = logged.iter().map(|draft| draft.record.uuid.clone()).collect();
        heard.know(&logged, links);
        for link in links {
            let Some(row) = rows.get(&link.exchange) else { continue };
            heard.ask(link, row);
        }
        let asked: Vec<(&Linked, &ExchangeRow)> = links
            .iter()
            .filter_map(|link| Some((link, rows.get(&link.exchange)?)))
            .collect();
        for group in asked.chunks(ANSWERS_AT_ONCE) {
            let rows: Vec<&ExchangeRow> = group.iter().map(|(_, row)| *row).collect();
            for ((link, row), read) in group.iter().zip(self.read_answers(&rows).await?) {
                let Some((answer, body)) = read else { continue };
                let id = answer.id.as_deref().map(str::to_owned).filter(|id| !taken.contains(id));
                let uuid = id.unwrap_or_else(|| row.id.clone());
                taken.insert(uuid.clone());
                let parts = parts(&answer.blocks, &body);
                heard.answer(uuid, link, row, parts, &answer_message(answer));
            }
        }
        let mut deepest = asked;
        deepest.sort_by_key(|(link, row)| (std::cmp::Reverse(row.depth), row.at, link.exchange));
        for (link, row) in deepest {
            if heard.names.contains_key(&(link.agent, row.input_node)) {
                continue;
            }
            if let Some(read) = self.read_request(row).await? {
                heard.request(link.agent, row, ended(&read));
            }
        }
        let starts = heard.starts(links);
        let mut spawned = HashMap::new();
        for (agent, parent, index) in starts {
            if let Some(row) = rows.get(&parent)
                && let Some(call) = self.call_id(row, index).await?
            {
                spawned.insert(agent, call);
            }
        }
        Ok(heard.finish(logged, links, rows, &spawned))
    }

    /// The subagents among those who said it. Linking makes an id where the client gave none, so that nothing of an agent is taken
    /// for what the main one said.
    pub(super) async fn subagents(&self, links: &[Linked]) -> Result<Subagents> {
        let children = links.iter().filter(|link| link.decision.place == Place::Child);
        let mut subagents: Subagents = children.clone().map(|link| (link.exchange, None)).collect();
        let conversations: BTreeSet<ExchangeNumber> = children.map(|link| link.conversation).collect();
        for root in conversations {
            for branch in self.store.branches(self.owner, root).await? {
                if let Some(id) = subagents.get_mut(&branch.first) {
                    *id = BranchRecord::read(&branch)?.agent.map(|agent| agent.id);
                }
            }
        }
        Ok(subagents)
    }
}

impl Heard {
    pub(super) fn of(conversation: &str) -> Self {
        Heard {
            conversation: conversation.to_owned(),
            ..Heard::default()
        }
    }

    /// Notes when a request was sent.
    pub(super) fn ask(&mut self, link: &Linked, row: &ExchangeRow) {
        let at = self.asked_at.entry((link.agent, row.input_node)).or_insert(row.at);
        *at = row.at.min(*at);
    }

    /// Positions that records of a log stand at.
    fn know(&mut self, logged: &[Draft], links: &[Linked]) {
        let Some(main) = links.first().map(|link| link.conversation) else {
            return;
        };
        for draft in logged.iter().filter(|draft| !draft.record.is_sidechain()) {
            if let Source::Node(node) = draft.source {
                self.names
                    .entry((main, node))
                    .or_insert_with(|| draft.record.uuid.clone());
            }
        }
    }

    fn draft(&self, uuid: String, kind: MessageKind, agent: ExchangeNumber, row: &ExchangeRow, said: Said) -> Draft {
        let in_subagent = self.subagents.get(&agent);
        Draft {
            record: record(uuid, None, kind, false, in_subagent.is_some(), None),
            declared_parent: None,
            session: row.session.clone().unwrap_or_else(|| self.conversation.clone()),
            agent: in_subagent.cloned().flatten(),
            tool_use: None,
            spawned_by: None,
            answer_of: None,
            source: Source::Given,
            said,
        }
    }

    pub(super) fn answer(
        &mut self,
        uuid: String,
        link: &Linked,
        row: &ExchangeRow,
        parts: Vec<Part>,
        message: &Message,
    ) {
        let mut nodes = Vec::new();
        let end = chain::extend(row.input_node, message, &mut nodes);
        let said = said_by_parts(&parts, &message.blocks);
        let mut draft = self.draft(uuid, MessageKind::Assistant, link.agent, row, said);
        let at = row.ended_at.unwrap_or(row.at);
        draft.record = record(
            draft.record.uuid,
            None,
            MessageKind::Assistant,
            false,
            draft.record.in_subagent,
            Some(at),
        );
        draft.answer_of = Some(row.number);
        for call in SpawnTools::default().calls(&message.blocks) {
            let prompt = call.prompt.as_deref().and_then(prompt_hash);
            self.spawns
                .extend(prompt.zip(call.tool_use_id.map(|id| id.to_string())));
        }
        self.names
            .entry((link.agent, end))
            .or_insert_with(|| draft.record.uuid.clone());
        self.ends.entry((link.agent, end)).or_insert(self.answers.len());
        self.add(link.agent, draft, parts);
    }

    fn add(&mut self, agent: ExchangeNumber, draft: Draft, parts: Vec<Part>) {
        for part in &parts {
            if let Part::Call(call) = part
                && let Some(id) = &call.id
            {
                self.calls.entry((agent, id.clone())).or_insert(self.answers.len());
            }
        }
        self.answers.push(Answer {
            draft,
            parts,
            outputs: Vec::new(),
        });
    }

    /// The messages of a request in order, each with the node that it ends at.
    pub(super) fn request<'m>(
        &mut self,
        agent: ExchangeNumber,
        row: &ExchangeRow,
        messages: impl Iterator<Item = (&'m Message, NodeHash)>,
    ) {
        let mut parent: Option<String> = None;
        let mut answer: Option<usize> = None;
        for (message, node) in messages {
            let spot = (agent, node);
            if message.role == Role::Assistant {
                answer = self.ends.get(&spot).copied();
            }
            if let Some(known) = self.names.get(&spot) {
                parent = Some(known.clone());
                continue;
            }
            match message.role {
                Role::System => continue,
                Role::Assistant => {
                    let draft = self.unanswered(spot, row, message, parent.take());
                    self.ends.insert(spot, self.answers.len());
                    answer = Some(self.answers.len());
                    parent = Some(draft.record.uuid.clone());
                    self.add(agent, draft, Part::from_blocks(&message.blocks));
                }
                Role::User => {
                    let at = self.asked_at.get(&spot).copied().or(Some(row.at));
                    self.results((agent, &row.id), message, answer, at);
                    if let Some(said) = said_beside_results(message) {
                        let mut draft = self.draft(self.name(spot), MessageKind::User, agent, row, said);
                        let uuid = draft.record.uuid.clone();
                        let in_subagent = draft.record.in_subagent;
                        draft.record = record(uuid.clone(), parent.take(), MessageKind::User, false, in_subagent, at);
                        self.drafts.push(draft);
                        parent = Some(uuid);
                    }
                }
            }
            if let Some(name) = &parent {
                self.names.insert(spot, name.clone());
            }
        }
    }

    /// An answer that a request repeats and nobody recorded.
    fn unanswered(&self, spot: Spot, row: &ExchangeRow, message: &Message, parent: Option<String>) -> Draft {
        let said = said_by_parts(&Part::from_blocks(&message.blocks), &message.blocks);
        let mut draft = self.draft(self.name(spot), MessageKind::Assistant, spot.0, row, said);
        draft.record.parent_uuid = parent;
        draft
    }

    fn name(&self, (agent, node): Spot) -> String {
        let node = node.to_string();
        match self.subagents.contains_key(&agent) {
            false => derived_uuid(&["v1:message", &self.conversation, &node]),
            true => derived_uuid(&["v1:message", &self.conversation, &node, &agent.0.to_string()]),
        }
    }

    /// Gives the results in a message of an agent's exchange to the answers that called for them.
    fn results(
        &mut self,
        (agent, exchange_id): (ExchangeNumber, &str),
        message: &Message,
        before: Option<usize>,
        at: Option<Micros>,
    ) {
        for block in &message.blocks {
            let Block::ToolResult(result) = block else { continue };
            let output = ToolOutput::from_model(result);
            let called = output
                .tool_use_id
                .as_ref()
                .and_then(|id| self.calls.get(&(agent, id.clone())));
            if let Some(answer) = called.copied().or(before) {
                let attached = attached(result, exchange_id);
                self.answers[answer].outputs.push(Given { output, attached, at });
            }
        }
    }

    /// The calls that subagents were started by: (agent, exchange, which of its spawning calls).
    fn starts(&self, links: &[Linked]) -> Vec<(ExchangeNumber, ExchangeNumber, u32)> {
        let firsts = links.iter().filter(|link| self.subagents.contains_key(&link.exchange));
        let starts = firsts.filter_map(|link| {
            let index = link.decision.spawned.as_ref()?.index?;
            Some((link.exchange, link.decision.parent?, index))
        });
        starts.collect()
    }

    pub(super) fn finish(
        mut self,
        logged: Vec<Draft>,
        links: &[Linked],
        rows: &HashMap<ExchangeNumber, ExchangeRow>,
        spawned: &HashMap<ExchangeNumber, String>,
    ) -> Vec<Draft> {
        let places: HashMap<ExchangeNumber, &Linked> = links.iter().map(|link| (link.exchange, link)).collect();
        let uuids: HashMap<ExchangeNumber, String> = logged
            .iter()
            .chain(self.answers.iter().map(|answer| &answer.draft))
            .filter(|draft| draft.record.kind == MessageKind::Assistant)
            .filter_map(|draft| Some((draft.answer_of?, draft.record.uuid.clone())))
            .collect();
        let mut drafts = logged;
        for mut answer in self.answers {
            let place = answer
                .draft
                .answer_of
                .and_then(|number| Some((places.get(&number)?, rows.get(&number)?)));
            if let Some((link, row)) = place {
                let asked = self.names.get(&(link.agent, row.input_node)).cloned();
                let before = || uuids.get(&link.decision.parent?).cloned();
                let is_first = link.exchange == link.agent;
                answer.draft.record.parent_uuid = asked.or_else(|| before().filter(|_| !is_first));
            }
            answer.draft.declared_parent = answer.draft.record.parent_uuid.clone();
            add_tools(&answer, &mut drafts);
            drafts.push(answer.draft);
        }
        for draft in &mut self.drafts {
            draft.declared_parent = draft.record.parent_uuid.clone();
        }
        // The first message of each agent hangs below its call.
        let mut firsts: HashMap<String, String> = HashMap::new();
        for (agent, call) in spawned {
            let first = rows
                .get(agent)
                .and_then(|row| self.names.get(&(*agent, row.input_node)));
            firsts.extend(first.map(|uuid| (uuid.clone(), call.clone())));
        }
        drafts.append(&mut self.drafts);
        let parents: HashMap<String, Option<String>> = drafts
            .iter()
            .map(|draft| (draft.record.uuid.clone(), draft.record.parent_uuid.clone()))
            .collect();
        let roots: HashMap<String, String> = firsts
            .into_iter()
            .map(|(uuid, call)| (root_of(&uuid, &parents), call))
            .collect();
        for draft in &mut drafts {
            draft.spawned_by = draft
                .spawned_by
                .take()
                .or_else(|| roots.get(&draft.record.uuid).cloned());
        }
        attach_by_prompt(&mut drafts, self.spawns);
        drafts
    }
}

/// The messages of a request that are in the chain, each with the node that it ends at.
fn ended(read: &RequestBody) -> impl Iterator<Item = (&Message, NodeHash)> {
    let mut done = 0;
    read.messages().filter_map(move |(message, count)| {
        done += count;
        let node = read.nodes().get(done.wrapping_sub(1)).filter(|_| count > 0);
        Some((&**message, *node?))
    })
}

/// Where headers name only the parent, the prompt tells which of its calls it was; equal ones in the order of time.
fn attach_by_prompt(drafts: &mut [Draft], mut spawns: Vec<([u8; 32], String)>) {
    let taken: HashSet<&str> = drafts.iter().filter_map(|draft| draft.spawned_by.as_deref()).collect();
    spawns.retain(|(_, call)| !taken.contains(&**call));
    let is_first = |draft: &Draft| {
        let record = &draft.record;
        record.in_subagent && record.kind == MessageKind::User && record.parent_uuid.is_none()
    };
    let mut firsts: Vec<usize> = (0..drafts.len())
        .filter(|at| drafts[*at].spawned_by.is_none() && is_first(&drafts[*at]))
        .collect();
    firsts.sort_by_key(|at| (drafts[*at].record.at, drafts[*at].record.uuid.clone()));
    for at in firsts {
        let prompt = prompt_hash(&drafts[at].said.content);
        if let Some(found) = spawns.iter().position(|(hash, _)| Some(*hash) == prompt) {
            drafts[at].spawned_by = Some(spawns.remove(found).1);
        }
    }
}

/// Up to the first message; a circle ends after as many steps as there are messages.
fn root_of(uuid: &str, parents: &HashMap<String, Option<String>>) -> String {
    let mut at = uuid;
    for _ in 0..parents.len() {
        match parents.get(at) {
            Some(Some(parent)) => at = parent,
            _ => break,
        }
    }
    at.to_owned()
}

/// Whether a user's message is more than results of tools.
pub(crate) fn says_beside_results(message: &Message) -> bool {
    said_beside_results(message).is_some()
}

/// What a user said beside the results of tools, if anything.
fn said_beside_results(message: &Message) -> Option<Said> {
    let is_result = |block: &&Block| matches!(block, Block::ToolResult(_));
    let has_results = message.blocks.iter().any(|block| is_result(&block));
    let blocks: Vec<Block> = message
        .blocks
        .iter()
        .filter(|block| !is_result(block))
        .cloned()
        .collect();
    let beside = Message {
        blocks,
        ..message.clone()
    };
    let content = text_of(&beside);
    let is_nothing = has_results && content.is_empty();
    (!is_nothing).then(|| Said {
        brief: Brief::of_text(&content),
        content,
        data: Some(message_data(Role::User, &beside.blocks)),
        is_error: false,
    })
}

/// The tool operations of an answer. Results that answer none of its calls hang below it.
fn add_tools(answer: &Answer, drafts: &mut Vec<Draft>) {
    let outputs: Vec<ToolOutput> = answer.outputs.iter().map(|given| given.output.clone()).collect();
    let uuid = &answer.draft.record.uuid;
    let extracted = extract(uuid, &answer.parts, &outputs);
    let calls: Vec<Option<String>> = answer
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(call.id.clone()),
            Part::Text(_) => None,
        })
        .collect();
    let given_for = |id: Option<&str>| {
        let mut all = answer.outputs.iter();
        all.find(|given| given.output.tool_use_id.as_deref() == id)
    };
    let asked_at = answer.draft.record.at.map(|at| Micros(at.as_microsecond()));
    let mut add =
        |uuid: String, parent: String, kind: MessageKind, at: Option<Micros>, id: Option<String>, said: Said| {
            drafts.push(Draft {
                record: record(
                    uuid,
                    Some(parent.clone()),
                    kind,
                    true,
                    answer.draft.record.in_subagent,
                    at,
                ),
                declared_parent: Some(parent),
                tool_use: id,
                source: Source::Given,
                said,
                ..answer.draft.clone()
            });
        };
    for message in extracted.messages {
        let id = call_index(&message.uuid).and_then(|index| calls.get(index)?.clone());
        let mut said = Said {
            is_error: message.is_error,
            ..Said::of_tool(message.kind, message.content)
        };
        let mut at = asked_at;
        if message.kind == MessageKind::ToolResult {
            let given = given_for(id.as_deref());
            at = given.and_then(|given| given.at);
            said.data = given.and_then(|given| given.attached.clone());
        }
        add(message.uuid, message.parent_uuid, message.kind, at, id, said);
    }
    for index in extracted.unpaired {
        let given = &answer.outputs[index];
        let name = result_name(uuid, calls.len() + index);
        let id = given.output.tool_use_id.clone();
        let said = Said::of_output(given.output.clone(), given.attached.clone());
        add(name, uuid.clone(), MessageKind::ToolResult, given.at, id, said);
    }
}

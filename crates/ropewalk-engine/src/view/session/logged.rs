//! Drafts from the records of a log.

use std::collections::HashMap;

use ropewalk_core::hash::NodeHash;
use ropewalk_core::hierarchy::{MessageKind, call_index};
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind};
use ropewalk_store::log::{RecordKind, RecordRow};
use ropewalk_store::store::{Asked, ExchangeRow, PAGE_MAX, Questions};
use ropewalk_store::{Micros, Store};

use super::Rows;
use super::draft::{Draft, Said, Source, record};
use super::heard::Subagents;
use crate::keys::id_key;
use crate::link::decision::Linked;
use crate::view::title::title_among;
use crate::view::{Result, View};

/// The records of some sessions, each name once.
#[derive(Debug, Default)]
pub(super) struct Log {
    rows: Vec<RecordRow>,
    by_uuid: HashMap<String, usize>,
    /// What each name stands for.
    leads: Vec<Leads>,
    /// For each assistant's record the first of its answer.
    heads: HashMap<usize, usize>,
    titles: Vec<RecordRow>,
}

/// Where a name leads, past absorbed records, tool operations and notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// To a user's or an assistant's record.
    To(usize),
    /// To the beginning, with nothing said before.
    Root,
    /// To a record that is missing, or in a circle.
    Nowhere,
}

impl Log {
    /// Where two sessions have one record (a fork copies lines), that of the session named first stays.
    pub(super) fn new(records: Vec<RecordRow>) -> Self {
        let mut log = Log::default();
        for row in records {
            if row.kind == RecordKind::Summary {
                log.titles.push(row);
            } else if !log.by_uuid.contains_key(&row.uuid) {
                log.by_uuid.insert(row.uuid.clone(), log.rows.len());
                log.rows.push(row);
            }
        }
        log.follow();
        log.regroup();
        log
    }

    /// Follows every name once.
    fn follow(&mut self) {
        let mut leads: Vec<Option<Leads>> = vec![None; self.rows.len()];
        let mut met_from = vec![usize::MAX; self.rows.len()];
        for start in 0..self.rows.len() {
            let mut way = Vec::new();
            let mut at = start;
            let found = loop {
                if let Some(known) = leads[at] {
                    break known;
                }
                if met_from[at] == start {
                    break Leads::Nowhere;
                }
                met_from[at] = start;
                way.push(at);
                match self.next(at) {
                    Ok(next) => at = next,
                    Err(end) => break end,
                }
            };
            for at in way {
                leads[at] = Some(found);
            }
        }
        self.leads = leads.into_iter().map(|found| found.unwrap_or(Leads::Nowhere)).collect();
    }

    /// One step, or the end of the way.
    fn next(&self, at: usize) -> std::result::Result<usize, Leads> {
        let row = &self.rows[at];
        let found = |uuid: &String| self.by_uuid.get(uuid).copied();
        match row.kind {
            RecordKind::User | RecordKind::Assistant => return Err(Leads::To(at)),
            RecordKind::Absorbed => {
                if let Some(next) = row.stands_for.as_ref().and_then(found) {
                    return Ok(next);
                }
            }
            RecordKind::ToolUse | RecordKind::ToolResult | RecordKind::Other | RecordKind::Summary => {}
        }
        match &row.parent {
            None => Err(Leads::Root),
            Some(parent) => found(parent).ok_or(Leads::Nowhere),
        }
    }

    pub(super) fn title(&self) -> Option<String> {
        title_among(self.titles.iter(), |uuid| self.by_uuid.contains_key(uuid)).map(str::to_owned)
    }

    /// Lines of one answer have one message id, and each hangs below another of them or beside it.
    fn regroup(&mut self) {
        let mut leaders: Vec<usize> = (0..self.rows.len()).collect();
        let mut beside: HashMap<(&str, Option<usize>), usize> = HashMap::new();
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let Some(message) = row.message.as_deref().filter(|_| row.kind == RecordKind::Assistant) else {
                continue;
            };
            let parent = row.parent.as_deref().and_then(|parent| self.said_by(parent));
            let is_same = |other: &usize| {
                let other = &self.rows[*other];
                other.message.as_deref() == Some(message)
                    && other.kind == RecordKind::Assistant
                    && other.agent == row.agent
            };
            let joined = parent.filter(is_same);
            let joined = joined.or_else(|| beside.insert((message, parent), at).filter(is_same));
            if let Some(other) = joined {
                join(&mut leaders, at, other);
            }
        }
        let leaders: Vec<usize> = (0..leaders.len()).map(|at| leader(&mut leaders, at)).collect();
        let mut heads: HashMap<usize, usize> = HashMap::new();
        let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
        for at in (0..self.rows.len()).filter(|at| self.rows[*at].kind == RecordKind::Assistant) {
            members.entry(leaders[at]).or_default().push(at);
        }
        for group in members.into_values() {
            let outside = |at: &&usize| {
                let parent = self.rows[**at]
                    .parent
                    .as_deref()
                    .and_then(|parent| self.said_by(parent));
                parent.is_none_or(|parent| leaders[parent] != leaders[**at])
            };
            let order = |at: &&usize| (self.rows[**at].at, self.rows[**at].line, &self.rows[**at].uuid);
            let head = group
                .iter()
                .filter(outside)
                .min_by_key(order)
                .or_else(|| group.iter().min_by_key(order));
            if let Some(head) = head.copied() {
                heads.extend(group.iter().map(|at| (*at, head)));
            }
        }
        self.heads = heads;
    }

    /// The user's or assistant's record that a name leads to.
    fn said_by(&self, uuid: &str) -> Option<usize> {
        match self.leads[*self.by_uuid.get(uuid)?] {
            Leads::To(at) => Some(at),
            Leads::Root | Leads::Nowhere => None,
        }
    }

    /// The uuid that a record hangs below; the name itself where it leads nowhere.
    fn parent_of(&self, row: &RecordRow) -> Option<String> {
        let declared = row.parent.as_deref()?;
        if matches!(row.kind, RecordKind::ToolResult)
            && let Some(call) = self.by_uuid.get(declared)
            && self.rows[*call].kind == RecordKind::ToolUse
        {
            return Some(declared.to_owned());
        }
        if let Some(said) = self.said_by(declared) {
            return Some(self.rows[self.head(said)].uuid.clone());
        }
        // A notice at the very beginning is not shown: what hangs below it begins the session.
        let leads = self.by_uuid.get(declared).map(|at| self.leads[*at]);
        (leads != Some(Leads::Root)).then(|| declared.to_owned())
    }

    fn head(&self, at: usize) -> usize {
        self.heads.get(&at).copied().unwrap_or(at)
    }

    /// What the exchange is found by that gave the answer of a head.
    fn answer_key(&self, head: usize) -> Key {
        let row = &self.rows[head];
        id_key(KeyKind::Item, row.message.as_deref().unwrap_or(&row.uuid))
    }
}

fn leader(leaders: &mut [usize], mut at: usize) -> usize {
    while leaders[at] != at {
        leaders[at] = leaders[leaders[at]];
        at = leaders[at];
    }
    at
}

fn join(leaders: &mut [usize], one: usize, other: usize) {
    let (one, other) = (leader(leaders, one), leader(leaders, other));
    leaders[one.max(other)] = one.min(other);
}

impl<S: Store> View<'_, S> {
    /// A draft for every message of a log. Adds the exchanges that answered to `rows`.
    pub(super) async fn logged_drafts(
        &self,
        log: Log,
        rows: &mut HashMap<ExchangeNumber, ExchangeRow>,
    ) -> Result<Vec<Draft>> {
        let answered = self.answered(&log, rows).await?;
        let mut drafts = Vec::with_capacity(log.rows.len());
        for (at, row) in log.rows.iter().enumerate() {
            let kind = match row.kind {
                RecordKind::User => MessageKind::User,
                RecordKind::Assistant if log.head(at) == at => MessageKind::Assistant,
                RecordKind::ToolUse => MessageKind::ToolUse,
                RecordKind::ToolResult => MessageKind::ToolResult,
                RecordKind::Assistant | RecordKind::Summary | RecordKind::Other | RecordKind::Absorbed => continue,
            };
            let parent = log.parent_of(row);
            let assistant = match kind {
                MessageKind::Assistant => Some(at),
                MessageKind::ToolUse => row.parent.as_deref().and_then(|parent| log.said_by(parent)),
                MessageKind::ToolResult => parent.as_deref().and_then(|parent| log.said_by(parent)),
                _ => None,
            };
            let answer_of = assistant.and_then(|at| answered.get(&log.head(at)).copied());
            let said = Said::of_text(row.text.clone().unwrap_or_default());
            let source = match (kind, answer_of, row.node) {
                (MessageKind::Assistant, Some(_), _) => Source::Answer,
                (MessageKind::ToolUse, Some(_), _) => Source::Call(call_index(&row.uuid).unwrap_or(0)),
                (_, _, Some(node)) => Source::Node(node),
                _ => Source::Given,
            };
            let in_subagent = row.agent.is_some();
            let is_tool = kind.is_tool();
            drafts.push(Draft {
                record: record(row.uuid.clone(), parent, kind, row.is_sidechain, in_subagent, row.at),
                declared_parent: row.parent.clone(),
                session: row.session.clone(),
                agent: row.agent.clone(),
                tool_use: row.tool_use.clone().filter(|_| is_tool),
                spawned_by: row.tool_use.clone().filter(|_| !is_tool),
                answer_of,
                source,
                said,
            });
        }
        Ok(drafts)
    }

    /// For the first record of each answer the exchange that has it.
    async fn answered(
        &self,
        log: &Log,
        rows: &mut HashMap<ExchangeNumber, ExchangeRow>,
    ) -> Result<HashMap<usize, ExchangeNumber>> {
        // Each answer with its ids and the node behind its last record.
        let mut last: HashMap<usize, usize> = HashMap::new();
        for at in 0..log.rows.len() {
            if log.rows[at].kind == RecordKind::Assistant {
                let place = last.entry(log.head(at)).or_insert(at);
                let order = |at: usize| (log.rows[at].line, log.rows[at].at);
                if order(at) > order(*place) {
                    *place = at;
                }
            }
        }
        let mut heads: Vec<(usize, usize)> = last.into_iter().collect();
        heads.sort_unstable();
        let mut answered = at_hand(log, &heads, rows);
        heads.retain(|(head, _)| !answered.contains_key(head));
        for page in heads.chunks(PAGE_MAX) {
            // Without an id only the place says whose answer it is.
            let by_place: Vec<NodeHash> = page
                .iter()
                .filter(|(head, _)| log.rows[*head].message.is_none())
                .filter_map(|(_, last)| log.rows[*last].node)
                .collect();
            let questions = Questions {
                keys: page.iter().map(|(head, _)| Asked::of(log.answer_key(*head))).collect(),
                nodes: by_place.iter().copied().map(Asked::of).collect(),
                limit: 8,
                ..Questions::default()
            };
            let found = self.store.look_up(self.owner, questions, Micros::MAX).await?;
            let mut ended: HashMap<NodeHash, Vec<ExchangeNumber>> = HashMap::new();
            for (node, known) in by_place.into_iter().zip(found.nodes) {
                ended.insert(node, known.map(|known| known.as_output).unwrap_or_default());
            }
            let mut candidates: Vec<(usize, Option<NodeHash>, Vec<ExchangeNumber>)> = Vec::new();
            for ((head, last), mut exchanges) in page.iter().zip(found.exchanges) {
                let node = log.rows[*last].node;
                if exchanges.is_empty() && log.rows[*head].message.is_none() {
                    exchanges.extend(node.iter().filter_map(|node| ended.get(node)).flatten());
                }
                candidates.push((*head, node, exchanges));
            }
            let unread = candidates.iter().flat_map(|(_, _, exchanges)| exchanges);
            let unread = unread.filter(|number| !rows.contains_key(number)).copied().collect();
            rows.extend(self.rows(unread).await?.into_iter().map(|row| (row.number, row)));
            for (head, node, exchanges) in candidates {
                let ends_here = |number: &&ExchangeNumber| {
                    rows.get(number)
                        .is_some_and(|row| node.is_some() && row.output_node == node)
                };
                let chosen = exchanges.iter().find(ends_here).or(exchanges.first());
                answered.extend(chosen.map(|number| (head, *number)));
            }
        }
        Ok(answered)
    }

    /// Hangs subagents whose log does not name their call below the call that linking found.
    pub(super) async fn attach_by_links(
        &self,
        drafts: &mut [Draft],
        rows: &HashMap<ExchangeNumber, ExchangeRow>,
        links: &[Linked],
    ) -> Result<()> {
        let links: HashMap<ExchangeNumber, &Linked> = links.iter().map(|link| (link.exchange, link)).collect();
        let mut first_answers: HashMap<&str, ExchangeNumber> = HashMap::new();
        let mut answers: Vec<&Draft> = drafts.iter().filter(|draft| draft.source == Source::Answer).collect();
        answers.sort_by_key(|draft| draft.record.at);
        for answer in answers {
            if let (Some(parent), Some(number)) = (&answer.record.parent_uuid, answer.answer_of) {
                first_answers.entry(parent).or_insert(number);
            }
        }
        let mut found = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            let is_first = draft.record.parent_uuid.is_none() && draft.record.kind == MessageKind::User;
            let is_agents = draft.record.in_subagent || draft.record.flagged_sidechain;
            if !is_first || !is_agents || draft.spawned_by.is_some() {
                continue;
            }
            let link = first_answers
                .get(&*draft.record.uuid)
                .and_then(|number| links.get(number));
            let start = link.and_then(|link| links.get(&link.agent));
            let spawned = start.and_then(|start| start.decision.parent.zip(start.decision.spawned.as_ref()?.index));
            if let Some((parent, index)) = spawned {
                found.push((at, parent, index));
            }
        }
        for (at, parent, index) in found {
            if let Some(row) = rows.get(&parent)
                && let Some(call) = self.call_id(row, index).await?
            {
                drafts[at].spawned_by = Some(call);
            }
        }
        Ok(())
    }

    /// The id of a spawning call of an answer, by its place among them.
    pub(super) async fn call_id(&self, row: &ExchangeRow, index: u32) -> Result<Option<String>> {
        let questions = Questions {
            spawns_of: vec![row.number],
            ..Questions::default()
        };
        let found = self.store.look_up(self.owner, questions, Micros::MAX).await?;
        let mut spawns = found.spawns_of.into_iter().flatten();
        Ok(spawns.find(|spawn| spawn.index == index).and_then(|spawn| spawn.call))
    }
}

/// Answers that exchanges at hand gave, by their ids and where they end: most are among them, and need not be looked for.
fn at_hand(log: &Log, heads: &[(usize, usize)], rows: &Rows) -> HashMap<usize, ExchangeNumber> {
    let mut newest: HashMap<(Key, NodeHash), &ExchangeRow> = HashMap::new();
    for row in rows.values() {
        let Some(end) = row.output_node else { continue };
        for key in row.keys.iter().filter(|key| key.kind == KeyKind::Item) {
            let place = newest.entry((*key, end)).or_insert(row);
            if (row.at, row.number) > (place.at, place.number) {
                *place = row;
            }
        }
    }
    let found = heads.iter().filter_map(|(head, last)| {
        let end = log.rows[*last].node?;
        Some((*head, newest.get(&(log.answer_key(*head), end))?.number))
    });
    found.collect()
}

/// Old logs mark what an agent said and do not name it; linking knows whose answers they are, and what was asked is of who answered.
pub(super) fn name_agents(drafts: &mut [Draft], links: &[Linked], subagents: &Subagents) {
    let agents: HashMap<ExchangeNumber, ExchangeNumber> =
        links.iter().map(|link| (link.exchange, link.agent)).collect();
    let is_unnamed = |draft: &Draft| draft.record.flagged_sidechain && draft.agent.is_none();
    for draft in drafts.iter_mut().filter(|draft| is_unnamed(draft)) {
        let agent = draft.answer_of.and_then(|number| agents.get(&number));
        draft.agent = agent.and_then(|agent| subagents.get(agent).cloned().flatten());
    }
    let answers = drafts
        .iter()
        .filter(|draft| draft.record.kind == MessageKind::Assistant);
    let asked: HashMap<String, String> = answers
        .filter_map(|answer| Some((answer.record.parent_uuid.clone()?, answer.agent.clone()?)))
        .collect();
    for draft in drafts.iter_mut().filter(|draft| is_unnamed(draft)) {
        draft.agent = asked.get(&draft.record.uuid).cloned();
    }
}

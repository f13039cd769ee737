//! The tree of a few turns of a thread.

use std::collections::{HashMap, HashSet};

use ropewalk_core::hierarchy::MessageKind;
use ropewalk_core::model::Response;
use ropewalk_store::facts::{ExchangeNumber, KeyKind};
use ropewalk_store::store::{Asked, ExchangeRow, Questions};
use ropewalk_store::{Micros, Store};

use super::heard::Heard;
use super::texts::parts;
use super::{Node, Rows, SessionMessage, SessionMessages, message, shape};
use crate::keys::id_key;
use crate::link::decision::Linked;
use crate::view::message::answer_message;
use crate::view::thread::{Thread, Window};
use crate::view::{Result, View};

/// Exchanges with an answer of the same id that are looked at.
const ALIKE_MAX: usize = 64;

impl<S: Store> View<'_, S> {
    /// The messages of a thread's tree from some place on. `None` where it is not a thread after all.
    pub async fn thread_messages(
        &self,
        thread: &Thread,
        first: usize,
        limit: usize,
    ) -> Result<Option<SessionMessages>> {
        let total = thread.total().in_tree;
        let end = first.saturating_add(limit).min(total);
        let mut messages: Vec<SessionMessage> = Vec::new();
        let mut mark = thread.marks.partition_point(|mark| mark.counts.in_tree <= first);
        while let Some(known) = thread.marks.get(mark) {
            let window = thread.window(mark);
            let before = window.before.in_tree;
            if before >= end {
                break;
            }
            let Some(found) = self.tree_in(thread, window).await? else {
                return Ok(None);
            };
            if before + found.len() != known.counts.in_tree {
                return Ok(None);
            }
            let skipped = first.saturating_sub(before);
            messages.extend(found.into_iter().skip(skipped).take(end - before.max(first)));
            mark += 1;
        }
        let next = messages.last().filter(|_| end < total).map(|last| last.uuid.clone());
        Ok(Some(SessionMessages { messages, total, next }))
    }

    async fn tree_in(&self, thread: &Thread, window: Window) -> Result<Option<Vec<SessionMessage>>> {
        let Some(turns) = self.turns_in(thread, window).await? else {
            return Ok(None);
        };
        // Of what a log tells, the log knows the tree.
        let sessions: HashSet<&String> = turns.iter().filter_map(|(_, row)| row.session.as_ref()).collect();
        for session in sessions {
            if !self.records(session, 1).await?.is_empty() {
                return Ok(None);
            }
        }
        let answering = &turns[..turns.len() - usize::from(window.is_repeated)];
        let (Some((_, reader)), Some((_, last))) = (turns.last(), answering.last()) else {
            return Ok(None);
        };
        let Some(said) = self.said_in(window, reader).await? else {
            return Ok(None);
        };
        // Each request is what the last one repeats of it.
        let nodes = said
            .iter()
            .flat_map(|placed| placed.nodes.iter().zip(placed.first_step + 1..));
        let ends: HashMap<usize, _> = nodes.map(|(node, at)| (at, *node)).collect();
        let own = &turns[usize::from(window.behind.is_some())..];
        if own
            .iter()
            .any(|(_, row)| ends.get(&(row.depth as usize)) != Some(&row.input_node))
        {
            return Ok(None);
        }
        let Some(tip) = self.last_of_stretch(thread, window).await? else {
            return Ok(None);
        };
        let mut heard = Heard::of(&thread.conversation_id());
        for (link, row) in &turns {
            heard.ask(link, row);
        }
        for named in self.named_answers(thread, answering).await? {
            let parts = parts(&named.answer.blocks, &named.body);
            heard.answer(named.uuid, named.link, named.row, parts, &answer_message(named.answer));
        }
        let agent = thread.root();
        let messages = said.iter().filter_map(|placed| Some((&placed.message, placed.node?)));
        heard.request(agent, &tip, messages);
        let last = last.number;
        let links: Vec<Linked> = turns.iter().map(|(link, _)| link.clone()).collect();
        let rows: Rows = turns.into_iter().map(|(_, row)| (row.number, row)).collect();
        let drafts = heard.finish(Vec::new(), &links, &rows, &HashMap::new());
        let nodes = shape::shaped(drafts, &HashSet::new());
        let before = window.behind.and(links.first()).map(|link| link.exchange);
        Ok(own_messages(nodes, &rows, before, last, window.is_repeated))
    }

    /// The turns of a window with the one that it goes on from and the one that repeats it, where there are such.
    async fn turns_in(&self, thread: &Thread, window: Window) -> Result<Option<Vec<(Linked, ExchangeRow)>>> {
        let first = window.first - usize::from(window.behind.is_some());
        let end = window.end + usize::from(window.is_repeated);
        let numbers: Vec<ExchangeNumber> = thread.turns[first..end].iter().map(|turn| turn.exchange).collect();
        let rows = self.rows(numbers.clone()).await?;
        let mut rows: HashMap<ExchangeNumber, ExchangeRow> = rows.into_iter().map(|row| (row.number, row)).collect();
        let links = self.links(numbers.clone()).await?;
        let mut links: HashMap<ExchangeNumber, Linked> = links.into_iter().map(|link| (link.exchange, link)).collect();
        let turns = numbers
            .iter()
            .map(|number| Some((links.remove(number)?, rows.remove(number)?)));
        Ok(turns.collect())
    }

    /// The request that has all that was said since the conversation last started over.
    async fn last_of_stretch(&self, thread: &Thread, window: Window) -> Result<Option<ExchangeRow>> {
        let rest = thread.turns[window.end..].iter().take_while(|turn| !turn.starts_over);
        let last = &thread.turns[window.end - 1 + rest.count()];
        self.find_row(last.exchange).await
    }

    /// The answers of some turns, and what their messages are called: the first answer with an id has it.
    async fn named_answers<'t>(
        &self,
        thread: &Thread,
        turns: &'t [(Linked, ExchangeRow)],
    ) -> Result<Vec<NamedAnswer<'t>>> {
        let rows: Vec<&ExchangeRow> = turns.iter().map(|(_, row)| row).collect();
        let mut answers = Vec::new();
        for ((link, row), read) in turns.iter().zip(self.read_answers(&rows).await?) {
            if let Some((answer, body)) = read {
                let uuid = answer.id.as_deref().unwrap_or(&row.id).to_owned();
                answers.push(NamedAnswer {
                    link,
                    row,
                    uuid,
                    answer,
                    body,
                });
            }
        }
        let keys = answers
            .iter()
            .map(|named| Asked::of(id_key(KeyKind::Item, &named.uuid)));
        let questions = Questions {
            keys: keys.collect(),
            limit: ALIKE_MAX,
            ..Questions::default()
        };
        let found = self.store.look_up(self.owner, questions, Micros::MAX).await?;
        for (named, alike) in answers.iter_mut().zip(found.exchanges) {
            let own = named.row.number;
            let others: HashSet<ExchangeNumber> = alike.into_iter().filter(|other| *other != own).collect();
            let before = thread.turns.iter().take_while(|turn| turn.exchange != own);
            if !others.is_empty() && before.into_iter().any(|turn| others.contains(&turn.exchange)) {
                named.uuid.clone_from(&named.row.id);
            }
        }
        Ok(answers)
    }
}

/// An answer with what its message is called.
struct NamedAnswer<'t> {
    link: &'t Linked,
    row: &'t ExchangeRow,
    uuid: String,
    answer: Response,
    body: Vec<u8>,
}

/// Without what belongs to the turn before, and to the one behind the last.
fn own_messages(
    mut nodes: Vec<Node>,
    rows: &Rows,
    before: Option<ExchangeNumber>,
    last: ExchangeNumber,
    is_repeated: bool,
) -> Option<Vec<SessionMessage>> {
    let mut end = nodes.len();
    if is_repeated {
        let is_last = |node: &Node| node.draft.answer_of == Some(last);
        let is_answer = |node: &Node| is_last(node) && node.draft.record.kind == MessageKind::Assistant;
        let answer = nodes.iter().position(is_answer)?;
        let operations = nodes[answer + 1..].iter().take_while(|node| is_last(node));
        end = answer + 1 + operations.count();
    }
    let is_own = |node: &Node| before.is_none() || node.draft.answer_of != before;
    let first = nodes.iter().position(is_own)?;
    nodes.truncate(end);
    Some(nodes.into_iter().skip(first).map(|node| message(node, rows)).collect())
}

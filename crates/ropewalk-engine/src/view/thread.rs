//! The course of a long conversation, so that a page of it costs a page.
//!
//! Where one turn follows the other, a request has everything that was said before it and little more. So its messages are read in
//! windows: those that a request adds to another some turns before it stand at its end. A [`Thread`] knows the turns and, at the
//! end of each window, how many messages there are up to it; no text. It grows with the conversation: only the last window is counted again.
//! Of a very long one it is kept in the store, behind linking, so that not even the first reader counts all of it (`packed`).
//!
//! What is not so simple (branches, agents, retries, history that was rewritten, a beginning as long as all the rest) has no thread
//! and is read whole. `message::slice` gives the messages of a thread, `session::window` those of its tree.
//!
//! Invariant: what is read by a thread is what reading all of the conversation gives; who finds a difference says that there is no
//! thread. Only context that is not in the chain, and comes and goes, is as the next request has it rather than the last.

use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Block, Message, Role};
use ropewalk_store::derived::{ConversationRow, CourseRow, LinkKind};
use ropewalk_store::facts::{ExchangeNumber, Status};
use ropewalk_store::store::ExchangeRow;
use ropewalk_store::{Micros, Store};

use crate::link::decision::Linked;
use crate::link::settle::ConversationRecord;
use crate::view::message::{Placed, kind_of, starts_over};
use crate::view::session::says_beside_results;
use crate::view::{Cursor, Result, View, uuid_text};

mod packed;

/// Turns whose messages are read together.
const WINDOW_TURNS: usize = 64;

/// Messages of one window; one request that brings more is read once, not for every page.
const WINDOW_MESSAGES_MAX: usize = 2_000;

/// Shorter conversations are counted in less time than a page may take, and there are many of them.
const KEPT_EXCHANGES_MIN: u64 = 512;

/// After so many exchanges the course is kept anew: two windows, which a reader counts without being noticed.
const KEPT_STEP: u64 = 2 * WINDOW_TURNS as u64;

/// Whether a conversation's course is to be kept, that has so many exchanges by now and got some of them just now.
pub(crate) fn is_to_be_kept(exchanges: u64, added: u64) -> bool {
    let before = exchanges.saturating_sub(added);
    exchanges >= KEPT_EXCHANGES_MIN && before / KEPT_STEP < exchanges / KEPT_STEP
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) exchange: ExchangeNumber,
    pub(super) branch: ExchangeNumber,
    /// It does not repeat what came before it.
    pub(super) starts_over: bool,
}

/// The end of a window: what there is up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) turns: usize,
    /// Of the last request.
    pub(super) depth: usize,
    pub(super) node: NodeHash,
    pub(super) counts: Counts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Along the path, and those of them that have a number.
    pub(super) messages: usize,
    pub(super) numbered: usize,
    /// In the tree.
    pub(super) in_tree: usize,
}

/// Turns that are read together, and where they go on from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) first: usize,
    pub(super) end: usize,
    /// The last request before them, where they go on from one.
    pub(super) behind: Option<(usize, NodeHash)>,
    /// What there is before it.
    pub(super) before: Counts,
    /// Another request repeats what the last turn answered.
    pub(super) is_repeated: bool,
}

/// How the last answer stands.
type Tip = (Status, Option<Micros>, Option<[u8; 32]>);

/// How a conversation goes on.
#[derive(Debug)]
pub enum Course {
    /// It has too few exchanges to tell, and may have more.
    Short,
    Straight(Thread),
    /// It does not simply go on, and will not begin to.
    Tangled,
}

impl Course {
    pub fn thread(&self) -> Option<&Thread> {
        match self {
            Course::Straight(thread) => Some(thread),
            Course::Short | Course::Tangled => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Thread {
    row: ConversationRow,
    /// Exchanges of any kind, and the last of them.
    exchanges: u64,
    last: Option<Cursor>,
    tip: Option<Tip>,
    pub(super) turns: Vec<Turn>,
    pub(super) marks: Vec<Mark>,
}

impl Thread {
    /// Of which nothing is known yet.
    fn new(row: &ConversationRow) -> Self {
        Thread {
            row: row.clone(),
            exchanges: 0,
            last: None,
            tip: None,
            turns: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(&self.turns[..]) + std::mem::size_of_val(&self.marks[..]) + 512
    }

    pub(super) fn root(&self) -> ExchangeNumber {
        self.row.root
    }

    pub(super) fn conversation_id(&self) -> String {
        uuid_text(&self.row.id)
    }

    /// What there is of everything.
    pub(super) fn total(&self) -> Counts {
        self.marks.last().map(|mark| mark.counts).unwrap_or_default()
    }

    /// The window that ends with a mark.
    pub(super) fn window(&self, mark: usize) -> Window {
        let before = mark.checked_sub(1).and_then(|before| self.marks.get(before));
        let (first, end) = (before.map_or(0, |mark| mark.turns), self.marks[mark].turns);
        self.between(before, first, end)
    }

    fn between(&self, before: Option<&Mark>, first: usize, end: usize) -> Window {
        let goes_on = |turn: &&Turn| !turn.starts_over;
        let behind = self.turns.get(first).filter(goes_on).and(before);
        Window {
            first,
            end,
            behind: behind.map(|mark| (mark.depth, mark.node)),
            before: before.map(|mark| mark.counts).unwrap_or_default(),
            is_repeated: self.turns.get(end).is_some_and(|turn| !turn.starts_over),
        }
    }

    /// The next window that is not counted.
    fn uncounted(&self) -> Option<Window> {
        let before = self.marks.last();
        let first = before.map_or(0, |mark| mark.turns);
        let rest = self.turns.get(first + 1..)?;
        let stretch = rest.iter().take(WINDOW_TURNS - 1).take_while(|turn| !turn.starts_over);
        Some(self.between(before, first, first + 1 + stretch.count()))
    }

    /// Adds the next links; `false` where they do not simply go on.
    fn add(&mut self, links: &[Linked]) -> bool {
        for link in links {
            self.exchanges += 1;
            self.last = Some((link.at, link.exchange));
            match link.kind() {
                LinkKind::Auxiliary | LinkKind::Compaction => continue,
                LinkKind::Retry => return false,
                LinkKind::Turn => {}
            }
            let before = self.turns.last();
            let starts_over = starts_over(link);
            let goes_on = link.decision.parent == before.map(|turn| turn.exchange) && link.agent == self.row.root;
            let is_on_branch = before.is_none_or(|before| starts_over || before.branch == link.branch);
            if !goes_on || !is_on_branch || link.decision.rewritten.is_some() {
                return false;
            }
            self.turns.push(Turn {
                exchange: link.exchange,
                branch: link.branch,
                starts_over,
            });
        }
        true
    }
}

impl<S: Store> View<'_, S> {
    /// The course of a conversation with at least so many exchanges, from what was known of it before.
    pub async fn course(&self, root: ExchangeNumber, known: Option<&Thread>, exchanges_min: u64) -> Result<Course> {
        let Some(row) = self.find_conversation_row(root).await? else {
            return Ok(Course::Short);
        };
        let record = ConversationRecord::read(&row)?;
        if record.exchanges < exchanges_min {
            return Ok(Course::Short);
        }
        if record.agents > 1 {
            return Ok(Course::Tangled);
        }
        let mut known = known.cloned();
        if known.is_none()
            && let Some(packed) = self.store.find_course(self.owner, root).await?
        {
            if packed.is_empty() {
                return Ok(Course::Tangled);
            }
            known = Thread::unpacked(&row, &packed);
        }
        if let Some(known) = known.filter(|known| known.row.id == row.id && known.exchanges <= record.exchanges)
            && let Some(grown) = self.grown(known, &row, &record).await?
        {
            return Ok(Course::Straight(grown));
        }
        let new = Thread::new(&row);
        let grown = self.grown(new, &row, &record).await?;
        Ok(grown.map_or(Course::Tangled, Course::Straight))
    }

    /// Keeps how a conversation goes on beside its links. Of one that does not simply go on that much is kept.
    pub(crate) async fn keep_course(&self, root: ExchangeNumber) -> Result<()> {
        let version = self.store.link_state(self.owner).await?.version;
        let packed = match self.course(root, None, KEPT_EXCHANGES_MIN).await? {
            Course::Short => return Ok(()),
            Course::Straight(thread) => thread.packed(),
            Course::Tangled => Vec::new(),
        };
        let row = CourseRow { root, packed };
        // Whoever changed something meanwhile may have changed this; it is kept when it has grown again.
        self.store.keep_course(self.owner, version, row).await?;
        Ok(())
    }

    /// With what was recorded since; `None` where that is not all that changed.
    async fn grown(
        &self,
        mut thread: Thread,
        row: &ConversationRow,
        record: &ConversationRecord,
    ) -> Result<Option<Thread>> {
        let counted = thread.turns.len();
        loop {
            let links = self.links_in(row.root, thread.last).await?;
            if links.is_empty() {
                break;
            }
            if !thread.add(&links) {
                return Ok(None);
            }
        }
        let tip = match thread.turns.last() {
            Some(turn) => self.find_row(turn.exchange).await?,
            None => None,
        };
        let Some(tip) = tip.filter(|_| thread.exchanges == record.exchanges) else {
            return Ok(None);
        };
        let stands: Option<Tip> = Some((tip.status, tip.ended_at, tip.response_sha256));
        let is_same = thread.turns.len() == counted && thread.tip == stands;
        (thread.row, thread.tip) = (row.clone(), stands);
        if is_same {
            return Ok(Some(thread));
        }
        // The last answer may have come since, or what its calls gave.
        thread.marks.pop_if(|mark| mark.turns == counted);
        while let Some(window) = thread.uncounted() {
            let Some(mark) = self.mark(&thread, window).await? else {
                return Ok(None);
            };
            thread.marks.push(mark);
        }
        Ok(Some(thread))
    }

    async fn mark(&self, thread: &Thread, window: Window) -> Result<Option<Mark>> {
        let Some(last) = self.find_row(thread.turns[window.end - 1].exchange).await? else {
            return Ok(None);
        };
        let reader = match window.is_repeated {
            true => self.find_row(thread.turns[window.end].exchange).await?,
            false => None,
        };
        let Some(mut said) = self.said_in(window, reader.as_ref().unwrap_or(&last)).await? else {
            return Ok(None);
        };
        if !window.is_repeated {
            said.extend(self.placed_answer(&last, last.depth as usize).await?);
        }
        let counts = counts(&said, window, &last);
        let counts = counts.filter(|_| said.len() <= WINDOW_MESSAGES_MAX);
        Ok(counts.map(|counts| Mark {
            turns: window.end,
            depth: last.depth as usize,
            node: last.input_node,
            counts,
        }))
    }

    /// The messages that a request has behind what a window goes on from; `None` where it does not go on from there.
    pub(super) async fn said_in(&self, window: Window, reader: &ExchangeRow) -> Result<Option<Vec<Placed>>> {
        let Some((depth, node)) = window.behind else {
            let mut said = self.decode(reader).await?;
            said.retain(|placed| !placed.is_answer);
            return Ok(Some(said));
        };
        let ending = self.decode_behind(reader, depth).await?;
        let ending = ending.filter(|ending| ending.before == node);
        Ok(ending.map(|ending| ending.messages))
    }
}

/// What a window adds to what was before it. `None` where its last request is not what the next repeats, or where a result stands far
/// from its call.
fn counts(said: &[Placed], window: Window, last: &ExchangeRow) -> Option<Counts> {
    let depth = last.depth as usize;
    if window.is_repeated {
        let mut nodes = said
            .iter()
            .flat_map(|placed| placed.nodes.iter().zip(placed.first_step + 1..));
        nodes.find(|(node, at)| *at == depth && **node == last.input_node)?;
    }
    let mut counts = window.before;
    let mut calls: Option<(bool, Vec<&str>)> = None;
    for placed in said {
        let message = &placed.message;
        let is_assistant = message.role == Role::Assistant;
        let is_on_path = !window.is_repeated || placed.first_step < depth;
        if is_on_path {
            counts.messages += 1;
            counts.numbered += usize::from(matches!(kind_of(message), "user" | "assistant"));
        }
        if placed.node.is_none() && !placed.is_answer {
            continue;
        }
        if is_assistant {
            let is_of_before = window.behind.is_some_and(|(behind, _)| behind == placed.first_step);
            let is_here = !is_of_before && (is_on_path || placed.first_step == depth);
            let called = call_ids(message);
            if is_here {
                counts.in_tree += 1 + called.len();
            }
            calls = Some((is_here, called));
            continue;
        }
        let results = message.blocks.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result.tool_use_id.as_deref().unwrap_or_default()),
            _ => None,
        });
        for id in results {
            let (is_here, called) = calls.as_ref()?;
            if !called.contains(&id) {
                return None;
            }
            counts.in_tree += usize::from(*is_here);
        }
        counts.in_tree += usize::from(is_on_path && says_beside_results(message));
    }
    Some(counts)
}

fn call_ids(message: &Message) -> Vec<&str> {
    let calls = message.blocks.iter().filter_map(|block| match block {
        Block::ToolUse(call) => Some(call.id.as_deref().unwrap_or_default()),
        _ => None,
    });
    calls.collect()
}

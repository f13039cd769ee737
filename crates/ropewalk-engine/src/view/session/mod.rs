//! All messages of a session or a conversation as a tree (seed 004): `show --tree` and `/api/v1/sessions/{id}/messages`.
//!
//! A log's records say who hangs below whom; `logged` makes drafts of them, regroups the lines of one answer and follows aliases.
//! Traffic that only the proxy saw has no records: `heard` makes them of the exchanges, where the id of the recorded answer stands
//! for the uuid of its record, and a user's message is named after its node. `texts` has what they say, from the bodies; `shape` puts
//! every draft in its place, `kept` keeps it there in little room; `window` does all that for a few turns of a long conversation.
//!
//! Invariants: a forest, whatever the records say, the same for any order of arrival; parents precede their children, siblings stand
//! in the order of time; nothing is recursive. Usage is shown with an answer and with its tool operations, and counted with the
//! answer only.

mod draft;
mod heard;
mod kept;
mod logged;
mod shape;
mod texts;
mod window;

use std::collections::{BTreeSet, HashMap, HashSet};

use ropewalk_core::hierarchy::{BranchPosition, MessageKind, Place};
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::log::{RecordKind, RecordRow, Records};
use ropewalk_store::store::{ExchangeRow, PAGE_MAX};
use ropewalk_store::{Micros, Store};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::link::decision::Linked;
use crate::view::exchange::UsageView;
use crate::view::{Result, Target, View, ViewError, usd, utc};
use draft::Draft;
use kept::KeptNode;

pub use draft::Brief;
pub(crate) use heard::says_beside_results;
pub use texts::Amount;

/// Most records of one session that are read.
pub const RECORDS_MAX: usize = 1_000_000;

/// Exchanges of a session that are looked at to find its conversations.
const SESSION_EXCHANGES_MAX: usize = 64;

/// A message in the shape of seed 004.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionMessage {
    #[serde(rename = "_id")]
    pub id: String,
    pub uuid: String,
    pub message_uuid: String,
    /// The message it hangs below, aliases followed.
    pub parent_uuid: Option<String>,
    /// The parent as its record names it.
    pub parent_uuid_alias: Option<String>,
    pub session_id: String,
    pub session_id_alias: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub content: String,
    pub timestamp: Option<String>,
    pub created_at: Option<String>,
    pub is_sidechain: bool,
    #[serde(rename = "isSidechain")]
    pub is_sidechain_alias: bool,
    pub model: Option<String>,
    /// Of a tool operation: those of its assistant, shown and never added.
    pub cost_usd: Option<f64>,
    pub usage: Option<UsageView>,
    pub message_data: Option<Value>,
    pub branch: Option<Branch>,
    /// `root`, `child`, `fork`, `orphan` or `cycle`.
    pub place: &'static str,
    pub agent_id: Option<String>,
    pub tool_use_id: Option<String>,
    /// Of a tool's result: whether the client said that the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    pub exchange_id: Option<String>,
    /// For one line about it.
    #[serde(skip)]
    pub brief: Brief,
}

/// "Branch `index` of `of`".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BranchOfSession)]
pub struct Branch {
    pub index: usize,
    pub of: usize,
}

/// A page of messages.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionMessages {
    pub messages: Vec<SessionMessage>,
    pub total: usize,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// The shape of a session. What its messages say is read with the pages.
#[derive(Debug)]
pub struct SessionTree {
    /// The client's session id, else the conversation id.
    pub id: String,
    /// As the log's summary lines have it.
    pub title: Option<String>,
    nodes: Vec<KeptNode>,
}

/// Exchanges by their numbers.
type Rows = HashMap<ExchangeNumber, ExchangeRow>;

/// A draft in its place. Parents precede their children.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    draft: Draft,
    place: Place,
    /// Position of the parent.
    parent: Option<usize>,
    branch: Option<BranchPosition>,
}

/// What is asked for.
#[derive(Debug, Default)]
struct Scope {
    id: String,
    /// Only what was said in it.
    session: Option<String>,
    conversations: BTreeSet<ExchangeNumber>,
    /// Only the way to its answer.
    exchange: Option<ExchangeNumber>,
}

impl SessionTree {
    fn new(id: String, title: Option<String>, nodes: Vec<Node>) -> Self {
        SessionTree {
            id,
            title,
            nodes: kept::kept(nodes),
        }
    }

    pub fn total(&self) -> usize {
        self.nodes.len()
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.nodes.iter().map(KeptNode::bytes).sum()
    }

    /// The parent's position, of the message at a position.
    pub fn parent(&self, at: usize) -> Option<usize> {
        self.nodes.get(at)?.parent
    }

    /// Leaves the way to an exchange's answer, with the tool operations on it.
    fn narrow(&mut self, exchange: ExchangeNumber) {
        let is_answer = |node: &KeptNode| node.answer_of == Some(exchange) && node.kind == MessageKind::Assistant;
        let found = self.nodes.iter().position(is_answer);
        let mut kept = vec![false; self.nodes.len()];
        let mut at = found;
        while let Some(place) = at {
            kept[place] = true;
            at = self.nodes[place].parent;
        }
        for place in 0..self.nodes.len() {
            let is_tool = self.nodes[place].kind.is_tool();
            let parent = self.nodes[place].parent;
            kept[place] |= is_tool && parent.is_some_and(|parent| kept[parent]);
        }
        let mut moved: Vec<Option<usize>> = Vec::with_capacity(kept.len());
        let mut count = 0;
        for is_kept in &kept {
            moved.push(is_kept.then_some(count));
            count += usize::from(*is_kept);
        }
        let mut kept = kept.into_iter();
        self.nodes.retain(|_| kept.next() == Some(true));
        for node in &mut self.nodes {
            node.parent = node.parent.and_then(|parent| moved[parent]);
        }
    }
}

impl<S: Store> View<'_, S> {
    /// The messages of a session, a conversation, or up to an exchange's answer.
    pub async fn session(&self, reference: &str) -> Result<SessionTree> {
        let scope = self.scope(reference).await?;
        let mut links: Vec<Linked> = Vec::new();
        for conversation in &scope.conversations {
            let mut after = None;
            loop {
                let page = self.links_in(*conversation, after).await?;
                let Some(last) = page.last() else { break };
                after = Some((last.at, last.exchange));
                links.extend(page);
            }
        }
        let numbers = links.iter().map(|link| link.exchange).collect();
        let rows = self.rows(numbers).await?.into_iter().map(|row| (row.number, row));
        let mut rows: HashMap<ExchangeNumber, ExchangeRow> = rows.collect();
        let records = self.records_of_scope(&scope, &links, &rows).await?;
        let logged = logged::Log::new(records);
        let title = logged.title();
        let mut drafts = self.logged_drafts(logged, &mut rows).await?;
        let subagents = self.subagents(&links).await?;
        logged::name_agents(&mut drafts, &links, &subagents);
        self.attach_by_links(&mut drafts, &rows, &links).await?;
        let covered: HashSet<ExchangeNumber> = drafts.iter().filter_map(|draft| draft.answer_of).collect();
        links.retain(|link| {
            let is_of_session = |row: &ExchangeRow| match &scope.session {
                Some(session) => row.session.as_ref() == Some(session),
                None => true,
            };
            let is_turn = matches!(link.kind(), LinkKind::Turn | LinkKind::Retry);
            is_turn && !covered.contains(&link.exchange) && rows.get(&link.exchange).is_some_and(is_of_session)
        });
        drafts = self.heard_drafts(drafts, &links, &rows, subagents, &scope.id).await?;
        let elsewhere = self.known_elsewhere(&drafts, &rows).await?;
        let mut tree = SessionTree::new(scope.id, title, shape::shaped(drafts, &elsewhere));
        if let Some(exchange) = scope.exchange {
            tree.narrow(exchange);
        }
        Ok(tree)
    }

    /// The root of the conversation that is meant by the name of a session; `None` where less is meant, or more.
    pub async fn find_session_root(&self, reference: &str) -> Result<Option<ExchangeNumber>> {
        let scope = self.scope(reference).await?;
        let is_whole = scope.session.is_none() && scope.exchange.is_none();
        Ok(scope.conversations.first().copied().filter(|_| is_whole))
    }

    async fn scope(&self, reference: &str) -> Result<Scope> {
        let has_records = !self.records(reference, 1).await?.is_empty();
        let conversations = self.conversations_of_session(reference).await?;
        if has_records || !conversations.is_empty() {
            return Ok(Scope {
                id: reference.to_owned(),
                session: Some(reference.to_owned()),
                conversations,
                exchange: None,
            });
        }
        let (root, exchange) = match self.resolve(reference).await? {
            Target::Conversation(row) => (row.root, None),
            Target::Message(message) => (message.conversation, None),
            Target::Exchange(row) => {
                let link = self.find_link(row.number).await?;
                let link = link.ok_or(ViewError::NotLinked { id: row.id })?;
                (link.conversation, Some(row.number))
            }
        };
        let conversation = self.find_conversation(root).await?;
        Ok(Scope {
            id: conversation.map_or_else(|| reference.to_owned(), |found| found.conversation_id),
            session: None,
            conversations: BTreeSet::from([root]),
            exchange,
        })
    }

    async fn conversations_of_session(&self, session: &str) -> Result<BTreeSet<ExchangeNumber>> {
        let numbers = self.newest_of_session(session, SESSION_EXCHANGES_MAX).await?;
        let links = self.links(numbers).await?;
        Ok(links.into_iter().map(|link| link.conversation).collect())
    }

    /// Records of every session that is part of it, those of the earliest session first.
    async fn records_of_scope(
        &self,
        scope: &Scope,
        links: &[Linked],
        rows: &HashMap<ExchangeNumber, ExchangeRow>,
    ) -> Result<Vec<RecordRow>> {
        if let Some(session) = &scope.session {
            return self.records(session, RECORDS_MAX).await;
        }
        let mut sessions: Vec<&String> = Vec::new();
        let mut met = HashSet::new();
        for row in links.iter().filter_map(|link| rows.get(&link.exchange)) {
            sessions.extend(row.session.as_ref().filter(|session| met.insert(*session)));
        }
        let mut records = Vec::new();
        for session in sessions {
            let left = RECORDS_MAX.saturating_sub(records.len());
            records.extend(self.records(session, left).await?);
        }
        Ok(records)
    }

    /// The records of a session, in the order of their uuids.
    pub async fn records(&self, session: &str, limit: usize) -> Result<Vec<RecordRow>> {
        let mut records: Vec<RecordRow> = Vec::new();
        loop {
            let page = Records::OfSession {
                session: session.to_owned(),
                after: records.last().map(|record| record.uuid.clone()),
                limit: PAGE_MAX.min(limit - records.len()),
            };
            let page = self.store.records(self.owner, page).await?;
            let is_last = page.len() < PAGE_MAX;
            records.extend(page);
            if is_last || records.len() >= limit {
                return Ok(records);
            }
        }
    }

    /// Parents that are missing here and are records of other sessions of the same conversation: forks.
    async fn known_elsewhere(
        &self,
        drafts: &[Draft],
        rows: &HashMap<ExchangeNumber, ExchangeRow>,
    ) -> Result<HashSet<String>> {
        let here: HashSet<&str> = drafts.iter().map(|draft| &*draft.record.uuid).collect();
        let missing = drafts.iter().filter_map(|draft| draft.record.parent_uuid.as_deref());
        let missing: BTreeSet<&str> = missing.filter(|parent| !here.contains(parent)).collect();
        if missing.is_empty() {
            return Ok(HashSet::new());
        }
        let sessions: BTreeSet<&str> = rows.values().filter_map(|row| row.session.as_deref()).collect();
        let names = missing.iter().flat_map(|uuid| {
            sessions
                .iter()
                .map(|session| ((*session).to_owned(), (*uuid).to_owned()))
        });
        let names: Vec<(String, String)> = names.collect();
        let mut found = HashSet::new();
        for page in names.chunks(PAGE_MAX) {
            let records = self.store.records(self.owner, Records::Named(page.to_vec())).await?;
            let known = records.into_iter().filter(|record| record.kind != RecordKind::Summary);
            found.extend(known.map(|record| record.uuid));
        }
        Ok(found)
    }

    /// A page of a tree's messages behind a cursor, with what they say.
    pub async fn session_messages(
        &self,
        tree: &SessionTree,
        after: Option<&str>,
        limit: usize,
        amount: Amount,
    ) -> Result<SessionMessages> {
        let first = match after {
            None => 0,
            Some(uuid) => {
                let found = tree.nodes.iter().position(|node| &*node.uuid == uuid);
                let missing = || ViewError::NotFound {
                    reference: uuid.to_owned(),
                };
                found.ok_or_else(missing)? + 1
            }
        };
        self.session_page(tree, first, limit, amount).await
    }

    /// A page of a tree's messages from some place on.
    pub async fn session_page(
        &self,
        tree: &SessionTree,
        first: usize,
        limit: usize,
        amount: Amount,
    ) -> Result<SessionMessages> {
        let total = tree.nodes.len();
        let first = first.min(total);
        let end = first.saturating_add(limit).min(total);
        let page = tree.nodes[first..end].iter();
        let mut page: Vec<Node> = page.map(|node| node.node(&tree.nodes)).collect();
        let answers = page.iter().filter_map(|node| node.draft.answer_of).collect();
        let rows = self.rows(answers).await?.into_iter().map(|row| (row.number, row));
        let rows: Rows = rows.collect();
        self.fill(&mut page, &rows, amount).await?;
        let messages: Vec<SessionMessage> = page.into_iter().map(|node| message(node, &rows)).collect();
        let next = messages.last().filter(|_| end < total).map(|last| last.uuid.clone());
        Ok(SessionMessages { messages, total, next })
    }
}

fn message(node: Node, rows: &Rows) -> SessionMessage {
    let draft = node.draft;
    let said = draft.said;
    let record = &draft.record;
    let row = draft.answer_of.and_then(|number| rows.get(&number));
    let at = record.at.map(|at| utc(Micros(at.as_microsecond())));
    let uuid = record.uuid.clone();
    SessionMessage {
        id: uuid.clone(),
        message_uuid: uuid.clone(),
        uuid,
        // One that is not here is still named, so that a fork can be followed.
        parent_uuid: record.parent_uuid.clone().filter(|_| node.place != Place::CutCycle),
        parent_uuid_alias: draft.declared_parent,
        session_id: draft.session.clone(),
        session_id_alias: draft.session.clone(),
        kind: record.kind.name(),
        content: said.content,
        timestamp: at.clone(),
        created_at: at,
        is_sidechain: record.is_sidechain(),
        is_sidechain_alias: record.is_sidechain(),
        model: row.and_then(|row| row.model.clone()),
        cost_usd: row.and_then(|row| row.cost_nano_usd).map(usd),
        usage: row
            .and_then(|row| row.usage.as_ref())
            .map(|usage| UsageView::of(Some(usage))),
        message_data: said.data,
        brief: said.brief,
        branch: node.branch.map(|branch| Branch {
            index: branch.index,
            of: branch.of,
        }),
        place: match node.place {
            Place::Root => "root",
            Place::Below(_) => "child",
            Place::Elsewhere => "fork",
            Place::Orphan => "orphan",
            Place::CutCycle => "cycle",
        },
        agent_id: draft.agent,
        tool_use_id: draft.tool_use,
        is_error: (record.kind == MessageKind::ToolResult).then_some(said.is_error),
        exchange_id: row.map(|row| row.id.clone()),
    }
}

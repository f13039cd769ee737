//! Agents: who worked on a conversation, started by whom, at what cost.

use std::collections::{BTreeMap, HashMap};

use ropewalk_core::cost::context_window;
use ropewalk_store::facts::{ExchangeNumber, Status};
use ropewalk_store::store::ExchangeRow;
use ropewalk_store::{Micros, Store};
use serde::Serialize;
use utoipa::ToSchema;

use crate::detail::Kept;
use crate::link::decision::Linked;
use crate::view::directory::{Conversation, Directory};
use crate::view::{Result, View, usd, utc, uuid_text};

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AgentView {
    pub id: String,
    pub name: Option<String>,
    pub is_main: bool,
    pub conversation_id: String,
    pub branch_id: Option<String>,
    /// `streaming`, `complete`, `error` or `idle`.
    pub status: &'static str,
    pub model: Option<String>,
    pub started_at: String,
    pub updated_at: String,
    /// Which of the finished agents it was, by the end of its last answer, from 1.
    pub completion_order: Option<usize>,
    pub exchanges: u64,
    /// All tokens that went to the model, cached ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// What its newest request had.
    pub estimated_input_tokens: Option<u64>,
    /// The model's limit, where it is known.
    pub max_input_tokens: Option<u64>,
    pub context_fill: Option<f64>,
    pub type_hash: Option<String>,
    pub conversation_hash: Option<String>,
    pub parent_conversation_hash: Option<String>,
    pub child_conversation_hashes: Vec<String>,
    pub first_user_hash: Option<String>,
    pub first_response_hash: Option<String>,
    pub parent_id: Option<String>,
    pub link: AgentLink,
    /// How often its client rewrote or compacted what it had said before.
    pub context_edits: u64,
    /// The agent is shown at the root because nobody is known to have started it.
    pub orphan: bool,
    /// Why nobody is known to have; only of an orphan.
    pub orphan_reason: Option<String>,
    /// Its first exchange.
    #[serde(skip)]
    pub first: ExchangeNumber,
    #[serde(skip)]
    pub parent: Option<ExchangeNumber>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AgentLink {
    pub method: &'static str,
    pub confidence: f64,
}

/// What an agent's exchanges add up to.
#[derive(Default)]
struct Sums {
    link: Option<AgentLink>,
    orphan_reason: Option<String>,
    exchanges: u64,
    sent: u64,
    answered: u64,
    cost_nano_usd: u64,
    started_at: Option<Micros>,
    updated_at: Option<Micros>,
    last: Option<(Status, Option<String>)>,
    window: Option<u64>,
    last_sent: Option<u64>,
    context_edits: u64,
}

impl Sums {
    fn add(&mut self, link: &Linked, row: &ExchangeRow) {
        if link.exchange == link.agent {
            let method = link.decision.method;
            self.link = Some(AgentLink {
                method: method.name(),
                confidence: method.confidence(),
            });
            self.orphan_reason = link.decision.orphan.then(|| orphan_reason(&Kept::of(row).hints));
        }
        self.exchanges += 1;
        self.started_at = self.started_at.or(Some(row.at));
        self.updated_at = self.updated_at.max(Some(row.ended_at.unwrap_or(row.at)));
        let is_other = self.last.as_ref().is_none_or(|(_, model)| *model != row.model);
        if is_other {
            let provider = Kept::of(row).provider(row);
            self.window = provider
                .zip(row.model.as_deref())
                .and_then(|(provider, model)| context_window(provider, model));
        }
        self.last = Some((row.status, row.model.clone()));
        self.cost_nano_usd += row.cost_nano_usd.unwrap_or(0);
        if let Some(usage) = &row.usage {
            let sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
            self.sent += sent;
            self.answered += usage.output_tokens;
            self.last_sent = Some(sent);
        }
        let is_compacted = matches!(link.decision.method.name(), "summary" | "compacted_session");
        self.context_edits += u64::from(is_compacted || link.decision.rewritten.is_some());
    }
}

impl<S: Store> View<'_, S> {
    /// The agents of a conversation, in the order of their starts. Parents precede their children.
    pub async fn agents(&self, root: ExchangeNumber, directory: &mut Directory) -> Result<Vec<AgentView>> {
        let Some(conversation) = directory.conversation(self, root).await? else {
            return Ok(Vec::new());
        };
        let mut sums = self.sums(root).await?;
        let mut agents = Vec::new();
        for (first, sums) in &mut sums {
            if let Some(agent) = self
                .agent_view(&conversation, *first, std::mem::take(sums), directory)
                .await?
            {
                agents.push(agent);
            }
        }
        agents.sort_by(|a, b| (&a.started_at, a.first).cmp(&(&b.started_at, b.first)));
        relate(&mut agents);
        Ok(agents)
    }

    async fn sums(&self, root: ExchangeNumber) -> Result<HashMap<ExchangeNumber, Sums>> {
        let mut sums: HashMap<ExchangeNumber, Sums> = HashMap::new();
        let mut after = None;
        loop {
            let links = self.links_in(root, after).await?;
            let Some(last) = links.last() else { break };
            after = Some((last.at, last.exchange));
            let rows = self.rows(links.iter().map(|link| link.exchange).collect()).await?;
            let rows: HashMap<ExchangeNumber, ExchangeRow> = rows.into_iter().map(|row| (row.number, row)).collect();
            for link in &links {
                if let Some(row) = rows.get(&link.exchange) {
                    sums.entry(link.agent).or_default().add(link, row);
                }
            }
        }
        Ok(sums)
    }

    async fn agent_view(
        &self,
        conversation: &Conversation,
        first: ExchangeNumber,
        sums: Sums,
        directory: &mut Directory,
    ) -> Result<Option<AgentView>> {
        let Some(agent) = directory.agent(self, conversation, first).await? else {
            return Ok(None);
        };
        let (status, model) = sums.last.unzip();
        Ok(Some(AgentView {
            id: agent.record.id.clone(),
            name: agent.record.name.clone(),
            is_main: agent.record.parent.is_none(),
            conversation_id: uuid_text(&conversation.row.id),
            branch_id: conversation.branches.get(&first).map(|branch| branch.shown.clone()),
            status: shown_status(status),
            model: model.flatten(),
            started_at: utc(sums.started_at.unwrap_or(conversation.row.started_at)),
            updated_at: utc(sums.updated_at.unwrap_or(conversation.row.last_at)),
            completion_order: None,
            exchanges: sums.exchanges,
            input_tokens: sums.sent,
            output_tokens: sums.answered,
            cost_usd: usd(sums.cost_nano_usd),
            estimated_input_tokens: sums.last_sent,
            max_input_tokens: sums.window,
            context_fill: sums
                .last_sent
                .zip(sums.window)
                .map(|(sent, window)| sent as f64 / window as f64),
            type_hash: agent.type_hash.clone(),
            conversation_hash: agent.conversation_hash.clone(),
            parent_conversation_hash: None,
            child_conversation_hashes: Vec::new(),
            first_user_hash: agent.first_user_hash.clone(),
            first_response_hash: agent.first_response_hash.clone(),
            parent_id: agent.parent_id.clone(),
            link: sums.link.unwrap_or(AgentLink {
                method: "new",
                confidence: 1.0,
            }),
            context_edits: sums.context_edits,
            orphan: agent.record.orphan,
            orphan_reason: sums.orphan_reason.filter(|_| agent.record.orphan),
            first,
            parent: agent.record.parent.map(ExchangeNumber),
        }))
    }
}

/// What its client said of whoever started it, as a sentence that continues "It …".
fn orphan_reason(hints: &BTreeMap<String, String>) -> String {
    let named = [
        ("parent_agent", "agent"),
        ("parent_thread", "thread"),
        ("parent_session", "session"),
    ];
    let named = named.iter().find_map(|(hint, kind)| Some((kind, hints.get(*hint)?)));
    match named {
        Some((kind, id)) => {
            format!("names the {kind} `{id}` as the one that started it, of which nothing was recorded")
        }
        None => "says that it is an agent, and nothing of its session's main agent was recorded".to_owned(),
    }
}

fn shown_status(last: Option<Status>) -> &'static str {
    match last {
        None => "idle",
        Some(Status::Pending) => "streaming",
        Some(Status::Complete) => "complete",
        Some(Status::Error | Status::Truncated | Status::ClientCancelled) => "error",
    }
}

/// Fills in what agents know of each other.
fn relate(agents: &mut [AgentView]) {
    let hashes: HashMap<ExchangeNumber, Option<String>> = agents
        .iter()
        .map(|agent| (agent.first, agent.conversation_hash.clone()))
        .collect();
    let mut children: HashMap<ExchangeNumber, Vec<String>> = HashMap::new();
    for agent in agents.iter() {
        if let (Some(parent), Some(hash)) = (agent.parent, &agent.conversation_hash) {
            children.entry(parent).or_default().push(hash.clone());
        }
    }
    let mut complete: Vec<(String, ExchangeNumber)> = agents
        .iter()
        .filter(|agent| agent.status == "complete")
        .map(|agent| (agent.updated_at.clone(), agent.first))
        .collect();
    complete.sort();
    let order: HashMap<ExchangeNumber, usize> = complete.iter().zip(1..).map(|((_, first), at)| (*first, at)).collect();
    for agent in agents {
        agent.parent_conversation_hash = agent.parent.and_then(|parent| hashes.get(&parent).cloned().flatten());
        agent.child_conversation_hashes = children.remove(&agent.first).unwrap_or_default();
        agent.completion_order = order.get(&agent.first).copied();
    }
}

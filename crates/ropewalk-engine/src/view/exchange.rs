//! An exchange with everything that is known about it: the row of `log --exchanges`.

use std::collections::HashMap;

use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::Usage;
use ropewalk_store::Store;
use ropewalk_store::facts::{ExchangeNumber, HashKind};
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use crate::detail::Kept;
use crate::link::decision::Linked;
use crate::reuse::{REUSED_FROM_HEADER, Saved};
use crate::view::directory::Directory;
use crate::view::reason::reason;
use crate::view::{Result, View, hash_of, usd, utc, uuid_text};

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ExchangeView {
    pub v: u32,
    pub id: String,
    pub at: String,
    pub owner: String,
    pub provider: String,
    pub model: Option<String>,
    /// `turn`, `auxiliary`, `retry` or `compaction`.
    pub kind: String,
    pub status: &'static str,
    /// `None` while it is not linked yet, as everything else that linking says.
    pub conversation_id: Option<String>,
    pub friendly_id: Option<String>,
    pub branch_id: Option<String>,
    pub branch_key: Option<String>,
    pub branch_kind: Option<&'static str>,
    pub rewritten: bool,
    pub parent_exchange_id: Option<String>,
    pub agent: AgentOfExchange,
    pub session: Option<String>,
    pub link: LinkOfExchange,
    #[schema(value_type = String)]
    pub input_node: NodeHash,
    #[schema(value_type = Option<String>)]
    pub output_node: Option<NodeHash>,
    pub message_hash: Option<String>,
    pub current_message_hash: Option<String>,
    pub parent_message_hash: Option<String>,
    pub system_hash: Option<String>,
    pub system_raw_hash: Option<String>,
    pub toolset_hash: Option<String>,
    pub prompt_hash: Option<String>,
    pub response_hash: Option<String>,
    pub path_hash: Option<String>,
    pub usage: UsageView,
    pub cost_usd: Option<f64>,
    pub latency_ms: Option<i64>,
    pub first_byte_ms: Option<i64>,
    pub reuse: &'static str,
    pub rules_version: u32,
    pub redactions: u64,
    pub request_sha256: String,
    pub response_sha256: Option<String>,
    /// Of an answer that was reused: what it would have cost.
    #[serde(skip)]
    pub saved: Option<Saved>,
    /// The exchange whose answer was reused.
    #[serde(skip)]
    pub reused_from: Option<String>,
    /// The provider was sent what references in it mean.
    #[serde(skip)]
    pub brings_references: bool,
    /// Something that it said is not there any more.
    #[serde(skip)]
    pub is_forgotten: bool,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct AgentOfExchange {
    pub id: Option<String>,
    pub name: Option<String>,
    pub parent_id: Option<String>,
    pub type_hash: Option<String>,
    pub conversation_hash: Option<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LinkOfExchange {
    pub method: Option<&'static str>,
    pub confidence: Option<f64>,
    pub reason: String,
}

/// Tokens as the provider counted them; `None` where it did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageView {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cache_read_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
}

impl UsageView {
    pub fn of(usage: Option<&Usage>) -> Self {
        UsageView {
            input_tokens: usage.map(|usage| usage.input_tokens),
            output_tokens: usage.map(|usage| usage.output_tokens),
            cache_read_tokens: usage.map(|usage| usage.cache_read_tokens),
            cache_write_tokens: usage.map(|usage| usage.cache_write_tokens),
            reasoning_tokens: usage.map(|usage| usage.reasoning_tokens),
        }
    }
}

impl<S: Store> View<'_, S> {
    /// Rows with what linking says about them, in the order given.
    pub async fn exchanges(&self, rows: &[ExchangeRow], directory: &mut Directory) -> Result<Vec<ExchangeView>> {
        let links = self.links(rows.iter().map(|row| row.number).collect()).await?;
        let links: HashMap<ExchangeNumber, Linked> = links.into_iter().map(|link| (link.exchange, link)).collect();
        let ids = self.ids_named_in(links.values()).await?;
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            let mut view = self.bare(row);
            let link = links.get(&row.number);
            if let Some(link) = link {
                self.place(&mut view, link, &ids, directory).await?;
            }
            view.path_hash = directory.paths.of(self, row, link).await?;
            views.push(view);
        }
        Ok(views)
    }

    /// One exchange.
    pub async fn exchange(&self, row: &ExchangeRow) -> Result<ExchangeView> {
        let views = self
            .exchanges(std::slice::from_ref(row), &mut Directory::default())
            .await?;
        views
            .into_iter()
            .next()
            .ok_or_else(|| crate::view::ViewError::NotFound {
                reference: row.id.clone(),
            })
    }

    /// The ids of all exchanges that decisions name.
    pub(super) async fn ids_named_in(
        &self,
        links: impl Iterator<Item = &Linked>,
    ) -> Result<HashMap<ExchangeNumber, String>> {
        let named = links.flat_map(|link| {
            let decision = &link.decision;
            let rejected = decision
                .rejected
                .iter()
                .map(|rejected| ExchangeNumber(rejected.exchange));
            decision.anchor().into_iter().chain(rejected)
        });
        let rows = self.rows(named.collect()).await?;
        Ok(rows.into_iter().map(|row| (row.number, row.id)).collect())
    }

    async fn place(
        &self,
        view: &mut ExchangeView,
        link: &Linked,
        ids: &HashMap<ExchangeNumber, String>,
        directory: &mut Directory,
    ) -> Result<()> {
        let decision = &link.decision;
        view.kind = link.kind().name().to_owned();
        view.rewritten = decision.rewritten.is_some();
        view.parent_exchange_id = decision.parent.and_then(|parent| ids.get(&parent).cloned());
        view.link = LinkOfExchange {
            method: Some(decision.method.name()),
            confidence: Some(decision.method.confidence()),
            reason: reason(link, ids),
        };
        let Some(conversation) = directory.conversation(self, link.conversation).await? else {
            return Ok(());
        };
        view.conversation_id = Some(uuid_text(&conversation.row.id));
        view.friendly_id = conversation.name.as_ref().map(|name| name.friendly_id.clone());
        if let Some(branch) = conversation.branch_of(link) {
            view.branch_id = Some(branch.shown.clone());
            view.branch_key = Some(branch.key.clone());
            view.branch_kind = Some(branch.record.kind.name());
        }
        if let Some(agent) = directory.agent(self, &conversation, link.agent).await? {
            view.agent = AgentOfExchange {
                id: Some(agent.record.id.clone()),
                name: agent.record.name.clone(),
                parent_id: agent.parent_id.clone(),
                type_hash: agent.type_hash.clone(),
                conversation_hash: agent.conversation_hash.clone(),
            };
        }
        Ok(())
    }

    /// What the facts alone say.
    fn bare(&self, row: &ExchangeRow) -> ExchangeView {
        let hash = |kind| hash_of(row, kind);
        let ended = row.ended_at.filter(|_| row.response_sha256.is_some());
        let detail = Kept::of(row);
        ExchangeView {
            v: 1,
            id: row.id.clone(),
            at: utc(row.at),
            owner: self.owner_name.clone(),
            provider: row.provider.clone(),
            model: row.model.clone(),
            kind: row.kind.clone(),
            status: row.status.name(),
            conversation_id: None,
            friendly_id: None,
            branch_id: None,
            branch_key: None,
            branch_kind: None,
            rewritten: false,
            parent_exchange_id: None,
            agent: AgentOfExchange::default(),
            session: row.session.clone(),
            link: LinkOfExchange {
                method: None,
                confidence: None,
                reason: "not linked yet".to_owned(),
            },
            input_node: row.input_node,
            output_node: row.output_node,
            message_hash: hash(HashKind::Message),
            current_message_hash: hash(HashKind::CurrentMessage),
            parent_message_hash: hash(HashKind::ParentMessage),
            system_hash: hash(HashKind::System),
            system_raw_hash: hash(HashKind::SystemRaw),
            toolset_hash: hash(HashKind::Toolset),
            prompt_hash: hash(HashKind::Prompt),
            response_hash: hash(HashKind::Response),
            path_hash: None,
            usage: UsageView::of(row.usage.as_ref()),
            cost_usd: row.cost_nano_usd.map(usd),
            latency_ms: ended.map(|ended| (ended.0 - row.at.0) / 1_000),
            first_byte_ms: detail.first_byte_ms,
            reuse: detail.reuse(),
            rules_version: row.rules_version,
            redactions: detail.redactions,
            request_sha256: hex::encode(row.request_sha256),
            response_sha256: row.response_sha256.map(hex::encode),
            reused_from: detail.response_headers.get(REUSED_FROM_HEADER).cloned(),
            saved: detail.saved,
            brings_references: detail.brings_references,
            is_forgotten: row.hole.is_some(),
        }
    }
}

impl ExchangeView {
    /// Every hash of the exchange by its name, as hex digits without a version tag.
    pub fn hashes(&self) -> Vec<(&'static str, String)> {
        let plain = |hash: &Option<String>| hash.clone();
        let node = |node: &NodeHash| hex::encode(node.0);
        let all = [
            ("input_node", Some(node(&self.input_node))),
            ("output_node", self.output_node.as_ref().map(node)),
            ("message_hash", plain(&self.message_hash)),
            ("current_message_hash", plain(&self.current_message_hash)),
            ("parent_message_hash", plain(&self.parent_message_hash)),
            ("system_hash", plain(&self.system_hash)),
            ("system_raw_hash", plain(&self.system_raw_hash)),
            ("toolset_hash", plain(&self.toolset_hash)),
            ("prompt_hash", plain(&self.prompt_hash)),
            ("response_hash", plain(&self.response_hash)),
            ("path_hash", plain(&self.path_hash)),
            ("agent_type_hash", plain(&self.agent.type_hash)),
            ("conversation_hash", plain(&self.agent.conversation_hash)),
            ("request_sha256", Some(self.request_sha256.clone())),
            ("response_sha256", plain(&self.response_sha256)),
        ];
        let present = all.into_iter().filter_map(|(name, hash)| Some((name, hash?)));
        present.collect()
    }
}

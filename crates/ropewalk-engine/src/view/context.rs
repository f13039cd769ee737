//! What stands around a conversation, and when it changed: the system prompt and the tools.
//!
//! Neither breaks a link. A change is seen by comparing each turn with the one it goes on from; the bodies are read only
//! where the hashes differ.

use std::collections::HashMap;

use ropewalk_core::model::{Block, Request};
use ropewalk_store::Store;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, HashKind};
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use crate::view::{LINKS_PAGE, Result, View, utc};

/// Characters of a token, roughly: providers do not say how many tokens a prompt alone has.
const CHARS_PER_TOKEN: usize = 4;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    SystemPrompt,
    /// Only what does not count as a change of the prompt: a date, a git status, a billing line.
    SystemPromptNoise,
    Tools,
}

/// A system prompt or a list of tools that is not that of the turn before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextChange {
    pub at: String,
    pub exchange_id: String,
    pub parent_exchange_id: String,
    pub what: Context,
    pub hash_before: String,
    pub hash_after: String,
    /// About how many tokens it has, before and after.
    pub tokens_before: u64,
    pub tokens_after: u64,
    /// Tools that are new, and those that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools_added: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools_removed: Vec<String>,
}

impl<S: Store> View<'_, S> {
    /// Every change in a conversation, in the order of its exchanges.
    pub async fn context_changes(&self, conversation: ExchangeNumber) -> Result<Vec<ContextChange>> {
        let mut changes = Vec::new();
        // Each turn is compared with its parent; the last of each branch are enough to keep.
        let mut rows: HashMap<ExchangeNumber, ExchangeRow> = HashMap::new();
        let mut after = None;
        loop {
            let page = self.links_in(conversation, after).await?;
            let numbers = page.iter().map(|linked| linked.exchange).collect();
            rows.extend(self.rows(numbers).await?.into_iter().map(|row| (row.number, row)));
            for linked in &page {
                let is_turn = linked.kind() == LinkKind::Turn && linked.agent != linked.exchange;
                let parent = linked
                    .decision
                    .parent
                    .filter(|_| is_turn)
                    .and_then(|parent| rows.get(&parent));
                if let (Some(before), Some(now)) = (parent, rows.get(&linked.exchange)) {
                    self.compare(before, now, &mut changes).await?;
                }
            }
            let Some(last) = page.last().filter(|_| page.len() == LINKS_PAGE) else {
                return Ok(changes);
            };
            after = Some((last.at, last.exchange));
        }
    }

    /// What changed with an exchange, before and after: the text of its system prompt, or its tools, one a line.
    pub async fn context_texts(&self, change: &ContextChange) -> Result<(String, String)> {
        let mut texts = [String::new(), String::new()];
        for (id, text) in [&change.parent_exchange_id, &change.exchange_id]
            .into_iter()
            .zip(&mut texts)
        {
            if let Some(row) = self.find_exchange(id).await?
                && let Some(read) = self.read_request(&row).await?
            {
                *text = context_text(&read.request, change.what);
            }
        }
        let [before, after] = texts;
        Ok((before, after))
    }

    async fn compare(&self, before: &ExchangeRow, now: &ExchangeRow, changes: &mut Vec<ContextChange>) -> Result<()> {
        let differs = |kind| hash(before, kind) != hash(now, kind);
        let what = [
            (Context::SystemPrompt, HashKind::System, differs(HashKind::System)),
            (
                Context::SystemPromptNoise,
                HashKind::SystemRaw,
                differs(HashKind::SystemRaw) && !differs(HashKind::System),
            ),
            (Context::Tools, HashKind::Tools, differs(HashKind::Tools)),
        ];
        if !what.iter().any(|(.., is_changed)| *is_changed) {
            return Ok(());
        }
        let (Some(old), Some(new)) = (self.read_request(before).await?, self.read_request(now).await?) else {
            return Ok(());
        };
        let (old, new) = (old.request, new.request);
        for (what, kind, _) in what.into_iter().filter(|(.., is_changed)| *is_changed) {
            let missing = |from: &Request, of: &Request| match what {
                Context::Tools => names_missing(from, of),
                _ => Vec::new(),
            };
            changes.push(ContextChange {
                at: utc(now.at),
                exchange_id: now.id.clone(),
                parent_exchange_id: before.id.clone(),
                what,
                hash_before: hash(before, kind),
                hash_after: hash(now, kind),
                tokens_before: tokens(&old, what),
                tokens_after: tokens(&new, what),
                tools_added: missing(&old, &new),
                tools_removed: missing(&new, &old),
            });
        }
        Ok(())
    }
}

fn hash(row: &ExchangeRow, kind: HashKind) -> String {
    let found = row.hashes.iter().find(|(known, _)| *known == kind);
    found.map(|(_, hash)| hex::encode(hash)).unwrap_or_default()
}

fn tokens(request: &Request, what: Context) -> u64 {
    let chars: usize = match what {
        Context::Tools => request.tools.iter().map(|tool| tool.json.chars().count()).sum(),
        _ => request.system.iter().map(|block| system_chars(block)).sum(),
    };
    chars.div_ceil(CHARS_PER_TOKEN) as u64
}

fn context_text(request: &Request, what: Context) -> String {
    let pieces: Vec<&str> = match what {
        Context::Tools => request.tools.iter().map(|tool| &*tool.json).collect(),
        _ => request.system.iter().filter_map(|block| system_text(block)).collect(),
    };
    pieces.join("\n")
}

fn system_text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    }
}

fn system_chars(block: &Block) -> usize {
    system_text(block).map_or(0, |text| text.chars().count())
}

/// Names of tools that are in `of` and not in `from`.
fn names_missing(from: &Request, of: &Request) -> Vec<String> {
    let has = |name: &str| from.tools.iter().any(|tool| &*tool.name == name);
    let missing = of.tools.iter().filter(|tool| !has(&tool.name));
    missing.map(|tool| tool.name.to_string()).collect()
}

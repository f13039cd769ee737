//! `ropewalk statusline`: one line about the conversation that a client is in, for its status bar.
//!
//! Runs every few hundred milliseconds beside somebody's work, so it is quick, reads at most so much, and never fails: whatever is
//! wrong, the line is empty.

use std::io::Read as _;
use std::time::Duration;

use ropewalk_engine::view::View;
use ropewalk_store::Store as _;
use ropewalk_store::derived::LinkKind;
use serde::Deserialize;

use crate::any_store::AnyStore;
use crate::cli::Global;
use crate::config::Config;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{dollars, short};
use crate::print::out::Out;
use crate::print::text::one_line;

/// What a client says of itself is a few kilobytes.
const INPUT_BYTES_MAX: u64 = 1 << 20;

/// A status bar that waits longer shows something old.
const PATIENCE: Duration = Duration::from_secs(2);

/// Exchanges among which the main agent's last turn is looked for: subagents may have had the last words.
const EXCHANGES_MAX: usize = 64;

/// What Claude Code writes to the standard input of a status line, as far as it is used here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    session_id: String,
    context_window: ContextWindow,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContextWindow {
    context_window_size: Option<u64>,
}

/// What is known of it.
#[derive(Debug, Default, serde::Serialize)]
struct Status {
    v: u32,
    conversation_id: Option<String>,
    friendly_id: Option<String>,
    cost_usd: Option<f64>,
    /// The part of all that was sent which the provider read from its cache.
    cache_share: Option<f64>,
    /// What the main agent's last request had.
    context_tokens: Option<u64>,
    context_fill: Option<f64>,
}

/// Never an error: a client would show it, or nothing from then on.
pub(crate) fn run(global: &Global) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = runtime.ok().and_then(|runtime| {
        let status = runtime.block_on(async { tokio::time::timeout(PATIENCE, find(global)).await.ok()? });
        // A read that hangs is not waited for.
        runtime.shutdown_background();
        status
    });
    let status = status.unwrap_or(Status {
        v: 1,
        ..Status::default()
    });
    let mut out = Out::new();
    match global.json {
        true => out.json(&status)?,
        false => out.line(&line(&status, &out))?,
    }
    out.finish()
}

async fn find(global: &Global) -> Option<Status> {
    let said = tokio::task::spawn_blocking(read).await.ok()??;
    let context = Context {
        config: Config::load(global).ok()?,
        json: global.json,
        as_of: None,
        is_whole: false,
    };
    let store = context.read_now().await.ok()??;
    // Whose session it is, is not said; nobody but one owner has it.
    let owners = match context.config.asked_owner() {
        Some(owner) => vec![owner.to_owned()],
        None => store_owners(&store).await?,
    };
    for owner in owners {
        if let Some(status) = of_owner(&store, &owner, &said).await {
            return Some(status);
        }
    }
    None
}

fn read() -> Option<Said> {
    let mut text = Vec::new();
    std::io::stdin().take(INPUT_BYTES_MAX).read_to_end(&mut text).ok()?;
    let said: Said = serde_json::from_slice(&text).ok()?;
    (!said.session_id.is_empty()).then_some(said)
}

async fn store_owners(store: &AnyStore) -> Option<Vec<String>> {
    let owners = store.all_owners().await.ok()?;
    Some(owners.into_iter().map(|(_, name)| name).collect())
}

async fn of_owner(store: &AnyStore, owner: &str, said: &Said) -> Option<Status> {
    let view = View::new(store, store.find_owner(owner).await.ok()??, owner);
    let numbers = view.newest_of_session(&said.session_id, EXCHANGES_MAX).await.ok()?;
    let links = view.links(numbers).await.ok()?;
    let newest = links.iter().max_by_key(|link| (link.at, link.exchange))?;
    let conversation = view.find_conversation(newest.conversation).await.ok()??;
    let of_main = links
        .iter()
        .filter(|link| link.kind() == LinkKind::Turn && link.agent == link.conversation)
        .max_by_key(|link| (link.at, link.exchange));
    let row = match of_main {
        Some(link) => view.find_row(link.exchange).await.ok()?,
        None => None,
    };
    let usage = row.and_then(|row| row.usage);
    let context_tokens = usage.map(|usage| usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens);
    let tokens = &conversation.tokens;
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    Some(Status {
        v: 1,
        cost_usd: Some(conversation.cost_usd),
        cache_share: share(tokens.cache_read_tokens, tokens.sent()),
        context_tokens,
        context_fill: context_tokens
            .zip(said.context_window.context_window_size)
            .and_then(|(part, whole)| share(part, whole)),
        conversation_id: Some(conversation.conversation_id),
        friendly_id: conversation.friendly_id,
    })
}

fn line(status: &Status, out: &Out) -> String {
    let Some(id) = &status.conversation_id else {
        return String::new();
    };
    let name = status.friendly_id.as_deref().unwrap_or(&id[..8]);
    let mut words = vec![out.name(&one_line(name))];
    words.extend(status.cost_usd.map(dollars));
    words.extend(status.cache_share.map(|share| format!("cache {:.0} %", share * 100.0)));
    words.extend(match (status.context_fill, status.context_tokens) {
        (Some(fill), _) => Some(format!("context {:.0} %", fill * 100.0)),
        (None, Some(tokens)) => Some(format!("context {}", short(tokens))),
        (None, None) => None,
    });
    words.join(" · ")
}

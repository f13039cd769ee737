//! `ropewalk retain`: what is old goes, as far as it is asked for.

use std::collections::HashSet;

use ropewalk_engine::forget::Counts;
use ropewalk_engine::view::{View, ViewError};
use ropewalk_store::Micros;
use ropewalk_store::Store as _;
use ropewalk_store::derived::{ConversationRow, Conversations};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::names::Names;

use super::PAGE;
use super::forget::summary;
use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::client::{Changer, Way};
use crate::changes::removal::{Removal, plan};
use crate::cli::{DropWhat, Retain};
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::print::time::parse;

/// Conversations that are dropped in one transaction: linking and recording go on in between.
const BATCH: usize = 64;

pub(crate) async fn run(context: &Context, arguments: &Retain) -> Result<(), Failure> {
    if arguments.older_than.is_none() && arguments.max_size.is_none() {
        return Err(Failure::new(Kind::Usage, "nobody says what is to be dropped")
            .hint("--older-than 90d, --max-size 10GB, or both"));
    }
    let Some(store) = context.read_now().await? else {
        say("nothing recorded yet, so there is nothing to drop");
        return Ok(());
    };
    let some = Some(store);
    let Some(view) = context.view(&some).await? else {
        return Ok(());
    };
    // A name that means nothing would keep nothing.
    for reference in &arguments.keep {
        view.resolve_root(reference).await?;
    }
    let now = jiff::Timestamp::now();
    let before = arguments.older_than.as_deref().map(|text| parse(text, now));
    let wanted = Wanted {
        before: before.transpose()?,
        max_size: arguments.max_size,
        project: arguments.project.as_deref(),
        keep_titled: arguments.keep_titled,
        keep: &arguments.keep,
    };
    let roots = chosen(&view, &wanted).await?;
    let mut counts = Counts::default();
    let owner = view.owner_name.clone();
    if arguments.dry_run {
        let removal = Removal::Conversations {
            roots,
            only_bodies: arguments.drop == DropWhat::Bodies,
        };
        counts = plan(&view, &removal).await?.counts;
    } else if !roots.is_empty() {
        let mut way = Way::open(context).await?;
        let mut changer = Changer::new(context, &mut way);
        counts = drop_conversations(&mut changer, &owner, &roots, arguments.drop).await?;
        changer.shrink().await?;
        let detail = serde_json::json!({"drop": arguments.drop.name(), "dropped": counts});
        audit::note(&context.config, "retain", Some(&owner), None, detail);
    }
    let mut out = Out::new();
    match context.json {
        true => out.json(&serde_json::json!({
            "v": 1, "owner": owner, "dry_run": arguments.dry_run, "drop": arguments.drop.name(), "dropped": counts,
        }))?,
        false => {
            let would = if arguments.dry_run { "would drop" } else { "dropped" };
            out.line(&format!("{would} {}", summary(&counts)))?;
        }
    }
    out.finish()
}

/// Which conversations go.
#[derive(Debug)]
pub(crate) struct Wanted<'w> {
    /// Those that did not go on since then.
    pub(crate) before: Option<Micros>,
    /// The oldest, until about so much is stored.
    pub(crate) max_size: Option<u64>,
    pub(crate) project: Option<&'w str>,
    pub(crate) keep_titled: bool,
    /// Conversations that stay, by their names. Of several owners only one has each.
    pub(crate) keep: &'w [String],
}

/// Drops conversations, by their roots, or what was said in them.
pub(crate) async fn drop_conversations(
    changer: &mut Changer<'_>,
    owner: &str,
    roots: &[i64],
    drop: DropWhat,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    for some in roots.chunks(BATCH) {
        let removal = Removal::Conversations {
            roots: some.to_vec(),
            only_bodies: drop == DropWhat::Bodies,
        };
        let removed = changer.remove(owner, removal).await?.counts;
        counts.conversations += removed.conversations;
        counts.exchanges += removed.exchanges;
        counts.holes += removed.holes;
        counts.bytes += removed.bytes;
    }
    Ok(counts)
}

/// The roots of the conversations that go, the oldest first.
pub(crate) async fn chosen(view: &View<'_, AnyStore>, wanted: &Wanted<'_>) -> Result<Vec<i64>, Failure> {
    let mut oldest_first = all(view).await?;
    oldest_first.reverse();
    let named = named(view, wanted.keep).await?;
    let mut kept = Vec::new();
    for row in oldest_first {
        if !named.contains(&row.root) && is_meant(view, wanted, &row).await? {
            kept.push(row);
        }
    }
    let figures = view.store.stats(view.owner).await?;
    let surplus = wanted.max_size.map(|most| figures.stored_bytes.saturating_sub(most));
    let mut freed = 0;
    let mut chosen = Vec::new();
    for row in kept {
        let is_old = wanted.before.is_some_and(|before| row.last_at < before);
        let is_surplus = surplus.is_some_and(|surplus| freed < surplus);
        if !is_old && !is_surplus {
            break;
        }
        if surplus.is_some() {
            // What it shares with others is counted with each, so this takes the share of what came.
            let came = bytes_of(view, &row).await?;
            let share = came as f64 / figures.bytes_in.max(1) as f64;
            freed += (share * figures.stored_bytes as f64) as u64;
        }
        chosen.push(row.root.0);
    }
    Ok(chosen)
}

/// The conversations of these names, as far as they are this owner's.
async fn named(view: &View<'_, AnyStore>, names: &[String]) -> Result<HashSet<ExchangeNumber>, Failure> {
    let mut roots = HashSet::new();
    for name in names {
        match view.resolve_root(name).await {
            Ok(root) => drop(roots.insert(root)),
            Err(ViewError::NotFound { .. } | ViewError::Forgotten { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(roots)
}

/// All conversations, newest first.
async fn all(view: &View<'_, AnyStore>) -> Result<Vec<ConversationRow>, Failure> {
    let mut all: Vec<ConversationRow> = Vec::new();
    loop {
        let before = all.last().map(|row| (row.last_at, row.root));
        let page = Conversations::Newest { before, limit: PAGE };
        let rows = view.store.conversations(view.owner, page).await?;
        if rows.is_empty() {
            return Ok(all);
        }
        all.extend(rows);
    }
}

/// Whether a conversation is of the project that was asked for, and not one to keep.
async fn is_meant(view: &View<'_, AnyStore>, wanted: &Wanted<'_>, row: &ConversationRow) -> Result<bool, Failure> {
    if let Some(project) = wanted.project {
        let root = view.find_row(row.root).await?;
        if root.and_then(|root| root.project).as_deref() != Some(project) {
            return Ok(false);
        }
    }
    if wanted.keep_titled {
        let names = view
            .store
            .names(view.owner, Names::OfConversations(vec![row.root]))
            .await?;
        return Ok(names.iter().all(|name| name.title.is_none()));
    }
    Ok(true)
}

async fn bytes_of(view: &View<'_, AnyStore>, row: &ConversationRow) -> Result<u64, Failure> {
    let mut sum = 0;
    let mut after: Option<(Micros, _)> = None;
    loop {
        let links = view.links_in(row.root, after).await?;
        let Some(last) = links.last() else { return Ok(sum) };
        after = Some((last.at, last.exchange));
        let rows = view.rows(links.iter().map(|link| link.exchange).collect()).await?;
        // What was dropped before frees nothing now.
        let bytes = rows.iter().map(|row| {
            let (request, response) = row.lengths_left();
            request.unwrap_or_default() + response.unwrap_or_default()
        });
        sum += bytes.sum::<u64>();
    }
}

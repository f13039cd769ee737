//! News of a store, for `log --follow` and `tree --live`.
//!
//! The store is looked at again and again, beside whoever writes it: that works with a server and without one, here and on
//! PostgreSQL, and costs one small question while nothing happens.

use std::time::{Duration, Instant};

use ropewalk_engine::view::{Directory, View};
use ropewalk_store::Store as _;
use ropewalk_store::facts::{Position, Status};

use super::log::Lister;
use crate::any_store::AnyStore;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::say;

/// Between two looks at the store.
const PAUSE: Duration = Duration::from_millis(250);

/// Longer than this it takes nobody to make a store.
const MAKING_MAX: Duration = Duration::from_secs(10);

/// Exchanges that are looked at at once.
const PAGE: usize = 64;

/// Exchanges that are shown before the news, where nobody says how many.
pub(super) const SHOWN_FIRST: usize = 10;

/// Completions take positions, too: so many are looked at for each exchange that is shown first.
const POSITIONS_EACH: i64 = 4;

/// The store, as soon as there is one.
pub(super) async fn store(context: &Context) -> Result<AnyStore, Failure> {
    if context.as_of.is_some() {
        return Err(Failure::new(Kind::Usage, "there is no news of the past").hint("leave --as-of out"));
    }
    let mut is_told = false;
    let mut failing_since: Option<Instant> = None;
    loop {
        match open(context).await {
            Ok(Some(store)) => return Ok(store),
            Ok(None) => failing_since = None,
            // Whoever makes the store may not be done.
            Err(failure) if failing_since.get_or_insert_with(Instant::now).elapsed() > MAKING_MAX => {
                return Err(failure);
            }
            Err(_) => {}
        }
        if !is_told {
            say("nothing recorded yet; waiting");
            is_told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn open(context: &Context) -> Result<Option<AnyStore>, Failure> {
    let Some(store) = context.read_now().await? else {
        return Ok(None);
    };
    // Looked for here, so that nothing is said about it: whoever follows is told once.
    let is_there = !store.owners(None).await?.is_empty();
    Ok(is_there.then_some(store))
}

/// The newest exchanges, then every one that ends, until somebody has had enough.
pub(super) async fn exchanges(log: &mut Lister<'_>, count: usize) -> Result<(), Failure> {
    let newest = log.view.store.link_state(log.view.owner).await?.newest;
    let shown = i64::try_from(count).unwrap_or(i64::MAX);
    let first = newest.0.saturating_sub(shown.saturating_mul(POSITIONS_EACH)).max(0);
    let mut position = Position(first);
    // What there is goes through the same gate as what comes, so nothing is shown twice and nothing is missed in between.
    let mut earlier = Vec::new();
    while position < newest {
        let (page, last) = ended_after(log, position).await?;
        earlier.extend(page);
        if last == position {
            break;
        }
        position = last;
    }
    let surplus = earlier.len().saturating_sub(count);
    for exchange in &earlier[surplus..] {
        log.exchange(exchange)?;
    }
    loop {
        log.out.flush()?;
        let (page, last) = ended_after(log, position).await?;
        page.iter().try_for_each(|exchange| log.exchange(exchange))?;
        if last == position {
            tokio::time::sleep(PAUSE).await;
        }
        position = last;
    }
}

async fn ended_after(
    log: &Lister<'_>,
    after: Position,
) -> Result<(Vec<ropewalk_engine::view::ExchangeView>, Position), Failure> {
    let state = log.view.store.link_state(log.view.owner).await?;
    let (mut rows, last) = log.view.settled_after(&state, after, PAGE).await?;
    rows.retain(|row| row.status != Status::Pending && log.selected.is_in_time(row.at));
    let views = log.view.exchanges(&rows, &mut Directory::default()).await?;
    let chosen = rows
        .iter()
        .zip(views)
        .filter(|(row, exchange)| log.selected.has(row.number, exchange));
    Ok((chosen.map(|(_, exchange)| exchange).collect(), last))
}

/// Waits until something was linked that was not when `seen` was taken.
pub(super) async fn changed(view: &View<'_, AnyStore>, seen: &mut Option<(u64, Position)>) -> Result<(), Failure> {
    loop {
        let state = view.store.link_state(view.owner).await?;
        let now = Some((state.version, state.linked_to.min(state.named_to)));
        if *seen != now {
            *seen = now;
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

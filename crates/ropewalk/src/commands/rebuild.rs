//! `ropewalk rebuild`: everything linked again.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::Recorder;
use ropewalk_store::{Micros, Store as _};

use crate::cli::Rebuild;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::counted;
use crate::print::out::{Out, say};

pub(crate) async fn run(context: &Context, arguments: &Rebuild) -> Result<(), Failure> {
    // Only a reader finds out that there is nothing, without making a store.
    if context.read().await?.is_none() {
        say("nothing recorded yet, so there is nothing to link");
        return Ok(());
    }
    let store = context.write().await?;
    let Some(owner) = context.owner_in(&store).await? else {
        say("nothing recorded yet, so there is nothing to link");
        return Ok(());
    };
    if store.find_owner(&owner).await?.is_none() {
        say(&format!("nothing is recorded for owner {owner}"));
        return Ok(());
    }
    let recorder = Recorder::new(&store, &owner, &BundledPrices).await?;
    let config = &context.config;
    let mut recorder = recorder.with_settings(config.linking, config.spawn_tools.clone());
    let is_dry = arguments.dry_run || context.as_of.is_some();
    let progress = match is_dry {
        true => recorder.try_rebuild(context.as_of.unwrap_or(Micros::MAX)).await?,
        false => recorder.rebuild().await?,
    };
    let (linked, moved) = (progress.linked as u64, progress.moved.len() as u64);
    let mut out = Out::new();
    if context.json {
        let counts = serde_json::json!({"v": 1, "owner": owner, "linked": linked, "moved": moved, "dry_run": is_dry});
        out.json(&counts)?;
    } else {
        let moved_word = if is_dry { "would move" } else { "moved" };
        let linked = counted(linked, "exchange", "exchanges");
        out.line(&format!("{linked} linked, {moved} {moved_word}"))?;
    }
    out.finish()
}

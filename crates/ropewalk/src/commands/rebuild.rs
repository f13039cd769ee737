//! `ropewalk rebuild`: everything linked again.

use ropewalk_engine::link::Linker;
use ropewalk_engine::project::Projector;
use ropewalk_store::facts::OwnerId;
use ropewalk_store::{Micros, Store as _};

use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::client::{self, Way};
use crate::changes::{Linked, Rebuilt, rebuild};
use crate::cli::Rebuild;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::counted;
use crate::print::out::{Out, say};

/// What a rebuild would change. Links are those of the keys that there are.
async fn tried(
    context: &Context,
    store: &AnyStore,
    owner: &str,
    id: OwnerId,
    projections: bool,
) -> Result<Rebuilt, Failure> {
    let projections = match projections {
        true => {
            let projector = Projector {
                store,
                owner: id,
                prices: &*context.config.prices,
                spawn_tools: &context.config.spawn_tools,
            };
            let found = projector.run(true).await?;
            Some((found.old, found.changed))
        }
        false => None,
    };
    let linker = Linker::new(store, id, owner, context.config.linking);
    let rebuilt = linker.try_rebuild(context.as_of.unwrap_or(Micros::MAX)).await?;
    Ok(Rebuilt {
        links: rebuilt.progress.into(),
        projections,
    })
}

pub(crate) async fn run(context: &Context, arguments: &Rebuild) -> Result<(), Failure> {
    let is_dry = arguments.dry_run || context.as_of.is_some();
    // Only a reader finds out that there is nothing, without making a store; and looking changes nothing.
    let Some(store) = context.read_now().await? else {
        say("nothing recorded yet, so there is nothing to link");
        return Ok(());
    };
    let Some(owner) = context.owner_in(&store).await? else {
        say("nothing recorded yet, so there is nothing to link");
        return Ok(());
    };
    let Some(id) = store.find_owner(&owner).await? else {
        say(&format!("nothing is recorded for owner {owner}"));
        return Ok(());
    };
    let rebuilt = match is_dry {
        true => tried(context, &store, &owner, id, arguments.projections).await?,
        false => {
            drop(store);
            match Way::open(context).await? {
                Way::Own(store) => rebuild(&mut context.recorders(&store), &owner, arguments.projections).await?,
                Way::Server(mut server) => client::rebuild(&mut server, &owner, arguments.projections).await?,
            }
        }
    };
    let Linked { linked, moved } = rebuilt.links;
    if !is_dry {
        let detail = serde_json::json!({"linked": linked, "moved": moved, "projections": arguments.projections});
        audit::note(&context.config, "rebuild", Some(&owner), None, detail);
    }
    let mut out = Out::new();
    if context.json {
        let mut counts =
            serde_json::json!({"v": 1, "owner": owner, "linked": linked, "moved": moved, "dry_run": is_dry});
        if let Some((old, changed)) = rebuilt.projections {
            counts["projections"] = serde_json::json!({"old": old, "changed": changed});
        }
        out.json(&counts)?;
    } else {
        if let Some((old, changed)) = rebuilt.projections {
            let changed_word = if is_dry { "would change" } else { "changed" };
            let old = counted(old, "exchange", "exchanges");
            out.line(&format!(
                "hashes of {old} made by an older version, {changed} {changed_word}"
            ))?;
        }
        let moved_word = if is_dry { "would move" } else { "moved" };
        let linked = counted(linked, "exchange", "exchanges");
        out.line(&format!("{linked} linked, {moved} {moved_word}"))?;
    }
    out.finish()
}

//! `ropewalk rebuild`: everything linked again.

use ropewalk_engine::link::Linker;
use ropewalk_store::{Micros, Store as _};

use crate::changes::Linked;
use crate::changes::client::{self, Way};
use crate::cli::Rebuild;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::counted;
use crate::print::out::{Out, say};

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
    let Linked { linked, moved } = match is_dry {
        true => {
            let linker = Linker::new(&store, id, &owner, context.config.linking);
            linker
                .try_rebuild(context.as_of.unwrap_or(Micros::MAX))
                .await?
                .progress
                .into()
        }
        false => {
            drop(store);
            match Way::open(context).await? {
                Way::Own(store) => context.recorders(&store).of(&owner).await?.rebuild().await?.into(),
                Way::Server(mut server) => client::rebuild(&mut server, &owner).await?,
            }
        }
    };
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

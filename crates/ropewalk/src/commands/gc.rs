//! `ropewalk gc`: room that nobody uses.

use crate::changes::client::{Changer, Way};
use crate::changes::removal::{Removal, Went};
use crate::cli::Gc;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{bytes, counted};
use crate::print::out::{Out, say};

pub(crate) async fn run(context: &Context, arguments: &Gc) -> Result<(), Failure> {
    let owners = {
        let Some(store) = context.read_now().await? else {
            say("nothing recorded yet, so there is nothing to give back");
            return Ok(());
        };
        match context.config.asked_owner() {
            Some(owner) => vec![owner.to_owned()],
            None => store.all_owners().await?.into_iter().map(|(_, name)| name).collect(),
        }
    };
    let mut way = Way::open(context).await?;
    let mut changer = Changer::new(context, &mut way);
    let mut out = Out::new();
    for owner in &owners {
        let went = match arguments.dry_run {
            true => changer.count_unused(owner).await?,
            false => changer.remove(owner, Removal::Unused).await?.went,
        };
        told(context, owner, &went, arguments.dry_run, &mut out)?;
    }
    if !arguments.dry_run {
        let shrunk = changer.shrink().await?;
        let freed = shrunk.bytes_before.saturating_sub(shrunk.bytes_after);
        match context.json {
            true => out.json(&serde_json::json!({"v": 1, "bytes_freed": freed, "store": shrunk}))?,
            false => out.line(&format!(
                "{} given back, {} in use",
                bytes(freed),
                bytes(shrunk.bytes_after)
            ))?,
        }
    }
    out.finish()
}

fn told(context: &Context, owner: &str, went: &Went, is_dry: bool, out: &mut Out) -> Result<(), Failure> {
    if context.json {
        return out.json(&serde_json::json!({"v": 1, "owner": owner, "dry_run": is_dry, "unused": went}));
    }
    if went.is_nothing() {
        return out.line(&format!("{}: nothing that nobody uses", out.name(owner)));
    }
    let would = if is_dry { "would go" } else { "gone" };
    out.line(&format!(
        "{}: {} ({}), {}, {} {would}",
        out.name(owner),
        counted(went.parts, "part", "parts"),
        bytes(went.part_bytes),
        counted(went.chunks, "piece of a recipe", "pieces of recipes"),
        counted(went.nodes, "node", "nodes"),
    ))
}

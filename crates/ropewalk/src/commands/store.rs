//! `ropewalk store`: which version a store has, who may use it, and how it is brought further.

use std::path::Path;

use ropewalk_proxy::recorder::REJECTED_NAME;
use ropewalk_store::store::Versions;
use ropewalk_store::{Postgres, Sqlite, StoreError, postgres};
use serde_json::json;

use super::drain::{Drained, drain_files, has_journal, locked};
use crate::any_store::AnyStore;
use crate::audit;
use crate::cli::{Store, StoreVerb};
use crate::config::Place;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::counted;
use crate::print::out::{Out, say};
use crate::print::text::one_line;

pub(crate) async fn run(context: &Context, arguments: &Store) -> Result<(), Failure> {
    match &arguments.verb {
        StoreVerb::Status {} => status(context).await,
        StoreVerb::Migrate {} => migrate(context).await,
        StoreVerb::Drain { folder } => drain_folder(context, folder).await,
        StoreVerb::Distribute { dry_run } => distribute(context, *dry_run).await,
    }
}

/// Also of a store that this program can do nothing with. `None` where nothing was recorded.
async fn versions(context: &Context) -> Result<Option<Versions>, Failure> {
    Ok(match &context.config.place {
        Place::Folder(folder) => Sqlite::versions(folder)?,
        Place::Postgres(url) => {
            let options = postgres::Options {
                read_only: true,
                ..postgres::Options::default()
            };
            Postgres::versions(url, options).await?
        }
    })
}

fn engine(place: &Place) -> &'static str {
    match place {
        Place::Folder(_) => "sqlite",
        Place::Postgres(_) => "postgresql",
    }
}

async fn status(context: &Context) -> Result<(), Failure> {
    let engine = engine(&context.config.place);
    let found = versions(context).await?;
    let mut out = Out::new();
    if context.json {
        let mut status = json!({"v": 1, "engine": engine, "schema": null});
        if let Some(found) = found {
            status["schema"] = json!({
                "version": found.version, "known": found.known, "min_reader": found.min_reader,
                "min_writer": found.min_writer, "can_read": found.can_read(), "can_write": found.can_write(),
            });
        }
        out.json(&status)?;
        return out.finish();
    }
    let Some(found) = found else {
        out.line(&format!("{engine}: nothing recorded yet"))?;
        return out.finish();
    };
    out.line(&format!(
        "{engine}: schema {}; this program knows {}",
        found.version, found.known
    ))?;
    out.line(&format!(
        "programs that know {} or more may read it, {} or more may write it",
        found.min_reader, found.min_writer
    ))?;
    out.line(
        match (found.can_read(), found.can_write(), found.version < found.known) {
            (_, true, true) => "`ropewalk store migrate` brings it up to date, as does the next command that writes",
            (_, true, false) => "this program may read and write it",
            (true, false, _) => "this program may read it; to write it, update ropewalk",
            (false, false, _) => "this program may not even read it; update ropewalk",
        },
    )?;
    out.finish()
}

async fn migrate(context: &Context) -> Result<(), Failure> {
    let Some(before) = versions(context).await? else {
        say("nothing recorded yet, so there is nothing to bring up to date");
        return Ok(());
    };
    match context.open_to_write().await {
        Ok(store) => drop(store),
        // Whoever writes it brought it up to date when it opened it.
        Err(StoreError::Locked) if before.version >= before.known => {}
        Err(error) => return Err(error.into()),
    }
    let after = versions(context).await?.unwrap_or(before);
    if after.version != before.version {
        let detail = json!({"from": before.version, "to": after.version});
        audit::note(&context.config, "store migrate", None, None, detail);
    }
    let mut out = Out::new();
    match (context.json, after.version == before.version) {
        (true, _) => out.json(&json!({"v": 1, "from": before.version, "to": after.version}))?,
        (false, true) => out.line(&format!("schema {} is up to date", after.version))?,
        (false, false) => out.line(&format!("schema {} became {}", before.version, after.version))?,
    }
    out.finish()
}

/// The journal of a host that is gone: its disk is mounted here, or was copied.
async fn drain_folder(context: &Context, folder: &Path) -> Result<(), Failure> {
    let inside = folder.join("journal");
    let journal = if inside.is_dir() { &*inside } else { folder };
    if !journal.is_dir() {
        let message = format!("there is no folder {}", journal.display());
        return Err(
            Failure::new(Kind::NotFound, message).hint("name the data folder of the dead server, or its journal")
        );
    }
    // Nothing is made in a folder that is no journal.
    let drained = match has_journal(journal) {
        true => {
            let files = locked(journal)?;
            let store = context.open_to_write().await?;
            drain_files(&context.config, files, &store).await?
        }
        false => Drained::default(),
    };
    if drained != Drained::default() {
        audit::note(&context.config, "store drain", None, None, json!(drained));
    }
    let mut out = Out::new();
    match context.json {
        true => out.json(&json!({"v": 1, "folder": journal, "drained": drained}))?,
        false => {
            let mut said = vec![counted(drained.exchanges, "new exchange", "new exchanges")];
            if drained.damaged > 0 {
                said.push(counted(drained.damaged, "damaged record", "damaged records"));
            }
            if drained.rejected > 0 {
                said.push(format!("{} put aside in {REJECTED_NAME} there", drained.rejected));
            }
            out.line(&format!(
                "{}: {}",
                one_line(&journal.to_string_lossy()),
                said.join(", ")
            ))?;
        }
    }
    out.finish()
}

async fn distribute(context: &Context, is_dry: bool) -> Result<(), Failure> {
    let AnyStore::Postgres(store) = context.open_to_write().await? else {
        return Err(
            Failure::new(Kind::Usage, "only PostgreSQL can be spread over several servers")
                .hint("name a database: --store postgres://…"),
        );
    };
    let statements = store.distribute(is_dry).await?;
    if !is_dry && !statements.is_empty() {
        audit::note(
            &context.config,
            "store distribute",
            None,
            None,
            json!({"tables": statements.len()}),
        );
    }
    let mut out = Out::new();
    for statement in &statements {
        match context.json {
            true => out.json(&json!({"v": 1, "statement": statement, "dry_run": is_dry}))?,
            false => out.line(&format!("{statement};"))?,
        }
    }
    if statements.is_empty() {
        say("every table is spread by owner already");
    }
    out.finish()
}

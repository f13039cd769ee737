//! `ropewalk forget`: a conversation, what an exchange brought, or a message, for good.

use std::fs;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ropewalk_engine::forget::Counts;
use ropewalk_proxy::recorder::REJECTED_NAME;
use ropewalk_store::Store as _;

use super::drain::drain;
use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::client::{Changer, Way};
use crate::changes::removal::{Removal, Removed, Shrunk, plan};
use crate::cli::Forget;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::{bytes, counted};
use crate::print::out::{Out, say};

pub(crate) async fn run(context: &Context, arguments: &Forget) -> Result<(), Failure> {
    let at = jiff::Timestamp::now().as_microsecond();
    let removal = Removal::Named {
        references: arguments.references.clone(),
        at,
    };
    // Only a reader finds out that there is nothing, without making a store; and looking changes nothing.
    let (owner, counts) = {
        let store = context.read().await?;
        let view = context.view_to_find(&store).await?;
        let counts = plan(&view, &removal).await?.counts;
        (view.owner_name, counts)
    };
    if arguments.dry_run {
        return told(context, &owner, &counts, None);
    }
    if !arguments.yes {
        confirmed(&counts)?;
    }
    let mut way = Way::open(context).await?;
    let own = match &way {
        Way::Own(store) => Some(store.clone()),
        Way::Server(_) => None,
    };
    let journal = context.config.serving.journal.folder(context.config.data_folder()?);
    if let Some(store) = &own {
        // What a server left there would be read again when the next one starts. One that records to a database keeps its own.
        if let Err(failure) = drain(&context.config, &journal, store).await {
            say(&format!("the journal stays as it is: {}", failure.message()));
        }
    }
    let mut changer = Changer::new(context, &mut way);
    let removed = changer.remove(&owner, removal).await?;
    let shrunk = changer.shrink().await?;
    if let Some(store) = &own {
        forget_rejected(store, &owner, &journal.join(REJECTED_NAME)).await?;
    }
    if shrunk.leaves_copies {
        say(
            "somebody still reads an older state of the store, so its files hold it: run `ropewalk gc` when they are done",
        );
    }
    // Not what it was called: names are made of what was said.
    let detail = serde_json::json!({"forgotten": removed.counts});
    audit::note(&context.config, "forget", Some(&owner), None, detail);
    told(context, &owner, &counts, Some((&removed, &shrunk)))
}

/// Exchanges that were put aside because the store would not take them: those that are forgotten go.
async fn forget_rejected(store: &AnyStore, owner: &str, file: &Path) -> Result<(), Failure> {
    let (Ok(text), Some(id)) = (fs::read_to_string(file), store.find_owner(owner).await?) else {
        return Ok(());
    };
    let mut left = String::new();
    for line in text.lines() {
        let read: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let is_own = read["owner"].as_str().is_none_or(|of| of == owner);
        let names = vec![read["id"].as_str().unwrap_or_default().to_owned()];
        let is_forgotten = is_own && store.forgotten(id, names).await?.iter().any(Option::is_some);
        if !is_forgotten {
            left.push_str(line);
            left.push('\n');
        }
    }
    if left.len() == text.len() {
        return Ok(());
    }
    let cannot =
        |error: std::io::Error| Failure::new(Kind::Internal, format!("cannot write {}: {error}", file.display()));
    let draft = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut written = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&draft)
        .map_err(cannot)?;
    written
        .write_all(left.as_bytes())
        .and_then(|()| written.sync_all())
        .map_err(cannot)?;
    fs::rename(&draft, file).map_err(cannot)
}

/// Asks whoever sits there; whoever does not has to say --yes.
fn confirmed(counts: &Counts) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            Kind::Usage,
            "forgetting cannot be undone, and nobody is here to be asked",
        )
        .hint("look with --dry-run, then say --yes"));
    }
    say(&format!("forget {}? This cannot be undone. [y/N]", summary(counts)));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
        true => Ok(()),
        false => Err(Failure::new(Kind::NotFound, "nothing was forgotten").hint("`y` does it; --yes does not ask")),
    }
}

/// What it comes to, in words.
pub(crate) fn summary(counts: &Counts) -> String {
    let mut said = Vec::new();
    for (count, one, many) in [
        (counts.conversations, "conversation", "conversations"),
        (counts.exchanges, "exchange", "exchanges"),
        (
            counts.holes,
            "exchange without what it said",
            "exchanges without what they said",
        ),
        (
            counts.rewritten,
            "request that repeats it rewritten",
            "requests that repeat it rewritten",
        ),
    ] {
        if count > 0 {
            said.push(counted(count, one, many));
        }
    }
    match said.is_empty() {
        true => "nothing".to_owned(),
        false => format!("{}, {} of bodies", said.join(", "), bytes(counts.bytes)),
    }
}

fn told(context: &Context, owner: &str, counts: &Counts, done: Option<(&Removed, &Shrunk)>) -> Result<(), Failure> {
    let mut out = Out::new();
    if context.json {
        let mut line = serde_json::json!({"v": 1, "owner": owner, "dry_run": done.is_none(), "forgets": counts});
        if let Some((removed, shrunk)) = done {
            line["removed"] = serde_json::json!(removed.went);
            line["store"] = serde_json::json!(shrunk);
        }
        out.json(&line)?;
        return out.finish();
    }
    match done {
        None => out.line(&format!("would forget {}", summary(counts)))?,
        Some((removed, _)) => {
            out.line(&format!("forgot {}", summary(counts)))?;
            let went = &removed.went;
            let parts = counted(went.parts, "part", "parts");
            let names = counted(went.names, "name", "names");
            out.line(&out.faint(&format!(
                "{parts} ({}), {names}, {} and {} are gone from the store",
                bytes(went.part_bytes),
                counted(went.texts, "text of search", "texts of search"),
                counted(went.records, "log record", "log records"),
            )))?;
        }
    }
    out.finish()
}

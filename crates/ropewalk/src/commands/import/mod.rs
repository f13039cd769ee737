//! `ropewalk import`: what people already have, from files.
//!
//! Files are read and prepared on as many threads as there are processors ([`worker`]), recorded in batches as they come
//! ([`intake`]), and linked whenever many have come together: linking looks at facts in their own order, so the result is that of
//! one long import. Memory is bounded by the batches on their way and by what two files say. [`watch`] goes on from there.

mod files;
mod follower;
mod intake;
mod summary;
mod watch;
mod worker;

use std::path::PathBuf;

use serde_json::json;

use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::client::{Changer, Way};
use crate::cli::{Import, ImportFormat};
use crate::config::DEFAULT_OWNER;
use crate::context::Context;
use crate::failure::Failure;
use files::Job;
use intake::Intake;
use summary::Progress;
use watch::Watch;
use worker::Shared;

pub(crate) async fn run(context: &Context, arguments: &Import) -> Result<(), Failure> {
    let mut way = Way::open(context).await?;
    let is_own = matches!(way, Way::Own(_));
    let shared = Shared::new(context, arguments, owner(context), is_own)?;
    let mut intake = Intake::new(context, Changer::new(context, &mut way), arguments, owner(context));
    let watch = arguments.watch.then(|| Watch::start(&arguments.paths)).transpose()?;
    let found = files::find(arguments, &mut intake.summary)?;
    let jobs = intake.changed(found).await?;
    let progress = Progress::new(&jobs);
    intake.read(&shared, jobs, &progress).await?;
    intake.finish().await?;
    if let Some(session) = &arguments.replace {
        let owner = owner(context);
        audit::note(
            &context.config,
            "import --replace",
            Some(&owner),
            Some(session),
            json!({}),
        );
    }
    let mut summary = std::mem::take(&mut intake.summary);
    progress.say("indexing for search");
    intake.index().await?;
    progress.finish();
    match watch {
        Some(watch) => {
            summary.tell(context)?;
            watch::follow(watch, &mut intake, &shared, arguments).await
        }
        None => summary.report(context),
    }
}

/// Reads the logs of a session again and puts what they say in the place of its records, at once. `false` where none of these files is
/// a log of it.
pub(crate) async fn read_again(
    context: &Context,
    store: &AnyStore,
    owner: &str,
    session: &str,
    files: Vec<PathBuf>,
) -> Result<bool, Failure> {
    let arguments = Import {
        paths: files,
        format: ImportFormat::Auto,
        watch: false,
        replace: Some(session.to_owned()),
    };
    let shared = Shared::new(context, &arguments, owner.to_owned(), true)?;
    let changer = Changer::Own(context.recorders(store));
    let mut intake = Intake::new(context, changer, &arguments, owner.to_owned());
    let Ok(found) = files::find(&arguments, &mut intake.summary) else {
        return Ok(false);
    };
    let jobs = intake.changed(found).await?;
    let progress = Progress::new(&jobs);
    intake.read(&shared, jobs, &progress).await?;
    progress.finish();
    intake.finish().await?;
    Ok(true)
}

/// Whose the logs are; exchanges may say it themselves.
fn owner(context: &Context) -> String {
    context.config.asked_owner().unwrap_or(DEFAULT_OWNER).to_owned()
}

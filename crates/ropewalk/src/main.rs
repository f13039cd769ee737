//! The command line: arguments in, data on stdout, talk on stderr, an exit code that means something.
//!
//! `cli` has the arguments, `config` where they come from, `context` the store and its owner, `changes` how a store is changed
//! that a server writes, `audit` who changed what, `client` how a server on this machine is asked, `commands` one module per verb,
//! `print` how things look, `secret` the key of this installation, `failure` what went wrong, `usage` what
//! is wrong with a command line.

mod any_store;
mod audit;
mod changes;
mod cli;
mod client;
mod commands;
mod config;
mod context;
mod failure;
mod print;
mod secret;
mod usage;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Arguments, Verb};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Kind};

/// Many small, short-lived allocations: its thread-local free lists beat the system's here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::report(&error),
    };
    print::out::choose(arguments.global.color);
    let outcome = match &arguments.verb {
        Verb::Hash(hash) => commands::hash::run(hash),
        Verb::Config(config) => commands::config::run(&arguments.global, config),
        Verb::Completions(completions) => commands::completions::completions(completions),
        Verb::Man(man) => commands::completions::man(man),
        Verb::Statusline(_) => commands::statusline::run(&arguments.global),
        verb => run(verb, &arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(arguments.global.json),
    }
}

/// What a server has to say goes to stderr; how much of it, `ROPEWALK_LOG` says (`debug`, `ropewalk_proxy=trace`).
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ROPEWALK_LOG");
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| "warn,rmcp=error".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}

fn run(verb: &Verb, arguments: &Arguments) -> Result<(), Failure> {
    if matches!(
        verb,
        Verb::Serve(_) | Verb::Run(_) | Verb::Demo(_) | Verb::Mcp(_) | Verb::Replay(_) | Verb::Bisect(_)
    ) {
        log_to_stderr();
    }
    let as_of = arguments.global.as_of.as_ref();
    if as_of.is_some()
        && matches!(
            verb,
            Verb::Serve(_)
                | Verb::Run(_)
                | Verb::Demo(_)
                | Verb::Import(_)
                | Verb::Export(_)
                | Verb::Fsck(_)
                | Verb::Forget(_)
                | Verb::Retain(_)
                | Verb::Gc(_)
                | Verb::Backup(_)
                | Verb::Restore(_)
                | Verb::Title(_)
                | Verb::Doctor(_)
                | Verb::Store(_)
                | Verb::Audit(_)
                | Verb::Mcp(_)
                | Verb::Replay(_)
                | Verb::Bisect(_)
        )
    {
        let failure = Failure::new(Kind::Usage, "`--as-of` is for verbs that show something");
        return Err(failure.hint(
            "log, show, tree, diff, explain, blame, resolve, search, spread, suggest, templates, match, stats and rebuild take it",
        ));
    }
    let context = Context {
        config: Config::load(&arguments.global)?,
        json: arguments.global.json,
        as_of: as_of
            .map(|text| print::time::parse(text, jiff::Timestamp::now()))
            .transpose()?,
        is_whole: true,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::new(Kind::Internal, format!("cannot start: {error}")))?;
    runtime.block_on(async {
        match verb {
            Verb::Serve(serve) => commands::serve::run(&context, serve).await,
            Verb::Run(run) => commands::run::run(&context, run).await,
            Verb::Demo(demo) => commands::demo::run(&context, demo).await,
            Verb::Import(import) => commands::import::run(&context, import).await,
            Verb::Export(export) => commands::export::run(&context, export).await,
            Verb::Log(log) => commands::log::run(&context, log).await,
            Verb::Show(show) => commands::show::run(&context, show).await,
            Verb::Tree(tree) => commands::tree::run(&context, tree).await,
            Verb::Diff(diff) => commands::diff::run(&context, diff).await,
            Verb::Explain(explain) => commands::explain::run(&context, explain).await,
            Verb::Blame(blame) => commands::blame::run(&context, blame).await,
            Verb::Resolve(resolve) => commands::resolve::run(&context, resolve).await,
            Verb::Title(title) => commands::title::run(&context, title).await,
            Verb::Search(search) => commands::search::run(&context, search).await,
            Verb::Spread(spread) => commands::spread::run(&context, spread).await,
            Verb::Suggest(suggest) => commands::suggest::run(&context, suggest).await,
            Verb::Templates(templates) => commands::templates::run(&context, templates).await,
            Verb::Match(matched) => commands::matching::run(&context, matched).await,
            Verb::Replay(replay) => commands::replay::run(&context, replay).await,
            Verb::Bisect(bisect) => commands::bisect::run(&context, bisect).await,
            Verb::Rebuild(rebuild) => commands::rebuild::run(&context, rebuild).await,
            Verb::Stats(arguments) => commands::stats::run(&context, arguments).await,
            Verb::Fsck(fsck) => commands::fsck::run(&context, fsck).await,
            Verb::Forget(forget) => commands::forget::run(&context, forget).await,
            Verb::Retain(retain) => commands::retain::run(&context, retain).await,
            Verb::Gc(gc) => commands::gc::run(&context, gc).await,
            Verb::Backup(backup) => commands::backup::run(&context, backup).await,
            Verb::Restore(restore) => commands::restore::run(&context, restore).await,
            Verb::Mcp(_) => commands::mcp::run(context).await,
            Verb::Doctor(doctor) => commands::doctor::run(&context, doctor).await,
            Verb::Store(store) => commands::store::run(&context, store).await,
            Verb::Audit(audit) => commands::audit::run(&context, audit),
            // Those that need neither a store nor a configuration ran before.
            Verb::Hash(_) | Verb::Config(_) | Verb::Completions(_) | Verb::Man(_) | Verb::Statusline(_) => Ok(()),
        }
    })
}

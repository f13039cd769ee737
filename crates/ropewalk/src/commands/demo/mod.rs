//! `ropewalk demo`: everything there is to see, without a key and without a network.
//!
//! Real clients' requests go through a real proxy to a scripted provider on this machine. Read [`script`] first: it is the
//! story. [`claude`] and [`openai`] are the clients that tell it, [`upstream`] is the provider,
//! with [`answers`] to what it is asked in the [`formats`] of three APIs.
//!
//! Invariants: nothing leaves this machine; what the provider says depends on what it is asked, never on a clock or on who came
//! first; the recordings of others are not touched.

mod answers;
mod claude;
mod formats;
mod openai;
mod script;
mod upstream;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ropewalk_store::sqlite;
use serde_json::json;

use super::serve::Server;
use super::{log, resolve, tree};
use crate::cli::{Demo, Log, Resolve, Serve, Tree};
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::secret;
use script::Told;
use upstream::Upstream;

pub(crate) async fn run(context: &Context, arguments: &Demo) -> Result<(), Failure> {
    let folder = folder_of_its_own(&context.config)?;
    let own = Context {
        config: context.config.for_demonstration(&folder),
        json: context.json,
        as_of: None,
        is_whole: false,
    };
    let upstream = Upstream::start(Duration::from_millis(arguments.pace)).await?;
    let anywhere = Serve {
        listen: Some(([127, 0, 0, 1], 0).into()),
        upstreams: ["anthropic", "openai"]
            .map(|name| (name.to_owned(), upstream.url()))
            .into(),
        ..Serve::default()
    };
    let server = Server::start(&own, &anywhere).await?;
    say(&format!(
        "a proxy listens on {}, a scripted provider behind it",
        server.url()
    ));
    let token = secret::token(&folder)?;
    let told = script::tell(server.address(), &token).await;
    server.stop().await;
    upstream.stop();
    let told = told?;
    match context.json {
        true => print_json(&folder, &told),
        false => show(&own, &folder, &told).await,
    }
}

/// The folder that was named, if nothing is recorded there; else a new one that only this user can read.
fn folder_of_its_own(config: &Config) -> Result<PathBuf, Failure> {
    if config.asked_store().is_some() {
        return Err(
            Failure::new(Kind::Usage, "the demonstration records to a folder, not to a database")
                .hint("leave --store and ROPEWALK_STORE out"),
        );
    }
    let Some(folder) = config.asked_data() else {
        let folder = std::env::temp_dir().join(format!("ropewalk-demo-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        return made.map(|()| folder.clone()).map_err(|error| {
            Failure::new(
                Kind::Configuration,
                format!("cannot make {}: {error}", folder.display()),
            )
            .hint("name a folder: --data DIR")
        });
    };
    if folder.join(sqlite::FILE_NAME).exists() {
        return Err(Failure::new(
            Kind::Usage,
            format!(
                "{} has recordings already, and the demonstration adds none to them",
                folder.display()
            ),
        )
        .hint("leave --data and ROPEWALK_DATA out for a folder of its own, or name an empty one"));
    }
    Ok(folder.to_owned())
}

/// What to look at, and with which words.
fn commands(folder: &Path, told: &Told) -> [(String, &'static str); 8] {
    let command = |rest: &str| format!("ropewalk --data {} {rest}", folder.display());
    [
        (command("log --graph"), "conversations with their branches"),
        (command("tree"), "who started whom, with tokens and cost"),
        (command("search leap year"), "words in what anybody said"),
        (
            command(&format!("explain {}", told.continued)),
            "how a compaction was recognised",
        ),
        (command(&format!("show {}", told.continued)), "what was said there"),
        (
            command(&format!("resolve {}", told.reference)),
            "what a reference comes to",
        ),
        (
            command(&format!("show {} --raw sent", told.quoting)),
            "what the provider got of it",
        ),
        (command("stats"), "sums, and what reuse has saved"),
    ]
}

fn print_json(folder: &Path, told: &Told) -> Result<(), Failure> {
    let mut out = Out::new();
    let commands = commands(folder, told).map(|(command, _)| command);
    out.json(&json!({"v": 1, "data": folder, "exchanges": told.exchanges, "commands": commands}))?;
    out.finish()
}

async fn show(context: &Context, folder: &Path, told: &Told) -> Result<(), Failure> {
    heading("\n$ ropewalk log --graph\n")?;
    let graph = Log {
        graph: true,
        ..Log::default()
    };
    log::run(context, &graph).await?;
    heading("$ ropewalk tree\n")?;
    let newest = Tree {
        reference: None,
        live: false,
        count: 10,
    };
    tree::run(context, &newest).await?;
    heading(&format!("\n$ ropewalk resolve {}\n", told.reference))?;
    let references = vec![told.reference.clone()];
    resolve::run(context, &Resolve { references }).await?;
    let mut out = Out::new();
    out.line(&format!(
        "\n{} requests went through the proxy. Look around:\n",
        told.exchanges
    ))?;
    let commands = commands(folder, told);
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, meaning) in commands {
        let line = format!("  {}  {}", out.name(&format!("{command:width$}")), out.faint(meaning));
        out.line(&line)?;
    }
    let serve = out.name(&format!("ropewalk --data {} serve", folder.display()));
    out.line(&format!("\nThe dashboard: {serve} prints a link to open in a browser."))?;
    out.line(&format!(
        "All of it is in {}; remove that folder when you have seen enough.",
        folder.display()
    ))?;
    out.finish()
}

fn heading(text: &str) -> Result<(), Failure> {
    let mut out = Out::new();
    let text = out.strong(text);
    out.line(&text)?;
    out.finish()
}

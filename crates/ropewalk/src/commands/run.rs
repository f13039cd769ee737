//! `ropewalk run`: a command with everything it asks a model recorded.

use std::process::ExitStatus;

use tokio::process::Command;

use super::serve::{Server, found};
use crate::cli::{Run, Serve};
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::say;

pub(crate) async fn run(context: &Context, arguments: &Run) -> Result<(), Failure> {
    let running = found::running(context.config.data_folder()?).await;
    let own = match running {
        Some(_) if !arguments.upstreams.is_empty() => {
            return Err(Failure::new(
                Kind::Usage,
                "a server of this data folder runs already, with upstreams of its own",
            )
            .hint("leave --upstream out, or choose another folder with --data"));
        }
        Some(_) => None,
        None => {
            let anywhere = Serve {
                listen: Some(([127, 0, 0, 1], 0).into()),
                upstreams: arguments.upstreams.clone(),
                ..Serve::default()
            };
            Some(Server::start(context, &anywhere).await?)
        }
    };
    let url = match (&own, running) {
        (Some(server), _) => server.url(),
        (None, Some(address)) => format!("http://{address}"),
        (None, None) => return Err(Failure::new(Kind::Internal, "no server runs and none was started")),
    };
    say(&format!("ropewalk records at {url}; `ropewalk log` shows what"));
    let ended = execute(arguments, &url).await;
    if let Some(server) = own {
        server.stop().await;
    }
    ended.and_then(exit_like)
}

/// Variables that clients take a provider's address from. Nothing else of the command's environment changes.
fn variables(url: &str) -> [(&'static str, String); 6] {
    [
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        // The older name of the same.
        ("OPENAI_API_BASE", format!("{url}/v1")),
        ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
        ("GEMINI_BASE_URL", url.to_owned()),
        // Claude Code then says what kind of call it makes.
        ("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1".to_owned()),
    ]
}

async fn execute(arguments: &Run, url: &str) -> Result<ExitStatus, Failure> {
    let [program, rest @ ..] = &*arguments.command else {
        return Err(Failure::new(Kind::Usage, "no command was given").hint("ropewalk run -- claude"));
    };
    let status = Command::new(program).args(rest).envs(variables(url)).status();
    // Ctrl-C is the command's: it decides whether to end, and we end after it.
    let _ours = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
    status.await.map_err(|error| {
        Failure::new(Kind::NotFound, format!("cannot run {}: {error}", program.display()))
            .hint("is it installed, and on the PATH?")
    })
}

/// The command's exit code is ours.
fn exit_like(status: ExitStatus) -> Result<(), Failure> {
    use std::os::unix::process::ExitStatusExt as _;
    /// What shells give for a command that a signal ended.
    const SIGNAL_CODES_FROM: i32 = 128;
    let code = status.code().or_else(|| Some(SIGNAL_CODES_FROM + status.signal()?));
    match code {
        Some(0) | None => Ok(()),
        Some(code) => Err(Failure::of_command(u8::try_from(code).unwrap_or(u8::MAX))),
    }
}

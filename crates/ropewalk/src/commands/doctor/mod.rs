//! `ropewalk doctor`: what a newcomer trips over, and what to do about it.
//!
//! One module for each thing that is looked at, each of which gives [`Finding`]s. Nothing is changed, made or sent anywhere but to
//! a server of ours, and to the upstreams if that is asked for; files are read up to a bound; nothing that could be a key is shown.

mod clients;
mod finding;
mod logs;
mod machine;
mod server;
mod settings;
mod store;
mod upstreams;

use std::path::{Path, PathBuf};

use crate::cli::Doctor;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use finding::{Finding, Level};

pub(crate) async fn run(context: &Context, arguments: &Doctor) -> Result<(), Failure> {
    let mut findings = Vec::new();
    let running = server::look(context, &mut findings).await;
    store::look(context, running.is_some(), &mut findings).await;
    machine::look(context, &mut findings).await;
    telemetry(context, &mut findings);
    if arguments.upstreams {
        upstreams::look(context, &mut findings).await;
    }
    clients::look(&mut findings).await;
    settings::look(running, &mut findings);
    logs::look(&mut findings);
    print(context, &findings)?;
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    let message = match errors {
        0 => return Ok(()),
        1 => "1 thing is wrong".to_owned(),
        count => format!("{count} things are wrong"),
    };
    Err(Failure::new(Kind::NotFound, message).hint("each error above says what to do"))
}

fn telemetry(context: &Context, findings: &mut Vec<Finding>) {
    use crate::config::otel::Wanted;
    let config = &context.config;
    findings.push(match config.otel.wanted(&config.otel_environment) {
        Ok(Wanted::Off) => Finding::ok("telemetry", "is off"),
        Ok(Wanted::On(_)) => Finding::ok("telemetry", "spans and measurements are sent to a collector"),
        Ok(Wanted::OffBecause(why)) => Finding::warning("telemetry", format!("is off: {why}")).hint(
            "the variables OTEL_EXPORTER_OTLP_… may be meant for another program; otel.* in the configuration is not",
        ),
        Err(failure) => Finding::error("telemetry", failure.message().to_owned())
            .hint("see [otel] in the configuration; `ropewalk serve` does not start like this"),
    });
}

fn print(context: &Context, findings: &[Finding]) -> Result<(), Failure> {
    let mut out = Out::new();
    for finding in findings {
        match context.json {
            true => out.json(finding)?,
            false => finding.print(&mut out)?,
        }
    }
    out.finish()?;
    if !context.json && !findings.iter().any(|finding| finding.level == Level::Error) {
        say("nothing is wrong");
    }
    Ok(())
}

/// A variable that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from)
}

/// A path as people write it.
fn shown(path: &Path) -> String {
    match home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

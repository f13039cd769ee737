//! Whether providers can be reached, for those who ask.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use ropewalk_proxy::forward::{KnockError, knock};

use super::finding::Finding;
use crate::context::Context;
use crate::failure::{Failure, Kind};

const CHECK: &str = "upstream";

/// Who does not answer within it is not there for a client either.
const PATIENCE: Duration = Duration::from_secs(10);

/// Signatures and caches bear some seconds; a minute means that a clock is wrong.
const CLOCK_APART_MAX_S: i64 = 60;

pub(super) async fn look(context: &Context, findings: &mut Vec<Finding>) {
    let upstreams = match context.config.upstreams() {
        Ok(upstreams) => upstreams,
        Err(failure) => {
            findings
                .push(Finding::error(CHECK, failure.message().to_owned()).hint("see [upstreams] in the configuration"));
            return;
        }
    };
    // All at once: those that are away take their time.
    let asked: Vec<_> = upstreams
        .into_iter()
        .map(|upstream| {
            let name = upstream.name.clone();
            (name, tokio::spawn(async move { knock(&upstream, PATIENCE).await }))
        })
        .collect();
    for (name, answer) in asked {
        let Ok(answer) = answer.await else { continue };
        match answer {
            Ok(knocked) => {
                findings.push(Finding::ok(CHECK, format!("{name} answers ({})", knocked.status)));
                findings.extend(knocked.date.as_deref().and_then(|date| clock(&name, date)));
            }
            Err(error) => {
                let hint = match &error {
                    KnockError::Tls(_) => "see ca_file of the upstream: it holds further roots, as PEM",
                    KnockError::NotHttp => "is its address right? see `ropewalk config --show upstreams`",
                    _ => {
                        "is there a network, a firewall, a proxy in between? `ropewalk config --show upstreams` has the address"
                    }
                };
                // What caused it names no address, which may hold a password.
                let told = Failure::from_error(Kind::Upstream, &error);
                findings.push(Finding::error(CHECK, format!("{name}: {}", told.message())).hint(hint));
            }
        }
    }
}

/// A clock that is far off an upstream's.
fn clock(name: &str, date: &str) -> Option<Finding> {
    let theirs = rfc2822::parse(date).ok()?.timestamp();
    let apart = Timestamp::now().duration_since(theirs).as_secs();
    (apart.abs() > CLOCK_APART_MAX_S).then(|| {
        Finding::warning(CHECK, format!("the clock of {name} is {} s off this one", apart.abs()))
            .hint("exchanges are put in order by this machine's clock: is it set by NTP?")
    })
}

//! What a server is told while it runs: to stop, or to read its configuration again.

use ropewalk_proxy::forward::Settings;
use ropewalk_proxy::references;
use ropewalk_proxy::reuse::Rule;
use ropewalk_server::Access;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Server, api, settings};
use crate::cli::Serve;
use crate::config::Prices;
use crate::config::retention::Retention;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::say;

pub(super) struct Signals {
    stop: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::from_error(Kind::Internal, &error));
        Ok(Signals {
            stop: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            reload: listen(SignalKind::hangup())?,
        })
    }
}

/// Until a signal to stop; on the one to reload, what can change while it runs is read again.
pub(super) async fn wait_for_the_end(server: &Server, context: &Context, arguments: &Serve, mut signals: Signals) {
    loop {
        tokio::select! {
            _ = signals.stop.recv() => return,
            _ = signals.interrupt.recv() => return,
            _ = signals.reload.recv() => match reloaded(context, arguments) {
                Ok(reloaded) => {
                    server.exporter.upstreams_are(&reloaded.settings.upstreams);
                    server.api.reload(reloaded.access);
                    server.forwarding.reload(reloaded.settings).await;
                    server.references.reload(reloaded.references);
                    server.reuse.reload(reloaded.rules);
                    context.config.prices.follow(&reloaded.prices);
                    server.retaining.reload(reloaded.retention);
                    say(
                        "reloaded: tokens, upstreams, prices, references and rules of reuse and retention are those of the \
                         configuration now",
                    );
                }
                Err(failure) => {
                    failure.report(context.json);
                    say("the configuration stays as it was");
                }
            },
        }
    }
}

/// What can change while it runs.
struct Reloaded {
    settings: Settings,
    access: Access,
    references: references::Settings,
    rules: Vec<Rule>,
    prices: Prices,
    retention: Retention,
}

fn reloaded(context: &Context, arguments: &Serve) -> Result<Reloaded, Failure> {
    let config = context.config.reloaded()?;
    let settings = settings(&config, arguments)?;
    Ok(Reloaded {
        access: api::access(&config, &settings.owners)?,
        settings,
        references: config.serving.references(),
        rules: config.serving.reuse_rules(),
        prices: config.prices,
        retention: config.serving.retain,
    })
}

//! Whether a server runs, and how it is.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::finding::Finding;
use super::variable;
use crate::commands::serve::found;
use crate::config::DEFAULT_LISTEN;
use crate::context::Context;

const CHECK: &str = "server";

/// The address of the server of this data folder, if one runs.
pub(super) async fn look(context: &Context, findings: &mut Vec<Finding>) -> Option<SocketAddr> {
    let folder = match context.config.data_folder() {
        Ok(folder) => folder,
        Err(failure) => {
            findings.push(Finding::error(CHECK, failure.message().to_owned()).hint("name a folder: --data DIR"));
            return None;
        }
    };
    let Some(said) = found::announced(folder) else {
        findings.push(Finding::ok(
            CHECK,
            "none runs; `ropewalk run` starts one when it needs it",
        ));
        look_at_the_port(context, findings).await;
        return None;
    };
    let Some(health) = found::health(said.address).await else {
        findings.push(
            Finding::warning(
                CHECK,
                format!(
                    "server.json names {}, process {}, which does not answer",
                    said.address, said.process
                ),
            )
            .hint("it died, or something stands before its port; `ropewalk serve` records what it left behind"),
        );
        return None;
    };
    findings.push(Finding::ok(CHECK, format!("listens on http://{}", said.address)));
    let figure = |name: &str| health[name].as_u64().unwrap_or(0);
    if health["store"] == "down" {
        findings.push(
            Finding::error(CHECK, "its store takes nothing; the journal absorbs until it is full")
                .hint("its log on stderr says why; a disk that is full, a database that is away"),
        );
    }
    if figure("exchanges_not_kept") > 0 {
        let count = figure("exchanges_not_kept");
        findings.push(
            Finding::error(CHECK, format!("{count} exchanges passed unrecorded since it started"))
                .hint("the journal was full or could not be written: make room, or raise journal.max_bytes"),
        );
    }
    let version = health["version"].as_str().unwrap_or("?");
    if version != env!("CARGO_PKG_VERSION") {
        findings.push(
            Finding::warning(
                CHECK,
                format!("is version {version}, this is {}", env!("CARGO_PKG_VERSION")),
            )
            .hint("start it again"),
        );
    }
    Some(said.address)
}

/// Whether another program has the port that a server would take.
async fn look_at_the_port(context: &Context, findings: &mut Vec<Finding>) {
    let usual = DEFAULT_LISTEN.parse().ok();
    let Some(address) = context
        .config
        .serving
        .listen
        .or(usual)
        .filter(|address| address.port() != 0)
    else {
        return;
    };
    if TcpStream::connect(address).await.is_err() {
        return;
    }
    findings.push(match found::health(address).await {
        Some(_) => Finding::warning(CHECK, format!("a ropewalk of another data folder listens on {address}")).hint(
            match variable("ROPEWALK_DATA") {
                Some(_) => "ROPEWALK_DATA is set: was it when that server was started?",
                None => "name its folder with --data to see what it recorded",
            },
        ),
        None => Finding::warning(CHECK, format!("another program listens on {address}"))
            .hint("choose another address: `ropewalk serve --listen 127.0.0.1:PORT`, or `listen` in the configuration"),
    });
}

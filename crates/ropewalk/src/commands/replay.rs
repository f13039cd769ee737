//! `ropewalk replay`: a recorded request for another model.
//!
//! It is sent as its client would send it, through a proxy, so that it is recorded, redacted and linked like everything else. The proxy
//! is the server of the data folder, or one that lives as long as the command.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use ropewalk_core::model::Provider;
use ropewalk_engine::replay::{Again, Heard, Otherwise};
use ropewalk_engine::view::{Directory, View};
use ropewalk_proxy::forward::Owners;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;

use super::log::exchange_line;
use super::serve::{Server, found};
use crate::any_store::AnyStore;
use crate::cli;
use crate::client::{Sent, Until, send};
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::print::text::{json, lines, one_line};

/// How long a running server may take to record an answer before the command ends without having seen it.
const RECORDING_TRIES_MAX: usize = 600;
const RECORDING_PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(context: &Context, arguments: &cli::Replay) -> Result<(), Failure> {
    let otherwise = otherwise(&arguments.otherwise)?;
    let (owner, row, again) = {
        let store = context.read().await?;
        let view = context.view_to_find(&store).await?;
        let row = view.resolve_exchange(&arguments.reference).await?;
        let again = view.again(&row, &otherwise).await?;
        (view.owner_name, row, again)
    };
    if arguments.dry_run {
        let mut out = Out::new();
        // What is sent, as a terminal can show it.
        out.bytes(json(&String::from_utf8_lossy(&again.body)).as_bytes())?;
        return out.finish();
    }
    let replayer = Replayer::open(context, &owner, &arguments.otherwise).await?;
    let answered = replayer.send(&again).await;
    replayer.close().await;
    let answered = answered?;
    let context = Context {
        config: context.config.for_owner(&owner),
        ..*context
    };
    print(&context, &row, &answered).await
}

/// What the command line asks for.
pub(super) fn otherwise(arguments: &cli::Otherwise) -> Result<Otherwise, Failure> {
    let mut otherwise = Otherwise {
        model: arguments.model.clone(),
        ..Otherwise::default()
    };
    for option in &arguments.set {
        otherwise.set(option)?;
    }
    for option in &arguments.unset {
        otherwise.unset(option)?;
    }
    Ok(otherwise)
}

/// An answer, and the exchange that it is recorded as.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) exchange_id: String,
    pub(super) text: String,
}

/// Sends requests again for one owner.
pub(super) struct Replayer {
    address: SocketAddr,
    own: Option<Server>,
    owners: Owners,
    owner: String,
    key_env: Option<String>,
}

impl Replayer {
    pub(super) async fn open(context: &Context, owner: &str, arguments: &cli::Otherwise) -> Result<Self, Failure> {
        let config = context.config.for_owner(owner);
        let owners = config.settings(&arguments.upstreams)?.owners;
        let folder = config.data_folder()?;
        let (address, own) = match found::running(folder).await {
            Some(_) if !arguments.upstreams.is_empty() => {
                return Err(Failure::new(
                    Kind::Usage,
                    "a server of this data folder runs already, with upstreams of its own",
                )
                .hint("leave --upstream out"));
            }
            Some(address) => {
                let recorded_for = found::announced(folder).and_then(|said| said.owner);
                if let Some(other) = recorded_for.filter(|other| other != owner) {
                    return Err(Failure::new(
                        Kind::Usage,
                        format!("the server that runs records for `{other}`, and this is `{owner}`'s"),
                    )
                    .hint("stop it, or start it with --owner"));
                }
                (address, None)
            }
            None => {
                let anywhere = cli::Serve {
                    listen: Some(([127, 0, 0, 1], 0).into()),
                    upstreams: arguments.upstreams.clone(),
                    ..cli::Serve::default()
                };
                let own = Context { config, ..*context };
                let server = Server::start(&own, &anywhere).await?;
                (server.address(), Some(server))
            }
        };
        Ok(Replayer {
            address,
            own,
            owners,
            owner: owner.to_owned(),
            key_env: arguments.key_env.clone(),
        })
    }

    pub(super) async fn send(&self, again: &Again) -> Result<Answered, Failure> {
        if again.redactions > 0 {
            say(
                "secrets were taken out of this exchange when it was recorded; the model sees what stands in their place",
            );
        }
        let mut headers: Vec<(&str, String)> = again
            .headers
            .iter()
            .map(|(name, value)| (&**name, value.clone()))
            .filter(|(name, _)| *name != "accept" && *name != "content-type")
            .collect();
        let key = self.key(again)?;
        headers.extend(self.token(key.as_ref())?);
        headers.extend(key.map(|key| key.header()));
        headers.push(("accept-encoding", "identity".to_owned()));
        // A rule may answer from the store, which has been asked already.
        headers.push(("x-ropewalk-reuse", "off".to_owned()));
        let body = String::from_utf8_lossy(&again.body).into_owned();
        let sent = Sent::post(&again.target, headers, body);
        let answer = send(self.address, &sent, Until::End)
            .await
            .map_err(|failure| Failure::new(Kind::Upstream, format!("no whole answer came: {}", failure.message())))?;
        let status = answer.status.as_u16();
        let heard = Heard::read(
            again.provider,
            status,
            answer.content_type.as_deref(),
            answer.text.as_bytes(),
        );
        if let Some(problem) = heard.problem {
            let failure = Failure::new(Kind::Upstream, format!("{} gave no answer: {problem}", again.upstream));
            return Err(match answer.status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => failure.hint(format!(
                    "set {} to a key of the provider",
                    self.key_env.as_deref().unwrap_or(variables(again.provider)[0].0)
                )),
                _ => failure,
            });
        }
        let exchange_id = answer
            .exchange
            .ok_or_else(|| Failure::new(Kind::Internal, "the answer was not recorded"))?;
        Ok(Answered {
            exchange_id,
            text: heard.text,
        })
    }

    /// What was sent is recorded then, if the server is ours.
    pub(super) async fn close(self) {
        if let Some(server) = self.own {
            server.stop().await;
        }
    }

    /// The key of the provider, from the environment and from nowhere else. An upstream that somebody named gets one only by its variable's
    /// name: another's key is none of its business.
    fn key(&self, again: &Again) -> Result<Option<Key>, Failure> {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let known = variables(again.provider);
        if let Some(name) = &self.key_env {
            let value = read(name).ok_or_else(|| {
                Failure::new(
                    Kind::Configuration,
                    format!("the environment has no {}", one_line(name)),
                )
                .hint("--key-env names the variable that has the provider's key")
            })?;
            return Ok(Some(Key {
                kind: known[0].1,
                value,
            }));
        }
        if !["anthropic", "openai", "gemini"].contains(&&*again.upstream) {
            return Ok(None);
        }
        let mut found = known.iter().filter_map(|(name, kind)| {
            let value = read(name)?;
            Some(Key { kind: *kind, value })
        });
        Ok(found.next())
    }

    /// What says whose it is, where owners are told apart.
    fn token(&self, key: Option<&Key>) -> Result<Option<(&'static str, String)>, Failure> {
        match &self.owners {
            Owners::Local(_) => Ok(None),
            Owners::Tokens(tokens) => {
                let token = tokens.iter().find(|(_, owner)| ***owner == self.owner);
                let (token, _) = token.ok_or_else(|| {
                    Failure::new(Kind::Configuration, format!("owner `{}` has no token", self.owner))
                        .hint("[owners.tokens] in the configuration has one for each owner")
                })?;
                Ok(Some(("x-ropewalk-token", token.clone())))
            }
            Owners::Credential(fingerprint) => {
                let is_theirs = key.is_some_and(|key| *fingerprint.owner(key.value.as_bytes()) == *self.owner);
                match is_theirs {
                    true => Ok(None),
                    false => Err(Failure::new(
                        Kind::Configuration,
                        format!("the key in the environment is not the one of `{}`", self.owner),
                    )
                    .hint("an answer is recorded for the owner of the key that it was asked with")),
                }
            }
        }
    }
}

/// A key, which is shown to nobody but the provider.
struct Key {
    kind: KeyHeader,
    value: String,
}

impl Key {
    fn header(self) -> (&'static str, String) {
        match self.kind {
            KeyHeader::Bearer => ("authorization", format!("Bearer {}", self.value)),
            KeyHeader::Named(name) => (name, self.value),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum KeyHeader {
    Bearer,
    Named(&'static str),
}

/// Where clients of a provider look for its key, and how they send it.
fn variables(provider: Provider) -> &'static [(&'static str, KeyHeader)] {
    match provider {
        Provider::Anthropic => &[
            ("ANTHROPIC_API_KEY", KeyHeader::Named("x-api-key")),
            ("ANTHROPIC_AUTH_TOKEN", KeyHeader::Bearer),
        ],
        Provider::OpenAiChat | Provider::OpenAiResponses => &[("OPENAI_API_KEY", KeyHeader::Bearer)],
        Provider::Gemini => &[
            ("GEMINI_API_KEY", KeyHeader::Named("x-goog-api-key")),
            ("GOOGLE_API_KEY", KeyHeader::Named("x-goog-api-key")),
        ],
    }
}

#[derive(Serialize)]
struct Replayed<'a> {
    v: u32,
    /// The exchange whose request was sent again.
    replayed: &'a str,
    exchange_id: &'a str,
    content: &'a str,
    /// Its line of `log --exchanges`; `null` if a server has not recorded it in time.
    exchange: Option<&'a ropewalk_engine::view::ExchangeView>,
}

async fn print(context: &Context, row: &ExchangeRow, answered: &Answered) -> Result<(), Failure> {
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let exchange = match recorded(&view, &answered.exchange_id).await? {
        Some(row) => view.exchanges(&[row], &mut Directory::default()).await?.pop(),
        None => None,
    };
    let mut out = Out::new();
    if context.json {
        out.json(&Replayed {
            v: 1,
            replayed: &row.id,
            exchange_id: &answered.exchange_id,
            content: &answered.text,
            exchange: exchange.as_ref(),
        })?;
        return out.finish();
    }
    out.line(&lines(&answered.text))?;
    out.finish()?;
    match &exchange {
        Some(exchange) => say(&format!("{}  {}", exchange.id, exchange_line(exchange))),
        None => say(&format!("{} is not recorded yet", answered.exchange_id)),
    }
    say(&format!("all answers side by side: ropewalk show {} --answers", row.id));
    Ok(())
}

/// A running server records a little later than it answers.
async fn recorded(view: &View<'_, AnyStore>, id: &str) -> Result<Option<ExchangeRow>, Failure> {
    for _ in 0..RECORDING_TRIES_MAX {
        if let Some(row) = view.find_exchange(id).await?
            && view.find_link(row.number).await?.is_some()
        {
            return Ok(Some(row));
        }
        tokio::time::sleep(RECORDING_PAUSE).await;
    }
    Ok(None)
}

//! The API of a server: over the store that it records to, for those who have a token.

use std::path::PathBuf;
use std::sync::Arc;

use ropewalk_core::cost::PriceTable;
use ropewalk_engine::link::Settings;
use ropewalk_proxy::forward::Owners;
use ropewalk_server::read::audit::{Noted, Period};
use ropewalk_server::source::{Health, Import, Standing};
use ropewalk_server::{Access, Api, Problem, Source};
use ropewalk_store::{Micros, OwnerId};
use serde_json::json;

use super::local;
use super::metrics::Sources;
use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::imports::Imports;
use crate::changes::server::Opened;
use crate::config::{Config, Prices};
use crate::failure::Failure;
use crate::secret;

pub(super) type ServedApi = Api<Recorded>;

/// The store while it is open.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) opened: Opened,
    pub(super) linking: Settings,
    pub(super) prices: Prices,
    pub(super) sources: Arc<Sources>,
    pub(super) imports: Arc<Imports>,
    /// The folder that has the audit log.
    pub(super) audit: Option<PathBuf>,
}

impl Source for Recorded {
    type Store = AnyStore;

    async fn open(&self) -> Result<Option<Arc<AnyStore>>, Problem> {
        let store = self.opened.borrow().clone();
        store.map(Some).ok_or_else(Problem::unavailable)
    }

    async fn at_time(
        &self,
        store: &AnyStore,
        owner: OwnerId,
        name: &str,
        at: Micros,
    ) -> Result<Arc<AnyStore>, Problem> {
        Ok(Arc::new(store.linked_at(owner, name, at, self.linking).await?))
    }

    fn prices(&self) -> Arc<dyn PriceTable + Send + Sync> {
        self.prices.clone()
    }

    fn health(&self) -> Option<Health> {
        Some(local::health(&self.sources))
    }

    fn imports(&self, owner: &str) -> Vec<Import> {
        self.imports.of(owner)
    }

    fn noted(&self, owner: &str, period: Period) -> Vec<Noted> {
        let Some(folder) = &self.audit else { return Vec::new() };
        audit::newest(folder, owner, period)
    }

    fn standing(&self, owner: &str) -> Vec<Standing> {
        let mut standing = vec![("health", String::new(), local::brief(&local::health(&self.sources)))];
        for import in self.imports.of(owner) {
            standing.push(("import.progress", import.import.to_string(), json!(import)));
        }
        for (id, response_bytes) in self.sources.journal.counters().under_way.of(owner) {
            let data = json!({"id": id, "response_bytes": response_bytes});
            standing.push(("exchange.delta", id.to_string(), data));
        }
        standing
    }
}

/// Who is let in: whoever has the token of this installation, or, where owners are told apart, one of theirs.
pub(super) fn access(config: &Config, owners: &Owners) -> Result<Access, Failure> {
    let folder = config.data_folder()?;
    let access = match owners {
        Owners::Local(owner) => {
            let token = secret::token(folder)?;
            Access::by_tokens([(&*token, Arc::clone(owner))], secret::key(folder)?)
        }
        Owners::Tokens(tokens) => {
            let tokens = tokens.iter().map(|(token, owner)| (&**token, Arc::clone(owner)));
            Access::by_tokens(tokens, secret::key(folder)?)
        }
        Owners::Credential(fingerprint) => {
            let fingerprint = fingerprint.clone();
            Access::by_api_keys(move |key| fingerprint.owner(key))
        }
    };
    let config = config.clone();
    Ok(access.telling(move |owner| audit::note(&config, "api token", Some(owner), None, json!({}))))
}

/// What a person is told at the start: a link that lets a browser in, where one token is for all.
pub(super) fn greeting(config: &Config, owners: &Owners, url: &str) -> Result<String, Failure> {
    Ok(match owners {
        Owners::Local(_) => {
            let token = secret::token(config.data_folder()?)?;
            format!("for you, and for programs that ask: {url}/?token={token}")
        }
        Owners::Tokens(_) => format!("for programs that ask, with an owner's token: {url}/api/v1 and {url}/mcp"),
        Owners::Credential(_) => format!("for programs that ask, with a provider's key: {url}/api/v1 and {url}/mcp"),
    })
}

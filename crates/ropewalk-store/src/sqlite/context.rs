//! What an exchange shares with the one before it: who asked whom, with which system prompt and tools.
//!
//! Turns of a conversation differ in what they say, hardly ever in this; it is a quarter of a kilobyte, and look-ups by
//! it (a session's exchanges, those with one system prompt) find all exchanges of a context by one entry of the hash index.

use ropewalk_core::hash::sha256;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::facts::{HashKind, Key, NewExchange, OwnerId};
use crate::packed::{read_hashes, read_keys, write_hashes, write_keys};
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::problem;
use crate::sqlite::record::Recorder;
use crate::store::{Result, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) provider: String,
    pub(super) model: Option<String>,
    pub(super) kind: String,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) project: Option<String>,
    pub(super) hashes: Vec<(HashKind, Vec<u8>)>,
    pub(super) keys: Vec<Key>,
    pub(super) rules_version: u32,
}

impl Context {
    pub(super) fn of(exchange: &NewExchange) -> Self {
        let hashes = exchange.hashes.iter().filter(|(kind, _)| kind.is_of_context());
        let keys = exchange.keys.iter().filter(|key| key.kind.is_of_context());
        Context {
            provider: exchange.provider.clone(),
            model: exchange.model.clone(),
            kind: exchange.kind.clone(),
            session: exchange.session.clone(),
            agent: exchange.agent.clone(),
            project: exchange.project.clone(),
            hashes: hashes.cloned().collect(),
            keys: keys.copied().collect(),
            rules_version: exchange.rules_version,
        }
    }

    /// The context once the end is known: the beginning said who asked, the end knows the hashes and the model.
    pub(super) fn completed_by(self, exchange: &NewExchange) -> Self {
        let end = Context::of(exchange);
        Context {
            model: end.model.or(self.model),
            hashes: end.hashes,
            keys: end.keys,
            ..self
        }
    }

    pub(super) fn load(connection: &Connection, owner: OwnerId, number: i64) -> Result<Self> {
        let select = "SELECT provider, model, kind, session, agent, project, hashes, keys, rules_version FROM context \
                      WHERE key = ?1 AND owner_id = ?2";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let mut rows = statement.query(params![key(owner, number), owner.0]).map_err(problem)?;
        let Some(row) = rows.next().map_err(problem)? else {
            return Err(StoreError::Damaged(format!("context {number} is not there")));
        };
        Ok(Context {
            provider: row.get(0).map_err(problem)?,
            model: row.get(1).map_err(problem)?,
            kind: row.get(2).map_err(problem)?,
            session: row.get(3).map_err(problem)?,
            agent: row.get(4).map_err(problem)?,
            project: row.get(5).map_err(problem)?,
            hashes: read_hashes(&row.get::<_, Vec<u8>>(6).map_err(problem)?)?,
            keys: read_keys(&row.get::<_, Vec<u8>>(7).map_err(problem)?)?,
            rules_version: row.get(8).map_err(problem)?,
        })
    }

    /// Whether an exchange of this context is found by that key.
    pub(super) fn has(&self, wanted: &Key) -> bool {
        self.index_keys().any(|known| known == *wanted)
    }

    pub(super) fn index_keys(&self) -> impl Iterator<Item = Key> {
        let by_hash = self.hashes.iter().map(|(_, hash)| Key::of_hash(hash));
        self.keys.iter().copied().chain(by_hash)
    }

    /// A hash over all that it says.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut bytes = self.rules_version.to_be_bytes().to_vec();
        let texts = [Some(&self.provider), Some(&self.kind)];
        let optional = [&self.model, &self.session, &self.agent, &self.project].map(Option::as_ref);
        for text in texts.into_iter().chain(optional) {
            // One more than the length, so that an empty text is another than none.
            let length = text.map_or(0, |text| text.len() as u64 + 1);
            bytes.extend(length.to_be_bytes());
            bytes.extend(text.map(String::as_bytes).unwrap_or_default());
        }
        let hashes = write_hashes(&self.hashes, |_| true);
        bytes.extend((hashes.len() as u64).to_be_bytes());
        bytes.extend(hashes);
        bytes.extend(write_keys(&self.keys));
        sha256(&bytes)
    }
}

impl Recorder<'_> {
    /// The number of a context, which is stored if it is new.
    pub(super) fn context(&mut self, context: &Context) -> Result<i64> {
        let digest = context.digest();
        if let Some(number) = self.session.recall(self.owner, Kind::Context, &digest) {
            return Ok(number);
        }
        let number = match self.find_context(context, &digest)? {
            Some(number) => number,
            None => self.insert_context(context, &digest)?,
        };
        self.session.remember(self.owner, Kind::Context, &digest, number);
        Ok(number)
    }

    fn find_context(&self, context: &Context, digest: &[u8; 32]) -> Result<Option<i64>> {
        for number in self.session.find(self.owner, Kind::Context, digest)? {
            if Context::load(self.session.connection(), self.owner, number)? == *context {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn insert_context(&mut self, context: &Context, digest: &[u8; 32]) -> Result<i64> {
        self.counters.last_context += 1;
        let number = self.counters.last_context;
        let insert = "INSERT INTO context (key, owner_id, provider, model, kind, session, agent, project, hashes, keys, \
                      rules_version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let row = params![
            key(self.owner, number),
            self.owner.0,
            context.provider,
            context.model,
            context.kind,
            context.session,
            context.agent,
            context.project,
            write_hashes(&context.hashes, |_| true),
            write_keys(&context.keys),
            context.rules_version,
        ];
        statement.execute(row).map_err(problem)?;
        drop(statement);
        self.session.index(self.owner, Kind::Context, digest, number);
        for entry in context.index_keys() {
            self.session.index(self.owner, Kind::ContextKey, &entry.hash, number);
        }
        Ok(number)
    }
}

/// The context of an exchange.
pub(super) fn number_of(connection: &Connection, owner: OwnerId, exchange: i64) -> Result<i64> {
    let select = "SELECT context FROM exchange WHERE key = ?1 AND owner_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let found = statement.query_row(params![key(owner, exchange), owner.0], |row| row.get(0));
    let missing = || StoreError::Damaged(format!("exchange {exchange} is not there"));
    found.optional().map_err(problem)?.ok_or_else(missing)
}

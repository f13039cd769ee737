//! The store on PostgreSQL.
//!
//! Read `migrations` first (what is kept), then `record` (how a batch gets in: `groups`, `bodies`, `nodes`, `rows`), then
//! `look_up`, `read`, `search` and `check` (how it comes out), `derived` (what linking stores and reads).
//!
//! Invariants:
//! - Every statement is in `sql` and filters by owner.
//! - A batch is one transaction. Locks are always taken in the same order: parts, chunks by level, nodes, each sorted by
//!   hash, and the owner's row last, so that writers wait for each other but never in a circle. Nodes of others that were seen
//!   earlier than was thought are corrected under the owner's row.
//! - Saving links takes the owner's row first and then only tables that recording does not touch.
//! - Forgetting takes the owner's row first, and then removes what recorders may be looking at: they find out under the same lock.
//! - Positions are given out under the owner's row lock, directly before the commit. The next writer of this owner gets its
//!   positions after that commit, so positions follow commits; writers of other owners never meet this lock.

mod backup;
mod bodies;
mod body;
mod check;
mod derived;
mod dictionaries;
mod distribute;
mod find;
mod forget;
mod groups;
mod known_parts;
mod link_check;
mod log;
mod look_up;
mod names;
mod nodes;
mod numbers;
mod packed;
mod problem;
mod project;
mod read;
mod record;
mod rows;
mod schema;
mod search;
mod spawns;
mod sql;
mod sweep;
mod tls;
mod tombstones;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Transaction};
use ropewalk_core::hash::{NodeHash, PartHash};
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};

use crate::derived::{BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links};
use crate::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Projected};
use crate::forget::{Compacted, Forgetting, Forgotten};
use crate::hash_prefix::HashPrefix;
use crate::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use crate::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use crate::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag, SearchQuery,
    Selection, Stats, Store, StoreError, Versions,
};
use dictionaries::Dictionaries;
use groups::Groups;
use known_parts::KnownParts;
use numbers::Numbers;
use problem::{database, pool_problem, problem};
use tls::Address;

/// How to use a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most connections at once.
    pub connections_max: usize,
    pub connect_timeout: Duration,
    /// How long a caller waits for a free connection.
    pub wait_timeout: Duration,
    /// The server stops a statement that takes longer.
    pub statement_timeout: Duration,
    /// Changes nothing, not even the schema.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connections_max: 8,
            connect_timeout: Duration::from_secs(5),
            wait_timeout: Duration::from_secs(30),
            statement_timeout: Duration::from_secs(60),
            read_only: false,
        }
    }
}

/// A store on a server; clones are the same store.
#[derive(Debug, Clone)]
pub struct Postgres {
    pool: Pool,
    numbers: Arc<Numbers>,
    dictionaries: Arc<Dictionaries>,
    groups: Arc<Groups>,
    known_parts: Arc<KnownParts>,
}

impl Postgres {
    /// Connects, and brings the schema to the newest version.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let pool = pool(url, &options)?;
        let mut client = pool.get().await.map_err(pool_problem)?;
        if options.read_only {
            schema::check_readable(&mut client).await?;
        } else {
            schema::migrate(&mut client).await?;
        }
        drop(client);
        Ok(Postgres {
            pool,
            numbers: Arc::default(),
            dictionaries: Arc::new(Dictionaries::new(options.connections_max)),
            groups: Arc::default(),
            known_parts: Arc::default(),
        })
    }

    /// Which version the store of a database has, also one that this program can do nothing with. `None` where there is none.
    pub async fn versions(url: &str, options: Options) -> Result<Option<Versions>> {
        let mut client = pool(url, &options)?.get().await.map_err(pool_problem)?;
        let transaction = client.transaction().await.map_err(problem)?;
        schema::versions(&transaction).await
    }

    /// Spreads every table that holds an owner's data over the nodes of a Citus cluster, by owner, so that all of an owner lies on
    /// one node. Gives the statements; those of tables that are spread already are left out, so that it can be repeated.
    pub async fn distribute(&self, is_dry: bool) -> Result<Vec<String>> {
        distribute::run(&mut self.client().await?, is_dry).await
    }

    /// The version of its schema.
    pub async fn schema_version(&self) -> Result<u32> {
        schema::found_version(&mut self.client().await?).await
    }

    async fn client(&self) -> Result<Client> {
        let client = self.pool.get().await.map_err(pool_problem)?;
        let uses = Client::metrics(&client).recycle_count;
        if uses == 0 {
            self.known_parts.forget();
        }
        if plans_are_due(uses) {
            client.batch_execute(sql::FORGET_PLANS).await.map_err(problem)?;
        }
        Ok(client)
    }
}

fn pool(url: &str, options: &Options) -> Result<Pool> {
    let address = Address::parse(url)?;
    let connector = address.connector()?;
    let mut config = address.config;
    config.connect_timeout(options.connect_timeout);
    if config.get_application_name().is_none() {
        config.application_name("ropewalk");
    }
    let settings = session_settings(config.get_options().unwrap_or_default(), options);
    config.options(settings);
    let manager = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    Pool::builder(Manager::from_config(config, connector, manager))
        .max_size(options.connections_max)
        .wait_timeout(Some(options.wait_timeout))
        .create_timeout(Some(options.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| database("the pool of connections cannot be built", error))
}

/// Uses of a connection after which its plans are made anew.
const PLANS_KEPT_MAX: usize = 256;

/// A plan is kept with its statement. One made while a table was small picks any index that begins with the owner, since
/// all cost the same, and stays in use while the table grows. So plans are made anew whenever a connection was used twice
/// as often, up to a limit: the table they were made for is then never much smaller than the one they run on.
fn plans_are_due(uses: usize) -> bool {
    uses.is_power_of_two() || (uses > 0 && uses.is_multiple_of(PLANS_KEPT_MAX))
}

/// Every statement here is a walk along an index: ways that only pay for small tables are ruled out.
const NEVER: [&str; 6] = [
    "seqscan",
    "hashjoin",
    "mergejoin",
    "material",
    "sort",
    "incremental_sort",
];

fn session_settings(given: &str, options: &Options) -> String {
    let timeout_ms = options.statement_timeout.as_millis();
    // A writer leaves it as it is: a database may be read-only by its own settings.
    let read_only = if options.read_only {
        " -c default_transaction_read_only=on"
    } else {
        ""
    };
    let never: String = NEVER.iter().map(|way| format!(" -c enable_{way}=off")).collect();
    format!("{given}{never} -c jit=off -c statement_timeout={timeout_ms}{read_only}")
}

/// One look at everything, which changes nothing.
async fn snapshot(client: &mut Client) -> Result<Transaction<'_>> {
    let snapshot = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start();
    snapshot.await.map_err(problem)
}

/// Runs a statement that is prepared once per connection.
async fn query(client: &impl GenericClient, sql: &'static str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
    let statement = client.prepare_cached(sql).await.map_err(problem)?;
    client.query(&statement, values).await.map_err(problem)
}

/// A hash column's bytes.
fn hash_of(row: &Row, column: usize) -> Result<[u8; 32]> {
    let bytes: &[u8] = row.get(column);
    bytes
        .try_into()
        .map_err(|_| StoreError::Damaged("a hash has another length than 32 bytes".to_owned()))
}

/// Counts and lengths are never negative, and none comes near the end of either type.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Store for Postgres {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        record::owner(self, name).await
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        find::owner(&self.client().await?, name).await
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        find::owners(&self.client().await?, after.as_deref()).await
    }

    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        groups::record(self, owner, batch).await
    }

    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        project::project(self, owner, &batch).await
    }

    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        look_up::look_up(&self.client().await?, owner, &questions, as_of).await
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        read::exchanges(&self.client().await?, owner, selection, as_of).await
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        body::body(&self.client().await?, owner, exchange, half).await
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        body::part(&self.client().await?, owner, &name).await
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        nodes::chain(&self.client().await?, owner, exchange, limit).await
    }

    async fn chain_end(&self, owner: OwnerId, exchange: ExchangeNumber, count: usize) -> Result<Vec<NodeHash>> {
        nodes::chain_end(&self.client().await?, owner, exchange, count).await
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        derived::state(&self.client().await?, owner).await
    }

    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        derived::save(self, owner, &changes).await
    }

    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        derived::links(&self.client().await?, owner, which).await
    }

    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        derived::branches(&self.client().await?, owner, conversation).await
    }

    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        derived::conversations(&self.client().await?, owner, which).await
    }

    async fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow) -> Result<bool> {
        derived::keep_course(self, owner, version, &course).await
    }

    async fn find_course(&self, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        derived::find_course(&self.client().await?, owner, root).await
    }

    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        log::save(self, owner, &changes).await
    }

    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        log::records(&self.client().await?, owner, which).await
    }

    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        log::imported_files(&self.client().await?, owner, &which).await
    }

    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        names::save(self, owner, &changes).await
    }

    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        names::names(&self.client().await?, owner, which).await
    }

    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        names::message_names(&self.client().await?, owner, which).await
    }

    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        names::pin(self, owner, &pins).await
    }

    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        names::pins(&self.client().await?, owner, &keys).await
    }

    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        find::beginning_with(&self.client().await?, owner, &prefix, limit).await
    }

    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        search::search(&self.client().await?, owner, &query).await
    }

    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        search::lag(&self.client().await?, owner).await
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        search::index_texts(&mut self.client().await?, limit).await
    }

    async fn forget(&self, owner: OwnerId, what: Forgetting) -> Result<Forgotten> {
        forget::forget(self, owner, &what).await
    }

    async fn sweep(&self, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
        sweep::run(self, owner, is_dry).await
    }

    async fn compact(&self) -> Result<Compacted> {
        forget::compact(self).await
    }

    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        tombstones::find(&self.client().await?, owner, &names).await
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        read::stats(&self.client().await?, owner).await
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        check::check(&mut self.client().await?, owner, depth).await
    }
}

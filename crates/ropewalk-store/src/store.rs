//! What can be asked of a store. Few methods, each atomic, each in batches, each for one owner.

use std::future::Future;
use std::sync::Arc;

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_core::model::Usage;

use crate::derived::{BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links};
use crate::facts::{
    ExchangeNumber, HashKind, Key, Micros, NewExchange, OwnerId, Position, Projected, Provenance, Spawn, Status,
    Telling, TextSource,
};
use crate::forget::{Compacted, Forgetting, Forgotten, Hole};
use crate::hash_prefix::HashPrefix;
use crate::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use crate::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};

/// Most exchanges that one page or one look-up gives.
pub const PAGE_MAX: usize = 1_000;

/// Most branches of one conversation that are given: a conversation is linked and shown with all of them.
pub const BRANCHES_MAX: usize = 100_000;

/// Longest id of an exchange, in bytes.
pub const ID_MAX: usize = 512;

/// Tellers of one call that are looked at. There are two where a log was copied while the call passed; a provider that
/// gives all its answers one id has thousands.
pub(crate) const TELLERS_MAX: usize = 64;

/// Words of one search that are looked for; the rest is left out.
pub(crate) const QUERY_WORDS_MAX: usize = 32;

/// The version of a store's schema, and who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// 0 where nothing was ever recorded.
    pub version: u32,
    /// The newest that this program knows.
    pub known: u32,
    /// The oldest program that can read it, by the newest version that it knows.
    pub min_reader: u32,
    pub min_writer: u32,
}

impl Versions {
    /// Whether this program may read it.
    pub fn can_read(&self) -> bool {
        self.known >= self.min_reader
    }

    pub fn can_write(&self) -> bool {
        self.known >= self.min_writer
    }

    pub(crate) fn too_new(&self) -> StoreError {
        StoreError::TooNew {
            found: self.version,
            known: self.known,
        }
    }

    /// Who only reads cannot bring a store up to date, and asks for what an older one does not have.
    pub(crate) fn check_readable(&self) -> Result<()> {
        let (found, known) = (self.version, self.known);
        match self.can_read() {
            false => Err(self.too_new()),
            true if found > 0 && found < known => Err(StoreError::TooOld { found, known }),
            true => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the store was written by a newer version (schema {found}, this one knows {known})")]
    TooNew { found: u32, known: u32 },
    #[error("the store has to be brought up to date first (schema {found}, this program reads {known})")]
    TooOld { found: u32, known: u32 },
    #[error("SQLite {found} has a bug that can lose commits; {needed} or newer is needed")]
    SqliteTooOld { found: String, needed: &'static str },
    #[error("the database has no extension `citus`")]
    NoCitus,
    #[error("the store is read-only")]
    ReadOnly,
    #[error("the disk is full")]
    Full,
    #[error("another process holds the store")]
    Locked,
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("exchange `{id}` names a part that was never stored")]
    MissingPart { id: String },
    #[error("the id of an exchange has {length} bytes; {ID_MAX} is the most")]
    IdTooLong { length: usize },
    #[error("nothing was stored: the transaction could not be committed")]
    NotCommitted,
    #[error("no such owner")]
    NoOwner,
    #[error("no such exchange")]
    NoExchange,
    #[error("the request has {depth} blocks; {limit} is the most")]
    ChainTooLong { depth: u64, limit: usize },
    #[error("the store has stopped")]
    Stopped,
    #[error("{what}")]
    Database {
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// What became of an exchange that was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    New,
    /// It was there without its end; now it has one.
    Completed,
    /// It was there. Nothing changed.
    Known,
    /// The id was there with other bytes. The first stays.
    Conflict,
    /// The call was there, told by somebody who knew less of it. Now it is as told here, under the same number.
    Replaced,
    /// It was forgotten and does not come back. It has no number: [`NO_EXCHANGE`].
    Forgotten,
}

/// The number of an exchange that there is none of.
pub const NO_EXCHANGE: ExchangeNumber = ExchangeNumber(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub number: ExchangeNumber,
    pub outcome: Outcome,
}

/// A question with its own time, so that a batch of exchanges of different times asks in one go. A time later than the
/// look-up's own counts as the look-up's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asked<T> {
    pub what: T,
    pub as_of: Micros,
}

impl<T> Asked<T> {
    /// At the look-up's own time.
    pub fn of(what: T) -> Self {
        Asked {
            what,
            as_of: Micros::MAX,
        }
    }
}

/// What linking asks, in one go.
#[derive(Debug, Clone, Default)]
pub struct Questions {
    /// Chains to find the deepest known node of, each from its first node to its last.
    pub chains: Vec<Vec<NodeHash>>,
    /// Nodes to find the exchanges of that end there.
    pub nodes: Vec<Asked<NodeHash>>,
    pub keys: Vec<Asked<Key>>,
    /// Exchanges to give the spawning calls of.
    pub spawns_of: Vec<ExchangeNumber>,
    /// Times to give the spawning calls of: those with `first <= at <= last`.
    pub spawns_between: Vec<(Micros, Micros)>,
    /// Hashes to give the exchanges of that wait for them; see [`LinkChanges::wanted`].
    pub wanting: Vec<[u8; 8]>,
    /// How many exchanges to give per key and node, newest first.
    pub limit: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// For each chain: the deepest known node, if any.
    pub deepest: Vec<Option<KnownNode>>,
    /// For each node: what is known of it. Its `index` is the question's.
    pub nodes: Vec<Option<KnownNode>>,
    /// For each key: the exchanges that have it, newest first.
    pub exchanges: Vec<Vec<ExchangeNumber>>,
    /// For each of `spawns_of`, in the order of their index.
    pub spawns_of: Vec<Vec<Spawn>>,
    /// For each of `spawns_between`, in the order of (at, exchange, index), as many as a page holds.
    pub spawns_between: Vec<Vec<(ExchangeNumber, Spawn)>>,
    /// For each of `wanting`, in the order of their numbers, as many as a page holds, whatever the time.
    pub wanting: Vec<Vec<ExchangeNumber>>,
}

/// A node that lies in recorded traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNode {
    /// Its index in the chain that was asked about.
    pub index: usize,
    /// Exchanges whose request ends here, newest first.
    pub as_input: Vec<ExchangeNumber>,
    /// Exchanges whose answer is complete and ends here, newest first.
    pub as_output: Vec<ExchangeNumber>,
    /// The exchange that first brought it, by the time of its request or of its answer, whichever holds the node.
    pub first: ExchangeNumber,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Request,
    /// What the provider got in the request's place.
    Sent,
    Response,
}

/// The end of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyEnd {
    pub bytes: Vec<u8>,
    /// Nothing stands before them.
    pub is_whole: bool,
}

impl BodyEnd {
    pub(crate) fn of_whole(mut bytes: Vec<u8>, length: usize) -> Self {
        let is_whole = length >= bytes.len();
        let first = bytes.len().saturating_sub(length);
        BodyEnd {
            bytes: bytes.split_off(first),
            is_whole,
        }
    }
}

/// An exchange as it is stored, without its bodies.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeRow {
    pub number: ExchangeNumber,
    pub position: Position,
    pub id: String,
    pub at: Micros,
    pub ended_at: Option<Micros>,
    pub status: Status,
    pub http_status: Option<u16>,
    pub provider: String,
    pub model: Option<String>,
    pub kind: String,
    pub session: Option<String>,
    pub agent: Option<String>,
    pub project: Option<String>,
    pub input_node: NodeHash,
    /// How many blocks the request's chain has.
    pub depth: u32,
    /// Only of a complete answer.
    pub output_node: Option<NodeHash>,
    pub hashes: Vec<(HashKind, Vec<u8>)>,
    pub keys: Vec<Key>,
    pub usage: Option<Usage>,
    pub cost_nano_usd: Option<u64>,
    pub cost_is_estimate: bool,
    pub request_sha256: [u8; 32],
    pub response_sha256: Option<[u8; 32]>,
    pub request_length: u64,
    pub response_length: Option<u64>,
    pub detail: String,
    pub provenance: Option<Provenance>,
    pub rules_version: u32,
    /// Of the program that made `hashes` and `keys`; 0 where none was written down.
    pub projections_version: u32,
    /// It lost something that it said.
    pub hole: Option<Hole>,
}

impl ExchangeRow {
    pub fn telling(&self) -> Telling<'_> {
        Telling {
            provenance: self.provenance.as_ref(),
            ended_at: self.ended_at,
            session: self.session.as_deref(),
        }
    }

    /// Lengths of the bodies that are still there, request and response. Of a request that was rewritten a little less is left.
    pub fn lengths_left(&self) -> (Option<u64>, Option<u64>) {
        let is_left = |half: fn(&Hole) -> bool| self.hole.as_ref().is_none_or(half);
        (
            is_left(|hole| hole.has_request).then_some(self.request_length),
            self.response_length.filter(|_| is_left(|hole| hole.has_response)),
        )
    }

    /// Leaves the request only: the exchange as it was before its answer ended.
    pub(crate) fn hide_end(&mut self) {
        self.ended_at = None;
        self.status = Status::Pending;
        self.http_status = None;
        self.output_node = None;
        self.hashes.retain(|(kind, _)| *kind != HashKind::Response);
        self.keys.retain(|key| !key.kind.is_of_answer());
        self.usage = None;
        self.cost_nano_usd = None;
        self.cost_is_estimate = false;
        self.response_sha256 = None;
        self.response_length = None;
    }
}

/// What an exchange took: what sums are made of, and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    pub number: ExchangeNumber,
    pub at: Micros,
    pub model: Option<String>,
    pub session: Option<String>,
    pub project: Option<String>,
    pub usage: Option<Usage>,
    pub cost_nano_usd: Option<u64>,
    pub cost_is_estimate: bool,
    /// Of both bodies.
    pub bytes: u64,
    pub detail: String,
}

impl From<ExchangeRow> for Spent {
    fn from(row: ExchangeRow) -> Self {
        Spent {
            number: row.number,
            at: row.at,
            model: row.model,
            session: row.session,
            project: row.project,
            usage: row.usage,
            cost_nano_usd: row.cost_nano_usd,
            cost_is_estimate: row.cost_is_estimate,
            bytes: row.request_length + row.response_length.unwrap_or(0),
            detail: row.detail,
        }
    }
}

/// Which exchanges.
#[derive(Debug, Clone)]
pub enum Selection {
    Numbers(Vec<ExchangeNumber>),
    Ids(Vec<String>),
    /// In the order of (at, number), behind `after`.
    Since {
        after: Option<(Micros, ExchangeNumber)>,
        limit: usize,
    },
    /// Newest first, before `before`, in the order of (at, number).
    Newest {
        before: Option<(Micros, ExchangeNumber)>,
        limit: usize,
    },
    /// In the order of commits, behind a position.
    Log {
        after: Position,
        limit: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub exchange: ExchangeNumber,
    pub source: TextSource,
    /// Words around the match, with the match between U+0002 and U+0003.
    pub snippet: String,
}

#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// Words, all of which must occur; a phrase in double quotes.
    pub text: String,
    pub source: Option<TextSource>,
    pub model: Option<String>,
    pub since: Option<Micros>,
    pub limit: usize,
}

/// How far search is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchLag {
    pub waiting: u64,
}

/// What has a name that begins with some digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Ids of conversations, those that they had before included.
    pub conversations: Vec<[u8; 16]>,
    pub nodes: Vec<NodeHash>,
    /// Exchanges with such a hash.
    pub exchanges: Vec<ExchangeNumber>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    pub exchanges: u64,
    pub parts: u64,
    pub nodes: u64,
    /// Bodies as they came.
    pub bytes_in: u64,
    /// Parts as they came, each once.
    pub part_bytes: u64,
    /// Parts as they are stored.
    pub stored_bytes: u64,
    pub conflicts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// Stable name of the rule, such as `part-hash`.
    pub rule: &'static str,
    pub what: String,
}

/// How thorough a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Rows and references between them.
    Structure,
    /// Also every part rehashed and every body joined.
    Data,
}

pub trait Store: Send + Sync {
    /// The same store for somebody who has a thread of their own, on which nobody else waits to get on.
    fn on_own_thread(self: Arc<Self>) -> Arc<Self> {
        self
    }

    /// The owner of that name, made on first use.
    fn owner(&self, name: &str) -> impl Future<Output = Result<OwnerId>> + Send;

    /// The owner of that name, if there is one.
    fn find_owner(&self, name: &str) -> impl Future<Output = Result<Option<OwnerId>>> + Send;

    /// Owners in the order of their names, behind `after`, as many as a page holds.
    fn owners(&self, after: Option<String>) -> impl Future<Output = Result<Vec<(OwnerId, String)>>> + Send;

    /// Stores exchanges, all or none. One that is there already changes nothing.
    fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> impl Future<Output = Result<Vec<Recorded>>> + Send;

    /// Replaces the hashes and keys of exchanges by those that a newer program makes of the same bodies, all or none, and says of
    /// how many. Newer exchanges are to come before older ones: a store may keep a hash with an exchange before.
    fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> impl Future<Output = Result<u64>> + Send;

    /// Answers as the store stood at `as_of`: requests by their start, answers by their end.
    fn look_up(
        &self,
        owner: OwnerId,
        questions: Questions,
        as_of: Micros,
    ) -> impl Future<Output = Result<Answers>> + Send;

    fn exchanges(
        &self,
        owner: OwnerId,
        selection: Selection,
        as_of: Micros,
    ) -> impl Future<Output = Result<Vec<ExchangeRow>>> + Send;

    /// What exchanges took, in the order of (at, number), behind `after`: as [`exchanges`](Store::exchanges) says it, without reading
    /// the rest where the store can do so. Sums are made of all there is.
    fn spent(
        &self,
        owner: OwnerId,
        after: Option<(Micros, ExchangeNumber)>,
        limit: usize,
        as_of: Micros,
    ) -> impl Future<Output = Result<Vec<Spent>>> + Send {
        async move {
            let page = Selection::Since { after, limit };
            let rows = self.exchanges(owner, page, as_of).await?;
            Ok(rows.into_iter().map(Spent::from).collect())
        }
    }

    /// The recorded bytes, checked against their SHA-256. `None` where there are none, or where they were forgotten. Of a request that
    /// lost something what is left.
    fn body(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        half: Half,
    ) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// The bodies of some exchanges, in order, as [`body`](Store::body) gives them: what they share is read once where the store can do
    /// so.
    fn bodies(
        &self,
        owner: OwnerId,
        exchanges: Vec<ExchangeNumber>,
        half: Half,
    ) -> impl Future<Output = Result<Vec<Option<Vec<u8>>>>> + Send {
        async move {
            let mut bodies = Vec::with_capacity(exchanges.len());
            for exchange in exchanges {
                bodies.push(self.body(owner, exchange, half).await?);
            }
            Ok(bodies)
        }
    }

    /// The last bytes of a body, at least so many, without reading what stands before them where the store can do so. Only a whole
    /// body is checked: whoever reads a part of one has to know it by its nodes.
    fn body_end(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        half: Half,
        length: usize,
    ) -> impl Future<Output = Result<Option<BodyEnd>>> + Send {
        async move {
            let body = self.body(owner, exchange, half).await?;
            Ok(body.map(|bytes| BodyEnd::of_whole(bytes, length)))
        }
    }

    /// The bytes of a part by their SHA-256, which is its name.
    fn part(&self, owner: OwnerId, name: PartHash) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// The nodes of an exchange's request, from its first to its last. An error for one that has more than `limit`.
    fn chain(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<NodeHash>>> + Send;

    /// The last nodes of an exchange's request, in order: so many, or all.
    fn chain_end(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        count: usize,
    ) -> impl Future<Output = Result<Vec<NodeHash>>> + Send {
        async move {
            let mut chain = self.chain(owner, exchange, usize::MAX).await?;
            Ok(chain.split_off(chain.len().saturating_sub(count)))
        }
    }

    /// How far linking has come.
    fn link_state(&self, owner: OwnerId) -> impl Future<Output = Result<LinkState>> + Send;

    /// The state, and the first exchanges of the log that have no links: what linking asks for every time.
    fn unlinked(
        &self,
        owner: OwnerId,
        limit: usize,
    ) -> impl Future<Output = Result<(LinkState, Vec<ExchangeRow>)>> + Send {
        async move {
            let state = self.link_state(owner).await?;
            let rows = match state.linked_to < state.newest {
                true => self.exchanges(owner, state.unlinked(limit), Micros::MAX).await?,
                false => Vec::new(),
            };
            Ok((state, rows))
        }
    }

    /// Stores what linking concluded, all or nothing, under the lock that linking of this owner holds. `false` and no change
    /// if somebody else saved since the state that the changes were made from: read again, decide again.
    fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> impl Future<Output = Result<bool>> + Send;

    fn links(&self, owner: OwnerId, which: Links) -> impl Future<Output = Result<Vec<LinkRow>>> + Send;

    /// The branches of a conversation, in the order of their first exchanges, at most [`BRANCHES_MAX`].
    fn branches(
        &self,
        owner: OwnerId,
        conversation: ExchangeNumber,
    ) -> impl Future<Output = Result<Vec<BranchRow>>> + Send;

    fn conversations(
        &self,
        owner: OwnerId,
        which: Conversations,
    ) -> impl Future<Output = Result<Vec<ConversationRow>>> + Send;

    /// Keeps the course of a conversation in place of an older one. It goes with what it was read from: with the links, with the
    /// conversation, when somebody in it is linked otherwise, and with all others of the owner when anything is forgotten. `false`
    /// and no change if anything changed since the state of that version.
    fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow)
    -> impl Future<Output = Result<bool>> + Send;

    /// What is kept of how a conversation goes on.
    fn find_course(&self, owner: OwnerId, root: ExchangeNumber)
    -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// Stores what was read of logs beside their exchanges, all or nothing.
    fn save_log(&self, owner: OwnerId, changes: LogChanges) -> impl Future<Output = Result<()>> + Send;

    fn records(&self, owner: OwnerId, which: Records) -> impl Future<Output = Result<Vec<RecordRow>>> + Send;

    /// How far files were read.
    fn imported_files(&self, owner: OwnerId, which: Files) -> impl Future<Output = Result<Vec<ImportedFile>>> + Send;

    /// Stores names that were minted, all or nothing, and says which of them another has.
    fn save_names(&self, owner: OwnerId, changes: NameChanges) -> impl Future<Output = Result<Taken>> + Send;

    fn names(&self, owner: OwnerId, which: Names) -> impl Future<Output = Result<Vec<NameRow>>> + Send;

    fn message_names(
        &self,
        owner: OwnerId,
        which: MessageNames,
    ) -> impl Future<Output = Result<Vec<MessageName>>> + Send;

    /// Pins outcomes, unless they are pinned already, and gives them as they stand, in order.
    fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> impl Future<Output = Result<Vec<Pin>>> + Send;

    /// Those that are pinned, in order.
    fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> impl Future<Output = Result<Vec<Pin>>> + Send;

    /// What people may mean by the beginning of a hash: of each kind at most `limit`, in order.
    fn beginning_with(
        &self,
        owner: OwnerId,
        prefix: HashPrefix,
        limit: usize,
    ) -> impl Future<Output = Result<Beginning>> + Send;

    fn search(&self, owner: OwnerId, query: SearchQuery) -> impl Future<Output = Result<Vec<Hit>>> + Send;

    /// How many of an owner's texts search does not find yet.
    fn search_lag(&self, owner: OwnerId) -> impl Future<Output = Result<SearchLag>> + Send;

    /// Indexes up to `limit` waiting texts and says how many are left.
    fn index_texts(&self, limit: usize) -> impl Future<Output = Result<SearchLag>> + Send;

    /// Removes what is told, and what nobody uses then, all or nothing.
    fn forget(&self, owner: OwnerId, what: Forgetting) -> impl Future<Output = Result<Forgotten>> + Send;

    /// Removes what nobody uses any more; with `is_dry` only counts it.
    fn sweep(&self, owner: OwnerId, is_dry: bool) -> impl Future<Output = Result<Forgotten>> + Send;

    /// Leaves no copy of what was removed, as far as it is the store's to say, and gives back the room that it took.
    fn compact(&self) -> impl Future<Output = Result<Compacted>> + Send;

    /// When what had each of these names was forgotten: ids of exchanges, or [`Tombstones::names`](crate::forget::Tombstones).
    fn forgotten(&self, owner: OwnerId, names: Vec<String>)
    -> impl Future<Output = Result<Vec<Option<Micros>>>> + Send;

    fn stats(&self, owner: OwnerId) -> impl Future<Output = Result<Stats>> + Send;

    /// Looks for damage in one owner's data.
    fn check(&self, owner: OwnerId, depth: Depth) -> impl Future<Output = Result<Vec<Finding>>> + Send;
}

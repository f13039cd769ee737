//! Facts: what a recorder knows about an exchange, finished and checked.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::Usage;
use ropewalk_core::part::Part;
use ropewalk_core::rope::{Layout, Pieces};
use ropewalk_core::shared_list::SharedList;

pub use ropewalk_core::chain::Link;

/// A moment: microseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

impl Micros {
    /// Later than everything.
    pub const MAX: Micros = Micros(i64::MAX);
}

/// Whose data it is, as the store numbers them. First in every key, in every statement's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub i64);

/// An exchange within its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeNumber(pub i64);

/// A place in the owner's log, in the order of commits: who reads up to here misses nothing before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub i64);

/// A body: how it is put together, and what it must hash to.
pub trait Recipe: Pieces + fmt::Debug + Any + Send {
    /// Where the next turn's recipe will differ, so that both can share what lies around.
    fn layout(&self) -> Layout;
    /// The parts that may be new. The store must have all others that the recipe names.
    fn parts<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Part> + 'a>;
    /// Those of them that may be new where the first pieces are known to be stored.
    fn parts_behind<'a>(&'a self, _pieces: usize) -> Box<dyn Iterator<Item = &'a Part> + 'a> {
        self.parts()
    }
    /// The same recipe with nothing but its pieces, to be kept for comparison: they take less room than what they name. `None` where
    /// it can only be kept as it is.
    fn without_parts(&self) -> Option<Arc<dyn Recipe>> {
        None
    }
    /// With how many pieces this recipe and another one begin.
    fn shared_pieces(&self, other: &dyn Recipe) -> usize {
        let both = self.pieces().zip(other.pieces());
        both.take_while(|(own, other)| own == other).count()
    }
}

#[derive(Debug, Clone)]
pub struct Body {
    pub recipe: Arc<dyn Recipe>,
    pub sha256: [u8; 32],
    pub length: u64,
}

/// How an exchange ended, or that it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The request is recorded, its end is not.
    Pending,
    Complete,
    Error,
    /// The upstream stopped in the middle.
    Truncated,
    /// The client went away.
    ClientCancelled,
}

impl Status {
    pub const ALL: [Status; 5] = [
        Status::Pending,
        Status::Complete,
        Status::Error,
        Status::Truncated,
        Status::ClientCancelled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Complete => "complete",
            Status::Error => "error",
            Status::Truncated => "truncated",
            Status::ClientCancelled => "client_cancelled",
        }
    }
}

/// The hashes of an exchange that people look things up by, beside its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HashKind {
    Message,
    CurrentMessage,
    ParentMessage,
    System,
    SystemRaw,
    Toolset,
    Tools,
    AgentType,
    FirstUser,
    FirstResponse,
    Conversation,
    Prompt,
    Response,
    Path,
}

impl HashKind {
    pub const ALL: [HashKind; 14] = [
        HashKind::Message,
        HashKind::CurrentMessage,
        HashKind::ParentMessage,
        HashKind::System,
        HashKind::SystemRaw,
        HashKind::Toolset,
        HashKind::Tools,
        HashKind::AgentType,
        HashKind::FirstUser,
        HashKind::FirstResponse,
        HashKind::Conversation,
        HashKind::Prompt,
        HashKind::Response,
        HashKind::Path,
    ];

    /// The same from turn to turn, for the most part: stored once, not with every exchange.
    pub fn is_of_context(self) -> bool {
        match self {
            HashKind::System
            | HashKind::SystemRaw
            | HashKind::Toolset
            | HashKind::Tools
            | HashKind::AgentType
            | HashKind::FirstUser
            | HashKind::FirstResponse
            | HashKind::Conversation => true,
            HashKind::Message
            | HashKind::CurrentMessage
            | HashKind::ParentMessage
            | HashKind::Prompt
            | HashKind::Response
            | HashKind::Path => false,
        }
    }
}

/// What linking looks an exchange up by, each as a SHA-256 of the thing itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// The prompt of a spawning tool call.
    SpawnPrompt,
    /// The normalised beginning of an answer that summarises.
    Summary,
    Session,
    Agent,
    /// A provider's id of an answer or of an output item.
    Item,
    /// An assistant value that can anchor a rewritten history.
    Anchor,
    /// Any hash of [`HashKind`], filled up with zeros to 32 bytes. The store makes these keys itself.
    Hash,
    /// The first prompt of a request that no answer stands in: what a spawning call, late or early, is compared with.
    Opening,
    /// A tool call whose result this request brings first.
    CallResult,
    /// A provider's id of an answer or item that this request goes on from.
    Reference,
    /// Whom a spawning tool call asks for.
    SpawnName,
    /// The provider's ids of this very call. Whoever tells of the same call tells of the same exchange, see
    /// [`Telling::outranks`].
    Call,
    /// What of the call reached the model: another call with the same key may be given the same answer.
    Reuse,
    /// What a client files the call under.
    Project,
    /// The client with its version.
    Client,
}

impl KeyKind {
    pub const ALL: [KeyKind; 15] = [
        KeyKind::SpawnPrompt,
        KeyKind::Summary,
        KeyKind::Session,
        KeyKind::Agent,
        KeyKind::Item,
        KeyKind::Anchor,
        KeyKind::Hash,
        KeyKind::Opening,
        KeyKind::CallResult,
        KeyKind::Reference,
        KeyKind::SpawnName,
        KeyKind::Call,
        KeyKind::Reuse,
        KeyKind::Project,
        KeyKind::Client,
    ];

    /// Known from the exchange's end rather than from its start. A hash may be of either; it is shown, never linked by.
    pub fn is_of_answer(self) -> bool {
        match self {
            KeyKind::SpawnPrompt
            | KeyKind::SpawnName
            | KeyKind::Summary
            | KeyKind::Item
            | KeyKind::Anchor
            | KeyKind::Call
            | KeyKind::Reuse => true,
            KeyKind::Session
            | KeyKind::Agent
            | KeyKind::Hash
            | KeyKind::Opening
            | KeyKind::CallResult
            | KeyKind::Reference
            | KeyKind::Project
            | KeyKind::Client => false,
        }
    }

    /// The same from turn to turn: stored once, not with every exchange. A hash is of the context where its [`HashKind`] is.
    pub fn is_of_context(self) -> bool {
        match self {
            KeyKind::Session | KeyKind::Agent | KeyKind::Project | KeyKind::Client => true,
            KeyKind::SpawnPrompt
            | KeyKind::SpawnName
            | KeyKind::Summary
            | KeyKind::Item
            | KeyKind::Anchor
            | KeyKind::Hash
            | KeyKind::Opening
            | KeyKind::CallResult
            | KeyKind::Reference
            | KeyKind::Call
            | KeyKind::Reuse => false,
        }
    }

    /// Stable across versions: it is stored.
    pub(crate) const fn code(self) -> u8 {
        match self {
            KeyKind::SpawnPrompt => 0,
            KeyKind::Summary => 1,
            KeyKind::Session => 2,
            KeyKind::Agent => 3,
            KeyKind::Item => 4,
            KeyKind::Anchor => 5,
            KeyKind::Hash => 6,
            KeyKind::Opening => 7,
            KeyKind::CallResult => 8,
            KeyKind::Reference => 9,
            KeyKind::SpawnName => 10,
            KeyKind::Call => 11,
            KeyKind::Reuse => 12,
            KeyKind::Project => 13,
            KeyKind::Client => 14,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        KeyKind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub kind: KeyKind,
    pub hash: [u8; 32],
}

/// Bytes of a hash that a short key keeps: enough for a name within one owner.
pub(crate) const SHORT_KEY_BYTES: usize = 16;

impl Key {
    /// A key of the beginning of a hash, which takes half the room.
    pub fn short(kind: KeyKind, mut hash: [u8; 32]) -> Self {
        hash[SHORT_KEY_BYTES..].fill(0);
        Key { kind, hash }
    }

    /// The key that finds an exchange by one of its hashes.
    pub fn of_hash(hash: &[u8]) -> Self {
        let mut filled = [0; 32];
        let length = hash.len().min(32);
        filled[..length].copy_from_slice(&hash[..length]);
        Key {
            kind: KeyKind::Hash,
            hash: filled,
        }
    }
}

/// A text to be found by its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchText {
    pub source: TextSource,
    /// What was said in one breath, such as the strings of a tool's input: words of several are found together. A string that
    /// is a part of the body costs a store nothing.
    pub strings: Vec<Arc<str>>,
}

impl SearchText {
    /// The strings, one a line.
    pub fn text(&self) -> String {
        self.strings.join("\n")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextSource {
    User,
    Assistant,
    ToolInput,
    ToolResult,
}

impl TextSource {
    pub const ALL: [TextSource; 4] = [
        TextSource::User,
        TextSource::Assistant,
        TextSource::ToolInput,
        TextSource::ToolResult,
    ];

    /// Comes with the exchange's end; the others are there from its start and are not stored again with the end.
    pub fn is_of_answer(self) -> bool {
        matches!(self, TextSource::Assistant | TextSource::ToolInput)
    }

    pub fn name(self) -> &'static str {
        match self {
            TextSource::User => "user",
            TextSource::Assistant => "assistant",
            TextSource::ToolInput => "tool_input",
            TextSource::ToolResult => "tool_result",
        }
    }
}

/// Where an imported exchange was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    pub file: String,
    pub line: u64,
    pub uuid: Option<String>,
    /// Ids of records that this one absorbed.
    pub aliases: Vec<String>,
    /// Of a client's log: when the file was begun. A log knows less of a call than whoever passed it on.
    pub log_begun: Option<Micros>,
}

/// Who tells of a call, and how much of it.
#[derive(Debug, Clone, Copy)]
pub struct Telling<'t> {
    pub provenance: Option<&'t Provenance>,
    pub ended_at: Option<Micros>,
    pub session: Option<&'t str>,
}

impl<'t> Telling<'t> {
    fn log(self) -> Option<(&'t Provenance, Micros)> {
        let provenance = self.provenance?;
        Some((provenance, provenance.log_begun?))
    }

    pub fn is_of_log(self) -> bool {
        self.log().is_some()
    }

    /// Whether both tell of one and the same event: two who passed a call on saw two events, whatever its ids.
    pub fn is_same_call(self, other: Telling<'_>) -> bool {
        self.is_of_log() || other.is_of_log()
    }

    /// Whether this telling takes the place of the other, whichever came first. Who passed the call on knows it best; of logs
    /// the one that saw more of the answer, then the older one, because the others copied it.
    pub fn outranks(self, other: Telling<'_>) -> bool {
        let Some((theirs, their_begin)) = other.log() else {
            return false;
        };
        let Some((mine, my_begin)) = self.log() else {
            return true;
        };
        let rank = |ended_at, begin: Micros, session, provenance: &Provenance| {
            (
                std::cmp::Reverse(ended_at),
                begin,
                session,
                provenance.file.clone(),
                provenance.line,
            )
        };
        let mine = rank(self.ended_at, my_begin, self.session.map(str::to_owned), mine);
        let theirs = rank(other.ended_at, their_begin, other.session.map(str::to_owned), theirs);
        mine < theirs
    }
}

/// A call in an answer that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// Which of the answer's spawning calls it is.
    pub index: u32,
    /// The provider's id of the call.
    pub call: Option<String>,
    /// Whom it asks for.
    pub name: Option<String>,
    /// SHA-256 of the normalised prompt, as in [`KeyKind::SpawnPrompt`].
    pub prompt: Option<[u8; 32]>,
    /// When the call was complete in the stream, else when the answer ended.
    pub at: Micros,
}

/// One exchange, or the end of one that was recorded without it.
#[derive(Debug, Clone)]
pub struct NewExchange {
    /// Unique per owner. The same id again is the same exchange.
    pub id: String,
    pub at: Micros,
    pub ended_at: Option<Micros>,
    pub status: Status,
    pub http_status: Option<u16>,
    pub provider: String,
    pub model: Option<String>,
    /// `turn`, `compaction`, or the kind of an auxiliary call.
    pub kind: String,
    pub session: Option<String>,
    pub agent: Option<String>,
    pub project: Option<String>,
    /// The node before the first block.
    pub start: NodeHash,
    /// The request's chain, whole: what is known of it is found from its end.
    pub request_chain: SharedList<Link>,
    /// The answer's blocks behind the request. Also of an answer that was cut off: the client may replay what it got.
    pub answer_chain: Vec<Link>,
    pub hashes: Vec<(HashKind, Vec<u8>)>,
    /// All but those of `hashes`, which the store makes itself.
    pub keys: Vec<Key>,
    pub usage: Option<Usage>,
    pub cost_nano_usd: Option<u64>,
    pub cost_is_estimate: bool,
    pub request: Body,
    /// What the provider got in the request's place.
    pub sent: Option<Body>,
    pub response: Option<Body>,
    /// The agents that the answer starts.
    pub spawns: Vec<Spawn>,
    /// What only this exchange says in words, for search.
    pub texts: Vec<SearchText>,
    /// Everything else that is kept and shown but never looked up by: method, path, headers, hints. JSON.
    pub detail: String,
    pub provenance: Option<Provenance>,
    pub rules_version: u32,
    /// Of the program that made `hashes` and `keys`.
    pub projections_version: u32,
}

/// The hashes and keys of a recorded exchange, made again from its bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projected {
    pub exchange: ExchangeNumber,
    /// The answer that they were made with. An exchange that has another one by now is left alone.
    pub response_sha256: Option<[u8; 32]>,
    pub hashes: Vec<(HashKind, Vec<u8>)>,
    /// All but those of `hashes`, which the store makes itself.
    pub keys: Vec<Key>,
    pub version: u32,
}

impl NewExchange {
    pub fn telling(&self) -> Telling<'_> {
        Telling {
            provenance: self.provenance.as_ref(),
            ended_at: self.ended_at,
            session: self.session.as_deref(),
        }
    }

    /// What the call is known by, where anything is known.
    pub fn calls(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        let keys = self.keys.iter().filter(|key| key.kind == KeyKind::Call);
        keys.map(|key| key.hash)
    }
}

//! What is to go, and what went.
//!
//! Exchanges are removed whole, or lose what they said and keep their row (a [`Hole`]). Either ends with a sweep: what nobody
//! uses any more goes too. A tombstone stays of what was removed, unless the caller wants none: a keyed hash that says that it
//! is not to come back.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::derived::{ConversationRow, LinkKind};
use crate::facts::{Body, ExchangeNumber, KeyKind, Micros, NewExchange, TextSource};

/// What is to go, all or nothing.
#[derive(Debug, Clone, Default)]
pub struct Forgetting {
    /// With everything that only they use.
    pub removed: Vec<ExchangeNumber>,
    /// They stay, without what they said.
    pub holed: Vec<Holed>,
    /// Sessions whose log records go.
    pub sessions: Vec<String>,
    /// Names of messages that go: the exchange of the conversation's name, and the short hash.
    pub message_names: Vec<(ExchangeNumber, String)>,
    /// Pins that quote one of these conversations, by their friendly ids, go.
    pub quoted: Vec<String>,
    /// Conversations whose own record said something that is forgotten.
    pub conversations: Vec<ConversationRow>,
    /// `Some`: what is removed is not to come back, and was forgotten then.
    pub tombstones: Option<Tombstones>,
}

impl Forgetting {
    pub fn is_nothing(&self) -> bool {
        self.removed.is_empty() && self.holed.is_empty() && self.sessions.is_empty() && self.quoted.is_empty()
    }

    /// What is not to come back beside the exchanges: names that people type, and sessions. When it was forgotten, if it is to
    /// be remembered at all.
    pub(crate) fn named_graves(&self) -> Option<(Micros, Vec<Grave<'_>>)> {
        let Tombstones { at, names } = self.tombstones.as_ref()?;
        let names = names.iter().map(|name| Grave::Name(name));
        let sessions = self.sessions.iter().map(|session| Grave::Session(session));
        Some((*at, names.chain(sessions).collect()))
    }
}

/// What is remembered of what was forgotten.
#[derive(Debug, Clone)]
pub struct Tombstones {
    pub at: Micros,
    /// What people may ask for it by, beside the exchanges' ids: friendly ids, ids of conversations.
    pub names: Vec<String>,
}

/// What goes of an exchange that stays.
#[derive(Debug, Clone)]
pub struct Holed {
    pub exchange: ExchangeNumber,
    pub request: HoledRequest,
    /// The whole answer goes, with its texts.
    pub drops_response: bool,
    /// Hashes of what it said go as well: they would confirm a guess.
    pub drops_hashes: bool,
}

impl Holed {
    /// Whether search is not to find what stood there any more.
    pub fn drops_text(&self, source: TextSource) -> bool {
        match (&self.request, source.is_of_answer()) {
            (_, true) => self.drops_response,
            (HoledRequest::Kept, false) => false,
            (HoledRequest::Dropped, false) => true,
            (HoledRequest::Replaced { drops_texts, .. }, false) => *drops_texts,
        }
    }
}

#[derive(Debug, Clone)]
pub enum HoledRequest {
    Kept,
    Dropped,
    /// Something that it repeats was cut out; its own texts stay to be found unless `drops_texts`.
    Replaced {
        body: Body,
        drops_texts: bool,
    },
}

/// An exchange lost something that it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// What linking concluded while all of it was there; `None` where it was not linked yet.
    pub link: Option<KeptLink>,
    /// Whether its request is still there, or something of it.
    pub has_request: bool,
    pub has_response: bool,
}

/// What a decision rests on, as it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLink {
    pub kind: LinkKind,
    pub parent: Option<ExchangeNumber>,
    /// [`LinkRow::decision`](crate::derived::LinkRow).
    pub decision: Vec<u8>,
}

/// What went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Rows that are gone.
    pub exchanges: u64,
    /// Rows that stay without something they said.
    pub holes: u64,
    pub nodes: u64,
    pub parts: u64,
    /// What the parts had, as they came.
    pub part_bytes: u64,
    pub chunks: u64,
    pub contexts: u64,
    pub texts: u64,
    pub names: u64,
    pub records: u64,
    pub pins: u64,
}

impl Forgotten {
    /// What was removed, and what a sweep then found to be used by nobody.
    pub(crate) fn and_swept(self, swept: Forgotten) -> Self {
        Forgotten {
            exchanges: self.exchanges,
            holes: self.holes,
            names: self.names,
            records: self.records,
            pins: self.pins,
            texts: self.texts + swept.texts,
            ..swept
        }
    }
}

/// How large a store was and is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    pub bytes_before: u64,
    pub bytes_after: u64,
    /// Somebody reads an old state of the store, so that its files still have it.
    pub leaves_copies: bool,
}

/// What a tombstone is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grave<'g> {
    Exchange(&'g str),
    /// The provider's ids of a call, as in [`KeyKind::Call`](crate::facts::KeyKind).
    Call(&'g [u8; 32]),
    Session(&'g str),
    Name(&'g str),
}

impl<'g> Grave<'g> {
    /// What an exchange may be buried under: its id, and where a log tells of a call, that call. Who passes one on saw another.
    pub(crate) fn of(exchange: &'g NewExchange) -> Vec<Self> {
        let mut graves = vec![Grave::Exchange(&exchange.id)];
        if exchange.telling().is_of_log() {
            let calls = exchange.keys.iter().filter(|key| key.kind == KeyKind::Call);
            graves.extend(calls.map(|key| Grave::Call(&key.hash)));
        }
        graves
    }

    pub(crate) fn tombstone(self, secret: &[u8]) -> [u8; 32] {
        let (kind, name): (u8, &[u8]) = match self {
            Grave::Exchange(id) => (0, id.as_bytes()),
            Grave::Call(hash) => (1, hash),
            Grave::Session(id) => (2, id.as_bytes()),
            Grave::Name(name) => (3, name.as_bytes()),
        };
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(secret).expect("HMAC takes keys of every length");
        mac.update(&[kind]);
        mac.update(name);
        mac.finalize().into_bytes().into()
    }
}

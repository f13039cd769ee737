//! Exchanges for the claims, and questions that several of them ask.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::json::{Style, quote};
use ropewalk_engine::{RawExchange, Witness, prepare};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{ExchangeRow, Half, Hit, KnownNode, Questions, Recorded, SearchQuery, Selection};
use ropewalk_store::{Micros, NewExchange, OwnerId, Store};

use crate::conversation::Conversation;

/// When the first exchange of most claims starts.
pub const START: Micros = Micros(1_767_225_600_000_000);

/// From one turn to the next.
pub const TURN_MICROS: i64 = 1_000_000;

/// From a request to the end of its answer.
pub const ANSWER_MICROS: i64 = 400_000;

/// How often indexing is asked to go on before a claim gives up.
const INDEX_ROUNDS_MAX: usize = 10_000;

/// An exchange as it was on the wire, beside what became of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub raw: RawExchange,
    pub new: NewExchange,
}

impl Case {
    pub fn of(raw: RawExchange) -> Self {
        let new = prepare(&raw, None, &BundledPrices).exchange;
        Case { raw, new }
    }

    /// The same without its answer.
    #[must_use]
    pub fn begun(&self) -> Self {
        let mut raw = self.raw.clone();
        (raw.response_body, raw.status, raw.ended_at) = (None, None, None);
        Case::of(raw)
    }

    /// The node behind the whole request.
    pub fn input_node(&self) -> NodeHash {
        self.new.request_chain.last().map_or(self.new.start, |link| link.node)
    }

    pub fn answer_nodes(&self) -> Vec<NodeHash> {
        self.new.answer_chain.iter().map(|link| link.node).collect()
    }

    pub fn request_nodes(&self) -> Vec<NodeHash> {
        self.new.request_chain.iter().map(|link| link.node).collect()
    }

    /// When the answer became known.
    pub fn answered_at(&self) -> Option<Micros> {
        self.new
            .response
            .as_ref()
            .map(|_| self.new.ended_at.unwrap_or(self.new.at))
    }
}

/// A place in time, in turns and parts of turns since [`START`].
pub fn after_turns(turns: i64) -> Micros {
    Micros(START.0 + turns * TURN_MICROS)
}

/// An exchange with any bodies at the Messages endpoint.
pub fn bytes_case(id: &str, at: Micros, request: &[u8], response: Option<&[u8]>) -> Case {
    Case::of(RawExchange {
        id: id.to_owned(),
        at,
        ended_at: response.map(|_| Micros(at.0 + ANSWER_MICROS)),
        spawned_at: Vec::new(),
        method: "POST".to_owned(),
        path: "/v1/messages".to_owned(),
        request_headers: vec![("user-agent".to_owned(), "conformance/1".to_owned())],
        request_body: Bytes::copy_from_slice(request),
        sent_body: None,
        names: Default::default(),
        status: response.map(|_| 200),
        response_headers: Vec::new(),
        response_body: response.map(Bytes::copy_from_slice),
        cut_off: false,
        witness: Witness::default(),
        provenance: None,
    })
}

/// A small turn: what user and assistant said by turns, the user first and last, and the answer to it.
pub fn turn(id: &str, at: Micros, said: &[&str], answer: Option<&str>) -> Case {
    let request = request_bytes(said);
    let response = answer.map(|text| answer_bytes(id, text));
    bytes_case(id, at, &request, response.as_deref())
}

pub fn request_bytes(said: &[&str]) -> Vec<u8> {
    let messages = said.iter().enumerate().map(|(index, text)| {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":{}}}"#, quote(text, Style::Plain))
    });
    let messages = messages.collect::<Vec<_>>().join(",");
    format!(r#"{{"model":"claude-opus-4-1","max_tokens":64,"messages":[{messages}]}}"#).into_bytes()
}

pub fn answer_bytes(id: &str, text: &str) -> Vec<u8> {
    let text = quote(text, Style::Plain);
    let id = quote(&format!("msg_{id}"), Style::Plain);
    format!(
        r#"{{"id":{id},"type":"message","role":"assistant","model":"claude-opus-4-1","content":[{{"type":"text","text":{text}}}],"stop_reason":"end_turn","usage":{{"input_tokens":3,"output_tokens":2}}}}"#
    )
    .into_bytes()
}

/// A generated conversation in Claude Code's shape, half of its answers streamed.
pub fn conversation(seed: u64, turns: usize) -> Vec<Case> {
    let mut conversation = Conversation::new(seed, 600).plain_every(2);
    let cases = (0..turns).map(|number| {
        let turn = conversation.next_turn();
        let at = after_turns(number as i64);
        bytes_case(&format!("c{seed}-{number}"), at, &turn.request, Some(&turn.response))
    });
    cases.collect()
}

/// An owner that no other claim uses, also where all claims share one database.
pub async fn fresh_owner(store: &impl Store) -> OwnerId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("conformance-{}-{number}", std::process::id());
    store.owner(&name).await.expect("an owner can be made")
}

/// Records in one batch, which must work.
pub async fn record(store: &impl Store, owner: OwnerId, cases: &[Case]) -> Vec<Recorded> {
    let batch = cases.iter().map(|case| case.new.clone()).collect();
    let recorded = store.record(owner, batch).await.expect("the batch is good");
    assert_eq!(recorded.len(), cases.len(), "one outcome for each");
    recorded
}

pub async fn record_one(store: &impl Store, owner: OwnerId, case: &Case) -> Recorded {
    record(store, owner, std::slice::from_ref(case)).await[0]
}

/// Both bodies are the bytes that came.
pub async fn assert_bytes(store: &impl Store, owner: OwnerId, number: ExchangeNumber, raw: &RawExchange) {
    let request = store
        .body(owner, number, Half::Request)
        .await
        .expect("a body can be read");
    assert!(
        request.as_deref() == Some(&raw.request_body[..]),
        "the request of {} differs",
        shown(&raw.id)
    );
    let response = store
        .body(owner, number, Half::Response)
        .await
        .expect("a body can be read");
    let is_same = response.as_deref() == raw.response_body.as_deref();
    assert!(is_same, "the response of {} differs", shown(&raw.id));
}

fn shown(id: &str) -> String {
    id.chars().take(64).collect()
}

/// All rows there are, in the order of time.
pub async fn all_rows(store: &impl Store, owner: OwnerId, as_of: Micros) -> Vec<ExchangeRow> {
    let mut rows: Vec<ExchangeRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| (row.at, row.number));
        let selection = Selection::Since { after, limit: 100 };
        let page = store
            .exchanges(owner, selection, as_of)
            .await
            .expect("rows can be listed");
        let Some(first) = page.first() else {
            return rows;
        };
        // A store that repeats its pages must fail, not keep the claim going for ever.
        assert!(
            after.is_none_or(|after| (first.at, first.number) > after),
            "pages overlap"
        );
        rows.extend(page);
    }
}

pub async fn row_of(store: &impl Store, owner: OwnerId, number: ExchangeNumber) -> ExchangeRow {
    let selection = Selection::Numbers(vec![number]);
    let mut rows = store
        .exchanges(owner, selection, Micros::MAX)
        .await
        .expect("rows can be read");
    assert_eq!(rows.len(), 1, "one number, one row");
    rows.remove(0)
}

/// The deepest known node of one chain.
pub async fn deepest(store: &impl Store, owner: OwnerId, chain: Vec<NodeHash>, as_of: Micros) -> Option<KnownNode> {
    let questions = Questions {
        chains: vec![chain],
        limit: 100,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, as_of)
        .await
        .expect("a look-up is answered");
    let [found] = &answers.deepest[..] else {
        unreachable!("one chain has one answer")
    };
    found.clone()
}

/// Indexes until nothing waits. Other claims may add to the queue meanwhile.
pub async fn index_all(store: &impl Store) {
    for _ in 0..INDEX_ROUNDS_MAX {
        let lag = store.index_texts(1_000).await.expect("texts can be indexed");
        if lag.waiting == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    let lag = store.index_texts(0).await.expect("the lag is known");
    assert_eq!(lag.waiting, 0, "indexing does not come to an end");
}

pub fn query(text: &str) -> SearchQuery {
    SearchQuery {
        text: text.to_owned(),
        source: None,
        model: None,
        since: None,
        limit: 100,
    }
}

pub async fn find(store: &impl Store, owner: OwnerId, query: SearchQuery) -> Vec<Hit> {
    store.search(owner, query).await.expect("a search is answered")
}

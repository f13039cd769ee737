//! From an exchange as it was on the wire to the facts that the store takes.
//!
//! [`prepare`] decodes, chains, splits, hashes and keys in one go. It never fails: what cannot be read is kept as it came
//! (kind [`KIND_OPAQUE`], no chain), because everything that was on the wire is kept.
//!
//! Invariants: the same exchange gives the same facts, with or without a memo, but for the parts that the memo says are
//! stored already; a memo belongs to one owner, and its exchange was recorded.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use ropewalk_core::chain;
use ropewalk_core::cost::{Cost, PriceTable, Served};
use ropewalk_core::hash::{NodeHash, RULES_VERSION};
use ropewalk_core::json::Doc;
use ropewalk_core::model::{ChainStart, Provider, Request, Response, Role, Usage};
use ropewalk_core::projections::{HashedMessages, PROJECTIONS_VERSION, Projections};
use ropewalk_core::shared_list::SharedList;
use ropewalk_store::facts::{Body, Key, KeyKind, Link, Spawn, Status};
use ropewalk_store::{Micros, NewExchange};
use ropewalk_wire::auxiliary::{RequestKind, classify};
use ropewalk_wire::hints::{Hints, MAX_HINT_BYTES};
use ropewalk_wire::provider::{Endpoint, Route, Upstream, route, upstream_by_headers};
use ropewalk_wire::response::decode_response;
use ropewalk_wire::{GrownRequest, Memo, RequestBody, Split, read_request, split_response};

use crate::detail::{self, word};
use crate::link::outline::Outline;
use crate::names::Said;
use crate::raw::RawExchange;
use crate::recipe::body;
use crate::redact::count_redactions;
use crate::reuse::{self, Saved};
use crate::spawn::{SpawnCall, SpawnTools, prompt_hash};
use crate::view::message::answer_message;
use crate::{arrival, keys, texts};

/// The kind of an exchange whose request cannot be read: another endpoint, or no JSON.
pub const KIND_OPAQUE: &str = "opaque";

/// From here on an HTTP status says that the call failed.
const FAILED_STATUS_MIN: u16 = 400;

/// An exchange, ready to be stored.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub exchange: NewExchange,
    pub call: Call,
    /// What linking reads of the request.
    pub outline: Arc<Outline>,
    /// Bytes that keeping the outline takes; less than the request has where outlines share what they say.
    pub outline_bytes: u64,
    /// What the answer says, for its name.
    pub(crate) answer: Option<Said>,
    /// To prepare the next turn of the same conversation with, once this one is recorded. `None` where nothing was read.
    pub memo: Option<TurnMemo>,
}

/// A turn that was read and hashed, kept to prepare the next one faster.
#[derive(Debug, Clone)]
pub struct TurnMemo {
    pub(crate) body: Memo,
    hashed: HashedMessages,
}

/// What is told to others about an exchange, and not all kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// Whose format the bodies have.
    pub provider: Option<Provider>,
    pub counts_tokens: bool,
    pub streams: bool,
    /// What the client calls the conversation; not what may name several.
    pub session: Option<String>,
    pub response_id: Option<String>,
    pub response_model: Option<String>,
    pub stop_reason: Option<String>,
    /// The provider's name for what went wrong.
    pub error_kind: Option<String>,
}

impl Call {
    fn new(route: &Route<'_>, hints: &Hints) -> Self {
        let session = hints.session.as_ref().filter(|session| !session.source.is_weak());
        Call {
            provider: route.endpoint.provider(),
            counts_tokens: matches!(route.endpoint, Endpoint::CountTokens(_)),
            streams: matches!(route.endpoint, Endpoint::GeminiStream { .. }),
            session: session.map(|session| session.id.to_string()),
            ..Call::default()
        }
    }

    fn answered(&mut self, answer: &Response) {
        let said = |text: &Option<Box<str>>| text.as_deref().map(word);
        self.response_id = said(&answer.id);
        self.response_model = said(&answer.model);
        self.stop_reason = said(&answer.stop_reason);
        self.error_kind = answer.error.as_ref().map(|error| word(&error.kind));
    }
}

/// What preparing depends on beside the exchange.
#[derive(Clone, Copy)]
pub struct Preparer<'a> {
    pub prices: &'a dyn PriceTable,
    pub spawn_tools: &'a SpawnTools,
}

impl std::fmt::Debug for Preparer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preparer")
            .field("spawn_tools", self.spawn_tools)
            .finish_non_exhaustive()
    }
}

/// Prepares an exchange with the built-in table of spawning tools.
pub fn prepare(raw: &RawExchange, memo: Option<&TurnMemo>, prices: &dyn PriceTable) -> Prepared {
    let spawn_tools = &SpawnTools::default();
    Preparer { prices, spawn_tools }.prepare(raw, memo)
}

impl Preparer<'_> {
    pub fn prepare(&self, raw: &RawExchange, memo: Option<&TurnMemo>) -> Prepared {
        let route = route(&raw.path);
        let provider = route.endpoint.provider();
        let read =
            provider.and_then(|provider| read_request(provider, &raw.request_body, memo.map(|memo| &memo.body)).ok());
        match read {
            Some(mut read) => {
                let split = std::mem::take(&mut read.split);
                let body = Readable {
                    request: body(split, &raw.request_body),
                    redactions: count_redactions(&raw.request_body),
                    asked: Asked::Whole(read, memo.map(|memo| &memo.hashed)),
                };
                self.readable(raw, &route, body)
            }
            None => opaque(raw, &route),
        }
    }

    pub(crate) fn readable(&self, raw: &RawExchange, route: &Route<'_>, body: Readable<'_>) -> Prepared {
        let Readable {
            asked: read,
            request: request_body,
            redactions,
        } = body;
        let request = read.request();
        let hints = hints(raw, Some(request));
        let answer = decode_answer(raw, &route.endpoint, request.provider);
        let classified = classify(&route.endpoint, request, &hints);
        let mut exchange = envelope(raw, route, &hints, request_body);
        exchange.kind = classified.kind.name().to_owned();
        exchange.status = status(raw, answer.as_ref());
        exchange.start = read.start();
        exchange.request_chain = read.chain();
        let input_node = exchange.request_chain.last().map_or(exchange.start, |last| last.node);
        let outline = read.outline();
        let (projections, hashed) = read.projections(answer.as_ref());
        exchange.hashes = keys::hashes(&projections);
        let mut all_keys: BTreeSet<Key> = keys::of_hints(&hints).collect();
        all_keys.extend(project_key(&exchange));
        all_keys.extend(keys::of_request(request, &outline, classified.kind, self.spawn_tools));
        exchange.texts = texts::of_request(request);
        let spawned_at = arrival::spawned_at(raw, request.provider, answer.as_ref(), self.spawn_tools);
        // An error says nothing that a client could replay.
        if let Some(answer) = answer.as_ref().filter(|_| exchange.status != Status::Error) {
            exchange.answer_chain = answer_chain(input_node, answer);
            let is_compaction = classified.kind == RequestKind::Compaction;
            all_keys.extend(keys::of_answer(answer, is_compaction, self.spawn_tools));
            all_keys.extend(keys::call_keys(
                request.provider,
                answer,
                raw.response_header("request-id"),
                exchange.answer_chain.last().map(|link| link.node),
            ));
            exchange.spawns = spawns(raw, &spawned_at, answer, self.spawn_tools);
            exchange.texts.extend(texts::of_answer(answer));
        }
        let is_hit = reuse::is_hit(raw);
        let redactions = redactions + raw.response_body.as_deref().map_or(0, count_redactions);
        let is_reusable = !is_hit && redactions == 0 && exchange.status == Status::Complete;
        let reuse_key = read.whole().filter(|_| is_reusable);
        let reuse_key = reuse_key.and_then(|read| reuse::key(raw, route, read));
        all_keys.extend(reuse_key);
        if is_hit {
            // It was not answered now: whoever tells of the call itself tells of another exchange.
            all_keys.retain(|key| key.kind != KeyKind::Call);
        }
        exchange.keys = all_keys.into_iter().collect();
        let asked = request.model.as_deref().or_else(|| model_of(&route.endpoint));
        exchange.model = asked.map(word);
        exchange.usage = answer.as_ref().and_then(|answer| answer.usage);
        if let Some(cost) = self.cost(raw, request, asked, answer.as_ref()) {
            exchange.cost_nano_usd = Some(cost.amount.0);
            exchange.cost_is_estimate = cost.estimate;
        }
        let saved = is_hit.then(|| Saved::take(&mut exchange));
        exchange.detail = detail::write(
            raw,
            &spawned_at,
            &hints,
            detail::Found {
                kind_reason: classified.reason,
                answer: answer.as_ref(),
                redactions,
                reuse: reuse::standing(raw, reuse_key.is_some()),
                saved,
            },
        );
        let mut call = Call::new(route, &hints);
        call.streams |= request.stream;
        if let Some(answer) = &answer {
            call.answered(answer);
        }
        Prepared {
            outline_bytes: exchange.request.length,
            answer: answer
                .filter(|_| exchange.status != Status::Error)
                .and_then(|answer| Said::of_answer(input_node, &answer_message(answer))),
            exchange,
            call,
            outline,
            memo: read.into_memo(hashed),
        }
    }

    fn cost(
        &self,
        raw: &RawExchange,
        request: &Request,
        asked: Option<&str>,
        answer: Option<&Response>,
    ) -> Option<Cost> {
        let answer = answer?;
        let usage: Usage = answer.usage?;
        let at = Timestamp::from_microsecond(raw.ended_at.unwrap_or(raw.at).0).ok()?;
        let tier = service_tier(request);
        let served = Served {
            provider: request.provider,
            model: answer.model.as_deref().or(asked)?,
            at,
            service_tier: tier.as_deref(),
            usage_is_final: answer.complete,
        };
        self.prices.price(&served, &usage)
    }
}

/// A request that was read, wherever it came from.
pub(crate) struct Readable<'m> {
    pub(crate) asked: Asked<'m>,
    pub(crate) request: Body,
    /// Placeholders in the body.
    pub(crate) redactions: u64,
}

/// What a request says.
pub(crate) enum Asked<'m> {
    /// Read from its body. It is hashed from its beginning, or behind a turn before it.
    Whole(RequestBody, Option<&'m HashedMessages>),
    /// Told message by message, and hashed as it grew.
    Grown(GrownRequest, Arc<Outline>),
}

impl Asked<'_> {
    fn request(&self) -> &Request {
        match self {
            Asked::Whole(read, _) => &read.request,
            Asked::Grown(grown, _) => &grown.request,
        }
    }

    fn start(&self) -> NodeHash {
        match self {
            Asked::Whole(read, _) => read.start,
            Asked::Grown(grown, _) => grown.start,
        }
    }

    fn chain(&self) -> SharedList<Link> {
        match self {
            Asked::Whole(read, _) => {
                let links = read.values().zip(read.nodes());
                links.map(|(value, node)| Link { value, node: *node }).collect()
            }
            Asked::Grown(grown, _) => grown.chain.clone(),
        }
    }

    fn outline(&self) -> Arc<Outline> {
        match self {
            Asked::Whole(read, _) => Arc::new(Outline::of(read)),
            Asked::Grown(_, outline) => Arc::clone(outline),
        }
    }

    /// The hashes of earlier systems, and what the next turn can go on from.
    fn projections(&self, answer: Option<&Response>) -> (Projections, Option<HashedMessages>) {
        match self {
            Asked::Whole(read, before) => {
                let (projections, hashed) = Projections::behind(&read.request, answer, *before);
                (projections, Some(hashed))
            }
            Asked::Grown(grown, _) => {
                let (transcript, path) = (grown.transcript.clone(), grown.path.clone());
                (Projections::of_grown(&grown.request, answer, transcript, path), None)
            }
        }
    }

    /// The body, where there is one.
    fn whole(&self) -> Option<&RequestBody> {
        match self {
            Asked::Whole(read, _) => Some(read),
            Asked::Grown(..) => None,
        }
    }

    fn into_memo(self, hashed: Option<HashedMessages>) -> Option<TurnMemo> {
        match self {
            Asked::Whole(read, _) => Some(TurnMemo {
                hashed: hashed?,
                body: read.into_memo(),
            }),
            Asked::Grown(..) => None,
        }
    }
}

/// A request that cannot be read: kept as it came.
fn opaque(raw: &RawExchange, route: &Route<'_>) -> Prepared {
    let hints = hints(raw, None);
    let request = body(Split::opaque(&raw.request_body), &raw.request_body);
    let mut exchange = envelope(raw, route, &hints, request);
    let mut all_keys: BTreeSet<Key> = keys::of_hints(&hints).collect();
    all_keys.extend(project_key(&exchange));
    exchange.keys = all_keys.into_iter().collect();
    exchange.detail = detail::write(
        raw,
        &raw.spawned_at,
        &hints,
        detail::Found {
            kind_reason: "the request cannot be read",
            answer: None,
            redactions: count_redactions(&raw.request_body) + raw.response_body.as_deref().map_or(0, count_redactions),
            reuse: None,
            saved: None,
        },
    );
    Prepared {
        exchange,
        call: Call::new(route, &hints),
        outline: Arc::default(),
        outline_bytes: 0,
        answer: None,
        memo: None,
    }
}

/// What is known without a look into the bodies.
fn envelope(raw: &RawExchange, route: &Route<'_>, hints: &Hints, request: Body) -> NewExchange {
    let session = hints.session.as_ref().map(|session| &*session.id);
    // A main thread has its session's id; only a thread beside it is an agent of its own.
    let thread = hints.thread.as_deref().filter(|thread| Some(*thread) != session);
    let response = raw.response_body.as_ref();
    NewExchange {
        id: raw.id.clone(),
        at: raw.at,
        ended_at: raw.ended_at,
        status: status(raw, None),
        http_status: raw.status,
        provider: provider_name(raw, route).to_owned(),
        model: model_of(&route.endpoint).map(word),
        kind: KIND_OPAQUE.to_owned(),
        session: session.map(str::to_owned),
        agent: hints.agent.as_deref().or(thread).map(str::to_owned),
        project: project(hints, route).map(str::to_owned),
        start: chain::root(&ChainStart::Root),
        request_chain: SharedList::default(),
        answer_chain: Vec::new(),
        hashes: Vec::new(),
        keys: Vec::new(),
        usage: None,
        cost_nano_usd: None,
        cost_is_estimate: false,
        request,
        sent: raw.sent_body.as_ref().map(|bytes| sent_body(route, bytes)),
        response: response.map(|bytes| body(split_response(bytes), bytes)),
        spawns: Vec::new(),
        texts: Vec::new(),
        detail: String::new(),
        provenance: raw.provenance.clone(),
        rules_version: RULES_VERSION,
        projections_version: PROJECTIONS_VERSION,
    }
}

/// What was sent in the request's place is nearly the request: it is cut like one, so that both share their parts.
fn sent_body(route: &Route<'_>, bytes: &Bytes) -> Body {
    let provider = route.endpoint.provider();
    let read = provider.and_then(|provider| read_request(provider, bytes, None).ok());
    body(read.map_or_else(|| Split::opaque(bytes), |read| read.split), bytes)
}

/// The header is said for one request, the path for all that a client sends.
fn project<'a>(hints: &'a Hints, route: &Route<'a>) -> Option<&'a str> {
    let is_sane = |name: &&str| name.len() <= MAX_HINT_BYTES && !name.chars().any(char::is_control);
    hints.project.as_deref().or(route.project.filter(is_sane))
}

fn project_key(exchange: &NewExchange) -> Option<Key> {
    let project = exchange.project.as_deref()?;
    Some(keys::id_key(KeyKind::Project, project))
}

fn hints(raw: &RawExchange, request: Option<&Request>) -> Hints {
    let headers = raw.request_headers.iter();
    Hints::read(headers.map(|(name, value)| (&**name, &**value)), request)
}

/// The answer, where there is one. A token count is none.
fn decode_answer(raw: &RawExchange, endpoint: &Endpoint<'_>, provider: Provider) -> Option<Response> {
    if matches!(endpoint, Endpoint::CountTokens(_)) {
        return None;
    }
    let bytes = raw.response_body.as_ref()?;
    let content_type = raw.response_header("content-type");
    // Recorders without a status had a response all the same; its body says whether it is an error.
    let mut answer = decode_response(provider, raw.status.unwrap_or(200), content_type, bytes);
    answer.complete &= !raw.cut_off;
    Some(answer)
}

fn status(raw: &RawExchange, answer: Option<&Response>) -> Status {
    if raw.response_body.is_none() {
        return Status::Pending;
    }
    let failed = raw.status.is_some_and(|status| status >= FAILED_STATUS_MIN);
    match answer {
        _ if failed => Status::Error,
        _ if raw.cut_off && raw.witness.client_left => Status::ClientCancelled,
        _ if raw.cut_off => Status::Truncated,
        Some(answer) if answer.error.is_some() => Status::Error,
        Some(answer) if !answer.complete => Status::Truncated,
        _ => Status::Complete,
    }
}

fn answer_chain(input: NodeHash, answer: &Response) -> Vec<Link> {
    let mut last = input;
    let values = answer
        .blocks
        .iter()
        .filter_map(|block| chain::value(Role::Assistant, block, &|_| None));
    values
        .map(|value| {
            last = chain::node(last, value);
            Link { value, node: last }
        })
        .collect()
}

/// The agents that an answer starts, each when its call was complete.
fn spawns(raw: &RawExchange, spawned_at: &[(String, Micros)], answer: &Response, tools: &SpawnTools) -> Vec<Spawn> {
    let ended_at = raw.ended_at.unwrap_or(raw.at);
    let spawn = |(index, call): (u32, SpawnCall)| {
        let id = call.tool_use_id.as_deref();
        let in_stream = spawned_at.iter().find(|(known, _)| Some(known.as_str()) == id);
        Spawn {
            index,
            call: id.map(word),
            name: call.name.as_deref().map(word),
            prompt: call.prompt.as_deref().and_then(prompt_hash),
            at: in_stream.map_or(ended_at, |(_, at)| *at),
        }
    };
    (0..).zip(tools.calls(&answer.blocks)).map(spawn).collect()
}

/// Gemini names the model in the path.
fn model_of<'a>(endpoint: &Endpoint<'a>) -> Option<&'a str> {
    match endpoint {
        Endpoint::GeminiGenerate { model } | Endpoint::GeminiStream { model, .. } => Some(model),
        _ => None,
    }
}

/// The upstream that was asked: a company, or who stands before it.
fn provider_name<'r>(raw: &RawExchange, route: &Route<'r>) -> &'r str {
    let headers = raw.request_headers.iter();
    let by_headers = || upstream_by_headers(headers.map(|(name, value)| (&**name, &**value)));
    route.upstream.or_else(by_headers).map_or("unknown", Upstream::name)
}

/// As asked for. `auto` lets the provider choose, and it chooses the standard one where no other was bought.
pub(crate) fn service_tier(request: &Request) -> Option<String> {
    let doc = Doc::parse_str(request.option("service_tier")?).ok()?;
    let tier = doc.root().to_text()?;
    (tier != "auto" && tier != "standard_only").then_some(tier)
}

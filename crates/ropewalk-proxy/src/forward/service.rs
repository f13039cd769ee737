//! The way of one request, from its head to the answer's.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use ropewalk_engine::reuse;
use ropewalk_wire::provider::{Endpoint, Route, Upstream as Provider, route, upstream_by_headers};
use uuid::Uuid;

use super::answer::{AnswerBody, LocalBody, Refusal};
use super::counters::{Counters, InFlight};
use super::flight::Lead;
use super::gathered::{Gathered, Gathering};
use super::interpose::Interpose;
use super::looked::{Decided, Forwarded, Look};
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use super::settings::{Limits, Settings};
use super::tap::{Tap, Watch};
use super::upstream::{Lease, Upstream, UpstreamError};
use super::{guard, headers, owner, shared, tls};
use crate::clock::now;
use crate::journal::Journal;
use crate::tee::{Ending, ExchangeKey, Head, Keep, ResponseHead, Tee};

/// Told the client which exchange its call became.
const EXCHANGE_HEADER: &str = "x-ropewalk-exchange";

/// What the client wants to be kept of this call.
const RECORD_HEADER: &str = "x-ropewalk-record";

/// Answers the routes that are not forwarded: pages, the API, health.
pub type Local = Arc<dyn Fn(Request<Incoming>) -> LocalAnswer + Send + Sync>;
pub type LocalAnswer = Pin<Box<dyn Future<Output = Response<LocalBody>> + Send>>;

/// Which routes a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routes {
    All,
    /// Only what is forwarded.
    Forwarded,
    /// Only what is not.
    Local,
}

/// What all threads share.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) tee: Tee,
    /// Asked whether there is room; without one, there always is.
    pub(crate) journal: Option<Journal>,
    pub(crate) local: Local,
    pub(crate) interposed: Arc<[Arc<dyn Interpose>]>,
    pub(crate) gathering: Gathering,
    pub(crate) counters: Arc<Counters>,
}

/// One thread's forwarding.
pub(crate) struct Service {
    settings: RefCell<Arc<Settings>>,
    upstreams: RefCell<HashMap<String, Rc<Upstream>>>,
    parts: Parts,
}

/// Numbers exchanges within the process.
static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

impl Service {
    pub(crate) fn new(settings: Arc<Settings>, parts: Parts) -> Result<Self, tls::TlsError> {
        let service = Service {
            settings: RefCell::new(Arc::clone(&settings)),
            upstreams: RefCell::default(),
            parts,
        };
        service.reload(settings)?;
        Ok(service)
    }

    /// Takes new settings for requests that begin from now on.
    pub(crate) fn reload(&self, settings: Arc<Settings>) -> Result<(), tls::TlsError> {
        let mut upstreams = HashMap::new();
        for upstream in &settings.upstreams {
            let connections = Upstream::new(upstream, settings.limits.connect_time)?;
            upstreams.insert(upstream.name.clone(), Rc::new(connections));
        }
        *self.upstreams.borrow_mut() = upstreams;
        *self.settings.borrow_mut() = settings;
        Ok(())
    }

    pub(crate) fn limits(&self) -> Limits {
        self.settings.borrow().limits.clone()
    }

    pub(crate) async fn handle(&self, request: Request<Incoming>, routes: Routes) -> Response<AnswerBody> {
        let settings = Arc::clone(&self.settings.borrow());
        let target = request
            .uri()
            .path_and_query()
            .map_or("/", |target| target.as_str())
            .to_owned();
        let route = route(&target);
        let provider = provider_of(&route, &request).filter(|_| routes != Routes::Local);
        let answer = match provider {
            Some(provider) => self.forward(&settings, request, &route, provider).await,
            None if routes == Routes::Forwarded => Err(Refusal::NoUpstream),
            None => self.answer_locally(&settings, request).await,
        };
        answer.unwrap_or_else(|refusal| {
            self.parts.counters.refused(refusal);
            refusal.answer()
        })
    }

    async fn answer_locally(
        &self,
        settings: &Settings,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, Refusal> {
        if !guard::is_allowed(request.headers(), request.uri(), &settings.hosts) {
            return Err(Refusal::NotAllowedHost);
        }
        Ok((self.parts.local)(request).await.map(AnswerBody::Local))
    }

    async fn forward(
        &self,
        settings: &Arc<Settings>,
        request: Request<Incoming>,
        route: &Route<'_>,
        provider: Provider<'_>,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let upstream = self
            .upstreams
            .borrow()
            .get(provider.name())
            .cloned()
            .ok_or(Refusal::NoUpstream)?;
        if wants_websocket(request.headers()) {
            return Err(Refusal::Upgrade);
        }
        let owner = owner::owner_of(&settings.owners, route.token, request.headers()).ok_or(Refusal::NoToken)?;
        if request.body().size_hint().lower() > settings.limits.body_bytes {
            return Err(Refusal::BodyTooLarge);
        }
        let in_flight = self
            .parts
            .counters
            .enter(settings.limits.exchanges)
            .ok_or(Refusal::TooMany)?;
        let keep = keep(settings, route, &request);
        if keep.is_some() && self.parts.journal.as_ref().is_some_and(|journal| !journal.accepts()) {
            return Err(Refusal::JournalFull);
        }
        let recorded = keep.map(|keep| self.begin(&request, route, Arc::clone(&owner), keep));
        let (id, tap) = recorded.unzip();
        let watch = Watch::new(tap);
        let look = Look {
            parts: &self.parts,
            limits: &settings.limits,
            route,
            upstream: provider.name(),
            owner,
            id,
            keep,
        };
        let decided = look.decide(request, watch.tap()).await;
        let mut answer = match decided.inspect_err(|refusal| watch.refused(*refusal))? {
            Decided::Answer(answer) => answer_from_store(answer, &watch).await,
            Decided::Forward(forwarded) => {
                let Forwarded {
                    head,
                    body,
                    tells,
                    lead,
                } = *forwarded;
                let call = Call {
                    settings: Arc::clone(settings),
                    upstream,
                    head,
                    body,
                    target: route.rest.to_owned(),
                    watch,
                    in_flight,
                    mark: lead.as_ref().map(|_| HeaderValue::from_static(reuse::STORED)),
                };
                let mut answer = call.answer(lead, id).await?;
                answer.headers_mut().extend(tells);
                answer
            }
        };
        if let Some(id) = id {
            name_exchange(answer.headers_mut(), id);
        }
        Ok(answer)
    }

    fn begin(&self, request: &Request<Incoming>, route: &Route<'_>, owner: Arc<str>, keep: Keep) -> (Uuid, Tap) {
        let id = Uuid::now_v7();
        let project = route.project.map(|project| format!("/p/{project}")).unwrap_or_default();
        let head = Head {
            id,
            at: now(),
            owner,
            keep,
            method: request.method().clone(),
            target: format!("{project}{}{}", prefix(route), route.rest),
            headers: request.headers().clone(),
        };
        let key = ExchangeKey(NEXT_KEY.fetch_add(1, Ordering::Relaxed));
        (id, Tap::begin(&self.parts.tee, key, head))
    }
}

/// A request that goes to its provider.
pub(crate) struct Call {
    settings: Arc<Settings>,
    upstream: Rc<Upstream>,
    head: http::request::Parts,
    body: Outgoing,
    target: String,
    watch: Watch,
    in_flight: InFlight,
    /// How its answer stands to reuse; recorded with it.
    mark: Option<HeaderValue>,
}

impl Call {
    /// The answer for the client, which waits for it alone or, with a lead, with others.
    async fn answer(self, lead: Option<Arc<Lead>>, id: Option<Uuid>) -> Result<Response<AnswerBody>, Refusal> {
        let Some(lead) = lead else {
            let (parts, body) = self.make().await?;
            return Ok(Response::from_parts(parts, AnswerBody::Forwarded(Box::new(body))));
        };
        match shared::fly(self, lead, id).await? {
            Some((parts, body)) => Ok(Response::from_parts(parts, AnswerBody::Shared(Box::new(body)))),
            None => Err(Refusal::Unreachable),
        }
    }

    /// Sends it, and passes the answer on.
    pub(super) async fn make(self) -> Result<(http::response::Parts, ResponseBody), Refusal> {
        let limits = &self.settings.limits;
        let target = match &*self.target {
            "" => "/",
            rest => rest,
        };
        let sent = send(&self.upstream, (self.head, self.body), target, limits, &self.watch).await;
        let (answer, lease) = sent.inspect_err(|refusal| self.watch.refused(*refusal))?;
        Ok(pass_on(answer, self.watch, (lease, self.in_flight), limits.idle, self.mark).await)
    }
}

async fn send(
    upstream: &Rc<Upstream>,
    (mut head, body): (http::request::Parts, Outgoing),
    target: &str,
    limits: &Limits,
    watch: &Watch,
) -> Result<(Response<Incoming>, Lease), Refusal> {
    headers::strip_hop_by_hop(&mut head.headers);
    headers::strip_ours(&mut head.headers);
    let failed = Rc::new(Cell::new(None));
    let (tap, bytes_max, fails) = (watch.tap().cloned(), limits.body_bytes, Rc::clone(&failed));
    let body = match body {
        Outgoing::AsItComes(body) => RequestBody::new(body, tap, bytes_max, fails),
        Outgoing::Gathered(gathered) => RequestBody::gathered(gathered, tap, bytes_max, fails),
    };
    upstream
        .send(Request::from_parts(head, body), target)
        .await
        .map_err(|error| {
            tracing::debug!(%error, "not forwarded");
            if let Some(refusal) = failed.get() {
                return refusal;
            }
            match error {
                UpstreamError::ConnectTime(_) => Refusal::ConnectTime,
                UpstreamError::Connect(_) | UpstreamError::Send(_) => Refusal::Unreachable,
            }
        })
}

/// A body that goes to the provider.
#[derive(Debug)]
pub(crate) enum Outgoing {
    AsItComes(Incoming),
    Gathered(Gathered),
}

/// An answer that no provider gave, told like one that was forwarded.
async fn answer_from_store(mut answer: Response<Bytes>, watch: &Watch) -> Response<AnswerBody> {
    if let Some(tap) = watch.tap() {
        tap.reused();
        tap.response_head(ResponseHead {
            at: now(),
            status: answer.status(),
            headers: answer.headers().clone(),
        });
        tap.response_data(answer.body());
        drop(tap.end(Ending::Complete).await);
    }
    // Where it is from is a matter of the record.
    answer.headers_mut().remove(reuse::REUSED_FROM_HEADER);
    answer.map(|body| AnswerBody::Own(Full::new(body)))
}

fn name_exchange(headers: &mut HeaderMap, id: Uuid) {
    let mut text = Uuid::encode_buffer();
    if let Ok(value) = HeaderValue::from_str(id.hyphenated().encode_lower(&mut text)) {
        headers.insert(EXCHANGE_HEADER, value);
    }
}

/// The answer, without what belonged to the provider's hop. A mark is recorded, and not passed on.
async fn pass_on(
    answer: Response<Incoming>,
    watch: Watch,
    (lease, in_flight): (Lease, InFlight),
    idle: Option<Duration>,
    mark: Option<HeaderValue>,
) -> (http::response::Parts, ResponseBody) {
    let (mut parts, body) = answer.into_parts();
    headers::strip_hop_by_hop(&mut parts.headers);
    // What says that an answer cost nothing is ours to say.
    parts.headers.remove(reuse::REUSE_HEADER);
    parts.headers.remove(reuse::REUSED_FROM_HEADER);
    if let Some(tap) = watch.tap() {
        let mut headers = parts.headers.clone();
        if let Some(mark) = mark {
            headers.insert(reuse::REUSE_HEADER, mark);
        }
        tap.response_head(ResponseHead {
            at: now(),
            status: parts.status,
            headers,
        });
    }
    if body.is_end_stream()
        && let Some(tap) = watch.tap()
    {
        // There is no piece to hold back, so the head is.
        drop(tap.end(Ending::Complete).await);
    }
    let body = ResponseBody::new(body, &parts.headers, watch, lease, idle, in_flight);
    (parts, body)
}

/// Where a request goes; `None` where no provider is meant.
fn provider_of<'r>(route: &Route<'r>, request: &Request<Incoming>) -> Option<Provider<'r>> {
    if let Some(provider) = route.upstream {
        return Some(provider);
    }
    let headers = request.headers().iter();
    let by_key = || upstream_by_headers(headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap_or(""))));
    match (&route.endpoint, request.method()) {
        (Endpoint::Models, _) => Some(by_key().unwrap_or(Provider::OpenAi)),
        // Claude Code asks so, without a key, whether anybody is there.
        (_, &Method::HEAD) if matches!(route.rest, "/" | "") => Some(Provider::Anthropic),
        _ if route.rest.starts_with("/v1/") => by_key(),
        _ => None,
    }
}

/// The upstream's name in front of a path that does not tell it.
fn prefix(route: &Route<'_>) -> String {
    match route.upstream {
        Some(upstream) if ropewalk_wire::provider::route(route.rest).upstream != Some(upstream) => upstream.prefix(),
        _ => String::new(),
    }
}

fn wants_websocket(headers: &HeaderMap) -> bool {
    headers
        .get(header::UPGRADE)
        .is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// `None` where nothing is.
fn keep(settings: &Settings, route: &Route<'_>, request: &Request<Incoming>) -> Option<Keep> {
    if route.endpoint.provider().is_none() || request.method() != Method::POST {
        return None;
    }
    let usual = settings.keep?;
    match request.headers().get(RECORD_HEADER).map(HeaderValue::as_bytes) {
        Some(b"off") => None,
        Some(b"metadata") => Some(Keep::Metadata),
        _ => Some(usual),
    }
}

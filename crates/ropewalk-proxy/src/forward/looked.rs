//! Asks those who want to see a request whole, before it is forwarded.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header, request};
use hyper::body::Incoming;
use ropewalk_wire::provider::Route;
use uuid::Uuid;

use super::answer::Refusal;
use super::flight::Lead;
use super::gathered::{Bounds, Gathered};
use super::interpose::{Asked, Interpose, Verdict, WholeRequest};
use super::service::{Outgoing, Parts};
use super::settings::Limits;
use super::tap::Tap;
use crate::tee::Keep;

/// What is known of a request beside its head and body.
pub(crate) struct Look<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) limits: &'a Limits,
    pub(crate) route: &'a Route<'a>,
    pub(crate) upstream: &'a str,
    pub(crate) owner: Arc<str>,
    pub(crate) id: Option<Uuid>,
    pub(crate) keep: Option<Keep>,
}

pub(crate) enum Decided {
    Forward(Box<Forwarded>),
    Answer(Response<Bytes>),
}

/// A request as it goes on.
pub(crate) struct Forwarded {
    pub(crate) head: request::Parts,
    pub(crate) body: Outgoing,
    /// Headers that are added to the client's answer.
    pub(crate) tells: HeaderMap,
    /// Others wait for the answer.
    pub(crate) lead: Option<Arc<Lead>>,
}

/// What those said who were asked.
#[derive(Default)]
struct Said {
    /// What is to be sent, if it is not what came.
    sent: Option<Bytes>,
    tells: HeaderMap,
    lead: Option<Arc<Lead>>,
    answer: Option<Response<Bytes>>,
}

impl Look<'_> {
    pub(crate) async fn decide(self, request: Request<Incoming>, tap: Option<&Tap>) -> Result<Decided, Refusal> {
        let (mut head, body) = request.into_parts();
        let mut wanting = self.wanting(&head);
        if wanting.is_empty() {
            return Ok(Decided::Forward(Box::new(Forwarded {
                head,
                body: Outgoing::AsItComes(body),
                tells: HeaderMap::new(),
                lead: None,
            })));
        }
        let bounds = Bounds {
            bytes: self.limits.interpose_bytes,
            sum: self.limits.interpose_bytes_sum,
            refused: self.limits.body_bytes,
        };
        let mut gathered = self.parts.gathering.gather(body, tap, bounds).await?;
        let mut asked = Said::default();
        wanting.retain(|interposed| interposed.looks_closer(&mut gathered.pieces().map(|piece| &**piece)));
        if !wanting.is_empty()
            && let Some(whole) = gathered.whole()
        {
            asked = self.ask(&wanting, &head, whole).await;
            if let Some(mut answer) = asked.answer {
                answer.headers_mut().extend(asked.tells);
                tap.zip(asked.sent).inspect(|(tap, sent)| tap.sent(sent));
                return Ok(Decided::Answer(answer));
            }
            if let Some(body) = asked.sent {
                replace(&mut head, &mut gathered, body, tap);
            }
        }
        Ok(Decided::Forward(Box::new(Forwarded {
            head,
            body: Outgoing::Gathered(gathered),
            tells: asked.tells,
            lead: asked.lead,
        })))
    }

    /// A body in an encoding is nobody's to read.
    fn wanting(&self, head: &request::Parts) -> Vec<&Arc<dyn Interpose>> {
        if self.parts.interposed.is_empty() || head.headers.contains_key(header::CONTENT_ENCODING) {
            return Vec::new();
        }
        let asked = Asked {
            owner: &self.owner,
            route: self.route,
            method: &head.method,
            headers: &head.headers,
        };
        let all = self.parts.interposed.iter();
        all.filter(|interposed| interposed.wants(&asked)).collect()
    }

    /// One after the other, until one has the answer.
    async fn ask(&self, wanting: &[&Arc<dyn Interpose>], head: &request::Parts, body: Bytes) -> Said {
        let mut request = WholeRequest {
            id: self.id,
            keep: self.keep,
            owner: Arc::clone(&self.owner),
            upstream: Arc::from(self.upstream),
            project: self.route.project.map(Arc::from),
            provider: self.route.endpoint.provider(),
            target: self.route.rest.to_owned(),
            headers: head.headers.clone(),
            body,
        };
        let mut said = Said::default();
        for interposed in wanting {
            match interposed.decide(request.clone()).await {
                Verdict::Pass => {}
                Verdict::Tell { answer_headers } => said.tells.extend(answer_headers),
                Verdict::Send { body, answer_headers } => {
                    said.tells.extend(answer_headers);
                    request.body = body.clone();
                    said.sent = Some(body);
                }
                Verdict::Lead(lead) => said.lead = Some(lead),
                Verdict::Answer { status, headers, body } => {
                    let mut answer = Response::new(body);
                    *answer.status_mut() = status;
                    *answer.headers_mut() = headers;
                    said.answer = Some(answer);
                    return said;
                }
            }
        }
        said
    }
}

/// Everything in the head but the length stays as it is.
fn replace(head: &mut request::Parts, gathered: &mut Gathered, body: Bytes, tap: Option<&Tap>) {
    if let Some(tap) = tap {
        tap.sent(&body);
    }
    head.headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(body.len() as u64));
    gathered.replace(body);
}

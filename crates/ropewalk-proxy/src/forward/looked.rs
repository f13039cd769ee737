//! Asks those who want to see a request whole, before it is forwarded.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header, request};
use hyper::body::Incoming;
use ropewalk_wire::provider::Route;
use uuid::Uuid;

use super::answer::Refusal;
use super::gathered::{Bounds, Gathered};
use super::interpose::{Asked, Interpose, Verdict, WholeRequest};
use super::service::{Outgoing, Parts};
use super::settings::Limits;
use super::tap::Tap;

/// What is known of a request beside its head and body.
pub(crate) struct Look<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) limits: &'a Limits,
    pub(crate) route: &'a Route<'a>,
    pub(crate) upstream: &'a str,
    pub(crate) owner: Arc<str>,
    pub(crate) id: Option<Uuid>,
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
}

impl Look<'_> {
    pub(crate) async fn decide(self, request: Request<Incoming>, tap: Option<&Tap>) -> Result<Decided, Refusal> {
        let (mut head, body) = request.into_parts();
        let wanting = self.wanting(&head);
        if wanting.is_empty() {
            return Ok(Decided::Forward(Box::new(Forwarded {
                head,
                body: Outgoing::AsItComes(body),
                tells: HeaderMap::new(),
            })));
        }
        let bounds = Bounds {
            bytes: self.limits.interpose_bytes,
            sum: self.limits.interpose_bytes_sum,
            refused: self.limits.body_bytes,
        };
        let mut gathered = self.parts.gathering.gather(body, tap, bounds).await?;
        let mut tells = HeaderMap::new();
        if let Some(whole) = gathered.whole() {
            let (sent, answer) = self.ask(&wanting, &head, whole, &mut tells).await;
            if let Some(answer) = answer {
                return Ok(Decided::Answer(answer));
            }
            if let Some(body) = sent {
                replace(&mut head, &mut gathered, body, tap);
            }
        }
        Ok(Decided::Forward(Box::new(Forwarded {
            head,
            body: Outgoing::Gathered(gathered),
            tells,
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

    /// One after the other; what is to be sent, if it is not what came, or the answer of one who has it.
    async fn ask(
        &self,
        wanting: &[&Arc<dyn Interpose>],
        head: &request::Parts,
        body: Bytes,
        tells: &mut HeaderMap,
    ) -> (Option<Bytes>, Option<Response<Bytes>>) {
        let mut request = WholeRequest {
            id: self.id,
            owner: Arc::clone(&self.owner),
            upstream: Arc::from(self.upstream),
            provider: self.route.endpoint.provider(),
            target: self.route.rest.to_owned(),
            headers: head.headers.clone(),
            body,
        };
        let mut sent = None;
        for interposed in wanting {
            match interposed.decide(request.clone()).await {
                Verdict::Pass => {}
                Verdict::Tell { answer_headers } => tells.extend(answer_headers),
                Verdict::Send { body, answer_headers } => {
                    tells.extend(answer_headers);
                    request.body = body.clone();
                    sent = Some(body);
                }
                Verdict::Answer { status, headers, body } => {
                    let mut answer = Response::new(body);
                    *answer.status_mut() = status;
                    *answer.headers_mut() = headers;
                    return (None, Some(answer));
                }
            }
        }
        (sent, None)
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

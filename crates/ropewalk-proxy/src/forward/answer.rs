//! Answers: passed on, local, or our own.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;

use super::response_body::ResponseBody;
use super::shared::SharedBody;

/// Why a body could not be given whole.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a route that is not forwarded.
pub type LocalBody = UnsyncBoxBody<Bytes, BodyError>;

/// The body of any answer.
pub(crate) enum AnswerBody {
    Forwarded(Box<ResponseBody>),
    /// Of a call that others wait for as well.
    Shared(Box<SharedBody>),
    Local(LocalBody),
    Own(Full<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            AnswerBody::Forwarded(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            AnswerBody::Shared(body) => Pin::new(body).poll_frame(cx),
            AnswerBody::Local(body) => Pin::new(body).poll_frame(cx),
            AnswerBody::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Forwarded(body) => body.is_end_stream(),
            AnswerBody::Shared(body) => body.is_end_stream(),
            AnswerBody::Local(body) => body.is_end_stream(),
            AnswerBody::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Forwarded(body) => body.size_hint(),
            AnswerBody::Shared(body) => body.size_hint(),
            AnswerBody::Local(body) => body.size_hint(),
            AnswerBody::Own(body) => body.size_hint(),
        }
    }
}

/// Why we answer in the provider's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoToken,
    NoUpstream,
    Upgrade,
    BodyTooLarge,
    BodyBroken,
    TooMany,
    JournalFull,
    Unreachable,
    ConnectTime,
    NotAllowedHost,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Refusal::NoToken => StatusCode::UNAUTHORIZED,
            Refusal::NoUpstream => StatusCode::NOT_FOUND,
            Refusal::Upgrade => StatusCode::UPGRADE_REQUIRED,
            Refusal::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::BodyBroken => StatusCode::BAD_REQUEST,
            Refusal::TooMany | Refusal::JournalFull => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Unreachable => StatusCode::BAD_GATEWAY,
            Refusal::ConnectTime => StatusCode::GATEWAY_TIMEOUT,
            Refusal::NotAllowedHost => StatusCode::FORBIDDEN,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Refusal::NoToken => "no owner has this token; send one in x-ropewalk-token or as /t/<token>/… in the path",
            Refusal::NoUpstream => "no provider has this path, and ropewalk has no page of this name",
            Refusal::Upgrade => "WebSockets are not forwarded; send the request by POST",
            Refusal::BodyTooLarge => "the request is larger than limits.body_bytes",
            Refusal::BodyBroken => "the request's body breaks off or is not framed as HTTP has it",
            Refusal::TooMany => "limits.exchanges are under way; try again",
            Refusal::JournalFull => "the journal is full and journal.when_full is `strict`",
            Refusal::Unreachable => "the provider cannot be reached",
            Refusal::ConnectTime => "the provider did not answer the connection in time",
            Refusal::NotAllowedHost => "this host or origin may not use this page; see `hosts` in the configuration",
        }
    }

    /// In a shape that the clients of all providers read: `error.message` and `error.type`.
    pub(crate) fn answer(self) -> Response<AnswerBody> {
        let kind = match self.status().is_server_error() {
            true => "api_error",
            false => "invalid_request_error",
        };
        let message = self.message();
        let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"ropewalk: {message}"}}}}"#);
        let mut answer = Response::new(AnswerBody::Own(Full::new(Bytes::from(body))));
        *answer.status_mut() = self.status();
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            Refusal::TooMany | Refusal::JournalFull => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Refusal::Upgrade => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("h2c"));
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            }
            _ => {}
        }
        answer
    }
}

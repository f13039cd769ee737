//! What a caller is told when there is no answer: what happened, and what to do.

use http::StatusCode;
use ropewalk_engine::link::LinkError;
use ropewalk_engine::matching::UnreadableMessages;
use ropewalk_engine::view::ViewError;
use ropewalk_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

/// Of a name that a caller gave, as much as an error repeats.
const QUOTED_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    #[serde(skip)]
    pub status: StatusCode,
    pub kind: &'static str,
    pub message: String,
    pub hint: Option<&'static str>,
}

/// The shape of every error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Told<'p> {
    pub(crate) error: &'p Problem,
}

impl Problem {
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Problem {
            status,
            kind,
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// Nobody's, or another's: the same answer.
    pub(crate) fn not_found(reference: &str) -> Self {
        let reference: String = reference.chars().take(QUOTED_CHARS_MAX).collect();
        Problem::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("nothing is named `{reference}`"),
        )
        .hint("a name is a friendly id, a conversation's id, a message's reference, an exchange's id, or four or more digits of a hash")
    }

    pub(crate) fn bad_cursor() -> Self {
        Problem::bad_request("this cursor leads nowhere (any more)").hint("ask again without a cursor")
    }

    pub(crate) fn unauthorized() -> Self {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "nobody is let in without a token",
        )
        .hint("the server prints a link with it when it starts; send it as `Authorization: Bearer TOKEN`")
    }

    pub(crate) fn no_json() -> Self {
        Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "a body has to be JSON",
        )
        .hint("send `Content-Type: application/json`")
    }

    pub(crate) fn no_route() -> Self {
        Problem::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
    }

    pub(crate) fn wrong_method() -> Self {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "not by this method",
        )
    }

    pub(crate) fn too_large() -> Self {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is larger than 8 MiB",
        )
    }

    pub(crate) fn busy() -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests at a time")
            .hint("try again in a moment")
    }

    pub(crate) fn too_slow() -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", "this takes too long").hint("ask for less")
    }

    /// Until the store can be asked.
    pub fn unavailable() -> Self {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "the store cannot be asked right now",
        )
        .hint("try again in a moment")
    }

    /// Whoever runs the server learns the cause, the caller that there is one.
    fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a question is not answered");
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the store could not answer",
        )
        .hint("`ropewalk fsck` looks for damage, `ropewalk rebuild` links everything again")
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Problem::internal(&error)
    }
}

impl From<LinkError> for Problem {
    fn from(error: LinkError) -> Self {
        Problem::internal(&error)
    }
}

impl From<ViewError> for Problem {
    fn from(error: ViewError) -> Self {
        match &error {
            ViewError::NotFound { reference } | ViewError::Forgotten { reference, .. } => Problem::not_found(reference),
            ViewError::Ambiguous { .. } => Problem::new(StatusCode::CONFLICT, "ambiguous", error.to_string())
                .hint("give more of it, or the whole id"),
            ViewError::TooFarBack { .. } => Problem::new(StatusCode::NOT_FOUND, "not_found", error.to_string()),
            ViewError::NotLinked { .. } => Problem::new(StatusCode::CONFLICT, "not_linked", error.to_string())
                .hint("what was recorded last is linked in a moment"),
            ViewError::Store(_) | ViewError::Link(_) | ViewError::Record(_) => Problem::internal(&error),
        }
    }
}

impl From<UnreadableMessages> for Problem {
    fn from(error: UnreadableMessages) -> Self {
        Problem::bad_request(error.to_string())
            .hint("a request's body with `messages`, `input` or `contents`; `format` says which kind it is")
    }
}

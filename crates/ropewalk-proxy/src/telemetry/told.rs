//! What the recorder tells about an exchange.

use ropewalk_core::model::Usage;
use ropewalk_engine::{Call, Prepared, RawExchange};
use ropewalk_store::Micros;
use ropewalk_store::facts::{ExchangeNumber, Status};

use super::trace_parent::TraceParent;

/// An exchange that has ended, as far as it is known without its links. Those are read when a span is made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub owner: String,
    /// Known when it is recorded.
    pub number: ExchangeNumber,
    pub id: String,
    pub at: Micros,
    pub ended_at: Micros,
    pub first_byte_at: Option<Micros>,
    pub status: Status,
    pub http_status: Option<u16>,
    /// The name of the upstream that was asked.
    pub upstream: String,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    pub call: Call,
    pub parent: Option<TraceParent>,
}

impl Told {
    /// `None` while the exchange lasts.
    pub(crate) fn of(owner: &str, raw: &RawExchange, prepared: &Prepared) -> Option<Self> {
        let exchange = &prepared.exchange;
        if exchange.status == Status::Pending {
            return None;
        }
        Some(Told {
            owner: owner.to_owned(),
            number: ExchangeNumber(0),
            id: exchange.id.clone(),
            at: exchange.at,
            ended_at: exchange.ended_at.unwrap_or(exchange.at),
            first_byte_at: raw.witness.first_byte_at,
            status: exchange.status,
            http_status: exchange.http_status,
            upstream: exchange.provider.clone(),
            model: exchange.model.clone(),
            usage: exchange.usage,
            call: prepared.call.clone(),
            parent: raw.request_header("traceparent").and_then(TraceParent::parse),
        })
    }
}

#[cfg(test)]
impl Told {
    /// A complete exchange of that id.
    pub(crate) fn example(id: uuid::Uuid) -> Self {
        Told {
            owner: "ann".to_owned(),
            number: ExchangeNumber(1),
            id: id.to_string(),
            at: Micros(1_000_000),
            ended_at: Micros(2_000_000),
            first_byte_at: None,
            status: Status::Complete,
            http_status: Some(200),
            upstream: "anthropic".to_owned(),
            model: None,
            usage: None,
            call: Call::default(),
            parent: None,
        }
    }
}

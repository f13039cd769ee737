//! One exchange as a span.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use ropewalk_core::hash::sha256;
use ropewalk_engine::view::ExchangeView;
use ropewalk_store::Micros;
use uuid::Uuid;

use super::super::Told;
use super::content::Content;
use super::names;
use super::settings::Address;

/// Longest text of an attribute, but for what was said. A name is shorter.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// The flag of a trace that is kept.
const SAMPLED: u32 = 1;

/// Everything that a span is made of.
pub(super) struct Parts<'a> {
    pub(super) told: &'a Told,
    /// What linking says, where it could be read.
    pub(super) view: Option<&'a ExchangeView>,
    pub(super) address: Option<Address>,
    pub(super) content: Option<Content>,
}

/// Trace and span. Without a client's trace, an exchange is one of its own, and its id is the trace's, so that either is found by
/// the other.
pub(super) fn ids(told: &Told) -> ([u8; 16], [u8; 8]) {
    // The proxy's own ids are UUIDs.
    let own = Uuid::parse_str(&told.id).unwrap_or_default().into_bytes();
    (told.parent.map_or(own, |parent| parent.trace_id), mixed(told))
}

/// Whether a trace is kept. A client that has one has decided.
pub(super) fn is_sampled(told: &Told, part: f64) -> bool {
    match told.parent {
        Some(parent) => parent.is_sampled,
        None => (u64::from_be_bytes(mixed(told)) as f64) < part * 2_f64.powi(64),
    }
}

/// As good as random, and the same for the same exchange. The id itself is not: much of it is time, and a count.
fn mixed(told: &Told) -> [u8; 8] {
    let digest = sha256(told.id.as_bytes());
    let mut mixed = [0; 8];
    mixed.copy_from_slice(&digest[..8]);
    mixed
}

pub(super) fn span(parts: Parts<'_>) -> Span {
    let told = parts.told;
    let (trace_id, span_id) = ids(told);
    let error = names::error_type(told);
    let mut attributes = Attributes::default();
    attributes.conventional(told, error.as_deref(), parts.address);
    attributes.own(told, parts.view);
    if let Some(content) = parts.content {
        attributes
            .all
            .extend(content.input.map(|said| attribute("gen_ai.input.messages", text(said))));
        attributes.all.extend(
            content
                .output
                .map(|said| attribute("gen_ai.output.messages", text(said))),
        );
    }
    let operation = names::operation(told);
    let remote = match told.parent {
        Some(_) => SpanFlags::ContextHasIsRemoteMask as u32 | SpanFlags::ContextIsRemoteMask as u32,
        None => SpanFlags::ContextHasIsRemoteMask as u32,
    };
    Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        parent_span_id: told.parent.map(|parent| parent.span_id.to_vec()).unwrap_or_default(),
        flags: SAMPLED | remote,
        name: match &told.model {
            Some(model) => format!("{operation} {}", plain(model)),
            None => operation.to_owned(),
        },
        kind: SpanKind::Client as i32,
        start_time_unix_nano: nanos(told.at),
        end_time_unix_nano: nanos(told.ended_at.max(told.at)),
        attributes: attributes.all,
        // The error's own words may quote the prompt, so only its kind is told.
        status: error.map(|_| Status {
            code: StatusCode::Error as i32,
            message: String::new(),
        }),
        ..Span::default()
    }
}

#[derive(Default)]
struct Attributes {
    all: Vec<KeyValue>,
}

impl Attributes {
    fn text(&mut self, name: &str, value: Option<&str>) {
        self.all.extend(value.map(|value| attribute(name, text(plain(value)))));
    }

    fn number(&mut self, name: &str, value: Option<u64>) {
        let value = value.map(|value| Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)));
        self.all.extend(value.map(|value| attribute(name, value)));
    }

    fn double(&mut self, name: &str, value: Option<f64>) {
        self.all
            .extend(value.map(|value| attribute(name, Value::DoubleValue(value))));
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        self.all.extend(is_set.then(|| attribute(name, Value::BoolValue(true))));
    }

    /// What the GenAI conventions name.
    fn conventional(&mut self, told: &Told, error: Option<&str>, address: Option<Address>) {
        let call = &told.call;
        self.text(names::OPERATION, Some(names::operation(told)));
        self.text(names::PROVIDER, Some(names::provider(told)));
        self.text(names::REQUEST_MODEL, told.model.as_deref());
        self.flag("gen_ai.request.stream", call.streams);
        self.text("gen_ai.conversation.id", call.session.as_deref());
        self.text(names::RESPONSE_MODEL, call.response_model.as_deref());
        self.text("gen_ai.response.id", call.response_id.as_deref());
        if let Some(reason) = &call.stop_reason {
            let values = vec![any(text(plain(reason)))];
            let reasons = Value::ArrayValue(ArrayValue { values });
            self.all.push(attribute("gen_ai.response.finish_reasons", reasons));
        }
        self.double("gen_ai.response.time_to_first_chunk", names::first_chunk_s(told));
        self.number("gen_ai.usage.input_tokens", names::input_tokens(told));
        if let Some(usage) = &told.usage {
            self.number("gen_ai.usage.output_tokens", Some(usage.output_tokens));
            self.number("gen_ai.usage.cache_read.input_tokens", Some(usage.cache_read_tokens));
            self.number(
                "gen_ai.usage.cache_creation.input_tokens",
                Some(usage.cache_write_tokens),
            );
            self.number("gen_ai.usage.reasoning.output_tokens", Some(usage.reasoning_tokens));
        }
        if let Some(address) = address {
            self.text(names::SERVER_ADDRESS, Some(&address.host));
            self.number(names::SERVER_PORT, Some(address.port.into()));
        }
        self.number("http.response.status_code", told.http_status.map(u64::from));
        self.text(names::ERROR_TYPE, error);
    }

    /// What only we know.
    fn own(&mut self, told: &Told, view: Option<&ExchangeView>) {
        self.text("ropewalk.exchange.id", Some(&told.id));
        self.text("ropewalk.owner", Some(&told.owner));
        self.text("ropewalk.upstream", Some(&told.upstream));
        self.text("ropewalk.status", Some(told.status.name()));
        let Some(view) = view else { return };
        self.text("ropewalk.kind", Some(&view.kind));
        self.text("ropewalk.conversation.id", view.conversation_id.as_deref());
        self.text("ropewalk.branch.id", view.branch_id.as_deref());
        self.text("ropewalk.branch.key", view.branch_key.as_deref());
        self.text("ropewalk.branch.kind", view.branch_kind);
        self.text("ropewalk.parent_exchange.id", view.parent_exchange_id.as_deref());
        self.text("ropewalk.agent.id", view.agent.id.as_deref());
        self.text("ropewalk.agent.name", view.agent.name.as_deref());
        self.text("ropewalk.agent.parent_id", view.agent.parent_id.as_deref());
        self.text("ropewalk.link.method", view.link.method);
        self.double("ropewalk.link.confidence", view.link.confidence);
        self.flag("ropewalk.rewritten", view.rewritten);
        self.double("ropewalk.cost_usd", view.cost_usd);
        self.number("ropewalk.redactions", Some(view.redactions));
    }
}

/// Bounded, and without what a terminal would obey: names come from clients and models.
fn plain(value: &str) -> String {
    let kept = &value[..value.floor_char_boundary(TEXT_BYTES_MAX)];
    kept.chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

fn text(value: String) -> Value {
    Value::StringValue(value)
}

fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(any(value)),
        ..KeyValue::default()
    }
}

fn nanos(at: Micros) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::super::super::TraceParent;
    use super::*;

    #[test]
    fn a_part_of_all_traces_is_kept_and_a_client_decides_over_its_own() {
        const COUNT: usize = 2_000;
        let told: Vec<Told> = (0..COUNT).map(|_| Told::example(Uuid::now_v7())).collect();
        let kept = |part: f64| told.iter().filter(|told| is_sampled(told, part)).count();
        assert_eq!((kept(0.0), kept(1.0)), (0, COUNT));
        // Ten standard deviations around the half.
        assert!((COUNT * 2 / 5..COUNT * 3 / 5).contains(&kept(0.5)), "{}", kept(0.5));
        for sampled in [true, false] {
            let mut told = Told::example(Uuid::now_v7());
            told.parent = Some(TraceParent {
                trace_id: [7; 16],
                span_id: [8; 8],
                is_sampled: sampled,
            });
            assert_eq!((is_sampled(&told, 0.0), is_sampled(&told, 1.0)), (sampled, sampled));
        }
    }

    #[test]
    fn a_clock_that_went_back_makes_no_span_that_ends_before_it_began() {
        let mut told = Told::example(Uuid::now_v7());
        told.ended_at = Micros(told.at.0 - 5);
        let span = span(Parts {
            told: &told,
            view: None,
            address: None,
            content: None,
        });
        assert_eq!(span.start_time_unix_nano, span.end_time_unix_nano);
    }
}

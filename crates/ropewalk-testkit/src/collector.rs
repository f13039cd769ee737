//! An OTLP collector on a real socket, which decodes what it is sent and does what a test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
pub use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};

use crate::upstream::{Answer, Gate, Head, Upstream};

/// How long a test waits for something that should have happened at once; a loaded machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

pub type Attributes = BTreeMap<String, Value>;

/// What a collector does with a request.
#[derive(Debug, Clone, Default)]
pub enum Mood {
    #[default]
    Takes,
    /// Answers a status, and keeps nothing.
    Refuses(u16),
    /// Takes it, and answers when the gate opens.
    TakesItsTime(Gate),
    /// Takes it, and says that it dropped so many spans.
    Drops(i64),
}

/// Stops when dropped.
#[derive(Debug)]
pub struct Collector {
    upstream: Upstream,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    mood: Mood,
    spans: Vec<SeenSpan>,
    points: Vec<Point>,
    headers: Vec<BTreeMap<String, String>>,
    bytes: Vec<u8>,
    requests: u64,
}

#[derive(Debug, Clone)]
pub struct SeenSpan {
    pub span: Span,
    pub attributes: Attributes,
    pub resource: Attributes,
}

/// One point of a histogram, as the newest message has it.
#[derive(Debug, Clone)]
pub struct Point {
    pub metric: String,
    pub unit: String,
    pub attributes: Attributes,
    pub count: u64,
    pub sum: f64,
    pub bounds: Vec<f64>,
}

impl Collector {
    pub async fn start() -> Collector {
        Collector::over(Upstream::start().await)
    }

    /// With a certificate of its own.
    pub async fn start_tls() -> Collector {
        Collector::over(Upstream::start_tls(&["http/1.1"]).await)
    }

    fn over(upstream: Upstream) -> Collector {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let sees = Arc::clone(&seen);
        upstream.answer_by(move |head, body| locked(&sees).take(head, body));
        Collector { upstream, seen }
    }

    pub fn url(&self) -> String {
        self.upstream.url()
    }

    pub fn ca_pem(&self) -> Option<&str> {
        self.upstream.ca_pem()
    }

    /// From now on.
    pub fn mood(&self, mood: Mood) {
        locked(&self.seen).mood = mood;
    }

    /// Requests that came, taken or not.
    pub fn requests(&self) -> u64 {
        locked(&self.seen).requests
    }

    pub fn spans(&self) -> Vec<SeenSpan> {
        locked(&self.seen).spans.clone()
    }

    /// Points of the newest message with measurements.
    pub fn points(&self) -> Vec<Point> {
        locked(&self.seen).points.clone()
    }

    /// Headers of all requests.
    pub fn headers(&self) -> Vec<BTreeMap<String, String>> {
        locked(&self.seen).headers.clone()
    }

    /// Whether a text was in anything that came, whatever it was a part of.
    pub fn has_seen(&self, text: &str) -> bool {
        let seen = locked(&self.seen);
        seen.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Waits for so many spans.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn spans_when(&self, count: usize) -> Vec<SeenSpan> {
        self.wait_until(|| self.spans().len() >= count).await;
        self.spans()
    }

    /// Waits for so many requests.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn requests_when(&self, count: u64) {
        self.wait_until(|| self.requests() >= count).await;
    }

    async fn wait_until(&self, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            let seen = locked(&self.seen);
            assert!(
                Instant::now() < deadline,
                "{} spans in {} requests",
                seen.spans.len(),
                seen.requests
            );
            drop(seen);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn take(&mut self, head: &Head, body: &Bytes) -> Answer {
        self.requests += 1;
        self.bytes.extend_from_slice(body);
        let headers = head.headers.iter();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), text(value)));
        self.headers.push(headers.collect());
        if let Mood::Refuses(status) = self.mood {
            return Answer::status(status);
        }
        let is_known = match &*head.target {
            "/v1/traces" => self.take_spans(body),
            "/v1/metrics" => self.take_metrics(body),
            _ => false,
        };
        if !is_known {
            return Answer::status(400);
        }
        let mut answer = ExportTraceServiceResponse::default();
        if let Mood::Drops(rejected_spans) = self.mood {
            let error_message = "too many".to_owned();
            answer.partial_success = Some(ExportTracePartialSuccess {
                rejected_spans,
                error_message,
            });
        }
        let answer = Answer::status(200)
            .header("content-type", "application/x-protobuf")
            .chunk(answer.encode_to_vec());
        match &self.mood {
            Mood::TakesItsTime(gate) => Answer::status(200).wait_for(gate),
            _ => answer,
        }
    }

    fn take_spans(&mut self, body: &Bytes) -> bool {
        let Ok(request) = ExportTraceServiceRequest::decode(&**body) else {
            return false;
        };
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let resource = attributes(&resource.attributes);
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.extend(spans.map(|span| SeenSpan {
                attributes: attributes(&span.attributes),
                span,
                resource: resource.clone(),
            }));
        }
        true
    }

    fn take_metrics(&mut self, body: &Bytes) -> bool {
        let Ok(request) = ExportMetricsServiceRequest::decode(&**body) else {
            return false;
        };
        let scopes = request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics);
        self.points.clear();
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let Some(Data::Histogram(histogram)) = metric.data else {
                continue;
            };
            self.points.extend(histogram.data_points.into_iter().map(|point| Point {
                metric: metric.name.clone(),
                unit: metric.unit.clone(),
                attributes: attributes(&point.attributes),
                count: point.count,
                sum: point.sum.unwrap_or_default(),
                bounds: point.explicit_bounds,
            }));
        }
        true
    }
}

fn attributes(all: &[KeyValue]) -> Attributes {
    let named = all.iter().map(|pair| (pair.key.clone(), value(pair.value.as_ref())));
    named.collect()
}

fn value(any: Option<&AnyValue>) -> Value {
    match any.and_then(|any| any.value.as_ref()) {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(flag)) => json!(flag),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::DoubleValue(number)) => json!(number),
        Some(Any::ArrayValue(array)) => array.values.iter().map(|any| value(Some(any))).collect(),
        _ => Value::Null,
    }
}

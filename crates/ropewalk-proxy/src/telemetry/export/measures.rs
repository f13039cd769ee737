//! The histograms of the GenAI conventions.
//!
//! The SDK adds them up, bounded in the number of different attributes; its reader hands a finished message to whoever sends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::metrics::{Histogram, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use prost::Message as _;
use tokio::sync::mpsc;

use super::super::Told;
use super::settings::Settings;
use super::{Addresses, SCOPE, names};
use crate::counters::Counters;

/// Messages that wait to be sent. Each one has all that was measured since the start, so the last says everything.
const WAITING_MAX: usize = 2;

/// Ends of the buckets, as the conventions advise.
const TOKENS: [f64; 14] = [
    1.,
    4.,
    16.,
    64.,
    256.,
    1_024.,
    4_096.,
    16_384.,
    65_536.,
    262_144.,
    1_048_576.,
    4_194_304.,
    16_777_216.,
    67_108_864.,
];
const SECONDS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

pub(super) struct Measures {
    provider: SdkMeterProvider,
    tokens: Histogram<u64>,
    duration: Histogram<f64>,
    first_chunk: Histogram<f64>,
    addresses: Addresses,
}

impl Measures {
    /// With the messages that are to be sent.
    pub(super) fn new(
        settings: &Settings,
        addresses: Addresses,
        counters: Arc<Counters>,
    ) -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        let attributes = settings.resource.iter();
        let attributes = attributes.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        let reader = PeriodicReader::builder(ToSender { sender, counters });
        let provider = SdkMeterProvider::builder()
            .with_resource(Resource::builder_empty().with_attributes(attributes).build())
            .with_reader(reader.with_interval(settings.metrics_every).build())
            .build();
        let scope = InstrumentationScope::builder(SCOPE)
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let meter = provider.meter_with_scope(scope);
        let seconds = |name, what| {
            let histogram = meter.f64_histogram(name).with_description(what).with_unit("s");
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let measures = Measures {
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_description("Number of input and output tokens used.")
                .with_unit("{token}")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            duration: seconds("gen_ai.client.operation.duration", "GenAI operation duration."),
            first_chunk: seconds(
                "gen_ai.client.operation.time_to_first_chunk",
                "Time to receive the first chunk of a streamed answer.",
            ),
            provider,
            addresses,
        };
        (measures, messages)
    }

    pub(super) fn add(&self, told: &Told) {
        let mut labels = vec![
            KeyValue::new(names::OPERATION, names::operation(told)),
            KeyValue::new(names::PROVIDER, names::provider(told)),
        ];
        let models = [
            (names::REQUEST_MODEL, &told.model),
            (names::RESPONSE_MODEL, &told.call.response_model),
        ];
        labels.extend(
            models
                .into_iter()
                .filter_map(|(name, model)| Some(KeyValue::new(name, model.clone()?))),
        );
        if let Some(address) = self.addresses.of(&told.upstream) {
            labels.push(KeyValue::new(names::SERVER_ADDRESS, address.host));
            labels.push(KeyValue::new(names::SERVER_PORT, i64::from(address.port)));
        }
        let output = told.usage.map(|usage| usage.output_tokens);
        for (kind, tokens) in [("input", names::input_tokens(told)), ("output", output)] {
            if let Some(tokens) = tokens {
                labels.push(KeyValue::new("gen_ai.token.type", kind));
                self.tokens.record(tokens, &labels);
                labels.pop();
            }
        }
        if let Some(seconds) = names::first_chunk_s(told) {
            self.first_chunk.record(seconds, &labels);
        }
        labels.extend(names::error_type(told).map(|error| KeyValue::new(names::ERROR_TYPE, error)));
        self.duration.record(names::duration_s(told), &labels);
    }

    /// Hands over what was measured to the end. No more will come.
    pub(super) fn finish(self) {
        // It fails where the last message finds no room, which was counted.
        drop(self.provider.shutdown());
    }
}

/// What the SDK takes for an exporter.
#[derive(Debug)]
struct ToSender {
    sender: mpsc::Sender<Bytes>,
    counters: Arc<Counters>,
}

impl PushMetricExporter for ToSender {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let message = ExportMetricsServiceRequest::from(metrics).encode_to_vec();
        if self.sender.try_send(Bytes::from(message)).is_err() {
            self.counters.measures_lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

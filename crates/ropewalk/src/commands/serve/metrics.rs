//! What the server counts, as Prometheus reads it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use ropewalk_proxy::counters::{Snapshot, Times};
use ropewalk_proxy::forward::Counted;
use ropewalk_proxy::journal::Journal;
use ropewalk_proxy::{references, reuse};

use crate::changes::server::Opened;
use crate::commands::serve::survey::{Survey, Surveyed};

/// Where the numbers come from.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) journal: Journal,
    reuse: Arc<reuse::Counters>,
    store: Opened,
    forwarding: OnceLock<Arc<ropewalk_proxy::forward::Counters>>,
    references: Arc<references::Counters>,
    survey: Arc<Survey>,
}

impl Sources {
    pub(super) fn new(
        journal: Journal,
        references: Arc<references::Counters>,
        reuse: Arc<reuse::Counters>,
        store: Opened,
        survey: Arc<Survey>,
    ) -> Self {
        Sources {
            journal,
            references,
            reuse,
            store,
            survey,
            forwarding: OnceLock::new(),
        }
    }

    /// Forwarding starts after the routes that tell of it are there.
    pub(super) fn know(&self, forwarding: Arc<ropewalk_proxy::forward::Counters>) {
        drop(self.forwarding.set(forwarding));
    }

    /// Whether the store can be asked.
    pub(super) fn store_is_open(&self) -> bool {
        self.store.borrow().is_some()
    }

    pub(super) fn recording(&self) -> Snapshot {
        self.journal.counters().snapshot()
    }

    pub(super) fn metrics(&self) -> String {
        let mut registry = Registry::with_prefix("ropewalk");
        registry.register_collector(Box::new(Numbers {
            recording: self.recording(),
            reuse: Arc::clone(&self.reuse),
            forwarding: self
                .forwarding
                .get()
                .map(|counters| counters.read())
                .unwrap_or_default(),
            references: self.references.read(),
            surveyed: self.survey.read(),
        }));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

#[derive(Debug)]
struct Numbers {
    recording: Snapshot,
    reuse: Arc<reuse::Counters>,
    forwarding: Counted,
    references: references::Counted,
    surveyed: Surveyed,
}

impl Collector for Numbers {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let recording = &self.recording;
        let mut exchanges = to.encode_descriptor("exchanges", "recorded exchanges", None, MetricType::Counter)?;
        for ((provider, kind, status), count) in &recording.by_label.exchanges {
            let labels = [("provider", &**provider), ("kind", &**kind), ("status", *status)];
            ConstCounter::new(*count).encode(exchanges.encode_family(&labels)?)?;
        }
        let mut tokens = to.encode_descriptor(
            "prompt_tokens",
            "tokens of prompts, by what the provider's cache did with them",
            None,
            MetricType::Counter,
        )?;
        for ((provider, cache), count) in &recording.by_label.prompt_tokens {
            let labels = [("provider", &**provider), ("cache", *cache)];
            ConstCounter::new(*count).encode(tokens.encode_family(&labels)?)?;
        }
        let mut links = to.encode_descriptor("link", "links by method", None, MetricType::Counter)?;
        for (method, count) in &recording.by_label.links {
            ConstCounter::new(*count).encode(links.encode_family(&[("method", *method)])?)?;
        }
        let mut claims = to.encode_descriptor("claims", "expected agents", None, MetricType::Counter)?;
        for (outcome, count) in &recording.by_label.claims {
            ConstCounter::new(*count).encode(claims.encode_family(&[("outcome", *outcome)])?)?;
        }
        let mut reused = to.encode_descriptor("reuse", "calls that asked for reuse", None, MetricType::Counter)?;
        for outcome in reuse::Outcome::ALL {
            let labels = [("outcome", outcome.name())];
            ConstCounter::new(self.reuse.count(outcome)).encode(reused.encode_family(&labels)?)?;
        }
        let surveyed = self.surveyed;
        let mut parts = to.encode_descriptor(
            "parts",
            "what was said, each once",
            Some(&Unit::Bytes),
            MetricType::Gauge,
        )?;
        for (state, bytes) in [("raw", surveyed.raw_bytes), ("stored", surveyed.stored_bytes)] {
            gauge(bytes).encode(parts.encode_family(&[("state", state)])?)?;
        }
        let help = "tool messages of logs that break a rule";
        let mut tools = to.encode_descriptor("tool_messages", help, None, MetricType::Gauge)?;
        for (missing, count) in [("parent", surveyed.without_parent), ("flag", surveyed.without_flag)] {
            gauge(count).encode(tools.encode_family(&[("missing", missing)])?)?;
        }
        let mut spans = to.encode_descriptor("otel_spans", "spans for a collector", None, MetricType::Counter)?;
        for (outcome, count) in [("sent", recording.spans_sent), ("lost", recording.spans_lost)] {
            ConstCounter::new(count).encode(spans.encode_family(&[("outcome", outcome)])?)?;
        }
        let counted = self.references;
        let mut references = to.encode_descriptor("references", "references in requests", None, MetricType::Counter)?;
        for (outcome, count) in [("resolved", counted.resolved), ("unresolved", counted.unresolved)] {
            ConstCounter::new(count).encode(references.encode_family(&[("outcome", outcome)])?)?;
        }
        for (name, help, count) in [
            (
                "references_failed",
                "requests with references that went on as they came because the store could not be asked",
                counted.failed,
            ),
            (
                "otel_measurements_lost",
                "messages with measurements that a collector did not take",
                recording.measures_lost,
            ),
            (
                "journal_gap",
                "exchanges that the journal had no room for",
                recording.gap_exchanges,
            ),
            (
                "unacknowledged",
                "exchanges released before the journal had them",
                recording.unacknowledged,
            ),
            (
                "rejected",
                "exchanges that the store would never take",
                recording.rejected,
            ),
            (
                "rejected_not_kept",
                "exchanges that the store would never take and that could not be put aside either",
                recording.rejected_not_kept,
            ),
            (
                "journal_bad_records",
                "records that were damaged when read",
                recording.bad_records,
            ),
            (
                "forwarded",
                "requests that were forwarded",
                self.forwarding.took.count(),
            ),
            (
                "refused",
                "requests that were answered in the provider's place",
                self.forwarding.refused,
            ),
        ] {
            let metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(metric)?;
        }
        for (name, help, unit, value) in [
            (
                "journal",
                "what the journal holds",
                Some(&Unit::Bytes),
                recording.journal_bytes,
            ),
            (
                "open_exchanges",
                "exchanges that began and did not end",
                None,
                recording.open_exchanges,
            ),
            (
                "in_flight",
                "requests that are under way",
                None,
                self.forwarding.in_flight as u64,
            ),
            (
                "reuse_waiting",
                "requests that wait for the answer to somebody else's equal call",
                None,
                self.reuse.waiting(),
            ),
            (
                "orphans",
                "agents since the start that nobody is known to have started",
                None,
                u64::try_from(recording.by_label.orphans).unwrap_or_default(),
            ),
            (
                "cycles",
                "messages of logs whose parents lead back to themselves",
                None,
                surveyed.cycles,
            ),
            (
                "store_failures",
                "batches the store did not take since the last it did",
                None,
                recording.store_failures,
            ),
            (
                "search_waiting_texts",
                "texts that search does not find yet",
                None,
                recording.search_waiting,
            ),
        ] {
            gauge(value).encode(to.encode_descriptor(name, help, unit, MetricType::Gauge)?)?;
        }
        times(
            &mut to,
            "hold",
            "how long answers waited for the journal",
            &recording.hold,
        )?;
        times(
            &mut to,
            "store_batch",
            "how long the store took for a batch",
            &recording.batch,
        )?;
        times(
            &mut to,
            "forward",
            "how long forwarded exchanges took, from the request's head to the answer's end",
            &self.forwarding.took,
        )
    }
}

const SECOND_US: f64 = 1_000_000.0;

fn gauge(value: u64) -> ConstGauge {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

fn times(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, times: &Times) -> fmt::Result {
    let ends = times.ends_us.iter().map(|end| *end as f64 / SECOND_US);
    let buckets: Vec<(f64, u64)> = ends.chain([f64::MAX]).zip(times.buckets.iter().copied()).collect();
    let mut metric = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(times.sum_us as f64 / SECOND_US, times.count(), &buckets, None)
}

//! Spans and measurements to a collector, where one is configured.

use std::sync::Arc;

use ropewalk_proxy::counters::Counters;
use ropewalk_proxy::forward::UpstreamSettings;
use ropewalk_proxy::telemetry::Telemetry;

use crate::changes::server::Opened;
use crate::config::Config;
use crate::config::otel::Wanted;
use crate::failure::Failure;
use crate::print::out::say;

/// Sends until it is finished, if anybody is to be told anything.
#[derive(Debug, Default)]
pub(super) struct Exporter {
    #[cfg(feature = "otel")]
    exporting: Option<ropewalk_proxy::telemetry::Exporting>,
    /// Where to, for people.
    pub(super) place: Option<String>,
}

impl Exporter {
    /// With what the recorder tells it through.
    #[cfg(feature = "otel")]
    pub(super) fn start(
        config: &Config,
        counters: &Arc<Counters>,
        store: Opened,
    ) -> Result<(Self, Option<Telemetry>), Failure> {
        use ropewalk_proxy::telemetry::{self, Exporting};

        use crate::failure::Kind;

        let settings = match config.otel.wanted(&config.otel_environment)? {
            Wanted::On(settings) => *settings,
            Wanted::Off => return Ok((Exporter::default(), None)),
            Wanted::OffBecause(why) => return Ok(Exporter::off_because(&why)),
        };
        let place = settings.traces.host().map(|host| match settings.traces.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        });
        let (telemetry, inbox) = telemetry::channel(Arc::clone(counters));
        let exporting = Exporting::start(settings, inbox, Arc::clone(counters), store)
            .map_err(|error| Failure::from_error(Kind::Configuration, &error))?;
        let exporter = Exporter {
            exporting: Some(exporting),
            place,
        };
        Ok((exporter, Some(telemetry)))
    }

    #[cfg(not(feature = "otel"))]
    pub(super) fn start(config: &Config, _: &Arc<Counters>, _: Opened) -> Result<(Self, Option<Telemetry>), Failure> {
        Ok(match config.otel.wanted(&config.otel_environment)? {
            Wanted::On(_) | Wanted::Off => (Exporter::default(), None),
            Wanted::OffBecause(why) => Exporter::off_because(&why),
        })
    }

    fn off_because(why: &str) -> (Self, Option<Telemetry>) {
        say(&format!("warning: {why}"));
        say("hint: the environment asks for telemetry; without OTEL_EXPORTER_OTLP_ENDPOINT nothing is sent");
        (Exporter::default(), None)
    }

    /// Where upstreams are, from now on.
    #[cfg_attr(not(feature = "otel"), expect(clippy::unused_self, reason = "nobody is told"))]
    pub(super) fn upstreams_are(&self, upstreams: &[UpstreamSettings]) {
        #[cfg(feature = "otel")]
        if let Some(exporting) = &self.exporting {
            exporting.upstreams_are(upstreams.iter().map(|upstream| {
                let url = &upstream.url;
                let usual_port = if url.scheme_str() == Some("http") { 80 } else { 443 };
                ropewalk_proxy::telemetry::Address {
                    upstream: upstream.name.clone(),
                    host: url.host().unwrap_or_default().to_owned(),
                    port: url.port_u16().unwrap_or(usual_port),
                }
            }));
        }
        #[cfg(not(feature = "otel"))]
        let _ = upstreams;
    }

    /// Sends what is left. Blocks the thread that calls it.
    pub(super) fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporting) = self.exporting {
            /// How long sending may go on after the last exchange was recorded. Spans that are left then are lost.
            const SENDING_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(5);
            exporting.finish(SENDING_TIME_MAX);
        }
    }
}

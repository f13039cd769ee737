//! Where telemetry goes, if anywhere: the file, and over it the variables that OpenTelemetry has for everybody.
//!
//! Those variables may be there for another program, so one of them that cannot be followed switches telemetry off with a warning;
//! the same in the file is an error.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::failure::{Failure, Kind};

/// As it stands in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Otel {
    endpoint: Option<String>,
    /// The name of a variable with headers, because a key does not belong into a file.
    headers_env: Option<String>,
    protocol: Option<String>,
    ca_file: Option<PathBuf>,
    timeout_s: Option<u32>,
    metrics_every_s: Option<u32>,
    sampling: Option<f64>,
    content: bool,
}

/// What is looked up of the environment.
const VARIABLES: [&str; 13] = [
    "OTEL_SDK_DISABLED",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
];

/// The environment as far as it concerns telemetry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    said: HashMap<String, String>,
}

impl Environment {
    pub(crate) fn read(otel: &Otel) -> Self {
        let names = VARIABLES.into_iter().chain(otel.headers_env.as_deref());
        let said = names.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        Environment {
            said: said.filter(|(_, value)| !value.is_empty()).collect(),
        }
    }

    pub(crate) fn of(&self, name: &str) -> Option<&str> {
        self.said.get(name).map(String::as_str)
    }

    /// A number of milliseconds.
    #[cfg(feature = "otel")]
    fn milliseconds(&self, name: &str) -> Option<std::time::Duration> {
        self.of(name)?.trim().parse().ok().map(std::time::Duration::from_millis)
    }
}

/// What telemetry is to be, and what is to be said about it.
#[derive(Debug)]
pub(crate) enum Wanted<S> {
    Off,
    /// The environment asks for something that there is not.
    OffBecause(String),
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "there is nothing to switch on"))]
    On(Box<S>),
}

#[cfg(not(feature = "otel"))]
impl Otel {
    pub(crate) fn wanted(&self, environment: &Environment) -> Result<Wanted<()>, Failure> {
        let is_asked = environment.of("OTEL_EXPORTER_OTLP_ENDPOINT").is_some();
        match &self.endpoint {
            Some(_) => Err(
                Failure::new(Kind::Configuration, "this ropewalk was built without telemetry")
                    .hint("leave otel.endpoint out, or build with the feature `otel`"),
            ),
            None if is_asked => Ok(Wanted::OffBecause(
                "this ropewalk was built without telemetry".to_owned(),
            )),
            None => Ok(Wanted::Off),
        }
    }
}

#[cfg(feature = "otel")]
mod wanted {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue, Uri};
    use ropewalk_proxy::telemetry::Settings;

    use super::{Environment, Failure, Kind, Otel, Wanted};

    /// The one protocol that is spoken.
    const PROTOCOL: &str = "http/protobuf";

    const TIMEOUT: Duration = Duration::from_secs(10);
    const METRICS_EVERY: Duration = Duration::from_secs(60);

    /// The path of each kind, behind an endpoint for all.
    const TRACES_PATH: &str = "v1/traces";
    const METRICS_PATH: &str = "v1/metrics";

    /// What is wrong, and what to do.
    struct Problem(String, &'static str);

    impl Otel {
        pub(crate) fn wanted(&self, environment: &Environment) -> Result<Wanted<Settings>, Failure> {
            if environment
                .of("OTEL_SDK_DISABLED")
                .is_some_and(|value| value.eq_ignore_ascii_case("true"))
            {
                return Ok(Wanted::Off);
            }
            let named = |signal: &str| environment.of(&format!("OTEL_EXPORTER_OTLP_{signal}ENDPOINT"));
            let is_by_environment = ["", "TRACES_", "METRICS_"]
                .into_iter()
                .any(|signal| named(signal).is_some());
            if self.endpoint.is_none() && !is_by_environment {
                return Ok(Wanted::Off);
            }
            match self.settings(environment) {
                Ok(settings) => Ok(Wanted::On(Box::new(settings))),
                Err(problem) if is_by_environment => Ok(Wanted::OffBecause(problem.0)),
                Err(Problem(message, hint)) => Err(Failure::new(Kind::Configuration, message).hint(hint)),
            }
        }

        fn settings(&self, environment: &Environment) -> Result<Settings, Problem> {
            let protocol = environment
                .of("OTEL_EXPORTER_OTLP_PROTOCOL")
                .or(self.protocol.as_deref());
            if let Some(other) = protocol.filter(|protocol| *protocol != PROTOCOL) {
                return Err(Problem(
                    format!("telemetry is not sent over `{other}`"),
                    "the protocol is http/protobuf; collectors take it on port 4318",
                ));
            }
            let sampling = match environment.of("OTEL_TRACES_SAMPLER") {
                Some(sampler) => sampled(sampler, environment.of("OTEL_TRACES_SAMPLER_ARG"))?,
                None => self.sampling.unwrap_or(1.0),
            };
            if !(0.0..=1.0).contains(&sampling) {
                return Err(Problem(
                    "a part of all traces is a number from 0 to 1".to_owned(),
                    "see otel.sampling in the configuration",
                ));
            }
            let seconds = |written: Option<u32>| written.map(|seconds| Duration::from_secs(u64::from(seconds)));
            Ok(Settings {
                traces: self.url(environment, "TRACES", TRACES_PATH)?,
                metrics: self.url(environment, "METRICS", METRICS_PATH)?,
                headers: self.headers(environment)?,
                ca_file: environment
                    .of("OTEL_EXPORTER_OTLP_CERTIFICATE")
                    .map(Into::into)
                    .or_else(|| self.ca_file.clone()),
                timeout: environment
                    .milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT")
                    .or(seconds(self.timeout_s))
                    .unwrap_or(TIMEOUT),
                metrics_every: environment
                    .milliseconds("OTEL_METRIC_EXPORT_INTERVAL")
                    .or(seconds(self.metrics_every_s))
                    .filter(|every| !every.is_zero())
                    .unwrap_or(METRICS_EVERY),
                sampling,
                content: self.content,
                resource: resource(environment),
            })
        }

        /// The endpoint of one kind as it is, or that of all with the kind's path behind it.
        fn url(&self, environment: &Environment, signal: &str, path: &str) -> Result<Uri, Problem> {
            let own = environment.of(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
            let all = environment
                .of("OTEL_EXPORTER_OTLP_ENDPOINT")
                .or(self.endpoint.as_deref());
            let text = match (own, all) {
                (Some(own), _) => own.to_owned(),
                (None, Some(all)) => format!("{}/{path}", all.trim_end_matches('/')),
                // Only the other kind has one.
                (None, None) => format!("http://127.0.0.1:4318/{path}"),
            };
            let url: Option<Uri> = text.parse().ok();
            let is_one = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
            // It may hold a key, so it is not repeated.
            url.filter(is_one).ok_or_else(|| {
                Problem(
                    "the address for telemetry is none".to_owned(),
                    "http://host:4318 or https://host, as otel.endpoint or OTEL_EXPORTER_OTLP_ENDPOINT",
                )
            })
        }

        fn headers(&self, environment: &Environment) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
            let by_file = match &self.headers_env {
                Some(name) => Some(environment.of(name).ok_or_else(|| {
                    Problem(
                        format!("there is no variable `{name}` with headers for telemetry"),
                        "otel.headers_env names a variable that holds name=value,name=value",
                    )
                })?),
                None => None,
            };
            let said = environment
                .of("OTEL_EXPORTER_OTLP_HEADERS")
                .or(by_file)
                .unwrap_or_default();
            let pairs = said.split(',').map(str::trim).filter(|pair| !pair.is_empty());
            let header = |pair: &str| {
                let (name, value) = pair.split_once('=')?;
                let value = decoded(value.trim());
                let mut value = HeaderValue::from_str(&value).ok()?;
                value.set_sensitive(true);
                Some((name.trim().parse().ok()?, value))
            };
            pairs.map(header).collect::<Option<_>>().ok_or_else(|| {
                Problem(
                    "the headers for telemetry are none".to_owned(),
                    "they are written name=value,name=value",
                )
            })
        }
    }

    /// A client's trace decides for itself whatever is said here, so `parentbased_` changes nothing.
    fn sampled(sampler: &str, argument: Option<&str>) -> Result<f64, Problem> {
        match sampler.strip_prefix("parentbased_").unwrap_or(sampler) {
            "always_on" => Ok(1.0),
            "always_off" => Ok(0.0),
            "traceidratio" => Ok(argument.and_then(|part| part.trim().parse().ok()).unwrap_or(1.0)),
            _ => Err(Problem(
                "OTEL_TRACES_SAMPLER names no sampler that there is".to_owned(),
                "always_on, always_off or traceidratio",
            )),
        }
    }

    fn resource(environment: &Environment) -> Vec<(String, String)> {
        let said = environment.of("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let pairs = said.split(',').filter_map(|pair| pair.split_once('='));
        let mut all: Vec<(String, String)> = pairs
            .map(|(name, value)| (name.trim().to_owned(), decoded(value.trim())))
            .collect();
        if let Some(name) = environment.of("OTEL_SERVICE_NAME") {
            all.retain(|(known, _)| known != "service.name");
            all.push(("service.name".to_owned(), name.to_owned()));
        }
        for (name, value) in [
            ("service.name", "ropewalk"),
            ("service.version", env!("CARGO_PKG_VERSION")),
        ] {
            if !all.iter().any(|(known, _)| known == name) {
                all.push((name.to_owned(), value.to_owned()));
            }
        }
        all
    }

    /// Values in these variables may have `%20` and the like in them.
    fn decoded(value: &str) -> String {
        percent_encoding::percent_decode_str(value)
            .decode_utf8_lossy()
            .into_owned()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn environment(pairs: &[(&str, &str)]) -> Environment {
            let said = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Environment { said: said.collect() }
        }

        fn otel(text: &str) -> Otel {
            toml::from_str(text).unwrap()
        }

        fn on(otel: &Otel, environment: &Environment) -> Settings {
            match otel.wanted(environment) {
                Ok(Wanted::On(settings)) => *settings,
                other => panic!("{other:?}"),
            }
        }

        #[test]
        fn is_off_unless_somebody_says_where_to() {
            assert!(matches!(otel("").wanted(&environment(&[])), Ok(Wanted::Off)));
            assert!(matches!(
                otel("content = true").wanted(&environment(&[])),
                Ok(Wanted::Off)
            ));
            let disabled = environment(&[("OTEL_SDK_DISABLED", "true")]);
            assert!(matches!(
                otel("endpoint = 'http://c:4318'").wanted(&disabled),
                Ok(Wanted::Off)
            ));
        }

        #[test]
        fn the_environment_wins_over_the_file() {
            let file = otel("endpoint = 'https://file/otlp/'\nsampling = 0.5\ncontent = true\nheaders_env = 'KEY'");
            let key = ("KEY", "api-key=s%20x, other = 2");
            let settings = on(&file, &environment(&[key]));
            assert_eq!(settings.traces, "https://file/otlp/v1/traces");
            assert_eq!(settings.metrics, "https://file/otlp/v1/metrics");
            assert_eq!((settings.sampling, settings.content), (0.5, true));
            let headers: Vec<_> = settings
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()))
                .collect();
            assert_eq!(headers, [("api-key", &b"s x"[..]), ("other", b"2")]);
            assert!(!format!("{settings:?}").contains("s x"), "keys are not shown");

            let settings = on(
                &file,
                &environment(&[
                    key,
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318"),
                    ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/here"),
                    ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
                    ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
                    ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
                    ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
                    ("OTEL_SERVICE_NAME", "mine"),
                    ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%2Cb"),
                ]),
            );
            assert_eq!(settings.traces, "http://all:4318/v1/traces");
            assert_eq!(settings.metrics, "http://metrics/here");
            assert_eq!(
                (settings.sampling, settings.timeout),
                (0.25, Duration::from_millis(1_500))
            );
            assert_eq!(settings.headers.len(), 1);
            let of = |name: &str| {
                settings
                    .resource
                    .iter()
                    .find(|(known, _)| known == name)
                    .unwrap()
                    .1
                    .clone()
            };
            assert_eq!((of("service.name"), of("team")), ("mine".to_owned(), "a,b".to_owned()));
        }

        #[test]
        fn what_cannot_be_followed_is_an_error_in_the_file_and_a_warning_elsewhere() {
            let nothing = environment(&[]);
            for bad in [
                "endpoint = 'collector'",
                "endpoint = 'http://c'\nprotocol = 'grpc'",
                "endpoint = 'http://c'\nsampling = 2.0",
                "endpoint = 'http://c'\nheaders_env = 'NOWHERE'",
            ] {
                assert!(otel(bad).wanted(&nothing).is_err(), "{bad}");
            }
            for bad in [
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
                ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "//"),
            ] {
                let said = environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), bad]);
                match otel("").wanted(&said) {
                    Ok(Wanted::OffBecause(why)) => assert!(!why.contains("secret"), "{why}"),
                    other => panic!("{bad:?}: {other:?}"),
                }
            }
        }
    }
}

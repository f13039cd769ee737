//! The keys of the configuration file. One that is not known is an error that names the nearest known one.

use toml::de::DeTable;

/// Every key that has an effect; `*` stands for a name that the user chooses.
pub(super) const KEYS: [&str; 65] = [
    "data",
    "store",
    "owner",
    "listen",
    "admin_listen",
    "hosts",
    "upstreams",
    "upstreams.*",
    "upstreams.*.url",
    "upstreams.*.ca_file",
    "owners",
    "owners.mode",
    "owners.tokens",
    "owners.tokens.*",
    "record",
    "record.bodies",
    "record.redact",
    "record.redact.builtin",
    "record.redact.patterns",
    "record.redact.paths",
    "record.headers",
    "journal",
    "journal.level",
    "journal.dir",
    "journal.max_bytes",
    "journal.when_full",
    "limits",
    "limits.connections",
    "limits.exchanges",
    "limits.header_bytes",
    "limits.header_s",
    "limits.body_bytes",
    "limits.decoded_bytes",
    "limits.idle_s",
    "limits.connect_s",
    "limits.drain_s",
    "limits.threads",
    "limits.queue_bytes",
    "references",
    "references.enabled",
    "references.max",
    "references.max_bytes",
    "references.owners",
    "references.owners.*",
    "reuse",
    "reuse.rules",
    "retain",
    "retain.rules",
    "retain.every_h",
    "otel",
    "otel.endpoint",
    "otel.headers_env",
    "otel.protocol",
    "otel.ca_file",
    "otel.timeout_s",
    "otel.metrics_every_s",
    "otel.sampling",
    "otel.content",
    "prices",
    "prices.overrides",
    "identity",
    "identity.claims",
    "identity.claim_window_s",
    "identity.retry_window_s",
    "identity.spawn_tools",
];

/// The first key that is not known, with everything in front of it, and where it stands in the text.
pub(super) fn find_unknown(table: &DeTable<'_>) -> Option<(String, usize)> {
    find_unknown_below(table, "", "")
}

/// `path` as it is written, `pattern` as it stands among the known ones.
fn find_unknown_below(table: &DeTable<'_>, path: &str, pattern: &str) -> Option<(String, usize)> {
    for (name, value) in table {
        let written = below(path, name.get_ref());
        let Some(known) = find_known(pattern, name.get_ref()) else {
            return Some((written, name.span().start));
        };
        if let Some(inner) = value.get_ref().as_table()
            && let Some(unknown) = find_unknown_below(inner, &written, known)
        {
            return Some(unknown);
        }
    }
    None
}

/// The known key of this name below another known one.
pub(super) fn find_known(parent: &str, name: &str) -> Option<&'static str> {
    let patterns = [below(parent, name), below(parent, "*")];
    let known = |pattern: &String| KEYS.into_iter().find(|key| key == pattern);
    patterns.iter().find_map(known)
}

pub(super) fn below(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    }
}

/// What may have been meant.
pub(super) fn suggestion(key: &str) -> String {
    /// Less alike than this, a suggestion is a guess.
    const ALIKE_MIN: f64 = 0.7;
    let alike = KEYS.iter().map(|known| (strsim::jaro_winkler(known, key), *known));
    let best = alike
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(alike, _)| *alike >= ALIKE_MIN);
    match best {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => format!("known keys: {}", KEYS.join(", ")),
    }
}

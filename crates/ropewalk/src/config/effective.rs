//! Every setting that holds, and who says so.
//!
//! The defaults are those of the commented file that `config --init` writes; tests hold it to what the program does. Over them come
//! the user's file, the environment and the command line. Whoever reads this is not shown passwords and tokens.

use std::collections::BTreeMap;
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::Serialize;
use toml::Value;
use toml::de::{DeTable, DeValue};

use super::{DEFAULT_OWNER, Environment, file, keys, line_of, read};
use crate::cli::Global;
use crate::failure::Failure;

/// A commented file with every setting.
pub(crate) const DEFAULT_FILE: &str = include_str!("default.toml");

/// Keys whose line in the default file is an example: without a file they have no value, or one that is computed.
const WITHOUT_DEFAULT: [&str; 12] = [
    "data",
    "store",
    "owner",
    "admin_listen",
    "upstreams.*.ca_file",
    "owners.tokens.*",
    "journal.dir",
    "references.owners.*",
    "limits.threads",
    "otel.endpoint",
    "otel.headers_env",
    "otel.ca_file",
];

/// Flags of every command that are settings, by the ids of their arguments, with the variables that mean the same.
const FLAGS: [(&str, &str, &str); 3] = [
    ("data", "--data", "ROPEWALK_DATA"),
    ("store", "--store", "ROPEWALK_STORE"),
    ("owner", "--owner", "ROPEWALK_OWNER"),
];

/// Settings that variables of other programs win over.
const VARIABLES: [(&str, &str); 5] = [
    ("otel.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("otel.protocol", "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ("otel.ca_file", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
    ("otel.timeout_s", "OTEL_EXPORTER_OTLP_TIMEOUT"),
    ("otel.metrics_every_s", "OTEL_METRIC_EXPORT_INTERVAL"),
];

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    pub(crate) v: u32,
    pub(crate) key: String,
    /// As TOML has it. `None` where nothing is said and nothing is the default.
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Origin {
    Flag { flag: String },
    Environment { variable: String },
    File { file: String, line: usize },
    Default,
}

impl Origin {
    /// As people read it.
    pub(crate) fn text(&self) -> String {
        match self {
            Origin::Flag { flag } => flag.clone(),
            Origin::Environment { variable } => format!("${variable}"),
            Origin::File { file, line } => format!("{file}:{line}"),
            Origin::Default => "default".to_owned(),
        }
    }
}

/// All of them, by name. What is wrong with the file is told as for any other command.
pub(crate) fn settings(global: &Global, matches: &ArgMatches) -> Result<Vec<Setting>, Failure> {
    let mut all = defaults();
    if let Some(folder) = super::data_folder(global, None) {
        insert(&mut all, "data", quoted(&folder.display().to_string()), Origin::Default);
    }
    if let Some((path, text)) = file(global)? {
        read(&text).map_err(|problem| problem.at(&path))?;
        add_file(&mut all, &path, &text);
    }
    add_command_line(&mut all, global, matches);
    add_variables(&mut all);
    Ok(all.into_values().collect())
}

type Settings = BTreeMap<String, Setting>;

fn insert(all: &mut Settings, key: &str, value: impl Into<Option<String>>, origin: Origin) {
    let setting = Setting {
        v: 1,
        key: key.to_owned(),
        value: value.into(),
        origin,
    };
    all.insert(key.to_owned(), setting);
}

fn defaults() -> Settings {
    let mut all = Settings::new();
    let text = uncommented(DEFAULT_FILE);
    let Ok(table) = DeTable::parse(&text) else {
        return all;
    };
    each_value(table.get_ref(), "", "", &mut |key, pattern, value, _| {
        match pattern {
            // Names that users choose: there is none until they do.
            "owners.tokens.*" | "references.owners.*" | "upstreams.*.ca_file" => {}
            pattern if WITHOUT_DEFAULT.contains(&pattern) => insert(&mut all, key, None, Origin::Default),
            _ => insert(&mut all, key, shown(value), Origin::Default),
        }
    });
    insert(&mut all, "owner", quoted(DEFAULT_OWNER), Origin::Default);
    all
}

fn add_file(all: &mut Settings, path: &Path, text: &str) {
    let Ok(table) = DeTable::parse(text) else { return };
    let file = path.display().to_string();
    let mut tokens = 0;
    each_value(table.get_ref(), "", "", &mut |key, pattern, value, offset| {
        let line = line_of(text, offset);
        let file = file.clone();
        // A token is what its key says.
        let key = match pattern {
            "owners.tokens.*" => {
                tokens += 1;
                format!("owners.tokens.(token {tokens})")
            }
            _ => key.to_owned(),
        };
        insert(all, &key, shown(value), Origin::File { file, line });
    });
}

fn add_command_line(all: &mut Settings, global: &Global, matches: &ArgMatches) {
    let said = [
        global.data.as_deref().map(|path| path.display().to_string()),
        global.store.clone(),
        global.owner.clone(),
    ];
    for ((key, flag, variable), value) in FLAGS.into_iter().zip(said) {
        let Some(value) = value else { continue };
        let origin = match matches.value_source(key) {
            Some(ValueSource::EnvVariable) => Origin::Environment {
                variable: variable.to_owned(),
            },
            _ => Origin::Flag { flag: flag.to_owned() },
        };
        insert(all, key, quoted(&without_password(&value)), origin);
    }
    // A folder that somebody names now wins over a server in the file.
    if global.data.is_some() && global.store.is_none() {
        insert(all, "store", None, Origin::Default);
    }
}

fn add_variables(all: &mut Settings) {
    let environment = Environment::read(&super::Otel::default());
    for (key, variable) in VARIABLES {
        let Some(value) = environment.of(variable) else {
            continue;
        };
        // These variables count in milliseconds.
        let value = match (key.ends_with("_s"), value.trim().parse::<f64>()) {
            (true, Ok(milliseconds)) => (milliseconds / 1e3).to_string(),
            _ => quoted(&without_password(value)),
        };
        let variable = variable.to_owned();
        insert(all, key, value, Origin::Environment { variable });
    }
}

/// The default file with every setting in force: `#` in front of a name is gone, prose stays a comment.
pub(super) fn uncommented(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => format!("{setting}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Calls for every key that has a value: its path, its pattern, the value, where it stands.
fn each_value(table: &DeTable<'_>, path: &str, pattern: &str, found: &mut impl FnMut(&str, &str, &DeValue<'_>, usize)) {
    for (name, value) in table {
        let key = keys::below(path, name.get_ref());
        let Some(known) = keys::find_known(pattern, name.get_ref()) else {
            continue;
        };
        match value.get_ref().as_table() {
            Some(inner) => each_value(inner, &key, known, found),
            None => found(&key, known, value.get_ref(), name.span().start),
        }
    }
}

/// A value on one line.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(&without_password(text)),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) => {
            let inside: Vec<String> = values.iter().map(|value| shown(value.get_ref())).collect();
            format!("[{}]", inside.join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                format!("{name} = {}", shown(value.get_ref()))
            };
            let inside: Vec<String> = table.iter().map(pair).collect();
            format!("{{ {} }}", inside.join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// An address without the password in it; any other text as it is.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let name = user.split_once(':').map_or(user, |(name, _)| name);
            match name.len() == user.len() {
                true => authority.to_owned(),
                false => format!("{name}:…@{host}"),
            }
        }
        None => authority.to_owned(),
    };
    // Parameters may be keys, too; those of a connection's encryption are what is looked for here.
    let behind = match behind.split_once('?') {
        Some((path, query)) => {
            let part = |part: &str| match part.split_once('=') {
                Some((name, _)) if !name.starts_with("ssl") => format!("{name}=…"),
                _ => part.to_owned(),
            };
            let parts: Vec<String> = query.split('&').map(part).collect();
            format!("{path}?{}", parts.join("&"))
        }
        None => behind.to_owned(),
    };
    format!("{scheme}://{authority}{behind}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ropewalk_proxy::forward::Fingerprint;

    use super::*;
    use crate::config::Serving;

    /// Everything that a server would be told.
    fn told(serving: &Serving) -> String {
        let fingerprint = || -> Result<Fingerprint, Failure> { panic!("nobody is known by a key by default") };
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            serving.listen,
            serving.settings(&[], None, fingerprint).unwrap(),
            serving.journal.settings(),
            serving.references(),
            serving.reuse_rules(),
            serving.decode_limits(),
            serving.queue_bytes(),
            serving.redactor().unwrap(),
            serving.kept_headers().unwrap(),
            serving.retain.rules,
            serving.retain.every()
        )
    }

    /// The default file with all settings in force but the examples.
    fn in_force() -> String {
        let mut table: toml::Table = uncommented(DEFAULT_FILE).parse().unwrap();
        for pattern in WITHOUT_DEFAULT {
            remove(&mut table, pattern);
        }
        table.to_string()
    }

    fn remove(table: &mut toml::Table, pattern: &str) {
        match pattern.split_once('.') {
            None if pattern == "*" => table.clear(),
            None => drop(table.remove(pattern)),
            Some(("*", rest)) => {
                let inner = table.iter_mut().filter_map(|(_, value)| value.as_table_mut());
                inner.for_each(|table| remove(table, rest));
            }
            Some((name, rest)) => {
                if let Some(inner) = table.get_mut(name).and_then(Value::as_table_mut) {
                    remove(inner, rest);
                }
            }
        }
    }

    #[test]
    fn the_commented_file_changes_nothing_as_it_is_and_with_every_default_in_force() {
        let usual = Serving::default();
        let as_it_is = read(DEFAULT_FILE).unwrap();
        assert_eq!(told(&as_it_is.serving), told(&usual));
        let text = in_force();
        let in_force = read(&text).unwrap();
        let listen = in_force.serving.listen.map(|address| address.to_string());
        assert_eq!(listen.as_deref(), Some(crate::config::DEFAULT_LISTEN));
        let (mut serving, identity) = (in_force.serving, &in_force.identity);
        serving.listen = None;
        assert_eq!(told(&serving), told(&usual));
        let linking = ropewalk_engine::Settings::default();
        assert_eq!(identity.claims, Some(linking.claims));
        let window = |seconds: Option<u32>| i64::from(seconds.unwrap()) * crate::config::SECOND;
        assert_eq!(window(identity.claim_window_s), linking.claim_window);
        assert_eq!(window(identity.retry_window_s), linking.retry_window);
    }

    #[test]
    fn the_commented_file_has_every_key_and_every_example_can_be_read() {
        let text = uncommented(DEFAULT_FILE);
        read(&text).unwrap();
        let table = DeTable::parse(&text).unwrap();
        let mut met: BTreeSet<String> = BTreeSet::new();
        each_value(table.get_ref(), "", "", &mut |_, pattern, _, _| {
            met.insert(pattern.to_owned());
        });
        for key in keys::KEYS {
            let is_table = keys::KEYS.iter().any(|other| other.starts_with(&format!("{key}.")));
            // Patterns may be left out, or be a list of tables: their own keys are explained beside them.
            assert!(is_table || met.contains(key), "{key} is missing in the commented file");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (said, shown) in [
            (
                "postgres://me:hunter2@h:5432/d?sslmode=require&password=x",
                "postgres://me:…@h:5432/d?sslmode=require&password=…",
            ),
            ("postgres://me@h/d", "postgres://me@h/d"),
            ("https://h/path", "https://h/path"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_password(said), shown);
        }
    }
}

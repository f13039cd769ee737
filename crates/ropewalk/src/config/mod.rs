//! The configuration: flags over environment over file over defaults.
//!
//! The file is TOML. It knows only keys that have an effect; another one is an error that names the nearest known one,
//! because a misspelt key that is ignored is worse than none.

pub(crate) mod effective;
mod keys;
pub(crate) mod otel;
mod prices;
pub(crate) mod retention;
mod serving;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ropewalk_core::cost::PriceOverride;
use ropewalk_engine::Settings;
use ropewalk_engine::spawn::{SpawnTool, SpawnTools};
use ropewalk_proxy::forward::{self, Fingerprint, UpstreamSettings};
use serde::Deserialize;
use toml::de::DeTable;

use crate::cli::Global;
use crate::failure::{Failure, Kind};
use crate::secret;

use otel::{Environment, Otel};
use prices::CurrentPrices;
pub(crate) use prices::Prices;
pub(crate) use serving::{DEFAULT_LISTEN, Serving};

/// Whose data it is where nobody says.
pub(crate) const DEFAULT_OWNER: &str = "local";

const SECOND: i64 = 1_000_000;

/// Where the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Folder(PathBuf),
    Postgres(String),
}

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) place: Place,
    data_folder: Option<PathBuf>,
    /// From a flag or the environment: it decides over what imported lines say.
    pub(crate) chosen_owner: Option<String>,
    /// From the file.
    configured_owner: Option<String>,
    pub(crate) linking: Settings,
    pub(crate) spawn_tools: SpawnTools,
    pub(crate) serving: Serving,
    pub(crate) otel: Otel,
    pub(crate) otel_environment: Environment,
    pub(crate) prices: Prices,
    /// What the command line said.
    global: Global,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    data: Option<PathBuf>,
    store: Option<String>,
    owner: Option<String>,
    identity: Identity,
    otel: Otel,
    prices: WrittenPrices,
    /// Read apart: errors in what is flattened would not know their line.
    #[serde(skip)]
    serving: Serving,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenPrices {
    overrides: Vec<PriceOverride>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Identity {
    claims: Option<bool>,
    claim_window_s: Option<u32>,
    retry_window_s: Option<u32>,
    spawn_tools: Vec<SpawnTool>,
}

impl Config {
    pub(crate) fn load(global: &Global) -> Result<Self, Failure> {
        let written = match file(global)? {
            Some((path, text)) => read(&text).map_err(|problem| problem.at(&path))?,
            None => Written::default(),
        };
        let mut linking = Settings::default();
        let identity = written.identity;
        linking.claims = identity.claims.unwrap_or(linking.claims);
        let window = |seconds: Option<u32>, otherwise: i64| seconds.map_or(otherwise, |s| i64::from(s) * SECOND);
        linking.claim_window = window(identity.claim_window_s, linking.claim_window);
        linking.retry_window = window(identity.retry_window_s, linking.retry_window);
        let data_folder = data_folder(global, written.data);
        Ok(Config {
            place: place(global, written.store, data_folder.as_deref())?,
            data_folder,
            chosen_owner: global.owner.clone(),
            configured_owner: written.owner,
            linking,
            spawn_tools: SpawnTools::with(identity.spawn_tools),
            serving: written.serving,
            otel_environment: Environment::read(&written.otel),
            otel: written.otel,
            prices: Arc::new(CurrentPrices::new(written.prices.overrides)),
            global: global.clone(),
        })
    }

    /// Where files are kept beside the store, also where that is a server.
    pub(crate) fn data_folder(&self) -> Result<&Path, Failure> {
        self.data_folder.as_deref().ok_or_else(no_folder)
    }

    /// Read again, from where it came the first time.
    pub(crate) fn reloaded(&self) -> Result<Self, Failure> {
        Config::load(&self.global)
    }

    /// The folder that the command line or the environment names.
    pub(crate) fn asked_data(&self) -> Option<&Path> {
        self.global.data.as_deref()
    }

    /// The database that the command line or the environment names.
    pub(crate) fn asked_store(&self) -> Option<&str> {
        self.global.store.as_deref()
    }

    /// As it would be without a file, in a folder of its own: a demonstration looks the same whatever its user has configured.
    pub(crate) fn for_demonstration(&self, folder: &Path) -> Self {
        Config {
            place: Place::Folder(folder.to_owned()),
            data_folder: Some(folder.to_owned()),
            linking: Settings::default(),
            spawn_tools: SpawnTools::default(),
            serving: Serving::default(),
            otel: Otel::default(),
            otel_environment: Environment::default(),
            prices: Arc::new(CurrentPrices::new(Vec::new())),
            ..self.clone()
        }
    }

    /// What the proxy takes; upstreams of the command line win.
    pub(crate) fn settings(&self, upstreams: &[(String, String)]) -> Result<forward::Settings, Failure> {
        let fingerprint = || Ok(Fingerprint::new(secret::key(self.data_folder()?)?));
        self.serving.settings(upstreams, self.asked_owner(), fingerprint)
    }

    /// Where requests go without a word on the command line.
    pub(crate) fn upstreams(&self) -> Result<Vec<UpstreamSettings>, Failure> {
        self.serving.upstreams(&[])
    }

    /// With somebody asked for.
    pub(crate) fn for_owner(&self, owner: &str) -> Self {
        Config {
            chosen_owner: Some(owner.to_owned()),
            ..self.clone()
        }
    }

    /// Who was asked for, if anybody was.
    pub(crate) fn asked_owner(&self) -> Option<&str> {
        self.chosen_owner.as_deref().or(self.configured_owner.as_deref())
    }
}

/// A flag or the environment decides as a whole: `--data` there wins over a `store` in the file.
fn place(global: &Global, store: Option<String>, data_folder: Option<&Path>) -> Result<Place, Failure> {
    let url = match (&global.store, &global.data) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(_)) => None,
        (None, None) => store,
    };
    match url {
        Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => Ok(Place::Postgres(url)),
        Some(url) if !url.contains("://") => Ok(Place::Folder(PathBuf::from(url))),
        // The address may hold a password, so it is not repeated.
        Some(_) => Err(
            Failure::new(Kind::Configuration, "the store's address is of no kind we know")
                .hint("postgres://user@host/database, or a folder"),
        ),
        None => Ok(Place::Folder(data_folder.ok_or_else(no_folder)?.to_owned())),
    }
}

/// `None` where neither anybody nor the environment says.
fn data_folder(global: &Global, written: Option<PathBuf>) -> Option<PathBuf> {
    let said = global.data.clone().or(written);
    said.or_else(|| Some(base("XDG_DATA_HOME", ".local/share")?.join("ropewalk")))
}

fn no_folder() -> Failure {
    Failure::new(
        Kind::Configuration,
        "neither XDG_DATA_HOME nor HOME says where data is kept",
    )
    .hint("name a folder: --data DIR")
}

/// A folder of the user's, as the XDG specification says. `None` where the environment says nothing.
fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let said = |name: &str| {
        std::env::var_os(name)
            .filter(|value: &OsString| !value.is_empty())
            .map(PathBuf::from)
    };
    let absolute = said(variable).filter(|path| path.is_absolute());
    absolute.or_else(|| Some(said("HOME")?.join(below_home)))
}

/// Where the file is: the one that was asked for, else the usual one. `None` where the environment says nothing.
pub(crate) fn file_path(global: &Global) -> Option<PathBuf> {
    let usual = || Some(base("XDG_CONFIG_HOME", ".config")?.join("ropewalk").join("config.toml"));
    global.config.clone().or_else(usual)
}

/// The file that was asked for must be there; the usual one may be missing.
fn file(global: &Global) -> Result<Option<(PathBuf, String)>, Failure> {
    let Some(path) = file_path(global) else {
        return Ok(None);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && global.config.is_none() => Ok(None),
        Err(error) => Err(
            Failure::new(Kind::Configuration, format!("cannot read {}: {error}", path.display()))
                .hint("--config or ROPEWALK_CONFIG names it; `ropewalk config --init` writes one with every setting"),
        ),
    }
}

/// What is wrong, where, and what to do.
#[derive(Debug)]
struct Problem {
    line: Option<usize>,
    message: String,
    hint: String,
}

impl Problem {
    fn of(error: &toml::de::Error, text: &str) -> Self {
        Problem {
            line: error.span().map(|span| line_of(text, span.start)),
            message: error.message().to_owned(),
            hint: "the file is TOML; `ropewalk config --init` writes one that explains every key".to_owned(),
        }
    }

    fn at(self, path: &Path) -> Failure {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let message = format!("{}{line}: {}", path.display(), self.message);
        Failure::new(Kind::Configuration, message).hint(self.hint)
    }
}

/// Lines count from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

fn read(text: &str) -> Result<Written, Problem> {
    let broken = |error: toml::de::Error| Problem::of(&error, text);
    let table = DeTable::parse(text).map_err(broken)?;
    if let Some((key, offset)) = keys::find_unknown(table.get_ref()) {
        return Err(Problem {
            line: Some(line_of(text, offset)),
            message: format!("unknown key `{key}`"),
            hint: keys::suggestion(&key),
        });
    }
    let mut written: Written = toml::from_str(text).map_err(broken)?;
    written.serving = toml::from_str(text).map_err(broken)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_an_error_with_a_suggestion() {
        for (text, key, hint) in [
            ("stroe = 'x'", "stroe", "store"),
            (
                "[identity]\nclaim_window = 3",
                "identity.claim_window",
                "identity.claim_window_s",
            ),
            ("zzz = 1", "zzz", "known keys"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.message.contains(key), "{problem:?}");
            assert!(problem.hint.contains(hint), "{problem:?}");
        }
    }

    #[test]
    fn every_key_is_read() {
        let written = read(
            "data = '/d'\nstore = 'postgres://h/d'\nowner = 'ann'\n[identity]\nclaims = false\nclaim_window_s = 5\n\
             retry_window_s = 6\n[[identity.spawn_tools]]\ntool = 'go'\nprompt_arguments = ['p']\n",
        )
        .unwrap();
        assert_eq!(
            (written.owner.as_deref(), written.identity.claims),
            (Some("ann"), Some(false))
        );
        assert_eq!(written.identity.spawn_tools.len(), 1);
        assert_eq!(
            (written.identity.claim_window_s, written.identity.retry_window_s),
            (Some(5), Some(6))
        );
        assert!(read("data = 3").is_err());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line) in [
            ("\n\nstroe = 'x'", 3),
            ("owner = 'ann'\n[limits]\nthreads = 'many'", 3),
            ("[journal]\nlevel = 'paper'", 2),
            ("data = 3", 1),
            ("owner =", 1),
        ] {
            assert_eq!(read(text).unwrap_err().line, Some(line), "{text}");
        }
    }
}

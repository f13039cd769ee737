//! `ropewalk config`: every setting and who says so, and a file that explains them.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use clap::CommandFactory as _;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::{Arguments, Configuration, Global};
use crate::config::effective::{self, DEFAULT_FILE, Setting};
use crate::config::file_path;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;
use crate::print::text::{cut, one_line, padded};

/// Wider values are cut, so that who says it stays in sight.
const VALUE_COLUMNS_MAX: usize = 48;

pub(crate) fn run(global: &Global, arguments: &Configuration) -> Result<(), Failure> {
    match arguments.init {
        true => init(global),
        false => show(global, arguments.key.as_deref().unwrap_or_default()),
    }
}

fn init(global: &Global) -> Result<(), Failure> {
    let path = file_path(global).ok_or_else(|| {
        Failure::new(
            Kind::Configuration,
            "neither XDG_CONFIG_HOME nor HOME says where settings are kept",
        )
        .hint("name a file: --config FILE")
    })?;
    let shown = path.display();
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(Kind::Configuration, format!("{shown} is there, and left as it is"))
            .hint("name another file to compare with: --config FILE"),
        _ => Failure::new(Kind::Configuration, format!("cannot write {shown}: {error}")),
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    // It may come to hold tokens.
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    opened
        .and_then(|mut file| file.write_all(DEFAULT_FILE.as_bytes()))
        .map_err(cannot)?;
    let mut out = Out::new();
    match global.json {
        true => out.json(&serde_json::json!({"v": 1, "file": path.display().to_string()}))?,
        false => out.line(&format!("wrote {}", one_line(&path.display().to_string())))?,
    }
    out.finish()
}

fn show(global: &Global, prefix: &str) -> Result<(), Failure> {
    // Who said what: the parsed arguments do not know.
    let matches = Arguments::command().get_matches();
    let settings = effective::settings(global, &matches)?;
    let chosen: Vec<&Setting> = settings
        .iter()
        .filter(|setting| setting.key.starts_with(prefix))
        .collect();
    if chosen.is_empty() {
        return Err(
            Failure::new(Kind::NotFound, format!("no setting begins with `{prefix}`"))
                .hint("`ropewalk config` lists them all"),
        );
    }
    let mut out = Out::new();
    let longest = chosen.iter().map(|setting| setting.key.width()).max().unwrap_or(0);
    let widest = chosen.iter().map(|setting| shown(setting).width()).max().unwrap_or(0);
    for setting in chosen {
        if global.json {
            out.json(setting)?;
            continue;
        }
        let value = padded(&shown(setting), widest);
        let key = out.name(&padded(&one_line(&setting.key), longest));
        let origin = out.faint(&one_line(&setting.origin.text()));
        out.line(&format!("{key}  {value}  {origin}"))?;
    }
    out.finish()
}

fn shown(setting: &Setting) -> String {
    cut(setting.value.as_deref().unwrap_or("(none)"), VALUE_COLUMNS_MAX)
}

//! Codex' settings. OPENAI_BASE_URL is for its built-in provider only.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::super::finding::Finding;
use super::super::{home, shown, variable};
use super::{CHECK, Ours, place_of, read};

/// The provider that OPENAI_BASE_URL is for.
const BUILT_IN: &str = "openai";

pub(super) fn look(ours: &Ours, findings: &mut Vec<Finding>) {
    let folder = variable("CODEX_HOME").map(PathBuf::from);
    let Some(path) = folder
        .or_else(|| Some(home()?.join(".codex")))
        .map(|folder| folder.join("config.toml"))
    else {
        return;
    };
    let Some(text) = read(&path, findings) else { return };
    match text.parse::<Table>() {
        Ok(settings) => look_at(&path, &settings, ours, findings),
        Err(_) => findings
            .push(Finding::warning(CHECK, format!("{} is no TOML", shown(&path))).hint("Codex cannot read it either")),
    }
}

fn look_at(path: &Path, settings: &Table, ours: &Ours, findings: &mut Vec<Finding>) {
    let file = shown(path);
    if let Some(url) = text(settings, &["openai_base_url"]).filter(|url| !ours.is_at(url)) {
        findings.push(
            Finding::error(CHECK, format!("sends Codex to {}, past `ropewalk run`", place_of(url)))
                .of(&*file, "openai_base_url")
                .hint("take it out of the file; if that is where requests must go: `ropewalk run --upstream openai=URL -- codex`"),
        );
    }
    // The chosen profile's word counts before the file's.
    let profile = text(settings, &["profile"]);
    let by_profile = profile.and_then(|profile| {
        let provider = text(settings, &["profiles", profile, "model_provider"])?;
        Some((format!("profiles.{profile}.model_provider"), provider))
    });
    let by_file = || Some(("model_provider".to_owned(), text(settings, &["model_provider"])?));
    let Some((key, provider)) = by_profile
        .or_else(by_file)
        .filter(|(_, provider)| *provider != BUILT_IN)
    else {
        return;
    };
    let url = text(settings, &["model_providers", provider, "base_url"]);
    let format = text(settings, &["model_providers", provider, "wire_api"]).unwrap_or("responses");
    findings.push(match url {
        Some(url) if ours.is_at(url) => {
            Finding::ok(CHECK, format!("sends Codex to ropewalk ({format}), also without `ropewalk run`")).of(&*file, &key)
        }
        Some(url) => Finding::error(
            CHECK,
            format!("is `{provider}`, which sends Codex to {} ({format}), past `ropewalk run`", place_of(url)),
        )
        .of(&*file, &key)
        .hint(format!(
            "OPENAI_BASE_URL is for the built-in provider: `codex -c model_provider=openai`, or make {} an upstream and \
             model_providers.{provider}.base_url http://127.0.0.1:8742/u/NAME/v1",
            place_of(url)
        )),
        None => Finding::error(CHECK, format!("is `{provider}`, which takes no address from OPENAI_BASE_URL"))
            .of(&*file, &key)
            .hint("nothing is recorded of it; `codex -c model_provider=openai` is the built-in provider"),
    });
}

fn text<'t>(settings: &'t Table, path: &[&str]) -> Option<&'t str> {
    let (last, folders) = path.split_last()?;
    let mut table = settings;
    for name in folders {
        table = table.get(*name)?.as_table()?;
    }
    table.get(*last).and_then(Value::as_str).filter(|text| !text.is_empty())
}

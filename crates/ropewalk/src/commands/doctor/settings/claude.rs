//! Claude Code's settings. What is in their `env` wins over the variables that it is started with.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::finding::Finding;
use super::super::{home, shown, variable};
use super::{ADDRESSES, CHECK, CLOUDS, Ours, PROXIES, excepts_loopback, is_true, place_of, read};

/// Where an administrator puts settings that nobody can change.
const MANAGED: [&str; 2] = [
    "/etc/claude-code/managed-settings.json",
    "/Library/Application Support/ClaudeCode/managed-settings.json",
];

pub(super) fn look(ours: &Ours, findings: &mut Vec<Finding>) {
    for path in files() {
        let Some(text) = read(&path, findings) else { continue };
        match serde_json::from_str::<Value>(&text) {
            Ok(settings) => look_at(&path, &settings, ours, findings),
            Err(error) => findings.push(
                Finding::warning(CHECK, format!("{} is no JSON (line {})", shown(&path), error.line()))
                    .hint("Claude Code cannot read it either"),
            ),
        }
    }
}

/// Those that win first.
fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = MANAGED.map(PathBuf::from).into();
    let own = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let own = own.or_else(|| Some(home()?.join(".claude")));
    let own = own.map(|folder| folder.join("settings.json"));
    if let Ok(here) = std::env::current_dir() {
        for name in ["settings.local.json", "settings.json"] {
            // At home the project's file is the user's.
            files.extend(Some(here.join(".claude").join(name)).filter(|path| Some(path) != own.as_ref()));
        }
    }
    files.extend(own);
    files
}

fn look_at(path: &Path, settings: &Value, ours: &Ours, findings: &mut Vec<Finding>) {
    let file = shown(path);
    let set = |name: &str| match &settings["env"][name] {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(settings["env"][name].to_string()),
        _ => None,
    };
    let key = |name: &str| format!("env.{name}");
    for name in ADDRESSES.into_iter().filter(|name| name.starts_with("ANTHROPIC")) {
        let Some(url) = set(name) else { continue };
        findings.push(match ours.is_at(&url) {
            true => {
                Finding::ok(CHECK, "sends Claude Code to ropewalk, also without `ropewalk run`").of(&*file, &key(name))
            }
            false => Finding::error(
                CHECK,
                format!("sends Claude Code to {}, past `ropewalk run`", place_of(&url)),
            )
            .of(&*file, &key(name))
            .hint(
                "take it out of the file; if that is where requests must go, make it an upstream: \
                       `ropewalk run --upstream anthropic=URL -- claude`",
            ),
        });
    }
    for name in CLOUDS {
        if set(name).is_some_and(|value| is_true(&value)) {
            findings.push(
                Finding::error(
                    CHECK,
                    "makes Claude Code ask a cloud that its base URL does not lead to",
                )
                .of(&*file, &key(name))
                .hint("nothing is recorded of it; take it out of the file to record"),
            );
        }
    }
    if let Some(name) = PROXIES.into_iter().find(|name| set(name).is_some())
        && !excepts_loopback(&set("NO_PROXY").or_else(|| variable("NO_PROXY")).unwrap_or_default())
    {
        findings.push(
            Finding::warning(CHECK, "may send what is meant for ropewalk through another proxy")
                .of(&*file, &key(name))
                .hint("add \"NO_PROXY\": \"127.0.0.1,localhost\" beside it"),
        );
    }
    if !settings["apiKeyHelper"].is_null() {
        findings.push(
            Finding::note(
                CHECK,
                "gives Claude Code its key; it passes through ropewalk and is not kept",
            )
            .of(&*file, "apiKeyHelper")
            .hint("a helper whose keys change makes a new owner of each with owners.mode = \"credential\""),
        );
    }
}

//! `ropewalk doctor` in homes that were made up: what it finds there, and that it only looks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use ropewalk_testkit::upstream::Upstream;
use serde_json::Value;
use tempfile::TempDir;

use crate::serve::server::Place;
use crate::{stderr, stdout};

/// A key that somebody wrote where it does not belong.
const KEY: &str = "hunter2-hunter2";

struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home {
            folder,
            variables: Vec::new(),
        };
        fs::create_dir_all(home.path("work")).unwrap();
        fs::create_dir_all(home.path("bin")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// With a program on the PATH.
    fn with_program(self, name: &str, script: &str) -> Self {
        let home = self.with(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(home.path(&format!("bin/{name}")), Permissions::from_mode(0o755)).unwrap();
        home
    }

    fn knowing(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn doctor(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_ropewalk"))
            .arg("doctor")
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }

    fn findings(&self, arguments: &[&str]) -> Vec<Value> {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let output = self.doctor(&all);
        let findings: Vec<Value> = stdout(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let has_errors = findings.iter().any(|finding| finding["level"] == "error");
        assert_eq!(
            output.status.code(),
            Some(i32::from(has_errors)),
            "{findings:?} {}",
            stderr(&output)
        );
        assert!(findings.iter().all(|finding| finding["v"] == 1));
        findings
    }

    /// Every file with what is in it.
    fn everything(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut folders = vec![self.folder.path().to_owned()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push((path.clone(), fs::read(path).unwrap())),
                }
            }
        }
        files.sort();
        files
    }
}

/// The finding about a key of a file.
fn about<'f>(findings: &'f [Value], file: &str, key: &str) -> &'f Value {
    let found = findings
        .iter()
        .find(|finding| finding["file"] == file && finding["key"] == key);
    found.unwrap_or_else(|| panic!("nothing about {key} of {file} in {findings:#?}"))
}

fn of<'f>(findings: &'f [Value], check: &str) -> Vec<&'f Value> {
    findings.iter().filter(|finding| finding["check"] == check).collect()
}

#[test]
fn a_clean_home_has_nothing_wrong_and_stays_clean() {
    let home = Home::new();
    let before = home.everything();
    let findings = home.findings(&[]);
    assert_eq!(of(&findings, "settings")[0]["level"], "ok");
    assert_eq!(
        of(&findings, "store")[0]["message"],
        "~/.local/share/ropewalk: nothing recorded yet"
    );
    let output = home.doctor(&[]);
    assert!(stderr(&output).contains("nothing is wrong"), "{}", stderr(&output));
    assert!(stdout(&output).contains("ok       store"), "{}", stdout(&output));
    assert_eq!(home.everything(), before, "it only looks");
}

#[test]
fn settings_that_win_over_run_are_named_by_file_and_key_and_left_alone() {
    let home = Home::new()
        .with(
            ".claude/settings.json",
            &format!(r#"{{"env":{{"ANTHROPIC_BASE_URL":"https://me:{KEY}@gate.example:8443/t/{KEY}"}},"apiKeyHelper":"echo {KEY}"}}"#),
        )
        .with("work/.claude/settings.local.json", r#"{"env":{"CLAUDE_CODE_USE_BEDROCK":"1","HTTPS_PROXY":"http://p:3128"}}"#)
        .with("work/.claude/settings.json", r#"{"env":{"CLAUDE_CODE_USE_VERTEX":"0"}}"#)
        .with(
            ".codex/config.toml",
            &format!(
                "profile = 'work'\nmodel_provider = 'openai'\n[profiles.work]\nmodel_provider = 'azure'\n\
                 [model_providers.azure]\nbase_url = 'https://az.example/openai?key={KEY}'\nwire_api = 'responses'\n"
            ),
        );
    let before = home.everything();
    let findings = home.findings(&[]);
    let base = about(&findings, "~/.claude/settings.json", "env.ANTHROPIC_BASE_URL");
    assert_eq!(base["level"], "error");
    assert!(
        base["message"].as_str().unwrap().contains("https://gate.example:8443,"),
        "{base}"
    );
    assert!(base["hint"].as_str().unwrap().contains("--upstream anthropic=URL"));
    assert_eq!(
        about(&findings, "~/.claude/settings.json", "apiKeyHelper")["level"],
        "note"
    );
    let local = "~/work/.claude/settings.local.json";
    assert_eq!(about(&findings, local, "env.CLAUDE_CODE_USE_BEDROCK")["level"], "error");
    assert_eq!(about(&findings, local, "env.HTTPS_PROXY")["level"], "warning");
    assert!(
        !findings
            .iter()
            .any(|finding| finding["key"] == "env.CLAUDE_CODE_USE_VERTEX")
    );
    let codex = about(&findings, "~/.codex/config.toml", "profiles.work.model_provider");
    assert_eq!(codex["level"], "error");
    assert!(
        codex["message"]
            .as_str()
            .unwrap()
            .contains("https://az.example (responses)"),
        "{codex}"
    );
    for output in [home.doctor(&[]), home.doctor(&["--json"])] {
        assert!(!stdout(&output).contains(KEY), "{}", stdout(&output));
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(home.everything(), before);
}

#[test]
fn settings_that_lead_to_ropewalk_are_fine() {
    let home = Home::new()
        .with(
            ".claude/settings.json",
            r#"{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:8742"}}"#,
        )
        .with(
            ".codex/config.toml",
            "model_provider = 'rope'\n[model_providers.rope]\nbase_url = 'http://localhost:8742/v1'\n",
        )
        .knowing("OPENAI_BASE_URL", "http://127.0.0.1:8742/v1");
    let findings = home.findings(&[]);
    assert_eq!(
        about(&findings, "~/.claude/settings.json", "env.ANTHROPIC_BASE_URL")["level"],
        "ok"
    );
    assert_eq!(
        about(&findings, "~/.codex/config.toml", "model_provider")["level"],
        "ok"
    );
    assert!(!findings.iter().any(|finding| finding["key"] == "OPENAI_BASE_URL"));
}

#[test]
fn the_environment_is_looked_at() {
    let home = Home::new()
        .knowing("ANTHROPIC_BASE_URL", &format!("https://{KEY}@gate.example"))
        .knowing("CLAUDE_CODE_USE_VERTEX", "true")
        .knowing("https_proxy", "http://p:3128");
    let findings = home.findings(&[]);
    assert_eq!(about(&findings, "environment", "ANTHROPIC_BASE_URL")["level"], "note");
    assert_eq!(
        about(&findings, "environment", "CLAUDE_CODE_USE_VERTEX")["level"],
        "error"
    );
    assert_eq!(about(&findings, "environment", "HTTPS_PROXY")["level"], "warning");
    assert!(!stdout(&home.doctor(&[])).contains(KEY));
    let excepted = Home::new()
        .knowing("HTTPS_PROXY", "http://p:3128")
        .knowing("NO_PROXY", "localhost, 127.0.0.1");
    assert!(
        !excepted
            .findings(&[])
            .iter()
            .any(|finding| finding["key"] == "HTTPS_PROXY")
    );
    let telemetry = Home::new()
        .knowing("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .knowing("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(of(&telemetry.findings(&[]), "telemetry")[0]["level"], "warning");
}

#[test]
fn clients_are_listed_with_their_versions_whatever_they_say() {
    let home = Home::new()
        .with_program("claude", r"printf '\033[31m2.1.197 (Claude Code)\033]0;x\007\n'")
        .with_program("codex", "exec yes codex-cli 0.166.0")
        .with_program("gemini", "exit 1");
    let findings = home.findings(&[]);
    let said: Vec<&str> = of(&findings, "client")
        .iter()
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[0].starts_with("claude: ") && said[0].contains("2.1.197 (Claude Code)"),
        "{said:?}"
    );
    assert_eq!(said[1], "codex: codex-cli 0.166.0 (~/bin/codex)");
    assert!(said[2].starts_with("gemini: does not say"), "{said:?}");
    let shown = stdout(&home.doctor(&[]));
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
}

#[test]
fn hostile_settings_are_a_warning_and_no_more() {
    let home = Home::new()
        .with("work/.claude/settings.json", "{\"env\": \u{1b}[2J nonsense")
        .with("work/.claude/settings.local.json", &" ".repeat(2 << 20))
        .with(".codex/config.toml", "model_provider = \"\u{202e}evil\\u001b[2J\"\n");
    // Whoever opens it waits for somebody to write.
    fs::create_dir_all(home.path(".claude")).unwrap();
    let pipe = Command::new("mkfifo")
        .arg(home.path(".claude/settings.json"))
        .status()
        .unwrap();
    assert!(pipe.success());
    let findings = home.findings(&[]);
    let warnings = of(&findings, "settings")
        .iter()
        .filter(|finding| finding["level"] == "warning")
        .count();
    assert_eq!(warnings, 3, "{findings:#?}");
    let shown = stdout(&home.doctor(&[]));
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn logs_of_other_tools_are_counted_with_the_command_that_imports_them() {
    let home = Home::new()
        .with(".claude/projects/-home-me/one.jsonl", "{}\n")
        .with(".claude/projects/-home-me/one/subagents/agent-a.jsonl", "{}\n")
        .with(".claude/projects/-home-me/one/subagents/agent-a.meta.json", "{}\n")
        .with(".codex/sessions/2026/11/02/rollout-1.jsonl", "{}\n")
        .with(".config/io.datasette.llm/logs.db", "x");
    let findings = home.findings(&[]);
    let logs = of(&findings, "logs");
    let hints: Vec<&str> = logs.iter().map(|finding| finding["hint"].as_str().unwrap()).collect();
    assert_eq!(
        logs[0]["message"],
        "Claude Code has 2 files of 6 B in ~/.claude/projects"
    );
    assert!(
        hints[0].ends_with("ropewalk import ~/.claude/projects --format claude-code"),
        "{hints:?}"
    );
    assert!(
        hints[1].ends_with("ropewalk import ~/.codex/sessions --format codex"),
        "{hints:?}"
    );
    assert!(
        hints[2].ends_with("ropewalk import ~/.config/io.datasette.llm/logs.db --format llm"),
        "{hints:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_found_while_it_runs_and_missed_when_it_died() {
    let upstream = Upstream::start().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    let data = place.data();
    let arguments = ["--data", data.to_str().unwrap()];
    let home = Home::new();
    let findings = home.findings(&arguments);
    let found = of(&findings, "server")[0];
    assert_eq!(found["message"], format!("listens on http://{}", server.address));
    assert_eq!(of(&findings, "access")[0]["level"], "ok");
    let points_here = Home::new().knowing("ANTHROPIC_BASE_URL", &format!("http://{}", server.address));
    assert_eq!(of(&points_here.findings(&arguments), "settings")[0]["level"], "ok");
    server.kill();

    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    fs::write(data.join("journal/rejected.jsonl"), "{}\n").unwrap();
    let findings = home.findings(&arguments);
    assert_eq!(of(&findings, "server")[0]["level"], "warning");
    assert_eq!(of(&findings, "access")[0]["level"], "error");
    let refused = of(&findings, "journal")
        .into_iter()
        .find(|finding| finding["level"] == "warning")
        .unwrap();
    assert!(
        refused["hint"].as_str().unwrap().contains("rejected.jsonl"),
        "{refused}"
    );
}

#[test]
fn a_store_is_described_and_one_that_cannot_be_read_is_an_error() {
    let store = crate::store::TestStore::with(&crate::store::talk());
    let data = store.data();
    let home = Home::new();
    let findings = home.findings(&["--data", data.to_str().unwrap()]);
    let described = of(&findings, "store")[0]["message"].as_str().unwrap();
    assert!(
        described.contains("SQLite 3.") && described.contains(", schema version "),
        "{described}"
    );
    fs::write(data.join("ropewalk.db"), "this is no database").unwrap();
    let findings = home.findings(&["--data", data.to_str().unwrap()]);
    assert_eq!(of(&findings, "store")[0]["level"], "error");
    let nowhere = home.findings(&["--store", "postgres://nobody@127.0.0.1:1/none"]);
    assert_eq!(of(&nowhere, "store")[0]["level"], "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_are_knocked_at_only_if_that_is_asked_for() {
    let upstream = Upstream::start().await;
    let settings = format!(
        "[upstreams.anthropic]\nurl = 'http://{}'\n[upstreams.openai]\nurl = 'http://127.0.0.1:1'\n\
         [upstreams.gemini]\nurl = 'http://127.0.0.1:1'\n",
        upstream.address()
    );
    let home = Home::new().with(".config/ropewalk/config.toml", &settings);
    assert!(of(&home.findings(&[]), "upstream").is_empty());
    let findings = home.findings(&["--upstreams"]);
    let told = of(&findings, "upstream");
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0]["level"], "ok", "{told:?}");
    assert!(
        told[0]["message"].as_str().unwrap().starts_with("anthropic answers"),
        "{told:?}"
    );
    assert!(
        told[1..]
            .iter()
            .all(|finding| finding["level"] == "error" && finding["hint"].is_string())
    );
}

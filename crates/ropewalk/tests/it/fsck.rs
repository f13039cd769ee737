//! `fsck` finds what was planted in the tree of messages, puts it right, and leaves what was recorded alone.

use std::path::Path;

use ropewalk_store::log::{RecordKind, RecordRow};
use ropewalk_store::sqlite;
use ropewalk_testkit::postgres::{PrivatePostgres, database_of};
use serde_json::Value;

use crate::claude_log::{Log, text, working};
use crate::store::TestStore;
use crate::{stderr, stdout};

/// Either engine, with one log in it, and a way behind its back.
struct Planted {
    store: TestStore,
    /// PostgreSQL instead of the folder.
    url: Option<String>,
}

impl Planted {
    fn new(log: &Log, is_postgres: bool) -> Self {
        let planted = Planted {
            store: TestStore::new(),
            url: is_postgres.then(|| PrivatePostgres::shared().unwrap().fresh_database().unwrap()),
        };
        let path = log.write(&planted.store);
        planted.ok(&["import", path.to_str().unwrap()]);
        planted
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut all: Vec<&str> = Vec::new();
        if let Some(url) = &self.url {
            all.extend(["--store", url]);
        }
        all.extend(arguments);
        self.store.run(&all)
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        stdout(&output)
    }

    /// Findings by rule and severity, with their counts.
    fn found(&self, arguments: &[&str]) -> Vec<(String, String, u64)> {
        let mut all = vec!["--json", "fsck"];
        all.extend(arguments);
        let output = self.run(&all);
        let lines = stdout(&output);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let findings: Vec<_> = lines
            .filter(|line| line.get("rule").is_some())
            .map(|line| {
                let text = |name: &str| line[name].as_str().unwrap().to_owned();
                (text("rule"), text("severity"), line["count"].as_u64().unwrap_or(1))
            })
            .collect();
        let has_errors = findings.iter().any(|(_, severity, _)| severity == "error");
        assert_eq!(output.status.code(), Some(i32::from(has_errors)), "{findings:?}");
        findings
    }

    fn sql(&self, statements: &str) -> String {
        match &self.url {
            Some(url) => {
                let server = PrivatePostgres::shared().unwrap();
                server.run_sql(database_of(url), statements).unwrap()
            }
            None => {
                let path = self.store.data().join(sqlite::FILE_NAME);
                let connection = rusqlite::Connection::open(path).unwrap();
                if statements.starts_with("SELECT") {
                    let mut statement = connection.prepare(statements).unwrap();
                    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
                    return rows.map(Result::unwrap).collect::<Vec<_>>().join("\n");
                }
                connection.execute_batch(statements).unwrap();
                String::new()
            }
        }
    }

    /// All records, as they are stored.
    fn records(&self) -> Vec<RecordRow> {
        let hex = if self.url.is_some() {
            "encode(record, 'hex')"
        } else {
            "hex(record)"
        };
        let select = format!("SELECT session || ' ' || uuid || ' ' || {hex} FROM record ORDER BY session, uuid");
        let rows = self.sql(&select);
        let rows = rows.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            let mut words = line.trim().split(' ');
            let (session, uuid) = (words.next().unwrap(), words.next().unwrap());
            let bytes = unhex(words.next().unwrap());
            RecordRow::from_bytes(session.to_owned(), uuid.to_owned(), &bytes).unwrap()
        });
        rows.collect()
    }

    fn change(&self, uuid: &str, change: impl FnOnce(&mut RecordRow)) {
        let mut row = self.records().into_iter().find(|row| row.uuid == uuid).unwrap();
        change(&mut row);
        let hex: String = row.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = if self.url.is_some() {
            format!("'\\x{hex}'")
        } else {
            format!("x'{hex}'")
        };
        self.sql(&format!("UPDATE record SET record = {bytes} WHERE uuid = '{uuid}'"));
    }

    fn delete(&self, uuid: &str) {
        self.sql(&format!("DELETE FROM record WHERE uuid = '{uuid}'"));
    }

    /// What was recorded: everything but records.
    fn exported(&self) -> String {
        self.ok(&["export"])
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Plants a fault in both engines, with and without the log still there; the repair must give what the import gave.
fn check(plant: impl Fn(&Planted), rule: &str, severity: &str) {
    for is_postgres in [false, true] {
        for has_log in [true, false] {
            check_one(&plant, rule, severity, is_postgres, has_log, true);
        }
    }
}

fn check_one(
    plant: &impl Fn(&Planted),
    rule: &str,
    severity: &str,
    is_postgres: bool,
    has_log: bool,
    is_restored: bool,
) {
    let case = format!("{rule}, postgres {is_postgres}, log {has_log}");
    let planted = Planted::new(&working(), is_postgres);
    let (fresh, exported) = (planted.records(), planted.exported());
    assert_eq!(planted.found(&[]), [], "{case}");
    plant(&planted);
    if !has_log {
        let log = fresh.first().map(|row| row.file.clone()).unwrap();
        std::fs::remove_file(Path::new(&log)).unwrap();
    }
    let damaged = planted.records();
    assert_ne!(damaged, fresh, "{case}");
    let found = planted.found(&[]);
    assert!(
        found.iter().any(|(name, how, _)| (&**name, &**how) == (rule, severity)),
        "{case}: {found:?}"
    );
    planted.run(&["fsck", "--repair", "--dry-run"]);
    assert_eq!(planted.records(), damaged, "{case}: a dry run changes nothing");
    let repaired = planted.run(&["fsck", "--repair"]);
    assert!(
        repaired.status.success(),
        "{case}: {}{}",
        stdout(&repaired),
        stderr(&repaired)
    );
    assert!(
        stdout(&repaired).contains("put right") || stdout(&repaired).contains("read from their logs again"),
        "{case}"
    );
    assert_eq!(planted.found(&[]), [], "{case}");
    assert_eq!(planted.exported(), exported, "{case}: what was recorded is untouched");
    if is_restored {
        assert_eq!(planted.records(), fresh, "{case}: as a fresh import");
    }
}

#[test]
fn tool_messages_that_are_not_beside_the_flow() {
    check(
        |planted| planted.change("a2_tool_0", |row| row.is_sidechain = false),
        "tool-flag",
        "error",
    );
}

#[test]
fn tool_messages_without_a_parent() {
    check(
        |planted| planted.change("a2_tool_0", |row| row.parent = None),
        "record-parent",
        "error",
    );
    check(
        |planted| planted.change("a3_result_0", |row| row.parent = None),
        "record-parent",
        "error",
    );
}

#[test]
fn calls_beside_their_assistant() {
    let beside = |planted: &Planted| planted.change("a2_tool_0", |row| row.parent = Some("u1".to_owned()));
    check(beside, "tool-use-parent", "error");
}

#[test]
fn results_that_are_not_below_their_call() {
    let wrong = |planted: &Planted| planted.change("a2_result_0", |row| row.parent = Some("a3_tool_0".to_owned()));
    check(wrong, "tool-result-parent", "error");
    let orphaned = |planted: &Planted| planted.change("a2_result_0", |row| row.parent = Some("nowhere".to_owned()));
    check(orphaned, "tool-result-parent", "error");
}

#[test]
fn calls_that_are_no_messages() {
    check(|planted| planted.delete("a3_tool_0"), "tool-children", "error");
}

#[test]
fn results_that_are_no_messages() {
    check(|planted| planted.delete("a2_result_0"), "record-alias", "error");
    check(
        |planted| planted.change("r1", |row| row.stands_for = None),
        "record-alias",
        "error",
    );
}

#[test]
fn answers_to_nothing() {
    check(
        |planted| planted.change("a4", |row| row.parent = None),
        "record-parent",
        "warning",
    );
}

#[test]
fn tool_messages_before_their_time() {
    let early = |planted: &Planted| {
        planted.change("a2_result_0", |row| {
            row.at = row.at.map(|at| ropewalk_store::Micros(at.0 - 60_000_000));
        });
    };
    check(early, "record-order", "warning");
}

/// Only the log knows what a message's parent was; without it the tree is sound again, and says that something is missing.
#[test]
fn circles_and_lost_parents() {
    let circle = |planted: &Planted| planted.change("u1", |row| row.parent = Some("a5".to_owned()));
    let orphan = |planted: &Planted| planted.change("u2", |row| row.parent = Some("nowhere".to_owned()));
    for is_postgres in [false, true] {
        check_one(&circle, "record-cycle", "error", is_postgres, true, true);
        check_one(&circle, "record-cycle", "error", is_postgres, false, false);
        check_one(&orphan, "record-orphan", "note", is_postgres, true, true);
        check_one(&orphan, "record-orphan", "note", is_postgres, false, false);
    }
}

#[test]
fn messages_before_their_time_are_read_from_the_log_again() {
    let early = |planted: &Planted| {
        planted.change("u2", |row| {
            row.at = row.at.map(|at| ropewalk_store::Micros(at.0 - 60_000_000));
        });
    };
    for is_postgres in [false, true] {
        check_one(&early, "record-order", "warning", is_postgres, true, true);
    }
}

#[test]
fn a_running_tool_and_a_known_orphan_are_no_errors() {
    let mut log = working();
    log.lines.truncate(4);
    log.user("u9", Some("before-the-log"), "And this?");
    log.answer("a9", Some("u9"), "msg_9", &[text("That.")]);
    let planted = Planted::new(&log, false);
    let expected = [("record-orphan", 1), ("tool-pair", 2)];
    let found = planted.found(&[]);
    let found: Vec<(&str, u64)> = found.iter().map(|(rule, _, count)| (&**rule, *count)).collect();
    assert_eq!(found, expected);
    let records = planted.records();
    let output = planted.ok(&["fsck", "--repair"]);
    assert!(
        output.contains("note: 1 messages whose parent is not recorded"),
        "{output}"
    );
    assert_eq!(planted.records(), records, "what the log says is not made better");
    let kinds = records.iter().filter(|row| row.kind == RecordKind::ToolUse).count();
    assert_eq!(kinds, 2);
}

#[test]
fn findings_are_counted_with_examples() {
    let planted = Planted::new(&working(), false);
    for uuid in ["a2_tool_0", "a2_result_0", "a3_tool_0", "a3_result_0"] {
        planted.change(uuid, |row| row.is_sidechain = false);
    }
    let output = planted.run(&["fsck"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(stdout(&output), @r"
    error: 4 tool messages that are not marked as a sidechain (tool-flag)
      working/a2_result_0: a tool message outside the sidechain
      working/a2_tool_0: a tool message outside the sidechain
      working/a3_result_0: a tool message outside the sidechain
    ");
    assert!(stderr(&output).contains("4 errors"));
    assert!(stderr(&output).contains("--repair"));
}

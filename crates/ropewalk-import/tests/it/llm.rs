use ropewalk_core::cost::BundledPrices;
use ropewalk_core::prompt_path::{Attachment, attachment_hash};
use ropewalk_engine::prepare;
use ropewalk_import::Format;
use ropewalk_store::Micros;
use ropewalk_store::facts::HashKind;
use ropewalk_testkit::captures::workspace_root;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Collected, Folder, read};

fn older() -> Collected {
    let folder = Folder::new();
    read(Format::Llm, &folder.database("llm-before-0.32.sql"))
}

fn newer() -> Collected {
    let folder = Folder::new();
    read(Format::Llm, &folder.database("llm-0.32.sql"))
}

fn ids(found: &Collected) -> Vec<&str> {
    found.exchanges.iter().map(|raw| &*raw.id).collect()
}

#[test]
fn older_rows_have_the_history_of_their_conversation() {
    let found = older();
    assert_eq!(ids(&found), ["old-5", "old-3", "old-1", "old-2"]);
    assert_eq!(
        found.problems,
        [(4, "row 4, call `old-4`: `datetime_utc` is no time".to_owned())]
    );
    let (request, response) = found.exchange("old-2");
    assert_eq!(
        request["messages"],
        json!([
            {"role": "system", "content": "You are a skipper."},
            {"role": "user", "content": "Will it blow at Skagen?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "forecast", "arguments": "{\"place\": \"Skagen\"}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "name": "forecast", "content": "W 7"},
        ])
    );
    assert_eq!(request["tools"][0]["function"]["name"], "forecast");
    assert_eq!(response["choices"][0]["message"]["content"], "Force 7 from the west.");
    let (first, answer) = found.exchange("old-1");
    assert_eq!((&first["temperature"], &first["max_tokens"]), (&json!(0), &json!(50)));
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    assert_eq!(found.titles.len(), 2);
}

#[test]
fn files_and_fragments_are_part_of_the_prompt() {
    let (request, response) = older().exchange("old-3");
    let image = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw=="});
    assert_eq!(
        request["messages"][0]["content"],
        json!([
            {"type": "image", "source": image},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/sail.jpg"}},
            {"type": "document", "source": {"type": "file", "file_id": "charts/sail.pdf"}},
            {"type": "text", "text": "A page about sails.\nWhich cloth is this?"},
        ])
    );
    assert_eq!(response.get("usage"), None, "nobody counted");
}

#[test]
fn the_path_of_prompts_is_that_of_the_seed() {
    // The parts of a step as the seed joins them, by its own words.
    let hex = |text: &[u8]| {
        ropewalk_core::hash::sha256(text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let mut files = [
        attachment_hash(Attachment::Content(b"\x89PNG")),
        attachment_hash(Attachment::Url("https://example.org/sail.jpg")),
        attachment_hash(Attachment::Path("charts/sail.pdf")),
    ];
    files.sort();
    let prompt = hex("A page about sails.\nWhich cloth is this?".as_bytes());
    let expected = hex(format!("prompt:{prompt}|attachments:{}", files.join(",")).as_bytes());
    let found = older();
    let raw = found.exchanges.iter().find(|raw| raw.id == "old-3").unwrap();
    let exchange = prepare(raw, None, &BundledPrices).exchange;
    let (_, hash) = exchange
        .hashes
        .iter()
        .find(|(kind, _)| *kind == HashKind::Prompt)
        .unwrap();
    assert_eq!(
        hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        expected
    );
}

#[test]
fn newer_turns_follow_their_messages() {
    let found = newer();
    assert_eq!(
        ids(&found),
        ["turn-1", "turn-2", "turn-3", "turn-4"],
        "a call in both tables is told once"
    );
    assert_eq!(
        found.problems,
        [
            (
                5,
                "row 5, call `turn-5`: its messages stand in a circle, or are too many".to_owned()
            ),
            (6, "row 6, call `turn-6`: a message of it is not there".to_owned()),
        ]
    );
    let (request, response) = found.exchange("turn-2");
    assert_eq!(
        (&request["system"], &request["model"]),
        (&json!("You read charts."), &json!("claude-sonnet-4-5"))
    );
    assert_eq!(
        request["messages"][0]["content"][0]["text"],
        "CHART 12\nHow deep is it here?"
    );
    assert_eq!(request["messages"][0]["content"][1]["source"]["data"], "iVBORw==");
    assert_eq!(request["messages"][2]["content"][0]["tool_use_id"], "toolu_depth");
    assert_eq!(
        (&response["id"], &response["stop_reason"]),
        (&json!("msg_turn2"), &json!("end_turn"))
    );
    assert_eq!(
        response["usage"],
        json!({"input_tokens": 70, "output_tokens": 5, "cache_read_input_tokens": 40})
    );
    let answer = found.exchange("turn-1").1["content"].clone();
    assert_eq!(
        answer[1],
        json!({"type": "tool_use", "id": "toolu_depth", "name": "depth", "input": {"at": "here"}})
    );
    let raw = &found.exchanges[0];
    assert_eq!(raw.ended_at, Some(Micros(raw.at.0 + 800_000)));
}

#[test]
fn nothing_in_a_database_is_run_and_nothing_is_written() {
    let folder = Folder::new();
    let path = folder.database("llm-before-0.32.sql");
    let connection = Connection::open(&path).unwrap();
    // A view in the place of a table, which would run for ever.
    connection
        .execute_batch(
            "DROP TABLE tool_calls;
             CREATE VIEW tool_calls AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)
             SELECT id, 'old-1' AS response_id, 'x' AS name, '{}' AS arguments, NULL AS tool_call_id FROM n;",
        )
        .unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let found = read(Format::Llm, &path);
    assert_eq!(ids(&found).len(), 4);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!folder.path("logs.db-journal").exists());
}

#[test]
fn changes_in_the_log_beside_it_are_read() {
    let folder = Folder::new();
    let path = folder.database("llm-before-0.32.sql");
    let writer = Connection::open(&path).unwrap();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    writer
        .execute(
            "INSERT INTO responses (id, model, prompt, response, datetime_utc) VALUES ('late', 'm', 'a', 'b', '2025-06-09T00:00:00Z')",
            [],
        )
        .unwrap();
    let found = read(Format::Llm, &path);
    assert!(ids(&found).contains(&"late"));
}

#[test]
fn a_database_that_nobody_may_write_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.database("llm-before-0.32.sql");
    let writer = Connection::open(&path).unwrap();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    drop(writer);
    let place = path.parent().unwrap();
    std::fs::set_permissions(place, PermissionsExt::from_mode(0o500)).unwrap();
    let found = read(Format::Llm, &path);
    std::fs::set_permissions(place, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(ids(&found).len(), 4);
}

#[test]
fn rows_that_are_too_large_cost_themselves_only() {
    let folder = Folder::new();
    let path = folder.database("llm-before-0.32.sql");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("UPDATE responses SET response = zeroblob(70000000) WHERE id = 'old-3'")
        .unwrap();
    drop(connection);
    let found = read(Format::Llm, &path);
    assert_eq!(ids(&found), ["old-5", "old-1", "old-2"]);
    assert!(
        found
            .problems
            .iter()
            .any(|(row, problem)| *row == 3 && problem.contains("is the most")),
        "{:?}",
        found.problems
    );
}

#[test]
fn wrong_types_and_broken_files_are_told() {
    let folder = Folder::new();
    let path = folder.database("llm-before-0.32.sql");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "UPDATE responses SET model = x'ff', prompt = 7, response = 1.5, options_json = '[1', token_details = '{', duration_ms = 'long',
             input_tokens = -3, response_json = '[]', schema_id = 9 WHERE id = 'old-1';
             UPDATE tool_calls SET arguments = 'no json', name = NULL;",
        )
        .unwrap();
    drop(connection);
    assert_eq!(ids(&read(Format::Llm, &path)).len(), 4);
    let bytes = std::fs::read(&path).unwrap();
    let cut = read(Format::Llm, &folder.file("cut.db", &bytes[..bytes.len() / 3]));
    assert!(!cut.problems.is_empty());
    let other = folder.path("other.db");
    Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    assert_eq!(
        read(Format::Llm, &other).problems,
        [(0, "a database, but none of llm's".to_owned())]
    );
}

#[test]
fn a_real_database_has_the_conversations_that_were_held() {
    let path = workspace_root().join("../shared/logs/llm-logs.db");
    if !path.exists() {
        eprintln!("skipped: ../shared/logs is not there");
        return;
    }
    let found = read(Format::Llm, &path);
    assert_eq!(found.problems, []);
    assert_eq!((found.exchanges.len(), found.titles.len()), (7, 3));
}

//! Exports that are read elsewhere.

use std::io::Read as _;

use age::x25519::Identity;
use serde_json::{Value, json};

use crate::claude_log::{Log, call, imported, text, working};
use crate::stderr;
use crate::store::{TestStore, talk};

fn tip(store: &TestStore) -> String {
    store.json(&["log"])[0]["conversation_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_file_imports_to_the_same_conversation_and_counts_nothing_twice() {
    for store in [imported(&working()), TestStore::with(&talk()[..3])] {
        let before = store.json(&["log"]);
        let exchanges = store.json(&["log", "--exchanges"]);
        let file = store.ok(&["export", "--format", "claude-code", &tip(&store)]);
        assert_eq!(
            file,
            store.ok(&["export", "--format", "claude-code", &tip(&store)]),
            "deterministic"
        );
        let lines: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let session = lines[0]["sessionId"].as_str().unwrap();
        for (index, line) in lines.iter().enumerate() {
            let parent = index
                .checked_sub(1)
                .map_or(Value::Null, |before| lines[before]["uuid"].clone());
            assert_eq!(line["parentUuid"], parent);
            assert_eq!(line["sessionId"], session);
            for key in ["uuid", "timestamp", "version", "cwd", "type", "message"] {
                assert!(!line[key].is_null(), "{key}");
            }
        }
        let path = store.file(&format!("{session}.jsonl"), &file);
        store.ok(&["import", path.to_str().unwrap()]);
        let after = store.json(&["log"]);
        assert_eq!(after.len(), before.len());
        for key in ["conversation_id", "exchanges", "turns", "tokens", "cost_usd"] {
            assert_eq!(after[0][key], before[0][key], "{key}");
        }
        let ids = |rows: &[Value]| -> Vec<Value> { rows.iter().map(|row| row["output_node"].clone()).collect() };
        assert_eq!(ids(&store.json(&["log", "--exchanges"])), ids(&exchanges));
        let elsewhere = TestStore::new();
        let path = elsewhere.file(&format!("{session}.jsonl"), &file);
        elsewhere.ok(&["import", path.to_str().unwrap()]);
        let nodes = ids(&elsewhere.json(&["log", "--exchanges"]));
        assert!(
            nodes.iter().all(|node| ids(&exchanges).contains(node)),
            "the same nodes"
        );
    }
}

fn hostile() -> TestStore {
    let mut log = Log::new("hostile");
    let key = ["sk-ant-api03-", &"A1b2C3d4".repeat(12), "AA"].concat();
    let bad = format!("<script>alert(1)</script> \u{202e}olleh \u{1b}[31m ``` {key}");
    log.user("u1", None, &bad);
    let run = call(
        "toolu_1",
        "Bash</summary>",
        &json!({"command": "<img src=x onerror=alert(1)>"}),
    );
    log.answer(
        "a1",
        Some("u1"),
        "msg_1",
        &[
            json!({"type": "thinking", "thinking": "</pre><b>", "signature": "s"}),
            run,
        ],
    );
    log.result("r1", "a1", "toolu_1", "</details><script>");
    log.answer("a2", Some("r1"), "msg_2", &[text("& \"done\"")]);
    imported(&log)
}

#[test]
fn a_page_is_one_file_without_script_and_everything_in_it_is_text() {
    let store = hostile();
    let page = store.ok(&["export", "--format", "html", &tip(&store)]);
    assert!(page.starts_with("<!doctype html>"));
    for absent in [
        "<script",
        "<img",
        "<b>",
        "http://",
        "https://",
        "\u{202e}",
        "\u{1b}",
        "sk-ant-api03",
        " onerror=alert(1)>",
    ] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }
    for present in [
        "&lt;script&gt;alert(1)&lt;/script&gt; \\u{202e}olleh \\u{1b}[31m",
        "<details><summary>Thinking</summary><pre>&lt;/pre&gt;&lt;b&gt;</pre></details>",
        "<summary>Tool: Bash&lt;/summary&gt;</summary>",
        "&amp; &quot;done&quot;",
        "prefers-color-scheme:dark",
        "default-src 'none'",
    ] {
        assert!(page.contains(present), "{present}: {page}");
    }
}

#[test]
fn markdown_has_what_was_said_and_no_markup_of_its_own() {
    let store = hostile();
    let page = store.ok(&["export", "--format", "markdown", &tip(&store)]);
    for absent in ["<script>alert", "\u{202e}", "\u{1b}", "sk-ant-api03"] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }
    assert!(
        page.contains("&lt;script>alert(1)&lt;/script> \\u{202e}olleh"),
        "{page}"
    );
    assert!(page.contains("\n## Assistant\n"), "{page}");
    assert!(
        page.contains("<details><summary>Result</summary>\n\n```\n</details><script>\n```\n</details>"),
        "{page}"
    );
}

#[test]
fn a_format_for_reading_needs_one_path() {
    let store = imported(&working());
    let failed = store.run(&["export", "--format", "html"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains("one path"));
}

#[test]
fn an_encrypted_export_is_for_its_recipients() {
    let store = TestStore::with(&talk());
    let (ann, bob, eve) = (Identity::generate(), Identity::generate(), Identity::generate());
    let recipients = [&ann, &bob].map(|identity| identity.to_public().to_string());
    let opened = |sealed: &[u8], identity: &Identity| -> Option<String> {
        let decryptor = age::Decryptor::new(sealed).ok()?;
        let mut text = String::new();
        let mut reader = decryptor
            .decrypt(std::iter::once(identity as &dyn age::Identity))
            .ok()?;
        reader.read_to_string(&mut text).ok()?;
        Some(text)
    };
    for format in ["exchanges", "markdown"] {
        let tip = tip(&store);
        let mut arguments = vec!["export", "--format", format, &tip];
        let plain = store.ok(&arguments);
        for recipient in &recipients {
            arguments.extend(["--age", recipient]);
        }
        let sealed = store.run(&arguments).stdout;
        assert!(
            !sealed.windows(4).any(|window| window == b"walk"),
            "it cannot be read as it is"
        );
        assert_eq!(opened(&sealed, &ann).as_deref(), Some(&*plain));
        assert_eq!(opened(&sealed, &bob).as_deref(), Some(&*plain));
        assert_eq!(opened(&sealed, &eve), None);
        assert_eq!(
            opened(&sealed[..sealed.len() - 1], &ann),
            None,
            "what was cut off is not whole"
        );
    }
    let refused = store.run(&["export", "--age", "age1nobody"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(refused.stdout.is_empty());
}

//! A check finds what was planted, and a damaged body is never given out.

use ropewalk_store::store::{Depth, Half, Severity};
use ropewalk_store::{Store, StoreError};

use super::{Fresh, fresh};
use crate::turn::turn;

/// A store with a conversation long enough to have chunks.
async fn sound() -> Fresh {
    let fresh = fresh().await;
    let texts: Vec<String> = (0..80)
        .map(|number| format!("message {number} {}", "and more ".repeat(10)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    fresh
        .record(&[
            turn("short", 1, &["hello"], Some("hi")),
            turn("long", 2, &texts, Some("bye")),
        ])
        .await;
    for depth in [Depth::Structure, Depth::Data] {
        assert_eq!(fresh.store.check(fresh.owner, depth).await.unwrap(), []);
    }
    fresh
}

async fn check_finds(planted: &str, depth: Depth, rule: &str, severity: Severity) {
    let fresh = sound().await;
    fresh.sql(planted);
    let findings = fresh.store.check(fresh.owner, depth).await.unwrap();
    let found = findings
        .iter()
        .any(|finding| (finding.rule, finding.severity) == (rule, severity));
    assert!(found, "{planted}: {findings:?}");
}

#[tokio::test]
async fn finds_references_that_lead_nowhere() {
    let structure = Depth::Structure;
    let not_leaf = "hash NOT IN (SELECT input_node FROM exchange) AND depth = 5";
    check_finds(
        &format!("DELETE FROM node WHERE {not_leaf}"),
        structure,
        "node-parent",
        Severity::Error,
    )
    .await;
    check_finds(
        &format!("UPDATE node SET depth = 50 WHERE {not_leaf}"),
        structure,
        "node-depth",
        Severity::Error,
    )
    .await;
    let cycle = "UPDATE node SET parent = (SELECT hash FROM node WHERE depth = 9) WHERE depth = 5";
    check_finds(cycle, structure, "node-depth", Severity::Error).await;
    let value = "UPDATE node SET value = sha256(value) WHERE depth = 5";
    check_finds(value, structure, "node-hash", Severity::Error).await;
    let input = "UPDATE exchange SET input_node = sha256('x') WHERE id = 'long'";
    check_finds(input, structure, "exchange-node", Severity::Error).await;
    let chunk = "DELETE FROM chunk WHERE number = (SELECT max(number) FROM chunk)";
    check_finds(chunk, structure, "body", Severity::Error).await;
    check_finds("DELETE FROM part WHERE length > 50", structure, "body", Severity::Error).await;
    let key = "INSERT INTO exchange_key SELECT owner_id, 0, sha256('x'), 1, 99999 FROM owner";
    check_finds(key, structure, "key-exchange", Severity::Warning).await;
    check_finds(
        "UPDATE owner SET parts = parts + 1",
        structure,
        "totals",
        Severity::Warning,
    )
    .await;
    let unused = "INSERT INTO part SELECT owner_id, 99999, sha256('x'), 1, 0, 'x' FROM owner";
    check_finds(unused, structure, "part-unused", Severity::Note).await;
}

#[tokio::test]
async fn finds_bytes_that_changed() {
    let flip = "UPDATE part SET bytes = set_byte(bytes, 0, get_byte(bytes, 0) # 1) WHERE length = 5";
    check_finds(flip, Depth::Data, "part-hash", Severity::Error).await;
    check_finds(flip, Depth::Data, "body", Severity::Error).await;
    check_finds(
        "UPDATE part SET codec = 1 WHERE length = 5",
        Depth::Data,
        "part-hash",
        Severity::Error,
    )
    .await;
    let hash = "UPDATE exchange SET request_sha256 = sha256('x') WHERE id = 'short'";
    check_finds(hash, Depth::Data, "body", Severity::Error).await;
    let root = "UPDATE exchange SET request_root = '\\xffffffffffffffffffffffff' WHERE id = 'short'";
    check_finds(root, Depth::Structure, "body", Severity::Error).await;
}

#[tokio::test]
async fn a_damaged_body_is_an_error_and_the_rest_stays_readable() {
    let fresh = sound().await;
    let number = fresh.row("short", ropewalk_store::Micros::MAX).await.number;
    fresh.sql("UPDATE part SET bytes = 'jello' WHERE length = 5");
    let read = fresh.store.body(fresh.owner, number, Half::Request).await;
    assert!(matches!(read, Err(StoreError::Damaged(_))));
    assert!(
        fresh
            .store
            .body(fresh.owner, number, Half::Response)
            .await
            .unwrap()
            .is_some()
    );
}

//! Figures, checks, and that storage grows with what is new.

use std::sync::Arc;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::prepare;
use ropewalk_store::Store;
use ropewalk_store::store::{Depth, Severity};

use super::cases::{
    Case, after_turns, answer_bytes, bytes_case, conversation, fresh_owner, index_all, record, record_one,
    request_bytes, turn,
};
use crate::conversation::Random;

/// Messages of the long conversation.
const MESSAGES: usize = 2_000;

/// How much more than the unique content may be stored. A store that counts its recipes as parts needs some of it.
const NEAR: u64 = 3;

pub async fn figures_add_up<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases = conversation(41, 12);
    record(&*store, owner, &cases).await;
    let stats = store.stats(owner).await.expect("figures");
    let length =
        |case: &Case| case.raw.request_body.len() + case.raw.response_body.as_ref().map_or(0, |body| body.len());
    assert_eq!(stats.exchanges, cases.len() as u64);
    assert_eq!(stats.bytes_in, cases.iter().map(length).sum::<usize>() as u64);
    assert!(stats.parts > 0 && stats.nodes > 0 && stats.stored_bytes > 0);
    assert!(
        stats.part_bytes * 3 < stats.bytes_in,
        "history is repeated in every turn: {stats:?}"
    );
    assert_eq!(stats.conflicts, 0);
}

pub async fn a_healthy_store_has_no_findings<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    for depth in [Depth::Structure, Depth::Data] {
        let findings = store.check(owner, depth).await.expect("a store can be checked");
        assert!(
            findings.iter().all(|finding| finding.severity == Severity::Note),
            "empty: {findings:?}"
        );
    }
    let cases = conversation(42, 8);
    record(&*store, owner, &cases).await;
    record_one(&*store, owner, &cases[7].begun()).await;
    record_one(&*store, owner, &turn("pending", after_turns(20), &["hello"], None)).await;
    record_one(&*store, owner, &turn("pending", after_turns(20), &["other"], None)).await;
    record_one(
        &*store,
        owner,
        &bytes_case("opaque", after_turns(21), b"\xff", Some(b"")),
    )
    .await;
    index_all(&*store).await;
    for depth in [Depth::Structure, Depth::Data] {
        let findings = store.check(owner, depth).await.expect("a store can be checked");
        assert!(
            findings.iter().all(|finding| finding.severity == Severity::Note),
            "{findings:?}"
        );
    }
}

pub async fn two_thousand_messages_are_kept_once<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut random = Random(43);
    let texts: Vec<String> = (0..MESSAGES).map(|_| random.prose(90)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let whole = request_bytes(&texts);
    let ends = message_ends(&whole);
    let (mut memo, mut answers, mut numbers) = (None, 0, Vec::new());
    for turn in 0..MESSAGES / 2 {
        let id = format!("long-{turn}");
        let answer = answer_bytes(&id, texts[2 * turn + 1]);
        let raw = {
            let mut raw = bytes_case(&id, after_turns(turn as i64), b"", Some(&answer)).raw;
            raw.request_body = beginning(&whole, &ends, 2 * turn);
            raw
        };
        answers += answer.len() as u64;
        let prepared = prepare(&raw, memo.as_ref(), &BundledPrices);
        numbers.extend(
            store
                .record(owner, vec![prepared.exchange])
                .await
                .expect("a turn is recorded"),
        );
        memo = prepared.memo;
    }
    let unique = whole.len() as u64 + answers;
    let stats = store.stats(owner).await.expect("figures");
    assert_eq!((stats.exchanges, numbers.len()), (MESSAGES as u64 / 2, MESSAGES / 2));
    assert!(stats.part_bytes <= NEAR * unique, "{stats:?}, {unique} are unique");
    assert!(stats.stored_bytes <= NEAR * unique, "{stats:?}, {unique} are unique");
    assert!(stats.bytes_in > 100 * unique, "the history was repeated: {stats:?}");
    let (start, blocks) = (1, MESSAGES as u64);
    assert!((blocks..=blocks + start).contains(&stats.nodes), "{stats:?}");
}

/// Where each message of a request ends. The texts hold no braces of their own.
fn message_ends(request: &[u8]) -> Vec<usize> {
    let windows = request.windows(3).enumerate();
    let closing = windows.filter(|(_, bytes)| *bytes == b"\"}," || *bytes == b"\"}]");
    closing.map(|(at, _)| at + 2).collect()
}

/// The request up to a message: writing all of them anew would take longer than storing them.
fn beginning(whole: &[u8], ends: &[usize], message: usize) -> bytes::Bytes {
    [&whole[..ends[message]], b"]}"].concat().into()
}

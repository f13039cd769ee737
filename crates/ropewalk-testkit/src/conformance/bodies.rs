//! What was on the wire comes back, byte for byte.

use std::sync::Arc;

use ropewalk_core::cost::BundledPrices;
use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::part::Part;
use ropewalk_engine::prepare;
use ropewalk_store::Store;
use ropewalk_store::facts::{Body, ExchangeNumber};
use ropewalk_store::store::{Half, Outcome};

use super::cases::{after_turns, assert_bytes, bytes_case, conversation, fresh_owner, record, record_one};
use crate::conversation::Random;

/// Turns of the generated conversation.
const TURNS: usize = 30;

pub async fn a_conversation_comes_back_byte_for_byte<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases = conversation(11, TURNS);
    for group in cases.chunks(7) {
        for (case, recorded) in group.iter().zip(record(&*store, owner, group).await) {
            assert_eq!(recorded.outcome, Outcome::New);
            assert_bytes(&*store, owner, recorded.number, &case.raw).await;
        }
    }
}

pub async fn the_end_of_a_body_is_read_as_it_stands_in_the_whole<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let cases = conversation(12, TURNS);
    for (case, recorded) in cases.iter().zip(record(&*store, owner, &cases).await) {
        let number = recorded.number;
        let nodes = store
            .chain(owner, number, usize::MAX)
            .await
            .expect("a chain can be asked for");
        for count in [0, 1, 3, nodes.len(), nodes.len() + 1] {
            let end = store.chain_end(owner, number, count).await.expect("its end as well");
            assert_eq!(end, nodes[nodes.len().saturating_sub(count)..]);
        }
        let bodies = [
            (Half::Request, Some(&case.raw.request_body)),
            (Half::Response, case.raw.response_body.as_ref()),
        ];
        for (half, body) in bodies {
            for length in [0, 1, 500, 20_000, usize::MAX] {
                let end = store
                    .body_end(owner, number, half, length)
                    .await
                    .expect("a body's end can be asked for");
                let (Some(end), Some(body)) = (end, body) else {
                    assert_eq!(body, None);
                    continue;
                };
                assert!(end.bytes.len() >= length.min(body.len()));
                assert!(body.ends_with(&end.bytes));
                assert!(!end.is_whole || end.bytes[..] == body[..]);
                assert!(end.is_whole || end.bytes.len() < body.len());
            }
        }
        let elsewhere = store.body_end(other, number, Half::Request, 9).await;
        assert_eq!(elsewhere.expect("others may ask"), None, "a body is its owner's");
    }
}

pub async fn bodies_that_are_asked_for_together_are_those_of_each<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let cases = conversation(14, TURNS);
    let recorded = record(&*store, owner, &cases).await;
    // Turns share nearly everything; backwards and twice, so that none can count on the one before it.
    let mut asked: Vec<usize> = (0..cases.len()).rev().chain(0..cases.len()).collect();
    asked.push(0);
    let numbers: Vec<ExchangeNumber> = asked.iter().map(|at| recorded[*at].number).collect();
    for half in [Half::Request, Half::Response, Half::Sent] {
        let bodies = store.bodies(owner, numbers.clone(), half).await;
        let expected: Vec<Option<Vec<u8>>> = asked
            .iter()
            .map(|at| match half {
                Half::Request => Some(cases[*at].raw.request_body.to_vec()),
                Half::Response => cases[*at].raw.response_body.as_ref().map(|body| body.to_vec()),
                Half::Sent => None,
            })
            .collect();
        assert!(bodies.expect("bodies can be asked for") == expected, "{half:?}");
        let elsewhere = store.bodies(other, numbers.clone(), half).await;
        let elsewhere = elsewhere.expect("others may ask");
        assert!(elsewhere.iter().all(Option::is_none), "a body is its owner's");
    }
}

pub async fn a_part_is_found_by_its_name<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let cases = conversation(13, 3);
    record(&*store, owner, &cases).await;
    let parts: Vec<Part> = cases
        .iter()
        .flat_map(|case| case.new.request.recipe.parts().cloned())
        .collect();
    assert!(parts.len() > 3);
    for part in &parts {
        let found = store.part(owner, part.hash).await.expect("a part can be asked for");
        assert_eq!(found.as_deref(), Some(part.as_bytes()));
        let elsewhere = store.part(other, part.hash).await.expect("a part can be asked for");
        assert_eq!(elsewhere, None, "a part is its owner's");
    }
    let unknown = PartHash(sha256(b"never said"));
    assert_eq!(store.part(owner, unknown).await.expect("a part can be asked for"), None);
}

pub async fn odd_bodies_come_back_byte_for_byte<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut random = Random(5);
    let noise: Vec<u8> = (0..1 << 20).map(|_| random.next_u64() as u8).collect();
    let deep = [b"[".repeat(10_000), b"]".repeat(10_000)].concat();
    let deep_member = [&b"{\"messages\":"[..], &deep, b"}"].concat();
    let bodies: [&[u8]; 9] = [
        b"",
        b" ",
        b"{}",
        b"\xff\xfe\x00\x80",
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
        b"data: 1\n\ndata: \r\n\r\n",
        &noise,
        &deep,
        &deep_member,
    ];
    for (number, body) in bodies.iter().enumerate() {
        for (suffix, response) in [("none", None), ("same", Some(*body)), ("empty", Some(&b""[..]))] {
            let id = format!("odd-{number}-{suffix}");
            let case = bytes_case(&id, after_turns(number as i64), body, response);
            let recorded = record_one(&*store, owner, &case).await;
            assert_bytes(&*store, owner, recorded.number, &case.raw).await;
        }
    }
}

pub async fn a_memo_of_the_turn_before_saves_parts_and_changes_no_byte<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let count = |body: &Body| body.recipe.parts().count();
    let (mut memo, mut all, mut sent) = (None, 0, 0);
    for case in conversation(12, TURNS) {
        let prepared = prepare(&case.raw, memo.as_ref(), &BundledPrices);
        all += count(&case.new.request);
        sent += count(&prepared.exchange.request);
        let recorded = store
            .record(owner, vec![prepared.exchange])
            .await
            .expect("the turn before is stored");
        assert_bytes(&*store, owner, recorded[0].number, &case.raw).await;
        memo = prepared.memo;
    }
    assert!(sent * 3 < all, "{sent} of {all} parts were handed in");
}

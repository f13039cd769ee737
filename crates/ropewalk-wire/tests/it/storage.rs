//! What a long conversation costs to keep.

use bytes::Bytes;
use ropewalk_core::model::Provider;
use ropewalk_testkit::conversation::Conversation;
use ropewalk_testkit::part_store::PartStore;
use ropewalk_wire::{Memo, read_request, split_response};

/// Recipes and framing may take a tenth of what was said.
const OVERHEAD_MAX: f64 = 1.1;

fn keep(mut conversation: Conversation, turns: usize) -> (f64, usize) {
    let mut store = PartStore::default();
    let mut memo: Option<Memo> = None;
    let (mut sent, mut last) = (0, 0);
    for number in 0..turns {
        let turn = conversation.next_turn();
        sent += turn.request.len() + turn.response.len();
        last = turn.request.len();
        let body = Bytes::from(turn.request);
        let read = read_request(Provider::Anthropic, &body, memo.as_ref()).unwrap();
        let rope = store
            .store(read.split.parts(), read.split.pieces(), read.split.layout())
            .unwrap();
        let answer = split_response(&turn.response);
        let answer_rope = store.store(answer.parts(), answer.pieces(), answer.layout()).unwrap();
        if number % 50 == 0 || number + 1 == turns {
            assert!(store.load(&rope).unwrap() == body);
            assert!(store.load(&answer_rope).unwrap() == turn.response);
        }
        memo = Some(read.into_memo());
    }
    let (parts, chunks, roots) = store.bytes();
    let unique = conversation.unique_bytes();
    let ratio = (parts + chunks + roots) as f64 / unique as f64;
    println!(
        "{turns} turns, last request {last} bytes, {sent} bytes sent, {unique} unique: {parts} in parts, {chunks} in recipe chunks, {roots} in recipe roots = {ratio:.3} ×"
    );
    (ratio, last)
}

#[test]
fn three_hundred_turns_cost_little_more_than_what_they_say() {
    let (ratio, last) = keep(Conversation::new(1, 3_300), 300);
    assert!(last > 1_000_000, "the history should grow to 1 MB, not {last}");
    assert!(ratio <= OVERHEAD_MAX, "{ratio}");
    let (ratio, _) = keep(Conversation::new(2, 3_300).plain_every(2), 300);
    assert!(ratio <= OVERHEAD_MAX, "{ratio}");
}

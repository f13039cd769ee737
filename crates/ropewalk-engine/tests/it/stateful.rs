//! Calls that name what they go on from, and do not repeat it: OpenAI's Responses.

use bytes::Bytes;
use ropewalk_engine::RawExchange;
use serde_json::{Value, json};

use crate::hard_cases::are_together;
use crate::linking::placed_one_by_one;
use crate::said::{answer, said};

fn asked(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn item(id: &str) -> Value {
    json!({"type": "item_reference", "id": id})
}

/// A call with the answer `resp_{id}`, whose only message is `msg_{id}`; it may go on from another answer.
fn stateful(id: &str, at: f64, previous: Option<&str>, input: &[Value]) -> RawExchange {
    let mut request = json!({"model": "gpt-5", "instructions": "You help.", "input": input});
    if let Some(previous) = previous {
        request["previous_response_id"] = json!(previous);
    }
    let message = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": format!("answer of {id}"), "annotations": []}]});
    let response = json!({"id": format!("resp_{id}"), "object": "response", "status": "completed", "model": "gpt-5",
        "output": [message], "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}});
    RawExchange {
        path: "/v1/responses".to_owned(),
        request_body: Bytes::from(request.to_string()),
        sent_body: None,
        names: Default::default(),
        response_body: Some(Bytes::from(response.to_string())),
        ..said(id, at, &[]).answered(&answer("")).raw()
    }
}

/// Every order in which so many may come.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(fewer) = count.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let with_last = |order: Vec<usize>| {
        (0..count).map(move |place| {
            let mut order = order.clone();
            order.insert(place, fewer);
            order
        })
    };
    orders(fewer).into_iter().flat_map(with_last).collect()
}

#[tokio::test]
async fn what_names_an_answer_goes_on_from_it_in_any_order_of_arrival() {
    let calls = [
        stateful("one", 0.0, None, &[asked("hi")]),
        stateful("two", 60.0, Some("resp_one"), &[asked("go on")]),
        stateful("three", 120.0, Some("resp_two"), &[asked("ok")]),
        stateful("other", 180.0, Some("resp_one"), &[asked("something else")]),
        // The same words behind an answer that nobody recorded.
        stateful("stranger", 240.0, Some("resp_lost"), &[asked("ok")]),
    ];
    for order in orders(calls.len()) {
        let placed = placed_one_by_one(order.iter().map(|at| &calls[*at])).await;
        are_together(&placed, &["one", "two", "three", "other"]);
        let parents = ["two", "three", "other"].map(|id| (placed[id].parent.as_deref().unwrap(), placed[id].method));
        assert_eq!(
            parents,
            [("one", "reference"), ("two", "reference"), ("one", "reference")],
            "{order:?}"
        );
        assert_eq!(
            (&*placed["three"].branch, &*placed["other"].branch),
            ("one", "other"),
            "{order:?}"
        );
        assert_eq!(placed["stranger"].conversation, "stranger", "{order:?}");
    }
}

#[tokio::test]
async fn an_item_that_was_not_recorded_leaves_the_word_to_the_one_before_it() {
    let one = stateful("one", 0.0, None, &[asked("hi")]);
    let input = [
        asked("hi"),
        item("msg_one"),
        asked("go on"),
        item("msg_lost"),
        asked("more"),
    ];
    let three = stateful("three", 60.0, None, &input);
    for order in [[&one, &three], [&three, &one]] {
        let placed = placed_one_by_one(order).await;
        are_together(&placed, &["one", "three"]);
        assert_eq!(placed["three"].method, "reference");
    }
}

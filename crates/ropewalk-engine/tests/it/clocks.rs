//! Where clocks that are seconds apart, or a gap in the recording, hide what belongs together.

use bytes::Bytes;
use ropewalk_engine::RawExchange;
use serde_json::{Value, json};

use crate::hard_cases::{are_apart, are_together, compacted, link};
use crate::linking::placed_one_by_one;
use crate::said::{answer, result, said, second, spawn, user};

#[tokio::test]
async fn a_summary_that_ends_later_by_its_own_clock_was_heard() {
    let summary = "The user wants the rope mended. ".repeat(12);
    let ask = "Your task is to create a detailed summary. Respond with text only, no tools.";
    let told = answer(&format!("<summary>{summary}</summary>"));
    let placed = link(&[
        said("one", 0.0, &[user("mend the rope")]).answered(&answer("Which one?")),
        said("ask", 5.0, &[user("mend the rope"), answer("Which one?"), user(ask)])
            .took(6.0)
            .answered(&told),
        said("go", 8.0, &[user(&compacted(summary.trim()))]).answered(&answer("Going on.")),
    ])
    .await;
    are_together(&placed, &["one", "ask", "go"]);
    assert_eq!(placed["go"].method, "summary");
}

#[tokio::test]
async fn a_retry_stays_with_its_agent_although_an_equal_call_was_just_closed() {
    let first = [user("build"), spawn("t1", "x", "look around"), result("t1", "aborted")];
    let child = |id, at| said(id, at, &[user("look around")]).kind("You look.", &["Read"]);
    let placed = link(&[
        said("top", 0.0, &[user("build")]).answered(&spawn("t1", "x", "look around")),
        said("again", 10.0, &first).answered(&spawn("t2", "x", "look around")),
        child("failed", 11.0).failed(500),
        child("retry", 12.0).answered(&answer("found")),
    ])
    .await;
    are_together(&placed, &["top", "again", "failed", "retry"]);
    assert_eq!(placed["retry"].kind, "retry");
    assert_eq!(placed["retry"].agent, "failed");
}

#[tokio::test]
async fn a_title_is_not_given_to_another_conversation_with_the_same_words() {
    let words =
        "please look into the failing build of the rope walk and tell me what to do about it, step by step, thanks";
    let title = |id, at| {
        let system = "Generate a concise, sentence-case title (3-7 words) for the session.";
        said(id, at, &[user(&format!("<session>{words}</session>"))]).kind(system, &[])
    };
    let placed = link(&[
        said("other", 0.0, &[user(words)]).answered(&answer("Looking.")),
        title("title", 60.0).answered(&answer("{\"title\": \"A build\"}")),
        said("own", 60.015, &[user(words)]).answered(&answer("I see.")),
    ])
    .await;
    are_apart(&placed, "other", "title");
}

#[tokio::test]
async fn samplings_of_one_moment_over_a_history_that_nobody_recorded_go_by_their_ids() {
    let history = [
        user(&"why is the rope so long ".repeat(20)),
        answer(&"because it was spun in a walk of a thousand feet ".repeat(4)),
        user("and then"),
    ];
    let sampled = |id, text| said(id, 0.0, &history).answered(&answer(text));
    let placed = link(&[
        sampled("middle", "Then it was laid."),
        sampled("zenith", "Then it was tarred."),
        sampled("anchor", "Then it was coiled."),
    ])
    .await;
    assert_eq!(placed["anchor"].method, "new");
}

fn stateful(id: &str, at: f64, input: &[Value]) -> RawExchange {
    let request = json!({"model": "gpt-5", "instructions": "You help.", "input": input});
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

#[tokio::test]
async fn an_item_that_was_not_recorded_leaves_the_word_to_the_one_before_it() {
    let said_by_user = |text: &str| json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
    let named = |id: &str| json!({"type": "item_reference", "id": id});
    let one = stateful("one", 0.0, &[said_by_user("hi")]);
    let gap = [
        named("msg_one"),
        said_by_user("go on"),
        named("msg_lost"),
        said_by_user("more"),
    ];
    let input: Vec<Value> = [said_by_user("hi")].into_iter().chain(gap).collect();
    let three = stateful("three", 60.0, &input);
    for order in [[&one, &three], [&three, &one]] {
        let placed = placed_one_by_one(order).await;
        are_together(&placed, &["one", "three"]);
        assert_eq!(placed["three"].method, "reference");
    }
    assert_eq!(one.at, second(0.0));
}

//! Where clocks that are seconds apart, or a gap in the recording, hide what belongs together.

use crate::hard_cases::{are_apart, are_together, compacted, link};
use crate::said::{answer, result, said, spawn, user};

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
async fn an_equal_answer_that_is_seconds_later_by_its_clock_may_be_the_one_that_was_heard() {
    let opening = |id, at| said(id, at, &[user("hi")]).answered(&answer("Hello"));
    let placed = link(&[
        opening("before", 0.0),
        said("x", 60.0, &[user("hi"), answer("Hello"), user("go on")]).answered(&answer("I do")),
        opening("behind", 62.0),
        said("later", 90.0, &[user("hi")]).answered(&answer("Well")),
    ])
    .await;
    assert_eq!(placed["x"].parent.as_deref(), Some("behind"));
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

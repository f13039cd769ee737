//! Linking where it is hard, one case each. Every case is recorded in several orders of arrival, which must not matter.

use std::collections::BTreeMap;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::Recorder;
use ropewalk_store::Store;
use ropewalk_store::derived::Conversations;
use ropewalk_store::sqlite::{Options, Sqlite};
use serde_json::json;

use crate::linking::{Placed, assert_same, placed};
use crate::said::{Said, answer, call, result, said, spawn, user};

const LONG: &str = "An answer that is long enough to be told from all the others by what it says, because short ones \
                    are given in many conversations and this one is not.";

/// Records exchanges a few at a time, and links after each few.
pub(crate) async fn recorded(exchanges: &[Said], at_once: usize) -> BTreeMap<String, Placed> {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for few in exchanges.chunks(at_once) {
        let few: Vec<_> = few.iter().map(Said::raw).collect();
        recorder.record(&few).await.unwrap();
        recorder.link().await.unwrap();
    }
    let live = placed(&store, "me").await;
    let again = recorder.rebuild().await.unwrap();
    assert_eq!(again.moved, [], "a rebuild moves nothing");
    live
}

pub(crate) async fn link(exchanges: &[Said]) -> BTreeMap<String, Placed> {
    let expected = recorded(exchanges, exchanges.len()).await;
    let mut backwards = exchanges.to_vec();
    backwards.reverse();
    let mut rotated = exchanges.to_vec();
    rotated.rotate_left(exchanges.len() / 2);
    for (order, what) in [
        (exchanges, "in order"),
        (&*backwards, "backwards"),
        (&*rotated, "rotated"),
    ] {
        assert_same(&recorded(order, 1).await, &expected, &format!("one by one, {what}"));
        assert_same(&recorded(order, 2).await, &expected, &format!("two by two, {what}"));
    }
    expected
}

pub(crate) fn are_together(placed: &BTreeMap<String, Placed>, ids: &[&str]) {
    let first = &placed[ids[0]].conversation;
    for id in ids {
        assert_eq!(&placed[*id].conversation, first, "{id}: {:?}", placed[*id]);
    }
}

pub(crate) fn are_apart(placed: &BTreeMap<String, Placed>, a: &str, b: &str) {
    assert_ne!(placed[a].conversation, placed[b].conversation, "{a} and {b}");
}

#[tokio::test]
async fn equal_openings_stay_two_until_a_follow_up_contains_one_answer() {
    let placed = link(&[
        said("a1", 0.0, &[user("hi")]).answered(&answer("Hello from a")),
        said("b1", 1.0, &[user("hi")]).answered(&answer("Hello from b")),
        said("a2", 2.0, &[user("hi"), answer("Hello from a"), user("go on")]).answered(&answer("yes")),
    ])
    .await;
    are_apart(&placed, "a1", "b1");
    are_together(&placed, &["a1", "a2"]);
    assert_eq!(placed["a2"].branch, "a1");
}

#[tokio::test]
async fn equal_openings_of_two_sessions_stay_two() {
    let placed = link(&[
        said("a1", 0.0, &[user("hi")]).session("s1").answered(&answer("Hello")),
        said("b1", 1.0, &[user("hi")]).session("s2").answered(&answer("Hello")),
        said("a2", 2.0, &[user("hi"), answer("Hello"), user("go on")])
            .session("s1")
            .answered(&answer("yes")),
        said("b2", 3.0, &[user("hi"), answer("Hello"), user("go on")])
            .session("s2")
            .answered(&answer("yes")),
    ])
    .await;
    are_apart(&placed, "a1", "b1");
    are_together(&placed, &["a1", "a2"]);
    are_together(&placed, &["b1", "b2"]);
}

#[tokio::test]
async fn short_last_messages_link_nobody() {
    let mut exchanges = Vec::new();
    for n in 0..6 {
        let (first, at) = (format!("question {n}"), f64::from(n));
        let opening = said(&format!("{n}-1"), at, &[user(&first)]).answered(&answer("ok"));
        let history = [user(&first), answer("ok"), user("yes")];
        exchanges.push(opening);
        exchanges.push(said(&format!("{n}-2"), at + 10.0, &history).answered(&answer("ok")));
    }
    let placed = link(&exchanges).await;
    for n in 0..6 {
        are_together(&placed, &[&format!("{n}-1"), &format!("{n}-2")]);
        are_apart(&placed, "0-1", &format!("{}-2", n.max(1)));
    }
}

#[tokio::test]
async fn a_retry_is_another_attempt_of_the_same_turn() {
    let placed = link(&[
        said("first", 0.0, &[user("do it")]).failed(500),
        said("second", 1.0, &[user("do it")]).failed(429),
        said("third", 3.0, &[user("do it")]).answered(&answer("done")),
        said("next", 9.0, &[user("do it"), answer("done"), user("more")]).answered(&answer("ok")),
    ])
    .await;
    are_together(&placed, &["first", "second", "third", "next"]);
    assert_eq!(placed["second"].kind, "retry");
    assert_eq!(placed["third"].kind, "retry");
    assert!(placed.values().all(|placed| placed.branch == "first"));
}

#[tokio::test]
async fn a_dropped_stream_is_retried_without_stream() {
    let placed = link(&[
        said("dropped", 0.0, &[user("do it")]).cut_off("I w"),
        said("again", 1.0, &[user("do it")])
            .streamed(false)
            .answered(&answer("I will")),
    ])
    .await;
    are_together(&placed, &["dropped", "again"]);
    assert_eq!(placed["again"].kind, "retry");
}

#[tokio::test]
async fn an_equal_opening_much_later_or_with_other_bytes_is_no_retry() {
    let placed = link(&[
        said("failed", 0.0, &[user("do it")]).failed(500),
        said("stranger", 1.0, &[user("do it")])
            .kind("Somebody else.", &[])
            .answered(&answer("done")),
        said("tomorrow", 200.0, &[user("do it")]).answered(&answer("done too")),
    ])
    .await;
    are_apart(&placed, "failed", "stranger");
    are_apart(&placed, "failed", "tomorrow");
}

#[tokio::test]
async fn equal_requests_that_all_succeed_are_alternatives() {
    let history = [user("start"), answer(LONG), user("choose")];
    let placed = link(&[
        said("start", 0.0, &history[..1]).answered(&answer(LONG)),
        said("one", 5.0, &history).answered(&answer("a")),
        said("two", 5.1, &history).answered(&answer("b")),
        said("three", 5.2, &history).answered(&answer("c")),
    ])
    .await;
    are_together(&placed, &["start", "one", "two", "three"]);
    assert_eq!(placed["one"].branch, "start");
    assert_eq!((&*placed["two"].branch, placed["two"].kind), ("two", "turn"));
    assert_eq!(placed["three"].branch, "three");
    assert_eq!(placed["three"].parent.as_deref(), Some("start"));
}

#[tokio::test]
async fn two_branches_within_one_second_have_two_names() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    let history = |last: &str| [user("start"), answer(LONG), user(last)];
    let exchanges = [
        said("start", 0.0, &history("")[..1]).answered(&answer(LONG)),
        said("main", 5.0, &history("a")).answered(&answer("1")),
        said("left", 10.1, &history("b")).answered(&answer("2")),
        said("right", 10.2, &history("c")).answered(&answer("3")),
    ];
    for exchange in &exchanges {
        recorder.record(&[exchange.raw()]).await.unwrap();
        recorder.link().await.unwrap();
    }
    let which = Conversations::Newest { before: None, limit: 9 };
    let conversations = store.conversations(recorder.owner(), which).await.unwrap();
    assert_eq!(conversations.len(), 1);
    let branches = store.branches(recorder.owner(), conversations[0].root).await.unwrap();
    let mut shown: Vec<_> = branches.into_iter().map(|row| row.shown).collect();
    shown.sort();
    assert_eq!(shown, ["branch_20270115080010", "branch_20270115080010_2", "main"]);
}

pub(crate) fn compacted(summary: &str) -> String {
    format!(
        "This session is being continued from a previous conversation that ran out of context. The conversation is \
         summarized below:\n{summary}\nPlease continue the conversation from where we left it off."
    )
}

#[tokio::test]
async fn a_conversation_goes_on_from_its_summary_and_may_fork_there() {
    let summary = "The user wants the rope mended. ".repeat(12);
    let told = format!("<analysis>hm</analysis>\n<summary>\n{summary}\n</summary>");
    let ask = "Your task is to create a detailed summary. Respond with text only, no tools.";
    let continued = compacted(summary.trim());
    let placed = link(&[
        said("one", 0.0, &[user("mend the rope")]).answered(&answer(LONG)),
        said("ask", 5.0, &[user("mend the rope"), answer(LONG), user(ask)]).answered(&answer(&told)),
        said("go", 10.0, &[user(&continued), answer("kept"), user("go on")]).answered(&answer("Going on.")),
        said(
            "on",
            15.0,
            &[
                user(&continued),
                answer("kept"),
                user("go on"),
                answer("Going on."),
                user("x"),
            ],
        )
        .answered(&answer("fine")),
        said(
            "fork",
            20.0,
            &[
                user(&continued),
                answer("kept"),
                user("go on"),
                answer("Going on."),
                user("y"),
            ],
        )
        .answered(&answer("good")),
    ])
    .await;
    are_together(&placed, &["one", "ask", "go", "on", "fork"]);
    assert_eq!((placed["ask"].kind, &*placed["ask"].branch), ("compaction", "one"));
    assert_eq!(
        (placed["go"].method, placed["go"].parent.as_deref()),
        ("summary", Some("ask"))
    );
    assert_eq!(placed["on"].branch, "go");
    assert_eq!(placed["fork"].branch, "fork");
}

#[tokio::test]
async fn parallel_children_with_one_prompt_are_two() {
    let both = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "Task", "input": {"subagent_type": "x", "prompt": "look around"}},
        {"type": "tool_use", "id": "t2", "name": "Task", "input": {"subagent_type": "x", "prompt": "look around"}}]});
    let child = |id, at| said(id, at, &[user("look around")]).kind("You look.", &["Read"]);
    let placed = link(&[
        said("parent", 0.0, &[user("find it")]).answered(&both),
        child("left", 1.0).answered(&answer("nothing on the left")),
        child("right", 1.0).answered(&answer("nothing on the right")),
        said("third", 2.0, &[user("look around")])
            .kind("You look.", &["Read"])
            .answered(&answer("a stranger")),
    ])
    .await;
    are_together(&placed, &["parent", "left", "right"]);
    assert_eq!(placed["left"].agent, "left");
    assert_eq!(placed["right"].agent, "right");
    are_apart(&placed, "parent", "third");
}

#[tokio::test]
async fn a_child_that_never_ran_leaves_its_place_to_the_next_only_while_it_is_open() {
    let placed = link(&[
        said("a", 0.0, &[user("first")]).answered(&spawn("ta", "x", "look around")),
        said(
            "a2",
            5.0,
            &[user("first"), spawn("ta", "x", "look around"), result("ta", "aborted")],
        )
        .answered(&answer("pity")),
        said("b", 10.0, &[user("second")]).answered(&spawn("tb", "x", "look around")),
        said("child", 11.0, &[user("look around")])
            .kind("You look.", &["Read"])
            .answered(&answer("found")),
    ])
    .await;
    are_together(&placed, &["b", "child"]);
    are_apart(&placed, "a", "child");
    assert_eq!(placed["child"].parent.as_deref(), Some("b"));
}

#[tokio::test]
async fn children_of_children_and_background_agents_belong_to_one_conversation() {
    let placed = link(&[
        said("top", 0.0, &[user("build")]).answered(&spawn("t1", "x", "plan it")),
        said(
            "top2",
            1.0,
            &[
                user("build"),
                spawn("t1", "x", "plan it"),
                result("t1", "Async agent launched. id: 1"),
            ],
        )
        .answered(&answer("meanwhile")),
        said("mid", 2.0, &[user("plan it")])
            .kind("You plan.", &["Task"])
            .answered(&spawn("t2", "y", "read it")),
        said("low", 3.0, &[user("read it")])
            .kind("You read.", &["Read"])
            .answered(&answer("it says")),
        said(
            "mid2",
            4.0,
            &[user("plan it"), spawn("t2", "y", "read it"), result("t2", "it says")],
        )
        .kind("You plan.", &["Task"])
        .answered(&answer("planned")),
    ])
    .await;
    are_together(&placed, &["top", "top2", "mid", "low", "mid2"]);
    assert_eq!(placed["top2"].agent, "top");
    assert_eq!(placed["mid2"].agent, "mid");
    assert_eq!(
        (&*placed["low"].agent, placed["low"].parent.as_deref()),
        ("low", Some("mid"))
    );
}

#[tokio::test]
async fn a_resumed_agent_continues_its_branch() {
    let child = |id, at, messages: &[_]| said(id, at, messages).kind("You look.", &["Read"]).session("s");
    let placed = link(&[
        said("top", 0.0, &[user("find")])
            .session("s")
            .answered(&spawn("t1", "x", "look")),
        child("c1", 1.0, &[user("look")])
            .header("x-claude-code-agent-id", "a1")
            .answered(&answer("seen")),
        said(
            "top2",
            2.0,
            &[user("find"), spawn("t1", "x", "look"), result("t1", "seen agentId: a1")],
        )
        .session("s")
        .answered(&answer("more")),
        child("c2", 90.0, &[user("look"), answer("seen"), user("look again")])
            .header("x-claude-code-agent-id", "a1")
            .answered(&answer("seen again")),
    ])
    .await;
    are_together(&placed, &["top", "c1", "top2", "c2"]);
    assert_eq!((&*placed["c2"].agent, &*placed["c2"].branch), ("c1", "c1"));
}

#[tokio::test]
async fn an_agent_without_a_known_parent_is_an_orphan_of_its_session() {
    let placed = link(&[
        said("top", 0.0, &[user("find")])
            .session("s")
            .answered(&answer("found")),
        said("child", 1.0, &[user("look")])
            .kind("You look.", &["Read"])
            .session("s")
            .header("x-claude-code-agent-id", "a1")
            .header("x-claude-code-parent-agent-id", "gone")
            .answered(&answer("seen")),
    ])
    .await;
    are_together(&placed, &["top", "child"]);
    assert_eq!(placed["child"].agent, "child");
}

#[tokio::test]
async fn reminders_thinking_and_rewritten_inputs_do_not_break_a_history() {
    let reminder = "<system-reminder>mind the gap</system-reminder>";
    let tool = call("t1", "Read", &json!({"file": "a ", "deep": "false"}));
    let first = json!({"role": "user", "content": [
        {"type": "text", "text": reminder}, {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}]});
    let thought = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file": "a ", "deep": "false"}}]});
    let replayed = call("t1", "Read", &json!({"deep": false, "file": "a"}));
    let told = result("t1", &format!("content\n{reminder}"));
    let placed = link(&[
        said("1", 0.0, &[first]).answered(&thought),
        said("2", 2.0, &[user("look"), tool, told]).answered(&answer("I see")),
        said(
            "3",
            4.0,
            &[
                user(&format!("{reminder}look")),
                replayed,
                result("t1", "content"),
                answer("I see"),
                user("more"),
            ],
        )
        .answered(&answer("ok")),
    ])
    .await;
    are_together(&placed, &["1", "2", "3"]);
    assert!(placed.values().all(|placed| placed.branch == "1"));
}

#[tokio::test]
async fn a_missing_parent_and_an_edit_inside_a_history_first_seen_later() {
    let long_question = "why is the rope so long ".repeat(20);
    let history = [
        user(&long_question),
        answer(LONG),
        user("and then"),
        answer("unrecorded too"),
    ];
    let seen = [history.to_vec(), vec![user("now")]].concat();
    let edited = [history[..2].to_vec(), vec![user("or rather")]].concat();
    let after = [seen.clone(), vec![answer("after the gap"), user("go")]].concat();
    let placed = link(&[
        said("seen", 0.0, &seen).answered(&answer("after the gap")),
        said("edited", 60.0, &edited).answered(&answer("else")),
        said("after", 90.0, &after).answered(&answer("going")),
    ])
    .await;
    are_together(&placed, &["seen", "edited", "after"]);
    assert_eq!(placed["after"].branch, "seen");
    assert_eq!(placed["edited"].branch, "edited");
}

#[tokio::test]
async fn a_turn_that_was_not_recorded_does_not_end_a_conversation() {
    let start = [user("start"), answer(LONG)];
    let gap = [
        start.to_vec(),
        vec![user("unheard"), answer("unheard too"), user("heard")],
    ]
    .concat();
    let placed = link(&[
        said("start", 0.0, &start[..1]).answered(&answer(LONG)),
        said("later", 30.0, &gap).answered(&answer("ok")),
    ])
    .await;
    are_together(&placed, &["start", "later"]);
    assert_eq!(placed["later"].branch, "start");
}

#[tokio::test]
async fn a_decorated_newest_prompt_that_is_undecorated_next_turn_is_a_rewrite() {
    let rules = "\n\n# Rules\n".to_owned() + &"Always answer in blocks. ".repeat(120);
    let placed = link(&[
        said("1", 0.0, &[user(&format!("add a test{rules}"))]).answered(&answer(LONG)),
        said(
            "2",
            9.0,
            &[user("add a test"), answer(LONG), user(&format!("and run it{rules}"))],
        )
        .answered(&answer(
            "It ran, and everything was fine, as far as such a long answer can tell in so many words here.",
        )),
    ])
    .await;
    are_together(&placed, &["1", "2"]);
    assert_eq!((placed["2"].method, &*placed["2"].branch), ("anchor", "1"));
}

#[tokio::test]
async fn cleared_tool_results_are_a_rewrite_and_no_branch() {
    let read = call("t1", "Read", &json!({}));
    let start = [user("read"), read.clone(), result("t1", "a very long file")];
    let cleared = [user("read"), read, result("t1", "[cleared]")];
    let second = call("t2", "Read", &json!({}));
    let placed = link(&[
        said("1", 0.0, &start[..1]).answered(&start[1]),
        said("2", 2.0, &start).answered(&second),
        said(
            "3",
            4.0,
            &[&start[..], &[second.clone(), result("t2", "more")]].concat(),
        )
        .answered(&answer(LONG)),
        said(
            "4",
            6.0,
            &[&cleared[..], &[second, result("t2", "more"), answer(LONG), user("so?")]].concat(),
        )
        .answered(&answer("so")),
    ])
    .await;
    are_together(&placed, &["1", "2", "3", "4"]);
    assert_eq!(
        (placed["4"].method, placed["4"].parent.as_deref()),
        ("anchor", Some("3"))
    );
    assert!(placed.values().all(|placed| placed.branch == "1"));
}

#[tokio::test]
async fn an_interrupted_answer_is_continued_from_its_beginning() {
    let placed = link(&[
        said("1", 0.0, &[user("tell me")]).answered(&answer(LONG)),
        said("2", 5.0, &[user("tell me"), answer(LONG), user("more")]).cut_off("Once upon a time there was"),
        said(
            "3",
            9.0,
            &[
                user("tell me"),
                answer(LONG),
                user("more"),
                answer("Once upon a"),
                user("[Request interrupted by user]"),
                user("stop"),
            ],
        )
        .answered(&answer("ok")),
    ])
    .await;
    are_together(&placed, &["1", "2", "3"]);
    assert_eq!(
        (placed["3"].method, placed["3"].parent.as_deref()),
        ("partial", Some("2"))
    );
    assert_eq!(placed["3"].branch, "1");
}

#[tokio::test]
async fn an_answer_that_said_nothing_is_gone_on_from() {
    let nothing = json!({"role": "assistant", "content": []});
    let told = "[Your previous response had no visible output. Please continue and produce a user-visible response.]";
    let asked = [user("say nothing"), user(told)];
    let resumed = [
        user("another"),
        answer("yes"),
        user("go on"),
        answer("No response requested."),
        user("and now"),
    ];
    let placed = link(&[
        said("silent", 0.0, &asked[..1]).answered(&nothing),
        said("told", 2.0, &asked).answered(&answer("Something.")),
        said("stranger", 4.0, &[user("say nothing"), user("please")]).answered(&answer("Nothing.")),
        said("other", 10.0, &resumed[..1]).answered(&answer("yes")),
        said("gone", 12.0, &resumed[..3]).answered(&nothing),
        said("back", 14.0, &resumed).answered(&answer("here")),
    ])
    .await;
    are_together(&placed, &["silent", "told"]);
    assert_eq!(placed["told"].branch, "silent");
    are_apart(&placed, "silent", "stranger");
    are_together(&placed, &["other", "gone", "back"]);
    assert_eq!(placed["back"].parent.as_deref(), Some("gone"));
    assert_eq!(placed["back"].branch, "other");
}

#[tokio::test]
async fn a_summary_is_known_in_the_words_of_every_release() {
    let begins = "This session is being continued from a previous conversation that ran out of context.";
    let goes_on =
        "Please continue the conversation from where we left it off without asking the user any further questions.";
    let read = "If you need specific details from before compaction, read the full transcript at: /x/y.jsonl";
    let wordings: [&dyn Fn(&str) -> String; 5] = [
        &|summary| format!("{begins} The conversation is summarized below:\n{summary}.\n{goes_on}"),
        &|summary| {
            format!("{begins} The conversation is summarized below:\nAnalysis:\nhm\n\nSummary:\n{summary}\n{goes_on}")
        },
        &|summary| {
            format!(
                "{begins} The summary below covers the earlier portion.\n\nSummary:\n{summary}\n\n{read}\n{goes_on}"
            )
        },
        &|summary| format!("{begins} The summary below covers the earlier portion.\n\n{summary}"),
        &|summary| format!("{begins}\n<summary>\n{summary}\n</summary>"),
    ];
    for (index, wording) in wordings.iter().enumerate() {
        let summary = format!("The user wants rope {index} mended. ").repeat(12);
        let ask = "Your task is to create a detailed summary. Respond with text only, no tools.";
        let told = answer(&format!("<analysis>hm</analysis>\n<summary>\n{summary}\n</summary>"));
        let opening = user(&format!("mend rope {index}"));
        let placed = link(&[
            said("one", 0.0, std::slice::from_ref(&opening)).answered(&answer("Which one?")),
            said("ask", 5.0, &[opening.clone(), answer("Which one?"), user(ask)]).answered(&told),
            said(
                "go",
                8.0,
                &[user(&wording(summary.trim())), answer("Which one?"), user("next")],
            )
            .answered(&answer("Going on.")),
        ])
        .await;
        are_together(&placed, &["one", "ask", "go"]);
        assert_eq!(placed["go"].method, "summary", "wording {index}");
    }
}

#[tokio::test]
async fn a_fork_under_a_new_session_is_a_branch_of_the_same_conversation() {
    let history = [user("start"), answer(LONG), user("on")];
    let placed = link(&[
        said("1", 0.0, &history[..1]).session("s1").answered(&answer(LONG)),
        said("fork", 5.0, &history).session("s2").answered(&answer("fork")),
        said("2", 9.0, &[user("start"), answer(LONG), user("stay")])
            .session("s1")
            .answered(&answer("stay")),
    ])
    .await;
    are_together(&placed, &["1", "fork", "2"]);
    assert_eq!((&*placed["2"].branch, &*placed["fork"].branch), ("1", "fork"));
}

#[tokio::test]
async fn a_known_session_with_unknown_content_is_the_same_conversation() {
    let placed = link(&[
        said("1", 0.0, &[user("start")]).session("s1").answered(&answer(LONG)),
        said("2", 9.0, &[user("something else entirely")])
            .session("s1")
            .answered(&answer("well")),
    ])
    .await;
    are_together(&placed, &["1", "2"]);
    assert_eq!((placed["2"].method, &*placed["2"].branch), ("session", "2"));
}

#[tokio::test]
async fn what_only_its_session_links_goes_on_from_a_turn_that_comes_late() {
    let history = [user("start"), answer(LONG), user("on")];
    // The late turn has a parent already: of its own session, and of another that was forked.
    for session in ["s2", "s1"] {
        let first = said("1", 0.0, &history[..1]).session(session).answered(&answer(LONG));
        let late = said("2", 5.0, &history).session("s2").answered(&answer("went on"));
        let lost = said("3", 9.0, &[user("something else entirely")])
            .session("s2")
            .answered(&answer("well"));
        let expected = link(&[first.clone(), late.clone(), lost.clone()]).await;
        are_together(&expected, &["1", "2", "3"]);
        let placed = recorded(&[first, lost, late], 1).await;
        assert_same(&placed, &expected, "the turn comes last");
    }
}

#[tokio::test]
async fn helper_calls_belong_to_their_session_also_before_its_first_turn() {
    let schema = json!({"type": "json_schema", "schema": {"properties": {"title": {}}}});
    let mut title = said("title", 0.0, &[user("<session>mend the rope</session>")])
        .kind("Titles.", &[])
        .session("s1");
    title = title.answered(&answer("Rope"));
    let raw_title = {
        let mut raw = title.raw();
        let mut body: serde_json::Value = serde_json::from_slice(&raw.request_body).unwrap();
        body["output_config"] = json!({"format": schema});
        raw.request_body = body.to_string().into();
        raw
    };
    for title_first in [true, false] {
        let store = Sqlite::in_memory(&Options::default()).unwrap();
        let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
        let turn = said("turn", 1.0, &[user("mend the rope")])
            .session("s1")
            .answered(&answer("mended"))
            .raw();
        let mut both = [raw_title.clone(), turn];
        if !title_first {
            both.reverse();
        }
        for raw in both {
            recorder.record(&[raw]).await.unwrap();
            recorder.link().await.unwrap();
        }
        let placed = placed(&store, "me").await;
        are_together(&placed, &["title", "turn"]);
        assert_eq!(
            (placed["title"].kind, &*placed["title"].conversation),
            ("auxiliary", "turn")
        );
    }
}

#[tokio::test]
async fn helper_calls_belong_to_their_session_also_before_it_is_forked_from_another() {
    let history = [user("start"), answer(LONG), user("on")];
    let placed = link(&[
        said("1", 0.0, &history[..1]).session("s1").answered(&answer(LONG)),
        said("title", 4.0, &[user("a question of its own")])
            .session("s2")
            .header("x-claude-code-request-class", "title"),
        said("fork", 5.0, &history).session("s2").answered(&answer("well")),
    ])
    .await;
    are_together(&placed, &["1", "title", "fork"]);
    assert_eq!((&*placed["title"].branch, placed["title"].kind), ("fork", "auxiliary"));
}

#[tokio::test]
async fn equal_texts_of_two_owners_never_meet() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let history = [user("start"), answer(LONG), user("on")];
    for owner in ["ann", "ben"] {
        let mut recorder = Recorder::new(&store, owner, &BundledPrices).await.unwrap();
        let turns = [
            said(&format!("{owner}-1"), 0.0, &history[..1]).answered(&answer(LONG)),
            said(&format!("{owner}-2"), 5.0, &history).answered(&answer("ok")),
        ];
        let first_of_ben = usize::from(owner == "ben");
        for turn in &turns[first_of_ben..] {
            recorder.record(&[turn.raw()]).await.unwrap();
            recorder.link().await.unwrap();
        }
    }
    let ben = placed(&store, "ben").await;
    assert_eq!((ben.len(), &*ben["ben-2"].conversation), (1, "ben-2"));
}

#[tokio::test]
async fn an_answer_may_seem_to_end_after_its_follow_up_began() {
    let history = [user("start"), answer(LONG), user("on")];
    let placed = link(&[
        said("1", 3.0, &history[..1]).took(1.5).answered(&answer(LONG)),
        said("2", 0.5, &history).answered(&answer("ok")),
    ])
    .await;
    are_together(&placed, &["1", "2"]);
    assert_eq!(
        (&*placed["2"].conversation, placed["2"].parent.as_deref()),
        ("1", Some("1"))
    );
}

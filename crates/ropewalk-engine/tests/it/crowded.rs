//! What more exchanges share than a look-up gives.

use serde_json::json;

use crate::hard_cases::{are_together, link, recorded};
use crate::linking::assert_same;
use crate::said::{Said, answer, result, said, spawn, user};

/// More than one look-up gives.
const MANY: usize = 70;

#[tokio::test]
async fn a_late_one_of_many_that_say_the_same_pushes_out_the_last_candidate() {
    let opening = |number: usize| {
        let opening = said(&format!("o{number}"), number as f64, &[user("hi")]).answered(&answer("Hello"));
        // Only this one is of the follow-up's kind, and it is the last that is looked at as long as one of the others is missing.
        match number {
            5 => opening.kind("You are another agent.", &["Grep"]),
            _ => opening,
        }
    };
    let follow_up = said("x", MANY as f64, &[user("hi"), answer("Hello"), user("go on")]);
    let follow_up = follow_up
        .kind("You are another agent.", &["Grep"])
        .answered(&answer("I do"));
    let before = (0..MANY).map(opening);
    // With none behind the follow-up the missing one is among the newest when it comes, with many it is not.
    for behind in [0, MANY] {
        // Later than clocks may be apart.
        let behind = (MANY + 10..MANY + 10 + behind).map(opening);
        let ordered: Vec<Said> = before.clone().chain([follow_up.clone()]).chain(behind).collect();
        let expected = recorded(&ordered, ordered.len()).await;
        assert_eq!(expected["x"].parent.as_deref(), Some("o69"));
        for missing in [40, MANY - 1] {
            let mut late = ordered.clone();
            let missing = late.remove(missing);
            late.push(missing);
            assert_same(&recorded(&late, MANY).await, &expected, "one of them comes last");
        }
    }
}

#[tokio::test]
async fn what_only_its_session_links_goes_on_from_a_late_turn_of_a_long_session() {
    let turn = |number: usize| {
        let question = format!("question {number} that says nothing of any other");
        said(&format!("t{number}"), number as f64, &[user(&question)])
            .session("s1")
            .answered(&answer("so it is"))
    };
    let ordered: Vec<Said> = (0..2 * MANY).map(turn).collect();
    let expected = recorded(&ordered, ordered.len()).await;
    let mut late = ordered;
    let missing = late.remove(3);
    late.push(missing);
    assert_same(&recorded(&late, MANY).await, &expected, "an early turn comes last");
}

#[tokio::test]
async fn a_main_agent_is_found_behind_many_calls_of_its_subagent() {
    let main =
        |id: &str, at: f64, words: &str| said(id, at, &[user(words)]).session("s1").answered(&answer("so it is"));
    let mut history = vec![user("look everywhere")];
    let mut child = |number: usize| {
        let called = said(&format!("child{number}"), 10.0 + number as f64, &history)
            .session("s1")
            .header("x-claude-code-agent-id", "a1")
            .kind("You are a searcher.", &["Grep"]);
        let says = crate::said::call(&format!("call{number}"), "Grep", &json!({"pattern": number}));
        history.extend([says.clone(), result(&format!("call{number}"), "nothing")]);
        called.answered(&says)
    };
    let begun =
        said("main", 1.0, &[user("find it")])
            .session("s1")
            .answered(&spawn("spawn", "searcher", "look everywhere"));
    // A helper call without an agent's id, and words that only the session can link.
    let title = said("title", 10.0 + MANY as f64, &[user("<session>find it</session>")])
        .session("s1")
        .header("x-claude-code-request-class", "title");
    let ordered: Vec<Said> = [begun]
        .into_iter()
        .chain((0..MANY).map(&mut child))
        .chain([title, main("other", 20.0 + MANY as f64, "something else entirely")])
        .collect();
    let expected = link(&ordered).await;
    are_together(&expected, &["main", "child0", "child69", "title", "other"]);
    assert_eq!(expected["child69"].agent, expected["child0"].agent);
    assert_eq!(
        (&*expected["title"].agent, expected["title"].kind),
        ("main", "auxiliary")
    );
    assert_eq!(
        (&*expected["other"].agent, expected["other"].method),
        ("main", "session")
    );
    let mut late = ordered;
    late.rotate_left(1);
    assert_same(&recorded(&late, MANY).await, &expected, "its turn comes last");
}

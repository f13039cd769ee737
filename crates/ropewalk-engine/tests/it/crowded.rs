//! What more exchanges share than a look-up gives.

use crate::hard_cases::recorded;
use crate::linking::assert_same;
use crate::said::{Said, answer, said, user};

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
        let behind = (MANY + 1..MANY + 1 + behind).map(opening);
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

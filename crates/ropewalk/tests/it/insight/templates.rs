//! `templates`.

use serde_json::{Value, json};

use crate::store::{TestStore, turn};

pub(crate) fn talks() -> Vec<Value> {
    let review =
        |number: u32, place: &str| format!("Review pull request {number} in {place} and list every risk that you see.");
    vec![
        turn(
            "t1",
            0,
            &[&review(12, "web"), "Two risks.", "run the tests again", "They pass."],
        ),
        turn(
            "t2",
            10,
            &[&review(7, "the old api"), "None.", "Run the tests again.", "They fail."],
        ),
        turn(
            "t3",
            20,
            &[
                &review(481, "web"),
                "One \u{1b}[31m risk.",
                "run the tests again",
                "They pass.",
            ],
        ),
        turn("t4", 30, &["Write a poem about the sea.", "Grey waves."]),
        turn("t5", 40, &["ok", "What is?"]),
    ]
}

#[test]
fn prompts_that_recur_are_shown_with_their_places() {
    let store = TestStore::with(&talks());
    insta::assert_snapshot!(store.ok(&["templates"]), @r##"
    3 times, in 3 conversations, 3 times as the opening
      Review pull request {1} in {2} and list every risk that you see.
        {1} 481 · 7 · 12
        {2} web · the old api
    3 times, in 3 conversations
      run the tests again
    7 prompts in 5 conversations looked at
    "##);
}

#[test]
fn a_prompt_recurs_as_often_as_was_asked_for() {
    let store = TestStore::with(&talks());
    insta::assert_snapshot!(store.ok(&["templates", "--times", "4"]), @r##"
    7 prompts in 5 conversations looked at, none recurs
    "##);
}

#[test]
fn what_stands_in_a_place_cannot_fool_a_terminal() {
    let said = |value: &str| format!("please check the file called {value} for mistakes of any kind");
    let lines: Vec<Value> = ["a\u{1b}[2J", "b\u{202e}x", "c"]
        .iter()
        .zip(0..)
        .map(|(value, at)| turn(&format!("h{at}"), at * 10, &[&said(value), "Fine."]))
        .collect();
    let shown = TestStore::with(&lines).ok(&["templates"]);
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    assert!(shown.contains("\\u{1b}[2J"), "{shown}");
}

#[test]
fn the_json_has_the_values_of_every_place() {
    let store = TestStore::with(&talks());
    let mut templates = store.json(&["templates", "-n", "1"]).remove(0);
    templates["templates"][0]["examples"] = json!("…");
    insta::assert_json_snapshot!(templates, @r##"
    {
      "conversations": 5,
      "is_all": true,
      "prompts": 7,
      "templates": [
        {
          "conversations": 3,
          "examples": "…",
          "openings": 3,
          "places": [
            {
              "different": 3,
              "values": [
                "481",
                "7",
                "12"
              ]
            },
            {
              "different": 2,
              "values": [
                "web",
                "the old api"
              ]
            }
          ],
          "text": "Review pull request {1} in {2} and list every risk that you see.",
          "times": 3
        }
      ],
      "templates_left_out": 1,
      "v": 1
    }
    "##);
}

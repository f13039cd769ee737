//! `suggest`.

use serde_json::{Value, json};

use crate::store::{TestStore, turn};

const OPENING: &str = "Please look at the parser of our configuration files and tell me why it takes seconds when a line has \
    many quotes in it, and what we could do about that without another dependency.";
const ANSWER: &str = "The scanner goes back to the start of the line for each quote that it meets, so the work grows with their \
    square. Remember the place of the last quote and it becomes linear; nothing else has to change.";
const STORY: &str = "Every rope is made of yarns, which are spun from fibres and laid into strands before they are closed, and the \
    walk has to be longer than the rope because twisting takes a third of the length.";

/// A question, the same in other words, somebody who pastes its answer, and two strangers.
pub(crate) fn talks() -> Vec<Value> {
    let edited = OPENING
        .replace("tell me why", "explain why")
        .replace("another dependency", "a new dependency");
    let reworded = ANSWER.replace("so the work grows", "hence the time grows");
    let pasted = format!("A colleague got this answer and I do not believe it. {ANSWER}");
    vec![
        turn("first", 0, &[OPENING, ANSWER]),
        turn("edited", 10, &[&edited, &reworded]),
        turn(
            "pasted",
            20,
            &[
                STORY,
                "That is how it was done for centuries, in halls a quarter mile long.",
                &pasted,
                "It is right.",
            ],
        ),
        turn(
            "stranger",
            30,
            &[
                "Write a poem about the sea, in four lines, without the word blue in it.",
                "Grey waves.",
            ],
        ),
        turn("rope", 40, &["What is a ropewalk?", "A long hall."]),
    ]
}

#[test]
fn what_is_nearly_the_same_is_listed_with_a_score() {
    let store = TestStore::with(&talks());
    insta::assert_snapshot!(store.ok(&["suggest"]), @r##"
    0.90  near duplicate, 66 words in both
          c7711e9f  Please look at the parser of our configuration files and tell me why it takes seconds when a …  1 turn
          b391956b  Please look at the parser of our configuration files and explain why it takes seconds when a …  1 turn
          "The scanner goes back to the start of the line for each quote that it meets, hence the time grows with their sq…"
    0.62  near duplicate, 39 words in both
          c7711e9f  Please look at the parser of our configuration files and tell me why it takes seconds when a …  1 turn
          d29c30f5  Every rope is made of yarns, which are spun from fibres and laid into strands before they are…  1 turn
          "The scanner goes back to the start of the line for each quote that it meets, so the work grows with their squar…"
    0.55  copied passage, 36 words in both
          b391956b  Please look at the parser of our configuration files and explain why it takes seconds when a …  1 turn
          d29c30f5  Every rope is made of yarns, which are spun from fibres and laid into strands before they are…  1 turn
          "The scanner goes back to the start of the line for each quote that it meets, hence the time grows with their sq…"
    5 conversations looked at
    "##);
    insta::assert_snapshot!(store.ok(&["suggest", "--score", "1"]), @r##"
    5 conversations looked at, none is nearly the same as another
    "##);
}

#[test]
fn nothing_is_linked_by_a_suggestion() {
    let store = TestStore::with(&talks());
    let before = store.ok(&["log", "--exchanges", "--json"]);
    store.ok(&["suggest"]);
    assert_eq!(store.ok(&["log", "--exchanges", "--json"]), before);
    assert_eq!(store.json(&["log"]).len(), 5);
}

#[test]
fn the_json_has_both_sides() {
    let store = TestStore::with(&talks());
    let mut suggestions = store.json(&["suggest", "-n", "1"]).remove(0);
    for side in ["a", "b"] {
        suggestions["pairs"][0][side]["conversation_id"] = json!("…");
        suggestions["pairs"][0][side]["friendly_id"] = json!("…");
    }
    insta::assert_json_snapshot!(suggestions, @r##"
    {
      "conversations": 5,
      "is_all": true,
      "not_compared": 0,
      "pairs": [
        {
          "a": {
            "conversation_id": "…",
            "friendly_id": "…",
            "started_at": "2026-03-01T10:00:00.000000Z",
            "title": "Please look at the parser of our configuration files and tell me why it takes seconds when a line has many quotes in it,",
            "turns": 1
          },
          "b": {
            "conversation_id": "…",
            "friendly_id": "…",
            "started_at": "2026-03-01T10:00:10.000000Z",
            "title": "Please look at the parser of our configuration files and explain why it takes seconds when a line has many quotes in it,",
            "turns": 1
          },
          "excerpt": "The scanner goes back to the start of the line for each quote that it meets, hence the time grows with their square. Rem",
          "kind": "near_duplicate",
          "score": 0.904,
          "shared_words": 66
        }
      ],
      "pairs_left_out": 2,
      "v": 1
    }
    "##);
}

#[test]
fn a_score_is_a_share() {
    let output = TestStore::new().run(&["suggest", "--score", "2"]);
    assert_eq!(output.status.code(), Some(2));
}

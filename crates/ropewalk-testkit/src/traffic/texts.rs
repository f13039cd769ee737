//! What people and models say: some of it in thousands of conversations, some of it in one.

use crate::conversation::Random;

const SHARED_OPENINGS: [&str; 6] = [
    "hi",
    "fix the tests",
    "continue",
    "What does this repository do?",
    "run the linter and fix what it finds",
    TEMPLATE,
];

/// A long opening that is no sign of a common origin.
const TEMPLATE: &str = "You are given an issue of this project. Read it, find the code that it is about, reproduce the \
problem with a failing test, and only then change the code. Keep the change as small as it can be, follow the style of the \
file around it, and do not touch unrelated code. When the tests pass, look at the diff once more as a reviewer would: is \
there a simpler way, is an edge case missing, would a reader understand why? Then write a summary of what you changed and why, \
in no more than ten lines, with the names of the files. If the issue cannot be reproduced, say so and stop there. Do not \
commit anything. The issue follows below. Title: see the tracker. Body: see the tracker.";

const SHORT_ANSWERS: [&str; 5] = ["ok", "Done.", "Yes.", "Hello! How can I help?", "Fixed."];
const SHORT_PROMPTS: [&str; 6] = ["ok", "yes", "go on", "continue", "thanks", "and now?"];
const SHARED_SPAWN_PROMPTS: [&str; 3] = [
    "Run the tests and report failures.",
    "Search the code base for usages and list them.",
    "Review the current diff.",
];

pub(super) fn shared_opening(random: &mut Random) -> String {
    one_of(random, &SHARED_OPENINGS)
}

pub(super) fn shared_spawn_prompt(random: &mut Random) -> String {
    one_of(random, &SHARED_SPAWN_PROMPTS)
}

pub(super) fn short_answer(random: &mut Random) -> String {
    one_of(random, &SHORT_ANSWERS)
}

/// Something a user says later on: often what many say.
pub(super) fn prompt(random: &mut Random) -> String {
    if random.chance(0.4) {
        return one_of(random, &SHORT_PROMPTS);
    }
    own(random, 20, 120)
}

/// A text that no other conversation contains, of about so many bytes.
pub(super) fn own(random: &mut Random, least: usize, most: usize) -> String {
    let length = least + random.below(most - least);
    let mark = random.letters(10);
    format!("{} ({mark})", random.prose(length))
}

/// A text whose every longer prefix is its own too, as an answer that may be stopped halfway needs.
pub(super) fn own_from_the_start(random: &mut Random, least: usize, most: usize) -> String {
    let mark = random.letters(10);
    format!("On {mark}: {}", own(random, least, most))
}

pub(super) fn reminder(random: &mut Random) -> String {
    let about = random.letters(6);
    format!("<system-reminder>\nThe todo list is empty ({about}).\n</system-reminder>")
}

/// About 3 KB of rules, as aider appends them to the newest prompt.
pub(super) fn rules() -> String {
    "\n\nEvery change must be a *SEARCH/REPLACE block* with the full path of the file.".repeat(38)
}

fn one_of(random: &mut Random, texts: &[&str]) -> String {
    texts[random.below(texts.len())].to_owned()
}

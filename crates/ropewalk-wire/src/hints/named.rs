//! The name that a system prompt gives its agent. Few do; what is not said in one of these ways is no name.

use ropewalk_core::model::{Block, Request};

use super::acceptable;

/// How much of a block of the system prompt is looked at, in bytes: a name stands near its beginning.
const SEARCHED_BYTES: usize = 4_096;

/// Words of a name at most. More is a description.
const NAME_WORDS_MAX: usize = 3;

/// What stands in front of a name, and what behind it.
const FRAMES: [(&str, &[&str]); 4] = [
    ("You are currently running in \"", &["\" mode"]),
    ("You are the ", &[" agent", " subagent"]),
    ("You are agent \"", &["\""]),
    ("Agent name: ", &["\n"]),
];

/// The name of the agent that the system prompt is for, if it says one.
pub(super) fn in_system(request: &Request) -> Option<Box<str>> {
    request.system.iter().find_map(|block| match &**block {
        Block::Text { text, .. } => FRAMES.iter().find_map(|(before, behind)| framed(text, before, behind)),
        _ => None,
    })
}

fn framed(text: &str, before: &str, behind: &[&str]) -> Option<Box<str>> {
    let text = &text[..text.floor_char_boundary(SEARCHED_BYTES)];
    let (_, rest) = text.split_once(before)?;
    let line = rest.lines().next()?;
    let name = match behind {
        ["\n"] => line,
        _ => {
            let ends = behind.iter().filter_map(|end| line.find(end));
            &line[..ends.min()?]
        }
    };
    let name = name.trim().trim_matches(['"', '`', '\'', '*']);
    let words = name.split_whitespace().count();
    (words <= NAME_WORDS_MAX).then(|| acceptable(name)).flatten()
}

//! What stands in front of a conversation, piece by piece: system blocks and tools.

use ropewalk_wire::prompt::{Place, Prompt};
use serde::Serialize;
use utoipa::ToSchema;

use crate::detail::word;
use crate::insight::cache::proportion;

/// Tools and system blocks of one request that are looked at: ten times what any client sends. They are compared each with each.
const PARTS_MAX: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    System,
    Tool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContextPart {
    pub(super) kind: PartKind,
    /// A tool's name, a system block's number.
    pub(super) name: String,
    pub(super) text: String,
    /// About how many tokens stand before it in the prompt.
    pub(super) tokens_before: u64,
    /// About how many it has.
    pub(super) tokens: u64,
}

impl ContextPart {
    /// A tool is known by its name and what it says, a system block by what it says, wherever it stands.
    pub(super) fn is(&self, other: &ContextPart) -> bool {
        self.kind == other.kind && self.text == other.text && (self.kind == PartKind::System || self.name == other.name)
    }
}

/// The parts in front of the messages, in the order of the prompt, at most [`PARTS_MAX`].
pub(super) fn parts(prompt: &Prompt, prompt_tokens: u64) -> Vec<ContextPart> {
    let all = prompt.weight();
    let mut before = 0;
    let mut found = Vec::new();
    for part in prompt.parts.iter().take(PARTS_MAX) {
        let behind = before + part.weight;
        let (kind, name) = match &part.place {
            Place::Tool { name } => (PartKind::Tool, word(name)),
            Place::System { number } => (PartKind::System, number.to_string()),
            // Nothing but messages stands behind the first of them.
            Place::Message { .. } => break,
        };
        let tokens_before = proportion(before, all, prompt_tokens);
        found.push(ContextPart {
            kind,
            name,
            text: part.text.clone(),
            tokens_before,
            tokens: proportion(behind, all, prompt_tokens) - tokens_before,
        });
        before = behind;
    }
    found
}

/// One thing that is another than before: what it was, what it is.
pub(super) type Changed<'p> = (Option<&'p ContextPart>, Option<&'p ContextPart>);

/// What is new, gone or other. Tools belong together by their names; system blocks that are on one side only, by their order.
pub(super) fn changes<'p>(before: &'p [ContextPart], now: &'p [ContextPart]) -> Vec<Changed<'p>> {
    let gone: Vec<&ContextPart> = missing(before, now).collect();
    let new: Vec<&ContextPart> = missing(now, before).collect();
    let mut changes = Vec::new();
    let tools = |list: &[&'p ContextPart], kind: PartKind| -> Vec<&'p ContextPart> {
        list.iter().copied().filter(|part| part.kind == kind).collect()
    };
    let (gone_blocks, new_blocks) = (tools(&gone, PartKind::System), tools(&new, PartKind::System));
    for at in 0..gone_blocks.len().max(new_blocks.len()) {
        changes.push((gone_blocks.get(at).copied(), new_blocks.get(at).copied()));
    }
    let (gone, new) = (tools(&gone, PartKind::Tool), tools(&new, PartKind::Tool));
    for tool in &new {
        let before = gone.iter().find(|before| before.name == tool.name);
        changes.push((before.copied(), Some(*tool)));
    }
    let is_gone = |tool: &&&ContextPart| !new.iter().any(|now| now.name == tool.name);
    changes.extend(gone.iter().filter(is_gone).map(|tool| (Some(*tool), None)));
    changes
}

fn missing<'p>(of: &'p [ContextPart], from: &'p [ContextPart]) -> impl Iterator<Item = &'p ContextPart> {
    of.iter().filter(|part| !from.iter().any(|other| other.is(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: PartKind, name: &str, text: &str) -> ContextPart {
        ContextPart {
            kind,
            name: name.to_owned(),
            text: text.to_owned(),
            tokens_before: 0,
            tokens: 1,
        }
    }

    #[test]
    fn tools_are_compared_by_name_and_blocks_by_what_they_say() {
        let system = |name: &str, text: &str| part(PartKind::System, name, text);
        let tool = |name: &str, text: &str| part(PartKind::Tool, name, text);
        let before = [tool("a", "1"), tool("b", "1"), system("1", "x"), system("2", "y")];
        // Other orders and numbers are no change.
        let moved = [tool("b", "1"), tool("a", "1"), system("1", "y"), system("2", "x")];
        assert!(changes(&before, &moved).is_empty());
        let now = [
            tool("a", "2"),
            tool("c", "1"),
            system("1", "x"),
            system("2", "z"),
            system("3", "w"),
        ];
        let names: Vec<(Option<&str>, Option<&str>)> = changes(&before, &now)
            .into_iter()
            .map(|(before, now)| (before.map(|part| &*part.text), now.map(|part| &*part.text)))
            .collect();
        let expected = [
            (Some("y"), Some("z")),
            (None, Some("w")),
            (Some("1"), Some("2")),
            (None, Some("1")),
            (Some("1"), None),
        ];
        assert_eq!(names, expected);
    }
}

//! What search finds an exchange by: only what it says for the first time.
//!
//! A request replays the whole history. New in it is what stands behind the last assistant message; the rest was found
//! in earlier exchanges. Reminders are left out: the client adds them to every turn.

use std::sync::Arc;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, Request, Response, Role, ToolContent, ToolInput};
use ropewalk_core::normalise::normalise;
use ropewalk_store::facts::{SearchText, TextSource};

/// How much of one text is indexed, in bytes. Longer ones are output of tools, whose beginning says what they are.
pub const SEARCH_TEXT_BYTES_MAX: usize = 32 << 10;

/// The new texts of a request: what the user and the tools said since the last answer.
pub(crate) fn of_request(request: &Request) -> Vec<SearchText> {
    let mut spoken = request.messages.iter().rev();
    let newest = spoken.by_ref().take_while(|message| message.role != Role::Assistant);
    let mut newest: Vec<_> = newest.filter(|message| message.role == Role::User).collect();
    newest.reverse();
    let blocks = newest.iter().flat_map(|message| &message.blocks);
    blocks.filter_map(said_by_user).collect()
}

/// The texts of an answer and the inputs of its tool calls.
pub(crate) fn of_answer(answer: &Response) -> Vec<SearchText> {
    answer.blocks.iter().filter_map(said_by_assistant).collect()
}

fn said_by_user(block: &Block) -> Option<SearchText> {
    match block {
        Block::Text { text, .. } => searchable(TextSource::User, text),
        Block::ToolResult(result) => match &result.content {
            ToolContent::Absent => None,
            ToolContent::Text(text) => searchable(TextSource::ToolResult, text),
            ToolContent::Blocks { blocks, .. } => {
                let texts = blocks.iter().filter_map(|block| match block {
                    Block::Text { text, .. } => Some(&**text),
                    _ => None,
                });
                let joined = texts.collect::<Vec<_>>().join("\n");
                searchable(TextSource::ToolResult, &joined.into())
            }
        },
        _ => None,
    }
}

fn said_by_assistant(block: &Block) -> Option<SearchText> {
    match block {
        Block::Text { text, .. } => searchable(TextSource::Assistant, text),
        Block::ToolUse(call) => {
            let text = match &call.input {
                ToolInput::Json(json) => strings_of(json).into(),
                ToolInput::Text(text) => Arc::clone(text),
            };
            searchable(TextSource::ToolInput, &text)
        }
        _ => None,
    }
}

/// Shares the text's memory where nothing is taken away from it.
fn searchable(source: TextSource, text: &Arc<str>) -> Option<SearchText> {
    let normal = normalise(text);
    let kept = &normal[..normal.floor_char_boundary(SEARCH_TEXT_BYTES_MAX)];
    if kept.is_empty() {
        return None;
    }
    let text = if kept.len() == text.len() {
        Arc::clone(text)
    } else {
        kept.into()
    };
    Some(SearchText { source, text })
}

/// The strings inside a JSON text, one a line. In the JSON itself an escape such as `\n` would become part of a word.
fn strings_of(json: &str) -> String {
    let Ok(doc) = Doc::parse_str(json) else {
        return json.to_owned();
    };
    let mut out = String::new();
    // Last in, first out: children are pushed in reverse, so that the strings come in the order written.
    let mut waiting: Vec<Node<'_>> = vec![doc.root()];
    while let Some(node) = waiting.pop() {
        if out.len() > SEARCH_TEXT_BYTES_MAX {
            break;
        }
        if let Some(text) = node.as_str() {
            out.push_str(&text);
            out.push('\n');
        } else if node.is_array() {
            let items: Vec<_> = node.items().collect();
            waiting.extend(items.into_iter().rev());
        } else if node.is_object() {
            let values: Vec<_> = node.members().map(|(_, value)| value).collect();
            waiting.extend(values.into_iter().rev());
        } else {
            out.push_str(node.raw());
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_an_input_come_in_order_and_unescaped() {
        let json = r#"{"a":"one\ntwo","b":[{"c":"three"},4,"five"],"d":{}}"#;
        assert_eq!(strings_of(json), "one\ntwo\nthree\n4\nfive\n");
        assert_eq!(strings_of("no json"), "no json");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text: Arc<str> = "€".repeat(SEARCH_TEXT_BYTES_MAX).into();
        let cut = searchable(TextSource::User, &text).unwrap();
        assert_eq!(cut.text.len(), SEARCH_TEXT_BYTES_MAX / 3 * 3);
        assert!(searchable(TextSource::User, &"<system-reminder>x</system-reminder>".into()).is_none());
    }
}

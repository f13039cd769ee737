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
        Block::Text { text, .. } => searchable(TextSource::User, [text]),
        Block::ToolResult(result) => match &result.content {
            ToolContent::Absent => None,
            ToolContent::Text(text) => searchable(TextSource::ToolResult, [text]),
            ToolContent::Blocks { blocks, .. } => {
                let texts = blocks.iter().filter_map(|block| match block {
                    Block::Text { text, .. } => Some(text),
                    _ => None,
                });
                searchable(TextSource::ToolResult, texts)
            }
        },
        _ => None,
    }
}

fn said_by_assistant(block: &Block) -> Option<SearchText> {
    match block {
        Block::Text { text, .. } => searchable(TextSource::Assistant, [text]),
        Block::ToolUse(call) => match &call.input {
            ToolInput::Json(json) => searchable(TextSource::ToolInput, &strings_of(json)),
            ToolInput::Text(text) => searchable(TextSource::ToolInput, [text]),
        },
        _ => None,
    }
}

/// What is to be found of some strings, within bounds.
fn searchable<'t>(source: TextSource, said: impl IntoIterator<Item = &'t Arc<str>>) -> Option<SearchText> {
    let mut left = SEARCH_TEXT_BYTES_MAX;
    let mut strings = Vec::new();
    for text in said {
        let Some(text) = said_itself(text).filter(|_| left > 0) else {
            continue;
        };
        let kept = text.floor_char_boundary(left);
        left = left.saturating_sub(text.len());
        strings.push(if kept == text.len() { text } else { text[..kept].into() });
    }
    (!strings.is_empty()).then_some(SearchText { source, strings })
}

/// A text without its reminders. Where there are none it is the text as it was said, white space around it included: as such
/// it is a part of the body, and search does not see white space.
fn said_itself(text: &Arc<str>) -> Option<Arc<str>> {
    let normal = normalise(text);
    if normal.is_empty() {
        return None;
    }
    let is_whole = normal.len() == text.trim().len();
    Some(if is_whole { Arc::clone(text) } else { (*normal).into() })
}

/// The strings inside a JSON text, those between them that are none (numbers, words) as written.
pub(crate) fn strings_of(json: &str) -> Vec<Arc<str>> {
    let Ok(doc) = Doc::parse_str(json) else {
        return vec![json.into()];
    };
    let mut strings: Vec<Arc<str>> = Vec::new();
    let mut length = 0;
    // Last in, first out: children are pushed in reverse, so that the strings come in the order written.
    let mut waiting: Vec<Node<'_>> = vec![doc.root()];
    while let Some(node) = waiting.pop() {
        if length > SEARCH_TEXT_BYTES_MAX {
            break;
        }
        if node.is_array() {
            let items: Vec<_> = node.items().collect();
            waiting.extend(items.into_iter().rev());
        } else if node.is_object() {
            let values: Vec<_> = node.members().map(|(_, value)| value).collect();
            waiting.extend(values.into_iter().rev());
        } else {
            let text: Arc<str> = node.as_str().map_or_else(|| node.raw().into(), |text| (*text).into());
            length += text.len();
            strings.push(text);
        }
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_an_input_come_in_order_and_unescaped() {
        let json = r#"{"a":"one\ntwo","b":[{"c":"three"},4,"five"],"d":{}}"#;
        let strings = |json| strings_of(json).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(strings(json), ["one\ntwo", "three", "4", "five"]);
        assert_eq!(strings("no json"), ["no json"]);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text: Arc<str> = "€".repeat(SEARCH_TEXT_BYTES_MAX).into();
        let cut = searchable(TextSource::User, [&"first".into(), &text, &text]).unwrap();
        let lengths: Vec<usize> = cut.strings.iter().map(|string| string.len()).collect();
        assert_eq!(lengths, [5, (SEARCH_TEXT_BYTES_MAX - 5) / 3 * 3]);
        assert!(searchable(TextSource::User, [&"<system-reminder>x</system-reminder>".into()]).is_none());
    }

    #[test]
    fn a_text_that_is_a_part_stays_one() {
        let text: Arc<str> = "  said with space around it\n".into();
        assert!(Arc::ptr_eq(&said_itself(&text).unwrap(), &text));
        let reminded: Arc<str> = "said <system-reminder>x</system-reminder>".into();
        assert_eq!(&*said_itself(&reminded).unwrap(), "said");
    }
}

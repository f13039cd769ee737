//! Members of vendor objects: those we read, and those nobody interprets.

use ropewalk_core::json::{Kind, Node};
use ropewalk_core::model::Block;

use crate::cut::Texts;

/// The members of `object` that are not in `interpreted`, as a JSON object; `None` if there are none.
///
/// Nulls and empty lists are left out: a body writes them where a stream or a replay leaves them away, and they say
/// nothing. So is `cache_control`, which says how to bill a block, not what it says.
pub(crate) fn extra(object: Node<'_>, interpreted: &[&str]) -> Option<Box<str>> {
    let mut out = String::new();
    for (key, value) in object.members() {
        let says_nothing = value.is_null() || (value.is_array() && value.items().next().is_none());
        if says_nothing || key.is("cache_control") || interpreted.iter().any(|name| key.is(name)) {
            continue;
        }
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(key.raw());
        out.push(':');
        out.push_str(value.raw());
    }
    if out.is_empty() {
        return None;
    }
    out.push('}');
    Some(out.into())
}

/// Joins two objects that [`extra`] wrote.
pub(crate) fn join(first: Option<Box<str>>, second: Option<Box<str>>) -> Option<Box<str>> {
    match (first, second) {
        (Some(first), Some(second)) => {
            let mut out = first.into_string();
            out.pop();
            out.push(',');
            out.push_str(&second[1..]);
            Some(out.into())
        }
        (first, second) => first.or(second),
    }
}

/// Adds uninterpreted members of the message to its first block that can hold them.
pub(crate) fn attach(blocks: &mut [Block], extra: Option<Box<str>>) {
    for block in blocks {
        let place = match block {
            Block::Text { extra, .. } | Block::Thinking { extra, .. } => extra,
            Block::ToolUse(call) => &mut call.extra,
            Block::ToolResult(result) => &mut result.extra,
            Block::Media(media) => &mut media.extra,
            Block::Reference { .. } | Block::Other { .. } => continue,
        };
        *place = join(place.take(), extra);
        return;
    }
}

pub(crate) fn boxed(object: Node<'_>, key: &str) -> Option<Box<str>> {
    object.get_str(key).map(Box::from)
}

/// Content in either form: a string is one text, a list is read block by block.
pub(crate) fn blocks(content: Node<'_>, texts: &Texts, block: fn(Node<'_>, &Texts) -> Block) -> Vec<Block> {
    match texts.text(content) {
        Some(text) => vec![Block::Text { text, extra: None }],
        None => content.items().map(|node| block(node, texts)).collect(),
    }
}

/// A value that is there and says something.
pub(crate) fn present<'d>(object: Node<'d>, key: &str) -> Option<Node<'d>> {
    object.get(key).filter(|value| value.kind() != Kind::Null)
}

/// A block of a kind that is not interpreted, as it was written.
pub(crate) fn other(kind: &str, value: Node<'_>) -> Block {
    Block::Other {
        kind: kind.into(),
        json: value.raw().into(),
    }
}

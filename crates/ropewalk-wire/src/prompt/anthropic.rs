//! Messages: what is kept is what `cache_control` marks, and everything before it.

use ropewalk_core::json::Node;

use super::{Caching, Lifetime, Part, Place, Prompt, file_bytes, settings, spelled, text_block};

/// They change how messages are put before the model, and so what was kept of messages is of no use.
const SETTINGS: [&str; 2] = ["tool_choice", "thinking"];

/// It says where to keep the prompt, not what is in it.
const MARK: &str = "cache_control";

pub(super) fn read(root: Node<'_>) -> Prompt {
    let mut parts = Vec::new();
    for tool in root.get("tools").into_iter().flat_map(|tools| tools.items()) {
        let name = tool.get_str("name").unwrap_or_default().into_owned();
        parts.push(marked(tool, Place::Tool { name }, spelled(tool, &[MARK])));
    }
    if let Some(system) = root.get("system") {
        let place = |number| Place::System { number };
        if system.is_string() {
            parts.push(Part::new(place(1), text_block("text", system), 0));
        }
        for (block, number) in system.items().zip(1..) {
            parts.push(marked(block, place(number), spelled(block, &[MARK])));
        }
    }
    for (message, number) in messages(root).zip(1..) {
        let role = message.get_str("role").unwrap_or_default();
        let place = |block| Place::Message {
            number,
            block,
            role: role.clone().into_owned(),
        };
        let Some(content) = message.get("content") else {
            continue;
        };
        if content.is_string() {
            parts.push(Part::new(place(1), text_block("text", content), 0));
        }
        for (block, at) in content.items().zip(1..) {
            parts.push(marked(block, place(at), said(block)));
        }
    }
    // A mark on the whole request goes along with its last block.
    if let (Some(lifetime), Some(last)) = (mark(root), parts.last_mut()) {
        last.breakpoint.get_or_insert(lifetime);
    }
    Prompt {
        caching: Caching::Asked,
        parts,
        settings: settings(root, &SETTINGS),
        cache_key: None,
        goes_on_elsewhere: false,
    }
}

fn messages<'d>(root: Node<'d>) -> impl Iterator<Item = Node<'d>> {
    root.get("messages").into_iter().flat_map(|messages| messages.items())
}

fn marked(node: Node<'_>, place: Place, text: String) -> Part {
    let files = file_bytes(node, &[&["source", "data"]]);
    Part {
        breakpoint: mark(node),
        ..Part::new(place, text, files)
    }
}

fn mark(node: Node<'_>) -> Option<Lifetime> {
    let mark = node.get(MARK).filter(|mark| mark.is_object())?;
    Some(match mark.get_str("ttl").as_deref() {
        Some("1h") => Lifetime::OneHour,
        _ => Lifetime::FiveMinutes,
    })
}

/// A result's content is the same as a string and as a block.
fn said(block: Node<'_>) -> String {
    let content = block.get("content").filter(|_| block.get("tool_use_id").is_some());
    let Some(content) = content else {
        return spelled(block, &[MARK]);
    };
    let inside: Vec<String> = match content.is_string() {
        true => vec![text_block("text", content)],
        false => content.items().map(|inner| spelled(inner, &[MARK])).collect(),
    };
    let around = spelled(block, &[MARK, "content"]);
    format!(
        "{{\"content\":[{}],{}",
        inside.join(","),
        around.trim_start_matches('{')
    )
}

//! Gemini: the provider keeps long prompts by itself.

use ropewalk_core::json::Node;

use super::{Caching, Lifetime, Part, Place, Prompt, file_bytes, settings, spelled};

/// Both spellings that the API takes.
fn either<'d>(node: Node<'d>, camel: &str, snake: &str) -> Option<Node<'d>> {
    node.get(camel).or_else(|| node.get(snake))
}

pub(super) fn read(root: Node<'_>) -> Prompt {
    let mut parts = Vec::new();
    for entry in root.get("tools").into_iter().flat_map(|tools| tools.items()) {
        let Some(declared) = either(entry, "functionDeclarations", "function_declarations") else {
            let name = entry.members().next().and_then(|(key, _)| key.to_text());
            let name = name.unwrap_or_default();
            parts.push(Part::new(Place::Tool { name }, spelled(entry, &[]), 0));
            continue;
        };
        for tool in declared.items() {
            let name = tool.get_str("name").unwrap_or_default().into_owned();
            parts.push(Part::new(Place::Tool { name }, spelled(tool, &[]), 0));
        }
    }
    let system = either(root, "systemInstruction", "system_instruction").and_then(|system| system.get("parts"));
    for (block, number) in system.into_iter().flat_map(|parts| parts.items()).zip(1..) {
        parts.push(Part::new(Place::System { number }, spelled(block, &[]), 0));
    }
    let contents = root.get("contents").into_iter().flat_map(|contents| contents.items());
    for (message, number) in contents.zip(1..) {
        let role = message.get_str("role").unwrap_or_default();
        let said = message.get("parts").into_iter().flat_map(|parts| parts.items());
        for (block, at) in said.zip(1..) {
            let role = role.clone().into_owned();
            let place = Place::Message {
                number,
                block: at,
                role,
            };
            let files = file_bytes(block, &[&["inlineData", "data"], &["inline_data", "data"]]);
            parts.push(Part::new(place, spelled(block, &[]), files));
        }
    }
    Prompt {
        caching: Caching::Automatic(Lifetime::FiveMinutes),
        parts,
        settings: settings(root, &["toolConfig", "tool_config"]),
        cache_key: None,
        goes_on_elsewhere: false,
    }
}

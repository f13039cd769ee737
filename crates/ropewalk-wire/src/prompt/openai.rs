//! Chat Completions and Responses: the provider keeps long prompts by itself.

use ropewalk_core::json::Node;

use super::{Caching, Lifetime, Part, Place, Prompt, file_bytes, settings, spelled, text_block};

/// Ids of replayed items and their state: the model does not see them.
const UNSEEN: [&str; 2] = ["id", "status"];

/// Where bytes of files stand.
const FILES: [&[&str]; 5] = [
    &["image_url", "url"],
    &["image_url"],
    &["input_audio", "data"],
    &["file", "file_data"],
    &["file_data"],
];

pub(super) fn read_chat(root: Node<'_>) -> Prompt {
    let mut found = Found::default();
    for tool in items(root, "tools") {
        found.tool(tool);
    }
    for (message, number) in items(root, "messages").zip(1..) {
        let role = message.get_str("role").unwrap_or_default();
        found.message(message, &role, number);
    }
    found.prompt(root, &["response_format", "reasoning_effort"])
}

pub(super) fn read_responses(root: Node<'_>) -> Prompt {
    let mut found = Found::default();
    for tool in items(root, "tools") {
        found.tool(tool);
    }
    if let Some(instructions) = root.get("instructions").filter(|text| text.is_string()) {
        found.system(text_block("input_text", instructions));
    }
    if let Some(input) = root.get("input").filter(|input| input.is_string()) {
        found.said("user", 1, 1, text_block("input_text", input), 0);
    }
    for (item, number) in items(root, "input").zip(1..) {
        match (item.get_str("type").as_deref(), item.get_str("role")) {
            (Some("additional_tools"), _) => item
                .get("tools")
                .into_iter()
                .flat_map(|tools| tools.items())
                .for_each(|tool| found.tool(tool)),
            (Some("message") | None, Some(role)) => found.message(item, &role, number),
            (kind, _) => {
                let kind = kind.unwrap_or_default();
                found.said(kind, number, 1, spelled(item, &UNSEEN), file_bytes(item, &FILES));
            }
        }
    }
    let mut prompt = found.prompt(root, &["text", "reasoning"]);
    prompt.goes_on_elsewhere = root.get("previous_response_id").is_some_and(|id| id.is_string());
    prompt
}

#[derive(Default)]
struct Found {
    tools: Vec<Part>,
    system: Vec<Part>,
    messages: Vec<Part>,
}

impl Found {
    fn tool(&mut self, tool: Node<'_>) {
        let function = tool.get("function").unwrap_or(tool);
        let name = function.get_str("name").or_else(|| tool.get_str("type"));
        let name = name.unwrap_or_default().into_owned();
        self.tools.push(Part::new(Place::Tool { name }, spelled(tool, &[]), 0));
    }

    fn system(&mut self, text: String) {
        let number = self.system.len() + 1;
        self.system.push(Part::new(Place::System { number }, text, 0));
    }

    fn said(&mut self, role: &str, number: usize, block: usize, text: String, files: usize) {
        let role = role.to_owned();
        let place = Place::Message { number, block, role };
        self.messages.push(Part::new(place, text, files));
    }

    fn message(&mut self, message: Node<'_>, role: &str, number: usize) {
        // What is said before the conversation begins is the system prompt; later it is a message like any other.
        let is_system = matches!(role, "system" | "developer") && self.messages.is_empty();
        let around = spelled(message, &["id", "status", "content", "role", "type"]);
        let mut texts = Vec::new();
        if let Some(content) = message.get("content") {
            if content.is_string() {
                texts.push((text_block("text", content), 0));
            }
            for block in content.items() {
                let text = match block.get("text").filter(|text| text.is_string()) {
                    Some(text) => text_block("text", text),
                    None => spelled(block, &[]),
                };
                texts.push((text, file_bytes(block, &FILES)));
            }
        }
        // Tool calls, names and whatever else stands beside the content.
        if around != "{}" {
            texts.push((around, 0));
        }
        for ((text, files), block) in texts.into_iter().zip(1..) {
            match is_system {
                true => self.system(text),
                false => self.said(role, number, block, text, files),
            }
        }
    }

    fn prompt(self, root: Node<'_>, names: &[&str]) -> Prompt {
        let lifetime = match root.get_str("prompt_cache_retention").as_deref() {
            Some("24h") => Lifetime::OneDay,
            _ => Lifetime::FiveMinutes,
        };
        let parts = self.tools.into_iter().chain(self.system).chain(self.messages);
        Prompt {
            caching: Caching::Automatic(lifetime),
            parts: parts.collect(),
            settings: settings(root, names),
            cache_key: root.get_str("prompt_cache_key").map(|key| key.into_owned()),
            goes_on_elsewhere: false,
        }
    }
}

fn items<'d>(root: Node<'d>, name: &str) -> impl Iterator<Item = Node<'d>> + use<'d> {
    root.get(name).into_iter().flat_map(|list| list.items())
}

//! Which member means what in which format, and a request put together from them.

use std::sync::Arc;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, ChainStart, Message, Provider, Request, Role};
use ropewalk_core::shared_list::SharedList;

use crate::body::{Member, Said, Section};
use crate::cut::Texts;
use crate::members::other;
use crate::{anthropic, chat, gemini, responses};

/// The arrays whose elements are read one by one.
pub(crate) fn section(provider: Provider, key: &str) -> Option<Section> {
    match (provider, key) {
        (Provider::Anthropic | Provider::OpenAiChat, "messages")
        | (Provider::OpenAiResponses, "input")
        | (Provider::Gemini, "contents") => Some(Section::Messages),
        (Provider::Anthropic, "system") => Some(Section::System),
        (_, "tools") => Some(Section::Tools),
        _ => None,
    }
}

/// One element of a section.
pub(crate) fn element(provider: Provider, section: Section, node: Node<'_>, texts: &Texts) -> Said {
    match section {
        Section::Messages => message(provider, node, texts),
        Section::System => Said::System(vec![Arc::new(anthropic::block(node, texts))]),
        Section::Tools => tools(provider, node),
    }
}

fn message(provider: Provider, node: Node<'_>, texts: &Texts) -> Said {
    let message = match provider {
        Provider::Anthropic => anthropic::message(node, texts),
        Provider::OpenAiChat => chat::message(node, texts),
        Provider::OpenAiResponses if node.get("type").is_some_and(|kind| kind.is("additional_tools")) => {
            return tools(provider, node);
        }
        Provider::OpenAiResponses => Some(responses::message(node, texts)),
        Provider::Gemini => Some(gemini::message(node, texts)),
    };
    match message {
        Some(message) => Said::Message(Arc::new(message)),
        // No message we know, but it stands where one should: it counts as what was said there.
        None => Said::Message(Arc::new(unknown_message(node))),
    }
}

fn unknown_message(node: Node<'_>) -> Message {
    Message {
        role: Role::User,
        is_string: false,
        blocks: vec![other(&node.get_str("role").unwrap_or_default(), node)],
        extra: None,
    }
}

fn tools(provider: Provider, node: Node<'_>) -> Said {
    let mut found = Vec::new();
    match provider {
        Provider::Anthropic => found.push(Arc::new(anthropic::tool(node))),
        Provider::OpenAiChat | Provider::OpenAiResponses => chat::tools(node, &mut found),
        Provider::Gemini => gemini::tools(node, &mut found),
    }
    Said::Tools(found)
}

/// A top-level member that is no section.
pub(crate) fn member(provider: Provider, key: &str, node: Node<'_>, texts: &Texts) -> Said {
    let text_block = |text| vec![Arc::new(Block::Text { text, extra: None })];
    match (provider, key) {
        (Provider::Anthropic, "system") | (Provider::OpenAiResponses, "instructions") => {
            Said::System(texts.text(node).map(text_block).unwrap_or_default())
        }
        (Provider::OpenAiResponses, "input") => match texts.text(node) {
            Some(text) => Said::Message(Arc::new(Message {
                role: Role::User,
                is_string: true,
                blocks: vec![Block::Text { text, extra: None }],
                extra: None,
            })),
            None => Said::Option(node.raw().into()),
        },
        (Provider::Gemini, "systemInstruction" | "system_instruction") => {
            Said::System(gemini::parts(node, texts).into_iter().map(Arc::new).collect())
        }
        _ => Said::Option(node.raw().into()),
    }
}

/// Puts the members together. Of members with the same name only the last counts.
pub(crate) fn request(provider: Provider, members: &[Member]) -> Request {
    let mut request = Request {
        provider,
        model: None,
        stream: false,
        start: ChainStart::Root,
        system: Vec::new(),
        tools: Vec::new(),
        messages: SharedList::default(),
        options: Vec::new(),
    };
    for member in members.iter().filter(|member| !member.is_shadowed) {
        take_member(&mut request, member);
    }
    if takes_leading_system(provider) {
        leading_system(&mut request);
    }
    request
}

fn take_member(request: &mut Request, member: &Member) {
    for held in &member.held {
        match &held.element.said {
            Said::Message(message) => request.messages.push(Arc::clone(message)),
            Said::System(blocks) => request.system.extend(blocks.iter().cloned()),
            Said::Tools(tools) => request.tools.extend(tools.iter().cloned()),
            Said::Option(json) => take_option(request, &member.key, json),
        }
    }
}

fn take_option(request: &mut Request, key: &str, json: &str) {
    let string = || Doc::parse_str(json).ok().and_then(|doc| doc.root().to_text());
    match key {
        "model" => request.model = string().map(Into::into),
        "stream" => request.stream = json == "true",
        "previous_response_id" if request.provider == Provider::OpenAiResponses => {
            request.start = string().map_or(ChainStart::Root, |id| ChainStart::Previous(id.into()));
        }
        _ => {}
    }
    if !matches!(key, "model" | "stream") {
        request.options.push((key.into(), json.into()));
    }
}

/// What a message says that is part of the system prompt.
pub(crate) fn system_blocks(message: &Message) -> impl Iterator<Item = Arc<Block>> {
    message.blocks.iter().cloned().map(Arc::new)
}

/// Whether system and developer messages before the first other one are the system prompt.
pub(crate) fn takes_leading_system(provider: Provider) -> bool {
    matches!(provider, Provider::OpenAiChat | Provider::OpenAiResponses)
}

fn leading_system(request: &mut Request) {
    let count = request
        .messages
        .iter()
        .take_while(|message| message.role == Role::System)
        .count();
    if count == 0 {
        return;
    }
    let messages = std::mem::take(&mut request.messages);
    for message in messages.range(..count) {
        request.system.extend(system_blocks(message));
    }
    request.messages = messages.range(count..).cloned().collect();
}

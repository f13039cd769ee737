//! What linking looks an exchange up by.
//!
//! Every key is 32 bytes. Keys of the request (session, agent) are known from its start, keys of the answer from its end;
//! [`KeyKind::is_of_answer`] says which is which. The functions here are also how linking makes the keys it asks for.

use std::collections::BTreeSet;

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, sha256};
use ropewalk_core::model::{Block, ChainStart, Provider, Request, Response, Role, ToolContent};
use ropewalk_core::normalise::normalise;
use ropewalk_core::projections::{Projections, first_user_text};
use ropewalk_store::facts::{HashKind, Key, KeyKind};
use ropewalk_wire::auxiliary::RequestKind;
use ropewalk_wire::hints::Hints;

use crate::detail::word;
use crate::link::outline::Outline;
use crate::spawn::{self, SpawnTools};

/// Shortest assistant text that anchors a rewritten history: shorter ones are said in many conversations.
pub const ANCHOR_CHARS_MIN: usize = 100;

/// Shortest summary that is looked up, for the same reason.
pub const SUMMARY_CHARS_MIN: usize = 100;

/// How much of a summary counts. The first 200 characters of summaries collide between sessions; 2,000 do not.
pub const SUMMARY_CHARS_MAX: usize = 2_000;

/// The key of a client's session, agent or thread id, or of a provider's id.
pub fn id_key(kind: KeyKind, id: &str) -> Key {
    Key::short(kind, sha256(id.as_bytes()))
}

/// The key of a summary: of what stands between `<summary>` and `</summary>` where there is such a span, normalised, its
/// beginning. `None` for one that is too short to tell conversations apart.
pub fn summary_key(text: &str) -> Option<Key> {
    let inside = text.split_once("<summary>").map_or(text, |(_, behind)| {
        behind.split_once("</summary>").map_or(behind, |(inside, _)| inside)
    });
    let normal = normalise(inside);
    normal.char_indices().nth(SUMMARY_CHARS_MIN - 1)?;
    let end = normal.char_indices().nth(SUMMARY_CHARS_MAX);
    let start = end.map_or(&*normal, |(end, _)| &normal[..end]);
    Some(Key {
        kind: KeyKind::Summary,
        hash: sha256(start.as_bytes()),
    })
}

/// The key of an assistant block that can anchor a history: a tool call with an id, or a long text.
pub fn anchor_key(block: &Block) -> Option<Key> {
    let is_anchor = match block {
        Block::ToolUse(call) => call.id.is_some(),
        Block::Text { text, .. } => normalise(text).char_indices().nth(ANCHOR_CHARS_MIN - 1).is_some(),
        _ => false,
    };
    let value = chain::value(Role::Assistant, block, &|_| None).filter(|_| is_anchor)?;
    Some(Key::short(KeyKind::Anchor, value.0))
}

/// The key of a client's version, as in `claude-code/2.1.197`.
pub fn client_key(client_version: &str) -> Key {
    id_key(KeyKind::Client, client_version)
}

/// The keys of what the client says about itself.
pub(crate) fn of_hints(hints: &Hints) -> impl Iterator<Item = Key> {
    let session = hints
        .session
        .as_ref()
        .map(|session| id_key(KeyKind::Session, &session.id));
    // A main agent has no id but its session's. By the session alone it is not found again behind many calls of its subagents.
    let is_main = hints.agent.is_none() && hints.thread.is_none();
    let main = hints.session.iter().map(|session| &session.id).filter(move |_| is_main);
    let agents = [&hints.agent, &hints.thread].into_iter().flatten().chain(main);
    let agents = agents.map(|id| id_key(KeyKind::Agent, id));
    let client = hints.client.as_ref().and_then(|client| {
        let version = client.version.as_deref()?;
        Some(client_key(&format!("{}/{version}", client.kind.name())))
    });
    session.into_iter().chain(agents).chain(client)
}

/// What a call that starts an agent in the background is answered with at once. The agent is still to come.
const STARTED_IN_BACKGROUND: &str = "Async agent launched";

/// The keys of a request's content: how it opens, what it answers, what it goes on from.
pub(crate) fn of_request(request: &Request, outline: &Outline, kind: RequestKind, tools: &SpawnTools) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    if !request.messages.iter().any(|message| message.role == Role::Assistant) {
        keys.extend(openings(request, kind));
    }
    keys.extend(call_results(request, tools).map(|id| id_key(KeyKind::CallResult, id)));
    keys.extend(reference(request, outline));
    keys
}

/// The first prompt: all of the first message, or the last text of the last one where a client puts something in front. A call
/// that quotes a session opens like the session.
fn openings(request: &Request, kind: RequestKind) -> impl Iterator<Item = Key> {
    let users = request.messages.iter().filter(|message| message.role == Role::User);
    let last = users.clone().next_back().and_then(|message| {
        message.blocks.iter().rev().find_map(|block| match block {
            Block::Text { text, .. } => Some(text.to_string()),
            _ => None,
        })
    });
    let mut texts: Vec<String> = first_user_text(request).into_iter().chain(last).collect();
    if kind == RequestKind::Title {
        for text in &mut texts {
            let inside = text
                .trim()
                .strip_prefix("<session>")
                .and_then(|text| text.strip_suffix("</session>"));
            if let Some(inside) = inside.map(str::to_owned) {
                *text = inside;
            }
        }
    }
    // Mostly there is but one.
    texts.dedup();
    texts.into_iter().filter_map(|text| {
        let hash = spawn::prompt_hash(&text)?;
        Some(Key {
            kind: KeyKind::Opening,
            hash,
        })
    })
}

/// Spawning calls whose results stand behind the last answer.
fn call_results<'r>(request: &'r Request, tools: &SpawnTools) -> impl Iterator<Item = &'r str> {
    let last_answer = request
        .messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let answered = last_answer.map_or(0, |at| at + 1);
    let results = request
        .messages
        .range(answered..)
        .flat_map(|message| &message.blocks)
        .filter_map(|block| match block {
            Block::ToolResult(result) if !is_started_in_background(&result.content) => result.tool_use_id.as_deref(),
            _ => None,
        });
    let results: Vec<&str> = results.collect();
    let mut calls = Vec::new();
    if !results.is_empty() {
        // The calls stand in the answers right before; one turn may be spread over several messages.
        let before = request.messages.range(..answered).rev();
        let answers = before.take_while(|message| message.role != Role::User);
        for message in answers {
            let spawning = tools
                .calls(&message.blocks)
                .into_iter()
                .filter_map(|call| call.tool_use_id);
            calls.extend(spawning.filter_map(|id| results.iter().copied().find(|result| *result == &*id)));
        }
    }
    calls.into_iter()
}

fn is_started_in_background(content: &ToolContent) -> bool {
    match content {
        ToolContent::Absent => false,
        ToolContent::Text(text) => text.trim_start().starts_with(STARTED_IN_BACKGROUND),
        ToolContent::Blocks { blocks, .. } => blocks.iter().any(|block| match block {
            Block::Text { text, .. } => text.trim_start().starts_with(STARTED_IN_BACKGROUND),
            _ => false,
        }),
    }
}

/// The answer that it names as the one before it, else the last item that it names.
fn reference(request: &Request, outline: &Outline) -> Option<Key> {
    if let ChainStart::Previous(id) = &request.start {
        return Some(id_key(KeyKind::Reference, id));
    }
    let (_, item) = outline.references().next()?;
    Some(Key {
        kind: KeyKind::Reference,
        hash: item.hash,
    })
}

/// The keys of an answer.
pub(crate) fn of_answer(answer: &Response, is_compaction: bool, tools: &SpawnTools) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    let ids = answer.id.iter().chain(answer.item_ids.iter().map(|(id, _)| id));
    keys.extend(ids.map(|id| id_key(KeyKind::Item, id)));
    for call in tools.calls(&answer.blocks) {
        let prompt = call.prompt.as_deref().and_then(spawn::prompt_hash);
        keys.extend(prompt.map(|hash| Key {
            kind: KeyKind::SpawnPrompt,
            hash,
        }));
        keys.extend(call.name.map(|name| id_key(KeyKind::SpawnName, &word(&name))));
    }
    keys.extend(answer.blocks.iter().filter_map(anchor_key));
    if is_compaction && answer.complete && answer.error.is_none() {
        let texts = answer.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(&**text),
            _ => None,
        });
        keys.extend(summary_key(&texts.collect::<Vec<_>>().concat()));
    }
    keys
}

/// The keys of a call that was answered, from the provider's ids. Where the provider names the call beside the answer, both count:
/// some gateways give the same name to many answers. A log may have the answer's name alone; then an answer of that name at the same
/// place of the same conversation is the same.
pub fn call_keys(
    provider: Provider,
    answer: &Response,
    request_id: Option<&str>,
    output: Option<NodeHash>,
) -> impl Iterator<Item = Key> {
    let id = answer.id.as_deref();
    let names_calls = provider == Provider::Anthropic;
    let request_id = request_id.filter(|_| names_calls).unwrap_or_default();
    let named = id.map(|id| id_key(KeyKind::Call, &format!("{id}\0{request_id}")));
    let placed = id.zip(output).filter(|_| names_calls);
    let placed = placed.map(|(id, output)| id_key(KeyKind::Call, &format!("{id}\0\0{output}")));
    named.into_iter().chain(placed)
}

/// Every projection that there is, as bytes.
pub(crate) fn hashes(projections: &Projections) -> Vec<(HashKind, Vec<u8>)> {
    let all = [
        (HashKind::Message, projections.message_hash.as_deref()),
        (HashKind::CurrentMessage, projections.current_message_hash.as_deref()),
        (HashKind::ParentMessage, projections.parent_message_hash.as_deref()),
        (HashKind::System, Some(&*projections.system_hash)),
        (HashKind::SystemRaw, Some(&*projections.system_raw_hash)),
        (HashKind::Toolset, Some(&*projections.toolset_hash)),
        (HashKind::Tools, Some(&*projections.tools_hash)),
        (HashKind::AgentType, Some(&*projections.agent_type_hash)),
        (HashKind::FirstUser, Some(&*projections.first_user_hash)),
        (HashKind::FirstResponse, projections.first_response_hash.as_deref()),
        (HashKind::Conversation, projections.conversation_hash.as_deref()),
        (HashKind::Prompt, Some(&*projections.prompt_hash)),
        (HashKind::Response, projections.response_hash.as_deref()),
        (HashKind::Path, Some(&*projections.path_hash)),
    ];
    let present = all.into_iter().filter_map(|(kind, digits)| {
        let digits = digits?;
        let mut hash = vec![0; digits.len() / 2];
        hex::decode_to_slice(digits, &mut hash).ok()?;
        Some((kind, hash))
    });
    present.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_by_the_beginning_of_its_inside() {
        let inside = "what was done and why ".repeat(200);
        let whole = format!("<analysis>thoughts</analysis>\n<summary>\n{inside}</summary>\nbye");
        assert_eq!(summary_key(&whole), summary_key(&inside));
        let start: String = inside.chars().take(SUMMARY_CHARS_MAX).collect();
        assert_eq!(summary_key(&whole).unwrap().hash, sha256(start.as_bytes()));
        assert_eq!(summary_key(&format!("<summary>{inside}")), summary_key(&whole));
    }

    #[test]
    fn a_short_summary_is_no_key() {
        assert!(summary_key(&"é".repeat(99)).is_none());
        assert!(summary_key(&"é".repeat(100)).is_some());
        assert!(summary_key(&format!("<summary>short</summary>{}", "x".repeat(500))).is_none());
    }

    #[test]
    fn short_texts_anchor_nothing() {
        let text = |length: usize| Block::Text {
            text: "x".repeat(length).into(),
            extra: None,
        };
        assert!(anchor_key(&text(99)).is_none());
        assert!(anchor_key(&text(100)).is_some());
    }
}

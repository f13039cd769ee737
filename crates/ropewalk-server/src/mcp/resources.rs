//! Conversations and messages by address.

use percent_encoding::percent_decode_str;
use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use ropewalk_engine::view::ConversationView;
use ropewalk_store::Store;

use crate::bounds::{to_json, visible};
use crate::problem::Problem;
use crate::read::conversations::{ListConversations, conversations};
use crate::read::messages::{ReadMessages, read_messages};
use crate::source::Owned;

const CONVERSATION: &str = "ropewalk://conversation/";
const MESSAGE: &str = "ropewalk://message/";
const JSON: &str = "application/json";

/// Resources on a page.
const LISTED: usize = 50;

/// Of a conversation, its newest messages; of a message, as much as an answer may have.
const MESSAGES: usize = 100;
const MESSAGE_CHARS: usize = 50_000;

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{CONVERSATION}{{friendly_id}}"), "conversation")
            .with_description("The newest messages of a conversation; `read_messages` has the others.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{MESSAGE}{{reference}}"), "message")
            .with_description("One message by its reference, without the @: conversation_…_message_….")
            .with_mime_type(JSON),
    ]
}

pub(super) async fn list<S: Store>(owned: &Owned<S>, cursor: Option<String>) -> Result<ListResourcesResult, Problem> {
    let asked = ListConversations {
        limit: Some(LISTED),
        cursor,
        ..ListConversations::default()
    };
    let listed = conversations(owned, &asked).await?;
    let resources = listed.conversations.iter().map(resource).collect();
    let mut page = ListResourcesResult::with_all_items(resources);
    page.next_cursor = listed.next_cursor;
    Ok(page)
}

fn resource(conversation: &ConversationView) -> Resource {
    let id = conversation
        .friendly_id
        .as_ref()
        .unwrap_or(&conversation.conversation_id);
    let title = conversation.title.as_deref().unwrap_or(id);
    Resource::new(format!("{CONVERSATION}{id}"), id)
        .with_title(visible(title))
        .with_description(format!(
            "{} turns, last at {}",
            conversation.turns, conversation.last_at
        ))
        .with_mime_type(JSON)
}

pub(super) async fn read<S: Store>(owned: &Owned<S>, uri: &str) -> Result<ReadResourceResult, Problem> {
    let unknown = || Problem::not_found(uri);
    let (name, is_message) = match (uri.strip_prefix(CONVERSATION), uri.strip_prefix(MESSAGE)) {
        (Some(name), _) => (name, false),
        (_, Some(reference)) => (reference, true),
        _ => return Err(unknown()),
    };
    let name = percent_decode_str(name).decode_utf8().map_err(|_| unknown())?;
    let asked = ReadMessages {
        name: match is_message {
            true => format!("@{}", name.strip_prefix('@').unwrap_or(&name)),
            false => name.into_owned(),
        },
        from_end: true,
        limit: Some(MESSAGES),
        max_chars: is_message.then_some(MESSAGE_CHARS),
        ..ReadMessages::default()
    };
    let page = read_messages(owned, &asked).await?;
    let contents = ResourceContents::text(to_json(&page), uri).with_mime_type(JSON);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// What a client is told; what another has is not there.
pub(super) fn error(problem: Problem) -> ErrorData {
    match problem.kind {
        "not_found" => ErrorData::resource_not_found(problem.message, None),
        "internal" | "unavailable" => ErrorData::internal_error(problem.message, None),
        _ => ErrorData::invalid_params(problem.message, None),
    }
}

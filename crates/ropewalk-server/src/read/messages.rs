//! What was said: a conversation along its active path, an exchange, or one message.

use rmcp::schemars::{self, JsonSchema};
use ropewalk_engine::view::{MessageView, Target, View};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};

use super::bounded;
use crate::bounds::{self, SAID_CHARS_MAX, cut};
use crate::problem::Problem;
use crate::source::Owned;

const MESSAGES: usize = 20;
const MESSAGES_MAX: usize = 100;

/// Characters of one message.
const CHARS: usize = 4_000;
const CHARS_MAX: usize = 50_000;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMessages {
    /// What to read: a conversation by its friendly id or id (its active path), an exchange by its id (its request and answer), or one
    /// message by its reference, as in @conversation_react_optimization_83p6_message_m1hn4w.
    pub name: String,
    /// Begin with the newest messages; `previous_cursor` then leads back.
    #[serde(default)]
    pub from_end: bool,
    /// Leave out results of tools, which are often long.
    #[serde(default)]
    pub without_tool_results: bool,
    /// Messages on a page: 20 unless you say, 100 at most.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Characters of each message: 4000 unless you say, 50000 at most. What was cut is counted in `chars_left_out`.
    #[serde(default)]
    pub max_chars: Option<usize>,
    /// Characters of each message to leave out at its beginning, to read on in a long one.
    #[serde(default)]
    pub skip_chars: Option<usize>,
    /// `next_cursor` or `previous_cursor` of another page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Only what was known then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub as_of: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct MessagesPage {
    pub conversation_id: Option<String>,
    pub friendly_id: Option<String>,
    pub title: Option<String>,
    pub messages: Vec<ShownMessage>,
    /// Of all pages together.
    pub total: usize,
    pub next_cursor: Option<String>,
    pub previous_cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct ShownMessage {
    pub index: Option<usize>,
    /// What to write into a prompt to quote it.
    pub reference: Option<String>,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub content: String,
    /// Characters behind these.
    pub chars_left_out: usize,
    pub timestamp: Option<String>,
    pub model: Option<String>,
    pub branch_id: Option<String>,
    pub exchange_id: Option<String>,
}

pub async fn read_messages<S: Store>(owned: &Owned<S>, asked: &ReadMessages) -> Result<MessagesPage, Problem> {
    let view = owned.view_to_find(&asked.name)?;
    let (root, mut messages) = named(&view, &asked.name).await?;
    let conversation = match root {
        Some(root) => view.find_conversation(root).await?,
        None => None,
    };
    if asked.without_tool_results {
        messages.retain(|message| message.kind != "tool_result");
    }
    let total = messages.len();
    let page = Page::of(&messages, asked)?;
    let shown = &messages[page.start..page.end];
    let (friendly_id, conversation_id, title) = match conversation {
        Some(known) => (known.friendly_id, Some(known.conversation_id), known.title),
        None => (None, None, None),
    };
    Ok(MessagesPage {
        conversation_id,
        friendly_id,
        title: bounds::title(title),
        messages: shown.iter().map(|message| page.shown(message)).collect(),
        total,
        next_cursor: cursor("after", shown.last()).filter(|_| page.end < total),
        previous_cursor: cursor("before", shown.first()).filter(|_| page.start > 0),
    })
}

pub(super) type Named = (Option<ropewalk_store::facts::ExchangeNumber>, Vec<MessageView>);

pub(super) async fn named<S: Store>(view: &View<'_, S>, name: &str) -> Result<Named, Problem> {
    Ok(match view.resolve(name).await? {
        Target::Conversation(row) => (Some(row.root), view.messages(row.root).await?),
        Target::Exchange(row) => {
            let link = view.find_link(row.number).await?;
            (link.map(|link| link.conversation), view.messages_of(&row).await?)
        }
        Target::Message(message) => {
            let all = view.messages_of(&message.row).await?;
            let is_it = |said: &MessageView| said.short_hash == message.short_hash && said.content == message.text;
            let mut said: Vec<MessageView> = all.into_iter().filter(is_it).collect();
            for said in &mut said {
                said.index = usize::try_from(message.index).ok().filter(|index| *index > 0);
            }
            (Some(message.conversation), said)
        }
    })
}

/// Which messages are shown, and how much of each.
struct Page {
    start: usize,
    end: usize,
    skip: usize,
    chars: usize,
}

impl Page {
    fn of(messages: &[MessageView], asked: &ReadMessages) -> Result<Self, Problem> {
        let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
        let mut page = Page {
            start: 0,
            end: 0,
            skip: asked.skip_chars.unwrap_or(0),
            chars: bounded(asked.max_chars, CHARS, CHARS_MAX),
        };
        let (from, is_forward) = place(messages, asked)?;
        let mut left = SAID_CHARS_MAX;
        let mut fits = |message: &MessageView| {
            let chars = message.content.chars().skip(page.skip).take(page.chars).count();
            left.checked_sub(chars).map(|rest| left = rest).is_some()
        };
        // One message always fits.
        if is_forward {
            let taken = messages[from..].iter().take(limit).take_while(|message| fits(message));
            (page.start, page.end) = (from, from + taken.count());
        } else {
            let taken = messages[..from].iter().rev().take(limit);
            let count = taken.take_while(|message| fits(message)).count();
            (page.start, page.end) = (from - count, from);
        }
        Ok(page)
    }

    fn shown(&self, message: &MessageView) -> ShownMessage {
        let (content, chars_left_out) = cut(&message.content, self.skip, self.chars);
        ShownMessage {
            index: message.index,
            reference: message.reference.clone(),
            kind: message.kind,
            content,
            chars_left_out,
            timestamp: message.timestamp.clone(),
            model: message.model.clone(),
            branch_id: message.branch.id.clone(),
            exchange_id: message.exchange_id.clone(),
        }
    }
}

/// Where a page begins, and whether it goes on from there or leads there.
fn place(messages: &[MessageView], asked: &ReadMessages) -> Result<(usize, bool), Problem> {
    let Some(cursor) = &asked.cursor else {
        return Ok(match asked.from_end {
            true => (messages.len(), false),
            false => (0, true),
        });
    };
    let (side, uuid) = cursor.split_once('.').ok_or_else(Problem::bad_cursor)?;
    let at = messages.iter().position(|message| message.uuid == uuid);
    // A conversation that went on in another branch has other messages.
    let at = at.ok_or_else(Problem::bad_cursor)?;
    match side {
        "after" => Ok((at + 1, true)),
        "before" => Ok((at, false)),
        _ => Err(Problem::bad_cursor()),
    }
}

fn cursor(side: &str, message: Option<&MessageView>) -> Option<String> {
    message.map(|message| format!("{side}.{}", message.uuid))
}

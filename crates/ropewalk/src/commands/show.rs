//! `ropewalk show`: a conversation, an exchange, or the bytes that were recorded.

use std::borrow::Cow;

use ropewalk_engine::view::{Context as Changed, ContextChange, ExchangeView, MessageView, Target, View, usd};
use ropewalk_store::Store as _;
use ropewalk_store::store::{ExchangeRow, Half};

use super::log::exchange_line;
use super::{show_answers, show_tree};
use crate::any_store::AnyStore;
use crate::cli::{RawHalf, Show};
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::dollars;
use crate::print::out::Out;
use crate::print::text::{lines, one_line, padded};
use crate::print::time;

pub(crate) async fn run(context: &Context, arguments: &Show) -> Result<(), Failure> {
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    if let Some(half) = arguments.raw {
        let mut out = Out::new();
        let row = view.resolve_exchange(&arguments.reference).await?;
        raw(&view, &row, half, &mut out).await?;
        return out.finish();
    }
    let mut out = context.out();
    if arguments.answers {
        let row = view.resolve_exchange(&arguments.reference).await?;
        show_answers::run(context, &view.answers_to(&row).await?, &mut out)?;
        return out.finish();
    }
    if arguments.tree {
        show_tree::run(context, &view, arguments, &mut out).await?;
        return out.finish();
    }
    match view.resolve(&arguments.reference).await? {
        Target::Conversation(row) => {
            let messages = view.messages(row.root).await?;
            if !context.json {
                let conversation = view.conversation(&row).await?;
                let title = one_line(conversation.title.as_deref().unwrap_or("(no words)"));
                let title = out.strong(&title);
                out.line(&title)?;
                let id = match &conversation.friendly_id {
                    Some(friendly_id) => format!("{friendly_id}  {}", conversation.conversation_id),
                    None => conversation.conversation_id,
                };
                let id = out.faint(&id);
                out.line(&id)?;
            }
            print(context, &messages, &mut out)?;
            if !context.json {
                context_changes(&view.context_changes(row.root).await?, &mut out)?;
            }
        }
        Target::Message(message) => {
            let messages = view.messages_of(&message.row).await?;
            let is_it = |shown: &MessageView| shown.short_hash == message.short_hash && shown.content == message.text;
            let named: Vec<MessageView> = messages.into_iter().filter(is_it).collect();
            print(context, &named, &mut out)?;
        }
        Target::Exchange(row) => {
            let exchange = view.exchange(&row).await?;
            if context.json {
                let messages = view.messages_of(&row).await?;
                out.json(&serde_json::json!({"v": 1, "exchange": exchange, "messages": messages}))?;
            } else {
                facts(&exchange, &mut out)?;
                print(context, &view.messages_of(&row).await?, &mut out)?;
            }
        }
    }
    out.finish()
}

/// What changed around the conversation: it did not break it, and may explain it.
fn context_changes(changes: &[ContextChange], out: &mut Out) -> Result<(), Failure> {
    let counting = changes
        .iter()
        .filter(|change| change.what != Changed::SystemPromptNoise);
    for (index, change) in counting.enumerate() {
        if index == 0 {
            out.line("")?;
        }
        let what = match change.what {
            Changed::Tools => "tools",
            Changed::SystemPrompt | Changed::SystemPromptNoise => "system prompt",
        };
        let mut line = format!(
            "── {what} changed with {}: about {} tokens, {} before",
            one_line(&change.exchange_id),
            change.tokens_after,
            change.tokens_before
        );
        for (word, names) in [("new", &change.tools_added), ("gone", &change.tools_removed)] {
            if !names.is_empty() {
                line.push_str(&format!(", {word}: {}", one_line(&names.join(", "))));
            }
        }
        let line = out.faint(&line);
        out.line(&line)?;
    }
    Ok(())
}

async fn raw(view: &View<'_, AnyStore>, row: &ExchangeRow, half: RawHalf, out: &mut Out) -> Result<(), Failure> {
    let half = match half {
        RawHalf::Request => Half::Request,
        RawHalf::Sent => Half::Sent,
        RawHalf::Response => Half::Response,
    };
    let bytes = view.store.body(view.owner, row.number, half).await?;
    match bytes {
        Some(bytes) => out.bytes(&bytes),
        None => Err(no_bytes(row, half)),
    }
}

fn no_bytes(row: &ExchangeRow, half: Half) -> Failure {
    let id = &row.id;
    let (message, hint) = match (half, &row.hole) {
        (Half::Request, Some(hole)) if !hole.has_request => (format!("the request of `{id}` was forgotten"), FORGOTTEN),
        (Half::Response, Some(hole)) if !hole.has_response => {
            (format!("the response of `{id}` was forgotten"), FORGOTTEN)
        }
        (Half::Sent, _) => (
            format!("exchange `{id}` was sent as it came"),
            "--raw request has the bytes",
        ),
        (Half::Request, _) => (format!("exchange `{id}` has no recorded request"), METADATA_ONLY),
        (Half::Response, _) => (format!("exchange `{id}` has no recorded response"), METADATA_ONLY),
    };
    Failure::new(Kind::NotFound, message).hint(hint)
}

const FORGOTTEN: &str = "hashes, links, usage and cost are still there: `ropewalk show` without --raw";
const METADATA_ONLY: &str =
    "it may not have ended, or no bodies were recorded: `ropewalk show` without --raw says more";

fn facts(exchange: &ExchangeView, out: &mut Out) -> Result<(), Failure> {
    let title = format!("{}  {}", out.name(&one_line(&exchange.id)), exchange_line(exchange));
    out.line(&title)?;
    let facts = [
        ("at", Some(time::local(&exchange.at))),
        ("conversation", exchange.conversation_id.clone()),
        ("friendly id", exchange.friendly_id.clone()),
        ("follows", exchange.parent_exchange_id.clone()),
        ("session", exchange.session.clone()),
        ("reused from", exchange.reused_from.clone()),
        ("saved", exchange.saved.map(|saved| dollars(usd(saved.cost_nano_usd)))),
        ("linked", Some(format!("it {}", exchange.link.reason))),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            out.line(&format!("  {} {}", padded(name, 22), one_line(&value)))?;
        }
    }
    for (name, hash) in exchange.hashes() {
        let line = format!("  {} {}", padded(name, 22), hash);
        let line = out.faint(&line);
        out.line(&line)?;
    }
    Ok(())
}

fn print(context: &Context, messages: &[MessageView], out: &mut Out) -> Result<(), Failure> {
    for message in messages {
        if context.json {
            out.versioned(message)?;
            continue;
        }
        let mut title = message.index.map_or_else(String::new, |index| format!("{index} "));
        title.push_str(message.kind);
        if let Some(model) = &message.model {
            title.push_str(&format!(" · {}", one_line(model)));
        }
        if let Some(timestamp) = &message.timestamp {
            title.push_str(&format!(" · {}", time::local(timestamp)));
        }
        if let Some(hash) = &message.short_hash {
            title.push_str(&format!(" · {hash}"));
        }
        if let Some(node) = &message.node {
            title.push_str(&format!(" · {}", &node.to_string()[..11]));
        }
        out.line("")?;
        let title = out.faint(&format!("── {title}"));
        out.line(&title)?;
        out.line(&lines(&shown(message)))?;
    }
    Ok(())
}

/// How much of a tool's output or of a context is shown to people; the whole is in `--json` and `--raw`.
const CONTEXT_CHARS: usize = 1_000;

fn shown(message: &MessageView) -> Cow<'_, str> {
    let content = &message.content;
    if matches!(message.kind, "user" | "assistant") {
        return Cow::Borrowed(content);
    }
    match content.char_indices().nth(CONTEXT_CHARS) {
        None => Cow::Borrowed(content),
        Some((end, _)) => {
            let left = content[end..].chars().count();
            Cow::Owned(format!("{}\n… and {left} characters more", &content[..end]))
        }
    }
}

//! `ropewalk show --tree`: every message below the one it follows, as seed 004 draws it.

use ropewalk_engine::view::session::{Amount, Brief, SessionMessage, SessionTree};
use ropewalk_engine::view::{SessionMessages, View};
use unicode_width::UnicodeWidthStr as _;

use crate::any_store::AnyStore;
use crate::cli::Show;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::out::Out;
use crate::print::text::{cut, one_line};

/// Levels that are drawn of a deep tree, the nearest; a conversation of 500 messages has 500.
const LEVELS_SHOWN: usize = 12;

/// Columns that a message has at least, however deep it stands.
const TEXT_COLUMNS_MIN: usize = 40;

/// Calls of one answer that are named in its line.
const CALLS_SHOWN: usize = 3;

pub(crate) async fn run(
    context: &Context,
    view: &View<'_, AnyStore>,
    arguments: &Show,
    out: &mut Out,
) -> Result<(), Failure> {
    let tree = view.session(&arguments.reference).await?;
    let amount = match context.json {
        true => Amount::Everything,
        false => Amount::Briefs,
    };
    let page = view.session_messages(&tree, None, usize::MAX, amount).await?;
    if context.json {
        return out.json(&page);
    }
    if let Some(title) = &tree.title {
        let title = out.strong(&one_line(title));
        out.line(&title)?;
    }
    draw(&tree, &page, arguments.ids, out)
}

/// Messages come parents first, so whoever is the last of a family is known by looking back once.
fn draw(tree: &SessionTree, page: &SessionMessages, ids: bool, out: &mut Out) -> Result<(), Failure> {
    let messages = &page.messages;
    let mut is_last = vec![false; messages.len()];
    let mut has_later = vec![false; messages.len()];
    for at in (0..messages.len()).rev() {
        if let Some(parent) = tree.parent(at) {
            is_last[at] = !std::mem::replace(&mut has_later[parent], true);
        }
    }
    for (at, message) in messages.iter().enumerate() {
        let branch = lines_before(tree, &is_last, at);
        let room = out.width.saturating_sub(branch.width()).max(TEXT_COLUMNS_MIN);
        let notes = notes(message);
        let told = if ids { named(message) } else { described(message) };
        let text = cut(&told, room.saturating_sub(notes.width()).max(TEXT_COLUMNS_MIN / 2));
        let (branch, notes) = (out.faint(&branch), out.faint(&notes));
        out.line(&format!("{branch}{text}{notes}"))?;
    }
    Ok(())
}

/// The lines that lead to a message, from as many levels as are shown.
fn lines_before(tree: &SessionTree, is_last: &[bool], at: usize) -> String {
    let Some(mut above) = tree.parent(at) else {
        return String::new();
    };
    let mut levels = vec![if is_last[at] { "└── " } else { "├── " }];
    while let Some(next) = tree.parent(above) {
        if levels.len() == LEVELS_SHOWN {
            levels.push("⋯ ");
            break;
        }
        levels.push(if is_last[above] { "    " } else { "│   " });
        above = next;
    }
    levels.reverse();
    levels.concat()
}

/// `User: "…"`, `Tool Use: Read(README.md)`.
fn described(message: &SessionMessage) -> String {
    let who = match message.kind {
        "user" => "User",
        "assistant" => "Assistant",
        "tool_use" => "Tool Use",
        "tool_result" => "Tool Result",
        other => other,
    };
    format!("{who}: {}", said(message))
}

/// `msg-3 (tool_use: LS)`.
fn named(message: &SessionMessage) -> String {
    let said = match (message.kind, message.brief.calls.first()) {
        ("tool_use", Some((name, _))) => one_line(name),
        _ => said(message),
    };
    format!("{} ({}: {said})", one_line(&message.uuid), message.kind)
}

fn said(message: &SessionMessage) -> String {
    let Brief { text, calls } = &message.brief;
    if message.kind == "tool_use" {
        let call = calls.first();
        let name = call.map_or("", |(name, _)| name);
        let argument = call.and_then(|(_, argument)| argument.as_deref()).unwrap_or_default();
        return format!("{}({})", one_line(name), one_line(argument));
    }
    let text = one_line(text);
    let is_data = message.kind == "tool_result" && text.starts_with(['{', '[']);
    let mut words: Vec<String> = Vec::new();
    if is_data {
        words.push(text);
    } else if !text.is_empty() || calls.is_empty() {
        words.push(format!("\"{text}\""));
    }
    for (name, argument) in calls.iter().take(CALLS_SHOWN) {
        let argument = argument.as_ref().map(|argument| format!(" {argument}"));
        words.push(format!(
            "[tool_use: {}]",
            one_line(&format!("{name}{}", argument.unwrap_or_default()))
        ));
    }
    if calls.len() > CALLS_SHOWN {
        words.push("…".to_owned());
    }
    words.join(" ")
}

fn notes(message: &SessionMessage) -> String {
    let mut notes = String::new();
    if let Some(branch) = message.branch.filter(|branch| branch.of > 1) {
        notes.push_str(&format!(" (branch {} of {})", branch.index, branch.of));
    }
    if message.is_sidechain && message.kind == "user" {
        notes.push_str(" (subagent)");
    }
    notes.push_str(match message.place {
        "orphan" => " (orphan: its parent is not recorded)",
        "cycle" => " (its parents go in a circle, cut here)",
        "fork" => " (goes on from another session)",
        _ => "",
    });
    notes
}

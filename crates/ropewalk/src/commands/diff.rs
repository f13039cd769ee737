//! `ropewalk diff`: two branches or exchanges from where they part.

use ropewalk_engine::insight::diff::{Diff, DiffMessage, Side, Sums, ToolCall};

use crate::cli;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{counted, dollars, short};
use crate::print::out::Out;
use crate::print::text::{cut, one_line, padded};

/// Columns of the table of sums.
const LABEL_WIDTH: usize = 12;
const FIGURE_WIDTH: usize = 14;

pub(crate) async fn run(context: &Context, arguments: &cli::Diff) -> Result<(), Failure> {
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let a = view.resolve_exchange(&arguments.a).await?;
    let b = view.resolve_exchange(&arguments.b).await?;
    let diff = view.diff(&a, &b).await?;
    let mut out = context.out();
    match context.json {
        true => out.json(&diff)?,
        false => print(&diff, &mut out)?,
    }
    out.finish()
}

fn print(diff: &Diff, out: &mut Out) -> Result<(), Failure> {
    let sides = [("-", &diff.a), ("+", &diff.b)];
    for (sign, side) in sides {
        out.line(&format!("{} {}", sign.repeat(3), title(side, out)))?;
    }
    out.line(&common(diff, out))?;
    if !diff.context_differs.is_empty() {
        out.line(&format!("  asked with another {}", diff.context_differs.join(", ")))?;
    }
    for (sign, side) in sides {
        for message in &side.messages {
            out.line(&said(sign, message, out))?;
        }
        if side.messages_left_out > 0 {
            let more = counted(side.messages_left_out as u64, "message more", "messages more");
            out.line(&format!("{sign} … {more}"))?;
        }
    }
    tool_calls(diff, out)?;
    files(diff, out)?;
    sums(&diff.a.sums, &diff.b.sums, out)
}

fn title(side: &Side, out: &Out) -> String {
    let mut words = vec![out.name(&one_line(&side.exchange_id))];
    words.extend(side.conversation_id.iter().map(|id| id.chars().take(8).collect()));
    words.extend(side.branch_id.iter().map(|branch| one_line(branch)));
    words.extend(side.model.iter().map(|model| one_line(model)));
    words.join(" · ")
}

fn common(diff: &Diff, out: &Out) -> String {
    let common = &diff.common;
    let Some(last) = &common.last else {
        return "  nothing in common".to_owned();
    };
    let counts = format!(
        "  {} and {} in common, up to ",
        counted(common.messages as u64, "message", "messages"),
        counted(common.exchanges as u64, "exchange", "exchanges"),
    );
    let room = out.width.saturating_sub(counts.len() + 2);
    format!("{counts}\"{}\"", cut(&last.content, room))
}

fn said(sign: &str, message: &DiffMessage, out: &Out) -> String {
    let label = format!("{sign} {}: ", message.kind);
    let room = out.width.saturating_sub(label.len());
    let text = match message.content.is_empty() {
        true => "(no words)".to_owned(),
        false => cut(&message.content, room),
    };
    format!("{label}{text}")
}

/// Calls of one side only; those that both made are counted.
fn tool_calls(diff: &Diff, out: &mut Out) -> Result<(), Failure> {
    let sides = [("-", &diff.a.tool_calls), ("+", &diff.b.tool_calls)];
    if sides.iter().all(|(_, calls)| calls.is_empty()) {
        return Ok(());
    }
    let both = diff.a.tool_calls.iter().filter(|call| call.is_in_both).count();
    let heading = match both {
        0 => "tool calls".to_owned(),
        both => format!("tool calls ({} in both)", counted(both as u64, "call", "calls")),
    };
    let heading = out.strong(&heading);
    out.line(&heading)?;
    for (sign, calls) in sides {
        for call in calls.iter().filter(|call| !call.is_in_both) {
            out.line(&format!("{sign} {}", called(call, out)))?;
        }
    }
    Ok(())
}

fn called(call: &ToolCall, out: &Out) -> String {
    let name = one_line(&call.name);
    match &call.argument {
        Some(argument) => {
            let room = out.width.saturating_sub(name.len() + 4);
            format!("{name} {}", cut(argument, room))
        }
        None => name,
    }
}

fn files(diff: &Diff, out: &mut Out) -> Result<(), Failure> {
    if diff.files.is_empty() {
        return Ok(());
    }
    let heading = out.strong("files");
    out.line(&heading)?;
    for file in &diff.files {
        let path = one_line(&file.path);
        let line = match (file.a, file.b) {
            (Some(a), Some(b)) if a == b => format!("  {path} ({a} by both)"),
            (Some(a), Some(b)) => format!("  {path} ({a} by A, {b} by B)"),
            (Some(a), None) => format!("- {path} ({a})"),
            (None, b) => format!("+ {path} ({})", b.unwrap_or_default()),
        };
        out.line(&line)?;
    }
    Ok(())
}

fn sums(a: &Sums, b: &Sums, out: &mut Out) -> Result<(), Failure> {
    let cost = |sums: &Sums| {
        let estimate = if sums.cost_is_estimate { "~" } else { "" };
        format!("{estimate}{}", dollars(sums.cost_usd))
    };
    let rows = [
        ("", "A".to_owned(), "B".to_owned()),
        ("exchanges", short(a.exchanges), short(b.exchanges)),
        ("tokens in", short(a.sent()), short(b.sent())),
        ("cached", short(a.cache_read_tokens), short(b.cache_read_tokens)),
        ("tokens out", short(a.output_tokens), short(b.output_tokens)),
        ("cost", cost(a), cost(b)),
        ("latency", seconds(a.latency_ms), seconds(b.latency_ms)),
    ];
    for (label, a, b) in rows {
        let line = format!("{}{}{b}", padded(label, LABEL_WIDTH), padded(&a, FIGURE_WIDTH));
        out.line(&line)?;
    }
    Ok(())
}

fn seconds(ms: i64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}

//! `ropewalk blame`: who brought each system block and each tool, and what it has cost.

use ropewalk_engine::insight::blame::{Blame, BlamedPart, Change, PartKind, Scope, Timeline, What};

use crate::cli;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::{counted, dollars, short};
use crate::print::out::Out;
use crate::print::text::{cut, one_line};
use crate::print::time;

pub(crate) async fn run(context: &Context, arguments: &cli::Blame) -> Result<(), Failure> {
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let mut out = context.out();
    let row = match &arguments.reference {
        Some(reference) => Some(view.resolve_exchange(reference).await?),
        None => None,
    };
    if let Some(row) = row.as_ref().filter(|_| !arguments.timeline) {
        let blame = view.blame(row, &*context.config.prices).await?;
        match context.json {
            true => out.json(&blame)?,
            false => print_blame(&blame, &mut out)?,
        }
        return out.finish();
    }
    let hash = arguments.agent_type.as_deref().map(agent_type).transpose()?;
    let scope = match (&row, &hash, &arguments.project, &arguments.client) {
        (Some(row), ..) => Scope::Path(row),
        (_, Some(hash), ..) => Scope::AgentType(hash),
        (.., Some(project), _) => Scope::Project(project),
        (.., Some(client)) => Scope::Client(client),
        (None, None, None, None) => {
            return Err(Failure::new(Kind::Usage, "say what is to be looked at")
                .hint("an exchange, --project, --client or --agent-type"));
        }
    };
    let timeline = view.timeline(scope, &*context.config.prices).await?;
    match context.json {
        true => out.json(&timeline)?,
        false => print_timeline(&timeline, &mut out)?,
    }
    out.finish()
}

fn agent_type(digits: &str) -> Result<Vec<u8>, Failure> {
    let hash = hex::decode(digits).ok().filter(|hash| !hash.is_empty());
    hash.ok_or_else(|| {
        Failure::new(Kind::Usage, format!("`{}` is no hash", one_line(digits)))
            .hint("`ropewalk log --exchanges --json` has it as `agent.type_hash`")
    })
}

fn print_blame(blame: &Blame, out: &mut Out) -> Result<(), Failure> {
    let of = |kind| blame.parts.iter().filter(move |part| part.kind == kind).count() as u64;
    let tokens: u64 = blame.parts.iter().map(|part| part.tokens_estimate).sum();
    let id = out.name(&one_line(&blame.exchange_id));
    out.line(&format!(
        "{id} was sent with {} and {}, about {} tokens",
        counted(of(PartKind::System), "system block", "system blocks"),
        counted(of(PartKind::Tool), "tool", "tools"),
        short(tokens),
    ))?;
    for part in &blame.parts {
        print_part(part, out)?;
    }
    if blame.is_cut {
        out.line("  there is more than was looked at; what seems to come from the first turn may come from another")?;
    }
    Ok(())
}

fn print_part(part: &BlamedPart, out: &mut Out) -> Result<(), Failure> {
    let name = out.strong(&named(part.kind, &part.name));
    let id = out.name(&one_line(&part.exchange_id));
    out.line(&format!(
        "  {name}  since {id}, {}{}",
        time::local(&part.since),
        sent_by(part.client.as_deref())
    ))?;
    out.line(&format!(
        "    about {} tokens in {}{}",
        short(part.tokens_estimate),
        counted(part.turns, "turn", "turns"),
        cost(part.cost_usd_estimate),
    ))?;
    match &part.replaced {
        Some(replaced) => print_both(Some(&replaced.before), Some(&replaced.after), out),
        None => print_both(None, Some(&part.text), out),
    }
}

fn print_timeline(timeline: &Timeline, out: &mut Out) -> Result<(), Failure> {
    out.line(&format!(
        "{} of system blocks and tools in {}",
        counted(timeline.changes.len() as u64, "change", "changes"),
        counted(timeline.turns, "turn", "turns"),
    ))?;
    for change in &timeline.changes {
        print_change(change, out)?;
    }
    if timeline.is_cut {
        out.line(
            "  there is more than was looked at: only the newest turns and the first changes among them are here",
        )?;
    }
    Ok(())
}

fn print_change(change: &Change, out: &mut Out) -> Result<(), Failure> {
    let name = out.strong(&named(change.kind, &change.name));
    let id = out.name(&one_line(&change.exchange_id));
    let what = match change.what {
        What::Added => "new",
        What::Changed => "changed",
        What::Removed => "gone",
    };
    out.line(&format!(
        "  {}  {name} {what} with {id}{}",
        time::local(&change.at),
        sent_by(change.client.as_deref())
    ))?;
    let added = change.tokens_added_estimate;
    let sign = if added < 0 { "-" } else { "+" };
    let tokens = format!("about {sign}{} tokens a turn", short(added.unsigned_abs()));
    match change.what {
        What::Removed => out.line(&format!("    {tokens}"))?,
        What::Added | What::Changed => out.line(&format!(
            "    {tokens}, {} since{}",
            counted(change.turns, "turn", "turns"),
            cost(change.cost_usd_estimate)
        ))?,
    }
    print_both(change.before.as_deref(), change.after.as_deref(), out)
}

fn named(kind: PartKind, name: &str) -> String {
    match kind {
        PartKind::System => format!("system block {}", one_line(name)),
        PartKind::Tool => format!("tool {}", one_line(name)),
    }
}

fn sent_by(client: Option<&str>) -> String {
    client
        .map(|client| format!(", by {}", one_line(client)))
        .unwrap_or_default()
}

fn cost(usd: Option<f64>) -> String {
    /// Less is not shown in figures.
    const SHOWN_MIN: f64 = 0.000_1;
    match usd {
        Some(usd) if usd < SHOWN_MIN => format!(": under {}", dollars(SHOWN_MIN)),
        Some(usd) => format!(": ~{}", dollars(usd)),
        None => String::new(),
    }
}

fn print_both(before: Option<&str>, after: Option<&str>, out: &mut Out) -> Result<(), Failure> {
    /// What stands before the text in its line.
    const INDENT: usize = 6;
    for (sign, text) in [("-", before), ("+", after)] {
        if let Some(text) = text {
            let text = cut(text, out.width.saturating_sub(INDENT));
            let text = out.faint(&text);
            out.line(&format!("    {sign} {text}"))?;
        }
    }
    Ok(())
}

//! `ropewalk spread`: who saw a text.

use ropewalk_core::hash::PartHash;
use ropewalk_engine::insight::spread::{NamedSeen, Spread, UnsearchableText, Wanted};
use ropewalk_engine::view::View;
use ropewalk_store::Store as _;

use super::hash::read;
use super::search::say_if_behind;
use crate::any_store::AnyStore;
use crate::cli;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::counted;
use crate::print::out::Out;
use crate::print::text::{cut, one_line};
use crate::print::time;

pub(crate) async fn run(context: &Context, arguments: &cli::Spread) -> Result<(), Failure> {
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let wanted = wanted(&view, arguments).await?;
    say_if_behind(&view).await?;
    let spread = view.spread(&wanted).await?;
    if spread.exchanges.is_empty() {
        return Err(Failure::new(Kind::NotFound, "nobody was sent that, and nobody said it")
            .hint("the text must be exact and have whole words; `ropewalk search` finds single ones"));
    }
    let mut out = context.out();
    match context.json {
        true => out.json(&spread)?,
        false => print(&spread, arguments.count, &mut out)?,
    }
    out.finish()
}

async fn wanted(view: &View<'_, AnyStore>, arguments: &cli::Spread) -> Result<Wanted, Failure> {
    let wanted = match (&arguments.part, &arguments.file) {
        (Some(name), _) => {
            let hash: PartHash = name.parse().map_err(|_| {
                Failure::new(Kind::Usage, format!("`{name}` is no SHA-256"))
                    .hint("64 hex digits, as in .parts of --json")
            })?;
            let part = view.store.part(view.owner, hash).await?;
            Wanted::of_part(part.ok_or_else(no_part)?)
        }
        (None, Some(file)) => Wanted::of_part(read(file)?),
        (None, None) => Wanted::new(&arguments.text.join(" ")),
    };
    wanted.map_err(|error| {
        let hint = match error {
            UnsearchableText::TooLong { .. } => "a stretch of it is enough",
            UnsearchableText::NoWords | UnsearchableText::NoText => "it is found by its words",
        };
        Failure::new(Kind::Usage, error.to_string()).hint(hint)
    })
}

fn print(spread: &Spread, count: usize, out: &mut Out) -> Result<(), Failure> {
    let total = (spread.exchanges.len() + spread.exchanges_left_out) as u64;
    let summary = format!(
        "{} in {}",
        counted(total, "exchange", "exchanges"),
        counted(spread.conversations.len() as u64, "conversation", "conversations")
    );
    let summary = out.strong(&summary);
    out.line(&summary)?;
    if !spread.is_complete {
        let alarm = out.alarm("said in so many places that the oldest are left out");
        out.line(&format!("  {alarm}"))?;
    }
    out.line("first said")?;
    for said in spread.first_said.iter().take(count) {
        let id = out.name(&one_line(&said.exchange_id));
        out.line(&format!("  {}  {id} by {}", time::local(&said.at), said.said_by))?;
    }
    out.line("conversations")?;
    for conversation in spread.conversations.iter().take(count) {
        let id = out.name(&conversation.conversation_id[..8]);
        let seen = format!(
            "{}, {}",
            times(conversation.seen.exchanges),
            until(&conversation.seen.last_at)
        );
        let room = out.width.saturating_sub(seen.len() + 16);
        let title = cut(conversation.title.as_deref().unwrap_or("(no words)"), room);
        out.line(&format!("  {id}  {title}  {seen}"))?;
    }
    named("destinations", &spread.destinations, out)?;
    named("models", &spread.models, out)?;
    out.line("exchanges")?;
    for exchange in spread.exchanges.iter().take(count) {
        let id = out.name(&one_line(&exchange.exchange_id));
        let mut line = format!(
            "  {}  {id}  {}",
            time::local(&exchange.at),
            one_line(&exchange.provider)
        );
        if let Some(model) = &exchange.model {
            line.push_str(&format!(" · {}", one_line(model)));
        }
        line.push_str(&format!(" · {}", exchange.half.name()));
        if !exchange.is_certain {
            line.push_str(" · perhaps");
        }
        out.line(&line)?;
    }
    let more = total.saturating_sub(count as u64);
    if more > 0 {
        out.line(&format!(
            "  … {} more; --json has them",
            counted(more, "exchange", "exchanges")
        ))?;
    }
    Ok(())
}

fn named(heading: &str, seen: &[NamedSeen], out: &mut Out) -> Result<(), Failure> {
    out.line(heading)?;
    for NamedSeen { name, seen } in seen {
        let line = format!(
            "  {}  {}, {}",
            one_line(name),
            times(seen.exchanges),
            until(&seen.last_at)
        );
        out.line(&line)?;
    }
    Ok(())
}

fn times(exchanges: u64) -> String {
    counted(exchanges, "exchange", "exchanges")
}

fn until(last_at: &str) -> String {
    format!("last {}", time::local(last_at))
}

fn no_part() -> Failure {
    Failure::new(Kind::NotFound, "there is no such part")
        .hint("`.parts` of `ropewalk spread TEXT --json` has their names")
}

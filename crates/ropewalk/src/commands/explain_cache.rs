//! `ropewalk explain --cache`: what a provider's cache gave for a prompt, and why not more.

use ropewalk_engine::insight::cache::{CacheReport, Cause, Difference, Outcome};
use ropewalk_engine::view::View;
use ropewalk_store::store::ExchangeRow;

use crate::any_store::AnyStore;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{counted, dollars, short};
use crate::print::out::Out;
use crate::print::text::{cut, one_line};

pub(super) async fn run(
    context: &Context,
    view: &View<'_, AnyStore>,
    row: &ExchangeRow,
    out: &mut Out,
) -> Result<(), Failure> {
    let report = view.explain_cache(row, &*context.config.prices).await?;
    if context.json {
        return out.json(&report);
    }
    let id = out.name(&one_line(&report.exchange_id));
    out.line(&format!("{id} {}", headline(&report)))?;
    if let Some(before) = &report.compared_with {
        let before = out.name(&one_line(before));
        out.line(&format!("  compared with {before}, the turn before"))?;
    }
    if report.outcome == Outcome::NothingToExplain {
        return Ok(());
    }
    out.line(&format!(
        "  {} in the prompt: {} read, {} written, {} neither",
        counted(report.prompt_tokens, "token", "tokens"),
        short(report.read_tokens),
        short(report.written_tokens),
        short(report.input_tokens),
    ))?;
    if let Some(cause) = &report.cause {
        out.line(&format!("  {}", explained(cause)))?;
    }
    if let Some(difference) = &report.difference {
        print_difference(difference, out)?;
    }
    for cause in &report.also {
        out.line(&format!("  also {}", explained(cause)))?;
    }
    if let Some(shared) = report.shared_tokens_estimate.filter(|_| report.lost_tokens > 0) {
        let shared = short(shared);
        out.line(&format!(
            "  both prompts begin with about {shared} tokens (estimated from bytes)"
        ))?;
    }
    money(&report, out)
}

fn headline(report: &CacheReport) -> String {
    let readable = short(report.readable_tokens);
    let cause = report.cause.as_ref().map_or("unknown", |cause| cause.kind.name());
    match report.outcome {
        Outcome::Hit => format!("read all {readable} tokens that the provider had kept"),
        Outcome::Partial | Outcome::Miss => {
            let read = short(report.readable_tokens - report.lost_tokens);
            format!("read {read} of {readable} tokens that the provider had kept: {cause}")
        }
        Outcome::NothingToRead => format!("had nothing to read: {}", report.reason.unwrap_or(cause)),
        Outcome::NothingToExplain => format!("has nothing to explain: {}", report.reason.unwrap_or(cause)),
    }
}

fn explained(cause: &Cause) -> String {
    format!("{}: {}", cause.kind.name(), one_line(&cause.explained))
}

fn print_difference(difference: &Difference, out: &mut Out) -> Result<(), Failure> {
    /// What stands before the text in its line.
    const INDENT: usize = 12;
    for (label, place, text) in [
        ("before", &difference.place_before, &difference.before),
        ("after ", &difference.place_after, &difference.after),
    ] {
        let place = out.faint(&one_line(place.as_deref().unwrap_or("nothing")));
        out.line(&format!("    {label}  {place}"))?;
        if let Some(text) = text {
            let text = cut(text, out.width.saturating_sub(INDENT));
            out.line(&format!("            {text}"))?;
        }
    }
    Ok(())
}

fn money(report: &CacheReport, out: &mut Out) -> Result<(), Failure> {
    let Some(money) = &report.money else {
        return match report.compared_with {
            Some(_) => out.line("  no price is known for this model"),
            None => Ok(()),
        };
    };
    let estimate = if money.cost_is_estimate { "~" } else { "" };
    let cost = dollars(money.cost_usd);
    if report.lost_tokens == 0 {
        return out.line(&format!("  cost {estimate}{cost}"));
    }
    out.line(&format!(
        "  cost {estimate}{cost}, and would have cost {estimate}{}: {estimate}{} lost on {}",
        dollars(money.would_have_cost_usd),
        dollars(money.lost_usd),
        counted(report.lost_tokens, "token", "tokens"),
    ))
}

//! `ropewalk stats --cache`: what prompt caches did not give, by cause.

use jiff::Timestamp;
use ropewalk_engine::insight::cache::{ALARM_SHARE, CacheStats, Period};
use ropewalk_engine::view::View;

use crate::any_store::AnyStore;
use crate::cli::Stats;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::{counted, dollars, short};
use crate::print::out::Out;
use crate::print::text::{one_line, padded};
use crate::print::time;

pub(super) async fn run(
    context: &Context,
    arguments: &Stats,
    views: &[View<'_, AnyStore>],
    mut out: Out,
) -> Result<(), Failure> {
    let now = Timestamp::now();
    let parsed = |text: &Option<String>| text.as_deref().map(|text| time::parse(text, now)).transpose();
    let period = Period {
        since: parsed(&arguments.since)?,
        until: parsed(&arguments.until)?,
        exchanges_max: None,
    };
    let mut alarming = None;
    for view in views {
        let stats = view.cache_stats(period, &*context.config.prices).await?;
        match context.json {
            true => out.json(&stats)?,
            false => print(&stats, arguments.alarm.unwrap_or(ALARM_SHARE), &mut out)?,
        }
        if arguments.alarm.is_some_and(|share| stats.is_alarming(share)) {
            alarming = stats.read_share.map(|share| (stats.owner, share));
        }
    }
    out.finish()?;
    match alarming {
        Some((owner, share)) => Err(Failure::new(
            Kind::NotFound,
            format!(
                "{}: only {:.0} % of what could have been read from caches was",
                one_line(&owner),
                share * 100.0
            ),
        )
        .hint("the first cause in the list cost most; `ropewalk explain --cache` shows its example")),
        None => Ok(()),
    }
}

fn print(stats: &CacheStats, alarm_share: f64, out: &mut Out) -> Result<(), Failure> {
    let owner = out.strong(&one_line(&stats.owner));
    out.line(&owner)?;
    match stats.read_share {
        Some(share) => out.line(&format!(
            "  {:.0} % read of what could have been: {} of {} tokens, in {}, {} of them whole",
            share * 100.0,
            short(stats.read_tokens),
            short(stats.readable_tokens),
            counted(stats.turns, "turn", "turns"),
            short(stats.hits),
        ))?,
        None => out.line("  nothing to explain: no turn could have read anything from a cache")?,
    }
    out.line(&format!(
        "  {} had nothing to read, {} said nothing of a cache",
        counted(stats.nothing_to_read, "exchange", "exchanges"),
        short(stats.nothing_to_explain),
    ))?;
    if stats.is_alarming(alarm_share) {
        let warning = format!(
            "  warning: reads fell below {:.0} % of what they should be",
            alarm_share * 100.0
        );
        let warning = out.alarm(&warning);
        out.line(&warning)?;
    }
    if stats.causes.is_empty() {
        return Ok(());
    }
    let estimate = if stats.lost_is_estimate { "~" } else { "" };
    out.line(&format!("  {estimate}{} lost", dollars(stats.lost_usd)))?;
    for sums in &stats.causes {
        let example = out.name(&one_line(&sums.example));
        out.line(&format!(
            "    {}  {}  {}  {}  {example}",
            padded(sums.cause.name(), 30),
            padded(&dollars(sums.lost_usd), 9),
            padded(&format!("{} tokens", short(sums.lost_tokens)), 14),
            padded(&counted(sums.turns, "turn", "turns"), 10),
        ))?;
    }
    if stats.without_price > 0 {
        let turns = counted(stats.without_price, "turn", "turns");
        out.line(&format!(
            "  {turns} of models without a known price are in no sum of money"
        ))?;
    }
    Ok(())
}

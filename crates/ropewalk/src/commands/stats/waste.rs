//! `ropewalk stats --waste`: what was sent again and again.

use ropewalk_engine::insight::waste::{Repeated, RepeatingAgent, Settings, Waste};
use ropewalk_engine::view::View;

use crate::any_store::AnyStore;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::{counted, dollars, estimated, short};
use crate::print::out::Out;
use crate::print::text::{cut, one_line};

pub(super) async fn run(context: &Context, view: &View<'_, AnyStore>, out: &mut Out) -> Result<(), Failure> {
    let waste = view.waste(&*context.config.prices, &Settings::default()).await?;
    match context.json {
        true => out.json(&waste),
        false => print(&waste, out),
    }
}

fn print(waste: &Waste, out: &mut Out) -> Result<(), Failure> {
    let all = format!(
        "{} in {}: {} tokens in, {}",
        counted(waste.exchanges, "exchange", "exchanges"),
        counted(waste.conversations as u64, "conversation", "conversations"),
        short(waste.tokens_sent),
        estimated(waste.sent_usd, true)
    );
    let all = out.strong(&all);
    out.line(&all)?;
    if !waste.is_all {
        out.line("  older conversations and small parts were left out")?;
    }
    list("the same result again", &waste.results, out)?;
    list("the same file again", &waste.files, out)?;
    list("the largest, by tokens and times sent", &waste.largest, out)?;
    if !waste.agents.is_empty() {
        out.line("agents that only repeat themselves")?;
    }
    for agent in &waste.agents {
        let line = repeating(agent, out);
        out.line(&line)?;
    }
    Ok(())
}

fn list(heading: &str, repeated: &[Repeated], out: &mut Out) -> Result<(), Failure> {
    if repeated.is_empty() {
        return Ok(());
    }
    out.line(heading)?;
    for one in repeated {
        let what = match (&one.tool, &one.argument) {
            (Some(tool), Some(argument)) => format!("{} {}", one_line(tool), cut(argument, 60)),
            (Some(tool), None) => one_line(tool),
            (None, _) => one.kind.to_owned(),
        };
        let line = format!(
            "  {}  ~{} tokens, brought {}, sent {}  {what}",
            estimated(one.cost_usd, true),
            short(one.tokens),
            counted(one.brought, "time", "times"),
            counted(one.sent, "time", "times"),
        );
        out.line(&line)?;
        let excerpt = out.faint(&cut(&one.excerpt, out.width.saturating_sub(6)));
        out.line(&format!("      {excerpt}"))?;
    }
    Ok(())
}

fn repeating(agent: &RepeatingAgent, out: &Out) -> String {
    let name = agent.name.as_deref().or(agent.branch_id.as_deref()).unwrap_or("agent");
    let id = out.name(&agent.conversation_id[..8]);
    let argument = agent
        .argument
        .as_deref()
        .map_or_else(String::new, |text| format!(" {}", cut(text, 60)));
    format!(
        "  {}  {id} {}: {} of {} made before, most of all {}{argument}",
        dollars(agent.cost_usd),
        one_line(name),
        agent.repeated_calls,
        counted(agent.calls as u64, "call", "calls"),
        one_line(&agent.tool),
    )
}

//! `ropewalk templates`: prompts that recur.

use ropewalk_engine::insight::templates::{Settings, Template, Templates};

use crate::cli;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::number::counted;
use crate::print::out::Out;
use crate::print::text::{cut, one_line};

pub(crate) async fn run(context: &Context, arguments: &cli::Templates) -> Result<(), Failure> {
    let store = context.read().await?;
    let Some(view) = context.view(&store).await? else {
        return Ok(());
    };
    let settings = Settings {
        times_min: usize::try_from(arguments.times).unwrap_or(usize::MAX),
        given_max: arguments.count,
        ..Settings::default()
    };
    let templates = view.templates(&settings).await?;
    let mut out = context.out();
    match context.json {
        true => out.json(&templates)?,
        false => print(&templates, &mut out)?,
    }
    out.finish()
}

fn print(templates: &Templates, out: &mut Out) -> Result<(), Failure> {
    for template in &templates.templates {
        one(template, out)?;
    }
    let prompts = counted(templates.prompts as u64, "prompt", "prompts");
    let conversations = counted(templates.conversations as u64, "conversation", "conversations");
    let mut words = vec![format!("{prompts} in {conversations} looked at")];
    if !templates.is_all {
        words.push("others were not".to_owned());
    }
    if templates.templates_left_out > 0 {
        let more = counted(templates.templates_left_out as u64, "template", "templates");
        words.push(format!("{more} more"));
    }
    if templates.templates.is_empty() {
        words.push("none recurs".to_owned());
    }
    out.line(&words.join(", "))
}

fn one(template: &Template, out: &mut Out) -> Result<(), Failure> {
    let mut words = vec![
        counted(template.times as u64, "time", "times"),
        format!(
            "in {}",
            counted(template.conversations as u64, "conversation", "conversations")
        ),
    ];
    if template.openings > 0 {
        words.push(format!(
            "{} as the opening",
            counted(template.openings as u64, "time", "times")
        ));
    }
    let heading = out.strong(&words.join(", "));
    out.line(&heading)?;
    let text = cut(&template.text, out.width.saturating_sub(2));
    out.line(&format!("  {text}"))?;
    for (place, variable) in (1..).zip(&template.places) {
        let values: Vec<String> = variable.values.iter().map(|value| value_shown(value)).collect();
        let more = if variable.different > values.len() {
            " · …"
        } else {
            ""
        };
        let line = cut(
            &format!("{{{place}}}  {}{more}", values.join(" · ")),
            out.width.saturating_sub(4),
        );
        out.line(&format!("    {line}"))?;
    }
    Ok(())
}

fn value_shown(value: &str) -> String {
    match value.is_empty() {
        true => "(nothing)".to_owned(),
        false => one_line(value),
    }
}

//! `ropewalk match`: whether messages were sent before, and what was answered.

use bytes::Bytes;
use ropewalk_core::model::Provider;
use ropewalk_engine::matching::{Asked, Match as Matched, Outcome};

use super::hash::read;
use super::show_answers;
use crate::cli::{Format, Match};
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;
use crate::print::text::{cut, one_line, padded};
use crate::print::time;

pub(crate) async fn run(context: &Context, arguments: &Match) -> Result<(), Failure> {
    let body = Bytes::from(read(&arguments.file)?);
    let file = arguments.file.display();
    let mut asked = Asked::read(&body, arguments.format.provider()).map_err(|error| {
        Failure::from_error(Kind::Usage, &error).hint(format!(
            "{file} should be a request with `messages`, `input` or `contents`; `--format` says which kind it is"
        ))
    })?;
    asked.model.clone_from(&arguments.model);
    let store = context.read().await?;
    let Some(view) = context.view(&store).await? else {
        return Err(Failure::of_command(Kind::NotFound as u8));
    };
    let found = view.find_match(&asked).await?;
    let mut out = context.out();
    match context.json {
        true => out.json(&found)?,
        false => print(context, &found, &mut out)?,
    }
    out.finish()?;
    match found.outcome {
        Outcome::Exact => Ok(()),
        // What there is to say is said; scripts read the code.
        Outcome::Partial | Outcome::None => Err(Failure::of_command(Kind::NotFound as u8)),
    }
}

impl Format {
    pub(super) fn provider(self) -> Option<Provider> {
        match self {
            Format::Auto => None,
            Format::Anthropic => Some(Provider::Anthropic),
            Format::Chat => Some(Provider::OpenAiChat),
            Format::Responses => Some(Provider::OpenAiResponses),
            Format::Gemini => Some(Provider::Gemini),
        }
    }
}

fn print(context: &Context, found: &Matched, out: &mut Out) -> Result<(), Failure> {
    let verdict = match found.outcome {
        Outcome::Exact => "known, and answered",
        Outcome::Partial if found.diverges.is_none() => "known, and not answered as it is asked here",
        Outcome::Partial => "known in part",
        Outcome::None => "new",
    };
    let verdict = out.strong(verdict);
    out.line(&format!("{verdict}  {} of {} blocks", found.depth, found.blocks))?;
    let when = found.first_at.as_deref().map(time::local).unwrap_or_default();
    let facts = [
        ("node", found.node.map(|node| node.to_string())),
        (
            "first seen in",
            found.first_exchange_id.as_ref().map(|id| format!("{id}, {when}")),
        ),
        ("goes on from", found.continues_exchange_id.clone()),
        ("path hash", Some(found.path_hash.clone())),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            out.line(&format!("  {} {}", padded(name, 15), one_line(&value)))?;
        }
    }
    if let Some(diverges) = &found.diverges {
        let at = format!(
            "  {} message {}, {}: ",
            padded("parts with", 15),
            diverges.message + 1,
            diverges.role
        );
        let text = cut(&diverges.text, out.width.saturating_sub(at.len()));
        out.line(&format!("{at}{text}"))?;
    }
    if !found.answers.answers.is_empty() {
        out.line("")?;
        show_answers::run(context, &found.answers, out)?;
    }
    Ok(())
}

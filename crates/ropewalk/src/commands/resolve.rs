//! `ropewalk resolve`: what the proxy would add for a reference.

use ropewalk_core::reference::Reference;

use crate::cli::Resolve;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;
use crate::print::text::{lines, one_line};

pub(crate) async fn run(context: &Context, arguments: &Resolve) -> Result<(), Failure> {
    let mut references = Vec::new();
    for written in &arguments.references {
        let parsed: Reference = written
            .parse()
            .map_err(|error: ropewalk_core::reference::ReferenceParseError| {
                Failure::new(Kind::Usage, error.to_string())
                    .hint("`ropewalk show REF` prints the references of a conversation's messages")
            })?;
        references.push((written, parsed));
    }
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let mut out = Out::new();
    let mut unresolved = Vec::new();
    for (written, reference) in references {
        let resolved = view.resolved(&reference, written).await?;
        if context.json {
            out.json(&resolved)?;
        }
        match resolved.message {
            Some(message) if !context.json => out.line(&lines(&message.injected))?,
            Some(_) => {}
            None if resolved.ambiguous => {
                unresolved.push(format!("`{}` names {} messages", one_line(written), resolved.count));
            }
            None => unresolved.push(format!("nothing is named `{}`", one_line(written))),
        }
    }
    out.finish()?;
    match unresolved.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Kind::NotFound, unresolved.join("; "))
            .hint("it stays in the text as it is; `ropewalk log` shows the friendly ids there are")),
    }
}

//! `ropewalk resolve`: what the proxy would add for a reference.

use ropewalk_core::reference::Reference;
use ropewalk_engine::view::{Quotation, Resolution, View, uuid_text};
use ropewalk_store::Store as _;
use ropewalk_store::derived::Conversations;
use serde_json::{Value, json};

use crate::any_store::AnyStore;
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
        let resolution = view.find_message(&reference, written).await?;
        if context.json {
            out.json(&as_json(&view, written, &resolution).await?)?;
        }
        match resolution {
            Resolution::Found(message) if !context.json => out.line(&lines(&message.injected()))?,
            Resolution::Found(_) => {}
            Resolution::Unknown => unresolved.push(format!("nothing is named `{}`", one_line(written))),
            Resolution::Ambiguous(count) => unresolved.push(format!("`{}` names {count} messages", one_line(written))),
        }
    }
    out.finish()?;
    match unresolved.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Kind::NotFound, unresolved.join("; "))
            .hint("it stays in the text as it is; `ropewalk log` shows the friendly ids there are")),
    }
}

async fn as_json(view: &View<'_, AnyStore>, written: &str, resolution: &Resolution) -> Result<Value, Failure> {
    Ok(match resolution {
        Resolution::Found(message) => found(view, message).await?,
        Resolution::Unknown => json!({"v": 1, "reference": written, "resolved": false, "ambiguous": false}),
        Resolution::Ambiguous(_) => json!({"v": 1, "reference": written, "resolved": false, "ambiguous": true}),
    })
}

async fn found(view: &View<'_, AnyStore>, message: &Quotation) -> Result<Value, Failure> {
    let which = Conversations::Of(vec![message.conversation]);
    let rows = view.store.conversations(view.owner, which).await?;
    Ok(json!({
        "v": 1,
        "reference": message.written,
        "resolved": true,
        "ambiguous": false,
        "conversation_id": rows.first().map(|row| uuid_text(&row.id)),
        "friendly_id": message.friendly_id,
        "index": message.index,
        "short_hash": message.short_hash,
        "role": message.role(),
        "exchange_id": message.row.id,
        "text": message.text,
        "injected": message.injected(),
    }))
}

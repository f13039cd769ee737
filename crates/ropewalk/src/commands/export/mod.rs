//! `ropewalk export`: exchanges as they were recorded, one line each, or one path for another program or for people.

mod claude_code;
mod html;
mod markdown;
mod reading;

use ropewalk_engine::names::NamesOfLine;
use ropewalk_engine::view::{Target, View};
use ropewalk_store::store::ExchangeRow;

use super::PAGE;
use crate::any_store::AnyStore;
use crate::cli::{Export, ExportFormat};
use crate::context::Context;
use crate::failure::Failure;
use crate::print::out::Out;

pub(crate) async fn run(context: &Context, arguments: &Export) -> Result<(), Failure> {
    let mut out = match arguments.recipients.is_empty() {
        true => Out::new(),
        false => Out::sealed_for(&arguments.recipients)?,
    };
    let format = match arguments.format {
        ExportFormat::Exchanges => None,
        ExportFormat::ClaudeCode => Some(claude_code::WRITTEN),
        ExportFormat::Markdown => Some(markdown::WRITTEN),
        ExportFormat::Html => Some(html::WRITTEN),
    };
    if let Some(format) = format {
        return reading::write(context, &arguments.references, format, out).await;
    }
    let store = context.read().await?;
    if arguments.references.is_empty() {
        if let Some(view) = context.view(&store).await? {
            everything(&view, &mut out).await?;
        }
        return out.finish();
    }
    let view = context.view_to_find(&store).await?;
    let mut names = NamesOfLine::default();
    for reference in &arguments.references {
        match view.resolve(reference).await? {
            Target::Exchange(row) => write(&view, &[*row], &mut names, &mut out).await?,
            Target::Message(message) => write(&view, &[message.row], &mut names, &mut out).await?,
            Target::Conversation(conversation) => {
                let mut after = None;
                loop {
                    let links = view.links_in(conversation.root, after).await?;
                    let Some(last) = links.last() else { break };
                    after = Some((last.at, last.exchange));
                    let mut rows = view.rows(links.iter().map(|link| link.exchange).collect()).await?;
                    rows.sort_by_key(|row| (row.at, row.number));
                    write(&view, &rows, &mut names, &mut out).await?;
                }
            }
        }
    }
    out.finish()
}

async fn everything(view: &View<'_, AnyStore>, out: &mut Out) -> Result<(), Failure> {
    let mut after = None;
    let mut names = NamesOfLine::default();
    loop {
        let rows = view.rows_after(after, PAGE).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some((last.at, last.number));
        write(view, &rows, &mut names, out).await?;
    }
}

async fn write(
    view: &View<'_, AnyStore>,
    rows: &[ExchangeRow],
    names: &mut NamesOfLine,
    out: &mut Out,
) -> Result<(), Failure> {
    for row in rows {
        out.line(&view.line(row, names).await?.write())?;
    }
    Ok(())
}

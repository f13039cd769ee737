//! `ropewalk explain`: why an exchange is where it is.

use super::explain_cache;
use crate::cli::Explain;
use crate::context::Context;
use crate::failure::Failure;
use crate::print::text::one_line;

pub(crate) async fn run(context: &Context, arguments: &Explain) -> Result<(), Failure> {
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let row = view.resolve_exchange(&arguments.reference).await?;
    let mut out = context.out();
    if arguments.cache {
        explain_cache::run(context, &view, &row, &mut out).await?;
        return out.finish();
    }
    let explanation = view.explain(&row).await?;
    if context.json {
        out.versioned(&explanation)?;
        return out.finish();
    }
    let exchange = &explanation.exchange;
    let id = out.name(&one_line(&exchange.id));
    out.line(&format!("{id} {}", one_line(&explanation.reason)))?;
    let conversation = exchange.conversation_id.as_deref().unwrap_or("none");
    let branch = exchange.branch_id.as_deref().unwrap_or("none");
    let method = exchange.link.method.unwrap_or("none");
    let confidence = exchange.link.confidence.unwrap_or(0.0);
    out.line(&format!("  conversation {conversation}, branch {}", one_line(branch)))?;
    out.line(&format!("  rule `{method}`, confidence {confidence}"))?;
    if let Some(name) = &explanation.asked_for {
        out.line(&format!("  the call asked for {}", one_line(name)))?;
    }
    match explanation.rejected.is_empty() {
        true => out.line("  nothing else came into question")?,
        false => out.line("  not linked to")?,
    }
    for candidate in &explanation.rejected {
        let id = out.name(&one_line(&candidate.exchange_id));
        out.line(&format!("    {id}, which {}", candidate.reason))?;
    }
    out.finish()
}

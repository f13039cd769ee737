//! `ropewalk fsck`: damage, if there is any.

use ropewalk_store::Store as _;
use ropewalk_store::store::{Depth, Severity};

use crate::cli::Fsck;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::print::text::one_line;

pub(crate) async fn run(context: &Context, arguments: &Fsck) -> Result<(), Failure> {
    let store = context.read().await?;
    let Some(view) = context.view(&store).await? else {
        return Ok(());
    };
    let depth = match arguments.read_data {
        true => Depth::Data,
        false => Depth::Structure,
    };
    let findings = view.store.check(view.owner, depth).await?;
    let mut out = Out::new();
    for finding in &findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        if context.json {
            out.json(&serde_json::json!({
                "v": 1, "severity": severity, "rule": finding.rule, "message": finding.what,
            }))?;
        } else {
            let shown = match finding.severity {
                Severity::Error => out.alarm(severity),
                Severity::Warning | Severity::Note => severity.to_owned(),
            };
            out.line(&format!("{shown}: {} ({})", one_line(&finding.what), finding.rule))?;
        }
    }
    out.finish()?;
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    if errors > 0 {
        return Err(Failure::new(
            Kind::NotFound,
            format!("{errors} errors in the data of {}", view.owner_name),
        ));
    }
    if !context.json {
        say(&format!("no errors in the data of {}", view.owner_name));
    }
    Ok(())
}

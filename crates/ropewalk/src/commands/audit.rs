//! `ropewalk audit`: who changed what, and when.

use jiff::Timestamp;

use crate::audit::{self, Entry};
use crate::cli::Audit;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::print::text::{one_line, padded};
use crate::print::time;

pub(crate) fn run(context: &Context, arguments: &Audit) -> Result<(), Failure> {
    let since = arguments.since.as_ref().map(|text| time::parse(text, Timestamp::now()));
    let since = since.transpose()?.map(|since| Timestamp::from_microsecond(since.0));
    let since = since
        .transpose()
        .map_err(|error| Failure::from_error(Kind::Usage, &error))?;
    let mut out = context.out();
    let mut count = 0_u64;
    audit::read(context.config.data_folder()?, since, |entry| {
        let is_of_owner = match context.config.asked_owner() {
            Some(asked) => entry.owner.as_deref().is_none_or(|owner| owner == asked),
            None => true,
        };
        if !is_of_owner {
            return Ok(());
        }
        count += 1;
        match context.json {
            true => out.json(&entry),
            false => out.line(&shown(&entry, &out)),
        }
    })?;
    if count == 0 {
        say("nothing was changed");
    }
    out.finish()
}

fn shown(entry: &Entry, out: &Out) -> String {
    const VERB_COLUMNS: usize = 12;
    let who = match &entry.user {
        Some(user) => format!("{} ({})", one_line(user), entry.uid),
        None => entry.uid.to_string(),
    };
    let mut words = vec![
        out.faint(&time::local(&entry.at.to_string())),
        padded(&one_line(&entry.verb), VERB_COLUMNS),
        who,
    ];
    words.extend(entry.owner.iter().map(|owner| format!("owner {}", one_line(owner))));
    words.extend(entry.about.iter().map(|about| out.name(&one_line(about))));
    if let Some(detail) = entry.detail.as_object().filter(|detail| !detail.is_empty()) {
        let pairs: Vec<String> = detail.iter().map(|(name, value)| format!("{name} {value}")).collect();
        words.push(one_line(&pairs.join(", ")));
    }
    words.join("  ")
}

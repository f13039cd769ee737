//! `ropewalk stats`: how much there is, and what it cost.

mod cache;
mod waste;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;
use ropewalk_engine::view::roll_up::{self, RollUp};
use ropewalk_engine::view::{Reused, Sums, View};
use ropewalk_store::{Store as _, sqlite};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::any_store::AnyStore;
use crate::cli::{By, Stats};
use crate::config::Place;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::{bar, bytes, counted, estimated, short};
use crate::print::out::{Out, say};
use crate::print::text::{cut, one_line, padded};
use crate::print::words::{Missed, Words};

#[derive(Serialize)]
struct OwnerFigures {
    v: u32,
    owner: String,
    exchanges: u64,
    parts: u64,
    nodes: u64,
    bytes_in: u64,
    part_bytes: u64,
    stored_bytes: u64,
    /// How often the bytes that came fit into those that are stored.
    ratio: f64,
    conflicts: u64,
    /// Of all models together.
    reuse: Reused,
    models: BTreeMap<String, Sums>,
    /// By what was asked for, where that is not the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<BTreeMap<String, Sums>>,
    /// Of the whole file, which all owners share.
    file_bytes: Option<u64>,
}

pub(crate) async fn run(context: &Context, arguments: &Stats) -> Result<(), Failure> {
    let store = context.read().await?;
    let mut out = context.out();
    if arguments.cache {
        let views = views(context, &store).await?;
        return cache::run(context, arguments, &views, out).await;
    }
    if arguments.waste {
        if let Some(view) = context.view(&store).await? {
            waste::run(context, &view, &mut out).await?;
        }
        return out.finish();
    }
    let zone = zone(context, arguments)?;
    let file_bytes = match &context.config.place {
        Place::Folder(folder) => Some(file_bytes(folder)),
        Place::Postgres(_) => None,
    };
    let views = views(context, &store).await?;
    for view in &views {
        print(
            context,
            &figures(view, arguments.by, &zone, file_bytes).await?,
            &mut out,
        )?;
    }
    // Whoever asked for one owner's data did not ask for the file, which all share.
    let is_of_all = context.config.asked_owner().is_none() && store.is_some();
    if let (true, false, Some(file_bytes)) = (is_of_all, context.json, file_bytes) {
        say(&format!("the file has {}", bytes(file_bytes)));
    }
    out.finish()
}

/// The data of the owner that was asked for, else of every owner.
async fn views<'s>(context: &Context, store: &'s Option<AnyStore>) -> Result<Vec<View<'s, AnyStore>>, Failure> {
    let Some(all) = store.as_ref().filter(|_| context.config.asked_owner().is_none()) else {
        return Ok(context.view(store).await?.into_iter().collect());
    };
    let owners = all.all_owners().await?;
    Ok(owners
        .into_iter()
        .map(|(owner, name)| View::new(all, owner, name))
        .collect())
}

async fn figures(
    view: &View<'_, AnyStore>,
    by: By,
    zone: &TimeZone,
    file_bytes: Option<u64>,
) -> Result<OwnerFigures, Failure> {
    let stats = view.store.stats(view.owner).await?;
    let mut models: BTreeMap<String, Sums> = BTreeMap::new();
    let mut roll_up = sums_by(by).map(|by| RollUp::new(by, zone.clone()));
    let mut after = None;
    loop {
        let rows = view.spent_after(after).await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.at, last.number));
        for row in &rows {
            let model = row.model.as_deref().unwrap_or("unknown");
            models.entry(model.to_owned()).or_default().add(row);
        }
        if let Some(roll_up) = &mut roll_up {
            roll_up.add(view, &rows.iter().collect::<Vec<_>>()).await?;
        }
    }
    let by = match roll_up {
        Some(roll_up) => Some(roll_up.finish(view, None).await?.0),
        None => None,
    };
    let mut all = Sums::default();
    models.values().for_each(|sums| all.merge(sums));
    Ok(OwnerFigures {
        v: 1,
        reuse: all.reuse,
        owner: view.owner_name.clone(),
        exchanges: stats.exchanges,
        parts: stats.parts,
        nodes: stats.nodes,
        bytes_in: stats.bytes_in,
        part_bytes: stats.part_bytes,
        stored_bytes: stats.stored_bytes,
        ratio: stats.bytes_in as f64 / stats.stored_bytes.max(1) as f64,
        conflicts: stats.conflicts,
        models,
        by,
        file_bytes,
    })
}

/// Where a day begins at midnight.
fn zone(context: &Context, arguments: &Stats) -> Result<TimeZone, Failure> {
    match &arguments.tz {
        Some(name) => TimeZone::get(name).map_err(|error| {
            Failure::new(Kind::Usage, format!("no such time zone: {error}")).hint("as in Europe/Berlin, or UTC")
        }),
        None if context.json => Ok(TimeZone::UTC),
        None => Ok(TimeZone::system()),
    }
}

/// Nothing where the figures are by model, which they are anyway.
fn sums_by(by: By) -> Option<roll_up::By> {
    Some(match by {
        By::Model => return None,
        By::Day => roll_up::By::Day,
        By::Project => roll_up::By::Project,
        By::Session => roll_up::By::Session,
        By::Conversation => roll_up::By::Conversation,
        By::Branch => roll_up::By::Branch,
        By::Agent => roll_up::By::Agent,
    })
}

fn print(context: &Context, figures: &OwnerFigures, out: &mut Out) -> Result<(), Failure> {
    if context.json {
        return out.json(figures);
    }
    let owner = out.strong(&one_line(&figures.owner));
    out.line(&owner)?;
    out.line(&format!(
        "  {}, {} parts, {} nodes, {}",
        counted(figures.exchanges, "exchange", "exchanges"),
        short(figures.parts),
        short(figures.nodes),
        counted(figures.conflicts, "conflict", "conflicts"),
    ))?;
    out.line(&format!(
        "  {} in, {} stored: {:.1} times smaller",
        bytes(figures.bytes_in),
        bytes(figures.stored_bytes),
        figures.ratio
    ))?;
    let reuse = &figures.reuse;
    if let Some(rate) = reuse.hit_rate {
        out.line(&format!(
            "  {} reused of {} ({:.0} %): {} in and {} out not asked for, {} saved",
            counted(reuse.hits, "answer", "answers"),
            reuse.hits + reuse.misses,
            rate * 100.0,
            short(reuse.saved_input_tokens),
            short(reuse.saved_output_tokens),
            estimated(reuse.saved_usd, reuse.saved_is_estimate),
        ))?;
    }
    rows(figures.by.as_ref().unwrap_or(&figures.models), out)
}

/// Names are cut behind so many columns.
const NAME_COLUMNS_MAX: usize = 40;

const BAR_COLUMNS: usize = 12;

/// A row for each, with a bar for its part of what they all cost; where nobody knows what anything cost, of their tokens.
fn rows(sums: &BTreeMap<String, Sums>, out: &mut Out) -> Result<(), Failure> {
    let has_cost = sums.values().any(|sums| sums.cost_usd > 0.0);
    let weight = |sums: &Sums| match has_cost {
        true => sums.cost_usd,
        false => (sent(sums) + sums.output_tokens) as f64,
    };
    let most = sums.values().map(weight).fold(0.0, f64::max);
    let shown = |name: &str| cut(&short_id(name), NAME_COLUMNS_MAX);
    let widest = sums.keys().map(|name| shown(name).width()).max().unwrap_or(0);
    for (name, sums) in sums {
        let name = padded(&shown(name), widest);
        let bar = padded(&bar(weight(sums) / most, BAR_COLUMNS), BAR_COLUMNS);
        let cost = format!("{:>7}", estimated(sums.cost_usd, sums.cost_is_estimate));
        let mut words = Words::default();
        words.push(Missed::More, counted(sums.exchanges, "exchange", "exchanges"));
        let tokens = format!("{} in, {} out", short(sent(sums)), short(sums.output_tokens));
        words.push(Missed::Some, tokens);
        words.push(Missed::Less, format!("{} cached", short(sums.cache_read_tokens)));
        words.push(Missed::Least, format!("{} written", short(sums.cache_write_tokens)));
        let told = words.line(out.room_behind(name.width() + BAR_COLUMNS + cost.width() + 8));
        out.fitted(&format!("  {}  {bar}  {cost}  {told}", out.name(&name)))?;
    }
    Ok(())
}

/// Digits of a conversation's id that are shown to people.
const ID_DIGITS: usize = 8;

/// `019dad0c/main` of a conversation's branch; any other name as it is.
fn short_id(name: &str) -> String {
    let (id, branch) = name
        .split_once('/')
        .map_or((name, None), |(id, branch)| (id, Some(branch)));
    let is_id = id.len() == 36 && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    match (is_id, branch) {
        (false, _) => name.to_owned(),
        (true, None) => id[..ID_DIGITS].to_owned(),
        (true, Some(branch)) => format!("{}/{branch}", &id[..ID_DIGITS]),
    }
}

/// All that went to models.
fn sent(sums: &Sums) -> u64 {
    sums.input_tokens + sums.cache_read_tokens + sums.cache_write_tokens
}

/// The database with what was not yet written back into it.
fn file_bytes(folder: &Path) -> u64 {
    let names = [sqlite::FILE_NAME.to_owned(), format!("{}-wal", sqlite::FILE_NAME)];
    let lengths = names
        .iter()
        .filter_map(|name| Some(folder.join(name).metadata().ok()?.len()));
    lengths.sum()
}

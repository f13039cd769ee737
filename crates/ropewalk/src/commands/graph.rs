//! `ropewalk log --graph`: the exchanges of a conversation as git draws commits.

use std::collections::{BinaryHeap, HashMap, HashSet};

use jiff::Timestamp;
use renderdag::{Ancestor, GraphRowRenderer, Renderer as _};
use ropewalk_engine::insight::merges::Merge;
use ropewalk_engine::link::decision::Linked;
use ropewalk_engine::view::{Directory, View};
use ropewalk_store::Micros;
use ropewalk_store::derived::{ConversationRow, LinkKind};
use ropewalk_store::facts::ExchangeNumber;
use unicode_width::UnicodeWidthStr as _;

use super::PAGE;
use super::log::{short_exchange_words, short_name};
use crate::any_store::AnyStore;
use crate::failure::Failure;
use crate::print::out::Out;
use crate::print::text::one_line;
use crate::print::time;
use crate::print::words::Missed;

/// Exchanges of one conversation that are drawn, the newest.
const DRAWN_MAX: usize = 10_000;

/// Stands for the text of a row while it is drawn. Escaped text has no such character.
const TEXT: &str = "\u{1}";

pub(super) async fn draw(view: &View<'_, AnyStore>, row: &ConversationRow, out: &mut Out) -> Result<(), Failure> {
    let links = links(view, row.root).await?;
    let drawn: HashSet<ExchangeNumber> = links.iter().map(|link| link.exchange).collect();
    let merges = view.merges(row.root).await?.merges;
    let mut merged: HashMap<ExchangeNumber, Vec<&Merge>> = HashMap::new();
    for merge in &merges {
        merged.entry(merge.into).or_default().push(merge);
    }
    let mut renderer = GraphRowRenderer::new()
        .output()
        .with_min_row_height(1)
        .build_box_drawing();
    let mut directory = Directory::default();
    let now = Timestamp::now();
    for page in children_first(&links, &merges).chunks(PAGE) {
        let rows = view.rows(page.iter().map(|link| link.exchange).collect()).await?;
        let views = view.exchanges(&rows, &mut directory).await?;
        let mut views: HashMap<ExchangeNumber, _> = rows.iter().map(|row| row.number).zip(views).collect();
        for link in page {
            let Some(exchange) = views.remove(&link.exchange) else {
                continue;
            };
            let parents = link
                .decision
                .parent
                .into_iter()
                .map(|parent| match drawn.contains(&parent) {
                    true => Ancestor::Parent(parent.0),
                    false => Ancestor::Anonymous,
                });
            let quoted = merged.remove(&link.exchange).unwrap_or_default();
            let quoted_from = quoted.iter().filter(|merge| drawn.contains(&merge.from));
            let quoted_from = quoted_from.map(|merge| Ancestor::Parent(merge.from.0));
            let mut ancestors: Vec<Ancestor<i64>> = parents.chain(quoted_from).collect();
            let mut met = HashSet::new();
            ancestors.retain(|ancestor| match ancestor {
                Ancestor::Parent(number) | Ancestor::Ancestor(number) => met.insert(*number),
                Ancestor::Anonymous => true,
            });
            let name = short_name(&exchange);
            let mut words = short_exchange_words(&exchange);
            for merge in &quoted {
                words.push(Missed::More, format!("quotes {}", one_line(&merge.from_exchange_id)));
            }
            words.push(Missed::More, out.faint(&time::age(&exchange.at, now)));
            let drawing = renderer.next_row(link.exchange.0, ancestors, glyph(link).to_owned(), TEXT.to_owned());
            // How much room there is shows when the lines before the text are drawn.
            for line in drawing.lines() {
                let Some((lines, _)) = line.split_once(TEXT) else {
                    out.fitted(line.trim_end())?;
                    continue;
                };
                let room = out.room_behind(lines.width() + name.width() + 2);
                let text = std::mem::take(&mut words).line(room);
                out.fitted(&format!("{lines}{}  {text}", out.name(&name)))?;
            }
        }
    }
    Ok(())
}

/// Turns, retries and compactions; calls beside the conversation are no part of its shape.
async fn links(view: &View<'_, AnyStore>, root: ExchangeNumber) -> Result<Vec<Linked>, Failure> {
    let mut links: Vec<Linked> = Vec::new();
    let mut after = None;
    loop {
        let page = view.links_in(root, after).await?;
        let Some(last) = page.last() else { return Ok(links) };
        after = Some((last.at, last.exchange));
        links.extend(page.into_iter().filter(|link| link.kind() != LinkKind::Auxiliary));
        let surplus = links.len().saturating_sub(DRAWN_MAX);
        links.drain(..surplus);
    }
}

/// Newest first, but nobody before those that go on from it or quote it: clocks may disagree.
fn children_first<'l>(links: &'l [Linked], merges: &[Merge]) -> Vec<&'l Linked> {
    let places: HashMap<ExchangeNumber, usize> =
        links.iter().enumerate().map(|(at, link)| (link.exchange, at)).collect();
    let mut before: Vec<Vec<usize>> = links
        .iter()
        .map(|link| {
            link.decision
                .parent
                .and_then(|parent| places.get(&parent).copied())
                .into_iter()
                .collect()
        })
        .collect();
    for merge in merges {
        if let (Some(from), Some(into)) = (places.get(&merge.from), places.get(&merge.into)) {
            before[*into].push(*from);
        }
    }
    let mut undrawn_children = vec![0_usize; links.len()];
    for parent in before.iter().flatten() {
        undrawn_children[*parent] += 1;
    }
    let key = |at: usize| (links[at].at, links[at].exchange, at);
    let free = (0..links.len()).filter(|at| undrawn_children[*at] == 0);
    let mut ready: BinaryHeap<(Micros, ExchangeNumber, usize)> = free.map(key).collect();
    let mut order = Vec::with_capacity(links.len());
    while let Some((_, _, at)) = ready.pop() {
        order.push(&links[at]);
        for parent in &before[at] {
            undrawn_children[*parent] -= 1;
            if undrawn_children[*parent] == 0 {
                ready.push(key(*parent));
            }
        }
    }
    order
}

fn glyph(link: &Linked) -> &'static str {
    match link.kind() {
        LinkKind::Turn | LinkKind::Auxiliary => "o",
        LinkKind::Retry => "x",
        LinkKind::Compaction => "~",
    }
}

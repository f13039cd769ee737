//! How well linking does on generated traffic with known truth.
//!
//! `cargo bench -p ropewalk-engine --bench truth -- [CONVERSATIONS] [SEED]`. Prints the score with the clients' hints and without,
//! the share of subagents that were linked, and whether arrival in another order gives the same.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail and prints what it found"
)]

use std::collections::HashMap;
use std::time::Instant;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::derived::Links;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::Selection;
use ropewalk_store::{Micros, Store};
use ropewalk_testkit::traffic::{Cause, Found, Mode, Settings, Traffic, Truth, score};

const BATCH: usize = 256;

/// How far apart exchanges may arrive that were sent one after the other, in the run that shuffles.
const SHUFFLED: usize = 2_000;

fn traffic(seed: u64, conversations: u64, mode: Mode) -> impl Iterator<Item = (RawExchange, Truth)> {
    let traffic = Traffic::new(Settings::new(seed, conversations, mode));
    traffic.map(|recorded| (RawExchange::try_from(recorded.line).unwrap(), recorded.truth))
}

/// Names of the conversation and the agent of each exchange: ids of exchanges.
async fn found(store: &Sqlite, recorder: &Recorder<'_, Sqlite>) -> HashMap<String, Found> {
    let owner = recorder.owner();
    let mut ids: HashMap<ExchangeNumber, String> = HashMap::new();
    let mut after = None;
    loop {
        let page = Selection::Since { after, limit: 1_000 };
        let rows = store.exchanges(owner, page, Micros::MAX).await.unwrap();
        let Some(last) = rows.last() else { break };
        after = Some((last.at, last.number));
        ids.extend(rows.into_iter().map(|row| (row.number, row.id)));
    }
    let numbers: Vec<ExchangeNumber> = ids.keys().copied().collect();
    let mut found = HashMap::new();
    for page in numbers.chunks(1_000) {
        for row in store.links(owner, Links::Of(page.to_vec())).await.unwrap() {
            let place = Found {
                conversation: ids[&row.conversation].clone(),
                agent: ids[&row.agent].clone(),
            };
            found.insert(ids[&row.exchange].clone(), place);
        }
    }
    found
}

/// Records and links everything, and gives where each exchange was put, with what is true of it.
async fn link(exchanges: impl Iterator<Item = (RawExchange, Truth)>) -> (HashMap<String, Found>, Vec<Truth>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), &Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    let mut exchanges = exchanges.peekable();
    let mut truths = Vec::new();
    while exchanges.peek().is_some() {
        let (batch, known): (Vec<_>, Vec<_>) = exchanges.by_ref().take(BATCH).unzip();
        truths.extend(known);
        recorder.record(&batch).await.unwrap();
        recorder.link().await.unwrap();
    }
    (found(&store, &recorder).await, truths)
}

/// The same in another order: each stretch backwards, as from recorders that are minutes behind each other.
fn shuffled(exchanges: impl Iterator<Item = (RawExchange, Truth)>) -> impl Iterator<Item = (RawExchange, Truth)> {
    let mut exchanges = exchanges.peekable();
    let stretches = std::iter::from_fn(move || {
        exchanges.peek()?;
        let mut stretch: Vec<_> = exchanges.by_ref().take(SHUFFLED).collect();
        stretch.reverse();
        Some(stretch)
    });
    stretches.flatten()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse::<u64>().ok());
    let (conversations, seed) = (numbers.next().unwrap_or(2_000), numbers.next().unwrap_or(1));
    for mode in [Mode::Hinted, Mode::ContentOnly] {
        let begun = Instant::now();
        let (placed, truths) = link(traffic(seed, conversations, mode)).await;
        let seconds = begun.elapsed().as_secs_f64();
        let score = score(&truths, mode, |id| placed.get(id).cloned());
        println!(
            "{mode:?}, {:.0} exchanges/s generated, recorded and linked\n{score}",
            truths.len() as f64 / seconds
        );
        let agents = score
            .by_cause
            .iter()
            .filter(|(cause, _)| matches!(cause, Cause::Subagent(_)));
        let (all, wrong) = agents.fold((0, 0), |(all, wrong), (_, score)| {
            (all + score.exchanges, wrong + score.split_off + score.wrong_agents)
        });
        println!(
            "subagents linked: {} of {all}, {:.2} %",
            all - wrong,
            100.0 * (all - wrong) as f64 / all.max(1) as f64
        );
        let (again, _) = link(shuffled(traffic(seed, conversations, mode))).await;
        let moved = placed
            .iter()
            .filter(|(id, place)| again.get(*id) != Some(place))
            .count();
        println!("arrival in another order moves {moved} exchanges\n");
    }
}

//! What insight costs and how well it does, on sets of which the truth is known.
//!
//! `cargo bench -p ropewalk-engine --bench insight -- [CONVERSATIONS] [EXCHANGES]`: near-duplicates and templates over stores of 10^3
//! conversations and ten times more each time, up to CONVERSATIONS; then who saw a text in a store of EXCHANGES.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail and prints what it measured"
)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::insight::spread::Wanted;
use ropewalk_engine::insight::{suggest, templates};
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Store as _;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::conversation::Random;
use ropewalk_testkit::labelled::{LabelledMerges, LabelledTalks, Rates, exchange, labelled_prompts, same_label};

const BATCH: usize = 256;
const FIRST: usize = 1_000;
const TURNS: usize = 10;
const PROBES: usize = 50;

async fn record(store: &Sqlite, exchanges: impl Iterator<Item = RawExchange>) {
    let mut recorder = Recorder::new(store, "me", &BundledPrices).await.unwrap();
    let mut exchanges = exchanges.peekable();
    while exchanges.peek().is_some() {
        let batch: Vec<RawExchange> = exchanges.by_ref().take(BATCH).collect();
        recorder.record(&batch).await.unwrap();
        recorder.link().await.unwrap();
    }
    while store.index_texts(10_000).await.unwrap().waiting > 0 {}
}

fn each(spent: Duration, count: usize) -> String {
    let micros = spent.as_secs_f64() * 1e6 / count as f64;
    format!("{:.2} s, {micros:.0} µs each", spent.as_secs_f64())
}

async fn near_duplicates_and_templates(count: usize) {
    let talks = LabelledTalks::new(1, count);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()).on_own_thread();
    record(&store, talks.exchanges()).await;
    let owner = store.owner("me").await.unwrap();
    let view = View::new(&*store, owner, "me");
    let begun = Instant::now();
    let settings = suggest::Settings {
        given_max: count,
        compared_max: count,
        ..suggest::Settings::default()
    };
    let suggestions = view.suggest(&settings).await.unwrap();
    let spent = begun.elapsed();
    let places = places(&view).await;
    let pairs = suggestions.pairs.iter();
    let found: BTreeSet<(usize, usize)> = pairs
        .map(|pair| (places[&pair.a.conversation_id], places[&pair.b.conversation_id]))
        .collect();
    println!(
        "suggest    {count:>7} conversations: {}; {}",
        each(spent, count),
        Rates::of(&found, &talks.alike)
    );
    let begun = Instant::now();
    let mined = view.templates(&templates::Settings::default()).await.unwrap();
    println!(
        "templates  {count:>7} conversations: {}; {} prompts",
        each(begun.elapsed(), count),
        mined.prompts
    );
}

/// The number of each talk by the id of its conversation.
async fn places(view: &View<'_, Sqlite>) -> HashMap<String, usize> {
    let mut places = HashMap::new();
    let mut before = None;
    loop {
        let rows = view.conversations_before(before, BATCH).await.unwrap();
        let Some(last) = rows.last() else { return places };
        before = Some((last.last_at, last.root));
        for row in &rows {
            let conversation = view.conversation(row).await.unwrap();
            places.insert(conversation.conversation_id, conversation.roots[0].parse().unwrap());
        }
    }
}

fn prompts(count: usize) {
    let prompts = labelled_prompts(2, count);
    let begun = Instant::now();
    let mut miner = templates::Miner::default();
    let found: Vec<Option<usize>> = (0..)
        .zip(&prompts)
        .map(|(at, prompt)| miner.add(at, true, &prompt.text))
        .collect();
    let spent = begun.elapsed();
    let truth: Vec<Option<usize>> = prompts.iter().map(|prompt| prompt.template).collect();
    let rates = Rates::of(&same_label(&found), &same_label(&truth));
    println!("templates  {count:>7} prompts: {}; {rates}", each(spent, count));
}

async fn merges(count: usize) {
    let LabelledMerges { exchanges, merges } = LabelledMerges::new(3, count);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()).on_own_thread();
    record(&store, exchanges.into_iter()).await;
    let owner = store.owner("me").await.unwrap();
    let view = View::new(&*store, owner, "me");
    let (mut found, mut before, mut spent) = (BTreeSet::new(), None, Duration::ZERO);
    loop {
        let rows = view.conversations_before(before, BATCH).await.unwrap();
        let Some(last) = rows.last() else { break };
        before = Some((last.last_at, last.root));
        let begun = Instant::now();
        for row in &rows {
            let in_it = view.merges(row.root).await.unwrap().merges.into_iter();
            found.extend(in_it.map(|merge| (merge.from_exchange_id, merge.into_exchange_id)));
        }
        spent += begun.elapsed();
    }
    println!(
        "merges     {count:>7} conversations: {}; {}",
        each(spent, count),
        Rates::of(&found, &merges)
    );
}

/// Conversations of some turns, side by side; in one in a thousand of them the second turn brings a secret.
fn conversations(exchanges: usize) -> impl Iterator<Item = RawExchange> {
    let mut random = Random(3);
    (0..exchanges.div_ceil(TURNS)).flat_map(move |conversation| {
        let mut said: Vec<String> = Vec::new();
        let turns = (0..TURNS).map(|turn| {
            let planted = if turn == 1 && conversation % 1_000 == 7 {
                secret(conversation)
            } else {
                String::new()
            };
            said.push(format!("{} {planted}", random.prose(200)));
            said.push(random.prose(300));
            let at = (conversation * TURNS + turn) as i64 * 1_000_000;
            exchange(&format!("{conversation}-{turn}"), at, &said)
        });
        turns.collect::<Vec<_>>()
    })
}

fn secret(conversation: usize) -> String {
    format!("the key is heron-{conversation}-delta")
}

async fn who_saw_it(exchanges: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()).on_own_thread();
    let begun = Instant::now();
    record(&store, conversations(exchanges)).await;
    println!(
        "spread     {exchanges:>7} exchanges recorded in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    let owner = store.owner("me").await.unwrap();
    let view = View::new(&*store, owner, "me");
    let secrets = exchanges.div_ceil(TURNS).div_ceil(1_000);
    let mut random = Random(4);
    let mut spent: Vec<Duration> = Vec::new();
    for _ in 0..PROBES {
        let wanted = Wanted::new(&secret(random.below(secrets) * 1_000 + 7)).unwrap();
        let begun = Instant::now();
        let spread = view.spread(&wanted).await.unwrap();
        spent.push(begun.elapsed());
        assert_eq!(spread.exchanges.len(), TURNS - 1);
    }
    spent.sort_unstable();
    let ms = |place: usize| spent[place].as_secs_f64() * 1e3;
    println!(
        "spread     {exchanges:>7} exchanges: p50 {:.2} ms, worst {:.2} ms",
        ms(PROBES / 2),
        ms(PROBES - 1)
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse::<usize>().ok());
    let (most, exchanges) = (numbers.next().unwrap_or(100_000), numbers.next().unwrap_or(100_000));
    let mut count = FIRST;
    while count <= most {
        near_duplicates_and_templates(count).await;
        prompts(count);
        merges(count).await;
        count *= 10;
    }
    if exchanges > 0 {
        who_saw_it(exchanges).await;
    }
}

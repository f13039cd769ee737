//! How well linking does on generated traffic with known truth.
//!
//! `cargo bench -p ropewalk-engine --bench truth -- [CONVERSATIONS] [SEED] [LINKED] [hinted | content] [ordered] [spacing=MS] [around=ID]`. Prints the score with
//! the clients' hints and without, why conversations came apart, the share of subagents that were linked, and, unless `ordered` is
//! said, whether arrival in another order gives the same. LINKED is how many exchanges of those that arrive in another order are
//! linked together: the fewer, the more often each is decided again. MS lies between the starts of two conversations: with 50 instead
//! of 1,000 a twentieth of them has as many that come within seconds of each other. What a long run found wrong about an exchange is looked into with
//! `around=`: only what was sent in the minutes around that one is recorded.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark may fail and prints what it found"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::link::decision::Linked;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::derived::Links;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::Selection;
use ropewalk_store::{Micros, Store};
use ropewalk_testkit::traffic::{Cause, Found, Mode, Settings, Traffic, Truth, score};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: usize = 256;

/// A run of a million takes a while; this often it says how far it is.
const EXCHANGES_PER_LINE: usize = 100 * BATCH * 4;

/// How far apart exchanges may arrive that were sent one after the other, in the run that shuffles.
const SHUFFLED: usize = 2_000;

/// Stretches that are recorded before and behind an exchange that is looked into.
const STRETCHES_AROUND: usize = 6;

/// What is generated, and the exchange around which it is recorded, if not all of it is.
#[derive(Clone)]
struct Generated {
    settings: Settings,
    around: Option<String>,
}

impl Generated {
    fn exchanges(&self) -> impl Iterator<Item = (RawExchange, Truth)> {
        let traffic = || Traffic::new(self.settings.clone());
        let (first, count) = match &self.around {
            Some(id) => {
                let place = traffic().position(|recorded| recorded.truth.id == *id).unwrap();
                let stretch = place / SHUFFLED;
                let first = stretch.saturating_sub(STRETCHES_AROUND);
                (first * SHUFFLED, (stretch - first + STRETCHES_AROUND) * SHUFFLED)
            }
            None => (0, usize::MAX),
        };
        let recorded = traffic().skip(first).take(count);
        recorded.map(|recorded| (RawExchange::try_from(recorded.line).unwrap(), recorded.truth))
    }
}

/// Where an exchange was put, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Placed {
    found: Found,
    reason: String,
}

/// Names of the conversation and the agent of each exchange: ids of exchanges.
async fn placed(store: &Sqlite, recorder: &Recorder<'_, Sqlite>) -> HashMap<String, Placed> {
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
    let mut placed = HashMap::new();
    for page in numbers.chunks(1_000) {
        for row in store.links(owner, Links::Of(page.to_vec())).await.unwrap() {
            let found = Found {
                conversation: ids[&row.conversation].clone(),
                agent: ids[&row.agent].clone(),
            };
            let reason = reason(&Linked::read(&row).unwrap());
            placed.insert(ids[&row.exchange].clone(), Placed { found, reason });
        }
    }
    placed
}

/// The rule that linked it, and why candidates were turned down.
fn reason(linked: &Linked) -> String {
    let why: BTreeSet<String> = linked
        .decision
        .rejected
        .iter()
        .map(|rejected| format!("{:?}", rejected.why))
        .collect();
    let why: Vec<String> = why.into_iter().collect();
    format!("{} [{}]", linked.decision.method.name(), why.join(" "))
}

/// Why conversations came apart: of each piece that was split off, how its first exchange came about and what linked it.
fn print_splits(split_off: &[String], truths: &[Truth], placed: &HashMap<String, Placed>) {
    let split_off: HashSet<&String> = split_off.iter().collect();
    let mut pieces: HashSet<(&str, &str)> = HashSet::new();
    let mut kinds: BTreeMap<(Cause, &str), Vec<&str>> = BTreeMap::new();
    for truth in truths.iter().filter(|truth| split_off.contains(&truth.id)) {
        let piece = &placed[&truth.id];
        if pieces.insert((&truth.conversation, &piece.found.conversation)) {
            kinds.entry((truth.cause, &piece.reason)).or_default().push(&truth.id);
        }
    }
    for ((cause, reason), ids) in kinds {
        let few = &ids[..ids.len().min(3)];
        println!(
            "split off: {} pieces that begin with {cause:?}, linked by {reason}: {}",
            ids.len(),
            few.join(" ")
        );
    }
}

/// Records everything and links it, so many at a time, and gives where each exchange was put, with what is true of it.
async fn link(
    exchanges: impl Iterator<Item = (RawExchange, Truth)>,
    linked_together: usize,
) -> (HashMap<String, Placed>, Vec<Truth>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()).on_own_thread();
    let mut recorder = Recorder::new(&*store, "me", &BundledPrices).await.unwrap();
    let mut exchanges = exchanges.peekable();
    let (mut truths, mut linked) = (Vec::new(), 0);
    let mut spent = [Duration::ZERO; 3];
    while exchanges.peek().is_some() {
        let begun = Instant::now();
        let (batch, known): (Vec<_>, Vec<_>) = exchanges.by_ref().take(BATCH).unzip();
        truths.extend(known);
        let generated = Instant::now();
        recorder.record(&batch).await.unwrap();
        let recorded = Instant::now();
        if truths.len() - linked >= linked_together || exchanges.peek().is_none() {
            recorder.link().await.unwrap();
            linked = truths.len();
        }
        spent[0] += generated - begun;
        spent[1] += recorded - generated;
        spent[2] += recorded.elapsed();
        if truths.len().is_multiple_of(EXCHANGES_PER_LINE) {
            let rate = truths.len() as f64 / spent.iter().sum::<Duration>().as_secs_f64();
            eprintln!("{:>9} exchanges, {rate:.0}/s so far", truths.len());
        }
    }
    let rate = |part: usize| truths.len() as f64 / spent[part].as_secs_f64();
    println!(
        "exchanges/s: generated {:.0}, prepared and recorded {:.0}, linked {:.0}",
        rate(0),
        rate(1),
        rate(2)
    );
    (placed(&store, &recorder).await, truths)
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
    let linked_together = numbers.next().map_or(BATCH, |number| number as usize);
    let value_of = |name: &str| std::env::args().find_map(|argument| Some(argument.strip_prefix(name)?.to_owned()));
    let around = value_of("around=");
    let spacing_ms = value_of("spacing=").map(|milliseconds| milliseconds.parse().unwrap());
    let is_said = |word: &str| std::env::args().any(|argument| argument == word);
    for (mode, but) in [(Mode::Hinted, "content"), (Mode::ContentOnly, "hinted")] {
        if !is_said(but) {
            let mut settings = Settings::new(seed, conversations, mode);
            settings.spacing_ms = spacing_ms.unwrap_or(settings.spacing_ms);
            let generated = Generated {
                settings,
                around: around.clone(),
            };
            let shuffled = (!is_said("ordered")).then_some(linked_together);
            run(&generated, shuffled).await;
        }
    }
}

async fn run(generated: &Generated, shuffled_linked_together: Option<usize>) {
    let mode = generated.settings.mode;
    let begun = Instant::now();
    let (placed, truths) = link(generated.exchanges(), BATCH).await;
    let seconds = begun.elapsed().as_secs_f64();
    let score = score(&truths, mode, |id| placed.get(id).map(|placed| placed.found.clone()));
    println!(
        "{mode:?}, {:.0} exchanges/s generated, recorded and linked\n{score}",
        truths.len() as f64 / seconds
    );
    print_splits(&score.split_off_ids, &truths, &placed);
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
    if let Some(linked_together) = shuffled_linked_together {
        let (again, _) = link(shuffled(generated.exchanges()), linked_together).await;
        let is_moved =
            |(id, place): &(&String, &Placed)| again.get(*id).map(|again| &again.found) != Some(&place.found);
        let moved: Vec<_> = placed.iter().filter(is_moved).collect();
        println!("arrival in another order moves {} exchanges", moved.len());
        for (id, place) in moved.iter().take(5) {
            println!("moved: {id} from {place:?} to {:?}", again.get(*id));
        }
    }
    println!();
}

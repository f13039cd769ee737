//! Why a prompt was not read from a cache: generated traffic with planted causes, against simulated providers, and recorded traffic.

pub(crate) mod provider;

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::insight::cache::{CacheReport, CauseKind, Outcome, Period};
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::{Micros, Store as _};
use ropewalk_testkit::captures::captures;
use ropewalk_testkit::conversation::Random;
use ropewalk_wire::exchange::ExchangeLine;

use crate::prepare::raw;
use provider::{Ask, Block, Counted, Format, Keeper};

/// What is done to one turn of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plant {
    Model,
    Beta,
    Key,
    /// Longer than any cache keeps what this conversation asks it to keep.
    Pause,
    ToolChanged,
    ToolAdded,
    ToolsReordered,
    System,
    SystemAdded,
    Settings,
    Message,
    Unmarked,
    MarkedEarlier,
    MarkedTooFarBehind,
    ProviderForgets,
    /// The whole conversation is short.
    Short,
}

impl Plant {
    const ASKED: [Plant; 15] = [
        Plant::Model,
        Plant::Beta,
        Plant::Pause,
        Plant::ToolChanged,
        Plant::ToolAdded,
        Plant::ToolsReordered,
        Plant::System,
        Plant::SystemAdded,
        Plant::Settings,
        Plant::Message,
        Plant::Unmarked,
        Plant::MarkedEarlier,
        Plant::MarkedTooFarBehind,
        Plant::ProviderForgets,
        Plant::Short,
    ];
    const AUTOMATIC: [Plant; 10] = [
        Plant::Model,
        Plant::Key,
        Plant::Pause,
        Plant::ToolChanged,
        Plant::ToolAdded,
        Plant::ToolsReordered,
        Plant::System,
        Plant::Message,
        Plant::ProviderForgets,
        Plant::Short,
    ];

    fn cause(self) -> CauseKind {
        match self {
            Plant::Model => CauseKind::OtherModel,
            Plant::Beta => CauseKind::OtherBeta,
            Plant::Key => CauseKind::OtherCacheKey,
            Plant::Pause => CauseKind::Expired,
            Plant::ToolChanged | Plant::ToolAdded | Plant::ToolsReordered => CauseKind::Tools,
            Plant::System | Plant::SystemAdded => CauseKind::System,
            Plant::Settings => CauseKind::Settings,
            Plant::Message => CauseKind::Message,
            Plant::Unmarked => CauseKind::BreakpointMissing,
            Plant::MarkedEarlier | Plant::MarkedTooFarBehind => CauseKind::BreakpointMoved,
            Plant::ProviderForgets => CauseKind::Provider,
            Plant::Short => CauseKind::BelowMinimum,
        }
    }
}

/// Which of several bites first: what is spoilt from the beginning, then by where it stands in the prompt.
const ORDER: [CauseKind; 12] = [
    CauseKind::BelowMinimum,
    CauseKind::OtherModel,
    CauseKind::OtherBeta,
    CauseKind::OtherCacheKey,
    CauseKind::Expired,
    CauseKind::Tools,
    CauseKind::System,
    CauseKind::Settings,
    CauseKind::Message,
    CauseKind::BreakpointMissing,
    CauseKind::BreakpointMoved,
    CauseKind::Provider,
];

/// What is known of one exchange before anybody looks at it.
struct Truth {
    id: String,
    model: &'static str,
    cause: Option<CauseKind>,
    counted: Counted,
    /// What the provider had kept for it.
    readable: u64,
}

struct Planted {
    exchanges: Vec<RawExchange>,
    truths: Vec<Truth>,
    random: Random,
    number: u32,
}

const SONNET: &str = "claude-sonnet-4-5";
const OPUS: &str = "claude-opus-4-1";
const GPT: &str = "gpt-5";
const GPT_MINI: &str = "gpt-5-mini";
const TURNS: usize = 4;
/// The turn that something is done to.
const PLANTED: usize = 2;

impl Planted {
    fn new() -> Self {
        Planted {
            exchanges: Vec::new(),
            truths: Vec::new(),
            random: Random(7),
            number: 0,
        }
    }

    fn text(&mut self, chars: usize) -> String {
        let mut text = format!("no. {} {}", self.number, self.random.below(1 << 30));
        while text.len() < chars {
            text.push_str(&format!(" word{}", self.random.below(100_000)));
        }
        text
    }

    fn block(&mut self, place: &'static str, chars: usize) -> Block {
        let text = self.text(chars);
        Block {
            place,
            text,
            keep: None,
        }
    }

    fn conversation(&mut self, format: Format, plants: &[Plant]) {
        self.number += 1;
        let is_asked = format == Format::Messages;
        let is_short = plants.contains(&Plant::Short);
        let keep = if self.number.is_multiple_of(3) { 3_600 } else { 300 };
        let mut ask = Ask {
            at_s: 1_767_225_600 + i64::from(self.number) * 100_000,
            model: if is_asked { SONNET } else { GPT },
            betas: "prompt-tools-2026-01-01",
            key: "one",
            tool_choice: "",
            blocks: Vec::new(),
        };
        let sizes: [(&str, usize); 4] = match is_short {
            true => [("tools", 40), ("tools", 40), ("system", 60), ("user", 30)],
            false => [("tools", 900), ("tools", 700), ("system", 6_000), ("user", 1_500)],
        };
        for (place, chars) in sizes {
            let block = self.block(place, chars);
            ask.blocks.push(block);
        }
        let mut keeper = Keeper::default();
        let mut before = Counted::default();
        for turn in 0..TURNS {
            let is_planted = turn == PLANTED;
            if is_planted {
                for plant in plants {
                    self.plant(*plant, &mut ask, keep);
                }
            }
            let mut sent = ask.clone();
            if is_asked && !(is_planted && plants.contains(&Plant::Unmarked)) {
                mark(&mut sent, keep, is_planted && plants.contains(&Plant::MarkedEarlier));
            }
            if is_planted && plants.contains(&Plant::ProviderForgets) {
                keeper.forget();
            }
            let counted = match is_asked {
                true => keeper.asked(&sent),
                false => keeper.automatic(&sent),
            };
            let cause = match (turn, is_short) {
                (0, _) => None,
                (_, true) => Some(CauseKind::BelowMinimum),
                (PLANTED, _) => ORDER
                    .into_iter()
                    .find(|cause| plants.iter().any(|plant| plant.cause() == *cause)),
                // What was not kept because nobody asked cannot be read in the turn behind it.
                (_, false) if plants.contains(&Plant::Unmarked) && turn == PLANTED + 1 => {
                    Some(CauseKind::BreakpointMissing)
                }
                _ => None,
            };
            let left = match is_asked {
                true if before.read + before.written_5m + before.written_1h > 0 => before.total() - before.input,
                true if is_short => 0,
                true => before.total(),
                false if before.total() >= 1_024 => before.total() - before.total() % 128,
                false => 0,
            };
            self.record(format, &sent, turn, cause, counted, left.min(counted.total()));
            before = counted;
            let answer = self.exchanges.last().map(|raw| answer_of(&raw.id)).unwrap();
            ask.blocks.push(Block {
                place: "assistant",
                text: answer,
                keep: None,
            });
            let next = self.block("user", if is_short { 20 } else { 800 });
            ask.blocks.push(next);
            ask.at_s += 40;
        }
    }

    fn plant(&mut self, plant: Plant, ask: &mut Ask, keep: i64) {
        match plant {
            Plant::Model if ask.model == SONNET => ask.model = OPUS,
            Plant::Model => ask.model = GPT_MINI,
            Plant::Beta => ask.betas = "prompt-tools-2026-01-01,context-2026-02-02",
            Plant::Key => ask.key = "two",
            Plant::Pause => ask.at_s += keep.max(3_600) + 600,
            Plant::ToolChanged => ask.blocks[1].text.push_str(", and more"),
            Plant::ToolAdded => {
                let tool = self.block("tools", 100);
                ask.blocks.insert(2, tool);
            }
            Plant::ToolsReordered => ask.blocks.swap(0, 1),
            Plant::System => {
                let system = ask.blocks.iter_mut().find(|block| block.place == "system").unwrap();
                let middle = system.text.len() / 2;
                system.text.insert_str(middle, "Today is another day.");
            }
            Plant::SystemAdded => {
                let at = ask.blocks.iter().position(|block| block.place == "user").unwrap();
                let system = self.block("system", 60);
                ask.blocks.insert(at, system);
            }
            Plant::Settings => ask.tool_choice = "any",
            Plant::Message => {
                let user = ask.blocks.iter_mut().find(|block| block.place == "user").unwrap();
                let middle = user.text.len() / 2;
                user.text.replace_range(middle.., "[cleared]");
            }
            Plant::MarkedTooFarBehind => {
                for _ in 0..25 {
                    let block = self.block("user", 30);
                    ask.blocks.push(block);
                }
            }
            Plant::Unmarked | Plant::MarkedEarlier | Plant::ProviderForgets | Plant::Short => {}
        }
    }

    fn record(
        &mut self,
        format: Format,
        ask: &Ask,
        turn: usize,
        cause: Option<CauseKind>,
        counted: Counted,
        readable: u64,
    ) {
        let id = format!("c{}-{turn}", self.number);
        let response = format.response(&id, ask.model, &answer_of(&id), &counted);
        let mut exchange = raw(
            format.path(),
            &format.request(ask).to_string(),
            Some((200, &response.to_string())),
        );
        exchange.id.clone_from(&id);
        exchange.at = Micros(ask.at_s * 1_000_000);
        exchange.ended_at = Some(Micros(ask.at_s * 1_000_000 + 900_000));
        exchange.request_headers = vec![("anthropic-beta".to_owned(), ask.betas.to_owned())];
        self.exchanges.push(exchange);
        self.truths.push(Truth {
            id,
            model: ask.model,
            cause,
            counted,
            readable,
        });
    }
}

/// Long enough to be known again where what stands before it was rewritten.
fn answer_of(id: &str) -> String {
    format!(
        "This is the answer of {id}, which is said nowhere else and goes on for more than a hundred characters so that it is known again: {id}."
    )
}

fn mark(ask: &mut Ask, keep: i64, is_earlier: bool) {
    let system = ask.blocks.iter().rposition(|block| block.place == "system").unwrap();
    ask.blocks[system].keep = Some(keep);
    if !is_earlier {
        ask.blocks.last_mut().unwrap().keep = Some(keep);
    }
}

/// Nano-dollars per token: input, read, written for five minutes, written for an hour.
fn rates(model: &str) -> [u64; 4] {
    match model {
        SONNET => [3_000, 300, 3_750, 6_000],
        OPUS => [15_000, 1_500, 18_750, 30_000],
        GPT => [1_250, 125, 0, 0],
        GPT_MINI => [250, 25, 0, 0],
        other => panic!("{other} has no price here"),
    }
}

/// What a turn paid more than it would have had it read what it could: the first tokens are those for an hour.
fn lost_money(truth: &Truth, lost: u64) -> u64 {
    let [input, read, short, long] = rates(truth.model);
    let mut left = lost;
    let mut sum = 0;
    for (tokens, rate) in [
        (truth.counted.written_1h, long),
        (truth.counted.written_5m, short),
        (truth.counted.input, input),
    ] {
        let taken = left.min(tokens);
        sum += taken * rate - taken * read;
        left -= taken;
    }
    sum
}

async fn recorded(exchanges: &[RawExchange]) -> Sqlite {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for batch in exchanges.chunks(64) {
        recorder.record(batch).await.unwrap();
    }
    recorder.link().await.unwrap();
    store
}

async fn view(store: &Sqlite) -> View<'_, Sqlite> {
    View::new(store, store.owner("me").await.unwrap(), "me")
}

async fn reports(view: &View<'_, Sqlite>) -> Vec<CacheReport> {
    let mut reports = Vec::new();
    let mut after: Option<(Micros, ExchangeNumber)> = None;
    loop {
        let rows = view.rows_after(after, 100).await.unwrap();
        let Some(last) = rows.last() else { return reports };
        after = Some((last.at, last.number));
        for row in &rows {
            reports.push(view.explain_cache(row, &BundledPrices).await.unwrap());
        }
    }
}

fn since(micros: i64) -> Period {
    Period {
        since: Some(Micros(micros)),
        ..Period::default()
    }
}

fn until(micros: i64) -> Period {
    Period {
        until: Some(Micros(micros)),
        ..Period::default()
    }
}

#[tokio::test]
async fn planted_causes_are_named_and_priced_to_the_nano_dollar() {
    let mut planted = Planted::new();
    let (mut alone, mut mixed) = (0, 0);
    for (formats, plants) in [
        (&[Format::Messages][..], &Plant::ASKED[..]),
        (&[Format::Chat, Format::Responses][..], &Plant::AUTOMATIC[..]),
    ] {
        for (index, one) in plants.iter().enumerate() {
            for format in formats {
                planted.conversation(*format, &[]);
                planted.conversation(*format, &[*one]);
                alone += 1;
            }
            for (second, other) in plants.iter().enumerate().skip(index + 1) {
                planted.conversation(formats[(index + second) % formats.len()], &[*one, *other]);
                mixed += 1;
            }
        }
    }
    let store = recorded(&planted.exchanges).await;
    let view = view(&store).await;
    let (mut right, mut paid_right, mut all) = (0, 0, 0);
    let reports = reports(&view).await;
    let mut sums = std::collections::BTreeMap::<CauseKind, (u64, u64)>::new();
    for truth in &planted.truths {
        let report = reports.iter().find(|report| report.exchange_id == truth.id).unwrap();
        let named = report.cause.as_ref().map(|cause| cause.kind);
        let lost = match named {
            Some(_) => truth.readable - truth.counted.read.min(truth.readable),
            None => 0,
        };
        let money = report.money.map(|money| money.lost.0).unwrap_or_default();
        all += 1;
        right += usize::from(named == truth.cause);
        let is_exact = report.lost_tokens == lost && money == lost_money(truth, lost);
        paid_right += usize::from(is_exact);
        if named != truth.cause || !is_exact {
            eprintln!("{} should be {:?} and is {report:?}", truth.id, truth.cause);
        }
        if let Some(cause) = named {
            let sum = sums.entry(cause).or_default();
            *sum = (sum.0 + 1, sum.1 + money);
        }
    }
    eprintln!(
        "{alone} causes alone and {mixed} mixed in {all} exchanges: cause named in {:.2} %, money exact in {:.2} %",
        100.0 * right as f64 / all as f64,
        100.0 * paid_right as f64 / all as f64
    );
    assert!(right * 100 >= all * 99, "{right} of {all}");
    assert_eq!(paid_right, all);
    for kind in ORDER {
        assert!(sums.contains_key(&kind), "{kind:?} was never planted");
    }
    // Over the whole period the same causes with the same sums, the dearest first.
    let stats = view.cache_stats(Period::default(), &BundledPrices).await.unwrap();
    let ranked: Vec<(CauseKind, u64, f64)> = stats
        .causes
        .iter()
        .map(|sums| (sums.cause, sums.turns, sums.lost_usd))
        .collect();
    assert!(ranked.is_sorted_by(|one, next| one.2 >= next.2), "{ranked:?}");
    assert_eq!(ranked.len(), sums.len());
    for (cause, turns, lost_usd) in ranked {
        assert_eq!(
            (turns, lost_usd),
            (sums[&cause].0, sums[&cause].1 as f64 / 1e9),
            "{cause:?}"
        );
    }
    let first = planted.exchanges.iter().map(|raw| raw.at).min().unwrap();
    let none = view.cache_stats(until(first.0 - 1), &BundledPrices).await.unwrap();
    assert_eq!((none.turns, none.causes.len(), none.read_share), (0, 0, None));
    let rest = view.cache_stats(since(first.0 + 1), &BundledPrices).await.unwrap();
    let bounded = Period {
        exchanges_max: Some(3),
        ..Period::default()
    };
    let cut = view.cache_stats(bounded, &BundledPrices).await.unwrap();
    assert_eq!((cut.is_cut, cut.turns + cut.nothing_to_read), (true, 3));
    assert!(!stats.is_cut);
    assert_eq!(
        stats.nothing_to_read,
        rest.nothing_to_read + 1,
        "the first turn of all is left out"
    );
}

#[tokio::test]
async fn counts_of_any_size_do_no_harm() {
    let mut planted = Planted::new();
    for (format, was, is) in [
        (
            Format::Chat,
            "\"cached_tokens\":",
            "\"cached_tokens\":99999999999999999999",
        ),
        (
            Format::Messages,
            "\"cache_read_input_tokens\":",
            "\"cache_read_input_tokens\":99999999999999999999",
        ),
        (
            Format::Messages,
            "\"cache_creation_input_tokens\":",
            "\"cache_creation_input_tokens\":99999999999999999999",
        ),
    ] {
        planted.conversation(format, &[Plant::System]);
        for raw in planted.exchanges.iter_mut().rev().take(TURNS) {
            let body = String::from_utf8(raw.response_body.take().unwrap().to_vec()).unwrap();
            raw.response_body = Some(Bytes::from(body.replace(was, is)));
        }
    }
    let store = recorded(&planted.exchanges).await;
    let view = view(&store).await;
    assert_eq!(reports(&view).await.len(), planted.exchanges.len());
    let stats = view.cache_stats(Period::default(), &BundledPrices).await.unwrap();
    assert!(stats.readable_tokens >= stats.lost_tokens);
}

#[tokio::test]
async fn another_owner_explains_nothing_of_mine() {
    let mut planted = Planted::new();
    planted.conversation(Format::Messages, &[Plant::System]);
    let store = recorded(&planted.exchanges).await;
    let other = View::new(&store, store.owner("other").await.unwrap(), "other");
    let stats = other.cache_stats(Period::default(), &BundledPrices).await.unwrap();
    assert_eq!((stats.turns, stats.nothing_to_read), (0, 0));
    assert!(other.resolve_exchange("c1-2").await.is_err());
}

#[tokio::test]
async fn recorded_traffic_without_figures_has_nothing_to_explain() {
    let Some(files) = captures().unwrap() else { return };
    let (mut all, mut silent) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file.path).unwrap();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let exchanges: Vec<RawExchange> = lines
            .map(|line| RawExchange::try_from(ExchangeLine::parse(line.as_bytes()).unwrap()).unwrap())
            .collect();
        let store = recorded(&exchanges).await;
        for report in reports(&view(&store).await).await {
            all += 1;
            let raw = exchanges.iter().find(|raw| raw.id == report.exchange_id).unwrap();
            let body = raw.response_body.clone().unwrap_or_else(Bytes::new);
            let names = |name: &str| body.windows(name.len()).any(|window| window == name.as_bytes());
            let has_figures =
                names("cache_read_input_tokens") || names("cached_tokens") || names("cachedContentTokenCount");
            if !has_figures {
                assert_eq!(report.outcome, Outcome::NothingToExplain, "{}", report.exchange_id);
            }
            silent += usize::from(report.outcome == Outcome::NothingToExplain);
        }
    }
    eprintln!("nothing to explain in {silent} of {all} recorded exchanges");
    assert!(all > 0 && silent > 0);
}

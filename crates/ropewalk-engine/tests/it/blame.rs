//! Who brought each system block and tool: generated histories with known truth, and what is asked of the store for it.

use std::collections::HashMap;

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::insight::blame::{Blame, PartKind, Scope, What};
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::{Micros, Store};
use ropewalk_testkit::conversation::Random;
use ropewalk_testkit::watched_store::Watched;
use serde_json::json;

use crate::prepare::raw;

/// What is in force, by its text, with the turn that brought it.
type InForce = Vec<(String, usize)>;

/// A conversation whose tools and system blocks come, change, go and come back, with what is in force at each turn.
fn history(name: &str, turns: usize, random: &mut Random) -> (Vec<RawExchange>, Vec<InForce>) {
    let mut tools: Vec<(String, String)> = vec![("Read".to_owned(), "Reads a file.".to_owned())];
    let mut system = vec![format!("You are {name}.")];
    let mut since: HashMap<String, usize> = HashMap::new();
    let mut messages = Vec::new();
    let (mut exchanges, mut truth) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        match random.below(6) {
            0 => tools.push((format!("Tool{turn}"), random.prose(80))),
            1 if tools.len() > 1 => drop(tools.remove(random.below(tools.len()))),
            2 => tools[0].1 = format!("Reads a file, in way {}.", random.below(3)),
            3 => system.push(format!("Rule of turn {turn}: {}", random.prose(60))),
            4 if system.len() > 1 => drop(system.pop()),
            _ => {}
        }
        let shown = tools.iter().map(|(tool, text)| format!("{tool}: {text}"));
        let shown: Vec<String> = shown.chain(system.iter().cloned()).collect();
        since.retain(|part, _| shown.contains(part));
        let in_force = shown
            .iter()
            .map(|part| (part.clone(), *since.entry(part.clone()).or_insert(turn)));
        truth.push(in_force.collect());
        messages.push(json!({"role": "user", "content": format!("{name} asks for turn {turn}.")}));
        let body = json!({
            "model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages,
            "system": system.iter().map(|text| json!({"type": "text", "text": text})).collect::<Vec<_>>(),
            "tools": tools.iter().map(|(tool, text)| json!({"name": tool, "description": text})).collect::<Vec<_>>(),
        });
        let answer = format!("{name} is answered in turn {turn}.");
        let response = json!({
            "id": format!("msg_{name}_{turn}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
            "usage": {"input_tokens": body.to_string().len() / 4, "output_tokens": 9},
        });
        let mut exchange = raw("/v1/messages", &body.to_string(), Some((200, "")));
        exchange.response_body = Some(Bytes::from(response.to_string()));
        exchange.id = format!("{name}-{turn}");
        exchange.at = Micros(exchange.at.0 + turn as i64 * 1_000_000);
        exchange.ended_at = Some(Micros(exchange.at.0 + 1_000));
        exchanges.push(exchange);
        messages.push(json!({"role": "assistant", "content": answer}));
    }
    (exchanges, truth)
}

async fn record<S: Store>(store: &S, exchanges: &[RawExchange]) {
    let mut recorder = Recorder::new(store, "me", &BundledPrices).await.unwrap();
    for batch in exchanges.chunks(256) {
        recorder.record(batch).await.unwrap();
    }
    recorder.link().await.unwrap();
}

async fn blamed<S: Store>(store: &S, id: &str) -> Blame {
    let view = View::new(store, store.owner("me").await.unwrap(), "me");
    let row = view.resolve_exchange(id).await.unwrap();
    view.blame(&row, &BundledPrices).await.unwrap()
}

#[tokio::test]
async fn each_part_in_force_is_blamed_on_the_turn_that_brought_it() {
    let mut random = Random(3);
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut checked = 0;
    for name in ["Ann", "Bob", "Carol"] {
        let (exchanges, truth) = history(name, 40, &mut random);
        record(&store, &exchanges).await;
        for (turn, in_force) in truth.iter().enumerate() {
            let blame = blamed(&store, &format!("{name}-{turn}")).await;
            assert_eq!((blame.parts.len(), blame.turns), (in_force.len(), turn as u64 + 1));
            assert!(!blame.is_cut);
            for (part, (text, since)) in blame.parts.iter().zip(in_force) {
                assert_eq!(part.exchange_id, format!("{name}-{since}"), "turn {turn}: {text}");
                assert_eq!(part.turns as usize, turn + 1 - since);
                checked += 1;
            }
        }
    }
    eprintln!("{checked} parts blamed on the right turn");
}

#[tokio::test]
async fn money_is_tokens_at_the_price_of_each_turn() {
    let (exchanges, _) = history("Dan", 6, &mut Random(5));
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    record(&store, &exchanges).await;
    // Nothing is cached, so every token costs three dollars a million in every turn.
    for part in blamed(&store, "Dan-5").await.parts {
        let expected = (part.tokens_estimate * part.turns * 3_000) as f64 / 1e9;
        assert_eq!(part.cost_usd_estimate, Some(expected), "{part:?}");
    }
}

#[tokio::test]
async fn a_timeline_plays_every_change_in_order() {
    let (exchanges, truth) = history("Eve", 40, &mut Random(11));
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    record(&store, &exchanges).await;
    let view = View::new(&store, store.owner("me").await.unwrap(), "me");
    let row = view.resolve_exchange("Eve-39").await.unwrap();
    let timeline = view.timeline(Scope::Path(&row), &BundledPrices).await.unwrap();
    let (mut tools, mut blocks) = (1_i64, 1_i64);
    let mut told = timeline.changes.iter().peekable();
    for (turn, in_force) in truth.iter().enumerate() {
        if turn == 0 {
            tools = in_force
                .iter()
                .filter(|(text, _)| text.contains("file") || text.starts_with("Tool"))
                .count() as i64;
            blocks = in_force.len() as i64 - tools;
        }
        while let Some(change) = told.next_if(|change| change.exchange_id == format!("Eve-{turn}")) {
            let by = match change.what {
                What::Added => 1,
                What::Removed => -1,
                What::Changed => 0,
            };
            match change.kind {
                PartKind::Tool => tools += by,
                PartKind::System => blocks += by,
            }
        }
        assert_eq!((tools + blocks) as usize, in_force.len(), "turn {turn}");
    }
    assert!(told.next().is_none(), "every change has its turn");
}

#[tokio::test]
async fn changes_are_seen_to_the_end_of_a_long_conversation() {
    let (exchanges, truth) = history("Hal", 280, &mut Random(4));
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    record(&store, &exchanges).await;
    let view = View::new(&store, store.owner("me").await.unwrap(), "me");
    let changed = |turn: &usize| {
        let texts = |turn: usize| -> Vec<&String> { truth[turn].iter().map(|(text, _)| text).collect() };
        texts(*turn) != texts(turn - 1)
    };
    let last = (1..280).rev().find(changed).map(|turn| format!("Hal-{turn}")).unwrap();
    let root = view.resolve_exchange("Hal-0").await.unwrap().number;
    let shown = view.context_changes(root).await.unwrap();
    assert_eq!(shown.last().map(|change| &change.exchange_id), Some(&last));
    let row = view.resolve_exchange("Hal-279").await.unwrap();
    let timeline = view.timeline(Scope::Path(&row), &BundledPrices).await.unwrap();
    assert_eq!(timeline.changes.last().map(|change| &change.exchange_id), Some(&last));
    assert!(!timeline.is_cut);
}

#[tokio::test]
async fn blame_asks_as_much_of_a_large_store_as_of_a_small_one() {
    let mut random = Random(9);
    let (exchanges, _) = history("Fay", 30, &mut random);
    let store = Watched::new(Sqlite::in_memory(&Options::default()).unwrap());
    record(&store, &exchanges).await;
    // Questions that are asked, and exchanges and links that are given.
    let counted = async || {
        store.take_calls();
        store.take_rows();
        blamed(&store, "Fay-29").await;
        (store.take_calls().len(), store.take_rows())
    };
    let small = counted().await;
    for number in 0..60 {
        // The same parts in other conversations.
        let (strangers, _) = history(&format!("Stranger{number}"), 20, &mut random);
        record(&store, &strangers).await;
    }
    assert_eq!(counted().await, small);
    eprintln!(
        "{} questions and {} rows, with 30 and with 1,230 exchanges",
        small.0, small.1
    );
}

#[tokio::test]
async fn another_owner_is_blamed_for_nothing_of_mine() {
    let (mut exchanges, _) = history("Gus", 4, &mut Random(2));
    for exchange in &mut exchanges {
        exchange.path = "/p/site/v1/messages".to_owned();
    }
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    record(&store, &exchanges).await;
    let turns = async |owner: &str| {
        let view = View::new(&store, store.owner(owner).await.unwrap(), owner);
        let timeline = view.timeline(Scope::Project("site"), &BundledPrices).await.unwrap();
        timeline.turns
    };
    assert_eq!((turns("me").await, turns("other").await), (4, 0));
}

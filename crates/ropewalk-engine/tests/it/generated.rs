//! Generated traffic with known truth: who belongs together is found, with the clients' hints and without.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::traffic::{Cause, Found, Mode, Score, Settings, Traffic, Truth, score};

use crate::linking::placed;

fn traffic(seed: u64, conversations: u64, mode: Mode) -> (Vec<RawExchange>, Vec<Truth>) {
    let traffic = Traffic::new(Settings::new(seed, conversations, mode));
    let exchanges = traffic.map(|recorded| (RawExchange::try_from(recorded.line).unwrap(), recorded.truth));
    exchanges.unzip()
}

async fn scored(seed: u64, conversations: u64, mode: Mode) -> Score {
    let (exchanges, truths) = traffic(seed, conversations, mode);
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for batch in exchanges.chunks(64) {
        recorder.record(batch).await.unwrap();
        recorder.link().await.unwrap();
    }
    let placed = placed(&store, "me").await;
    score(&truths, mode, |id| {
        let placed = placed.get(id)?;
        Some(Found {
            conversation: placed.conversation.clone(),
            agent: placed.agent.clone(),
        })
    })
}

#[tokio::test]
async fn conversations_are_found_with_hints_and_without() {
    for mode in [Mode::ContentOnly, Mode::Hinted] {
        let score = scored(1, 300, mode).await;
        eprintln!("{mode:?}\n{score}");
        assert_eq!(score.missing, 0);
        assert_eq!(score.false_merges, 0, "{:?}", score.false_merge_examples);
        assert_eq!(score.over_splits, 0, "{:?}", score.split_off_ids);
        let agents: Vec<_> = score
            .by_cause
            .iter()
            .filter(|(cause, _)| matches!(cause, Cause::Subagent(_)))
            .collect();
        let all: usize = agents.iter().map(|(_, score)| score.exchanges).sum();
        let wrong: usize = agents
            .iter()
            .map(|(_, score)| score.split_off + score.wrong_agents)
            .sum();
        eprintln!("{} of {all} subagents linked", all - wrong);
        assert!(wrong * 20 < all, "more than 95 % of subagents are linked");
    }
}

//! How well `suggest`, `templates` and merges do on sets of which the truth is known. The rates are printed by `make bench-insight`.

use std::collections::{BTreeSet, HashMap};

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::insight::suggest;
use ropewalk_engine::insight::templates::Miner;
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Store;
use ropewalk_store::derived::ConversationRow;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::labelled::{LabelledMerges, LabelledTalks, Rates, labelled_prompts, same_label};

const TALKS: usize = 1_000;
const PROMPTS: usize = 2_000;
const PRECISION_MIN: f64 = 0.95;
const RECALL_MIN: f64 = 0.8;

fn assert_good(what: &str, rates: Rates) {
    eprintln!("{what}: {rates}");
    assert!(
        rates.precision >= PRECISION_MIN && rates.recall >= RECALL_MIN,
        "{what}: {rates}"
    );
}

async fn recorded(exchanges: impl Iterator<Item = RawExchange>) -> Sqlite {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for raw in exchanges {
        recorder.record(&[raw]).await.unwrap();
    }
    recorder.link().await.unwrap();
    store
}

async fn all_conversations(view: &View<'_, impl Store>) -> Vec<ConversationRow> {
    let mut all: Vec<ConversationRow> = Vec::new();
    loop {
        let before = all.last().map(|last| (last.last_at, last.root));
        let rows = view.conversations_before(before, 256).await.unwrap();
        if rows.is_empty() {
            return all;
        }
        all.extend(rows);
    }
}

#[tokio::test]
async fn conversations_that_are_alike_are_suggested_and_strangers_are_not() {
    let talks = LabelledTalks::new(1, TALKS);
    let store = recorded(talks.exchanges()).await;
    let owner = store.owner("me").await.unwrap();
    let view = View::new(&store, owner, "me");
    let settings = suggest::Settings {
        given_max: TALKS,
        ..suggest::Settings::default()
    };
    let suggestions = view.suggest(&settings).await.unwrap();
    assert_eq!((suggestions.conversations, suggestions.is_all), (TALKS, true));
    // The root's id is the number of the talk.
    let mut talk_of = HashMap::new();
    for row in all_conversations(&view).await {
        let conversation = view.conversation(&row).await.unwrap();
        talk_of.insert(
            conversation.conversation_id,
            conversation.roots[0].parse::<usize>().unwrap(),
        );
    }
    let found: BTreeSet<(usize, usize)> = suggestions
        .pairs
        .iter()
        .map(|pair| (talk_of[&pair.a.conversation_id], talk_of[&pair.b.conversation_id]))
        .collect();
    assert_good("suggest", Rates::of(&found, &talks.alike));
}

#[test]
fn prompts_of_one_template_are_put_together_and_others_are_not() {
    let prompts = labelled_prompts(2, PROMPTS);
    let mut miner = Miner::default();
    let found: Vec<Option<usize>> = (0..)
        .zip(&prompts)
        .map(|(at, prompt)| miner.add(at, true, &prompt.text))
        .collect();
    let truth: Vec<Option<usize>> = prompts.iter().map(|prompt| prompt.template).collect();
    assert_good("templates", Rates::of(&same_label(&found), &same_label(&truth)));
}

#[tokio::test]
async fn answers_that_are_quoted_are_merges_and_phrases_are_not() {
    let LabelledMerges { exchanges, merges } = LabelledMerges::new(3, 400);
    let store = recorded(exchanges.into_iter()).await;
    let owner = store.owner("me").await.unwrap();
    let view = View::new(&store, owner, "me");
    let mut found = BTreeSet::new();
    for row in all_conversations(&view).await {
        let in_it = view.merges(row.root).await.unwrap().merges.into_iter();
        found.extend(in_it.map(|merge| (merge.from_exchange_id, merge.into_exchange_id)));
    }
    assert_good("merges", Rates::of(&found, &merges));
}

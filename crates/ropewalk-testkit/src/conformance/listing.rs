//! Rows by number, by id, in the order of time and in the order of commits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::store::{ExchangeRow, Outcome, Selection, Spent};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, after_turns, fresh_owner, record, record_one, row_of, turn};

const WRITERS: usize = 4;
const EXCHANGES_EACH: usize = 40;

/// How long the reader of the log may wait for the writers.
const PATIENCE: Duration = Duration::from_secs(120);

fn small(id: &str, turns: i64) -> Case {
    turn(id, after_turns(turns), &[id], Some("yes"))
}

async fn select(store: &impl Store, owner: OwnerId, selection: Selection) -> Vec<ExchangeRow> {
    store
        .exchanges(owner, selection, Micros::MAX)
        .await
        .expect("rows can be listed")
}

pub async fn exchanges_are_found_by_number_and_by_id<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases: Vec<_> = ["a", "b", "c"].iter().map(|id| small(id, 0)).collect();
    let recorded = record(&*store, owner, &cases).await;
    let unknown = ExchangeNumber(recorded.iter().map(|recorded| recorded.number.0).max().unwrap_or(0) + 1_000);
    let ids = |rows: Vec<ExchangeRow>| rows.into_iter().map(|row| row.id).collect::<BTreeSet<_>>();
    let asked = vec![recorded[2].number, unknown, recorded[0].number];
    let both = BTreeSet::from(["a".to_owned(), "c".to_owned()]);
    assert_eq!(ids(select(&*store, owner, Selection::Numbers(asked)).await), both);
    let asked = ["c", "nobody", "a", ""].map(str::to_owned).to_vec();
    assert_eq!(ids(select(&*store, owner, Selection::Ids(asked)).await), both);
    assert_eq!(select(&*store, owner, Selection::Ids(Vec::new())).await, []);
    assert_eq!(select(&*store, owner, Selection::Numbers(Vec::new())).await, []);
}

pub async fn exchanges_come_in_time_order_page_by_page<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    // Some share a moment; they come in the order of their numbers.
    let times = [5, 3, 3, 9, 0, 3, 5, 1];
    let cases: Vec<_> = times
        .iter()
        .enumerate()
        .map(|(index, turns)| small(&format!("p{index}"), *turns))
        .collect();
    record(&*store, owner, &cases).await;
    let all = select(
        &*store,
        owner,
        Selection::Since {
            after: None,
            limit: 100,
        },
    )
    .await;
    assert_eq!(all.len(), times.len());
    assert!(all.is_sorted_by_key(|row| (row.at, row.number)));
    for limit in [1, 3, 8] {
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = select(&*store, owner, Selection::Since { after, limit }).await;
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            after = Some((last.at, last.number));
            paged.extend(page);
            assert!(paged.len() <= all.len(), "pages overlap");
        }
        assert_eq!(paged, all, "in pages of {limit}");
        let (mut backwards, mut before) = (Vec::new(), None);
        loop {
            let page = select(&*store, owner, Selection::Newest { before, limit }).await;
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            before = Some((last.at, last.number));
            backwards.extend(page);
            assert!(backwards.len() <= all.len(), "pages overlap");
        }
        backwards.reverse();
        assert_eq!(backwards, all, "newest first, in pages of {limit}");
    }
    // Sums are made of the same, at any time.
    for as_of in [all[all.len() / 2].at, Micros::MAX] {
        let since = Selection::Since {
            after: Some((all[0].at, all[0].number)),
            limit: 100,
        };
        let rows = store.exchanges(owner, since, as_of).await.expect("rows can be read");
        let expected: Vec<Spent> = rows.into_iter().map(Spent::from).collect();
        let after = Some((all[0].at, all[0].number));
        let spent = store.spent(owner, after, 100, as_of).await.expect("sums can be read");
        assert_eq!(spent, expected, "as of {as_of:?}");
    }
}

pub async fn a_reader_of_the_log_sees_every_exchange_once_while_four_write<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let cases: Vec<_> = (0..EXCHANGES_EACH)
                    .map(|index| small(&format!("w{writer}-{index}"), index as i64))
                    .collect();
                for group in cases.chunks(1 + writer) {
                    record(&*store, owner, group).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let reader = async {
        let (mut seen, mut after) = (Vec::new(), Position::default());
        while seen.len() < WRITERS * EXCHANGES_EACH {
            let page = select(&*store, owner, Selection::Log { after, limit: 7 }).await;
            assert!(
                page.is_sorted_by(|one, next| one.position < next.position),
                "positions rise"
            );
            assert!(page.first().is_none_or(|row| row.position > after), "behind the cursor");
            if let Some(last) = page.last() {
                after = last.position;
            } else {
                tokio::task::yield_now().await;
            }
            seen.extend(page.into_iter().map(|row| row.id));
        }
        (seen, after)
    };
    let (seen, after) = tokio::time::timeout(PATIENCE, reader)
        .await
        .expect("the reader missed an exchange");
    for writer in writers {
        writer.await.expect("a writer failed");
    }
    let unique: BTreeSet<_> = seen.iter().collect();
    assert_eq!(
        (seen.len(), unique.len()),
        (WRITERS * EXCHANGES_EACH, WRITERS * EXCHANGES_EACH)
    );
    assert_eq!(
        select(&*store, owner, Selection::Log { after, limit: 7 }).await,
        [],
        "nothing comes again"
    );
}

pub async fn a_completed_exchange_comes_again_at_the_end_of_the_log<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (first, second) = (small("first", 0), small("second", 1));
    let begun = record_one(&*store, owner, &first.begun()).await;
    record_one(&*store, owner, &second).await;
    let after = row_of(&*store, owner, begun.number).await.position;
    assert_eq!(record_one(&*store, owner, &first).await.outcome, Outcome::Completed);
    let rows = select(&*store, owner, Selection::Log { after, limit: 10 }).await;
    let ids: Vec<_> = rows.iter().map(|row| &*row.id).collect();
    assert_eq!(ids, ["second", "first"]);
    // An exchange that changed nothing does not come again.
    let last = rows[1].position;
    assert_eq!(record_one(&*store, owner, &first).await.outcome, Outcome::Known);
    assert_eq!(
        select(&*store, owner, Selection::Log { after: last, limit: 10 }).await,
        []
    );
}

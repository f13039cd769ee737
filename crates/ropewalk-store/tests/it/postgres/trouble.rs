//! What a server can do to us: vanish, run out of space, refuse. Nothing that was committed is lost, the error is clear,
//! and the same store goes on when the server does.

use std::sync::Arc;
use std::time::Duration;

use ropewalk_store::facts::{OwnerId, Provenance, SearchText, TextSource};
use ropewalk_store::postgres::Options;
use ropewalk_store::store::{Depth, Half, Outcome, Selection};
use ropewalk_store::{Micros, Postgres, Store, StoreError};
use ropewalk_testkit::postgres::{Setup, database_of};
use ropewalk_testkit::turns::Turns;

use super::fresh;
use crate::turn::{body, turn};

/// A page and a half above 4 MB: tables reach it after some thousand turns, and the limit falls into a page.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 + 4096;

async fn count(store: &Postgres, owner: OwnerId) -> u64 {
    store.stats(owner).await.unwrap().exchanges
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_in_the_middle_loses_nothing_that_was_committed() {
    let mut server = Setup::default().start().unwrap();
    let store = Postgres::connect(&server.fresh_database().unwrap(), Options::default())
        .await
        .unwrap();
    let store = Arc::new(store);
    let owner = store.owner("ann").await.unwrap();
    let (started, has_started) = tokio::sync::oneshot::channel();
    let recorder = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut turns = Turns::new(1, 5, 10);
            let mut acknowledged = Vec::new();
            let mut started = Some(started);
            loop {
                let batch = turns.batch(64);
                match store.record(owner, batch.clone()).await {
                    Ok(_) => acknowledged.extend(batch.into_iter().map(|exchange| exchange.id)),
                    Err(error) => return (acknowledged, batch, error),
                }
                if let Some(started) = started.take() {
                    started.send(()).unwrap();
                }
            }
        }
    });
    has_started.await.unwrap();
    tokio::task::block_in_place(|| server.crash()).unwrap();
    let (acknowledged, failed, error) = recorder.await.unwrap();
    assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    assert!(error.to_string().contains("PostgreSQL"), "{error}");
    let gone = store.stats(owner).await.unwrap_err();
    assert!(gone.to_string().contains("PostgreSQL cannot be reached"), "{gone}");

    tokio::task::block_in_place(|| server.start_again()).unwrap();
    for ids in acknowledged.chunks(1_000) {
        let asked = Selection::Ids(ids.to_vec());
        let rows = store.exchanges(owner, asked, Micros::MAX).await.unwrap();
        assert_eq!(rows.len(), ids.len(), "what was acknowledged is there");
    }
    // The batch that failed is there as a whole or not at all; handing it in again settles it.
    let before = count(&store, owner).await - acknowledged.len() as u64;
    assert!(before == 0 || before == failed.len() as u64);
    let expected = if before == 0 { Outcome::New } else { Outcome::Known };
    let again = store.record(owner, failed).await.unwrap();
    assert!(again.iter().all(|recorded| recorded.outcome == expected));
    assert_eq!(store.check(owner, Depth::Structure).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_that_was_committed() {
    let mut server = Setup::default().file_bytes_max(FILE_BYTES_MAX).start().unwrap();
    let url = server.fresh_database().unwrap();
    let store = Postgres::connect(&url, Options::default()).await.unwrap();
    let owner = store.owner("ann").await.unwrap();
    let mut turns = Turns::new(1, 5, 10);
    let mut committed = 0;
    let (failed, error) = loop {
        let batch = turns.batch(64);
        match store.record(owner, batch.clone()).await {
            Ok(recorded) => committed += recorded.len() as u64,
            Err(error) => break (batch, error),
        }
    };
    assert!(matches!(error, StoreError::Full), "{error:?}");
    // Still alive, still refusing, still readable.
    assert!(matches!(
        store.record(owner, failed.clone()).await,
        Err(StoreError::Full)
    ));
    assert!(committed > 0);
    assert_eq!(count(&store, owner).await, committed);
    // With room again, it goes on.
    tokio::task::block_in_place(|| {
        server.lift_file_limit()?;
        server.crash()?;
        server.start_again()
    })
    .unwrap();
    let again = store.record(owner, failed).await.unwrap();
    assert!(again.iter().all(|recorded| recorded.outcome == Outcome::New));
    assert_eq!(store.check(owner, Depth::Structure).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_became_read_only_says_so_and_is_read() {
    let fresh = fresh().await;
    let recorded = fresh.record_one(&turn("a", 1, &["hello"], None)).await;
    let database = database_of(&fresh.url);
    fresh.sql(&format!(
        "ALTER DATABASE {database} SET default_transaction_read_only = on"
    ));
    // Sessions that are open keep what they began with.
    fresh.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    // Until it is noticed that they are closed.
    let refused = loop {
        let batch = vec![turn("b", 2, &["hello"], None)];
        match fresh.store.record(fresh.owner, batch).await {
            Err(StoreError::Database { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            refused => break refused,
        }
    };
    assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
    let body = fresh.store.body(fresh.owner, recorded.number, Half::Request).await;
    assert!(body.unwrap().is_some());
    let writer = Postgres::connect(&fresh.url, Options::default()).await;
    assert!(matches!(writer, Err(StoreError::ReadOnly)), "{writer:?}");
}

#[tokio::test]
async fn who_may_not_in_is_told_why_and_the_password_stays_secret() {
    let server = Setup::default()
        .file_setting(
            "hba_file",
            b"local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n",
        )
        .start()
        .unwrap();
    server
        .run_sql("postgres", "ALTER ROLE postgres PASSWORD 'open-sesame'")
        .unwrap();
    let url = server.fresh_database_at("127.0.0.1").unwrap();
    let with = |password: &str| url.replace("postgres@", &format!("postgres:{password}@"));
    assert!(
        Postgres::connect(&with("open-sesame"), Options::default())
            .await
            .is_ok()
    );
    let elsewhere = with("open-sesame").replace(database_of(&url), "atlantis");
    for (url, said) in [
        (with("open-barley"), "password authentication failed"),
        (url.clone(), "password missing"),
        (elsewhere, "database \"atlantis\" does not exist"),
        (
            with("open-barley").replace("postgresql://", "postgresql://x"),
            "password authentication failed",
        ),
    ] {
        let error = Postgres::connect(&url, Options::default()).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(!format!("{error} {error:?}").contains("open-"), "{error:?}");
    }
}

/// Texts of every kind that databases choke on. Rust's strings hold no lone surrogates; escaped, they are only letters.
const STRANGE: [&str; 5] = [
    "\0",
    "a\0b\u{1a}0",
    "\u{1a}\u{1a}",
    "\\ud800 \\u0000 \u{fffd}\u{ffff}",
    "'; DROP TABLE part; --\0",
];

#[tokio::test]
async fn every_text_comes_back_with_its_nul() {
    let fresh = fresh().await;
    for (number, strange) in STRANGE.into_iter().enumerate() {
        let owner = fresh.store.owner(strange).await.unwrap();
        let mut exchange = turn(strange, 1, &[strange], Some(strange));
        let text = || strange.to_owned();
        (exchange.provider, exchange.kind, exchange.detail) = (text(), text(), text());
        exchange.model = Some(text());
        exchange.session = Some(text());
        exchange.agent = Some(text());
        exchange.project = Some(text());
        exchange.provenance = Some(Provenance {
            file: text(),
            line: 1,
            uuid: Some(text()),
            aliases: vec![text(), String::new(), text()],
            log_begun: None,
        });
        exchange.texts.push(SearchText {
            source: TextSource::ToolInput,
            strings: vec![format!("wombat{strange} {number}").into()],
        });
        let recorded = fresh.store.record(owner, vec![exchange.clone()]).await.unwrap()[0];
        let asked = Selection::Ids(vec![text()]);
        let rows = fresh.store.exchanges(owner, asked, Micros::MAX).await.unwrap();
        let row = rows.into_iter().next().unwrap();
        assert_eq!(
            (row.id, row.provider, row.kind, row.detail),
            (text(), text(), text(), text())
        );
        assert_eq!((row.model, row.session), (exchange.model, exchange.session));
        assert_eq!((row.agent, row.project), (exchange.agent, exchange.project));
        assert_eq!(row.provenance, exchange.provenance);
        let read = fresh.store.body(owner, recorded.number, Half::Request).await.unwrap();
        assert_eq!(read, Some(body(b"{\"messages\":", &[strange.into()]).1));
        assert_eq!(fresh.store.owner(strange).await.unwrap(), owner);
    }
    assert_eq!(fresh.store.index_texts(1_000).await.unwrap().waiting, 0);
    for strange in STRANGE {
        let owner = fresh.store.owner(strange).await.unwrap();
        let query = ropewalk_store::store::SearchQuery {
            text: "wombat\0".to_owned(),
            source: None,
            model: Some(strange.to_owned()),
            since: None,
            limit: 10,
        };
        let hits = fresh.store.search(owner, query).await.unwrap();
        let is_joined = strange.starts_with(|first: char| first.is_alphanumeric());
        assert_eq!(hits.len(), usize::from(!is_joined), "{strange:?}");
        assert!(hits.iter().all(|hit| !hit.snippet.contains('\0')));
    }
}

/// Bodies are bytes, whatever they claim to be.
#[tokio::test]
async fn bytes_that_are_no_text_come_back() {
    let fresh = fresh().await;
    let odd: [&[u8]; 4] = [
        b"\0",
        b"\xed\xa0\x80 lone surrogate",
        b"\xff\xfe\0\0",
        b"{\"a\":\"\\ud800\0\"}",
    ];
    for (number, bytes) in odd.into_iter().enumerate() {
        let mut exchange = turn(&number.to_string(), 1, &[], None);
        let (request, expected) = body(bytes, &[]);
        exchange.request = request;
        let recorded = fresh.record_one(&exchange).await;
        let read = fresh.store.body(fresh.owner, recorded.number, Half::Request).await;
        assert_eq!(read.unwrap(), Some(expected));
    }
    assert_eq!(fresh.store.check(fresh.owner, Depth::Data).await.unwrap(), []);
}

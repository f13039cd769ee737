//! The claims that every store must hold, on each of ours.

use std::sync::atomic::{AtomicU32, Ordering};

use ropewalk_store::postgres::{self, Postgres};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::postgres::PrivatePostgres;
use ropewalk_testkit::store_conformance;

fn on_disk() -> (Sqlite, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), &Options::default()).unwrap();
    (store, folder)
}

store_conformance!(sqlite_in_memory, (Sqlite::in_memory(&Options::default()).unwrap(), ()));
store_conformance!(sqlite_on_disk, on_disk());

async fn on_postgres() -> (Postgres, ()) {
    let database = PrivatePostgres::shared().unwrap().fresh_database().unwrap();
    (
        Postgres::connect(&database, postgres::Options::default())
            .await
            .unwrap(),
        (),
    )
}

store_conformance!(postgres_server, on_postgres().await);

/// A schema of its own in the database that `CITUS_URL` names, with every table spread over the nodes of its cluster.
#[expect(clippy::print_stdout, reason = "a test that was skipped says so")]
async fn on_citus() -> Option<(Postgres, ())> {
    let Ok(url) = std::env::var("CITUS_URL") else {
        println!("skipped: no CITUS_URL");
        return None;
    };
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    let schema = format!("ropewalk_test_{}_{number}", std::process::id());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
    let separator = if url.contains('?') { '&' } else { '?' };
    let inside = format!("{url}{separator}options=-csearch_path%3D{schema}%2Cpublic");
    let store = Postgres::connect(&inside, postgres::Options::default()).await.unwrap();
    store.distribute(false).await.unwrap();
    Some((store, ()))
}

store_conformance!(
    citus,
    match on_citus().await {
        Some(store) => store,
        None => return,
    }
);

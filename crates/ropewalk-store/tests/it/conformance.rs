//! The claims that every store must hold, on each of ours.

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

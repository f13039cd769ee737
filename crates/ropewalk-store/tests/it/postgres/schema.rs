//! Migrations, and who may open what.

use ropewalk_store::postgres::Options;
use ropewalk_store::{Postgres, Store, StoreError};
use ropewalk_testkit::postgres::{PrivatePostgres, database_of};

use super::fresh;
use crate::turn::turn;

fn read_only() -> Options {
    Options {
        read_only: true,
        ..Options::default()
    }
}

#[tokio::test]
async fn programs_that_start_together_migrate_once() {
    let url = PrivatePostgres::shared().unwrap().fresh_database().unwrap();
    let connect = || Postgres::connect(&url, Options::default());
    let (a, b, c) = tokio::join!(connect(), connect(), connect());
    let owners = tokio::join!(a.as_ref().unwrap().owner("ann"), b.as_ref().unwrap().owner("ann"));
    assert_eq!(owners.0.unwrap(), owners.1.unwrap());
    drop(c.unwrap());
}

#[tokio::test]
async fn a_newer_schema_is_refused_unless_it_allows_it() {
    let fresh = fresh().await;
    let connect = |options| Postgres::connect(&fresh.url, options);
    fresh.sql("INSERT INTO schema_version VALUES (7, 1, 1)");
    assert!(connect(Options::default()).await.is_ok());
    fresh.sql("UPDATE schema_version SET min_writer = 7 WHERE version = 7");
    let refused = connect(Options::default()).await;
    assert!(matches!(refused, Err(StoreError::TooNew { found: 7, known: 6 })));
    assert!(connect(read_only()).await.is_ok());
    let found = Postgres::versions(&fresh.url, read_only()).await.unwrap().unwrap();
    assert_eq!((found.version, found.can_read(), found.can_write()), (7, true, false));
    fresh.sql("UPDATE schema_version SET min_reader = 7 WHERE version = 7");
    assert!(matches!(
        connect(read_only()).await,
        Err(StoreError::TooNew { found: 7, known: 6 })
    ));
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let server = PrivatePostgres::shared().unwrap();
    let url = server.fresh_database().unwrap();
    let database = database_of(&url);
    // A table in the way of the last one: everything before it was done when the step fails.
    server.run_sql(database, "CREATE TABLE search_text (x int)").unwrap();
    assert!(Postgres::connect(&url, Options::default()).await.is_err());
    let count = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(server.run_sql(database, count).unwrap(), "1");
    server.run_sql(database, "DROP TABLE search_text").unwrap();
    assert!(Postgres::connect(&url, Options::default()).await.is_ok());
}

#[tokio::test]
async fn a_reader_changes_nothing() {
    let fresh = fresh().await;
    let reader = Postgres::connect(&fresh.url, read_only()).await.unwrap();
    assert_eq!(reader.owner("ann").await.unwrap(), fresh.owner);
    let refused = reader.record(fresh.owner, vec![turn("a", 1, &["x"], None)]).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly)));
    let empty = PrivatePostgres::shared().unwrap().fresh_database().unwrap();
    assert!(matches!(
        Postgres::connect(&empty, read_only()).await,
        Err(StoreError::Damaged(_))
    ));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_keeps_the_password() {
    let refused = Postgres::connect("postgresql://user:secret@127.0.0.1:1/none", Options::default()).await;
    let Err(error) = refused else {
        panic!("nobody listens there")
    };
    assert!(!format!("{error:?}").contains("secret"));
    let refused = Postgres::connect("postgresql://user:secret@host:port", Options::default()).await;
    let Err(error) = refused else {
        panic!("that is no address")
    };
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn every_index_begins_with_the_owner() {
    let fresh = fresh().await;
    let others = "SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                  JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace AND n.nspname = 'public' \
                  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] WHERE a.attname <> 'owner_id'";
    // The directory of owners, and the schema's own version.
    assert_eq!(fresh.sql(others), "owner_name_name_key schema_version_pkey");
    assert_eq!(fresh.sql("SELECT count(*) FROM pg_constraint WHERE contype = 'f'"), "0");
}

//! PostgreSQL, on a server of the tests' own.

mod damage;
mod dictionaries;
mod distribute;
mod groups;
mod linking;
mod reading;
mod recording;
mod schema;
mod statements;
mod tls;
mod trouble;
mod writers;

use ropewalk_store::facts::OwnerId;
use ropewalk_store::postgres::Options;
use ropewalk_store::{Postgres, Store};
use ropewalk_testkit::postgres::{PrivatePostgres, database_of};

/// A store in a database of its own.
struct Fresh {
    store: Postgres,
    url: String,
    owner: OwnerId,
}

async fn fresh() -> Fresh {
    let url = PrivatePostgres::shared().unwrap().fresh_database().unwrap();
    let store = Postgres::connect(&url, Options::default()).await.unwrap();
    let owner = store.owner("ann").await.unwrap();
    Fresh { store, url, owner }
}

impl Fresh {
    /// Runs statements behind the store's back.
    fn sql(&self, statements: &str) -> String {
        PrivatePostgres::shared()
            .unwrap()
            .run_sql(database_of(&self.url), statements)
            .unwrap()
    }
}

//! The same conversation in PostgreSQL: as others keep it, one row of JSONB per request, and as we do.

use ropewalk_store::NewExchange;
use ropewalk_store::postgres::{Options, Postgres};
use ropewalk_store::store::{Depth, Store};
use ropewalk_testkit::conversation::Turn;
use ropewalk_testkit::postgres::{PrivatePostgres, Setup, database_of};
use tokio::runtime::Runtime;

/// Keeping every body whole as JSONB must take so many times the space that we take.
const GOAL: f64 = 50.0;

/// Prints the comparison with our own file of `ours` bytes, or why there is none.
pub(crate) fn compare(runtime: &Runtime, turns: &[Turn], exchanges: Vec<NewExchange>, ours: u64) {
    let server = match Setup::default().start() {
        Ok(server) => server,
        Err(why) => {
            println!("  every body whole, PostgreSQL JSONB: not measured: {why}");
            return;
        }
    };
    let jsonb = runtime.block_on(as_jsonb(&server, turns));
    let ratio = jsonb as f64 / ours as f64;
    let verdict = if ratio >= GOAL { "met" } else { "MISSED" };
    println!(
        "  {:<52} {jsonb:>9} bytes = {ratio:>6.1} × ours (goal {GOAL}: {verdict})",
        "every body whole, PostgreSQL JSONB"
    );
    let own = runtime.block_on(as_ours(&server, exchanges));
    println!(
        "  {:<52} {own:>9} bytes, JSONB is {:>6.1} × that (for information)",
        "ours on PostgreSQL, all tables and indexes, no search",
        jsonb as f64 / own as f64
    );
}

/// A row of both bodies per exchange. A streamed answer is no JSON; it is kept as a string.
async fn as_jsonb(server: &PrivatePostgres, turns: &[Turn]) -> u64 {
    let url = server.fresh_database().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("CREATE TABLE exchange (id bigserial PRIMARY KEY, request jsonb, response jsonb)")
        .await
        .unwrap();
    let insert = "INSERT INTO exchange (request, response) VALUES ($1::text::jsonb, \
                  CASE WHEN $3 THEN to_jsonb($2::text) ELSE $2::text::jsonb END)";
    let insert = client.prepare(insert).await.unwrap();
    for turn in turns {
        let request = std::str::from_utf8(&turn.request).unwrap();
        let response = std::str::from_utf8(&turn.response).unwrap();
        let is_stream = response.starts_with("event:");
        client
            .execute(&insert, &[&request, &response, &is_stream])
            .await
            .unwrap();
    }
    size(server, &url, "pg_total_relation_size('exchange')")
}

/// Recorded turn by turn, as it happens.
async fn as_ours(server: &PrivatePostgres, exchanges: Vec<NewExchange>) -> u64 {
    let url = server.fresh_database().unwrap();
    let store = Postgres::connect(&url, Options::default()).await.unwrap();
    let owner = store.owner("bench").await.unwrap();
    for exchange in exchanges {
        store.record(owner, vec![exchange]).await.unwrap();
    }
    assert_eq!(store.check(owner, Depth::Data).await.unwrap(), []);
    drop(store);
    let tables =
        "sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    size(server, &url, tables)
}

/// What is left when the space of old rows is given back.
fn size(server: &PrivatePostgres, url: &str, what: &str) -> u64 {
    let database = database_of(url);
    server.run_sql(database, "VACUUM FULL").unwrap();
    let size = server.run_sql(database, &format!("SELECT {what}")).unwrap();
    size.parse().unwrap()
}

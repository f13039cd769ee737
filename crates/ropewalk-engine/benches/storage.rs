//! What a long conversation costs on disk, beside keeping every body whole.
//!
//! `make bench-store` runs this: 300 turns in Claude Code's shape that grow to 1 MB of history, half of the answers
//! streamed, recorded and linked by the real recorder into SQLite, turn by turn; the same bodies as SQLite TEXT and as
//! JSONB in PostgreSQL for comparison.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may fail"
)]

#[path = "storage/postgres.rs"]
mod postgres;

use std::path::Path;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder, Witness, prepare};
use ropewalk_store::facts::{Micros, NewExchange};
use ropewalk_store::sqlite::{FILE_NAME, Options, Sqlite};
use ropewalk_store::store::{Depth, Store};
use ropewalk_testkit::conversation::{Conversation, Turn};

const TURNS: usize = 300;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut conversation = Conversation::new(1, 3_300).plain_every(2);
    let turns: Vec<Turn> = (0..TURNS).map(|_| conversation.next_turn()).collect();
    let unique = conversation.unique_bytes();
    let last = turns.last().unwrap().request.len();
    let sent: usize = turns.iter().map(|turn| turn.request.len() + turn.response.len()).sum();
    println!("{TURNS} turns, history grows to {last} bytes; {sent} bytes sent, {unique} of them unique");

    let plain = record(&runtime, &turns, false);
    let searchable = record(&runtime, &turns, true);
    let text = as_text(&turns);
    let against = |bytes: u64| bytes as f64 / unique as f64;
    goal("parts as stored, to unique content", against(plain.parts), 0.40);
    goal(
        "whole file without search, to unique content",
        against(plain.file),
        0.75,
    );
    goal(
        "whole file with search, to unique content",
        against(searchable.file),
        1.25,
    );
    println!(
        "  {:<52} {:>9} bytes = {:>6.1} × ours (goal 150)",
        "every body whole, SQLite TEXT",
        text,
        text as f64 / plain.file as f64
    );
    postgres::compare(&runtime, &turns, without_search(&turns), plain.file);
    println!("without search");
    print_tables(&plain);
    println!("with search");
    print_tables(&searchable);
}

/// The exchanges of all turns, each prepared with what is known from the one before.
fn without_search(turns: &[Turn]) -> Vec<NewExchange> {
    let mut memo = None;
    let mut exchanges = Vec::with_capacity(turns.len());
    for (number, turn) in turns.iter().enumerate() {
        let prepared = prepare(&raw(number, turn), memo.as_ref(), &BundledPrices);
        let mut exchange = prepared.exchange;
        exchange.texts.clear();
        exchanges.push(exchange);
        memo = prepared.memo;
    }
    exchanges
}

fn goal(name: &str, ratio: f64, goal: f64) {
    let verdict = if ratio <= goal { "met" } else { "MISSED" };
    println!("  {name:<52} {ratio:>6.3} (goal {goal}: {verdict})");
}

struct Sizes {
    parts: u64,
    file: u64,
    tables: Vec<TableSize>,
}

/// What a table or an index takes of the file, and how much of that is rows.
struct TableSize {
    name: String,
    rows: u64,
    payload: u64,
    bytes: u64,
}

fn record(runtime: &tokio::runtime::Runtime, turns: &[Turn], with_search: bool) -> Sizes {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), &Options::default()).unwrap();
    let parts = runtime.block_on(async {
        let mut recorder = Recorder::new(&store, "bench", &BundledPrices).await.unwrap();
        let owner = recorder.owner();
        if with_search {
            for (number, turn) in turns.iter().enumerate() {
                recorder.record(&[raw(number, turn)]).await.unwrap();
                recorder.link().await.unwrap();
            }
        } else {
            // What the recorder would store, but for the texts to be found.
            for exchange in without_search(turns) {
                store.record(owner, vec![exchange]).await.unwrap();
                recorder.link().await.unwrap();
            }
        }
        while store.index_texts(1_000).await.unwrap().waiting > 0 {}
        assert_eq!(store.check(owner, Depth::Data).await.unwrap(), []);
        store.stats(owner).await.unwrap().stored_bytes
    });
    drop(store);
    let path = folder.path().join(FILE_NAME);
    Sizes {
        parts,
        tables: tables(&path),
        file: std::fs::metadata(path).unwrap().len(),
    }
}

/// The tables of a closed store, the largest first, and pages that wait to be used again.
fn tables(path: &Path) -> Vec<TableSize> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let select = "SELECT name, sum(CASE WHEN pagetype = 'leaf' THEN ncell ELSE 0 END), sum(payload), sum(pgsize) \
                  FROM dbstat GROUP BY name ORDER BY sum(pgsize) DESC";
    let mut statement = connection.prepare(select).unwrap();
    let rows = statement.query_map([], |row| {
        Ok(TableSize {
            name: row.get(0)?,
            rows: row.get::<_, i64>(1)? as u64,
            payload: row.get::<_, i64>(2)? as u64,
            bytes: row.get::<_, i64>(3)? as u64,
        })
    });
    let mut tables: Vec<TableSize> = rows.unwrap().map(Result::unwrap).collect();
    let pragma = |name: &str| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        value.unwrap() as u64
    };
    tables.push(TableSize {
        name: "(free)".to_owned(),
        rows: 0,
        payload: 0,
        bytes: pragma("freelist_count") * pragma("page_size"),
    });
    tables
}

fn print_tables(sizes: &Sizes) {
    println!("  by table: rows, bytes in them, bytes of the file, those a turn");
    for table in &sizes.tables {
        let per_turn = table.bytes as f64 / TURNS as f64;
        println!(
            "    {:<28} {:>6} {:>9} {:>9} {per_turn:>7.0}",
            table.name, table.rows, table.payload, table.bytes
        );
    }
}

fn raw(number: usize, turn: &Turn) -> RawExchange {
    let at = Micros(1_790_000_000_000_000 + number as i64 * 20_000_000);
    let is_stream = turn.response.starts_with(b"event:");
    let content_type = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    RawExchange {
        id: format!("00000000-0000-7000-8000-{number:012}"),
        at,
        ended_at: Some(Micros(at.0 + 9_000_000)),
        spawned_at: Vec::new(),
        method: "POST".to_owned(),
        path: "/v1/messages?beta=true".to_owned(),
        request_headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("user-agent".to_owned(), "claude-cli/2.1.197 (external, cli)".to_owned()),
            (
                "x-claude-code-session-id".to_owned(),
                "aaaaaaaa-0000-4000-8000-000000000001".to_owned(),
            ),
        ],
        request_body: turn.request.clone().into(),
        sent_body: None,
        names: Default::default(),
        status: Some(200),
        response_headers: vec![("content-type".to_owned(), content_type.to_owned())],
        response_body: Some(turn.response.clone().into()),
        cut_off: false,
        witness: Witness::default(),
        provenance: None,
    }
}

/// What others do: a row with both bodies for every exchange.
fn as_text(turns: &[Turn]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE exchange (id INTEGER PRIMARY KEY, request TEXT, response TEXT)")
        .unwrap();
    for turn in turns {
        let row = (
            std::str::from_utf8(&turn.request).unwrap(),
            std::str::from_utf8(&turn.response).unwrap(),
        );
        connection
            .execute("INSERT INTO exchange (request, response) VALUES (?1, ?2)", row)
            .unwrap();
    }
    drop(connection);
    std::fs::metadata(path).unwrap().len()
}

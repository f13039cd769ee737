//! A store that stands still: clients notice nothing, and nothing is lost when it moves again.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use ropewalk_store::sqlite;
use ropewalk_testkit::postgres::Setup;
use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use rusqlite::Connection;

use super::client::{Client, Kind};
use super::server::Place;
use super::{from_environment, tell};

const CLIENTS: usize = 8;
/// Between two calls of a client, so that the machine is busy and not choked.
const PACE: Duration = Duration::from_millis(20);

/// Where the load is in its course.
const BEFORE: u8 = 0;
const FROZEN: u8 = 1;
const OVER: u8 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_sqlite_delays_nobody_and_loses_nothing() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let file = place.data().join(sqlite::FILE_NAME);
    let mut lock = None;
    under_load("SQLite", &place, |freezes| match freezes {
        true => {
            let connection = Connection::open(&file).unwrap();
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            lock = Some(connection);
        }
        false => drop(lock.take()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_postgres_delays_nobody_and_loses_nothing() {
    let postgres = Setup::default().start().unwrap();
    let upstream = provider().await;
    let place = Place::before(&upstream).recording_to(&postgres.fresh_database().unwrap());
    under_load("PostgreSQL", &place, |freezes| match freezes {
        true => postgres.freeze().unwrap(),
        false => postgres.thaw().unwrap(),
    })
    .await;
}

async fn provider() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.keep_nothing();
    upstream.answer_as(Provider::new());
    upstream
}

/// The same load before and while the store is frozen. What is asserted is that all is answered and kept; times are told.
async fn under_load(name: &str, place: &Place, mut freeze: impl FnMut(bool)) {
    let time = Duration::from_secs(from_environment("ROPEWALK_FROZEN_S", 4));
    let server = place.serve();
    let phase = Arc::new(AtomicU8::new(BEFORE));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(number, server.address, Arc::clone(&phase))))
        .collect();
    tokio::time::sleep(time).await;
    freeze(true);
    phase.store(FROZEN, Ordering::Relaxed);
    tokio::time::sleep(time).await;
    phase.store(OVER, Ordering::Relaxed);
    let mut answered = Answered::default();
    for client in clients {
        answered.add(client.await.unwrap());
    }
    freeze(false);
    if !server.stop().is_recorded() {
        place.record_what_is_left();
    }
    let stored: HashSet<String> = place
        .exchanges()
        .iter()
        .filter(|exchange| exchange["status"] == "complete")
        .map(|exchange| exchange["id"].as_str().unwrap().to_owned())
        .collect();
    let lost = answered.ids.iter().filter(|id| !stored.contains(*id)).count();
    let (before, frozen) = (p99(&mut answered.before), p99(&mut answered.frozen));
    tell(&format!(
        "{name} frozen for {time:?}: p99 to the first byte {before:?} before ({} answers), {frozen:?} meanwhile ({} answers), \
         {lost} exchanges lost of {}",
        answered.before.len(),
        answered.frozen.len(),
        answered.ids.len()
    ));
    assert!(
        !answered.frozen.is_empty(),
        "clients are served while the store is frozen"
    );
    assert_eq!((lost, stored.len()), (0, answered.ids.len()));
}

#[derive(Default)]
struct Answered {
    ids: Vec<String>,
    /// Times to the first byte.
    before: Vec<Duration>,
    frozen: Vec<Duration>,
}

impl Answered {
    fn add(&mut self, other: Answered) {
        self.ids.extend(other.ids);
        self.before.extend(other.before);
        self.frozen.extend(other.frozen);
    }
}

/// Asks until it is over; every call is answered.
async fn client(number: usize, address: SocketAddr, phase: Arc<AtomicU8>) -> Answered {
    let mut client = Client::connect(address).await.unwrap();
    let mut answered = Answered::default();
    for asked in 0.. {
        let now = phase.load(Ordering::Relaxed);
        if now == OVER {
            break;
        }
        let kind = Kind::ALL[asked % Kind::ALL.len()];
        let text = format!("client {number} asks for the {asked}. time");
        let seen = client.call(kind, &text).await.unwrap();
        assert!(seen.ended && seen.is_whole(kind), "{seen:?}");
        answered.ids.push(seen.id());
        match now {
            BEFORE => answered.before.push(seen.first_byte),
            _ => answered.frozen.push(seen.first_byte),
        }
        tokio::time::sleep(PACE).await;
    }
    answered
}

fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * 99 / 100]
}

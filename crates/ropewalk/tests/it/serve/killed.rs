//! `kill -9` at any moment: what a client saw the end of is kept.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::client::{Client, Kind, Seen};
use super::server::Place;
use super::{from_environment, random_below, tell};

const STREAMS: usize = 32;
/// Between two events of a stream, so that most kills hit many of them in the middle.
const PACE: Duration = Duration::from_millis(2);
/// How long a server may live.
const LIFE_MS_MAX: u64 = 400;
/// Words of an answer; many are longer than one write.
const WORDS_MAX: u64 = 400;

/// What a client had when its answer ended or its connection broke.
struct Call {
    kind: Kind,
    request: String,
    seen: Seen,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reached_a_client_whole_is_kept_however_often_the_server_is_killed() {
    let kills = from_environment("ROPEWALK_KILLS", 20);
    let upstream = Upstream::start().await;
    upstream.keep_nothing();
    upstream.answer_as(Provider::paced(PACE));
    let place = Place::before(&upstream);
    let mut server = place.serve();
    let (tell, told) = watch::channel(server.address);
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..STREAMS)
        .map(|number| tokio::spawn(client(number, told.clone(), Arc::clone(&over))))
        .collect();
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(random_below(LIFE_MS_MAX))).await;
        server.kill();
        server = place.serve();
        tell.send_replace(server.address);
    }
    over.store(true, Ordering::Relaxed);
    let mut calls = Vec::new();
    for client in clients {
        calls.extend(client.await.unwrap());
    }
    server.kill();
    place.record_what_is_left();
    check(&calls, &place.exchanges(), kills);
    place.store.ok(&["fsck", "--read-data"]);
}

/// Asks one thing after another, wherever the server is by now.
async fn client(number: usize, address: watch::Receiver<SocketAddr>, over: Arc<AtomicBool>) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut connection = None;
    for asked in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        if connection.is_none() {
            let address = *address.borrow();
            connection = Client::connect(address).await.ok();
        }
        let Some(client) = &mut connection else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let kind = Kind::ALL[(number + asked) % Kind::ALL.len()];
        let words = random_below(WORDS_MAX);
        let text = format!("client {number} asks for the {asked}. time\n!long {words}");
        match client.call(kind, &text).await {
            Ok(seen) => {
                if !seen.ended {
                    connection = None;
                }
                let request = kind.body(&text);
                calls.push(Call { kind, request, seen });
            }
            Err(_) => connection = None,
        }
    }
    calls
}

fn check(calls: &[Call], exchanges: &[Value], kills: u64) {
    let stored: HashMap<&str, &Value> = exchanges
        .iter()
        .map(|exchange| (exchange["id"].as_str().unwrap(), exchange))
        .collect();
    assert_eq!(stored.len(), exchanges.len(), "an exchange is recorded once");
    let (whole, cut): (Vec<&Call>, Vec<&Call>) = calls.iter().partition(|call| call.seen.is_whole(call.kind));
    let mut lost = Vec::new();
    for call in &whole {
        let right = stored.get(&*call.seen.id()).is_some_and(|exchange| {
            exchange["status"] == "complete"
                && exchange["request_sha256"] == sha256(call.request.as_bytes())
                && exchange["response_sha256"] == sha256(&call.seen.body)
        });
        if !right {
            lost.push((call.seen.id(), call.kind, stored.get(&*call.seen.id())));
        }
    }
    let unended = whole.iter().filter(|call| !call.seen.ended).count();
    let cut_kept = cut.iter().filter(|call| stored.contains_key(&*call.seen.id())).count();
    tell(&format!(
        "{kills} kills: {} answers came whole ({unended} of them died before the end of the body), {} lost or wrong; {} were \
         cut off, {cut_kept} of them are kept; {} exchanges in the store",
        whole.len(),
        lost.len(),
        cut.len(),
        stored.len()
    ));
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(whole.len() as u64 > kills, "the load was too low to show anything");
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

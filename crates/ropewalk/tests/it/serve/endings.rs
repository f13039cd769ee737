//! How an exchange ended is told as it was: by a client that went away, by a provider that broke off.

use std::time::{Duration, Instant};

use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Gate, Received, Upstream};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Client, Kind, call};
use super::server::{PATIENCE, POLL, Place, Server};

const MESSAGES: Kind = Kind::Messages { streams: true };

/// The provider hears that nobody waits for its answer any more.
async fn is_told(asked: &Received) {
    assert!(
        asked.closed_within(Duration::from_secs(20)).await,
        "the provider is told"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_in_a_stream_is_recorded_as_cancelled_with_what_it_saw() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    let begun = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\
                 \"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    upstream.answer_always(Answer::events([begun]).wait_for(&gate).chunk("data: late\n\n"));
    let place = Place::before(&upstream);
    let server = place.serve();
    let mut client = asking(&server, "who waits?").await;
    read_until(&mut client, "message_start").await;
    drop(client);
    let asked = upstream.next_request().await;
    is_told(&asked).await;
    let exchange = only_exchange(&place, server);
    assert_eq!(exchange["status"], "client_cancelled");
    let id = exchange["id"].as_str().unwrap();
    assert_eq!(place.store.ok(&["show", id, "--raw", "response"]), begun);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_more_than_is_kept_passes_whole_and_is_recorded_as_truncated() {
    const KEPT: usize = 2_000;
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::with(&upstream, &format!("[limits]\ndecoded_bytes = {KEPT}\n"));
    let server = place.serve();
    for kind in Kind::ALL {
        let seen = call(server.address, kind, "!long 5000").await;
        assert!(seen.body.len() > 10 * KEPT, "{kind:?}");
    }
    assert!(server.stop().is_recorded());
    let exchanges = place.exchanges();
    assert_eq!(exchanges.len(), Kind::ALL.len());
    for exchange in exchanges {
        assert_eq!(exchange["status"], "truncated");
        let id = exchange["id"].as_str().unwrap();
        assert_eq!(place.store.ok(&["show", id, "--raw", "response"]).len(), KEPT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_before_the_first_byte_is_recorded_as_cancelled() {
    let upstream = Upstream::start().await;
    upstream.answer_always(Answer::never());
    let place = Place::before(&upstream);
    let server = place.serve();
    let client = asking(&server, "is anybody there?").await;
    let asked = upstream.next_request().await;
    drop(client);
    is_told(&asked).await;
    assert_eq!(only_exchange(&place, server)["status"], "client_cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_in_its_own_request_is_recorded_as_cancelled() {
    // With references a request goes to the provider when it is whole, without as it comes.
    for is_gathered in [false, true] {
        let upstream = Upstream::start().await;
        upstream.answer_as(Provider::new());
        let place = Place::with(&upstream, &format!("[references]\nenabled = {is_gathered}\n"));
        let server = place.serve();
        let mut client = TcpStream::connect(server.address).await.unwrap();
        let half = "POST /v1/messages HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n{\"model\":";
        client.write_all(half.as_bytes()).await.unwrap();
        match is_gathered {
            true => {
                is_under_way(&server).await;
                drop(client);
            }
            false => {
                let asked = upstream.next_request().await;
                drop(client);
                is_told(&asked).await;
            }
        }
        let exchange = only_exchange(&place, server);
        assert_eq!(exchange["status"], "client_cancelled");
        let id = exchange["id"].as_str().unwrap();
        assert_eq!(place.store.ok(&["show", id, "--raw", "request"]), "{\"model\":");
        assert_eq!(upstream.request_count(), u64::from(!is_gathered));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_is_passed_on_as_broken_and_recorded_as_truncated() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    let seen = client.call(MESSAGES, "tell me a story\n!long 50\n!cut").await.unwrap();
    assert!(!seen.ended, "a cut stream has no clean end");
    let exchange = only_exchange(&place, server);
    assert_eq!(
        (&exchange["id"], &exchange["status"]),
        (&Value::from(seen.id()), &Value::from("truncated"))
    );
    assert_eq!(place.store.ok(&["show", &seen.id(), "--raw", "response"]), seen.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_passed_on_untouched_and_recorded_as_errors() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = place.serve();
    let seen = call(
        server.address,
        Kind::Messages { streams: false },
        "too often\n!error 429",
    )
    .await;
    assert_eq!(seen.status, 429);
    assert_eq!(seen.headers["retry-after"], "1");
    assert!(seen.text().contains("rate_limit_error"));
    assert_eq!(only_exchange(&place, server)["status"], "error");
}

/// A connection on which a whole request was sent.
async fn asking(server: &Server, text: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let body = MESSAGES.body(text);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        MESSAGES.path(),
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    socket
}

async fn read_until(socket: &mut TcpStream, word: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(word) {
        assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0, "the answer ended early");
    }
}

/// The one exchange there is once the server has stopped.
/// Returns when the server has taken a request.
async fn is_under_way(server: &Server) {
    let mut metrics = Client::connect(server.address).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = metrics.get("/metrics").await.unwrap();
        if seen.text().contains("ropewalk_in_flight 1\n") {
            return;
        }
        assert!(Instant::now() < deadline, "no request is under way: {}", seen.text());
        tokio::time::sleep(POLL).await;
    }
}

fn only_exchange(place: &Place, server: Server) -> Value {
    assert!(server.stop().is_recorded());
    let mut exchanges = place.exchanges();
    assert_eq!(exchanges.len(), 1);
    exchanges.remove(0)
}

//! Signals: what is under way ends, and what the configuration says now is used.

use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Gate, Upstream};
use tokio::net::TcpStream;

use super::client::{Client, Kind, call};
use super::server::{Place, Server, wait_until};

const MESSAGES: Kind = Kind::Messages { streams: true };

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_under_way_ends_and_is_recorded_before_the_server_stops() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    let answer = Answer::events(["event: ping\ndata: {\"type\":\"ping\"}\n\n"])
        .wait_for(&gate)
        .chunk("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    upstream.answer_always(answer);
    let place = Place::before(&upstream);
    let server = place.serve();
    let address = server.address;
    let under_way = tokio::spawn(async move { call(address, MESSAGES, "the last question").await });
    upstream.next_request().await;
    server.signal("TERM");
    wait_until(|| server.said().contains("stopping").then_some(()));
    while TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(!under_way.is_finished(), "the stream is let go on");
    gate.open();
    let seen = under_way.await.unwrap();
    assert!(server.ended().is_recorded());
    let exchanges = place.exchanges();
    assert_eq!(exchanges.len(), 1);
    assert_eq!(
        (&exchanges[0]["id"], &exchanges[0]["status"]),
        (&seen.id().into(), &"complete".into())
    );
    assert!(
        !place.data().join("server.json").exists(),
        "nobody is sent here any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_does_not_delay_the_end() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    // Streams may take for ever, but there is none.
    let place = Place::with(&upstream, "[limits]\ndrain_s = 86400\n");
    let server = place.serve();
    let mut kept_alive = Client::connect(server.address).await.unwrap();
    kept_alive.call(MESSAGES, "and then nothing").await.unwrap();
    let silent = TcpStream::connect(server.address).await.unwrap();
    assert!(server.stop().is_recorded());
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_brings_other_upstreams_and_tokens_and_a_broken_file_changes_nothing() {
    let (first, second) = (Upstream::start().await, Upstream::start().await);
    for upstream in [&first, &second] {
        upstream.answer_as(Provider::new());
    }
    let config = |upstream: &Upstream, token: &str| {
        format!(
            "[upstreams.anthropic]\nurl = '{}'\n[owners]\nmode = 'tokens'\n[owners.tokens]\n{token} = 'ann'\n",
            upstream.url()
        )
    };
    let place = Place::bare(&config(&first, "before"));
    let server = place.serve();
    assert_eq!(status(&server, "before").await, 200);
    assert_eq!(status(&server, "after").await, 401);
    assert_eq!((first.request_count(), second.request_count()), (1, 0));

    place.configure(&config(&second, "after"));
    server.signal("HUP");
    wait_until(|| server.said().contains("reloaded").then_some(()));
    // Each thread takes the new settings before the next connection.
    assert_eq!(status(&server, "after").await, 200);
    assert_eq!(status(&server, "before").await, 401);
    assert_eq!((first.request_count(), second.request_count()), (1, 1));

    place.configure("upstraems = 3");
    server.signal("HUP");
    wait_until(|| server.said().contains("stays as it was").then_some(()));
    assert_eq!(status(&server, "after").await, 200);
    assert!(server.stop().is_recorded());
}

async fn status(server: &Server, token: &str) -> u16 {
    let mut client = Client::connect(server.address).await.unwrap();
    let path = format!("/t/{token}/v1/messages");
    let seen = client.post(&path, &[], MESSAGES.body("hello")).await.unwrap();
    seen.status.as_u16()
}

//! Upstreams that somebody named: gateways that speak a provider's language under a path of their own.

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;

use super::client::{Client, Kind};
use super::server::Place;
use crate::store::TestStore;

const CHAT: Kind = Kind::Chat { streams: false };

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_reached_under_its_name_and_recorded_as_itself() {
    let upstream = Upstream::start().await;
    let provider = Provider::new();
    upstream.answer_by(move |_, body| provider.answer(CHAT.path(), body));
    let config = format!("[upstreams.openrouter]\nurl = \"{}/api\"\n", upstream.url());
    let place = Place::bare(&config);
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    for path in [
        "/u/openrouter/v1/chat/completions",
        "/p/site/u/openrouter/chat/completions",
    ] {
        let seen = client
            .post(path, &[("authorization", "Bearer k")], CHAT.body("hello"))
            .await
            .unwrap();
        assert_eq!(seen.status, 200, "{path}: {}", seen.text());
    }
    let targets = [
        upstream.next_request().await.target.clone(),
        upstream.next_request().await.target.clone(),
    ];
    assert_eq!(targets, ["/api/v1/chat/completions", "/api/chat/completions"]);
    for path in ["/u/nobody/v1/chat/completions", "/u/Open/v1/chat/completions"] {
        let seen = client.post(path, &[], CHAT.body("hello")).await.unwrap();
        assert_eq!(seen.status, 404, "{path}");
    }
    assert!(server.stop().is_recorded());

    let recorded = place.exchanges();
    assert_eq!(recorded.len(), 2);
    for exchange in &recorded {
        assert_eq!(
            (&exchange["provider"], &exchange["status"]),
            (&"openrouter".into(), &"complete".into())
        );
        assert_eq!(
            exchange["usage"]["output_tokens"].as_u64().map(|tokens| tokens > 0),
            Some(true)
        );
    }
    // What is exported says the same again where nothing is configured.
    let lines = place
        .store
        .file("exported.exchanges.jsonl", &place.store.ok(&["export"]));
    let elsewhere = TestStore::new();
    elsewhere.ok(&["import", lines.to_str().unwrap()]);
    let imported = elsewhere.json(&["log", "--exchanges"]);
    for (ours, theirs) in recorded.iter().zip(&imported) {
        for member in ["id", "provider", "model", "usage", "input_node"] {
            assert_eq!(ours[member], theirs[member], "{member}");
        }
    }
}

#[test]
fn an_upstream_has_a_name_that_fits_into_a_path() {
    let store = TestStore::new();
    let config = store.file("config.toml", "[upstreams.\"a/b\"]\nurl = \"http://127.0.0.1:1\"\n");
    let output = store.run(&["--config", config.to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        crate::stderr(&output).contains("no upstream can be called `a/b`"),
        "{}",
        crate::stderr(&output)
    );
}

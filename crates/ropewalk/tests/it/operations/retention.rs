//! What a server drops by itself, and what else it is told by its configuration while it runs.

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use serde_json::Value;

use super::{SECRET, assert_without, engines, told_file};
use crate::serve::client::{Client, Kind, call};
use crate::serve::server::{Place, wait_until};
use crate::stderr;

const MESSAGES: Kind = Kind::Messages { streams: false };

async fn provider() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    upstream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_follows_its_rules_when_it_starts_and_when_they_change() {
    for url in engines() {
        let upstream = provider().await;
        let place = Place::on(&upstream, url.as_deref());
        let file = told_file(&place.store);
        let over = |arguments: &[&str]| place.store.json(&place.over_store(arguments));
        over(&["import", file.to_str().unwrap()]);
        let before = over(&["log", "--exchanges"]);
        let has_secret = || {
            let shown = place
                .store
                .run(&place.over_store(&["show", "told-2", "--raw", "request"]));
            String::from_utf8_lossy(&shown.stdout).contains(SECRET)
        };

        // Without a rule nothing goes; a rule for others takes nothing either.
        place.configure("[[retain.rules]]\nolder_than = '1d'\nowner = 'somebody else'\n");
        let server = place.serve();
        server.wait_until_ready();
        call(server.address, MESSAGES, "what is said today").await;
        assert!(has_secret());

        place.configure("[[retain.rules]]\nolder_than = '1d'\n");
        server.signal("HUP");
        wait_until(|| {
            server
                .said()
                .contains("retention: dropped 2 conversations")
                .then_some(())
        });
        assert!(!has_secret());
        wait_until(|| (over(&["log", "--exchanges"]).len() == before.len() + 1).then_some(()));
        let after = over(&["log", "--exchanges"]);
        assert_eq!(after[..before.len()], before, "links, usage and cost stay");
        assert!(server.stop().is_recorded());
        let today = after.last().unwrap()["id"].as_str().unwrap();
        let kept = place.store.ok(&place.over_store(&["show", today, "--raw", "request"]));
        assert!(kept.contains("what is said today"));
        assert_without(&place.data(), url.as_deref(), &["heirloom"]);
        let noted = place.store.json(&["audit"]);
        assert!(
            noted
                .iter()
                .any(|entry| entry["verb"] == "retain" && entry["detail"]["by"] == "serve"),
            "{noted:?}"
        );

        // The next one follows them when it starts.
        place.configure("[[retain.rules]]\nolder_than = '1d'\ndrop = 'all'\n");
        let server = place.serve();
        wait_until(|| {
            server
                .said()
                .contains("retention: dropped 2 conversations")
                .then_some(())
        });
        assert!(server.stop().is_recorded());
        assert_eq!(over(&["log", "--exchanges"]).len(), 1);
        place.store.ok(&place.over_store(&["fsck", "--read-data"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prices_are_read_again() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    server.wait_until_ready();
    call(server.address, MESSAGES, "at the usual price").await;
    place.wait_for_linked(1);
    place.configure("[[prices.overrides]]\nmodel = 'claude-*'\nrates = { input = 0.0, output = 1_000_000.0 }\n");
    server.signal("HUP");
    wait_until(|| {
        server
            .said()
            .contains("reloaded: tokens, upstreams, prices")
            .then_some(())
    });
    call(server.address, MESSAGES, "at a dollar a token").await;
    assert!(server.stop().is_recorded());
    let costs: Vec<(f64, f64)> = place
        .exchanges()
        .iter()
        .map(|row| {
            let tokens = row["usage"]["output_tokens"].as_f64().unwrap();
            (row["cost_usd"].as_f64().unwrap(), tokens)
        })
        .collect();
    assert!(costs[0].0 < 1.0, "{costs:?}");
    assert!((costs[1].0 - costs[1].1).abs() < 1e-6, "{costs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_ones_choice_are_kept_and_no_others() {
    let upstream = provider().await;
    let place = Place::with(&upstream, "[record]\nheaders = ['X-Tenant']\n");
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    let headers = [
        ("x-tenant", "north"),
        ("x-other", "unasked"),
        ("x-api-key", "sk-quite-secret"),
        ("authorization", "Bearer sk-quite-secret"),
    ];
    let seen = client
        .post(MESSAGES.path(), &headers, MESSAGES.body("hello"))
        .await
        .unwrap();
    assert_eq!(seen.status, 200);
    assert!(server.stop().is_recorded());
    let line: Value = place.store.json(&["export"]).remove(0);
    let kept = &line["request"]["headers"];
    assert_eq!(kept["x-tenant"], "north");
    assert!(
        kept.get("x-other").is_none() && kept.get("x-api-key").is_none(),
        "{kept}"
    );
    assert_without(&place.data(), None, &["sk-quite-secret", "unasked"]);
    for bad in ["Authorization", "x-api-key", "Cookie", "x-session-token", "not a name"] {
        place.configure(&format!("[record]\nheaders = ['{bad}']\n"));
        let config = place.store.folder().join("config.toml");
        let refused = place
            .store
            .run(&["--config", config.to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(refused.status.code(), Some(3), "{bad}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("record.headers"), "{}", stderr(&refused));
    }
}

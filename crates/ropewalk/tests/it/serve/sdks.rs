//! The providers' own Python SDKs, which know nothing of us but an address.
//!
//! They come from PyPI into a folder of the build. Without Python or without a network this says so and shows nothing.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use http::HeaderValue;
use ropewalk_testkit::captures::workspace_root;
use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Upstream};
use serde_json::Value;

use super::server::Place;
use crate::python::{python_with, run};

const API_KEY: &str = "sk-ant-api03-bm90LWEta2V5LWJ1dC1sb29rcy1saWtlLW9uZQ-of-nobody-AA";

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdks_work_unchanged_and_their_conversations_are_recorded() {
    let python = match python_with("python-sdks", &folder().join("sdks.txt")) {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let upstream = Upstream::start().await;
    upstream.answer_by(flaky());
    let place = Place::before(&upstream);
    let server = place.serve();
    let url = format!("http://{}", server.address);
    let script = folder().join("sdks.py");
    let ran =
        tokio::task::spawn_blocking(move || run(Command::new(python).arg(script).args([&url, API_KEY]).env_clear()));
    let said = ran.await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).lines().count(), 12);
    let keys = received_keys(&upstream).await;
    assert!(
        keys.iter().all(|key| key.to_str().unwrap().contains(API_KEY)),
        "{keys:?}"
    );
    assert!(server.stop().is_recorded());

    let conversations = place.store.json(&["log"]);
    let found = conversations.iter().map(figures).collect::<Vec<_>>();
    insta::assert_snapshot!(found.join("\n"), @r"
    Do not.: 1 exchanges, 1 turns, 1 branches
    Do not.: 1 exchanges, 1 turns, 1 branches
    Is this flaky as well?: 2 exchanges, 1 turns, 1 branches
    Is this flaky?: 2 exchanges, 1 turns, 1 branches
    What is a bowline?: 2 exchanges, 2 turns, 1 branches
    What is a halyard?: 4 exchanges, 4 turns, 1 branches
    Which ropes are there?: 4 exchanges, 4 turns, 1 branches
    ");
    let exchanges = place.exchanges();
    let found = exchanges.iter().map(|exchange| {
        let word = |name: &str| exchange[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", word("provider"), word("kind"), word("status"))
    });
    insta::assert_snapshot!(found.collect::<Vec<_>>().join("\n"), @r"
    anthropic turn complete
    anthropic turn complete
    anthropic turn complete
    anthropic turn complete
    openai turn complete
    openai turn complete
    openai turn complete
    openai turn complete
    openai turn complete
    openai turn complete
    anthropic turn error
    anthropic retry complete
    openai turn error
    openai retry complete
    anthropic turn error
    openai turn error
    ");
    for text in [
        place.store.ok(&["export"]),
        place.store.ok(&["log", "--exchanges", "--json"]),
    ] {
        assert!(!text.contains(API_KEY));
    }
    super::secrets::look_for(&[API_KEY], &place.data());
}

fn figures(conversation: &Value) -> String {
    format!(
        "{}: {} exchanges, {} turns, {} branches",
        conversation["title"].as_str().unwrap(),
        conversation["exchanges"],
        conversation["turns"],
        conversation["branches"]
    )
}

/// A provider that is overloaded when it hears something flaky for the first time.
fn flaky() -> impl Fn(&ropewalk_testkit::upstream::Head, &bytes::Bytes) -> Answer + Send + Sync + 'static {
    let provider = Provider::new();
    let failed: Mutex<Vec<bytes::Bytes>> = Mutex::default();
    move |head, body| {
        let mut failed = failed.lock().unwrap();
        if String::from_utf8_lossy(body).contains("flaky") && !failed.contains(body) {
            failed.push(body.clone());
            return Answer::status(529).header("retry-after-ms", "20");
        }
        provider.answer(&head.target, body)
    }
}

/// The API key of every request that reached the provider.
async fn received_keys(upstream: &Upstream) -> Vec<HeaderValue> {
    let mut keys = Vec::new();
    for _ in 0..upstream.request_count() {
        let received = upstream.next_request().await;
        let key = received.header("x-api-key").or(received.header("authorization"));
        keys.push(HeaderValue::from_str(key.unwrap_or("none")).unwrap());
    }
    keys
}

fn folder() -> PathBuf {
    workspace_root().join("crates/ropewalk/tests/it/serve")
}

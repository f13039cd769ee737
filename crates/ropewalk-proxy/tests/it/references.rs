//! References on their way through the proxy, where the store is a trouble.

use std::sync::Arc;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::Recorder;
use ropewalk_engine::view::View;
use ropewalk_proxy::forward::Interpose;
use ropewalk_proxy::references::{Counted, References, Settings};
use ropewalk_store::{Sqlite, Store as _, sqlite};
use ropewalk_testkit::conformance::cases::{after_turns, turn};
use ropewalk_testkit::upstream::{Answer, Upstream};
use tokio::sync::watch;

use crate::proxy::{Proxy, settings};

fn body(text: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /v1/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Sends a text through the proxy; what the provider got, and what the client did.
async fn say(upstream: &Upstream, proxy: &Proxy, text: &str) -> (String, String) {
    upstream.answer_next(Answer::json("{}"));
    let answer = proxy.talk(post(&body(text))).await;
    let received = upstream.next_request().await.body_so_far();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&received), text(&answer))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_cannot_be_asked_leaves_the_text_as_it_is_and_pins_nothing() {
    let store = Arc::new(Sqlite::in_memory(&sqlite::Options::default()).unwrap());
    let mut recorder = Recorder::new(&*store, "me", &BundledPrices).await.unwrap();
    let said = turn("x1", after_turns(0), &["Green apples"], Some("are sour"));
    recorder.record(&[said.raw]).await.unwrap();
    recorder.link().await.unwrap();
    let view = View::new(&*store, recorder.owner(), "me");
    let known = view.references("green", None, 10).await.unwrap();
    let reference = known[1].reference.clone().unwrap();
    let (opened, opening) = watch::channel(None);
    let references = Arc::new(References::new(
        opening,
        tokio::runtime::Handle::current(),
        Settings::default(),
    ));
    let upstream = Upstream::start().await;
    let interposed: Vec<Arc<dyn Interpose>> = vec![references.clone()];
    let proxy = Proxy::start_with(settings(&upstream), interposed).await;

    let (sent, answer) = say(&upstream, &proxy, &reference).await;
    assert_eq!(sent, body(&reference));
    assert!(!answer.contains("x-ropewalk-references"), "{answer}");
    let failed = Counted {
        failed: 1,
        ..Counted::default()
    };
    assert_eq!(references.counters().read(), failed);

    // As soon as it is open, the same text is resolved, and what means nothing is named.
    opened.send_replace(Some(Arc::clone(&store)));
    let (sent, answer) = say(&upstream, &proxy, &reference).await;
    assert!(sent.contains(r"(assistant):\nare sour</pkb_item>"), "{sent}");
    assert!(!answer.contains("x-ropewalk-references"), "{answer}");
    let unknown = "@conv_nobody_x_aaaa_msg_1";
    let (sent, answer) = say(&upstream, &proxy, unknown).await;
    assert_eq!(sent, body(unknown));
    assert!(
        answer.contains(&format!("x-ropewalk-references: unresolved: {unknown}\r\n")),
        "{answer}"
    );
    let counted = Counted {
        resolved: 1,
        unresolved: 1,
        failed: 1,
    };
    assert_eq!(references.counters().read(), counted);

    // It goes away: what was pinned is not known any more, and nobody waits for it.
    opened.send_replace(None);
    let (sent, _) = say(&upstream, &proxy, &reference).await;
    assert_eq!(sent, body(&reference));
    // A text without a reference never asks.
    say(&upstream, &proxy, "no reference").await;
    assert_eq!(references.counters().read().failed, 2);
    assert!(store.find_owner("me").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_for_whom_it_is_off_is_not_looked_at() {
    let store = Arc::new(Sqlite::in_memory(&sqlite::Options::default()).unwrap());
    let (_opened, opening) = watch::channel(Some(store));
    let except = ["me".to_owned()].into();
    let references = Arc::new(References::new(
        opening,
        tokio::runtime::Handle::current(),
        Settings {
            except,
            ..Settings::default()
        },
    ));
    let upstream = Upstream::start().await;
    let interposed: Vec<Arc<dyn Interpose>> = vec![references.clone()];
    let proxy = Proxy::start_with(settings(&upstream), interposed).await;
    let text = "@conv_nobody_x_aaaa_msg_1";
    let (_, answer) = say(&upstream, &proxy, text).await;
    assert!(!answer.contains("x-ropewalk-references"), "{answer}");
    references.reload(Settings::default());
    let (_, answer) = say(&upstream, &proxy, text).await;
    assert!(answer.contains("x-ropewalk-references"), "{answer}");
}

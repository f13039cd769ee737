//! Calls that wait for somebody else's.

use std::sync::Arc;
use std::time::Duration;

use ropewalk_proxy::reuse::{Outcome, Reuse, Rule};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::upstream::{Answer, Gate, Upstream};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::proxy::{Proxy, settings};

const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;

/// Everything is reused, from a store that is empty.
fn reuse(store: Option<Arc<Sqlite>>) -> Reuse<Sqlite> {
    let rule = Rule {
        any_temperature: true,
        ..Rule::default()
    };
    let (sender, opened) = watch::channel(store);
    // It stays open for as long as the test runs.
    std::mem::forget(sender);
    Reuse::new(opened, vec![rule], Handle::current())
}

fn empty_store() -> Arc<Sqlite> {
    Arc::new(Sqlite::in_memory(&Options::default()).unwrap())
}

fn request(text: &str) -> String {
    let body = format!(r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let length = body.len();
    format!("POST /v1/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_too_long_asks_itself() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.answer_next(Answer::json("").wait_for(&gate).chunk(ANSWER));
    upstream.answer_always(Answer::json(ANSWER));
    let reuse = Arc::new(reuse(Some(empty_store())).waiting(Duration::from_millis(50)));
    let proxy = Arc::new(Proxy::start_with(settings(&upstream), vec![reuse.clone()]).await);
    let first = {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move { proxy.talk(request("a")).await })
    };
    let _asked = upstream.next_request().await;
    let second = String::from_utf8(proxy.talk(request("a")).await).unwrap();
    assert!(
        second.ends_with(ANSWER) && !second.contains("x-ropewalk-reuse"),
        "{second}"
    );
    assert_eq!(upstream.request_count(), 2);
    gate.open();
    assert!(String::from_utf8(first.await.unwrap()).unwrap().ends_with(ANSWER));
    assert_eq!(reuse.counters().count(Outcome::Miss), 2);
    assert_eq!(reuse.counters().count(Outcome::Shared), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_open_stops_nobody() {
    let upstream = Upstream::start().await;
    upstream.answer_always(Answer::json(ANSWER));
    let reuse = Arc::new(reuse(None));
    let proxy = Proxy::start_with(settings(&upstream), vec![reuse.clone()]).await;
    let first = String::from_utf8(proxy.talk(request("a")).await).unwrap();
    assert!(first.ends_with(ANSWER), "{first}");
    assert_eq!(reuse.counters().count(Outcome::Failed), 1);
    // What has just been answered needs no store.
    let again = String::from_utf8(proxy.talk(request("a")).await).unwrap();
    assert!(again.contains("x-ropewalk-reuse: hit"), "{again}");
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_hit_is_marked_and_names_where_it_is_from() {
    let upstream = Upstream::start().await;
    upstream.answer_always(Answer::json(ANSWER));
    let reuse = Arc::new(reuse(Some(empty_store())));
    let proxy = Proxy::start_with(settings(&upstream), vec![reuse]).await;
    for _ in 0..2 {
        proxy.talk(request("a")).await;
    }
    let kept = proxy.kept.lock().unwrap().clone();
    let mark = |at: usize| {
        kept[at]
            .headers
            .get("x-ropewalk-reuse")
            .map(|mark| mark.to_str().unwrap().to_owned())
    };
    assert_eq!((kept[0].reused, mark(0).as_deref()), (false, Some("stored")));
    assert_eq!((kept[1].reused, mark(1).as_deref()), (true, Some("hit")));
    assert!(kept[1].headers.contains_key("x-ropewalk-reused-from"));
    assert_eq!(
        (&kept[0].response, &kept[1].response),
        (&ANSWER.as_bytes().to_vec(), &ANSWER.as_bytes().to_vec())
    );
    assert_eq!(upstream.request_count(), 1);
}

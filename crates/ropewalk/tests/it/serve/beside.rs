//! Commands beside a running server: reading works, changes go through it, and another server does not start.

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;

use super::client::{Kind, call};
use super::server::Place;
use crate::store::{jsonl, talk};

#[tokio::test(flavor = "multi_thread")]
async fn import_and_rebuild_go_through_the_server_and_mix_with_what_passes() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = place.serve();
    let file = place.store.file("talk.jsonl", &jsonl(&talk()));
    let lines = talk().len() as u64;
    for (counted, count) in [("new", lines), ("known", lines)] {
        let summary = place.store.import(&file);
        assert_eq!(summary[counted], count, "{summary}");
    }
    call(
        server.address,
        Kind::Messages { streams: true },
        "asked while a server runs",
    )
    .await;
    let all = lines as usize + 1;
    place.wait_for_linked(all);
    let rebuilt = &place.store.json(&["rebuild"])[0];
    assert_eq!((&rebuilt["linked"], &rebuilt["moved"]), (&all.into(), &0.into()));
    let projected = &place.store.json(&["rebuild", "--projections"])[0];
    assert_eq!(
        (&projected["moved"], &projected["projections"]["old"]),
        (&0.into(), &0.into())
    );
    let dry = &place.store.json(&["rebuild", "--dry-run"])[0];
    assert_eq!(dry["moved"], 0, "{dry}");
    assert!(server.stop().is_recorded());
    assert_eq!(place.exchanges().len(), all);
    place.store.ok(&["fsck", "--read-data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_server() {
    let upstream = Upstream::start().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    let second = place.store.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    assert!(server.stop().is_recorded());
    assert!(!place.data().join("ropewalk.sock").exists());
    assert!(!place.data().join("server.json").exists());
}

//! A backup has what was acknowledged before it began, and is a store again.

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;

use super::{AnyPlace, engines, load, told_file};
use crate::serve::server::Place;
use crate::stderr;
use crate::store::TestStore;

#[test]
fn a_restored_store_is_the_one_that_was_backed_up() {
    for place in AnyPlace::both() {
        place.import(&told_file(&place.store));
        let file = place.store.folder().join("backup.tar.zst");
        let made = &place.json(&["backup", file.to_str().unwrap()])[0];
        assert_eq!(made["engine"], if place.url.is_some() { "postgres" } else { "sqlite" });
        let twice = place.store.run(&place.arguments(&["backup", file.to_str().unwrap()]));
        assert_eq!(twice.status.code(), Some(2), "{}", stderr(&twice));
        let onto_itself = place.store.run(&place.arguments(&["restore", file.to_str().unwrap()]));
        assert_eq!(onto_itself.status.code(), Some(2), "{}", stderr(&onto_itself));

        let restored = AnyPlace::like(place.url.as_deref());
        let said = &restored.json(&["restore", file.to_str().unwrap()])[0];
        assert_eq!((&said["exchanges"], &said["owners"]), (&4.into(), &1.into()), "{said}");
        for shown in [
            &["log", "--exchanges"][..],
            &["log"],
            &["search", "heirloom"],
            &["export"],
        ] {
            assert_eq!(restored.json(shown), place.json(shown), "{shown:?}");
        }
        restored.ok(&["fsck", "--read-data"]);
        assert_eq!(restored.json(&["rebuild"])[0]["moved"], 0);
        // It goes on like any other.
        let more = restored.store.file(
            "more.jsonl",
            &format!("{}\n", crate::store::turn("more", 90, &["a", "b"])),
        );
        assert_eq!(restored.import(&more)["new"], 1);
        restored.ok(&["fsck", "--read-data"]);
    }
}

#[test]
fn a_damaged_backup_restores_nothing() {
    let [place, _] = AnyPlace::both();
    place.import(&told_file(&place.store));
    let file = place.store.folder().join("backup.tar.zst");
    place.ok(&["backup", file.to_str().unwrap()]);
    let whole = std::fs::read(&file).unwrap();
    for (name, bytes) in [("cut", whole[..whole.len() / 2].to_vec()), ("empty", Vec::new())] {
        let damaged = place.store.folder().join(name);
        std::fs::write(&damaged, bytes).unwrap();
        let into = TestStore::new();
        let output = into.run(&["restore", damaged.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stderr(&output));
        assert!(!into.data().join("ropewalk.db").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_has_everything_that_ended_before_it() {
    for url in engines() {
        let upstream = Upstream::start().await;
        upstream.answer_as(Provider::new());
        let place = Place::on(&upstream, url.as_deref());
        let server = place.serve();
        server.wait_until_ready();
        load(server.address, 40).await.unwrap();
        // At once: most of it may be in the journal only.
        let load = load(server.address, 80);
        let file = place.store.folder().join("backup.tar.zst");
        place.store.ok(&place.over_store(&["backup", file.to_str().unwrap()]));
        load.await.unwrap();
        let restored = AnyPlace::like(url.as_deref());
        restored.ok(&["restore", file.to_str().unwrap()]);
        restored.ok(&["fsck", "--read-data"]);
        place.wait_for_linked(120);
        let ids = |rows: Vec<serde_json::Value>| -> Vec<String> {
            rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        let (all, kept) = (ids(place.exchanges()), ids(restored.json(&["log", "--exchanges"])));
        assert!(kept.len() >= 40, "{} are there", kept.len());
        for id in &all[..40] {
            assert!(kept.contains(id), "{id} had ended before");
        }
        assert!(server.stop().is_recorded());
    }
}

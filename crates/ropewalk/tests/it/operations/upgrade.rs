//! A store of the first schema, made by the program of that time (`fixtures/upgrade`): what it holds is there after an upgrade, every
//! verb works on it, and it is linked as if it had been recorded today.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ropewalk_testkit::captures::workspace_root;
use ropewalk_testkit::postgres::{PrivatePostgres, database_of};
use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use serde_json::Value;

use super::{AnyPlace, load};
use crate::serve::server::Place;
use crate::stderr;

/// As many as the store has.
const EXCHANGES: usize = 33;

/// Unpacks a fixture.
fn unpacked(name: &str, to: &Path) -> PathBuf {
    let from = workspace_root().join("fixtures/upgrade").join(format!("{name}.zst"));
    zstd::stream::copy_decode(File::open(from).unwrap(), File::create(to).unwrap()).unwrap();
    to.to_owned()
}

fn put_old_store(data: &Path, url: Option<&str>) {
    fs::create_dir_all(data).unwrap();
    match url {
        None => drop(unpacked("schema-1.db", &data.join("ropewalk.db"))),
        Some(url) => {
            let dump = unpacked("schema-1.sql", &data.join("dump.sql"));
            let server = PrivatePostgres::shared().unwrap();
            server.run_file(database_of(url), &dump).unwrap();
            fs::remove_file(dump).unwrap();
        }
    }
}

/// The old store on either engine, and a new one with the same exchanges in it.
fn old_and_fresh() -> Vec<(AnyPlace, AnyPlace)> {
    let pair = |old: AnyPlace| {
        put_old_store(&old.store.data(), old.url.as_deref());
        let fresh = AnyPlace::like(old.url.as_deref());
        let exchanges = fresh.store.folder().join("schema-1.exchanges.jsonl");
        assert_eq!(
            fresh.import(&unpacked("schema-1.exchanges.jsonl", &exchanges))["new"],
            EXCHANGES
        );
        (old, fresh)
    };
    AnyPlace::both().into_iter().map(pair).collect()
}

/// What a line says, without names that have a moment in them (those of the old store were made when it was upgraded), and without
/// what an exported exchange does not tell: when the first byte came, and who cut it off.
fn comparable(mut line: Value) -> Value {
    for name in ["friendly_id", "reference", "first_byte_ms", "status"] {
        if let Some(member) = line.get_mut(name) {
            *member = Value::Null;
        }
    }
    line
}

fn lines(place: &AnyPlace, arguments: &[&str]) -> Vec<Value> {
    place.json(arguments).into_iter().map(comparable).collect()
}

#[test]
fn a_store_of_the_first_schema_is_brought_up_to_date_and_is_what_a_fresh_one_would_be() {
    for (old, fresh) in old_and_fresh() {
        assert_eq!(old.json(&["store", "status"])[0]["schema"]["version"], 1);
        if old.url.is_some() {
            let early = old.store.run(&old.arguments(&["log"]));
            assert_eq!(
                early.status.code(),
                Some(3),
                "a reader does not decide that for all servers"
            );
            assert!(stderr(&early).contains("store migrate"), "{}", stderr(&early));
        }
        let migrated = old.json(&["store", "migrate"]).remove(0);
        assert_eq!(migrated["from"], 1);
        assert_eq!(
            old.json(&["store", "migrate"])[0]["from"],
            migrated["to"],
            "it is up to date"
        );
        old.ok(&["fsck", "--read-data"]);
        let projected = old.json(&["rebuild", "--projections"]).remove(0);
        assert_eq!(projected["projections"]["old"], EXCHANGES, "{projected}");
        assert_eq!(old.json(&["rebuild"])[0]["moved"], 0);
        old.ok(&["fsck", "--read-data"]);
        for shown in [
            &["log", "--exchanges"][..],
            &["log"],
            &["tree"],
            &["export"],
            &["search", "leap year"],
            &["stats", "--waste"],
        ] {
            assert_eq!(lines(&old, shown), lines(&fresh, shown), "{shown:?}");
        }
    }
}

#[test]
fn every_verb_works_on_a_store_of_the_first_schema() {
    for (old, _) in old_and_fresh() {
        // Whoever writes first brings it up to date; what is there is known.
        let exchanges = old.store.folder().join("again.exchanges.jsonl");
        let again = old.import(&unpacked("schema-1.exchanges.jsonl", &exchanges));
        assert_eq!((&again["known"], &again["new"]), (&EXCHANGES.into(), &0.into()));
        old.ok(&["rebuild", "--projections"]);
        let rows = old.json(&["log", "--exchanges"]);
        assert_eq!(rows.len(), EXCHANGES);
        let last = rows.iter().rfind(|row| row["branch_kind"] == "compact").unwrap();
        let (id, friendly) = (last["id"].as_str().unwrap(), last["friendly_id"].as_str().unwrap());
        let first = rows[0]["id"].as_str().unwrap();
        let reference = format!("@conversation_{friendly}_message_1");
        let backup = old.store.folder().join("backup.tar.zst");
        let request = old
            .store
            .file("request.json", &old.ok(&["show", id, "--raw", "request"]));
        for arguments in [
            &["log", "--graph"][..],
            &["show", friendly],
            &["show", id, "--tree"],
            &["show", id, "--answers"],
            &["tree", friendly],
            &["diff", first, id],
            &["explain", id],
            &["explain", "--cache", id],
            &["blame", id],
            &["search", "leap"],
            &["spread", "leap"],
            &["resolve", &reference],
            &["match", request.to_str().unwrap()],
            &["stats"],
            &["stats", "--cache"],
            &["suggest"],
            &["templates"],
            &["replay", id, "--model", "other", "--dry-run"],
            &["export", "--format", "markdown", friendly],
            &["title", id, "Leap days"],
            &["backup", backup.to_str().unwrap()],
            &["retain", "--older-than", "2000-01-01"],
            &["gc"],
            &["forget", friendly, "--yes"],
            &["fsck", "--read-data"],
        ] {
            old.ok(arguments);
        }
        let gone = old.store.run(&old.arguments(&["show", id]));
        assert!(stderr(&gone).contains("was forgotten"), "{}", stderr(&gone));
        let restored = AnyPlace::like(old.url.as_deref());
        restored.ok(&["restore", backup.to_str().unwrap()]);
        assert_eq!(restored.json(&["log", "--exchanges"]).len(), EXCHANGES);
    }
}

#[test]
fn a_reader_brings_a_folder_up_to_date_unless_somebody_writes_there() {
    let [place, _] = AnyPlace::both();
    let data = place.store.data();
    put_old_store(&data, None);
    let writer = File::create(data.join("ropewalk.lock")).unwrap();
    writer.lock().unwrap();
    let refused = place.store.run(&["log"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(stderr(&refused).contains("brought up to date"), "{}", stderr(&refused));
    drop(writer);
    assert_eq!(place.json(&["log"]).len(), 3);
    place.ok(&["fsck", "--read-data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_in_a_store_of_the_first_schema() {
    for url in super::engines() {
        let upstream = Upstream::start().await;
        upstream.answer_as(Provider::new());
        let place = Place::on(&upstream, url.as_deref());
        put_old_store(&place.data(), url.as_deref());
        let server = place.serve();
        server.wait_until_ready();
        load(server.address, 20).await.unwrap();
        assert!(server.stop().is_recorded());
        for (owner, exchanges) in [("local", 20), ("default", EXCHANGES)] {
            let log = place.over_store(&["--owner", owner, "log", "--exchanges"]);
            assert_eq!(place.store.json(&log).len(), exchanges, "{owner}");
        }
        place.store.ok(&place.over_store(&["fsck", "--read-data"]));
    }
}

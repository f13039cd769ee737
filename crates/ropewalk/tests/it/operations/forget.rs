//! What is forgotten cannot be found, does not come back, and takes nothing else with it.

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;

use super::{AnyPlace, SECRET, SECRET_ANSWER, files_with, told, told_file};
use crate::serve::client::{Kind, call};
use crate::serve::server::{Place, wait_until};
use crate::stderr;
use crate::store::jsonl;

/// Words of what is forgotten that nothing else says.
const WORDS: [&str; 5] = ["heirloom", "sundial", "vellmoor", "quorntide", "third sundial of"];

fn assert_nothing_left(place: &AnyPlace) {
    assert_eq!(files_with(&place.store.data(), &WORDS).len(), 0);
    let tables = place.tables();
    for word in WORDS {
        assert!(!tables.to_lowercase().contains(word), "{word} is in a table");
    }
}

#[test]
fn a_forgotten_conversation_leaves_nothing_and_does_not_come_back() {
    for place in AnyPlace::both() {
        let file = told_file(&place.store);
        place.import(&file);
        let before = place.json(&["log", "--exchanges"]);
        let friendly = before[0]["friendly_id"].as_str().unwrap().to_owned();
        assert!(place.ok(&["search", "heirloom"]).contains("heirloom"));
        let dry = &place.json(&["forget", &friendly, "--dry-run"])[0];
        assert_eq!(
            (&dry["forgets"]["conversations"], &dry["forgets"]["exchanges"]),
            (&1.into(), &3.into())
        );
        assert_eq!(place.json(&["log", "--exchanges"]), before, "a dry run changes nothing");
        let refused = place.store.run(&place.arguments(&["forget", &friendly]));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));

        let done = &place.json(&["forget", &friendly, "--yes"])[0];
        assert_eq!(done["dry_run"], false);
        assert!(done["removed"]["parts"].as_u64().unwrap() > 0, "{done}");
        assert_nothing_left(&place);
        place.ok(&["fsck", "--read-data"]);
        let kept = place.json(&["log", "--exchanges"]);
        assert_eq!(kept, before[3..]);
        let searched = place.store.run(&place.arguments(&["search", "heirloom"]));
        assert_eq!(searched.status.code(), Some(1), "nobody said that");
        // The same file again, under another name so that it is read: it stays forgotten.
        let again = place.store.file("again.exchanges.jsonl", &jsonl(&told()));
        let summary = place.import(&again);
        assert_eq!(
            (&summary["new"], &summary["forgotten"], &summary["known"]),
            (&0.into(), &3.into(), &1.into())
        );
        assert_nothing_left(&place);
        let rebuilt = &place.json(&["rebuild"])[0];
        assert_eq!(rebuilt["moved"], 0);
        assert_eq!(place.json(&["log", "--exchanges"]), kept);
        let gone = place.store.run(&place.arguments(&["show", &friendly]));
        assert!(stderr(&gone).contains("was forgotten"), "{}", stderr(&gone));
    }
}

#[test]
fn what_an_exchange_brought_goes_from_every_request_that_repeats_it() {
    for place in AnyPlace::both() {
        place.import(&told_file(&place.store));
        let before = place.json(&["log", "--exchanges"]);
        let dry = &place.json(&["forget", "told-2", "--dry-run"])[0];
        assert_eq!(
            (&dry["forgets"]["holes"], &dry["forgets"]["rewritten"]),
            (&1.into(), &1.into()),
            "{dry}"
        );
        place.ok(&["forget", "told-2", "--yes"]);
        assert_nothing_left(&place);
        place.ok(&["fsck", "--read-data"]);
        let links = |rows: &[serde_json::Value]| -> Vec<_> {
            let link = |row: &serde_json::Value| {
                [
                    "id",
                    "conversation_id",
                    "branch_id",
                    "parent_exchange_id",
                    "input_node",
                    "usage",
                    "cost_usd",
                ]
                .map(|name| row[name].clone())
            };
            rows.iter().map(link).collect()
        };
        let after = place.json(&["log", "--exchanges"]);
        assert_eq!(links(&after), links(&before), "links, usage and cost stay");
        let rebuilt = &place.json(&["rebuild"])[0];
        assert_eq!(rebuilt["moved"], 0, "{rebuilt}");
        assert_eq!(links(&place.json(&["log", "--exchanges"])), links(&before));
        let shown = place.ok(&["show", "told-3"]);
        assert!(
            shown.contains("[forgotten]") && shown.contains("In the shed"),
            "{shown}"
        );
        let raw = place.ok(&["show", "told-3", "--raw", "request"]);
        assert!(raw.contains("And the tools?") && !raw.contains(SECRET) && !raw.contains(SECRET_ANSWER));
        // It is known by its id, so it does not come back either.
        let again = place.store.file("again.exchanges.jsonl", &jsonl(&told()));
        assert_eq!(place.import(&again)["known"], 4);
        assert_nothing_left(&place);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_forgets_while_it_records_and_its_journal_forgets_with_it() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = place.serve();
    server.wait_until_ready();
    let asked = "the heirloom of Vellmoor, asked for while a server runs";
    call(server.address, Kind::Messages { streams: true }, asked).await;
    wait_until(|| (place.exchanges().len() == 1).then_some(()));
    assert!(!files_with(&place.data(), &["vellmoor"]).is_empty());
    let id = place.exchanges()[0]["conversation_id"].as_str().unwrap().to_owned();
    let address = server.address;
    let load = tokio::spawn(async move {
        for number in 0..60 {
            let kind = Kind::ALL[number % Kind::ALL.len()];
            call(address, kind, &format!("load number {number}")).await;
        }
    });
    let done = place.store.json(&["forget", &id, "--yes"]).remove(0);
    assert_eq!(done["forgets"]["conversations"], 1);
    load.await.unwrap();
    wait_until(|| (place.exchanges().len() == 60).then_some(()));
    wait_until(|| files_with(&place.data(), &["vellmoor"]).is_empty().then_some(()));
    assert!(server.stop().is_recorded());
    assert!(files_with(&place.data(), &["vellmoor"]).is_empty());
    place.store.ok(&["fsck", "--read-data"]);
    // The journal is read again by the next one.
    place.record_what_is_left();
    assert_eq!(place.exchanges().len(), 60);
}

#[test]
fn old_conversations_lose_their_bodies_and_keep_their_links() {
    for place in AnyPlace::both() {
        place.import(&told_file(&place.store));
        let before = place.json(&["log", "--exchanges"]);
        let dry = &place.json(&["retain", "--older-than", "1d", "--dry-run"])[0];
        assert_eq!(
            (&dry["dropped"]["conversations"], &dry["dropped"]["holes"]),
            (&2.into(), &4.into()),
            "{dry}"
        );
        place.ok(&["retain", "--older-than", "1d"]);
        assert_nothing_left(&place);
        let after = place.json(&["log", "--exchanges"]);
        assert_eq!(after, before, "hashes, links, usage and cost stay");
        assert_eq!(place.json(&["rebuild"])[0]["moved"], 0);
        place.ok(&["fsck", "--read-data"]);
        let again = &place.json(&["retain", "--older-than", "1d"])[0];
        assert_eq!(again["dropped"]["holes"], 0, "there is nothing left to drop");
        place.ok(&["retain", "--older-than", "1d", "--drop", "all"]);
        assert_eq!(place.json(&["log", "--exchanges"]).len(), 0);
        place.ok(&["fsck", "--read-data"]);
        // What was only dropped may come back.
        let file = place.store.file("again.exchanges.jsonl", &jsonl(&told()));
        assert_eq!(place.import(&file)["new"], 4);
    }
}

#[test]
fn gc_says_what_it_gives_back() {
    for place in AnyPlace::both() {
        place.import(&told_file(&place.store));
        let dry = place.json(&["gc", "--dry-run"]);
        assert_eq!((dry.len(), &dry[0]["unused"]["parts"]), (1, &0.into()));
        let done = place.json(&["gc"]);
        assert!(done[1]["store"]["bytes_after"].as_u64().unwrap() > 0, "{done:?}");
        place.ok(&["fsck", "--read-data"]);
    }
}

//! What is forgotten cannot be found, does not come back, and takes nothing else with it.

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;

use serde_json::Value;

use super::{AnyPlace, SECRET, SECRET_ANSWER, assert_without, engines, files_with, load, told, told_file};
use crate::serve::client::{Kind, call};
use crate::serve::server::Place;
use crate::stderr;
use crate::store::{jsonl, turn};

/// Words of what is forgotten that nothing else says.
const WORDS: [&str; 5] = ["heirloom", "sundial", "vellmoor", "quorntide", "third sundial of"];

fn assert_nothing_left(place: &AnyPlace) {
    place.assert_without(&WORDS);
}

/// What does not depend on what was said.
fn links(rows: &[Value]) -> Vec<[Value; 7]> {
    let link = |row: &Value| {
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

/// Says that text, and leaves nothing of it where it is forgotten: who said it, and the words of it that nothing else says.
fn forget_message(place: &AnyPlace, said: &str, words: &[&str], stays: &str) {
    place.import(&told_file(&place.store));
    let before = place.json(&["log", "--exchanges"]);
    let messages = place.json(&["show", before[2]["friendly_id"].as_str().unwrap()]);
    let message = messages.iter().find(|message| message["content"] == said).unwrap();
    let reference = message["reference"].as_str().unwrap();
    assert!(reference.starts_with("@conversation_"), "{reference}");
    assert!(place.ok(&["search", words[0]]).contains("1 "), "it is found");

    let done = &place.json(&["forget", reference, "--yes"])[0];
    assert_eq!(done["forgets"]["exchanges"], 0, "{done}");
    place.assert_without(words);
    place.ok(&["fsck", "--read-data"]);
    let searched = place.store.run(&place.arguments(&["search", words[0]]));
    assert_eq!(searched.status.code(), Some(1), "nobody said that");
    let gone = place.store.run(&place.arguments(&["resolve", reference]));
    assert_eq!(gone.status.code(), Some(1), "{}", stderr(&gone));
    let repeating = place.ok(&["show", "told-3", "--raw", "request"]);
    assert!(
        repeating.contains("[forgotten]") && repeating.contains(stays),
        "{repeating}"
    );
    let after = place.json(&["log", "--exchanges"]);
    assert_eq!(links(&after), links(&before), "links, usage and cost stay");
    assert_eq!(place.json(&["rebuild"])[0]["moved"], 0);
    let again = place.store.file("again.exchanges.jsonl", &jsonl(&told()));
    assert_eq!(place.import(&again)["known"], 4);
    place.assert_without(words);
}

#[test]
fn a_message_goes_alone_and_from_every_request_that_repeats_it() {
    for place in AnyPlace::both() {
        forget_message(&place, SECRET, &["heirloom", "sundial", "vellmoor"], SECRET_ANSWER);
    }
    for place in AnyPlace::both() {
        forget_message(&place, SECRET_ANSWER, &["quorntide", "shadow of the yew"], SECRET);
    }
}

/// So many turns that their owner gets a dictionary, which learns what they all say.
fn told_often() -> Vec<Value> {
    let mut said: Vec<String> = Vec::new();
    let mut turns = Vec::new();
    for number in 0..130 {
        said.push(format!("Note {number}: {SECRET}, in row {}.", number * 7 % 100));
        said.push(format!("Noted as {number}. {SECRET_ANSWER}"));
        let all: Vec<&str> = said.iter().map(String::as_str).collect();
        turns.push(turn(&format!("often-{number}"), number, &all));
    }
    turns
}

#[test]
fn what_a_dictionary_has_learnt_of_it_goes_as_well() {
    let [_, place] = AnyPlace::both();
    let often = place.store.file("often.exchanges.jsonl", &jsonl(&told_often()));
    place.import(&often);
    let dictionaries = || {
        place
            .sql("SELECT encode(bytes, 'escape') FROM dictionary")
            .to_lowercase()
    };
    assert!(dictionaries().contains("sundial"), "it has learnt that");
    // What is recorded now is packed with it.
    let other = turn(
        "other",
        900,
        &["What is a ropewalk?", "A long lane where ropes are made."],
    );
    let other = place.store.file("other.exchanges.jsonl", &jsonl(&[other]));
    place.import(&other);
    let packed = "SELECT count(*) FROM part WHERE codec > 1";
    assert_ne!(place.sql(packed), "0");
    let before = place.ok(&["show", "other", "--raw", "response"]);

    let friendly = place.json(&["log", "--exchanges"])[0]["friendly_id"].clone();
    place.ok(&["forget", friendly.as_str().unwrap(), "--yes"]);
    assert_eq!(dictionaries(), "");
    assert_eq!(place.sql(packed), "0");
    assert_nothing_left(&place);
    assert_eq!(place.ok(&["show", "other", "--raw", "response"]), before);
    place.ok(&["fsck", "--read-data"]);
    assert_eq!(
        place.import(&place.store.file("more.exchanges.jsonl", &jsonl(&told())))["new"],
        3
    );
    place.ok(&["fsck", "--read-data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_forgets_while_it_records_and_its_journal_forgets_with_it() {
    for url in engines() {
        let upstream = Upstream::start().await;
        upstream.answer_as(Provider::new());
        let place = Place::on(&upstream, url.as_deref());
        let server = place.serve();
        server.wait_until_ready();
        let asked = "the heirloom of Vellmoor, asked for while a server runs";
        call(server.address, Kind::Messages { streams: true }, asked).await;
        place.wait_for_linked(1);
        assert!(!files_with(&place.data(), &["vellmoor"]).is_empty());
        let id = place.exchanges()[0]["conversation_id"].as_str().unwrap().to_owned();
        let load = load(server.address, 60);
        let forgotten = place.over_store(&["forget", &id, "--yes"]);
        let done = place.store.json(&forgotten).remove(0);
        assert_eq!(done["forgets"]["conversations"], 1);
        load.await.unwrap();
        place.wait_for_linked(60);
        if url.is_none() {
            // Who records to a database keeps the segment at hand until it is full, or until it stops.
            assert_eq!(done["store"]["leaves_copies"], false, "{done}");
            assert_without(&place.data(), None, &["vellmoor"]);
        }
        assert!(server.stop().is_recorded());
        // The journal is read again by the next one.
        place.record_what_is_left();
        assert_eq!(place.exchanges().len(), 60);
        assert_without(&place.data(), url.as_deref(), &["vellmoor"]);
        place.store.ok(&place.over_store(&["fsck", "--read-data"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_dropped_while_a_server_records() {
    for url in engines() {
        let upstream = Upstream::start().await;
        upstream.answer_as(Provider::new());
        let place = Place::on(&upstream, url.as_deref());
        let server = place.serve();
        server.wait_until_ready();
        load(server.address, 20).await.unwrap();
        place.wait_for_linked(20);
        let load = load(server.address, 60);
        // Everything that is there when it begins.
        let retain = place.over_store(&["retain", "--older-than", "2100-01-01"]);
        let dropped = place.store.json(&retain).remove(0);
        assert!(dropped["dropped"]["holes"].as_u64().unwrap() >= 20, "{dropped}");
        load.await.unwrap();
        place.wait_for_linked(80);
        assert!(server.stop().is_recorded());
        place.store.ok(&place.over_store(&["fsck", "--read-data"]));
        let rebuilt = place.store.json(&place.over_store(&["rebuild"])).remove(0);
        assert_eq!(rebuilt["moved"], 0, "{rebuilt}");
        assert_eq!(place.exchanges().len(), 80, "rows stay");
    }
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
fn what_is_named_is_kept_however_old_it_is() {
    for place in AnyPlace::both() {
        place.import(&told_file(&place.store));
        let friendly = |id: &str| {
            let rows = place.json(&["log", "--exchanges"]);
            let row = rows.iter().find(|row| row["id"] == id).unwrap();
            row["friendly_id"].as_str().unwrap().to_owned()
        };
        let unknown = place.arguments(&["retain", "--older-than", "1d", "--keep", "no_such_name"]);
        assert_eq!(
            place.store.run(&unknown).status.code(),
            Some(1),
            "nothing is dropped by mistake"
        );
        let kept = friendly("other");
        place.ok(&["retain", "--older-than", "1d", "--drop", "all", "--keep", &kept]);
        let left = place.json(&["log", "--exchanges"]);
        assert_eq!((left.len(), &left[0]["id"]), (1, &"other".into()));
        assert_nothing_left(&place);
        place.ok(&["fsck", "--read-data"]);
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

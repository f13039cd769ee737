//! Names of conversations and messages, pins, and what was sent in a request's place.

use std::sync::Arc;

use bytes::Bytes;
use ropewalk_store::derived::LinkChanges;
use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, NewName, Pin, Taken};
use ropewalk_store::store::{Depth, Half, Outcome};
use ropewalk_store::{OwnerId, Store};

use super::cases::{Case, after_turns, fresh_owner, record, record_one, turn};
use super::derived::{conversation, link, main_branch, one_conversation};

fn name(id: &str, exchange: ExchangeNumber) -> NewName {
    NewName {
        name: NameRow {
            exchange,
            friendly_id: id.to_owned(),
            title: None,
        },
        conversation: exchange,
    }
}

fn message(name: ExchangeNumber, hash: &str, node: u8) -> MessageName {
    MessageName {
        name,
        short_hash: hash.to_owned(),
        exchange: name,
        node: [node; 8],
    }
}

async fn save(store: &impl Store, owner: OwnerId, changes: NameChanges) -> Taken {
    store.save_names(owner, changes).await.expect("names can be saved")
}

async fn ids(store: &impl Store, owner: OwnerId, which: Names) -> Vec<String> {
    let names = store.names(owner, which).await.expect("names can be read");
    names.into_iter().map(|name| name.friendly_id).collect()
}

/// Two exchanges of an owner.
async fn two(store: &impl Store, owner: OwnerId) -> [ExchangeNumber; 2] {
    let cases = [
        turn("n1", after_turns(0), &["one"], Some("first")),
        turn("n2", after_turns(1), &["two"], Some("second")),
    ];
    let recorded = record(store, owner, &cases).await;
    [recorded[0].number, recorded[1].number]
}

pub async fn a_name_belongs_to_who_had_it_first<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let [one, two] = two(&*store, owner).await;
    let first = NameChanges {
        names: vec![name("react_b4f2", one), name("other_aaaa", two)],
        named_to: Some(Position(2)),
        ..NameChanges::default()
    };
    assert_eq!(save(&*store, owner, first.clone()).await, Taken::default());
    // The same again changes nothing, and neither does another with the same name.
    assert_eq!(save(&*store, owner, first).await, Taken::default());
    let again = NameChanges {
        names: vec![name("new_cccc", two), name("react_b4f2", two)],
        named_to: Some(Position(1)),
        titles: vec![(one, "A title \u{e9}\0".to_owned())],
        ..NameChanges::default()
    };
    assert_eq!(save(&*store, owner, again).await.names, [1]);
    let asked = Names::Ids(vec![
        "new_cccc".to_owned(),
        "nobody".to_owned(),
        "react_b4f2".to_owned(),
    ]);
    let found = store.names(owner, asked).await.expect("names can be read");
    assert_eq!(found.iter().map(|name| name.exchange).collect::<Vec<_>>(), [two, one]);
    assert_eq!(found[1].title.as_deref(), Some("A title \u{e9}\0"));
    let minted = Names::MintedFor(vec![two, one]);
    assert_eq!(
        ids(&*store, owner, minted).await,
        ["new_cccc", "other_aaaa", "react_b4f2"]
    );
    let state = store.link_state(owner).await.expect("a state");
    assert_eq!(
        state.named_to,
        Position(2),
        "names are never less complete than they were"
    );
}

pub async fn names_are_found_wherever_their_exchanges_went<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let [one, two] = two(&*store, owner).await;
    let names = NameChanges {
        names: vec![name("react_b4f2", one), name("other_aaaa", two)],
        ..NameChanges::default()
    };
    save(&*store, owner, names).await;
    let of = async |root: ExchangeNumber| ids(&*store, owner, Names::OfConversations(vec![root])).await;
    assert!(of(one).await.is_empty(), "nothing is linked");

    let apart = LinkChanges {
        links: vec![link(one, 0, one, None), link(two, 1, two, None)],
        branches: vec![main_branch(one), main_branch(two)],
        conversations: vec![conversation(one, 0, 0), conversation(two, 1, 1)],
        ..LinkChanges::default()
    };
    assert!(store.save_links(owner, apart.clone()).await.expect("links are saved"));
    assert_eq!(
        (of(one).await, of(two).await),
        (vec!["react_b4f2".to_owned()], vec!["other_aaaa".to_owned()])
    );

    let merged = LinkChanges {
        version: 1,
        gone_conversations: vec![two],
        gone_branches: vec![two],
        ..one_conversation(&[one, two])
    };
    assert!(store.save_links(owner, merged).await.expect("links are saved"));
    assert_eq!(of(one).await, ["react_b4f2", "other_aaaa"]);
    assert!(of(two).await.is_empty());

    // From scratch, into one and apart again: names are no conclusions.
    for (version, changes, expected) in [(2, one_conversation(&[one, two]), 2), (3, apart, 1)] {
        let changes = LinkChanges {
            version,
            from_scratch: true,
            ..changes
        };
        assert!(store.save_links(owner, changes).await.expect("links are saved"));
        assert_eq!(of(one).await.len(), expected);
    }
    assert_eq!(of(two).await, ["other_aaaa"]);
}

pub async fn names_are_completed_from_their_beginning<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let [one, two] = two(&*store, owner).await;
    let all = ["react_a", "react_b", "react_b2", "reach_a", "zoo_a"];
    let names = NameChanges {
        names: all
            .iter()
            .map(|id| name(id, if id.ends_with('a') { one } else { two }))
            .collect(),
        ..NameChanges::default()
    };
    save(&*store, owner, names).await;
    let beginning = async |prefix: &str, after: Option<&str>, limit| {
        let which = Names::Beginning {
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
            limit,
        };
        ids(&*store, owner, which).await
    };
    assert_eq!(
        beginning("rea", None, 10).await,
        ["reach_a", "react_a", "react_b", "react_b2"]
    );
    assert_eq!(beginning("react_", None, 2).await, ["react_a", "react_b"]);
    assert_eq!(beginning("react_", Some("react_b"), 2).await, ["react_b2"]);
    assert_eq!(beginning("", None, 100).await.len(), 5);
    for hostile in ["%", "_eact", "react\0", "\u{10ffff}", "' OR 1 --"] {
        assert!(beginning(hostile, None, 10).await.is_empty(), "{hostile}");
    }
}

pub async fn a_message_has_the_short_hash_that_was_free<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let [one, two] = two(&*store, owner).await;
    let changes = |messages| NameChanges {
        messages,
        ..NameChanges::default()
    };
    let first = changes(vec![
        message(one, "aaaaaa", 1),
        message(one, "bbbbbb", 255),
        message(two, "aaaaaa", 3),
    ]);
    assert_eq!(save(&*store, owner, first.clone()).await, Taken::default());
    assert_eq!(save(&*store, owner, first).await, Taken::default());
    let other = changes(vec![message(one, "cccccc", 4), message(one, "aaaaaa", 4)]);
    assert_eq!(save(&*store, owner, other).await.messages, [1]);
    let of = |name, after: Option<&str>, limit| MessageNames::Of {
        name,
        after: after.map(str::to_owned),
        limit,
    };
    let named = async |which| store.message_names(owner, which).await.expect("names can be read");
    let all = [
        message(one, "aaaaaa", 1),
        message(one, "bbbbbb", 255),
        message(one, "cccccc", 4),
    ];
    assert_eq!(named(of(one, None, 10)).await, all);
    assert_eq!(named(of(one, Some("aaaaaa"), 1)).await, all[1..2]);
    let asked = vec![
        (one, "bbbbbb".to_owned()),
        (two, "bbbbbb".to_owned()),
        (two, "aaaaaa".to_owned()),
    ];
    let found = named(MessageNames::Named(asked)).await;
    assert_eq!(found, [message(one, "bbbbbb", 255), message(two, "aaaaaa", 3)]);
}

pub async fn what_is_pinned_stays<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let pin = |key: u8, outcome: &str| Pin {
        key: [key; 32],
        outcome: outcome.to_owned(),
    };
    let first = store.pin(owner, vec![pin(1, "one\0\u{1a}"), pin(2, "two")]).await;
    assert_eq!(first.expect("pinned"), [pin(1, "one\0\u{1a}"), pin(2, "two")]);
    let second = store.pin(owner, vec![pin(2, "other"), pin(3, "three")]).await;
    assert_eq!(second.expect("pinned"), [pin(2, "two"), pin(3, "three")]);
    let asked = vec![[3; 32], [9; 32], [1; 32]];
    let found = store.pins(owner, asked).await.expect("pins can be read");
    assert_eq!(found, [pin(3, "three"), pin(1, "one\0\u{1a}")]);
    // Of many who pin at once, all get the same.
    let racing = (0..8).map(|racer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store
                .pin(
                    owner,
                    vec![Pin {
                        key: [7; 32],
                        outcome: racer.to_string(),
                    }],
                )
                .await
        })
    });
    let mut outcomes = Vec::new();
    for racer in racing.collect::<Vec<_>>() {
        outcomes.extend(racer.await.expect("no panic").expect("pinned"));
    }
    assert!(outcomes.iter().all(|pin| *pin == outcomes[0]), "{outcomes:?}");
}

pub async fn what_was_sent_in_a_requests_place_comes_back<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let with_sent = |case: &Case, sent: &[u8]| {
        let mut raw = case.raw.clone();
        raw.sent_body = Some(Bytes::copy_from_slice(sent));
        Case::of(raw)
    };
    let sent = br#"{"messages":[{"role":"user","content":"a question with a long text in its place"}]}"#;
    let whole = turn("s1", after_turns(0), &["a question"], Some("answer"));
    let recorded = record_one(&*store, owner, &with_sent(&whole, sent)).await;
    let body = async |number, half| store.body(owner, number, half).await.expect("a body can be read");
    assert_eq!(body(recorded.number, Half::Sent).await.as_deref(), Some(&sent[..]));
    assert_eq!(
        body(recorded.number, Half::Request).await.as_deref(),
        Some(&whole.raw.request_body[..])
    );

    // Begun without it, completed with it; no JSON.
    let begun = turn("s2", after_turns(1), &["a question"], None);
    let begun = record_one(&*store, owner, &begun).await;
    assert_eq!(body(begun.number, Half::Sent).await, None);
    let ended = turn("s2", after_turns(1), &["a question"], Some("answer"));
    let ended = record_one(&*store, owner, &with_sent(&ended, b"\xff\0")).await;
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(body(begun.number, Half::Sent).await.as_deref(), Some(&b"\xff\0"[..]));
    let findings = store.check(owner, Depth::Data).await.expect("a check");
    assert!(findings.is_empty(), "{findings:?}");
}

pub async fn owners_never_see_each_others_names<S: Store + 'static>(store: Arc<S>) {
    let (ann, bob) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let [one, other] = two(&*store, ann).await;
    let theirs = two(&*store, bob).await;
    let names = |of: ExchangeNumber| NameChanges {
        names: vec![name("react_b4f2", of)],
        messages: vec![message(of, "aaaaaa", 1)],
        titles: vec![(of, "theirs".to_owned())],
        named_to: Some(Position(1)),
    };
    save(&*store, ann, names(one)).await;
    store
        .pin(
            ann,
            vec![Pin {
                key: [1; 32],
                outcome: "ann".to_owned(),
            }],
        )
        .await
        .expect("pinned");
    let everywhere = [
        Names::Ids(vec!["react_b4f2".to_owned()]),
        Names::MintedFor(vec![one, other, theirs[0]]),
        Names::OfConversations(vec![one, other, theirs[0]]),
        Names::Beginning {
            prefix: String::new(),
            after: None,
            limit: 100,
        },
    ];
    for which in everywhere {
        assert!(ids(&*store, bob, which.clone()).await.is_empty(), "{which:?}");
    }
    let messages = MessageNames::Of {
        name: one,
        after: None,
        limit: 10,
    };
    assert!(store.message_names(bob, messages).await.expect("names").is_empty());
    let named = MessageNames::Named(vec![(one, "aaaaaa".to_owned())]);
    assert!(store.message_names(bob, named).await.expect("names").is_empty());
    assert!(store.pins(bob, vec![[1; 32]]).await.expect("pins").is_empty());
    assert_eq!(store.link_state(bob).await.expect("a state").named_to, Position(0));
    // The same name is free for the other, and nothing of the first one's changes.
    assert_eq!(save(&*store, bob, names(theirs[1])).await, Taken::default());
    let found = store
        .names(ann, Names::Ids(vec!["react_b4f2".to_owned()]))
        .await
        .expect("names");
    assert_eq!(found.iter().map(|name| name.exchange).collect::<Vec<_>>(), [one]);
}

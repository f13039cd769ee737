//! Names are minted once, found wherever they went, and never change (seed 003).

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::friendly;
use ropewalk_core::model::Provider;
use ropewalk_engine::names::NamesOfLine;
use ropewalk_engine::references::{Bounds, Injected};
use ropewalk_engine::view::{MessageView, Resolution, Target, View, uuid_text};
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::names::{NameChanges, NameRow, Names, NewName};
use ropewalk_store::store::{Half, Selection};
use ropewalk_store::{Micros, Sqlite, Store, sqlite};
use ropewalk_testkit::watched_store::Watched;
use serde_json::{Value, json};

use crate::said::{Said, answer, call, result, said, user};

fn store() -> Sqlite {
    Sqlite::in_memory(&sqlite::Options::default()).unwrap()
}

async fn record(store: &impl Store, owner: &str, said: &[Said]) {
    let raw: Vec<RawExchange> = said.iter().map(Said::raw).collect();
    let mut recorder = Recorder::new(store, owner, &BundledPrices).await.unwrap();
    recorder.record(&raw).await.unwrap();
    recorder.link().await.unwrap();
}

async fn view<'s, S: Store>(store: &'s S, owner: &str) -> View<'s, S> {
    let id = store.owner(owner).await.unwrap();
    View::new(store, id, owner)
}

/// Two owners, of whom one has something that the other must not find.
async fn ann_and_bob<S: Store>(store: &S) -> (View<'_, S>, View<'_, S>) {
    record(store, "ann", &react()).await;
    let hello = said("bob1", 0.0, &[user("Bob is here")]).answered(&answer("hello bob"));
    record(store, "bob", &[hello]).await;
    (view(store, "ann").await, view(store, "bob").await)
}

/// What `log --json` says of every conversation: friendly id and title, newest first.
async fn named(view: &View<'_, impl Store>) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for row in view.conversations_before(None, 100).await.unwrap() {
        let conversation = view.conversation(&row).await.unwrap();
        named.push((
            conversation.friendly_id.unwrap_or_default(),
            conversation.title.unwrap_or_default(),
        ));
    }
    named
}

async fn messages(view: &View<'_, impl Store>, reference: &str) -> Vec<MessageView> {
    match view.resolve(reference).await.unwrap() {
        Target::Conversation(row) => view.messages(row.root).await.unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn injected(view: &View<'_, impl Store>, reference: &str) -> Option<String> {
    match view.find_message(&reference.parse().unwrap(), reference).await.unwrap() {
        Resolution::Found(message) => Some(message.injected()),
        Resolution::Unknown => None,
        Resolution::Ambiguous(_) => panic!("{reference} is ambiguous"),
    }
}

/// Two turns about React, with a tool call between them.
fn react() -> Vec<Said> {
    let first = [user("React optimization please")];
    let tool = call("t1", "Bash", &json!({"command": "ls"}));
    let second = [first[0].clone(), tool, result("t1", "files")];
    let third = [second.to_vec(), vec![answer("Use memo."), user("And then?")]].concat();
    vec![
        said("r1", 0.0, &first).answered(&call("t1", "Bash", &json!({"command": "ls"}))),
        said("r2", 10.0, &second).answered(&answer("Use memo.")),
        said("r3", 20.0, &third).answered(&answer("Measure.")),
    ]
}

/// 1,800,000,000 seconds after 1970, as the seed writes a time.
const CREATED: &str = "2027-01-15 08:00:00";

#[tokio::test]
async fn the_first_turn_names_the_conversation_and_every_message() {
    let store = store();
    record(&store, "ann", &react()).await;
    let view = view(&store, "ann").await;
    let id = friendly::friendly_id("React optimization please", CREATED);
    assert!(id.starts_with("react_optimization_"), "{id}");
    assert_eq!(
        named(&view).await,
        [(id.clone(), "React optimization please".to_owned())]
    );
    let messages = messages(&view, &id).await;
    let shown: Vec<_> = messages
        .iter()
        .map(|message| {
            (
                message.kind,
                message.index,
                message.short_hash.clone(),
                message.friendly_id.clone(),
            )
        })
        .collect();
    let hash = |text: &str| Some(friendly::short_hash(&id, text));
    let fid = || Some(id.clone());
    let tool = messages[1].content.clone();
    assert_eq!(
        shown,
        [
            ("user", Some(1), hash("React optimization please"), fid()),
            ("assistant", Some(2), hash(&tool), fid()),
            ("tool_result", None, None, fid()),
            ("assistant", Some(3), hash("Use memo."), fid()),
            ("user", Some(4), hash("And then?"), fid()),
            ("assistant", Some(5), hash("Measure."), fid()),
        ]
    );
    let reference = messages[3].reference.clone().unwrap();
    assert_eq!(
        reference,
        format!("@conversation_{id}_message_{}", hash("Use memo.").unwrap())
    );
    let expected = format!(
        "<pkb_item source=\"referenced\" type=\"conversation_message\" ref=\"{reference}\">from {id} #3 (assistant):\n\
         Use memo.</pkb_item>"
    );
    assert_eq!(injected(&view, &reference).await.as_deref(), Some(&*expected));
    let by_index = format!("@conv_{id}_msg_3");
    let expected = expected.replace(&reference, &by_index);
    assert_eq!(injected(&view, &by_index).await.as_deref(), Some(&*expected));
}

#[tokio::test]
async fn equal_texts_have_different_hashes_that_stay_when_it_is_done_again() {
    let store = store();
    let mut history = vec![user("go")];
    let mut turns = Vec::new();
    for turn in 0..6 {
        turns.push(
            said(&format!("e{turn}"), f64::from(turn) * 10.0, &history).answered(&answer(&format!("step {turn}"))),
        );
        history.extend([answer(&format!("step {turn}")), user("continue")]);
    }
    record(&store, "ann", &turns).await;
    let view = view(&store, "ann").await;
    let id = named(&view).await[0].0.clone();
    let hashes = async || -> Vec<Option<String>> {
        let messages = messages(&view, &id).await;
        messages.into_iter().map(|message| message.short_hash).collect()
    };
    let before = hashes().await;
    let different: std::collections::HashSet<_> = before.iter().collect();
    assert_eq!((before.len(), different.len()), (12, 12));
    record(&store, "ann", &turns).await;
    let mut recorder = Recorder::new(&store, "ann", &BundledPrices).await.unwrap();
    recorder.rebuild().await.unwrap();
    assert_eq!(hashes().await, before);
    for message in messages(&view, &id).await {
        let found = injected(&view, message.reference.as_deref().unwrap()).await.unwrap();
        assert!(found.contains(&format!("#{} ", message.index.unwrap())), "{found}");
        assert!(
            found.ends_with(&format!(":\n{}</pkb_item>", message.content)),
            "{found}"
        );
    }
}

#[tokio::test]
async fn an_id_that_is_taken_gets_another_hash_and_the_same_words() {
    let store = store();
    let taken = friendly::friendly_id("React optimization please", CREATED);
    record(
        &store,
        "ann",
        &[said("other", -100.0, &[user("Something else entirely")]).answered(&answer("ok"))],
    )
    .await;
    let view = view(&store, "ann").await;
    let rows = view.conversations_before(None, 1).await.unwrap();
    let mine = NewName {
        name: NameRow {
            exchange: rows[0].root,
            friendly_id: taken.clone(),
            title: None,
        },
        conversation: rows[0].root,
    };
    let changes = NameChanges {
        names: vec![mine],
        ..NameChanges::default()
    };
    store.save_names(view.owner, changes).await.unwrap();
    record(&store, "ann", &react()).await;
    let minted = named(&view).await[0].0.clone();
    assert!(minted.starts_with("react_optimization_") && minted != taken, "{minted}");
    // Another owner's is no collision.
    record(&store, "bob", &react()).await;
    assert_eq!(named(&self::view(&store, "bob").await).await[0].0, taken);
}

#[tokio::test]
async fn the_clients_title_names_a_conversation_if_it_is_known_by_then() {
    let store = store();
    let title = said(
        "t0",
        -1.0,
        &[user("Generate a title for this conversation: please help")],
    )
    .kind("You write titles.", &[])
    .session("s")
    .answered(&answer(r#"{"title":"Faster list rendering"}"#));
    let turn = said("t1", 0.0, &[user("please help")])
        .session("s")
        .answered(&answer("Gladly."));
    record(&store, "ann", &[title, turn]).await;
    let view = view(&store, "ann").await;
    let all = named(&view).await;
    let (id, title) = &all[0];
    assert_eq!(title, "please help", "{all:?}");
    assert!(id.starts_with("faster_list_"), "{id}");
    // Another title changes the title only.
    assert_eq!(view.set_title(id, "Slower\nthan thought").await.unwrap(), *id);
    assert_eq!(named(&view).await, [(id.clone(), "Slower\nthan thought".to_owned())]);
}

#[tokio::test]
async fn a_merge_keeps_both_ids_and_all_references() {
    let store = store();
    let all = react();
    // The middle turn comes last: until then the third is a conversation of its own.
    record(&store, "ann", &[all[0].clone()]).await;
    record(&store, "ann", &[all[2].clone()]).await;
    let view = view(&store, "ann").await;
    let apart = named(&view).await;
    let references: Vec<String> = {
        let mut references = Vec::new();
        for (id, _) in &apart {
            let named = messages(&view, id).await;
            references.extend(named.into_iter().filter_map(|message| message.reference));
        }
        references
    };
    let mut texts = Vec::new();
    for reference in &references {
        let quoted = injected(&view, reference).await.unwrap();
        texts.push(quoted.split_once(":\n").unwrap().1.to_owned());
    }
    record(&store, "ann", &[all[1].clone()]).await;
    let mut recorder = Recorder::new(&store, "ann", &BundledPrices).await.unwrap();
    for is_rebuilt in [false, true] {
        if is_rebuilt {
            recorder.rebuild().await.unwrap();
        }
        let merged = named(&view).await;
        assert_eq!(merged.len(), 1, "{merged:?}");
        assert!(apart.contains(&merged[0]), "{apart:?} {merged:?}");
        for (id, _) in &apart {
            assert_eq!(
                messages(&view, id).await.len(),
                6,
                "an id that was given out finds its conversation"
            );
        }
        for (reference, text) in references.iter().zip(&texts) {
            let quoted = injected(&view, reference).await.unwrap();
            assert!(quoted.ends_with(text), "{reference}: {quoted}");
        }
    }
}

#[tokio::test]
async fn a_message_on_another_branch_is_still_found_by_its_hash() {
    let store = store();
    let first = said("b1", 0.0, &[user("one question here")]).answered(&answer("first answer"));
    let before = [user("one question here"), answer("first answer")];
    let left = said("b2", 10.0, &[before.to_vec(), vec![user("left")]].concat()).answered(&answer("on the left"));
    let right = said("b3", 20.0, &[before.to_vec(), vec![user("right")]].concat()).answered(&answer("on the right"));
    record(&store, "ann", &[first, left]).await;
    let view = view(&store, "ann").await;
    let id = named(&view).await[0].0.clone();
    let left_reference = messages(&view, &id).await[3].reference.clone().unwrap();
    record(&store, "ann", &[right]).await;
    let active: Vec<String> = messages(&view, &id)
        .await
        .into_iter()
        .map(|message| message.content)
        .collect();
    assert_eq!(active[2..], ["right", "on the right"]);
    let quoted = injected(&view, &left_reference).await.unwrap();
    assert!(
        quoted.ends_with(&format!("from {id} #4 (assistant):\non the left</pkb_item>")),
        "{quoted}"
    );
    let by_index = injected(&view, &format!("@conv_{id}_msg_4")).await.unwrap();
    assert!(
        by_index.ends_with(":\non the right</pkb_item>"),
        "an index follows the active path"
    );
}

#[tokio::test]
async fn names_go_with_their_exchanges_into_another_store() {
    let (from, to) = (store(), store());
    let mut history = vec![user("ok")];
    let mut turns = Vec::new();
    for turn in 0..4 {
        turns.push(said(&format!("x{turn}"), f64::from(turn) * 10.0, &history).answered(&answer("ok")));
        history.extend([answer("ok"), user("ok")]);
    }
    record(&from, "ann", &turns).await;
    let old = view(&from, "ann").await;
    let id = named(&old).await[0].0.clone();
    old.set_title(&id, "My own title").await.unwrap();
    let mut lines = Vec::new();
    let mut names = NamesOfLine::default();
    for row in old.rows_after(None, 100).await.unwrap() {
        lines.push(old.line(&row, &mut names).await.unwrap().write());
    }
    // In another order: what is recorded decides, not when.
    lines.reverse();
    let raw = lines.iter().map(|line| {
        let line = ropewalk_wire::exchange::ExchangeLine::parse(line.as_bytes()).unwrap();
        RawExchange::try_from(line).unwrap()
    });
    let mut recorder = Recorder::new(&to, "ann", &BundledPrices).await.unwrap();
    recorder.record(&raw.collect::<Vec<_>>()).await.unwrap();
    recorder.link().await.unwrap();
    let new = view(&to, "ann").await;
    assert_eq!(named(&new).await, [(id.clone(), "My own title".to_owned())]);
    let of = async |view: &View<'_, Sqlite>| -> Vec<_> {
        let messages = messages(view, &id).await;
        messages
            .into_iter()
            .map(|message| (message.node, message.reference))
            .collect()
    };
    assert_eq!(of(&new).await, of(&old).await);
}

#[tokio::test]
async fn what_was_recorded_before_there_were_names_gets_them() {
    let store = store();
    let owner = store.owner("ann").await.unwrap();
    // Linked by a program that knows no names.
    let raw: Vec<RawExchange> = react().iter().map(Said::raw).collect();
    let prepared = raw
        .iter()
        .map(|raw| ropewalk_engine::prepare(raw, None, &BundledPrices).exchange);
    store.record(owner, prepared.collect()).await.unwrap();
    let mut linker = ropewalk_engine::link::Linker::new(&store, owner, "ann", ropewalk_engine::Settings::default());
    linker.catch_up().await.unwrap();
    let view = view(&store, "ann").await;
    assert_eq!(named(&view).await[0].0, "", "none until it is minted");
    let mut recorder = Recorder::new(&store, "ann", &BundledPrices).await.unwrap();
    recorder.link().await.unwrap();
    let id = friendly::friendly_id("React optimization please", CREATED);
    assert_eq!(named(&view).await[0].0, id);
    let last = format!("@conversation_{id}_message_{}", friendly::short_hash(&id, "Measure."));
    assert!(
        injected(&view, &last)
            .await
            .unwrap()
            .contains("#5 (assistant):\nMeasure.")
    );
}

#[tokio::test]
async fn another_owners_reference_and_a_guessed_one_are_the_same_nothing() {
    let store = store();
    let (ann, bob) = ann_and_bob(&store).await;
    let id = named(&ann).await[0].0.clone();
    let real = messages(&ann, &id).await[0].reference.clone().unwrap();
    assert!(injected(&ann, &real).await.is_some());
    for foreign in [
        real.clone(),
        format!("@conv_{id}_msg_1"),
        "@conv_nobody_x_aaaa_msg_1".to_owned(),
    ] {
        assert_eq!(injected(&bob, &foreign).await, None, "{foreign}");
        let error = bob.resolve(&foreign).await.unwrap_err().to_string();
        assert_eq!(error, format!("nothing is named `{foreign}`"));
    }
    assert!(bob.references("react", None, 10).await.unwrap().is_empty());
    assert!(
        bob.store
            .names(bob.owner, Names::Ids(vec![id.clone()]))
            .await
            .unwrap()
            .is_empty()
    );
    // Guesses of every shape.
    for guess in 0..100_000_u32 {
        let hash = friendly::base36(guess.wrapping_mul(2_654_435_761), 6);
        let reference = match guess % 2 {
            0 => format!("@conversation_{id}_message_{hash}"),
            _ => format!("@conversation_react_optimization_{}_message_{hash}", &hash[..4]),
        };
        assert!(matches!(
            bob.find_message(&reference.parse().unwrap(), &reference).await.unwrap(),
            Resolution::Unknown
        ));
    }
}

/// What takes the same time has to do the same: no look-up is left out, added or skipped for what another has.
#[tokio::test]
async fn another_owners_name_is_looked_up_as_one_that_nobody_has() {
    let store = Watched::new(store());
    let (ann, bob) = ann_and_bob(&store).await;
    let id = named(&ann).await[0].0.clone();
    let of_message = messages(&ann, &id).await[0].reference.clone().unwrap();
    let row = ann.resolve_exchange("r1").await.unwrap();
    let conversation = ann.conversations_before(None, 1).await.unwrap().remove(0);
    let node = hex::encode(row.input_node.0);
    // Ann's names, each beside one of the same shape that nobody has.
    let pairs = [
        (id.clone(), "nobody_knows_aaaa".to_owned()),
        (of_message, "@conversation_nobody_knows_aaaa_message_bcdefg".to_owned()),
        (format!("@conv_{id}_msg_1"), "@conv_nobody_knows_aaaa_msg_1".to_owned()),
        (
            format!("@conv_{id}_msg_123456"),
            "@conv_nobody_knows_aaaa_msg_123456".to_owned(),
        ),
        ("r1".to_owned(), "n1".to_owned()),
        (
            uuid_text(&conversation.id),
            "00000000-0000-8000-8000-000000000000".to_owned(),
        ),
        (node[..8].to_owned(), "00000000".to_owned()),
        (node, "0".repeat(64)),
    ];
    for (anns, nobodys) in pairs {
        assert!(ann.resolve(&anns).await.is_ok() || anns.ends_with("123456"), "{anns}");
        let mut looked_up = Vec::new();
        for name in [&anns, &nobodys] {
            store.take_calls();
            assert!(bob.resolve(name).await.is_err(), "{name}");
            if let Ok(reference) = name.parse() {
                assert!(!bob.resolved(&reference, name).await.unwrap().resolved, "{name}");
                let asked = json!([user(&format!("see {name} there"))]);
                assert_eq!(inject(&bob, &asked).await.1.resolved, 0, "{name}");
            }
            // Of which kind each call is, and how many things it asks for; not for which name.
            let calls = store.take_calls();
            let shapes = calls.iter().map(|call| {
                let shape = call.split_once('[').map_or(&**call, |(call, _)| call);
                (shape.to_owned(), call.matches(',').count())
            });
            looked_up.push(shapes.collect::<Vec<_>>());
        }
        assert_eq!(looked_up[0], looked_up[1], "{anns} and {nobodys}");
        assert!(!looked_up[0].is_empty());
    }
}

#[tokio::test]
async fn what_is_half_typed_is_completed() {
    let store = store();
    record(&store, "ann", &react()).await;
    record(
        &store,
        "ann",
        &[said("z1", 50.0, &[user("Zebra stripes")]).answered(&answer("black and white"))],
    )
    .await;
    let view = view(&store, "ann").await;
    let all = view.references("", None, 10).await.unwrap();
    assert_eq!(
        all.iter().map(|one| one.kind).collect::<Vec<_>>(),
        ["conversation", "conversation"]
    );
    let one = view.references("@conversation_zeb", None, 10).await.unwrap();
    assert_eq!(one[0].text.as_deref(), Some("Zebra stripes"));
    let texts: Vec<_> = one[1..].iter().map(|one| (one.role, one.text.as_deref())).collect();
    assert_eq!(
        texts,
        [
            (Some("assistant"), Some("black and white")),
            (Some("user"), Some("Zebra stripes"))
        ]
    );
    let id = &one[0].friendly_id;
    let by_index = view.references(&format!("conv_{id}_msg_2"), None, 10).await.unwrap();
    assert!(by_index.iter().any(|one| one.index == Some(2)));
    let hash = one[1].short_hash.clone().unwrap();
    let typed = format!("@conversation_{id}_message_{}", &hash[..5]);
    let found = view.references(&typed, None, 10).await.unwrap();
    assert_eq!(
        found[0].reference.as_deref(),
        Some(&*format!("@conversation_{id}_message_{hash}"))
    );
    assert!(view.references("nothing_like", None, 10).await.unwrap().is_empty());
    assert!(view.references("@conv_nobody_msg_", None, 10).await.unwrap().is_empty());
}

async fn inject(view: &View<'_, impl Store>, messages: &Value) -> (Value, Injected) {
    inject_within(view, messages, Bounds::default()).await
}

async fn inject_within(view: &View<'_, impl Store>, messages: &Value, bounds: Bounds) -> (Value, Injected) {
    let body = Bytes::from(json!({"messages": messages}).to_string());
    let done = view.inject(Provider::Anthropic, &body, bounds).await.unwrap();
    let sent = done.body.clone().unwrap_or(body);
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    (sent["messages"].clone(), done)
}

#[tokio::test]
async fn the_same_text_gets_the_same_words_whatever_happens_meanwhile() {
    let store = store();
    record(&store, "ann", &react()).await;
    let view = view(&store, "ann").await;
    let id = named(&view).await[0].0.clone();
    let text = format!("Compare @conv_{id}_msg_5 with @conv_{id}_msg_6 and @conv_gone_x_aaaa_msg_1.");
    let (first, done) = inject(&view, &json!([{"role": "user", "content": text}])).await;
    assert_eq!(
        (done.resolved, done.unresolved),
        (
            1,
            vec![format!("@conv_{id}_msg_6"), "@conv_gone_x_aaaa_msg_1".to_owned()]
        )
    );
    let sent = first[0]["content"].as_str().unwrap().to_owned();
    let quoted = injected(&view, &format!("@conv_{id}_msg_5")).await.unwrap();
    assert_eq!(sent, format!("{text}\n\n{quoted}"));
    // The conversation goes on, so that both indices mean something else or something at all.
    let tool = call("t1", "Bash", &json!({"command": "ls"}));
    let history = [
        user("React optimization please"),
        tool,
        result("t1", "files"),
        answer("Use memo."),
        user("Another way"),
    ];
    record(
        &store,
        "ann",
        &[said("r9", 99.0, &history).answered(&answer("Other words."))],
    )
    .await;
    let block = json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    let decorated = format!("\n{text}\r\n<system-reminder>today is Monday</system-reminder>");
    let later = json!([
        {"role": "user", "content": block},
        {"role": "assistant", "content": "They differ."},
        {"role": "user", "content": decorated},
        {"role": "user", "content": "and now?"},
    ]);
    let (second, again) = inject(&view, &later).await;
    assert_eq!(second[0]["content"][0]["text"], json!(sent));
    assert_eq!(second[0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(second[2]["content"], json!(format!("{decorated}\n\n{quoted}")));
    assert_eq!((&second[1], &second[3]), (&later[1], &later[3]));
    assert_eq!(again.resolved, 2);
    // Another owner's pin is none of ours.
    record(
        &store,
        "bob",
        &[said("bob1", 0.0, &[user("Bob is here")]).answered(&answer("hello bob"))],
    )
    .await;
    let bob = self::view(&store, "bob").await;
    let (theirs, done) = inject(&bob, &json!([{"role": "user", "content": text}])).await;
    assert_eq!(
        (theirs[0]["content"].as_str(), done.unresolved.len()),
        (Some(&*text), 3)
    );
}

#[tokio::test]
async fn a_request_has_so_many_references_and_so_many_bytes_at_most() {
    let store = store();
    let long = "word ".repeat(1_500);
    record(
        &store,
        "ann",
        &[said("l1", 0.0, &[user("Long story")]).answered(&answer(&long))],
    )
    .await;
    let view = view(&store, "ann").await;
    let id = named(&view).await[0].0.clone();
    let texts: Vec<Value> = (0..12)
        .map(|turn| json!({"role": "user", "content": format!("{turn}: @conv_{id}_msg_2")}))
        .collect();
    let (sent, done) = inject(&view, &json!(texts)).await;
    assert_eq!(
        (done.resolved, done.unresolved.len()),
        (8, 4),
        "64 KB are eight of these"
    );
    assert!(done.body.unwrap().len() < (64 << 10) + 2_000);
    assert_eq!(sent[11], texts[11]);
    let bounds = Bounds {
        references: 3,
        bytes: 1 << 20,
    };
    let other: Vec<Value> = (0..5)
        .map(|turn| json!({"role": "user", "content": format!("other {turn}: @conv_{id}_msg_1 @conv_{id}_msg_1")}))
        .collect();
    let (_, done) = inject_within(&view, &json!(other), bounds).await;
    assert_eq!(
        (done.resolved, done.unresolved.len()),
        (3, 2),
        "a reference that is repeated counts once"
    );
    // What was pinned stays, whatever the bounds are now.
    let bounds = Bounds {
        references: 0,
        bytes: 0,
    };
    let (again, done) = inject_within(&view, &json!(texts), bounds).await;
    assert_eq!((again, done.resolved), (sent, 8));
}

#[tokio::test]
async fn a_referenced_texts_own_references_are_not_followed_and_fenced_ones_not_found() {
    let store = store();
    record(&store, "ann", &react()).await;
    let view = view(&store, "ann").await;
    let id = named(&view).await[0].0.clone();
    let inner = format!("see @conv_{id}_msg_1");
    record(
        &store,
        "ann",
        &[said("n1", 60.0, &[user(&inner)]).answered(&answer("seen"))],
    )
    .await;
    let outer = named(&view).await[0].0.clone();
    let text = format!("@conv_{outer}_msg_1\n```\n@conv_{id}_msg_2\n```");
    let (sent, done) = inject(&view, &json!([{"role": "user", "content": text}])).await;
    let expected = format!(
        "{text}\n\n<pkb_item source=\"referenced\" type=\"conversation_message\" ref=\"@conv_{outer}_msg_1\">from {outer} #1 \
         (user):\n{inner}</pkb_item>"
    );
    assert_eq!((sent[0]["content"].as_str(), done.resolved), (Some(&*expected), 1));
}

#[tokio::test]
async fn what_was_sent_is_recorded_beside_what_was_said_and_links_nothing() {
    let store = store();
    let mut raw: Vec<RawExchange> = react().iter().map(Said::raw).collect();
    raw[2].sent_body = Some(Bytes::from(
        r#"{"messages":[{"role":"user","content":"something longer"}]}"#,
    ));
    let mut recorder = Recorder::new(&store, "ann", &BundledPrices).await.unwrap();
    recorder.record(&raw).await.unwrap();
    recorder.link().await.unwrap();
    let view = view(&store, "ann").await;
    assert_eq!(named(&view).await.len(), 1);
    let rows = store
        .exchanges(view.owner, Selection::Ids(vec!["r3".to_owned()]), Micros::MAX)
        .await
        .unwrap();
    let sent = store.body(view.owner, rows[0].number, Half::Sent).await.unwrap();
    assert_eq!(sent.as_deref(), raw[2].sent_body.as_deref());
    let line = view.line(&rows[0], &mut NamesOfLine::default()).await.unwrap();
    assert_eq!(line.sent.as_deref(), raw[2].sent_body.as_deref());
}

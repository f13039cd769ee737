//! What is forgotten is gone, and nothing else.

use std::sync::Arc;

use ropewalk_store::derived::{BranchRow, ConversationRow, Conversations, LinkChanges, LinkKind, LinkRow, Links};
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind, Micros, OwnerId};
use ropewalk_store::forget::{Forgetting, Holed, HoledRequest, Tombstones};
use ropewalk_store::names::{MessageName, NameChanges, NameRow, Names, NewName, Pin};
use ropewalk_store::store::{Depth, ExchangeRow, Half, Outcome, Questions, Selection, Severity};
use ropewalk_store::{HashPrefix, Store};

use super::cases::{
    Case, after_turns, all_rows, assert_bytes, bytes_case, conversation, deepest, find, fresh_owner, index_all, query,
    record, record_one, request_bytes, turn,
};

const SECRET: &str = "the wreck lies four leagues north of Skerryvore, under the third buoy";
const SHARED: &str = "an opening that both of them begin with, word for word, and nothing else";

pub(super) fn forgetting(numbers: &[ExchangeNumber]) -> Forgetting {
    Forgetting {
        removed: numbers.to_vec(),
        tombstones: Some(Tombstones {
            at: after_turns(1_000),
            names: vec!["wreck_buoy_x1y2".to_owned()],
        }),
        ..Forgetting::default()
    }
}

async fn assert_sound(store: &impl Store, owner: OwnerId) {
    let findings = store.check(owner, Depth::Data).await.expect("a check is made");
    let errors: Vec<_> = findings
        .into_iter()
        .filter(|finding| finding.severity != Severity::Note)
        .collect();
    assert_eq!(errors, Vec::new());
}

/// Two conversations that begin alike, the first of which says something that the other does not.
fn two_alike() -> (Vec<Case>, Vec<Case>) {
    let told = [
        turn(
            "f1",
            after_turns(0),
            &[SHARED],
            Some("a first answer that only one has"),
        ),
        turn(
            "f2",
            after_turns(2),
            &[SHARED, "a first answer that only one has", SECRET],
            Some("that is a long way from here, and deep as well"),
        ),
    ];
    let other = [
        turn(
            "o1",
            after_turns(1),
            &[SHARED],
            Some("another answer to the very same words"),
        ),
        turn(
            "o2",
            after_turns(3),
            &[SHARED, "another answer to the very same words", "go on then, please do"],
            Some("so it goes on, as it was told to"),
        ),
    ];
    (told.into(), other.into())
}

pub async fn what_is_forgotten_is_gone_and_what_others_use_stays(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    let (told, other) = two_alike();
    let gone = record(&*store, owner, &told).await;
    let kept = record(&*store, owner, &other).await;
    index_all(&*store).await;
    let numbers: Vec<_> = gone.iter().map(|recorded| recorded.number).collect();
    let went = store
        .forget(owner, forgetting(&numbers))
        .await
        .expect("it is forgotten");
    assert_eq!(went.exchanges, 2);
    assert!(
        went.parts > 0 && went.nodes > 0 && went.part_bytes as usize >= SECRET.len(),
        "{went:?}"
    );

    let rows = all_rows(&*store, owner, Micros::MAX).await;
    let left: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(left, ["o1", "o2"]);
    for (recorded, case) in kept.iter().zip(&other) {
        assert_bytes(&*store, owner, recorded.number, &case.raw).await;
    }
    for (number, half) in numbers
        .iter()
        .flat_map(|number| [(number, Half::Request), (number, Half::Response)])
    {
        assert_eq!(
            store.body(owner, *number, half).await.expect("nothing is no error"),
            None
        );
    }
    let part = ropewalk_core::part::Part::text(SECRET.into()).hash;
    assert_eq!(store.part(owner, part).await.expect("nothing is no error"), None);
    assert_eq!(find(&*store, owner, query("Skerryvore")).await, Vec::new());
    assert_eq!(find(&*store, owner, query("very same words")).await.len(), 1);
    // The opening belongs to whoever said it first of those who are left.
    let shared = deepest(&*store, owner, told[1].request_nodes(), Micros::MAX)
        .await
        .expect("both began so");
    assert_eq!((shared.index, shared.first), (0, kept[0].number));
    assert_eq!(shared.as_input, [kept[0].number]);
    let before_it = deepest(&*store, owner, told[1].request_nodes(), after_turns(0)).await;
    assert_eq!(before_it, None, "nobody had said it then");
    let figures = store.stats(owner).await.expect("there are figures");
    assert_eq!(figures.exchanges, 2);
    assert_sound(&*store, owner).await;
}

pub async fn what_is_forgotten_does_not_come_back(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    let (told, other) = two_alike();
    let gone = record(&*store, owner, &told).await;
    let numbers: Vec<_> = gone.iter().map(|recorded| recorded.number).collect();
    store
        .forget(owner, forgetting(&numbers))
        .await
        .expect("it is forgotten");
    for again in record(&*store, owner, &told).await {
        assert_eq!(again.outcome, Outcome::Forgotten);
    }
    let names = ["f1", "wreck_buoy_x1y2", "o1", "f"].map(str::to_owned).to_vec();
    let asked = store.forgotten(owner, names.clone()).await.expect("it is known");
    assert_eq!(asked, [Some(after_turns(1_000)), Some(after_turns(1_000)), None, None]);
    // Another owner has forgotten nothing, and neither has this one of others.
    let stranger = fresh_owner(&*store).await;
    assert_eq!(store.forgotten(stranger, names).await.expect("it is known"), [None; 4]);
    assert_eq!(record_one(&*store, stranger, &told[0]).await.outcome, Outcome::New);
    for new in record(&*store, owner, &other).await {
        assert_eq!(new.outcome, Outcome::New);
    }
    // What is only removed may come back.
    let numbers = all_rows(&*store, owner, Micros::MAX)
        .await
        .iter()
        .map(|row| row.number)
        .collect();
    let removed = Forgetting {
        removed: numbers,
        ..Forgetting::default()
    };
    store.forget(owner, removed).await.expect("it is removed");
    for new in record(&*store, owner, &other).await {
        assert_eq!(new.outcome, Outcome::New);
    }
    assert_sound(&*store, owner).await;
}

pub async fn a_hole_keeps_its_row_and_the_decision_that_linked_it(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    let (told, _) = two_alike();
    let recorded = record(&*store, owner, &told).await;
    let [first, second] = [recorded[0].number, recorded[1].number];
    link_both(&*store, owner, [first, second]).await;
    index_all(&*store).await;
    let before = all_rows(&*store, owner, Micros::MAX).await;
    let left = request_bytes(&[SHARED, "a first answer that only one has", "[forgotten]"]);
    let body = bytes_case("left", after_turns(0), &left, None).new.request;
    let holes = Forgetting {
        holed: vec![
            Holed {
                exchange: first,
                request: HoledRequest::Dropped,
                drops_response: true,
                drops_hashes: true,
            },
            Holed {
                exchange: second,
                request: HoledRequest::Replaced {
                    body,
                    drops_texts: true,
                },
                drops_response: false,
                drops_hashes: false,
            },
        ],
        ..Forgetting::default()
    };
    let went = store.forget(owner, holes).await.expect("it is forgotten");
    assert_eq!((went.exchanges, went.holes), (0, 2));
    let rows = all_rows(&*store, owner, Micros::MAX).await;
    for (row, before) in rows.iter().zip(&before) {
        assert_eq!(
            (row.input_node, row.output_node, row.usage),
            (before.input_node, before.output_node, before.usage)
        );
        assert_eq!(
            (row.request_sha256, row.response_sha256),
            (before.request_sha256, before.response_sha256)
        );
        let kept = row
            .hole
            .as_ref()
            .and_then(|hole| hole.link.as_ref())
            .expect("it lost something");
        assert_eq!((kept.kind, &kept.decision[..]), (LinkKind::Turn, &b"why"[..]));
    }
    let left_of = |row: &ExchangeRow| {
        let hole = row.hole.as_ref();
        hole.map(|hole| (hole.has_request, hole.has_response))
    };
    assert_eq!(
        (left_of(&rows[0]), left_of(&rows[1])),
        (Some((false, false)), Some((true, true)))
    );
    let parent = |row: &ExchangeRow| row.hole.as_ref()?.link.as_ref()?.parent;
    assert_eq!((parent(&rows[0]), parent(&rows[1])), (None, Some(first)));
    assert!(
        rows[0].hashes.iter().all(|(kind, _)| kind.is_of_context()),
        "{:?}",
        rows[0].hashes
    );
    assert_eq!(rows[1].hashes, before[1].hashes);
    let body = async |number, half| store.body(owner, number, half).await.expect("a body can be read");
    assert_eq!(body(first, Half::Request).await, None);
    assert_eq!(body(first, Half::Response).await, None);
    assert_eq!(body(second, Half::Request).await, Some(left));
    assert_eq!(
        body(second, Half::Response).await.as_deref(),
        told[1].raw.response_body.as_deref()
    );
    assert_eq!(find(&*store, owner, query("Skerryvore")).await, Vec::new());
    assert_eq!(find(&*store, owner, query("deep")).await.len(), 1);
    // A hash that would confirm a guess is not found either.
    let of_context: Vec<_> = before[0]
        .hashes
        .iter()
        .filter(|(kind, _)| kind.is_of_context())
        .collect();
    for (_, hash) in before[0].hashes.iter().filter(|(kind, _)| !kind.is_of_context()) {
        // The first thing that was said is what the context is known by.
        if of_context.iter().any(|(_, known)| known[..8] == hash[..8]) {
            continue;
        }
        let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let prefix = digits.parse::<HashPrefix>().expect("digits are a beginning");
        let found = store.beginning_with(owner, prefix, 10).await.expect("it is answered");
        assert!(!found.exchanges.contains(&first));
    }
    assert_eq!(record_one(&*store, owner, &told[0]).await.outcome, Outcome::Known);
    assert_sound(&*store, owner).await;
}

/// One conversation of both.
async fn link_both(store: &impl Store, owner: OwnerId, [first, second]: [ExchangeNumber; 2]) {
    let state = store.link_state(owner).await.expect("there is a state");
    let link = |exchange, at, parent| LinkRow {
        exchange,
        at,
        kind: LinkKind::Turn,
        conversation: first,
        branch: first,
        agent: first,
        parent,
        decision: b"why".to_vec(),
    };
    let changes = LinkChanges {
        version: state.version,
        linked_to: state.newest,
        links: vec![
            link(first, after_turns(0), None),
            link(second, after_turns(2), Some(first)),
        ],
        branches: vec![BranchRow {
            first,
            conversation: first,
            shown: "main".to_owned(),
            record: Vec::new(),
        }],
        conversations: vec![ConversationRow {
            root: first,
            id: [7; 16],
            started_at: after_turns(0),
            last_at: after_turns(2),
            record: b"sums".to_vec(),
        }],
        wanted: vec![([5; 8], second)],
        ..LinkChanges::default()
    };
    assert!(store.save_links(owner, changes).await.expect("links are saved"));
}

pub async fn names_links_and_pins_go_with_their_exchanges(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    let (told, other) = two_alike();
    let recorded = record(&*store, owner, &told).await;
    let [first, second] = [recorded[0].number, recorded[1].number];
    link_both(&*store, owner, [first, second]).await;
    let names = NameChanges {
        names: vec![NewName {
            name: NameRow {
                exchange: first,
                friendly_id: "wreck_buoy_x1y2".to_owned(),
                title: Some("Where the wreck lies".to_owned()),
            },
            conversation: first,
        }],
        messages: vec![MessageName {
            name: first,
            short_hash: "abc123".to_owned(),
            exchange: second,
            node: [1; 8],
        }],
        ..NameChanges::default()
    };
    store.save_names(owner, names).await.expect("names are saved");
    let pin = |key: u8, outcome: &str| Pin {
        key: [key; 32],
        outcome: outcome.to_owned(),
    };
    let pins = vec![pin(1, "from wreck_buoy_x1y2 #1"), pin(2, "from other_name_aaaa #1")];
    store.pin(owner, pins).await.expect("it is pinned");
    let before = store.link_state(owner).await.expect("there is a state").version;
    let what = Forgetting {
        quoted: vec!["wreck_buoy_x1y2".to_owned()],
        ..forgetting(&[first, second])
    };
    let went = store.forget(owner, what).await.expect("it is forgotten");
    assert_eq!((went.names, went.pins), (2, 1));
    assert!(
        store.link_state(owner).await.expect("there is a state").version > before,
        "who links looks again"
    );
    let links = store
        .links(owner, Links::Of(vec![first, second]))
        .await
        .expect("links are read");
    assert_eq!(links, Vec::new());
    assert_eq!(
        store.branches(owner, first).await.expect("branches are read"),
        Vec::new()
    );
    for which in [Conversations::Of(vec![first]), Conversations::Ids(vec![[7; 16]])] {
        assert_eq!(
            store.conversations(owner, which).await.expect("they are read"),
            Vec::new()
        );
    }
    let named = Names::Ids(vec!["wreck_buoy_x1y2".to_owned()]);
    assert_eq!(store.names(owner, named).await.expect("names are read"), Vec::new());
    let pins = store.pins(owner, vec![[1; 32], [2; 32]]).await.expect("pins are read");
    assert_eq!(pins, [pin(2, "from other_name_aaaa #1")]);
    let questions = Questions {
        wanting: vec![[5; 8]],
        limit: 10,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, Micros::MAX)
        .await
        .expect("it is answered");
    assert_eq!(answers.wanting, [Vec::new()]);
    record(&*store, owner, &other).await;
    assert_sound(&*store, owner).await;
}

pub async fn recording_goes_on_while_conversations_are_forgotten(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    // Both say the same all the time: what is removed is what is being recorded.
    let (one, two) = (conversation(41, 12), conversation(41, 12));
    let renamed = |case: &Case, at: usize| {
        let mut raw = case.raw.clone();
        raw.id = format!("again-{at}");
        raw.at = Micros(raw.at.0 + 1);
        Case::of(raw)
    };
    let two: Vec<Case> = two.iter().enumerate().map(|(at, case)| renamed(case, at)).collect();
    for (one, two) in one.iter().zip(&two) {
        let gone = record_one(&*store, owner, one).await.number;
        let (went, kept) = tokio::join!(
            store.forget(owner, forgetting(&[gone])),
            store.record(owner, vec![two.new.clone()])
        );
        went.expect("it is forgotten");
        let kept = kept.expect("it is recorded")[0];
        assert_eq!(kept.outcome, Outcome::New);
        assert_bytes(&*store, owner, kept.number, &two.raw).await;
    }
    index_all(&*store).await;
    assert_eq!(all_rows(&*store, owner, Micros::MAX).await.len(), two.len());
    assert_sound(&*store, owner).await;
}

pub async fn a_sweep_of_a_store_without_waste_finds_nothing(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    let cases = conversation(42, 20);
    let recorded = record(&*store, owner, &cases).await;
    index_all(&*store).await;
    let before = store.stats(owner).await.expect("there are figures");
    for is_dry in [true, false, true] {
        let went = store.sweep(owner, is_dry).await.expect("it is swept");
        assert_eq!(
            (went.parts, went.chunks, went.nodes, went.contexts, went.texts),
            (0, 0, 0, 0, 0)
        );
    }
    let after = store.stats(owner).await.expect("there are figures");
    assert_eq!(
        (
            after.exchanges,
            after.parts,
            after.nodes,
            after.part_bytes,
            after.bytes_in
        ),
        (
            before.exchanges,
            before.parts,
            before.nodes,
            before.part_bytes,
            before.bytes_in
        )
    );
    store.compact().await.expect("it is compacted");
    for (recorded, case) in recorded.iter().zip(&cases) {
        assert_bytes(&*store, owner, recorded.number, &case.raw).await;
    }
    let more = record(&*store, owner, &conversation(43, 3)).await;
    assert!(more.iter().all(|recorded| recorded.outcome == Outcome::New));
    assert_sound(&*store, owner).await;
}

pub async fn keys_and_ids_of_the_forgotten_find_nothing(store: Arc<impl Store + 'static>) {
    let owner = fresh_owner(&*store).await;
    let (told, other) = two_alike();
    let gone = record(&*store, owner, &told).await;
    record(&*store, owner, &other).await;
    let keys: Vec<Key> = told.iter().flat_map(|case| case.new.keys.iter().copied()).collect();
    let hashes = told.iter().flat_map(|case| case.new.hashes.iter());
    let keys: Vec<Key> = keys
        .into_iter()
        .chain(hashes.map(|(_, hash)| Key::of_hash(hash)))
        .collect();
    assert!(keys.iter().any(|key| key.kind == KeyKind::Item), "an answer has an id");
    let numbers: Vec<_> = gone.iter().map(|recorded| recorded.number).collect();
    store
        .forget(owner, forgetting(&numbers))
        .await
        .expect("it is forgotten");
    let questions = Questions {
        keys: keys.into_iter().map(ropewalk_store::store::Asked::of).collect(),
        limit: 100,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, Micros::MAX)
        .await
        .expect("it is answered");
    assert!(
        answers
            .exchanges
            .iter()
            .flatten()
            .all(|number| !numbers.contains(number))
    );
    let by_id = Selection::Ids(vec!["f1".to_owned(), "f2".to_owned()]);
    assert_eq!(
        store.exchanges(owner, by_id, Micros::MAX).await.expect("rows are read"),
        Vec::new()
    );
}

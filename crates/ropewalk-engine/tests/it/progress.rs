//! What linking reports: what was created, moved, matched and given up.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::link::Progress;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Store as _;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::Selection;

use crate::said::{Said, answer, result, said, second, spawn, user};

async fn recorded(recorder: &mut Recorder<'_, Sqlite>, exchanges: &[Said]) -> Progress {
    let raw: Vec<RawExchange> = exchanges.iter().map(Said::raw).collect();
    recorder.record(&raw).await.unwrap();
    recorder.link().await.unwrap()
}

async fn number(store: &Sqlite, recorder: &Recorder<'_, Sqlite>, id: &str) -> ExchangeNumber {
    let ids = Selection::Ids(vec![id.to_owned()]);
    let rows = store
        .exchanges(recorder.owner(), ids, ropewalk_store::Micros::MAX)
        .await;
    rows.unwrap()[0].number
}

#[tokio::test]
async fn what_a_late_exchange_moves_is_said_with_from_and_to() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    let history = [user("hi"), answer("Hello"), user("go on")];
    let second = recorded(&mut recorder, &[said("b", 5.0, &history).answered(&answer("yes"))]).await;
    let (b, first) = (number(&store, &recorder, "b").await, said("a", 0.0, &history[..1]));
    assert_eq!(
        (second.linked, &*second.created, &*second.moved),
        (1, &[b][..], &[][..])
    );
    assert_eq!(second.methods.get("new"), Some(&1));
    assert_eq!(second.agents.len(), 1);

    let late = recorded(&mut recorder, &[first.answered(&answer("Hello"))]).await;
    let a = number(&store, &recorder, "a").await;
    assert_eq!(late.created, [a]);
    let [moved] = &late.moved[..] else { panic!("{late:?}") };
    assert_eq!(
        (moved.exchange, moved.from.conversation, moved.to.conversation),
        (b, b, a)
    );
    assert_eq!((moved.from.branch, moved.to.branch, moved.to.parent), (b, a, Some(a)));
    let agents: Vec<_> = late
        .agents
        .iter()
        .map(|change| (change.agent, change.record.is_some()))
        .collect();
    assert_eq!(agents, [(b, false), (a, true)]);
    assert_eq!(recorder.link().await.unwrap(), Progress::default());
}

#[tokio::test]
async fn claims_are_counted_when_made_matched_and_given_up() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    let made = recorded(
        &mut recorder,
        &[
            said("a", 0.0, &[user("one")]).answered(&spawn("ta", "scout", "look left")),
            said("b", 1.0, &[user("two")]).answered(&spawn("tb", "scout", "look right")),
            said("c", 2.0, &[user("three")]).answered(&spawn("tc", "clerk", "write")),
        ],
    )
    .await;
    assert_eq!(
        (made.claims.created, made.claims.matched, made.claims.expired.len()),
        (3, 0, 0)
    );

    let child = said("child", 4.0, &[user("look left")]).kind("You look.", &["Read"]);
    let closing = [
        user("two"),
        spawn("tb", "scout", "look right"),
        result("tb", "nothing there"),
    ];
    let matched = recorded(
        &mut recorder,
        &[
            child.answered(&answer("found")),
            said("b2", 6.0, &closing).answered(&answer("ok")),
        ],
    )
    .await;
    assert_eq!((matched.claims.created, matched.claims.matched), (0, 1));
    assert_eq!(matched.methods.get("spawn_prompt"), Some(&1));

    let later = recorded(
        &mut recorder,
        &[said("d", 90.0, &[user("four")]).answered(&answer("yes"))],
    )
    .await;
    let [expired] = &later.claims.expired[..] else {
        panic!("{later:?}")
    };
    let c = number(&store, &recorder, "c").await;
    assert_eq!((expired.parent, expired.name.as_deref()), (c, Some("clerk")));
    assert_eq!(expired.at, second(2.5));
}

#[tokio::test]
async fn a_claim_expires_by_the_clock_where_nothing_else_is_recorded() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    let asks = said("a", 0.0, &[user("one")]).answered(&spawn("ta", "scout", "look left"));
    recorded(&mut recorder, &[asks]).await;
    // Made at 0.5 and open for 30 seconds.
    assert_eq!(recorder.expire_claims(second(30.4)).await.unwrap(), []);
    assert_eq!(recorder.expire_claims(second(30.5)).await.unwrap().len(), 1);
    assert_eq!(recorder.expire_claims(second(99.0)).await.unwrap(), []);
}

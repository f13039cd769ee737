//! A page of a long conversation is what reading all of it gives, and costs a page.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::view::session::Amount;
use ropewalk_engine::view::{Course, Thread, View};
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::forget::Forgetting;
use ropewalk_store::{Micros, Sqlite, Store, sqlite};
use ropewalk_testkit::conversation::Conversation;
use ropewalk_testkit::watched_store::Watched;
use serde_json::{Value, to_value};

use crate::prepare::raw;
use crate::said::{Said, answer, call, result, said, second, spawn, user};

fn store() -> Sqlite {
    Sqlite::in_memory(&sqlite::Options::default()).unwrap()
}

/// Turns as Claude Code sends them, with context that comes and goes.
fn generated(conversation: &mut Conversation, first: usize, count: usize) -> Vec<RawExchange> {
    let turns = (first..first + count).map(|number| {
        let turn = conversation.next_turn();
        let [request, response] = [turn.request, turn.response].map(|bytes| String::from_utf8(bytes).unwrap());
        let mut raw = raw("/v1/messages", &request, Some((200, &response)));
        raw.id = format!("turn-{number}");
        raw.at = second(number as f64 * 10.0);
        raw.ended_at = Some(Micros(raw.at.0 + 1_000_000));
        let kind = if response.starts_with('{') {
            "application/json"
        } else {
            "text/event-stream"
        };
        raw.response_headers = vec![("content-type".to_owned(), kind.to_owned())];
        raw
    });
    turns.collect()
}

async fn record(store: &impl Store, raw: &[RawExchange]) {
    let mut recorder = Recorder::new(store, "o", &BundledPrices).await.unwrap();
    recorder.record(raw).await.unwrap();
    recorder.link().await.unwrap();
}

async fn view<S: Store>(store: &S) -> View<'_, S> {
    View::new(store, store.owner("o").await.unwrap(), "o")
}

/// The thread of the only conversation, from what was known of it; it is one.
async fn thread(view: &View<'_, impl Store>, known: Option<&Thread>) -> Thread {
    match view.course(root(view).await, known, 1).await.unwrap() {
        Course::Straight(thread) => thread,
        other => panic!("{other:?}"),
    }
}

async fn root(view: &View<'_, impl Store>) -> ExchangeNumber {
    let [only] = &view.conversations_before(None, 2).await.unwrap()[..] else {
        panic!("there is more than one conversation");
    };
    only.root
}

/// Pages of a thread, of both kinds and of several sizes, beside what reading everything gives.
async fn is_the_whole(view: &View<'_, impl Store>, thread: &Thread) {
    are_of_the_whole(view, thread, &[1, 90, 100_000]).await;
}

async fn are_of_the_whole(view: &View<'_, impl Store>, thread: &Thread, sizes: &[usize]) {
    let root = root(view).await;
    let path: Vec<Value> = view
        .messages(root)
        .await
        .unwrap()
        .iter()
        .map(|m| to_value(m).unwrap())
        .collect();
    let id = view.find_conversation(root).await.unwrap().unwrap().conversation_id;
    let tree = view.session(&id).await.unwrap();
    let all = view
        .session_messages(&tree, None, usize::MAX, Amount::Everything)
        .await
        .unwrap();
    let all: Vec<Value> = all.messages.iter().map(|m| to_value(m).unwrap()).collect();
    for size in sizes.iter().copied() {
        let step = size.max(path.len() / 5);
        for first in (0..path.len()).step_by(step) {
            let slice = view.slice(thread, first, size).await.unwrap().expect("it is a thread");
            assert_eq!(slice.total, path.len());
            let found: Vec<Value> = slice.messages.iter().map(|m| to_value(m).unwrap()).collect();
            assert_eq!(found, path[first..path.len().min(first.saturating_add(size))]);
        }
        for first in (0..all.len()).step_by(step) {
            let page = view
                .thread_messages(thread, first, size)
                .await
                .unwrap()
                .expect("it is a thread");
            assert_eq!(page.total, all.len());
            let found: Vec<Value> = page.messages.iter().map(|m| to_value(m).unwrap()).collect();
            assert_eq!(found, all[first..all.len().min(first.saturating_add(size))]);
            let has_more = first + found.len() < all.len();
            assert_eq!(page.next.is_some(), has_more);
        }
    }
}

#[tokio::test]
async fn pages_of_a_thread_are_those_of_the_whole_while_it_grows() {
    let store = store();
    let mut conversation = Conversation::new(3, 900).plain_every(5);
    let (mut known, mut recorded) = (None, 0);
    // A context message stands at the beginning of every third request; these end with others once there are windows.
    for count in [1, 62, 1, 1, 70, 2] {
        record(&store, &generated(&mut conversation, recorded, count)).await;
        recorded += count;
        let view = view(&store).await;
        let grown = thread(&view, known.as_ref()).await;
        is_the_whole(&view, &grown).await;
        known = Some(grown);
    }
    let view = view(&store).await;
    is_the_whole(&view, &thread(&view, None).await).await;
    let short = view.course(root(&view).await, None, recorded as u64 + 1).await.unwrap();
    assert!(matches!(short, Course::Short), "{short:?}");
}

#[tokio::test]
async fn an_answer_that_comes_later_is_on_the_last_page() {
    let store = store();
    let first = [user("What is this?")];
    let second = [first[0].clone(), answer("A test."), user("And then?")];
    record(
        &store,
        &[
            said("a", 0.0, &first).answered(&answer("A test.")).raw(),
            said("b", 10.0, &second).raw(),
        ],
    )
    .await;
    let view = view(&store).await;
    let pending = thread(&view, None).await;
    is_the_whole(&view, &pending).await;
    record(&store, &[said("b", 10.0, &second).answered(&answer("The end.")).raw()]).await;
    let answered = thread(&view, Some(&pending)).await;
    is_the_whole(&view, &answered).await;
    assert_eq!(view.slice(&answered, 0, 9).await.unwrap().unwrap().total, 4);
}

/// Whoever looks at the newest page of a long conversation after another turn.
#[tokio::test]
async fn what_a_page_costs_does_not_grow_with_the_conversation() {
    let store = Watched::new(store());
    let mut conversation = Conversation::new(4, 600);
    let mut costs = Vec::new();
    let mut recorded = 0;
    for count in [140, 140] {
        record(&store, &generated(&mut conversation, recorded, count)).await;
        recorded += count;
        let view = view(&store).await;
        let known = thread(&view, None).await;
        record(&store, &generated(&mut conversation, recorded, 1)).await;
        recorded += 1;
        store.take_calls();
        store.take_rows();
        let thread = thread(&view, Some(&known)).await;
        let total = view.slice(&thread, 0, 100).await.unwrap().unwrap().total;
        view.slice(&thread, total - 100, 100).await.unwrap().unwrap();
        view.thread_messages(&thread, total / 2, 100).await.unwrap().unwrap();
        let calls = store.take_calls();
        let is_request = |call: &&String| call.starts_with("body[") && call.contains("Request");
        assert!(
            calls.iter().filter(is_request).count() <= 2,
            "only the first requests are read whole"
        );
        costs.push((calls.len(), store.take_rows()));
    }
    let [(calls, rows), (calls_of_more, rows_of_more)] = costs[..] else {
        panic!()
    };
    // A window more or less, as the page falls.
    assert!(calls_of_more <= calls + 150, "{calls} calls, then {calls_of_more}");
    assert!(rows_of_more <= rows + 150, "{rows} rows, then {rows_of_more}");
}

async fn has_thread(exchanges: &[Said]) -> bool {
    let store = store();
    let raw: Vec<RawExchange> = exchanges.iter().map(Said::raw).collect();
    record(&store, &raw).await;
    let view = view(&store).await;
    match view.course(root(&view).await, None, 1).await.unwrap() {
        Course::Straight(thread) => {
            is_the_whole(&view, &thread).await;
            true
        }
        Course::Tangled => false,
        Course::Short => panic!("there are enough"),
    }
}

#[tokio::test]
async fn what_does_not_simply_go_on_has_no_thread() {
    let first = vec![user("Look at all of the files, please, and say what is in them.")];
    let turn = |id: &str, at: f64, messages: &[Value]| said(id, at, messages);
    let begun = turn("a", 0.0, &first).answered(&call("t1", "Read", &Value::Null));
    let next = [
        first.clone(),
        vec![call("t1", "Read", &Value::Null), result("t1", "much")],
    ]
    .concat();
    let went_on = turn("b", 10.0, &next).answered(&answer("That is what is in them."));
    assert!(has_thread(&[begun.clone(), went_on.clone()]).await);
    // A question that was asked in another way.
    let edited = turn("c", 20.0, &[next[..2].to_vec(), vec![result("t1", "nothing")]].concat());
    assert!(
        !has_thread(&[
            begun.clone(),
            went_on.clone(),
            edited.answered(&answer("Nothing at all."))
        ])
        .await
    );
    // An agent.
    let spawning = turn("d", 0.0, &first).answered(&spawn("t2", "general", "count them"));
    let child = turn("e", 5.0, &[user("count them")]).answered(&answer("Seven."));
    assert!(!has_thread(&[spawning, child]).await);
    // An attempt that failed.
    let failed = turn("f", 30.0, &next).failed(529);
    let again = turn("g", 31.0, &next).answered(&answer("That is what is in them."));
    assert!(!has_thread(&[begun, failed, again]).await);
}

/// So many turns that its course is kept, and some more.
const LONG: usize = 650;

/// Turns of a line each.
fn long() -> Vec<RawExchange> {
    let mut messages = Vec::new();
    let turns = (0..LONG).map(|number| {
        messages.push(user(&format!("What is said in turn {number}?")));
        let answered = answer(&format!("This is said in turn {number}."));
        let turn = said(&format!("turn-{number}"), number as f64 * 10.0, &messages).answered(&answered);
        messages.push(answered);
        turn.raw()
    });
    turns.collect()
}

/// As traffic comes: linked every few turns.
async fn record_slowly(store: &impl Store, raw: &[RawExchange]) {
    let mut recorder = Recorder::new(store, "o", &BundledPrices).await.unwrap();
    for batch in raw.chunks(50) {
        recorder.record(batch).await.unwrap();
        recorder.link().await.unwrap();
    }
}

async fn is_kept(view: &View<'_, impl Store>) -> bool {
    let kept = view.store.find_course(view.owner, root(view).await).await.unwrap();
    kept.is_some_and(|packed| !packed.is_empty())
}

#[tokio::test]
async fn the_first_reader_of_a_very_long_conversation_counts_only_what_came_since_it_was_kept() {
    let store = Watched::new(store());
    let turns = long();
    record_slowly(&store, &turns).await;
    let view = view(&store).await;
    store.take_calls();
    store.take_rows();
    let found = thread(&view, None).await;
    let bodies = store
        .take_calls()
        .iter()
        .filter(|call| call.starts_with("body"))
        .count();
    assert!(bodies <= 8, "{bodies} bodies for four windows at most");
    assert!(store.take_rows() < LONG / 4, "rows of the last turns");
    are_of_the_whole(&view, &found, &[90]).await;
    // Again the same as the one that is counted from the beginning.
    store.forget(view.owner, Forgetting::default()).await.unwrap();
    assert!(!is_kept(&view).await);
    are_of_the_whole(&view, &thread(&view, None).await, &[90]).await;
    assert!(store.take_rows() > LONG, "all of it was read");
}

#[tokio::test]
async fn what_is_kept_of_a_course_goes_with_what_it_was_read_from() {
    let store = store();
    let mut turns = long();
    let late = turns.remove(300);
    let last = turns.pop().unwrap();
    record_slowly(&store, &turns).await;
    let view = view(&store).await;
    let begun = RawExchange {
        ended_at: None,
        status: None,
        response_headers: Vec::new(),
        response_body: None,
        ..last.clone()
    };
    record(&store, &[begun]).await;
    record(&store, &[last]).await;
    assert!(is_kept(&view).await, "a turn that ends stands where it stood");
    are_of_the_whole(&view, &thread(&view, None).await, &[90]).await;
    record(&store, &[late]).await;
    assert!(!is_kept(&view).await, "the turn behind it has another parent now");
    are_of_the_whole(&view, &thread(&view, None).await, &[90]).await;
    Recorder::new(&store, "o", &BundledPrices)
        .await
        .unwrap()
        .rebuild()
        .await
        .unwrap();
    assert!(is_kept(&view).await, "whoever links everything again counts it again");
    are_of_the_whole(&view, &thread(&view, None).await, &[90]).await;
    // A branch leaves it in the middle.
    let mut edited = long().swap_remove(200);
    edited.id = "edited".to_owned();
    edited.at = second(LONG as f64 * 10.0);
    let body = String::from_utf8(edited.request_body.to_vec()).unwrap();
    edited.request_body = body.replace("What is said in turn 200?", "What is not?").into();
    record(&store, &[edited]).await;
    let course = view.course(root(&view).await, None, 1).await.unwrap();
    assert!(matches!(course, Course::Tangled), "{course:?}");
}

//! Calls that several tell of, and what logs add beside exchanges.

use std::sync::Arc;

use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind, Provenance};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordKind, RecordRow, Records};
use ropewalk_store::store::{Asked, Depth, Outcome, Questions, Selection, Severity};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, after_turns, assert_bytes, find, fresh_owner, index_all, query, record_one, row_of, turn};

const CALL: [u8; 32] = [42; 32];

/// A telling of one call. A log's has the time at which its file was begun.
fn telling(id: &str, said: &str, log_begun: Option<i64>, session: &str) -> Case {
    let mut case = turn(
        id,
        after_turns(0),
        &["what was asked, in words that make a part"],
        Some(said),
    );
    case.new.keys.retain(|key| key.kind != KeyKind::Call);
    case.new.keys.push(Key {
        kind: KeyKind::Call,
        hash: CALL,
    });
    case.new.session = Some(session.to_owned());
    case.new.provenance = Some(Provenance {
        file: format!("{session}.jsonl"),
        line: 1,
        uuid: log_begun.map(|_| id.to_owned()),
        aliases: Vec::new(),
        log_begun: log_begun.map(Micros),
    });
    case
}

async fn found_by_call<S: Store>(store: &S, owner: OwnerId) -> Vec<ExchangeNumber> {
    let what = Key {
        kind: KeyKind::Call,
        hash: CALL,
    };
    let questions = Questions {
        keys: vec![Asked::of(what)],
        limit: 10,
        ..Questions::default()
    };
    let answers = store.look_up(owner, questions, Micros::MAX).await.expect("an answer");
    answers.exchanges.into_iter().next().unwrap_or_default()
}

pub async fn whoever_passed_a_call_on_outranks_a_log_in_any_order<S: Store + 'static>(store: Arc<S>) {
    let passed = telling("passed", "what was answered on the wire", None, "s");
    let log = telling("log", "what was answered, as logged", Some(5), "s");
    let later = telling("copy", "what was answered, as logged", Some(9), "t");
    let orders: [[&Case; 3]; 4] = [
        [&passed, &log, &later],
        [&log, &later, &passed],
        [&later, &passed, &log],
        [&later, &log, &passed],
    ];
    for order in orders {
        let owner = fresh_owner(&*store).await;
        let mut numbers = Vec::new();
        for case in order {
            numbers.push(record_one(&*store, owner, case).await.number);
        }
        assert!(numbers.iter().all(|number| *number == numbers[0]), "one exchange");
        let row = row_of(&*store, owner, numbers[0]).await;
        assert_eq!(
            (&*row.id, row.provenance.as_ref()),
            ("passed", passed.new.provenance.as_ref())
        );
        assert_bytes(&*store, owner, numbers[0], &passed.raw).await;
        assert_eq!(found_by_call(&*store, owner).await, [numbers[0]]);
        let stats = store.stats(owner).await.expect("figures");
        assert_eq!((stats.exchanges, stats.conflicts), (1, 0));
        assert_eq!(stats.bytes_in, row.request_length + row.response_length.unwrap_or(0));
        let gone = store
            .exchanges(owner, Selection::Ids(vec!["log".to_owned()]), Micros::MAX)
            .await;
        assert_eq!(gone.expect("rows"), []);
    }
}

pub async fn of_two_logs_the_fuller_then_the_older_one_stays<S: Store + 'static>(store: Arc<S>) {
    let mut fuller = telling("log", "what was answered, all of it", Some(9), "copy");
    fuller.new.ended_at = Some(after_turns(1));
    let older = telling("log", "what was answered", Some(5), "first");
    let younger = telling("log", "what was answered", Some(9), "second");
    for (cases, stays) in [
        ([&older, &younger], "first"),
        ([&younger, &older], "first"),
        ([&fuller, &older], "copy"),
        ([&older, &fuller], "copy"),
    ] {
        let owner = fresh_owner(&*store).await;
        let first = record_one(&*store, owner, cases[0]).await;
        let second = record_one(&*store, owner, cases[1]).await;
        assert_eq!(first.number, second.number);
        let row = row_of(&*store, owner, first.number).await;
        assert_eq!(row.session.as_deref(), Some(stays));
        let again = record_one(&*store, owner, cases[0]).await;
        assert_eq!(again.outcome, Outcome::Known);
    }
}

pub async fn a_call_that_is_told_anew_comes_again_in_the_log_and_is_found_as_it_is_now<S: Store + 'static>(
    store: Arc<S>,
) {
    let owner = fresh_owner(&*store).await;
    let log = record_one(&*store, owner, &telling("log", "a hawser, as logged", Some(5), "s")).await;
    index_all(&*store).await;
    let before = row_of(&*store, owner, log.number).await.position;
    let passed = record_one(&*store, owner, &telling("passed", "a hawser, as it passed", None, "s")).await;
    assert_eq!((passed.number, passed.outcome), (log.number, Outcome::Replaced));
    let after = Selection::Log {
        after: before,
        limit: 10,
    };
    let rows = store.exchanges(owner, after, Micros::MAX).await.expect("rows");
    assert_eq!(rows.iter().map(|row| &*row.id).collect::<Vec<_>>(), ["passed"]);
    index_all(&*store).await;
    let hits = find(&*store, owner, query("hawser")).await;
    assert_eq!(hits.iter().map(|hit| hit.exchange).collect::<Vec<_>>(), [log.number]);
    assert_eq!(find(&*store, owner, query("logged")).await, []);
    let findings = store.check(owner, Depth::Data).await.expect("a check");
    // What only the older telling had is left over, which is no damage.
    let damage: Vec<_> = findings
        .iter()
        .filter(|finding| finding.severity != Severity::Note)
        .collect();
    assert!(damage.is_empty(), "{damage:?}");
}

pub async fn two_who_passed_a_call_on_saw_two<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let first = record_one(&*store, owner, &telling("one", "an answer", None, "s")).await;
    let second = record_one(&*store, owner, &telling("two", "an answer", None, "s")).await;
    assert_ne!(first.number, second.number);
    let log = record_one(&*store, owner, &telling("log", "an answer", Some(5), "s")).await;
    assert_eq!(log.outcome, Outcome::Known);
}

pub async fn racing_tellers_of_a_call_make_one_exchange<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases = [
        telling("passed", "what was answered on the wire", None, "s"),
        telling("log", "what was answered", Some(5), "s"),
        telling("log", "what was answered", Some(9), "t"),
    ];
    let mut tellers = Vec::new();
    for case in cases {
        let store = Arc::clone(&store);
        tellers.push(tokio::spawn(
            async move { record_one(&*store, owner, &case).await.number },
        ));
    }
    let mut numbers = Vec::new();
    for teller in tellers {
        numbers.push(teller.await.expect("a teller"));
    }
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
    assert_eq!(row_of(&*store, owner, numbers[0]).await.id, "passed");
}

fn record(session: &str, uuid: &str, line: u64) -> RecordRow {
    RecordRow {
        session: session.to_owned(),
        uuid: uuid.to_owned(),
        parent: Some("above\0below".to_owned()),
        kind: RecordKind::ToolUse,
        is_sidechain: true,
        at: Some(after_turns(1)),
        agent: None,
        message: Some("msg".to_owned()),
        node: None,
        tool_use: Some("toolu".to_owned()),
        stands_for: None,
        text: Some("é".to_owned()),
        file: "f".to_owned(),
        line,
    }
}

pub async fn records_come_back_page_by_page_and_are_replaced_by_session<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let save = async |records: Vec<RecordRow>, replaced: Vec<String>| {
        let changes = LogChanges {
            replaced,
            records,
            ..LogChanges::default()
        };
        store.save_log(owner, changes).await.expect("saved");
    };
    let of_session = async |owner: OwnerId, session: &str, after: Option<&str>, limit: usize| {
        let which = Records::OfSession {
            session: session.to_owned(),
            after: after.map(str::to_owned),
            limit,
        };
        store.records(owner, which).await.expect("records")
    };
    let all = [record("s", "B", 1), record("s", "a", 2), record("t", "B", 3)];
    save(all.to_vec(), Vec::new()).await;
    assert_eq!(of_session(owner, "s", None, 10).await, all[..2]);
    assert_eq!(of_session(owner, "s", Some("B"), 10).await, all[1..2]);
    assert_eq!(of_session(owner, "s", None, 1).await, all[..1]);
    assert_eq!(of_session(other, "s", None, 10).await, []);
    let which = Records::All {
        after: Some(("s".to_owned(), "B".to_owned())),
        limit: 10,
    };
    assert_eq!(store.records(owner, which).await.expect("records"), all[1..]);
    // Of two of one name the smaller one stays, whichever comes first.
    save(vec![record("s", "B", 9), record("s", "a", 1)], Vec::new()).await;
    assert_eq!(
        of_session(owner, "s", None, 10).await,
        [record("s", "B", 1), record("s", "a", 1)]
    );
    save(vec![record("s", "c", 7)], vec!["s".to_owned()]).await;
    assert_eq!(of_session(owner, "s", None, 10).await, [record("s", "c", 7)]);
    assert_eq!(of_session(owner, "t", None, 10).await, all[2..]);
}

pub async fn files_are_known_as_they_were_last_read<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let file = |path: &str, size| ImportedFile {
        path: path.to_owned(),
        size,
        modified: -3,
        tail: [9; 32],
        offset: size,
        problems: 1,
    };
    for files in [vec![file("/a", 1), file("/b", 2)], vec![file("/a", 3)]] {
        let changes = LogChanges {
            files,
            ..LogChanges::default()
        };
        store.save_log(owner, changes).await.expect("saved");
    }
    let asked = || Files::Named(vec!["/b".to_owned(), "/none".to_owned(), "/a".to_owned()]);
    let known = store.imported_files(owner, asked()).await.expect("files");
    assert_eq!(known, [file("/b", 2), file("/a", 3)]);
    assert_eq!(store.imported_files(other, asked()).await.expect("files"), []);
    let all = |after: Option<&str>, limit| Files::All {
        after: after.map(str::to_owned),
        limit,
    };
    for (which, expected) in [
        (all(None, 9), &[file("/a", 3), file("/b", 2)][..]),
        (all(None, 1), &[file("/a", 3)]),
        (all(Some("/a"), 9), &[file("/b", 2)]),
        (all(Some("/b"), 9), &[]),
    ] {
        let found = store.imported_files(owner, which.clone()).await.expect("files");
        assert_eq!(found, expected, "{which:?}");
        assert_eq!(store.imported_files(other, which).await.expect("files"), []);
    }
}

/// Some providers give all their answers one id. Each is a call of its own, and a log that tells of one of them makes no other.
pub async fn answers_that_share_an_id_with_many_are_calls_of_their_own<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    for number in 0..100 {
        let id = format!("passed-{number}");
        let passed = telling(&id, &format!("answer {number}"), None, "s");
        let recorded = record_one(&*store, owner, &passed).await;
        assert_eq!(recorded.outcome, Outcome::New, "{id}");
    }
    let log = telling("log", "answer 99", Some(5), "s");
    let recorded = record_one(&*store, owner, &log).await;
    assert_eq!(recorded.outcome, Outcome::Known);
    let passed = telling("passed-100", "answer 100", None, "s");
    let recorded = record_one(&*store, owner, &passed).await;
    assert_eq!(recorded.outcome, Outcome::New);
}

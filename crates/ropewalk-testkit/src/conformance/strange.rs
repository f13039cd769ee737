//! Input that breaks databases.

use std::sync::Arc;

use ropewalk_store::store::{ID_MAX, Outcome, Selection, StoreError};
use ropewalk_store::{Micros, Store};

use super::cases::{
    after_turns, assert_bytes, bytes_case, find, fresh_owner, index_all, query, record_one, row_of, turn,
};

pub async fn nul_surrogates_and_emoji_come_back<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let texts = [
        r"nul \u0000 numbat",
        r"lone \ud83d surrogate numbat",
        r"reversed \udc00\ud800 numbat",
        r"pair \ud83e\udd98 numbat",
        "emoji 🦘👩‍👩‍👧 numbat",
        r"noncharacter \uffff \ufffe numbat",
        r"bidi \u202e and \u2028 numbat",
    ];
    for (index, text) in texts.iter().enumerate() {
        let long = text.repeat(20);
        let request = format!(
            r#"{{"model":"m\u0000\ud800","messages":[{{"role":"user","content":"{text}"}},{{"role":"assistant","content":[
            {{"type":"tool_use","id":"t\u0000","name":"R\ud800","input":{{"a":"{long}"}}}}]}},{{"role":"user","content":[
            {{"type":"tool_result","tool_use_id":"t\u0000","content":"{long}"}}]}}],"metadata":{{"user_id":"{text}"}}}}"#
        );
        let response = format!(
            r#"{{"id":"msg\u0000{index}","content":[{{"type":"text","text":"{long}"}}],"stop_reason":"\u0000","usage":{{"input_tokens":1}}}}"#
        );
        let mut case = bytes_case(
            &format!("s{index}"),
            after_turns(0),
            request.as_bytes(),
            Some(response.as_bytes()),
        );
        case.raw
            .request_headers
            .push(("x-session-id".to_owned(), format!("s\0{index}")));
        let case = super::cases::Case::of(case.raw);
        let recorded = record_one(&*store, owner, &case).await;
        assert_eq!(recorded.outcome, Outcome::New, "{text}");
        assert_bytes(&*store, owner, recorded.number, &case.raw).await;
        let row = row_of(&*store, owner, recorded.number).await;
        assert_eq!((&row.model, &row.detail), (&case.new.model, &case.new.detail), "{text}");
    }
    index_all(&*store).await;
    let mut found: Vec<_> = find(&*store, owner, query("numbat"))
        .await
        .iter()
        .map(|hit| hit.exchange)
        .collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(
        found.len(),
        texts.len(),
        "what stands beside a strange character is found"
    );
}

pub async fn an_id_is_kept_exactly_or_refused<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let ids = [
        "",
        " ",
        "é",
        "🦘",
        "a'b\"c",
        "line\nbreak",
        "nul\0",
        "nul\0\0",
        "A",
        "a",
        "%",
        "\u{202e}x",
    ];
    for id in ids {
        let mut case = turn("placeholder", after_turns(0), &[&format!("to {id:?}")], None);
        case.new.id = id.to_owned();
        let Ok(recorded) = store.record(owner, vec![case.new.clone()]).await else {
            let may_be_refused = id.is_empty() || id.contains('\0');
            assert!(may_be_refused, "{id:?} is refused");
            continue;
        };
        assert_eq!(recorded[0].outcome, Outcome::New, "{id:?} is another id's");
        assert_eq!(row_of(&*store, owner, recorded[0].number).await.id, id);
        let rows = store
            .exchanges(owner, Selection::Ids(vec![id.to_owned()]), Micros::MAX)
            .await;
        let rows = rows.expect("rows can be read");
        assert_eq!(
            rows.iter().map(|row| row.number).collect::<Vec<_>>(),
            [recorded[0].number],
            "{id:?}"
        );
    }
}

pub async fn an_id_beyond_the_bound_is_an_error<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    for length in [ID_MAX + 1, 100 << 10] {
        let case = turn(&"x".repeat(length), after_turns(0), &["hello"], None);
        let error = store
            .record(owner, vec![case.new])
            .await
            .expect_err("the id is too long");
        assert!(
            matches!(error, StoreError::IdTooLong { length: told } if told == length),
            "{error}"
        );
        assert!(error.to_string().len() < 500, "the error does not repeat it");
    }
    let longest = turn(&"é".repeat(ID_MAX / 2), after_turns(0), &["hello"], None);
    assert_eq!(record_one(&*store, owner, &longest).await.outcome, Outcome::New);
    let asked = Selection::Ids(vec!["x".repeat(100 << 10)]);
    assert_eq!(
        store
            .exchanges(owner, asked, Micros::MAX)
            .await
            .expect("nothing is found"),
        []
    );
}

//! Words are found where they were said, by their owner, whatever the query looks like.

use std::sync::Arc;

use ropewalk_store::facts::TextSource;
use ropewalk_store::store::{Hit, SearchQuery};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, after_turns, bytes_case, find, fresh_owner, index_all, query, record, record_one, turn};

/// An exchange with one word of its own in every place that is searched, and one in the history, which is not.
fn talkative(id: &str, turns: i64) -> Case {
    let request = r#"{"model":"claude-opus-4-1","messages":[
        {"role":"user","content":"an aardvark asked earlier"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a pangolin was found"},
            {"type":"text","text":"what about the Wombat?"}]}]}"#;
    let response = r#"{"id":"msg_1","model":"claude-opus-4-1","content":[{"type":"text","text":"It is an okapi, not a wombat."},
        {"type":"tool_use","id":"t2","name":"Write","input":{"path":"notes","content":"first line\nquokka"}}],"stop_reason":"tool_use"}"#;
    bytes_case(id, after_turns(turns), request.as_bytes(), Some(response.as_bytes()))
}

fn marked(hit: &Hit) -> Option<&str> {
    let (_, behind) = hit.snippet.split_once('\u{2}')?;
    behind.split_once('\u{3}').map(|(word, _)| word)
}

pub async fn words_are_found_wherever_they_were_said<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let other = fresh_owner(&*store).await;
    let number = record_one(&*store, owner, &talkative("talk", 0)).await.number;
    index_all(&*store).await;
    for owner in [owner, other] {
        let lag = store.search_lag(owner).await.expect("an owner's lag is known");
        assert_eq!(lag.waiting, 0);
    }
    for (word, source) in [
        ("pangolin", TextSource::ToolResult),
        ("okapi", TextSource::Assistant),
        ("quokka", TextSource::ToolInput),
    ] {
        let hits = find(&*store, owner, query(word)).await;
        assert_eq!(hits.len(), 1, "{word}");
        assert_eq!((hits[0].exchange, hits[0].source), (number, source), "{word}");
        assert_eq!(marked(&hits[0]), Some(word), "{:?}", hits[0].snippet);
        assert_eq!(find(&*store, other, query(word)).await, []);
    }
    let mut sources: Vec<_> = find(&*store, owner, query("wombat"))
        .await
        .iter()
        .map(|hit| hit.source.name())
        .collect();
    sources.sort_unstable();
    assert_eq!(sources, ["assistant", "user"], "in any case of letters");
    assert_eq!(
        find(&*store, owner, query("aardvark")).await,
        [],
        "history was said in an earlier exchange"
    );
    assert_eq!(
        find(&*store, owner, query("okapi pangolin")).await,
        [],
        "all words in one text"
    );
    assert_eq!(find(&*store, owner, query("okapi wombat")).await.len(), 1);
}

pub async fn filters_narrow_a_search<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut other_model = talkative("other", 2);
    other_model.new.model = Some("another".to_owned());
    let cases = [talkative("early", 0), talkative("late", 1), other_model];
    let numbers: Vec<_> = record(&*store, owner, &cases)
        .await
        .iter()
        .map(|recorded| recorded.number)
        .collect();
    index_all(&*store).await;
    let base = || query("wombat");
    assert_eq!(find(&*store, owner, base()).await.len(), 6);
    let by_source = SearchQuery {
        source: Some(TextSource::User),
        ..base()
    };
    let hits = find(&*store, owner, by_source).await;
    assert!(hits.len() == 3 && hits.iter().all(|hit| hit.source == TextSource::User));
    let by_model = SearchQuery {
        model: Some("another".to_owned()),
        ..base()
    };
    let hits = find(&*store, owner, by_model).await;
    assert!(hits.len() == 2 && hits.iter().all(|hit| hit.exchange == numbers[2]));
    let since = SearchQuery {
        since: Some(after_turns(1)),
        ..base()
    };
    let hits = find(&*store, owner, since).await;
    assert!(hits.len() == 4 && hits.iter().all(|hit| hit.exchange != numbers[0]));
    let limited = SearchQuery { limit: 2, ..base() };
    assert_eq!(find(&*store, owner, limited).await.len(), 2);
    let later = SearchQuery {
        since: Some(Micros::MAX),
        ..base()
    };
    assert_eq!(find(&*store, owner, later).await, []);
}

pub async fn a_phrase_in_quotes_is_found_in_a_row<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let apart = turn("apart", after_turns(0), &["rope and walk and ropewalk"], None);
    let together = turn("together", after_turns(1), &["the rope walk is long"], None);
    let recorded = record(&*store, owner, &[apart, together]).await;
    index_all(&*store).await;
    assert_eq!(find(&*store, owner, query("rope walk")).await.len(), 2);
    let hits = find(&*store, owner, query("\"rope walk\"")).await;
    assert_eq!(
        hits.iter().map(|hit| hit.exchange).collect::<Vec<_>>(),
        [recorded[1].number]
    );
    assert_eq!(find(&*store, owner, query("\"rope walk\" long")).await.len(), 1);
    assert_eq!(find(&*store, owner, query("\"walk rope\"")).await, []);
}

pub async fn what_a_begun_exchange_said_is_found_once_after_its_end<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let case = talkative("halves", 0);
    record_one(&*store, owner, &case.begun()).await;
    index_all(&*store).await;
    assert_eq!(
        find(&*store, owner, query("pangolin")).await.len(),
        1,
        "found before the end"
    );
    assert_eq!(find(&*store, owner, query("quokka")).await, []);
    record_one(&*store, owner, &case).await;
    record_one(&*store, owner, &case).await;
    index_all(&*store).await;
    for word in ["pangolin", "quokka", "okapi"] {
        assert_eq!(find(&*store, owner, query(word)).await.len(), 1, "{word}");
    }
}

pub async fn hostile_queries_are_answered<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let number = record_one(&*store, owner, &talkative("hostile", 0)).await.number;
    index_all(&*store).await;
    let long = "x".repeat(100_000);
    let many = "wombat ".repeat(2_000);
    let queries = [
        "",
        " ",
        "\"",
        "\"\"",
        "\"\"\"",
        "wombat\"",
        "\"wombat",
        "*",
        "wom*",
        "^wombat",
        "-wombat",
        "+",
        "AND",
        "NOT wombat",
        "wombat OR",
        "NEAR(",
        "NEAR(a b, 3)",
        "text:wombat",
        "owner:1",
        "{a b}:c",
        "(((",
        ")))",
        "'",
        "'; DROP TABLE exchange; --",
        "\\",
        "\\\"",
        "%",
        "_",
        ":*",
        "a:*b",
        "&",
        "|",
        "!",
        "!!",
        "<->",
        "wombat <-> okapi",
        "\0",
        "wom\0bat",
        "\u{2}wombat\u{3}",
        "\u{fffd}",
        "🦘",
        "🦘🦘 wombat",
        "é̀",
        "\u{202e}wombat",
        "\n\t",
        "1",
        "?",
        "?1",
        "$1",
        &long,
        &many,
    ];
    for text in queries {
        let shown: String = text.chars().take(40).collect();
        let found = store.search(owner, query(text)).await;
        assert!(found.is_ok(), "{shown:?}: {:?}", found.err());
    }
    still_finds(&*store, owner, number).await;
}

async fn still_finds(store: &impl Store, owner: OwnerId, number: ropewalk_store::facts::ExchangeNumber) {
    let hits = find(store, owner, query("okapi")).await;
    assert_eq!(hits.iter().map(|hit| hit.exchange).collect::<Vec<_>>(), [number]);
}

//! Turns that a log tells of share what they repeat, and are what they would be each by itself.

use bytes::Bytes;
use proptest::prelude::*;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::{LogMessage, LogPreparer, LogTurn, MessageNumber};
use ropewalk_engine::prepare::{Prepared, Preparer};
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_engine::{Recorder, prepare};
use ropewalk_store::Micros;
use ropewalk_store::facts::{Body, Provenance};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::{Half, Store};

use crate::prepare::raw;

/// A message of a tree: what it says, and the one before it.
#[derive(Debug, Clone)]
struct Told {
    json: String,
    behind: Option<usize>,
}

/// Told by some numbers: what kind of message it is, and whether it goes on from the last one or from another.
fn tree(made: &[(u8, u8)]) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::new();
    for (number, (kind, place)) in made.iter().enumerate() {
        let behind = match (number, *place) {
            (0, _) | (_, 255) => None,
            (_, 240..) => Some(usize::from(*kind) * 7 % number),
            _ => Some(number - 1),
        };
        let json = match kind % 5 {
            0 => format!(r#"{{"role":"user","content":"question {number}, which is long enough to be a part"}}"#),
            1 => format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"answer {number}, which is long enough to be a part"}},{{"type":"tool_use","id":"t{number}","name":"Bash","input":{{"command":"ls {number}"}}}}]}}"#
            ),
            // Of the call before it, if that is one.
            2 => format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{}","content":"result {number}"}}]}}"#,
                behind.unwrap_or(number)
            ),
            3 => r#"{"role":"user","content":"go on"}"#.to_owned(),
            _ => format!(r#"{{"role":"system","content":"context {number}"}}"#),
        };
        told.push(Told { json, behind });
    }
    told
}

/// The way from the first message to one of them.
fn path(told: &[Told], last: usize) -> Vec<usize> {
    let mut path: Vec<usize> = std::iter::successors(Some(last), |at| told[*at].behind).collect();
    path.reverse();
    path
}

fn say(log: &mut LogPreparer<'_>, json: &str, behind: Option<MessageNumber>) -> MessageNumber {
    let message = LogMessage {
        behind,
        provider: Provider::Anthropic,
        json: Bytes::copy_from_slice(json.as_bytes()),
    };
    log.message(&message).unwrap()
}

fn turn(log: &mut LogPreparer<'_>, number: usize, asked: MessageNumber) -> Prepared {
    let answer = format!(
        r#"{{"id":"msg_{number}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"said {number}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":1,"output_tokens":1}}}}"#
    );
    let turn = LogTurn {
        id: format!("turn-{number}"),
        provider: Provider::Anthropic,
        at: Micros(1_800_000_000_000_000 + number as i64),
        ended_at: None,
        spawned_at: Vec::new(),
        model: Some("m".to_owned()),
        project: None,
        hints: Vec::new(),
        request_id: None,
        asked: Some(asked),
        answer: Bytes::from(answer),
        cut_off: false,
        is_estimate: false,
        provenance: Provenance {
            file: "log".to_owned(),
            line: number as u64,
            uuid: None,
            aliases: Vec::new(),
            log_begun: None,
        },
    };
    log.turn(&turn).unwrap()
}

fn preparer(tools: &SpawnTools) -> Preparer<'_> {
    Preparer {
        prices: &BundledPrices,
        spawn_tools: tools,
    }
}

/// Every turn of a tree of messages, told one behind the other.
fn turns_of(told: &[Told], tools: &SpawnTools) -> Vec<Prepared> {
    let mut log = LogPreparer::new(preparer(tools));
    let mut numbers = Vec::new();
    let mut turns = Vec::new();
    for (number, message) in told.iter().enumerate() {
        let behind = message.behind.map(|behind| numbers[behind]);
        numbers.push(say(&mut log, &message.json, behind));
        turns.push(turn(&mut log, number, numbers[number]));
    }
    turns
}

fn facts(prepared: &Prepared) -> String {
    format!("{:?} {:?}", prepared.exchange, prepared.outline)
}

fn pieces(body: &Body) -> String {
    format!("{:?}", body.recipe.pieces().collect::<Vec<_>>())
}

/// A turn as if its messages were all that was told, and as if its body was sent.
fn check_turn(shared: &Prepared, told: &[Told], last: usize, tools: &SpawnTools) {
    let path = path(told, last);
    let mut log = LogPreparer::new(preparer(tools));
    let said = path
        .iter()
        .fold(None, |behind, at| Some(say(&mut log, &told[*at].json, behind)));
    let alone = turn(&mut log, last, said.unwrap());
    assert_eq!(facts(shared), facts(&alone));
    let sent = prepare(&raw("/v1/messages", &body(told, last), None), None, &BundledPrices);
    let (shared, sent) = (&shared.exchange, &sent.exchange);
    assert_eq!(shared.request_chain, sent.request_chain);
    assert_eq!(shared.request.sha256, sent.request.sha256);
    assert_eq!(shared.request.length, sent.request.length);
    assert_eq!(pieces(&shared.request), pieces(&sent.request));
}

fn body(told: &[Told], last: usize) -> String {
    let messages: Vec<&str> = path(told, last).into_iter().map(|at| &*told[at].json).collect();
    format!(r#"{{"messages":[{}],"model":"m"}}"#, messages.join(","))
}

/// Stored with what they share, all of them come back whole.
async fn check_stored(turns: Vec<Prepared>, told: &[Told]) {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "o", &BundledPrices).await.unwrap();
    let owner = recorder.owner();
    let mut turns = turns.into_iter().enumerate().peekable();
    while turns.peek().is_some() {
        let (numbers, batch): (Vec<usize>, Vec<Prepared>) = turns.by_ref().take(50).unzip();
        let recorded = recorder.record_prepared(batch).await.unwrap();
        for (number, recorded) in numbers.into_iter().zip(recorded) {
            let back = store.body(owner, recorded.number, Half::Request).await.unwrap();
            assert_eq!(back.as_deref(), Some(body(told, number).as_bytes()));
        }
    }
}

#[tokio::test]
async fn turns_of_a_long_log_with_branches_are_whole() {
    let made: Vec<(u8, u8)> = (0..700_u32)
        .map(|number| ((number * 31 % 256) as u8, (number * 57 % 256) as u8))
        .collect();
    let (told, tools) = (tree(&made), SpawnTools::default());
    let turns = turns_of(&told, &tools);
    for last in (0..told.len()).step_by(83) {
        check_turn(&turns[last], &told, last, &tools);
    }
    check_stored(turns, &told).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_turn_that_shares_is_the_one_that_is_built_anew(made in proptest::collection::vec(any::<(u8, u8)>(), 1..40)) {
        let (told, tools) = (tree(&made), SpawnTools::default());
        for (last, shared) in turns_of(&told, &tools).iter().enumerate() {
            check_turn(shared, &told, last, &tools);
        }
    }
}

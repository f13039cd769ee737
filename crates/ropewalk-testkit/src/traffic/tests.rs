//! Claims about the generator itself: a linker is tested elsewhere.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Block, Message, Role};
use ropewalk_engine::spawn::{SpawnTools, prompt_hash};
use ropewalk_wire::auxiliary::{RequestKind, classify};
use ropewalk_wire::hints::{HINT_HEADERS, Hints};
use ropewalk_wire::provider::route;
use ropewalk_wire::read_request;
use ropewalk_wire::response::decode_response;

use super::*;

fn traffic(mode: Mode, conversations: u64) -> Traffic {
    Traffic::new(Settings::new(7, conversations, mode))
}

/// A linker that knows the truth, but for what `change` makes of it.
fn scored(recorded: &[Recorded], mode: Mode, change: impl Fn(&Truth, &mut Found)) -> Score {
    let by_id: HashMap<&str, &Truth> = recorded.iter().map(|one| (&*one.truth.id, &one.truth)).collect();
    score(recorded.iter().map(|one| &one.truth), mode, |id| {
        let truth = by_id[id];
        let mut found = Found {
            conversation: truth.conversation.clone(),
            agent: truth.agent.clone(),
        };
        change(truth, &mut found);
        Some(found)
    })
}

#[test]
fn a_seed_gives_the_same_traffic_every_time_and_another_seed_another() {
    let once: Vec<Recorded> = traffic(Mode::Hinted, 50).collect();
    assert_eq!(once, traffic(Mode::Hinted, 50).collect::<Vec<_>>());
    let other: Vec<Recorded> = Traffic::new(Settings::new(8, 50, Mode::Hinted)).collect();
    assert_ne!(once, other);
}

#[test]
fn every_line_reads_back_as_it_was_written() {
    for recorded in traffic(Mode::Hinted, 100) {
        let written = write_line(&recorded.line);
        assert_eq!(ExchangeLine::parse(written.as_bytes()).unwrap(), recorded.line);
        assert!(!written.contains('\n'));
    }
}

#[test]
fn both_modes_have_the_same_exchanges_and_only_one_has_hints() {
    let hinted: Vec<Recorded> = traffic(Mode::Hinted, 200).collect();
    let bare: Vec<Recorded> = traffic(Mode::ContentOnly, 200).collect();
    assert_eq!(hinted.len(), bare.len());
    for (hinted, bare) in hinted.iter().zip(&bare) {
        assert_eq!(hinted.truth, bare.truth);
        assert_eq!(hinted.line.at, bare.line.at);
        assert_eq!(hinted.line.response, bare.line.response);
        let has_hint = |line: &ExchangeLine| HINT_HEADERS.iter().any(|name| line.request.header(name).is_some());
        assert!(has_hint(&hinted.line) && !has_hint(&bare.line));
        assert!(!String::from_utf8_lossy(&bare.line.request.body).contains("user_id"));
    }
}

#[test]
fn every_cause_occurs_and_the_truth_is_whole() {
    let mut causes = HashSet::new();
    let mut ids = HashSet::new();
    let mut parents = Vec::new();
    let mut by_content = HashSet::new();
    for Recorded { truth, .. } in traffic(Mode::ContentOnly, 2_000) {
        causes.insert(truth.cause);
        by_content.insert(truth.by_content);
        assert!(ids.insert(truth.id), "ids are unique");
        parents.extend(truth.parent);
    }
    let absent: Vec<Cause> = Cause::ALL.into_iter().filter(|cause| !causes.contains(cause)).collect();
    assert_eq!(absent, []);
    assert_eq!(causes.len(), Cause::ALL.len());
    assert_eq!(by_content.len(), 3);
    assert!(parents.iter().all(|parent| ids.contains(parent)));
}

struct Read {
    kind: RequestKind,
    nodes: Vec<NodeHash>,
    with_answer: Vec<NodeHash>,
    /// Of the first text that the user said, reminders aside.
    prompt: Option<[u8; 32]>,
    /// What the answer tells the agents that it starts.
    spawn_prompts: Vec<[u8; 32]>,
}

fn read(line: &ExchangeLine) -> Read {
    let route = route(&line.path);
    let provider = route.endpoint.provider().unwrap();
    let body = read_request(provider, &Bytes::from(line.request.body.clone()), None).unwrap();
    let response = line.response.as_ref().unwrap();
    let answer = decode_response(
        provider,
        line.status.unwrap(),
        response.header("content-type"),
        &response.body,
    );
    let spawns = SpawnTools::default().calls(&answer.blocks);
    let said = body
        .request
        .messages
        .iter()
        .filter(|message| message.role == Role::User);
    let prompt = said.flat_map(|message| &message.blocks).find_map(|block| match block {
        Block::Text { text, .. } => prompt_hash(text),
        _ => None,
    });
    let message = Message {
        role: Role::Assistant,
        is_string: false,
        blocks: answer.blocks,
        extra: None,
    };
    let mut with_answer = body.nodes().to_vec();
    chain::extend(body.input_node(), &message, &mut with_answer);
    Read {
        kind: classify(&route.endpoint, &body.request, &Hints::none()).kind,
        nodes: body.nodes().to_vec(),
        with_answer,
        prompt,
        spawn_prompts: spawns
            .iter()
            .filter_map(|call| prompt_hash(call.prompt.as_deref()?))
            .collect(),
    }
}

#[test]
fn the_next_turn_contains_the_answer_of_the_one_before() {
    let mut read_by_id: HashMap<String, Read> = HashMap::new();
    let mut followed = 0;
    let settings = Settings {
        mix: Mix {
            // Their prompts change from one request to the next.
            decorated: 0.0,
            ..Mix::default()
        },
        ..Settings::new(7, 400, Mode::ContentOnly)
    };
    for Recorded { line, truth } in Traffic::new(settings) {
        let body = String::from_utf8_lossy(&line.request.body).into_owned();
        // The chain of such a request holds names of answers instead of the answers.
        let names_history = body.contains("previous_response_id") || body.contains("item_reference");
        let this = read(&line);
        let follows = matches!(
            truth.cause,
            Cause::Prompt
                | Cause::ToolResult
                | Cause::Fork
                | Cause::ContextChange
                | Cause::Notification
                | Cause::Resume
        );
        if follows && !names_history && truth.kind == Kind::Turn {
            let before = &read_by_id[&truth.parent.unwrap()];
            assert!(this.nodes.starts_with(&before.with_answer), "{}: {body}", truth.id);
            followed += 1;
        }
        read_by_id.insert(truth.id, this);
    }
    assert!(followed > 1_000, "{followed}");
}

#[test]
fn a_retry_has_the_same_input_and_helper_calls_are_known_as_such() {
    let mut bodies: HashMap<String, String> = HashMap::new();
    for Recorded { line, truth } in traffic(Mode::ContentOnly, 400) {
        let this = read(&line);
        let body = String::from_utf8(line.request.body)
            .unwrap()
            .replace(r#","stream":true}"#, "}");
        if truth.kind == Kind::Retry {
            assert_eq!(body, bodies[truth.parent.as_ref().unwrap()]);
        }
        match truth.kind {
            Kind::Turn | Kind::Retry => assert_eq!(this.kind, RequestKind::Turn, "{}", truth.id),
            Kind::Compaction => assert_eq!(this.kind, RequestKind::Compaction),
            Kind::Auxiliary => assert!(this.kind.is_auxiliary()),
        }
        bodies.insert(truth.id, body);
    }
}

#[test]
fn an_agent_is_told_exactly_what_the_call_says() {
    let mut spawned: HashMap<String, Vec<[u8; 32]>> = HashMap::new();
    let mut agents = 0;
    for Recorded { line, truth } in traffic(Mode::ContentOnly, 400) {
        let this = read(&line);
        // Where the call itself was not recorded, content cannot join the agent.
        if matches!(truth.cause, Cause::Subagent(_)) && truth.by_content == ByContent::Decides {
            let prompts = &spawned[truth.parent.as_ref().unwrap()];
            assert!(prompts.contains(&this.prompt.unwrap()), "{}", truth.id);
            agents += 1;
        }
        spawned.insert(truth.id, this.spawn_prompts);
    }
    assert!(agents > 100, "{agents}");
}

/// Equal openings and short answers must not make conversations ambiguous that the truth calls decidable.
#[test]
fn no_history_holds_a_strangers_answer_unless_the_truth_says_so() {
    let mut answered: HashMap<NodeHash, String> = HashMap::new();
    let mut ambiguous = 0;
    for Recorded { line, truth } in traffic(Mode::ContentOnly, 600) {
        let this = read(&line);
        if truth.kind == Kind::Auxiliary {
            continue;
        }
        let strangers = this.nodes.iter().filter_map(|node| answered.get(node));
        let has_stranger = strangers
            .into_iter()
            .any(|conversation| *conversation != truth.conversation);
        assert!(
            !has_stranger || truth.by_content == ByContent::FitsSeveral,
            "{}",
            truth.id
        );
        ambiguous += usize::from(has_stranger);
        if let Some(last) = this
            .with_answer
            .last()
            .filter(|_| this.with_answer.len() > this.nodes.len())
        {
            answered.insert(*last, truth.conversation);
        }
    }
    assert!(ambiguous > 0);
}

#[test]
fn clocks_are_off_by_less_than_five_seconds() {
    let mut ends: HashMap<String, jiff::Timestamp> = HashMap::new();
    let mut reversed = 0;
    for Recorded { line, truth } in traffic(Mode::ContentOnly, 400) {
        let at: jiff::Timestamp = line.at.parse().unwrap();
        let end = line.ended_at.as_ref().map_or(at, |end| end.parse().unwrap());
        // Alternatives start together, and a helper call waits for nobody.
        let parent = truth.parent.and_then(|parent| ends.get(&parent));
        if let Some(&before) = parent.filter(|_| truth.kind != Kind::Auxiliary) {
            let late = before.as_microsecond() - at.as_microsecond();
            assert!(late < 5_000_000, "{}: {late}", truth.id);
            reversed += usize::from(late > 0);
        }
        ends.insert(truth.id, end);
    }
    assert!(reversed > 0);
}

#[test]
fn the_truth_scores_without_a_mistake_and_prints_as_a_table() {
    let recorded: Vec<Recorded> = traffic(Mode::Hinted, 100).collect();
    let score = scored(&recorded, Mode::Hinted, |_, _| ());
    assert_eq!(
        (
            score.missing,
            score.false_merges,
            score.over_splits,
            score.split_off,
            score.wrong_agents
        ),
        (0, 0, 0, 0, 0)
    );
    assert_eq!(score.exchanges, recorded.len());
    assert!(score.conversations > 90);
    let table = score.to_string();
    assert_eq!(table.lines().count(), 3 + score.by_cause.len());
}

#[test]
fn mistakes_are_counted_by_what_caused_them() {
    let recorded: Vec<Recorded> = traffic(Mode::ContentOnly, 300).collect();
    let forks = scored(&recorded, Mode::ContentOnly, |truth, found| {
        if truth.cause == Cause::Fork {
            found.conversation += " fork";
        }
    });
    assert!(forks.over_splits > 0 && forks.false_merges == 0);
    assert_eq!(forks.by_cause[&Cause::Fork].split_off, forks.split_off);
    let orphans = scored(&recorded, Mode::ContentOnly, |truth, found| {
        if matches!(truth.cause, Cause::Subagent(_)) {
            found.agent = "main".to_owned();
        }
    });
    assert!(orphans.wrong_agents > 0 && orphans.over_splits == 0);
    let strangers = scored(&recorded, Mode::ContentOnly, |truth, found| {
        if truth.cause == Cause::Retry {
            found.conversation = "conversation-0".to_owned();
        }
    });
    assert!(strangers.false_merges > 0 && !strangers.false_merge_examples.is_empty());
}

#[test]
fn what_content_cannot_decide_is_not_held_against_a_linker() {
    let recorded: Vec<Recorded> = traffic(Mode::ContentOnly, 300).collect();
    let astray = |truth: &Truth, found: &mut Found| match truth.by_content {
        ByContent::Decides => (),
        ByContent::CannotJoin => found.conversation.clone_from(&truth.id),
        ByContent::FitsSeveral => found.conversation = "conversation-0".to_owned(),
    };
    let bare = scored(&recorded, Mode::ContentOnly, astray);
    assert_eq!((bare.false_merges, bare.split_off), (0, 0));
    assert!(bare.ambiguous > 0 && bare.cannot_join > 0);
    let hinted = scored(&recorded, Mode::Hinted, astray);
    assert!(hinted.false_merges > 0 && hinted.split_off > 0);
}

#[test]
fn owners_share_the_conversations_and_never_one_of_them() {
    let settings = Settings {
        owners: 3,
        ..Settings::new(7, 60, Mode::ContentOnly)
    };
    let mut owner_of: HashMap<String, String> = HashMap::new();
    for Recorded { line, truth } in Traffic::new(settings) {
        let owner = line.owner.unwrap();
        assert_eq!(*owner_of.entry(truth.conversation).or_insert(owner.clone()), owner);
    }
    assert_eq!(owner_of.values().collect::<HashSet<_>>().len(), 3);
}

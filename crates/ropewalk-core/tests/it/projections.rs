//! Projections of whole exchanges: what docs/hashing.md says about them, case by case.

use std::sync::Arc;

use proptest::prelude::*;
use ropewalk_core::agent_identity::{agent_type_hash, conversation_hash, hash_user_message, short};
use ropewalk_core::hash::{sha256, sha256_hex};
use ropewalk_core::json::Doc;
use ropewalk_core::model::{
    ApiError, Block, ChainStart, Media, MediaKind, MediaSource, Message, Provider, Request, Response, Tool,
};
use ropewalk_core::projections::Projections;
use ropewalk_core::prompt_path::{
    Prompt, path_hash, prompt_hash, request_path, steps, tool_call_hash, tool_result_hash,
};

use crate::anthropic::{self, text_block};

/// A request with the messages of a JSON array.
fn request(messages: &str) -> Request {
    let doc = Doc::parse_str(messages).unwrap();
    Request {
        provider: Provider::Anthropic,
        model: None,
        stream: false,
        start: ChainStart::Root,
        system: Vec::new(),
        tools: Vec::new(),
        messages: doc.root().items().map(anthropic::message).map(Arc::new).collect(),
        options: Vec::new(),
    }
}

fn with_system(mut request: Request, texts: &[&str]) -> Request {
    request.system = texts.iter().map(|text| Arc::new(text_block(text))).collect();
    request
}

fn with_options(mut request: Request, options: &[(&str, &str)]) -> Request {
    request.options = options
        .iter()
        .map(|(name, json)| ((*name).into(), (*json).into()))
        .collect();
    request
}

fn answer(texts: &[&str]) -> Response {
    Response {
        blocks: texts.iter().map(|text| text_block(text)).collect(),
        complete: true,
        ..Response::default()
    }
}

fn prompt(text: &str) -> Prompt<'_> {
    Prompt {
        prompt: text.into(),
        ..Prompt::default()
    }
}

const HELLO: &str = r#"[{"role":"user","content":"Hello"}]"#;
const EMPTY_HASH: &str = "e3b0c44298fc1c14";

#[test]
fn seed_001_the_conversation_hash_is_filled_in_by_the_first_answer() {
    let request = request(HELLO);
    let before = Projections::of(&request, None);
    assert_eq!((before.first_response_hash, before.conversation_hash), (None, None));
    let after = Projections::of(&request, Some(&answer(&["Hi", "there"])));
    let first = after.first_response_hash.unwrap();
    assert_eq!(first, short(&sha256_hex("Hi")), "the first text only");
    let expected = conversation_hash(&after.agent_type_hash, &after.first_user_hash, &first);
    assert_eq!(after.conversation_hash, Some(expected));
}

#[test]
fn seed_001_the_same_conversation_keeps_its_hash() {
    let first = Projections::of(&request(HELLO), Some(&answer(&["Hi"])));
    let later = r#"[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},
        {"type":"text","text":"Hello"}]},{"role":"assistant","content":"Hi"},{"role":"user","content":"More"}]"#;
    let later = Projections::of(&request(later), Some(&answer(&["Something else"])));
    assert_eq!(first.conversation_hash, later.conversation_hash);
    assert!(first.conversation_hash.is_some());
}

#[test]
fn seed_001_edge_an_answer_without_text_counts_as_empty() {
    let only_calls = Projections::of(&request(HELLO), Some(&answer(&[])));
    assert_eq!(only_calls.first_response_hash.as_deref(), Some(EMPTY_HASH));
    let history = r#"[{"role":"user","content":"Hello"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"LS","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]},
        {"role":"assistant","content":"Now some text"},{"role":"user","content":"ok"}]"#;
    let later = Projections::of(&request(history), None);
    assert_eq!(later.conversation_hash, only_calls.conversation_hash);
}

#[test]
fn an_answer_that_failed_or_was_cut_off_is_none() {
    let cut = Response {
        complete: false,
        ..answer(&["Hi"])
    };
    let error = ApiError {
        kind: "overloaded_error".into(),
        message: "busy".into(),
    };
    let failed = Response {
        error: Some(error),
        ..answer(&["Hi"])
    };
    for response in [cut, failed] {
        let projections = Projections::of(&request(HELLO), Some(&response));
        assert_eq!(projections.first_response_hash, None);
        assert_eq!(projections.response_hash, None);
    }
    let whole = Projections::of(&request(HELLO), Some(&answer(&["a", "b"])));
    assert_eq!(whole.response_hash, Some(sha256_hex("ab")));
}

#[test]
fn an_empty_request_has_no_hashes_of_messages() {
    let projections = Projections::of(&request("[]"), Some(&answer(&["Hi"])));
    assert_eq!(projections.message_hash, None);
    assert_eq!(projections.current_message_hash, None);
    assert_eq!(projections.first_user_hash, hash_user_message(""));
    assert_eq!(projections.conversation_hash, None);
    assert_eq!(projections.prompt_hash, sha256_hex(""));
}

#[test]
fn the_agent_type_is_the_stable_prompt_and_the_tools() {
    let mut first = with_system(request(HELLO), &["x-anthropic-billing-header: a", "You are."]);
    first.tools = vec![
        Arc::new(Tool {
            name: "b".into(),
            json: r#"{"name":"b","cache_control":{"type":"ephemeral"}}"#.into(),
        }),
        Arc::new(Tool {
            name: "a".into(),
            json: r#"{"z":{"cache_control":1},"name":"a"}"#.into(),
        }),
    ];
    let projections = Projections::of(&first, None);
    let tools = short(&sha256_hex("a|b"));
    assert_eq!(projections.toolset_hash, tools);
    assert_eq!(
        projections.agent_type_hash,
        agent_type_hash(&short(&sha256_hex("You are.")), &tools)
    );
    let lines = "{\"name\":\"b\"}\n{\"name\":\"a\",\"z\":{\"cache_control\":1}}";
    assert_eq!(projections.tools_hash, sha256_hex(lines));
    assert_eq!(
        projections.system_raw_hash,
        sha256_hex("x-anthropic-billing-header: a\nYou are.")
    );
}

#[test]
fn first_user_text_is_joined_by_nothing() {
    let messages = r#"[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":" a "},
        {"type":"text","text":"<system-reminder>x</system-reminder>b"}]}]"#;
    let projections = Projections::of(&request(messages), None);
    assert_eq!(projections.first_user_hash, hash_user_message("a b"));
}

#[test]
fn seed_002_france_and_germany() {
    let system = &["You are a helpful assistant"];
    let france = r#"[{"role":"user","content":"What is the capital of France?"}]"#;
    let root = Projections::of(&with_system(request(france), system), None);
    assert_eq!(
        root.prompt_hash,
        "2ee1bde04709bfc199969f4aee0c2acdd8f89a5cf665f20ca36410a867efcb2d"
    );
    assert_eq!(root.path_hash, root.prompt_hash);
    let germany = r#"[{"role":"user","content":"What is the capital of France?"},
        {"role":"assistant","content":"Paris"},{"role":"user","content":"And what about Germany?"}]"#;
    let child = Projections::of(&with_system(request(germany), system), None);
    assert_eq!(
        child.prompt_hash,
        "64cb8aa4fb416958d8d5c211d45b48fb3781fa1316f3b5db5ef354ef772631bb"
    );
    assert_eq!(
        child.path_hash,
        "dc9d656c3d296c51371cc1d15a8926c283ac949fd14d7402326b719579627860"
    );
}

#[test]
fn seed_002_a_step_has_the_calls_before_it_and_the_results_in_it() {
    let messages = r#"[{"role":"user","content":"2 + 2?"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"calculate","input":{"expression":"2 + 2"}}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"t","input":{"b":1,"a":"é"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"4"},
            {"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},
            {"type":"text","text":" <system-reminder>r</system-reminder>"},{"type":"text","text":" go on "}]},
        {"role":"system","content":"injected"},{"role":"user","content":"now"}]"#;
    let request = request(messages);
    let steps = steps(&request);
    assert_eq!(steps.len(), 2, "neighbouring assistant messages are one");
    let arguments = |json: &str, name: &str| tool_call_hash(name, Doc::parse_str(json).unwrap().root());
    let expected = Prompt {
        prompt: "go on\nnow".into(),
        tool_calls: vec![
            arguments(r#"{"expression":"2 + 2"}"#, "calculate"),
            arguments(r#"{"a":"é","b":1}"#, "t"),
        ],
        tool_results: vec![
            tool_result_hash("calculate", "4", &[]),
            tool_result_hash("t", "x\ny", &[]),
        ],
        ..Prompt::default()
    };
    assert_eq!(steps[1], expected);
    let parent = prompt_hash(&prompt("2 + 2?"));
    assert_eq!(
        request_path(&request).path_hash,
        path_hash(Some(&parent), &prompt_hash(&expected))
    );
}

#[test]
fn seed_002_only_options_that_decide_the_answer_count() {
    let hash = |options: &[(&str, &str)]| request_path(&with_options(request(HELLO), options)).prompt_hash;
    let plain = hash(&[]);
    assert_eq!(
        hash(&[("temperature", "0.7"), ("top_p", "0"), ("max_tokens", "null")]),
        plain
    );
    assert_ne!(hash(&[("temperature", "0")]), plain);
    assert_ne!(hash(&[("temperature", "0")]), hash(&[("temperature", "0.0")]));
    let expected = Prompt {
        options: vec![
            ("max_tokens", "1".into()),
            ("stop_sequences", "[\"a\"]".into()),
            ("top_k", "2".into()),
        ],
        ..prompt("Hello")
    };
    let sent = [("top_k", "2"), ("stop_sequences", "[ \"a\" ]"), ("max_tokens", "1")];
    assert_eq!(hash(&sent), prompt_hash(&expected));
}

#[test]
fn gemini_options_are_read_by_their_own_names() {
    let config = r#"{"maxOutputTokens":100,"temperature":0,"topK":3,"stopSequences":["x"]}"#;
    let mut gemini = with_options(request(HELLO), &[("generationConfig", config)]);
    gemini.provider = Provider::Gemini;
    let same = with_options(
        request(HELLO),
        &[
            ("max_tokens", "100"),
            ("temperature", "0"),
            ("top_k", "3"),
            ("stop_sequences", "[\"x\"]"),
        ],
    );
    assert_eq!(request_path(&gemini), request_path(&same));
}

#[test]
fn attachments_count_by_their_bytes() {
    let media = |kind, source| {
        let block = Block::Media(Media {
            kind,
            media_type: None,
            source,
            extra: None,
        });
        let mut with_media = request(HELLO);
        let blocks = vec![block, text_block("Hello")];
        let role = with_media.messages[0].role;
        let message = Message {
            role,
            is_string: false,
            blocks,
            extra: None,
        };
        with_media.messages = [Arc::new(message)].into_iter().collect();
        steps(&with_media).remove(0).attachments.remove(0)
    };
    let content = |bytes: &[u8]| format!("content:{}", hex::encode(sha256(bytes)));
    use MediaKind::{Audio, Document, Image};
    assert_eq!(media(Image, MediaSource::Base64("aW1hZ2Ux".into())), content(b"image1"));
    assert_eq!(media(Image, MediaSource::Base64("aW1hZ2U=".into())), content(b"image"));
    assert_eq!(
        media(Audio, MediaSource::Base64("aW1hZ2U".into())),
        content(b"image"),
        "without padding"
    );
    assert_eq!(
        media(Image, MediaSource::Base64("no base64!".into())),
        content(b"no base64!")
    );
    assert_eq!(media(Document, MediaSource::Text("plain".into())), content(b"plain"));
    assert_eq!(
        media(Image, MediaSource::Url("u".into())),
        format!("url:{}", sha256_hex("u"))
    );
    assert_eq!(
        media(Document, MediaSource::FileId("f".into())),
        format!("path:{}", sha256_hex("f"))
    );
    assert_eq!(media(Image, MediaSource::Missing), "empty");
}

#[test]
fn a_continued_response_has_a_parent_and_so_no_system() {
    let mut continued = with_system(request(HELLO), &["You are."]);
    continued.start = ChainStart::Previous("resp_1".into());
    assert_eq!(request_path(&continued).prompt_hash, prompt_hash(&prompt("Hello")));
}

#[test]
fn field_names_are_those_of_the_contract() {
    let json = serde_json::to_value(Projections::of(&request(HELLO), None)).unwrap();
    let names: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec![
        "message_hash",
        "current_message_hash",
        "parent_message_hash",
        "system_hash",
        "system_raw_hash",
        "toolset_hash",
        "tools_hash",
        "agent_type_hash",
        "first_user_hash",
        "first_response_hash",
        "conversation_hash",
        "prompt_hash",
        "response_hash",
        "path_hash",
    ];
    expected.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, expected);
}

/// Messages of a conversation with calls, results, repetitions and messages that are none.
fn said(kind: u8, number: usize) -> Message {
    let json = match kind % 7 {
        0 | 1 => format!(r#"{{"role":"user","content":"asked {number}"}}"#),
        2 => format!(r#"{{"role":"assistant","content":"answered {number}"}}"#),
        3 => format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"t{number}","name":"Tool{kind}","input":{{"n":{number}}}}}]}}"#
        ),
        4 => format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{}","content":"found {number}"}}]}}"#,
            number.saturating_sub(1)
        ),
        5 => format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"t{}","name":"Again","input":{{}}}}]}}"#,
            number / 2
        ),
        _ => format!(r#"{{"role":"system","content":"injected {number}"}}"#),
    };
    anthropic::message(Doc::parse_str(&json).unwrap().root())
}

proptest! {
    #[test]
    fn going_on_behind_a_turn_before_gives_the_same_as_beginning_anew(
        turns in proptest::collection::vec((0_usize..8, proptest::collection::vec(any::<u8>(), 0..6)), 1..12),
        changes in any::<[bool; 3]>(),
    ) {
        let mut request = with_system(with_options(request("[]"), &[("max_tokens", "9")]), &["You are an agent."]);
        let (mut before, mut count) = (None, 0);
        for (turn, (changed, added)) in turns.into_iter().enumerate() {
            // The last messages are replaced, as where a client marks them otherwise.
            request.messages.truncate(request.messages.len().saturating_sub(changed));
            request.messages.extend(added.into_iter().map(|kind| {
                count += 1;
                Arc::new(said(kind, count))
            }));
            if changes[0] {
                request.system = vec![Arc::new(text_block(&format!("You are agent {turn}.")))];
            }
            if changes[1] && turn % 3 == 0 {
                request = with_options(request, &[("max_tokens", &turn.to_string())]);
            }
            if changes[2] && turn % 4 == 0 {
                request.start = ChainStart::Previous(turn.to_string().into());
            }
            let (projections, hashed) = Projections::behind(&request, None, before.as_ref());
            prop_assert_eq!(projections, Projections::of(&request, None));
            before = Some(hashed);
        }
    }
}

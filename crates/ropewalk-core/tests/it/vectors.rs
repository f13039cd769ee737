//! Every value of `fixtures/seed-hashes.json`, by the seed that defines it.
//!
//! The file is read with our own reader: `0` and `0.0` are different inputs there.

use ropewalk_core::json::{Doc, Node, to_python};
use ropewalk_core::prompt_path::{self, Attachment, Prompt};
use ropewalk_core::{agent_identity, friendly, transcript};

use crate::anthropic;

const VECTORS: &str = include_str!("../../../../fixtures/seed-hashes.json");

/// Runs `check` over the cases of one list and makes sure that there are some.
fn each_case(seed: &str, list: &str, check: impl Fn(Node<'_>)) {
    let doc = Doc::parse_str(VECTORS).unwrap();
    let cases: Vec<Node<'_>> = doc.root().get(seed).unwrap().get(list).unwrap().items().collect();
    assert!(!cases.is_empty());
    for case in cases {
        check(case);
    }
}

fn text(node: Node<'_>, key: &str) -> String {
    node.get(key).unwrap().to_text().unwrap()
}

fn list(node: Node<'_>, key: &str) -> Vec<String> {
    node.get(key)
        .unwrap()
        .items()
        .map(|item| item.to_text().unwrap())
        .collect()
}

#[test]
fn every_list_of_the_file_has_a_test_here() {
    let doc = Doc::parse_str(VECTORS).unwrap();
    let mut lists = Vec::new();
    for (seed, content) in doc.root().members() {
        for (name, value) in content.members().filter(|(_, value)| value.is_array()) {
            assert!(value.items().next().is_some());
            lists.push(format!("{} {}", seed.to_text().unwrap(), name.to_text().unwrap()));
        }
    }
    let tested = "000 message_hash, 000 transcript, 001 toolSetHash, 001 agentTypeHash_seed, \
         001 conversationHash, 001 firstAssistant, 001 userMessage, 002 canonical_json, 002 tool_call, \
         002 tool_result, 002 prompt_hash, 002 path_hash, 003 stopwords, 003 base36, 003 friendly, 003 short_hash";
    assert_eq!(lists.join(", "), tested);
}

#[test]
fn seed_000_message_hash() {
    each_case("000", "message_hash", |case| {
        let message = anthropic::message(case);
        assert_eq!(transcript::message_hash(&message), text(case, "out"), "{}", case.raw());
    });
}

#[test]
fn seed_000_transcript() {
    each_case("000", "transcript", |case| {
        let messages: Vec<_> = case.get("messages").unwrap().items().map(anthropic::message).collect();
        let hashes = transcript::transcript_hashes(&messages);
        let expected = |key: &str| case.get(key).unwrap().to_text();
        assert_eq!(
            hashes.current_message_hash,
            expected("current_message_hash"),
            "{}",
            case.raw()
        );
        assert_eq!(
            hashes.parent_message_hash,
            expected("parent_message_hash"),
            "{}",
            case.raw()
        );
    });
}

#[test]
fn seed_001_tool_set_hash() {
    each_case("001", "toolSetHash", |case| {
        let names = list(case, "in");
        assert_eq!(
            agent_identity::tool_set_hash(names.iter().map(String::as_str)),
            text(case, "out")
        );
    });
}

#[test]
fn seed_001_agent_type_hash() {
    each_case("001", "agentTypeHash_seed", |case| {
        let given = list(case, "in");
        assert_eq!(agent_identity::agent_type_hash(&given[0], &given[1]), text(case, "out"));
    });
}

#[test]
fn seed_001_conversation_hash() {
    each_case("001", "conversationHash", |case| {
        let given = list(case, "in");
        let hash = agent_identity::conversation_hash(&given[0], &given[1], &given[2]);
        assert_eq!(hash, text(case, "out"));
    });
}

#[test]
fn seed_001_first_assistant_response() {
    each_case("001", "firstAssistant", |case| {
        let given = match &*text(case, "in") {
            "a*1000" => "a".repeat(1000),
            "x*499+space+y*100" => format!("{} {}", "x".repeat(499), "y".repeat(100)),
            "a*499+U+1F600" => format!("{}\u{1f600}", "a".repeat(499)),
            other => other.to_owned(),
        };
        assert_eq!(agent_identity::hash_first_assistant_response(&given), text(case, "out"));
    });
}

#[test]
fn seed_001_user_message() {
    each_case("001", "userMessage", |case| {
        assert_eq!(agent_identity::hash_user_message(&text(case, "in")), text(case, "out"));
    });
}

#[test]
fn seed_002_canonical_json() {
    each_case("002", "canonical_json", |case| {
        assert_eq!(to_python(case.get("in").unwrap()), text(case, "out"));
    });
}

#[test]
fn seed_002_tool_call() {
    each_case("002", "tool_call", |case| {
        let hash = prompt_path::tool_call_hash(&text(case, "name"), case.get("arguments").unwrap());
        assert_eq!(hash, text(case, "out"));
    });
}

#[test]
fn seed_002_tool_result() {
    each_case("002", "tool_result", |case| {
        let hash = prompt_path::tool_result_hash(&text(case, "name"), &text(case, "output"), &[]);
        assert_eq!(hash, text(case, "out"));
    });
}

#[test]
fn seed_002_prompt_hash() {
    each_case("002", "prompt_hash", |case| {
        let given = case.get("in").unwrap();
        let attachments = given.get("attachments").into_iter().flat_map(|list| list.items());
        let mut prompt = Prompt {
            system: given.get_str("system").unwrap_or_default(),
            prompt: given.get_str("prompt").unwrap_or_default(),
            attachments: attachments
                .map(|item| text(item, "content_utf8"))
                .map(|content| prompt_path::attachment_hash(Attachment::Content(content.as_bytes())))
                .collect(),
            options: prompt_path::counted_options(|name| Some(given.get("options")?.get(name)?.raw())),
            ..Prompt::default()
        };
        assert_eq!(prompt_path::prompt_hash(&prompt), text(case, "out"), "{}", case.raw());
        prompt.attachments.reverse();
        assert_eq!(
            prompt_path::prompt_hash(&prompt),
            text(case, "out"),
            "attachments in any order"
        );
    });
}

#[test]
fn seed_002_path_hash() {
    each_case("002", "path_hash", |case| {
        let hash = prompt_path::path_hash(Some(&text(case, "parent")), &text(case, "prompt_hash"));
        assert_eq!(hash, text(case, "out"));
    });
    assert_eq!(prompt_path::path_hash(None, "def456"), "def456");
}

#[test]
fn seed_003_stopwords() {
    // A word is a stopword exactly if it does not become the name beside one that is none.
    each_case("003", "stopwords", |case| {
        let word = case.to_text().unwrap();
        let id = friendly::friendly_id(&format!("{word} zebra"), "");
        assert!(id.starts_with("zebra_"), "{word}: {id}");
    });
}

#[test]
fn seed_003_base36() {
    each_case("003", "base36", |case| {
        let number = u32::try_from(case.get("n").unwrap().as_u64().unwrap()).unwrap();
        let digits = usize::try_from(case.get("len").unwrap().as_u64().unwrap()).unwrap();
        assert_eq!(friendly::base36(number, digits), text(case, "out"));
    });
}

#[test]
fn seed_003_friendly_id() {
    each_case("003", "friendly", |case| {
        let (title, created_at) = (text(case, "title"), text(case, "created_at"));
        assert_eq!(friendly::friendly_id(&title, &created_at), text(case, "out"), "{title}");
    });
}

#[test]
fn seed_003_short_hash() {
    each_case("003", "short_hash", |case| {
        assert_eq!(
            friendly::short_hash(&text(case, "fid"), &text(case, "text")),
            text(case, "out")
        );
    });
}

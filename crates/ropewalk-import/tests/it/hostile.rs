//! No JSON makes a reader panic, and what cannot be read is told with its place.

use proptest::prelude::*;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::model::Provider;
use ropewalk_engine::Preparer;
use ropewalk_engine::logged::{LogMessage, LogPreparer, Logged, Taken};
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_import::{Format, Found, Reader, Sink};
use serde_json::{Value, json};

use crate::support::{Folder, read_text, text};

const FILES: [(Format, &str); 3] = [
    (Format::ChatGpt, "chatgpt/conversations.json"),
    (Format::ClaudeAi, "claude-ai/conversations.json"),
    (Format::Har, "browser.har"),
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("ask-1"),
            Just("say-1"),
            Just("m-1"),
            Just("assistant"),
            Just("tool"),
            Just("base64")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Puts something else into the place of that number, counted through the document.
fn replace(value: &mut Value, place: usize, by: &Value) {
    let mut waiting = vec![value];
    let mut count = 0;
    while let Some(value) = waiting.pop() {
        if count == place {
            *value = by.clone();
            return;
        }
        count += 1;
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values_mut()),
            _ => {}
        }
    }
}

/// Prepares what comes, as an import does.
struct Prepared<'p> {
    log: LogPreparer<'p>,
    taken: Taken,
    told: Vec<String>,
}

impl Sink for Prepared<'_> {
    fn found(&mut self, found: Logged) -> Found {
        self.told.push(format!("{found:?}"));
        self.log.take(found, &mut self.taken);
        Found::GoOn
    }

    fn problem(&mut self, line: u64, message: String) {
        assert!(!message.is_empty());
        self.told.push(format!("{line}: {message}"));
    }

    fn skipped(&mut self, what: &str) {
        self.told.push(what.to_owned());
    }

    fn forget_messages(&mut self) {
        self.log.forget_messages();
    }
}

fn told(format: Format, text: &str) -> (Vec<String>, Taken) {
    let folder = Folder::new();
    let path = folder.file("file", text);
    let tools = SpawnTools::default();
    let mut sink = Prepared {
        log: LogPreparer::new(Preparer {
            prices: &BundledPrices,
            spawn_tools: &tools,
        }),
        taken: Taken::default(),
        told: Vec::new(),
    };
    let Reader::Whole(mut reader) = format.reader(&path, "the file") else {
        panic!()
    };
    let _ = reader.read(&path, &[], &mut sink);
    (sink.told, std::mem::take(&mut sink.taken))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn anything_may_stand_anywhere(which in 0..FILES.len(), changes in prop::collection::vec((0_usize..700, any_json()), 1..6)) {
        let (format, name) = FILES[which];
        let mut document: Value = serde_json::from_str(&text(name)).unwrap();
        for (place, by) in &changes {
            replace(&mut document, *place, by);
        }
        let (first, taken) = told(format, &document.to_string());
        prop_assert_eq!(taken.problems.len(), 0, "what a reader tells can be put together");
        prop_assert_eq!(told(format, &document.to_string()).0, first);
    }

    #[test]
    fn a_file_may_end_anywhere(which in 0..FILES.len(), end in 0.0..1.0_f64) {
        let (format, name) = FILES[which];
        let whole = text(name);
        let end = whole.floor_char_boundary((whole.len() as f64 * end) as usize);
        let found = read_text(format, &whole[..end]);
        prop_assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
    }
}

#[test]
fn elements_that_are_no_conversations_are_told_one_by_one() {
    let list = json!([1, null, "x", [], {}, {"mapping": 1, "id": "a"}, {"chat_messages": {}, "uuid": "a"}]).to_string();
    for format in [Format::ChatGpt, Format::ClaudeAi] {
        let problems = read_text(format, &list).problems;
        let lines: Vec<u64> = problems.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7], "{problems:?}");
    }
}

#[test]
fn depth_is_no_danger() {
    let deep = format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000));
    let problems = read_text(Format::ChatGpt, &deep).problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].1.starts_with("element 1 is no JSON"), "{problems:?}");
}

#[test]
fn a_conversation_may_be_very_long() {
    let mut mapping = serde_json::Map::new();
    for index in 0..20_000 {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        let parent = (index > 0).then(|| format!("n{}", index - 1));
        let content = json!({"content_type": "text", "parts": ["x"]});
        let message = json!({"author": {"role": role}, "content": content});
        mapping.insert(format!("n{index}"), json!({"parent": parent, "message": message}));
    }
    let list = json!([{"id": "c", "create_time": 1.0, "mapping": mapping}]).to_string();
    let found = read_text(Format::ChatGpt, &list);
    assert_eq!((found.turns.len(), found.messages.len()), (10_000, 20_000));
}

#[test]
fn letting_go_of_a_long_log_takes_no_stack() {
    let tools = SpawnTools::default();
    let mut log = LogPreparer::new(Preparer {
        prices: &BundledPrices,
        spawn_tools: &tools,
    });
    let mut behind = None;
    for index in 0..100_000 {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        let json = json!({"role": role, "content": "x"}).to_string().into();
        let provider = Provider::OpenAiChat;
        behind = Some(log.message(&LogMessage { behind, provider, json }).unwrap());
    }
    log.forget_messages();
    let json = json!({"role": "user", "content": "x"}).to_string().into();
    let provider = Provider::OpenAiChat;
    assert!(
        log.message(&LogMessage { behind, provider, json }).is_err(),
        "it is gone"
    );
}

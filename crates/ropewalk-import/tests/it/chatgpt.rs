use ropewalk_import::Format;
use ropewalk_store::Micros;
use serde_json::{Value, json};

use crate::support::{Collected, Folder, fixture, read, read_text, text};

fn export() -> Collected {
    read(Format::ChatGpt, &fixture("chatgpt/conversations.json"))
}

#[test]
fn edits_and_regenerations_stand_beside_each_other() {
    let found = export();
    assert_eq!(found.problems, []);
    assert_eq!(found.ids(), ["say-1", "say-1b", "say-2", "say-2b", "code-b", "say-b"]);
    let asked = |id: &str| found.request(id).last().unwrap()["content"].clone();
    assert_eq!(asked("say-1"), "Which knot holds a mooring line?");
    assert_eq!(found.turn("say-1").asked, found.turn("say-1b").asked);
    assert_eq!(
        (asked("say-2"), asked("say-2b")),
        (
            json!("And to join two ropes?"),
            json!("And to join two ropes of different size?")
        )
    );
    let before = |id: &str| found.request(id)[..3].to_vec();
    assert_eq!(before("say-2"), before("say-2b"), "both stand behind the first answer");
    assert_eq!(
        before("say-2")[2],
        json!({"role": "assistant", "content": "A bowline."})
    );
}

#[test]
fn times_titles_and_models_are_what_the_export_says() {
    let found = export();
    let seconds = |seconds: f64| Micros((seconds * 1e6) as i64);
    let first = found.turn("say-1");
    assert_eq!(
        (first.at, first.ended_at),
        (seconds(1_740_000_001.5), Some(seconds(1_740_000_003.0)))
    );
    // A second answer was not asked for when the first one was.
    assert_eq!(found.turn("say-1b").at, seconds(1_740_000_060.0));
    assert_eq!(first.model.as_deref(), Some("gpt-4o"));
    assert_eq!(
        first.hints,
        [("x-session-id".to_owned(), "conversation-knots".to_owned())]
    );
    let title = |id: &str, title: &str| (id.to_owned(), title.to_owned());
    assert_eq!(
        found.titles,
        [
            title("conversation-knots", "Knots for a dinghy"),
            title("conversation-tides", "Tide table")
        ]
    );
    assert_eq!(found.answer("say-1").get("usage"), None, "nobody counted");
}

#[test]
fn what_the_user_set_for_all_conversations_is_the_system_prompt() {
    let system = &export().request("say-1")[0];
    assert_eq!(
        *system,
        json!({"role": "system", "content": "I sail a small dinghy.\nKeep it short."})
    );
}

#[test]
fn a_message_to_a_tool_is_a_call_and_thoughts_belong_to_it() {
    let found = export();
    let call = found.answer("code-b")["choices"][0]["message"].clone();
    assert_eq!(call["reasoning_content"], "The file has two columns.");
    assert_eq!(
        call["tool_calls"][0]["function"],
        json!({"name": "python", "arguments": "print(max(heights))"})
    );
    assert_eq!(found.turn("code-b").provenance.aliases, ["think-b"]);
    let result = found.request("say-b").pop().unwrap();
    assert_eq!(
        result,
        json!({"role": "tool", "tool_call_id": "code-b", "name": "python", "content": "4.2\n"})
    );
    assert_eq!(call["tool_calls"][0]["id"], result["tool_call_id"]);
    assert_eq!(found.answer("say-b")["choices"][0]["finish_reason"], "length");
}

#[test]
fn pictures_and_files_are_named() {
    let content = export().request("code-b")[0]["content"].clone();
    assert_eq!(
        content,
        json!([
            {"type": "image_url", "image_url": {"url": "file-service://file-chart"}},
            {"type": "text", "text": "Plot the tides of this chart."},
            {"type": "file", "file": {"file_id": "file-table", "filename": "tides.csv"}},
        ])
    );
}

#[test]
fn what_has_no_place_is_counted_by_its_name() {
    assert_eq!(export().skipped, ["content of type `hologram`"]);
}

#[test]
fn the_archive_reads_like_the_file() {
    let folder = Folder::new();
    let list = text("chatgpt/conversations.json");
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let half = |at: usize| json!([list[at]]).to_string();
    let archive = folder.zip(
        "export.zip",
        &[
            ("chat.html", "<html>"),
            ("user.json", "{}"),
            ("conversations-000.json", &half(0)),
            ("conversations-001.json", &half(1)),
            ("file-chart.png", "png"),
        ],
    );
    let found = read(Format::ChatGpt, &archive);
    assert_eq!(found.ids(), export().ids());
    assert_eq!(found.request("say-b"), export().request("say-b"));
    assert_eq!(
        found.skipped,
        [
            "chat.html: the same conversations for reading",
            "content of type `hologram`",
            "another file of the archive",
            "user.json: the account, no conversations",
        ]
    );
}

#[test]
fn a_file_that_breaks_off_gives_what_came_before() {
    let whole = text("chatgpt/conversations.json");
    let found = read_text(Format::ChatGpt, &whole[..whole.len() - 500]);
    assert_eq!(found.ids(), ["say-1", "say-1b", "say-2", "say-2b"]);
    let at = whole.len() - 500;
    assert_eq!(
        found.problems,
        [(
            2,
            format!("behind element 2: the file ends in the middle, at byte {at}")
        )]
    );
}

fn conversation(mapping: &Value) -> Value {
    json!([{"id": "c", "create_time": 5.0, "mapping": mapping}])
}

fn node(parent: Option<&str>, role: &str, said: &str) -> Value {
    json!({"parent": parent, "message": {"author": {"role": role}, "content": {"content_type": "text", "parts": [said]}}})
}

#[test]
fn messages_without_times_or_in_circles_are_kept() {
    let found = read_text(
        Format::ChatGpt,
        &conversation(&json!({
            "a": node(Some("b"), "user", "who was first?"),
            "b": node(Some("a"), "assistant", "I was"),
            "c": node(Some("gone"), "user", "an orphan"),
            "d": node(Some("c"), "assistant", "of nobody"),
        }))
        .to_string(),
    );
    assert_eq!(found.problems, [(1, "conversation `c`: 1 circles were cut".to_owned())]);
    assert_eq!(found.ids(), ["d", "b"]);
    assert!(found.turns.iter().all(|turn| turn.at == Micros(5_000_000)));
}

#[test]
fn a_long_chain_of_branching_pieces_stays_linear() {
    // Every piece of one long answer is also answered by the user: each would repeat all pieces before it.
    let mut mapping = serde_json::Map::new();
    mapping.insert("q".to_owned(), node(None, "user", "go on"));
    let count = 3_000;
    for index in 0..count {
        let parent = if index == 0 {
            "q".to_owned()
        } else {
            format!("a{}", index - 1)
        };
        mapping.insert(format!("a{index}"), node(Some(&parent), "assistant", "and"));
        mapping.insert(format!("u{index}"), node(Some(&format!("a{index}")), "user", "so?"));
    }
    let found = read_text(Format::ChatGpt, &conversation(&Value::Object(mapping)).to_string());
    assert_eq!(found.turns.len(), count);
    let said: usize = found.messages.iter().map(|(_, json)| json.len()).sum();
    assert!(said < count * 64 * 64, "{said}");
}

#[test]
fn reading_stops_when_it_is_told_to() {
    let mut found = Collected {
        turns_max: Some(2),
        ..Collected::default()
    };
    crate::support::read_into(Format::ChatGpt, &fixture("chatgpt/conversations.json"), &mut found);
    assert_eq!(found.ids(), ["say-1", "say-1b"]);
}

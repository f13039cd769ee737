use ropewalk_import::Format;
use serde_json::json;

use crate::support::{Collected, Folder, fixture, read, read_text, text};

fn export() -> Collected {
    read(Format::ClaudeAi, &fixture("claude-ai/conversations.json"))
}

#[test]
fn an_answer_is_as_many_calls_as_its_tools_made_it() {
    let found = export();
    assert_eq!(found.problems, []);
    assert_eq!(found.ids(), ["m-2:1", "m-2", "m-2b", "m-4", "o-2", "o-4"]);
    let first = found.answer("m-2:1");
    assert_eq!(first["stop_reason"], "tool_use");
    assert_eq!(
        first["content"][2],
        json!({"type": "tool_use", "id": "toolu_oar", "name": "web_search", "input": {"query": "varnish spruce oar"}})
    );
    let request = found.request("m-2");
    assert_eq!(request[1], json!({"role": "assistant", "content": first["content"]}));
    assert_eq!(request[2]["role"], "user");
    assert_eq!(request[2]["content"][0]["tool_use_id"], "toolu_oar");
    assert_eq!(
        request[2]["content"][0]["content"],
        json!([{"type": "text", "text": "Five coats of varnish."}])
    );
    assert_eq!(
        found.answer("m-2")["content"],
        json!([{"type": "text", "text": "Varnish, five coats."}])
    );
}

#[test]
fn calls_have_the_times_of_their_blocks() {
    let found = export();
    let times = |id: &str| {
        let turn = found.turn(id);
        let second = |micros: ropewalk_store::Micros| micros.0 / 1_000_000 % 60;
        (second(turn.at), turn.ended_at.map(second))
    };
    assert_eq!(times("m-2:1"), (1, Some(5)));
    assert_eq!(times("m-2"), (7, Some(9)));
    assert_eq!(
        times("m-2b"),
        (0, Some(0)),
        "it was asked for when it came, five minutes later"
    );
}

#[test]
fn a_regeneration_stands_behind_the_same_question() {
    let found = export();
    assert_eq!(found.turn("m-2b").asked, found.turn("m-2:1").asked);
    assert_eq!(found.request("m-4").len(), 5);
    assert_eq!(found.turn("m-4").project.as_deref(), Some("boat"));
}

#[test]
fn files_come_before_the_text() {
    let content = export().request("m-2b")[0]["content"].clone();
    let document = json!({"type": "text", "media_type": "text/plain", "data": "spruce, 2 m"});
    assert_eq!(
        content,
        json!([
            {"type": "document", "source": document, "title": "oar.txt"},
            {"type": "image", "source": {"type": "file", "file_id": "f-1"}, "title": "oar.jpg"},
            {"type": "text", "text": "Varnish or oil for an oar?"},
        ])
    );
}

#[test]
fn older_exports_are_one_message_behind_the_other() {
    let found = export();
    let said = |text: &str| json!([{"type": "text", "text": text}]);
    let request = found.request("o-4");
    assert_eq!(request.len(), 3);
    assert_eq!(
        request[1],
        json!({"role": "assistant", "content": said("A seat across a boat.")})
    );
    let titles: Vec<&str> = found.titles.iter().map(|(_, title)| &**title).collect();
    assert_eq!(titles, ["Varnish or oil"], "an empty name is no title");
}

#[test]
fn the_archive_has_other_files_too() {
    let folder = Folder::new();
    let conversations = text("claude-ai/conversations.json");
    let members = [
        ("data/conversations.json", &*conversations),
        ("data/projects.json", "[]"),
        ("data/users.json", "[]"),
    ];
    let found = read(Format::ClaudeAi, &folder.zip("data.zip", &members));
    assert_eq!(found.ids(), export().ids());
    assert_eq!(
        found.skipped,
        [
            "projects.json: projects, no conversations",
            "users.json: the account, no conversations"
        ]
    );
}

#[test]
fn unknown_blocks_are_counted_and_circles_cut() {
    let message = |id: &str, parent: &str, sender: &str, kind: &str| {
        json!({"uuid": id, "parent_message_uuid": parent, "sender": sender, "created_at": "2025-01-01T00:00:00Z",
               "content": [{"type": kind, "text": "said"}]})
    };
    let list = json!([{"uuid": "c", "created_at": "2025-01-01T00:00:00Z", "chat_messages": [
        message("a", "b", "human", "text"), message("b", "a", "assistant", "mystery"), message("c", "b", "assistant", "voice_note"),
    ]}]);
    let found = read_text(Format::ClaudeAi, &list.to_string());
    assert_eq!(found.problems, [(1, "conversation `c`: 1 circles were cut".to_owned())]);
    assert_eq!(found.skipped, ["block of type `mystery`"]);
    assert_eq!(found.ids(), ["c"]);
    assert_eq!(found.answer("c")["content"], json!([{"type": "text", "text": "said"}]));
}

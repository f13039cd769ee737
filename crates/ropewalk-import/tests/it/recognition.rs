use std::io::Write as _;

use ropewalk_import::{Format, beside_conversations};

use crate::support::{Folder, fixture, text};

#[test]
fn documents_are_known_by_how_they_begin() {
    let folder = Folder::new();
    for (name, format) in [
        ("chatgpt/conversations.json", Format::ChatGpt),
        ("claude-ai/conversations.json", Format::ClaudeAi),
        ("browser.har", Format::Har),
    ] {
        assert_eq!(Format::of_document(&fixture(name)), Some(format));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text(name).as_bytes()).unwrap();
        assert_eq!(
            Format::of_document(&folder.file("packed.gz", packed.finish().unwrap())),
            Some(format)
        );
    }
    for name in ["llm-before-0.32.sql", "llm-0.32.sql"] {
        let folder = Folder::new();
        assert_eq!(Format::of_document(&folder.database(name)), Some(Format::Llm));
    }
}

#[test]
fn archives_are_known_by_what_is_in_them() {
    let folder = Folder::new();
    let chatgpt = text("chatgpt/conversations.json");
    let claude = text("claude-ai/conversations.json");
    let of = |name: &str, members: &[(&str, &str)]| Format::of_document(&folder.zip(name, members));
    assert_eq!(
        of("a.zip", &[("user.json", "{}"), ("conversations.json", &chatgpt)]),
        Some(Format::ChatGpt)
    );
    assert_eq!(
        of("b.zip", &[("x/conversations.json", &claude), ("x/users.json", "[]")]),
        Some(Format::ClaudeAi)
    );
    assert_eq!(of("c.zip", &[("holiday.jpg", "jpg")]), None);
}

#[test]
fn what_is_no_document_is_left_to_its_lines() {
    let folder = Folder::new();
    for text in [
        "",
        "[]",
        "{\"type\":\"user\",\"uuid\":\"x\"}\n{\"type\":\"assistant\"}\n",
        "{\"v\":1,\"id\":\"x\",\"request\":{}}\n",
        "PK\u{3}\u{4}broken",
        "SQLite format 3\0broken",
        "[{\"title\":\"x\"}]",
        "[[[[[[",
    ] {
        assert_eq!(Format::of_document(&folder.file("other", text)), None, "{text}");
    }
    assert_eq!(Format::of_document(&folder.path("gone")), None);
}

#[test]
fn files_beside_the_conversations_have_a_reason_to_be_left_out() {
    assert_eq!(
        beside_conversations("projects.json"),
        Some("projects.json: projects, no conversations")
    );
    assert_eq!(beside_conversations("conversations.json"), None);
}

//! The chain's values, frozen. If one of these changes, every stored link breaks: make a new version instead.

use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{
    Block, ChainStart, Media, MediaKind, MediaSource, Message, Role, ToolContent, ToolInput, ToolResult, ToolUse,
};

fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message {
        role,
        is_string: false,
        blocks,
        extra: None,
    }
}

fn text(text: &str) -> Block {
    Block::Text {
        text: text.into(),
        extra: None,
    }
}

fn tool_use(id: Option<&str>, name: &str, input: &str) -> Block {
    Block::ToolUse(ToolUse {
        id: id.map(Into::into),
        name: name.into(),
        input: ToolInput::Json(input.into()),
        extra: None,
    })
}

fn tool_result(id: Option<&str>, name: Option<&str>, is_error: bool, content: ToolContent) -> Block {
    Block::ToolResult(ToolResult {
        tool_use_id: id.map(Into::into),
        name: name.map(Into::into),
        is_error,
        content,
        extra: None,
    })
}

fn media(kind: MediaKind, media_type: Option<&str>, source: MediaSource) -> Block {
    Block::Media(Media {
        kind,
        media_type: media_type.map(Into::into),
        source,
        extra: None,
    })
}

fn last_node(start: &ChainStart, messages: &[Message]) -> NodeHash {
    let mut nodes = Vec::new();
    let root = chain::root(start);
    messages
        .iter()
        .fold(root, |parent, message| chain::extend(parent, message, &mut nodes))
}

/// Name, chain, and the node it must end in.
fn chains() -> Vec<(&'static str, ChainStart, Vec<Message>, &'static str)> {
    let user = |blocks| message(Role::User, blocks);
    let assistant = |blocks| message(Role::Assistant, blocks);
    let mixed = ToolContent::Blocks {
        blocks: vec![
            text("one"),
            text(" "),
            media(MediaKind::Image, Some("image/png"), MediaSource::Base64("AAEC".into())),
            Block::Other {
                kind: "x".into(),
                json: r#"{"type":"x","b":1.0,"a":"é","cache_control":{}}"#.into(),
            },
        ],
        json: "[]".into(),
    };
    vec![
        ("nothing", ChainStart::Root, vec![], GOLDEN[0]),
        (
            "nothing after `resp_1`",
            ChainStart::Previous("resp_1".into()),
            vec![],
            GOLDEN[1],
        ),
        (
            "user `Hello`",
            ChainStart::Root,
            vec![user(vec![text("Hello")])],
            GOLDEN[2],
        ),
        (
            "user `Hello`, assistant `Hi!`",
            ChainStart::Root,
            vec![
                user(vec![text(" Hello\r\n<system-reminder>x</system-reminder>")]),
                assistant(vec![text("Hi!")]),
            ],
            GOLDEN[3],
        ),
        (
            "assistant tool_use (`toolu_1`, `Read`), user tool_result (`toolu_1`, `ok`, error)",
            ChainStart::Root,
            vec![
                assistant(vec![tool_use(Some("toolu_1"), "Read", r#"{"ignored":true}"#)]),
                user(vec![tool_result(
                    Some("toolu_1"),
                    None,
                    true,
                    ToolContent::Text("ok".into()),
                )]),
            ],
            GOLDEN[4],
        ),
        (
            "assistant tool_use without id (`f`, `{\"a\":1,\"b\":2}`), user tool_result (name `f`, items text, image, other)",
            ChainStart::Root,
            vec![
                assistant(vec![tool_use(None, "f", r#"{"b":2, "a":1}"#)]),
                user(vec![tool_result(None, Some("f"), false, mixed)]),
            ],
            GOLDEN[5],
        ),
        (
            "user image by data, document by url, audio by file id, text document; assistant reference `msg_1`",
            ChainStart::Root,
            vec![
                user(vec![
                    media(MediaKind::Image, Some("image/png"), MediaSource::Base64("AAEC".into())),
                    media(
                        MediaKind::Document,
                        None,
                        MediaSource::Url("https://example.org/a.pdf".into()),
                    ),
                    media(
                        MediaKind::Audio,
                        Some("audio/wav"),
                        MediaSource::FileId("file_1".into()),
                    ),
                    media(
                        MediaKind::Document,
                        Some("text/plain"),
                        MediaSource::Text("plain".into()),
                    ),
                ]),
                assistant(vec![Block::Reference { id: "msg_1".into() }]),
            ],
            GOLDEN[6],
        ),
    ]
}

const GOLDEN: [&str; 7] = [
    "v1:53599f9b6496e324117312beb419a1cf2a8dc2a57ad96579d47a4af040d91e5a",
    "v1:7ee8330777586ec614235e446c27c501d03070b38ea92804dfbb68aa764913d2",
    "v1:81821591675843ba8bb32671ebf6007c8a99497957efc3cd12db7e18409f7ceb",
    "v1:94b00a5da4997b87260accfe4a61f84d8f02758a8ba21763867838adef3dbdb1",
    "v1:1bfddc617c9e830ce6fe2c6c779f29a80cba56d1e541c76de86a02eaecbd55ed",
    "v1:d0c2a93474ef61258b9a50474a48899477a24a6882076359837cbce3d617cb8d",
    "v1:630d80e00c564ada7e2b1739dc73d13eaff6eb411aa1c6aac09ff41c23670cb1",
];

#[test]
fn the_chain_gives_its_frozen_values() {
    for (name, start, messages, expected) in chains() {
        assert_eq!(last_node(&start, &messages).to_string(), expected, "{name}");
    }
}

#[test]
fn the_document_shows_the_frozen_values() {
    let document = include_str!("../../../../docs/hashing.md");
    for (name, _, _, node) in chains() {
        assert!(
            document.contains(&format!("| {name} | `{node}` |")),
            "| {name} | `{node}` |"
        );
    }
}

#[test]
fn what_is_outside_the_chain_changes_nothing() {
    let thinking = Block::Thinking {
        text: "hm".into(),
        kind: "thinking".into(),
        extra: None,
    };
    let plain = [
        message(Role::User, vec![text("a")]),
        message(Role::Assistant, vec![text("b")]),
    ];
    let dressed = [
        message(Role::System, vec![text("context")]),
        message(
            Role::User,
            vec![text("<system-reminder>x</system-reminder>"), text("a\n")],
        ),
        message(Role::Assistant, vec![thinking, text("b"), text(" \n")]),
    ];
    assert_eq!(
        last_node(&ChainStart::Root, &plain),
        last_node(&ChainStart::Root, &dressed)
    );
}

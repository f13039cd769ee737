//! No two different sequences share a chain.

use std::collections::HashMap;

use proptest::prelude::*;
use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Block, ChainStart, Message, Role, ToolContent, ToolInput, ToolResult, ToolUse};

/// Texts made of what joins could be confused about: separators, tags, lengths, each other's beginnings.
fn tricky() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a"),
        Just("b"),
        Just("ab"),
        Just("\n"),
        Just("|"),
        Just(":"),
        Just("\0"),
        Just("u"),
        Just("t"),
        Just("text"),
        Just("v1:node\0"),
        Just("\u{1}"),
        Just("[0]"),
    ];
    proptest::collection::vec(piece, 1..4).prop_map(|pieces| format!("x{}x", pieces.concat()))
}

fn block() -> impl Strategy<Value = Block> {
    let text = |text: String| Block::Text {
        text: text.into(),
        extra: None,
    };
    prop_oneof![
        tricky().prop_map(text),
        (tricky(), tricky()).prop_map(|(id, name)| Block::ToolUse(ToolUse {
            id: Some(id.into()),
            name: name.into(),
            input: ToolInput::Json("{}".into()),
            extra: None,
        })),
        (tricky(), proptest::collection::vec(tricky(), 0..3), any::<bool>()).prop_map(move |(id, texts, is_error)| {
            let content = ToolContent::Blocks {
                blocks: texts.into_iter().map(text).collect(),
                json: "[]".into(),
            };
            Block::ToolResult(ToolResult {
                tool_use_id: Some(id.into()),
                name: None,
                is_error,
                content,
                extra: None,
            })
        }),
        tricky().prop_map(|id| Block::Reference { id: id.into() }),
        tricky().prop_map(|text| Block::Other {
            kind: "o".into(),
            json: serde_json::json!({ "type": text }).to_string().into(),
        }),
    ]
}

type Said = Vec<(Role, Block)>;

fn said() -> impl Strategy<Value = Said> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    proptest::collection::vec((role, block()), 0..5)
}

fn node(said: &Said) -> NodeHash {
    let mut last = chain::root(&ChainStart::Root);
    for (role, block) in said {
        let message = Message {
            role: *role,
            is_string: false,
            blocks: vec![block.clone()],
            extra: None,
        };
        last = chain::extend(last, &message, &mut Vec::new());
    }
    last
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn different_sequences_have_different_nodes(many in proptest::collection::vec(said(), 2..120)) {
        let mut by_node: HashMap<NodeHash, Said> = HashMap::new();
        for said in many {
            if let Some(other) = by_node.insert(node(&said), said.clone()) {
                prop_assert_eq!(other, said);
            }
        }
    }

    #[test]
    fn how_blocks_are_grouped_into_messages_does_not_matter(said in said(), cut in 0_usize..5) {
        let blocks: Vec<Block> = said.iter().map(|(_, block)| block.clone()).collect();
        let cut = cut.min(blocks.len());
        let group = |blocks: &[Block]| Message { role: Role::User, is_string: false, blocks: blocks.to_vec(), extra: None };
        let root = chain::root(&ChainStart::Root);
        let (mut whole, mut halves) = (Vec::new(), Vec::new());
        chain::extend(root, &group(&blocks), &mut whole);
        let middle = chain::extend(root, &group(&blocks[..cut]), &mut halves);
        chain::extend(middle, &group(&blocks[cut..]), &mut halves);
        prop_assert_eq!(whole, halves);
    }
}

proptest! {
    #[test]
    fn what_has_a_value_is_known_without_hashing(block in block(), spaces in "[ \n\u{a0}]{0,3}", is_system in any::<bool>()) {
        let role = if is_system { Role::System } else { Role::User };
        let reminder = "<system-reminder>\nbe brief\n</system-reminder>";
        let text = |text: String| Block::Text { text: text.into(), extra: None };
        for block in [block, text(spaces.clone()), text(format!("{spaces}{reminder}{spaces}")), text(format!("x{reminder}"))] {
            let has_value = chain::value(role, &block, &|_| None).is_some();
            prop_assert_eq!(chain::has_value(role, &block), has_value, "{:?}", block);
        }
    }
}

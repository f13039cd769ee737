//! The tree of seed 004: its four examples, its table of summaries, and the damage it must survive.

use std::fmt::Write as _;

use proptest::prelude::*;
use ropewalk_core::hierarchy::{
    Aliases, BranchPosition, MessageKind, Part, Place, Record, ToolOutput, branches, extract, place, tool_summary,
};
use ropewalk_core::json::Doc;

fn record(uuid: &str, parent: Option<&str>, kind: MessageKind) -> Record {
    Record {
        uuid: uuid.to_owned(),
        parent_uuid: parent.map(str::to_owned),
        kind,
        flagged_sidechain: false,
        in_subagent: false,
        at: None,
    }
}

fn user(uuid: &str, parent: &str) -> Record {
    record(uuid, (!parent.is_empty()).then_some(parent), MessageKind::User)
}

fn assistant(uuid: &str, parent: &str) -> Record {
    record(uuid, Some(parent), MessageKind::Assistant)
}

/// An assistant's record with one call, and the tool messages taken out of it.
fn calling(uuid: &str, parent: &str, tool: &str) -> Vec<Record> {
    let json = format!(r#"[{{"type":"tool_use","id":"{uuid}-call","name":"{tool}","input":{{}}}}]"#);
    let parts = Part::from_json(Doc::parse_str(&json).unwrap().root());
    let output = ToolOutput {
        tool_use_id: Some(format!("{uuid}-call")),
        text: "done".to_owned(),
        is_error: false,
    };
    let mut records = vec![assistant(uuid, parent)];
    for message in extract(uuid, &parts, &[output]).messages {
        records.push(record(&message.uuid, Some(&message.parent_uuid), message.kind));
    }
    records
}

fn placed(records: &[Record]) -> Vec<Place> {
    place(records, &Aliases::new(), |_| false)
}

/// The tree as the seed draws it, two spaces a level.
fn drawn(records: &[Record]) -> String {
    let places = placed(records);
    let mut out = String::new();
    let mut open: Vec<(usize, usize)> = (0..records.len())
        .rev()
        .filter(|at| places[*at].parent().is_none())
        .map(|at| (at, 0))
        .collect();
    while let Some((at, depth)) = open.pop() {
        writeln!(
            out,
            "{}{} {}",
            "  ".repeat(depth),
            records[at].kind.name(),
            records[at].uuid
        )
        .unwrap();
        let children = (0..records.len())
            .rev()
            .filter(|child| places[*child] == Place::Below(at));
        open.extend(children.map(|child| (child, depth + 1)));
    }
    out
}

fn no_branches(records: &[Record]) -> bool {
    branches(records, &placed(records))
        .iter()
        .flatten()
        .all(|branch| branch.of == 1)
}

#[test]
fn seed_004_example_1_simple_tool_use() {
    let mut records = vec![user("u1", ""), assistant("a1", "u1")];
    records.extend(calling("a2", "a1", "Read"));
    records.extend([user("u2", "a2"), assistant("a3", "u2")]);
    insta::assert_snapshot!(drawn(&records), @r"
    user u1
      assistant a1
        assistant a2
          tool_use a2_tool_0
            tool_result a2_result_0
          user u2
            assistant a3
    ");
    assert!(no_branches(&records));
}

#[test]
fn seed_004_example_2_multiple_tool_uses() {
    let mut records = vec![user("u1", ""), assistant("a1", "u1")];
    records.extend(calling("a2", "a1", "Read"));
    records.extend(calling("a3", "a2", "Read"));
    records.extend([assistant("a4", "a3"), user("u2", "a4")]);
    insta::assert_snapshot!(drawn(&records), @r"
    user u1
      assistant a1
        assistant a2
          tool_use a2_tool_0
            tool_result a2_result_0
          assistant a3
            tool_use a3_tool_0
              tool_result a3_result_0
            assistant a4
              user u2
    ");
    assert!(no_branches(&records));
}

#[test]
fn seed_004_example_3_complex_tool_chain() {
    let mut records = vec![user("u1", ""), assistant("a1", "u1")];
    for (i, tool) in ["Glob", "Read", "Edit", "Read", "Edit"].into_iter().enumerate() {
        records.extend(calling(&format!("a{}", i + 2), &format!("a{}", i + 1), tool));
    }
    records.push(assistant("a7", "a6"));
    let main_flow: Vec<&str> = records
        .iter()
        .filter(|record| !record.is_sidechain())
        .map(|record| &*record.uuid)
        .collect();
    assert_eq!(main_flow, ["u1", "a1", "a2", "a3", "a4", "a5", "a6", "a7"]);
    assert!(no_branches(&records));
    let places = placed(&records);
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.kind.is_tool()) {
        let parent = places[at].parent().unwrap();
        let expected = match record.kind {
            MessageKind::ToolUse => MessageKind::Assistant,
            _ => MessageKind::ToolUse,
        };
        assert_eq!(records[parent].kind, expected, "{}", record.uuid);
    }
}

#[test]
fn seed_004_example_4_real_world_record() {
    let line = r#"{"type":"assistant","uuid":"msg-3","parentUuid":"msg-2","message":{"role":"assistant",
        "content":[{"type":"tool_use", "id":"tool-001", "name":"LS", "input":{"path":"/projects/demo"}}]}}"#;
    let doc = Doc::parse_str(line).unwrap();
    let parts = Part::from_json(doc.root().get("message").unwrap().get("content").unwrap());
    let listing = "src/\nconfig.json\npackage.json\nREADME.md\ntests/";
    let output = ToolOutput {
        tool_use_id: Some("tool-001".to_owned()),
        text: listing.to_owned(),
        is_error: false,
    };
    let extracted = extract("msg-3", &parts, &[output]);
    assert_eq!(extracted.content, "📁 Listing directory: /projects/demo");
    let messages: Vec<_> = extracted
        .messages
        .iter()
        .map(|message| (&*message.uuid, &*message.parent_uuid, message.kind, &*message.content))
        .collect();
    let block = r#"{"type":"tool_use","id":"tool-001","name":"LS","input":{"path":"/projects/demo"}}"#;
    let expected = [
        ("msg-3_tool_0", "msg-3", MessageKind::ToolUse, block),
        ("msg-3_result_0", "msg-3_tool_0", MessageKind::ToolResult, listing),
    ];
    assert_eq!(messages, expected);
    assert_eq!(extracted.unpaired, [0_usize; 0]);
}

#[test]
fn outputs_pair_by_id_and_by_position_only_without_one() {
    let json = r#"[{"type":"text","text":"Both."},
        {"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a"}},
        {"type":"thinking","thinking":"hm"},
        {"type":"tool_use","id":"t2","name":"Read","input":{"file_path":"b"}},
        {"type":"tool_use","name":"Custom","input":{}}]"#;
    let parts = Part::from_json(Doc::parse_str(json).unwrap().root());
    let output = |id: Option<&str>, text: &str| ToolOutput {
        tool_use_id: id.map(str::to_owned),
        text: text.to_owned(),
        is_error: false,
    };
    let outputs = [
        output(Some("t2"), "two"),
        output(None, "first free"),
        output(Some("gone"), "x"),
        output(Some("t2"), "again"),
    ];
    let extracted = extract("a", &parts, &outputs);
    assert_eq!(
        extracted.content,
        "Both.\n📄 Reading file: a\n📄 Reading file: b\n🔧 Using tool: Custom"
    );
    let results: Vec<_> = extracted
        .messages
        .iter()
        .filter(|message| message.kind == MessageKind::ToolResult)
        .map(|message| (&*message.uuid, &*message.content))
        .collect();
    assert_eq!(results, [("a_result_0", "first free"), ("a_result_1", "two")]);
    assert_eq!(extracted.unpaired, [2]);
}

#[test]
fn summaries_are_those_of_the_table() {
    let sixty = "x".repeat(60);
    for (name, input, summary) in [
        ("Read", r#"{"file_path":"/a"}"#, "📄 Reading file: /a"),
        ("Write", r#"{"file_path":"/a"}"#, "✏️ Writing to file: /a"),
        ("Edit", r#"{"file_path":"/a"}"#, "✏️ Editing file: /a"),
        (
            "MultiEdit",
            r#"{"file_path":"/a","edits":[{},{}]}"#,
            "✏️ Multiple edits (2) to: /a",
        ),
        ("LS", r#"{"path":"/a"}"#, "📁 Listing directory: /a"),
        ("Glob", r#"{"pattern":"*.rs"}"#, "🔍 Finding files matching: *.rs"),
        ("Grep", r#"{"pattern":"fn"}"#, "🔍 Searching for: fn"),
        (
            "Bash",
            &format!(r#"{{"command":"{sixty}"}}"#),
            &format!("💻 Running command: {sixty}"),
        ),
        (
            "Bash",
            &format!(r#"{{"command":"{sixty}y"}}"#),
            &format!("💻 Running command: {sixty}..."),
        ),
        ("WebSearch", r#"{"query":"q"}"#, "🌐 Web search: q"),
        ("WebFetch", r#"{"url":"u"}"#, "🌐 Fetching: u"),
        ("NotebookRead", r#"{"notebook_path":"n"}"#, "📓 Reading notebook: n"),
        ("NotebookEdit", r#"{"notebook_path":"n"}"#, "📓 Editing notebook: n"),
        ("TodoWrite", r#"{"todos":[1,2,3]}"#, "📝 Updating todo list (3 items)"),
        ("Task", r#"{"description":"d"}"#, "🤖 Running agent task: d"),
        ("Agent", r#"{"description":"d"}"#, "🤖 Running agent task: d"),
        ("ExitPlanMode", "{}", "📋 Exiting plan mode"),
        ("mcp__x__y", "{}", "🔧 Using tool: mcp__x__y"),
        ("Read", "{}", "🔧 Using tool: Read"),
        ("Read", "not json", "🔧 Using tool: Read"),
    ] {
        assert_eq!(tool_summary(name, input), summary);
    }
}

#[test]
fn sidechains_are_flagged_tools_and_subagents() {
    let plain = assistant("a", "u");
    assert!(!plain.is_sidechain());
    assert!(
        Record {
            flagged_sidechain: true,
            ..plain.clone()
        }
        .is_sidechain()
    );
    assert!(
        Record {
            in_subagent: true,
            ..plain.clone()
        }
        .is_sidechain()
    );
    assert!(
        Record {
            kind: MessageKind::ToolUse,
            ..plain.clone()
        }
        .is_sidechain()
    );
    assert!(
        Record {
            kind: MessageKind::ToolResult,
            ..plain
        }
        .is_sidechain()
    );
}

#[test]
fn branches_count_siblings_that_are_no_tools() {
    let mut records = vec![user("u1", ""), user("u2", ""), user("b", "a1")];
    records.extend(calling("a1", "u1", "Read"));
    records.extend([user("a", "a1"), record("s", None, MessageKind::Summary)]);
    let positions = branches(&records, &placed(&records));
    let of = |uuid: &str| positions[records.iter().position(|record| record.uuid == uuid).unwrap()];
    let alone = Some(BranchPosition { index: 1, of: 1 });
    assert_eq!(
        (of("u1"), of("u2"), of("a1")),
        (alone, alone, alone),
        "roots are never branches"
    );
    assert_eq!(
        of("a"),
        Some(BranchPosition { index: 1, of: 2 }),
        "by time, then id, not by file order"
    );
    assert_eq!(of("b"), Some(BranchPosition { index: 2, of: 2 }));
    assert_eq!((of("a1_tool_0"), of("a1_result_0"), of("s")), (None, None, None));
}

#[test]
fn parents_are_found_through_aliases_and_elsewhere() {
    let records = [
        user("child", "raw-2"),
        assistant("merged", "gone"),
        user("fork", "other-session"),
        user("lost", "loop-a"),
        record("titled", None, MessageKind::Summary),
        user("under-title", "titled"),
    ];
    let pairs = [
        ("raw-2", "raw-1"),
        ("raw-1", "merged"),
        ("loop-a", "loop-b"),
        ("loop-b", "loop-a"),
    ];
    let aliases: Aliases = pairs
        .iter()
        .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
        .collect();
    let places = place(&records, &aliases, |uuid| uuid == "other-session");
    let expected = [
        Place::Below(1),
        Place::Orphan,
        Place::Elsewhere,
        Place::Orphan,
        Place::Root,
        Place::Orphan,
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_circle_is_cut_at_its_first_member() {
    let records = [
        user("c", "b"),
        user("a", "c"),
        user("b", "a"),
        user("tail", "b"),
        user("self", "self"),
    ];
    let places = placed(&records);
    let expected = [
        Place::Below(2),
        Place::CutCycle,
        Place::Below(1),
        Place::Below(2),
        Place::CutCycle,
    ];
    assert_eq!(places, expected);
}

proptest! {
    #[test]
    fn any_parents_give_a_forest_in_any_order(
        parents in prop::collection::vec(prop::option::of(0..14_usize), 1..12),
        rotation in 0..12_usize,
    ) {
        let name = |at: usize| format!("r{at:02}");
        let records: Vec<Record> = parents
            .iter()
            .enumerate()
            .map(|(at, parent)| record(&name(at), parent.map(name).as_deref(), MessageKind::User))
            .collect();
        let mut rotated = records.clone();
        rotated.rotate_left(rotation % records.len());
        let shape = |records: &[Record]| {
            let mut edges: Vec<String> = placed(records)
                .iter()
                .zip(records)
                .map(|(place, record)| match place {
                    Place::Below(parent) => format!("{} below {}", record.uuid, records[*parent].uuid),
                    other => format!("{} {other:?}", record.uuid),
                })
                .collect();
            edges.sort();
            edges
        };
        prop_assert_eq!(shape(&records), shape(&rotated));
        let places = placed(&records);
        for start in 0..records.len() {
            let walk = std::iter::successors(Some(start), |at| places[*at].parent());
            prop_assert!(walk.take(records.len() + 1).count() <= records.len(), "a circle is left");
        }
    }
}

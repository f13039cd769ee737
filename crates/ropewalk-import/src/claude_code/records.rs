//! Seed 004's rows: records, and the tool operations that are taken out of them.

use ropewalk_core::hierarchy::{call_name, result_name};
use ropewalk_engine::logged::MessageNumber;
use ropewalk_store::log::{RecordKind, RecordRow, TitleBy};

use super::line::{Block, Kind, Line, Titled};
use super::tree::Tree;

type Row = (RecordRow, Option<(MessageNumber, usize)>);

/// The rows of a record: itself, or what takes its place, and its tool operations.
pub(super) fn of(tree: &Tree, place: usize) -> Vec<Row> {
    let line = &tree.lines[place];
    let Some(own) = own_row(tree, line) else {
        return Vec::new();
    };
    let said = tree.said(place);
    let block = |index: usize| said.map(|(message, first)| (message, first + index));
    let blocks = line.message.as_ref().map_or(&[][..], |message| &message.blocks);
    let mut rows = Vec::new();
    let is_results = !blocks.is_empty() && blocks.iter().all(|block| matches!(block, Block::Result(_)));
    let mut calls = 0;
    for (index, found) in blocks.iter().enumerate() {
        match found {
            Block::Call(id) if line.kind == Kind::Assistant => {
                let (name, parent) = (call_name(&own.uuid, calls), Some(own.uuid.clone()));
                calls += 1;
                let row = own.tool_operation(RecordKind::ToolUse, name, parent, id.as_deref().map(str::to_owned));
                rows.push((row, block(index)));
            }
            Block::Result(id) if line.kind == Kind::User => {
                let (name, parent) = result_names(tree, &own, id.as_deref(), index);
                let row = own.tool_operation(RecordKind::ToolResult, name, parent, id.as_deref().map(str::to_owned));
                rows.push((row, block(index)));
            }
            _ => {}
        }
    }
    let own = match rows.first() {
        Some((result, _)) if is_results => RecordRow {
            kind: RecordKind::Absorbed,
            stands_for: Some(result.uuid.clone()),
            ..own
        },
        _ => own,
    };
    let last = blocks.len().checked_sub(1).and_then(block);
    rows.insert(0, (own, last));
    rows
}

/// `None` for a line that has no name: nothing can hang below it, and it hangs below nothing.
fn own_row(tree: &Tree, line: &Line) -> Option<RecordRow> {
    let uuid = line.uuid.as_deref();
    let (kind, name) = match line.kind {
        Kind::User => (RecordKind::User, uuid?.to_owned()),
        Kind::Assistant => (RecordKind::Assistant, uuid?.to_owned()),
        Kind::Between => (RecordKind::Other, uuid?.to_owned()),
        Kind::Title(Titled::Record) => (RecordKind::Summary, TitleBy::Record(uuid?).name()),
        Kind::Title(Titled::ByClient) => (RecordKind::Summary, TitleBy::Client(line.number).name()),
        Kind::Title(Titled::ByUser) => (RecordKind::Summary, TitleBy::User(line.number).name()),
    };
    let is_first = line.parent.is_none() && line.agent.is_some();
    Some(RecordRow {
        session: session(tree, line),
        uuid: name,
        parent: line.parent.as_deref().map(str::to_owned),
        kind,
        is_sidechain: line.is_sidechain,
        at: line.at,
        agent: line.agent.as_deref().map(str::to_owned),
        message: line
            .message
            .as_ref()
            .and_then(|message| message.id.as_deref())
            .map(str::to_owned),
        node: None,
        tool_use: tree.facts.spawned_by.clone().filter(|_| is_first),
        stands_for: match line.kind {
            Kind::Title(Titled::Record) => uuid.map(str::to_owned),
            _ => line.logical_parent.as_deref().map(str::to_owned),
        },
        text: line.text.clone(),
        file: tree.facts.name.clone(),
        line: line.number,
    })
}

/// Titles of old logs say no session; the file's name does.
fn session(tree: &Tree, line: &Line) -> String {
    let known = line.session.as_deref();
    let others = || tree.lines.iter().find_map(|line| line.session.as_deref());
    let file = || {
        tree.facts
            .name
            .rsplit('/')
            .next()
            .and_then(|name| name.split('.').next())
    };
    known.or_else(others).or_else(file).unwrap_or_default().to_owned()
}

/// A result is named after the record of its call, and hangs below the call. Where there is no such call it keeps its record's name
/// and parent, and is found as an orphan.
fn result_names(tree: &Tree, own: &RecordRow, call: Option<&str>, index: usize) -> (String, Option<String>) {
    let place = call.and_then(|call| tree.calls.get(call)).copied();
    let found = place.and_then(|place| {
        let line = &tree.lines[place];
        let blocks = &line.message.as_ref()?.blocks;
        let calls = blocks.iter().filter(|block| matches!(block, Block::Call(_)));
        let index = calls
            .into_iter()
            .position(|block| matches!(block, Block::Call(Some(id)) if Some(&**id) == call))?;
        let uuid = line.uuid.as_deref()?;
        Some((result_name(uuid, index), Some(call_name(uuid, index))))
    });
    found.unwrap_or_else(|| (result_name(&own.uuid, index), own.parent.clone()))
}

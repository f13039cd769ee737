//! Responses: the answer begun, items and their parts added, grown and done, and the whole answer again at the end.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};

use super::{event, object};
use crate::stream::growing::Growing;

/// The answer that events make: the last one has it, but for servers that leave its output out there.
pub(super) fn whole(datas: &[String]) -> Option<String> {
    let mut items: BTreeMap<u64, String> = BTreeMap::new();
    for data in datas {
        let doc = Doc::parse_str(data).ok()?;
        let event = doc.root();
        match &*event.get_str("type")? {
            "response.output_item.done" => {
                let index = event.get("output_index")?.as_u64()?;
                items.insert(index, event.get("item")?.raw().to_owned());
            }
            "response.completed" | "response.incomplete" => {
                let response = event.get("response")?;
                if response
                    .get("output")
                    .is_some_and(|output| output.items().next().is_some())
                    || items.is_empty()
                {
                    return Some(response.raw().to_owned());
                }
                let mut response = Growing::of(response);
                let items: Vec<String> = items.into_values().collect();
                *response.member("output")? = Growing::raw(format!("[{}]", items.join(",")));
                return Some(response.to_json());
            }
            _ => {}
        }
    }
    None
}

/// Writes events, each with its number.
#[derive(Default)]
struct Writer {
    out: String,
    sequence: u64,
}

impl Writer {
    fn add<'m>(&mut self, kind: &str, members: impl IntoIterator<Item = (&'m str, String)>) {
        let name = [
            ("type", format!("\"{kind}\"")),
            ("sequence_number", self.sequence.to_string()),
        ];
        self.sequence += 1;
        self.out
            .push_str(&event(kind, &object(name.into_iter().chain(members))));
    }
}

/// An object with some members replaced.
fn with(node: Node<'_>, replaced: &[(&str, &str)]) -> Option<String> {
    let mut members = Vec::new();
    for (name, value) in node.members() {
        let name = name.to_text()?;
        let json = replaced.iter().find(|(known, _)| *known == name);
        members.push((name, json.map_or(value.raw(), |(_, json)| json).to_owned()));
    }
    Some(object(members.iter().map(|(name, json)| (&**name, json.clone()))))
}

/// The events of an answer.
pub(super) fn events(response: Node<'_>) -> Option<String> {
    let mut to = Writer::default();
    let begun = with(
        response,
        &[
            ("status", "\"in_progress\""),
            ("output", "[]"),
            ("usage", "null"),
            ("incomplete_details", "null"),
            ("completed_at", "null"),
        ],
    )?;
    to.add("response.created", [("response", begun.clone())]);
    to.add("response.in_progress", [("response", begun)]);
    for (index, item) in response.get("output")?.items().enumerate() {
        item_events(index, item, &mut to)?;
    }
    let end = match &*response.get_str("status")? {
        "completed" => "response.completed",
        "incomplete" => "response.incomplete",
        _ => return None,
    };
    to.add(end, [("response", response.raw().to_owned())]);
    Some(to.out)
}

fn item_events(index: usize, item: Node<'_>, to: &mut Writer) -> Option<()> {
    let begun = with(
        item,
        &[
            ("status", "\"in_progress\""),
            ("content", "[]"),
            ("summary", "[]"),
            ("arguments", "\"\""),
            ("input", "\"\""),
        ],
    )?;
    let place = ("output_index", index.to_string());
    to.add("response.output_item.added", [place.clone(), ("item", begun)]);
    let id = ("item_id", item.get("id").map_or("\"\"", |id| id.raw()).to_owned());
    let place_of_item = [id, place.clone()];
    let kind = item.get_str("type").unwrap_or_default();
    let pieces: &[(&str, &str)] = match &*kind {
        "function_call" | "mcp_call" => &[("arguments", "function_call_arguments")],
        "custom_tool_call" => &[("input", "custom_tool_call_input")],
        _ => &[],
    };
    for (member, piece) in pieces {
        let piece = if kind == "mcp_call" {
            "mcp_call_arguments"
        } else {
            piece
        };
        if let Some(text) = item.get(member).filter(|text| text.is_string()) {
            let delta = place_of_item
                .clone()
                .into_iter()
                .chain([("delta", text.raw().to_owned())]);
            to.add(&format!("response.{piece}.delta"), delta);
            let done = place_of_item
                .clone()
                .into_iter()
                .chain([(*member, text.raw().to_owned())]);
            to.add(&format!("response.{piece}.done"), done);
        }
    }
    for (list, part_name) in [("summary", "reasoning_summary_part"), ("content", "content_part")] {
        let parts = item.get(list).into_iter().flat_map(|parts| parts.items());
        for (at, part) in parts.enumerate() {
            let list_index = if list == "summary" {
                "summary_index"
            } else {
                "content_index"
            };
            let place = place_of_item.clone().into_iter().chain([(list_index, at.to_string())]);
            part_events(part, part_name, &place.collect::<Vec<_>>(), to)?;
        }
    }
    to.add("response.output_item.done", [place, ("item", item.raw().to_owned())]);
    Some(())
}

fn part_events(part: Node<'_>, part_name: &str, place: &[(&str, String)], to: &mut Writer) -> Option<()> {
    let kind = part.get_str("type").unwrap_or_default();
    let (member, piece) = match &*kind {
        "output_text" => ("text", "output_text"),
        "refusal" => ("refusal", "refusal"),
        "reasoning_text" => ("text", "reasoning_text"),
        "summary_text" => ("text", "reasoning_summary_text"),
        _ => ("", ""),
    };
    let begun = with(part, &[(member, "\"\""), ("annotations", "[]"), ("logprobs", "[]")])?;
    let at = |more: [(&'static str, String); 1]| place.iter().cloned().chain(more).collect::<Vec<_>>();
    to.add(&format!("response.{part_name}.added"), at([("part", begun)]));
    if let Some(text) = part.get(member).filter(|text| text.is_string()) {
        to.add(
            &format!("response.{piece}.delta"),
            at([("delta", text.raw().to_owned())]),
        );
        let annotations = part.get("annotations").into_iter().flat_map(|all| all.items());
        for (number, annotation) in annotations.enumerate() {
            let mut members = at([("annotation_index", number.to_string())]);
            members.push(("annotation", annotation.raw().to_owned()));
            to.add("response.output_text.annotation.added", members);
        }
        let text = if member == "refusal" { "refusal" } else { "text" };
        let value = part.get(member).map_or("\"\"", |text| text.raw()).to_owned();
        to.add(&format!("response.{piece}.done"), at([(text, value)]));
    }
    to.add(
        &format!("response.{part_name}.done"),
        at([("part", part.raw().to_owned())]),
    );
    Some(())
}

//! What programs see: one JSON object a line, each with its version and of a known shape.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Stage, changing, shown, words};
use crate::{stderr, stdout};

/// What people are shown elsewhere, or not alike twice.
pub(super) fn only_for_programs() -> Vec<Vec<&'static str>> {
    words(&["demo --pace 1", "export --format exchanges", "config"])
}

/// A value's shape: the names of members, and of what kind they are. Lists have the shape of all that is in them.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(values) => {
            let shapes = values.iter().map(shape).reduce(merged);
            json!([shapes.unwrap_or_else(|| json!("nothing"))])
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), shape(value)))
            .collect(),
    }
}

/// What fits both.
fn merged(a: Value, b: Value) -> Value {
    match (a, b) {
        (a, b) if a == b => a,
        (Value::Object(a), Value::Object(mut b)) => {
            let mut both = serde_json::Map::new();
            for (name, a) in a {
                let b = b.remove(&name);
                both.insert(name, b.map_or(a.clone(), |b| merged(a, b)));
            }
            both.extend(b);
            Value::Object(both)
        }
        (Value::Array(mut a), Value::Array(mut b)) => match (a.pop(), b.pop()) {
            (Some(a), Some(b)) => json!([merged(a, b)]),
            (one, other) => json!([one.or(other)]),
        },
        (Value::String(a), Value::String(b)) if a == "null" || a == "nothing" => json!(format!("{b}?")),
        (Value::String(a), Value::String(b)) if b == "null" || b == "nothing" => {
            json!(format!("{}?", a.trim_end_matches('?')))
        }
        (Value::String(a), other) | (other, Value::String(a)) if a == "null" || a == "nothing" => other,
        (a, _) => a,
    }
}

/// Members whose names are data: models, agents, days.
fn without_names(arguments: &[&str], value: &mut Value) {
    if arguments[0] != "stats" {
        return;
    }
    for map in ["models", "by"] {
        if let Some(members) = value.get_mut(map).and_then(Value::as_object_mut) {
            let any = members.values().cloned().reduce(merged);
            members.clear();
            members.extend(any.map(|any| ("*".to_owned(), any)));
        }
    }
}

/// Written in a form of its own: a page of messages as seed 004 has it, or a request as its provider takes it.
fn has_a_form_of_its_own(arguments: &[&str], line: &Value) -> bool {
    let is_list_of_messages = line.get("messages").is_some() && line.get("total").is_some();
    let is_a_request = arguments[0] == "replay" && arguments.contains(&"--dry-run");
    is_list_of_messages || is_a_request
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_see_versioned_objects_of_known_shapes() {
    let stage = Stage::set().await;
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    let mut without_version = Vec::new();
    // What is printed for people to read elsewhere has no JSON.
    let with_json = shown().into_iter().filter(|arguments| !arguments.contains(&"markdown"));
    for arguments in with_json.chain(only_for_programs()).chain(changing()) {
        let mut asked = vec!["--json"];
        asked.extend(&arguments);
        let output = stage.run_at(80, &asked);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        let lines = json_lines(&stdout(&output));
        for line in &lines {
            if line["v"] != 1 && !has_a_form_of_its_own(&arguments, line) {
                without_version.push(format!("{arguments:?}: {line}"));
            }
        }
        let shapes = lines.iter().map(|line| {
            let mut shape = shape(line);
            without_names(&arguments, &mut shape);
            shape
        });
        let whole = shapes.reduce(merged).unwrap_or_else(|| json!("nothing"));
        let mut name = arguments.join(" ");
        // After the changes it shows more.
        while all.contains_key(&name) {
            name.push_str(" (later)");
        }
        all.insert(name, whole);
    }
    let failed = stage.run_at(80, &["--json", "show", "nothing"]);
    all.insert("error".to_owned(), shape(&json_lines(&stderr(&failed))[0]));
    assert!(without_version.is_empty(), "no version: {without_version:#?}");
    insta::assert_json_snapshot!("json_shapes", all);
}

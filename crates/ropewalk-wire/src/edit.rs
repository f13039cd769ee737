//! Members of a body, set or taken out, with the bytes of all others as they were.

use std::fmt::Write as _;

use ropewalk_core::json::{Doc, Node, Style, quote};

/// One member of a body: the names that lead to it, and its value as JSON; `None` takes it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub path: Vec<String>,
    pub value: Option<String>,
}

/// The body with its members as the edits say, each after the ones before it. `None` where it is no JSON object.
pub fn edited(body: &[u8], edits: &[Edit]) -> Option<String> {
    let mut text = std::str::from_utf8(body).ok()?.to_owned();
    for edit in edits {
        let next = {
            let doc = Doc::parse_str(&text).ok()?;
            let root = Some(doc.root()).filter(Node::is_object)?;
            with_member(Some(root), &edit.path, edit.value.as_deref())?
        };
        text = next;
    }
    Doc::parse_str(&text).ok()?.root().is_object().then_some(text)
}

/// An object with one member changed; what is no object is replaced by one that has it.
fn with_member(object: Option<Node<'_>>, path: &[String], value: Option<&str>) -> Option<String> {
    let (name, rest) = path.split_first()?;
    let inner = |known: Option<Node<'_>>| match (rest.is_empty(), value) {
        (true, value) => Some(value.map(str::to_owned)),
        // Nothing is made only to take something out of it.
        (false, None) if known.is_none() => Some(None),
        (false, value) => with_member(known, rest, value).map(Some),
    };
    let mut out = String::from("{");
    let mut is_met = false;
    let mut add = |key: &str, value: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        // Writing to a text never fails.
        let _ = write!(out, "{key}:{value}");
    };
    for (key, known) in object.filter(Node::is_object).iter().flat_map(Node::members) {
        if !key.is(name) {
            add(key.raw(), known.raw());
            continue;
        }
        // Of two members of one name, the first one stays.
        if !std::mem::replace(&mut is_met, true)
            && let Some(value) = inner(Some(known))?
        {
            add(key.raw(), &value);
        }
    }
    if !is_met && let Some(value) = inner(None)? {
        add(&quote(name, Style::Plain), &value);
    }
    out.push('}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, path: &str, value: Option<&str>, expected: &str) {
        let edit = Edit {
            path: path.split('.').map(str::to_owned).collect(),
            value: value.map(str::to_owned),
        };
        assert_eq!(edited(body.as_bytes(), &[edit]).as_deref(), Some(expected));
    }

    #[test]
    fn a_member_is_set_and_all_others_keep_their_bytes() {
        let body = r#"{"model": "a",  "messages": [ {"role":"user","content":"\u0041 1.0"} ], "n": 1.0}"#;
        check(
            body,
            "model",
            Some(r#""b""#),
            r#"{"model":"b","messages":[ {"role":"user","content":"\u0041 1.0"} ],"n":1.0}"#,
        );
        check(
            body,
            "temperature",
            Some("0"),
            r#"{"model":"a","messages":[ {"role":"user","content":"\u0041 1.0"} ],"n":1.0,"temperature":0}"#,
        );
        check("{}", "a", Some("1"), r#"{"a":1}"#);
    }

    #[test]
    fn a_member_is_taken_out_and_one_inside_another_is_reached() {
        check(r#"{"a":1,"b":2}"#, "a", None, r#"{"b":2}"#);
        check(r#"{"a":1}"#, "b", None, r#"{"a":1}"#);
        check(r#"{"c":{"x":1,"y":2}}"#, "c.y", Some("3"), r#"{"c":{"x":1,"y":3}}"#);
        check(r#"{"a":1}"#, "c.y", Some("3"), r#"{"a":1,"c":{"y":3}}"#);
        check(r#"{"a":1}"#, "c.y", None, r#"{"a":1}"#);
        check(r#"{"a":1,"a":2}"#, "a", Some("3"), r#"{"a":3}"#);
    }

    #[test]
    fn what_is_no_object_is_not_edited() {
        let edit = |value: &str| Edit {
            path: vec!["a".to_owned()],
            value: Some(value.to_owned()),
        };
        assert_eq!(edited(b"[1]", &[edit("1")]), None);
        assert_eq!(edited(b"{\"a\":", &[edit("1")]), None);
        assert_eq!(edited(b"{}", &[edit("no JSON")]), None);
    }
}

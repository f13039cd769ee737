//! JSON that grows by deltas.
//!
//! What no delta touched stays the text that was sent. A string that grows is kept as its undecoded literal, so
//! that appending is copying, a character whose surrogates came in two deltas is whole again, and the
//! finished value is written as the provider would have written it.
//!
//! Invariants: a value is always well-formed JSON when written; an object has at most [`MAX_MEMBERS`], a list
//! at most [`MAX_ELEMENTS`], and what goes beyond is left out. The total size is the accumulator's concern.

use ropewalk_core::json::{Doc, Kind, Node};

/// Members of one growing object. Real ones have about ten; the bound keeps the search for a member cheap
/// when a hostile stream invents a new name in every delta.
pub(crate) const MAX_MEMBERS: usize = 512;

/// Elements of one growing list: citations, annotations, calls. Inserting in front of many is the cost it bounds.
pub(crate) const MAX_ELEMENTS: usize = 16_384;

/// Members that name something: repeated in later deltas, they replace and do not append.
const NAMES: [&str; 5] = ["id", "type", "role", "name", "index"];

#[derive(Debug, Clone)]
pub(crate) enum Growing {
    /// Any value as it was written.
    Raw(Box<str>),
    /// The interior of a string literal.
    Literal(String),
    /// Elements by their index, in its order; indices may have gaps.
    List(Vec<(u64, Growing)>),
    Object(Vec<(Box<str>, Growing)>),
}

impl Growing {
    pub(crate) fn null() -> Self {
        Growing::Raw("null".into())
    }

    /// Takes a value over as it was written.
    pub(crate) fn of(value: Node<'_>) -> Self {
        Growing::Raw(value.raw().into())
    }

    /// A value that is written already.
    pub(crate) fn raw(json: String) -> Self {
        Growing::Raw(json.into())
    }

    /// The member of that name, made if missing. `None` if the object is full.
    pub(crate) fn member(&mut self, key: &str) -> Option<&mut Growing> {
        let members = self.open_object();
        let at = match members.iter().rposition(|(name, _)| &**name == key) {
            Some(at) => at,
            None if members.len() >= MAX_MEMBERS => return None,
            None => {
                members.push((key.into(), Growing::null()));
                members.len() - 1
            }
        };
        Some(&mut members[at].1)
    }

    /// The element of that index, made if missing. `None` if the list is full.
    pub(crate) fn element(&mut self, index: u64) -> Option<&mut Growing> {
        let elements = self.open_list();
        let at = match elements.binary_search_by_key(&index, |(i, _)| *i) {
            Ok(at) => at,
            Err(_) if elements.len() >= MAX_ELEMENTS => return None,
            Err(at) => {
                elements.insert(at, (index, Growing::null()));
                at
            }
        };
        Some(&mut elements[at].1)
    }

    /// Appends a value to a list.
    pub(crate) fn push(&mut self, value: Node<'_>) {
        let elements = self.open_list();
        let index = elements.last().map_or(0, |(last, _)| last.saturating_add(1));
        if elements.len() < MAX_ELEMENTS {
            elements.push((index, Growing::of(value)));
        }
    }

    /// Appends the undecoded interior of a string literal to a string.
    pub(crate) fn append(&mut self, literal: &str) {
        if let Growing::Literal(text) = self {
            text.push_str(literal);
            return;
        }
        let mut text = String::new();
        if let Growing::Raw(raw) = &*self
            && let Some(start) = raw.strip_prefix('"')
        {
            text.push_str(start.strip_suffix('"').unwrap_or(start));
        }
        text.push_str(literal);
        *self = Growing::Literal(text);
    }

    /// Merges a delta: texts append, lists with indices merge by index, objects member by member.
    pub(crate) fn merge(&mut self, delta: Node<'_>) {
        match delta.kind() {
            Kind::Null => {}
            Kind::String => self.append(delta.literal().unwrap_or_default()),
            Kind::True | Kind::False | Kind::Number => *self = Growing::of(delta),
            Kind::Array => {
                self.open_list();
                for item in delta.items() {
                    match item.get("index").and_then(|index| index.as_u64()) {
                        Some(index) => {
                            if let Some(element) = self.element(index) {
                                element.merge(item);
                            }
                        }
                        None => self.push(item),
                    }
                }
            }
            Kind::Object => {
                self.open_object();
                for (key, value) in delta.members() {
                    let key = key.as_str().unwrap_or_default();
                    self.merge_member(&key, value);
                }
            }
        }
    }

    fn merge_member(&mut self, key: &str, value: Node<'_>) {
        let is_empty = value.is_null() || value.literal() == Some("");
        if let Some(member) = self.member(key) {
            if !NAMES.contains(&key) {
                member.merge(value);
            } else if !is_empty {
                *member = Growing::of(value);
            }
        }
    }

    /// Sets a member that is missing or null.
    pub(crate) fn set_if_missing(&mut self, key: &str, text: &str) {
        if let Some(member) = self.member(key)
            && matches!(member, Growing::Raw(raw) if &**raw == "null")
        {
            *member = Growing::Literal(text.to_owned());
        }
    }

    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Growing::Raw(raw) => out.push_str(raw),
            Growing::Literal(literal) => {
                out.push('"');
                out.push_str(literal);
                out.push('"');
            }
            Growing::List(elements) => {
                out.push('[');
                for (position, (_, element)) in elements.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
            Growing::Object(members) => {
                out.push('{');
                for (position, (key, value)) in members.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    write_key(key, out);
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    fn open_object(&mut self) -> &mut Vec<(Box<str>, Growing)> {
        if !matches!(self, Growing::Object(_)) {
            let raw = std::mem::replace(self, Growing::Object(Vec::new()));
            if let Growing::Raw(raw) = raw
                && let Ok(doc) = Doc::parse_str(&raw)
            {
                let members = doc.root().members().take(MAX_MEMBERS);
                let members = members.map(|(key, value)| (key.as_str().unwrap_or_default().into(), Growing::of(value)));
                *self = Growing::Object(members.collect());
            }
        }
        match self {
            Growing::Object(members) => members,
            _ => unreachable!("the value was made an object above"),
        }
    }

    fn open_list(&mut self) -> &mut Vec<(u64, Growing)> {
        if !matches!(self, Growing::List(_)) {
            let raw = std::mem::replace(self, Growing::List(Vec::new()));
            if let Growing::Raw(raw) = raw
                && let Ok(doc) = Doc::parse_str(&raw)
            {
                let items = doc.root().items().map(Growing::of);
                *self = Growing::List((0..).zip(items).collect());
            }
        }
        match self {
            Growing::List(elements) => elements,
            _ => unreachable!("the value was made a list above"),
        }
    }
}

fn write_key(key: &str, out: &mut String) {
    let mut escaped = Vec::with_capacity(key.len());
    ropewalk_core::json::encode_into(key, ropewalk_core::json::Style::Plain, &mut escaped);
    out.push('"');
    out.push_str(&String::from_utf8_lossy(&escaped));
    out.push_str("\":");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(deltas: &[&str], expected: &str) {
        let mut value = Growing::null();
        for delta in deltas {
            value.merge(Doc::parse_str(delta).unwrap().root());
        }
        assert_eq!(value.to_json(), expected);
    }

    #[test]
    fn merges_as_streams_mean_it() {
        check(
            &[r#"{"a":"x"}"#, r#"{"a":"y","b":1}"#, r#"{"b":2,"a":null}"#],
            r#"{"a":"xy","b":2}"#,
        );
        check(
            &[r#"[{"index":1,"t":"b"}]"#, r#"[{"index":0,"t":"a"}]"#],
            r#"[{"index":0,"t":"a"},{"index":1,"t":"b"}]"#,
        );
        check(&["[1]", "[2]"], "[1,2]");
        check(&[r#"{"id":"1"}"#, r#"{"id":"1"}"#, r#"{"id":""}"#], r#"{"id":"1"}"#);
    }

    #[test]
    fn joins_a_surrogate_pair_over_two_deltas() {
        check(&[r#""\ud83d""#, r#""\ude00""#], r#""\ud83d\ude00""#);
    }

    #[test]
    fn changing_kinds_stay_well_formed() {
        check(&["1", r#""a""#, "[2]", r#"{"k\"":3}"#], r#"{"k\"":3}"#);
    }

    #[test]
    fn a_full_object_takes_no_more_members() {
        let mut value = Growing::null();
        for i in 0..2 * MAX_MEMBERS {
            value.member(&i.to_string());
        }
        let json = value.to_json();
        assert_eq!(Doc::parse_str(&json).unwrap().root().members().count(), MAX_MEMBERS);
    }
}

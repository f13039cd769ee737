//! The written forms that hashes are taken over. Each is pinned by vectors; none depends on a crate's features.

use super::string::{self, Style};
use super::tape::{Kind, Node};

/// `JSON.stringify(JSON.parse(text))`: compact, members in the order received, but integer-like keys
/// first in ascending order and a repeated key at its first place with its last value.
pub fn to_compact_js(node: Node<'_>) -> String {
    let mut out = Vec::new();
    write(node, &JAVASCRIPT, &mut out);
    into_string(out)
}

/// Python's `json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))`.
pub fn to_python(node: Node<'_>) -> String {
    let mut out = Vec::new();
    write(node, &PYTHON, &mut out);
    into_string(out)
}

/// Ours, for blocks we do not interpret: keys sorted by code point, numbers as written, text as UTF-8,
/// members for which `skip` says yes left out at every depth.
pub fn to_sorted(node: Node<'_>, skip: &dyn Fn(&str, Node<'_>) -> bool) -> String {
    let mut out = Vec::new();
    let form = Form { skip, ..SORTED };
    write(node, &form, &mut out);
    into_string(out)
}

fn into_string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("only whole characters are written")
}

#[derive(Clone, Copy)]
struct Form<'f> {
    style: Style,
    number: fn(&str) -> String,
    order: Order,
    skip: &'f dyn Fn(&str, Node<'_>) -> bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    JavaScript,
    Sorted,
}

const NOTHING: &dyn Fn(&str, Node<'_>) -> bool = &|_, _| false;
const JAVASCRIPT: Form<'static> = Form {
    style: Style::Plain,
    number: javascript_number,
    order: Order::JavaScript,
    skip: NOTHING,
};
const PYTHON: Form<'static> = Form {
    style: Style::Ascii,
    number: python_number,
    order: Order::Sorted,
    skip: NOTHING,
};
const SORTED: Form<'static> = Form {
    style: Style::Plain,
    number: str::to_owned,
    order: Order::Sorted,
    skip: NOTHING,
};

fn write(node: Node<'_>, form: &Form<'_>, out: &mut Vec<u8>) {
    match node.kind() {
        Kind::Null => out.extend_from_slice(b"null"),
        Kind::True => out.extend_from_slice(b"true"),
        Kind::False => out.extend_from_slice(b"false"),
        Kind::Number => out.extend_from_slice((form.number)(node.raw()).as_bytes()),
        Kind::String => {
            out.push(b'"');
            string::recode_into(node.literal().unwrap_or_default(), form.style, out);
            out.push(b'"');
        }
        Kind::Array => {
            out.push(b'[');
            for (i, item) in node.items().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, form, out);
            }
            out.push(b']');
        }
        Kind::Object => {
            out.push(b'{');
            for (i, (key, value)) in ordered_members(node, form).into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(&key, form.style, out);
                out.push(b':');
                write(value, form, out);
            }
            out.push(b'}');
        }
    }
}

fn write_string(text: &str, style: Style, out: &mut Vec<u8>) {
    out.push(b'"');
    string::encode_into(text, style, out);
    out.push(b'"');
}

fn ordered_members<'d>(node: Node<'d>, form: &Form<'_>) -> Vec<(String, Node<'d>)> {
    let mut members: Vec<(String, Node<'d>)> = Vec::new();
    let mut place_of = std::collections::HashMap::new();
    for (key, value) in node.members() {
        let key = key.to_text().unwrap_or_default();
        if (form.skip)(&key, value) {
            continue;
        }
        match place_of.get(&key) {
            Some(&place) => {
                let member: &mut (String, Node<'d>) = &mut members[place];
                member.1 = value;
            }
            None => {
                place_of.insert(key.clone(), members.len());
                members.push((key, value));
            }
        }
    }
    match form.order {
        Order::Sorted => members.sort_by(|a, b| a.0.cmp(&b.0)),
        // Stable: keys that are no integers keep their order behind those that are.
        Order::JavaScript => members.sort_by_key(|(key, _)| array_index(key).unwrap_or(u32::MAX)),
    }
    members
}

/// JavaScript's array index: a canonical decimal below 2^32 - 1.
fn array_index(key: &str) -> Option<u32> {
    let index: u32 = key.parse().ok()?;
    (index < u32::MAX && index.to_string() == key).then_some(index)
}

/// Shortest digits that read back as the same double, and the decimal exponent of the first one.
fn shortest_digits(value: f64) -> (String, i32) {
    let written = format!("{:e}", value.abs());
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let digits = mantissa.replace('.', "");
    (digits, exponent.parse().unwrap_or(0))
}

/// ECMAScript's Number::toString of the double nearest to the token.
fn javascript_number(token: &str) -> String {
    let value: f64 = token.parse().unwrap_or(f64::NAN);
    if !value.is_finite() {
        // JSON.stringify writes what does not fit a double as null.
        return "null".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let (digits, exponent) = shortest_digits(value);
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", place_point(&digits, exponent, -7, 21, false))
}

/// Python's repr: integers exact at any length, floats shortest with a point or an exponent.
fn python_number(token: &str) -> String {
    if !token.contains(['.', 'e', 'E']) {
        return if token == "-0" { "0" } else { token }.to_owned();
    }
    let value: f64 = token.parse().unwrap_or(f64::NAN);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let (digits, exponent) = shortest_digits(value);
    format!("{sign}{}", place_point(&digits, exponent, -5, 16, true))
}

/// Writes digits plainly while `low < exponent < high`, else with an exponent. Python pads the exponent
/// to two digits and marks whole floats with `.0`.
fn place_point(digits: &str, exponent: i32, low: i32, high: i32, python: bool) -> String {
    if exponent <= low || exponent >= high {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        let width = if python { 2 } else { 1 };
        return format!("{first}{point}{rest}e{sign}{:0width$}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        let zeros = "0".repeat(whole - digits.len());
        let tail = if python { ".0" } else { "" };
        return format!("{digits}{zeros}{tail}");
    }
    let (before, after) = digits.split_at(whole);
    format!("{before}.{after}")
}

#[cfg(test)]
mod tests {
    use super::super::tape::Doc;
    use super::*;

    fn js(text: &str) -> String {
        to_compact_js(Doc::parse_str(text).unwrap().root())
    }

    fn python(text: &str) -> String {
        to_python(Doc::parse_str(text).unwrap().root())
    }

    #[test]
    fn javascript_form_is_what_json_stringify_gives() {
        for (text, expected) in [
            (r#"{ "b" : 1 , "a" : "é" }"#, r#"{"b":1,"a":"é"}"#),
            (r#"{"x":1,"10":2,"9":3,"01":4}"#, r#"{"9":3,"10":2,"x":1,"01":4}"#),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
            (
                "[1.0,1e3,-0,1e21,123456789012345680000,1e-7,0.000001,0.1]",
                "[1,1000,0,1e+21,123456789012345680000,1e-7,0.000001,0.1]",
            ),
            ("12345678901234567890123", "1.2345678901234568e+22"),
            ("1e999", "null"),
            (r#""\uD83D\u00e9 \uDE00""#, r#""\ud83dé \ude00""#),
            (r#""\u00e9\/\u001f\u007f""#, "\"é/\\u001f\u{7f}\""),
        ] {
            assert_eq!(js(text), expected, "{text}");
        }
    }

    #[test]
    fn python_form_is_what_json_dumps_gives() {
        for (text, expected) in [
            (r#"{"b":1,"a":"é😀"}"#, r#"{"a":"\u00e9\ud83d\ude00","b":1}"#),
            (
                "[0,0.0,-0,-0.0,1.50,1e16,1e15,1e-5,0.0001]",
                "[0,0.0,0,-0.0,1.5,1e+16,1000000000000000.0,1e-05,0.0001]",
            ),
            ("12345678901234567890123", "12345678901234567890123"),
            ("[1e999,-1e999]", "[Infinity,-Infinity]"),
            ("\"\u{7f}\"", r#""\u007f""#),
        ] {
            assert_eq!(python(text), expected, "{text}");
        }
    }
}

//! Texts of the user in a request body, and text appended to them, byte for byte.
//!
//! [`user_texts`] gives every text that a user wrote: strings and text blocks of user messages, never tool results, system
//! prompts, documents or what the model said. [`append`] writes behind some of them, inside the same string and in the same style of
//! escaping; every other byte of the body stays.

use std::borrow::Cow;
use std::ops::Range;

use ropewalk_core::json::{Doc, JsonError, Literal, Node, Style, encode_into};
use ropewalk_core::model::Provider;

/// A text of the user, and where its string stands in the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserText<'b> {
    pub text: Cow<'b, str>,
    /// With its quotes.
    pub place: Range<usize>,
    style: Style,
}

/// The user's texts in the order they stand in, those only that `is_wanted` by what stands between their quotes.
pub fn user_texts<'b>(
    provider: Provider,
    body: &'b [u8],
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<Vec<UserText<'b>>, JsonError> {
    let text = std::str::from_utf8(body).map_err(|error| JsonError::NotUtf8 {
        at: error.valid_up_to(),
    })?;
    let doc = Doc::parse_str(text)?;
    let mut nodes = Vec::new();
    texts(provider, doc.root(), &mut nodes);
    nodes.retain(|node| node.literal().is_some_and(|literal| is_wanted(literal.as_bytes())));
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let around = style_of(&doc);
    let read = nodes.iter().filter_map(|node| {
        let place = node.range();
        // From the body itself, which lives longer than the document.
        let literal = Literal::read(text.get(place.start + 1..place.end - 1)?);
        let style = match literal.style {
            Some(style) if style != Style::Plain => style,
            _ if !literal.text.is_ascii() => Style::Plain,
            _ => around,
        };
        Some(UserText {
            text: literal.text,
            place,
            style,
        })
    });
    Ok(read.collect())
}

/// The body with something behind each of these texts, which come in the order they stand in.
pub fn append(body: &[u8], additions: &[(&UserText<'_>, &str)]) -> Vec<u8> {
    let added: usize = additions.iter().map(|(_, added)| added.len() * 2).sum();
    let mut out = Vec::with_capacity(body.len() + added);
    let mut done = 0;
    for (text, added) in additions {
        let end = text.place.end - 1;
        out.extend_from_slice(&body[done..end]);
        encode_into(added, text.style, &mut out);
        done = end;
    }
    out.extend_from_slice(&body[done..]);
    out
}

fn texts<'d>(provider: Provider, root: Node<'d>, found: &mut Vec<Node<'d>>) {
    match provider {
        Provider::Anthropic | Provider::OpenAiChat => {
            for message in items(root.get("messages")) {
                if is(message, "role", "user") {
                    content(message.get("content"), "text", found);
                }
            }
        }
        Provider::OpenAiResponses => {
            let Some(input) = root.get("input") else { return };
            if input.is_string() {
                found.push(input);
            }
            for item in items(Some(input)) {
                let is_message = item.get("type").is_none() || is(item, "type", "message");
                if is_message && is(item, "role", "user") {
                    content(item.get("content"), "input_text", found);
                }
            }
        }
        Provider::Gemini => {
            for message in items(root.get("contents")) {
                if message.get("role").is_none() || is(message, "role", "user") {
                    let parts = items(message.get("parts"));
                    found.extend(parts.into_iter().filter_map(|part| part.get("text")));
                }
            }
        }
    }
}

/// A string, or the texts of blocks of one type.
fn content<'d>(content: Option<Node<'d>>, kind: &str, found: &mut Vec<Node<'d>>) {
    let Some(content) = content else { return };
    if content.is_string() {
        found.push(content);
    }
    let blocks = items(Some(content))
        .into_iter()
        .filter(|block| is(*block, "type", kind));
    found.extend(blocks.filter_map(|block| block.get("text")));
}

fn items(node: Option<Node<'_>>) -> Vec<Node<'_>> {
    node.filter(|node| node.is_array())
        .map(|node| node.items().collect())
        .unwrap_or_default()
}

fn is(node: Node<'_>, member: &str, value: &str) -> bool {
    node.get(member).is_some_and(|node| node.is(value))
}

/// How the rest of the body is escaped, as far as it shows.
fn style_of(doc: &Doc<'_>) -> Style {
    let literals = doc.strings().filter_map(|node| node.literal());
    let shown = literals.filter_map(|literal| match Literal::read(literal) {
        Literal {
            text,
            style: Some(Style::Plain),
        } => (!text.is_ascii()).then_some(Style::Plain),
        Literal { style, .. } => style,
    });
    shown.into_iter().next().unwrap_or(Style::Plain)
}

//! Chat Completions: chunks with a delta for each choice, the tokens in a last one for who asks, and `[DONE]`.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::Request;

use super::{datas, minified, object};
use crate::stream::growing::Growing;

/// Members of a chunk that are not those of the whole.
const OF_CHUNKS: [&str; 4] = ["choices", "object", "obfuscation", "usage"];

/// Whether a request wants tokens to be counted in its stream.
pub(super) fn asks_for_usage(request: &Request) -> bool {
    let doc = request
        .option("stream_options")
        .and_then(|json| Doc::parse_str(json).ok());
    let asks = doc.and_then(|doc| doc.root().get("include_usage")?.as_bool());
    asks == Some(true)
}

/// Whether there is a chunk that counts tokens and nothing else.
pub(super) fn has_usage_event(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    datas(&text).iter().any(|data| is_usage_only(data))
}

fn is_usage_only(data: &str) -> bool {
    let Ok(doc) = Doc::parse_str(data) else { return false };
    let root = doc.root();
    let has_usage = root.get("usage").is_some_and(|usage| !usage.is_null());
    has_usage
        && root
            .get("choices")
            .is_none_or(|choices| choices.items().next().is_none())
}

/// The same stream for a client that did not ask for the count.
pub(super) fn without_usage(text: &str) -> String {
    let kept = datas(text).into_iter().filter(|data| !is_usage_only(data));
    let mut out: String = kept.map(|data| format!("data: {}\n\n", minified(&data))).collect();
    out.push_str("data: [DONE]\n\n");
    out
}

struct Choice {
    message: Growing,
    logprobs: Option<Growing>,
    finish_reason: String,
}

/// The completion that chunks make.
pub(super) fn whole(datas: &[String]) -> Option<String> {
    let mut head = Growing::null();
    let mut choices: BTreeMap<u64, Choice> = BTreeMap::new();
    let mut usage = None;
    for data in datas {
        let doc = Doc::parse_str(data).ok()?;
        let chunk = doc.root();
        for (name, value) in chunk.members() {
            let name = name.to_text()?;
            if !OF_CHUNKS.contains(&&*name) && !value.is_null() {
                *head.member(&name)? = Growing::of(value);
            }
        }
        usage = chunk
            .get("usage")
            .filter(|usage| !usage.is_null())
            .map(|usage| usage.raw().to_owned())
            .or(usage);
        let parts = chunk.get("choices").into_iter().flat_map(|choices| choices.items());
        for part in parts {
            let index = part.get("index").and_then(|index| index.as_u64()).unwrap_or(0);
            choices.entry(index).or_insert_with(Choice::new).add(part);
        }
    }
    *head.member("object")? = Growing::raw("\"chat.completion\"".to_owned());
    let choices: Vec<String> = choices
        .iter()
        .map(|(index, choice)| choice.to_json(*index))
        .collect::<Option<_>>()?;
    *head.member("choices")? = Growing::raw(format!("[{}]", choices.join(",")));
    if let Some(usage) = usage {
        *head.member("usage")? = Growing::raw(usage);
    }
    Some(head.to_json())
}

impl Choice {
    fn new() -> Self {
        Choice {
            message: Growing::null(),
            logprobs: None,
            finish_reason: "null".to_owned(),
        }
    }

    fn add(&mut self, part: Node<'_>) {
        if let Some(delta) = part.get("delta") {
            self.message.merge(delta);
        }
        if let Some(logprobs) = part.get("logprobs").filter(|logprobs| !logprobs.is_null()) {
            self.logprobs.get_or_insert_with(Growing::null).merge(logprobs);
        }
        if let Some(reason) = part.get("finish_reason").filter(|reason| !reason.is_null()) {
            reason.raw().clone_into(&mut self.finish_reason);
        }
    }

    fn to_json(&self, index: u64) -> Option<String> {
        let grown = self.message.to_json();
        let doc = Doc::parse_str(&grown).ok()?;
        let root = doc.root();
        let mut members = vec![("role".to_owned(), "\"assistant\"".to_owned())];
        let content = root.get("content").map_or("null", |content| content.raw());
        members.push(("content".to_owned(), content.to_owned()));
        for (name, value) in root.members() {
            let name = name.to_text()?;
            let json = match &*name {
                "role" | "content" => continue,
                "tool_calls" => without_indices(value)?,
                _ => value.raw().to_owned(),
            };
            members.push((name, json));
        }
        let message = object(members.iter().map(|(name, json)| (&**name, json.clone())));
        let logprobs = self.logprobs.as_ref().map_or("null".to_owned(), Growing::to_json);
        Some(object([
            ("index", index.to_string()),
            ("message", message),
            ("logprobs", logprobs),
            ("finish_reason", self.finish_reason.clone()),
        ]))
    }
}

/// Calls as a whole answer has them: their place is their index.
fn without_indices(calls: Node<'_>) -> Option<String> {
    let mut all = Vec::new();
    for call in calls.items() {
        let mut members = Vec::new();
        for (name, value) in call.members() {
            let name = name.to_text()?;
            if name != "index" {
                members.push((name, value.raw().to_owned()));
            }
        }
        all.push(object(members.iter().map(|(name, json)| (&**name, json.clone()))));
    }
    Some(format!("[{}]", all.join(",")))
}

/// The chunks of a completion.
pub(super) fn events(completion: Node<'_>, counts_tokens: bool) -> Option<String> {
    let mut head = Vec::new();
    for (name, value) in completion.members() {
        let name = name.to_text()?;
        if !OF_CHUNKS.contains(&&*name) {
            head.push((name, value.raw().to_owned()));
        }
    }
    let chunk = |choices: String, usage: Option<&str>| {
        let head = head.iter().map(|(name, json)| (&**name, json.clone()));
        let object_name = ("object", "\"chat.completion.chunk\"".to_owned());
        let rest = [object_name, ("choices", choices)];
        let usage = usage.map(|usage| ("usage", usage.to_owned()));
        let json = object(head.chain(rest).chain(usage));
        format!("data: {}\n\n", minified(&json))
    };
    let unsaid = counts_tokens.then_some("null");
    let mut out = String::new();
    for (position, choice) in (0..).zip(completion.get("choices")?.items()) {
        let index = choice.get("index").and_then(|index| index.as_u64()).unwrap_or(position);
        for (delta, logprobs) in deltas(choice)? {
            let choice = format!(r#"[{{"index":{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":null}}]"#);
            out.push_str(&chunk(choice, unsaid));
        }
        let reason = choice.get("finish_reason").map_or("null", |reason| reason.raw());
        let choice = format!(r#"[{{"index":{index},"delta":{{}},"logprobs":null,"finish_reason":{reason}}}]"#);
        out.push_str(&chunk(choice, unsaid));
    }
    if counts_tokens {
        out.push_str(&chunk("[]".to_owned(), Some(completion.get("usage")?.raw())));
    }
    out.push_str("data: [DONE]\n\n");
    Some(out)
}

/// What a message says first, then each of its calls, each with its log probabilities.
fn deltas(choice: Node<'_>) -> Option<Vec<(String, String)>> {
    let message = choice.get("message")?;
    let mut said = Vec::new();
    for (name, value) in message.members() {
        let name = name.to_text()?;
        if name != "tool_calls" {
            said.push((name, value.raw().to_owned()));
        }
    }
    let logprobs = choice.get("logprobs").map_or("null", |logprobs| logprobs.raw());
    let said = object(said.iter().map(|(name, json)| (&**name, json.clone())));
    let mut deltas = vec![(said, logprobs.to_owned())];
    let calls = message.get("tool_calls").into_iter().flat_map(|calls| calls.items());
    for (index, call) in calls.enumerate() {
        let call = minified(call.raw());
        let rest = call.strip_prefix('{')?;
        let comma = if rest == "}" { "" } else { "," };
        let delta = format!(r#"{{"tool_calls":[{{"index":{index}{comma}{rest}]}}"#);
        deltas.push((delta, "null".to_owned()));
    }
    Some(deltas)
}

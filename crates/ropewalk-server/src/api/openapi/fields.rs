//! What the members of answers and the parameters mean, with an example of each.
//!
//! A name means the same wherever it is used, so it is explained once. A doc comment at a member says more, and wins.

use serde_json::{Map, Value, json};

/// A name, what it means, and an example as JSON; without one for what is made of other things.
type Field = (&'static str, &'static str, &'static str);

#[rustfmt::skip] // A table.
const FIELDS: &[Field] = &[
    ("_id", "The same as `uuid`.", "\"msg_01\""),
    ("a", "The first of the two.", ""),
    ("about", "What it was done to, by its id.", "\"react_optimization_83p6\""),
    ("after", "What is there now.", "\"Be brief. Answer in German.\""),
    ("agent", "The agent that it belongs to.", ""),
    ("agent_id", "The subagent that said it; `null` for the main one.", "\"code-reviewer\""),
    ("agent_type", "The hash of an agent's type, whole.", "\"5f0c2d1a9b7e4c33\""),
    ("agents", "How many agents worked in it, or they themselves.", ""),
    ("answers", "What was answered.", ""),
    ("argument", "The argument that tells most about the call.", "\"src/parser.rs\""),
    ("as_of", "Only what was known then.", "\"2026-03-01T10:00:00Z\""),
    ("at", "When the request was sent.", "\"2026-03-01T10:00:00.000000Z\""),
    ("b", "The second of the two.", ""),
    ("before", "What was there before.", "\"Be brief.\""),
    ("blocks", "Content blocks as the provider has them.", ""),
    ("branch", "Where it stands among branches.", ""),
    ("branch_id", "The branch as it is shown.", "\"main\""),
    ("branch_key", "The branch by a name that never changes.", "\"5f0c2d1a9b7e\""),
    ("branch_kind", "Why the branch is one.", "\"edit\""),
    ("branches", "How many branches it has, or they themselves.", ""),
    ("by_left_out", "Of those, how many cost less and are not given.", "0"),
    ("bytes_in", "Bytes that came.", "1048576"),
    ("cache_read_tokens", "Tokens that came from the provider's cache.", "18000"),
    ("cache_write_1h_tokens", "Of those written, tokens that are kept for an hour.", "0"),
    ("cache_write_tokens", "Tokens that the provider's cache was given.", "1200"),
    ("calls", "Calls of tools.", "31"),
    ("cause", "Why something was lost.", ""),
    ("child_conversation_hashes", "Of the agents that it started.", ""),
    ("client", "The program that sent it, with its version.", "\"claude-code/2.1.197\""),
    ("common", "What both begin with.", ""),
    ("confidence", "From 0 to 1.", "1.0"),
    ("content", "What was said, as text.", "\"Fix the failing tests in parser.rs\""),
    ("context_fill", "How much of the model's window its newest request took, from 0 to 1.", "0.42"),
    ("conversation", "The conversation.", ""),
    ("conversation_hash", "Of the agent's prompt and first answer; `null` until that has ended.", "\"5f0c2d1a9b7e4c33\""),
    ("conversation_id", "The conversation.", "\"0b1f6c1e-7a35-8c8d-9d5b-6f2f4a1c9e10\""),
    ("conversations", "How many conversations, or they themselves.", ""),
    ("cost_usd", "In dollars.", "0.0213"),
    ("cost_usd_estimate", "In dollars, about.", "0.0021"),
    ("created_at", "The same as `timestamp`.", "\"2026-03-01T10:00:00.000000Z\""),
    ("current_message_hash", "Of the transcript (seed 000).", "\"9f86d081884c7d65\""),
    ("cursor", "Where the page before ended: what it gave as the next.", "\"0b1f6c1e-7a35-8c8d-9d5b-6f2f4a1c9e10\""),
    ("depth", "Of those, how many are known.", "12"),
    ("difference", "Where both prompts part.", ""),
    ("discontinuous", "The session is known and what it says is not: recording was interrupted.", "false"),
    ("ended_at", "When the answer had ended.", "\"2026-03-01T10:00:04.120000Z\""),
    ("envelope", "What the bodies were sent with.", ""),
    ("error", "The problem.", ""),
    ("excerpt", "How it begins.", "\"Fix the failing tests\""),
    ("exchange", "The exchange.", ""),
    ("exchange_id", "The exchange.", "\"0199c1f4-0d3e-7c11-a5b2-93c1b7d6a001\""),
    ("exchanges", "How many exchanges, or they themselves.", ""),
    ("exchanges_left_out", "Exchanges that are not given.", "0"),
    ("explained", "In words.", "\"block 2 of the system prompt changed\""),
    ("first_at", "The first time.", "\"2026-03-01T10:00:00.000000Z\""),
    ("first_byte_ms", "From the request to the first byte of the answer.", "420"),
    ("first_exchange_id", "The exchange that came first.", "\"0199c1f4-0d3e-7c11-a5b2-93c1b7d6a001\""),
    ("first_response_hash", "Of the first answer (seed 001).", "\"5f0c2d1a9b7e4c33\""),
    ("first_user_hash", "Of the first prompt (seed 001).", "\"5f0c2d1a9b7e4c33\""),
    ("format", "Whose shape the request has.", "\"anthropic\""),
    ("friendly_id", "The conversation's name for people; `null` until it has one.", "\"react_optimization_83p6\""),
    ("grep", "Words that were said.", "\"parser bug\""),
    ("half", "`request`, `response` or `sent`.", "\"request\""),
    ("hash", "How any hash of it begins.", "\"8182\""),
    ("hash_after", "Of what is there now.", "\"9f86d081884c7d65\""),
    ("hash_before", "Of what was there before.", "\"2c26b46b68ffc68f\""),
    ("hint", "What to do.", "\"give more of it, or the whole id\""),
    ("hits", "What was found, or how often.", ""),
    ("http_method", "As it was sent.", "\"POST\""),
    ("http_status", "Of the answer.", "200"),
    ("http_target", "What was asked for.", "\"/v1/messages\""),
    ("id", "Its own id.", "\"0199c1f4-0d3e-7c11-a5b2-93c1b7d6a001\""),
    ("index", "Its number, from 1.", "5"),
    ("input_node", "The chain of the request.", "\"v1:9f86d081884c7d659a2feaa0c55ad015\""),
    ("input_tokens", "Tokens of the prompt that no cache had.", "1200"),
    ("into_exchange_id", "The exchange that brought it.", "\"0199c1f4-0d3e-7c11-a5b2-93c1b7d6a002\""),
    ("isSidechain", "The same as `is_sidechain`.", "false"),
    ("is_all", "Whether everything was looked at.", "true"),
    ("is_certain", "Whether the bytes were compared.", "true"),
    ("is_main", "Whether it is the conversation's first agent.", "true"),
    ("is_sidechain", "A tool operation, or what a subagent said.", "false"),
    ("kind", "What kind of thing it is.", "\"turn\""),
    ("last", "The last one.", ""),
    ("last_at", "The last time.", "\"2026-03-01T11:30:00.000000Z\""),
    ("latency_ms", "From the request to the end of the answer.", "4120"),
    ("limit", "How many at most.", "50"),
    ("link", "Why it is where it is.", ""),
    ("lost_is_estimate", "Some price is not certain.", "false"),
    ("lost_tokens", "Tokens that could have been read and were not.", "17000"),
    ("lost_usd", "What that cost, in dollars.", "0.046"),
    ("message", "In words.", "\"nothing is named `talk-9`\""),
    ("message_data", "The role and the content, block by block, as they were sent.", "{\"role\": \"user\", \"content\": \"Fix the failing tests\"}"),
    ("message_hash", "Of the last message (seed 000).", "\"9f86d081884c7d65\""),
    ("message_uuid", "The same as `uuid`.", "\"msg_01\""),
    ("messages", "How many messages, or they themselves.", ""),
    ("messages_left_out", "Messages that are not given.", "0"),
    ("method", "How it was found.", "\"prefix\""),
    ("model", "The model that answered.", "\"claude-opus-4-5\""),
    ("models", "By model.", ""),
    ("name", "What it is called.", "\"code-reviewer\""),
    ("next", "The cursor of the next page; `null` on the last.", "\"msg_01\""),
    ("next_cursor", "The cursor of the next page; `null` on the last.", "\"0199c1f4-0d3e-7c11-a5b2-93c1b7d6a001\""),
    ("node", "The position in the chain.", "\"v1:9f86d081884c7d659a2feaa0c55ad015\""),
    ("of", "How many there are.", "3"),
    ("orphan", "Nobody is known to have started it.", "false"),
    ("orphan_reason", "Why nobody is known to have started it.", "\"names the agent `a1` as the one that started it, of which nothing was recorded\""),
    ("outcome", "How it went.", ""),
    ("output_node", "The chain with the answer; `null` without one.", "\"v1:2c26b46b68ffc68ff99b453c1d304134\""),
    ("output_tokens", "Tokens of the answer.", "340"),
    ("owner", "Whose data it is.", "\"local\""),
    ("parent_conversation_hash", "Of the agent that started it.", "\"5f0c2d1a9b7e4c33\""),
    ("parent_exchange_id", "The exchange that it goes on from.", "\"0199c1f4-0d3e-7c11-a5b2-93c1b7d6a000\""),
    ("parent_id", "The agent that started it.", "\"main\""),
    ("parent_message_hash", "Of the transcript without its last turn (seed 000).", "\"9f86d081884c7d65\""),
    ("parent_uuid", "The message before it.", "\"msg_00\""),
    ("part", "The SHA-256 of a part.", "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\""),
    ("path", "A file.", "\"src/parser.rs\""),
    ("path_hash", "Of the prompts from the root on (seed 002).", "\"9f86d081884c7d65\""),
    ("place_after", "Which part of the prompt it is now.", "\"system block 2\""),
    ("place_before", "Which part of the prompt it was.", "\"system block 2\""),
    ("project", "The project that it was recorded for.", "\"ropewalk\""),
    ("prompt_hash", "Of the prompt and what counts with it (seed 002).", "\"9f86d081884c7d65\""),
    ("prompts", "How many prompts.", "120"),
    ("provider", "Who was asked.", "\"anthropic\""),
    ("quoted_words", "Words that were quoted.", "84"),
    ("read_tokens", "Tokens that came from the cache.", "18000"),
    ("readable_tokens", "Tokens that could have come from the cache.", "35000"),
    ("reason", "In words.", "\"continues `0199c1f4…`\""),
    ("reasoning_tokens", "Of the answer's, tokens that were spent on thinking.", "0"),
    ("redactions", "Secrets that were taken out before it was stored.", "0"),
    ("ref", "What `ropewalk show` takes: a friendly id, an id, a reference, four or more digits of a hash.", "\"react_optimization_83p6\""),
    ("reference", "What to write into a prompt to quote it.", "\"@conversation_react_optimization_83p6_message_m1hn4w\""),
    ("rejected", "Where else it might have belonged, and why not.", ""),
    ("replaced", "What stood in its place.", ""),
    ("request_sha256", "Of the request's bytes.", "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\""),
    ("resolved", "Whether it names a message.", "true"),
    ("response_hash", "Of the answer's text (seed 002).", "\"9f86d081884c7d65\""),
    ("response_sha256", "Of the answer's bytes.", "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\""),
    ("reuse", "What the store had to do with the answer: `none`, `hit` or `stored`; of many, how often.", ""),
    ("rewritten", "The client changed what it had sent before.", "false"),
    ("role", "Who said it.", "\"user\""),
    ("rules_version", "By which rules its chain was made.", "1"),
    ("said_by", "Who said it.", "\"user\""),
    ("saved_input_tokens", "Tokens that reuse saved.", "1200"),
    ("saved_is_estimate", "Some price is not certain.", "false"),
    ("saved_output_tokens", "Tokens that reuse saved.", "340"),
    ("saved_usd", "What reuse saved, in dollars.", "0.0213"),
    ("sent", "How often it was sent.", "12"),
    ("sent_usd", "What all of it cost, in dollars.", "4.12"),
    ("session", "What the client calls its session.", "\"5f0c0000-0000-4000-8000-000000000001\""),
    ("session_id", "The client's session, else the conversation.", "\"5f0c0000-0000-4000-8000-000000000001\""),
    ("session_id_alias", "The same as `session_id`.", "\"5f0c0000-0000-4000-8000-000000000001\""),
    ("short_hash", "The message's name within its conversation; `null` until it has one.", "\"m1hn4w\""),
    ("since", "From when on.", "\"2026-03-01T10:00:00Z\""),
    ("snippet", "Some words around those that were found.", "\"the failing tests in parser.rs\""),
    ("started_at", "When it began.", "\"2026-03-01T10:00:00.000000Z\""),
    ("status", "How it went: of an exchange `pending`, `complete`, `error`, `truncated` or `client_cancelled`.", "\"complete\""),
    ("stored_bytes", "Bytes that they take.", "65536"),
    ("suggestions", "What may be meant.", ""),
    ("system_hash", "Of the system prompt, without what changes by itself.", "\"9f86d081884c7d65\""),
    ("system_raw_hash", "Of the system prompt as it was sent.", "\"9f86d081884c7d65\""),
    ("templates_left_out", "Templates that are not given.", "0"),
    ("text", "The text.", "\"Fix the failing tests in parser.rs\""),
    ("times", "How often.", "7"),
    ("timestamp", "When it was said.", "\"2026-03-01T10:00:00.000000Z\""),
    ("title", "What the conversation is called.", "\"Fix the failing tests\""),
    ("tokens", "How many tokens.", ""),
    ("tokens_added_estimate", "About how many tokens more than before.", "312"),
    ("tokens_after", "About how many tokens it has now.", "2212"),
    ("tokens_before", "About how many tokens it had.", "1900"),
    ("tokens_estimate", "About how many tokens it has.", "1900"),
    ("tokens_sent", "Tokens that went to models.", "1250000"),
    ("tool", "The tool.", "\"Read\""),
    ("tool_calls", "Calls of tools.", ""),
    ("tool_use_id", "Of a tool operation: the call.", "\"toolu_01\""),
    ("tools_added", "Tools that are new.", ""),
    ("tools_removed", "Tools that are gone.", ""),
    ("toolset_hash", "Of the tools' names.", "\"9f86d081884c7d65\""),
    ("total", "Of all pages together.", ""),
    ("turns", "How many turns.", "42"),
    ("type", "Who said it, or what kind of tool operation it is.", "\"user\""),
    ("type_hash", "Of the agent's system prompt and tools.", "\"5f0c2d1a9b7e4c33\""),
    ("until", "Up to when.", "\"2026-03-02T10:00:00Z\""),
    ("updated_at", "When it last did something.", "\"2026-03-01T10:00:04.120000Z\""),
    ("usage", "Tokens as the provider counted them.", ""),
    ("user", "Who did it.", "\"ann\""),
    ("uuid", "Its own id.", "\"msg_01\""),
    ("v", "The version of this shape.", "1"),
    ("verb", "What was done.", "\"title\""),
    ("what", "What happened to it.", ""),
    ("would_have_cost_usd", "With everything that could have been read, in dollars.", "0.012"),
    ("written_tokens", "Tokens that the cache was given.", "1200"),
];

/// Members that take one of few values which their types do not say.
#[rustfmt::skip]
const VALUES: &[(&str, &str, &[&str])] = &[
    ("AgentView", "status", &["streaming", "complete", "error", "idle"]),
    ("ExchangeView", "kind", &["turn", "auxiliary", "retry", "compaction"]),
    ("ExchangeView", "branch_kind", &["main", "edit", "regeneration", "compact", "subtask"]),
    ("ExchangeView", "reuse", &["none", "hit", "stored"]),
    ("ExchangeView", "status", &["pending", "complete", "error", "truncated", "client_cancelled"]),
    ("MessageView", "type", &["user", "assistant", "tool_result", "system"]),
    ("DiffMessage", "type", &["user", "assistant", "tool_result", "system"]),
    ("ReferenceSuggestion", "kind", &["conversation", "message"]),
    ("SessionMessage", "type", &["user", "assistant", "tool_use", "tool_result", "system"]),
    ("SessionMessage", "place", &["root", "child", "fork", "orphan", "cycle"]),
    ("ShownBranch", "kind", &["main", "edit", "regeneration", "compact", "subtask"]),
    ("StoredAnswer", "reuse", &["none", "hit", "stored"]),
];

/// Members that are left out where they have nothing to say; all others are always there.
const LEFT_OUT: &[&str] = &["is_error", "tools_added", "tools_removed", "message_ids"];

/// What callers send: members that they need not say.
const SENT: &[&str] = &["WantedText", "NewTitle"];

pub(super) fn explain_parameter(parameter: &mut Value) {
    let name = parameter["name"].as_str().unwrap_or_default().to_owned();
    let Some((_, meaning, example)) = find(&name) else {
        return;
    };
    if parameter.get("description").is_none() {
        parameter["description"] = json!(meaning);
    }
    if let Ok(example) = serde_json::from_str::<Value>(example) {
        parameter["example"] = example;
    }
}

pub(super) fn explain_schema(name: &str, schema: &mut Value) {
    for part in ["allOf", "oneOf"] {
        for inner in schema.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
            explain_schema(name, inner);
        }
    }
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (member, of) in members.iter_mut() {
        explain(name, member, of);
    }
    if SENT.contains(&name) {
        return;
    }
    let always = members.keys().filter(|member| !LEFT_OUT.contains(&&***member));
    schema["required"] = always.cloned().collect::<Vec<_>>().into();
}

fn explain(schema: &str, member: &str, of: &mut Value) {
    let Some(of) = of.as_object_mut() else { return };
    if let Some((_, meaning, example)) = find(member) {
        // An option of a type has its comment inside.
        if !of.contains_key("description") && !of.contains_key("oneOf") {
            of.insert("description".to_owned(), json!(meaning));
        }
        if let Ok(example) = serde_json::from_str::<Value>(example)
            && is_like(&example, of)
        {
            of.insert("examples".to_owned(), json!([example]));
        }
    }
    let values = VALUES.iter().find(|(of, name, _)| *of == schema && *name == member);
    if let Some((.., values)) = values {
        let mut values: Vec<Value> = values.iter().map(|value| json!(value)).collect();
        if of["type"].is_array() {
            values.push(Value::Null);
        }
        of.insert("examples".to_owned(), json!([values[0]]));
        of.insert("enum".to_owned(), values.into());
    }
}

fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|(known, ..)| *known == name)
}

/// Whether a member may have this value. A few names are of numbers in one place and of lists in another.
fn is_like(example: &Value, of: &Map<String, Value>) -> bool {
    let kind = match example {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        _ => "object",
    };
    match of.get("type") {
        Some(Value::String(known)) => known == kind,
        Some(Value::Array(known)) => known.iter().any(|known| known == kind),
        _ => kind == "object" && of.keys().all(|key| key == "description"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_and_every_parameter_is_explained() {
        let document: Value = serde_json::from_str(super::super::document()).unwrap();
        let mut missing = Vec::new();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let inner = schema["allOf"].as_array().into_iter().flatten();
            for part in inner.chain([schema]) {
                for (member, of) in part["properties"].as_object().into_iter().flatten() {
                    let says = |key| of.get(key).is_some();
                    if !says("description") && !says("oneOf") {
                        missing.push(format!("{name}.{member}"));
                    }
                }
            }
        }
        for (path, item) in document["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values() {
                for parameter in operation["parameters"].as_array().unwrap() {
                    if parameter.get("description").is_none() {
                        missing.push(format!("{path} {}", parameter["name"]));
                    }
                }
            }
        }
        assert_eq!(
            missing,
            Vec::<String>::new(),
            "`fields` or a doc comment says what they mean"
        );
    }

    #[test]
    fn the_table_is_in_order_and_its_examples_are_json() {
        for pair in FIELDS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} before {}", pair[0].0, pair[1].0);
        }
        for (name, _, example) in FIELDS.iter().filter(|(.., example)| !example.is_empty()) {
            assert!(serde_json::from_str::<Value>(example).is_ok(), "{name}: {example}");
        }
    }
}

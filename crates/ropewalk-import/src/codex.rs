//! Codex's logs: `~/.codex/sessions/Y/M/D/rollout-<time>-<thread>.jsonl`.
//!
//! A file is one thread: items of the conversation in order, and behind each answer a record of its usage. A thread that inherits a
//! history begins with copies of it, which have no such record: they are what was said, and no calls of this thread. A compaction
//! replaces everything before it.

use bytes::Bytes;
use jiff::Timestamp;
use ropewalk_core::json::{Doc, Node, Style, quote};
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::{LogMessage, LogTurn, Logged, MessageNumber};
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;

use crate::reader::{Found, LineReader, Sink};

/// What the client keeps with an item and does not send.
const NOT_SENT: &str = "internal_chat_message_metadata_passthrough";

/// Kinds of items that a model gives; all others are given to it.
const OUTPUTS: [&str; 7] = [
    "reasoning",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
    "tool_search_call",
    "image_generation_call",
];

/// Reads one thread.
#[derive(Debug)]
pub struct Codex {
    name: String,
    thread: Thread,
    model: Option<String>,
    last: Option<MessageNumber>,
    next_message: u32,
    /// Items of the answer that has not ended.
    answer: Answer,
    /// When the last item that was given to the model was written.
    asked_at: Option<Micros>,
    begun: Option<Micros>,
    compactions: u64,
    turns: u64,
    has_usage_records: bool,
}

/// Who a thread is.
#[derive(Debug, Default)]
struct Thread {
    id: Option<String>,
    session: Option<String>,
    parent: Option<String>,
    forked_from: Option<String>,
    agent_name: Option<String>,
    originator: Option<String>,
    is_subagent: bool,
    cwd: Option<String>,
}

#[derive(Debug, Default)]
struct Answer {
    items: Vec<String>,
    behind: Option<MessageNumber>,
    line: u64,
    spawned_at: Vec<(String, Micros)>,
    ended_at: Option<Micros>,
}

impl Codex {
    pub fn new(name: &str) -> Self {
        Codex {
            name: name.to_owned(),
            thread: Thread::default(),
            model: None,
            last: None,
            next_message: 0,
            answer: Answer::default(),
            asked_at: None,
            begun: None,
            compactions: 0,
            turns: 0,
            has_usage_records: false,
        }
    }

    /// Whether a line is one of these logs.
    pub fn is_line(root: Node<'_>) -> bool {
        let is_known = |kind: &str| {
            [
                "session_meta",
                "response_item",
                "event_msg",
                "turn_context",
                "compacted",
                "world_state",
            ]
            .contains(&kind)
        };
        root.get("payload").is_some() && root.get_str("type").is_some_and(|kind| is_known(&kind))
    }

    fn read(&mut self, number: u64, root: Node<'_>, sink: &mut dyn Sink) -> Result<Found, &'static str> {
        let at = root
            .get_str("timestamp")
            .and_then(|text| text.parse::<Timestamp>().ok());
        let at = Micros(at.ok_or("`timestamp` is no time")?.as_microsecond());
        self.begun.get_or_insert(at);
        let kind = root.get_str("type").ok_or("the line has no type")?;
        let payload = root.get("payload").ok_or("the line has no payload")?;
        match &*kind {
            // Further ones are copies from the thread that it was forked from.
            "session_meta" if self.thread.id.is_none() => self.thread = Thread::read(payload),
            "session_meta" => {}
            "turn_context" => {
                let model = payload.get_str("model").map(|model| model.into_owned());
                self.model = model.or(self.model.take());
            }
            "response_item" => self.item(number, at, payload, sink),
            "compacted" => self.compacted(payload, sink),
            "token_usage_record" => {
                let is_own = payload.get_str("thread_id").as_deref() == self.thread.id.as_deref();
                self.has_usage_records = true;
                if is_own {
                    let id = payload.get_str("response_id").map(|id| id.into_owned());
                    return Ok(self.turn(id.as_deref(), payload.get("usage"), at, sink));
                }
            }
            "event_msg" => return Ok(self.event(payload, at, sink)),
            other => sink.skipped(other),
        }
        Ok(Found::GoOn)
    }

    /// Older releases tell of usage only here, and name no answer.
    fn event(&mut self, payload: Node<'_>, at: Micros, sink: &mut dyn Sink) -> Found {
        let is_count = payload.get("type").is_some_and(|kind| kind.is("token_count"));
        let usage = payload.get("info").and_then(|info| info.get("last_token_usage"));
        if !is_count || usage.is_none() || self.has_usage_records {
            return Found::GoOn;
        }
        self.turn(None, usage, at, sink)
    }

    fn item(&mut self, number: u64, at: Micros, item: Node<'_>, sink: &mut dyn Sink) {
        let kind = item.get_str("type").unwrap_or_default();
        let is_answer = OUTPUTS.contains(&&*kind)
            || (kind == "message" && item.get("role").is_some_and(|role| role.is("assistant")));
        let json = without(item, NOT_SENT);
        if !is_answer {
            // What was said without a record of usage is history.
            self.answer = Answer::default();
            self.asked_at = Some(at);
            self.say(json, sink);
            return;
        }
        if self.answer.items.is_empty() {
            self.answer.behind = self.last;
            self.answer.line = number;
        }
        self.answer.ended_at = Some(at);
        if let Some(call) = item.get_str("call_id") {
            self.answer.spawned_at.push((call.into_owned(), at));
        }
        self.answer.items.push(json.clone());
        self.say(json, sink);
    }

    fn say(&mut self, json: String, sink: &mut dyn Sink) {
        let behind = self.last;
        self.last = Some(MessageNumber(self.next_message));
        self.next_message += 1;
        // A sink that has had enough is asked again with the turn.
        let _ = sink.found(Logged::Message(LogMessage {
            behind,
            provider: Provider::OpenAiResponses,
            json: Bytes::from(json),
        }));
    }

    fn compacted(&mut self, payload: Node<'_>, sink: &mut dyn Sink) {
        self.compactions += 1;
        self.last = None;
        self.answer = Answer::default();
        let history = payload
            .get("replacement_history")
            .into_iter()
            .flat_map(|items| items.items());
        for item in history {
            self.say(without(item, NOT_SENT), sink);
        }
    }

    fn turn(&mut self, response: Option<&str>, usage: Option<Node<'_>>, at: Micros, sink: &mut dyn Sink) -> Found {
        let answer = std::mem::take(&mut self.answer);
        if answer.items.is_empty() {
            return Found::GoOn;
        }
        self.turns += 1;
        let thread = self.thread.id.clone().unwrap_or_default();
        let id = response.map_or_else(|| format!("{thread}:{}", self.turns), str::to_owned);
        let ended_at = answer.ended_at.unwrap_or(at);
        let asked_at = self.asked_at.unwrap_or(ended_at).min(ended_at);
        let body = self.body(response, &answer.items, usage);
        sink.found(Logged::Turn(Box::new(LogTurn {
            id: id.clone(),
            provider: Provider::OpenAiResponses,
            at: asked_at,
            ended_at: Some(ended_at),
            spawned_at: answer.spawned_at,
            model: self.model.clone(),
            project: self.thread.cwd.clone(),
            hints: self.hints(),
            request_id: None,
            asked: answer.behind,
            answer: Bytes::from(body),
            cut_off: false,
            is_estimate: usage.is_none(),
            provenance: Provenance {
                file: self.name.clone(),
                line: answer.line,
                uuid: Some(id),
                aliases: Vec::new(),
                log_begun: Some(self.begun.unwrap_or(at)),
            },
        })))
    }

    /// The answer as the provider gives it whole.
    fn body(&self, id: Option<&str>, items: &[String], usage: Option<Node<'_>>) -> String {
        let text = |text: &str| quote(text, Style::Plain);
        let mut body = String::from("{");
        if let Some(id) = id {
            body.push_str(&format!("\"id\":{},", text(id)));
        }
        body.push_str("\"object\":\"response\",\"status\":\"completed\",");
        if let Some(model) = &self.model {
            body.push_str(&format!("\"model\":{},", text(model)));
        }
        if let Some(usage) = usage {
            let count = |name: &str| usage.get(name).and_then(|count| count.as_u64()).unwrap_or(0);
            body.push_str(&format!(
                "\"usage\":{{\"input_tokens\":{},\"input_tokens_details\":{{\"cached_tokens\":{},\"cache_write_tokens\":{}}},\
                 \"output_tokens\":{},\"output_tokens_details\":{{\"reasoning_tokens\":{}}},\"total_tokens\":{}}},",
                count("input_tokens"),
                count("cached_input_tokens"),
                count("cache_write_input_tokens"),
                count("output_tokens"),
                count("reasoning_output_tokens"),
                count("total_tokens"),
            ));
        }
        body.push_str(&format!("\"output\":[{}]}}", items.join(",")));
        body
    }

    fn hints(&self) -> Vec<(String, String)> {
        let thread = &self.thread;
        let window = thread.id.as_ref().map(|id| format!("{id}:{}", self.compactions));
        let metadata = [
            ("agent_name", &thread.agent_name),
            ("forked_from_thread_id", &thread.forked_from),
        ];
        let metadata: Vec<String> = metadata
            .iter()
            .filter_map(|(name, value)| Some(format!("\"{name}\":{}", quote(value.as_ref()?, Style::Plain))))
            .collect();
        let metadata = (!metadata.is_empty()).then(|| format!("{{{}}}", metadata.join(",")));
        let named = [
            (
                "originator",
                thread.originator.clone().or_else(|| Some("codex".to_owned())),
            ),
            ("session-id", thread.session.clone()),
            ("thread-id", thread.id.clone()),
            ("x-codex-parent-thread-id", thread.parent.clone()),
            ("x-codex-window-id", window),
            (
                "x-openai-subagent",
                thread.is_subagent.then(|| "collab_spawn".to_owned()),
            ),
            ("x-codex-turn-metadata", metadata),
        ];
        let said = named
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        said.collect()
    }
}

impl Thread {
    fn read(meta: Node<'_>) -> Self {
        let text = |name: &str| meta.get_str(name).map(|text| text.into_owned());
        let id = text("id");
        let is_subagent = meta
            .get("source")
            .is_some_and(|source| source.get("subagent").is_some());
        Thread {
            session: text("session_id").or_else(|| id.clone()),
            parent: text("parent_thread_id"),
            // A subagent inherits the history of its parent, which is no fork by its user.
            forked_from: text("forked_from_id").filter(|_| !is_subagent),
            agent_name: text("agent_path"),
            originator: text("originator"),
            cwd: text("cwd"),
            is_subagent,
            id,
        }
    }
}

impl LineReader for Codex {
    fn line(&mut self, number: u64, line: &[u8], sink: &mut dyn Sink) -> Found {
        let doc = match Doc::parse(line) {
            Ok(doc) => doc,
            Err(error) => {
                sink.problem(number, format!("no JSON: {error}"));
                return Found::GoOn;
            }
        };
        self.read(number, doc.root(), sink).unwrap_or_else(|problem| {
            sink.problem(number, problem.to_owned());
            Found::GoOn
        })
    }

    fn pause(&mut self, _: &mut dyn Sink) -> Found {
        Found::GoOn
    }
}

/// An object without one of its members.
fn without(object: Node<'_>, name: &str) -> String {
    if object.get(name).is_none() {
        return object.raw().to_owned();
    }
    let members = object.members().filter(|(key, _)| !key.is(name));
    let members: Vec<String> = members
        .map(|(key, value)| format!("{}:{}", key.raw(), value.raw()))
        .collect();
    format!("{{{}}}", members.join(","))
}

//! Exchanges in a few words, for tests of linking: Anthropic's format, with and without a session.

use bytes::Bytes;
use ropewalk_engine::{RawExchange, Witness};
use ropewalk_store::Micros;
use serde_json::{Value, json};

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn answer(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

pub(crate) fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]})
}

pub(crate) fn result(id: &str, text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]})
}

/// A call that starts an agent.
pub(crate) fn spawn(id: &str, kind: &str, prompt: &str) -> Value {
    call(
        id,
        "Task",
        &json!({"subagent_type": kind, "description": "d", "prompt": prompt}),
    )
}

/// A second of the day on which all tests happen.
pub(crate) fn second(at: f64) -> Micros {
    Micros(1_800_000_000_000_000 + (at * 1e6) as i64)
}

/// A request, and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    id: String,
    at: f64,
    took: f64,
    messages: Vec<Value>,
    system: String,
    tools: Vec<&'static str>,
    stream: bool,
    headers: Vec<(String, String)>,
    outcome: Outcome,
}

#[derive(Debug, Clone)]
enum Outcome {
    Answered(Vec<Value>),
    Failed(u16),
    CutOff(String),
    Pending,
}

pub(crate) fn said(id: &str, at: f64, messages: &[Value]) -> Said {
    Said {
        id: id.to_owned(),
        at,
        took: 0.5,
        messages: messages.to_vec(),
        system: "You are an agent.".to_owned(),
        tools: vec!["Read", "Task"],
        stream: false,
        headers: Vec::new(),
        outcome: Outcome::Pending,
    }
}

impl Said {
    /// With an answer, as it would stand in the next request.
    pub(crate) fn answered(mut self, answer: &Value) -> Self {
        self.outcome = Outcome::Answered(answer["content"].as_array().unwrap().clone());
        self
    }

    pub(crate) fn failed(mut self, status: u16) -> Self {
        self.outcome = Outcome::Failed(status);
        self
    }

    /// A stream that ended after some text.
    pub(crate) fn cut_off(mut self, text: &str) -> Self {
        self.outcome = Outcome::CutOff(text.to_owned());
        self.stream = true;
        self
    }

    pub(crate) fn took(mut self, seconds: f64) -> Self {
        self.took = seconds;
        self
    }

    pub(crate) fn streamed(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    pub(crate) fn session(self, id: &str) -> Self {
        self.header("x-claude-code-session-id", id)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another kind of agent: other words and tools.
    pub(crate) fn kind(mut self, system: &str, tools: &[&'static str]) -> Self {
        self.system = system.to_owned();
        self.tools = tools.to_vec();
        self
    }

    pub(crate) fn raw(&self) -> RawExchange {
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|name| json!({"name": name, "input_schema": {}}))
            .collect();
        let mut body = json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "system": self.system,
            "tools": tools, "messages": self.messages});
        if self.stream {
            body["stream"] = json!(true);
        }
        let (status, response, cut_off) = match &self.outcome {
            Outcome::Answered(blocks) => (Some(200), Some(whole(&self.id, blocks)), false),
            Outcome::Failed(status) => {
                let error = json!({"type": "error", "error": {"type": "api_error", "message": "no"}});
                (Some(*status), Some(error.to_string()), false)
            }
            Outcome::CutOff(text) => (Some(200), Some(begun(&self.id, text)), true),
            Outcome::Pending => (None, None, false),
        };
        let content_type = if matches!(self.outcome, Outcome::CutOff(_)) {
            "text/event-stream"
        } else {
            "application/json"
        };
        RawExchange {
            id: self.id.clone(),
            at: second(self.at),
            ended_at: response.as_ref().map(|_| second(self.at + self.took)),
            spawned_at: Vec::new(),
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            request_headers: self.headers.clone(),
            request_body: Bytes::from(body.to_string()),
            sent_body: None,
            names: Default::default(),
            status,
            response_headers: vec![("content-type".to_owned(), content_type.to_owned())],
            response_body: response.map(Bytes::from),
            cut_off,
            witness: Witness::default(),
            provenance: None,
        }
    }
}

fn whole(id: &str, blocks: &[Value]) -> String {
    json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5}})
    .to_string()
}

fn begun(id: &str, text: &str) -> String {
    let events = [
        json!({"type": "message_start", "message": {"id": format!("msg_{id}"), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
    ];
    let events = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    events.collect()
}

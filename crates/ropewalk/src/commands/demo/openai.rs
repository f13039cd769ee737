//! Two clients that speak to OpenAI: one as Codex does (Responses, streamed, with headers of its own), one as a program with the
//! SDK does (Chat Completions, nothing that names a session).

use std::net::SocketAddr;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::claude::unexpected;
use crate::client::{Sent, Until, send};
use crate::failure::Failure;

const KEY: &str = "Bearer demo";

/// A thread of Codex.
#[derive(Debug)]
pub(super) struct Codex {
    proxy: SocketAddr,
    thread: &'static str,
    input: Vec<Value>,
    pub(super) exchanges: usize,
}

impl Codex {
    pub(super) fn new(proxy: SocketAddr, thread: &'static str) -> Self {
        let developer = "You are a coding agent in a terminal.";
        let environment = "<environment_context>\n  <cwd>/project</cwd>\n  <shell>bash</shell>\n</environment_context>";
        Codex {
            proxy,
            thread,
            input: vec![item("developer", developer), item("user", environment)],
            exchanges: 0,
        }
    }

    /// Codex tries a WebSocket first and falls back at once when it is told to.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let mut headers = self.headers();
        headers.extend([
            ("connection", "Upgrade".to_owned()),
            ("upgrade", "websocket".to_owned()),
            ("sec-websocket-version", "13".to_owned()),
            ("sec-websocket-key", "ZGVtb2RlbW9kZW1vZGVtbw==".to_owned()),
            ("openai-beta", "responses_websockets=2026-02-06".to_owned()),
        ]);
        let answer = send(
            self.proxy,
            &Sent::bare(Method::GET, "/v1/responses", headers),
            Until::End,
        )
        .await?;
        match answer.status {
            StatusCode::UPGRADE_REQUIRED => Ok(()),
            _ => Err(unexpected(&answer)),
        }
    }

    pub(super) async fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.input.push(item("user", text));
        self.ask().await
    }

    /// What the tool gave that was called last.
    pub(super) async fn give(&mut self, result: &str) -> Result<(), Failure> {
        let call = self
            .input
            .last()
            .map(|item| item["call_id"].clone())
            .unwrap_or_default();
        self.input
            .push(json!({"type": "function_call_output", "call_id": call, "output": result}));
        self.ask().await
    }

    async fn ask(&mut self) -> Result<(), Failure> {
        let body = json!({
            "model": "gpt-5-codex", "stream": true, "store": false, "input": self.input, "prompt_cache_key": self.thread,
            "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
            "parallel_tool_calls": false, "include": ["reasoning.encrypted_content"],
        });
        let sent = Sent::post("/v1/responses", self.headers(), body.to_string());
        let answer = send(self.proxy, &sent, Until::End).await?;
        self.exchanges += 1;
        let completed = answer.text.rsplit("data: ").next().unwrap_or_default();
        let completed: Value = serde_json::from_str(completed.trim()).unwrap_or_default();
        let Some(output) = completed["response"]["output"].as_array() else {
            return Err(unexpected(&answer));
        };
        self.input.extend(output.iter().cloned());
        Ok(())
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let metadata = json!({
            "session_id": self.thread, "thread_id": self.thread, "agent_name": "/root", "request_kind": "turn",
            "history_initialization": "new",
        });
        vec![
            ("user-agent", "codex_cli_rs/0.166.0".to_owned()),
            ("authorization", KEY.to_owned()),
            ("originator", "codex_cli_rs".to_owned()),
            ("session-id", self.thread.to_owned()),
            ("thread-id", self.thread.to_owned()),
            ("x-codex-window-id", format!("{}:0", self.thread)),
            ("x-codex-turn-metadata", metadata.to_string()),
        ]
    }
}

fn item(role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
}

/// A program that uses the SDK.
#[derive(Debug)]
pub(super) struct Program {
    proxy: SocketAddr,
    messages: Vec<Value>,
    /// It takes an answer that the store has.
    reuses: bool,
    /// The name of the last exchange.
    pub(super) exchange: String,
    pub(super) exchanges: usize,
}

impl Program {
    pub(super) fn new(proxy: SocketAddr) -> Self {
        Program {
            proxy,
            messages: vec![json!({"role": "system", "content": "Answer in one sentence."})],
            reuses: false,
            exchange: String::new(),
            exchanges: 0,
        }
    }

    pub(super) fn reusing(proxy: SocketAddr) -> Self {
        Program {
            reuses: true,
            ..Program::new(proxy)
        }
    }

    pub(super) async fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.messages.push(json!({"role": "user", "content": text}));
        self.ask().await
    }

    pub(super) async fn give(&mut self, result: &str) -> Result<(), Failure> {
        let call = self
            .messages
            .last()
            .map(|message| message["tool_calls"][0]["id"].clone());
        self.messages
            .push(json!({"role": "tool", "tool_call_id": call, "content": result}));
        self.ask().await
    }

    async fn ask(&mut self) -> Result<(), Failure> {
        let lookup = json!({"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}});
        let mut body = json!({"model": "gpt-4o-mini", "messages": self.messages, "tools": [lookup]});
        let mut headers = vec![
            ("user-agent", "OpenAI/Python 3.49.0".to_owned()),
            ("authorization", KEY.to_owned()),
        ];
        if self.reuses {
            body["temperature"] = json!(0);
            headers.push(("x-ropewalk-reuse", "exact".to_owned()));
        }
        let sent = Sent::post("/v1/chat/completions", headers, body.to_string());
        let answer = send(self.proxy, &sent, Until::End).await?;
        self.exchanges += 1;
        self.exchange = answer.exchange.clone().unwrap_or_default();
        let completion: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        match &completion["choices"][0]["message"] {
            Value::Null => Err(unexpected(&answer)),
            message => {
                self.messages.push(message.clone());
                Ok(())
            }
        }
    }
}

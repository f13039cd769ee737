//! A client that writes requests as Claude Code does: the whole history again with every turn, reminders around what the user
//! said, a cache mark that moves, headers that name session and agents.

use std::net::SocketAddr;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Answer, Sent, Until, send};
use crate::failure::{Failure, Kind};

const PATH: &str = "/v1/messages?beta=true";

/// One agent of one session: the main one, or one that another agent started.
#[derive(Debug, Clone)]
pub(super) struct Claude {
    proxy: SocketAddr,
    session: String,
    agent: Option<Agent>,
    model: &'static str,
    pub(super) system: String,
    messages: Vec<Value>,
    /// The name of the last exchange.
    pub(super) exchange: String,
    pub(super) exchanges: usize,
}

#[derive(Debug, Clone)]
struct Agent {
    id: String,
    parent: Option<String>,
    kind: String,
}

/// A tool that the model wants to be run.
#[derive(Debug, Clone)]
pub(super) struct Call {
    id: String,
    input: Value,
}

impl Call {
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Claude {
    pub(super) fn new(proxy: SocketAddr, session: &str) -> Self {
        Claude {
            proxy,
            session: session.to_owned(),
            agent: None,
            model: "claude-opus-4-5",
            system: "You are an interactive agent that helps with software engineering.".to_owned(),
            messages: Vec::new(),
            exchange: String::new(),
            exchanges: 0,
        }
    }

    /// The same history under another session, as `--fork-session` makes it.
    pub(super) fn forked(&self, session: &str) -> Self {
        Claude {
            session: session.to_owned(),
            exchanges: 0,
            ..self.clone()
        }
    }

    /// The agent that a call starts. Its first words are the call's prompt.
    pub(super) fn subagent(&self, call: &Call, id: &str) -> Self {
        let kind = call.input["subagent_type"].as_str().unwrap_or("general-purpose");
        let mut child = Claude {
            agent: Some(Agent {
                id: id.to_owned(),
                parent: self.agent.as_ref().map(|agent| agent.id.clone()),
                kind: kind.to_owned(),
            }),
            model: "claude-sonnet-4-5",
            system: format!("You are a {kind} agent. Do what you are asked and report."),
            messages: Vec::new(),
            ..self.forked(&self.session)
        };
        child.hear(call.input["prompt"].as_str().unwrap_or_default());
        child
    }

    /// What the user says. The first message has a reminder before it.
    pub(super) fn hear(&mut self, text: &str) {
        let mut blocks = Vec::new();
        if self.messages.is_empty() {
            let reminder = "<system-reminder>\nThe project's CLAUDE.md asks for short answers.\n</system-reminder>\n\n";
            blocks.push(json!({"type": "text", "text": reminder}));
        }
        blocks.push(json!({"type": "text", "text": text}));
        self.messages.push(json!({"role": "user", "content": blocks}));
    }

    /// What the tools gave, in the order they were called.
    pub(super) fn results(&mut self, calls: &[Call], results: &[&str]) {
        let blocks = calls
            .iter()
            .zip(results)
            .map(|(call, text)| json!({"tool_use_id": call.id, "type": "tool_result", "content": text}));
        let blocks: Vec<Value> = blocks.collect();
        self.messages.push(json!({"role": "user", "content": blocks}));
    }

    /// The model's answer to what is there, which becomes part of it.
    pub(super) async fn ask(&mut self) -> Result<Vec<Call>, Failure> {
        let answer = self.post(self.body(), Until::End).await?;
        if answer.status != StatusCode::OK {
            return Err(unexpected(&answer));
        }
        let blocks = blocks_of(&answer.text);
        let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
        let calls = calls.map(|block| Call {
            id: block["id"].as_str().unwrap_or_default().to_owned(),
            input: block["input"].clone(),
        });
        let calls = calls.collect();
        self.messages.push(json!({"role": "assistant", "content": blocks}));
        Ok(calls)
    }

    pub(super) async fn say(&mut self, text: &str) -> Result<Vec<Call>, Failure> {
        self.hear(text);
        self.ask().await
    }

    pub(super) async fn give(&mut self, calls: &[Call], results: &[&str]) -> Result<Vec<Call>, Failure> {
        self.results(calls, results);
        self.ask().await
    }

    /// A request that the provider refuses. Nothing becomes part of the history.
    pub(super) async fn fail(&mut self) -> Result<(), Failure> {
        let answer = self.post(self.body(), Until::End).await?;
        match answer.status.is_success() {
            true => Err(unexpected(&answer)),
            false => Ok(()),
        }
    }

    /// Goes away in the middle of the answer. What had come stays in the history.
    pub(super) async fn interrupt(&mut self, after_bytes: usize) -> Result<(), Failure> {
        let answer = self.post(self.body(), Until::Bytes(after_bytes)).await?;
        let blocks = blocks_of(&answer.text);
        self.messages.push(json!({"role": "assistant", "content": blocks}));
        self.hear("[Request interrupted by user]");
        Ok(())
    }

    /// Asks for a summary and begins again with it.
    pub(super) async fn compact(&mut self) -> Result<(), Failure> {
        let mut asking = self.clone();
        asking.say(SUMMARISE).await?;
        let answer = asking.last_text();
        let summary = answer.split_once("<summary>").map_or(&*answer, |(_, summary)| {
            summary.trim_end().trim_end_matches("</summary>")
        });
        let kept = self.messages.pop();
        self.messages.clear();
        self.hear(&format!("{CONTINUED}{}", summary.trim()));
        self.messages.extend(kept);
        self.exchanges = asking.exchanges;
        Ok(())
    }

    pub(super) fn last_text(&self) -> String {
        let blocks = self.messages.last().and_then(|message| message["content"].as_array());
        let texts = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// As Claude Code begins: is anybody there, and what is this conversation called?
    pub(super) async fn begin(&mut self, prompt: &str) -> Result<(), Failure> {
        let bare = Sent::bare(Method::HEAD, "/", vec![("user-agent", USER_AGENT.to_owned())]);
        send(self.proxy, &bare, Until::End).await?;
        let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
        let body = json!({
            "model": "claude-haiku-4-5", "max_tokens": 512, "stream": true, "tools": [],
            "system": [{"type": "text", "text": "Name this session in a few words."}],
            "messages": [{"role": "user", "content": format!("<session>{prompt}</session>")}],
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
            "metadata": self.metadata(),
        });
        self.post(body, Until::End).await?;
        Ok(())
    }

    async fn post(&mut self, body: Value, until: Until) -> Result<Answer, Failure> {
        let sent = Sent::post(PATH, self.headers(), body.to_string());
        let answer = send(self.proxy, &sent, until).await?;
        self.exchanges += 1;
        self.exchange = answer.exchange.clone().unwrap_or_default();
        Ok(answer)
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("user-agent", USER_AGENT.to_owned()),
            ("x-app", "cli".to_owned()),
            ("x-api-key", "demo".to_owned()),
            ("anthropic-version", "2023-06-01".to_owned()),
            ("x-claude-code-session-id", self.session.clone()),
        ];
        if let Some(agent) = &self.agent {
            headers.push(("x-claude-code-agent-id", agent.id.clone()));
            headers.push(("x-claude-code-agent-type", agent.kind.clone()));
            headers.extend(
                agent
                    .parent
                    .iter()
                    .map(|parent| ("x-claude-code-parent-agent-id", parent.clone())),
            );
        }
        headers
    }

    fn metadata(&self) -> Value {
        let user = json!({"device_id": "0".repeat(64), "account_uuid": "", "session_id": self.session});
        json!({"user_id": user.to_string()})
    }

    /// The newest message carries the cache mark; earlier ones of a single text are bare strings.
    fn body(&self) -> Value {
        let mut messages = self.messages.clone();
        let newest = messages.len().saturating_sub(1);
        for (at, message) in messages
            .iter_mut()
            .enumerate()
            .filter(|(_, message)| message["role"] == "user")
        {
            let Some(blocks) = message["content"].as_array_mut() else {
                continue;
            };
            match blocks.as_mut_slice() {
                [.., last] if at == newest => last["cache_control"] = json!({"type": "ephemeral"}),
                [only] if only["type"] == "text" => message["content"] = only["text"].clone(),
                _ => {}
            }
        }
        json!({
            "model": self.model, "max_tokens": 32_000, "stream": true,
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197; cc_entrypoint=cli;"},
                {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude."},
                {"type": "text", "text": self.system, "cache_control": {"type": "ephemeral"}},
            ],
            "tools": tools(self.agent.is_none()),
            "messages": messages,
            "metadata": self.metadata(),
        })
    }
}

const USER_AGENT: &str = "claude-cli/2.1.197 (external, cli)";

const SUMMARISE: &str = "Your task is to create a detailed summary of the conversation so far: what was asked, what was done, \
what is left. Wrap your thoughts in <analysis> tags and the summary in <summary> tags.\n\nREMINDER: Do NOT call any tools. \
Respond with text only.";

const CONTINUED: &str = "This session is being continued from a previous conversation that ran out of context. The conversation \
is summarized below:\n";

fn tools(is_main: bool) -> Value {
    let names: &[&str] = match is_main {
        true => &["Agent", "Bash", "Edit", "Grep", "Read"],
        false => &["Agent", "Bash", "Grep", "Read"],
    };
    let tool =
        |name: &&str| json!({"name": name, "description": format!("{name}."), "input_schema": {"type": "object"}});
    names.iter().map(tool).collect()
}

/// The blocks of a streamed answer, as far as it came.
fn blocks_of(stream: &str) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    let datas = stream.split("\n\n").filter_map(|event| event.split_once("data: "));
    for data in datas.filter_map(|(_, data)| serde_json::from_str::<Value>(data).ok()) {
        if data["type"] == "content_block_start" {
            blocks.push(data["content_block"].clone());
            input.clear();
        }
        let Some(block) = blocks.last_mut() else { continue };
        let delta = &data["delta"];
        if let Some(more) = delta["text"].as_str() {
            let text = format!("{}{more}", block["text"].as_str().unwrap_or_default());
            block["text"] = text.into();
        }
        input.push_str(delta["partial_json"].as_str().unwrap_or_default());
        if data["type"] == "content_block_stop" && block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&input).unwrap_or_default();
        }
    }
    blocks
}

/// The script has an answer to everything that is asked in it.
pub(super) fn unexpected(answer: &Answer) -> Failure {
    let start: String = answer.text.chars().take(200).collect();
    Failure::new(
        Kind::Internal,
        format!("the demonstration got {}: {start}", answer.status),
    )
}

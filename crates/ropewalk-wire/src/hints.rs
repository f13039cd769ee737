//! What a client says about itself: its session, its agents, its kind of call.
//!
//! Hints help linking and are never identity: everything must also work with [`Hints::none`]. They come from
//! headers and from a few members of the body, and they are hostile input: a value over [`MAX_HINT_BYTES`] or
//! with a control character is refused as if it were not there.

mod named;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::Request;

/// Longest hint that is believed. Real ones are UUIDs and short names; the longest is a user agent.
pub const MAX_HINT_BYTES: usize = 512;

/// Longest JSON that is searched for hints (Codex's turn metadata has about 1 KB).
pub const MAX_METADATA_BYTES: usize = 16 << 10;

/// Headers that identify a session, an agent or a thread. Without them a request links by content alone.
pub const HINT_HEADERS: [&str; 17] = [
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-claude-code-request-class",
    "x-claude-code-agent-type",
    "x-claude-code-compaction",
    "session-id",
    "session_id",
    "thread-id",
    "x-client-request-id",
    "x-codex-window-id",
    "x-codex-parent-thread-id",
    "x-codex-turn-metadata",
    "x-openai-subagent",
    "x-session-id",
    "x-session-affinity",
    "x-parent-session-id",
];

/// Members of the body that do the same.
pub const HINT_MEMBERS: [&str; 3] = ["metadata", "prompt_cache_key", "client_metadata"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientKind {
    ClaudeCode,
    Codex,
    Opencode,
    GeminiCli,
    Aider,
    AiSdk,
    AnthropicSdk,
    OpenAiSdk,
}

impl ClientKind {
    pub fn name(self) -> &'static str {
        match self {
            ClientKind::ClaudeCode => "claude-code",
            ClientKind::Codex => "codex",
            ClientKind::Opencode => "opencode",
            ClientKind::GeminiCli => "gemini-cli",
            ClientKind::Aider => "aider",
            ClientKind::AiSdk => "ai-sdk",
            ClientKind::AnthropicSdk => "anthropic-sdk",
            ClientKind::OpenAiSdk => "openai-sdk",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub kind: ClientKind,
    pub version: Option<Box<str>>,
}

/// Where a session id was found, the best source first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SessionSource {
    ClaudeCodeHeader,
    CodexHeader,
    OpencodeHeader,
    /// `x-codex-turn-metadata`, as a header or in the body.
    CodexTurnMetadata,
    /// `metadata.user_id` of the body.
    UserId,
    /// `prompt_cache_key` of the body: often a session, sometimes an application.
    PromptCacheKey,
}

impl SessionSource {
    /// A weak hint may name more than one conversation.
    pub fn is_weak(self) -> bool {
        self == SessionSource::PromptCacheKey
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: Box<str>,
    pub source: SessionSource,
}

/// Everything a client may say. All of it is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints {
    pub client: Option<Client>,
    pub session: Option<Session>,
    /// opencode: the session whose agent started this one.
    pub parent_session: Option<Box<str>>,
    pub agent: Option<Box<str>>,
    pub parent_agent: Option<Box<str>>,
    pub agent_name: Option<Box<str>>,
    pub agent_type: Option<Box<str>>,
    /// What the system prompt calls the agent. It is content, and stays where ids are taken out.
    pub name_in_system: Option<Box<str>>,
    pub thread: Option<Box<str>>,
    pub parent_thread: Option<Box<str>>,
    pub forked_from_thread: Option<Box<str>>,
    /// Codex: how often the thread's context was compacted.
    pub window: Option<u64>,
    pub turn_id: Option<Box<str>>,
    /// The client's own word for the kind of call.
    pub request_kind: Option<Box<str>>,
    pub history_initialization: Option<Box<str>>,
    pub project: Option<Box<str>>,
}

impl Hints {
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the hints of a request. Header names are compared without case; the first usable value counts.
    pub fn read<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>, request: Option<&Request>) -> Self {
        let headers = Headers(headers.into_iter().collect());
        let mut hints = Hints {
            client: headers.find("user-agent").and_then(|agent| read_client(&agent)),
            project: headers.find("x-ropewalk-project"),
            ..Hints::default()
        };
        hints.read_claude_code(&headers);
        hints.read_codex(&headers);
        hints.read_opencode(&headers);
        if let Some(metadata) = headers.find_json("x-codex-turn-metadata") {
            hints.read_turn_metadata(metadata);
        }
        if let Some(request) = request {
            hints.read_body(request);
        }
        hints
    }

    fn read_claude_code(&mut self, headers: &Headers<'_>) {
        self.offer_session(
            headers.find("x-claude-code-session-id"),
            SessionSource::ClaudeCodeHeader,
        );
        self.agent = headers.find("x-claude-code-agent-id");
        self.parent_agent = headers.find("x-claude-code-parent-agent-id");
        self.agent_type = headers.find("x-claude-code-agent-type");
        self.request_kind = headers.find("x-claude-code-request-class");
        let compaction = headers.find("x-claude-code-compaction");
        if compaction.is_some_and(|value| !matches!(&*value, "0" | "false" | "none")) {
            self.request_kind = Some("compaction".into());
        }
    }

    fn read_codex(&mut self, headers: &Headers<'_>) {
        let is_codex = self
            .client
            .as_ref()
            .is_some_and(|client| client.kind == ClientKind::Codex)
            || headers.find("originator").is_some()
            || headers.find("x-codex-window-id").is_some();
        // These names are too common to be believed from anyone else.
        if is_codex {
            let session = headers.find("session-id").or_else(|| headers.find("session_id"));
            self.offer_session(session, SessionSource::CodexHeader);
            self.thread = headers.find("thread-id");
        }
        self.parent_thread = headers.find("x-codex-parent-thread-id");
        if let Some(kind) = headers.find("x-openai-subagent") {
            self.agent_type = Some(kind);
        }
        if let Some(window) = headers.find("x-codex-window-id") {
            self.read_window(&window);
        }
    }

    /// `<thread>:<number>`
    fn read_window(&mut self, window: &str) {
        if let Some((thread, number)) = window.rsplit_once(':') {
            self.window = number.parse().ok().or(self.window);
            if self.thread.is_none() {
                self.thread = acceptable(thread);
            }
        }
    }

    fn read_opencode(&mut self, headers: &Headers<'_>) {
        let session = headers
            .find("x-session-id")
            .or_else(|| headers.find("x-session-affinity"));
        self.offer_session(session, SessionSource::OpencodeHeader);
        self.parent_session = headers.find("x-parent-session-id");
    }

    fn read_turn_metadata(&mut self, json: &str) {
        let Ok(doc) = Doc::parse_str(json) else {
            return;
        };
        let metadata = doc.root();
        let find = |name: &str| member(metadata, name);
        self.offer_session(find("session_id"), SessionSource::CodexTurnMetadata);
        fill(&mut self.thread, find("thread_id"));
        fill(&mut self.parent_thread, find("parent_thread_id"));
        fill(&mut self.forked_from_thread, find("forked_from_thread_id"));
        fill(&mut self.agent_name, find("agent_name"));
        fill(&mut self.agent_type, find("subagent_kind"));
        fill(&mut self.turn_id, find("turn_id"));
        fill(&mut self.request_kind, find("request_kind"));
        fill(&mut self.history_initialization, find("history_initialization"));
        let number = metadata.get("window_number").and_then(|n| n.as_u64());
        self.window = self.window.or(number);
        if let Some(window) = find("window_id") {
            let known = self.window;
            self.read_window(&window);
            self.window = known.or(self.window);
        }
    }

    fn read_body(&mut self, request: &Request) {
        self.name_in_system = named::in_system(request);
        let small = |name: &str| request.option(name).filter(|json| json.len() <= MAX_METADATA_BYTES);
        if let Some(doc) = small("client_metadata").and_then(|json| Doc::parse_str(json).ok()) {
            let inner = doc.root().get_str("x-codex-turn-metadata");
            if let Some(inner) = inner {
                self.read_turn_metadata(&inner);
            }
        }
        if let Some(doc) = small("metadata").and_then(|json| Doc::parse_str(json).ok()) {
            let user_id = doc.root().get_str("user_id");
            let session = user_id.and_then(|id| session_of_user_id(&id));
            self.offer_session(session, SessionSource::UserId);
        }
        if let Some(doc) = small("prompt_cache_key").and_then(|json| Doc::parse_str(json).ok()) {
            let key = doc.root().as_str().and_then(|key| acceptable(&key));
            self.offer_session(key, SessionSource::PromptCacheKey);
        }
    }

    /// The better source wins, whichever is read first.
    fn offer_session(&mut self, id: Option<Box<str>>, source: SessionSource) {
        let is_better = self.session.as_ref().is_none_or(|known| source < known.source);
        if let (Some(id), true) = (id, is_better) {
            self.session = Some(Session { id, source });
        }
    }
}

/// Whether a header identifies a session, an agent or a thread.
pub fn is_hint_header(name: &str) -> bool {
    HINT_HEADERS.iter().any(|hint| name.eq_ignore_ascii_case(hint))
}

/// Takes the hints out of a request, to link it by its content alone.
pub fn strip(headers: &mut Vec<(String, String)>, request: &mut Request) {
    headers.retain(|(name, _)| !is_hint_header(name));
    request.options.retain(|(name, _)| !HINT_MEMBERS.contains(&&**name));
}

struct Headers<'h>(Vec<(&'h str, &'h str)>);

impl Headers<'_> {
    fn find(&self, name: &str) -> Option<Box<str>> {
        self.values(name).find_map(acceptable)
    }

    fn find_json(&self, name: &str) -> Option<&str> {
        self.values(name).find(|json| json.len() <= MAX_METADATA_BYTES)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        named.map(|(_, value)| *value)
    }
}

fn member(object: Node<'_>, name: &str) -> Option<Box<str>> {
    acceptable(&object.get_str(name)?)
}

fn fill(place: &mut Option<Box<str>>, value: Option<Box<str>>) {
    if place.is_none() {
        *place = value;
    }
}

fn acceptable(value: &str) -> Option<Box<str>> {
    let value = value.trim_matches([' ', '\t']);
    let is_sane = !value.is_empty() && value.len() <= MAX_HINT_BYTES && !value.chars().any(char::is_control);
    is_sane.then(|| value.into())
}

/// A JSON object with `session_id`; older releases wrote `user_<hex>_account_<uuid>_session_<uuid>`.
fn session_of_user_id(user_id: &str) -> Option<Box<str>> {
    if user_id.trim_start().starts_with('{') {
        let doc = Doc::parse_str(user_id).ok()?;
        return member(doc.root(), "session_id");
    }
    let (account, session) = user_id.rsplit_once("_session_")?;
    (account.starts_with("user_") && account.contains("_account_")).then_some(())?;
    acceptable(session)
}

/// `name/version …`; the SDKs write `Name/Language version`.
fn read_client(user_agent: &str) -> Option<Client> {
    let (name, rest) = user_agent.split_once('/')?;
    let name = name.to_ascii_lowercase();
    let kind = match &*name {
        "claude-cli" | "claude-code" => ClientKind::ClaudeCode,
        "opencode" => ClientKind::Opencode,
        "geminicli" | "gemini-cli" => ClientKind::GeminiCli,
        "aider" => ClientKind::Aider,
        "ai" | "ai-sdk" => ClientKind::AiSdk,
        "anthropic" | "asyncanthropic" => ClientKind::AnthropicSdk,
        "openai" | "asyncopenai" => ClientKind::OpenAiSdk,
        codex if codex == "codex" || codex.starts_with("codex_") || codex.starts_with("codex-") => ClientKind::Codex,
        _ => return None,
    };
    let is_sdk = matches!(kind, ClientKind::AnthropicSdk | ClientKind::OpenAiSdk);
    let mut words = rest.split([' ', '/', '(', ';']).filter(|word| !word.is_empty());
    let version = if is_sdk { words.nth(1) } else { words.next() };
    let version = version.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    Some(Client {
        kind,
        version: version.map(Box::from),
    })
}

#[cfg(test)]
mod tests;

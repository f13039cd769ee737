use ropewalk_core::model::{Block, ChainStart, Provider};

use super::*;

fn request(options: &[(&str, &str)]) -> Request {
    Request {
        provider: Provider::Anthropic,
        model: None,
        stream: false,
        start: ChainStart::Root,
        system: Vec::new(),
        tools: Vec::new(),
        messages: Default::default(),
        options: options
            .iter()
            .map(|(name, json)| ((*name).into(), (*json).into()))
            .collect(),
    }
}

fn session(hints: &Hints) -> Option<(&str, SessionSource)> {
    hints.session.as_ref().map(|session| (&*session.id, session.source))
}

#[test]
fn reads_claude_code_headers_in_any_case() {
    let hints = Hints::read(
        [
            ("User-Agent", "claude-cli/2.1.197 (external, sdk-cli)"),
            ("X-Claude-Code-Session-Id", "s1"),
            ("X-CLAUDE-CODE-AGENT-ID", "a1"),
            ("x-claude-code-parent-agent-id", "a0"),
            ("x-claude-code-agent-type", "Explore"),
        ],
        None,
    );
    assert_eq!(session(&hints), Some(("s1", SessionSource::ClaudeCodeHeader)));
    assert_eq!(
        (hints.agent.as_deref(), hints.parent_agent.as_deref()),
        (Some("a1"), Some("a0"))
    );
    assert_eq!(hints.agent_type.as_deref(), Some("Explore"));
    let client = hints.client.unwrap();
    assert_eq!(
        (client.kind, client.version.as_deref()),
        (ClientKind::ClaudeCode, Some("2.1.197"))
    );
}

#[test]
fn reads_the_session_of_both_user_id_forms() {
    for (user_id, expected) in [
        (
            r#"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"s1\"}"#,
            Some("s1"),
        ),
        ("user_abc_account_1-2_session_s2", Some("s2")),
        ("user_abc_account__session_s3", Some("s3")),
        ("someone_session_s4", None),
        ("{broken", None),
        ("customer-17", None),
    ] {
        let metadata = format!(r#"{{"user_id":"{user_id}"}}"#);
        let hints = Hints::read([], Some(&request(&[("metadata", &metadata)])));
        let expected = expected.map(|id| (id, SessionSource::UserId));
        assert_eq!(session(&hints), expected, "{user_id}");
    }
}

#[test]
fn reads_codex_headers_and_turn_metadata() {
    let metadata = r#"{"session_id":"s","thread_id":"t","agent_name":"/lead/sub_1","turn_id":"u","window_number":2,
        "request_kind":"turn","history_initialization":"warm_fork","parent_thread_id":"p","forked_from_thread_id":"f"}"#;
    let headers = [
        (
            "user-agent",
            "codex_exec/0.166.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.166.0)",
        ),
        ("session-id", "s"),
        ("thread-id", "t"),
        ("x-codex-window-id", "t:2"),
        ("x-openai-subagent", "collab_spawn"),
        ("x-codex-turn-metadata", metadata),
    ];
    let hints = Hints::read(headers, None);
    assert_eq!(session(&hints), Some(("s", SessionSource::CodexHeader)));
    assert_eq!(hints.thread.as_deref(), Some("t"));
    assert_eq!(hints.parent_thread.as_deref(), Some("p"));
    assert_eq!(hints.forked_from_thread.as_deref(), Some("f"));
    assert_eq!(hints.window, Some(2));
    assert_eq!(hints.agent_name.as_deref(), Some("/lead/sub_1"));
    assert_eq!(hints.agent_type.as_deref(), Some("collab_spawn"));
    assert_eq!(hints.turn_id.as_deref(), Some("u"));
    assert_eq!(hints.request_kind.as_deref(), Some("turn"));
    assert_eq!(hints.history_initialization.as_deref(), Some("warm_fork"));
}

#[test]
fn believes_common_session_headers_from_codex_only() {
    assert_eq!(session(&Hints::read([("session-id", "web")], None)), None);
}

#[test]
fn reads_opencode_headers() {
    let hints = Hints::read(
        [
            ("user-agent", "opencode/1.18.33 ai-sdk/provider-utils/4.0.46"),
            ("x-session-affinity", "ses_2"),
            ("x-session-id", "ses_2"),
            ("x-parent-session-id", "ses_1"),
        ],
        None,
    );
    assert_eq!(session(&hints), Some(("ses_2", SessionSource::OpencodeHeader)));
    assert_eq!(hints.parent_session.as_deref(), Some("ses_1"));
}

#[test]
fn a_cache_key_is_the_weakest_session() {
    let body = request(&[
        ("prompt_cache_key", "\"key\""),
        ("metadata", r#"{"user_id":"user_a_account_b_session_s"}"#),
    ]);
    assert_eq!(
        session(&Hints::read([], Some(&body))),
        Some(("s", SessionSource::UserId))
    );
    let alone = request(&[("prompt_cache_key", "\"key\"")]);
    let hints = Hints::read([], Some(&alone));
    assert_eq!(session(&hints), Some(("key", SessionSource::PromptCacheKey)));
    assert!(hints.session.unwrap().source.is_weak());
}

#[test]
fn refuses_hostile_values() {
    let long = "x".repeat(MAX_HINT_BYTES + 1);
    let metadata = format!(r#"{{"session_id":"s","pad":"{}"}}"#, "x".repeat(MAX_METADATA_BYTES));
    for value in [&*long, "a\u{1b}[2J", "a\u{85}b", "a\0", "", "  "] {
        let hints = Hints::read([("x-claude-code-session-id", value)], None);
        assert_eq!(hints.session, None, "{value:?}");
    }
    assert_eq!(
        Hints::read([("x-codex-turn-metadata", &*metadata)], None),
        Hints::none()
    );
    let escaped = r#"{"session_id":"a\u0007"}"#;
    assert_eq!(Hints::read([("x-codex-turn-metadata", escaped)], None), Hints::none());
    // The first usable value counts.
    let hints = Hints::read([("x-session-id", "\u{7}"), ("X-Session-Id", "fine")], None);
    assert_eq!(session(&hints).map(|found| found.0), Some("fine"));
}

#[test]
fn stripping_leaves_no_hint() {
    let mut headers: Vec<(String, String)> = HINT_HEADERS
        .iter()
        .map(|name| (name.to_uppercase(), "v:1".to_owned()))
        .collect();
    headers.push(("accept".to_owned(), "*/*".to_owned()));
    let mut body = request(&[("prompt_cache_key", "\"k\""), ("metadata", "{}"), ("max_tokens", "5")]);
    strip(&mut headers, &mut body);
    assert_eq!(headers.len(), 1);
    assert_eq!(body.options.len(), 1);
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    assert_eq!(Hints::read(pairs, Some(&body)), Hints::none());
}

#[test]
fn knows_clients_by_their_user_agent() {
    for (agent, kind, version) in [
        ("codex_cli_rs/0.50.1 (Mac)", Some(ClientKind::Codex), Some("0.50.1")),
        (
            "GeminiCLI/0.61.0/gemini-pro (linux; x64)",
            Some(ClientKind::GeminiCli),
            Some("0.61.0"),
        ),
        (
            "Anthropic/Python 1.17.0",
            Some(ClientKind::AnthropicSdk),
            Some("1.17.0"),
        ),
        ("AsyncOpenAI/Python 3.49.0", Some(ClientKind::OpenAiSdk), Some("3.49.0")),
        (
            "ai/6.0.326 ai-sdk/provider-utils/4.0.64",
            Some(ClientKind::AiSdk),
            Some("6.0.326"),
        ),
        ("curl/8.1", None, None),
        ("", None, None),
    ] {
        let client = Hints::read([("user-agent", agent)], None).client;
        assert_eq!(client.as_ref().map(|client| client.kind), kind, "{agent}");
        assert_eq!(client.and_then(|client| client.version).as_deref(), version, "{agent}");
    }
}

#[test]
fn a_system_prompt_may_name_its_agent() {
    let long = format!("{} You are the late agent.", "x".repeat(5_000));
    for (system, expected) in [
        (
            "You are currently running in \"Recon\" mode. Below are your instructions.",
            Some("Recon"),
        ),
        (
            "Rules first.\nYou are the code-review agent of this team.",
            Some("code-review"),
        ),
        ("You are the `scout` subagent.", Some("scout")),
        ("Agent name: night watch\nYou watch.", Some("night watch")),
        ("You are the one who decides, and whoever you meet is an agent", None),
        ("You are the best\nagent", None),
        ("You are Claude Code, the official CLI.", None),
        ("You are the  agent", None),
        ("You are currently running in \"", None),
        (&long, None),
    ] {
        let mut request = request(&[]);
        request.system.push(std::sync::Arc::new(Block::Text {
            text: system.into(),
            extra: None,
        }));
        assert_eq!(
            Hints::read([], Some(&request)).name_in_system.as_deref(),
            expected,
            "{system}"
        );
    }
}

use std::sync::Arc;

use ropewalk_core::model::{ChainStart, Tool};

use super::*;

/// A request of texts with their roles.
fn request(messages: &[(Role, &str)]) -> Request {
    let to_message = |(role, text): &(Role, &str)| {
        Arc::new(Message {
            role: *role,
            is_string: true,
            blocks: vec![Block::Text {
                text: (*text).into(),
                extra: None,
            }],
            extra: None,
        })
    };
    Request {
        provider: Provider::Anthropic,
        model: Some("m".into()),
        stream: true,
        start: ChainStart::Root,
        system: Vec::new(),
        tools: Vec::new(),
        messages: messages.iter().map(to_message).collect(),
        options: Vec::new(),
    }
}

fn with(mut request: Request, options: &[(&str, &str)]) -> Request {
    request.options = options
        .iter()
        .map(|(name, json)| ((*name).into(), (*json).into()))
        .collect();
    request
}

fn with_tool(mut request: Request, name: &str, json: &str) -> Request {
    request.tools.push(Arc::new(Tool {
        name: name.into(),
        json: json.into(),
    }));
    request
}

#[track_caller]
fn check(request: &Request, expected: RequestKind) {
    let found = classify(&Endpoint::Messages, request, &Hints::none());
    assert_eq!(found.kind, expected, "{}", found.reason);
    assert!(!found.reason.is_empty());
}

const TITLE_SCHEMA: (&str, &str) = (
    "output_config",
    r#"{"format":{"type":"json_schema","schema":{"properties":{"title":{"type":"string"}}}}}"#,
);

#[test]
fn ordinary_requests_are_turns() {
    check(&request(&[(Role::User, "hello")]), RequestKind::Turn);
    check(&request(&[]), RequestKind::Turn);
    let history = request(&[
        (Role::User, "hello"),
        (Role::Assistant, "hi"),
        (Role::User, "write a summary"),
    ]);
    check(&history, RequestKind::Turn);
    // One sign alone decides nothing.
    check(
        &with(request(&[(Role::User, "name it")]), &[TITLE_SCHEMA]),
        RequestKind::Turn,
    );
    check(&request(&[(Role::User, "<session>x</session>")]), RequestKind::Turn);
    check(
        &with(
            request(&[(Role::User, "a rather long question here")]),
            &[("max_tokens", "1")],
        ),
        RequestKind::Turn,
    );
}

#[test]
fn the_path_decides_first() {
    let request = request(&[(Role::User, "hello")]);
    let kind = |endpoint| classify(&endpoint, &request, &Hints::none()).kind;
    assert_eq!(
        kind(Endpoint::CountTokens(Provider::Anthropic)),
        RequestKind::CountTokens
    );
    assert_eq!(kind(Endpoint::CountTokens(Provider::Gemini)), RequestKind::CountTokens);
    assert_eq!(kind(Endpoint::ResponsesCompact), RequestKind::Compaction);
}

#[test]
fn the_clients_word_decides_before_the_shape() {
    let request = with(request(&[(Role::User, "quota")]), &[("max_tokens", "1")]);
    for (word, expected) in [
        ("turn", RequestKind::Turn),
        ("compaction", RequestKind::Compaction),
        ("prewarm", RequestKind::Prewarm),
        ("something new", RequestKind::QuotaProbe),
    ] {
        let hints = Hints {
            request_kind: Some(word.into()),
            ..Hints::none()
        };
        assert_eq!(
            classify(&Endpoint::Responses, &request, &hints).kind,
            expected,
            "{word}"
        );
    }
}

#[test]
fn titles_are_known_by_session_and_schema_or_by_their_words() {
    let quoted = request(&[(Role::User, "<session>\nfix the bug\n</session>")]);
    check(&with(quoted.clone(), &[TITLE_SCHEMA]), RequestKind::Title);
    check(
        &with_tool(with(quoted, &[TITLE_SCHEMA]), "Bash", "{}"),
        RequestKind::Turn,
    );
    let asked = request(&[
        (Role::User, "Generate a title for this conversation:\n"),
        (Role::User, "hello"),
    ]);
    check(&asked, RequestKind::Title);
}

#[test]
fn a_forced_search_is_a_helper_call() {
    let search = with_tool(
        request(&[(Role::User, "find it")]),
        "web_search",
        r#"{"type":"web_search_20250305","name":"web_search","max_uses":8}"#,
    );
    let forced = [("tool_choice", r#"{"type":"tool","name":"web_search"}"#)];
    check(&with(search.clone(), &forced), RequestKind::WebSearch);
    check(
        &with(search.clone(), &[("tool_choice", r#"{"type":"auto"}"#)]),
        RequestKind::Turn,
    );
    check(&with(with_tool(search, "Bash", "{}"), &forced), RequestKind::Turn);
}

#[test]
fn probes_and_warm_ups_are_helper_calls() {
    check(
        &with(request(&[(Role::User, "quota")]), &[("max_tokens", "1")]),
        RequestKind::QuotaProbe,
    );
    check(
        &with(request(&[(Role::User, "test")]), &[("max_output_tokens", "1")]),
        RequestKind::QuotaProbe,
    );
    check(&with(request(&[]), &[("generate", "false")]), RequestKind::Prewarm);
    check(&with(request(&[]), &[("generate", "true")]), RequestKind::Turn);
}

#[test]
fn a_side_question_says_so_in_a_reminder() {
    let history = |last| request(&[(Role::User, "go"), (Role::Assistant, "ok"), (Role::User, last)]);
    let aside = "<system-reminder>This is a side question.</system-reminder>\n\nwhat is this?";
    check(&history(aside), RequestKind::SideQuestion);
    check(&history("a side question: what is this?"), RequestKind::Turn);
}

#[test]
fn compaction_is_known_by_its_instruction() {
    let history = |last| request(&[(Role::User, "go"), (Role::Assistant, "ok"), (Role::User, last)]);
    for last in [
        "Sum up. Write an <analysis> block, then a <summary> block.",
        "Write a summary of everything. Respond with TEXT ONLY.",
        "Your task is to create a detailed summary of the conversation so far.",
    ] {
        check(&history(last), RequestKind::Compaction);
        check(&request(&[(Role::User, last)]), RequestKind::Turn);
    }
    let mut trailing = history("Write a summary. Respond with text only.");
    trailing
        .messages
        .push(request(&[(Role::System, "context")]).messages[0].clone());
    check(&trailing, RequestKind::Compaction);
}

#[test]
fn a_router_is_known_by_the_schema_of_its_answer() {
    let config = r#"{"responseJsonSchema":{"properties":{"model_choice":{"type":"string"}}}}"#;
    let mut router = with(request(&[(Role::User, "which one?")]), &[("generationConfig", config)]);
    check(&router, RequestKind::Turn);
    router.provider = Provider::Gemini;
    check(&router, RequestKind::Router);
}

#[test]
fn only_turns_and_compactions_are_not_auxiliary() {
    assert!(!RequestKind::Turn.is_auxiliary() && !RequestKind::Compaction.is_auxiliary());
    assert!(RequestKind::Title.is_auxiliary() && RequestKind::Router.is_auxiliary());
}

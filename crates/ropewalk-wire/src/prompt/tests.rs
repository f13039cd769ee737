use super::*;

fn read(provider: Provider, json: &str) -> Prompt {
    Prompt::read(provider, json.as_bytes()).unwrap()
}

fn texts(prompt: &Prompt) -> Vec<&str> {
    prompt.parts.iter().map(|part| &*part.text).collect()
}

#[test]
fn a_prompt_is_read_in_the_order_of_the_cache() {
    let prompt = read(
        Provider::Anthropic,
        r#"{"messages":[{"role":"user","content":"Hi"}],"system":[{"type":"text","text":"Be kind","cache_control":{"type":"ephemeral","ttl":"1h"}}],
            "tools":[{"name":"Read","input_schema":{"b":1,"a":2}}]}"#,
    );
    let sections: Vec<Section> = prompt.parts.iter().map(|part| part.place.section()).collect();
    assert_eq!(sections, [Section::Tools, Section::System, Section::Messages]);
    assert_eq!(
        texts(&prompt),
        [
            r#"{"input_schema":{"b":1,"a":2},"name":"Read"}"#,
            r#"{"text":"Be kind","type":"text"}"#,
            r#"{"text":"Hi","type":"text"}"#,
        ]
    );
    let kept: Vec<Option<Lifetime>> = prompt.parts.iter().map(|part| part.breakpoint).collect();
    assert_eq!(kept, [None, Some(Lifetime::OneHour), None]);
}

#[test]
fn one_thing_in_two_spellings_is_one_thing() {
    for (one, other) in [
        (
            r#"{"messages":[{"role":"user","content":"a\u00e9"}]}"#,
            r#"{"messages":[{"content":[{"text":"aé","type":"text","cache_control":{"type":"ephemeral"}}],"role":"user"}]}"#,
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}]}"#,
            r#"{"messages":[{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":[{"type":"text", "text":"ok"}],"is_error":null}]}]}"#,
        ),
    ] {
        let (one, other) = (read(Provider::Anthropic, one), read(Provider::Anthropic, other));
        assert_eq!(texts(&one), texts(&other));
    }
}

#[test]
fn the_order_inside_a_tools_input_counts() {
    let call = |input: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"n","input":{input}}}]}}]}}"#
        );
        read(Provider::Anthropic, &body)
    };
    assert_ne!(texts(&call(r#"{"a":1,"b":2}"#)), texts(&call(r#"{"b":2,"a":1}"#)));
}

#[test]
fn a_mark_on_the_request_is_one_on_its_last_block() {
    let prompt = read(
        Provider::Anthropic,
        r#"{"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#,
    );
    assert_eq!(prompt.parts[0].breakpoint, None);
    assert_eq!(prompt.parts[1].breakpoint, Some(Lifetime::FiveMinutes));
}

#[test]
fn what_a_developer_says_first_is_the_system_prompt() {
    let chat = read(
        Provider::OpenAiChat,
        r#"{"messages":[{"role":"developer","content":"Be kind"},{"role":"user","content":"Hi"},{"role":"system","content":"Now"}],
            "tools":[{"type":"function","function":{"name":"f"}}],"prompt_cache_retention":"24h","prompt_cache_key":"k"}"#,
    );
    let sections: Vec<Section> = chat.parts.iter().map(|part| part.place.section()).collect();
    let expected = [Section::Tools, Section::System, Section::Messages, Section::Messages];
    assert_eq!(sections, expected);
    assert_eq!(chat.caching, Caching::Automatic(Lifetime::OneDay));
    assert_eq!(chat.cache_key.as_deref(), Some("k"));
    let responses = read(
        Provider::OpenAiResponses,
        r#"{"instructions":"Be kind","input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]},
            {"type":"message","role":"user","id":"m1","content":[{"type":"input_text","text":"Hi"}]},
            {"type":"function_call","id":"c1","call_id":"x","name":"f","arguments":"{}"}],"previous_response_id":"r"}"#,
    );
    let sections: Vec<Section> = responses.parts.iter().map(|part| part.place.section()).collect();
    assert_eq!(sections, expected);
    assert!(responses.goes_on_elsewhere);
    assert!(!responses.parts[3].text.contains("c1"));
}

#[test]
fn a_picture_weighs_what_it_says_and_not_what_it_is_sent_in() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","data":"{}"}}}}]}}]}}"#,
        "A".repeat(1 << 20)
    );
    let prompt = read(Provider::Anthropic, &body);
    assert!(prompt.weight() < 2 * FILE_BYTES, "{}", prompt.weight());
}

#[test]
fn an_answer_that_says_nothing_of_a_cache_is_told_from_one_that_read_nothing() {
    let said = br#"{"usage":{"input_tokens":1,"cache_read_input_tokens":0}}"#;
    assert!(tells_of_cache(Provider::Anthropic, said));
    let quoted = br#"{"content":[{"text":"\"cache_read_input_tokens\""}],"usage":{"input_tokens":1}}"#;
    assert!(!tells_of_cache(Provider::Anthropic, quoted));
    assert!(!tells_of_cache(Provider::OpenAiChat, said));
}

#[test]
fn hostile_bodies_are_read_without_harm() {
    for body in [
        "",
        "[]",
        "null",
        "{",
        r#"{"messages":5,"tools":{"a":1},"system":[1,null,[]]}"#,
        r#"{"messages":[null,{"role":1,"content":[null,1,"x"]}],"input":[[],{"type":"additional_tools","tools":3}]}"#,
    ] {
        for provider in [
            Provider::Anthropic,
            Provider::OpenAiChat,
            Provider::OpenAiResponses,
            Provider::Gemini,
        ] {
            let _ = Prompt::read(provider, body.as_bytes());
        }
    }
}

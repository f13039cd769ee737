//! What is left of a body when no text may be kept: model, tokens, stop reason, in the provider's own shape.
//!
//! A skeleton is read by the same decoders as the body it stands for, so that what counts tokens and money needs to know nothing
//! about it.

use ropewalk_core::json::{Doc, Style, quote};
use ropewalk_core::model::{Provider, Response, Usage};

use crate::response::decode_response;

/// The model that was asked for, and nothing else.
pub fn of_request(body: &[u8]) -> String {
    let model = Doc::parse(body).ok().and_then(|doc| doc.root().get("model")?.to_text());
    match model {
        Some(model) => format!("{{\"model\":{}}}", quote(&model, Style::Plain)),
        None => "{}".to_owned(),
    }
}

/// The model that answered, its tokens and why it stopped; of an error, its kind.
pub fn of_response(provider: Provider, status: u16, content_type: Option<&str>, body: &[u8]) -> String {
    let answer = decode_response(provider, status, content_type, body);
    if let Some(error) = &answer.error {
        let kind = quote(&error.kind, Style::Plain);
        return format!("{{\"type\":\"error\",\"error\":{{\"type\":{kind},\"message\":\"\"}}}}");
    }
    let is_stream = content_type.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let object = object(provider, &answer);
    match (is_stream, provider) {
        (false, _) => object,
        (true, Provider::Anthropic) => stream_of_messages(&object, &answer),
        (true, Provider::OpenAiChat) => format!("data: {object}\n\ndata: [DONE]\n\n"),
        (true, Provider::OpenAiResponses) => {
            format!("event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":{object}}}\n\n")
        }
        (true, Provider::Gemini) => format!("data: {object}\n\n"),
    }
}

fn object(provider: Provider, answer: &Response) -> String {
    let text = |text: Option<&str>| text.map_or("null".to_owned(), |text| quote(text, Style::Plain));
    let (model, stop) = (text(answer.model.as_deref()), text(answer.stop_reason.as_deref()));
    let usage = answer.usage.map_or("null".to_owned(), |usage| tokens(provider, &usage));
    match provider {
        Provider::Anthropic => format!(
            "{{\"type\":\"message\",\"role\":\"assistant\",\"model\":{model},\"content\":[],\"stop_reason\":{stop},\"usage\":{usage}}}"
        ),
        Provider::OpenAiChat => format!("{{\"model\":{model},\"choices\":[],\"usage\":{usage}}}"),
        Provider::OpenAiResponses => {
            format!(
                "{{\"object\":\"response\",\"status\":\"completed\",\"model\":{model},\"output\":[],\"usage\":{usage}}}"
            )
        }
        // A candidate's finish is what ends an answer there.
        Provider::Gemini => format!(
            "{{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[]}},\"finishReason\":{stop}}}],\
             \"modelVersion\":{model},\"usageMetadata\":{usage}}}"
        ),
    }
}

fn stream_of_messages(object: &str, answer: &Response) -> String {
    let stop = answer
        .stop_reason
        .as_deref()
        .map_or("null".to_owned(), |stop| quote(stop, Style::Plain));
    let output = answer.usage.map_or(0, |usage| usage.output_tokens);
    format!(
        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{object}}}\n\n\
         event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":{stop}}},\
         \"usage\":{{\"output_tokens\":{output}}}}}\n\n\
         event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    )
}

/// In the provider's convention: Anthropic counts the cache beside the input, the others within it.
fn tokens(provider: Provider, usage: &Usage) -> String {
    let Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: written,
        cache_write_1h_tokens: written_1h,
        reasoning_tokens: reasoning,
        web_searches: searches,
    } = *usage;
    let within = input.saturating_add(read).saturating_add(written);
    let inside = |input_name: &str, output_name: &str, details: (&str, &str)| {
        format!(
            "{{\"{input_name}\":{within},\"{output_name}\":{output},\
             \"{}\":{{\"cached_tokens\":{read},\"cache_write_tokens\":{written}}},\
             \"{}\":{{\"reasoning_tokens\":{reasoning}}}}}",
            details.0, details.1
        )
    };
    match provider {
        Provider::Anthropic => format!(
            "{{\"input_tokens\":{input},\"output_tokens\":{output},\"cache_read_input_tokens\":{read},\
             \"cache_creation_input_tokens\":{written},\"cache_creation\":{{\"ephemeral_5m_input_tokens\":{},\
             \"ephemeral_1h_input_tokens\":{written_1h}}},\"output_tokens_details\":{{\"thinking_tokens\":{reasoning}}},\
             \"server_tool_use\":{{\"web_search_requests\":{searches}}}}}",
            written.saturating_sub(written_1h)
        ),
        Provider::OpenAiChat => inside(
            "prompt_tokens",
            "completion_tokens",
            ("prompt_tokens_details", "completion_tokens_details"),
        ),
        Provider::OpenAiResponses => inside(
            "input_tokens",
            "output_tokens",
            ("input_tokens_details", "output_tokens_details"),
        ),
        Provider::Gemini => format!(
            "{{\"promptTokenCount\":{within},\"candidatesTokenCount\":{},\"cachedContentTokenCount\":{read},\
             \"thoughtsTokenCount\":{reasoning}}}",
            output.saturating_sub(reasoning)
        ),
    }
}

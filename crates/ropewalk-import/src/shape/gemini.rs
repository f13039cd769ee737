//! Gemini generateContent.

use super::{
    Answer, Call, CallResult, Context, Input, Media, Part, Role, Said, Source, Tool, Usage, list, literal, members,
    object,
};

pub(super) fn messages(said: &Said) -> Vec<String> {
    if said.parts.is_empty() {
        return Vec::new();
    }
    let role = match said.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "model",
    };
    vec![content(role, &said.parts)]
}

fn content(role: &str, parts: &[Part]) -> String {
    let parts: Vec<String> = parts.iter().flat_map(part).collect();
    object(members([("role", Some(literal(role))), ("parts", Some(list(&parts)))]))
}

fn part(part: &Part) -> Vec<String> {
    match part {
        Part::Text(text) => vec![object(members([("text", Some(text.clone()))]))],
        Part::Thinking(text) => vec![object(members([
            ("text", Some(text.clone())),
            ("thought", Some("true".to_owned())),
        ]))],
        Part::Call(call) => vec![function_call(call)],
        Part::Result(result) => {
            let response = function_response(result);
            std::iter::once(response)
                .chain(result.media.iter().map(media))
                .collect()
        }
        Part::Media(file) => vec![media(file)],
    }
}

fn function_call(call: &Call) -> String {
    let (Input::Json(args) | Input::Text(args)) = &call.input;
    let inside = members([
        ("id", call.id.clone()),
        ("name", Some(call.name.clone())),
        ("args", Some(args.clone())),
    ]);
    object(members([("functionCall", Some(object(inside)))]))
}

fn function_response(result: &CallResult) -> String {
    let response = result
        .text
        .clone()
        .map(|text| object(members([("output", Some(text))])));
    let inside = members([
        ("id", result.id.clone()),
        ("name", result.name.clone()),
        ("response", response),
    ]);
    object(members([("functionResponse", Some(object(inside)))]))
}

fn media(file: &Media) -> String {
    let media_type = Some(literal(&file.media_type)).filter(|_| !file.media_type.is_empty());
    let (kind, name, value) = match &file.source {
        Source::Base64(data) => ("inlineData", "data", data),
        Source::Url(url) | Source::File(url) => ("fileData", "fileUri", url),
    };
    let inside = object(members([("mimeType", media_type), (name, Some(literal(value)))]));
    object(members([(kind, Some(inside))]))
}

pub(super) fn answer(answer: &Answer) -> String {
    let candidate = object(members([
        ("content", Some(content("model", &answer.parts))),
        // Without one, the answer would be one that broke off.
        (
            "finishReason",
            Some(answer.stop_reason.clone().unwrap_or_else(|| literal("STOP"))),
        ),
    ]));
    object(members([
        ("responseId", answer.id.clone()),
        ("modelVersion", answer.model.clone()),
        ("candidates", Some(list(&[candidate]))),
        ("usageMetadata", answer.usage.as_ref().map(usage)),
    ]))
}

/// The log's total has the thoughts in it, which are counted beside the candidates here.
fn usage(usage: &Usage) -> String {
    let thoughts = usage.details.iter().find(|(name, _)| name == "\"thoughtsTokenCount\"");
    let thoughts = thoughts.and_then(|(_, count)| count.parse().ok()).unwrap_or(0);
    let apart = Usage {
        output: usage.output.saturating_sub(thoughts),
        ..usage.clone()
    };
    apart.write("promptTokenCount", "candidatesTokenCount")
}

pub(super) fn request(messages: &[String], context: &Context) -> String {
    let parts = |text: &String| list(&[object(members([("text", Some(text.clone()))]))]);
    let system = context
        .system
        .as_ref()
        .map(|text| object(members([("parts", Some(parts(text)))])));
    let tools: Vec<String> = context.tools.iter().map(tool).collect();
    let declarations = || list(&[object(members([("functionDeclarations", Some(list(&tools)))]))]);
    let schema = members([("responseSchema", context.schema.clone())]);
    let options: Vec<_> = schema.chain(context.own_options()).collect();
    // The model stands in the path.
    object(members([
        ("contents", Some(list(messages))),
        ("systemInstruction", system),
        ("tools", (!tools.is_empty()).then(declarations)),
        ("generationConfig", (!options.is_empty()).then(|| object(options))),
    ]))
}

fn tool(tool: &Tool) -> String {
    object(members([
        ("name", Some(tool.name.clone())),
        ("description", tool.description.clone()),
        ("parameters", Some(tool.schema.clone())),
    ]))
}

//! Anthropic Messages.

use super::{
    Answer, Call, CallResult, Context, Input, Media, Part, Role, Said, Source, Tool, list, literal, members, object,
};

pub(super) fn messages(said: &Said) -> Vec<String> {
    if said.parts.is_empty() {
        return Vec::new();
    }
    let role = match said.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let role = Some(literal(role));
    vec![object(members([
        ("role", role),
        ("content", Some(blocks(&said.parts))),
    ]))]
}

pub(super) fn blocks(parts: &[Part]) -> String {
    list(&parts.iter().map(block).collect::<Vec<_>>())
}

fn block(part: &Part) -> String {
    match part {
        Part::Text(text) => object(members([("type", Some(literal("text"))), ("text", Some(text.clone()))])),
        Part::Thinking(text) => object(members([
            ("type", Some(literal("thinking"))),
            ("thinking", Some(text.clone())),
        ])),
        Part::Call(call) => tool_use(call),
        Part::Result(result) => tool_result(result),
        Part::Media(file) => media(file),
    }
}

fn tool_use(call: &Call) -> String {
    let (Input::Json(input) | Input::Text(input)) = &call.input;
    object(members([
        ("type", Some(literal("tool_use"))),
        ("id", call.id.clone()),
        ("name", Some(call.name.clone())),
        ("input", Some(input.clone())),
    ]))
}

fn tool_result(result: &CallResult) -> String {
    let content = match (&result.text, &result.media[..]) {
        (text, []) => text.clone(),
        (text, files) => {
            let text = text.iter().map(|text| block(&Part::Text(text.clone())));
            Some(list(&text.chain(files.iter().map(media)).collect::<Vec<_>>()))
        }
    };
    object(members([
        ("type", Some(literal("tool_result"))),
        ("tool_use_id", result.id.clone()),
        ("content", content),
        ("is_error", result.is_error.then(|| "true".to_owned())),
    ]))
}

fn media(file: &Media) -> String {
    let media_type = Some(literal(&file.media_type)).filter(|_| !file.media_type.is_empty());
    let (kind, name, value) = match &file.source {
        Source::Base64(data) => ("base64", "data", data),
        Source::Url(url) => ("url", "url", url),
        Source::File(id) => ("file", "file_id", id),
    };
    let source = object(members([
        ("type", Some(literal(kind))),
        ("media_type", media_type.filter(|_| kind == "base64")),
        (name, Some(literal(value))),
    ]));
    object(members([
        (
            "type",
            Some(literal(if file.is_image() { "image" } else { "document" })),
        ),
        ("source", Some(source)),
        ("title", file.file_name.clone().filter(|_| !file.is_image())),
    ]))
}

pub(super) fn answer(answer: &Answer) -> String {
    let usage = answer.usage.as_ref();
    object(members([
        ("id", answer.id.clone()),
        ("type", Some(literal("message"))),
        ("role", Some(literal("assistant"))),
        ("model", answer.model.clone()),
        ("content", Some(blocks(&answer.parts))),
        ("stop_reason", answer.stop_reason.clone()),
        ("usage", usage.map(|usage| usage.write("input_tokens", "output_tokens"))),
    ]))
}

pub(super) fn request(messages: &[String], context: &Context) -> String {
    let tools: Vec<String> = context.tools.iter().map(tool).collect();
    let own = members([
        ("messages", Some(list(messages))),
        ("model", context.model.clone()),
        ("system", context.system.clone()),
        ("tools", Some(list(&tools)).filter(|_| !tools.is_empty())),
    ]);
    object(own.chain(context.own_options()))
}

fn tool(tool: &Tool) -> String {
    object(members([
        ("name", Some(tool.name.clone())),
        ("description", tool.description.clone()),
        ("input_schema", Some(tool.schema.clone())),
    ]))
}

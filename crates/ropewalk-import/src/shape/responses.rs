//! OpenAI Responses: a flat list of items.

use super::{
    Answer, Call, CallResult, Context, Input, Media, Part, Role, Said, Source, Tool, joined, list, literal, members,
    object,
};

pub(super) fn items(said: &Said) -> Vec<String> {
    let (role, text_type) = match said.role {
        Role::System => ("system", "input_text"),
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    let mut items = Vec::new();
    let mut blocks = Vec::new();
    for part in &said.parts {
        match part {
            Part::Text(text) => blocks.push(text_block(text_type, text)),
            Part::Media(file) => blocks.push(media(file)),
            other => {
                close(role, &mut blocks, &mut items);
                items.extend(item(other));
            }
        }
    }
    close(role, &mut blocks, &mut items);
    items
}

/// What was said so far is one message.
fn close(role: &str, blocks: &mut Vec<String>, items: &mut Vec<String>) {
    let blocks = std::mem::take(blocks);
    if !blocks.is_empty() {
        items.push(object(members([
            ("type", Some(literal("message"))),
            ("role", Some(literal(role))),
            ("content", Some(list(&blocks))),
        ])));
    }
}

fn item(part: &Part) -> Option<String> {
    match part {
        Part::Thinking(text) => {
            let summary = text_block("summary_text", text);
            Some(object(members([
                ("type", Some(literal("reasoning"))),
                ("summary", Some(list(&[summary]))),
            ])))
        }
        Part::Call(call) => Some(function_call(call)),
        Part::Result(result) => Some(call_output(result)),
        Part::Text(_) | Part::Media(_) => None,
    }
}

fn text_block(kind: &str, text: &str) -> String {
    object(members([
        ("type", Some(literal(kind))),
        ("text", Some(text.to_owned())),
    ]))
}

fn function_call(call: &Call) -> String {
    let arguments = match &call.input {
        Input::Json(json) => literal(json),
        Input::Text(text) => text.clone(),
    };
    object(members([
        ("type", Some(literal("function_call"))),
        ("call_id", call.id.clone()),
        ("name", Some(call.name.clone())),
        ("arguments", Some(arguments)),
    ]))
}

fn call_output(result: &CallResult) -> String {
    let output = match (&result.text, &result.media[..]) {
        (text, []) => text.clone(),
        (text, files) => {
            let text = text.iter().map(|text| text_block("input_text", text));
            Some(list(&text.chain(files.iter().map(media)).collect::<Vec<_>>()))
        }
    };
    object(members([
        ("type", Some(literal("function_call_output"))),
        ("call_id", result.id.clone()),
        ("output", output),
    ]))
}

fn media(file: &Media) -> String {
    let (kind, name) = match (&file.source, file.is_image()) {
        (Source::File(_), true) => ("input_image", "file_id"),
        (_, true) => ("input_image", "image_url"),
        (Source::Base64(_), false) => ("input_file", "file_data"),
        (Source::Url(_), false) => ("input_file", "file_url"),
        (Source::File(_), false) => ("input_file", "file_id"),
    };
    object(members([
        ("type", Some(literal(kind))),
        (name, Some(file.url())),
        ("filename", file.file_name.clone().filter(|_| kind == "input_file")),
    ]))
}

pub(super) fn answer(answer: &Answer) -> String {
    let output = items(&Said {
        role: Role::Assistant,
        parts: answer.parts.clone(),
    });
    let usage = answer.usage.as_ref();
    object(members([
        ("id", answer.id.clone()),
        ("object", Some(literal("response"))),
        (
            "status",
            Some(answer.stop_reason.clone().unwrap_or_else(|| literal("completed"))),
        ),
        ("model", answer.model.clone()),
        ("output", Some(list(&output))),
        ("usage", usage.map(|usage| usage.write("input_tokens", "output_tokens"))),
    ]))
}

pub(super) fn request(items: &[String], context: &Context) -> String {
    let tools: Vec<String> = context.tools.iter().map(tool).collect();
    let own = members([
        ("input", Some(list(items))),
        ("model", context.model.clone()),
        ("instructions", joined(context.system.iter(), "\n")),
        ("tools", Some(list(&tools)).filter(|_| !tools.is_empty())),
        ("text", context.schema.as_deref().map(text_format)),
    ]);
    object(own.chain(context.own_options()))
}

fn text_format(schema: &str) -> String {
    let format = object(members([
        ("type", Some(literal("json_schema"))),
        ("name", Some(literal("output"))),
        ("schema", Some(schema.to_owned())),
    ]));
    object(members([("format", Some(format))]))
}

fn tool(tool: &Tool) -> String {
    object(members([
        ("type", Some(literal("function"))),
        ("name", Some(tool.name.clone())),
        ("description", tool.description.clone()),
        ("parameters", Some(tool.schema.clone())),
    ]))
}

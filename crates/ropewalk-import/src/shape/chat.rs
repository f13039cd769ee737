//! OpenAI Chat Completions.

use super::{
    Answer, Call, CallResult, Context, Input, Media, Part, Role, Said, Source, Tool, joined, list, literal, members,
    object, texts, thoughts,
};

pub(super) fn messages(said: &Said) -> Vec<String> {
    let system = || {
        let text = joined(texts(&said.parts), "\n")?;
        Some(object(members([
            ("role", Some(literal("system"))),
            ("content", Some(text)),
        ])))
    };
    match said.role {
        Role::System => system().into_iter().collect(),
        Role::Assistant if said.parts.is_empty() => Vec::new(),
        Role::Assistant => vec![assistant(&said.parts)],
        Role::User => user(&said.parts),
    }
}

/// Results are messages of their own here, before what the user says.
fn user(parts: &[Part]) -> Vec<String> {
    let mut found = Vec::new();
    let mut blocks = Vec::new();
    for part in parts {
        match part {
            Part::Result(result) => found.push(tool_result(result)),
            other => blocks.push(other),
        }
    }
    if !blocks.is_empty() {
        let content = content(&blocks);
        found.push(object(members([("role", Some(literal("user"))), ("content", content)])));
    }
    found
}

/// One text is a string; anything else is a list.
fn content(parts: &[&Part]) -> Option<String> {
    match parts {
        [Part::Text(text)] => Some(text.clone()),
        parts => {
            let blocks: Vec<String> = parts.iter().filter_map(|part| block(part)).collect();
            (!blocks.is_empty()).then(|| list(&blocks))
        }
    }
}

fn block(part: &Part) -> Option<String> {
    match part {
        Part::Text(text) => Some(text_block(text)),
        Part::Media(file) => Some(media(file)),
        Part::Thinking(_) | Part::Call(_) | Part::Result(_) => None,
    }
}

fn text_block(text: &str) -> String {
    object(members([
        ("type", Some(literal("text"))),
        ("text", Some(text.to_owned())),
    ]))
}

fn media(file: &Media) -> String {
    let typed = |kind: &str, inside: String| object(members([("type", Some(literal(kind))), (kind, Some(inside))]));
    let format = file.media_type.strip_prefix("audio/");
    match (&file.source, format) {
        (Source::Base64(_) | Source::Url(_), _) if file.is_image() => {
            typed("image_url", object(members([("url", Some(file.url()))])))
        }
        (Source::Base64(data), Some(format)) => {
            let format = literal(if format == "mpeg" { "mp3" } else { format });
            typed(
                "input_audio",
                object(members([("data", Some(literal(data))), ("format", Some(format))])),
            )
        }
        (source, _) => {
            let name = match source {
                Source::Base64(_) => "file_data",
                Source::Url(_) => "file_url",
                Source::File(_) => "file_id",
            };
            typed(
                "file",
                object(members([
                    (name, Some(file.url())),
                    ("filename", file.file_name.clone()),
                ])),
            )
        }
    }
}

fn tool_result(result: &CallResult) -> String {
    let content = match (&result.text, &result.media[..]) {
        (text, []) => text.clone(),
        (text, files) => {
            let text = text.iter().map(|text| text_block(text));
            Some(list(&text.chain(files.iter().map(media)).collect::<Vec<_>>()))
        }
    };
    object(members([
        ("role", Some(literal("tool"))),
        ("tool_call_id", result.id.clone()),
        ("name", result.name.clone()),
        ("content", content),
    ]))
}

fn assistant(parts: &[Part]) -> String {
    let said: Vec<&Part> = parts
        .iter()
        .filter(|part| matches!(part, Part::Text(_) | Part::Media(_)))
        .collect();
    let calls: Vec<String> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(tool_call(call)),
            _ => None,
        })
        .collect();
    object(members([
        ("role", Some(literal("assistant"))),
        ("content", Some(content(&said).unwrap_or_else(|| "null".to_owned()))),
        ("reasoning_content", joined(thoughts(parts), "\n")),
        ("tool_calls", (!calls.is_empty()).then(|| list(&calls))),
    ]))
}

fn tool_call(call: &Call) -> String {
    let arguments = match &call.input {
        Input::Json(json) => literal(json),
        Input::Text(text) => text.clone(),
    };
    let function = object(members([
        ("name", Some(call.name.clone())),
        ("arguments", Some(arguments)),
    ]));
    object(members([
        ("id", call.id.clone()),
        ("type", Some(literal("function"))),
        ("function", Some(function)),
    ]))
}

pub(super) fn answer(answer: &Answer) -> String {
    let choice = object(members([
        ("index", Some("0".to_owned())),
        ("message", Some(assistant(&answer.parts))),
        ("finish_reason", answer.stop_reason.clone()),
    ]));
    let usage = answer.usage.as_ref();
    object(members([
        ("id", answer.id.clone()),
        ("object", Some(literal("chat.completion"))),
        ("model", answer.model.clone()),
        ("choices", Some(list(&[choice]))),
        (
            "usage",
            usage.map(|usage| usage.write("prompt_tokens", "completion_tokens")),
        ),
    ]))
}

pub(super) fn request(messages: &[String], context: &Context) -> String {
    let system = context.system.iter().map(|text| {
        let role = Some(literal("system"));
        object(members([("role", role), ("content", Some(text.clone()))]))
    });
    let all: Vec<String> = system.chain(messages.iter().cloned()).collect();
    let tools: Vec<String> = context.tools.iter().map(tool).collect();
    let own = members([
        ("messages", Some(list(&all))),
        ("model", context.model.clone()),
        ("tools", Some(list(&tools)).filter(|_| !tools.is_empty())),
        ("response_format", context.schema.as_deref().map(response_format)),
    ]);
    object(own.chain(context.own_options()))
}

fn response_format(schema: &str) -> String {
    let inside = members([("name", Some(literal("output"))), ("schema", Some(schema.to_owned()))]);
    object(members([
        ("type", Some(literal("json_schema"))),
        ("json_schema", Some(object(inside))),
    ]))
}

fn tool(tool: &Tool) -> String {
    let function = object(members([
        ("name", Some(tool.name.clone())),
        ("description", tool.description.clone()),
        ("parameters", Some(tool.schema.clone())),
    ]));
    object(members([
        ("type", Some(literal("function"))),
        ("function", Some(function)),
    ]))
}

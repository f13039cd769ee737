//! Google's generateContent: texts only.

use super::{Answered, Asked, is_assistant, joined_text, prompt_text};
use crate::traffic::history::Said;
use crate::traffic::write::quoted;

pub(super) fn request(asked: &Asked<'_>) -> String {
    let contents = asked.history.iter().enumerate().map(|(index, said)| {
        let role = if is_assistant(said) { "model" } else { "user" };
        content(role, &prompt_text(asked, index, &joined_text(said)))
    });
    format!(
        r#"{{"systemInstruction":{{"parts":[{{"text":{}}}]}},"contents":[{}]}}"#,
        quoted(asked.system),
        contents.collect::<Vec<_>>().join(",")
    )
}

pub(super) fn answer(answered: &Answered<'_>) -> String {
    let text = joined_text(&Said::user(answered.blocks.to_vec()));
    format!(
        r#"{{"responseId":"{}","candidates":[{{"content":{},"finishReason":"STOP","index":0}}],"modelVersion":"gemini-2.5-pro","usageMetadata":{{"promptTokenCount":9,"candidatesTokenCount":20,"totalTokenCount":29}}}}"#,
        answered.id,
        content("model", &text)
    )
}

fn content(role: &str, text: &str) -> String {
    format!(r#"{{"role":"{role}","parts":[{{"text":{}}}]}}"#, quoted(text))
}

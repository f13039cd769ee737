//! A node as a session file of Claude Code, to go on from with `claude --resume`.
//!
//! Everything in it is derived, so the same node gives the same file. Answers keep the provider's ids: whoever imports the file finds
//! the calls that are recorded already, and counts none twice.

use ropewalk_core::json::{Style, quote};
use ropewalk_core::model::{Role, Usage};
use ropewalk_engine::view::transcript::{Reach, Spoken};
use ropewalk_engine::view::{derived_uuid, utc};
use serde_json::json;

use super::reading::{Reading, Written};

/// What a file says that no Claude Code wrote.
const VERSION: &str = "2.0.0";

pub(super) const WRITTEN: Written = Written {
    reach: Reach::Context,
    text,
};

fn text(reading: &Reading) -> String {
    let session = derived_uuid(&["v1:export", &reading.conversation, &reading.tip]);
    let mut lines = String::new();
    let mut parent: Option<String> = None;
    for (index, spoken) in reading.spoken.iter().enumerate() {
        let uuid = derived_uuid(&["v1:export", &session, &index.to_string()]);
        lines.push_str(&line(spoken, &session, &uuid, parent.as_deref()));
        lines.push('\n');
        parent = Some(uuid);
    }
    lines
}

/// Members in the order in which Claude Code writes them.
fn line(spoken: &Spoken, session: &str, uuid: &str, parent: Option<&str>) -> String {
    let quoted = |text: &str| quote(text, Style::Plain);
    let parent = parent.map_or_else(|| "null".to_owned(), quoted);
    let cwd = quoted(spoken.project.as_deref().unwrap_or("/"));
    let version = quoted(spoken.client_version.as_deref().unwrap_or(VERSION));
    let timestamp = spoken.at.map_or_else(|| "null".to_owned(), |at| quoted(&utc(at)));
    let (kind, message, request) = match spoken.role {
        Role::Assistant => ("assistant", answer(spoken), request(spoken)),
        Role::User | Role::System => (
            "user",
            format!("{{\"role\":\"user\",\"content\":{}}}", spoken.content),
            String::new(),
        ),
    };
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":{cwd},\"sessionId\":{},\
         \"version\":{version},\"gitBranch\":\"\",\"type\":\"{kind}\",\"message\":{message},{request}\"uuid\":{},\
         \"timestamp\":{timestamp}}}",
        quoted(session),
        quoted(uuid)
    )
}

fn request(spoken: &Spoken) -> String {
    let id = spoken.answer.as_ref().and_then(|answer| answer.request_id.as_deref());
    id.map_or_else(String::new, |id| format!("\"requestId\":{},", quote(id, Style::Plain)))
}

fn answer(spoken: &Spoken) -> String {
    // An answer is always an array of blocks.
    let content = match spoken.content.starts_with('[') {
        true => spoken.content.clone(),
        false => format!("[{{\"type\":\"text\",\"text\":{}}}]", spoken.content),
    };
    let answer = spoken.answer.as_ref();
    let mut about = json!({"type": "message", "role": "assistant", "stop_sequence": null});
    about["model"] = json!(answer.and_then(|answer| answer.model.as_deref()).unwrap_or("unknown"));
    about["stop_reason"] = json!(
        answer
            .and_then(|answer| answer.stop_reason.as_deref())
            .unwrap_or("end_turn")
    );
    if let Some(id) = answer.and_then(|answer| answer.id.as_deref()) {
        about["id"] = json!(id);
    }
    if let Some(counted) = answer.and_then(|answer| answer.usage) {
        about["usage"] = usage(&counted);
    }
    let about = about.to_string();
    format!("{{\"content\":{content},{}", about.trim_start_matches('{'))
}

fn usage(usage: &Usage) -> serde_json::Value {
    let five_minutes = usage.cache_write_tokens.saturating_sub(usage.cache_write_1h_tokens);
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": five_minutes,
            "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
        },
    })
}

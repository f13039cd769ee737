//! What the history tells: `diff`, `spread`, `suggest`, `templates`, `stats --waste`, and merges in `log --graph`.

mod diff;
pub(crate) mod merges;
mod spread;
pub(crate) mod suggest;
pub(crate) mod templates;
pub(crate) mod waste;

use serde_json::{Value, json};

use crate::store::turn;

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn assistant(blocks: &[Value]) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]})
}

/// An exchange at a second of a day: what was sent, and the blocks of the answer.
fn exchange(id: &str, second: u32, messages: &[Value], answer: &[Value]) -> Value {
    let mut line = turn(id, second, &["", ""]);
    line["request"]["body"]["messages"] = json!(messages);
    line["response"]["body"]["content"] = json!(answer);
    line
}

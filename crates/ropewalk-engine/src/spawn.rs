//! Which tool calls start agents, and what they say about the child.
//!
//! The tools are data, because clients invent new ones: an entry names the tool and the arguments that hold the child's
//! name and its prompt, the best first. The configuration adds entries in front of the built-in ones.

use ropewalk_core::hash::sha256;
use ropewalk_core::json::Doc;
use ropewalk_core::model::{Block, ToolInput, ToolUse};
use ropewalk_core::normalise::normalise;
use serde::Deserialize;

/// One tool that starts agents.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnTool {
    /// The tool's name, compared exactly.
    pub tool: String,
    /// Arguments that name the child or its type; the first one present counts.
    #[serde(default)]
    pub name_arguments: Vec<String>,
    /// Its name where no argument gives one.
    #[serde(default)]
    pub unnamed: Option<String>,
    /// Arguments that hold the prompt; the first one present counts.
    pub prompt_arguments: Vec<String>,
}

/// (tool, arguments with the name, name without them, arguments with the prompt)
type BuiltIn = (
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
    &'static [&'static str],
);

const BUILT_IN: [BuiltIn; 6] = [
    ("Task", &["subagent_type"], None, &["prompt"]),
    ("Agent", &["subagent_type"], None, &["prompt"]),
    ("runSubagent", &["agentName", "mode"], Some("unknown"), &["prompt"]),
    ("run_subagent", &["agentName", "mode"], Some("unknown"), &["prompt"]),
    (
        "spawn_agent",
        &["task_name", "agent_type"],
        None,
        &["message", "prompt"],
    ),
    ("task", &["subagent_type"], None, &["prompt"]),
];

/// The table of spawning tools. Where two entries have one tool, the first counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnTools(Vec<SpawnTool>);

impl Default for SpawnTools {
    fn default() -> Self {
        Self::with(Vec::new())
    }
}

/// A call that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnCall {
    pub tool_use_id: Option<Box<str>>,
    /// Which of the answer's blocks it is.
    pub index: usize,
    pub name: Option<String>,
    /// As sent. [`prompt_hash`] compares it with what the child was told.
    pub prompt: Option<String>,
}

impl SpawnTools {
    /// Entries of the configuration in front of the built-in ones.
    pub fn with(mut entries: Vec<SpawnTool>) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        entries.extend(BUILT_IN.iter().map(|(tool, names, unnamed, prompts)| SpawnTool {
            tool: (*tool).to_owned(),
            name_arguments: owned(names),
            unnamed: unnamed.map(str::to_owned),
            prompt_arguments: owned(prompts),
        }));
        SpawnTools(entries)
    }

    /// The calls among an answer's blocks that start agents, in order.
    pub fn calls(&self, blocks: &[Block]) -> Vec<SpawnCall> {
        let calls = blocks.iter().enumerate().filter_map(|(index, block)| match block {
            Block::ToolUse(call) => self.call(index, call),
            _ => None,
        });
        calls.collect()
    }

    fn call(&self, index: usize, call: &ToolUse) -> Option<SpawnCall> {
        let entry = self.0.iter().find(|entry| *entry.tool == *call.name)?;
        let doc = match &call.input {
            ToolInput::Json(json) => Doc::parse_str(json).ok(),
            // A call that was cut off: it may still start an agent, but says nothing reliable about it.
            ToolInput::Text(_) => None,
        };
        let argument = |names: &[String]| {
            let root = doc.as_ref()?.root();
            let mut values = names.iter().filter_map(|name| root.get_str(name));
            values.find(|value| !value.is_empty()).map(|value| value.into_owned())
        };
        Some(SpawnCall {
            tool_use_id: call.id.clone(),
            index,
            name: argument(&entry.name_arguments).or_else(|| entry.unnamed.clone()),
            prompt: argument(&entry.prompt_arguments),
        })
    }
}

/// What a spawn's prompt and the first text of its child have in common. Nothing is no prompt.
pub fn prompt_hash(prompt: &str) -> Option<[u8; 32]> {
    let normal = normalise(prompt);
    (!normal.is_empty()).then(|| sha256(normal.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: &str) -> Block {
        Block::ToolUse(ToolUse {
            id: Some("toolu_1".into()),
            name: name.into(),
            input: ToolInput::Json(input.into()),
            extra: None,
        })
    }

    #[track_caller]
    fn check(tools: &SpawnTools, name: &str, input: &str, child: Option<&str>, prompt: Option<&str>) {
        let calls = tools.calls(&[call(name, input)]);
        let found = calls.first().map(|call| (call.name.as_deref(), call.prompt.as_deref()));
        assert_eq!(found, Some((child, prompt)), "{name} {input}");
    }

    #[test]
    fn every_built_in_tool_names_and_prompts_its_child() {
        let tools = SpawnTools::default();
        for name in ["Task", "Agent", "task"] {
            check(
                &tools,
                name,
                r#"{"subagent_type":"scout","prompt":"go"}"#,
                Some("scout"),
                Some("go"),
            );
            check(&tools, name, r#"{"prompt":"go"}"#, None, Some("go"));
        }
        for name in ["runSubagent", "run_subagent"] {
            check(
                &tools,
                name,
                r#"{"agentName":"a","mode":"m","prompt":"go"}"#,
                Some("a"),
                Some("go"),
            );
            check(&tools, name, r#"{"mode":"m","prompt":"go"}"#, Some("m"), Some("go"));
            check(&tools, name, r#"{"prompt":"go"}"#, Some("unknown"), Some("go"));
        }
        check(
            &tools,
            "spawn_agent",
            r#"{"message":"go","task_name":"sub_1"}"#,
            Some("sub_1"),
            Some("go"),
        );
        check(&tools, "Task", "{}", None, None);
    }

    #[test]
    fn other_tools_start_nobody() {
        assert_eq!(SpawnTools::default().calls(&[call("Read", r#"{"prompt":"go"}"#)]), []);
        assert_eq!(SpawnTools::default().calls(&[call("TASK", r#"{"prompt":"go"}"#)]), []);
    }

    #[test]
    fn the_configuration_comes_first() {
        let entry: SpawnTool =
            serde_json::from_str(r#"{"tool":"Task","name_arguments":["who"],"prompt_arguments":["what"]}"#).unwrap();
        let tools = SpawnTools::with(vec![entry]);
        check(
            &tools,
            "Task",
            r#"{"who":"x","what":"go","prompt":"no"}"#,
            Some("x"),
            Some("go"),
        );
        check(&tools, "Agent", r#"{"prompt":"go"}"#, None, Some("go"));
    }

    #[test]
    fn reminders_and_outer_space_do_not_count_in_a_prompt() {
        let told = "<system-reminder>x</system-reminder>\nrun it\r\nnow \n";
        assert_eq!(prompt_hash(told), prompt_hash("run it\nnow"));
        assert_eq!(prompt_hash(" \n"), None);
    }
}

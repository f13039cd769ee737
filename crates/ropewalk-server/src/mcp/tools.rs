//! The tools, and the words by which an agent decides to use them.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bounds::to_json;
use crate::problem::Problem;
use crate::read::conversations::{ListConversations, conversations};
use crate::read::matched::{MatchRequest, match_request};
use crate::read::messages::{ReadMessages, read_messages};
use crate::read::resolve::{ResolveReferences, resolve_references};
use crate::read::search::{Search, search};
use crate::read::time;
use crate::read::tree::{ConversationTree, conversation_tree};
use crate::source::{Source, Whose};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName {
    Search,
    ListConversations,
    ReadMessages,
    ResolveReferences,
    ConversationTree,
    Match,
}

impl ToolName {
    const ALL: [ToolName; 6] = [
        ToolName::Search,
        ToolName::ListConversations,
        ToolName::ReadMessages,
        ToolName::ResolveReferences,
        ToolName::ConversationTree,
        ToolName::Match,
    ];

    fn name(self) -> &'static str {
        match self {
            ToolName::Search => "search",
            ToolName::ListConversations => "list_conversations",
            ToolName::ReadMessages => "read_messages",
            ToolName::ResolveReferences => "resolve_references",
            ToolName::ConversationTree => "conversation_tree",
            ToolName::Match => "match",
        }
    }

    pub(super) fn find(name: &str) -> Option<Self> {
        ToolName::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn description(self) -> &'static str {
        match self {
            ToolName::Search => {
                "Find words in everything that was said in recorded conversations: by users, by models, to and by tools. \
                 Use it when the user refers to something earlier (\"as we decided\", \"that error again\"), or before you work out \
                 something that may have been worked out already. Each hit has a snippet and an `exchange_id`; read around it with \
                 `read_messages`."
            }
            ToolName::ListConversations => {
                "List recorded conversations, the one that went on last first, with title, friendly id, times, number of turns, \
                 branches and agents, tokens and cost. Use it to see what was worked on lately, or to find the friendly id of a \
                 conversation; use `search` when you know words that were said in it."
            }
            ToolName::ReadMessages => {
                "Read what was said: a whole conversation along its active path, page by page, or one exchange, or one message. \
                 Use it after `search` or `list_conversations`. With `from_end` the page is the newest one. Each message has a \
                 `reference` that quotes it when it is written into a prompt. Long messages are cut, and say so in `chars_left_out`."
            }
            ToolName::ResolveReferences => {
                "Get the words that references stand for, as in @conversation_react_optimization_83p6_message_m1hn4w. Use it whenever \
                 such a reference stands in front of you and its words do not. A reference with `resolved: false` names nothing here."
            }
            ToolName::ConversationTree => {
                "Show the shape of one conversation: its branches (edits, regenerations, compactions, subtasks) and the agents that \
                 worked in it, who started whom, with their status, model, tokens and cost. Use it to understand how subagents were used \
                 or where a conversation went two ways; the words are in `read_messages`."
            }
            ToolName::Match => {
                "Check whether a request, or the beginning of one, was sent before, and what was answered: by which model, with which \
                 options, when. Use it before you repeat an expensive call, or to compare models on one input. `outcome` is exact, \
                 partial (`diverges` says where it leaves what is known) or none."
            }
        }
    }

    fn tool(self) -> Tool {
        let annotations = ToolAnnotations::new()
            .read_only(true)
            .destructive(false)
            .idempotent(true)
            .open_world(false);
        let tool = Tool::new(self.name(), self.description(), JsonObject::new()).with_annotations(annotations);
        match self {
            ToolName::Search => taking::<Search>(tool),
            ToolName::ListConversations => taking::<ListConversations>(tool),
            ToolName::ReadMessages => taking::<ReadMessages>(tool),
            ToolName::ResolveReferences => taking::<ResolveReferences>(tool),
            ToolName::ConversationTree => taking::<ConversationTree>(tool),
            ToolName::Match => taking::<MatchRequest>(tool),
        }
    }
}

fn taking<T: JsonSchema + 'static>(tool: Tool) -> Tool {
    tool.with_input_schema::<T>()
}

pub(super) fn all() -> Vec<Tool> {
    ToolName::ALL.into_iter().map(ToolName::tool).collect()
}

/// The answer as JSON.
pub(super) async fn call<S: Source>(
    whose: &Whose<S>,
    tool: ToolName,
    arguments: JsonObject,
) -> Result<String, Problem> {
    let at = async |as_of: &Option<String>| whose.at(time(as_of.as_deref())?).await;
    Ok(match tool {
        ToolName::Search => {
            let asked: Search = read(arguments)?;
            to_json(&search(&at(&asked.as_of).await?, &asked).await?)
        }
        ToolName::ListConversations => {
            let asked: ListConversations = read(arguments)?;
            to_json(&conversations(&at(&asked.as_of).await?, &asked).await?)
        }
        ToolName::ReadMessages => {
            let asked: ReadMessages = read(arguments)?;
            to_json(&read_messages(&at(&asked.as_of).await?, &asked).await?)
        }
        ToolName::ResolveReferences => {
            let asked: ResolveReferences = read(arguments)?;
            to_json(&resolve_references(&at(&asked.as_of).await?, &asked).await?)
        }
        ToolName::ConversationTree => {
            let asked: ConversationTree = read(arguments)?;
            to_json(&conversation_tree(&at(&asked.as_of).await?, &asked).await?)
        }
        // Looks things up by time, without links.
        ToolName::Match => to_json(&match_request(&whose.now().await?, &read(arguments)?).await?),
    })
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Problem::bad_request(error.to_string()).hint("the tool's schema says what it takes"))
}

//! Claude.ai's data export: `conversations.json`, alone or in its archive.
//!
//! A conversation has its messages in a list; newer exports say which one each stands behind, so that edits and regenerations are siblings.
//! One message of the assistant may be several calls of the model: it goes on behind each result of a tool. No usage is known,
//! and none is made up.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ropewalk_core::json::Node;
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::MessageNumber;
use ropewalk_store::Micros;

use crate::ancestry::parents_first;
use crate::exported::{Conversation, Teller, Turn, each_element, shown, text, time};
use crate::reader::{Found, Sink, WholeReader};

mod blocks;

use blocks::Step;

/// Reads one export.
#[derive(Debug)]
pub struct ClaudeAi {
    teller: Teller,
}

impl ClaudeAi {
    /// The member that only its conversations have.
    pub const MEMBER: &'static str = "chat_messages";

    pub fn new(name: &str) -> Self {
        ClaudeAi {
            teller: Teller::new(name, Provider::Anthropic),
        }
    }

    fn conversation(&mut self, number: u64, root: Node<'_>, sink: &mut dyn Sink) -> Found {
        let messages = root.get("chat_messages").filter(|messages| messages.is_array());
        let (Some(id), Some(messages)) = (text(root, "uuid"), messages) else {
            sink.problem(
                number,
                "no conversation: `uuid` or `chat_messages` is missing".to_owned(),
            );
            return Found::GoOn;
        };
        let messages = Messages::read(messages);
        let times = ["created_at", "updated_at"].map(|name| text(root, name).and_then(|text| time(&text)));
        let first_time = || messages.all.iter().filter_map(|message| message.at).min();
        let Some(begun) = times[0].or_else(first_time).or(times[1]) else {
            sink.problem(number, format!("conversation {} has no time", shown(&id)));
            return Found::GoOn;
        };
        if messages.cut > 0 {
            sink.problem(
                number,
                format!("conversation {}: {} circles were cut", shown(&id), messages.cut),
            );
        }
        let project = root.get("project").and_then(|project| text(project, "name"));
        let conversation = Conversation {
            number,
            id,
            begun,
            project,
        };
        let title = text(root, "name");
        let leaf = text(root, "current_leaf_message_uuid").or_else(|| messages.all.last().map(|last| last.id.clone()));
        if self.teller.title(&conversation, title.as_deref(), leaf, sink) == Found::Stop {
            return Found::Stop;
        }
        self.tell(&conversation, &messages, text(root, "model").as_deref(), sink)
    }

    fn tell(
        &mut self,
        conversation: &Conversation,
        messages: &Messages<'_>,
        model: Option<&str>,
        sink: &mut dyn Sink,
    ) -> Found {
        let mut ends: Vec<End> = vec![End::default(); messages.all.len()];
        // Messages that have an answer already; another one was asked for later.
        let mut answered: HashSet<Option<usize>> = HashSet::new();
        for at in messages.order.iter().copied() {
            let message = &messages.all[at];
            let before = messages.parents[at]
                .map(|parent| ends[parent].clone())
                .unwrap_or_default();
            let asked_at = before.at.unwrap_or(conversation.begun);
            let mut end = End {
                last: before.last,
                at: message.at.max(Some(asked_at)),
            };
            if message.is_answer {
                let model = text(message.json, "model").or_else(|| model.map(str::to_owned));
                let is_first = answered.insert(messages.parents[at]);
                let answer = Spoken {
                    conversation,
                    message,
                    model,
                    asked_at: if is_first { asked_at } else { end.at.unwrap_or(asked_at) },
                    ended_at: end.at,
                };
                match self.answer(&answer, before.last, sink) {
                    Some(last) => end.last = last,
                    None => return Found::Stop,
                }
            } else {
                let said = blocks::of_human(message.json, sink);
                end.last = self.teller.say(before.last, said.into_iter().collect(), sink);
            }
            ends[at] = end;
        }
        Found::GoOn
    }

    /// Tells of every call that made up an answer; what was said last, or `None` to stop.
    fn answer(
        &mut self,
        spoken: &Spoken<'_, '_>,
        behind: Option<MessageNumber>,
        sink: &mut dyn Sink,
    ) -> Option<Option<MessageNumber>> {
        let steps = blocks::of_assistant(spoken.message.json, sink);
        let count = steps.iter().filter(|step| matches!(step, Step::Answer { .. })).count();
        let (mut last, mut told, mut asked_at) = (behind, 0, spoken.asked_at);
        for step in steps {
            let (content, ended_at) = match step {
                Step::Results { content, ended_at } => {
                    last = self.teller.say(last, vec![blocks::message("user", &content)], sink);
                    asked_at = asked_at.max(ended_at.unwrap_or(asked_at));
                    continue;
                }
                Step::Answer { content, ended_at } => (content, ended_at),
            };
            told += 1;
            let is_last = told == count;
            let id = match is_last {
                true => spoken.message.id.clone(),
                false => format!("{}:{told}", spoken.message.id),
            };
            let ended_at = ended_at
                .or(spoken.ended_at.filter(|_| is_last))
                .map(|at| at.max(asked_at));
            let stop_reason = match is_last {
                true => text(spoken.message.json, "stop_reason"),
                false => Some("tool_use".to_owned()),
            };
            let turn = Turn {
                id,
                aliases: Vec::new(),
                at: asked_at,
                ended_at: ended_at.or(Some(asked_at)),
                model: spoken.model.clone(),
                asked: last,
                cut_off: stop_reason.as_deref() == Some("user_canceled"),
                answer: blocks::answer(&content, spoken.model.as_deref(), stop_reason.as_deref()),
            };
            if self.teller.turn(spoken.conversation, turn, sink) == Found::Stop {
                return None;
            }
            last = self
                .teller
                .say(last, vec![blocks::message("assistant", &content)], sink);
            asked_at = ended_at.unwrap_or(asked_at);
        }
        Some(last)
    }
}

impl WholeReader for ClaudeAi {
    fn read(&mut self, path: &Path, _: &[u8], sink: &mut dyn Sink) -> Found {
        each_element(path, &[], sink, |number, root, sink| {
            self.conversation(number, root, sink)
        })
    }

    fn needs_bytes(&self) -> bool {
        false
    }
}

/// How things stand behind a message.
#[derive(Debug, Clone, Default)]
struct End {
    last: Option<MessageNumber>,
    at: Option<Micros>,
}

/// A message of the assistant and what is known around it.
struct Spoken<'m, 'd> {
    conversation: &'m Conversation,
    message: &'m Message<'d>,
    model: Option<String>,
    asked_at: Micros,
    ended_at: Option<Micros>,
}

#[derive(Debug)]
struct Messages<'d> {
    all: Vec<Message<'d>>,
    parents: Vec<Option<usize>>,
    /// Each behind the one that it stands behind.
    order: Vec<usize>,
    cut: usize,
}

#[derive(Debug)]
struct Message<'d> {
    id: String,
    is_answer: bool,
    at: Option<Micros>,
    json: Node<'d>,
}

impl<'d> Messages<'d> {
    fn read(messages: Node<'d>) -> Self {
        let all: Vec<Message<'d>> = messages
            .items()
            .filter(|json| json.is_object())
            .map(Message::read)
            .collect();
        let by_id: HashMap<&str, usize> = all.iter().enumerate().map(|(at, message)| (&*message.id, at)).collect();
        let says_parents = all.iter().any(|message| message.parent().is_some());
        let parents = all.iter().enumerate().map(|(at, message)| match says_parents {
            true => by_id.get(&*message.parent()?).copied(),
            // Older exports: one behind the other.
            false => at.checked_sub(1),
        });
        let mut parents: Vec<Option<usize>> = parents.collect();
        let (order, cut) = parents_first(&mut parents);
        Messages {
            all,
            parents,
            order,
            cut,
        }
    }
}

impl<'d> Message<'d> {
    fn read(json: Node<'d>) -> Self {
        Message {
            id: text(json, "uuid").unwrap_or_default(),
            is_answer: json.get("sender").is_some_and(|sender| sender.is("assistant")),
            at: text(json, "created_at").and_then(|text| time(&text)),
            json,
        }
    }

    fn parent(&self) -> Option<String> {
        text(self.json, "parent_message_uuid")
    }
}

//! ChatGPT's data export: `conversations.json`, alone or in its archive.
//!
//! A conversation is a tree: `mapping` has every message with its parent; an edit or a regeneration is a sibling, `current_node` the one that
//! was shown last. Messages of the assistant that follow each other (thoughts, then text, then a call) are one answer. What a
//! tool was given is a message to it, what it gave a message from it. No usage is known, and none is made up.

mod content;
mod tree;

use std::collections::HashSet;
use std::path::Path;

use ropewalk_core::json::Node;
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::MessageNumber;
use ropewalk_store::Micros;

use crate::exported::{Conversation, Teller, Turn, each_element, seconds, shown, text};
use crate::reader::{Found, Sink, WholeReader};
use crate::shape::{self, Answer, Part, Role, Said, literal};
use content::{Kind, Message};
use tree::Tree;

/// Messages of the assistant that are one answer at most. Real ones have a handful; this bounds what branches inside repeat.
const RUN_MAX: usize = 64;

/// Reads one export.
#[derive(Debug)]
pub struct ChatGpt {
    teller: Teller,
}

impl ChatGpt {
    /// The member that only its conversations have.
    pub const MEMBER: &'static str = "mapping";

    pub fn new(name: &str) -> Self {
        ChatGpt {
            teller: Teller::new(name, Provider::OpenAiChat),
        }
    }

    fn conversation(&mut self, number: u64, root: Node<'_>, sink: &mut dyn Sink) -> Found {
        let id = text(root, "conversation_id").or_else(|| text(root, "id"));
        let (Some(id), Some(mapping)) = (id, root.get("mapping").filter(|mapping| mapping.is_object())) else {
            sink.problem(number, "no conversation: `id` or `mapping` is missing".to_owned());
            return Found::GoOn;
        };
        let times = ["create_time", "update_time"].map(|name| root.get(name).and_then(seconds));
        let tree = Tree::read(mapping, sink);
        let begun = times[0].or_else(|| tree.first_time()).or(times[1]);
        let Some(begun) = begun else {
            sink.problem(number, format!("conversation {} has no time", shown(&id)));
            return Found::GoOn;
        };
        if tree.cut > 0 {
            sink.problem(
                number,
                format!("conversation {}: {} circles were cut", shown(&id), tree.cut),
            );
        }
        let conversation = Conversation {
            number,
            id,
            begun,
            project: None,
        };
        let title = text(root, "title");
        let found = self
            .teller
            .title(&conversation, title.as_deref(), text(root, "current_node"), sink);
        let mut told = Told {
            tree: &tree,
            model: text(root, "default_model_slug"),
            ends: vec![End::default(); tree.messages.len()],
            answered: HashSet::new(),
        };
        match found {
            Found::GoOn => told.tell(&conversation, &mut self.teller, sink),
            Found::Stop => Found::Stop,
        }
    }
}

impl WholeReader for ChatGpt {
    fn read(&mut self, path: &Path, _: &[u8], sink: &mut dyn Sink) -> Found {
        each_element(path, &[], sink, |number, root, sink| {
            self.conversation(number, root, sink)
        })
    }

    fn needs_bytes(&self) -> bool {
        false
    }
}

/// A conversation on its way out.
struct Told<'t> {
    tree: &'t Tree,
    model: Option<String>,
    ends: Vec<End>,
    /// Messages that have an answer already; another one was asked for later.
    answered: HashSet<Option<usize>>,
}

/// How things stand behind a message.
#[derive(Debug, Clone, Default)]
struct End {
    /// What was said up to here; of a piece of an answer, up to the answer.
    last: Option<MessageNumber>,
    at: Option<Micros>,
    /// Pieces of the answer up to here.
    run: usize,
    /// The message whose call is answered from here on.
    call: Option<usize>,
}

impl Told<'_> {
    fn tell(&mut self, conversation: &Conversation, teller: &mut Teller, sink: &mut dyn Sink) -> Found {
        for at in self.tree.order.iter().copied() {
            let message = &self.tree.messages[at];
            let before = message
                .parent
                .map(|parent| self.ends[parent].clone())
                .unwrap_or_default();
            let time = message.at.max(before.at).or(Some(conversation.begun));
            self.ends[at] = End {
                last: before.last,
                at: time,
                run: 0,
                call: match message.kind {
                    Kind::Assistant => message.has_call().then_some(at),
                    // Several results may stand behind each other.
                    Kind::Tool => before.call,
                    Kind::System | Kind::User => None,
                },
            };
            if message.kind != Kind::Assistant {
                let said = said(message, before.call.map(|call| &*self.tree.messages[call].id));
                self.ends[at].last = teller.say(before.last, shape::messages(Provider::OpenAiChat, &said), sink);
                continue;
            }
            self.ends[at].run = before.run % RUN_MAX + 1;
            let is_end = !message.goes_on || message.is_answered || self.ends[at].run == RUN_MAX;
            if is_end && self.tell_answer(conversation, at, teller, sink) == Found::Stop {
                return Found::Stop;
            }
        }
        Found::GoOn
    }

    fn tell_answer(
        &mut self,
        conversation: &Conversation,
        end: usize,
        teller: &mut Teller,
        sink: &mut dyn Sink,
    ) -> Found {
        let mut run = vec![end];
        while self.ends[run[run.len() - 1]].run > 1
            && let Some(parent) = self.tree.messages[run[run.len() - 1]].parent
        {
            run.push(parent);
        }
        run.reverse();
        let pieces = run.iter().map(|at| &self.tree.messages[*at]);
        let parts: Vec<Part> = pieces.clone().flat_map(|piece| piece.parts.clone()).collect();
        if parts.is_empty() {
            return Found::GoOn;
        }
        let asked_behind = self.tree.messages[run[0]].parent;
        let before = asked_behind.map(|parent| self.ends[parent].clone()).unwrap_or_default();
        let last = &self.tree.messages[end];
        let model = pieces
            .clone()
            .rev()
            .find_map(|piece| piece.model.clone())
            .or(self.model.clone());
        let has_call = parts.iter().any(|part| matches!(part, Part::Call(_)));
        let stop_reason = match has_call {
            true => Some("tool_calls"),
            false => last.stop_reason,
        };
        let answer = Answer {
            model: model.as_deref().map(literal),
            stop_reason: stop_reason.map(literal),
            parts: parts.clone(),
            ..Answer::default()
        };
        let ended_at = self.ends[end].at;
        let is_first = self.answered.insert(asked_behind);
        let turn = Turn {
            id: last.id.to_owned(),
            aliases: pieces
                .clone()
                .filter(|piece| piece.id != last.id)
                .map(|piece| piece.id.to_owned())
                .collect(),
            at: before
                .at
                .filter(|_| is_first)
                .or(ended_at)
                .unwrap_or(conversation.begun),
            ended_at,
            model,
            asked: before.last,
            answer: shape::answer(Provider::OpenAiChat, &answer),
            cut_off: last.is_cut_off,
        };
        let found = teller.turn(conversation, turn, sink);
        let said = Said {
            role: Role::Assistant,
            parts,
        };
        self.ends[end].last = teller.say(before.last, shape::messages(Provider::OpenAiChat, &said), sink);
        found
    }
}

/// What is no answer, with the call that a result belongs to.
fn said(message: &Message, call: Option<&str>) -> Said {
    let mut parts = message.parts.clone();
    for part in &mut parts {
        if let Part::Result(result) = part {
            result.id = call.map(literal);
        }
    }
    let role = match message.kind {
        Kind::System => Role::System,
        _ => Role::User,
    };
    Said { role, parts }
}

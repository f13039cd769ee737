//! A request's chain with who said each block: what linking reads of a body.
//!
//! Outlines of requests that grow from each other share what they begin with: whoever looks through one looks from its end.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, OnceLock};

use memchr::memmem::Finder;
use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Block, Message, Role};
use ropewalk_core::normalise::normalise;
use ropewalk_core::shared_list::SharedList;
use ropewalk_store::facts::{Key, KeyKind};
use ropewalk_wire::RequestBody;

use crate::keys::{anchor_key, id_key, summary_key};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub node: NodeHash,
    /// Said by the model.
    pub is_answer: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Outline {
    steps: SharedList<Step>,
    /// Each message with the index of its first step.
    messages: SharedList<(usize, Arc<Message>)>,
    /// Items that are named in place of what was said, each as the key of the answer that has it.
    references: SharedList<(usize, Key)>,
    /// What a decision asks for several times, and has to look through the whole history for.
    continues: OnceLock<Option<BTreeSet<Key>>>,
    silence: OnceLock<Option<usize>>,
}

impl Outline {
    pub fn of(read: &RequestBody) -> Self {
        let mut outline = Outline::default();
        let mut nodes = read.nodes().iter().copied();
        for (message, count) in read.messages() {
            outline.push(message, nodes.by_ref().take(count));
        }
        outline
    }

    /// The same with a message behind it, whose blocks have these nodes.
    pub(crate) fn with(&self, message: &Arc<Message>, nodes: impl Iterator<Item = NodeHash>) -> Self {
        let mut longer = Outline {
            continues: OnceLock::new(),
            silence: OnceLock::new(),
            ..self.clone()
        };
        longer.push(message, nodes);
        longer
    }

    fn push(&mut self, message: &Arc<Message>, nodes: impl Iterator<Item = NodeHash>) {
        let first = self.steps.len();
        let is_answer = message.role == Role::Assistant;
        self.steps.extend(nodes.map(|node| Step { node, is_answer }));
        // Most histories say everything themselves.
        let is_named = |block: &Block| matches!(block, Block::Reference { .. });
        if message.blocks.iter().any(is_named) {
            let blocks = chained(message).enumerate();
            self.references.extend(blocks.filter_map(|(index, block)| match block {
                Block::Reference { id } => Some((first + index, id_key(KeyKind::Item, id))),
                _ => None,
            }));
        }
        self.messages.push((first, Arc::clone(message)));
    }

    pub fn steps(&self) -> &SharedList<Step> {
        &self.steps
    }

    /// The messages in order, each with the node that it ends at; `None` for one that is not in the chain.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = (Option<NodeHash>, &Message)> {
        (0..self.messages.len()).map(|at| {
            let (first, message) = &self.messages[at];
            let end = self.messages.get(at + 1).map_or(self.steps.len(), |(next, _)| *next);
            let node = (end > *first).then(|| self.steps[end - 1].node);
            (node, &**message)
        })
    }

    pub fn has_answer(&self) -> bool {
        self.steps.iter().any(|step| step.is_answer)
    }

    /// Ends of answers, from the last: the steps that a recorded answer may end at.
    pub fn answer_ends(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.steps.len()).rev().filter(|at| {
            let next = self.steps.get(at + 1);
            self.steps[*at].is_answer && next.is_none_or(|next| !next.is_answer)
        })
    }

    /// Where the answer that ends at `end` begins.
    pub fn answer_start(&self, end: usize) -> usize {
        let before = (0..=end).rev().find(|at| !self.steps[*at].is_answer);
        before.map_or(0, |at| at + 1)
    }

    /// The last node of the question whose answer ends at `end`.
    pub fn question_of(&self, end: usize) -> Option<NodeHash> {
        let at = self.answer_start(end).checked_sub(1)?;
        Some(self.steps[at].node)
    }

    /// The last node of the answer that ends at `end`, and the last one of its question.
    pub fn nodes_around(&self, end: usize) -> Vec<NodeHash> {
        let answer = self.steps[end].node;
        [Some(answer), self.question_of(end)].into_iter().flatten().collect()
    }

    /// Whether a chain of that length, which ends at this node, is the beginning of this one: a node is the same only behind the same.
    pub fn begins_with(&self, length: usize, node: &NodeHash) -> bool {
        let last = length.checked_sub(1).and_then(|last| self.steps.get(last));
        last.is_some_and(|step| step.node == *node)
    }

    /// Answers at or behind `from` that can anchor a history, the last first.
    pub fn anchors(&self, from: usize) -> impl Iterator<Item = (usize, Key)> + '_ {
        // The first of them may begin before it.
        let begun = self.messages.partition_point(|(first, _)| *first < from);
        let messages = self.messages.range(begun.saturating_sub(1)..);
        let answers = messages.rev().filter(|(_, message)| message.role == Role::Assistant);
        answers.flat_map(move |(first, message)| {
            let blocks: Vec<&Block> = chained(message).collect();
            let places = blocks
                .into_iter()
                .enumerate()
                .rev()
                .map(move |(index, block)| (first + index, block));
            let behind = places.take_while(move |(at, _)| *at >= from);
            behind.filter_map(|(at, block)| Some((at, anchor_key(block)?)))
        })
    }

    /// Items that are named in place of what was said, the last first, each as the key of the answer that has it.
    pub fn references(&self) -> impl ExactSizeIterator<Item = (usize, Key)> + Clone + '_ {
        self.references.iter().rev().copied()
    }

    /// Characters of the texts in the first `count` steps.
    pub fn chars(&self, count: usize) -> usize {
        let shared = self.messages.iter().take_while(|(first, _)| *first < count);
        let blocks = shared.flat_map(|(first, message)| chained(message).take(count - first));
        blocks
            .map(|block| text_of(block).map_or(0, |text| text.chars().count()))
            .sum()
    }

    /// The model's text at a step.
    pub fn answer_text(&self, at: usize) -> Option<String> {
        let behind = self.messages.partition_point(|(first, _)| *first <= at);
        let (first, message) = &self.messages[behind.checked_sub(1)?];
        let block = chained(message)
            .nth(at - first)
            .filter(|_| message.role == Role::Assistant)?;
        text_of(block).map(|text| normalise(text).into_owned())
    }

    /// The step behind which an answer stood that said nothing: clients leave it out and say so. Only behind the last answer.
    pub fn silence(&self) -> Option<usize> {
        *self.silence.get_or_init(|| self.find_silence())
    }

    fn find_silence(&self) -> Option<usize> {
        let behind = self.messages.iter().rev();
        let behind = behind.take_while(|(_, message)| message.role != Role::Assistant);
        behind
            .filter(|(_, message)| message.role == Role::User)
            .find_map(|(first, message)| {
                let index = chained(message).position(|block| text_of(block).is_some_and(says_silence))?;
                (first + index).checked_sub(1)
            })
    }

    /// Whether a user's text says that it continues a conversation, and from which summaries it may.
    pub fn continues(&self) -> Option<&BTreeSet<Key>> {
        self.continues.get_or_init(|| self.find_continued()).as_ref()
    }

    fn find_continued(&self) -> Option<BTreeSet<Key>> {
        let users = self.messages.iter().filter(|(_, message)| message.role == Role::User);
        let mut texts = users.flat_map(|(_, message)| message.blocks.iter().filter_map(text_of));
        let text = texts.find(|text| {
            let mut starts = CONTINUES.iter().filter(|start| start.find(text.as_bytes()).is_some());
            starts.any(|start| normalise(text).as_bytes().starts_with(start.needle()))
        })?;
        Some(summaries(&normalise(text)))
    }

    /// What the user says first, for people; what a client puts in front in the user's name only if there is nothing else.
    pub fn first_user_text(&self) -> Option<String> {
        let users = self.messages.iter().filter(|(_, message)| message.role == Role::User);
        let texts = users.flat_map(|(_, message)| message.blocks.iter().filter_map(text_of));
        let mut texts = texts.map(normalise).filter(|text| !text.is_empty()).peekable();
        let first = texts.peek().cloned();
        let is_context = |text: &str| CLIENT_CONTEXT.iter().any(|start| text.starts_with(start));
        let said = texts.find(|text| !is_context(text));
        said.or(first).map(Cow::into_owned)
    }
}

/// How texts begin by which Codex tells the model where it is.
const CLIENT_CONTEXT: [&str; 3] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
];

/// How texts begin that continue a conversation from its summary. Whole histories are looked through for them, and hardly any has one.
static CONTINUES: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| {
    [
        "This session is being continued from a previous conversation",
        "Another language model started to solve this problem and produced a summary",
    ]
    .map(Finder::new)
});

/// How a text begins that Claude Code puts in place of an answer without visible content.
static SILENCE: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new("[Your previous response had no visible output"));

fn says_silence(text: &str) -> bool {
    let is_anywhere = SILENCE.find(text.as_bytes()).is_some();
    is_anywhere && normalise(text).as_bytes().starts_with(SILENCE.needle())
}

/// What may stand right before a summary.
const SUMMARY_FOLLOWS: [&str; 6] = [
    "<summary>",
    "summarized below:",
    "Summary:",
    "to assist with your own analysis:",
    "\n\n",
    "\n",
];

/// What may stand right behind it.
const SUMMARY_ENDS: [&str; 4] = [
    "</summary>",
    "\nIf you need specific details",
    "\nPlease continue the conversation",
    "\nContinue the conversation",
];

/// Ends of a summary that are tried: at the ends of lines, from the last.
const SUMMARY_ENDS_MAX: usize = 24;

/// The summaries that a text may continue from.
fn summaries(text: &str) -> BTreeSet<Key> {
    let starts = SUMMARY_FOLLOWS
        .iter()
        .filter_map(|mark| text.find(mark).map(|at| at + mark.len()));
    let mut keys = BTreeSet::new();
    for start in starts {
        let rest = &text[start..];
        let mut ends: Vec<usize> = SUMMARY_ENDS.iter().filter_map(|mark| rest.find(mark)).collect();
        ends.extend(rest.rmatch_indices('\n').map(|(at, _)| at).take(SUMMARY_ENDS_MAX));
        ends.push(rest.len());
        for end in ends {
            let summary = &rest[..end];
            // Older releases end the sentence behind it.
            let without_stop = summary.trim_end().strip_suffix('.');
            keys.extend(
                [Some(summary), without_stop]
                    .into_iter()
                    .flatten()
                    .filter_map(summary_key),
            );
        }
    }
    keys
}

/// The blocks of a message that are in the chain.
fn chained(message: &Message) -> impl Iterator<Item = &Block> {
    let role = message.role;
    message.blocks.iter().filter(move |block| chain::has_value(role, block))
}

fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    }
}

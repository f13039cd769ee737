//! Finished exchanges without the cost of making them from bodies: for measuring a store and nothing else.
//!
//! Many conversations run side by side, each turn adds a question and an answer of about 900 bytes of source
//! code, and carries the recipe of its whole history, as real turns do.

use std::sync::Arc;

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, sha256};
use ropewalk_core::json::Style;
use ropewalk_core::model::{Block, ChainStart, Role};
use ropewalk_core::part::Part;
use ropewalk_core::recipe::{Inline, Piece};
use ropewalk_core::rope::{Layout, Pieces};
use ropewalk_core::shared_list::SharedList;
use ropewalk_store::facts::{Body, Key, KeyKind, Link, Micros, NewExchange, Recipe, Status};

use crate::conversation::Random;
use crate::source_text::SourceText;

/// A recipe and the parts that are new in it.
#[derive(Debug)]
pub struct MadeRecipe {
    pub pieces: Vec<Piece>,
    pub parts: Vec<Part>,
    pub layout: Layout,
}

impl Pieces for MadeRecipe {
    fn pieces<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.pieces.iter())
    }
}

impl Recipe for MadeRecipe {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }

    fn parts<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Part> + 'a> {
        Box::new(self.parts.iter())
    }
}

/// An endless stream of turns.
#[derive(Debug)]
pub struct Turns {
    random: Random,
    running: Vec<Running>,
    turns_each: usize,
    made: u64,
    /// Texts that turns are cut from; each gets words of its own.
    sources: Vec<String>,
    frames: [Part; 3],
}

#[derive(Debug, Clone, Default)]
struct Running {
    pieces: Vec<Piece>,
    chain: SharedList<Link>,
}

const TEXT_BYTES: usize = 900;

impl Turns {
    /// `side_by_side` conversations of `turns_each` turns at a time.
    pub fn new(seed: u64, side_by_side: usize, turns_each: usize) -> Self {
        let mut source = SourceText::new(seed);
        let sources = (0..64).map(|_| source.code(4 * TEXT_BYTES)).collect();
        Turns {
            random: Random(seed),
            running: vec![Running::default(); side_by_side],
            turns_each,
            made: 0,
            sources,
            frames: [
                Part::bytes(br#"{"role":"user","content":[{"type":"text","text":""#),
                Part::bytes(br#""}]},{"role":"assistant","content":[{"type":"text","text":""#),
                Part::bytes(br#"{"id":"msg","type":"message","role":"assistant","content":[{"type":"text","text":""#),
            ],
        }
    }

    /// Ids of their own, for several sources at once.
    #[must_use]
    pub fn named(mut self, source: u64) -> Self {
        self.made = source << 40;
        self
    }

    pub fn batch(&mut self, count: usize) -> Vec<NewExchange> {
        (0..count).map(|_| self.turn()).collect()
    }

    /// A chain to look up: that of the next turn of some running conversation.
    pub fn chain_to_look_up(&mut self) -> Vec<NodeHash> {
        let index = self.random.below(self.running.len());
        let mut nodes: Vec<NodeHash> = self.running[index].chain.iter().map(|link| link.node).collect();
        let fresh = self.random.next_u64().to_be_bytes();
        nodes.push(NodeHash(sha256(&fresh)));
        nodes
    }

    fn text(&mut self) -> Arc<str> {
        let source = &self.sources[self.random.0 as usize % self.sources.len()];
        let start = source.floor_char_boundary(self.random.0 as usize / 64 % (3 * TEXT_BYTES));
        let end = source.floor_char_boundary(start + TEXT_BYTES - 60);
        let text = source[start..end].to_owned();
        format!(
            "{text}\n// {} {} {}",
            self.random.letters(20),
            self.random.word(),
            self.random.letters(24)
        )
        .into()
    }

    fn turn(&mut self) -> NewExchange {
        let index = self.made as usize % self.running.len();
        self.made += 1;
        if self.running[index].chain.len() >= 2 * self.turns_each {
            self.running[index] = Running::default();
        }
        let (question, answer) = (self.text(), self.text());
        let question_part = Part::text(Arc::clone(&question));
        let answer_part = Part::text(Arc::clone(&answer));
        let [user, assistant, response] = self.frames.clone();
        let start = chain::root(&ChainStart::Root);
        let running = &mut self.running[index];
        running
            .pieces
            .extend([Piece::Raw(user.hash), Piece::Text(question_part.hash, Style::Plain)]);
        push_link(&mut running.chain, start, Role::User, &question);
        let request_chain = running.chain.clone();
        let newest = running.pieces.len() - 2..running.pieces.len();
        let request = MadeRecipe {
            layout: Layout { newest },
            pieces: running.pieces.iter().cloned().chain(inline("\"}]}")).collect(),
            parts: vec![user, assistant.clone(), question_part],
        };
        running
            .pieces
            .extend([Piece::Raw(assistant.hash), Piece::Text(answer_part.hash, Style::Plain)]);
        push_link(&mut running.chain, start, Role::Assistant, &answer);
        let answer_chain = running.chain.range(request_chain.len()..).copied().collect();
        let response = MadeRecipe {
            layout: Layout::once(3),
            pieces: [Piece::Raw(response.hash), Piece::Text(answer_part.hash, Style::Plain)]
                .into_iter()
                .chain(inline("\"}]}"))
                .collect(),
            parts: vec![response, answer_part],
        };
        let at = Micros(1_700_000_000_000_000 + self.made as i64 * 1_000);
        exchange(self.made, at, start, request_chain, answer_chain, request, response)
    }
}

fn inline(text: &str) -> impl Iterator<Item = Piece> {
    Inline::new(text.as_bytes()).map(Piece::Inline).into_iter()
}

fn push_link(chain: &mut SharedList<Link>, start: NodeHash, role: Role, text: &Arc<str>) {
    let block = Block::Text {
        text: Arc::clone(text),
        extra: None,
    };
    let parent = chain.last().map_or(start, |link| link.node);
    if let Some(value) = chain::value(role, &block, &|_| None) {
        let node = chain::node(parent, value);
        chain.push(Link { value, node });
    }
}

fn exchange(
    number: u64,
    at: Micros,
    start: NodeHash,
    request_chain: SharedList<Link>,
    answer_chain: Vec<Link>,
    request: MadeRecipe,
    response: MadeRecipe,
) -> NewExchange {
    let body = |recipe: MadeRecipe| Body {
        sha256: sha256(&number.to_be_bytes()),
        length: recipe.pieces.len() as u64 * 450,
        recipe: Arc::new(recipe),
    };
    let anchor = answer_chain.first().map(|link| Key {
        kind: KeyKind::Anchor,
        hash: link.value.0,
    });
    NewExchange {
        id: format!("{number:020}"),
        at,
        ended_at: Some(Micros(at.0 + 500)),
        status: Status::Complete,
        http_status: Some(200),
        provider: "anthropic".to_owned(),
        model: Some("claude-opus-4-8".to_owned()),
        kind: "turn".to_owned(),
        session: None,
        agent: None,
        project: None,
        start,
        request_chain,
        answer_chain,
        hashes: Vec::new(),
        keys: anchor.into_iter().collect(),
        usage: None,
        cost_nano_usd: None,
        cost_is_estimate: false,
        request: body(request),
        sent: None,
        response: Some(body(response)),
        spawns: Vec::new(),
        texts: Vec::new(),
        detail: "{}".to_owned(),
        provenance: None,
        rules_version: 1,
        projections_version: 1,
    }
}

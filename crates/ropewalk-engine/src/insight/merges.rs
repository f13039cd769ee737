//! Answers that come back: what a subagent or another branch said, quoted into a branch that did not have it.
//!
//! Every answer of a conversation is known by its runs of words, and every text that a user or a tool brings is looked up among them. An
//! answer that stands on the way to the exchange that brings the text is its own history, and no merge.

use std::collections::{HashMap, HashSet};

use ropewalk_core::hierarchy::ToolOutput;
use ropewalk_core::model::{Block, Message, Role};
use ropewalk_core::normalise::normalise;
use ropewalk_store::Store;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use super::words::{RUN, runs, words};
use crate::link::decision::Linked;
use crate::view::message::answer_message;
use crate::view::{Result, View};

/// Exchanges of one conversation that are looked at, the newest.
pub const EXCHANGES_MAX: usize = 2_000;

/// Words that must come back in one piece, but for a few: fewer are a phrase.
const WORDS_MIN: usize = 20;

/// Share of an answer that must come back.
const SHARE_MIN: f64 = 0.5;

/// Words of one text that are looked at.
const WORDS_MAX: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = MergeKind)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The answer of an agent that worked for this one.
    Subagent,
    /// The answer on another branch.
    Branch,
}

/// An answer that was quoted.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Merge {
    pub kind: Kind,
    /// The exchange whose answer it was, and the one that brought it.
    pub from_exchange_id: String,
    pub into_exchange_id: String,
    /// `user` or `tool_result`.
    pub brought_by: &'static str,
    pub quoted_words: usize,
    /// Of the answer's words, how many were quoted.
    pub share: f64,
    #[serde(skip)]
    pub from: ExchangeNumber,
    #[serde(skip)]
    pub into: ExchangeNumber,
}

/// The merges of a conversation.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Merges {
    pub v: u32,
    /// In the order of the exchanges that brought them.
    pub merges: Vec<Merge>,
    /// Whether all exchanges were looked at.
    pub is_all: bool,
}

struct Answer {
    exchange: ExchangeNumber,
    agent: ExchangeNumber,
    words: usize,
}

struct Brought {
    exchange: ExchangeNumber,
    kind: &'static str,
    words: Vec<u64>,
}

impl<S: Store> View<'_, S> {
    /// Where answers of one branch were quoted into another.
    pub async fn merges(&self, root: ExchangeNumber) -> Result<Merges> {
        let (links, is_all) = self.newest_links(root).await?;
        let rows = self.rows(links.iter().map(|link| link.exchange).collect()).await?;
        let rows: HashMap<ExchangeNumber, ExchangeRow> = rows.into_iter().map(|row| (row.number, row)).collect();
        let mut said = Said::default();
        // One branch has nobody else to quote.
        if links.iter().map(|link| link.branch).collect::<HashSet<_>>().len() > 1 {
            for link in &links {
                if let Some(row) = rows.get(&link.exchange) {
                    self.gather_said(link, row, &mut said).await?;
                }
            }
        }
        let merges = said.merges(&links, &rows);
        Ok(Merges { v: 1, merges, is_all })
    }

    async fn newest_links(&self, root: ExchangeNumber) -> Result<(Vec<Linked>, bool)> {
        let mut links: Vec<Linked> = Vec::new();
        let (mut after, mut is_all) = (None, true);
        loop {
            let page = self.links_in(root, after).await?;
            let Some(last) = page.last() else {
                return Ok((links, is_all));
            };
            after = Some((last.at, last.exchange));
            let is_turn = |link: &Linked| matches!(link.kind(), LinkKind::Turn | LinkKind::Retry);
            links.extend(page.into_iter().filter(is_turn));
            let surplus = links.len().saturating_sub(EXCHANGES_MAX);
            is_all &= surplus == 0;
            links.drain(..surplus);
        }
    }

    /// What an exchange brought, and what was answered.
    async fn gather_said(&self, link: &Linked, row: &ExchangeRow, said: &mut Said) -> Result<()> {
        if let Some(request) = self.read_request(row).await? {
            let messages: Vec<&Message> = request.messages().map(|(message, _)| &**message).collect();
            let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
            let new = &messages[last_answer.map_or(0, |at| at + 1)..];
            let blocks = new
                .iter()
                .filter(|message| message.role == Role::User)
                .flat_map(|message| &message.blocks);
            blocks.for_each(|block| said.bring(link.exchange, block));
        }
        if let Some(answer) = self.read_answer(row).await? {
            said.answer(link, &answer_message(answer));
        }
        Ok(())
    }
}

/// What was said in one conversation.
#[derive(Default)]
struct Said {
    answers: Vec<Answer>,
    /// Answers by the runs of words in them.
    by_run: HashMap<u64, Vec<u32>>,
    brought: Vec<Brought>,
}

impl Said {
    fn answer(&mut self, link: &Linked, message: &Message) {
        let texts = message.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(normalise(text).into_owned()),
            _ => None,
        });
        let mut words = words(&texts.collect::<Vec<_>>().join("\n"));
        words.truncate(WORDS_MAX);
        if words.len() < WORDS_MIN {
            return;
        }
        let number = self.answers.len() as u32;
        for run in runs(&words) {
            let answers = self.by_run.entry(run).or_default();
            if answers.last() != Some(&number) {
                answers.push(number);
            }
        }
        self.answers.push(Answer {
            exchange: link.exchange,
            agent: link.agent,
            words: words.len(),
        });
    }

    fn bring(&mut self, exchange: ExchangeNumber, block: &Block) {
        let (kind, text) = match block {
            Block::Text { text, .. } => ("user", normalise(text).into_owned()),
            Block::ToolResult(result) => ("tool_result", ToolOutput::from_model(result).text),
            _ => return,
        };
        let mut words = words(&text);
        words.truncate(WORDS_MAX);
        if words.len() >= WORDS_MIN {
            self.brought.push(Brought { exchange, kind, words });
        }
    }

    fn merges(&self, links: &[Linked], rows: &HashMap<ExchangeNumber, ExchangeRow>) -> Vec<Merge> {
        let by_number: HashMap<ExchangeNumber, &Linked> = links.iter().map(|link| (link.exchange, link)).collect();
        let mut merges: Vec<Merge> = Vec::new();
        let mut met = HashSet::new();
        for brought in &self.brought {
            let (Some(into), Some(row)) = (by_number.get(&brought.exchange), rows.get(&brought.exchange)) else {
                continue;
            };
            let history = history(into, &by_number);
            for (answer, quoted) in self.quoted(brought) {
                let Some(of) = rows.get(&answer.exchange) else { continue };
                let is_before = of.ended_at.is_none_or(|ended| ended <= row.at);
                // Clocks may say that somebody quotes what came of it.
                let is_of_mine = by_number
                    .get(&answer.exchange)
                    .is_none_or(|from| self::history(from, &by_number).contains(&brought.exchange));
                if history.contains(&answer.exchange)
                    || is_of_mine
                    || !is_before
                    || !met.insert((answer.exchange, brought.exchange))
                {
                    continue;
                }
                merges.push(Merge {
                    kind: if answer.agent == into.agent {
                        Kind::Branch
                    } else {
                        Kind::Subagent
                    },
                    from_exchange_id: of.id.clone(),
                    into_exchange_id: row.id.clone(),
                    brought_by: brought.kind,
                    quoted_words: quoted,
                    share: (quoted as f64 / answer.words as f64 * 1e3).round() / 1e3,
                    from: answer.exchange,
                    into: brought.exchange,
                });
                // The one that is quoted most is meant; others say the same.
                break;
            }
        }
        merges
    }

    /// Answers of which enough comes back in a text, those that come back most first, the earliest of equals.
    fn quoted(&self, brought: &Brought) -> Vec<(&Answer, usize)> {
        let mut covered: HashMap<u32, (usize, usize)> = HashMap::new();
        for (at, run) in runs(&brought.words).enumerate() {
            for answer in self.by_run.get(&run).into_iter().flatten() {
                let (words, until) = covered.entry(*answer).or_default();
                *words += at + RUN - (*until).max(at);
                *until = at + RUN;
            }
        }
        let enough = covered.into_iter().filter_map(|(number, (words, _))| {
            let answer = &self.answers[number as usize];
            let words = words.min(answer.words);
            let is_quoted = words >= WORDS_MIN && words as f64 >= answer.words as f64 * SHARE_MIN;
            is_quoted.then_some((number, answer, words))
        });
        let mut enough: Vec<(u32, &Answer, usize)> = enough.collect();
        enough.sort_by_key(|(number, _, words)| (std::cmp::Reverse(*words), *number));
        enough.into_iter().map(|(_, answer, words)| (answer, words)).collect()
    }
}

/// The exchanges on the way to one, within what an agent has in its own context.
fn history(link: &Linked, by_number: &HashMap<ExchangeNumber, &Linked>) -> HashSet<ExchangeNumber> {
    let mut history = HashSet::from([link.exchange]);
    let mut next = link.decision.parent;
    while let Some(parent) = next.filter(|parent| history.insert(*parent)) {
        next = by_number.get(&parent).and_then(|link| link.decision.parent);
    }
    history
}

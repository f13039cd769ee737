//! One conversation while it is made up: who speaks, what was said, what was sent.
//!
//! [`Script`] is the conversation, [`Thread`] one agent on one branch of it. [`Script::say`] lets the model answer a thread's
//! newest message, with everything that can happen to such a call; `Script::send` is one exchange.

use super::draft::Draft;
use super::history::{Block, Said, Speaker};
use super::render::{Asked, Format, Replay};
use super::send::{Answer, Call, Sent, answer_id};
use super::truth::{Cause, Kind};
use super::{Mode, Settings, texts};
use crate::conversation::Random;

pub(super) const MILLISECOND: i64 = 1_000;
pub(super) const SECOND: i64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Script<'s> {
    pub(super) settings: &'s Settings,
    pub(super) random: Random,
    pub(super) format: Format,
    pub(super) drafts: Vec<Draft>,
    pub(super) opening: String,
    pub(super) has_own_opening: bool,
    /// Opening and first answer are those of many others.
    pub(super) is_common: bool,
    pub(super) decoration: Option<String>,
    /// Agents that are done and may be sent another message.
    pub(super) done: Vec<Thread>,
    pub(super) agents: u32,
    branches: u32,
    /// How far the second recorder's clock is ahead.
    pub(super) clock_ahead: i64,
}

/// One agent on one branch.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) agent: String,
    /// The client's names, given as hints only.
    pub(super) agent_id: Option<String>,
    pub(super) parent_agent_id: Option<String>,
    pub(super) session: String,
    pub(super) depth: u32,
    pub(super) branch: String,
    pub(super) system: String,
    pub(super) tools: Vec<&'static str>,
    pub(super) history: Vec<Said>,
    pub(super) now: i64,
    pub(super) last: Option<usize>,
    /// The exchange that started this agent.
    pub(super) spawned_by: Option<usize>,
    /// Another agent was started with the same words at the same time.
    pub(super) has_twin: bool,
    pub(super) fits_several: bool,
    /// The middle of the history is not what it was.
    pub(super) is_rewritten: bool,
    /// Why the next request is no ordinary one.
    pub(super) next_cause: Option<Cause>,
    /// Calls that recording will still miss.
    pub(super) unrecorded_left: usize,
    pub(super) is_after_gap: bool,
}

impl<'s> Script<'s> {
    pub(super) fn new(settings: &'s Settings, mut random: Random) -> Self {
        let mix = &settings.mix;
        let has_own_opening = !random.chance(mix.shared_opening);
        let opening = if has_own_opening {
            texts::own(&mut random, 20, 700)
        } else {
            texts::shared_opening(&mut random)
        };
        let is_common = !has_own_opening && random.chance(mix.shared_first_answer);
        let format = format(settings, &mut random);
        let is_decorated = format == Format::Anthropic && !is_common && random.chance(mix.decorated);
        let clock_ahead = random.below(4_900) as i64 * MILLISECOND;
        Script {
            settings,
            random,
            format,
            drafts: Vec::new(),
            opening,
            has_own_opening,
            is_common,
            decoration: is_decorated.then(texts::rules),
            done: Vec::new(),
            agents: 0,
            branches: 0,
            clock_ahead,
        }
    }

    pub(super) fn new_branch(&mut self, word: &str) -> String {
        self.branches += 1;
        format!("{word}-{}", self.branches)
    }

    pub(super) fn new_session(&mut self) -> String {
        let (high, low) = (self.random.next_u64(), self.random.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }

    pub(super) fn chance(&mut self, rate: f64) -> bool {
        self.random.chance(rate)
    }

    /// The model answers the thread's newest message, perhaps not at the first attempt, perhaps several times.
    /// Returns the exchange with the answer that the thread goes on with.
    pub(super) fn say(&mut self, thread: &mut Thread, cause: Cause, blocks: Vec<Block>) -> usize {
        let mix = &self.settings.mix;
        let cause = thread.cause_of_next(cause);
        let sent = self.request(thread);
        let is_first = thread.history.len() == 1;
        // Nothing would tell the alternatives of an agent's first request from its twins, nor those of a common opening from others.
        let may_be_sampled = !is_first || thread.spawned_by.is_none() && !self.is_common;
        // Equal bytes of strangers would make a retry theirs as much as ours.
        let has_own_bytes = !is_first || self.has_own_opening || self.format == Format::Anthropic;
        let answer = if has_own_bytes && !thread.has_twin && self.random.chance(mix.retry) {
            self.attempts(thread, &sent, cause, blocks.clone())
        } else if may_be_sampled && self.random.chance(mix.sampling) {
            self.samples(thread, &sent, cause, blocks.clone())
        } else {
            let answer = Answer::Whole(blocks.clone());
            self.send(thread, &sent, &Call::turn(cause, answer))
        };
        self.remember(thread, answer, blocks);
        answer
    }

    /// The client adds an answer to the history.
    pub(super) fn remember(&mut self, thread: &mut Thread, exchange: usize, blocks: Vec<Block>) {
        let is_recorded = self.drafts[exchange].is_recorded;
        thread.history.push(Said {
            by: Speaker::Assistant,
            blocks,
            recorded_in: is_recorded.then_some(exchange),
            answer_id: answer_id(exchange, self.settings.seed, &thread.session),
        });
    }

    /// One or two attempts that fail, and the one that does not.
    fn attempts(&mut self, thread: &mut Thread, sent: &Sent, cause: Cause, blocks: Vec<Block>) -> usize {
        let mut sent = sent.clone();
        let mut repeats = None;
        for _ in 0..1 + self.random.below(2) {
            let answer = match self.random.below(3) {
                0 => Answer::Failed(500),
                1 => Answer::Failed(429),
                _ if sent.is_streamed => Answer::CutOff(vec![Block::Text(texts::own(&mut self.random, 20, 80))]),
                _ => Answer::Failed(529),
            };
            let is_cut_off = matches!(answer, Answer::CutOff(_));
            repeats = Some(self.send(thread, &sent, &attempt(cause, repeats, answer)));
            thread.now += (500 + self.random.below(2_500)) as i64 * MILLISECOND;
            if is_cut_off {
                sent.body = sent.body.replace(r#","stream":true}"#, "}");
                sent.is_streamed = false;
            }
        }
        self.send(thread, &sent, &attempt(cause, repeats, Answer::Whole(blocks)))
    }

    /// Equal requests at the same time, of which one is taken up.
    fn samples(&mut self, thread: &mut Thread, sent: &Sent, cause: Cause, blocks: Vec<Block>) -> usize {
        let count = 2 + self.random.below(3);
        let taken = self.random.below(count);
        let before = thread.clone();
        let mut blocks = Some(blocks);
        let mut exchange = self.drafts.len();
        for number in 0..count {
            match blocks.take_if(|_| number == taken) {
                Some(blocks) => exchange = self.send(thread, sent, &Call::turn(cause, Answer::Whole(blocks))),
                None => {
                    let mut other = before.clone();
                    other.branch = self.new_branch("sample");
                    let answer = vec![Block::Text(texts::own(&mut self.random, 100, 200))];
                    self.send(&mut other, sent, &Call::turn(Cause::Sampling, Answer::Whole(answer)));
                }
            }
        }
        exchange
    }

    pub(super) fn request(&mut self, thread: &Thread) -> Sent {
        let is_streamed = self.format == Format::Anthropic && self.random.chance(self.settings.mix.streamed);
        let user_id = self.user_id(thread);
        let is_decorated = self.is_decorated(thread);
        let asked = Asked {
            history: &thread.history,
            system: &thread.system,
            tools: &thread.tools,
            decoration: self.decoration.as_deref().filter(|_| is_decorated),
            is_streamed,
            user_id: user_id.as_deref(),
        };
        Sent {
            path: self.format.path(),
            body: self.format.request(&asked, &self.settings.mix, &mut self.random),
            is_streamed,
        }
    }

    /// Only what the user types is decorated: an agent's prompt arrives as it was given.
    pub(super) fn is_decorated(&self, thread: &Thread) -> bool {
        self.decoration.is_some() && thread.depth == 0
    }

    /// `metadata.user_id` as Claude Code writes it.
    pub(super) fn user_id(&self, thread: &Thread) -> Option<String> {
        (self.settings.mode == Mode::Hinted).then(|| {
            format!(
                r#"{{"device_id":"a1ef37fb","account_uuid":"","session_id":"{}"}}"#,
                thread.session
            )
        })
    }
}

impl Thread {
    fn cause_of_next(&mut self, usual: Cause) -> Cause {
        let is_after_gap = std::mem::take(&mut self.is_after_gap);
        match self.next_cause.take() {
            Some(cause) => cause,
            None if is_after_gap && usual.may_be_unrecorded() => Cause::Gap,
            None => usual,
        }
    }
}

fn attempt(cause: Cause, repeats: Option<usize>, answer: Answer) -> Call {
    let (cause, kind) = match repeats {
        Some(_) => (Cause::Retry, Kind::Retry),
        None => (cause, Kind::Turn),
    };
    Call {
        cause,
        kind,
        answer,
        repeats,
    }
}

fn format(settings: &Settings, random: &mut Random) -> Format {
    let mix = &settings.mix;
    if random.chance(mix.chat) {
        Format::Chat
    } else if random.chance(mix.responses) {
        let replays = [Replay::Full, Replay::Previous, Replay::References];
        Format::Responses(replays[random.below(replays.len())])
    } else if random.chance(mix.gemini) {
        Format::Gemini
    } else {
        Format::Anthropic
    }
}

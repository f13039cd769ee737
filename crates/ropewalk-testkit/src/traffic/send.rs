//! One exchange of a conversation: when it takes place, who records it, what content connects it with.

use ropewalk_wire::exchange::Half;

use super::Mode;
use super::draft::Draft;
use super::history::{Block, Speaker, recorded_origin};
use super::render::{Answered, Format, Replay};
use super::script::{MILLISECOND, Script, Thread};
use super::truth::{Cause, Kind};
use crate::conversation::Random;

/// A request as it is sent, possibly several times.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) path: &'static str,
    pub(super) body: String,
    pub(super) is_streamed: bool,
}

#[derive(Debug)]
pub(super) enum Answer {
    Whole(Vec<Block>),
    /// The stream ended early.
    CutOff(Vec<Block>),
    Failed(u16),
    /// A body that is no message.
    Plain(&'static str),
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) cause: Cause,
    pub(super) kind: Kind,
    pub(super) answer: Answer,
    /// The attempt that it repeats.
    pub(super) repeats: Option<usize>,
}

impl Call {
    pub(super) fn turn(cause: Cause, answer: Answer) -> Self {
        Call {
            cause,
            kind: Kind::Turn,
            answer,
            repeats: None,
        }
    }
}

impl Script<'_> {
    /// One exchange. The thread's clock goes on to its end, and a little further.
    pub(super) fn send(&mut self, thread: &mut Thread, sent: &Sent, call: &Call) -> usize {
        let exchange = self.drafts.len();
        let is_recorded = self.is_recorded(thread, call);
        let duration = match &call.answer {
            Answer::Whole(_) | Answer::CutOff(_) => 500 + self.random.below(8_000),
            Answer::Failed(_) | Answer::Plain(_) => 50 + self.random.below(300),
        };
        let (mut at, mut ended) = (thread.now, thread.now + duration as i64 * MILLISECOND);
        if self.random.chance(self.settings.mix.tied) {
            (at, ended) = (whole_millisecond(at), whole_millisecond(ended));
            thread.now = ended;
        } else {
            ended += self.random.below(1_000) as i64;
            thread.now = ended + (20 + self.random.below(400)) as i64 * MILLISECOND;
        }
        let parent = call.repeats.or(thread.last).or(thread.spawned_by);
        let draft = Draft {
            at,
            ended,
            clock_ahead: self.clock_of(at, parent, call.cause),
            is_recorded,
            agent: thread.agent.clone(),
            branch: thread.branch.clone(),
            kind: call.kind,
            cause: call.cause,
            parent,
            joins: if is_recorded {
                self.joins(thread, call)
            } else {
                Vec::new()
            },
            fits_several: thread.fits_several || self.is_common && thread.last.or(thread.spawned_by).is_some(),
            has_end: !self.random.chance(self.settings.mix.without_end),
            spawned: self.spawned(&call.answer, sent.is_streamed, ended),
            path: sent.path,
            request: Half {
                headers: self.request_headers(thread),
                body: sent.body.clone().into_bytes(),
            },
            status: if let Answer::Failed(status) = call.answer {
                status
            } else {
                200
            },
            is_cut_off: matches!(call.answer, Answer::CutOff(_)),
            response: self.response(exchange, thread, &call.answer, sent.is_streamed),
        };
        self.drafts.push(draft);
        if call.kind != Kind::Auxiliary {
            thread.last = Some(exchange);
        }
        exchange
    }

    fn is_recorded(&mut self, thread: &mut Thread, call: &Call) -> bool {
        // A later request of a conversation like many others would be taken for theirs, whatever the client's hints say.
        if self.is_common || call.kind != Kind::Turn || !call.cause.may_be_unrecorded() {
            return true;
        }
        if !matches!(call.answer, Answer::Whole(_)) {
            return true;
        }
        if thread.unrecorded_left > 0 {
            thread.unrecorded_left -= 1;
        } else if self.random.chance(self.settings.mix.gap) {
            thread.unrecorded_left = self.random.below(3);
        } else {
            return true;
        }
        thread.is_after_gap = true;
        false
    }

    /// What content alone connects a request with.
    fn joins(&self, thread: &Thread, call: &Call) -> Vec<usize> {
        if call.kind == Kind::Auxiliary {
            return Vec::new();
        }
        let mut joins: Vec<usize> = call.repeats.into_iter().collect();
        joins.extend(self.origin(thread));
        let is_first = thread.history.len() == 1;
        if is_first {
            let spawning = thread.spawned_by.filter(|&exchange| self.drafts[exchange].is_recorded);
            joins.extend(spawning);
        }
        joins
    }

    /// The recorded exchange whose answer the thread's next request contains or names.
    pub(super) fn origin(&self, thread: &Thread) -> Option<usize> {
        if self.format == Format::Responses(Replay::Previous) {
            let latest = thread.history.iter().rfind(|said| said.by == Speaker::Assistant);
            return latest?.recorded_in;
        }
        recorded_origin(&thread.history, thread.is_rewritten || self.is_decorated(thread))
    }

    /// How far the clock of the recorder that takes this exchange is ahead.
    fn clock_of(&mut self, at: i64, parent: Option<usize>, cause: Cause) -> i64 {
        let ahead = if self.random.chance(self.settings.mix.skewed) {
            self.clock_ahead
        } else {
            0
        };
        let Some(parent) = parent.map(|parent| &self.drafts[parent]) else {
            return ahead;
        };
        // Where no history orders two exchanges, the times are all there is.
        let needs_order = matches!(cause, Cause::Subagent(_) | Cause::Continuation);
        let is_reversed = at + ahead < parent.at + parent.clock_ahead;
        // A client repeats a request through the recorder that it used before.
        if cause == Cause::Retry || needs_order && is_reversed {
            return parent.clock_ahead;
        }
        ahead
    }

    fn request_headers(&self, thread: &Thread) -> Vec<(String, String)> {
        let mut headers = vec![("content-type", "application/json")];
        if self.format == Format::Anthropic {
            headers.extend([
                ("anthropic-version", "2023-06-01"),
                ("user-agent", "claude-cli/2.1.197 (external, cli)"),
            ]);
        }
        if self.settings.mode == Mode::Hinted {
            let session = match self.format {
                Format::Anthropic => "x-claude-code-session-id",
                Format::Chat | Format::Responses(_) | Format::Gemini => "x-session-id",
            };
            headers.push((session, &thread.session));
            headers.extend(thread.agent_id.as_deref().map(|id| ("x-claude-code-agent-id", id)));
            headers.extend(
                thread
                    .parent_agent_id
                    .as_deref()
                    .map(|id| ("x-claude-code-parent-agent-id", id)),
            );
        }
        owned(&headers)
    }

    fn response(&self, exchange: usize, thread: &Thread, answer: &Answer, is_streamed: bool) -> Half {
        let id = answer_id(exchange, self.settings.seed, &thread.session);
        let (body, is_stream) = match answer {
            Answer::Whole(blocks) | Answer::CutOff(blocks) => {
                let answered = Answered {
                    id: &id,
                    blocks,
                    is_streamed,
                    is_cut_off: matches!(answer, Answer::CutOff(_)),
                };
                (self.format.answer(&answered), is_streamed)
            }
            Answer::Failed(_) => (
                r#"{"type":"error","error":{"type":"api_error","message":"try again"}}"#.to_owned(),
                false,
            ),
            Answer::Plain(body) => ((*body).to_owned(), false),
        };
        let content_type = if is_stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        Half {
            headers: owned(&[("content-type", content_type), ("request-id", &format!("req_{id}"))]),
            body: body.into_bytes(),
        }
    }

    fn spawned(&mut self, answer: &Answer, is_streamed: bool, ended: i64) -> Vec<(String, i64)> {
        let Answer::Whole(blocks) = answer else {
            return Vec::new();
        };
        if !is_streamed || !self.random.chance(0.5) {
            return Vec::new();
        }
        let ids = blocks.iter().filter_map(|block| match block {
            Block::Call(call) if matches!(call.name, "Agent" | "Task") => Some(call.id.clone()),
            _ => None,
        });
        ids.map(|id| (id, ended - 50 * MILLISECOND)).collect()
    }
}

pub(super) fn answer_id(exchange: usize, seed: u64, session: &str) -> String {
    let place = session
        .bytes()
        .fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Random(place.wrapping_add(exchange as u64)).letters(20)
}

fn whole_millisecond(micros: i64) -> i64 {
    micros - micros.rem_euclid(MILLISECOND)
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

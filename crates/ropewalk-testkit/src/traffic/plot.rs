//! What happens in a conversation, turn by turn.

use super::draft::Draft;
use super::history::{Block, Call as ToolCall, Said, Speaker};
use super::render::{self, Asked, Format};
use super::script::{MILLISECOND, SECOND, Script, Thread};
use super::send::{Answer, Call, Sent};
use super::texts;
use super::truth::{Cause, Kind};

/// Most prompts of a conversation's main branch.
const TURNS_MAX: usize = 12;
const TOOLS: [&str; 6] = ["Agent", "Bash", "Edit", "Read", "SendMessage", "Task"];
const CLEARED: &str = "[Old tool result content cleared]";

impl Script<'_> {
    /// Everything that takes place in the conversation, from its start on.
    pub(super) fn play(mut self, start: i64) -> Vec<Draft> {
        let mut thread = self.main_thread(start);
        let mix = &self.settings.mix;
        if self.format == Format::Anthropic && self.random.chance(mix.title) {
            self.title(&thread);
            thread.now += 15 * MILLISECOND;
        }
        // The smaller of two draws: most conversations are short.
        let turns = 1 + self.random.below(TURNS_MAX).min(self.random.below(TURNS_MAX));
        for turn in 0..turns {
            if turn == 0 {
                let opening = self.opening.clone();
                thread.history.push(Said::user(vec![Block::Text(opening)]));
                self.answer(&mut thread, Cause::Opening);
            } else {
                self.turn(&mut thread);
            }
            // What many others say too must not be forked or edited: whose it is would be anybody's guess.
            if !self.is_common {
                self.twist(&mut thread);
            }
        }
        self.drafts
    }

    fn main_thread(&mut self, start: i64) -> Thread {
        // Claude Code tells the model where it runs; scripts send the same words every time.
        let system = match self.format {
            Format::Anthropic => format!(
                "You are a coding agent. Working directory: /src/{}",
                self.random.letters(8)
            ),
            _ => "You are a helpful assistant.".to_owned(),
        };
        let tools = if self.format == Format::Anthropic {
            &TOOLS[..]
        } else {
            &TOOLS[1..2]
        };
        Thread {
            agent: "main".to_owned(),
            agent_id: None,
            parent_agent_id: None,
            session: self.new_session(),
            depth: 0,
            branch: "main".to_owned(),
            system,
            tools: tools.to_vec(),
            history: Vec::new(),
            now: start,
            last: None,
            spawned_by: None,
            has_twin: false,
            fits_several: false,
            is_rewritten: false,
            next_cause: None,
            unrecorded_left: 0,
            is_after_gap: false,
        }
    }

    /// The user says something, and the model answers.
    pub(super) fn turn(&mut self, thread: &mut Thread) {
        let prompt = texts::prompt(&mut self.random);
        self.turn_with(thread, vec![Block::Text(prompt)]);
    }

    fn turn_with(&mut self, thread: &mut Thread, prompt: Vec<Block>) {
        thread.now += (2 + self.random.below(60)) as i64 * SECOND;
        thread.history.push(Said::user(prompt));
        let usual = if self.decoration.is_some() {
            Cause::Decorated
        } else {
            Cause::Prompt
        };
        self.answer(thread, usual);
    }

    /// The model answers the newest message, after tool calls and with agents of its own.
    pub(super) fn answer(&mut self, thread: &mut Thread, mut cause: Cause) {
        let mix = &self.settings.mix;
        let is_first = thread.history.iter().all(|said| said.by == Speaker::User);
        let is_common = is_first && self.is_common;
        let can_call = self.format != Format::Gemini && !is_common;
        if can_call && self.format == Format::Anthropic && self.random.chance(mix.spawn) {
            self.spawn(thread, cause);
            cause = Cause::ToolResult;
        }
        if can_call && self.random.chance(mix.tool_call) {
            for _ in 0..1 + self.random.below(2) {
                self.call_tools(thread, cause);
                cause = Cause::ToolResult;
            }
        }
        let may_be_short = !is_first || self.has_own_opening && self.decoration.is_none();
        let text = if is_common || may_be_short && self.random.chance(mix.short_answer) {
            texts::short_answer(&mut self.random)
        } else {
            texts::own(&mut self.random, 110, 260)
        };
        let mut blocks = self.thoughts();
        blocks.push(Block::Text(text));
        self.say(thread, cause, blocks);
    }

    /// One answer with tool calls, and their results.
    pub(super) fn call_tools(&mut self, thread: &mut Thread, cause: Cause) {
        let mut blocks = self.thoughts();
        if self.random.chance(0.5) {
            blocks.push(Block::Text(texts::own(&mut self.random, 10, 60)));
        }
        let mut results = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let command = texts::own(&mut self.random, 10, 40);
            let call = self.tool_call("Bash", vec![("command", command)]);
            results.push(Block::Result {
                id: call.id.clone(),
                text: self.random.prose(60),
                is_error: self.random.below(8) == 0,
            });
            blocks.push(Block::Call(call));
        }
        self.say(thread, cause, blocks);
        thread.now += self.random.below(4_000) as i64 * MILLISECOND;
        thread.history.push(Said::user(results));
    }

    pub(super) fn tool_call(&mut self, name: &'static str, input: Vec<(&'static str, String)>) -> ToolCall {
        ToolCall {
            id: format!("toolu_{}", self.random.letters(24)),
            name,
            input,
        }
    }

    fn thoughts(&mut self) -> Vec<Block> {
        let thinks = self.format == Format::Anthropic && self.chance(self.settings.mix.thinking);
        let thought = thinks.then(|| Block::Thinking(self.random.prose(50)));
        thought.into_iter().collect()
    }

    /// Things that happen between two turns; most often nothing does.
    fn twist(&mut self, thread: &mut Thread) {
        let mix = &self.settings.mix;
        let is_anthropic = self.format == Format::Anthropic;
        // Rules at the end of every newest prompt would hide what these are known by.
        let is_plain = is_anthropic && self.decoration.is_none();
        if self.random.chance(mix.edit) {
            self.edit(thread);
        } else if self.has_unseen_prompt(thread) && self.random.chance(0.3) {
            self.edit_unseen(thread);
        } else if self.random.chance(mix.regeneration) {
            self.regenerate(thread);
        } else if self.random.chance(mix.fork) {
            self.fork(thread, Cause::Fork);
        } else if self.random.chance(mix.same_second) {
            self.fork(thread, Cause::SameSecond);
            self.fork(thread, Cause::SameSecond);
        } else if is_plain && self.random.chance(mix.interrupt) {
            self.interrupt(thread);
        } else if is_plain && self.random.chance(mix.compaction) {
            self.compact(thread);
            if self.random.chance(0.2) {
                self.fork(thread, Cause::Fork);
            }
        } else if is_plain && self.random.chance(mix.resume) {
            self.resume(thread);
        } else if is_anthropic && self.random.chance(mix.count_tokens) {
            self.count_tokens(thread);
        } else if is_anthropic && self.random.chance(mix.rewrite) {
            clear_old_result(thread);
        } else if self.random.chance(mix.context_change) {
            thread.system.push_str(" The model is another one now.");
            thread.tools.push("WebFetch");
            thread.next_cause = Some(Cause::ContextChange);
        }
    }

    /// A branch that differs from an earlier prompt on.
    fn edit(&mut self, thread: &mut Thread) {
        let prompts = editable_prompts(thread);
        let Some(&place) = prompts.get(self.random.below(prompts.len())) else {
            return;
        };
        self.edit_at(thread, place, Cause::Edit);
    }

    fn edit_at(&mut self, thread: &mut Thread, place: usize, cause: Cause) {
        let mut branch = self.branch_off(thread, place, "edit");
        branch.next_cause = Some(cause);
        let prompt = texts::own(&mut self.random, 20, 120);
        self.turn_with(&mut branch, vec![Block::Text(prompt)]);
        self.maybe_stay(thread, branch);
    }

    fn has_unseen_prompt(&self, thread: &Thread) -> bool {
        self.unseen_prompt(thread).is_some()
    }

    /// A prompt whose answer no exchange recorded, inside a history that a later request showed.
    fn unseen_prompt(&self, thread: &Thread) -> Option<usize> {
        let is_shown = thread.last.is_some_and(|last| self.drafts[last].is_recorded);
        let is_unseen = |place: &usize| {
            let answer = thread.history.get(place + 1);
            answer.is_some_and(|said| said.by == Speaker::Assistant && said.recorded_in.is_none())
        };
        let mut prompts = editable_prompts(thread).into_iter().rev();
        prompts.find(|place| is_shown && is_unseen(place))
    }

    fn edit_unseen(&mut self, thread: &mut Thread) {
        if let Some(place) = self.unseen_prompt(thread) {
            self.edit_at(thread, place, Cause::EditAfterGap);
        }
    }

    /// The newest prompt is answered once more.
    fn regenerate(&mut self, thread: &mut Thread) {
        let Some(place) = editable_prompts(thread).pop() else {
            return;
        };
        let mut branch = self.branch_off(thread, place + 1, "regeneration");
        branch.now += (1 + self.random.below(30)) as i64 * SECOND;
        branch.next_cause = Some(Cause::Regeneration);
        self.answer(&mut branch, Cause::Prompt);
        self.maybe_stay(thread, branch);
    }

    /// The same history under a new session. Without a recorded answer in it nothing at all would lead back.
    fn fork(&mut self, thread: &Thread, cause: Cause) {
        if self.origin(thread).is_none() {
            return;
        }
        let mut fork = self.branch_off(thread, thread.history.len(), "fork");
        fork.session = self.new_session();
        fork.next_cause = Some(cause);
        let turns = 1 + self.random.below(3);
        if cause == Cause::SameSecond {
            let prompt = texts::own(&mut self.random, 20, 60);
            fork.now += self.random.below(500) as i64 * MILLISECOND;
            fork.history.push(Said::user(vec![Block::Text(prompt)]));
            self.answer(&mut fork, Cause::Prompt);
        } else {
            self.turn(&mut fork);
        }
        (1..turns).for_each(|_| self.turn(&mut fork));
    }

    /// A new branch that shares the history before this place.
    fn branch_off(&mut self, thread: &Thread, place: usize, word: &str) -> Thread {
        let mut branch = thread.clone();
        branch.branch = self.new_branch(word);
        branch.history.truncate(place);
        let answers = branch.history.iter().rev().filter(|said| said.by == Speaker::Assistant);
        branch.last = answers.filter_map(|said| said.recorded_in).next();
        branch.unrecorded_left = 0;
        branch.is_after_gap = false;
        branch
    }

    /// The user goes on with one of the two branches.
    fn maybe_stay(&mut self, thread: &mut Thread, branch: Thread) {
        if self.random.chance(0.5) {
            *thread = branch;
        } else {
            thread.now = thread.now.max(branch.now);
        }
    }

    /// The user stops an answer, after some text or before any.
    fn interrupt(&mut self, thread: &mut Thread) {
        thread.now += (2 + self.random.below(20)) as i64 * SECOND;
        let prompt = texts::own(&mut self.random, 10, 80);
        thread.history.push(Said::user(vec![Block::Text(prompt)]));
        let sent = Sent {
            is_streamed: true,
            ..self.streamed_request(thread)
        };
        if self.random.chance(0.4) {
            let mut vanished = thread.clone();
            vanished.branch = self.new_branch("vanished");
            self.send(
                &mut vanished,
                &sent,
                &Call::turn(Cause::Vanished, Answer::CutOff(Vec::new())),
            );
            thread.now = vanished.now;
            thread.history.pop();
            return;
        }
        let shown = texts::own_from_the_start(&mut self.random, 60, 160);
        // The recorder saw a little more than the client kept.
        let received = format!("{shown} and {}", self.random.word());
        let answer = Answer::CutOff(vec![Block::Text(received)]);
        let exchange = self.send(thread, &sent, &Call::turn(Cause::Prompt, answer));
        self.remember(thread, exchange, vec![Block::Text(shown)]);
        thread.next_cause = Some(Cause::Interrupted);
        let stopped = Block::Text("[Request interrupted by user]".to_owned());
        let prompt = Block::Text(texts::prompt(&mut self.random));
        self.turn_with(thread, vec![stopped, prompt]);
    }

    fn streamed_request(&mut self, thread: &Thread) -> Sent {
        let mut sent = self.request(thread);
        if !sent.is_streamed {
            sent.body.truncate(sent.body.len() - 1);
            sent.body.push_str(r#","stream":true}"#);
        }
        sent
    }

    fn title(&mut self, thread: &Thread) {
        let sent = Sent {
            path: self.format.path(),
            body: render::title(&self.opening, self.user_id(thread).as_deref()),
            is_streamed: false,
        };
        let title = format!(r#"{{"title":"{} {}"}}"#, self.random.word(), self.random.word());
        let answer = Answer::Whole(vec![Block::Text(title)]);
        self.auxiliary(thread, &sent, Cause::Title, answer);
    }

    fn count_tokens(&mut self, thread: &Thread) {
        let user_id = self.user_id(thread);
        let asked = Asked {
            history: &thread.history,
            system: &thread.system,
            tools: &thread.tools,
            decoration: None,
            is_streamed: false,
            user_id: user_id.as_deref(),
        };
        let sent = Sent {
            path: "/v1/messages/count_tokens?beta=true",
            body: render::count_tokens(&asked, &self.settings.mix, &mut self.random),
            is_streamed: false,
        };
        let answer = Answer::Plain(r#"{"input_tokens":20}"#);
        self.auxiliary(thread, &sent, Cause::CountTokens, answer);
    }

    fn auxiliary(&mut self, thread: &Thread, sent: &Sent, cause: Cause, answer: Answer) {
        let call = Call {
            kind: Kind::Auxiliary,
            ..Call::turn(cause, answer)
        };
        self.send(&mut thread.clone(), sent, &call);
    }
}

/// The client makes room: the oldest tool result that is still there goes.
fn clear_old_result(thread: &mut Thread) {
    let blocks = thread.history.iter_mut().flat_map(|said| &mut said.blocks);
    let mut texts = blocks.filter_map(|block| match block {
        Block::Result { text, .. } if text != CLEARED => Some(text),
        _ => None,
    });
    if let Some(text) = texts.next() {
        CLEARED.clone_into(text);
        thread.is_rewritten = true;
        thread.next_cause = Some(Cause::Rewrite);
    }
}

/// Places of the history where the user typed something; a summary that a client put there is none.
fn editable_prompts(thread: &Thread) -> Vec<usize> {
    let prompts = thread.history.iter().enumerate();
    prompts
        .filter(|(_, said)| said.is_prompt() && said.recorded_in.is_none())
        .map(|(place, _)| place)
        .collect()
}

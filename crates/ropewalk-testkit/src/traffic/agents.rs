//! Agents that start agents: at once or late, alone or beside others, waited for or not.

use super::history::{Block, Call as ToolCall, Said};
use super::script::{MILLISECOND, SECOND, Script, Thread};
use super::texts;
use super::truth::{Cause, Spawn};

const DEPTH_MAX: u32 = 3;
const AGENT_TYPES: [&str; 3] = ["general-purpose", "Explore", "Plan"];

/// One call that starts agents.
#[derive(Debug, Clone)]
struct Job {
    prompt: String,
    spawn: Spawn,
    is_shared: bool,
}

impl Script<'_> {
    /// The model answers the newest message by starting agents; their results become the newest message.
    pub(super) fn spawn(&mut self, thread: &mut Thread, cause: Cause) {
        let mix = &self.settings.mix;
        if self.random.chance(mix.background) {
            return self.spawn_in_background(thread, cause);
        }
        let jobs = self.jobs(thread);
        if !self.random.chance(mix.never_run) {
            return self.spawn_and_wait(thread, cause, &jobs);
        }
        // Refused, and perhaps tried again with the same words.
        let calls: Vec<ToolCall> = jobs.iter().map(|job| self.agent_call(&job.prompt, false)).collect();
        self.say(thread, cause, blocks_of(&calls));
        let refused = |call: &ToolCall| Block::Result {
            id: call.id.clone(),
            text: "The user doesn't want to proceed with this tool use.".to_owned(),
            is_error: true,
        };
        thread.history.push(Said::user(calls.iter().map(refused).collect()));
        thread.now += 3 * SECOND;
        if self.random.chance(0.4) {
            return;
        }
        let again: Vec<Job> = jobs
            .into_iter()
            .map(|job| Job {
                spawn: job.spawn.max(Spawn::AfterNeverRun),
                ..job
            })
            .collect();
        self.spawn_and_wait(thread, Cause::ToolResult, &again);
    }

    fn jobs(&mut self, thread: &Thread) -> Vec<Job> {
        let mix = &self.settings.mix;
        let usual = if thread.depth == 0 { Spawn::Alone } else { Spawn::Nested };
        let mut job = Job {
            prompt: texts::own(&mut self.random, 40, 160),
            spawn: usual,
            is_shared: false,
        };
        if self.random.chance(mix.shared_prompt) {
            job = Job {
                prompt: texts::shared_spawn_prompt(&mut self.random),
                spawn: Spawn::SharedPrompt,
                is_shared: true,
            };
        }
        if !self.random.chance(mix.parallel) {
            return vec![job];
        }
        let count = 2 + self.random.below(2);
        if self.random.chance(0.3) {
            job.spawn = job.spawn.max(Spawn::Twin);
            return vec![job; count];
        }
        let others = (1..count).map(|_| Job {
            prompt: texts::own(&mut self.random, 40, 160),
            spawn: usual.max(Spawn::Parallel),
            is_shared: false,
        });
        let mut jobs: Vec<Job> = others.collect();
        job.spawn = job.spawn.max(Spawn::Parallel);
        jobs.push(job);
        jobs
    }

    fn spawn_and_wait(&mut self, thread: &mut Thread, cause: Cause, jobs: &[Job]) {
        let calls: Vec<ToolCall> = jobs.iter().map(|job| self.agent_call(&job.prompt, false)).collect();
        let spawning = self.say(thread, cause, blocks_of(&calls));
        let is_late = self.chance(self.settings.mix.late);
        let start = thread.now
            + if is_late {
                (120 + self.random.below(400)) as i64 * SECOND
            } else {
                0
            };
        let has_twin = jobs.windows(2).any(|pair| pair[0].prompt == pair[1].prompt);
        let mut results = Vec::new();
        for (job, call) in jobs.iter().zip(&calls) {
            let spawn = if is_late { job.spawn.max(Spawn::Late) } else { job.spawn };
            let mut child = self.child(thread, spawning, job, start);
            child.has_twin = has_twin;
            // Half of those that start together start within the same microsecond.
            if self.random.chance(0.5) {
                child.now += self.random.below(200) as i64 * MILLISECOND;
            }
            let report = self.run(&mut child, spawn);
            thread.now = thread.now.max(child.now);
            results.push(self.report(call, &child, &report));
            self.done.push(child);
        }
        thread.history.push(Said::user(results));
    }

    /// The parent goes on at once and is told later.
    fn spawn_in_background(&mut self, thread: &mut Thread, cause: Cause) {
        let job = Job {
            prompt: texts::own(&mut self.random, 40, 160),
            spawn: Spawn::Background,
            is_shared: false,
        };
        let call = self.agent_call(&job.prompt, true);
        let spawning = self.say(thread, cause, blocks_of(std::slice::from_ref(&call)));
        let mut child = self.child(thread, spawning, &job, thread.now);
        let report = self.run(&mut child, Spawn::Background);
        let launched = format!("Async agent launched successfully.\nagentId: {}", name_of(&child));
        thread.history.push(Said::user(vec![Block::Result {
            id: call.id.clone(),
            text: launched,
            is_error: false,
        }]));
        let answer = vec![Block::Text(texts::own(&mut self.random, 20, 80))];
        self.say(thread, Cause::ToolResult, answer);
        thread.now = thread.now.max(child.now) + SECOND;
        let notification = format!(
            "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<status>completed</status>\n<result>{report}</result>\n</task-notification>",
            name_of(&child),
            call.id
        );
        thread.history.push(Said::user(vec![Block::Text(notification)]));
        thread.next_cause = Some(Cause::Notification);
        self.done.push(child);
    }

    fn agent_call(&mut self, prompt: &str, is_background: bool) -> ToolCall {
        let kind = AGENT_TYPES[self.random.below(AGENT_TYPES.len())];
        let mut input = vec![
            ("description", self.random.prose(20)),
            ("prompt", prompt.to_owned()),
            ("subagent_type", kind.to_owned()),
        ];
        if is_background {
            input.push(("run_in_background", "true".to_owned()));
        }
        let name = if self.random.chance(0.7) { "Agent" } else { "Task" };
        self.tool_call(name, input)
    }

    fn child(&mut self, parent: &Thread, spawning: usize, job: &Job, start: i64) -> Thread {
        self.agents += 1;
        let number = self.agents;
        Thread {
            agent: format!("agent-{number}"),
            agent_id: Some(format!("a{:016x}", self.random.next_u64())),
            parent_agent_id: parent.agent_id.clone(),
            depth: parent.depth + 1,
            branch: format!("subtask-{number}"),
            system: format!("You are an agent for one task. {}", parent.system),
            tools: vec!["Agent", "Bash", "Read", "Task"],
            history: vec![Said::user(vec![Block::Text(job.prompt.clone())])],
            now: start,
            last: None,
            spawned_by: Some(spawning),
            fits_several: parent.fits_several || job.is_shared,
            session: parent.session.clone(),
            has_twin: false,
            is_rewritten: false,
            next_cause: None,
            unrecorded_left: 0,
            is_after_gap: false,
        }
    }

    /// The agent works until it reports.
    fn run(&mut self, child: &mut Thread, spawn: Spawn) -> String {
        let mut cause = Cause::Subagent(spawn);
        for _ in 0..self.random.below(3) {
            if self.chance(self.settings.mix.spawn) && child.depth < DEPTH_MAX {
                self.spawn(child, cause);
            } else {
                self.call_tools(child, cause);
            }
            cause = Cause::ToolResult;
        }
        let report = texts::own(&mut self.random, 110, 200);
        self.say(child, cause, vec![Block::Text(report.clone())]);
        report
    }

    fn report(&mut self, call: &ToolCall, child: &Thread, report: &str) -> Block {
        Block::Result {
            id: call.id.clone(),
            text: format!("{report}\nagentId: {}", name_of(child)),
            is_error: false,
        }
    }

    /// An agent of this session that was done is sent another message.
    pub(super) fn resume(&mut self, thread: &mut Thread) {
        let mine = |child: &Thread| child.session == thread.session && child.depth == 1;
        let Some(index) = self.done.iter().position(mine) else {
            return;
        };
        let mut child = self.done.swap_remove(index);
        let message = texts::own(&mut self.random, 20, 80);
        thread.now = thread.now.max(child.now) + 10 * SECOND;
        let prompt = texts::prompt(&mut self.random);
        thread.history.push(Said::user(vec![Block::Text(prompt)]));
        let to = name_of(&child).to_owned();
        let call = self.tool_call("SendMessage", vec![("to", to), ("message", message.clone())]);
        self.say(thread, Cause::Prompt, blocks_of(std::slice::from_ref(&call)));
        child.now = thread.now;
        child.history.push(Said::user(vec![Block::Text(message)]));
        let report = texts::own(&mut self.random, 110, 200);
        self.say(&mut child, Cause::Resume, vec![Block::Text(report.clone())]);
        thread.now = thread.now.max(child.now);
        let result = self.report(&call, &child, &report);
        thread.history.push(Said::user(vec![result]));
        let answer = vec![Block::Text(texts::own(&mut self.random, 20, 120))];
        self.say(thread, Cause::ToolResult, answer);
        self.done.push(child);
    }
}

fn blocks_of(calls: &[ToolCall]) -> Vec<Block> {
    calls.iter().cloned().map(Block::Call).collect()
}

fn name_of(child: &Thread) -> &str {
    child.agent_id.as_deref().unwrap_or_default()
}

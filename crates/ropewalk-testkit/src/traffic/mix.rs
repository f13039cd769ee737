//! How much of what the traffic contains.

/// Rates between 0 and 1. "Per turn" means each prompt of a main agent, "per call" each request of any agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// Conversations that begin with words thousands of others begin with.
    pub shared_opening: f64,
    /// Of those, conversations whose first answer is as common as their opening, so that content cannot tell them apart.
    pub shared_first_answer: f64,
    /// Later answers of a word or two, per turn.
    pub short_answer: f64,
    /// Conversations in other formats than Anthropic's.
    pub chat: f64,
    pub responses: f64,
    pub gemini: f64,
    /// Answers sent as events, where the format is Anthropic's.
    pub streamed: f64,
    /// Answers that call tools, per turn.
    pub tool_call: f64,
    pub thinking: f64,
    /// A reminder at one place of a request that may hold one.
    pub reminder: f64,
    /// Failed attempts, sent again by the client, per call.
    pub retry: f64,
    /// Equal requests at once that all succeed, per call.
    pub sampling: f64,
    pub regeneration: f64,
    pub edit: f64,
    /// Continued under a new session, per turn.
    pub fork: f64,
    /// Two forks within one second, per turn.
    pub same_second: f64,
    /// Stopped by the user, after partial text or before any, per turn.
    pub interrupt: f64,
    pub compaction: f64,
    /// Answers that start agents, per turn; an agent does it at the same rate, down to depth 3.
    pub spawn: f64,
    /// Of the spawns: started several at once, minutes late, in the background, never, with a prompt that others use too.
    pub parallel: f64,
    pub late: f64,
    pub background: f64,
    pub never_run: f64,
    pub shared_prompt: f64,
    /// Agents that are sent another message later, per turn.
    pub resume: f64,
    /// Conversations with a call for a title.
    pub title: f64,
    pub count_tokens: f64,
    /// A stretch of unrecorded calls begins, per call.
    pub gap: f64,
    /// An old tool result is cleared from the history, per turn.
    pub rewrite: f64,
    /// Conversations whose newest prompt carries rules that are gone next turn.
    pub decorated: f64,
    /// Another system prompt or set of tools from here on, per turn.
    pub context_change: f64,
    /// Recorded by the second recorder, whose clock is up to 5 s ahead, per call.
    pub skewed: f64,
    /// Times in whole milliseconds and without the pause between an answer and what follows it, per call.
    pub tied: f64,
    /// Exchanges without `ended_at`.
    pub without_end: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Mix {
            shared_opening: 0.4,
            shared_first_answer: 0.1,
            short_answer: 0.25,
            chat: 0.1,
            responses: 0.12,
            gemini: 0.03,
            streamed: 0.5,
            tool_call: 0.35,
            thinking: 0.3,
            reminder: 0.15,
            retry: 0.03,
            sampling: 0.015,
            regeneration: 0.02,
            edit: 0.03,
            fork: 0.02,
            same_second: 0.005,
            interrupt: 0.02,
            compaction: 0.015,
            spawn: 0.08,
            parallel: 0.3,
            late: 0.15,
            background: 0.15,
            never_run: 0.08,
            shared_prompt: 0.05,
            resume: 0.1,
            title: 0.3,
            count_tokens: 0.02,
            gap: 0.01,
            rewrite: 0.02,
            decorated: 0.03,
            context_change: 0.03,
            skewed: 0.1,
            tied: 0.1,
            without_end: 0.1,
        }
    }
}

impl Mix {
    /// Nothing but turns and tool calls: a base to switch single things on.
    pub fn plain() -> Self {
        Mix {
            shared_opening: 0.0,
            shared_first_answer: 0.0,
            chat: 0.0,
            responses: 0.0,
            gemini: 0.0,
            retry: 0.0,
            sampling: 0.0,
            regeneration: 0.0,
            edit: 0.0,
            fork: 0.0,
            same_second: 0.0,
            interrupt: 0.0,
            compaction: 0.0,
            spawn: 0.0,
            resume: 0.0,
            title: 0.0,
            count_tokens: 0.0,
            gap: 0.0,
            rewrite: 0.0,
            decorated: 0.0,
            context_change: 0.0,
            skewed: 0.0,
            ..Mix::default()
        }
    }
}

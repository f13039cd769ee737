//! What is true of each generated exchange, whatever a linker makes of it.

/// Labels name the same thing where they are equal; a linker's names need not be these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// Of the exchange.
    pub id: String,
    pub conversation: String,
    /// `main`, or the label of a subagent, unique in its conversation.
    pub agent: String,
    /// Unique in its conversation.
    pub branch: String,
    pub kind: Kind,
    pub cause: Cause,
    /// What it follows: the nearest recorded exchange of its history, the attempt that it repeats, the spawning exchange, the
    /// compaction.
    pub parent: Option<String>,
    pub by_content: ByContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Turn,
    /// Another attempt of a turn; the first one is a turn.
    Retry,
    Auxiliary,
    Compaction,
}

/// What a linker can find out without any id from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ByContent {
    Decides,
    /// Nothing connects it with the rest of its conversation: it may stand apart, and still must not join another one.
    CannotJoin,
    /// It fits several conversations equally well.
    FitsSeveral,
}

/// How an exchange came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The first request of a conversation.
    Opening,
    /// The user says something.
    Prompt,
    /// The client sends the results of tool calls.
    ToolResult,
    Retry,
    /// An alternative that was asked for at the same time and not taken up.
    Sampling,
    Regeneration,
    Edit,
    /// An edit inside a stretch that no exchange recorded.
    EditAfterGap,
    /// The same history under a new session.
    Fork,
    /// One of two forks within one second.
    SameSecond,
    /// What follows an answer that was stopped halfway.
    Interrupted,
    /// A request stopped before any text: no later history knows it.
    Vanished,
    Compaction,
    /// The first request after a compaction.
    Continuation,
    Subagent(Spawn),
    /// An agent that was done is sent another message.
    Resume,
    /// A background agent's report.
    Notification,
    /// The first recorded request after unrecorded ones.
    Gap,
    /// An old tool result was cleared.
    Rewrite,
    /// The newest prompt carries rules that the next request leaves out.
    Decorated,
    /// Another system prompt or set of tools.
    ContextChange,
    Title,
    CountTokens,
}

/// How the first request of an agent came about; where several are true, the last one of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spawn {
    Alone,
    /// Beside others with other prompts.
    Parallel,
    /// Beside another with the same prompt.
    Twin,
    /// By a subagent.
    Nested,
    /// Minutes after the call.
    Late,
    Background,
    /// After a call with the same prompt that never ran.
    AfterNeverRun,
    /// With a prompt that other conversations use too.
    SharedPrompt,
}

impl Cause {
    pub const ALL: [Cause; 30] = [
        Cause::Opening,
        Cause::Prompt,
        Cause::ToolResult,
        Cause::Retry,
        Cause::Sampling,
        Cause::Regeneration,
        Cause::Edit,
        Cause::EditAfterGap,
        Cause::Fork,
        Cause::SameSecond,
        Cause::Interrupted,
        Cause::Vanished,
        Cause::Compaction,
        Cause::Continuation,
        Cause::Subagent(Spawn::Alone),
        Cause::Subagent(Spawn::Parallel),
        Cause::Subagent(Spawn::Twin),
        Cause::Subagent(Spawn::Nested),
        Cause::Subagent(Spawn::Late),
        Cause::Subagent(Spawn::Background),
        Cause::Subagent(Spawn::AfterNeverRun),
        Cause::Subagent(Spawn::SharedPrompt),
        Cause::Resume,
        Cause::Notification,
        Cause::Gap,
        Cause::Rewrite,
        Cause::Decorated,
        Cause::ContextChange,
        Cause::Title,
        Cause::CountTokens,
    ];

    /// Whether recording may have been off for it: only calls that nothing else of the truth depends on.
    pub(super) fn may_be_unrecorded(self) -> bool {
        matches!(
            self,
            Cause::Opening | Cause::Prompt | Cause::ToolResult | Cause::Gap | Cause::Decorated
        )
    }
}

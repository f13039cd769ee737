//! A conversation that outgrows its context: it is summarised, and goes on from the summary.

use super::history::{Block, Said};
use super::script::{SECOND, Script, Thread};
use super::send::{Answer, Call};
use super::texts;
use super::truth::{Cause, Kind};

const INSTRUCTION: &str = "Your task is to create a detailed summary of the conversation so far: what was asked, what was \
done, what is left. Wrap your thoughts in <analysis> tags and the summary in <summary> tags.\n\nREMINDER: Do NOT call any tools. \
Respond with text only.";
const CONTINUED: &str = "This session is being continued from a previous conversation that ran out of context. The conversation is \
summarized below:\n";
const TRAILER: &str =
    "\n\nPlease continue the conversation from where we left it off without asking the user any further questions.";

impl Script<'_> {
    /// The summarising request, and the first request after it on a branch of its own.
    pub(super) fn compact(&mut self, thread: &mut Thread) {
        thread.now += SECOND;
        let summary = texts::own(&mut self.random, 320, 700);
        let mut asking = thread.clone();
        asking
            .history
            .push(Said::user(vec![Block::Text(INSTRUCTION.to_owned())]));
        let sent = self.request(&asking);
        let text = format!(
            "<analysis>\n{}\n</analysis>\n\n<summary>\n{summary}\n</summary>",
            self.random.prose(80)
        );
        let call = Call {
            kind: Kind::Compaction,
            ..Call::turn(Cause::Compaction, Answer::Whole(vec![Block::Text(text)]))
        };
        let compaction = self.send(&mut asking, &sent, &call);
        thread.now = asking.now;
        thread.last = Some(compaction);
        thread.branch = self.new_branch("compact");
        let trailer = if self.random.chance(0.5) { TRAILER } else { "" };
        let mut blocks = vec![Block::Text(format!("{CONTINUED}{summary}{trailer}"))];
        if self.random.chance(0.4) {
            blocks.push(Block::Text(texts::prompt(&mut self.random)));
        }
        thread.history = vec![Said {
            recorded_in: Some(compaction),
            ..Said::user(blocks)
        }];
        thread.is_rewritten = false;
        thread.next_cause = Some(Cause::Continuation);
        self.answer(thread, Cause::Prompt);
    }
}

//! Some messages of a thread, without those before and behind them.

use std::collections::HashMap;

use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;

use super::{MessageView, Step, brought_by, message_uuid, message_view, number_from};
use crate::view::directory::Directory;
use crate::view::thread::{Thread, Window};
use crate::view::{Result, View};

/// A page of a thread's messages.
#[derive(Debug)]
pub struct Slice {
    pub messages: Vec<MessageView>,
    /// Of the whole path.
    pub total: usize,
}

impl<S: Store> View<'_, S> {
    /// The messages of a thread from some place on. `None` where it is not a thread after all.
    pub async fn slice(&self, thread: &Thread, first: usize, limit: usize) -> Result<Option<Slice>> {
        let total = thread.total().messages;
        let end = first.saturating_add(limit).min(total);
        let mut messages = Vec::new();
        let mut mark = thread.marks.partition_point(|mark| mark.counts.messages <= first);
        while let Some(known) = thread.marks.get(mark) {
            let window = thread.window(mark);
            if window.before.messages >= end {
                break;
            }
            let Some(found) = self.path_in(thread, window).await? else {
                return Ok(None);
            };
            if window.before.messages + found.len() != known.counts.messages {
                return Ok(None);
            }
            let skipped = first.saturating_sub(window.before.messages);
            let count = end - window.before.messages.max(first);
            messages.extend(found.into_iter().skip(skipped).take(count));
            mark += 1;
        }
        self.add_names(thread.root(), &mut messages).await?;
        Ok(Some(Slice { messages, total }))
    }

    async fn path_in(&self, thread: &Thread, window: Window) -> Result<Option<Vec<MessageView>>> {
        let Some(steps) = self.steps_in(thread, window).await? else {
            return Ok(None);
        };
        let Some(last) = steps.last() else { return Ok(None) };
        let reader = match window.is_repeated {
            true => self.find_row(thread.turns[window.end].exchange).await?,
            false => None,
        };
        let Some(mut said) = self.said_in(window, reader.as_ref().unwrap_or(&last.row)).await? else {
            return Ok(None);
        };
        let depth = last.row.depth as usize;
        match window.is_repeated {
            true => said.retain(|placed| placed.first_step < depth),
            false => said.extend(self.placed_answer(&last.row, depth).await?),
        }
        let views = said
            .iter()
            .map(|placed| message_view(placed, brought_by(placed, &steps)));
        let mut views: Vec<MessageView> = views.collect();
        let conversation = thread.conversation_id();
        let parent = window
            .behind
            .map(|(_, node)| message_uuid(&conversation, &node.to_string()));
        let before = (window.before.messages, window.before.numbered);
        number_from(&mut views, &conversation, before, parent);
        Ok(Some(views))
    }

    /// The turns of a window, behind the one that they go on from.
    async fn steps_in(&self, thread: &Thread, window: Window) -> Result<Option<Vec<Step>>> {
        let first = window.first - usize::from(window.behind.is_some());
        let turns = &thread.turns[first..window.end];
        let rows = self.rows(turns.iter().map(|turn| turn.exchange).collect()).await?;
        let mut rows: HashMap<ExchangeNumber, ExchangeRow> = rows.into_iter().map(|row| (row.number, row)).collect();
        let Some(conversation) = Directory::default().conversation(self, thread.root()).await? else {
            return Ok(None);
        };
        let steps = turns.iter().map(|turn| {
            let branch = conversation.branches.get(&turn.branch);
            Some(Step {
                row: rows.remove(&turn.exchange)?,
                branch: branch.map(|branch| branch.shown.clone()),
            })
        });
        Ok(steps.collect())
    }
}

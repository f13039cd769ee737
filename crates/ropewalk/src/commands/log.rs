//! `ropewalk log`: conversations, newest first; exchanges, oldest first.

use jiff::Timestamp;
use ropewalk_engine::insight::merges::Merge;
use ropewalk_engine::reuse::HIT;
use ropewalk_engine::view::{ConversationView, Directory, ExchangeView, View};
use ropewalk_store::derived::ConversationRow;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;
use ropewalk_store::{Micros, Store as _};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::selected::Selected;
use super::{PAGE, follow, graph};
use crate::any_store::AnyStore;
use crate::cli::Log;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::{counted, dollars, short};
use crate::print::out::{Out, say};
use crate::print::text::{cut, one_line, padded};
use crate::print::time;
use crate::print::words::{Missed, Words};

/// Conversations that people are shown who did not say how many or which: weeks of work, within a tenth of a second. Programs, which ask
/// for JSON, get all.
const SHOWN_MAX: usize = 1_000;

/// Digits of an id that are shown. They are enough to find it among thousands.
const ID_DIGITS: usize = 8;

pub(crate) async fn run(context: &Context, arguments: &Log) -> Result<(), Failure> {
    if arguments.hashes && !arguments.exchanges && !arguments.follow {
        let failure = Failure::new(Kind::Usage, "hashes are those of exchanges");
        return Err(failure.hint("log --exchanges --hashes"));
    }
    let store = match arguments.follow {
        true => Some(follow::store(context).await?),
        false => context.read().await?,
    };
    let Some(view) = context.view(&store).await? else {
        return Ok(());
    };
    let state = view.store.link_state(view.owner).await?;
    if state.linked_to < state.newest {
        say("settling: what was recorded last is not linked yet");
    }
    let selected = Selected::new(&view, arguments).await?;
    let mut log = Lister {
        context,
        arguments,
        view: &view,
        selected,
        out: match arguments.follow {
            true => Out::new(),
            false => context.out(),
        },
    };
    match (arguments.follow, arguments.exchanges) {
        (true, _) => follow::exchanges(&mut log, arguments.count.unwrap_or(follow::SHOWN_FIRST)).await?,
        (false, true) => log.exchanges().await?,
        (false, false) => log.conversations().await?,
    }
    log.out.finish()
}

pub(super) struct Lister<'l> {
    context: &'l Context,
    arguments: &'l Log,
    pub(super) view: &'l View<'l, AnyStore>,
    pub(super) selected: Selected,
    pub(super) out: Out,
}

impl Lister<'_> {
    async fn conversations(&mut self) -> Result<(), Failure> {
        let is_bounded = self.arguments.count.is_none() && !self.context.json && !self.arguments.is_selective();
        let mut left = match is_bounded {
            true => SHOWN_MAX,
            false => self.arguments.count.unwrap_or(usize::MAX),
        };
        let mut before = self
            .selected
            .until
            .map(|until| (Micros(until.0.saturating_add(1)), ExchangeNumber(0)));
        loop {
            let rows = self.view.conversations_before(before, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            before = Some((last.last_at, last.root));
            for row in &rows {
                // They come by the time of their last exchange, so nothing behind this one is asked for.
                if left == 0 || self.selected.since.is_some_and(|since| row.last_at < since) {
                    if is_bounded {
                        say(&format!(
                            "these are the newest {SHOWN_MAX} conversations: `-n N` shows N, `--json` all"
                        ));
                    }
                    return Ok(());
                }
                let conversation = self.view.conversation(row).await?;
                let title = conversation.title.as_deref();
                if self.selected.has_conversation(self.view, row.root, title).await? {
                    left -= 1;
                    self.conversation(row, &conversation).await?;
                }
            }
        }
    }

    async fn conversation(&mut self, row: &ConversationRow, conversation: &ConversationView) -> Result<(), Failure> {
        if self.context.json {
            return self.conversation_json(row, conversation).await;
        }
        let now = Timestamp::now();
        let id = &conversation.conversation_id[..ID_DIGITS];
        let age = time::age(&conversation.last_at, now);
        let room = self.out.width.saturating_sub(ID_DIGITS + age.len() + 4);
        let title = cut(conversation.title.as_deref().unwrap_or("(no words)"), room);
        let first = format!(
            "{}  {}  {}",
            self.out.name(id),
            self.out.strong(&padded(&title, room.min(72))),
            self.out.faint(&age)
        );
        self.out.fitted(&first)?;
        let sums = sums(conversation).line(self.out.room_behind(ID_DIGITS + 2));
        let second = format!("{}  {}", " ".repeat(ID_DIGITS), self.out.faint(&sums));
        self.out.fitted(&second)?;
        if self.arguments.graph {
            graph::draw(self.view, row, &mut self.out).await?;
            self.out.line("")?;
        }
        Ok(())
    }

    /// With what was quoted from one branch into another, where the shape was asked for.
    async fn conversation_json(
        &mut self,
        row: &ConversationRow,
        conversation: &ConversationView,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct WithMerges<'c> {
            #[serde(flatten)]
            conversation: &'c ConversationView,
            merges: Vec<Merge>,
        }
        if !self.arguments.graph {
            return self.out.json(conversation);
        }
        let merges = self.view.merges(row.root).await?.merges;
        self.out.json(&WithMerges { conversation, merges })
    }

    /// Page by page, from the oldest on; with a count from the newest back, until there are enough.
    async fn exchanges(&mut self) -> Result<(), Failure> {
        if let Some(count) = self.arguments.count {
            for exchange in self.newest(count).await?.iter().rev() {
                self.exchange(exchange)?;
            }
            return Ok(());
        }
        let mut directory = Directory::default();
        // Whoever stands right before that moment is left out below.
        let since = self.selected.since;
        let mut after = since.map(|since| (Micros(since.0.saturating_sub(1)), ExchangeNumber(0)));
        loop {
            let rows = self.view.rows_after(after, PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some((last.at, last.number));
            let is_over = self.selected.until.is_some_and(|until| last.at > until);
            for exchange in self.asked_for(&rows, &mut directory).await? {
                self.exchange(&exchange)?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// So many of those that are asked for, newest first.
    async fn newest(&self, count: usize) -> Result<Vec<ExchangeView>, Failure> {
        let mut found = Vec::new();
        let mut directory = Directory::default();
        let until = self.selected.until;
        let mut before = until.map(|until| (Micros(until.0.saturating_add(1)), ExchangeNumber(0)));
        // As many as were asked for are enough, unless most of them are something else.
        let mut page = count.min(PAGE);
        while found.len() < count {
            let rows = self.view.rows_before(before, page).await?;
            let Some(last) = rows.last() else { break };
            page = page.saturating_mul(4).min(PAGE);
            before = Some((last.at, last.number));
            let is_over = self.selected.since.is_some_and(|since| last.at < since);
            found.extend(self.asked_for(&rows, &mut directory).await?);
            if is_over {
                break;
            }
        }
        found.truncate(count);
        Ok(found)
    }

    async fn asked_for(&self, rows: &[ExchangeRow], directory: &mut Directory) -> Result<Vec<ExchangeView>, Failure> {
        let views = self.view.exchanges(rows, directory).await?;
        let both = rows.iter().zip(views);
        let asked_for =
            both.filter(|(row, exchange)| self.selected.is_in_time(row.at) && self.selected.has(row.number, exchange));
        Ok(asked_for.map(|(_, exchange)| exchange).collect())
    }

    pub(super) fn exchange(&mut self, exchange: &ExchangeView) -> Result<(), Failure> {
        if self.context.json {
            return self.out.json(exchange);
        }
        let when = time::local(&exchange.at);
        let (name, told) = match self.out.is_narrow() {
            true => (padded(&short_name(exchange), ID_DIGITS), short_exchange_words(exchange)),
            false => (
                padded(&one_line(&exchange.id), NAME_COLUMNS_MAX),
                exchange_words(exchange),
            ),
        };
        let told = told.line(self.out.room_behind(when.width() + name.width() + 4));
        let line = format!("{}  {}  {told}", self.out.faint(&when), self.out.name(&name));
        self.out.fitted(&line)?;
        if self.arguments.hashes {
            for (name, hash) in exchange.hashes() {
                let line = format!("    {} {hash}", padded(name, 22));
                self.out.line(&line)?;
            }
        }
        Ok(())
    }
}

fn sums(conversation: &ConversationView) -> Words {
    let mut sums = Words::default();
    sums.extend(Missed::Most, conversation.friendly_id.iter().cloned());
    sums.push(Missed::More, counted(conversation.turns, "turn", "turns"));
    if conversation.branches > 1 {
        sums.push(Missed::Some, counted(conversation.branches, "branch", "branches"));
    }
    if conversation.agents > 1 {
        sums.push(Missed::Some, counted(conversation.agents, "agent", "agents"));
    }
    let tokens = &conversation.tokens;
    // Exports of chat services say nothing of it.
    if tokens.sent() + tokens.output_tokens == 0 {
        sums.push(Missed::Less, "usage not known");
        return sums;
    }
    let (sent, answered) = (short(tokens.sent()), short(tokens.output_tokens));
    sums.push(Missed::Less, format!("{sent} tokens in, {answered} out"));
    sums.push(Missed::More, dollars(conversation.cost_usd));
    sums
}

/// What an exchange was, on one line.
pub(super) fn exchange_line(exchange: &ExchangeView) -> String {
    exchange_words(exchange).line(None)
}

fn exchange_words(exchange: &ExchangeView) -> Words {
    let mut words = Words::default();
    words.push(Missed::Most, exchange.kind.clone());
    add_features(exchange, &mut words);
    let latency = exchange.latency_ms.map(|ms| format!("{:.1} s", ms as f64 / 1e3));
    words.extend(Missed::Least, latency);
    words
}

/// The same with what goes without saying left out: for lines that have little room.
pub(super) fn short_exchange_words(exchange: &ExchangeView) -> Words {
    let mut words = Words::default();
    words.extend(Missed::Most, Some(exchange.kind.clone()).filter(|kind| kind != "turn"));
    add_features(exchange, &mut words);
    words
}

fn add_features(exchange: &ExchangeView, words: &mut Words) {
    if exchange.status != "complete" {
        words.push(Missed::Most, exchange.status);
    }
    for (is_so, word) in [
        (exchange.is_forgotten, "forgotten"),
        (exchange.reuse == HIT, "reused"),
        (exchange.brings_references, "brings a reference"),
    ] {
        if is_so {
            words.push(Missed::Most, word);
        }
    }
    words.extend(Missed::Less, exchange.branch_id.iter().map(|branch| one_line(branch)));
    let agent = exchange.agent.name.iter();
    words.extend(Missed::More, agent.map(|name| format!("agent {}", one_line(name))));
    words.extend(Missed::Some, exchange.model.iter().map(|model| one_line(model)));
    let usage = &exchange.usage;
    if let (Some(input), Some(output)) = (usage.input_tokens, usage.output_tokens) {
        let cached = usage.cache_read_tokens.unwrap_or(0) + usage.cache_write_tokens.unwrap_or(0);
        let tokens = format!("{} in, {} out", short(input + cached), short(output));
        words.push(Missed::Some, tokens);
    }
    words.extend(Missed::More, exchange.cost_usd.map(dollars));
}

/// An id that is longer is one that nobody types.
const NAME_COLUMNS_MAX: usize = 24;

/// Its id where that is short enough to be typed, else the first digits of the node that it ends with, which name it as well.
pub(super) fn short_name(exchange: &ExchangeView) -> String {
    let id = one_line(&exchange.id);
    let node = exchange.output_node.as_ref().filter(|_| id.width() > NAME_COLUMNS_MAX);
    match node {
        // Behind the version of the rules.
        Some(node) => {
            let digits = node.to_string();
            digits
                .chars()
                .skip_while(|c| *c != ':')
                .skip(1)
                .take(ID_DIGITS)
                .collect()
        }
        None => id,
    }
}

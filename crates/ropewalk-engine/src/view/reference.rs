//! What people type to name something: REF.
//!
//! An exchange's id, a conversation's id or its beginning, its friendly id, a reference to a message, the beginning of any hash, or a conversation with `/` and a branch for
//! that branch's last turn; each with `~n` behind it for n turns back along the parents.

use std::collections::BTreeSet;

use ropewalk_core::reference::Reference;
use ropewalk_store::derived::{ConversationRow, Conversations, LinkKind};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::hash_prefix::HashPrefix;
use ropewalk_store::store::{Asked, ExchangeRow, Questions, Selection};
use ropewalk_store::{Micros, Store};

use crate::link::decision::Linked;
use crate::view::directory::{Branch, Directory};
use crate::view::named::{Quotation, Resolution};
use crate::view::{Result, View, ViewError, utc};

/// Candidates that are looked at before a reference counts as ambiguous.
const CANDIDATES_MAX: usize = 100;

/// What a reference names.
#[derive(Debug, Clone)]
pub enum Target {
    Conversation(ConversationRow),
    Exchange(Box<ExchangeRow>),
    Message(Box<Quotation>),
}

impl<S: Store> View<'_, S> {
    pub async fn resolve(&self, reference: &str) -> Result<Target> {
        let (name, back) = split_back(reference);
        // An id may look like anything, so the whole text is tried as one first.
        if let Some(row) = self.find_exchange(reference).await? {
            return Ok(Target::Exchange(Box::new(row)));
        }
        let target = match self.resolve_name(name, reference).await {
            Err(ViewError::NotFound { .. }) => match self.by_branch(name, reference).await {
                Err(ViewError::NotFound { .. }) => return Err(self.forgotten_or_unknown(name, reference).await?),
                found => found?,
            },
            found => found?,
        };
        match back {
            None => Ok(target),
            Some(turns) => self.turns_back(target, turns, reference).await,
        }
    }

    /// An exchange; for a conversation the tip of its active path.
    pub async fn resolve_exchange(&self, reference: &str) -> Result<ExchangeRow> {
        match self.resolve(reference).await? {
            Target::Exchange(row) => Ok(*row),
            Target::Message(message) => Ok(message.row),
            Target::Conversation(row) => self.tip_row(&row, reference).await,
        }
    }

    /// The conversation that is named, or that what is named stands in, by its root.
    pub async fn resolve_root(&self, reference: &str) -> Result<ExchangeNumber> {
        match self.resolve(reference).await? {
            Target::Conversation(row) => Ok(row.root),
            Target::Message(message) => Ok(message.conversation),
            Target::Exchange(row) => {
                let link = self.find_link(row.number).await?;
                Ok(link.map_or(row.number, |link| link.conversation))
            }
        }
    }

    /// Why nothing is named so.
    async fn forgotten_or_unknown(&self, name: &str, reference: &str) -> Result<ViewError> {
        // What was forgotten is known by the name that it had, whichever of its messages is asked for.
        let of_message = name
            .parse::<Reference>()
            .map(|of_message| String::from(of_message.friendly_id));
        let names = vec![name.to_owned(), of_message.unwrap_or_default()];
        let forgotten = self.store.forgotten(self.owner, names).await?;
        Ok(match forgotten.into_iter().flatten().next() {
            Some(at) => ViewError::Forgotten {
                reference: reference.to_owned(),
                at: utc(at),
            },
            None => not_found(reference),
        })
    }

    async fn resolve_name(&self, name: &str, reference: &str) -> Result<Target> {
        if let Some(row) = self.find_exchange(name).await? {
            return Ok(Target::Exchange(Box::new(row)));
        }
        if let Some(id) = uuid_of(name) {
            let rows = self
                .store
                .conversations(self.owner, Conversations::Ids(vec![id]))
                .await?;
            if let Some(row) = rows.into_iter().next() {
                return Ok(Target::Conversation(row));
            }
        }
        // Before hashes, which neither looks like.
        if let Some(target) = self.by_name(name, reference).await? {
            return Ok(target);
        }
        let digits = name.strip_prefix("v1:").unwrap_or(name);
        let digits: String = digits.chars().filter(|c| *c != '-').collect();
        match digits.to_ascii_lowercase().parse::<HashPrefix>() {
            Ok(prefix) => self.by_prefix(prefix, reference).await,
            Err(_) => Err(not_found(reference)),
        }
    }

    /// `CONVERSATION/BRANCH`: the last turn of a branch, by its shown id or its key.
    async fn by_branch(&self, name: &str, reference: &str) -> Result<Target> {
        let (conversation, wanted) = name.rsplit_once('/').ok_or_else(|| not_found(reference))?;
        let Target::Conversation(row) = self.resolve_name(conversation, reference).await? else {
            return Err(not_found(reference));
        };
        let mut directory = Directory::default();
        let conversation = directory.conversation(self, row.root).await?;
        let conversation = conversation.ok_or_else(|| not_found(reference))?;
        let branches = &conversation.branches;
        let is_wanted = |branch: &Branch| branch.shown == wanted || branch.key == wanted;
        let first = branches.iter().find(|(_, branch)| is_wanted(branch));
        let first = first.map(|(first, _)| *first).ok_or_else(|| not_found(reference))?;
        let (mut last_turn, mut after) = (first, None);
        loop {
            let links = self.links_in(row.root, after).await?;
            let Some(last) = links.last() else { break };
            after = Some((last.at, last.exchange));
            let turn = |link: &&Linked| link.branch == first && matches!(link.kind(), LinkKind::Turn | LinkKind::Retry);
            last_turn = links.iter().rfind(turn).map_or(last_turn, |link| link.exchange);
        }
        let row = self.find_row(last_turn).await?.ok_or_else(|| not_found(reference))?;
        Ok(Target::Exchange(Box::new(row)))
    }

    /// By a friendly id, or by a reference to a message.
    async fn by_name(&self, name: &str, reference: &str) -> Result<Option<Target>> {
        if let Ok(of_message) = name.parse::<Reference>() {
            return match self.find_message(&of_message, name).await? {
                Resolution::Found(message) => Ok(Some(Target::Message(message))),
                Resolution::Unknown => Ok(None),
                Resolution::Ambiguous(count) => Err(ViewError::Ambiguous {
                    reference: reference.to_owned(),
                    count,
                    is_more: false,
                }),
            };
        }
        let root = self.find_named(name.strip_prefix('@').unwrap_or(name)).await?;
        let Some((_, root)) = root else { return Ok(None) };
        let rows = self
            .store
            .conversations(self.owner, Conversations::Of(vec![root]))
            .await?;
        Ok(rows.into_iter().next().map(Target::Conversation))
    }

    /// The exchange of that id.
    pub async fn find_exchange(&self, id: &str) -> Result<Option<ExchangeRow>> {
        let selection = Selection::Ids(vec![id.to_owned()]);
        let rows = self.store.exchanges(self.owner, selection, Micros::MAX).await?;
        Ok(rows.into_iter().next())
    }

    async fn by_prefix(&self, prefix: HashPrefix, reference: &str) -> Result<Target> {
        let found = self.store.beginning_with(self.owner, prefix, CANDIDATES_MAX).await?;
        let is_more = found
            .nodes
            .len()
            .max(found.exchanges.len())
            .max(found.conversations.len())
            == CANDIDATES_MAX;
        let conversations = Conversations::Ids(found.conversations);
        let mut conversations = self.store.conversations(self.owner, conversations).await?;
        conversations.sort_by_key(|row| row.root);
        conversations.dedup_by_key(|row| row.root);
        let mut exchanges: BTreeSet<ExchangeNumber> = found.exchanges.into_iter().collect();
        let questions = Questions {
            nodes: found.nodes.into_iter().map(Asked::of).collect(),
            limit: CANDIDATES_MAX,
            ..Questions::default()
        };
        let answers = self.store.look_up(self.owner, questions, Micros::MAX).await?;
        for known in answers.nodes.into_iter().flatten() {
            // Whoever ends there is meant, else whoever first had it in the middle.
            match (known.as_output.is_empty(), known.as_input.is_empty()) {
                (false, _) => exchanges.extend(known.as_output),
                (true, false) => exchanges.extend(known.as_input),
                (true, true) => exchanges.extend([known.first]),
            }
        }
        match (
            conversations.len() + exchanges.len(),
            conversations.pop(),
            exchanges.pop_first(),
        ) {
            (1, Some(row), _) => Ok(Target::Conversation(row)),
            (1, None, Some(number)) => {
                let row = self.find_row(number).await?;
                row.map(|row| Target::Exchange(Box::new(row)))
                    .ok_or_else(|| not_found(reference))
            }
            (0, ..) => Err(not_found(reference)),
            (count, ..) => Err(ViewError::Ambiguous {
                reference: reference.to_owned(),
                count,
                is_more,
            }),
        }
    }

    async fn tip_row(&self, conversation: &ConversationRow, reference: &str) -> Result<ExchangeRow> {
        let tip = self.tip(conversation.root, &mut Directory::default()).await?;
        let number = tip.map_or(conversation.root, |tip| tip.exchange);
        self.find_row(number).await?.ok_or_else(|| not_found(reference))
    }

    async fn turns_back(&self, target: Target, turns: usize, reference: &str) -> Result<Target> {
        let row = match target {
            Target::Exchange(row) => *row,
            Target::Message(message) => message.row,
            Target::Conversation(row) => self.tip_row(&row, reference).await?,
        };
        let link = self.find_link(row.number).await?;
        let link = link.ok_or_else(|| ViewError::NotLinked { id: row.id.clone() })?;
        let path = self.path_to(link).await?;
        let there = path.len().saturating_sub(1);
        let found = there.checked_sub(turns).map(|at| path[at].exchange);
        let Some(number) = found else {
            return Err(ViewError::TooFarBack {
                reference: reference.to_owned(),
                asked: turns,
                there,
            });
        };
        let row = self.find_row(number).await?.ok_or_else(|| not_found(reference))?;
        Ok(Target::Exchange(Box::new(row)))
    }
}

fn not_found(reference: &str) -> ViewError {
    ViewError::NotFound {
        reference: reference.to_owned(),
    }
}

/// `name~3` → (`name`, 3). A lone `~` is one turn back, as in git.
fn split_back(reference: &str) -> (&str, Option<usize>) {
    let Some((name, turns)) = reference.rsplit_once('~') else {
        return (reference, None);
    };
    match turns {
        "" => (name, Some(1)),
        digits => match digits.parse() {
            Ok(turns) => (name, Some(turns)),
            Err(_) => (reference, None),
        },
    }
}

/// A UUID, with or without its hyphens.
fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let mut id = [0; 16];
    hex::decode_to_slice(digits, &mut id).ok()?;
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_back_stand_behind_the_name() {
        for (reference, expected) in [
            ("abcd", ("abcd", None)),
            ("abcd~2", ("abcd", Some(2))),
            ("abcd~", ("abcd", Some(1))),
            ("a~b~12", ("a~b", Some(12))),
            ("abcd~x", ("abcd~x", None)),
        ] {
            assert_eq!(split_back(reference), expected);
        }
    }

    #[test]
    fn a_uuid_is_read_with_and_without_hyphens() {
        let id = uuid_of("00010203-0405-8607-8809-0a0b0c0d0e0f").unwrap();
        assert_eq!(
            Some(id),
            uuid_of("00010203040586078809 0a0b0c0d0e0f".replace(' ', "").as_str())
        );
        assert_eq!(uuid_of("0001"), None);
    }
}

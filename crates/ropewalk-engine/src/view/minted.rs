//! The names that were minted for messages, by where the messages end.

use std::collections::{HashMap, HashSet};

use ropewalk_core::friendly;
use ropewalk_store::Store;
use ropewalk_store::names::{MessageNames, NameRow};
use ropewalk_store::store::PAGE_MAX;

use crate::names::{all_messages, beginning};
use crate::view::message::MessageView;
use crate::view::{Result, View};

/// So many messages are looked up one by one; of more, all names of their conversation are read.
pub(super) const FEW_MESSAGES: usize = 1_000;

/// Hashes that are tried for a message, in groups. Only messages that say the same need more than one.
const TRIED_AT_ONCE: [usize; 3] = [1, 7, 56];

#[derive(Debug, Default)]
pub(super) struct Minted {
    /// The friendly id and the short hash.
    pub(super) by_node: HashMap<[u8; 8], (String, String)>,
    /// Short hashes that others have.
    pub(super) taken: HashSet<String>,
}

/// Whether a message gets a name of its own.
pub(super) fn has_name(message: &MessageView) -> bool {
    matches!(message.kind, "user" | "assistant") && !message.content.is_empty()
}

impl<S: Store> View<'_, S> {
    /// All of a conversation with these names, of which `main` is the one it goes by.
    pub(super) async fn all_minted(&self, main: &NameRow, names: &[NameRow]) -> Result<Minted> {
        let mut minted = Minted::default();
        let mut done = HashSet::new();
        for name in names.iter().rev().chain([main]) {
            let is_main = name.friendly_id == main.friendly_id;
            if !done.insert(name.exchange) && !is_main {
                continue;
            }
            for message in all_messages(self.store, self.owner, name.exchange).await? {
                if is_main {
                    minted.taken.insert(message.short_hash.clone());
                }
                let named = (name.friendly_id.clone(), message.short_hash);
                minted.by_node.insert(message.node, named);
            }
        }
        Ok(minted)
    }

    /// Those of some messages of a conversation with one name: each has one of the first hashes that its text gives. `None` where too
    /// many messages say the same.
    pub(super) async fn minted_for(&self, name: &NameRow, messages: &[MessageView]) -> Result<Option<Minted>> {
        let mut minted = Minted::default();
        let mut unknown: Vec<_> = messages
            .iter()
            .filter(|message| has_name(message))
            .filter_map(|message| {
                let hashes = friendly::short_hashes(&name.friendly_id, &message.content);
                Some((beginning(&message.node?), hashes))
            })
            .collect();
        for count in TRIED_AT_ONCE {
            let tried = unknown.iter_mut().map(|(_, hashes)| hashes.take(count).collect());
            let tried: Vec<Vec<String>> = tried.collect();
            let asked: Vec<_> = tried
                .iter()
                .flatten()
                .map(|hash| (name.exchange, hash.clone()))
                .collect();
            let mut found: HashMap<String, [u8; 8]> = HashMap::new();
            for page in asked.chunks(PAGE_MAX) {
                let which = MessageNames::Named(page.to_vec());
                let named = self.store.message_names(self.owner, which).await?;
                found.extend(named.into_iter().map(|message| (message.short_hash, message.node)));
            }
            let mut tried = tried.into_iter();
            unknown.retain(|(node, _)| {
                let hashes = tried.next().unwrap_or_default();
                if let Some(own) = hashes.iter().find(|hash| found.get(*hash) == Some(node)) {
                    let named = (name.friendly_id.clone(), own.clone());
                    minted.by_node.insert(*node, named);
                    return false;
                }
                // Whoever was named took the first that was free then; what was forgotten since leaves a gap.
                count == 1 || hashes.iter().all(|hash| found.contains_key(hash))
            });
            minted.taken.extend(found.into_keys());
            if unknown.is_empty() {
                return Ok(Some(minted));
            }
        }
        Ok(None)
    }
}

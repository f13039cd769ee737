//! What linking concluded, in maps.

use std::collections::{BTreeMap, BTreeSet};

use ropewalk_store::HashPrefix;
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::forget::KeptLink;
use ropewalk_store::store::{BRANCHES_MAX, ExchangeRow, PAGE_MAX};

#[derive(Debug, Default)]
pub(super) struct Derived {
    version: u64,
    linked_to: Position,
    links: BTreeMap<ExchangeNumber, LinkRow>,
    branches: BTreeMap<ExchangeNumber, BranchRow>,
    conversations: BTreeMap<ExchangeNumber, ConversationRow>,
    /// The exchange that an id was made from.
    aliases: BTreeMap<[u8; 16], ExchangeNumber>,
    wanted: BTreeSet<([u8; 8], ExchangeNumber)>,
    courses: BTreeMap<ExchangeNumber, Vec<u8>>,
}

impl Derived {
    /// The conversation that an exchange is linked into.
    pub(super) fn conversation_of(&self, exchange: ExchangeNumber) -> Option<ExchangeNumber> {
        self.links.get(&exchange).map(|link| link.conversation)
    }

    pub(super) fn kept_link(&self, exchange: ExchangeNumber) -> Option<KeptLink> {
        self.links.get(&exchange).map(|link| KeptLink {
            kind: link.kind,
            parent: link.parent,
            decision: link.decision.clone(),
        })
    }

    /// What is named by removed exchanges goes, and conversations have another record.
    pub(super) fn forget(&mut self, removed: &BTreeSet<ExchangeNumber>, conversations: &[ConversationRow]) {
        self.links.retain(|exchange, _| !removed.contains(exchange));
        self.branches.retain(|first, _| !removed.contains(first));
        self.conversations.retain(|root, _| !removed.contains(root));
        self.aliases.retain(|_, root| !removed.contains(root));
        self.wanted.retain(|(_, exchange)| !removed.contains(exchange));
        self.courses.clear();
        for row in conversations {
            if let Some(known) = self.conversations.get_mut(&row.root) {
                known.record.clone_from(&row.record);
            }
        }
        self.version += 1;
    }

    pub(super) fn state(&self, newest: Position) -> LinkState {
        LinkState {
            version: self.version,
            linked_to: self.linked_to,
            newest,
            named_to: Position::default(),
        }
    }

    pub(super) fn save(&mut self, changes: LinkChanges) -> bool {
        if changes.version != self.version {
            return false;
        }
        if changes.from_scratch {
            *self = Derived {
                version: self.version,
                aliases: std::mem::take(&mut self.aliases),
                ..Derived::default()
            };
        }
        for first in &changes.gone_branches {
            self.branches.remove(first);
        }
        for root in &changes.gone_conversations {
            self.conversations.remove(root);
        }
        let turned = |root: &ExchangeNumber| changes.gone_conversations.contains(root) || changes.turned.contains(root);
        self.courses.retain(|root, _| !turned(root));
        self.links
            .extend(changes.links.into_iter().map(|link| (link.exchange, link)));
        self.branches
            .extend(changes.branches.into_iter().map(|branch| (branch.first, branch)));
        for conversation in changes.conversations {
            let root = *self.aliases.entry(conversation.id).or_insert(conversation.root);
            assert_eq!(root, conversation.root, "an id is made from one root");
            self.conversations.insert(conversation.root, conversation);
        }
        self.wanted.extend(changes.wanted);
        self.version += 1;
        self.linked_to = changes.linked_to;
        true
    }

    pub(super) fn keep_course(&mut self, version: u64, course: CourseRow) -> bool {
        let is_current = version == self.version;
        if is_current {
            self.courses.insert(course.root, course.packed);
        }
        is_current
    }

    pub(super) fn find_course(&self, root: ExchangeNumber) -> Option<Vec<u8>> {
        self.courses.get(&root).cloned()
    }

    pub(super) fn links(&self, which: &Links) -> Vec<LinkRow> {
        match which {
            Links::Of(exchanges) => {
                let found = exchanges.iter().take(PAGE_MAX);
                found.filter_map(|exchange| self.links.get(exchange).cloned()).collect()
            }
            Links::Children(parents) => {
                let parents: BTreeSet<_> = parents.iter().take(PAGE_MAX).collect();
                let is_child = |link: &LinkRow| link.parent.is_some_and(|parent| parents.contains(&parent));
                self.in_time_order(is_child, PAGE_MAX)
            }
            Links::InConversation {
                conversation,
                after,
                limit,
            } => {
                let is_next = |link: &LinkRow| {
                    link.conversation == *conversation && after.is_none_or(|after| (link.at, link.exchange) > after)
                };
                self.in_time_order(is_next, *limit)
            }
        }
    }

    pub(super) fn wanting(&self, hashes: &[[u8; 8]]) -> Vec<Vec<ExchangeNumber>> {
        let waiting = |hash: &[u8; 8]| {
            let waiting = self.wanted.iter().filter(|(wanted, _)| wanted == hash);
            waiting.map(|(_, exchange)| *exchange).take(PAGE_MAX).collect()
        };
        hashes.iter().map(waiting).collect()
    }

    fn in_time_order(&self, is_asked: impl Fn(&LinkRow) -> bool, limit: usize) -> Vec<LinkRow> {
        let mut found: Vec<LinkRow> = self.links.values().filter(|link| is_asked(link)).cloned().collect();
        found.sort_by_key(|link| (link.at, link.exchange));
        found.truncate(limit.min(PAGE_MAX));
        found
    }

    pub(super) fn branches(&self, conversation: ExchangeNumber) -> Vec<BranchRow> {
        let found = self
            .branches
            .values()
            .filter(|branch| branch.conversation == conversation);
        found.take(BRANCHES_MAX).cloned().collect()
    }

    /// Ids that conversations have or had, with this beginning.
    pub(super) fn known_ids(&self, prefix: &HashPrefix) -> Vec<[u8; 16]> {
        let ids = self.aliases.keys().copied();
        // An id is shorter than a hash and has no zeros behind it.
        ids.filter(|id| prefix.first()[..16] <= id[..] && id[..] <= prefix.last()[..16])
            .collect()
    }

    pub(super) fn conversations(&self, which: &Conversations) -> Vec<ConversationRow> {
        let now_in = |id: &[u8; 16]| {
            let link = self.links.get(self.aliases.get(id)?)?;
            self.conversations.get(&link.conversation)
        };
        match which {
            Conversations::Of(roots) => {
                let found = roots.iter().take(PAGE_MAX);
                found.filter_map(|root| self.conversations.get(root).cloned()).collect()
            }
            Conversations::Ids(ids) => ids.iter().take(PAGE_MAX).filter_map(now_in).cloned().collect(),
            Conversations::Newest { before, limit } => {
                let all = self.conversations.values();
                let is_next = |row: &&ConversationRow| before.is_none_or(|before| (row.last_at, row.root) < before);
                let mut found: Vec<ConversationRow> = all.filter(is_next).cloned().collect();
                found.sort_by_key(|row| std::cmp::Reverse((row.last_at, row.root)));
                found.truncate((*limit).min(PAGE_MAX));
                found
            }
        }
    }

    /// What does not hold together: a rule, and what breaks it.
    pub(super) fn damage<'r>(&self, exchanges: impl Iterator<Item = &'r ExchangeRow>) -> Vec<(&'static str, String)> {
        let exchanges: BTreeMap<ExchangeNumber, Position> = exchanges.map(|row| (row.number, row.position)).collect();
        let mut found = Vec::new();
        for link in self.links.values() {
            let branch = self.branches.get(&link.branch);
            let targets = [
                ("exchange", exchanges.contains_key(&link.exchange)),
                ("conversation", self.links.contains_key(&link.conversation)),
                (
                    "branch",
                    branch.is_some_and(|branch| branch.conversation == link.conversation),
                ),
                ("agent", self.links.contains_key(&link.agent)),
                (
                    "parent",
                    link.parent.is_none_or(|parent| self.links.contains_key(&parent)),
                ),
            ];
            for (target, _) in targets.iter().filter(|(_, is_there)| !is_there) {
                found.push(("link-target", format!("{target} of {:?}", link.exchange)));
            }
            if !self.conversations.contains_key(&link.conversation) {
                found.push(("link-conversation", format!("{:?}", link.exchange)));
            }
            if self.is_own_ancestor(link) {
                found.push(("link-cycle", format!("{:?}", link.exchange)));
            }
        }
        for branch in self.branches.values() {
            let first = self.links.get(&branch.first);
            if first.is_none_or(|link| (link.branch, link.conversation) != (branch.first, branch.conversation)) {
                found.push(("branch-links", format!("{:?}", branch.first)));
            }
        }
        for root in self.conversations.keys() {
            if self.links.get(root).is_none_or(|link| link.conversation != *root) {
                found.push(("conversation-links", format!("{root:?}")));
            }
        }
        let linked = exchanges.iter().filter(|(_, position)| **position <= self.linked_to);
        let unlinked = linked.filter(|(number, _)| !self.links.contains_key(number));
        found.extend(unlinked.map(|(number, _)| ("unlinked", format!("{number:?}"))));
        found
    }

    fn is_own_ancestor(&self, link: &LinkRow) -> bool {
        let mut at = link;
        // A way that is longer than there are links goes round, if not through this one.
        for _ in 0..self.links.len() {
            let parent = at.parent.and_then(|parent| self.links.get(&parent));
            match parent.filter(|parent| parent.conversation == link.conversation) {
                Some(parent) if parent.exchange == link.exchange => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }
}

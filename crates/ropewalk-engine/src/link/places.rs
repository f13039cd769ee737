//! Where decisions put their exchanges: at the end of a conversation, or into one that is folded again.

use std::collections::BTreeSet;
use std::sync::Arc;

use ropewalk_store::Store;
use ropewalk_store::derived::{BranchRow, ConversationRow, Conversations, LinkKind};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::PAGE_MAX;

use crate::link::LinkError;
use crate::link::decision::{Decision, Linked, Place};
use crate::link::evidence::Need;
use crate::link::fact::Subject;
use crate::link::maps::{HashMap, HashSet};
use crate::link::outline::Outline;
use crate::link::round::{Change, Round};
use crate::link::settle::{
    Branch, BranchRecord, ConversationRecord, Member, Spot, conversation_id, conversation_row, fold, name_branches, put,
};

/// Characters of a title.
const TITLE_CHARS_MAX: usize = 120;

/// A conversation with its sums, as they stand in this round.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    pub(super) row: ConversationRow,
    pub(super) record: ConversationRecord,
}

impl<S: Store> Round<'_, S> {
    /// Counts the answer of an exchange that was linked before it ended.
    pub(super) async fn count_answer(&mut self, subject: &Subject, before: &Arc<Linked>) -> Result<(), LinkError> {
        if before.decision.is_counted || subject.fact.ended().is_none() {
            return Ok(());
        }
        let mut linked = Linked::clone(before);
        linked.decision.is_counted = true;
        if let Some(conversation) = self.conversation(linked.conversation).await? {
            conversation.record.add_answer(&subject.fact);
            self.changed_conversations.insert(linked.conversation);
        }
        self.change(linked);
        Ok(())
    }

    /// Places an exchange that had no link: at the end of its conversation if it is the newest there.
    pub(super) async fn place_new(&mut self, subject: &Subject, decision: Decision) -> Result<Change, LinkError> {
        let fact = &subject.fact;
        // Whoever goes on from an exchange is linked after it.
        self.known.children.entry(fact.number()).or_default();
        let anchor = self.anchor_of(&decision);
        if let Some(anchor) = &anchor {
            let is_settled = !self.unsettled.contains(&anchor.conversation);
            let conversation = self.conversation(anchor.conversation).await?;
            let is_newest = conversation.is_some_and(|conversation| conversation.row.last_at < fact.row.at);
            if !is_newest || !is_settled {
                return Ok(self.place_later(subject, decision));
            }
        }
        let is_first = match (decision.place, decision.parent) {
            (Place::After(_), Some(parent)) => !self.is_followed(parent, fact.number()).await?,
            _ => true,
        };
        let anchor = anchor.as_deref().map(Spot::of);
        let (spot, branch) = put(fact, &decision, anchor, is_first);
        self.append(subject, decision, spot, branch).await?;
        Ok(Change::Appended)
    }

    async fn append(
        &mut self,
        subject: &Subject,
        mut decision: Decision,
        spot: Spot,
        branch: Option<Branch>,
    ) -> Result<(), LinkError> {
        let fact = &subject.fact;
        let root = spot.conversation;
        if root == fact.number() {
            let id = conversation_id(self.owner_name, &fact.row.id);
            let record = ConversationRecord {
                title: title(&subject.outline),
                ..ConversationRecord::default()
            };
            let row = conversation_row(root, id, fact.row.at, fact.row.at, &record);
            self.conversations.insert(root, Some(Conversation { row, record }));
            self.branches.insert(root, Vec::new());
        }
        decision.is_counted = fact.ended().is_some();
        let opens_agent = branch.as_ref().is_some_and(|branch| branch.record.agent.is_some());
        let opens = branch.is_some();
        if let Some(conversation) = self.conversation(root).await? {
            let record = &mut conversation.record;
            record.add_request(&decision);
            if decision.is_counted {
                record.add_answer(fact);
            }
            record.branches += u64::from(opens);
            record.agents += u64::from(opens_agent);
            conversation.row.last_at = conversation.row.last_at.max(fact.row.at);
        }
        self.changed_conversations.insert(root);
        if let Some(branch) = branch {
            self.open_branch(root, branch).await?;
        }
        self.change(spot.link(fact, decision));
        Ok(())
    }

    /// Adds a branch; others may get other names by it.
    async fn open_branch(&mut self, conversation: ExchangeNumber, branch: Branch) -> Result<(), LinkError> {
        if !self.branches.contains_key(&conversation) {
            let rows = self.source.store.branches(self.source.owner, conversation).await?;
            self.branches.insert(conversation, rows);
        }
        let rows = self.branches.entry(conversation).or_default();
        let mut all = Vec::with_capacity(rows.len() + 1);
        for row in rows.iter() {
            all.push(Branch {
                first: row.first,
                conversation,
                record: BranchRecord::read(row)?,
            });
        }
        all.push(branch);
        let named = name_branches(all);
        let known: HashSet<(ExchangeNumber, &str)> = rows.iter().map(|row| (row.first, &*row.shown)).collect();
        let changed = named.iter().filter(|row| !known.contains(&(row.first, &*row.shown)));
        self.changed_branches.extend(changed.map(|row| row.first));
        *rows = named;
        Ok(())
    }

    /// Leaves the place to the folding of the whole conversation.
    pub(super) fn place_later(&mut self, subject: &Subject, decision: Decision) -> Change {
        let number = subject.number();
        let own = Spot {
            conversation: number,
            branch: number,
            agent: number,
        };
        let spot = self.anchor_of(&decision).as_deref().map_or(own, Spot::of);
        self.unsettled.insert(spot.conversation);
        self.change(spot.link(&subject.fact, decision));
        Change::Moved
    }

    /// The link of what a decision hangs on.
    fn anchor_of(&self, decision: &Decision) -> Option<Arc<Linked>> {
        self.known.links.get(&decision.anchor()?)?.clone()
    }

    fn change(&mut self, linked: Linked) {
        self.changed_links.insert(linked.exchange);
        self.known.decide(&Arc::new(linked));
    }

    /// Whether another turn goes on from `parent` on its branch.
    async fn is_followed(&mut self, parent: ExchangeNumber, but: ExchangeNumber) -> Result<bool, LinkError> {
        let needs = HashSet::from_iter([Need::Children(parent)]);
        self.source.fetch(&needs, &mut self.known).await?;
        let children = self
            .known
            .children
            .get(&parent)
            .map(|children| &**children)
            .unwrap_or_default();
        let turns = children.iter().filter(|child| **child != but).filter(|child| {
            let linked = self.known.links.get(child).and_then(Option::as_ref);
            linked.is_some_and(|linked| {
                linked.kind() == LinkKind::Turn && matches!(linked.decision.place, Place::After(_))
            })
        });
        Ok(turns.count() > 0)
    }

    async fn conversation(&mut self, root: ExchangeNumber) -> Result<Option<&mut Conversation>, LinkError> {
        if !self.conversations.contains_key(&root) {
            self.load_conversations(vec![root]).await?;
        }
        Ok(self.conversations.get_mut(&root).and_then(Option::as_mut))
    }

    pub(super) async fn load_conversations(&mut self, roots: Vec<ExchangeNumber>) -> Result<(), LinkError> {
        for page in roots.chunks(PAGE_MAX) {
            let which = Conversations::Of(page.to_vec());
            for row in self.source.store.conversations(self.source.owner, which).await? {
                let record = ConversationRecord::read(&row)?;
                self.conversations.insert(row.root, Some(Conversation { row, record }));
            }
            for root in page {
                self.conversations.entry(*root).or_insert(None);
            }
            self.absent_conversations.extend_from_slice(page);
        }
        Ok(())
    }

    /// Folds the conversations that changed otherwise than by a new last exchange.
    pub(super) async fn settle(&mut self) -> Result<(), LinkError> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        let (members, conversations) = self.members().await?;
        let mut titles = HashMap::default();
        for member in members.iter().filter(|member| member.decision.anchor().is_none()) {
            let number = member.fact.number();
            // A conversation that began with it has its title.
            let known = self.conversations.get(&number).and_then(Option::as_ref);
            let title = match known.map(|known| known.record.title.clone()) {
                Some(title) => title,
                None => title(&*self.outline(&member.fact).await?),
            };
            titles.extend(title.map(|title| (number, title)));
        }
        let folded = fold(self.owner_name, &members, &titles);
        for conversation in &conversations {
            let rows = match self.branches.remove(conversation) {
                Some(rows) => rows,
                None => self.source.store.branches(self.source.owner, *conversation).await?,
            };
            self.gone_branches.extend(rows.iter().map(|row| row.first));
            let is_new = |row: &&BranchRow| matches!(self.before.get(&row.first), Some(None));
            for row in rows.iter().filter(|row| !is_new(row)) {
                if let Some(agent) = BranchRecord::read(row)?.agent {
                    self.agents_before.entry(row.first).or_insert((row.conversation, agent));
                }
            }
            self.conversations.insert(*conversation, None);
            self.absent_conversations.push(*conversation);
            self.gone_conversations.insert(*conversation);
        }
        for row in folded.conversations {
            let record = ConversationRecord::read(&row)?;
            self.gone_conversations.remove(&row.root);
            self.changed_conversations.insert(row.root);
            self.conversations.insert(row.root, Some(Conversation { row, record }));
        }
        for row in folded.branches {
            self.gone_branches.remove(&row.first);
            self.changed_branches.insert(row.first);
            self.branches.entry(row.conversation).or_default().push(row);
        }
        for linked in folded.links {
            let known = self.known.links.get(&linked.exchange).and_then(Option::as_ref);
            if known.is_none_or(|known| **known != linked) {
                let number = linked.exchange;
                let before = known.cloned();
                self.before.entry(number).or_insert(before);
                self.change(linked);
            }
        }
        self.unsettled.clear();
        Ok(())
    }

    /// Every member of the conversations to fold, and of those that they turn out to hang on.
    async fn members(&mut self) -> Result<(Vec<Member>, BTreeSet<ExchangeNumber>), LinkError> {
        let mut loaded = BTreeSet::new();
        let mut decisions: HashMap<ExchangeNumber, Arc<Linked>> = HashMap::default();
        let mut to_load = self.unsettled.clone();
        while let Some(conversation) = to_load.pop_first() {
            if !loaded.insert(conversation) {
                continue;
            }
            for linked in self.links_in(conversation).await? {
                decisions.insert(linked.exchange, linked);
            }
            let anchors: Vec<ExchangeNumber> = decisions
                .values()
                .filter_map(|linked| linked.decision.anchor())
                .collect();
            let outside: HashSet<Need> = anchors
                .into_iter()
                .filter(|anchor| !decisions.contains_key(anchor))
                .map(Need::Link)
                .collect();
            self.source.fetch(&outside, &mut self.known).await?;
            for need in outside {
                if let Need::Link(anchor) = need
                    && let Some(Some(linked)) = self.known.links.get(&anchor)
                {
                    to_load.insert(linked.conversation);
                }
            }
        }
        let facts: HashSet<Need> = decisions.keys().map(|number| Need::Fact(*number)).collect();
        self.source.fetch(&facts, &mut self.known).await?;
        let members = decisions.into_iter().filter_map(|(number, linked)| {
            let fact = self.known.facts.get(&number)?.clone()?;
            let mut decision = linked.decision.clone();
            decision.is_counted = false;
            Some(Member { fact, decision })
        });
        Ok((members.collect(), loaded))
    }

    /// The links of a conversation: as saved, with what this round decided.
    async fn links_in(&mut self, conversation: ExchangeNumber) -> Result<Vec<Arc<Linked>>, LinkError> {
        let mut numbers = self.changed_links.clone();
        for linked in self.source.links_in(conversation, None).await? {
            numbers.insert(linked.exchange);
            let known = self.known.links.entry(linked.exchange).or_default();
            known.get_or_insert_with(|| Arc::new(linked));
        }
        let links = numbers
            .iter()
            .filter_map(|number| self.known.links.get(number)?.as_ref());
        Ok(links
            .filter(|linked| linked.conversation == conversation)
            .cloned()
            .collect())
    }
}

fn title(outline: &Outline) -> Option<String> {
    let text = outline.first_user_text()?;
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(TITLE_CHARS_MAX).collect())
}

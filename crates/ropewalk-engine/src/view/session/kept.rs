//! A tree of messages in little room, so that one of a hundred thousand can be kept from page to page.
//!
//! What a message has in common with its parent, or with most others, is not written down again.
//!
//! Invariant: what comes out is what was put in, but for the call that started an agent, which its first message hangs below by now.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use ropewalk_core::hierarchy::{BranchPosition, MessageKind, Place, Record};
use ropewalk_store::facts::ExchangeNumber;

use super::Node;
use super::draft::{Draft, Said, Source};

/// A node that is kept. Parents precede their children.
#[derive(Debug)]
pub(super) struct KeptNode {
    pub(super) uuid: Box<str>,
    pub(super) kind: MessageKind,
    flagged_sidechain: bool,
    in_subagent: bool,
    at: Option<Timestamp>,
    /// Position of the parent.
    pub(super) parent: Option<usize>,
    /// What it hangs below, where that is not here.
    absent_parent: Option<Box<str>>,
    declared: Declared,
    session: Arc<str>,
    agent: Option<Arc<str>>,
    tool_use: Option<Box<str>>,
    pub(super) answer_of: Option<ExchangeNumber>,
    source: Source,
    /// Where something else than the source says it.
    said: Option<Box<Said>>,
    place: Place,
    branch: Option<BranchPosition>,
}

/// The parent as the record names it.
#[derive(Debug)]
enum Declared {
    /// As it hangs.
    Here,
    Other(Option<Box<str>>),
}

/// Names that many have, each once.
#[derive(Debug, Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(name);
        self.0.insert(Arc::clone(&new));
        new
    }
}

pub(super) fn kept(nodes: Vec<Node>) -> Vec<KeptNode> {
    let mut names = Names::default();
    let mut kept: Vec<KeptNode> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let Draft { record, said, .. } = node.draft;
        let parent = node.parent.map(|parent| &*kept[parent].uuid);
        let absent_parent = match parent {
            Some(_) => None,
            None => record.parent_uuid.map(String::into_boxed_str),
        };
        let hangs_below = parent.or(absent_parent.as_deref());
        let declared = match node.draft.declared_parent {
            declared if declared.as_deref() == hangs_below => Declared::Here,
            declared => Declared::Other(declared.map(String::into_boxed_str)),
        };
        kept.push(KeptNode {
            uuid: record.uuid.into_boxed_str(),
            kind: record.kind,
            flagged_sidechain: record.flagged_sidechain,
            in_subagent: record.in_subagent,
            at: record.at,
            parent: node.parent,
            absent_parent,
            declared,
            session: names.get(&node.draft.session),
            agent: node.draft.agent.map(|agent| names.get(&agent)),
            tool_use: node.draft.tool_use.map(String::into_boxed_str),
            answer_of: node.draft.answer_of,
            source: node.draft.source,
            said: (said != Said::default()).then(|| Box::new(said)),
            place: node.place,
            branch: node.branch,
        });
    }
    kept
}

impl KeptNode {
    /// With everything, as it was before it was kept among `all`.
    pub(super) fn node(&self, all: &[KeptNode]) -> Node {
        let parent = self.parent.map(|parent| &*all[parent].uuid);
        let hangs_below = parent.or(self.absent_parent.as_deref()).map(str::to_owned);
        Node {
            draft: Draft {
                declared_parent: match &self.declared {
                    Declared::Here => hangs_below.clone(),
                    Declared::Other(declared) => declared.as_deref().map(str::to_owned),
                },
                record: Record {
                    uuid: self.uuid.to_string(),
                    parent_uuid: hangs_below,
                    kind: self.kind,
                    flagged_sidechain: self.flagged_sidechain,
                    in_subagent: self.in_subagent,
                    at: self.at,
                },
                session: self.session.to_string(),
                agent: self.agent.as_deref().map(str::to_owned),
                tool_use: self.tool_use.as_deref().map(str::to_owned),
                spawned_by: None,
                answer_of: self.answer_of,
                source: self.source,
                said: self.said.as_deref().cloned().unwrap_or_default(),
            },
            place: self.place,
            parent: self.parent,
            branch: self.branch,
        }
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let declared = match &self.declared {
            Declared::Other(Some(declared)) => declared.len(),
            Declared::Other(None) | Declared::Here => 0,
        };
        let names = [&self.absent_parent, &self.tool_use].into_iter().flatten();
        let names: usize = names.map(|name| name.len()).sum();
        let said = self
            .said
            .as_ref()
            .map_or(0, |said| said.content.len() * 2 + size_of::<Said>());
        size_of::<Self>() + self.uuid.len() + declared + names + said
    }
}

#[cfg(test)]
mod tests {
    use ropewalk_store::Micros;

    use super::super::draft::record;
    use super::super::shape::shaped;
    use super::*;

    fn draft(uuid: &str, parent: Option<&str>, at: i64) -> Draft {
        let owned = |name: &str| name.to_owned();
        Draft {
            record: record(
                uuid.to_owned(),
                parent.map(owned),
                MessageKind::User,
                false,
                false,
                Some(Micros(at)),
            ),
            declared_parent: parent.map(owned),
            session: "session".to_owned(),
            agent: None,
            tool_use: None,
            spawned_by: None,
            answer_of: None,
            source: Source::Given,
            said: Said::default(),
        }
    }

    /// What was kept, as it comes out again.
    fn kept_and_back(drafts: Vec<Draft>, elsewhere: &[&str]) -> Vec<Node> {
        let elsewhere = elsewhere.iter().map(|name| (*name).to_owned()).collect();
        let nodes = shaped(drafts, &elsewhere);
        let kept = kept(nodes.clone());
        let back: Vec<Node> = kept.iter().map(|node| node.node(&kept)).collect();
        let mut put_in = nodes;
        for node in &mut put_in {
            node.draft.spawned_by = None;
        }
        assert_eq!(back, put_in);
        back
    }

    #[test]
    fn every_message_comes_out_as_it_was_kept() {
        let mut answer = draft("answer", Some("question"), 2);
        answer.record.kind = MessageKind::Assistant;
        answer.answer_of = Some(ExchangeNumber(7));
        answer.source = Source::Answer;
        let mut call = draft("answer_tool_0", Some("answer"), 3);
        call.record.kind = MessageKind::ToolUse;
        call.record.flagged_sidechain = true;
        call.tool_use = Some("toolu_1".to_owned());
        call.said = Said::of_text("{}".to_owned());
        let mut started = draft("started", None, 4);
        started.record.in_subagent = true;
        started.agent = Some("agent".to_owned());
        started.spawned_by = Some("toolu_1".to_owned());
        let mut timeless = draft("timeless", Some("answer"), 0);
        timeless.record.at = None;
        timeless.session = "another session".to_owned();
        let back = kept_and_back(vec![draft("question", None, 1), answer, call, started, timeless], &[]);
        assert_eq!(back[4].draft.record.parent_uuid.as_deref(), Some("answer_tool_0"));
    }

    #[test]
    fn parents_are_as_they_were_declared_and_as_they_hang() {
        // A record that was absorbed is another's name, and its reader declares that.
        let mut absorbed = draft("below an alias", Some("first"), 2);
        absorbed.declared_parent = Some("an alias".to_owned());
        let mut undeclared = draft("undeclared", Some("first"), 3);
        undeclared.declared_parent = None;
        let drafts = vec![
            draft("first", None, 1),
            absorbed,
            undeclared,
            draft("fork", Some("elsewhere"), 4),
            draft("orphan", Some("nowhere"), 5),
            draft("one of a circle", Some("other of it"), 6),
            draft("other of it", Some("one of a circle"), 7),
            draft("branch", Some("first"), 8),
        ];
        let back = kept_and_back(drafts, &["elsewhere"]);
        let place = |uuid: &str| {
            let node = back.iter().find(|node| node.draft.record.uuid == uuid);
            node.map(|node| node.place)
        };
        assert_eq!(place("fork"), Some(Place::Elsewhere));
        assert_eq!(place("orphan"), Some(Place::Orphan));
        assert_eq!(place("one of a circle"), Some(Place::CutCycle));
    }
}

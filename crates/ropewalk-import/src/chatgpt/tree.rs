//! The messages of a conversation in their tree, without those that say nothing.

use std::collections::HashMap;

use ropewalk_core::json::Node;
use ropewalk_store::Micros;

use super::content::{Kind, Message};
use crate::ancestry::parents_first;
use crate::reader::Sink;

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) messages: Vec<Message>,
    /// Each behind its parent.
    pub(super) order: Vec<usize>,
    /// Circles that were cut.
    pub(super) cut: usize,
}

impl Tree {
    pub(super) fn read(mapping: Node<'_>, sink: &mut dyn Sink) -> Self {
        let nodes: Vec<(String, Node<'_>)> = mapping
            .members()
            .filter_map(|(name, node)| Some((name.to_text()?, node)))
            .collect();
        let by_id: HashMap<&str, usize> = nodes.iter().enumerate().map(|(at, (id, _))| (&**id, at)).collect();
        let named = |node: Node<'_>, name: &str| node.get_str(name).and_then(|id| by_id.get(&*id).copied());
        let mut parents: Vec<Option<usize>> = nodes.iter().map(|(_, node)| named(*node, "parent")).collect();
        // Some tools that write this format name only the children.
        for (at, (_, node)) in nodes.iter().enumerate() {
            let children = node.get("children").into_iter().flat_map(|children| children.items());
            for child in children.filter_map(|child| by_id.get(&*child.as_str()?).copied()) {
                if child != at && parents[child].is_none() && nodes[child].1.get("parent").is_none() {
                    parents[child] = Some(at);
                }
            }
        }
        let (order, cut) = parents_first(&mut parents);
        let mut tree = Tree {
            messages: Vec::new(),
            order: Vec::new(),
            cut,
        };
        // Who says nothing stands for its parent.
        let mut places: Vec<Option<usize>> = vec![None; nodes.len()];
        for at in order {
            let parent = parents[at].and_then(|parent| places[parent]);
            let message = nodes[at].1.get("message").filter(|message| message.is_object());
            let message = message.and_then(|message| Message::read(&nodes[at].0, message, parent, sink));
            places[at] = match message {
                Some(message) => Some(tree.push(message)),
                None => parent,
            };
        }
        tree
    }

    fn push(&mut self, message: Message) -> usize {
        let place = self.messages.len();
        if let Some(parent) = message.parent {
            let is_piece = message.kind == Kind::Assistant;
            self.messages[parent].goes_on |= is_piece;
            self.messages[parent].is_answered |= !is_piece;
        }
        self.messages.push(message);
        self.order.push(place);
        place
    }

    /// When the first message was written that says so.
    pub(super) fn first_time(&self) -> Option<Micros> {
        self.messages.iter().filter_map(|message| message.at).min()
    }
}

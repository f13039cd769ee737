//! Links to save: one conversation of the exchanges that were recorded.

use ropewalk_store::Micros;
use ropewalk_store::derived::{BranchRow, ConversationRow, LinkChanges, LinkKind, LinkRow};
use ropewalk_store::facts::{ExchangeNumber, Position};

/// Each exchange behind the one before, on the main branch.
pub(crate) fn one_conversation(version: u64, linked_to: i64, exchanges: &[ExchangeNumber]) -> LinkChanges {
    let root = exchanges[0];
    let parents = std::iter::once(None).chain(exchanges.iter().copied().map(Some));
    let links = exchanges.iter().zip(parents).map(|(exchange, parent)| LinkRow {
        exchange: *exchange,
        at: Micros(1_700_000_000_000_000 + exchange.0),
        kind: LinkKind::Turn,
        conversation: root,
        branch: root,
        agent: root,
        parent,
        decision: vec![version as u8],
    });
    let mut id = [0; 16];
    id[..8].copy_from_slice(&root.0.to_be_bytes());
    LinkChanges {
        version,
        linked_to: Position(linked_to),
        links: links.collect(),
        branches: vec![BranchRow {
            first: root,
            conversation: root,
            shown: "main".to_owned(),
            record: Vec::new(),
        }],
        conversations: vec![ConversationRow {
            root,
            id,
            started_at: Micros(1),
            last_at: Micros(exchanges.len() as i64),
            record: Vec::new(),
        }],
        ..LinkChanges::default()
    }
}

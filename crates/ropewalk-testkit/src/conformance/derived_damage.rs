//! A check finds conclusions of linking that do not hold together.

use std::sync::Arc;

use ropewalk_store::Store;
use ropewalk_store::derived::LinkChanges;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{Depth, Severity};

use super::cases::fresh_owner;
use super::derived::{conversation, exchanges, main_branch, one_conversation, save};

/// An exchange that was never recorded.
const NOWHERE: ExchangeNumber = ExchangeNumber(999_999);

/// What is done to a sound conversation of three exchanges.
type Spoil = fn(&mut LinkChanges);

/// Each with the rule that must find it.
const SPOILS: [(&str, Spoil); 10] = [
    ("link-target", |changes| changes.links[1].parent = Some(NOWHERE)),
    ("link-target", |changes| changes.links[1].agent = NOWHERE),
    ("link-target", |changes| changes.links[1].branch = NOWHERE),
    ("link-target", |changes| changes.links[1].conversation = NOWHERE),
    ("link-target", |changes| changes.links[2].exchange = NOWHERE),
    ("link-conversation", |changes| changes.conversations.clear()),
    ("branch-links", |changes| {
        changes.branches.push(main_branch(changes.links[2].exchange));
    }),
    ("conversation-links", |changes| {
        changes
            .conversations
            .push(conversation(changes.links[2].exchange, 0, 0));
    }),
    ("link-cycle", |changes| {
        changes.links[1].parent = Some(changes.links[2].exchange);
    }),
    ("unlinked", |changes| changes.links.truncate(2)),
];

pub async fn a_check_finds_links_that_do_not_hold_together<S: Store + 'static>(store: Arc<S>) {
    for (rule, spoil) in SPOILS {
        let owner = fresh_owner(&*store).await;
        let numbers = exchanges(&*store, owner, 3).await;
        let findings = async || store.check(owner, Depth::Structure).await.expect("a check works");
        assert_eq!(findings().await, [], "nothing is linked yet");
        let mut changes = one_conversation(&numbers);
        spoil(&mut changes);
        save(&*store, owner, changes).await;
        let findings = findings().await;
        let is_found = findings
            .iter()
            .any(|finding| (finding.rule, finding.severity) == (rule, Severity::Error));
        assert!(is_found, "{rule}: {findings:?}");
    }
}

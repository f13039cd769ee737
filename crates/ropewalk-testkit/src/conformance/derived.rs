//! What linking concluded: saved whole or not at all, read back by every way to it, kept apart by owner.

use std::sync::Arc;

use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, LinkChanges, LinkKind, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::store::{Depth, Questions};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{after_turns, fresh_owner, record, turn};

/// That many exchanges, a turn apart.
pub(super) async fn exchanges(store: &impl Store, owner: OwnerId, count: i64) -> Vec<ExchangeNumber> {
    let cases: Vec<_> = (0..count)
        .map(|number| turn(&format!("x{number}"), after_turns(number), &["hello"], Some("hi")))
        .collect();
    let recorded = record(store, owner, &cases).await;
    recorded.into_iter().map(|recorded| recorded.number).collect()
}

pub(super) fn link(
    exchange: ExchangeNumber,
    turns: i64,
    root: ExchangeNumber,
    parent: Option<ExchangeNumber>,
) -> LinkRow {
    LinkRow {
        exchange,
        at: after_turns(turns),
        kind: LinkKind::Turn,
        conversation: root,
        branch: root,
        agent: root,
        parent,
        decision: vec![1, 2, 3],
    }
}

pub(super) fn main_branch(root: ExchangeNumber) -> BranchRow {
    BranchRow {
        first: root,
        conversation: root,
        shown: "main".to_owned(),
        record: Vec::new(),
    }
}

fn id_of(root: ExchangeNumber) -> [u8; 16] {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&root.0.to_be_bytes());
    id
}

pub(super) fn conversation(root: ExchangeNumber, first: i64, last: i64) -> ConversationRow {
    ConversationRow {
        root,
        id: id_of(root),
        started_at: after_turns(first),
        last_at: after_turns(last),
        record: vec![9],
    }
}

/// One conversation of these exchanges, each behind the one before, on one branch.
pub(super) fn one_conversation(numbers: &[ExchangeNumber]) -> LinkChanges {
    let root = numbers[0];
    let parents = std::iter::once(None).chain(numbers.iter().copied().map(Some));
    let links = numbers.iter().zip(parents).zip(0..);
    LinkChanges {
        links: links
            .map(|((number, parent), turns)| link(*number, turns, root, parent))
            .collect(),
        branches: vec![main_branch(root)],
        conversations: vec![conversation(root, 0, numbers.len() as i64 - 1)],
        ..LinkChanges::default()
    }
}

async fn state(store: &impl Store, owner: OwnerId) -> LinkState {
    store.link_state(owner).await.expect("the state can be read")
}

/// Saves on top of what is there, which must work.
pub(super) async fn save(store: &impl Store, owner: OwnerId, changes: LinkChanges) {
    let LinkState { version, newest, .. } = state(store, owner).await;
    let changes = LinkChanges {
        version,
        linked_to: newest,
        ..changes
    };
    let is_saved = store.save_links(owner, changes).await.expect("links can be saved");
    assert!(is_saved, "nobody else saves");
}

pub(super) async fn links(store: &impl Store, owner: OwnerId, which: Links) -> Vec<LinkRow> {
    store.links(owner, which).await.expect("links can be read")
}

/// For each hash: who waits for it.
pub(super) async fn wanting(store: &impl Store, owner: OwnerId, hashes: &[[u8; 8]]) -> Vec<Vec<ExchangeNumber>> {
    let questions = Questions {
        wanting: hashes.to_vec(),
        limit: 1,
        ..Questions::default()
    };
    let answers = store.look_up(owner, questions, Micros::MAX).await;
    answers.expect("who waits can be asked").wanting
}

async fn branches(store: &impl Store, owner: OwnerId, conversation: ExchangeNumber) -> Vec<BranchRow> {
    store.branches(owner, conversation).await.expect("branches can be read")
}

pub(super) async fn conversations(store: &impl Store, owner: OwnerId, which: Conversations) -> Vec<ConversationRow> {
    store
        .conversations(owner, which)
        .await
        .expect("conversations can be read")
}

async fn in_conversation(store: &impl Store, owner: OwnerId, conversation: ExchangeNumber) -> Vec<LinkRow> {
    let which = Links::InConversation {
        conversation,
        after: None,
        limit: 100,
    };
    links(store, owner, which).await
}

async fn newest(store: &impl Store, owner: OwnerId) -> Vec<ConversationRow> {
    let which = Conversations::Newest {
        before: None,
        limit: 100,
    };
    conversations(store, owner, which).await
}

pub(super) fn numbers_of(links: &[LinkRow]) -> Vec<ExchangeNumber> {
    links.iter().map(|link| link.exchange).collect()
}

pub async fn links_come_back_as_they_were_saved<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    assert_eq!(state(&*store, owner).await, LinkState::default());
    let numbers = exchanges(&*store, owner, 5).await;
    let [root, second, third, fourth, alone] = numbers[..] else {
        unreachable!("five were recorded")
    };
    let newest_fact = Position(5);
    let before = LinkState {
        newest: newest_fact,
        ..LinkState::default()
    };
    assert_eq!(state(&*store, owner).await, before);
    let mut changes = one_conversation(&[root, second, third]);
    changes.links[2].kind = LinkKind::Retry;
    // Everything that a link names may differ, and a record may hold any bytes.
    changes.links.push(LinkRow {
        kind: LinkKind::Compaction,
        branch: fourth,
        agent: second,
        decision: (0..=255).collect(),
        ..link(fourth, 3, root, Some(second))
    });
    changes.links.push(LinkRow {
        kind: LinkKind::Auxiliary,
        decision: Vec::new(),
        ..link(alone, 4, alone, None)
    });
    changes.branches.push(BranchRow {
        first: fourth,
        conversation: root,
        shown: "branch_\u{e9}\0\u{1a}".to_owned(),
        record: vec![0, 255],
    });
    changes.branches.push(main_branch(alone));
    changes.conversations.push(conversation(alone, 4, 4));
    save(&*store, owner, changes.clone()).await;

    let after = LinkState {
        version: 1,
        linked_to: newest_fact,
        newest: newest_fact,
        named_to: Position::default(),
    };
    assert_eq!(state(&*store, owner).await, after);
    // In the order of the question, what is not there left out.
    let asked = vec![alone, ExchangeNumber(1_000_000), root, fourth];
    let expected = [&changes.links[4], &changes.links[0], &changes.links[3]].map(Clone::clone);
    assert_eq!(links(&*store, owner, Links::Of(asked.clone())).await, expected);
    assert_eq!(in_conversation(&*store, owner, root).await, changes.links[..4]);
    assert_eq!(branches(&*store, owner, root).await, changes.branches[..2]);
    assert_eq!(branches(&*store, owner, second).await, []);
    let expected = [&changes.conversations[1], &changes.conversations[0]].map(Clone::clone);
    assert_eq!(conversations(&*store, owner, Conversations::Of(asked)).await, expected);
    let ids = vec![id_of(root), [0; 16], id_of(alone)];
    assert_eq!(
        conversations(&*store, owner, Conversations::Ids(ids)).await,
        changes.conversations
    );
    for depth in [Depth::Structure, Depth::Data] {
        assert_eq!(store.check(owner, depth).await.expect("a check works"), []);
    }

    // A row replaces the one of its name.
    let moved = link(second, 1, root, None);
    let renamed = BranchRow {
        shown: "other".to_owned(),
        ..changes.branches[1].clone()
    };
    let replacing = LinkChanges {
        links: vec![moved.clone()],
        branches: vec![renamed.clone()],
        conversations: vec![conversation(root, 0, 9)],
        ..LinkChanges::default()
    };
    save(&*store, owner, replacing).await;
    assert_eq!(links(&*store, owner, Links::Of(vec![second])).await, [moved]);
    assert_eq!(branches(&*store, owner, root).await[1], renamed);
    assert_eq!(newest(&*store, owner).await[0], conversation(root, 0, 9));
    assert_eq!(in_conversation(&*store, owner, root).await.len(), 4);
    assert_eq!(state(&*store, owner).await.version, 2);
}

pub async fn a_save_on_top_of_another_state_changes_nothing<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 2).await;
    save(&*store, owner, one_conversation(&numbers)).await;
    let before = state(&*store, owner).await;
    for version in [0, 2, u64::MAX >> 1] {
        let stale = LinkChanges {
            version,
            linked_to: Position(1),
            from_scratch: true,
            gone_branches: vec![numbers[0]],
            gone_conversations: vec![numbers[0]],
            wanted: vec![([1; 8], numbers[1])],
            conversations: vec![conversation(numbers[1], 1, 1)],
            ..one_conversation(&numbers[1..])
        };
        assert!(!store.save_links(owner, stale).await.expect("a stale save is no error"));
    }
    assert_eq!(state(&*store, owner).await, before);
    assert_eq!(in_conversation(&*store, owner, numbers[0]).await.len(), 2);
    assert_eq!(newest(&*store, owner).await, [conversation(numbers[0], 0, 1)]);
    assert_eq!(branches(&*store, owner, numbers[0]).await.len(), 1);
    assert_eq!(wanting(&*store, owner, &[[1; 8]]).await, [Vec::new()]);
    let ids = Conversations::Ids(vec![id_of(numbers[1])]);
    assert_eq!(conversations(&*store, owner, ids).await, []);
}

pub async fn of_racing_savers_exactly_one_wins<S: Store + 'static>(store: Arc<S>) {
    const SAVERS: usize = 4;
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 3).await;
    for round in 0..10 {
        let savers = (0..SAVERS).map(|saver| {
            let store = Arc::clone(&store);
            let mut changes = one_conversation(&numbers);
            changes.version = round;
            for link in &mut changes.links {
                link.decision = vec![saver as u8];
            }
            tokio::spawn(async move { store.save_links(owner, changes).await.expect("losing is no error") })
        });
        let mut winners = Vec::new();
        for (saver, task) in savers.collect::<Vec<_>>().into_iter().enumerate() {
            if task.await.expect("a saver does not panic") {
                winners.push(saver as u8);
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        assert_eq!(state(&*store, owner).await.version, round + 1);
        // All of the winner's rows, and none of another's.
        let saved = in_conversation(&*store, owner, numbers[0]).await;
        assert!(saved.iter().all(|link| link.decision == winners), "round {round}");
    }
}

pub async fn an_id_finds_its_conversation_wherever_it_went<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 3).await;
    let (early, late) = (numbers[0], numbers[1]);
    // At first the later two are a conversation of their own.
    save(&*store, owner, one_conversation(&numbers[1..])).await;
    let by_ids = async || {
        let mut found = Vec::new();
        for root in [late, early] {
            found.extend(conversations(&*store, owner, Conversations::Ids(vec![id_of(root)])).await);
        }
        found
    };
    assert_eq!(by_ids().await, [conversation(late, 0, 1)]);
    // Then it turns out that an earlier exchange is its root.
    let moved = LinkChanges {
        gone_branches: vec![late],
        gone_conversations: vec![late],
        ..one_conversation(&numbers)
    };
    save(&*store, owner, moved).await;
    let whole = conversation(early, 0, 2);
    assert_eq!(by_ids().await, [whole.clone(), whole.clone()]);
    assert_eq!(newest(&*store, owner).await, std::slice::from_ref(&whole));
    assert_eq!(branches(&*store, owner, late).await, []);

    // From scratch, everything goes but the ids.
    let nothing = LinkChanges {
        from_scratch: true,
        ..LinkChanges::default()
    };
    save(&*store, owner, nothing).await;
    assert_eq!(by_ids().await, []);
    assert_eq!(newest(&*store, owner).await, []);
    assert_eq!(links(&*store, owner, Links::Of(numbers.clone())).await, []);
    let again = LinkChanges {
        from_scratch: true,
        ..one_conversation(&numbers)
    };
    save(&*store, owner, again).await;
    assert_eq!(by_ids().await, [whole.clone(), whole]);
    assert_eq!(state(&*store, owner).await.version, 4);
    assert_eq!(store.check(owner, Depth::Data).await.expect("a check works"), []);
}

pub async fn owners_never_see_each_others_links<S: Store + 'static>(store: Arc<S>) {
    let (ann, bob) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let numbers = exchanges(&*store, ann, 3).await;
    let changes = LinkChanges {
        wanted: vec![([3; 8], numbers[1])],
        ..one_conversation(&numbers)
    };
    save(&*store, ann, changes.clone()).await;
    let assert_empty = async |owner: OwnerId| {
        for which in [Links::Of(numbers.clone()), Links::Children(numbers.clone())] {
            assert_eq!(links(&*store, owner, which).await, []);
        }
        assert_eq!(wanting(&*store, owner, &[[3; 8]]).await, [Vec::new()]);
        assert_eq!(in_conversation(&*store, owner, numbers[0]).await, []);
        assert_eq!(branches(&*store, owner, numbers[0]).await, []);
        assert_eq!(newest(&*store, owner).await, []);
        for which in [
            Conversations::Of(numbers.clone()),
            Conversations::Ids(vec![id_of(numbers[0])]),
        ] {
            assert_eq!(conversations(&*store, owner, which).await, []);
        }
    };
    assert_empty(bob).await;
    assert_eq!(state(&*store, bob).await, LinkState::default());

    // The same names belong to each of them, and what one drops the other keeps.
    exchanges(&*store, bob, 3).await;
    save(&*store, bob, changes).await;
    let scratch = LinkChanges {
        from_scratch: true,
        ..LinkChanges::default()
    };
    save(&*store, bob, scratch).await;
    assert_empty(bob).await;
    assert_eq!(in_conversation(&*store, ann, numbers[0]).await.len(), 3);
    assert_eq!(newest(&*store, ann).await.len(), 1);
    assert_eq!(wanting(&*store, ann, &[[3; 8]]).await, [vec![numbers[1]]]);
    assert_eq!(state(&*store, ann).await.version, 1);
    let nobody = OwnerId(i64::MAX >> 32);
    assert!(store.link_state(nobody).await.is_err());
    assert!(store.save_links(nobody, LinkChanges::default()).await.is_err());
}

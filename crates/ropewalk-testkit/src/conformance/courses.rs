//! How a conversation goes on: kept beside its links, and no longer than what it was read from.

use std::sync::Arc;

use ropewalk_store::derived::{CourseRow, LinkChanges};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::forget::Forgetting;
use ropewalk_store::{OwnerId, Store};

use super::cases::fresh_owner;
use super::derived::{exchanges, one_conversation, save};
use super::forgetting::forgetting;

async fn version(store: &impl Store, owner: OwnerId) -> u64 {
    store.link_state(owner).await.expect("the state can be read").version
}

async fn keep(store: &impl Store, owner: OwnerId, version: u64, root: ExchangeNumber, packed: &[u8]) -> bool {
    let course = CourseRow {
        root,
        packed: packed.to_vec(),
    };
    let is_kept = store.keep_course(owner, version, course).await;
    is_kept.expect("a course can be kept")
}

async fn find(store: &impl Store, owner: OwnerId, root: ExchangeNumber) -> Option<Vec<u8>> {
    store.find_course(owner, root).await.expect("a course can be read")
}

/// Keeps one for each of these, as things stand.
async fn keep_all(store: &impl Store, owner: OwnerId, roots: &[ExchangeNumber]) {
    let version = version(store, owner).await;
    for root in roots {
        assert!(keep(store, owner, version, *root, b"kept").await);
    }
}

pub async fn a_course_is_kept_by_whoever_read_what_is_there<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let numbers = exchanges(&*store, owner, 3).await;
    save(&*store, owner, one_conversation(&numbers)).await;
    let root = numbers[0];
    assert_eq!(find(&*store, owner, root).await, None);
    let read = version(&*store, owner).await;
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    assert!(keep(&*store, owner, read, root, &bytes).await);
    assert_eq!(find(&*store, owner, root).await, Some(bytes));
    assert!(
        keep(&*store, owner, read, root, b"").await,
        "keeping one changes no version"
    );
    assert_eq!(find(&*store, owner, root).await, Some(Vec::new()));
    assert_eq!(find(&*store, other, root).await, None);
    // Somebody linked meanwhile: what was read before may be wrong by now.
    save(&*store, owner, LinkChanges::default()).await;
    assert!(!keep(&*store, owner, read, root, b"older").await);
    assert_eq!(find(&*store, owner, root).await, Some(Vec::new()));
}

pub async fn a_course_goes_with_what_it_was_read_from<S: Store + 'static>(store: Arc<S>) {
    let (owner, other) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let numbers = exchanges(&*store, owner, 4).await;
    let others = exchanges(&*store, other, 1).await;
    save(&*store, owner, one_conversation(&numbers)).await;
    save(&*store, other, one_conversation(&others)).await;
    keep_all(&*store, other, &others).await;
    let is_left = async |place: usize| find(&*store, owner, numbers[place]).await.is_some();
    keep_all(&*store, owner, &numbers).await;
    let changes = LinkChanges {
        gone_conversations: vec![numbers[1]],
        turned: vec![numbers[2]],
        ..LinkChanges::default()
    };
    save(&*store, owner, changes).await;
    assert!(is_left(0).await && is_left(3).await);
    assert!(!is_left(1).await && !is_left(2).await);
    let again = LinkChanges {
        from_scratch: true,
        ..one_conversation(&numbers)
    };
    save(&*store, owner, again).await;
    assert!(!is_left(0).await && !is_left(3).await);
    // Whatever is forgotten, it may be counted in any of them.
    for what in [Forgetting::default(), forgetting(&numbers[3..])] {
        keep_all(&*store, owner, &numbers).await;
        store.forget(owner, what).await.expect("it is forgotten");
        for place in 0..numbers.len() {
            assert!(!is_left(place).await);
        }
    }
    assert!(find(&*store, other, others[0]).await.is_some());
}

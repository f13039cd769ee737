//! What linking concluded, in order and in pages.

use std::sync::Arc;

use ropewalk_store::Store;
use ropewalk_store::derived::{ConversationRow, Conversations, LinkChanges, LinkRow, Links};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::PAGE_MAX;

use super::cases::{after_turns, fresh_owner};
use super::derived::{
    conversation, conversations, exchanges, link, links, main_branch, numbers_of, one_conversation, save, wanting,
};

pub async fn children_come_in_the_order_of_time<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 6).await;
    let root = numbers[0];
    let mut changes = one_conversation(&numbers[..1]);
    // Later numbers, earlier times; two at once.
    for (place, turns, parent) in [(1, 9, 0), (2, 5, 0), (3, 7, 1), (4, 5, 0), (5, 1, 2)] {
        let parent = Some(numbers[parent]);
        changes.links.push(link(numbers[place], turns, root, parent));
    }
    save(&*store, owner, changes).await;
    let children = async |parents: &[usize]| {
        let parents = parents.iter().map(|place| numbers[*place]).collect();
        let found = numbers_of(&links(&*store, owner, Links::Children(parents)).await);
        let place = |number| numbers.iter().position(|known| *known == number);
        found.into_iter().filter_map(place).collect::<Vec<_>>()
    };
    assert_eq!(children(&[0]).await, [2, 4, 1]);
    assert_eq!(children(&[1, 0, 0]).await, [2, 4, 3, 1]);
    assert_eq!(children(&[2, 1]).await, [5, 3]);
    assert_eq!(children(&[5]).await, [0; 0]);
    assert_eq!(children(&[]).await, [0; 0]);
}

pub async fn a_conversation_is_read_page_by_page<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 10).await;
    let root = numbers[0];
    let mut changes = one_conversation(&numbers[..9]);
    // Times run against the numbers and meet in pairs.
    for (place, link) in changes.links.iter_mut().enumerate() {
        link.at = after_turns((20 - place as i64) / 2);
    }
    let other = one_conversation(&numbers[9..]);
    changes.links.extend(other.links);
    let mut expected = changes.links[..9].to_vec();
    expected.sort_by_key(|link| (link.at, link.exchange));
    save(&*store, owner, changes).await;
    for limit in [1, 2, 4, 9, 10, usize::MAX] {
        let mut read: Vec<LinkRow> = Vec::new();
        loop {
            let which = Links::InConversation {
                conversation: root,
                after: read.last().map(|link| (link.at, link.exchange)),
                limit,
            };
            let page = links(&*store, owner, which).await;
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            assert!(read.len() < expected.len(), "pages overlap");
            read.extend(page);
        }
        assert_eq!(read, expected, "pages of {limit}");
    }
}

pub async fn who_waits_for_a_hash_is_found_by_it<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 4).await;
    let (low, high) = ([0; 8], [0xff; 8]);
    let changes = LinkChanges {
        wanted: vec![
            (high, numbers[2]),
            (low, numbers[1]),
            (high, numbers[1]),
            (high, numbers[1]),
        ],
        ..one_conversation(&numbers)
    };
    save(&*store, owner, changes).await;
    let waiting = async |hashes: &[[u8; 8]]| wanting(&*store, owner, hashes).await;
    assert_eq!(waiting(&[low]).await, [[numbers[1]]]);
    assert_eq!(waiting(&[high]).await, [[numbers[1], numbers[2]]]);
    let both = vec![numbers[1], numbers[2]];
    assert_eq!(
        waiting(&[high, low, high]).await,
        [both.clone(), vec![numbers[1]], both]
    );
    assert_eq!(waiting(&[[1; 8]]).await, [Vec::new()]);
    assert!(waiting(&[]).await.is_empty());
    // More of them add to those that are there.
    let more = LinkChanges {
        wanted: vec![(low, numbers[3]), (low, numbers[1])],
        ..LinkChanges::default()
    };
    save(&*store, owner, more).await;
    assert_eq!(waiting(&[low]).await, [[numbers[1], numbers[3]]]);
    let scratch = LinkChanges {
        from_scratch: true,
        ..one_conversation(&numbers)
    };
    save(&*store, owner, scratch).await;
    assert_eq!(waiting(&[low, high]).await, [Vec::new(), Vec::new()]);
}

pub async fn conversations_come_newest_first_page_by_page<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let numbers = exchanges(&*store, owner, 7).await;
    let mut changes = LinkChanges::default();
    for (root, last) in numbers.iter().zip([3, 9, 3, 5, 1, 9, 3]) {
        changes.links.push(link(*root, 0, *root, None));
        changes.branches.push(main_branch(*root));
        changes.conversations.push(conversation(*root, 0, last));
    }
    let mut expected = changes.conversations.clone();
    expected.sort_by_key(|row| std::cmp::Reverse((row.last_at, row.root)));
    save(&*store, owner, changes).await;
    for limit in [1, 2, 7, 8, usize::MAX] {
        let mut read: Vec<ConversationRow> = Vec::new();
        loop {
            let which = Conversations::Newest {
                before: read.last().map(|row| (row.last_at, row.root)),
                limit,
            };
            let page = conversations(&*store, owner, which).await;
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            assert!(read.len() < expected.len(), "pages overlap");
            read.extend(page);
        }
        assert_eq!(read, expected, "pages of {limit}");
    }
}

pub async fn no_answer_is_longer_than_a_page<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let root = exchanges(&*store, owner, 1).await[0];
    // Links of exchanges that are not there serve here as well as others, and are found by the check.
    let count = PAGE_MAX as i64 + 5;
    let numbers: Vec<_> = (0..count).map(|place| ExchangeNumber(root.0 + 10 + place)).collect();
    let mut changes = one_conversation(&[root]);
    changes
        .links
        .extend(numbers.iter().map(|number| link(*number, 1, root, Some(root))));
    changes.wanted = numbers.iter().map(|number| ([2; 8], *number)).collect();
    changes
        .conversations
        .extend(numbers.iter().map(|number| conversation(*number, 1, 1)));
    save(&*store, owner, changes).await;
    for which in [
        Links::Of(numbers.clone()),
        Links::Children(vec![root]),
        Links::InConversation {
            conversation: root,
            after: None,
            limit: usize::MAX,
        },
    ] {
        assert_eq!(links(&*store, owner, which.clone()).await.len(), PAGE_MAX, "{which:?}");
    }
    assert_eq!(wanting(&*store, owner, &[[2; 8]]).await[0].len(), PAGE_MAX);
    let all = Conversations::Newest {
        before: None,
        limit: usize::MAX,
    };
    for which in [Conversations::Of(numbers), all] {
        assert_eq!(conversations(&*store, owner, which).await.len(), PAGE_MAX);
    }
}

//! What takes long to find out, kept until something changes.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use ropewalk_store::Store;
use ropewalk_store::derived::LinkState;
use tokio::sync::OnceCell;

use crate::problem::Problem;
use crate::source::Owned;

/// Things that are kept: a few for each tab that somebody may have open.
const KEPT_MAX: usize = 24;

/// Of all of them together: a fifth of what the server may take.
const BYTES_MAX: usize = 48 << 20;

/// About how many bytes of memory something takes.
pub(crate) trait Weighed {
    fn bytes(&self) -> usize;
}

/// What is kept: what it is, of what, as it stood when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) as_of: Option<String>,
}

#[derive(Debug)]
struct Entry<T> {
    owner: String,
    key: Key,
    state: LinkState,
    found: Arc<OnceCell<Arc<T>>>,
}

/// The last few that were asked for, the newest first.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    entries: Mutex<VecDeque<Entry<T>>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept {
            entries: Mutex::default(),
        }
    }
}

impl<T: Weighed> Kept<T> {
    /// What is kept of that name, unless the owner's data changed since; otherwise what `find` says, which is told what was kept before
    /// the change. Who asks while somebody else finds it out waits for that.
    pub(crate) async fn get<S: Store, F: Future<Output = Result<T, Problem>>>(
        &self,
        owned: &Owned<S>,
        key: Key,
        find: impl FnOnce(Option<Arc<T>>) -> F,
    ) -> Result<Arc<T>, Problem> {
        let Some(state) = owned.state().await? else {
            return find(None).await.map(Arc::new);
        };
        let (place, before) = self.place(owned.name(), key, state);
        let found = place
            .get_or_try_init(|| async { find(before).await.map(Arc::new) })
            .await?;
        self.shrink();
        Ok(Arc::clone(found))
    }

    /// Where it is, or where it goes, and what was there.
    fn place(&self, owner: &str, key: Key, state: LinkState) -> (Arc<OnceCell<Arc<T>>>, Option<Arc<T>>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |entry: &Entry<T>| entry.owner == owner && entry.key == key;
        let known = entries.iter().position(is_it).and_then(|at| entries.remove(at));
        let mut before = None;
        let entry = match known {
            Some(known) if known.state == state => known,
            other => {
                before = other.and_then(|other| other.found.get().cloned());
                Entry {
                    owner: owner.to_owned(),
                    key,
                    state,
                    found: Arc::default(),
                }
            }
        };
        let found = Arc::clone(&entry.found);
        entries.push_front(entry);
        entries.truncate(KEPT_MAX);
        (found, before)
    }

    fn shrink(&self) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = BYTES_MAX;
        entries.retain(|entry| {
            let bytes = entry.found.get().map_or(0, |found| found.bytes());
            left.checked_sub(bytes).map(|rest| left = rest).is_some()
        });
    }
}

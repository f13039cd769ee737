//! What takes long to find out, kept until something changes.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use ropewalk_store::Store;
use ropewalk_store::derived::LinkState;
use tokio::sync::OnceCell;

use crate::problem::Problem;
use crate::source::Owned;

/// Things of one kind that are kept: one for each tab that somebody may have open.
const KEPT_MAX: usize = 8;

/// Of all of them together: one conversation of a hundred thousand messages.
const BYTES_MAX: usize = 192 << 20;

/// About how many bytes of memory something takes.
pub(crate) trait Weighed {
    fn bytes(&self) -> usize;
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    owner: String,
    name: String,
    as_of: Option<String>,
}

#[derive(Debug)]
struct Entry<T> {
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
    /// What is kept of that name, unless the owner's data changed since; otherwise what `find` says. Who asks while somebody else finds
    /// it out waits for that.
    pub(crate) async fn get<S: Store>(
        &self,
        owned: &Owned<S>,
        name: &str,
        as_of: Option<&str>,
        find: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Arc<T>, Problem> {
        let Some(state) = owned.state().await? else {
            return find.await.map(Arc::new);
        };
        let key = Key {
            owner: owned.name().to_owned(),
            name: name.to_owned(),
            as_of: as_of.map(str::to_owned),
        };
        let place = self.place(key, state);
        let found = place.get_or_try_init(|| async { find.await.map(Arc::new) }).await?;
        self.shrink();
        Ok(Arc::clone(found))
    }

    /// Where it is, or where it goes.
    fn place(&self, key: Key, state: LinkState) -> Arc<OnceCell<Arc<T>>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.iter().position(|entry| entry.key == key);
        let known = known
            .and_then(|at| entries.remove(at))
            .filter(|entry| entry.state == state);
        let entry = known.unwrap_or_else(|| Entry {
            key,
            state,
            found: Arc::default(),
        });
        let found = Arc::clone(&entry.found);
        entries.push_front(entry);
        entries.truncate(KEPT_MAX);
        found
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

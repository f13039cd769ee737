//! Tasks that stay on their thread.

use std::future::Future;

/// Spawns on the current thread, so that what a connection uses needs no locks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalExec;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExec {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(async move {
            task.await;
        });
    }
}

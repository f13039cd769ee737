//! A copy of the whole store, taken beside whoever writes it.

use std::path::Path;

use super::{Sqlite, problem};
use crate::store::{Result, StoreError};

impl Sqlite {
    /// Writes the store as it stands into a new file, without its free pages. Recording goes on meanwhile.
    pub async fn copy_to(&self, file: &Path) -> Result<()> {
        let readers = self.readers.clone().ok_or(StoreError::ReadOnly)?;
        let file = file.to_string_lossy().into_owned();
        let copied = tokio::task::spawn_blocking(move || {
            let connection = readers.take()?;
            let copied = connection.execute("VACUUM INTO ?1", [file]);
            readers.give_back(connection);
            copied.map(|_| ()).map_err(problem)
        });
        copied.await.map_err(|_| StoreError::Stopped)?
    }
}

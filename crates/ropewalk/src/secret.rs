//! The key of this installation: made once, never shown, never sent.
//!
//! It names owners after their API keys and tags redacted secrets, so that neither can be guessed from what is stored.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::failure::{Failure, Kind};

const FILE_NAME: &str = "secret.key";

pub(crate) const KEY_BYTES: usize = 32;

/// The key in the data folder, made on first use.
pub(crate) fn key(folder: &Path) -> Result<[u8; KEY_BYTES], Failure> {
    let path = folder.join(FILE_NAME);
    let failed = |error: io::Error| {
        Failure::new(Kind::Configuration, format!("cannot use {}: {error}", path.display()))
            .hint("it holds the key of this installation and must be readable and private")
    };
    match read(&path) {
        Ok(key) => return Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut key = [0; KEY_BYTES];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut key))
        .map_err(failed)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made.and_then(|mut file| file.write_all(&key).and_then(|()| file.sync_all())) {
        Ok(()) => Ok(key),
        // Somebody was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(&path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

fn read(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    fs::File::open(path)?.read_exact(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn is_made_once_and_only_its_user_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let made = key(folder.path()).unwrap();
        assert_eq!(key(folder.path()).unwrap(), made);
        assert_ne!(made, [0; KEY_BYTES]);
        let mode = fs::metadata(folder.path().join(FILE_NAME))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

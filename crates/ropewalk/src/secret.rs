//! The secrets of this installation: made once, kept where only its user can read them.
//!
//! The key is never shown and never sent. It names owners after their API keys and tags redacted secrets,
//! so that neither can be guessed from what is stored.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::failure::{Failure, Kind};

pub(crate) const FILE_NAME: &str = "secret.key";

pub(crate) const KEY_BYTES: usize = 32;

/// What opens the API, where owners have no tokens of their own.
const TOKEN_FILE_NAME: &str = "api.token";

/// The key in the data folder, made on first use.
pub(crate) fn key(folder: &Path) -> Result<[u8; KEY_BYTES], Failure> {
    kept(
        folder,
        FILE_NAME,
        |random| random.to_vec(),
        |bytes| bytes.try_into().ok(),
    )
}

/// The token of the API, as text so that people can read it, made on first use.
pub(crate) fn token(folder: &Path) -> Result<String, Failure> {
    let write = |random: [u8; KEY_BYTES]| format!("{}\n", hex::encode(random)).into_bytes();
    kept(folder, TOKEN_FILE_NAME, write, |bytes| {
        let token = std::str::from_utf8(bytes).ok()?.trim();
        (token.len() >= TOKEN_CHARS_MIN).then(|| token.to_owned())
    })
}

/// Anybody may choose another token, but not one that can be guessed.
const TOKEN_CHARS_MIN: usize = 16;

/// A file that only its user can read.
fn kept<T>(
    folder: &Path,
    name: &str,
    write: impl Fn([u8; KEY_BYTES]) -> Vec<u8>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, Failure> {
    let path = folder.join(name);
    let failed = |error: io::Error| {
        Failure::new(Kind::Configuration, format!("cannot use {}: {error}", path.display()))
            .hint("it holds a secret of this installation and must be readable, private and whole")
    };
    let understood = |bytes: Vec<u8>| read(&bytes).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()));
    match fs::read(&path) {
        Ok(bytes) => return understood(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut random = [0; KEY_BYTES];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(failed)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let bytes = write(random);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made.and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all())) {
        Ok(()) => understood(bytes),
        // Somebody was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => understood(fs::read(&path).map_err(failed)?),
        Err(error) => Err(failed(error)),
    }
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
        let token_made = token(folder.path()).unwrap();
        assert_eq!(token(folder.path()).unwrap(), token_made);
        assert_eq!(token_made.len(), 2 * KEY_BYTES);
        for name in [FILE_NAME, TOKEN_FILE_NAME] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::write(folder.path().join(TOKEN_FILE_NAME), "short").unwrap();
        assert!(token(folder.path()).is_err());
    }
}

//! Whom the server runs as: it refuses to run as root.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::said;

/// Root becomes one of these.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

#[derive(Debug)]
pub(super) struct User {
    /// User and group, where they are others than ours.
    ids: Option<(u32, u32)>,
}

impl User {
    /// Ourselves, or somebody without rights if we are root.
    pub(super) fn unprivileged() -> Result<Self, String> {
        let id = |arguments: &[&str]| -> Option<u32> {
            let output = Command::new("id").args(arguments).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse().ok()
        };
        if id(&["-u"]) != Some(0) {
            return Ok(User { ids: None });
        }
        let found = UNPRIVILEGED
            .iter()
            .find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)));
        let ids = found.ok_or("root needs a user without rights to run the server as")?;
        Ok(User { ids: Some(ids) })
    }

    /// Makes a file or folder theirs.
    pub(super) fn give(&self, path: &Path) -> Result<(), String> {
        match self.ids {
            Some((user, group)) => std::os::unix::fs::chown(path, Some(user), Some(group)).map_err(said),
            None => Ok(()),
        }
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The current folder may be closed to that user.
        command.current_dir("/");
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
        command
    }
}

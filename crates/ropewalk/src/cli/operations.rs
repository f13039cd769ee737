//! Arguments of what keeps a store in order: fsck, forget, retain, gc, backup, restore.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

/// Look for damage
///
/// Findings are errors, warnings or notes; only errors make the exit code 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk fsck
  ropewalk fsck --read-data                     also rehash every part and join every body
  ropewalk fsck --repair --dry-run              what a repair would do
  ropewalk fsck --repair                        and do it: only records of logs change, never an exchange")]
pub(crate) struct Fsck {
    /// Also rehash every part and join every body
    #[arg(long)]
    pub(crate) read_data: bool,

    /// Put the tree of messages right: from the logs where they still are, else from what is recorded
    #[arg(long)]
    pub(crate) repair: bool,

    /// With --repair: say what would be done, and do nothing
    #[arg(long, requires = "repair")]
    pub(crate) dry_run: bool,
}

/// Forget something for good
///
/// A conversation goes with everything that only it uses: bodies, search, names, links, log records. Of an exchange goes what it brought
/// (its new messages and its answer), of a message that message; requests of the same conversation that repeat it are
/// rewritten without it, and their links stay. Importing the same again does not bring it back. What other conversations say
/// stays, even if it is the same.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk forget garden_watering_k3fz --dry-run
  ropewalk forget garden_watering_k3fz
  ropewalk forget @conversation_garden_watering_k3fz_message_a1b2c3 --yes
  ropewalk forget 0198c0de-0000-7000-8000-0123456789ab --yes    one exchange, by its id")]
pub(crate) struct Forget {
    /// Conversations, exchanges, messages
    #[arg(required = true, value_name = "REF")]
    pub(crate) references: Vec<String>,

    /// Say what would go, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Drop what is old, or more than there is room for
///
/// Whole conversations, the oldest first, by when they last went on. What was only dropped may come back: importing its log again
/// records it again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk retain --older-than 90d --dry-run
  ropewalk retain --older-than 90d                        texts go; links, usage and cost stay
  ropewalk retain --older-than 365d --drop all
  ropewalk retain --max-size 10GB --keep-titled --keep garden_watering_k3fz
  ropewalk --owner ann retain --older-than 30d --project demo")]
pub(crate) struct Retain {
    /// Conversations that did not go on for so long, or since a day
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,

    /// The oldest ones, until about so much is stored: 500MB, 10GB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,

    /// Only those that a client filed under this project
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,

    /// What goes: what was said, or everything
    #[arg(long, value_enum, default_value_t = DropWhat::Bodies)]
    pub(crate) drop: DropWhat,

    /// Keep those that somebody gave a title
    #[arg(long)]
    pub(crate) keep_titled: bool,

    /// Keep this conversation, however old it is; can be repeated
    #[arg(long, value_name = "REF")]
    pub(crate) keep: Vec<String>,

    /// Say what would go, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DropWhat {
    /// What was said; hashes, links, usage and cost stay
    #[default]
    Bodies,
    All,
}

impl DropWhat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            DropWhat::Bodies => "bodies",
            DropWhat::All => "all",
        }
    }
}

/// Bytes, as people write them.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1_u64 << 40,
        _ => return Err("say a number and a unit, as in 500MB or 10GB".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "say a number and a unit, as in 500MB or 10GB".to_owned())?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "that is more than there is".to_owned())
}

/// Give back room that nobody uses
///
/// Removes parts, recipes and nodes that no exchange names any more (what logs told better later, what was dropped), rewrites what is left
/// together, and says how much that gave back. Without --owner for everybody.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk gc --dry-run
  ropewalk gc")]
pub(crate) struct Gc {
    /// Say what would go, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Write everything into one file
///
/// Store, journal and the key of this installation, as they stand, also while a server records: what was acknowledged before is in
/// it. The file can be read by its user only, and is not encrypted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk backup ropewalk-2026-11-16.tar.zst
  ropewalk --store postgres://ropewalk@db/ropewalk backup nightly.tar.zst")]
pub(crate) struct Backup {
    /// A file that is not there yet
    pub(crate) file: PathBuf,
}

/// Make a store out of a backup
///
/// Into a folder or a database in which nothing was recorded. Every checksum is compared, the journal that was backed up is recorded, and
/// every body is read before it is said to be done.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk --data ./restored restore ropewalk-2026-11-16.tar.zst
  ropewalk --store postgres://ropewalk@db/restored restore nightly.tar.zst")]
pub(crate) struct Restore {
    /// What `ropewalk backup` wrote
    pub(crate) file: PathBuf,
}

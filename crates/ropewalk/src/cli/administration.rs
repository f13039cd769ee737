//! Arguments of the verbs that look after the program, and of those that other programs run.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::Format;

/// Show every setting and where it comes from, or write a commented file with all of them
///
/// Flags win over the environment, the environment over the file, the file over the defaults. Passwords and tokens are not shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk config                               every setting, its value, and who says so
  ropewalk config --show limits                 those that begin like this
  ropewalk config --init                        a commented file with every setting, where the usual one is read
  ropewalk --config ./ropewalk.toml config --init
  ropewalk config --show --json | jq -r 'select(.origin.kind == \"file\").key'")]
pub(crate) struct Configuration {
    /// Only settings whose name begins with this
    #[arg(value_name = "KEY", conflicts_with = "init")]
    pub(crate) key: Option<String>,

    /// Show settings; also without it
    #[arg(long)]
    pub(crate) show: bool,

    /// Write a commented file with every setting to where the configuration is read; one that is there is left alone
    #[arg(long, conflicts_with = "show")]
    pub(crate) init: bool,
}

/// Which version the store has, and how it is brought further
///
/// A store says which programs may read and write it, by the newest schema that they know: servers of two versions can work on one
/// database while they are updated one by one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk store status
  ropewalk store migrate
  ropewalk --store postgres://ropewalk@db/ropewalk store drain /mnt/proxy-3/ropewalk     what a dead host had not recorded yet
  ropewalk --store postgres://ropewalk@coordinator/ropewalk store distribute --dry-run")]
pub(crate) struct Store {
    #[command(subcommand)]
    pub(crate) verb: StoreVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreVerb {
    /// Say which version it has, and whether this program may read and write it
    Status {},
    /// Bring the schema up to date; whoever writes next does the same
    Migrate {},
    /// Record what the journal of a dead server holds, and empty it; one that a server uses is refused. Can be repeated
    Drain {
        /// The journal, or the data folder that it is in
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Spread every table over the nodes of a Citus cluster, by owner. Needs the extension `citus`; can be repeated
    Distribute {
        /// Print the statements, and run none
        #[arg(long)]
        dry_run: bool,
    },
}

/// Show who changed what, and when
///
/// Changes of titles, repairs, rebuilds, replaced sessions, deletions and migrations, and the first use of each API token by a server.
/// Kept as lines in audit.jsonl of the data folder of the machine that they were made on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk audit
  ropewalk audit --since 7d --json | jq -r 'select(.verb == \"title\").about'")]
pub(crate) struct Audit {
    /// From then on: a time, a day, or how long ago (2h, 3d)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
}

/// Print one line about a client's conversation, for its status bar
///
/// Reads what Claude Code writes to its status line's standard input and prints friendly id, cost, the share of the prompt cache, and how
/// full the context is. Where nothing is known, the line is empty; the exit code is always 0.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  echo '{\"session_id\":\"5d1c…\"}' | ropewalk statusline

In ~/.claude/settings.json:
  \"statusLine\": {\"type\": \"command\", \"command\": \"ropewalk statusline\"}")]
pub(crate) struct Statusline {}

/// Print a script that completes commands and flags in a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk completions bash > ~/.local/share/bash-completion/completions/ropewalk
  ropewalk completions zsh > ~/.zfunc/_ropewalk
  ropewalk completions fish > ~/.config/fish/completions/ropewalk.fish")]
pub(crate) struct Completions {
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Print the manual page, or write one for every command
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk man | man -l -
  ropewalk man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// A folder for ropewalk.1 and a page for every command, such as ropewalk-log.1
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Answer an agent's questions about what was recorded, over MCP
///
/// Speaks on standard input and output. The agent can search, list conversations, read messages, follow references, see who
/// started whom, and find out what was asked before. It reads one owner's data and changes nothing. A running server has the
/// same at /mcp.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  claude mcp add ropewalk -- ropewalk mcp
  codex mcp add ropewalk -- ropewalk mcp
  ropewalk --owner ann mcp                    what ann's agent gets to see")]
pub(crate) struct Mcp {}

/// Check the set-up and say what to do
///
/// Looks at the server, the store, the journal, the disk, the clients on the PATH, settings that send clients past `ropewalk run`, and
/// logs of other tools. Changes nothing, and sends nothing anywhere unless --upstreams asks for it. Findings are ok, notes, warnings or errors; only errors make the exit code 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk doctor
  ropewalk doctor --upstreams
  ropewalk doctor --json | jq -r 'select(.level == \"error\").hint'")]
pub(crate) struct Doctor {
    /// Also knock at every upstream: whether it can be reached, whether its certificate is trusted, and what its clock says
    #[arg(long)]
    pub(crate) upstreams: bool,
}

/// Print every hash of a request, or of a request with its response
///
/// FILE is a request body as it was sent, or exchanges in the exchange format (one JSON line each). Prints one JSON
/// object per exchange: the nodes of the chain and the compatibility hashes. Hashes that need an answer are
/// null without one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk hash request.json
  ropewalk hash request.json --response response.sse
  ropewalk hash traffic.exchanges.jsonl
  ropewalk hash request.json --chain        every node, one per block")]
pub(crate) struct Hash {
    /// The request, or exchanges; `-` is standard input
    pub(crate) file: PathBuf,

    /// The response body, streamed or not
    #[arg(long, value_name = "FILE")]
    pub(crate) response: Option<PathBuf>,

    /// What the request is written in, when its members do not say
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,

    /// Also list role, kind, value and node of every block in the chain
    #[arg(long)]
    pub(crate) chain: bool,
}

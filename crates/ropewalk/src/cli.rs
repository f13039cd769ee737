//! Arguments, and the words people read about them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

#[derive(Debug, Parser)]
#[command(
    name = "ropewalk",
    version,
    about = "Git for LLM conversations",
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// Errors as JSON on stderr; data on stdout is JSON where a verb offers it
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Hash(Hash),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Auto,
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

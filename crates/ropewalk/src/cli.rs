//! Arguments, and the words people read about them.

mod administration;
mod operations;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use age::x25519::Recipient;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};

pub(crate) use administration::{
    Audit, Completions, Configuration, Doctor, Hash, Man, Mcp, Statusline, Store, StoreVerb,
};
pub(crate) use operations::{Backup, DropWhat, Forget, Fsck, Gc, Restore, Retain, size};

#[derive(Debug, Parser)]
#[command(
    name = "ropewalk",
    version,
    about = "Git for LLM conversations",
    max_term_width = 100
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb understands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The data folder [default: $XDG_DATA_HOME/ropewalk]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "ROPEWALK_DATA",
        hide_env_values = true
    )]
    pub(crate) data: Option<PathBuf>,

    /// A PostgreSQL server instead of the data folder: postgres://user@host/database
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ROPEWALK_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<String>,

    /// The configuration file [default: $XDG_CONFIG_HOME/ropewalk/config.toml]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "ROPEWALK_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,

    /// Whose data [default: the only owner there is, else `local`]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "ROPEWALK_OWNER",
        hide_env_values = true
    )]
    pub(crate) owner: Option<String>,

    /// What was known then: a time, a day, or how long ago (2h, 3d). For verbs that show something
    #[arg(long, global = true, value_name = "TIME")]
    pub(crate) as_of: Option<String>,

    /// Data as JSON on stdout, errors as JSON on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to colour: on a terminal unless NO_COLOR is set, always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_default_value = true)]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(Serve),
    Run(Run),
    Demo(Demo),
    Import(Import),
    Log(Log),
    Show(Show),
    Tree(Tree),
    Diff(Diff),
    Explain(Explain),
    Blame(Blame),
    Resolve(Resolve),
    Title(Title),
    Search(Search),
    Spread(Spread),
    Suggest(Suggest),
    Templates(Templates),
    Match(Match),
    Replay(Replay),
    Bisect(Bisect),
    Export(Export),
    Rebuild(Rebuild),
    Stats(Stats),
    Fsck(Fsck),
    Forget(Forget),
    Retain(Retain),
    Gc(Gc),
    Backup(Backup),
    Restore(Restore),
    Hash(Hash),
    Mcp(Mcp),
    Doctor(Doctor),
    Config(Configuration),
    Store(Store),
    Audit(Audit),
    Statusline(Statusline),
    Completions(Completions),
    Man(Man),
}

/// Stand between clients and providers, and record what passes
///
/// Clients need nothing but the address: ANTHROPIC_BASE_URL=http://127.0.0.1:8742, OPENAI_BASE_URL=http://127.0.0.1:8742/v1.
/// What passes is unchanged in both directions. SIGHUP reads tokens, upstreams, prices and rules again; SIGTERM lets
/// streams end.
///
/// With OTEL_EXPORTER_OTLP_ENDPOINT or otel.endpoint, a collector is sent a span of every exchange, without what was said.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:
  ropewalk serve
  ropewalk serve --listen 127.0.0.1:9000 --upstream anthropic=http://127.0.0.1:8787
  ropewalk serve --upstream gate=https://gate.example/api        clients: http://127.0.0.1:8742/u/gate/v1
  ropewalk serve --store postgres://ropewalk@db/ropewalk --admin-listen 127.0.0.1:8743")]
pub(crate) struct Serve {
    /// Where clients come [default: 127.0.0.1:8742]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// A place of their own for pages, API and metrics
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin_listen: Option<SocketAddr>,

    /// Where a provider is: anthropic, openai, gemini, or a name of yours, which stands behind /u/NAME
    #[arg(long = "upstream", value_name = "PROVIDER=URL", value_parser = upstream)]
    pub(crate) upstreams: Vec<(String, String)>,
}

fn upstream(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() && !url.is_empty() => Ok((name.to_owned(), url.to_owned())),
        _ => Err("say PROVIDER=URL, as in anthropic=https://api.anthropic.com".to_owned()),
    }
}

/// Run a command with everything it asks a model recorded
///
/// Uses the server of this data folder if one runs, else one of its own for as long as the command runs. Only the command's
/// environment is changed, no settings of anybody.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk run -- claude -p 'say hello'
  ropewalk run -- codex")]
pub(crate) struct Run {
    /// Where a provider is: anthropic, openai, gemini, or a name of yours, which stands behind /u/NAME
    #[arg(long = "upstream", value_name = "PROVIDER=URL", value_parser = upstream)]
    pub(crate) upstreams: Vec<(String, String)>,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Show everything there is, without a key and without a network
///
/// Sends the requests of made-up clients through a real proxy to a scripted provider on this machine: tools, branches, agents, a
/// compaction, errors. Prints what became of them, and commands to look at it. Data goes to a new folder under the temporary
/// one, or to --data if nothing is recorded there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk demo
  ropewalk demo --data ./demo && ropewalk --data ./demo log --graph
  ropewalk demo --pace 100                      slow enough to watch elsewhere")]
pub(crate) struct Demo {
    /// Milliseconds between two events of a streamed answer
    #[arg(long, value_name = "MS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) pace: u64,
}

/// Bring in what was recorded elsewhere
///
/// PATH is a file, a folder that is searched for logs (*.jsonl, *.json, *.har, *.db, also with .gz or .zst), or `-` for standard
/// input. Importing the same again changes nothing, and logs that did not change are not read again. What a log tells of a call that
/// was recorded as it passed adds nothing to it. What cannot be read is reported and left out, and the exit code is 1 then. Links
/// inside a folder are not followed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk import ~/.claude/projects          everything that Claude Code logged
  ropewalk import ~/.codex/sessions --watch   and what it logs from now on
  ropewalk import traffic.exchanges.jsonl
  ropewalk import captures/ --owner ann       all of it is ann's, whatever the lines say
  ropewalk export | ssh host ropewalk import -")]
pub(crate) struct Import {
    /// Files and folders
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// What the files are
    #[arg(long, value_enum, default_value_t = ImportFormat::Auto)]
    pub(crate) format: ImportFormat,

    /// Go on following the files as they grow
    #[arg(long, conflicts_with = "replace")]
    pub(crate) watch: bool,

    /// Read the files of one session again, and put what they say in the place of its records, at once
    #[arg(long, value_name = "SESSION")]
    pub(crate) replace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    Auto,
    Exchanges,
    ClaudeCode,
    Codex,
    Llm,
    Chatgpt,
    ClaudeAi,
    Har,
}

/// Exchanges, bytes, tokens and cost, of every owner or of one
///
/// Every call is counted once, whoever told of it. A cost with `~` in front is an estimate, in part or as a whole.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  ropewalk stats
  ropewalk stats --by day --tz Europe/Berlin
  ropewalk stats --by agent --json            an agent's figures include those of the agents that it started
  ropewalk stats --waste                      what was sent again and again, with what it took
  ropewalk stats --cache --since 7d           what prompt caches did not give, and why, the dearest cause first
  ropewalk stats --cache --since 1h --alarm 0.8   exit code 1 if less than that share was read")]
pub(crate) struct Stats {
    /// What to sum up by
    #[arg(long, value_enum, default_value_t = By::Model)]
    pub(crate) by: By,

    /// Where a day begins at midnight [default: here, or UTC with --json]
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,

    /// Tool results, files and other parts that were sent again and again, and agents that only repeat themselves
    #[arg(long, conflicts_with_all = ["by", "tz", "cache"])]
    pub(crate) waste: bool,
    /// Why prompts were not read from the providers' caches, ranked by what it cost
    #[arg(long, conflicts_with_all = ["by", "tz"])]
    pub(crate) cache: bool,

    /// With --cache: from then on: a time, a day, or how long ago (2h, 3d)
    #[arg(long, value_name = "TIME", requires = "cache")]
    pub(crate) since: Option<String>,

    /// With --cache: up to then
    #[arg(long, value_name = "TIME", requires = "cache")]
    pub(crate) until: Option<String>,

    /// With --cache: fail if less than this share of what could have been read was, from 0 to 1
    #[arg(long, value_name = "SHARE", requires = "cache", value_parser = share)]
    pub(crate) alarm: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "say a number from 0 to 1, as in 0.8".to_owned())
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    #[default]
    Model,
    Day,
    Project,
    Session,
    Conversation,
    Branch,
    Agent,
}

/// Write exchanges so that importing them gives the same store, or one path to be read elsewhere
///
/// `exchanges` is everything that was recorded. The other formats write what was said up to one node: of a conversation the active
/// path, of an exchange the way to its answer. `claude-code` is a session file that `claude --resume` goes on from; `markdown` and
/// `html` are for people. What the rules of redaction find today is taken out, also if it was recorded before they were made.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk export > everything.exchanges.jsonl
  ropewalk export 3f2a81c0 > one-conversation.exchanges.jsonl
  ropewalk export --age age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p > everything.age
  age --decrypt -i key.txt everything.age | ropewalk --data ./elsewhere import -
  ropewalk export --format html 3f2a81c0 > talk.html
  ropewalk export --format markdown 3f2a81c0~2 > before-it-went-wrong.md
  ropewalk export --format claude-code 3f2a81c0~2 > ~/.claude/projects/-home-me-site/$(uuidgen).jsonl")]
pub(crate) struct Export {
    /// Conversations and exchanges; everything without one. Exactly one for the formats that are read elsewhere
    #[arg(value_name = "REF")]
    pub(crate) references: Vec<String>,

    /// How to write it
    #[arg(long, value_enum, default_value_t = ExportFormat::Exchanges)]
    pub(crate) format: ExportFormat,

    /// Encrypt it with age, for whoever has the key of this recipient (age1…); can be repeated
    #[arg(long = "age", value_name = "RECIPIENT", value_parser = recipient)]
    pub(crate) recipients: Vec<Recipient>,
}

fn recipient(text: &str) -> Result<Recipient, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "say a recipient, as `age-keygen` prints it: age1…".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Exchanges,
    ClaudeCode,
    Markdown,
    Html,
}

/// List conversations, newest first, or exchanges, oldest first
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  ropewalk log -n 10
  ropewalk log --graph                          branches, compactions and subagents
  ropewalk log --exchanges --since 2h --model opus
  ropewalk log --follow                         every exchange as it ends, until Ctrl-C
  ropewalk log --exchanges --json | jq -r .link.reason
  ropewalk log --exchanges --hash 8182 --hashes")]
pub(crate) struct Log {
    /// Draw branches, one line per exchange, and where one quotes another's answer
    #[arg(long, conflicts_with = "exchanges")]
    pub(crate) graph: bool,

    /// One row per exchange
    #[arg(long)]
    pub(crate) exchanges: bool,

    /// One row per exchange, those that end from now on as well; first the newest 10, or N
    #[arg(short = 'f', long, conflicts_with_all = ["graph", "grep", "until"])]
    pub(crate) follow: bool,

    /// Only the newest N; 1000 of the conversations where nothing selects them
    #[arg(short = 'n', value_name = "N")]
    pub(crate) count: Option<usize>,

    /// From then on: a time, a day, or how long ago (2h, 3d)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Up to then
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,

    /// With these words in the title or in what was said
    #[arg(long, value_name = "WORDS")]
    pub(crate) grep: Option<String>,

    /// With a model whose name contains this
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// On the branch of that id or key
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,

    /// By the agent of that id or name
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,

    /// With any hash that begins with these digits
    #[arg(long, value_name = "PREFIX")]
    pub(crate) hash: Option<String>,

    /// Show every hash
    #[arg(long)]
    pub(crate) hashes: bool,
}

impl Log {
    /// Whether it says which ones are wanted.
    pub(crate) fn is_selective(&self) -> bool {
        let texts = [
            &self.since,
            &self.until,
            &self.grep,
            &self.model,
            &self.branch,
            &self.agent,
            &self.hash,
        ];
        texts.into_iter().any(Option::is_some)
    }
}

/// Show a conversation or an exchange
///
/// REF is an exchange's id, a conversation's id or friendly id, a reference to a message, or the first four or more digits of a conversation's id or of any hash;
/// REF/BRANCH is the last turn of a conversation's branch, REF~2 is two turns before it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk show 3f2a81c0                        the messages of a conversation
  ropewalk show react_optimization_83p6         the same by its friendly id
  ropewalk show 3f2a81c0~1                      the turn before its last
  ropewalk show 3f2a81c0 --tree                 all messages below those they follow, tools and subagents
  ropewalk show --tree --json SESSION           the same as /api/v1/sessions/SESSION/messages
  ropewalk show cc-task-0002 --raw response     the recorded bytes, nothing else
  ropewalk show 3f2a81c0 --answers              all answers to its last input, side by side")]
pub(crate) struct Show {
    #[arg(value_name = "REF")]
    pub(crate) reference: String,

    /// Every message below the one it follows: branches, tool operations, subagents. REF may also be a client's session id
    #[arg(long, conflicts_with = "raw")]
    pub(crate) tree: bool,

    /// All answers to the same input, across models and options, side by side
    #[arg(long, conflicts_with_all = ["raw", "tree"])]
    pub(crate) answers: bool,

    /// With --tree: name each message by its uuid
    #[arg(long, requires = "tree")]
    pub(crate) ids: bool,

    /// Write the recorded bytes to stdout
    #[arg(long, value_enum, value_name = "HALF")]
    pub(crate) raw: Option<RawHalf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RawHalf {
    Request,
    /// What the provider got in the request's place, if it got another
    Sent,
    Response,
}

/// Show who worked on a conversation, started by whom, with tokens and cost
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk tree                                 the newest conversations
  ropewalk tree --live                          again whenever something changes, until Ctrl-C
  ropewalk tree 3f2a81c0 --json")]
pub(crate) struct Tree {
    /// A conversation, or any exchange of it
    #[arg(value_name = "REF")]
    pub(crate) reference: Option<String>,

    /// Go on: draw it again on a terminal, add to the output elsewhere, whenever something changed
    #[arg(long)]
    pub(crate) live: bool,

    /// Without REF: how many conversations
    #[arg(short = 'n', value_name = "N", default_value_t = 10)]
    pub(crate) count: usize,
}

/// Show where two branches or exchanges part, and what became of each
///
/// A and B are exchanges, conversations (their last turn) or branches as CONVERSATION/BRANCH. Prints messages, tool calls and files
/// behind what both have in common, and what each cost from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk diff 3f2a81c0/main 3f2a81c0/branch_20260301100020
  ropewalk diff cc-edit-0002 cc-edit-0003
  ropewalk diff 3f2a81c0~4 3f2a81c0 --json | jq .files")]
pub(crate) struct Diff {
    #[arg(value_name = "A")]
    pub(crate) a: String,

    #[arg(value_name = "B")]
    pub(crate) b: String,
}

/// Say why an exchange is linked where it is, and what else it might have been
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk explain cc-task-0002
  ropewalk explain 3f2a81c0~3 --json
  ropewalk explain --cache cc-task-0002         why its prompt was not read from the provider's cache")]
pub(crate) struct Explain {
    /// An exchange; of a conversation the last turn
    #[arg(value_name = "EXCHANGE")]
    pub(crate) reference: String,

    /// What the provider could have read from its cache, what it did read, what broke the prompt first, and what that cost
    #[arg(long)]
    pub(crate) cache: bool,
}

/// Say which exchange brought each system block and each tool, and what it has cost since
///
/// Tokens and money of one part of a prompt are estimates, from its bytes and from what the provider's cache did with its place. Of
/// an agent type, a project or a client's version the newest thousand turns are looked at, and what is new among them is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk blame 3f2a81c0                       what is in force at a conversation's last turn
  ropewalk blame 3f2a81c0 --timeline            every change on the way there
  ropewalk blame --project site                 when prompts and tools changed in a project
  ropewalk blame --client claude-code/2.1.197 --json
  ropewalk blame --agent-type 0f3a9c1e22b4d587")]
pub(crate) struct Blame {
    /// An exchange; of a conversation the last turn
    #[arg(value_name = "REF", required_unless_present_any = ["agent_type", "project", "client"])]
    pub(crate) reference: Option<String>,

    /// Every change up to REF rather than what is in force there
    #[arg(long)]
    pub(crate) timeline: bool,

    /// The changes among agents of one type, by its whole hash
    #[arg(long, value_name = "HASH", conflicts_with_all = ["reference", "project", "client"])]
    pub(crate) agent_type: Option<String>,

    /// The changes in a project
    #[arg(long, value_name = "NAME", conflicts_with_all = ["reference", "client"])]
    pub(crate) project: Option<String>,

    /// The changes in what one version of a client sends
    #[arg(long, value_name = "NAME/VERSION", conflicts_with = "reference")]
    pub(crate) client: Option<String>,
}

/// Print what the proxy would add to a text with these references in it
///
/// REF is @conversation_ID_message_HASH, or an index from 1 in place of the hash; @conv_ID_msg_HASH is the same. What names nothing of
/// yours stays in a text as it is, and makes the exit code 1 here.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk resolve @conversation_react_optimization_83p6_message_m1hn4w
  ropewalk resolve @conv_react_optimization_83p6_msg_5 --json | jq -r .text")]
pub(crate) struct Resolve {
    #[arg(required = true, value_name = "REF")]
    pub(crate) references: Vec<String>,
}

/// How a recorded request is sent again.
#[derive(Debug, Args)]
pub(crate) struct Otherwise {
    /// The model that is to answer
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Another value of an option: JSON, or a text. Options of options with a dot. May be repeated
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub(crate) set: Vec<String>,

    /// Without an option that the request has. May be repeated
    #[arg(long = "unset", value_name = "OPTION")]
    pub(crate) unset: Vec<String>,

    /// The variable that has the provider's key [default: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY, GEMINI_API_KEY]
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,

    /// Where a provider is, as for `serve`
    #[arg(long = "upstream", value_name = "PROVIDER=URL", value_parser = upstream)]
    pub(crate) upstreams: Vec<(String, String)>,
}

/// Send a recorded request again, to another model or with other options
///
/// All of the request but what is asked for otherwise keeps its bytes. It goes through the server of this data folder if one runs, else through
/// one of its own, to the upstream that it went to, with the key that the environment has; the answer is recorded beside the one
/// there is, and `show REF --answers` shows both. A conversation is replayed at its last turn. Exit code 4 if the provider gives no answer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk replay react_optimization_83p6 --model claude-opus-4-5
  ropewalk replay @conv_react_optimization_83p6_msg_4 --model claude-haiku-4-5 --set temperature=0 --unset thinking
  ropewalk replay 7c3f~2 --model gpt-5.1 --dry-run | jq .")]
pub(crate) struct Replay {
    #[arg(value_name = "REF")]
    pub(crate) reference: String,

    #[command(flatten)]
    pub(crate) otherwise: Otherwise,

    /// Write the body that would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Find the turn from which on a check fails
///
/// Walks the turns that lead to REF as `git bisect run` walks commits: each step runs CMD with an answer on its standard input. Exit code 0 is
/// good, 1 to 124 is bad, 125 cannot be told; with any other, bisecting ends. The answers are the recorded ones; with
/// --model, --set or --unset each is asked for anew, and recorded. CMD finds ROPEWALK_EXCHANGE, the turn's, and
/// ROPEWALK_ANSWER, the answer's exchange, in its environment.
///
/// Exit code 0 if a turn was found, 1 if none was, 4 if a provider gives no answer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk bisect react_optimization_83p6 -- sh -c '! grep -q useMemo'
  ropewalk bisect react_optimization_83p6 --good 7c3f --model claude-haiku-4-5 -- ./still-answers-in-json")]
pub(crate) struct Bisect {
    /// The last turn, which should be bad
    #[arg(value_name = "REF")]
    pub(crate) reference: String,

    /// A turn before it that is known to be good [default: the first is tried]
    #[arg(long, value_name = "REF")]
    pub(crate) good: Option<String>,

    #[command(flatten)]
    pub(crate) otherwise: Otherwise,

    /// The check and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Give a conversation another title
///
/// Its friendly id stays, and so does every reference to it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk title react_optimization_83p6 How we made the list fast")]
pub(crate) struct Title {
    /// A conversation, or any exchange or message of it
    #[arg(value_name = "REF")]
    pub(crate) reference: String,

    #[arg(required = true, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
}

/// Find words in what users, models and tools said
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk search parser bug
  ropewalk search '\"off by one\"' -n 5")]
pub(crate) struct Search {
    /// Words, all of which must occur; a phrase in double quotes
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) words: Vec<String>,

    /// At most N hits
    #[arg(short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,

    /// Only answers of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// From then on: a time, a day, or how long ago (2h, 3d)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
}

/// Show everybody who saw a text: conversations, models, providers, exchanges
///
/// Finds where users, models and tools said it first, word by word and then byte by byte, and follows every request that sent it
/// again. Words in system prompts, tool lists and reminders are not looked for. The text is best given in a file: what stands on a
/// command line is seen by others. The exit code is 1 if nobody saw it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk spread 'the launch is on Friday'
  ropewalk spread --file leaked-key.txt --json | jq -r '.destinations[].name'
  pass show api/key | ropewalk spread --file -
  ropewalk spread --part 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8")]
pub(crate) struct Spread {
    /// Whole words, exactly as they were said
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "part"], conflicts_with_all = ["file", "part"])]
    pub(crate) text: Vec<String>,

    /// The text of a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "part")]
    pub(crate) file: Option<PathBuf>,

    /// The text of a part, by its SHA-256
    #[arg(long, value_name = "HASH")]
    pub(crate) part: Option<String>,

    /// At most N exchanges; --json has all
    #[arg(short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,
}

/// List conversations that are nearly the same, with a score
///
/// Such as one with an edited opening, or a passage that was copied into another. Compared by their words; what a client says to every
/// model does not count. Nothing is linked by it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk suggest
  ropewalk suggest --score 0.9 -n 100 --json | jq -r '[.a.conversation_id, .b.conversation_id] | @tsv'")]
pub(crate) struct Suggest {
    /// At most N pairs, the best
    #[arg(short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,

    /// What a pair must score
    #[arg(long, value_name = "0..1", default_value_t = 0.5, value_parser = share)]
    pub(crate) score: f64,
}

/// List prompts that recur, with the places that vary
///
/// Openings, and prompts in the middle of conversations. Tools and what clients add are not looked at.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk templates
  ropewalk templates --times 10 --json | jq -r .templates[].text")]
pub(crate) struct Templates {
    /// At most N templates, those that were said most
    #[arg(short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,

    /// How often a prompt must have been said
    #[arg(long, value_name = "TIMES", default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) times: u64,
}

/// Say whether messages were sent before, how much of them is known, and what was answered
///
/// FILE is a request as it would be sent to a provider (Messages, Chat Completions, Responses or Gemini), or `-` for standard input.
/// The messages decide how far it is known; an answer counts as one to exactly this if system prompt, tools and the options max_tokens,
/// stop_sequences, top_k and temperature 0 are the same too. The exit code is 1 if there is no such answer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk match request.json
  ropewalk match request.json --model claude-opus-4-8
  jq -n '{messages:[{role:\"user\",content:\"Capital of France?\"}]}' | ropewalk match - --json
  ropewalk match request.json --as-of 2026-11-01")]
pub(crate) struct Match {
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Only answers of this model count
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Whose format the request has
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,
}

/// Link everything again from what was recorded
///
/// With --as-of, says how the links of that time differ from those there are, and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ropewalk rebuild --dry-run
  ropewalk rebuild
  ropewalk rebuild --projections                after an update that hashes something otherwise
  ropewalk rebuild --as-of 2026-11-01")]
pub(crate) struct Rebuild {
    /// Say what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// First make the hashes and keys again that an older version made; when interrupted, the next run goes on
    #[arg(long)]
    pub(crate) projections: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Auto,
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

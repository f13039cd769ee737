//! What is sent again and again: the same tool result, the same file, the largest parts, and agents that only repeat themselves.
//!
//! A request sends its whole history, so a block is in every request of its stretch whose chain reaches it: how often it was sent is
//! counted from depths, and only the last request of a stretch is read. A block's tokens and money are its share of the request's bytes:
//! estimates, and said to be.

mod stretch;

use std::collections::{BTreeSet, HashMap, HashSet};

use ropewalk_core::cost::PriceTable;
use ropewalk_core::hash::{NodeHash, sha256};
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use serde::Serialize;
use utoipa::ToSchema;

use crate::view::{Directory, Result, View, usd, uuid_text};
use stretch::{Block, Sent, Stretch};

/// Contents that are remembered at once; those that were sent least are let go.
const CONTENTS_MAX: usize = 100_000;

/// Contents with fewer bytes are not worth a line.
const BYTES_MIN: usize = 200;

/// Calls of an agent that must be repetitions, in number and as a share.
const REPEATED_CALLS_MIN: usize = 3;
const REPEATED_SHARE_MIN: f64 = 0.5;

/// Characters of a content and of an argument that are given.
const EXCERPT_CHARS: usize = 120;
const ARGUMENT_CHARS: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Conversations that are looked at, the newest.
    pub conversations_max: usize,
    /// Lines of each list, the most expensive.
    pub given_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            conversations_max: 10_000,
            given_max: 10,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Waste {
    pub v: u32,
    pub owner: String,
    pub conversations: usize,
    /// Whether all conversations and all that they sent were looked at.
    pub is_all: bool,
    /// Requests that were looked at, and what went to models with them.
    pub exchanges: u64,
    pub tokens_sent: u64,
    pub sent_usd: f64,
    /// The same result of a tool, brought by several calls. Tokens and money are those of all but the first.
    pub results: Vec<Repeated>,
    /// The same file, brought by several calls, whatever was in it.
    pub files: Vec<Repeated>,
    /// The largest by tokens times sent. Tokens and money are those of every time.
    pub largest: Vec<Repeated>,
    pub agents: Vec<RepeatingAgent>,
}

/// Something that was sent more than once. Figures are estimates: shares of what requests cost.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Repeated {
    /// `user`, `assistant`, `tool_use` or `tool_result`.
    pub kind: &'static str,
    pub tool: Option<String>,
    /// The argument that tells most about the call, such as a file.
    pub argument: Option<String>,
    /// SHA-256 of the text; that of its part where it is stored as one.
    pub sha256: Option<String>,
    pub excerpt: String,
    pub conversations: usize,
    /// How many blocks brought it, and how many requests had one of them.
    pub brought: u64,
    pub sent: u64,
    pub tokens: u64,
    pub cost_usd: f64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RepeatingAgent {
    pub conversation_id: String,
    pub branch_id: Option<String>,
    pub name: Option<String>,
    pub calls: usize,
    /// Calls with the same arguments as one before.
    pub repeated_calls: usize,
    /// The call that was made most often.
    pub tool: String,
    pub argument: Option<String>,
    pub exchanges: u64,
    pub cost_usd: f64,
}

impl<S: Store> View<'_, S> {
    /// What was sent again and again.
    pub async fn waste(&self, prices: &(dyn PriceTable + Sync), settings: &Settings) -> Result<Waste> {
        let mut gathered = Gathered::default();
        let mut waste = Waste {
            v: 1,
            owner: self.owner_name.clone(),
            is_all: true,
            ..Waste::default()
        };
        let mut before = None;
        'all: while let Some((page, cursor)) = self.roots_before(before).await? {
            before = Some(cursor);
            for root in page {
                if waste.conversations == settings.conversations_max {
                    waste.is_all = false;
                    break 'all;
                }
                waste.conversations += 1;
                self.gather(root, prices, &mut gathered).await?;
            }
        }
        waste.is_all &= !gathered.is_cut;
        waste.exchanges = gathered.exchanges;
        waste.tokens_sent = gathered.sent.tokens as u64;
        waste.sent_usd = usd(gathered.sent.nano_usd as u64);
        waste.results = most_expensive(gathered.results.values().filter_map(Content::again), settings.given_max);
        waste.files = most_expensive(gathered.files.values().filter_map(Content::again), settings.given_max);
        waste.largest = most_expensive(
            gathered.contents.values().filter_map(Content::in_all),
            settings.given_max,
        );
        waste.agents = gathered.agents;
        waste.agents.sort_by(|a, b| {
            b.cost_usd
                .total_cmp(&a.cost_usd)
                .then(b.repeated_calls.cmp(&a.repeated_calls))
        });
        waste.agents.truncate(settings.given_max);
        Ok(waste)
    }

    async fn gather(
        &self,
        root: ExchangeNumber,
        prices: &(dyn PriceTable + Sync),
        gathered: &mut Gathered,
    ) -> Result<()> {
        let stretches = self.stretches_of(root, prices).await?;
        let mut agents: HashMap<ExchangeNumber, Calls> = HashMap::new();
        for stretch in &stretches {
            gathered.add(root, stretch);
            agents.entry(stretch.agent).or_default().add(stretch);
        }
        for (agent, calls) in agents {
            if let Some(repeating) = self.repeating(root, agent, &calls).await? {
                gathered.agents.push(repeating);
            }
        }
        gathered.let_go();
        Ok(())
    }

    /// An agent whose calls are repetitions for the most part.
    async fn repeating(
        &self,
        root: ExchangeNumber,
        agent: ExchangeNumber,
        calls: &Calls,
    ) -> Result<Option<RepeatingAgent>> {
        let repeated = calls.ids.len() - calls.made.len();
        let is_most = repeated as f64 >= calls.ids.len() as f64 * REPEATED_SHARE_MIN;
        if repeated < REPEATED_CALLS_MIN || !is_most {
            return Ok(None);
        }
        let most = calls.made.iter().max_by_key(|(call, times)| (**times, *call));
        let Some(((tool, _, argument), _)) = most else {
            return Ok(None);
        };
        let Some(conversation) = Directory::default().conversation(self, root).await? else {
            return Ok(None);
        };
        let branch = conversation.branches.get(&agent);
        let record = branch.and_then(|branch| branch.record.agent.as_ref());
        Ok(Some(RepeatingAgent {
            conversation_id: uuid_text(&conversation.row.id),
            branch_id: branch.map(|branch| branch.shown.clone()),
            name: record.and_then(|record| record.name.clone()),
            calls: calls.ids.len(),
            repeated_calls: repeated,
            tool: tool.clone(),
            argument: argument.clone(),
            exchanges: calls.exchanges,
            cost_usd: usd(calls.cost_nano_usd),
        }))
    }
}

/// What all conversations sent, so far.
#[derive(Debug, Default)]
struct Gathered {
    exchanges: u64,
    sent: Sent,
    contents: HashMap<[u8; 32], Content>,
    results: HashMap<[u8; 32], Content>,
    files: HashMap<[u8; 32], Content>,
    agents: Vec<RepeatingAgent>,
    is_cut: bool,
}

impl Gathered {
    fn add(&mut self, root: ExchangeNumber, stretch: &Stretch) {
        self.exchanges += stretch.exchanges;
        self.sent.add(stretch.sent);
        self.is_cut |= stretch.is_cut;
        for block in stretch.blocks.iter().filter(|block| block.text.len() >= BYTES_MIN) {
            let content = sha256(block.text.as_bytes());
            add_to(&mut self.contents, content, root, block);
            if block.kind == "tool_result" {
                add_to(&mut self.results, content, root, block);
                if let Some(file) = &block.file {
                    let name = sha256(file.as_bytes());
                    add_to(&mut self.files, name, root, block);
                }
            }
        }
    }

    /// Keeps what was sent most where there is too much to keep.
    fn let_go(&mut self) {
        for contents in [&mut self.contents, &mut self.results, &mut self.files] {
            if contents.len() > CONTENTS_MAX {
                self.is_cut = true;
                let mut tokens: Vec<f64> = contents.values().map(|content| content.all.tokens).collect();
                tokens.sort_by(f64::total_cmp);
                let middle = tokens[tokens.len() / 2];
                contents.retain(|_, content| content.all.tokens > middle);
            }
        }
    }
}

fn add_to(contents: &mut HashMap<[u8; 32], Content>, name: [u8; 32], root: ExchangeNumber, block: &Block) {
    let content = contents.entry(name).or_insert_with(|| Content {
        kind: block.kind,
        tool: block.tool.clone(),
        argument: block
            .argument
            .as_ref()
            .map(|text| text.chars().take(ARGUMENT_CHARS).collect()),
        sha256: sha256(block.text.as_bytes()),
        is_one_text: true,
        excerpt: block.text.trim_start().chars().take(EXCERPT_CHARS).collect(),
        conversations: BTreeSet::new(),
        places: HashSet::new(),
        first_place: (root, block.node),
        first: Sent::default(),
        all: Sent::default(),
    });
    content.is_one_text &= content.sha256 == sha256(block.text.as_bytes());
    content.conversations.insert(root);
    content.places.insert((root, block.node));
    if content.first_place == (root, block.node) {
        content.first.add(block.sent);
    }
    content.all.add(block.sent);
}

/// One content, or one file, wherever it stands.
#[derive(Debug)]
struct Content {
    kind: &'static str,
    tool: Option<String>,
    argument: Option<String>,
    sha256: [u8; 32],
    /// A file may have been read at several times.
    is_one_text: bool,
    excerpt: String,
    conversations: BTreeSet<ExchangeNumber>,
    places: HashSet<(ExchangeNumber, NodeHash)>,
    first_place: (ExchangeNumber, NodeHash),
    /// What the first block that brought it took.
    first: Sent,
    all: Sent,
}

impl Content {
    /// What was spent on bringing it again.
    fn again(&self) -> Option<Repeated> {
        let spent = Sent {
            times: self.all.times,
            tokens: self.all.tokens - self.first.tokens,
            nano_usd: self.all.nano_usd - self.first.nano_usd,
        };
        (self.places.len() > 1).then(|| self.shown(spent))
    }

    /// What was spent on it.
    fn in_all(&self) -> Option<Repeated> {
        (self.all.times > 1).then(|| self.shown(self.all))
    }

    fn shown(&self, spent: Sent) -> Repeated {
        Repeated {
            kind: self.kind,
            tool: self.tool.clone(),
            argument: self.argument.clone(),
            sha256: self.is_one_text.then(|| hex::encode(self.sha256)),
            excerpt: self.excerpt.clone(),
            conversations: self.conversations.len(),
            brought: self.places.len() as u64,
            sent: self.all.times,
            tokens: spent.tokens.max(0.0) as u64,
            cost_usd: usd(spent.nano_usd.max(0.0) as u64),
        }
    }
}

fn most_expensive(repeated: impl Iterator<Item = Repeated>, most: usize) -> Vec<Repeated> {
    let mut repeated: Vec<Repeated> = repeated.collect();
    repeated.sort_by(|a, b| {
        let by_cost = b.cost_usd.total_cmp(&a.cost_usd);
        by_cost.then(b.tokens.cmp(&a.tokens)).then(a.sha256.cmp(&b.sha256))
    });
    repeated.truncate(most);
    repeated
}

/// A call: tool, arguments, and the one that tells most.
type Call = (String, [u8; 32], Option<String>);

/// The calls of one agent.
#[derive(Debug, Default)]
struct Calls {
    /// Each call once, however often history repeats it.
    ids: HashSet<String>,
    made: HashMap<Call, usize>,
    exchanges: u64,
    cost_nano_usd: u64,
}

impl Calls {
    fn add(&mut self, stretch: &Stretch) {
        self.exchanges += stretch.exchanges;
        self.cost_nano_usd += stretch.cost_nano_usd;
        for block in stretch.blocks.iter().filter(|block| block.kind == "tool_use") {
            let (Some(tool), Some(id)) = (&block.tool, &block.call) else {
                continue;
            };
            if self.ids.insert(id.clone()) {
                let call = (tool.clone(), sha256(block.text.as_bytes()), block.argument.clone());
                *self.made.entry(call).or_default() += 1;
            }
        }
    }
}

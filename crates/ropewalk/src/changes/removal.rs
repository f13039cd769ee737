//! Removing: what a command asks for, and what went.

use ropewalk_engine::Recorders;
use ropewalk_engine::forget::{Counts, Drop, Plan};
use ropewalk_engine::view::View;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::forget::Forgotten;
use ropewalk_store::{Micros, Store as _};
use serde::{Deserialize, Serialize};

use crate::any_store::AnyStore;
use crate::failure::Failure;

/// What is to go.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Removal {
    /// What these name, for good.
    Named { references: Vec<String>, at: i64 },
    /// These conversations, by their roots, or what was said in them.
    Conversations { roots: Vec<i64>, only_bodies: bool },
    /// What nobody uses.
    Unused,
}

/// What went.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Removed {
    pub(crate) counts: Counts,
    pub(crate) went: Went,
}

/// As the store counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Went {
    pub(crate) parts: u64,
    pub(crate) part_bytes: u64,
    pub(crate) chunks: u64,
    pub(crate) nodes: u64,
    pub(crate) contexts: u64,
    pub(crate) texts: u64,
    pub(crate) names: u64,
    pub(crate) records: u64,
    pub(crate) pins: u64,
}

/// How large the store was and is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Shrunk {
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    pub(crate) leaves_copies: bool,
}

impl From<Forgotten> for Went {
    fn from(went: Forgotten) -> Self {
        Went {
            parts: went.parts,
            part_bytes: went.part_bytes,
            chunks: went.chunks,
            nodes: went.nodes,
            contexts: went.contexts,
            texts: went.texts,
            names: went.names,
            records: went.records,
            pins: went.pins,
        }
    }
}

impl Went {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Went::default()
    }
}

/// What a removal comes to.
pub(crate) async fn plan(view: &View<'_, AnyStore>, removal: &Removal) -> Result<Plan, Failure> {
    Ok(match removal {
        Removal::Named { references, at } => view.plan_forgetting(references, Micros(*at)).await?,
        Removal::Conversations { roots, only_bodies } => {
            let roots: Vec<ExchangeNumber> = roots.iter().copied().map(ExchangeNumber).collect();
            let drop = if *only_bodies { Drop::Bodies } else { Drop::All };
            view.plan_retention(&roots, drop).await?
        }
        Removal::Unused => Plan::default(),
    })
}

/// Removes it.
pub(crate) async fn remove(
    recorders: &mut Recorders<'_, AnyStore>,
    owner: &str,
    removal: &Removal,
) -> Result<Removed, Failure> {
    let store = recorders.store();
    let recorder = recorders.of(owner).await?;
    // What was recorded a moment ago has its place then.
    recorder.link().await?;
    let id = recorder.owner();
    if let Removal::Unused = removal {
        return Ok(Removed {
            counts: Counts::default(),
            went: store.sweep(id, false).await?.into(),
        });
    }
    let view = View::new(store, id, owner);
    let Plan { forgetting, counts } = plan(&view, removal).await?;
    // Whoever finds nothing to drop does not read everything to sweep it.
    if forgetting.is_nothing() {
        return Ok(Removed::default());
    }
    let went = store.forget(id, forgetting).await?;
    Ok(Removed {
        counts,
        went: went.into(),
    })
}

/// Leaves no copy of what was removed.
pub(crate) async fn shrink(store: &AnyStore) -> Result<Shrunk, Failure> {
    let compacted = store.compact().await?;
    Ok(Shrunk {
        bytes_before: compacted.bytes_before,
        bytes_after: compacted.bytes_after,
        leaves_copies: compacted.leaves_copies,
    })
}

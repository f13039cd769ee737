//! What a server drops by itself: as the configuration's rules say, soon after it started, whenever the rules change, and once a day.

use std::sync::Arc;

use ropewalk_engine::Recorders;
use ropewalk_engine::forget::Counts;
use ropewalk_engine::view::View;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::client::Changer;
use crate::changes::server::{Opened, Rules};
use crate::commands::forget::summary;
use crate::commands::retain::{chosen, drop_conversations};
use crate::config::Config;
use crate::config::retention::{RetainRule, Retention};
use crate::failure::Failure;
use crate::print::out::say;

/// Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Retaining {
    rules: watch::Sender<Retention>,
    task: JoinHandle<()>,
}

impl Drop for Retaining {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Retaining {
    pub(super) fn start(config: &Config, store: Opened, linking: Rules) -> Self {
        let (rules, changed) = watch::channel(config.serving.retain.clone());
        let task = tokio::spawn(keep_on(config.clone(), store, linking, changed));
        Retaining { rules, task }
    }

    /// Other rules, which are followed at once.
    pub(super) fn reload(&self, retention: Retention) {
        self.rules.send_if_modified(|known| {
            let is_other = *known != retention;
            *known = retention;
            is_other
        });
    }
}

async fn keep_on(config: Config, mut store: Opened, linking: Rules, mut rules: watch::Receiver<Retention>) {
    loop {
        let retention = rules.borrow_and_update().clone();
        if !retention.rules.is_empty() {
            let opened = store.wait_for(Option::is_some).await.map(|store| store.clone());
            let Ok(Some(opened)) = opened else { return };
            let (config, linking, rules) = (config.clone(), linking.clone(), retention.rules.clone());
            // Linking and sweeping keep a processor busy, so it is not done on the threads that accept.
            let applied = tokio::task::spawn_blocking(move || {
                let applying = apply(&config, &opened, &linking, &rules);
                tokio::runtime::Handle::current().block_on(applying)
            });
            if let Ok(Err(failure)) = applied.await {
                tracing::warn!(
                    error = failure.message(),
                    "retention failed, and is tried again next time"
                );
            }
        }
        tokio::select! {
            changed = rules.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(retention.every()) => {}
        }
    }
}

async fn apply(config: &Config, store: &Arc<AnyStore>, linking: &Rules, rules: &[RetainRule]) -> Result<(), Failure> {
    let recorders = Recorders::new(&**store, &*linking.prices, linking.linking, linking.spawn_tools.clone());
    let mut changer = Changer::Own(recorders);
    let mut dropped_some = false;
    for rule in rules {
        for (id, owner) in store.all_owners().await? {
            if rule.owner.as_ref().is_some_and(|asked| *asked != owner) {
                continue;
            }
            let roots = chosen(&View::new(&**store, id, &owner), &rule.wanted()).await?;
            let counts = drop_conversations(&mut changer, &owner, &roots, rule.drop).await?;
            if counts == Counts::default() {
                continue;
            }
            dropped_some = true;
            say(&format!("retention: dropped {} of owner {owner}", summary(&counts)));
            let detail = serde_json::json!({"drop": rule.drop.name(), "dropped": counts, "by": "serve"});
            audit::note(config, "retain", Some(&owner), None, detail);
        }
    }
    if dropped_some {
        changer.shrink().await?;
    }
    Ok(())
}

//! Names and pins, in maps.

use std::collections::{BTreeMap, BTreeSet};

use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names as Which, Pin, Taken};
use ropewalk_store::store::PAGE_MAX;

use super::derived::Derived;

#[derive(Debug, Default)]
pub(super) struct Names {
    names: BTreeMap<String, NameRow>,
    messages: BTreeMap<(ExchangeNumber, String), MessageName>,
    pins: BTreeMap<[u8; 32], String>,
    pub(super) named_to: Position,
}

impl Names {
    /// How many names and pins went.
    pub(super) fn forget(
        &mut self,
        removed: &BTreeSet<ExchangeNumber>,
        messages: &[(ExchangeNumber, String)],
        quoted: &[String],
    ) -> (u64, u64) {
        let names = self.names.len() + self.messages.len();
        let pins = self.pins.len();
        self.names.retain(|_, name| !removed.contains(&name.exchange));
        self.messages.retain(|name, message| {
            !removed.contains(&message.exchange) && !removed.contains(&message.name) && !messages.contains(name)
        });
        self.pins
            .retain(|_, outcome| !quoted.iter().any(|name| outcome.contains(name.as_str())));
        let left = self.names.len() + self.messages.len();
        ((names - left) as u64, (pins - self.pins.len()) as u64)
    }

    pub(super) fn save(&mut self, changes: NameChanges) -> Taken {
        let mut taken = Taken::default();
        for (place, new) in changes.names.into_iter().enumerate() {
            let exchange = new.name.exchange;
            let known = self.names.entry(new.name.friendly_id.clone()).or_insert(new.name);
            if known.exchange != exchange {
                taken.names.push(place);
            }
        }
        for (place, message) in changes.messages.into_iter().enumerate() {
            let name = (message.name, message.short_hash.clone());
            let node = message.node;
            if self.messages.entry(name).or_insert(message).node != node {
                taken.messages.push(place);
            }
        }
        for (exchange, title) in changes.titles {
            let named = self.names.values_mut().filter(|name| name.exchange == exchange);
            named.for_each(|name| name.title = Some(title.clone()));
        }
        self.named_to = changes.named_to.unwrap_or_default().max(self.named_to);
        taken
    }

    pub(super) fn names(&self, which: &Which, derived: &Derived) -> Vec<NameRow> {
        let in_order = |of: &dyn Fn(&NameRow) -> bool| {
            let mut found: Vec<NameRow> = self.names.values().filter(|name| of(name)).cloned().collect();
            found.sort();
            found
        };
        match which {
            Which::Ids(ids) => ids.iter().filter_map(|id| self.names.get(id).cloned()).collect(),
            Which::MintedFor(exchanges) => {
                let of = |exchange: &ExchangeNumber| in_order(&|name| name.exchange == *exchange);
                exchanges.iter().flat_map(of).collect()
            }
            Which::OfConversations(roots) => {
                let of =
                    |root: &ExchangeNumber| in_order(&|name| derived.conversation_of(name.exchange) == Some(*root));
                roots.iter().flat_map(of).collect()
            }
            Which::Beginning { prefix, after, limit } => {
                let behind = |name: &&NameRow| after.as_ref().is_none_or(|after| name.friendly_id > *after);
                let found = self.names.values().filter(|name| name.friendly_id.starts_with(prefix));
                found.filter(behind).take((*limit).min(PAGE_MAX)).cloned().collect()
            }
        }
    }

    pub(super) fn messages(&self, which: &MessageNames) -> Vec<MessageName> {
        match which {
            MessageNames::Named(names) => names
                .iter()
                .filter_map(|name| self.messages.get(name).cloned())
                .collect(),
            MessageNames::Of { name, after, limit } => {
                let of = |message: &&MessageName| {
                    message.name == *name && after.as_ref().is_none_or(|after| message.short_hash > *after)
                };
                let found = self.messages.values().filter(of);
                found.take((*limit).min(PAGE_MAX)).cloned().collect()
            }
        }
    }

    pub(super) fn pin(&mut self, pins: Vec<Pin>) -> Vec<Pin> {
        let keys: Vec<_> = pins.iter().map(|pin| pin.key).collect();
        for pin in pins {
            self.pins.entry(pin.key).or_insert(pin.outcome);
        }
        self.pins(&keys)
    }

    pub(super) fn pins(&self, keys: &[[u8; 32]]) -> Vec<Pin> {
        let found = keys.iter().filter_map(|key| {
            let outcome = self.pins.get(key)?.clone();
            Some(Pin { key: *key, outcome })
        });
        found.collect()
    }
}

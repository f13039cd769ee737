//! What an exchange cost.
//!
//! Sums are integers. Their unit is the nano-dollar, because one cached token costs less than a
//! micro-dollar and sums of rounded figures drift; prices per million tokens come out exact to a nano-dollar.
//!
//! Invariants: no price is made up. A model that no table knows has no cost; a figure that rests on a
//! price we are not sure of says `estimate`. Prices are those of the time at which the answer was served.

mod bundled;
mod overrides;

use std::fmt;

use jiff::Timestamp;

use crate::model::{Provider, Usage};

pub use bundled::{BundledPrices, context_window};
pub use overrides::{OverriddenPrices, PriceError, PriceOverride, Rates, Tier, UsdPerMillion};

const NANOS_PER_USD: u64 = 1_000_000_000;

/// An amount in billionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// Rounded to millionths of a dollar, half up.
    pub fn to_micros(self) -> u64 {
        self.0 / 1000 + u64::from(self.0 % 1000 >= 500)
    }

    /// For interfaces that count in dollars (`cost_usd`); never add these up.
    pub fn to_usd(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD as f64
    }

    /// `None` for what is no amount: negative, not finite, or beyond all money.
    fn from_usd(usd: f64) -> Option<Self> {
        let nanos = (usd * NANOS_PER_USD as f64).round();
        (nanos >= 0.0 && nanos < u64::MAX as f64).then_some(NanoUsd(nanos as u64))
    }
}

impl std::ops::Add for NanoUsd {
    type Output = NanoUsd;

    fn add(self, other: NanoUsd) -> NanoUsd {
        NanoUsd(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for NanoUsd {
    fn sum<I: Iterator<Item = NanoUsd>>(amounts: I) -> NanoUsd {
        amounts.fold(NanoUsd(0), |sum, amount| sum + amount)
    }
}

/// Dollars with all nine places.
impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / NANOS_PER_USD, self.0 % NANOS_PER_USD)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub amount: NanoUsd,
    /// Some price that belongs here is not known, or the tokens are not final.
    pub estimate: bool,
}

/// What was served, as far as prices depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served<'a> {
    pub provider: Provider,
    /// The model that answered, rather than the one that was asked for.
    pub model: &'a str,
    pub at: Timestamp,
    /// As the response reports it: `flex`, `priority`, `batch`, … `None` and the standard names are standard.
    pub service_tier: Option<&'a str>,
    /// The provider's last word on the tokens; not so after a stream was cut off.
    pub usage_is_final: bool,
}

impl<'a> Served<'a> {
    /// A tier that is priced apart, if there is one.
    fn special_tier(&self) -> Option<&'a str> {
        self.service_tier
            .filter(|tier| !matches!(*tier, "" | "default" | "standard"))
    }
}

/// Where prices come from.
pub trait PriceTable {
    /// `None` if the model is not known.
    fn price(&self, served: &Served<'_>, usage: &Usage) -> Option<Cost>;
}

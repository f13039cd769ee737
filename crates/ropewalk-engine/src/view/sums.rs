//! What exchanges add up to: tokens, cost, and what was answered from the store.

use ropewalk_store::store::Spent;
use serde::Serialize;
use utoipa::ToSchema;

use crate::reuse::Standing;
use crate::view::usd;

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Sums {
    pub exchanges: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    /// For five minutes and for an hour together.
    pub cache_write_tokens: u64,
    pub cache_write_1h_tokens: u64,
    pub reasoning_tokens: u64,
    #[serde(skip)]
    cost_nano_usd: u64,
    pub cost_usd: f64,
    /// Of one exchange at least; one whose cost is not known is not in the sum.
    pub cost_is_estimate: bool,
    pub reuse: Reused,
}

/// What was answered from the store: counted among the exchanges, and in no other sum.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Reused {
    pub hits: u64,
    /// Calls that reuse was asked for and that a provider answered.
    pub misses: u64,
    /// Of those that reuse was asked for.
    pub hit_rate: Option<f64>,
    pub saved_input_tokens: u64,
    pub saved_output_tokens: u64,
    #[serde(skip)]
    saved_nano_usd: u64,
    pub saved_usd: f64,
    pub saved_is_estimate: bool,
}

impl Reused {
    fn add(&mut self, detail: &str) {
        let saved = match Standing::of_detail(detail) {
            Standing::None => return,
            Standing::Stored => {
                self.misses += 1;
                return self.sum_up();
            }
            Standing::Hit(saved) => saved,
        };
        self.hits += 1;
        self.saved_input_tokens += saved.input_tokens + saved.cache_read_tokens + saved.cache_write_tokens;
        self.saved_output_tokens += saved.output_tokens;
        self.saved_nano_usd += saved.cost_nano_usd;
        self.saved_is_estimate |= saved.cost_is_estimate;
        self.sum_up();
    }

    fn merge(&mut self, other: &Reused) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.saved_input_tokens += other.saved_input_tokens;
        self.saved_output_tokens += other.saved_output_tokens;
        self.saved_nano_usd += other.saved_nano_usd;
        self.saved_is_estimate |= other.saved_is_estimate;
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let asked = self.hits + self.misses;
        self.hit_rate = (asked > 0).then(|| self.hits as f64 / asked as f64);
        self.saved_usd = usd(self.saved_nano_usd);
    }
}

impl Sums {
    pub fn add(&mut self, spent: &Spent) {
        self.exchanges += 1;
        self.reuse.add(&spent.detail);
        if let Some(usage) = &spent.usage {
            self.input_tokens += usage.input_tokens;
            self.output_tokens += usage.output_tokens;
            self.cache_read_tokens += usage.cache_read_tokens;
            self.cache_write_tokens += usage.cache_write_tokens;
            self.cache_write_1h_tokens += usage.cache_write_1h_tokens;
            self.reasoning_tokens += usage.reasoning_tokens;
        }
        self.cost_nano_usd += spent.cost_nano_usd.unwrap_or(0);
        self.cost_usd = usd(self.cost_nano_usd);
        self.cost_is_estimate |= spent.cost_is_estimate || (spent.usage.is_some() && spent.cost_nano_usd.is_none());
    }

    pub fn merge(&mut self, other: &Sums) {
        self.exchanges += other.exchanges;
        self.reuse.merge(&other.reuse);
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.cache_write_1h_tokens += other.cache_write_1h_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cost_nano_usd += other.cost_nano_usd;
        self.cost_usd = usd(self.cost_nano_usd);
        self.cost_is_estimate |= other.cost_is_estimate;
    }
}

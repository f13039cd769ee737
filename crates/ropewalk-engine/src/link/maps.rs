//! Maps and sets of what is linked.
//!
//! Numbers and hashes are looked for some hundred times for each exchange, and the standard library's hasher takes longer for one than most of what is
//! done with what is found. This one has a seed of the process's own as well, so whoever chooses hashes cannot fill one place.

pub(super) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
pub(super) type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;

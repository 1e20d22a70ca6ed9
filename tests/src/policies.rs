//! Values of `maxmemory-policy`.

/// All that evict.
pub const POLICIES: &[&str] = &[
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "allkeys-lrm",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "volatile-lrm",
];

//! The thresholds of encodings, read by every command that may cross one.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use onrush_store::{ListLimits, PairLimits, SetLimits, StreamLimits};

use crate::config::Config;

/// The thresholds as atomics beside the configuration.
#[derive(Default)]
pub struct Encodings {
    list_listpack_size: AtomicI64,
    set_intset_entries: AtomicUsize,
    set_listpack_entries: AtomicUsize,
    set_listpack_value: AtomicUsize,
    hash_listpack_entries: AtomicUsize,
    hash_listpack_value: AtomicUsize,
    zset_listpack_entries: AtomicUsize,
    zset_listpack_value: AtomicUsize,
    stream_node_bytes: AtomicUsize,
    stream_node_entries: AtomicUsize,
    hll_sparse_bytes: AtomicUsize,
}

impl Encodings {
    /// Takes over the settings of a changed configuration.
    pub fn refresh(&self, config: &Config) {
        self.list_listpack_size.store(config.list_max_listpack_size, Relaxed);
        for (to, from) in [
            (&self.set_intset_entries, config.set_max_intset_entries),
            (&self.set_listpack_entries, config.set_max_listpack_entries),
            (&self.set_listpack_value, config.set_max_listpack_value),
            (&self.hash_listpack_entries, config.hash_max_listpack_entries),
            (&self.hash_listpack_value, config.hash_max_listpack_value),
            (&self.zset_listpack_entries, config.zset_max_listpack_entries),
            (&self.zset_listpack_value, config.zset_max_listpack_value),
            (&self.stream_node_bytes, config.stream_node_max_bytes),
            (&self.stream_node_entries, config.stream_node_max_entries),
            (&self.hll_sparse_bytes, config.hll_sparse_max_bytes),
        ] {
            to.store(from as usize, Relaxed);
        }
    }

    /// `list-max-listpack-size`.
    #[inline]
    pub fn list(&self) -> ListLimits {
        ListLimits { listpack_size: self.list_listpack_size.load(Relaxed) as i32 }
    }

    /// `set-max-*`.
    #[inline]
    pub fn set(&self) -> SetLimits {
        SetLimits {
            intset_entries_max: self.set_intset_entries.load(Relaxed),
            listpack_entries_max: self.set_listpack_entries.load(Relaxed),
            listpack_value_len_max: self.set_listpack_value.load(Relaxed),
        }
    }

    /// `hash-max-listpack-*`.
    #[inline]
    pub fn hash(&self) -> PairLimits {
        PairLimits {
            listpack_entries_max: self.hash_listpack_entries.load(Relaxed),
            listpack_value_len_max: self.hash_listpack_value.load(Relaxed),
        }
    }

    /// `zset-max-listpack-*`.
    #[inline]
    pub fn sorted_set(&self) -> PairLimits {
        PairLimits {
            listpack_entries_max: self.zset_listpack_entries.load(Relaxed),
            listpack_value_len_max: self.zset_listpack_value.load(Relaxed),
        }
    }

    /// `stream-node-max-*`.
    #[inline]
    pub fn stream(&self) -> StreamLimits {
        StreamLimits {
            node_bytes_max: self.stream_node_bytes.load(Relaxed),
            node_entries_max: self.stream_node_entries.load(Relaxed),
        }
    }

    /// `hll-sparse-max-bytes`.
    #[inline]
    pub fn hll_sparse_bytes_max(&self) -> usize {
        self.hll_sparse_bytes.load(Relaxed)
    }
}

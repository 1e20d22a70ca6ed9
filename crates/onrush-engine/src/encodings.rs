//! The thresholds of encodings, read by every command that may cross one.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use onrush_store::{ListLimits, PairLimits, SetLimits, StreamLimits};

/// The thresholds.
#[derive(Clone, Copy, Debug)]
pub struct EncodingLimits {
    /// `list-max-listpack-size`.
    pub list: ListLimits,
    /// `set-max-*`.
    pub set: SetLimits,
    /// `hash-max-listpack-*`.
    pub hash: PairLimits,
    /// `zset-max-listpack-*`.
    pub sorted_set: PairLimits,
    /// `stream-node-max-*`.
    pub stream: StreamLimits,
    /// `hll-sparse-max-bytes`.
    pub hll_sparse_bytes_max: usize,
}

impl Default for EncodingLimits {
    /// Redis's.
    fn default() -> Self {
        Self {
            list: ListLimits::default(),
            set: SetLimits::default(),
            hash: PairLimits::HASH,
            sorted_set: PairLimits::SORTED_SET,
            stream: StreamLimits::default(),
            hll_sparse_bytes_max: 3000,
        }
    }
}

/// The thresholds as atomics.
#[derive(Default)]
pub(crate) struct Encodings {
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
    /// Takes over changed thresholds.
    pub(crate) fn store(&self, limits: &EncodingLimits) {
        let EncodingLimits { list, set, hash, sorted_set, stream, hll_sparse_bytes_max } = *limits;
        self.list_listpack_size.store(list.listpack_size.into(), Relaxed);
        for (to, from) in [
            (&self.set_intset_entries, set.intset_entries_max),
            (&self.set_listpack_entries, set.listpack_entries_max),
            (&self.set_listpack_value, set.listpack_value_len_max),
            (&self.hash_listpack_entries, hash.listpack_entries_max),
            (&self.hash_listpack_value, hash.listpack_value_len_max),
            (&self.zset_listpack_entries, sorted_set.listpack_entries_max),
            (&self.zset_listpack_value, sorted_set.listpack_value_len_max),
            (&self.stream_node_bytes, stream.node_bytes_max),
            (&self.stream_node_entries, stream.node_entries_max),
            (&self.hll_sparse_bytes, hll_sparse_bytes_max),
        ] {
            to.store(from, Relaxed);
        }
    }

    /// `list-max-listpack-size`.
    #[inline]
    pub(crate) fn list(&self) -> ListLimits {
        ListLimits { listpack_size: self.list_listpack_size.load(Relaxed) as i32 }
    }

    /// `set-max-*`.
    #[inline]
    pub(crate) fn set(&self) -> SetLimits {
        SetLimits {
            intset_entries_max: self.set_intset_entries.load(Relaxed),
            listpack_entries_max: self.set_listpack_entries.load(Relaxed),
            listpack_value_len_max: self.set_listpack_value.load(Relaxed),
        }
    }

    /// `hash-max-listpack-*`.
    #[inline]
    pub(crate) fn hash(&self) -> PairLimits {
        PairLimits {
            listpack_entries_max: self.hash_listpack_entries.load(Relaxed),
            listpack_value_len_max: self.hash_listpack_value.load(Relaxed),
        }
    }

    /// `zset-max-listpack-*`.
    #[inline]
    pub(crate) fn sorted_set(&self) -> PairLimits {
        PairLimits {
            listpack_entries_max: self.zset_listpack_entries.load(Relaxed),
            listpack_value_len_max: self.zset_listpack_value.load(Relaxed),
        }
    }

    /// `stream-node-max-*`.
    #[inline]
    pub(crate) fn stream(&self) -> StreamLimits {
        StreamLimits {
            node_bytes_max: self.stream_node_bytes.load(Relaxed),
            node_entries_max: self.stream_node_entries.load(Relaxed),
        }
    }

    /// `hll-sparse-max-bytes`.
    #[inline]
    pub(crate) fn hll_sparse_bytes_max(&self) -> usize {
        self.hll_sparse_bytes.load(Relaxed)
    }
}

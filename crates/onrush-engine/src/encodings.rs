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
    set: Listpack,
    hash: Listpack,
    sorted_set: Listpack,
    stream_node_bytes: AtomicUsize,
    stream_node_entries: AtomicUsize,
    hll_sparse_bytes: AtomicUsize,
}

/// The thresholds of a listpack as atomics.
#[derive(Default)]
struct Listpack {
    entries: AtomicUsize,
    value: AtomicUsize,
}

impl Listpack {
    fn store(&self, entries_max: usize, value_len_max: usize) {
        let (entries_max, value_len_max) = small_limits(entries_max, value_len_max);
        self.entries.store(entries_max, Relaxed);
        self.value.store(value_len_max, Relaxed);
    }

    #[inline]
    fn load(&self) -> PairLimits {
        PairLimits {
            listpack_entries_max: self.entries.load(Relaxed),
            listpack_value_len_max: self.value.load(Relaxed),
        }
    }
}

/// Most integers of an intset, whatever the configuration allows: 2 GB.
const INTSET_ENTRIES_MAX: usize = 1 << 28;

/// Most bytes of a value in a listpack, and of a whole listpack, whatever the configuration allows: payloads and RDB files
/// have the length of a listpack in 32 bits.
const LISTPACK_VALUE_LEN_MAX: usize = 1 << 20;
const LISTPACK_BYTES_MAX: usize = 1 << 31;

/// More bytes than stand around a value in a listpack.
const AROUND_VALUE_BYTES: usize = 32;

/// The limits of entries and of the bytes of a value in effect; an entry has two values at most.
fn small_limits(entries_max: usize, value_len_max: usize) -> (usize, usize) {
    let value_len_max = value_len_max.min(LISTPACK_VALUE_LEN_MAX);
    let entry_bytes = 2 * (value_len_max + AROUND_VALUE_BYTES);
    (entries_max.min(LISTPACK_BYTES_MAX / entry_bytes), value_len_max)
}

impl Encodings {
    /// Takes over changed thresholds.
    pub(crate) fn store(&self, limits: &EncodingLimits) {
        let EncodingLimits { list, set, hash, sorted_set, stream, hll_sparse_bytes_max } = *limits;
        self.list_listpack_size.store(list.listpack_size.into(), Relaxed);
        self.set_intset_entries.store(set.intset_entries_max.min(INTSET_ENTRIES_MAX), Relaxed);
        self.set.store(set.listpack_entries_max, set.listpack_value_len_max);
        self.hash.store(hash.listpack_entries_max, hash.listpack_value_len_max);
        self.sorted_set.store(sorted_set.listpack_entries_max, sorted_set.listpack_value_len_max);
        self.stream_node_bytes.store(stream.node_bytes_max, Relaxed);
        self.stream_node_entries.store(stream.node_entries_max, Relaxed);
        self.hll_sparse_bytes.store(hll_sparse_bytes_max, Relaxed);
    }

    /// `list-max-listpack-size`.
    #[inline]
    pub(crate) fn list(&self) -> ListLimits {
        ListLimits { listpack_size: self.list_listpack_size.load(Relaxed) as i32 }
    }

    /// `set-max-*`.
    #[inline]
    pub(crate) fn set(&self) -> SetLimits {
        let PairLimits { listpack_entries_max, listpack_value_len_max } = self.set.load();
        let intset_entries_max = self.set_intset_entries.load(Relaxed);
        SetLimits { intset_entries_max, listpack_entries_max, listpack_value_len_max }
    }

    /// `hash-max-listpack-*`.
    #[inline]
    pub(crate) fn hash(&self) -> PairLimits {
        self.hash.load()
    }

    /// `zset-max-listpack-*`.
    #[inline]
    pub(crate) fn sorted_set(&self) -> PairLimits {
        self.sorted_set.load()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_listpack_grows_beyond_what_its_length_can_say() {
        assert_eq!(small_limits(512, 64), (512, 64));
        assert_eq!(small_limits(1000, 1 << 20), (1000, 1 << 20));
        for (entries, value) in [(usize::MAX, 0), (usize::MAX, 64), (usize::MAX, usize::MAX), (1 << 40, 1 << 30)] {
            let (entries, value) = small_limits(entries, value);
            assert!(entries * 2 * (value + AROUND_VALUE_BYTES) <= LISTPACK_BYTES_MAX, "{entries} of {value} bytes");
            assert!(entries > 1_000 && value <= LISTPACK_VALUE_LEN_MAX, "{entries} of {value} bytes");
        }
    }
}

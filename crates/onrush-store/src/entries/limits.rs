//! Limits of collections' small forms.

/// Of a list (`list-max-listpack-size`): elements per node if positive, else -1 to -5 for 4, 8, 16, 32 or 64 KB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// The directive's value.
    pub listpack_size: i32,
}

/// Of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// `set-max-intset-entries`.
    pub intset_entries_max: usize,
    /// `set-max-listpack-entries`.
    pub listpack_entries_max: usize,
    /// `set-max-listpack-value` in bytes.
    pub listpack_value_len_max: usize,
}

/// Of a hash, or of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLimits {
    /// `hash-max-listpack-entries`, `zset-max-listpack-entries`.
    pub listpack_entries_max: usize,
    /// `hash-max-listpack-value`, `zset-max-listpack-value` in bytes.
    pub listpack_value_len_max: usize,
}

/// Of a stream's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// `stream-node-max-bytes`; 0 is no limit.
    pub node_bytes_max: usize,
    /// `stream-node-max-entries`; 0 is no limit.
    pub node_entries_max: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        ListLimits { listpack_size: -2 }
    }
}

impl Default for SetLimits {
    fn default() -> Self {
        SetLimits { intset_entries_max: 512, listpack_entries_max: 128, listpack_value_len_max: 64 }
    }
}

impl SetLimits {
    /// Whether this many members are too many for any small form.
    pub(crate) fn are_exceeded_by(&self, len: usize) -> bool {
        len > self.intset_entries_max.max(self.listpack_entries_max)
    }
}

impl PairLimits {
    /// Redis's defaults for hashes.
    pub const HASH: Self = PairLimits { listpack_entries_max: 512, listpack_value_len_max: 64 };

    /// Redis's defaults for sorted sets.
    pub const SORTED_SET: Self = PairLimits { listpack_entries_max: 128, listpack_value_len_max: 64 };
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits { node_bytes_max: 4096, node_entries_max: 100 }
    }
}

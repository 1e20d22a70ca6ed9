//! Key hashes: where a key lives.

use std::hash::{BuildHasher, Hasher as _};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// Bits of a [`KeyHash`] that choose the shard.
pub(crate) const SHARD_BITS: u32 = 14;

/// The most shards a database can have.
pub const SHARDS_MAX: usize = 1 << SHARD_BITS;

/// The hash of a key under one keyspace's [`Hasher`].
///
/// From the top: 14 bits of shard, 32 bits of position within the shard, and in the low byte the tag that a bucket
/// keeps beside each entry. The three do not overlap, so keys of one shard, or of one bucket, still differ in the other
/// bits.
///
/// In a cluster the shard bits will be the key's cluster slot, of which there are 16,384 as well; only [`Hasher::hash`]
/// makes them. Hashes differ from process to process: nothing that outlives a process may depend on them or on their
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// All bits, for the caller's own tables.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Index of the shard among `SHARDS_MAX`; fewer shards use the upper bits of it.
    #[inline]
    pub(crate) fn shard_bits(self) -> usize {
        (self.0 >> (64 - SHARD_BITS)) as usize
    }

    /// Position within the shard: buckets divide the range of `u32` evenly, and scan cursors point into it.
    #[inline]
    pub fn position(self) -> u32 {
        (self.0 >> (32 - SHARD_BITS)) as u32
    }

    /// Never zero: zero stands for an empty place in a bucket.
    #[inline]
    pub(crate) fn tag(self) -> u8 {
        let tag = self.0 as u8;
        tag | u8::from(tag == 0)
    }
}

/// Hashes keys with a seed that an attacker cannot know. Small and `Copy`: every shard's table has one, because growing
/// a table hashes its keys again.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    /// Bit 0 says which of the two process-wide seeds it is mixed with.
    seed: u64,
}

const REPRODUCIBLE: u64 = 1;

impl Hasher {
    /// A hasher that differs in every process and every call.
    pub fn random() -> Self {
        let seed = std::collections::hash_map::RandomState::new().hash_one(0u64);
        Hasher { seed: seed & !REPRODUCIBLE }
    }

    /// A hasher that is the same in every run, for tests and measurements. Bit 0 of `seed` is not used.
    pub fn seeded(seed: u64) -> Self {
        Hasher { seed: seed | REPRODUCIBLE }
    }

    /// Hashes a key. O(length), a few nanoseconds for a short key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let shared =
            if self.seed & REPRODUCIBLE == 0 { SharedSeed::global_random() } else { SharedSeed::global_fixed() };
        let mut hasher = FoldHasher::with_seed(self.seed, shared);
        hasher.write(key);
        KeyHash(hasher.finish())
    }
}

/// The hash of a member or field within its collection. An attacker cannot know it; it stays the same for the whole
/// process. O(length), a few nanoseconds for a short one.
#[inline]
pub fn member_hash(member: &[u8]) -> u64 {
    /// Separate from the seeds of keyspaces.
    const SEED: u64 = 0x6d65_6d62_6572_2e2e;
    let mut hasher = FoldHasher::with_seed(SEED, SharedSeed::global_random());
    hasher.write(member);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_hasher_repeats_itself_and_a_random_one_does_not() {
        let key = b"key:000001";
        assert_eq!(Hasher::seeded(2).hash(key), Hasher::seeded(2).hash(key));
        assert_ne!(Hasher::seeded(2).hash(key), Hasher::seeded(4).hash(key));
        assert_ne!(Hasher::random().hash(key), Hasher::random().hash(key));
    }

    #[test]
    fn shard_position_and_tag_take_separate_bits() {
        let hash = KeyHash(0x8003_ffff_fffc_0000);
        assert_eq!(hash.shard_bits(), 0x2000);
        assert_eq!(hash.position(), u32::MAX);
        assert_eq!(hash.tag(), 1);
        assert_eq!(KeyHash(0xff).position(), 0);
        assert_eq!(KeyHash(0xff).tag(), 0xff);
    }
}

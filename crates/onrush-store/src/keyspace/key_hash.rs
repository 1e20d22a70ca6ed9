//! Key hashes: where a key lives.

use std::hash::{BuildHasher, Hasher as _};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use onrush_cluster::slots::slot;

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
/// In a cluster the shard bits are the key's slot, of which there are 16,384 as well; only [`Hasher::hash`] makes them.
/// Hashes differ from process to process: nothing that outlives a process may depend on them or on their
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

    /// The key's slot, if its [`Hasher`] is one of a cluster.
    #[inline]
    pub fn slot(self) -> u16 {
        self.shard_bits() as u16
    }

    /// The rest of it moves down: a hash has some more bits than are needed.
    #[inline]
    fn in_shard(self, shard: u16) -> Self {
        Self(u64::from(shard) << (64 - SHARD_BITS) | self.0 >> SHARD_BITS)
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
    /// Bit 0 says which of the two process-wide seeds it is mixed with, bit 1 whether keys belong to slots.
    seed: u64,
}

const REPRODUCIBLE: u64 = 1;
const BY_SLOT: u64 = 2;

impl Hasher {
    /// A hasher that differs in every process and every call.
    pub fn random() -> Self {
        let seed = std::collections::hash_map::RandomState::new().hash_one(0u64);
        Hasher { seed: seed & !(REPRODUCIBLE | BY_SLOT) }
    }

    /// A hasher that is the same in every run, for tests and measurements. Bits 0 and 1 of `seed` are not used.
    pub fn seeded(seed: u64) -> Self {
        Hasher { seed: (seed | REPRODUCIBLE) & !BY_SLOT }
    }

    /// The same, but the shard of a key is its slot in a cluster.
    pub fn by_slot(self) -> Self {
        Hasher { seed: self.seed | BY_SLOT }
    }

    /// Hashes a key. O(length), a few nanoseconds for a short key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.hash_evenly(key);
        if self.seed & BY_SLOT == 0 { hash } else { hash.in_shard(slot(key)) }
    }

    #[inline]
    fn hash_evenly(&self, key: &[u8]) -> KeyHash {
        let shared =
            if self.seed & REPRODUCIBLE == 0 { SharedSeed::global_random() } else { SharedSeed::global_fixed() };
        let mut hasher = FoldHasher::with_seed(self.seed & !BY_SLOT, shared);
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
    fn in_a_cluster_the_shard_is_the_slot_and_the_rest_differs_as_before() {
        let hasher = Hasher::seeded(3).by_slot();
        let (one, other) = (hasher.hash(b"{user1000}.following"), hasher.hash(b"{user1000}.followers"));
        assert_eq!((one.slot(), other.slot()), (3443, 3443));
        assert_ne!((one.position(), one.tag()), (other.position(), other.tag()));
        assert_eq!(
            Hasher::seeded(3).hash(b"a").bits() >> SHARD_BITS,
            hasher.hash(b"a").bits() << SHARD_BITS >> SHARD_BITS
        );
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

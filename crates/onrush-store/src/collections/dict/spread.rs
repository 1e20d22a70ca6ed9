//! How a table spreads its records: from the hash of a key to the one that places it.
//!
//! All tables begin with the same hash, so that keys read from one table in order are in order for another table as
//! well. But then keys that were chosen by that hash, for example a part of a large set in the order of a scan, share
//! the upper bits, which alone choose the segment. Such a table changes to a hash of its own.

use std::hash::{BuildHasher, RandomState};

/// The hash that places records in one table.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// The shared hash is multiplied by it: one for most tables, else a random odd number. The upper bits of the
    /// product depend on all bits of the hash.
    factor: u64,
    /// Hashes keys again, where even the product leaves them together.
    own: Option<RandomState>,
}

impl Spread {
    /// The hash that all tables begin with.
    pub(super) const SHARED: Spread = Spread { factor: 1, own: None };

    /// How many other spreads came before this one: at most 2.
    pub(super) fn number(&self) -> u8 {
        match self {
            Spread { own: Some(_), .. } => 2,
            Spread { factor: 1, .. } => 0,
            _ => 1,
        }
    }

    /// Another spread, for keys that this one leaves together; `None` after the last.
    pub(super) fn next(&self) -> Option<Spread> {
        let state = RandomState::new();
        match self.number() {
            0 => Some(Spread { factor: state.hash_one(0) | 3, own: None }),
            1 => Some(Spread { factor: self.factor, own: Some(state) }),
            _ => None,
        }
    }

    /// The hash that places a key.
    #[inline]
    pub(super) fn of_key(&self, key: &[u8]) -> u64 {
        self.of_hashed(shared_hash(key), key)
    }

    /// As [`Spread::of_key`], with the shared hash of the key.
    #[inline]
    pub(super) fn of_hashed(&self, hash: u64, key: &[u8]) -> u64 {
        match &self.own {
            None => hash.wrapping_mul(self.factor),
            Some(own) => own.hash_one(key),
        }
    }

    /// The likely placing hash of a key with this shared hash: good enough to prefetch.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> u64 {
        hash.wrapping_mul(self.factor)
    }
}

#[cfg(not(test))]
use crate::member_hash as shared_hash;

/// Keys that begin like this have the same hash in tests.
#[cfg(test)]
pub(super) const COLLIDING: &[u8] = b"colliding:";

#[cfg(test)]
fn shared_hash(key: &[u8]) -> u64 {
    if key.starts_with(COLLIDING) { 0x0123_4567_89ab_cdef } else { crate::member_hash(key) }
}

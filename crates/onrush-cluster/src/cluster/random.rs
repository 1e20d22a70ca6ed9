//! Random numbers from a seed (SplitMix64).

use crate::node::{NODE_ID_LEN, NodeId};

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// The name of a new node or shard.
    pub(super) fn id(&mut self) -> NodeId {
        let mut digits = [0; NODE_ID_LEN];
        for chunk in digits.chunks_mut(16) {
            let mut bits = self.next();
            for digit in chunk {
                *digit = b"0123456789abcdef"[(bits % 16) as usize];
                bits /= 16;
            }
        }
        NodeId::from_bytes(&digits).unwrap_or(NodeId::ZERO)
    }
}

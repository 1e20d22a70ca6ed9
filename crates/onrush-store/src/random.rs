//! A stream of random numbers from a seed that the caller has drawn.

/// SplitMix64: enough to sample with, from a single seed. <https://prng.di.unimi.it/splitmix64.c>
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream that is the same for the same seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "the stream has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next() as u128 * bound as u128) >> 64) as usize
    }
}

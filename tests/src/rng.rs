//! A small seeded random number generator (SplitMix64): the same seed gives the same run on every machine.

/// A seeded generator. Not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that will always produce the sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`. `bound` must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "an empty range has no numbers");
        (self.next_u64() % bound as u64) as usize
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high);
        low + (self.next_u64() % ((high - low) as u64 + 1)) as i64
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }

    /// One of the items. `items` must not be empty.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &'a [&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// Cuts `bytes` at random places into pieces, most of them short.
    pub fn cut<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let len_max = if self.percent(20) { 4096 } else { 24 };
            let len = (1 + self.below(len_max)).min(rest.len());
            let (piece, tail) = rest.split_at(len);
            pieces.push(piece);
            rest = tail;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for _ in 0..100 {
            assert_eq!(a.next_u64(), b.next_u64());
        }
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn cutting_keeps_every_byte_in_order() {
        let bytes: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        let pieces = Rng::new(1).cut(&bytes);
        assert!(pieces.len() > 1);
        assert_eq!(pieces.concat(), bytes);
    }
}

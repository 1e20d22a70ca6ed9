//! Digests: sums of what is mixed into them.
//!
//! Not for secrets: nothing keeps two different data sets made for it from having one digest.

use std::fmt;

use onrush_store::StreamId;

/// Words of 32 bits in a digest, which is shown as 40 hexadecimal digits.
const WORDS: usize = 5;

/// A digest; of nothing it is zero, and digests of parts add up to the digest of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u32; WORDS]);

impl Digest {
    /// Adds a part, in any order.
    pub fn add(&mut self, part: &Self) {
        for (word, other) in self.0.iter_mut().zip(part.0) {
            *word = word.wrapping_add(other);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:08x}"))
    }
}

/// Mixes a sequence of byte strings, two of which are told apart by their bytes and their lengths.
pub(crate) struct Mixer([u64; WORDS]);

impl Default for Mixer {
    fn default() -> Self {
        Self([1, 2, 3, 4, 5].map(|lane: u64| scramble(lane)))
    }
}

impl Mixer {
    /// The next byte string.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// What has no order: the digests of its parts add up.
    pub(crate) fn unordered(&mut self, tell: impl FnOnce(&mut dyn FnMut(&[&[u8]]))) {
        let mut sum = Digest::default();
        tell(&mut |parts| {
            let mut element = Mixer::default();
            parts.iter().for_each(|part| element.part(part));
            sum.add(&element.finish());
        });
        sum.0.iter().for_each(|&word| self.word(u64::from(word)));
    }

    /// An identifier of a stream.
    pub(crate) fn id(&mut self, id: StreamId) {
        self.word(id.ms);
        self.word(id.seq);
    }

    /// A number that may not be there.
    pub(crate) fn number(&mut self, number: Option<i64>) {
        self.word(u64::from(number.is_some()));
        self.word(number.unwrap_or(0) as u64);
    }

    /// A word.
    pub(crate) fn word(&mut self, word: u64) {
        for lane in &mut self.0 {
            *lane = scramble(*lane ^ word).wrapping_mul(*lane | 1);
        }
    }

    /// The digest of all of it.
    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.map(|lane| (scramble(lane) >> 32) as u32))
    }
}

/// Lets every bit of a word change about half of the bits of the result (the finalizer of SplitMix64).
fn scramble(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_40_hexadecimal_digits() {
        assert_eq!(Digest::default().to_string(), "0".repeat(40));
        assert_eq!(Digest([1, 2, 3, 4, 0xffff_ffff]).to_string(), "00000001000000020000000300000004ffffffff");
    }
}

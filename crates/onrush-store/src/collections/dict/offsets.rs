//! A set of offsets of records, for visiting them in the order in which they lie.

use super::records::RECORDS_LEN_MAX;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = RECORDS_LEN_MAX.div_ceil(WORD_BITS);

/// Offsets of a segment's records: a bit for each possible offset.
pub(super) struct Offsets([u64; WORDS]);

impl Offsets {
    /// Some offsets, each below [`RECORDS_LEN_MAX`].
    pub(super) fn of(offsets: impl Iterator<Item = u16>) -> Self {
        let mut words = [0; WORDS];
        for offset in offsets {
            words[offset as usize / WORD_BITS] |= 1 << (offset as usize % WORD_BITS);
        }
        Offsets(words)
    }

    /// The offsets, ascending. O(all that there can be / 64 + offsets).
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let rest = |word: &u64| Some(word & (word - 1)).filter(|&rest| rest != 0);
            std::iter::successors(Some(word).filter(|&word| word != 0), rest)
                .map(move |word| (index * WORD_BITS) as u16 + word.trailing_zeros() as u16)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_in_ascending_order() {
        let offsets = [64_000, 5, 63, 64, 0, 130, 129, (RECORDS_LEN_MAX - 1) as u16];
        let mut sorted = offsets;
        sorted.sort_unstable();
        assert!(Offsets::of(offsets.into_iter()).iter().eq(sorted));
        assert_eq!(Offsets::of(std::iter::empty()).iter().count(), 0);
    }
}

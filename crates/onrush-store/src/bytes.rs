//! Comparing short byte strings: keys, names, the heads of commands.

/// Longer strings are left to the library's comparison.
const SHORT_LEN_MAX: usize = 64;

const WORD_LEN: usize = 8;

/// Whether two byte strings are equal; as `==`, but short ones are compared in place, eight bytes at a time, with no
/// call. O(length).
#[inline(always)]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    if !(WORD_LEN..=SHORT_LEN_MAX).contains(&len) {
        return a == b;
    }
    // The last eight overlap with those before, so that there is no rest.
    let mut different = word(a, len - WORD_LEN) ^ word(b, len - WORD_LEN);
    let mut at = 0;
    while at + WORD_LEN < len {
        different |= word(a, at) ^ word(b, at);
        at += WORD_LEN;
    }
    different == 0
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; WORD_LEN];
    word.copy_from_slice(&bytes[at..at + WORD_LEN]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_what_comparing_slices_finds(a in proptest::collection::vec(0_u8..2, 0..80), at in 0_usize..80) {
            prop_assert!(equal(&a, &a.clone()));
            let mut b = a.clone();
            if let Some(byte) = b.get_mut(at) {
                *byte ^= 1;
                prop_assert!(!equal(&a, &b));
            }
            b.push(0);
            prop_assert!(!equal(&a, &b));
        }
    }
}

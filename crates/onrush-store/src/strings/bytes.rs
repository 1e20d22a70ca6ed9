//! Comparing short byte strings: keys, names, the heads of commands.

/// Longer strings are left to the library's comparison.
const SHORT_LEN_MAX: usize = 64;

const WORD_LEN: usize = 8;
const HALF_LEN: usize = 4;

/// Whether two byte strings are equal; as `==`, but short ones are compared in place, eight bytes at a time, with no
/// call. O(length).
#[inline(always)]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    if !(WORD_LEN..=SHORT_LEN_MAX).contains(&len) {
        return if len < WORD_LEN { equal_in_a_word(a, b) } else { a == b };
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

/// The same of two that have the same length, below eight.
#[inline(always)]
fn equal_in_a_word(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len >= HALF_LEN {
        (half(a, 0) ^ half(b, 0)) | (half(a, len - HALF_LEN) ^ half(b, len - HALF_LEN)) == 0
    } else {
        // First, middle and last are all there are.
        len == 0 || (a[0] ^ b[0]) | (a[len / 2] ^ b[len / 2]) | (a[len - 1] ^ b[len - 1]) == 0
    }
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u32 {
    let mut half = [0; HALF_LEN];
    half.copy_from_slice(&bytes[at..at + HALF_LEN]);
    u32::from_le_bytes(half)
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

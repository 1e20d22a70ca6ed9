//! Names of scripts: the SHA-1 of their text.

use std::hash::{BuildHasher, Hasher};

/// A SHA-1 in lower-case hexadecimal digits.
pub type Sha1Hex = [u8; 40];

/// The SHA-1 of a text. O(length).
pub fn sha1_hex(text: &[u8]) -> Sha1Hex {
    let mut sha = Sha1::default();
    sha.add(text);
    sha.hex()
}

/// A SHA-1 of a text that comes in parts.
#[derive(Default)]
pub(crate) struct Sha1(sha1_smol::Sha1);

impl Sha1 {
    /// Adds a part. O(length).
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    pub(crate) fn hex(&self) -> Sha1Hex {
        let mut hex = [0; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0.digest().bytes()) {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        hex
    }
}

/// Hashes the names of scripts for a table: SHA-1 digits are evenly spread, so a few of them suffice.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShaHasher;

/// See [`ShaHasher`].
#[derive(Default)]
pub struct Hash(u64);

impl BuildHasher for ShaHasher {
    type Hasher = Hash;

    #[inline]
    fn build_hasher(&self) -> Hash {
        Hash(0)
    }
}

impl Hasher for Hash {
    /// Takes the digits; sixteen of them count, each with four of its eight bits.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if let Some((digits, _)) = bytes.split_first_chunk::<16>() {
            let [a, b] =
                [&digits[..8], &digits[8..]].map(|half| u64::from_le_bytes(half.try_into().unwrap_or_default()));
            let product = (a.rotate_left(4) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = product ^ product >> 32;
        }
    }

    /// Ignores the length, which is the same for all.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

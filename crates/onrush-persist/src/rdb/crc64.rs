//! CRC-64 as RDB files use it: the polynomial of David Jones, reflected, start and end value 0.
//!
//! The parameters are public: polynomial `0xad93d23594c935a9`, input and output reflected, check value of `123456789`
//! `0xe9c6d914c4b8d9ca`. The sum is linear, so 16 bytes are looked up at a time, each in the table for its distance to
//! the end ("slicing").

const POLYNOMIAL_REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;

/// Bytes per step.
const SLICES: usize = 16;

/// `TABLES[d][b]`: the contribution of byte `b` to the sum after `d` more bytes.
static TABLES: [[u64; 256]; SLICES] = tables();

const fn tables() -> [[u64; 256]; SLICES] {
    let mut tables = [[0; 256]; SLICES];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL_REFLECTED } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut slice = 1;
    while slice < SLICES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = tables[0][(before & 0xff) as usize] ^ before >> 8;
            byte += 1;
        }
        slice += 1;
    }
    tables
}

/// The sum of `bytes`. O(length).
pub fn crc64(bytes: &[u8]) -> u64 {
    update(0, bytes)
}

/// The sum of earlier bytes with the sum `sum`, followed by `bytes`. O(length).
pub fn update(mut sum: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<SLICES>();
    for block in blocks {
        let (low, high) = block.split_at(8);
        let word = |half: &[u8]| half.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        sum = look_up::<8>(word(low) ^ sum) ^ look_up::<0>(word(high));
    }
    rest.iter().fold(sum, |sum, byte| TABLES[0][usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

/// The contribution of a word's eight bytes, the lowest first, to the sum after `D` more bytes.
#[inline]
fn look_up<const D: usize>(word: u64) -> u64 {
    (0..8).fold(0, |sum, index| sum ^ TABLES[D + 7 - index][(word >> (8 * index) & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, from the definition.
    fn slow(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |sum, &byte| {
            (0..8).fold(sum ^ u64::from(byte), |sum, _| (sum >> 1) ^ ((sum & 1) * POLYNOMIAL_REFLECTED))
        })
    }

    #[test]
    fn the_sum_is_that_of_jones() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn any_length_and_any_cut_give_the_same_sum() {
        let bytes: Vec<u8> = (0..200u32).map(|index| (index * index + 7) as u8).collect();
        for len in 0..bytes.len() {
            let whole = slow(&bytes[..len]);
            assert_eq!(crc64(&bytes[..len]), whole);
            assert_eq!(update(crc64(&bytes[..len / 3]), &bytes[len / 3..len]), whole);
        }
    }
}

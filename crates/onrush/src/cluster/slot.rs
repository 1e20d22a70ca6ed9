//! Slots: where keys belong.

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

const POLYNOMIAL: u16 = 0x1021;

/// What each byte adds to the checksum; then what it adds if one to seven bytes follow it.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        tables[0][byte] = of_byte(byte as u16);
        byte += 1;
    }
    let mut nth = 1;
    while nth < 8 {
        byte = 0;
        while byte < 256 {
            let before = tables[nth - 1][byte];
            tables[nth][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        nth += 1;
    }
    tables
}

const fn of_byte(byte: u16) -> u16 {
    let mut crc = byte << 8;
    let mut bit = 0;
    while bit < 8 {
        let is_high = crc & 0x8000 != 0;
        crc <<= 1;
        if is_high {
            crc ^= POLYNOMIAL;
        }
        bit += 1;
    }
    crc
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, neither reflected nor inverted. O(bytes), eight at a time.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let [high, low] = crc.to_be_bytes();
        let at = |nth: usize, with: u8| TABLES[7 - nth][usize::from(chunk[nth] ^ with)];
        crc = at(0, high) ^ at(1, low) ^ at(2, 0) ^ at(3, 0) ^ at(4, 0) ^ at(5, 0) ^ at(6, 0) ^ at(7, 0);
    }
    for byte in chunks.remainder() {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
    }
    crc
}

/// The hash tag of a key: what is in its first braces, unless that is nothing; else all of it.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    let behind = &key[open + 1..];
    match memchr::memchr(b'}', behind) {
        None | Some(0) => key,
        Some(close) => &behind[..close],
    }
}

/// The slot of a key. O(bytes of the key).
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"123456789"), 12739);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn a_hash_tag_decides_alone_unless_it_is_empty() {
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % SLOTS);
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_give_what_single_bytes_give(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            let one = bytes.iter().fold(0_u16, |crc, byte| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)]);
            prop_assert_eq!(crc16(&bytes), one);
        }
    }
}

//! Slots: where keys belong.

use std::fmt;
use std::ops::RangeInclusive;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// Bytes of a set of slots.
pub const SET_LEN: usize = SLOTS as usize / 8;

const POLYNOMIAL: u16 = 0x1021;

/// What each byte adds, and what it adds if seven to one bytes follow it at once.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut nth = 1;
    while nth < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[nth - 1][byte];
            tables[nth][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        nth += 1;
    }
    tables
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, neither reflected nor inverted. O(bytes), eight at a time.
pub fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let [high, low] = crc.to_be_bytes();
        let [first, second, rest @ ..] = *chunk;
        crc = TABLES[7][usize::from(first ^ high)] ^ TABLES[6][usize::from(second ^ low)];
        for (nth, byte) in rest.into_iter().enumerate() {
            crc ^= TABLES[5 - nth][usize::from(byte)];
        }
    }
    for byte in rest {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
    }
    crc
}

/// The part of a key that says where it belongs: what is in the first braces, unless that is nothing; else all of it.
pub fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let behind = &key[open + 1..];
    match behind.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &behind[..close],
    }
}

/// The slot of a key. O(bytes of the key).
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// A set of slots, as it stands in messages: the first slot is the lowest bit of the first byte.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u8; SET_LEN]>);

impl SlotSet {
    /// None.
    pub fn new() -> Self {
        Self(Box::new([0; SET_LEN]))
    }

    /// As in a message.
    pub fn from_bytes(bytes: &[u8; SET_LEN]) -> Self {
        Self(Box::new(*bytes))
    }

    /// As in a message.
    pub fn as_bytes(&self) -> &[u8; SET_LEN] {
        &self.0
    }

    /// Whether a slot is in it.
    pub fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot / 8)] & (1 << (slot % 8)) != 0
    }

    /// Adds a slot.
    pub fn add(&mut self, slot: u16) {
        self.0[usize::from(slot / 8)] |= 1 << (slot % 8);
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: u16) {
        self.0[usize::from(slot / 8)] &= !(1 << (slot % 8));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// All of them, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..SLOTS).filter(|slot| self.has(*slot))
    }

    /// The same as ranges.
    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }
}

impl Default for SlotSet {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Self {
        let mut set = Self::new();
        slots.into_iter().for_each(|slot| set.add(slot));
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn keys_belong_where_the_specification_says() {
        // Checked against CLUSTER KEYSLOT of redis-server.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!((slot(b""), slot(b"foo"), slot(b"bar")), (0, 12_182, 5_061));
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        for (key, tagged) in [
            (&b"foo{}{bar}"[..], &b"foo{}{bar}"[..]),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"{", b"{"),
            (b"a}b{c", b"a}b{c"),
        ] {
            assert_eq!(tag(key), tagged);
        }
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_are_the_same_as_one(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let one = bytes.iter().fold(0_u16, |crc, byte| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)]);
            prop_assert_eq!(crc16(&bytes), one);
        }

        #[test]
        fn sets_have_what_was_put_in(slots in proptest::collection::btree_set(0..SLOTS, 0..200)) {
            let mut set: SlotSet = slots.iter().copied().collect();
            prop_assert!(set.iter().eq(slots.iter().copied()));
            prop_assert_eq!((set.len(), set.is_empty()), (slots.len(), slots.is_empty()));
            prop_assert!(set.ranges().into_iter().flatten().eq(slots.iter().copied()));
            prop_assert_eq!(&SlotSet::from_bytes(set.as_bytes()), &set);
            slots.iter().for_each(|slot| set.remove(*slot));
            prop_assert!(set.is_empty());
        }
    }
}

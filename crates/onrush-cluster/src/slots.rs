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
#[inline]
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
#[inline]
pub fn slot(key: &[u8]) -> u16 {
    let hashed = if has_brace(key) { tag(key) } else { key };
    crc16(hashed) % SLOTS
}

/// Whether there may be a `{` in it: eight bytes at a time, and sometimes wrongly so.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const BRACES: u64 = u64::from_ne_bytes([b'{'; 8]);
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // A byte is zero where the key has a brace.
    let zeros = |word: [u8; 8]| {
        let bytes = u64::from_ne_bytes(word) ^ BRACES;
        bytes.wrapping_sub(LOW) & !bytes & HIGH
    };
    let (words, rest) = key.as_chunks::<8>();
    let found = words.iter().fold(0, |found, word| found | zeros(*word));
    found != 0 || rest.contains(&b'{')
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
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// All of them, the lowest first. O(words of 64 slots and slots).
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.words().enumerate().flat_map(|(nth, word)| slots_of_word(nth, word))
    }

    /// Those that the other set does not have, the lowest first.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u16> + 'a {
        let pairs = self.words().zip(other.words()).enumerate();
        pairs.flat_map(|(nth, (word, others))| slots_of_word(nth, word & !others))
    }

    /// The slots as words of 64, each with its lowest slot in the lowest bit.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The same as ranges. O(words of 64 slots and ranges).
    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        let (mut ranges, mut from) = (Vec::new(), 0);
        while let Some(first) = self.next(from, true) {
            let end = self.next(first, false).unwrap_or(SLOTS);
            ranges.push(first..=end - 1);
            from = end;
        }
        ranges
    }

    /// The first slot from one on that is in the set, or that is not.
    fn next(&self, from: u16, is_in: bool) -> Option<u16> {
        let (first, flip) = (usize::from(from / 64), if is_in { 0 } else { u64::MAX });
        self.words().enumerate().skip(first).find_map(|(nth, word)| {
            let mask = if nth == first { u64::MAX << (from % 64) } else { u64::MAX };
            slots_of_word(nth, (word ^ flip) & mask).next()
        })
    }
}

/// Slots as text: `0-9 20-20`, or nothing. O(slots).
pub fn ranges_text(slots: &SlotSet) -> String {
    let ranges = slots.ranges();
    ranges.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect::<Vec<_>>().join(" ")
}

/// Reads what [`ranges_text`] writes; `None`: it is wrong. O(slots).
pub fn parse_ranges(text: &str) -> Option<SlotSet> {
    let mut slots = SlotSet::new();
    for range in text.split_ascii_whitespace() {
        let (first, last) = range.split_once('-')?;
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        if last >= SLOTS {
            return None;
        }
        (first..=last).for_each(|slot| slots.add(slot));
    }
    Some(slots)
}

/// The slots of the nth word of a set.
fn slots_of_word(nth: usize, mut word: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some((nth * 64) as u16 + bit as u16)
    })
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
    fn a_brace_is_found_wherever_it_stands() {
        for len in 0..40 {
            let plain = vec![b'|'; len];
            assert!(!has_brace(&plain));
            for at in 0..len {
                let mut key = plain.clone();
                key[at] = b'{';
                assert!(has_brace(&key), "{at} of {len}");
            }
        }
    }

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
            let even: SlotSet = (0..SLOTS).step_by(2).collect();
            prop_assert!(set.difference(&even).eq(slots.iter().copied().filter(|slot| slot % 2 == 1)));
            slots.iter().for_each(|slot| set.remove(*slot));
            prop_assert!(set.is_empty());
        }
    }
}

//! Hash slots: sets of them, and the slot of a key.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;
const WORDS: usize = SLOTS as usize / 64;

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    words: Box<[u64; WORDS]>,
}

impl SlotSet {
    /// Without any.
    pub fn new() -> SlotSet {
        SlotSet { words: Box::new([0; WORDS]) }
    }

    /// Those from `first` to `last`.
    pub fn range(first: u16, last: u16) -> SlotSet {
        let mut set = SlotSet::new();
        (first..=last).for_each(|slot| set.insert(slot));
        set
    }

    /// Adds a slot; slots that no cluster has are ignored.
    pub fn insert(&mut self, slot: u16) {
        if let Some(word) = self.words.get_mut(usize::from(slot / 64)) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: u16) {
        if let Some(word) = self.words.get_mut(usize::from(slot / 64)) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Whether it has the slot.
    pub fn contains(&self, slot: u16) -> bool {
        self.words.get(usize::from(slot / 64)).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// How many it has.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..SLOTS).filter(|slot| self.contains(*slot))
    }

    /// Adds all slots of another set.
    pub fn add(&mut self, other: &SlotSet) {
        self.words.iter_mut().zip(other.words.iter()).for_each(|(word, more)| *word |= more);
    }

    /// First and last of each run of slots.
    pub fn runs(&self) -> Vec<(u16, u16)> {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for slot in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => runs.push((slot, slot)),
            }
        }
        runs
    }

    /// `[0-5460],[7000]`; nothing if it is empty.
    pub fn shown(&self) -> String {
        let shown = |(first, last): (u16, u16)| {
            if first == last { format!("[{first}]") } else { format!("[{first}-{last}]") }
        };
        self.runs().into_iter().map(shown).collect::<Vec<_>>().join(",")
    }
}

/// The slot of a key: CRC-16/XMODEM of what stands between the first `{` and the next `}`, if it is not empty, else of
/// the whole key.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr::memchr(b'}', rest).filter(|len| *len > 0).map(|len| &rest[..len])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"x{foo}y"), 12_182);
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn a_set_shows_its_runs() {
        let mut set = SlotSet::range(0, 2);
        set.insert(5);
        set.insert(16_383);
        set.insert(16_384);
        assert_eq!((set.shown().as_str(), set.len()), ("[0-2],[5],[16383]", 5));
        set.remove(1);
        assert_eq!(set.runs(), [(0, 0), (2, 2), (5, 5), (16_383, 16_383)]);
        assert_eq!(SlotSet::new().shown(), "");
        assert_eq!(SlotSet::range(0, SLOTS - 1).len(), usize::from(SLOTS));
    }
}

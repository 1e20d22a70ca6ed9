//! Hash slots: sets of them, and the slot of a key.

use std::collections::BTreeSet;

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// A set of slots.
pub type SlotSet = BTreeSet<u16>;

/// First and last of each run of slots.
pub fn runs(set: &SlotSet) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for slot in set.iter().copied() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => runs.push((slot, slot)),
        }
    }
    runs
}

/// `[0-5460],[7000]`; nothing if it is empty.
pub fn shown(set: &SlotSet) -> String {
    let shown =
        |(first, last): (u16, u16)| if first == last { format!("[{first}]") } else { format!("[{first}-{last}]") };
    runs(set).into_iter().map(shown).collect::<Vec<_>>().join(",")
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
        let mut set = SlotSet::from([16_383, 0, 1, 5, 2]);
        assert_eq!(shown(&set), "[0-2],[5],[16383]");
        set.remove(&1);
        assert_eq!(runs(&set), [(0, 0), (2, 2), (5, 5), (16_383, 16_383)]);
        assert_eq!(shown(&SlotSet::new()), "");
    }
}

//! A segment of a [`super::Dict`]: some hundred records, and a small index to them.
//!
//! The index is groups of eight slots: eight tags (a byte of the hash each) and eight offsets. A search compares the
//! tags of a group at once and ends at a group with an empty slot.
//!
//! Hashes spread evenly, so all segments of a table would fill, grow and split at the same time and leave the allocator
//! with holes of a size that nothing needs any more. Therefore each segment has a limit of its own, between half of the
//! possible records and all of them.

use super::offsets::Offsets;
use super::records::{RECORDS_LEN_MAX, Records};
use super::spread::Spread;

const GROUP_LEN: usize = 8;
const GROUPS_MAX: usize = 128;

/// Records at most for each group: a search ends at an empty slot.
const GROUP_LOAD_MAX: usize = 7;

/// The greatest limit of a segment, and how many records one unit of a limit means.
const LIMIT_MAX: u8 = 224;
const LIMIT_UNIT: usize = GROUPS_MAX * GROUP_LOAD_MAX / LIMIT_MAX as usize;

/// Low bits of the hash that choose the group.
const HOME_BITS: u32 = 16;

/// Tags that stand for no record.
const EMPTY: u8 = 0;
const REMOVED: u8 = 1;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A record does not fit: the segment must split.
#[derive(Debug)]
pub(super) struct Overflow;

#[derive(Clone, Copy)]
struct Group {
    tags: [u8; GROUP_LEN],
    offsets: [u16; GROUP_LEN],
}

const NO_GROUP: Group = Group { tags: [EMPTY; GROUP_LEN], offsets: [0; GROUP_LEN] };

impl Group {
    /// The highest bit of each byte that equals `tag`; sometimes also of one that does not.
    #[inline]
    fn matches(&self, tag: u8) -> u64 {
        let difference = u64::from_le_bytes(self.tags) ^ (LOW_BITS * u64::from(tag));
        difference.wrapping_sub(LOW_BITS) & !difference & HIGH_BITS
    }

    /// The highest bit of each slot's byte that has a record.
    #[inline]
    fn occupied(&self) -> u64 {
        // The tags without their lowest bits: the rest is zero if there is no record.
        let tags = u64::from_le_bytes(self.tags) & !LOW_BITS;
        ((tags & !HIGH_BITS).wrapping_add(!HIGH_BITS) | tags) & HIGH_BITS
    }
}

/// Some hundred records. The default value stands in for a segment that was moved away.
#[derive(Clone, Default)]
pub(super) struct Segment {
    groups: Box<[Group]>,
    records: Records,
    len: u16,
    /// Slots that are not empty.
    used: u16,
    /// How full it may become, in parts of [`LIMIT_MAX`].
    limit: u8,
    /// How many upper bits of the hash all records share.
    pub(super) depth: u8,
    /// Those bits, with zeros below.
    pub(super) prefix: u64,
}

/// Where a record's slot is.
#[derive(Clone, Copy)]
struct Place {
    group: usize,
    slot: usize,
}

impl Segment {
    /// Places of a scan within a segment: the values that choose a group.
    pub(super) const PLACES: u32 = 1 << HOME_BITS;

    /// The most slots.
    pub(super) const SLOTS_MAX: usize = GROUPS_MAX * GROUP_LEN;

    /// An empty segment that is likely to stay small.
    pub(super) fn new(prefix: u64, depth: u8) -> Self {
        // The limit should be random, but the same each time for the same segment.
        let mixed = (prefix ^ u64::from(depth)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let spread = u64::from(LIMIT_MAX / 2 + 1);
        let limit = LIMIT_MAX - (((mixed >> 32) * spread) >> 32) as u8;
        Segment { groups: Box::new([NO_GROUP]), records: Records::default(), len: 0, used: 0, limit, depth, prefix }
    }

    /// Records it may have.
    #[inline]
    fn len_max(&self) -> usize {
        self.limit as usize * LIMIT_UNIT
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of its records.
    pub(super) fn live_len(&self) -> usize {
        self.records.live_len()
    }

    /// The group at which a search for a hash starts: the hash's low bits, scaled to the number of groups.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((hash & ((1 << HOME_BITS) - 1)) as usize * self.groups.len()) >> HOME_BITS
    }

    #[inline]
    fn tag(hash: u64) -> u8 {
        ((hash >> HOME_BITS) as u8).max(2)
    }

    /// Bytes that its records may take.
    fn records_len_max(&self) -> usize {
        RECORDS_LEN_MAX * self.limit as usize / LIMIT_MAX as usize
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<Place> {
        let tag = Self::tag(hash);
        let mut index = self.home(hash);
        for _ in 0..self.groups.len() {
            let group = &self.groups[index];
            let mut matches = group.matches(tag);
            while matches != 0 {
                let slot = (matches.trailing_zeros() / 8) as usize;
                if group.tags[slot] == tag && self.records.get(group.offsets[slot]).0 == key {
                    return Some(Place { group: index, slot });
                }
                matches &= matches - 1;
            }
            if group.matches(EMPTY) != 0 {
                return None;
            }
            index = if index + 1 == self.groups.len() { 0 } else { index + 1 };
        }
        None
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let place = self.find(hash, key)?;
        Some(self.records.get(self.groups[place.group].offsets[place.slot]).1)
    }

    /// Inserts or overwrites a record; returns whether the key is new.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8], parts: &[&[u8]], spread: &Spread) -> Result<bool, Overflow> {
        let value_len = parts.iter().map(|part| part.len()).sum();
        if let Some(place) = self.find(hash, key) {
            if !self.records.overwrite(self.groups[place.group].offsets[place.slot], parts, value_len) {
                self.replace(place, key, parts, value_len)?;
            }
            return Ok(false);
        }
        if self.len() >= self.len_max() {
            return Err(Overflow);
        }
        if self.used as usize >= self.groups.len() * GROUP_LOAD_MAX {
            self.make_slots(spread)?;
        }
        self.make_room(Records::stored_len(key.len() + value_len))?;
        let offset = self.records.append(key, parts, value_len);
        self.index(hash, offset);
        self.len += 1;
        Ok(true)
    }

    fn replace(&mut self, place: Place, key: &[u8], parts: &[&[u8]], value_len: usize) -> Result<(), Overflow> {
        // The old record stays until there is room for the new one; making room may move it.
        self.make_room(Records::stored_len(key.len() + value_len))?;
        let slot = &mut self.groups[place.group].offsets[place.slot];
        self.records.forget(*slot);
        *slot = self.records.append(key, parts, value_len);
        Ok(())
    }

    /// Makes empty slots: with more groups, or, at the greatest number of groups, by clearing the slots of removed
    /// records.
    #[cold]
    fn make_slots(&mut self, spread: &Spread) -> Result<(), Overflow> {
        let groups = if self.len() * 8 < self.groups.len() * GROUP_LEN * 5 {
            self.groups.len()
        } else if self.groups.len() < GROUPS_MAX {
            groups_for((self.len() * 2).min(self.len_max()))
        } else {
            return Err(Overflow);
        };
        self.reindex(groups, spread);
        Ok(())
    }

    /// Rebuilds the index with this many groups. O(records).
    fn reindex(&mut self, groups: usize, spread: &Spread) {
        let old = std::mem::replace(&mut self.groups, vec![NO_GROUP; groups].into());
        self.used = 0;
        for offset in live(&old) {
            let hash = spread.of_key(self.records.get(offset).0);
            self.index(hash, offset);
        }
    }

    /// Puts an offset into the first free slot for a hash, of which there is one.
    fn index(&mut self, hash: u64, offset: u16) {
        let mut index = self.home(hash);
        loop {
            let group = &mut self.groups[index];
            let free = !group.occupied() & HIGH_BITS;
            if free != 0 {
                let slot = (free.trailing_zeros() / 8) as usize;
                self.used += u16::from(group.tags[slot] == EMPTY);
                group.tags[slot] = Self::tag(hash);
                group.offsets[slot] = offset;
                return;
            }
            index = if index + 1 == self.groups.len() { 0 } else { index + 1 };
        }
    }

    /// Makes room for a record that takes so many bytes.
    #[inline]
    fn make_room(&mut self, stored_len: usize) -> Result<(), Overflow> {
        let end = self.records.end_with(stored_len);
        if self.records.needs_chunk(end) { self.make_chunk(end) } else { Ok(()) }
    }

    #[cold]
    fn make_chunk(&mut self, end: usize) -> Result<(), Overflow> {
        let max = self.records_len_max();
        if end > max && self.records.live_len() > max / 2 {
            return Err(Overflow);
        }
        if end > max || self.records.is_sparse() {
            self.compact();
        }
        Ok(())
    }

    /// Puts the records close together. O(records).
    fn compact(&mut self) {
        let moved = self.records.compact(Offsets::of(live(&self.groups)).iter());
        let slots = self.groups.iter_mut().flat_map(|group| group.tags.iter().zip(&mut group.offsets));
        slots.filter(|(tag, _)| **tag > REMOVED).for_each(|(_, offset)| *offset = moved.offset(*offset));
    }

    /// Removes a record; returns whether it was there.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8], spread: &Spread) -> bool {
        let Some(place) = self.find(hash, key) else { return false };
        let group = &mut self.groups[place.group];
        // Searches passed this group because it was full, and must still do so.
        let is_full = group.matches(EMPTY) == 0;
        group.tags[place.slot] = if is_full { REMOVED } else { EMPTY };
        self.used -= u16::from(!is_full);
        let offset = self.groups[place.group].offsets[place.slot];
        self.records.forget(offset);
        self.len -= 1;
        if self.len == 0 {
            *self = Segment::new(self.prefix, self.depth);
        } else if self.groups.len() > 1 && self.len() * 8 <= self.groups.len() * GROUP_LEN {
            self.reindex(groups_for(self.len() * 2), spread);
            self.compact();
        } else if self.records.is_sparse() {
            self.compact();
        }
        true
    }

    /// Makes the index of an empty segment, for `len` coming records and some more.
    pub(super) fn reserve(&mut self, len: usize) {
        // It will likely grow up to its limit: room for that avoids rebuilding the index. One half may get all records
        // of a split, and its limit may be lower.
        let full = groups_for(len.max(self.len_max()));
        let groups = if len > full { full } else { groups_for(2 * len) };
        self.groups = vec![NO_GROUP; groups].into();
    }

    /// Keeps the lower half of its records and returns a segment with the upper half. Either half may get all records,
    /// and so be over its limit. O(records).
    pub(super) fn split(&mut self, spread: &Spread) -> Segment {
        let bit = (1 << 63) >> self.depth;
        // In the order in which they lie, they need no more room in a half than here.
        let offsets = Offsets::of(live(&std::mem::take(&mut self.groups)));
        let mut records = Vec::with_capacity(self.len());
        records.extend(offsets.iter().map(|offset| (spread.of_key(self.records.get(offset).0), offset)));
        let [lower, upper] = [0, bit].map(|side| {
            let of_half = || records.iter().filter(|(hash, _)| hash & bit == side);
            let mut half = Segment::new(self.prefix | side, self.depth + 1);
            half.reserve(of_half().count());
            of_half().for_each(|(hash, offset)| half.take_over(&mut self.records, *hash, *offset));
            half
        });
        *self = lower;
        upper
    }

    /// Moves a record over from another segment; there is room.
    fn take_over(&mut self, from: &mut Records, hash: u64, offset: u16) {
        let added = self.records.take_over(from, offset);
        self.index(hash, added);
        self.len += 1;
    }

    /// Merges with the other half of a split segment, and covers both ranges. Both are nearly empty. O(records):
    /// records with an allocation of their own are moved, not copied.
    pub(super) fn absorb(&mut self, mut other: Segment, spread: &Spread) {
        let prefix = self.prefix & !((1 << 63) >> (self.depth - 1));
        let mut both = Segment::new(prefix, self.depth - 1);
        both.groups = vec![NO_GROUP; groups_for((self.len() + other.len()) * 2)].into();
        for from in [&mut *self, &mut other] {
            let groups = std::mem::take(&mut from.groups);
            for offset in live(&groups) {
                let hash = spread.of_key(from.records.get(offset).0);
                both.take_over(&mut from.records, hash, offset);
            }
        }
        *self = both;
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        Iter { records: &self.records, live: live(&self.groups) }
    }

    /// Visits the records whose search starts at a place of a scan.
    pub(super) fn visit_place(&self, place: u32, spread: &Spread, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let home = self.home(u64::from(place));
        let mut index = home;
        for _ in 0..self.groups.len() {
            let group = &self.groups[index];
            for offset in live(std::slice::from_ref(group)) {
                let (key, value) = self.records.get(offset);
                if self.home(spread.of_key(key)) == home {
                    visit(key, value);
                }
            }
            if group.matches(EMPTY) != 0 {
                return;
            }
            index = if index + 1 == self.groups.len() { 0 } else { index + 1 };
        }
    }

    /// The place after all that [`Segment::visit_place`] visits together with this one.
    pub(super) fn next_place(&self, place: u32) -> u32 {
        let home = self.home(u64::from(place));
        ((home + 1) << HOME_BITS).div_ceil(self.groups.len()) as u32
    }

    /// The record in one of `SLOTS_MAX` slots, most of which are empty or do not exist.
    pub(super) fn at_slot(&self, slot: usize) -> Option<(&[u8], &[u8])> {
        let group = self.groups.get(slot / GROUP_LEN)?;
        let slot = slot % GROUP_LEN;
        (group.tags[slot] > REMOVED).then(|| self.records.get(group.offsets[slot]))
    }

    #[inline]
    pub(super) fn prefetch_group(&self, hash: u64) {
        let group = &self.groups[self.home(hash)];
        crate::keyspace::bucket::prefetch(&group.tags);
        crate::keyspace::bucket::prefetch(&group.offsets[GROUP_LEN - 1]);
        self.records.prefetch_chunks();
    }

    #[inline]
    pub(super) fn prefetch_record(&self, hash: u64) {
        let group = &self.groups[self.home(hash)];
        let matches = group.matches(Self::tag(hash));
        if matches != 0 {
            self.records.prefetch(group.offsets[(matches.trailing_zeros() / 8) as usize]);
        }
    }

    /// Bytes allocated, itself included.
    pub(super) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.groups.len() * size_of::<Group>() + self.records.size_bytes()
    }

    pub(super) fn free_effort(&self) -> usize {
        1 + self.records.free_effort()
    }
}

/// The number of groups for this many records: as many as fit into the allocator's size class, of which there are four
/// for each power of two.
fn groups_for(len: usize) -> usize {
    let bytes = len.div_ceil(GROUP_LOAD_MAX).max(1) * size_of::<Group>();
    let step = if bytes <= 128 { 16 } else { bytes.next_power_of_two() / 8 };
    (bytes.next_multiple_of(step) / size_of::<Group>()).min(GROUPS_MAX)
}

/// Keys and values of a segment.
pub(super) struct Iter<'a> {
    records: &'a Records,
    live: Live<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.live.next().map(|offset| self.records.get(offset))
    }
}

/// The offsets of all records of an index.
struct Live<'a> {
    group: &'a Group,
    occupied: u64,
    rest: std::slice::Iter<'a, Group>,
}

#[inline]
fn live(groups: &[Group]) -> Live<'_> {
    Live { group: &NO_GROUP, occupied: 0, rest: groups.iter() }
}

impl Iterator for Live<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        while self.occupied == 0 {
            self.group = self.rest.next()?;
            self.occupied = self.group.occupied();
        }
        let slot = (self.occupied.trailing_zeros() / 8) as usize;
        self.occupied &= self.occupied - 1;
        Some(self.group.offsets[slot])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records that fill their chunks without gaps, in an order that is not the index's, and with one upper bit.
    #[test]
    fn all_records_of_a_full_segment_fit_into_one_half() {
        const STORED_LENS: [usize; 5] = [206, 206, 206, 206, 200];
        let is_lower = |key: &[u8; 8]| Spread::SHARED.of_key(key) >> 63 == 0;
        let mut keys = (0..u64::MAX).map(u64::to_le_bytes).filter(is_lower);
        let mut segment = Segment::new(0, 0);
        segment.limit = LIMIT_MAX;
        let mut stored = Vec::new();
        loop {
            let key = keys.next().expect("there are plenty");
            let value = vec![b'v'; STORED_LENS[stored.len() % 5] - Records::stored_len(key.len())];
            if segment.insert(Spread::SHARED.of_key(&key), &key, &[&value], &Spread::SHARED).is_err() {
                break;
            }
            stored.push((key, value));
        }
        assert_eq!(segment.live_len(), RECORDS_LEN_MAX);
        let upper = segment.split(&Spread::SHARED);
        assert_eq!((segment.len(), upper.len()), (stored.len(), 0));
        assert!(stored.iter().all(|(key, value)| segment.get(Spread::SHARED.of_key(key), key) == Some(value)));
        segment.compact();
        assert!(stored.iter().all(|(key, value)| segment.get(Spread::SHARED.of_key(key), key) == Some(value)));
    }
}

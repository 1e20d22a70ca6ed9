//! A segment of a [`super::Dict`]: some hundred records in one run of bytes, and a small index into it.
//!
//! A record is the length of the key, the length of the value (as in listpacks), the key, the value. Records are
//! appended; what is overwritten or removed stays as dead bytes until the segment is compacted. A record of more than
//! [`INLINE_LEN_MAX`] bytes has an allocation of its own, and its number stands in its place.
//!
//! The index is groups of eight slots: eight tags (a byte of the hash each) and eight offsets. A search compares the
//! tags of a group at once and ends at a group with an empty slot.

use crate::listpack::{Prefix, element};

const GROUP_LEN: usize = 8;
const GROUPS_MAX: usize = 128;

/// Bytes of all records: what an offset can reach.
const ARENA_LEN_MAX: usize = u16::MAX as usize;

/// Key and value of a record that is kept among the others.
const INLINE_LEN_MAX: usize = 512;

/// Stands in front of a number of a record with an allocation of its own. No key length starts like this.
const OUTSIDE: u8 = 255;
const OUTSIDE_LEN: usize = 5;

/// Tags that stand for no record.
const EMPTY: u8 = 0;
const REMOVED: u8 = 1;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A record does not fit: the segment has to be split.
#[derive(Debug)]
pub(super) struct Overflow;

#[derive(Clone, Copy)]
struct Group {
    tags: [u8; GROUP_LEN],
    offsets: [u16; GROUP_LEN],
}

const NO_GROUP: Group = Group { tags: [EMPTY; GROUP_LEN], offsets: [0; GROUP_LEN] };

impl Group {
    /// One bit, the highest of its byte, for each tag that is `tag`; now and then for one that is not.
    #[inline]
    fn matches(&self, tag: u8) -> u64 {
        let difference = u64::from_le_bytes(self.tags) ^ (LOW_BITS * u64::from(tag));
        difference.wrapping_sub(LOW_BITS) & !difference & HIGH_BITS
    }
}

/// Some hundred records.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Segment {
    groups: Box<[Group]>,
    arena: Vec<u8>,
    /// Records with an allocation of their own, by number; free numbers are empty.
    #[allow(clippy::box_collection, reason = "a segment is one cache line")]
    outside: Option<Box<Vec<Box<[u8]>>>>,
    len: u16,
    /// Slots that are not empty.
    used: u16,
    /// Bytes in the arena that belong to no record.
    dead: u16,
    /// How many upper bits of the hash are the same for all records.
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
    /// Places of a scan within a segment: as many as there can be groups.
    pub(super) const PLACES: u8 = GROUPS_MAX as u8;

    /// Slots there can be.
    pub(super) const SLOTS_MAX: usize = GROUPS_MAX * GROUP_LEN;

    pub(super) fn new(prefix: u64, depth: u8) -> Self {
        Segment {
            groups: Box::new([NO_GROUP]),
            arena: Vec::new(),
            outside: None,
            len: 0,
            used: 0,
            dead: 0,
            depth,
            prefix,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of its records in the arena.
    pub(super) fn live_len(&self) -> usize {
        self.arena.len() - self.dead as usize
    }

    /// The group at which a search for a hash starts: its seven low bits, scaled to the groups there are.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash as usize & (GROUPS_MAX - 1)) * self.groups.len() / GROUPS_MAX
    }

    #[inline]
    fn tag(hash: u64) -> u8 {
        ((hash >> 7) as u8).max(2)
    }

    /// Key and value of the record at an offset.
    #[inline]
    fn record(&self, offset: u16) -> (&[u8], &[u8]) {
        let bytes = &self.arena[offset as usize..];
        match self.outside_number(offset) {
            None => read(bytes),
            Some(number) => match &self.outside {
                Some(outside) => read(&outside[number]),
                None => (&[], &[]),
            },
        }
    }

    #[inline]
    fn outside_number(&self, offset: u16) -> Option<usize> {
        let bytes = &self.arena[offset as usize..];
        (bytes[0] == OUTSIDE).then(|| u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize)
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
                if group.tags[slot] == tag && self.record(group.offsets[slot]).0 == key {
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
        Some(self.record(self.groups[place.group].offsets[place.slot]).1)
    }

    /// Inserts or overwrites a record; says whether the key is new.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8], parts: &[&[u8]]) -> Result<bool, Overflow> {
        let value_len = parts.iter().map(|part| part.len()).sum();
        if let Some(place) = self.find(hash, key) {
            self.overwrite(place, key, parts, value_len)?;
            return Ok(false);
        }
        if self.used as usize >= self.groups.len() * GROUP_LEN * 7 / 8 {
            self.make_slots()?;
        }
        let offset = self.append(key, parts, value_len)?;
        self.index(hash, offset);
        self.len += 1;
        Ok(true)
    }

    fn overwrite(&mut self, place: Place, key: &[u8], parts: &[&[u8]], value_len: usize) -> Result<(), Overflow> {
        let offset = self.groups[place.group].offsets[place.slot];
        if self.outside_number(offset).is_none() {
            let bytes = &mut self.arena[offset as usize..];
            let range = value_range(bytes);
            if range.len() == value_len {
                write_parts(&mut bytes[range], parts);
                return Ok(());
            }
        }
        // The old record stays until the new one has its place; a compaction may move it.
        let added = self.append(key, parts, value_len)?;
        let slot = &mut self.groups[place.group].offsets[place.slot];
        let old = std::mem::replace(slot, added);
        self.forget(old);
        Ok(())
    }

    /// Makes empty slots: by more groups, or, if that is the end of them, by doing away with what removed ones left.
    #[cold]
    fn make_slots(&mut self) -> Result<(), Overflow> {
        let all = self.groups.len() * GROUP_LEN;
        let groups = if self.len() * 8 < all * 5 {
            self.groups.len()
        } else if self.groups.len() < GROUPS_MAX {
            self.groups.len() * 2
        } else {
            return Err(Overflow);
        };
        self.reindex(groups);
        Ok(())
    }

    /// Builds the index anew with so many groups. O(records).
    fn reindex(&mut self, groups: usize) {
        let old = std::mem::replace(&mut self.groups, vec![NO_GROUP; groups].into());
        self.used = 0;
        for offset in live(&old) {
            let hash = crate::member_hash(self.record(offset).0);
            self.index(hash, offset);
        }
    }

    /// Puts an offset into the first free slot for a hash, of which there is one.
    fn index(&mut self, hash: u64, offset: u16) {
        let mut index = self.home(hash);
        loop {
            let group = &mut self.groups[index];
            if let Some(slot) = group.tags.iter().position(|&tag| tag <= REMOVED) {
                self.used += u16::from(group.tags[slot] == EMPTY);
                group.tags[slot] = Self::tag(hash);
                group.offsets[slot] = offset;
                return;
            }
            index = if index + 1 == self.groups.len() { 0 } else { index + 1 };
        }
    }

    /// Appends a record to the arena; returns its offset.
    fn append(&mut self, key: &[u8], parts: &[&[u8]], value_len: usize) -> Result<u16, Overflow> {
        let (key_prefix, value_prefix) = (Prefix::new(key.len()), Prefix::new(value_len));
        let prefixes = [key_prefix.as_bytes(), value_prefix.as_bytes()];
        let total = prefixes[0].len() + prefixes[1].len() + key.len() + value_len;
        let is_outside = key.len() + value_len > INLINE_LEN_MAX;
        self.make_room(if is_outside { OUTSIDE_LEN } else { total })?;
        let offset = self.arena.len() as u16;
        if is_outside {
            let mut record = Vec::with_capacity(total);
            prefixes.iter().chain([&key]).chain(parts).for_each(|part| record.extend_from_slice(part));
            let number = self.keep_outside(record.into());
            self.arena.push(OUTSIDE);
            self.arena.extend_from_slice(&(number as u32).to_le_bytes());
        } else {
            prefixes.iter().chain([&key]).chain(parts).for_each(|part| self.arena.extend_from_slice(part));
        }
        Ok(offset)
    }

    fn keep_outside(&mut self, record: Box<[u8]>) -> usize {
        let outside = self.outside.get_or_insert_default();
        match outside.iter().position(|other| other.is_empty()) {
            Some(free) => {
                outside[free] = record;
                free
            }
            None => {
                outside.push(record);
                outside.len() - 1
            }
        }
    }

    /// Makes room for `len` more bytes in the arena.
    fn make_room(&mut self, len: usize) -> Result<(), Overflow> {
        if self.arena.len() + len <= self.arena.capacity() && self.arena.len() + len <= ARENA_LEN_MAX {
            return Ok(());
        }
        let live_len = self.arena.len() - self.dead as usize;
        if live_len + len > ARENA_LEN_MAX || (self.arena.len() + len > ARENA_LEN_MAX && live_len > ARENA_LEN_MAX / 2) {
            return Err(Overflow);
        }
        // An eighth more each time: compacting or copying costs an eighth of the records for each.
        let wanted = (live_len + len + (live_len / 8).max(48)).min(ARENA_LEN_MAX);
        if self.dead as usize * 8 > self.arena.len() || self.arena.len() + len > ARENA_LEN_MAX {
            self.compact(wanted);
        } else {
            self.arena
                .reserve_exact((self.arena.len() + len - live_len + wanted).min(ARENA_LEN_MAX) - self.arena.len());
        }
        Ok(())
    }

    /// Copies the records that are left into a new arena. O(records).
    fn compact(&mut self, capacity: usize) {
        let mut arena = Vec::with_capacity(capacity);
        for group in &mut self.groups {
            for slot in 0..GROUP_LEN {
                if group.tags[slot] > REMOVED {
                    let offset = arena.len() as u16;
                    let from = group.offsets[slot] as usize;
                    let len = stored_len(&self.arena[from..]);
                    arena.extend_from_slice(&self.arena[from..from + len]);
                    group.offsets[slot] = offset;
                }
            }
        }
        self.arena = arena;
        self.dead = 0;
    }

    /// Gives up the record at an offset.
    fn forget(&mut self, offset: u16) {
        self.dead += stored_len(&self.arena[offset as usize..]) as u16;
        if let Some(number) = self.outside_number(offset)
            && let Some(outside) = &mut self.outside
        {
            outside[number] = Box::default();
        }
    }

    /// Removes a record; says whether it was there.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> bool {
        let Some(place) = self.find(hash, key) else { return false };
        let group = &mut self.groups[place.group];
        // A search that came past this group did so because it was full.
        let is_full = group.matches(EMPTY) == 0;
        group.tags[place.slot] = if is_full { REMOVED } else { EMPTY };
        self.used -= u16::from(!is_full);
        let offset = self.groups[place.group].offsets[place.slot];
        self.forget(offset);
        self.len -= 1;
        if self.len == 0 {
            *self = Segment::new(self.prefix, self.depth);
        } else if self.groups.len() > 1 && self.len() * 8 <= self.groups.len() * GROUP_LEN {
            self.reindex((self.groups.len() / 4).max(1));
            self.compact(self.live_len() + 48);
        } else if self.dead > 512 && self.dead as usize * 2 > self.arena.len() {
            self.compact(self.live_len() + 48);
        }
        true
    }

    /// Keeps the lower half of its records and returns a segment of the upper half. O(records).
    pub(super) fn split(&mut self) -> Segment {
        let bit = (1 << 63) >> self.depth;
        let depth = self.depth + 1;
        let mut halves = [Segment::new(self.prefix, depth), Segment::new(self.prefix | bit, depth)];
        for half in &mut halves {
            half.groups = vec![NO_GROUP; self.groups.len()].into();
            half.arena.reserve_exact((self.arena.len() - self.dead as usize) * 5 / 8);
        }
        let groups = std::mem::take(&mut self.groups);
        for offset in live(&groups) {
            let hash = crate::member_hash(self.record(offset).0);
            halves[usize::from(hash & bit != 0)].take_over(self, hash, offset);
        }
        let [lower, upper] = halves;
        *self = lower;
        upper
    }

    /// Moves or copies a record over from another segment; there is room.
    fn take_over(&mut self, from: &mut Segment, hash: u64, offset: u16) {
        let added = self.arena.len() as u16;
        match (from.outside_number(offset), &mut from.outside) {
            (Some(number), Some(outside)) => {
                let record = std::mem::take(&mut outside[number]);
                let number = self.keep_outside(record);
                self.arena.push(OUTSIDE);
                self.arena.extend_from_slice(&(number as u32).to_le_bytes());
            }
            _ => {
                let bytes = &from.arena[offset as usize..];
                self.arena.extend_from_slice(&bytes[..stored_len(bytes)]);
            }
        }
        self.index(hash, added);
        self.len += 1;
    }

    /// Takes in the other half of what was split, and covers both ranges. Both are nearly empty.
    pub(super) fn absorb(&mut self, other: &Segment) {
        let mut both = Segment::new(self.prefix & !((1 << 63) >> (self.depth - 1)), self.depth - 1);
        for (key, value) in self.iter().chain(other.iter()) {
            // Neither half had more than fits; if it should not, nothing would be lost but a merge.
            if both.insert(crate::member_hash(key), key, &[value]).is_err() {
                unreachable!("two segments with few records fit into one");
            }
        }
        *self = both;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        live(&self.groups).map(|offset| self.record(offset))
    }

    /// Visits the records whose search starts at a place of a scan.
    pub(super) fn visit_place(&self, place: u8, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let home = self.home(u64::from(place));
        let mut index = home;
        for _ in 0..self.groups.len() {
            let group = &self.groups[index];
            for slot in 0..GROUP_LEN {
                if group.tags[slot] > REMOVED {
                    let (key, value) = self.record(group.offsets[slot]);
                    if self.home(crate::member_hash(key)) == home {
                        visit(key, value);
                    }
                }
            }
            if group.matches(EMPTY) != 0 {
                return;
            }
            index = if index + 1 == self.groups.len() { 0 } else { index + 1 };
        }
    }

    /// The place behind all that [`Segment::visit_place`] visits with this one.
    pub(super) fn next_place(&self, place: u8) -> u8 {
        let home = self.home(u64::from(place));
        ((home + 1) * GROUPS_MAX).div_ceil(self.groups.len()) as u8
    }

    /// The record in one of `SLOTS_MAX` slots, most of which are empty or not there.
    pub(super) fn at_slot(&self, slot: usize) -> Option<(&[u8], &[u8])> {
        let group = self.groups.get(slot / GROUP_LEN)?;
        let slot = slot % GROUP_LEN;
        (group.tags[slot] > REMOVED).then(|| self.record(group.offsets[slot]))
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        crate::bucket::prefetch(self);
    }

    #[inline]
    pub(super) fn prefetch_group(&self, hash: u64) {
        crate::bucket::prefetch(&self.groups[self.home(hash)]);
    }

    #[inline]
    pub(super) fn prefetch_record(&self, hash: u64) {
        let group = &self.groups[self.home(hash)];
        let matches = group.matches(Self::tag(hash));
        if matches != 0 {
            let offset = group.offsets[(matches.trailing_zeros() / 8) as usize];
            crate::bucket::prefetch(&self.arena[offset as usize]);
        }
    }

    /// Bytes allocated, itself included.
    pub(super) fn size_bytes(&self) -> usize {
        let outside = self.outside.as_ref().map_or(0, |outside| {
            let records: usize = outside.iter().map(|record| record.len()).sum();
            records + outside.capacity() * size_of::<Box<[u8]>>() + size_of::<Vec<Box<[u8]>>>()
        });
        size_of::<Self>() + self.groups.len() * size_of::<Group>() + self.arena.capacity() + outside
    }

    pub(super) fn free_effort(&self) -> usize {
        2 + self.outside.as_ref().map_or(0, |outside| outside.len() + 2)
    }
}

/// The offsets of all records of an index.
fn live(groups: &[Group]) -> impl Iterator<Item = u16> {
    groups.iter().flat_map(|group| {
        let slots = group.tags.iter().zip(group.offsets);
        slots.filter(|(tag, _)| **tag > REMOVED).map(|(_, offset)| offset)
    })
}

/// Key and value of the record at the start of `bytes`.
#[inline]
fn read(bytes: &[u8]) -> (&[u8], &[u8]) {
    let value = value_range(bytes);
    let key_len = element(bytes, 0).len();
    (&bytes[value.start - key_len..value.start], &bytes[value])
}

/// Where the value of the record at the start of `bytes` is.
#[inline]
fn value_range(bytes: &[u8]) -> std::ops::Range<usize> {
    // Of both prefixes only the lengths are looked at: what follows them is not what an element's would be.
    let key = element(bytes, 0);
    let value = element(bytes, key.start);
    let start = value.start + key.len();
    start..start + value.len()
}

/// Bytes that the record at the start of `bytes` takes in the arena.
fn stored_len(bytes: &[u8]) -> usize {
    if bytes[0] == OUTSIDE { OUTSIDE_LEN } else { value_range(bytes).end }
}

fn write_parts(mut to: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let (head, tail) = to.split_at_mut(part.len());
        head.copy_from_slice(part);
        to = tail;
    }
}

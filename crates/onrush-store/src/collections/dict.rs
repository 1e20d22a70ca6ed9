//! A hash table from byte strings to byte strings: the large form of sets and hashes.
//!
//! Extendible hashing: the upper bits of a key's hash choose, through a directory, a segment of at most some 900
//! records. A segment that is full splits in two; nothing larger than a segment ever moves, so growing takes
//! microseconds however many records there are. Only the directory, four bytes for each segment's range, doubles.

mod offsets;
mod records;
mod segment;
mod spread;

use std::ops::Deref;

use crate::collections::part::Part;
use crate::random::Random;
use segment::{Overflow, Segment};
use spread::Spread;

/// Bits of the hash that the directory may use. The low 24 belong to the segments.
const DEPTH_MAX: u8 = 29;

/// The directory may always have so many entries (4 KB); beyond that it needs [`LEN_PER_ENTRY_MIN`].
const DIRECTORY_LEN_FREE: usize = 1024;

/// Least number of keys for each entry of a larger directory; with fewer keys the table changes to another hash. If the
/// hash spreads keys evenly, there are eight times as many, even if they are long.
const LEN_PER_ENTRY_MIN: usize = 2;

/// Most records per segment, on average, when the number of records is known in advance.
const EXPECTED_LEN_MAX: usize = 600;

/// Two neighbouring segments with at most so many records together become one.
const MERGED_LEN_MAX: usize = 300;

/// The same limit in bytes of records: half of the size at which a segment splits.
const MERGED_BYTES_MAX: usize = 16 * 1024;

/// A hash table from byte strings to byte strings. Keys are hashed with [`crate::member_hash`].
#[derive(Clone)]
pub(crate) struct Dict {
    /// The upper `depth` bits of a hash to a segment.
    directory: Vec<u32>,
    segments: Vec<Line>,
    depth: u8,
    len: usize,
    /// Turns a key's hash into the hash that places it. Below, `hash` is the former and `placing` the latter.
    spread: Spread,
}

/// A segment in a cache line of its own.
#[derive(Clone, Default)]
#[repr(align(64))]
struct Line(Part<Segment>);

const _: () = assert!(size_of::<Line>() == 64, "whether a segment is shared needs no room");

impl Deref for Line {
    type Target = Segment;

    #[inline]
    fn deref(&self) -> &Segment {
        &self.0
    }
}

impl From<Segment> for Line {
    fn from(segment: Segment) -> Self {
        Line(segment.into())
    }
}

impl Dict {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self::with_spread(Spread::SHARED)
    }

    fn with_spread(spread: Spread) -> Self {
        Dict { directory: vec![0], segments: vec![Segment::new(0, 0).into()], depth: 0, len: 0, spread }
    }

    /// An empty table with segments for about `len` keys, which may come in any order. O(`len` / 500).
    pub(crate) fn for_len(len: usize) -> Self {
        let depth = (len / EXPECTED_LEN_MAX).checked_ilog2().map_or(0, |log| log as u8 + 1).min(DEPTH_MAX);
        if depth == 0 {
            return Self::new();
        }
        let segment = |index: u32| {
            let mut segment = Segment::new(u64::from(index) << (64 - depth), depth);
            segment.reserve(len >> depth);
            segment
        };
        let ids = 0..1 << depth;
        Dict {
            directory: ids.clone().collect(),
            segments: ids.map(|id| segment(id).into()).collect(),
            depth,
            ..Self::new()
        }
    }

    /// A copy of the table as it is now. Both share all segments; a change copies only the segment that it changes.
    /// O(segments), without reading any.
    pub(crate) fn freeze(&mut self) -> Dict {
        let segments = self.segments.iter_mut().map(|line| Line(line.0.share())).collect();
        Dict { directory: self.directory.clone(), segments, spread: self.spread.clone(), ..*self }
    }

    /// Takes back the segments that no other copy shares any more. O(segments).
    pub(crate) fn thaw(&mut self) {
        self.segments.iter_mut().for_each(|line| line.0.thaw());
    }

    /// Number of keys. O(1).
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn id_of(&self, placing: u64) -> usize {
        // Not by 64 - depth: for depth 0 that would be an overflow.
        let index = (placing >> 1) >> (63 - self.depth);
        self.directory[index as usize] as usize
    }

    /// The value of a key. O(1).
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let placing = self.spread.of_key(key);
        self.segments[self.id_of(placing)].get(placing, key)
    }

    /// As [`Dict::get`] with the key's hash.
    #[inline]
    pub(crate) fn get_hashed(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let placing = self.spread.of_hashed(hash, key);
        self.segments[self.id_of(placing)].get(placing, key)
    }

    /// Inserts or overwrites; the value is `parts`, one after the other. Returns whether the key is new. Amortised
    /// O(1), at most O(a segment); if the keys turn out to be spread badly, O(keys) once or twice.
    pub(crate) fn insert(&mut self, key: &[u8], parts: &[&[u8]]) -> bool {
        loop {
            let placing = self.spread.of_key(key);
            let id = self.id_of(placing);
            match self.segments[id].0.own().insert(placing, key, parts, &self.spread) {
                Ok(is_new) => {
                    self.len += usize::from(is_new);
                    return is_new;
                }
                Err(Overflow) => self.split(id),
            }
        }
    }

    /// Inserts the keys of another table, without values. Amortised O(keys there).
    pub(crate) fn add_keys(&mut self, other: &Dict) {
        other.iter().for_each(|(key, _)| _ = self.insert(key, &[]));
    }

    /// Removes a key; returns whether it was there. Amortised O(1), at most O(a segment).
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let placing = self.spread.of_key(key);
        let id = self.id_of(placing);
        if !self.segments[id].0.own().remove(placing, key, &self.spread) {
            return false;
        }
        self.len -= 1;
        if self.segments[id].len() <= MERGED_LEN_MAX / 4 {
            self.merge(placing);
        }
        true
    }

    /// Splits a segment in two by the next bit of its records' hashes; or, if the directory became too large for that,
    /// spreads all records anew. Either half may be left with all records, to be split again.
    #[cold]
    fn split(&mut self, id: usize) {
        if self.segments[id].depth == self.depth {
            let directory_len_max = DIRECTORY_LEN_FREE.max(self.len / LEN_PER_ENTRY_MIN);
            if 2 * self.directory.len() > directory_len_max
                && let Some(spread) = self.spread.next()
            {
                return self.spread_anew(spread);
            }
            assert!(self.depth < DEPTH_MAX, "a keyed hash does not have so many keys begin with the same 29 bits");
            let mut directory = Vec::with_capacity(2 * self.directory.len());
            self.directory.iter().for_each(|&id| directory.extend([id, id]));
            self.directory = directory;
            self.depth += 1;
        }
        let upper = self.segments[id].0.own().split(&self.spread);
        let new_id = self.segments.len() as u32;
        let range = self.range_of(&upper);
        self.directory[range].fill(new_id);
        self.segments.push(upper.into());
    }

    /// Places all records by another hash. O(records).
    fn spread_anew(&mut self, spread: Spread) {
        let mut other = Dict::with_spread(spread);
        for segment in std::mem::take(&mut self.segments) {
            segment.iter().for_each(|(key, value)| _ = other.insert(key, &[value]));
        }
        *self = other;
    }

    /// The directory's entries for a segment.
    fn range_of(&self, segment: &Segment) -> std::ops::Range<usize> {
        let width = 1 << (self.depth - segment.depth);
        let first = ((segment.prefix >> 1) >> (63 - self.depth)) as usize;
        first..first + width
    }

    /// Merges the segment for a hash with its other half, then the result with its other half, and so on, as long as
    /// both are nearly empty.
    #[cold]
    fn merge(&mut self, placing: u64) {
        let depth = self.segments[self.id_of(placing)].depth;
        while self.merge_once(self.id_of(placing)) {}
        if self.segments[self.id_of(placing)].depth < depth {
            self.shrink_directory();
            if self.segments.capacity() > 4 * self.segments.len() {
                self.segments.shrink_to(2 * self.segments.len());
            }
        }
    }

    /// Merges a segment with its other half if both are nearly empty; returns whether it did.
    fn merge_once(&mut self, id: usize) -> bool {
        let segment = &self.segments[id];
        if segment.depth == 0 {
            return false;
        }
        let other_id = self.id_of(segment.prefix ^ 1 << (64 - segment.depth));
        let other = &self.segments[other_id];
        let (len, bytes) = (segment.len() + other.len(), segment.live_len() + other.live_len());
        if other.depth != segment.depth || len > MERGED_LEN_MAX || bytes > MERGED_BYTES_MAX {
            return false;
        }
        let (kept, gone) = (id.min(other_id), id.max(other_id));
        let removed = std::mem::take(&mut self.segments[gone]).0.into_inner();
        self.segments[kept].0.own().absorb(removed, &self.spread);
        let range = self.range_of(&self.segments[kept]);
        self.directory[range].fill(kept as u32);
        // The last segment gets the number that became free.
        self.segments.swap_remove(gone);
        if gone < self.segments.len() {
            let range = self.range_of(&self.segments[gone]);
            self.directory[range].fill(gone as u32);
        }
        true
    }

    /// Once the directory is far too large, halves it as long as no segment needs all of it.
    fn shrink_directory(&mut self) {
        if self.directory.len() < 16 * self.segments.len() {
            return;
        }
        let needed = self.segments.iter().map(|segment| segment.depth).max().unwrap_or(0);
        if needed < self.depth {
            let step = 1 << (self.depth - needed);
            self.directory = self.directory.iter().copied().step_by(step).collect();
            self.depth = needed;
        }
    }

    /// All keys with their values, in no particular order. But the order of segments is the same for all tables that
    /// spread keys alike: reading from one table and inserting into, or looking up in, another goes one segment after
    /// the other.
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { dict: self, index: 0, segment: None }
    }

    /// Visits about `count` keys from `cursor` on, and returns where to go on; 0 at the end. A key that stays during
    /// the whole scan is visited at least once, whatever is inserted or removed in between.
    ///
    /// A cursor is a position in hash order: the start of a segment's range, that segment's depth, and the place within
    /// it. If the segment has been merged since, the scan starts at the beginning of the merged one; if the table has
    /// been spread anew, the scan starts again.
    pub(crate) fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        let spread = self.spread.number();
        let mut at = Cursor::from_number(cursor);
        if at.spread != spread {
            at = Cursor { prefix: 0, spread, depth: 0, place: 0 };
        }
        let mut visited = 0;
        loop {
            let segment = &self.segments[self.id_of(at.prefix)];
            if segment.depth < at.depth || at.prefix != segment.prefix {
                at.place = if segment.depth < at.depth { 0 } else { at.place };
                at.prefix = segment.prefix;
            }
            at.depth = segment.depth;
            while at.place < Segment::PLACES {
                if visited >= count {
                    return at.number();
                }
                segment.visit_place(at.place, &self.spread, &mut |key, value| {
                    visited += 1;
                    visit(key, value);
                });
                at.place = segment.next_place(at.place);
            }
            let width = (1u64 << 63) >> segment.depth;
            // Twice half the width: the whole width may not fit.
            match segment.prefix.checked_add(width).and_then(|middle| middle.checked_add(width)) {
                Some(next) => at = Cursor { prefix: next, spread, depth: 0, place: 0 },
                None => return 0,
            }
        }
    }

    /// A key chosen evenly among all. Expected O(1).
    pub(crate) fn random(&self, random: &mut Random) -> Option<(&[u8], &[u8])> {
        const DRAWS_MAX: usize = 4_000;
        if self.len == 0 {
            return None;
        }
        for _ in 0..DRAWS_MAX {
            let index = random.below(self.directory.len());
            let segment = &self.segments[self.directory[index] as usize];
            // Each segment counts once, however many directory entries it has, and each draws from the same number of
            // slots.
            if self.range_of(segment).start == index
                && let Some(found) = segment.at_slot(random.below(Segment::SLOTS_MAX))
            {
                return Some(found);
            }
        }
        self.iter().nth(random.below(self.len))
    }

    /// Prefetches what looking up some hashes reads, step by step for all of them. O(hashes).
    pub(crate) fn prefetch(&self, hashes: &[u64]) {
        let placings = || hashes.iter().map(|&hash| self.spread.guess(hash));
        placings().for_each(|placing| crate::keyspace::bucket::prefetch(&self.segments[self.id_of(placing)]));
        // A segment that is in the cache leads to its index, and that to the likely record.
        placings().for_each(|placing| self.segments[self.id_of(placing)].prefetch_group(placing));
        placings().for_each(|placing| self.segments[self.id_of(placing)].prefetch_record(placing));
    }

    /// Bytes allocated. O(segments).
    pub(crate) fn size_bytes(&self) -> usize {
        let segments: usize = self.segments.iter().map(|segment| segment.size_bytes()).sum();
        segments
            + (self.segments.capacity() - self.segments.len()) * size_of::<Line>()
            + self.directory.capacity() * size_of::<u32>()
            + size_of::<Self>()
    }

    /// About how many allocations freeing it gives back.
    pub(crate) fn free_effort(&self) -> usize {
        2 + self.segments.iter().map(|segment| segment.free_effort()).sum::<usize>()
    }
}

/// Keys and values of a table.
pub(crate) struct Iter<'a> {
    dict: &'a Dict,
    /// The index of the directory's entry for the next segment.
    index: usize,
    segment: Option<segment::Iter<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.segment.as_mut().and_then(Iterator::next) {
                return Some(found);
            }
            let segment = &self.dict.segments[*self.dict.directory.get(self.index)? as usize];
            self.index += 1 << (self.dict.depth - segment.depth);
            self.segment = Some(segment.iter());
        }
    }
}

/// A place in a scan.
struct Cursor {
    prefix: u64,
    /// Number of the [`Spread`] that the place belongs to.
    spread: u8,
    depth: u8,
    place: u32,
}

impl Cursor {
    const PLACE_BITS: u32 = 16;
    const DEPTH_BITS: u32 = 5;
    const SPREAD_BITS: u32 = 2;
    const SPREAD_SHIFT: u32 = Self::PLACE_BITS + Self::DEPTH_BITS;
    const PREFIX_SHIFT: u32 = Self::SPREAD_SHIFT + Self::SPREAD_BITS;
    const UNUSED_BITS: u32 = 64 - DEPTH_MAX as u32;

    fn from_number(number: u64) -> Self {
        let part = |shift: u32, bits: u32| (number >> shift) as u32 & ((1 << bits) - 1);
        Cursor {
            prefix: number >> Self::PREFIX_SHIFT << Self::UNUSED_BITS,
            spread: part(Self::SPREAD_SHIFT, Self::SPREAD_BITS) as u8,
            depth: part(Self::PLACE_BITS, Self::DEPTH_BITS) as u8,
            place: part(0, Self::PLACE_BITS),
        }
    }

    /// Below 2^52, so that doubles in clients hold it exactly.
    fn number(&self) -> u64 {
        self.prefix >> Self::UNUSED_BITS << Self::PREFIX_SHIFT
            | u64::from(self.spread) << Self::SPREAD_SHIFT
            | u64::from(self.depth) << Self::PLACE_BITS
            | u64::from(self.place)
    }
}

impl PartialEq for Dict {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl std::fmt::Debug for Dict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dict").field("len", &self.len).field("segments", &self.segments.len()).finish()
    }
}

#[cfg(test)]
mod tests;

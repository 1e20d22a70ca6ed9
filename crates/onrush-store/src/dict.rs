//! A hash table from byte strings to byte strings: the large form of sets and hashes.
//!
//! Extendible hashing: the upper bits of a key's hash choose, through a directory, a segment of at most some 900
//! records. A segment that is full splits in two; nothing larger than a segment is ever moved, so that growing takes
//! microseconds however many records there are. The directory, four bytes for each segment's range, is all that
//! doubles.

mod records;
mod segment;

use crate::random::Random;
use segment::{Overflow, Segment};

/// Bits of the hash that the directory may use. The low 24 belong to the segments.
const DEPTH_MAX: u8 = 31;

/// Two neighbouring segments with at most so many records together become one.
const MERGED_LEN_MAX: usize = 300;

/// The same in bytes of their records.
const MERGED_BYTES_MAX: usize = 32 * 1024;

/// A hash table from byte strings to byte strings. Keys are hashed with [`crate::member_hash`].
#[derive(Clone)]
pub(crate) struct Dict {
    /// The upper `depth` bits of a hash to a segment.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    depth: u8,
    len: usize,
}

impl Dict {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Dict { directory: vec![0], segments: vec![Segment::new(0, 0)], depth: 0, len: 0 }
    }

    /// Number of keys. O(1).
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn id_of(&self, hash: u64) -> usize {
        // Not by 64 - depth: for depth 0 that would be an overflow.
        let index = (hash >> 1) >> (63 - self.depth);
        self.directory[index as usize] as usize
    }

    /// The value of a key. O(1).
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.get_hashed(crate::member_hash(key), key)
    }

    /// As [`Dict::get`] with the key's hash.
    #[inline]
    pub(crate) fn get_hashed(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        self.segments[self.id_of(hash)].get(hash, key)
    }

    /// Inserts or overwrites; the value is `parts`, one behind the other. Says whether the key is new. Amortised O(1),
    /// at most O(a segment).
    pub(crate) fn insert(&mut self, key: &[u8], parts: &[&[u8]]) -> bool {
        self.insert_hashed(crate::member_hash(key), key, parts)
    }

    /// As [`Dict::insert`] with the key's hash.
    pub(crate) fn insert_hashed(&mut self, hash: u64, key: &[u8], parts: &[&[u8]]) -> bool {
        loop {
            let id = self.id_of(hash);
            match self.segments[id].insert(hash, key, parts) {
                Ok(is_new) => {
                    self.len += usize::from(is_new);
                    return is_new;
                }
                Err(Overflow) => self.split(id),
            }
        }
    }

    /// Removes a key; says whether it was there. Amortised O(1), at most O(a segment).
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.remove_hashed(crate::member_hash(key), key)
    }

    /// As [`Dict::remove`] with the key's hash.
    pub(crate) fn remove_hashed(&mut self, hash: u64, key: &[u8]) -> bool {
        let id = self.id_of(hash);
        if !self.segments[id].remove(hash, key) {
            return false;
        }
        self.len -= 1;
        if self.segments[id].depth > 0 && self.segments[id].len() <= MERGED_LEN_MAX / 4 {
            self.merge(id);
        }
        true
    }

    /// Splits a segment in two by the next bit of its records' hashes.
    #[cold]
    fn split(&mut self, id: usize) {
        let depth = self.segments[id].depth;
        assert!(depth < DEPTH_MAX, "2^39 records fit before so many of one segment share 31 bits of their hashes");
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&id| [id, id]).collect();
            self.depth += 1;
        }
        let upper = self.segments[id].split();
        let new_id = self.segments.len() as u32;
        let range = self.range_of(&upper);
        self.directory[range].fill(new_id);
        self.segments.push(upper);
    }

    /// The directory's entries for a segment.
    fn range_of(&self, segment: &Segment) -> std::ops::Range<usize> {
        let width = 1 << (self.depth - segment.depth);
        let first = ((segment.prefix >> 1) >> (63 - self.depth)) as usize;
        first..first + width
    }

    /// Makes one of a segment and its other half, if both are nearly empty.
    #[cold]
    fn merge(&mut self, id: usize) {
        let segment = &self.segments[id];
        let other_id = self.id_of(segment.prefix ^ 1 << (64 - segment.depth));
        let is_half = self.segments[other_id].depth == segment.depth;
        let other = &self.segments[other_id];
        let bytes = segment.live_len() + other.live_len();
        if !is_half || segment.len() + other.len() > MERGED_LEN_MAX || bytes > MERGED_BYTES_MAX {
            return;
        }
        let (kept, gone) = (id.min(other_id), id.max(other_id));
        let removed = std::mem::replace(&mut self.segments[gone], Segment::new(0, 0));
        self.segments[kept].absorb(removed);
        let range = self.range_of(&self.segments[kept]);
        self.directory[range].fill(kept as u32);
        // The last segment takes the number that became free.
        self.segments.swap_remove(gone);
        if gone < self.segments.len() {
            let range = self.range_of(&self.segments[gone]);
            self.directory[range].fill(gone as u32);
        }
        self.shrink_directory();
    }

    /// Halves the directory while nothing needs all of it, once it is far too large.
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

    /// All keys with their values, in no particular order.
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { segment: None, rest: self.segments.iter() }
    }

    /// Visits about `count` keys from `cursor` on, and returns where to go on; 0 at the end. What is there all the
    /// time is visited at least once, whatever is inserted or removed in between.
    ///
    /// A cursor is a position in hash order: the start of a segment's range, that segment's depth, and the place
    /// within it. A segment that has been merged since is begun anew.
    pub(crate) fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        let mut at = Cursor::from_number(cursor);
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
                segment.visit_place(at.place, &mut |key, value| {
                    visited += 1;
                    visit(key, value);
                });
                at.place = segment.next_place(at.place);
            }
            let width = (1u64 << 63) >> segment.depth;
            // Twice half the width: the whole one may not fit.
            match segment.prefix.checked_add(width).and_then(|middle| middle.checked_add(width)) {
                Some(next) => at = Cursor { prefix: next, depth: 0, place: 0 },
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
            // A segment counts once, however much of the directory is its, and every one draws from as many slots.
            if self.range_of(segment).start == index
                && let Some(found) = segment.at_slot(random.below(Segment::SLOTS_MAX))
            {
                return Some(found);
            }
        }
        self.iter().nth(random.below(self.len))
    }

    /// Asks the processor for what a look-up of `hash` reads first. O(1).
    #[inline]
    pub(crate) fn prefetch_segment(&self, hash: u64) {
        self.segments[self.id_of(hash)].prefetch();
    }

    /// Asks for the part of the segment's index that is about `hash`; the segment is in the cache. O(1).
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.segments[self.id_of(hash)].prefetch_group(hash);
    }

    /// Asks for the record that is likely meant; the index is in the cache. O(1).
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        self.segments[self.id_of(hash)].prefetch_record(hash);
    }

    /// Bytes allocated. O(segments).
    pub(crate) fn size_bytes(&self) -> usize {
        let segments: usize = self.segments.iter().map(Segment::size_bytes).sum();
        segments
            + (self.segments.capacity() - self.segments.len()) * size_of::<Segment>()
            + self.directory.capacity() * size_of::<u32>()
            + size_of::<Self>()
    }

    /// About how many allocations freeing it gives back.
    pub(crate) fn free_effort(&self) -> usize {
        2 + self.segments.iter().map(Segment::free_effort).sum::<usize>()
    }
}

/// Keys and values of a table.
pub(crate) struct Iter<'a> {
    segment: Option<segment::Iter<'a>>,
    rest: std::slice::Iter<'a, Segment>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.segment.as_mut().and_then(Iterator::next) {
                return Some(found);
            }
            self.segment = Some(self.rest.next()?.iter());
        }
    }
}

/// A place in a scan.
struct Cursor {
    prefix: u64,
    depth: u8,
    place: u32,
}

impl Cursor {
    const PLACE_BITS: u32 = 16;
    const DEPTH_BITS: u32 = 5;

    fn from_number(number: u64) -> Self {
        Cursor {
            prefix: number >> (Self::PLACE_BITS + Self::DEPTH_BITS) << (64 - DEPTH_MAX as u32),
            depth: (number >> Self::PLACE_BITS) as u8 & ((1 << Self::DEPTH_BITS) - 1),
            place: number as u32 & ((1 << Self::PLACE_BITS) - 1),
        }
    }

    /// Below 2^52, so that every client's numbers hold it.
    fn number(&self) -> u64 {
        self.prefix >> (64 - DEPTH_MAX as u32) << (Self::PLACE_BITS + Self::DEPTH_BITS)
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
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn key(n: usize) -> Vec<u8> {
        format!("member:{n:07}").into_bytes()
    }

    fn scanned(dict: &Dict, count: usize) -> (HashSet<Vec<u8>>, usize) {
        let (mut found, mut cursor, mut visits) = (HashSet::new(), 0, 0);
        loop {
            cursor = dict.scan(cursor, count, &mut |key, _| {
                visits += 1;
                found.insert(key.to_vec());
            });
            if cursor == 0 {
                return (found, visits);
            }
        }
    }

    /// Inserts, overwrites and removes at random while the table grows and shrinks, against a map.
    #[test]
    fn agrees_with_a_map() {
        let operations = if cfg!(miri) { 700 } else { 300_000 };
        let mut random = Random::new(3);
        let mut dict = Dict::new();
        let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        for step in 0..operations {
            // The number of keys in play swells and ebbs.
            let phase = step % (operations / 3);
            let growing = phase < operations / 6;
            let key = key(random.below(20_000));
            if random.below(100) < if growing { 80 } else { 20 } {
                let len = [0, 3, 3, 8, 40, 200, 700][random.below(7)];
                let value = vec![step as u8; len];
                assert_eq!(dict.insert(&key, &[&value, b"!"]), !model.contains_key(&key));
                model.insert(key, [&value[..], b"!"].concat());
            } else {
                assert_eq!(dict.remove(&key), model.remove(&key).is_some());
            }
            assert_eq!(dict.len(), model.len());
            if step % (operations / 7) == 0 {
                assert!(model.iter().all(|(key, value)| dict.get(key) == Some(value)));
                assert_eq!(dict.iter().count(), model.len());
                let (found, visits) = scanned(&dict, 10);
                assert_eq!((found.len(), visits), (model.len(), model.len()));
                assert_eq!(dict.clone(), dict);
            }
        }
        for key in model.keys() {
            assert!(dict.remove(key));
        }
        assert_eq!((dict.len(), dict.iter().count()), (0, 0));
        assert!(cfg!(miri) || dict.segments.len() < 8, "{} segments are left", dict.segments.len());
    }

    #[test]
    fn a_scan_returns_what_stays_whatever_comes_and_goes() {
        if cfg!(miri) {
            return;
        }
        for seed in 0..30 {
            let mut random = Random::new(seed);
            let mut dict = Dict::new();
            let staying = 1 + random.below(5_000);
            (0..staying).for_each(|n| assert!(dict.insert(&key(n), &[])));
            let growing = seed % 2 == 0;
            if !growing {
                (10_000..40_000).for_each(|n| assert!(dict.insert(&key(n), &[])));
            }
            let (mut found, mut cursor, mut next) = (HashSet::new(), 0, 10_000);
            loop {
                cursor = dict.scan(cursor, 1 + random.below(100), &mut |key, _| _ = found.insert(key.to_vec()));
                if cursor == 0 {
                    break;
                }
                for _ in 0..random.below(800) {
                    if growing && next < 40_000 {
                        dict.insert(&key(next), &[]);
                    } else {
                        dict.remove(&key(next));
                    }
                    next += 1;
                }
            }
            assert!((0..staying).all(|n| found.contains(&key(n))), "seed {seed}");
        }
    }

    #[test]
    fn every_member_is_as_likely() {
        let mut dict = Dict::new();
        let members = 3_000;
        (0..members).for_each(|n| assert!(dict.insert(&key(n), &[])));
        let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut random = Random::new(1);
        let draws = if cfg!(miri) { 10 } else { 300_000 };
        for _ in 0..draws {
            let (member, _) = dict.random(&mut random).unwrap();
            *counts.entry(member.to_vec()).or_default() += 1;
        }
        if !cfg!(miri) {
            // A hundred draws each; six standard deviations are 60.
            assert_eq!(counts.len(), members);
            assert!(counts.values().all(|&count| (40..160).contains(&count)));
        }
    }

    #[test]
    fn a_member_of_a_million_takes_few_bytes() {
        if cfg!(miri) {
            return;
        }
        let mut dict = Dict::new();
        (0..200_000).for_each(|n| assert!(dict.insert(&key(n), &[])));
        let each = dict.size_bytes() / dict.len();
        assert!(each <= 28, "{each} bytes for a member of 14");
    }
}

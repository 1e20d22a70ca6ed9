//! From a member's hash to its place. Only the tree has members: a place found here is looked up there.
//!
//! Extendible hashing, as in [`crate::collections::dict::Dict`]: a full segment splits in two, and nothing larger is ever moved.

use super::places::Place;

/// Slots of a segment, a power of two.
const SLOTS_MIN: usize = 8;
const SLOTS_MAX: usize = 1024;

/// Bits of the hash that the directory may use; the slots use the lower ones.
const DEPTH_MAX: u8 = 22;

/// The part of a member's hash that the index uses.
pub(super) fn short_hash(member: &[u8]) -> u32 {
    shorten(crate::member_hash(member))
}

/// The upper half of a member's hash; 0 stands for an empty slot.
#[inline]
pub(super) fn shorten(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}

#[derive(Clone, Debug)]
struct Segment {
    hashes: Box<[u32]>,
    places: Box<[Place]>,
    len: usize,
    depth: u8,
}

impl Segment {
    fn new(slots: usize, depth: u8) -> Self {
        Segment { hashes: vec![0; slots].into(), places: vec![Place::NONE; slots].into(), len: 0, depth }
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.hashes.len() - 1)
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.hashes.len() - 1)
    }

    fn is_full(&self) -> bool {
        self.len * 8 >= self.hashes.len() * 7
    }

    /// The first slot with a hash, from one on.
    #[inline]
    fn find(&self, hash: u32, mut slot: usize) -> Option<usize> {
        while self.hashes[slot] != 0 {
            if self.hashes[slot] == hash {
                return Some(slot);
            }
            slot = self.next(slot);
        }
        None
    }

    fn insert(&mut self, hash: u32, place: Place) {
        let mut slot = self.home(hash);
        while self.hashes[slot] != 0 {
            slot = self.next(slot);
        }
        (self.hashes[slot], self.places[slot]) = (hash, place);
        self.len += 1;
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(self, Segment::new(slots, self.depth));
        old.iter().for_each(|(hash, place)| self.insert(hash, place));
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Place)> {
        self.hashes.iter().copied().zip(self.places.iter().copied()).filter(|(hash, _)| *hash != 0)
    }

    /// Empties a slot and moves up entries that a search would no longer find.
    fn remove_slot(&mut self, slot: usize) {
        let mask = self.hashes.len() - 1;
        let mut free = slot;
        let mut at = self.next(slot);
        while self.hashes[at] != 0 {
            let home = self.home(self.hashes[at]);
            // Whether the free slot lies on the path from the entry's home to here.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(free) & mask) {
                self.hashes[free] = self.hashes[at];
                self.places[free] = self.places[at];
                free = at;
            }
            at = self.next(at);
        }
        self.hashes[free] = 0;
        self.len -= 1;
    }
}

/// A slot of the index, until something is inserted or removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    segment: usize,
    slot: usize,
}

/// Places by hash; several members may share a hash.
#[derive(Clone, Debug)]
pub(super) struct Index {
    directory: Vec<u32>,
    segments: Vec<Segment>,
    depth: u8,
}

impl Index {
    pub(super) fn new() -> Self {
        Index { directory: vec![0], segments: vec![Segment::new(SLOTS_MIN, 0)], depth: 0 }
    }

    #[inline]
    fn id_of(&self, hash: u32) -> usize {
        let index = (u64::from(hash) << self.depth) >> 32;
        self.directory[index as usize] as usize
    }

    /// The first slot with a hash. O(1).
    #[inline]
    pub(super) fn first(&self, hash: u32) -> Option<At> {
        let segment = self.id_of(hash);
        let of = &self.segments[segment];
        of.find(hash, of.home(hash)).map(|slot| At { segment, slot })
    }

    /// The next slot with the hash of one. O(1).
    #[inline]
    pub(super) fn next(&self, hash: u32, at: At) -> Option<At> {
        let of = &self.segments[at.segment];
        of.find(hash, of.next(at.slot)).map(|slot| At { slot, ..at })
    }

    #[inline]
    pub(super) fn place(&self, at: At) -> Place {
        self.segments[at.segment].places[at.slot]
    }

    #[inline]
    pub(super) fn set(&mut self, at: At, place: Place) {
        self.segments[at.segment].places[at.slot] = place;
    }

    /// The first place under a hash for which `take` returns something. O(1).
    #[inline]
    pub(super) fn find<R>(&self, hash: u32, mut take: impl FnMut(Place) -> Option<R>) -> Option<R> {
        let mut next = self.first(hash);
        while let Some(at) = next {
            let taken = take(self.place(at));
            if taken.is_some() {
                return taken;
            }
            next = self.next(hash, at);
        }
        None
    }

    /// The slot with a hash and a place. O(1).
    fn slot_of(&self, hash: u32, place: Place) -> Option<At> {
        let mut next = self.first(hash);
        while let Some(at) = next
            && self.place(at) != place
        {
            next = self.next(hash, at);
        }
        debug_assert!(next.is_some(), "every member is in the index");
        next
    }

    /// Changes a member's place. Two members with the same hash at the same place are interchangeable. O(1).
    pub(super) fn change(&mut self, hash: u32, from: Place, to: Place) {
        if let Some(at) = self.slot_of(hash, from) {
            self.set(at, to);
        }
    }

    /// Adds a member's place. Amortised O(1), at most O(a segment).
    pub(super) fn insert(&mut self, hash: u32, place: Place) {
        loop {
            let id = self.id_of(hash);
            let segment = &mut self.segments[id];
            if !segment.is_full() {
                return segment.insert(hash, place);
            }
            if segment.hashes.len() < SLOTS_MAX || segment.depth == DEPTH_MAX {
                segment.resize(segment.hashes.len() * 2);
            } else {
                self.split(id);
            }
        }
    }

    fn split(&mut self, id: usize) {
        if self.segments[id].depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&id| [id, id]).collect();
            self.depth += 1;
        }
        let slots = self.segments[id].hashes.len();
        let depth = self.segments[id].depth + 1;
        let old = std::mem::replace(&mut self.segments[id], Segment::new(slots, depth));
        let mut upper = Segment::new(slots, depth);
        let bit = 1u32 << (32 - depth);
        for (hash, place) in old.iter() {
            if hash & bit == 0 {
                self.segments[id].insert(hash, place);
            } else {
                upper.insert(hash, place);
            }
        }
        let new_id = self.segments.len() as u32;
        self.segments.push(upper);
        // The upper half of the directory entries that pointed at the old segment.
        let first = self.directory.iter().position(|&other| other as usize == id).unwrap_or_default();
        let width = 1 << (self.depth - depth);
        self.directory[first + width..first + 2 * width].fill(new_id);
    }

    /// Removes a slot. O(1).
    pub(super) fn remove_at(&mut self, at: At) {
        let segment = &mut self.segments[at.segment];
        segment.remove_slot(at.slot);
        if segment.hashes.len() > SLOTS_MIN && segment.len * 8 < segment.hashes.len() {
            segment.resize((segment.hashes.len() / 4).max(SLOTS_MIN));
        }
    }

    /// Removes a member that is at a place. O(1).
    pub(super) fn remove(&mut self, hash: u32, place: Place) {
        if let Some(at) = self.slot_of(hash, place) {
            self.remove_at(at);
        }
    }

    /// The entries of a hash's segment from that hash on, in no order, and where the next segment begins. O(a segment).
    pub(super) fn rest_of_segment(&self, hash: u32) -> (Vec<(u32, Place)>, u64) {
        let segment = &self.segments[self.id_of(hash)];
        let width = 1u64 << (32 - segment.depth);
        let end = (u64::from(hash) & !(width - 1)) + width;
        (segment.iter().filter(|(other, _)| *other >= hash).collect(), end)
    }

    /// Prefetches what a look-up reads first. O(1).
    pub(super) fn prefetch(&self, hash: u32) {
        let segment = &self.segments[self.id_of(hash)];
        let home = segment.home(hash);
        crate::keyspace::bucket::prefetch(&segment.hashes[home]);
        crate::keyspace::bucket::prefetch(&segment.places[home]);
    }

    /// Bytes allocated. O(segments).
    pub(super) fn size_bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.hashes.len()).sum();
        slots * (size_of::<u32>() + size_of::<Place>())
            + self.segments.capacity() * size_of::<Segment>()
            + self.directory.capacity() * size_of::<u32>()
    }

    /// About how many allocations freeing it gives back.
    pub(super) fn free_effort(&self) -> usize {
        2 + 2 * self.segments.len()
    }
}

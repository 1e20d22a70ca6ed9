//! From a member's hash to its score. Members are in the tree alone: what is found here is looked up there.
//!
//! Extendible hashing, as in [`crate::dict::Dict`]: a full segment splits in two, and nothing larger is ever moved.

/// Slots of a segment, a power of two.
const SLOTS_MIN: usize = 8;
const SLOTS_MAX: usize = 1024;

/// Bits of the hash that the directory may use; the slots use the lower ones.
const DEPTH_MAX: u8 = 22;

/// The hash of a member that the index knows.
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
    scores: Box<[f64]>,
    len: usize,
    depth: u8,
}

impl Segment {
    fn new(slots: usize, depth: u8) -> Self {
        Segment { hashes: vec![0; slots].into(), scores: vec![0.0; slots].into(), len: 0, depth }
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

    /// The first slot with a hash for whose score `is_it` holds.
    #[inline]
    fn find(&self, hash: u32, mut is_it: impl FnMut(f64) -> bool) -> Option<usize> {
        let mut slot = self.home(hash);
        while self.hashes[slot] != 0 {
            if self.hashes[slot] == hash && is_it(self.scores[slot]) {
                return Some(slot);
            }
            slot = self.next(slot);
        }
        None
    }

    fn insert(&mut self, hash: u32, score: f64) {
        let mut slot = self.home(hash);
        while self.hashes[slot] != 0 {
            slot = self.next(slot);
        }
        (self.hashes[slot], self.scores[slot]) = (hash, score);
        self.len += 1;
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(self, Segment::new(slots, self.depth));
        old.iter().for_each(|(hash, score)| self.insert(hash, score));
    }

    fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        self.hashes.iter().copied().zip(self.scores.iter().copied()).filter(|(hash, _)| *hash != 0)
    }

    /// Empties a slot and moves up what a search would no longer find.
    fn remove_slot(&mut self, slot: usize) {
        let mask = self.hashes.len() - 1;
        let mut free = slot;
        let mut at = self.next(slot);
        while self.hashes[at] != 0 {
            let home = self.home(self.hashes[at]);
            // Whether the free slot lies on the way from home to here.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(free) & mask) {
                self.hashes[free] = self.hashes[at];
                self.scores[free] = self.scores[at];
                free = at;
            }
            at = self.next(at);
        }
        self.hashes[free] = 0;
        self.len -= 1;
    }
}

/// Scores by hash; several members may share a hash.
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

    /// The score under a hash for which `is_it` says that it is the member's: the first such.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl FnMut(f64) -> bool) -> Option<f64> {
        let segment = &self.segments[self.id_of(hash)];
        segment.find(hash, is_it).map(|slot| segment.scores[slot])
    }

    /// As [`Index::find`], to change the score.
    #[inline]
    pub(super) fn find_mut(&mut self, hash: u32, is_it: impl FnMut(f64) -> bool) -> Option<&mut f64> {
        let id = self.id_of(hash);
        let segment = &mut self.segments[id];
        segment.find(hash, is_it).map(|slot| &mut segment.scores[slot])
    }

    /// Adds a member's score. Amortised O(1), at most O(a segment).
    pub(super) fn insert(&mut self, hash: u32, score: f64) {
        loop {
            let id = self.id_of(hash);
            let segment = &mut self.segments[id];
            if !segment.is_full() {
                return segment.insert(hash, score);
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
        for (hash, score) in old.iter() {
            if hash & bit == 0 {
                self.segments[id].insert(hash, score);
            } else {
                upper.insert(hash, score);
            }
        }
        let new_id = self.segments.len() as u32;
        self.segments.push(upper);
        // The upper half of what pointed at the old segment.
        let first = self.directory.iter().position(|&other| other as usize == id).unwrap_or_default();
        let width = 1 << (self.depth - depth);
        self.directory[first + width..first + 2 * width].fill(new_id);
    }

    /// Removes the score under a hash for which `is_it` says that it is the member's; says whether there was one. O(1).
    pub(super) fn remove(&mut self, hash: u32, is_it: impl FnMut(f64) -> bool) -> bool {
        let id = self.id_of(hash);
        let segment = &mut self.segments[id];
        let Some(slot) = segment.find(hash, is_it) else { return false };
        segment.remove_slot(slot);
        if segment.hashes.len() > SLOTS_MIN && segment.len * 8 < segment.hashes.len() {
            segment.resize((segment.hashes.len() / 4).max(SLOTS_MIN));
        }
        true
    }

    /// The range of hashes of the segment that holds one, and the scores in it.
    pub(super) fn segment_of(&self, hash: u32) -> (std::ops::Range<u64>, Vec<f64>) {
        let segment = &self.segments[self.id_of(hash)];
        let width = 1u64 << (32 - segment.depth);
        let start = u64::from(hash) & !(width - 1);
        (start..start + width, segment.iter().map(|(_, score)| score).collect())
    }

    /// Asks the processor for what a look-up reads first. O(1).
    pub(super) fn prefetch(&self, hash: u32) {
        let segment = &self.segments[self.id_of(hash)];
        let home = segment.home(hash);
        crate::bucket::prefetch(&segment.hashes[home]);
        crate::bucket::prefetch(&segment.scores[home]);
    }

    /// Bytes allocated. O(segments).
    pub(super) fn size_bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.hashes.len()).sum();
        slots * (size_of::<u32>() + size_of::<f64>())
            + self.segments.capacity() * size_of::<Segment>()
            + self.directory.capacity() * size_of::<u32>()
    }

    /// About how many allocations freeing it gives back.
    pub(super) fn free_effort(&self) -> usize {
        2 + 2 * self.segments.len()
    }
}

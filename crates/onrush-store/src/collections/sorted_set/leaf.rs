//! A leaf of the tree: some hundred members in order, their scores in one array, their bytes in another.

use std::num::NonZeroU32;
use std::ops::Range;

use crate::shrink::shrink;

/// Members in a leaf.
pub(super) const LEAF_LEN_MAX: usize = 96;

/// Bytes of the members in a leaf that has more than one.
const LEAF_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Debug)]
enum Lens {
    Narrow(Vec<u8>),
    Wide(Vec<u32>),
}

/// Members in order of score and bytes.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    scores: Vec<f64>,
    lens: Lens,
    bytes: Vec<u8>,
    /// The number that the index has instead of the score, if all members share one ([`super::places`]).
    pub(super) number: Option<NonZeroU32>,
}

/// The members of a leaf from one on.
pub(super) struct LeafIter<'a> {
    leaf: &'a Leaf,
    index: usize,
    at: usize,
}

impl<'a> Iterator for LeafIter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        let score = *self.leaf.scores.get(self.index)?;
        let from = self.at;
        self.at += self.leaf.len_of(self.index);
        self.index += 1;
        Some((&self.leaf.bytes[from..self.at], score))
    }
}

/// Makes room for an eighth more items: memory per item matters more than an occasional copy.
fn make_room<T>(items: &mut Vec<T>, more: usize, least: usize) {
    if items.len() + more > items.capacity() {
        items.reserve_exact(more.max(items.len() / 8).max(least));
    }
}

/// Prefetches all of a short array.
fn lines<T>(items: &[T]) {
    const LINE: usize = 64;
    items.iter().step_by((LINE / size_of::<T>()).max(1)).for_each(|item| crate::keyspace::bucket::prefetch(item));
}

fn insert_at<T: Copy>(items: &mut Vec<T>, index: usize, item: T) {
    make_room(items, 1, 4);
    items.insert(index, item);
}

impl Leaf {
    pub(super) fn new() -> Self {
        Leaf { scores: Vec::new(), lens: Lens::Narrow(Vec::new()), bytes: Vec::new(), number: None }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn is_overfull(&self) -> bool {
        self.len() > LEAF_LEN_MAX || (self.bytes.len() > LEAF_BYTES_MAX && self.len() > 1)
    }

    /// Whether this and another fit into one leaf with room to spare.
    pub(super) fn fits_with(&self, other: &Leaf) -> bool {
        self.len() + other.len() <= LEAF_LEN_MAX / 2 && self.bytes.len() + other.bytes.len() <= LEAF_BYTES_MAX / 2
    }

    /// Asks the processor for where the arrays are: a leaf is longer than a cache line.
    #[inline]
    pub(super) fn prefetch_head(&self) {
        let head = std::ptr::from_ref(self);
        crate::keyspace::bucket::prefetch(head);
        crate::keyspace::bucket::prefetch(head.cast::<u8>().wrapping_add(size_of::<Self>() - 1));
    }

    /// Prefetches what a search reads and a change moves.
    pub(super) fn prefetch(&self) {
        lines(&self.scores);
        lines(&self.bytes);
        match &self.lens {
            Lens::Narrow(lens) => lines(lens),
            Lens::Wide(lens) => lines(lens),
        }
    }

    #[inline]
    fn offset_of(&self, index: usize) -> usize {
        match &self.lens {
            Lens::Narrow(lens) => lens[..index].iter().map(|&len| len as usize).sum(),
            Lens::Wide(lens) => lens[..index].iter().map(|&len| len as usize).sum(),
        }
    }

    #[inline]
    fn len_of(&self, index: usize) -> usize {
        match &self.lens {
            Lens::Narrow(lens) => lens[index] as usize,
            Lens::Wide(lens) => lens[index] as usize,
        }
    }

    #[inline]
    pub(super) fn score(&self, index: usize) -> f64 {
        self.scores[index]
    }

    #[inline]
    pub(super) fn member(&self, index: usize) -> &[u8] {
        let at = self.offset_of(index);
        &self.bytes[at..at + self.len_of(index)]
    }

    /// The members from `index` on, with their scores.
    pub(super) fn iter_from(&self, index: usize) -> LeafIter<'_> {
        LeafIter { leaf: self, index, at: self.offset_of(index) }
    }

    /// Where a member is, or where it belongs.
    pub(super) fn search(&self, score: f64, member: &[u8]) -> Result<usize, usize> {
        let first = self.scores.partition_point(|&other| other < score);
        let ties = self.scores[first..].partition_point(|&other| other <= score);
        if ties == 0 {
            return Err(first);
        }
        let (mut low, mut high) = (first, first + ties);
        while low < high {
            let middle = (low + high) / 2;
            match self.member(middle).cmp(member) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// How many members at the front satisfy `before`. If a member satisfies it, all before it must, too.
    pub(super) fn partition_point(&self, before: &dyn Fn(f64, &[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if before(self.scores[middle], self.member(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn insert(&mut self, index: usize, score: f64, member: &[u8]) {
        let at = self.offset_of(index);
        match &mut self.lens {
            Lens::Narrow(lens) => match u8::try_from(member.len()) {
                Ok(len) => insert_at(lens, index, len),
                Err(_) => {
                    let mut wide: Vec<u32> = lens.iter().map(|&len| u32::from(len)).collect();
                    insert_at(&mut wide, index, member.len() as u32);
                    self.lens = Lens::Wide(wide);
                }
            },
            Lens::Wide(lens) => insert_at(lens, index, member.len() as u32),
        }
        insert_at(&mut self.scores, index, score);
        make_room(&mut self.bytes, member.len(), 32);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(member);
        self.bytes.copy_within(at..end, at + member.len());
        self.bytes[at..at + member.len()].copy_from_slice(member);
    }

    pub(super) fn remove(&mut self, index: usize) {
        let at = self.offset_of(index);
        self.bytes.drain(at..at + self.len_of(index));
        self.scores.remove(index);
        match &mut self.lens {
            Lens::Narrow(lens) => _ = lens.remove(index),
            Lens::Wide(lens) => _ = lens.remove(index),
        }
        self.shrink_if_sparse();
    }

    /// Removes the members of a range. O(leaf).
    pub(super) fn remove_range(&mut self, range: Range<usize>) {
        let at = self.offset_of(range.start);
        let len: usize = range.clone().map(|index| self.len_of(index)).sum();
        self.bytes.drain(at..at + len);
        self.scores.drain(range.clone());
        match &mut self.lens {
            Lens::Narrow(lens) => _ = lens.drain(range),
            Lens::Wide(lens) => _ = lens.drain(range),
        }
        self.shrink_if_sparse();
    }

    fn shrink_if_sparse(&mut self) {
        if self.scores.len() * 2 < self.scores.capacity() && self.scores.len() >= 8 {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        shrink(&mut self.scores);
        shrink(&mut self.bytes);
        match &mut self.lens {
            Lens::Narrow(lens) => shrink(lens),
            Lens::Wide(lens) => shrink(lens),
        }
    }

    /// Takes out the members from `index` on.
    pub(super) fn split_off(&mut self, index: usize) -> Leaf {
        let bytes = self.bytes.split_off(self.offset_of(index));
        let lens = match &mut self.lens {
            Lens::Narrow(lens) => Lens::Narrow(lens.split_off(index)),
            Lens::Wide(lens) => Lens::Wide(lens.split_off(index)),
        };
        let upper = Leaf { scores: self.scores.split_off(index), lens, bytes, number: None };
        self.shrink();
        upper
    }

    /// Takes over the members of the leaf behind this one.
    pub(super) fn append(&mut self, other: &Leaf) {
        for (member, score) in other.iter_from(0) {
            let end = self.len();
            self.insert(end, score, member);
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        let lens = match &self.lens {
            Lens::Narrow(lens) => lens.capacity(),
            Lens::Wide(lens) => 4 * lens.capacity(),
        };
        size_of::<Self>() + 8 * self.scores.capacity() + lens + self.bytes.capacity()
    }
}

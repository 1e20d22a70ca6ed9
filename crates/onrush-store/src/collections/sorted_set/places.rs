//! Where members are: by hash, a score or the number of a leaf.
//!
//! With the score the tree finds a member whose bytes are known. A scan knows only the hash, so it would have to look
//! at all members with that score, which may be the whole set. Therefore a leaf whose members all have the same score
//! has a number, and the index holds the number instead of their score.
//!
//! A leaf gets or loses its number when it is split or merged, and loses it when a member with another score comes in.
//! So a leaf without a number whose members all have the same score once had a member with another score: it is the
//! first or the last leaf with that score.

use std::num::NonZeroU32;

use super::index::{Index, short_hash};
use super::leaf::Leaf;

/// NaNs begin with these bits; scores are never NaN.
const NUMBER_BITS: u64 = 0x7ff8_0000_0000_0000;

/// Where a member is: its score, or the number of the leaf that it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u64);

impl Place {
    /// Nowhere: a member on its way from one leaf to another.
    pub(super) const NONE: Self = Place(NUMBER_BITS);

    #[inline]
    pub(super) fn of_score(score: f64) -> Self {
        Place(score.to_bits())
    }

    #[inline]
    fn of_leaf(number: NonZeroU32) -> Self {
        Place(NUMBER_BITS | u64::from(number.get()))
    }

    /// Of a leaf's member.
    #[inline]
    pub(super) fn of_member(leaf: &Leaf, index: usize) -> Self {
        match leaf.number {
            Some(number) => Place::of_leaf(number),
            None => Place::of_score(leaf.score(index)),
        }
    }

    /// The bits of the score, or other bits that encode the leaf's number.
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }
}

impl PartialEq for Place {
    /// Zeros of both signs are one score.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || f64::from_bits(self.0) == f64::from_bits(other.0)
    }
}

/// A leaf with a number.
#[derive(Clone, Debug)]
struct Numbered {
    /// The score of its members.
    score: f64,
    /// A member that was in the leaf when it was last split: with the score it leads to the leaf.
    member: Box<[u8]>,
}

/// The way to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way<'a> {
    /// Members with this score are in one of the leaves that the tree finds for it.
    Score(f64),
    /// In the leaf that the tree finds for such a member.
    Leaf(f64, &'a [u8]),
}

/// Places by hash, and the leaves with numbers.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) index: Index,
    /// By number, the first of which is 1.
    numbered: Vec<Numbered>,
    /// Numbers that are free.
    free: Vec<NonZeroU32>,
}

impl Places {
    pub(super) fn new() -> Self {
        Places { index: Index::new(), numbered: Vec::new(), free: Vec::new() }
    }

    /// Where a place is. O(1).
    #[inline]
    pub(super) fn way(&self, place: Place) -> Way<'_> {
        let score = f64::from_bits(place.0);
        if !score.is_nan() {
            return Way::Score(score);
        }
        std::hint::cold_path();
        match self.numbered.get((place.0 as u32).wrapping_sub(1) as usize) {
            Some(leaf) => Way::Leaf(leaf.score, &leaf.member),
            None => Way::Score(f64::INFINITY),
        }
    }

    /// The score at a place. O(1).
    #[inline]
    pub(super) fn score(&self, place: Place) -> f64 {
        let (Way::Score(score) | Way::Leaf(score, _)) = self.way(place);
        score
    }

    /// Call this before a leaf gets a member with some score.
    #[inline]
    pub(super) fn before_insert(&mut self, leaf: &mut Leaf, score: f64) {
        if leaf.number.is_some() && leaf.score(0) != score {
            self.take_number(leaf);
        }
    }

    /// Call this when a leaf has got a member, which is at its score in the index.
    #[inline]
    pub(super) fn after_insert(&mut self, leaf: &Leaf, score: f64, member: &[u8]) {
        if let Some(number) = leaf.number {
            self.index.change(short_hash(member), Place::of_score(score), Place::of_leaf(number));
        }
    }

    /// Call this when the upper members of a leaf have become a leaf of their own, before they move again. Neither leaf
    /// is empty.
    pub(super) fn after_split(&mut self, lower: &mut Leaf, upper: &mut Leaf) {
        upper.number = lower.number;
        match lower.number {
            Some(number) => {
                // The member that leads to the leaf may now be in the upper one.
                self.numbered[number.get() as usize - 1].member = lower.member(0).into();
                self.give_number(upper);
            }
            None => {
                for leaf in [lower, upper] {
                    if leaf.score(0) == leaf.score(leaf.len() - 1) {
                        self.give_number(leaf);
                    }
                }
            }
        }
    }

    /// Call this before the members of `upper` are appended to `lower`.
    pub(super) fn before_merge(&mut self, lower: &mut Leaf, upper: &mut Leaf) {
        if lower.len() == 0 || upper.len() == 0 {
            lower.number = lower.number.or(upper.number.take());
            return;
        }
        if lower.score(0) == upper.score(upper.len() - 1) {
            if lower.number.is_none() {
                self.give_number(lower);
            }
            let old = upper.number;
            self.renumber(upper, lower.number);
            self.free.extend(old);
        } else {
            self.take_number(lower);
            self.take_number(upper);
        }
    }

    /// Gives a leaf a new number of its own.
    fn give_number(&mut self, leaf: &mut Leaf) {
        let row = Numbered { score: leaf.score(0), member: leaf.member(0).into() };
        let number = match self.free.pop() {
            Some(number) => {
                self.numbered[number.get() as usize - 1] = row;
                number
            }
            None => {
                self.numbered.push(row);
                NonZeroU32::new(self.numbered.len() as u32).expect("fewer leaves than fit 32 bits")
            }
        };
        self.renumber(leaf, Some(number));
    }

    /// Takes a leaf's number away, if it has one. O(leaf).
    pub(super) fn take_number(&mut self, leaf: &mut Leaf) {
        if let Some(number) = leaf.number {
            self.renumber(leaf, None);
            self.numbered[number.get() as usize - 1].member = Box::default();
            self.free.push(number);
        }
    }

    fn renumber(&mut self, leaf: &mut Leaf, number: Option<NonZeroU32>) {
        let hashes: Vec<u32> = leaf.iter_from(0).map(|(member, _)| short_hash(member)).collect();
        hashes.iter().for_each(|&hash| self.index.prefetch(hash));
        for (index, hash) in hashes.into_iter().enumerate() {
            let place = number.map_or_else(|| Place::of_score(leaf.score(index)), Place::of_leaf);
            self.index.change(hash, Place::of_member(leaf, index), place);
        }
        leaf.number = number;
    }

    /// Bytes allocated. O(segments and numbers).
    pub(super) fn size_bytes(&self) -> usize {
        let members: usize = self.numbered.iter().map(|leaf| leaf.member.len()).sum();
        self.index.size_bytes()
            + members
            + self.numbered.capacity() * size_of::<Numbered>()
            + self.free.capacity() * size_of::<NonZeroU32>()
    }

    /// About how many allocations freeing it gives back.
    pub(super) fn free_effort(&self) -> usize {
        self.index.free_effort() + self.numbered.len()
    }
}

//! Sorted sets: unique members ordered by score.

mod index;
mod leaf;
mod places;
mod scan;
mod tree;

use std::ops::Bound;

use crate::collections::{enlarge, frozen_form};
use crate::entries::compact::{Compact, Form, FormMut, embedded};
use crate::entries::listpack::{Prefix, element};
use crate::{Encoding, Filling, Packed, PairLimits, equal};
use index::{At, short_hash};
use leaf::{LEAF_LEN_MAX, Leaf, LeafIter};
use places::{Place, Places, Way};
use tree::Tree;

/// Members whose leaves are prefetched at once; more would push each other out of the cache.
const PREFETCHED_MAX: usize = 32;

const SCORE_LEN: usize = size_of::<f64>();

/// Unique members ordered by score, and among the same scores by their bytes.
///
/// Few members are kept in order in one run of bytes: each an element of a listpack, and its score. Many are in an
/// order-statistic B+-tree, with an index from hashes to scores beside it. Scores are never NaN.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct SortedSet(Compact<Large>);

embedded!(SortedSet);

#[derive(Clone, Debug)]
struct Large {
    tree: Tree,
    places: Places,
}

impl Large {
    fn new() -> Self {
        Large { tree: Tree::new(), places: Places::new() }
    }

    fn score(&self, hash: u32, member: &[u8]) -> Option<f64> {
        self.places.index.find(hash, |place| self.tree.find(self.places.score(place), member))
    }

    fn set_score(&mut self, member: &[u8], score: f64) -> Option<f64> {
        // The new place is prefetched while the member is removed from the old one.
        let target = self.tree.prefetch(score);
        let hash = short_hash(member);
        target.prefetch();
        let (at, old) = match self.take_out(hash, member, Some(score)) {
            Found::Removed(at, old) => (Some(at), Some(old)),
            Found::Kept(old) => return Some(old),
            Found::Nothing => (None, None),
        };
        let Large { tree, places } = self;
        match at {
            Some(at) => places.index.set(at, Place::of_score(score)),
            None => places.index.insert(hash, Place::of_score(score)),
        }
        tree.insert(score, member, places);
        old
    }

    /// Takes a member out of the tree, unless it has the score `keep`; its slot in the index stays.
    #[inline]
    fn take_out(&mut self, hash: u32, member: &[u8], keep: Option<f64>) -> Found {
        let Large { tree, places } = self;
        // A place in the index may belong to another member with the same hash: trying to remove the member from the
        // tree shows it.
        let mut next = places.index.first(hash);
        while let Some(at) = next {
            let place = places.index.place(at);
            let score = places.score(place);
            if keep == Some(score) {
                if let Some(kept) = tree.find(score, member) {
                    return Found::Kept(kept);
                }
            } else {
                // Merging leaves changes the places of their members: this member is in none of them.
                places.index.set(at, Place::NONE);
                if tree.remove(score, member, places) {
                    return Found::Removed(at, score);
                }
                places.index.set(at, place);
            }
            next = places.index.next(hash, at);
        }
        Found::Nothing
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        match self.take_out(short_hash(member), member, None) {
            Found::Removed(at, _) => {
                self.places.index.remove_at(at);
                true
            }
            Found::Kept(_) | Found::Nothing => false,
        }
    }
}

/// The result of taking a member out.
enum Found {
    /// Its slot in the index, and the score it had.
    Removed(At, f64),
    /// It already has the wanted score.
    Kept(f64),
    Nothing,
}

/// The members of a small form: where each begins, the member, its score.
#[derive(Clone)]
struct SmallMembers<'a> {
    packed: &'a [u8],
    at: usize,
}

impl<'a> Iterator for SmallMembers<'a> {
    type Item = (usize, &'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.packed.len() {
            return None;
        }
        let (at, member) = (self.at, element(self.packed, self.at));
        self.at = member.end + SCORE_LEN;
        let score = self.packed[member.end..self.at].try_into().map(f64::from_le_bytes).unwrap_or_default();
        Some((at, &self.packed[member], score))
    }
}

fn members(packed: &[u8]) -> SmallMembers<'_> {
    SmallMembers { packed, at: 0 }
}

fn find(packed: &[u8], member: &[u8]) -> Option<(usize, f64)> {
    members(packed).find(|(_, other, _)| equal(other, member)).map(|(at, _, score)| (at, score))
}

fn remove_at(packed: &mut Packed, at: usize) {
    let end = element(packed, at).end + SCORE_LEN;
    packed.remove(at..end);
}

fn insert_in_order(packed: &mut Packed, member: &[u8], score: f64) {
    let is_behind = |(_, other, at): &(usize, &[u8], f64)| *at > score || *at == score && *other > member;
    let at = members(packed).find(is_behind).map_or(packed.len(), |(at, ..)| at);
    packed.insert(at, &[Prefix::new(member.len()).as_bytes(), member, &small_score(score)]);
}

/// A score as a small form keeps it: 0 for -0, as in a listpack of Redis.
fn small_score(score: f64) -> [u8; SCORE_LEN] {
    (score + 0.0).to_le_bytes()
}

impl SortedSet {
    /// Number of members. O(1), of a small one O(members).
    pub fn len(&self) -> usize {
        match self.0.form() {
            Form::Large(large) => large.tree.len(),
            Form::Packed(packed) => members(packed).count(),
        }
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        match self.0.form() {
            Form::Large(large) => large.tree.len() == 0,
            Form::Packed(packed) => packed.is_empty(),
        }
    }

    /// The encoding, as OBJECT ENCODING reports it. O(1).
    pub fn encoding(&self) -> Encoding {
        match self.0.form() {
            Form::Large(_) => Encoding::Skiplist,
            Form::Packed(_) => Encoding::Listpack,
        }
    }

    /// Bytes allocated. O(members / 100).
    pub fn size_bytes(&self) -> usize {
        match self.0.form() {
            Form::Large(large) => large.tree.size_bytes() + large.places.size_bytes() + size_of::<Large>(),
            Form::Packed(_) => self.0.packed_bytes(),
        }
    }

    /// About how many allocations freeing it gives back.
    pub fn free_effort(&self) -> usize {
        match self.0.form() {
            Form::Large(large) => large.places.free_effort() + large.tree.len() * 4 / (LEAF_LEN_MAX / 2),
            Form::Packed(_) => 1,
        }
    }

    /// A member's score. O(log members), of a small one O(members).
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match self.0.form() {
            Form::Large(large) => large.score(short_hash(member), member),
            Form::Packed(packed) => find(packed, member).map(|(_, score)| score),
        }
    }

    /// Inserts a member or gives it another score; returns whether it is new. O(log members), of a small one
    /// O(members).
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &PairLimits) -> bool {
        self.set_score(member, score, limits).is_none()
    }

    /// As [`SortedSet::insert`], and returns the score the member had.
    pub fn set_score(&mut self, member: &[u8], score: f64, limits: &PairLimits) -> Option<f64> {
        let packed = match self.0.form_mut() {
            FormMut::Large(large) => return large.set_score(member, score),
            FormMut::Packed(packed) => packed,
        };
        if let Some((at, old)) = find(packed, member) {
            if old != score {
                remove_at(packed, at);
                insert_in_order(packed, member, score);
            }
            return Some(old);
        }
        let is_large =
            member.len() > limits.listpack_value_len_max || members(packed).count() >= limits.listpack_entries_max;
        if is_large {
            return self.make_large().set_score(member, score);
        }
        insert_in_order(packed, member, score);
        None
    }

    /// As [`SortedSet::insert`], for a sorted set that got all its members by this method, with one `filling`. O(log members), for a
    /// small one amortised O(1) if they come in order.
    pub fn fill(&mut self, member: &[u8], score: f64, filling: &mut Filling, limits: &PairLimits) -> bool {
        let packed = match self.0.form_mut() {
            FormMut::Large(large) => return large.set_score(member, score).is_none(),
            FormMut::Packed(packed) => packed,
        };
        if filling.expects_more_than(limits.listpack_entries_max) && packed.is_empty() {
            return self.make_large().set_score(member, score).is_none();
        }
        let is_new = filling.note(member);
        let fits = member.len() <= limits.listpack_value_len_max && filling.len() <= limits.listpack_entries_max;
        let is_last = SmallMembers { packed, at: filling.last_at }
            .next()
            .is_none_or(|(_, last, before)| before < score || before == score && last < member);
        if is_new && fits && is_last {
            filling.last_at = packed.len();
            packed.push(&[Prefix::new(member.len()).as_bytes(), member, &small_score(score)]);
            return true;
        }
        let is_new = self.insert(member, score, limits);
        if let Form::Packed(packed) = self.0.form() {
            filling.last_at = members(packed).last().map_or(0, |(at, ..)| at);
        }
        is_new
    }

    /// A frozen copy of a large sorted set's order, which shares its members; members cannot be found there by name.
    /// `None` if the set is small. O(members / 3,000).
    pub(crate) fn freeze(&mut self) -> Option<Self> {
        let freeze = |large: &mut Large| Large { tree: large.tree.freeze(), places: Places::new() };
        frozen_form(&mut self.0, freeze).map(SortedSet)
    }

    pub(crate) fn thaw(&mut self) {
        if let FormMut::Large(large) = self.0.form_mut() {
            large.tree.thaw();
        }
    }

    fn make_large(&mut self) -> &mut Large {
        let mut large = Large::new();
        for (member, score) in self.iter() {
            large.set_score(member, score);
        }
        enlarge(&mut self.0, large)
    }

    /// Removes a member; returns whether it was there. O(log members), of a small one O(members).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self.0.form_mut() {
            FormMut::Large(large) => large.remove(member),
            FormMut::Packed(packed) => {
                let Some((at, _)) = find(packed, member) else { return false };
                remove_at(packed, at);
                true
            }
        }
    }

    /// Removes the member with the least or the greatest score, if there is one, and shows it to `visit` before it goes.
    /// O(log members), of a small one O(members).
    pub fn pop(&mut self, greatest: bool, visit: &mut dyn FnMut(&[u8], f64)) {
        let packed = match self.0.form_mut() {
            FormMut::Large(Large { tree, places }) => return tree.pop(greatest, visit, places),
            FormMut::Packed(packed) => packed,
        };
        let mut all = members(packed);
        let found = if greatest { all.last() } else { all.next() };
        if let Some((at, member, score)) = found {
            visit(member, score);
            remove_at(packed, at);
        }
    }

    /// Removes `count` members from rank `start` on; returns how many there were. O(count + log members), of a small one
    /// O(members).
    pub fn remove_range(&mut self, start: usize, count: usize) -> usize {
        match self.0.form_mut() {
            FormMut::Large(Large { tree, places }) => tree.remove_range(start, count, places),
            FormMut::Packed(packed) => {
                let removed = members(packed).skip(start).take(count).count();
                let first = members(packed).nth(start).map_or(packed.len(), |(at, ..)| at);
                let end = members(packed).nth(start.saturating_add(count)).map_or(packed.len(), |(at, ..)| at);
                packed.remove(first..end);
                removed
            }
        }
    }

    /// How many members are before one; `None` if it is not there. O(log members), of a small one O(members).
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        match self.0.form() {
            Form::Large(large) => {
                let score = large.score(short_hash(member), member)?;
                Some(large.tree.rank(score, member))
            }
            Form::Packed(packed) => members(packed).position(|(_, other, _)| other == member),
        }
    }

    /// How many members at the front satisfy `before`. If a member satisfies it, all before it must, too. O(log
    /// members), of a small one O(members).
    pub fn partition_point(&self, before: &dyn Fn(f64, &[u8]) -> bool) -> usize {
        match self.0.form() {
            Form::Large(large) => large.tree.partition_point(before),
            Form::Packed(packed) => members(packed).take_while(|(_, member, score)| before(*score, member)).count(),
        }
    }

    /// All members with their scores, in order.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// The members from rank `rank` on, with their scores.
    pub fn iter_from(&self, rank: usize) -> Iter<'_> {
        match self.0.form() {
            Form::Packed(packed) => {
                let mut rest = members(packed);
                (0..rank).for_each(|_| _ = rest.next());
                Iter(Ascending::Small(rest))
            }
            Form::Large(large) => Iter(Ascending::Large { tree: &large.tree, rank, leaf: None }),
        }
    }

    /// The members from rank `rank`, which must exist, down to the first, with their scores.
    pub fn iter_back_from(&self, rank: usize) -> Box<dyn Iterator<Item = (&[u8], f64)> + '_> {
        match self.0.form() {
            Form::Packed(packed) => {
                let all: Vec<_> = members(packed).take(rank + 1).map(|(_, member, score)| (member, score)).collect();
                Box::new(all.into_iter().rev())
            }
            Form::Large(large) => {
                let mut left = rank + 1;
                let leaves = std::iter::from_fn(move || {
                    let rank = left.checked_sub(1)?;
                    let (leaf, index) = large.tree.locate(rank);
                    left = rank - index;
                    let some: Vec<_> = leaf.iter_from(0).take(index + 1).collect();
                    Some(some.into_iter().rev())
                });
                Box::new(leaves.flatten())
            }
        }
    }

    /// The members with scores within two bounds, ascending.
    pub fn range_by_score(&self, min: Bound<f64>, max: Bound<f64>) -> impl Iterator<Item = (&[u8], f64)> {
        let start = self.partition_point(&|score, _| match min {
            Bound::Included(min) => score < min,
            Bound::Excluded(min) => score <= min,
            Bound::Unbounded => false,
        });
        self.iter_from(start).take_while(move |(_, score)| match max {
            Bound::Included(max) => *score <= max,
            Bound::Excluded(max) => *score < max,
            Bound::Unbounded => true,
        })
    }

    /// Visits about `count` members from `cursor` on, of a small one all, and returns where to go on; 0 at the end. What is
    /// a member all the time is visited at least once, even if its score changes. A cursor is a position in the order of
    /// hashes, so it stays valid whatever happens to the set. O(count * log members), whatever the scores.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        match self.0.form() {
            Form::Large(large) => large.scan(cursor, count, visit),
            Form::Packed(packed) => {
                members(packed).for_each(|(_, member, score)| visit(member, score));
                0
            }
        }
    }

    /// Prefetches what looking up some members reads.
    pub fn prefetch(&self, member_hashes: &[u64]) {
        let Some(Large { tree, places }) = self.0.prefetch() else { return };
        let hashes = || member_hashes.iter().map(|&hash| index::shorten(hash));
        hashes().for_each(|hash| places.index.prefetch(hash));
        // First the members' places, then what is there. Another member with the same hash does no harm.
        let mut leaves = [None; PREFETCHED_MAX];
        for (leaf, hash) in leaves.iter_mut().zip(hashes()) {
            *leaf = places.index.first(hash).map(|at| match places.way(places.index.place(at)) {
                Way::Score(score) => tree.prefetch(score),
                Way::Leaf(score, member) => tree.leaf_of(score, member),
            });
        }
        leaves.into_iter().flatten().for_each(Leaf::prefetch);
    }
}

/// The members of a sorted set in order, with their scores.
pub struct Iter<'a>(Ascending<'a>);

enum Ascending<'a> {
    Small(SmallMembers<'a>),
    Large { tree: &'a Tree, rank: usize, leaf: Option<LeafIter<'a>> },
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        match &mut self.0 {
            Ascending::Small(rest) => rest.next().map(|(_, member, score)| (member, score)),
            Ascending::Large { tree, rank, leaf } => {
                if let Some(next) = leaf.as_mut().and_then(LeafIter::next) {
                    return Some(next);
                }
                if *rank >= tree.len() {
                    return None;
                }
                let (found, index) = tree.locate(*rank);
                *rank += found.len() - index;
                leaf.insert(found.iter_from(index)).next()
            }
        }
    }
}

impl PartialEq for SortedSet {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    const LIMITS: PairLimits = PairLimits { listpack_entries_max: 10, listpack_value_len_max: 20 };

    /// Ordered pairs of a model.
    fn sorted(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
        let mut pairs: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
        pairs.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then_with(|| a.0.cmp(&b.0)));
        pairs
    }

    fn check(set: &SortedSet, model: &BTreeMap<Vec<u8>, f64>, random: &mut Random) {
        let pairs = sorted(model);
        assert!(set.iter().eq(pairs.iter().map(|(member, score)| (&member[..], *score))));
        if pairs.is_empty() {
            return;
        }
        let rank = random.below(pairs.len());
        assert_eq!(set.rank(&pairs[rank].0), Some(rank));
        let expected = pairs[..=rank].iter().rev().map(|(member, score)| (&member[..], *score));
        assert!(set.iter_back_from(rank).eq(expected));
        let expected = pairs[rank..].iter().map(|(member, score)| (&member[..], *score));
        assert!(set.iter_from(rank).eq(expected));
        let (low, high) = (pairs[rank].1, pairs[rank].1 + 5.0);
        let found: Vec<_> = set.range_by_score(Bound::Excluded(low), Bound::Included(high)).collect();
        let expected = pairs.iter().filter(|(_, score)| *score > low && *score <= high);
        assert!(found.into_iter().eq(expected.map(|(member, score)| (&member[..], *score))));
        assert_eq!(*set, set.clone());
    }

    /// Inserts, rescores and removes at random while the set grows and shrinks, against a map.
    #[test]
    fn agrees_with_a_map() {
        let operations = if cfg!(miri) { 800 } else { 200_000 };
        let mut random = Random::new(8);
        let mut set = SortedSet::default();
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for step in 0..operations {
            let phase = step % (operations / 4);
            let growing = phase < operations / 8;
            let member =
                format!("m{:0width$}", random.below(6_000), width = [0, 30][random.below(50) / 49]).into_bytes();
            // Many members share a score.
            let score = random.below([5, 3_000][step / (operations / 2) % 2]) as f64 / 2.0;
            if random.below(10) < if growing { 8 } else { 2 } {
                assert_eq!(set.insert(&member, score, &LIMITS), model.insert(member, score).is_none());
            } else if random.below(40) == 0 && !model.is_empty() {
                let (start, count) = (random.below(model.len()), random.below(40));
                let gone: Vec<_> = sorted(&model).into_iter().skip(start).take(count).collect();
                assert_eq!(set.remove_range(start, count), gone.len());
                gone.iter().for_each(|(member, _)| _ = model.remove(member));
            } else if random.below(40) == 0 {
                let mut expected = sorted(&model);
                for _ in 0..random.below(200) {
                    let greatest = random.below(2) == 0;
                    let gone = if expected.is_empty() {
                        None
                    } else {
                        Some(expected.remove(if greatest { expected.len() - 1 } else { 0 }))
                    };
                    let mut popped = None;
                    set.pop(greatest, &mut |member, score| popped = Some((member.to_vec(), score)));
                    assert_eq!(popped, gone);
                }
                model = expected.into_iter().collect();
            } else {
                assert_eq!(set.remove(&member), model.remove(&member).is_some());
            }
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            let probe = format!("m{}", random.below(6_000)).into_bytes();
            assert_eq!(set.score(&probe), model.get(&probe).copied());
            if step % (operations / 60) == 0 {
                check(&set, &model, &mut random);
            }
        }
    }

    #[test]
    fn small_ones_grow_into_trees_at_their_limits() {
        let mut set = SortedSet::default();
        (0..10).for_each(|n| assert!(set.insert(&[n], f64::from(n), &LIMITS)));
        assert_eq!(set.encoding(), Encoding::Listpack);
        assert!(!set.insert(&[3], 7.0, &LIMITS));
        assert_eq!(set.encoding(), Encoding::Listpack);
        set.insert(b"one more", 1.0, &LIMITS);
        assert_eq!(set.encoding(), Encoding::Skiplist);
        let mut set = SortedSet::default();
        set.insert(&[b'x'; 21], 1.0, &LIMITS);
        assert_eq!(set.encoding(), Encoding::Skiplist);
    }

    #[test]
    fn infinite_and_negative_scores_are_in_order() {
        let mut set = SortedSet::default();
        let scores = [f64::INFINITY, -1.5, f64::NEG_INFINITY, 0.0, 1e300, -1e-300];
        for limits in [PairLimits::SORTED_SET, PairLimits { listpack_entries_max: 0, ..LIMITS }] {
            scores.iter().enumerate().for_each(|(n, &score)| _ = set.insert(&[n as u8], score, &limits));
            let order: Vec<_> = set.iter().map(|(member, _)| member[0]).collect();
            assert_eq!(order, [2, 1, 5, 3, 4, 0]);
            set = SortedSet::default();
        }
    }

    #[test]
    fn a_scan_returns_every_member() {
        let mut set = SortedSet::default();
        let count = if cfg!(miri) { 50 } else { 20_000 };
        (0..count).for_each(|n| assert!(set.insert(format!("m{n}").as_bytes(), f64::from(n % 7_000), &LIMITS)));
        let (mut cursor, mut found) = (0, std::collections::HashSet::new());
        loop {
            cursor = set.scan(cursor, 10, &mut |member, _| assert!(found.insert(member.to_vec())));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(found.len(), count as usize);
    }

    #[test]
    fn a_member_of_many_takes_few_bytes() {
        if cfg!(miri) {
            return;
        }
        let mut set = SortedSet::default();
        let mut random = Random::new(4);
        for _ in 0..100_000 {
            let n = random.below(10_000_000);
            set.insert(format!("member:{n:07}").as_bytes(), n as f64, &LIMITS);
        }
        let each = set.size_bytes() / set.len();
        assert!(each <= 52, "{each} bytes for a member of 14");
    }
}

//! Going through the members of a large sorted set in the order of their hashes.

use super::Large;
use super::index::short_hash;
use super::leaf::Leaf;
use super::places::{Place, Way};

/// Segments of the index, many of them perhaps empty, that a scan looks at for each requested member.
const SEGMENTS_PER_COUNT: usize = 10;

impl Large {
    /// Visits the members with a hash that are at a place. O(log members).
    fn visit_hash(&self, hash: u32, place: Place, visit: &mut dyn FnMut(&[u8], f64)) {
        let mut visit_some = |leaf: &Leaf, from: usize, score: f64| {
            let ties = leaf.iter_from(from).take_while(|(_, other)| *other == score);
            ties.filter(|(member, _)| short_hash(member) == hash).for_each(|(member, score)| visit(member, score));
        };
        let score = match self.places.way(place) {
            Way::Leaf(score, member) => return visit_some(self.tree.leaf_of(score, member), 0, score),
            Way::Score(score) => score,
        };
        // Members outside of the first and the last leaf with this score are in leaves with numbers.
        let first = self.tree.partition_point(&|other, _| other < score);
        if first >= self.tree.len() {
            return;
        }
        let (leaf, index) = self.tree.locate(first);
        if leaf.number.is_none() {
            visit_some(leaf, index, score);
        }
        if leaf.score(leaf.len() - 1) == score {
            let end = self.tree.partition_point(&|other, _| other <= score);
            let (last, index) = self.tree.locate(end - 1);
            if end - first > index + 1 && last.number.is_none() {
                visit_some(last, 0, score);
            }
        }
    }

    /// See [`super::SortedSet::scan`].
    pub(super) fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        let (mut at, mut left) = (cursor as u32, count.max(1));
        let segments_max = left.saturating_mul(SEGMENTS_PER_COUNT);
        for _ in 0..segments_max {
            let (mut slots, mut next) = self.places.index.rest_of_segment(at);
            if slots.len() > left {
                let (_, last, _) = slots.select_nth_unstable_by_key(left - 1, |(hash, _)| *hash);
                let last = last.0;
                slots.retain(|(hash, _)| *hash <= last);
                next = u64::from(last) + 1;
            }
            left = left.saturating_sub(slots.len());
            // Members with the same hash at the same place are visited together.
            slots.sort_unstable_by_key(|(hash, place)| (*hash, place.to_bits()));
            slots.dedup();
            slots.into_iter().for_each(|(hash, place)| self.visit_hash(hash, place, visit));
            match u32::try_from(next) {
                Ok(next) if left == 0 => return u64::from(next),
                Ok(next) => at = next,
                Err(_) => return 0,
            }
        }
        u64::from(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use super::*;
    use crate::SortedSet;
    use crate::{PairLimits, Random};

    const LIMITS: PairLimits = PairLimits { listpack_entries_max: 0, listpack_value_len_max: 20 };

    fn large(set: &SortedSet) -> &Large {
        set.0.as_large().expect("a large one")
    }

    /// Scans all of a set, `count` members at a time, calls `between` after each step, and returns what was visited.
    fn scan_all(set: &mut SortedSet, count: usize, between: &mut dyn FnMut(&mut SortedSet)) -> Vec<(Vec<u8>, f64)> {
        let (mut cursor, mut visited) = (0, Vec::new());
        loop {
            let before = visited.len();
            cursor = set.scan(cursor, count, &mut |member, score| visited.push((member.to_vec(), score)));
            assert!(
                visited.len() - before <= count.saturating_add(2),
                "{} members in a step of {count}",
                visited.len() - before
            );
            if cursor == 0 {
                return visited;
            }
            between(set);
        }
    }

    fn assert_scans(set: &mut SortedSet, count: usize) {
        let mut visited = scan_all(set, count, &mut |_| {});
        visited.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        let all: Vec<_> = set.iter().map(|(member, score)| (member.to_vec(), score)).collect();
        assert_eq!(visited, all);
    }

    /// Among the leaves whose members all have the same score, only the first and the last may have no number, so no
    /// scan has to look at more.
    fn assert_ties_have_numbers(set: &SortedSet) {
        let mut without: HashMap<u64, usize> = HashMap::new();
        large(set).tree.for_each_leaf(&mut |leaf| {
            let tied = leaf.len() > 0 && leaf.score(0) == leaf.score(leaf.len() - 1);
            assert!(tied || leaf.number.is_none());
            if tied && leaf.number.is_none() {
                *without.entry((leaf.score(0) + 0.0).to_bits()).or_default() += 1;
            }
        });
        assert!(without.values().all(|&leaves| leaves <= 2), "{without:?}");
    }

    #[test]
    fn every_shape_is_scanned_in_steps_of_the_count() {
        let members = if cfg!(miri) { 300 } else { 8_000 };
        let shapes: [fn(usize) -> f64; 5] = [
            |_| 1.0,
            |n| n as f64,
            |n| (n % 3) as f64,
            |n| if n.is_multiple_of(2) { 0.0 } else { -0.0 },
            |n| if n < 5_000 { 7.0 } else { n as f64 },
        ];
        for shape in shapes {
            let mut set = SortedSet::default();
            let mut random = Random::new(3);
            let mut order: Vec<usize> = (0..members).collect();
            (1..members).for_each(|n| order.swap(n, random.below(n + 1)));
            order.iter().for_each(|&n| _ = set.insert(format!("m{n}").as_bytes(), shape(n), &LIMITS));
            assert_ties_have_numbers(&set);
            let members: HashSet<_> =
                scan_all(&mut set, 1, &mut |_| {}).into_iter().map(|(member, _)| member).collect();
            assert_eq!(members.len(), set.len());
            [10, 1_000, usize::MAX]
                .iter()
                .for_each(|&count| assert_eq!(scan_all(&mut set, count, &mut |_| {}).len(), set.len()));
        }
    }

    #[test]
    fn what_stays_is_found_while_the_set_grows_and_shrinks() {
        let rounds = if cfg!(miri) { 1 } else { 9 };
        for round in 0..rounds {
            let mut random = Random::new(round);
            let mut set = SortedSet::default();
            let staying: Vec<Vec<u8>> =
                (0..if cfg!(miri) { 100 } else { 700 }).map(|n| format!("s{n}").into_bytes()).collect();
            staying.iter().for_each(|member| _ = set.insert(member, 1.0, &LIMITS));
            let mut others = 0;
            let visited = scan_all(&mut set, 1 + random.below(20), &mut |set| {
                match round % 3 {
                    // Grows by many of the same score.
                    0 => (0..if others < 20_000 { 300 } else { 0 }).for_each(|_| {
                        others += 1;
                        set.insert(format!("o{others}").as_bytes(), 1.0, &LIMITS);
                    }),
                    // Shrinks, and grows again.
                    1 if random.below(2) == 0 => {
                        (0..100).for_each(|n| _ = set.insert(format!("o{n}").as_bytes(), 1.0, &LIMITS))
                    }
                    1 => (0..100).for_each(|n| _ = set.remove(format!("o{n}").as_bytes())),
                    // Scores change, to and fro.
                    _ => (0..50).for_each(|_| {
                        let member = &staying[random.below(staying.len())];
                        set.insert(member, random.below(3) as f64, &LIMITS);
                    }),
                }
            });
            let visited: HashSet<_> = visited.into_iter().map(|(member, _)| member).collect();
            assert!(staying.iter().all(|member| visited.contains(member)));
        }
    }

    #[test]
    fn a_step_ends_where_a_set_has_become_small() {
        let members = if cfg!(miri) { 200 } else { 200_000 };
        let mut set = SortedSet::default();
        (0..members).for_each(|n| _ = set.insert(format!("m{n}").as_bytes(), 1.0, &LIMITS));
        set.remove_range(3, members - 6);
        assert_ties_have_numbers(&set);
        assert_scans(&mut set, 1);
    }

    /// Changes of all kinds among few scores, after which every member is where the index says.
    #[test]
    fn ties_come_and_go() {
        let operations = if cfg!(miri) { 500 } else { 60_000 };
        let mut random = Random::new(31);
        let mut set = SortedSet::default();
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for step in 0..operations {
            let phase = step * 6 / operations;
            let member = format!("m{}", random.below(4_000)).into_bytes();
            let score = random.below([1, 2, 1, 2_000, 3, 1][phase]) as f64;
            match random.below(100) {
                0..70 => assert_eq!(set.insert(&member, score, &LIMITS), model.insert(member, score).is_none()),
                70..98 => assert_eq!(set.remove(&member), model.remove(&member).is_some()),
                98 if !model.is_empty() => {
                    let (start, count) = (random.below(model.len()), random.below(150));
                    let gone: Vec<_> = set.iter_from(start).take(count).map(|(member, _)| member.to_vec()).collect();
                    assert_eq!(set.remove_range(start, count), gone.len());
                    gone.iter().for_each(|member| _ = model.remove(member));
                }
                _ => {
                    let mut popped = Vec::new();
                    (0..random.below(30))
                        .for_each(|_| set.pop(step % 2 == 0, &mut |member, _| popped.push(member.to_vec())));
                    popped.iter().for_each(|member| _ = model.remove(member));
                }
            }
            if step % (operations / 100) == 0 && !model.is_empty() {
                assert_eq!(set.len(), model.len());
                model.iter().for_each(|(member, &score)| assert_eq!(set.score(member), Some(score)));
                assert_ties_have_numbers(&set);
                assert_scans(&mut set, 1 + random.below(40));
            }
        }
    }

    #[test]
    fn members_with_one_hash_are_all_there() {
        if cfg!(miri) {
            return;
        }
        let mut by_hash: HashMap<u32, String> = HashMap::new();
        let mut pairs = Vec::new();
        for n in 0..400_000 {
            let member = format!("m{n}");
            if let Some(other) = by_hash.insert(short_hash(member.as_bytes()), member.clone()) {
                pairs.push([other, member]);
            }
        }
        assert!(!pairs.is_empty(), "of so many some have the same hash");
        for score in [|_| 1.0, |n: usize| (n % 2) as f64] {
            let mut set = SortedSet::default();
            (0..300).for_each(|n| _ = set.insert(format!("m{n}").as_bytes(), 1.0, &LIMITS));
            pairs
                .iter()
                .flatten()
                .enumerate()
                .for_each(|(n, member)| _ = set.insert(member.as_bytes(), score(n), &LIMITS));
            assert_scans(&mut set, 1_000);
            for (n, [first, second]) in pairs.iter().enumerate() {
                assert!(set.remove(first.as_bytes()) && !set.remove(first.as_bytes()));
                assert!(set.score(second.as_bytes()).is_some());
                if n % 2 == 0 {
                    assert!(!set.insert(second.as_bytes(), 2.0, &LIMITS));
                }
            }
            assert_scans(&mut set, 1_000);
        }
    }

    #[test]
    fn a_zero_keeps_its_sign_until_the_score_changes() {
        let mut set = SortedSet::default();
        (0..200).for_each(|n| _ = set.insert(format!("m{n}").as_bytes(), if n == 7 { -0.0 } else { 0.0 }, &LIMITS));
        assert!(!set.insert(b"m8", -0.0, &LIMITS));
        let is_negative = |member: &[u8]| set.score(member).map(f64::is_sign_negative);
        assert_eq!(
            (is_negative(b"m7"), is_negative(b"m8"), is_negative(b"m9")),
            (Some(true), Some(false), Some(false))
        );
    }
}

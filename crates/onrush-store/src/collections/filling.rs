//! Filling an empty collection: telling new members from old ones without a search for each.

use crate::member_hash;

/// Slots of the smallest table.
const SLOTS_MIN: usize = 32;

/// The most members that a collection gets room for before they come: what announces them may be wrong.
const EXPECTED_LEN_MAX: usize = 1 << 16;

/// The hashes of all members or fields that a small collection has got since it was empty.
#[derive(Debug, Default)]
pub struct Filling {
    /// Hashes of 31 bits with the lowest bit set, in open addressing; 0 is a free slot.
    slots: Vec<u32>,
    len: usize,
    expected: usize,
    /// Where the greatest member of a small sorted set begins.
    pub(crate) last_at: usize,
}

impl Filling {
    /// For a collection that gets `expected` members, 0 if that is unknown.
    pub fn new(expected: usize) -> Self {
        Self { expected, ..Self::default() }
    }

    /// How many members a large collection gets room for.
    pub(crate) fn expected(&self) -> usize {
        self.expected.min(EXPECTED_LEN_MAX)
    }

    /// Whether more than `len` members are announced.
    pub(crate) fn expects_more_than(&self, len: usize) -> bool {
        self.expected > len
    }

    /// Members so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Counts a member; returns whether it certainly differs from all before. Amortised O(length).
    #[inline]
    pub(crate) fn note(&mut self, member: &[u8]) -> bool {
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        self.len += 1;
        self.put(member_hash(member) as u32 | 1)
    }

    /// Counts a member without its hash.
    pub(crate) fn count(&mut self) {
        self.len += 1;
    }

    #[inline]
    fn put(&mut self, hash: u32) -> bool {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 1) as usize & mask;
        while self.slots[at] != 0 {
            if self.slots[at] == hash {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = hash;
        true
    }

    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.slots.len()).max((2 * self.expected()).next_power_of_two()).max(SLOTS_MIN);
        let before = std::mem::replace(&mut self.slots, vec![0; len]);
        before.into_iter().filter(|hash| *hash != 0).for_each(|hash| _ = self.put(hash));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{Hash, Member, PairLimits, Set, SetLimits, SortedSet};

    #[test]
    fn what_came_before_is_never_new() {
        for expected in [0, 10, 1_000, usize::MAX] {
            let mut filling = Filling::new(expected);
            let names: Vec<String> = (0..3_000).map(|n| format!("name:{n}")).collect();
            let new = names.iter().filter(|name| filling.note(name.as_bytes())).count();
            assert!(new > 2_990, "hashes of 31 bits hardly ever meet");
            assert!(names.iter().all(|name| !filling.note(name.as_bytes())));
            assert_eq!(filling.len(), 6_000);
        }
    }

    const LIMITS: PairLimits = PairLimits { listpack_entries_max: 8, listpack_value_len_max: 6 };
    const SET_LIMITS: SetLimits =
        SetLimits { intset_entries_max: 10, listpack_entries_max: 8, listpack_value_len_max: 6 };

    /// Some members, now and then one twice, integers and long ones among them.
    fn members() -> impl Strategy<Value = Vec<String>> {
        let member = prop_oneof![
            6 => (0..40_i64).prop_map(|int| int.to_string()),
            1 => any::<i32>().prop_map(|int| int.to_string()),
            2 => "[a-d]{1,3}",
            1 => "[a-z]{5,9}",
        ];
        (prop::collection::vec(member, 0..14), any::<bool>()).prop_map(|(mut members, sorts)| {
            if sorts {
                members.sort_by_key(|member| member.parse::<i64>().unwrap_or(i64::MAX));
            }
            members
        })
    }

    proptest! {
        #[test]
        fn what_is_filled_is_as_if_all_was_inserted(members in members(), tells_len in any::<bool>()) {
            let (mut hash, mut set, mut sorted) = (Hash::default(), Set::default(), SortedSet::default());
            let (mut hash_2, mut set_2, mut sorted_2) = (Hash::default(), Set::default(), SortedSet::default());
            let expected = if tells_len { members.len() } else { 0 };
            let [mut of_hash, mut of_set, mut of_sorted] = [(); 3].map(|()| Filling::new(expected));
            let mut seen = std::collections::HashSet::new();
            for member in &members {
                let text = member.as_bytes();
                let is_new = seen.insert(text);
                let score = member.len() as f64;
                let expiry = member.starts_with('3').then_some(5);
                prop_assert_eq!(hash.fill(text, text, expiry, &mut of_hash, &LIMITS), is_new);
                prop_assert_eq!(sorted.fill(text, score, &mut of_sorted, &LIMITS), is_new);
                let as_kept = match member.parse() {
                    Ok(int) => Member::Int(int),
                    Err(_) => Member::Bytes(text),
                };
                prop_assert_eq!(set.fill(as_kept, &mut of_set, &SET_LIMITS), is_new);
                if !is_new {
                    // Nobody goes on after that.
                    return Ok(());
                }
                hash_2.set_with_expiry(text, text, expiry, &LIMITS);
                sorted_2.insert(text, score, &LIMITS);
                set_2.insert(text, &SET_LIMITS);
            }
            prop_assert_eq!(hash.encoding(), hash_2.encoding());
            prop_assert_eq!(set.encoding(), set_2.encoding());
            prop_assert_eq!(sorted.encoding(), sorted_2.encoding());
            let fields = |hash: &Hash| hash.iter().map(|field| format!("{field:?}")).collect::<BTreeSet<_>>();
            prop_assert_eq!(fields(&hash), fields(&hash_2));
            let members = |set: &Set| set.iter().map(|member| format!("{member:?}")).collect::<BTreeSet<_>>();
            prop_assert_eq!(members(&set), members(&set_2));
            prop_assert!(sorted.iter().eq(sorted_2.iter()));
        }
    }
}

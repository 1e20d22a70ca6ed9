//! Who takes slots that nobody serves, or that several nodes claim.

/// A slot that nobody serves, and the nodes that have keys of it, with their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncovered {
    /// The slot.
    pub slot: u16,
    /// Places of nodes in the list of nodes, and how many keys they have.
    pub keys: Vec<(usize, u64)>,
}

/// Slots that nobody serves, by what it takes to cover them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uncovereds {
    /// Nobody has keys of them.
    pub empty: Vec<u16>,
    /// One node has keys of them.
    pub single: Vec<(u16, usize)>,
    /// Several nodes have.
    pub several: Vec<Uncovered>,
}

/// Sorts slots by what it takes.
pub fn sort(slots: Vec<Uncovered>) -> Uncovereds {
    let mut sorted = Uncovereds::default();
    for slot in slots {
        match slot.keys.as_slice() {
            [] => sorted.empty.push(slot.slot),
            [(node, _)] => sorted.single.push((slot.slot, *node)),
            _ => sorted.several.push(slot),
        }
    }
    sorted
}

/// Who of several nodes has most keys; of equals the first.
pub fn richest(keys: &[(usize, u64)]) -> Option<usize> {
    keys.iter().rev().max_by_key(|(_, keys)| *keys).map(|(node, _)| *node)
}

/// Deals slots without keys to nodes: each goes to the one that has fewest by then.
pub fn deal(slots: &[u16], slots_len: &mut [(usize, usize)]) -> Vec<(u16, usize)> {
    let mut dealt = Vec::new();
    for slot in slots {
        let Some((node, len)) = slots_len.iter_mut().min_by_key(|(_, len)| *len) else { break };
        *len += 1;
        dealt.push((*slot, *node));
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_sorted_by_how_many_have_their_keys() {
        let slot = |slot, keys: &[(usize, u64)]| Uncovered { slot, keys: keys.to_vec() };
        let sorted = sort(vec![slot(1, &[]), slot(2, &[(4, 9)]), slot(3, &[(4, 9), (5, 10)])]);
        assert_eq!((sorted.empty, sorted.single), (vec![1], vec![(2, 4)]));
        assert_eq!(sorted.several, [slot(3, &[(4, 9), (5, 10)])]);
    }

    #[test]
    fn the_node_with_most_keys_gets_the_rest() {
        assert_eq!(richest(&[(4, 9), (5, 10), (6, 10)]), Some(5));
        assert_eq!(richest(&[]), None);
    }

    #[test]
    fn empty_slots_go_to_those_with_fewest() {
        assert_eq!(deal(&[7, 8, 9], &mut [(0, 10), (1, 8)]), [(7, 1), (8, 1), (9, 0)]);
        assert_eq!(deal(&[7], &mut []), []);
    }
}

//! How many slots go from where to where so that each node has as many as its weight says.

use super::super::slots::SLOTS;

/// A primary that takes part.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Its place in the list of nodes.
    pub node: usize,
    /// How many slots it has.
    pub slots: usize,
    /// Its share of all slots is its share of all weights.
    pub weight: f32,
}

/// A number of slots that go from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The place of the node that gives.
    pub from: usize,
    /// The place of the node that takes.
    pub to: usize,
    /// How many.
    pub slots: usize,
}

/// The sum of all weights.
pub fn total_weight(loads: &[Load]) -> f32 {
    loads.iter().map(|load| load.weight).sum()
}

/// What has to be moved; `None` if each node is within `threshold` percent of its share. O(n log n).
pub fn plan(loads: &[Load], threshold: f32) -> Option<Vec<Transfer>> {
    let total = total_weight(loads);
    if total <= 0.0 {
        return None;
    }
    let share = |load: &Load| (f32::from(SLOTS) / total * load.weight) as i64;
    if !loads.iter().any(|load| is_beyond(load.slots, share(load), threshold)) {
        return None;
    }
    let mut surplus: Vec<(usize, i64)> =
        loads.iter().map(|load| (load.node, load.slots as i64 - share(load))).collect();
    even_out(&mut surplus);
    surplus.sort_by_key(|(_, surplus)| *surplus);
    Some(transfers(&mut surplus))
}

fn is_beyond(slots: usize, share: i64, threshold: f32) -> bool {
    if slots == 0 {
        return share > 1;
    }
    (100.0 - 100.0 * share as f32 / slots as f32).abs() > threshold
}

/// Shares are rounded down, so that a few slots more would be given than taken: those that take get one more each.
fn even_out(surplus: &mut [(usize, i64)]) {
    let mut rest: i64 = surplus.iter().map(|(_, surplus)| surplus).sum();
    while rest > 0 {
        let before = rest;
        for (_, own) in surplus.iter_mut().filter(|(_, own)| *own <= 0) {
            if rest > 0 {
                (*own, rest) = (*own - 1, rest - 1);
            }
        }
        if rest == before {
            return;
        }
    }
}

/// Gives what the last have too much to the first, who lack most.
fn transfers(sorted: &mut [(usize, i64)]) -> Vec<Transfer> {
    let mut moved = Vec::new();
    let (mut taker, mut giver) = (0, sorted.len().saturating_sub(1));
    while taker < giver {
        let slots = (-sorted[taker].1).min(sorted[giver].1).max(0);
        if slots > 0 {
            moved.push(Transfer { from: sorted[giver].0, to: sorted[taker].0, slots: slots as usize });
            sorted[taker].1 += slots;
            sorted[giver].1 -= slots;
        }
        let (takes, gives) = (sorted[taker].1 < 0, sorted[giver].1 > 0);
        taker += usize::from(!takes);
        giver -= usize::from(!gives);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(slots: &[usize], weights: &[f32]) -> Vec<Load> {
        let of = |(node, (&slots, &weight))| Load { node, slots, weight };
        slots.iter().zip(weights).enumerate().map(of).collect()
    }

    fn after(slots: &[usize], transfers: &[Transfer]) -> Vec<usize> {
        let mut slots = slots.to_vec();
        for transfer in transfers {
            slots[transfer.from] -= transfer.slots;
            slots[transfer.to] += transfer.slots;
        }
        slots
    }

    #[test]
    fn a_new_node_gets_its_share() {
        let before = [5_461, 5_462, 5_461, 0];
        let moved = plan(&loads(&before, &[1.0; 4]), 2.0).unwrap();
        assert_eq!(after(&before, &moved), [4_096; 4]);
    }

    #[test]
    fn weights_set_the_shares_and_rounding_loses_nothing() {
        let before = [4_096; 4];
        let moved = plan(&loads(&before, &[2.0, 1.0, 1.0, 1.0]), 2.0).unwrap();
        assert_eq!(moved.iter().map(|one| (one.from, one.slots)).collect::<Vec<_>>(), [(3, 820), (2, 820), (1, 820)]);
        assert_eq!(after(&before, &moved), [6_556, 3_276, 3_276, 3_276]);
    }

    #[test]
    fn a_node_of_weight_zero_is_emptied() {
        let before = [8_192, 4_096, 4_096];
        let moved = plan(&loads(&before, &[1.0, 1.0, 0.0]), 2.0).unwrap();
        assert_eq!(after(&before, &moved), [8_192, 8_192, 0]);
    }

    #[test]
    fn small_differences_are_left_alone() {
        assert_eq!(plan(&loads(&[5_461, 5_462, 5_461], &[1.0; 3]), 2.0), None);
        assert_eq!(plan(&loads(&[5_400, 5_523, 5_461], &[1.0; 3]), 2.0), None);
        assert!(plan(&loads(&[5_300, 5_623, 5_461], &[1.0; 3]), 2.0).is_some());
        assert_eq!(plan(&[], 2.0), None);
        assert_eq!(plan(&loads(&[16_384], &[0.0]), 2.0), None);
    }

    #[test]
    fn whatever_the_shares_no_slot_is_lost_or_given_twice() {
        for seed in 1..200_usize {
            let mut slots: Vec<usize> = (0..5).map(|node| seed * (node * 37 + 11) % 3_000).collect();
            slots[0] = 16_384 - slots[1..].iter().sum::<usize>();
            let weights: Vec<f32> = (0..5).map(|node| (seed * (node + 3) % 7) as f32 + 0.5).collect();
            let Some(moved) = plan(&loads(&slots, &weights), 0.0) else { continue };
            let after = after(&slots, &moved);
            let total: f32 = weights.iter().sum();
            assert_eq!(after.iter().sum::<usize>(), 16_384);
            for (have, weight) in after.iter().zip(&weights) {
                assert!((*have as f32 - 16_384.0 / total * weight).abs() <= 6.0, "{seed}: {after:?} {weights:?}");
            }
        }
    }
}

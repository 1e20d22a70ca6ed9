//! Which slots go when some are to be moved off several nodes.

use super::super::slots::SlotSet;

/// One slot that is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The slot.
    pub slot: u16,
    /// The place of its node in the list of nodes.
    pub from: usize,
}

/// Chooses `count` slots. Each source gives as many as its share of all their slots, its lowest ones; the largest source
/// rounds up, the others down, and none gives more than it has.
pub fn table(sources: &[(usize, &SlotSet)], count: usize) -> Vec<Move> {
    let total: usize = sources.iter().map(|(_, slots)| slots.len()).sum();
    let mut sources = sources.to_vec();
    sources.sort_by_key(|(_, slots)| std::cmp::Reverse(slots.len()));
    let mut moves = Vec::new();
    for (place, (from, slots)) in sources.into_iter().enumerate() {
        let exact = count as f64 / total.max(1) as f64 * slots.len() as f64;
        let share = if place == 0 { exact.ceil() } else { exact.floor() } as usize;
        let share = share.min(count - moves.len());
        moves.extend(slots.iter().take(share).map(|slot| Move { slot: *slot, from }));
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_gives_its_share() {
        let (large, small) = (SlotSet::from_iter(100..=199), SlotSet::from_iter(0..=49));
        let moves = table(&[(7, &small), (8, &large)], 31);
        assert_eq!(moves.iter().filter(|one| one.from == 8).count(), 21);
        assert_eq!(moves.iter().filter(|one| one.from == 7).count(), 10);
        assert_eq!((moves[0], moves[21]), (Move { slot: 100, from: 8 }, Move { slot: 0, from: 7 }));
    }

    #[test]
    fn no_more_is_moved_than_there_is() {
        let one = SlotSet::from([3, 4]);
        assert_eq!(table(&[(0, &one)], 10).len(), 2);
        assert!(table(&[(0, &SlotSet::new())], 10).is_empty());
        assert!(table(&[], 10).is_empty());
        assert!(table(&[(0, &one)], 0).is_empty());
    }

    #[test]
    fn one_slot_comes_from_the_largest() {
        let sets = [0..=5_460, 5_461..=10_922, 10_923..=16_383].map(SlotSet::from_iter);
        let sources: Vec<_> = sets.iter().enumerate().collect();
        assert_eq!(table(&sources, 1), [Move { slot: 5_461, from: 1 }]);
    }
}

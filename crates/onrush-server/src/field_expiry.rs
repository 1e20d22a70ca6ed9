//! Which hashes have fields that expire, by the time of the first: so that their memory comes back without access.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

/// A hash's database and key.
pub type Place = (u32, Vec<u8>);

/// When to look at which hash. An early look is harmless, so nothing is taken back when a time moves away or a key goes.
#[derive(Default)]
pub struct FieldExpiry {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    by_time: BTreeSet<(i64, Place)>,
    times: HashMap<Place, i64>,
}

impl FieldExpiry {
    /// Asks for a look at a hash at a time (Unix milliseconds), or before. O(log hashes).
    pub fn track(&self, db: u32, key: &[u8], at_ms: i64) {
        let place = (db, key.to_vec());
        let mut queue = self.queue.lock();
        match queue.times.get(&place).copied() {
            Some(before) if before <= at_ms => return,
            Some(before) => _ = queue.by_time.remove(&(before, place.clone())),
            None => {}
        }
        queue.times.insert(place.clone(), at_ms);
        queue.by_time.insert((at_ms, place));
    }

    /// Takes the hash to look at first, if its time has come. O(log hashes).
    pub fn take_due(&self, now_ms: i64) -> Option<Place> {
        let mut queue = self.queue.lock();
        if queue.by_time.first()?.0 > now_ms {
            return None;
        }
        let (_, place) = queue.by_time.pop_first()?;
        queue.times.remove(&place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_time_of_a_hash_counts() {
        let expiry = FieldExpiry::default();
        expiry.track(0, b"a", 50);
        expiry.track(0, b"a", 90);
        expiry.track(1, b"a", 40);
        expiry.track(0, b"b", 60);
        expiry.track(0, b"b", 30);
        assert_eq!(expiry.take_due(29), None);
        let order: Vec<_> = std::iter::from_fn(|| expiry.take_due(100)).collect();
        assert_eq!(order, [(0, b"b".to_vec()), (1, b"a".to_vec()), (0, b"a".to_vec())]);
    }
}

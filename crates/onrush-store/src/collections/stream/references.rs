//! Deleting entries that consumer groups refer to.

use super::{Stream, StreamId, Trim};

/// What happens to consumer groups' references to a deleted entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They stay: the entry remains pending.
    #[default]
    Keep,
    /// They are removed with it.
    Delete,
    /// Only an entry that every group has delivered and that is pending in none is deleted.
    Acknowledged,
}

impl Stream {
    /// Whether any group still has to deliver an entry, or has it pending. O(groups * log pending).
    pub fn is_referenced(&self, id: StreamId) -> bool {
        self.groups().values().any(|group| group.last_id < id || group.pending.contains_key(&id))
    }

    /// Removes an entry from the pending entries of every group. O(groups * log pending).
    pub fn forget(&mut self, id: StreamId) {
        self.groups_mut().values_mut().for_each(|group| _ = group.acknowledge(id));
    }

    /// As [`Stream::trim`], with a choice of what happens to references. With [`References::Acknowledged`] entries that are
    /// referenced are passed over; with `approximate` the first node that has one is where it ends.
    /// O(entries looked at * groups * log pending).
    pub fn trim_with(&mut self, trim: Trim, approximate: bool, limit: u64, references: References) -> u64 {
        if references == References::Keep || self.groups().is_empty() {
            return self.trim(trim, approximate, limit);
        }
        if approximate {
            return self.trim_nodes_with(trim, limit, references);
        }
        let ids = self.excess(trim, references);
        for &id in &ids {
            if references == References::Delete {
                self.forget(id);
            }
            self.take_out(id);
        }
        ids.len() as u64
    }

    /// The entries that an exact trim removes.
    fn excess(&self, trim: Trim, references: References) -> Vec<StreamId> {
        let mut len = self.0.len;
        let mut ids = Vec::new();
        for entry in self.iter_from(StreamId::MIN) {
            let stays = match trim {
                Trim::MaxLen(len_max) => len <= len_max,
                Trim::MinId(id) => entry.id >= id,
            };
            if stays {
                break;
            }
            if references != References::Acknowledged || !self.is_referenced(entry.id) {
                ids.push(entry.id);
                len -= 1;
            }
        }
        ids
    }

    fn trim_nodes_with(&mut self, trim: Trim, limit: u64, references: References) -> u64 {
        let mut removed = 0;
        while let Some(node) = self.0.nodes.front() {
            let live = u64::from(node.live);
            let ids: Vec<StreamId> = node.iter().map(|(_, entry)| entry.id).collect();
            let is_kept = references == References::Acknowledged && ids.iter().any(|&id| self.is_referenced(id));
            // No node is empty, so the limit allows this one and no other.
            if is_kept || limit > 0 && removed + live > limit || self.trim(trim, true, live) == 0 {
                break;
            }
            removed += live;
            if references == References::Delete {
                ids.into_iter().for_each(|id| self.forget(id));
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, Pending, StreamLimits};

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    fn ids(stream: &Stream) -> Vec<u64> {
        stream.iter_from(StreamId::MIN).map(|entry| entry.id.ms).collect()
    }

    /// Twelve entries in nodes of three, and a group that got the first nine and has 2 and 5 pending.
    fn example() -> Stream {
        let limits = StreamLimits { node_bytes_max: 0, node_entries_max: 3 };
        let mut stream = Stream::default();
        (1..=12).for_each(|ms| stream.push(id(ms), &[(b"f", b"v")], &limits));
        let mut group = Group { last_id: id(9), ..Group::default() };
        group.consumer(b"c", 0);
        [2, 5].into_iter().for_each(|ms| {
            group.assign(id(ms), Pending { consumer: Some(b"c"[..].into()), delivered_ms: 0, count: 1 })
        });
        stream.groups_mut().insert(b"g".to_vec(), group);
        stream
    }

    fn pending(stream: &Stream) -> Vec<u64> {
        let group = &stream.groups()[&b"g"[..]];
        assert_eq!(
            group.pending.keys().copied().collect::<Vec<_>>(),
            group.consumers[&b"c"[..]].pending.iter().copied().collect::<Vec<_>>()
        );
        group.pending.keys().map(|id| id.ms).collect()
    }

    #[test]
    fn references_stay_go_or_hold_their_entries() {
        for (references, left, still_pending) in [
            (References::Keep, vec![11, 12], vec![2, 5]),
            (References::Delete, vec![11, 12], vec![]),
            (References::Acknowledged, vec![2, 5, 10, 11, 12], vec![2, 5]),
        ] {
            let mut stream = example();
            assert_eq!(stream.trim_with(Trim::MaxLen(2), false, 0, references), 12 - left.len() as u64);
            assert_eq!((ids(&stream), pending(&stream)), (left, still_pending), "{references:?}");
            assert_eq!((stream.len(), stream.max_deleted_id()), (ids(&stream).len(), StreamId::MIN));
        }
    }

    #[test]
    fn a_least_identifier_bounds_what_is_looked_at() {
        let mut stream = example();
        assert_eq!(stream.trim_with(Trim::MinId(id(5)), false, 0, References::Acknowledged), 3);
        assert_eq!(ids(&stream), [2, 5, 6, 7, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn about_takes_whole_nodes_with_their_references() {
        let mut stream = example();
        assert_eq!(stream.trim_with(Trim::MaxLen(4), true, 0, References::Acknowledged), 0);
        assert_eq!(stream.trim_with(Trim::MaxLen(4), true, 5, References::Delete), 3);
        assert_eq!((ids(&stream)[0], pending(&stream)), (4, vec![5]));
        assert_eq!(stream.trim_with(Trim::MaxLen(4), true, 0, References::Delete), 3);
        assert_eq!((ids(&stream)[0], pending(&stream)), (7, vec![]));
        assert_eq!(stream.trim_with(Trim::MaxLen(4), true, 0, References::Acknowledged), 0);
        assert_eq!(stream.trim_with(Trim::MaxLen(3), true, 0, References::Acknowledged), 3);
        assert_eq!(ids(&stream), [10, 11, 12]);
    }
}

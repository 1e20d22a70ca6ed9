//! Encoding of streams.

use super::encode::{Encoder, ReservedNumber};
use super::listpack::ListpackBuilder;
use super::stream::{
    NOT_KNOWN, SAME_FIELDS, StreamConsumer, StreamGroup, StreamHistory, StreamId, StreamPending, StreamState,
};
use super::text::Text;

/// A node is closed when it has this many bytes or entries.
const NODE_LEN_MAX: usize = 4096;
const NODE_ENTRIES_MAX: u64 = 100;

/// Encodes a stream: the entries; [`StreamEncoder::end_of_entries`]; then for each group [`StreamEncoder::group`], its
/// pending entries, [`StreamEncoder::consumers`], and for each consumer [`StreamEncoder::consumer`] and its pending
/// entries.
#[must_use = "a stream without its end breaks the file"]
pub struct StreamEncoder<'e> {
    out: &'e mut Encoder,
    nodes: u64,
    nodes_at: ReservedNumber,
    /// The identifier to which those of the open node's entries are relative.
    first: StreamId,
    entries: u64,
    /// The identifier of the stream's first entry.
    first_of_all: Option<StreamId>,
    parts: StreamParts,
}

/// Memory for the open node of a stream, for reuse.
#[derive(Default)]
pub(super) struct StreamParts {
    /// The names of the fields of its first entry.
    names: Names,
    body: ListpackBuilder,
}

impl StreamParts {
    pub(super) fn shrink_to(&mut self, kept_bytes_max: usize) {
        self.names.clear();
        self.names.bytes.shrink_to(kept_bytes_max);
        self.names.ends.shrink_to(kept_bytes_max);
        self.names.packed.shrink_to(kept_bytes_max);
        self.body.shrink_to(kept_bytes_max);
    }
}

impl<'e> StreamEncoder<'e> {
    pub(super) fn new(out: &'e mut Encoder) -> Self {
        let nodes_at = out.reserve_number();
        let parts = std::mem::take(&mut out.stream);
        StreamEncoder { out, nodes: 0, nodes_at, first: StreamId::default(), entries: 0, first_of_all: None, parts }
    }

    /// The next entry. Its identifier must be greater than the previous one's, and it must have at least one field.
    /// O(bytes).
    pub fn entry<'a>(&mut self, id: StreamId, fields: impl Iterator<Item = (Text<'a>, Text<'a>)> + Clone) {
        if self.entries == NODE_ENTRIES_MAX || self.parts.body.len_bytes() >= NODE_LEN_MAX {
            self.close_node();
        }
        if self.entries == 0 {
            self.open_node(id, fields.clone());
        }
        self.entries += 1;
        let shares_names = self.parts.names.are_of(fields.clone());
        let count_before = self.parts.body.count();
        self.parts.body.push(Text::Int(if shares_names { SAME_FIELDS } else { 0 }));
        self.parts.body.push(Text::Int(id.ms.wrapping_sub(self.first.ms) as i64));
        self.parts.body.push(Text::Int(id.seq.wrapping_sub(self.first.seq) as i64));
        if !shares_names {
            self.parts.body.push(Text::Int(fields.clone().count() as i64));
        }
        for (name, value) in fields {
            if !shares_names {
                self.parts.body.push(name);
            }
            self.parts.body.push(value);
        }
        let count = self.parts.body.count() - count_before;
        self.parts.body.push(Text::Int(count as i64));
    }

    fn open_node<'a>(&mut self, id: StreamId, fields: impl Iterator<Item = (Text<'a>, Text<'a>)>) {
        self.first = id;
        self.first_of_all.get_or_insert(id);
        self.parts.names.clear();
        fields.for_each(|(name, _)| self.parts.names.push(name));
        self.parts.body.clear();
    }

    fn close_node(&mut self) {
        if self.entries == 0 {
            return;
        }
        self.out.push_text(Text::Bytes(&self.first.to_bytes()));
        let node = &mut self.out.listpack;
        node.clear();
        for number in [self.entries as i64, 0, self.parts.names.ends.len() as i64] {
            node.push(Text::Int(number));
        }
        node.append(&self.parts.names.packed);
        node.push(Text::Int(0));
        node.append(&self.parts.body);
        self.out.push_listpack();
        self.nodes += 1;
        self.entries = 0;
    }

    fn push_id(&mut self, id: StreamId) {
        self.out.push_number(id.ms);
        self.out.push_number(id.seq);
    }

    /// The stream's state beside its entries; `groups` groups must follow. A state without a history gets a consistent
    /// one.
    pub fn end_of_entries(&mut self, state: &StreamState, groups: u64) {
        self.close_node();
        self.out.stream = std::mem::take(&mut self.parts);
        self.out.set_number(&self.nodes_at, self.nodes);
        let first_id = self.first_of_all.unwrap_or_default();
        let history = state.history.unwrap_or(StreamHistory { first_id, ..StreamHistory::default() });
        self.out.push_number(state.len);
        self.push_id(state.last_id);
        self.push_id(history.first_id);
        self.push_id(history.max_deleted_id);
        self.out.push_number(history.entries_added.max(state.len));
        self.out.push_number(groups);
    }

    /// A group; `pending` calls of [`StreamEncoder::pending`] must follow.
    pub fn group(&mut self, group: &StreamGroup<'_>, pending: u64) {
        self.out.push_text(group.name);
        self.push_id(group.last_id);
        self.out.push_number(group.entries_read.unwrap_or(NOT_KNOWN));
        self.out.push_number(pending);
    }

    /// A pending entry of the group.
    pub fn pending(&mut self, pending: &StreamPending) {
        self.out.out.extend_from_slice(&pending.id.to_bytes());
        self.out.out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        self.out.push_number(pending.count);
    }

    /// The number of the group's consumers, which must follow.
    pub fn consumers(&mut self, count: u64) {
        self.out.push_number(count);
    }

    /// A consumer; `pending` calls of [`StreamEncoder::consumer_pending`] must follow. Its active time is not written:
    /// Redis 7.0 has no such time.
    pub fn consumer(&mut self, consumer: &StreamConsumer<'_>, pending: u64) {
        self.out.push_text(consumer.name);
        self.out.out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        self.out.push_number(pending);
    }

    /// A pending entry of the consumer.
    pub fn consumer_pending(&mut self, id: StreamId) {
        self.out.out.extend_from_slice(&id.to_bytes());
    }
}

/// The names that the entries of a node may share.
#[derive(Default)]
struct Names {
    /// One after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    packed: ListpackBuilder,
}

impl Names {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.packed.clear();
    }

    fn push(&mut self, name: Text<'_>) {
        self.bytes.extend_from_slice(name.as_bytes(&mut itoa::Buffer::new()));
        self.ends.push(self.bytes.len());
        self.packed.push(name);
    }

    /// Whether the fields have exactly these names.
    #[inline]
    fn are_of<'a>(&self, fields: impl Iterator<Item = (Text<'a>, Text<'a>)>) -> bool {
        let (mut ends, mut start) = (self.ends.iter(), 0);
        for (name, _) in fields {
            let Some(&end) = ends.next() else { return false };
            let expected = &self.bytes[start..end];
            let is_same = match name {
                Text::Bytes(bytes) => bytes == expected,
                Text::Int(_) => name.as_bytes(&mut itoa::Buffer::new()) == expected,
            };
            if !is_same {
                return false;
            }
            start = end;
        }
        ends.next().is_none()
    }
}

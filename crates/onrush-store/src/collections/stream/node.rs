//! A node of a stream: some dozen entries one after the other in a run of bytes.
//!
//! ```text
//! flags 1 | milliseconds since the first | sequence | number of fields, unless as in the first entry
//! | fields, unless as in the first | values
//! ```
//!
//! Numbers are varints, fields and values elements of a listpack. The sequence counts from the first entry's within the
//! same millisecond. A deleted entry keeps its place until its node goes.

use super::StreamId;
use crate::StreamLimits;
use crate::entries::listpack::{Prefix, element};
use crate::shrink::shrink;

/// Entries from one mark to the next.
const MARK_EVERY: u32 = 16;

const DELETED: u8 = 1;
const SAME_FIELDS: u8 = 2;

/// Some dozen entries.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) first: StreamId,
    bytes: Vec<u8>,
    /// Where every sixteenth entry begins, except the first: a search for an identifier starts with these.
    marks: Vec<u32>,
    /// Entries that are not deleted.
    pub(super) live: u32,
    /// Entries, deleted ones included.
    total: u32,
    /// Bytes that Redis's listpack would take: they decide when a node is full.
    listpack_bytes: usize,
}

/// An entry read in place.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'a> {
    /// Its identifier.
    pub id: StreamId,
    /// Number of fields.
    pub len: usize,
    fields: &'a [u8],
    values: &'a [u8],
}

impl<'a> StreamEntry<'a> {
    /// Fields and values, in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (fields, values) = (self.fields, self.values);
        let shared = !std::ptr::eq(fields, values);
        let (mut field_at, mut value_at) = (0, 0);
        (0..self.len).map(move |_| {
            let field = element(fields, field_at);
            // A field is followed by a value, of the first entry or of this one.
            let beside = element(fields, field.end);
            field_at = beside.end;
            let value = if shared { element(values, value_at) } else { beside };
            value_at = value.end;
            (&fields[field], &values[value])
        })
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

fn put_element(bytes: &mut Vec<u8>, bytes_of: &[u8]) {
    bytes.extend_from_slice(Prefix::new(bytes_of.len()).as_bytes());
    bytes.extend_from_slice(bytes_of);
}

/// Bytes of an integer in Redis's listpack.
fn listpack_int_len(number: u64) -> usize {
    match number {
        0..128 => 2,
        128..4_096 => 3,
        4_096..32_768 => 4,
        32_768..8_388_608 => 5,
        8_388_608..2_147_483_648 => 6,
        _ => 10,
    }
}

impl Node {
    /// No entries yet; `room` is the initial capacity in bytes.
    pub(super) fn new(first: StreamId, fields: &[&[u8]], room: usize) -> Self {
        let names: usize = fields.iter().map(|field| crate::collections::list::listpack_len(field)).sum();
        // The number of entries, of deleted ones and of fields, the fields, and the end of the first entry.
        let listpack_bytes = crate::collections::list::LISTPACK_HEAD_LEN + 3 * 2 + names + 2;
        Node { first, bytes: Vec::with_capacity(room), marks: Vec::new(), live: 0, total: 0, listpack_bytes }
    }

    /// Whether Redis would begin a new node for an entry of this many bytes.
    #[inline]
    pub(super) fn is_full(&self, added: usize, limits: &StreamLimits) -> bool {
        limits.node_bytes_max > 0 && self.listpack_bytes + added >= limits.node_bytes_max
            || limits.node_entries_max > 0 && self.total as usize >= limits.node_entries_max
    }

    #[inline]
    pub(super) fn push(&mut self, id: StreamId, pairs: &[(&[u8], &[u8])]) {
        let same = self.total > 0 && {
            let first = self.first_entry();
            first.len == pairs.len() && first.iter().zip(pairs).all(|((field, _), (other, _))| field == *other)
        };
        if self.total > 0 && self.total.is_multiple_of(MARK_EVERY) {
            // Entries beyond 4 GB are searched from the last mark on.
            self.marks.extend(u32::try_from(self.bytes.len()).ok());
        }
        self.bytes.push(if same { SAME_FIELDS } else { 0 });
        let ms = id.ms - self.first.ms;
        let seq = if ms == 0 { id.seq - self.first.seq } else { id.seq };
        put_varint(&mut self.bytes, ms);
        put_varint(&mut self.bytes, seq);
        if !same {
            put_varint(&mut self.bytes, pairs.len() as u64);
        }
        for (field, value) in pairs {
            if !same {
                put_element(&mut self.bytes, field);
            }
            put_element(&mut self.bytes, value);
        }
        let lens = pairs.iter().map(|(field, value)| {
            let name = if self.total == 0 || same { 0 } else { crate::collections::list::listpack_len(field) };
            name + crate::collections::list::listpack_len(value)
        });
        self.listpack_bytes += lens.sum::<usize>() + 4 + listpack_int_len(ms) + listpack_int_len(seq);
        if self.total > 0 && !same {
            self.listpack_bytes += listpack_int_len(pairs.len() as u64);
        }
        self.total += 1;
        self.live += 1;
    }

    fn first_entry(&self) -> StreamEntry<'_> {
        self.read(&mut 0, None).0
    }

    /// Reads the flags and the identifier of the entry at `at`, and moves `at` behind them.
    #[inline]
    fn read_id(&self, at: &mut usize) -> (u8, StreamId) {
        let flags = self.bytes[*at];
        *at += 1;
        let ms = read_varint(&self.bytes, at);
        let seq = read_varint(&self.bytes, at);
        let seq = if ms == 0 { self.first.seq + seq } else { seq };
        (flags, StreamId { ms: self.first.ms + ms, seq })
    }

    /// Reads the entry at `at`, and moves `at` behind it; `first` has the shared fields. Also returns whether the entry
    /// is deleted.
    fn read<'a>(&'a self, at: &mut usize, first: Option<StreamEntry<'a>>) -> (StreamEntry<'a>, bool) {
        let (flags, id) = self.read_id(at);
        let shared = first.filter(|_| flags & SAME_FIELDS != 0);
        let len = match shared {
            Some(first) => first.len,
            None => read_varint(&self.bytes, at) as usize,
        };
        let start = *at;
        for _ in 0..if shared.is_some() { len } else { 2 * len } {
            *at = element(&self.bytes, *at).end;
        }
        let values = &self.bytes[start..*at];
        // The first entry's fields and values alternate: an entry that shares the fields steps over the values.
        let fields = shared.map_or(values, |first| first.fields);
        (StreamEntry { id, len, fields, values }, flags & DELETED != 0)
    }

    /// The entries that are not deleted, and where each begins.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, StreamEntry<'_>)> {
        self.iter_at(0)
    }

    /// As [`Node::iter`], for entries from an identifier on. O(log entries) to the first.
    pub(super) fn iter_from(&self, id: StreamId) -> impl Iterator<Item = (usize, StreamEntry<'_>)> {
        let marks = self.marks.partition_point(|&mark| self.read_id(&mut (mark as usize)).1 <= id);
        let start = marks.checked_sub(1).map_or(0, |mark| self.marks[mark] as usize);
        self.iter_at(start).skip_while(move |(_, entry)| entry.id < id)
    }

    fn iter_at(&self, mut at: usize) -> impl Iterator<Item = (usize, StreamEntry<'_>)> {
        let first = (self.total > 0).then(|| self.first_entry());
        std::iter::from_fn(move || {
            while at < self.bytes.len() {
                let from = at;
                let (entry, deleted) = self.read(&mut at, first);
                if !deleted {
                    return Some((from, entry));
                }
            }
            None
        })
    }

    /// The entries that are not deleted, the last one first.
    pub(super) fn back(&self) -> std::iter::Rev<std::vec::IntoIter<StreamEntry<'_>>> {
        self.iter().map(|(_, entry)| entry).collect::<Vec<_>>().into_iter().rev()
    }

    /// Deletes the entry at a place that [`Node::iter`] gave.
    pub(super) fn delete(&mut self, at: usize) {
        self.bytes[at] |= DELETED;
        self.live -= 1;
    }

    pub(super) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.marks.capacity() * size_of::<u32>()
    }

    /// Bytes of its entries.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether hardly more is allocated than the entries take.
    #[cfg(test)]
    pub(super) fn is_shrunk(&self) -> bool {
        self.bytes.capacity() - self.bytes.len() <= self.bytes.len() / 8
    }

    /// Gives back room beyond the entries there are.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.bytes);
        shrink(&mut self.marks);
    }
}

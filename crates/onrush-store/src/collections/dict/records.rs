//! The records of a segment, one after the other in chunks of equal size.
//!
//! All chunks of all tables have the same size, so any segment can reuse a chunk that another gives back, and a segment
//! grows without moving anything. A record is in one chunk: the length of the key and that of the value, a byte each,
//! the key, the value. A record of more than [`INLINE_LEN_MAX`] bytes has an allocation of its own, the key's length in
//! eight bytes in front, and its number stands in its place behind a byte [`OUTSIDE`].

/// Bytes of a chunk.
const CHUNK_LEN: usize = 1024;

/// Chunks of a segment at most, so that 16 bits tell where a record is.
const CHUNKS_MAX: usize = 63;

/// Bytes of all records at most.
pub(super) const RECORDS_LEN_MAX: usize = CHUNKS_MAX * CHUNK_LEN;

/// Key and value of a record that is kept among the others.
const INLINE_LEN_MAX: usize = 252;

/// Bytes in front of such a record.
const HEAD_LEN: usize = 2;

/// Stands in front of a number of a record with an allocation of its own. No key is that long.
const OUTSIDE: u8 = 255;
const HANDLE_LEN: usize = 5;

/// Bytes in front of a record with an allocation of its own.
const OUTSIDE_HEAD_LEN: usize = 8;

/// Records with an allocation of their own.
#[derive(Clone, Default)]
struct Outside {
    /// By number; a free number has an empty record.
    records: Vec<Box<[u8]>>,
    /// The numbers that are free.
    free: Vec<u32>,
}

/// Records by offset. Without records there is no allocation.
#[derive(Clone, Default)]
pub(super) struct Records {
    chunks: Box<[Box<[u8; CHUNK_LEN]>]>,
    /// Records with an allocation of their own. Boxed: a segment is one cache line.
    outside: Option<Box<Outside>>,
    /// Where the next record goes, unless it does not fit into the chunk.
    end: u16,
    /// Bytes of removed records.
    dead: u16,
}

impl Records {
    /// Bytes in chunks that a record of `len` bytes, key and value, takes.
    #[inline]
    pub(super) fn stored_len(len: usize) -> usize {
        if len > INLINE_LEN_MAX { HANDLE_LEN } else { HEAD_LEN + len }
    }

    /// Where a record that takes so many bytes would end.
    #[inline]
    pub(super) fn end_with(&self, stored_len: usize) -> usize {
        self.start_of(stored_len) + stored_len
    }

    #[inline]
    fn start_of(&self, stored_len: usize) -> usize {
        let end = self.end as usize;
        if end % CHUNK_LEN + stored_len > CHUNK_LEN { end.next_multiple_of(CHUNK_LEN) } else { end }
    }

    /// Whether that end needs another chunk.
    #[inline]
    pub(super) fn needs_chunk(&self, end: usize) -> bool {
        end > self.chunks.len() * CHUNK_LEN
    }

    /// Bytes of records in use, with the unused bytes at the ends of chunks.
    pub(super) fn live_len(&self) -> usize {
        (self.end - self.dead) as usize
    }

    /// Whether compacting is worth it: it gives back at least an eighth, and a chunk.
    pub(super) fn is_sparse(&self) -> bool {
        self.dead as usize > (self.end as usize / 8).max(CHUNK_LEN)
    }

    #[inline]
    fn bytes(&self, offset: u16) -> &[u8] {
        &self.chunks[offset as usize / CHUNK_LEN][offset as usize % CHUNK_LEN..]
    }

    /// The number of a record with an allocation of its own.
    #[inline]
    fn number(bytes: &[u8]) -> Option<usize> {
        match bytes {
            [OUTSIDE, number @ ..] => number.first_chunk().map(|number| u32::from_le_bytes(*number) as usize),
            _ => None,
        }
    }

    /// Bytes in chunks of the record at an offset.
    fn stored(&self, offset: u16) -> &[u8] {
        match self.bytes(offset) {
            bytes @ [OUTSIDE, ..] => &bytes[..HANDLE_LEN],
            bytes => &bytes[..HEAD_LEN + bytes[0] as usize + bytes[1] as usize],
        }
    }

    /// Key and value of the record at an offset.
    #[inline]
    pub(super) fn get(&self, offset: u16) -> (&[u8], &[u8]) {
        match self.bytes(offset) {
            &[key_len, value_len, ref rest @ ..] if key_len != OUTSIDE => {
                rest[..key_len as usize + value_len as usize].split_at(key_len as usize)
            }
            bytes => self.get_outside(bytes),
        }
    }

    #[cold]
    fn get_outside(&self, bytes: &[u8]) -> (&[u8], &[u8]) {
        let record = Self::number(bytes).zip(self.outside.as_ref()).map(|(number, outside)| &outside.records[number]);
        match record.and_then(|record| record.split_first_chunk::<OUTSIDE_HEAD_LEN>()) {
            Some((key_len, rest)) => rest.split_at(u64::from_le_bytes(*key_len) as usize),
            None => (&[], &[]),
        }
    }

    /// Overwrites the value by one of the same length; returns whether the lengths are equal.
    pub(super) fn overwrite(&mut self, offset: u16, parts: &[&[u8]], value_len: usize) -> bool {
        let (key, value) = self.get(offset);
        if value.len() != value_len {
            return false;
        }
        let key_len = key.len();
        let to = match Self::number(self.bytes(offset)) {
            Some(number) => match &mut self.outside {
                Some(outside) => &mut outside.records[number][OUTSIDE_HEAD_LEN + key_len..],
                None => return false,
            },
            None => {
                let start = offset as usize % CHUNK_LEN + HEAD_LEN + key_len;
                &mut self.chunks[offset as usize / CHUNK_LEN][start..start + value_len]
            }
        };
        write_parts(to, parts);
        true
    }

    /// Appends a record, for which there is room; returns its offset.
    pub(super) fn append(&mut self, key: &[u8], parts: &[&[u8]], value_len: usize) -> u16 {
        let len = key.len() + value_len;
        if len > INLINE_LEN_MAX {
            let mut record = Vec::with_capacity(OUTSIDE_HEAD_LEN + len);
            record.extend_from_slice(&(key.len() as u64).to_le_bytes());
            record.extend_from_slice(key);
            parts.iter().for_each(|part| record.extend_from_slice(part));
            return self.append_outside(record.into());
        }
        let (offset, to) = self.make_place(HEAD_LEN + len);
        let (head, rest) = to.split_at_mut(HEAD_LEN);
        head.copy_from_slice(&[key.len() as u8, value_len as u8]);
        let (to_key, to_value) = rest.split_at_mut(key.len());
        to_key.copy_from_slice(key);
        write_parts(to_value, parts);
        offset
    }

    #[cold]
    fn append_outside(&mut self, record: Box<[u8]>) -> u16 {
        let outside = self.outside.get_or_insert_default();
        let number = outside.free.pop().unwrap_or_else(|| {
            outside.records.push(Box::default());
            outside.records.len() as u32 - 1
        });
        outside.records[number as usize] = record;
        let (offset, to) = self.make_place(HANDLE_LEN);
        to[0] = OUTSIDE;
        to[1..].copy_from_slice(&number.to_le_bytes());
        offset
    }

    /// Takes the next place of this many bytes.
    #[inline]
    fn make_place(&mut self, stored_len: usize) -> (u16, &mut [u8]) {
        let start = self.start_of(stored_len);
        let index = start / CHUNK_LEN;
        if index == self.chunks.len() {
            self.add_chunk();
        }
        self.end = (start + stored_len) as u16;
        (start as u16, &mut self.chunks[index][start % CHUNK_LEN..][..stored_len])
    }

    #[cold]
    fn add_chunk(&mut self) {
        assert!(self.chunks.len() < CHUNKS_MAX, "a segment splits before 16 bits do not reach its end");
        let mut chunks = std::mem::take(&mut self.chunks).into_vec();
        chunks.reserve_exact(1);
        chunks.push(Box::new([0; CHUNK_LEN]));
        self.chunks = chunks.into();
    }

    /// Moves a record over from other records; there is room. Returns its offset.
    pub(super) fn take_over(&mut self, from: &mut Records, offset: u16) -> u16 {
        match (Self::number(from.bytes(offset)), &mut from.outside) {
            (Some(number), Some(outside)) => self.append_outside(std::mem::take(&mut outside.records[number])),
            _ => self.append_stored(from.stored(offset)),
        }
    }

    fn append_stored(&mut self, stored: &[u8]) -> u16 {
        let (offset, to) = self.make_place(stored.len());
        to.copy_from_slice(stored);
        offset
    }

    /// Removes the record at an offset.
    pub(super) fn forget(&mut self, offset: u16) {
        self.dead += self.stored(offset).len() as u16;
        if let Some(number) = Self::number(self.bytes(offset))
            && let Some(outside) = &mut self.outside
        {
            outside.records[number] = Box::default();
            outside.free.push(number as u32);
        }
    }

    /// Compacts the records: `offsets` are all of them, ascending. They need no more room than before, since their
    /// order stays. O(records).
    pub(super) fn compact(&mut self, offsets: impl Iterator<Item = u16>) -> Moved {
        let mut dense = Records { outside: self.outside.take(), ..Records::default() };
        for offset in offsets {
            let moved = dense.append_stored(self.stored(offset));
            let start = offset as usize % CHUNK_LEN;
            self.chunks[offset as usize / CHUNK_LEN][start..start + HEAD_LEN].copy_from_slice(&moved.to_le_bytes());
        }
        Moved(std::mem::replace(self, dense))
    }

    /// Prefetches what finding a record reads, beside its offset.
    #[inline]
    pub(super) fn prefetch_chunks(&self) {
        crate::keyspace::bucket::prefetch(self.chunks.as_ptr());
        // Few segments have more than two lines of chunks.
        crate::keyspace::bucket::prefetch(self.chunks.as_ptr().wrapping_add(8));
    }

    /// Prefetches a record.
    #[inline]
    pub(super) fn prefetch(&self, offset: u16) {
        crate::keyspace::bucket::prefetch(&self.chunks[offset as usize / CHUNK_LEN][offset as usize % CHUNK_LEN]);
    }

    /// Bytes allocated.
    pub(super) fn size_bytes(&self) -> usize {
        let outside = self.outside.as_ref().map_or(0, |outside| {
            let records: usize = outside.records.iter().map(|record| record.len()).sum();
            let numbers = outside.free.capacity() * size_of::<u32>();
            records + numbers + outside.records.capacity() * size_of::<Box<[u8]>>() + size_of::<Outside>()
        });
        self.chunks.len() * (CHUNK_LEN + size_of::<Box<[u8; CHUNK_LEN]>>()) + outside
    }

    /// How many allocations freeing gives back.
    pub(super) fn free_effort(&self) -> usize {
        1 + self.chunks.len() + self.outside.as_ref().map_or(0, |outside| outside.records.len() + 2)
    }
}

/// The old places of compacted records: their first bytes hold the new offsets.
pub(super) struct Moved(Records);

impl Moved {
    /// The new offset of the record at an old one.
    pub(super) fn offset(&self, old: u16) -> u16 {
        let bytes = self.0.bytes(old);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }
}

#[inline]
fn write_parts(mut to: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let (head, tail) = to.split_at_mut(part.len());
        head.copy_from_slice(part);
        to = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_all_lengths_come_back() {
        let mut records = Records::default();
        let text = |len: usize| vec![len as u8; len];
        let lens = [(0, 0), (1, 0), (0, 1), (252, 0), (0, 252), (100, 152), (100, 153), (253, 0), (70_000, 3)];
        let mut offsets: Vec<u16> = Vec::new();
        for round in 0..4 {
            for (key_len, value_len) in lens {
                let value = text(value_len);
                let (half, rest) = value.split_at(value_len / 2);
                offsets.push(records.append(&text(key_len), &[half, rest], value_len));
            }
            // The second and third round go away again.
            if round == 2 {
                offsets.drain(lens.len()..).for_each(|offset| records.forget(offset));
            }
        }
        let check = |records: &Records, offsets: &[u16]| {
            for (offset, (key_len, value_len)) in offsets.iter().zip(lens.iter().cycle()) {
                assert_eq!(records.get(*offset), (&text(*key_len)[..], &text(*value_len)[..]));
            }
        };
        check(&records, &offsets);
        assert!(records.is_sparse());
        let before = records.live_len();
        let moved = records.compact(offsets.iter().copied());
        offsets.iter_mut().for_each(|offset| *offset = moved.offset(*offset));
        check(&records, &offsets);
        assert!(!records.is_sparse() && records.live_len() <= before + CHUNK_LEN);
        let mut others = Records::default();
        let moved: Vec<u16> = offsets.iter().map(|offset| others.take_over(&mut records, *offset)).collect();
        check(&others, &moved);
    }

    #[test]
    fn a_value_of_the_same_length_is_written_in_place() {
        let mut records = Records::default();
        for value_len in [3, 1000] {
            let value = vec![1; value_len];
            let offset = records.append(b"key", &[&value], value_len);
            let end = records.end;
            assert!(records.overwrite(offset, &[b"x", &value[1..]], value_len));
            assert_eq!((records.get(offset).1[0], records.get(offset).1[1], records.end), (b'x', 1, end));
            assert!(!records.overwrite(offset, &[b"x"], 1));
        }
    }
}

//! Byte strings one after the other in a run of bytes: the small form of most collections.
//!
//! An element is its length and its bytes. Lengths up to 252 take one byte; 253 stands before a length of two bytes
//! and 254 before one of four, both little-endian.

use std::ops::Range;

use crate::Packed;

const LEN_U16: u8 = 253;
const LEN_U32: u8 = 254;

/// The longest prefix of an element, in bytes.
const PREFIX_LEN_MAX: usize = 5;

/// The length of an element as it stands in front of it.
pub(crate) struct Prefix {
    bytes: [u8; PREFIX_LEN_MAX],
    len: u8,
}

impl Prefix {
    /// For an element of `len` bytes.
    ///
    /// # Panics
    /// When `len` is 4 GiB or more.
    #[inline]
    pub(crate) fn new(len: usize) -> Self {
        let mut bytes = [0; PREFIX_LEN_MAX];
        let prefix_len = if len < LEN_U16 as usize {
            bytes[0] = len as u8;
            1
        } else if let Ok(len) = u16::try_from(len) {
            bytes[0] = LEN_U16;
            bytes[1..3].copy_from_slice(&len.to_le_bytes());
            3
        } else {
            let len = u32::try_from(len).expect("an element is below 4 GiB");
            bytes[0] = LEN_U32;
            bytes[1..5].copy_from_slice(&len.to_le_bytes());
            5
        };
        Prefix { bytes, len: prefix_len }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Where the bytes of the element at `at` are. O(1).
#[inline(always)]
pub(crate) fn element(bytes: &[u8], at: usize) -> Range<usize> {
    let len = bytes[at];
    if len < LEN_U16 { at + 1..at + 1 + len as usize } else { long_element(bytes, at) }
}

#[cold]
fn long_element(bytes: &[u8], at: usize) -> Range<usize> {
    let (start, len) = if bytes[at] == LEN_U16 {
        (at + 3, u16::from_le_bytes([bytes[at + 1], bytes[at + 2]]) as usize)
    } else {
        let len = [bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4]];
        (at + 5, u32::from_le_bytes(len) as usize)
    };
    start..start + len
}

/// The elements from byte `at` on, in order. Lazy: it reads lengths only as far as the caller iterates.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    /// The elements from byte `at` on.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Elements { bytes, at }
    }

    /// Passes over an element that there is.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.at = element(self.bytes, self.at).end;
    }

    /// Whether there are no more.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Where the next element begins.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.is_at_end() {
            return None;
        }
        let range = element(self.bytes, self.at);
        self.at = range.end;
        Some(&self.bytes[range])
    }
}

/// Inserts elements, in order, at byte `at`. O(bytes behind `at`).
pub(crate) fn insert(packed: &mut Packed, at: usize, elements: [&[u8]; 2]) {
    let [first, second] = elements.map(|element| Prefix::new(element.len()));
    packed.insert(at, &[first.as_bytes(), elements[0], second.as_bytes(), elements[1]]);
}

/// Inserts one element at byte `at`. O(bytes behind `at`).
pub(crate) fn insert_one(packed: &mut Packed, at: usize, element: &[u8]) {
    packed.insert(at, &[Prefix::new(element.len()).as_bytes(), element]);
}

/// Replaces the element at byte `at`. O(bytes behind it); in place when the length stays.
pub(crate) fn replace(packed: &mut Packed, at: usize, element: &[u8]) {
    let old = self::element(packed, at);
    if old.len() == element.len() {
        packed[old].copy_from_slice(element);
    } else {
        packed.splice(at..old.end, &[Prefix::new(element.len()).as_bytes(), element]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_all_lengths_read_back() {
        let lens = [0, 1, 252, 253, 254, 255, 65_535, 65_536, 3];
        let mut packed = Packed::new();
        for &len in &lens {
            let end = packed.len();
            insert_one(&mut packed, end, &vec![len as u8; len]);
        }
        let read: Vec<_> = Elements::new(&packed, 0).map(<[u8]>::len).collect();
        assert_eq!(read, lens);
    }

    #[test]
    fn elements_are_inserted_and_replaced_in_place() {
        let mut packed = Packed::new();
        insert(&mut packed, 0, [b"b", b"d"]);
        insert_one(&mut packed, 0, b"a");
        insert_one(&mut packed, 4, b"c");
        replace(&mut packed, 2, b"B");
        replace(&mut packed, 0, b"aaa");
        let read: Vec<_> = Elements::new(&packed, 0).collect();
        assert_eq!(read, [&b"aaa"[..], b"B", b"c", b"d"]);
    }
}

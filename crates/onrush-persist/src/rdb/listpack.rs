//! Listpacks: the packed form of small collections since Redis 7, and of the entries of streams.
//!
//! The format, as its author published it: four bytes of total length and two of the number of elements (65,535: not
//! known), the lowest byte first; the elements; a byte of 255. An element is an encoding, its content, and then the
//! length of both, seven bits to a byte, to be read backwards.

use super::text::Text;

/// An item of an iterator over a packed collection: an element, or what is wrong.
pub(crate) type Piece<'a> = Result<Text<'a>, &'static str>;

const HEADER_LEN: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

const STRING_12_BITS: u8 = 0xe0;
const STRING_32_BITS: u8 = 0xf0;
const INT_13_BITS: u8 = 0xc0;
const INT_16: u8 = 0xf1;
const INT_24: u8 = 0xf2;
const INT_32: u8 = 0xf3;
const INT_64: u8 = 0xf4;

/// The elements of a listpack, checked as they are read. An error ends the iteration.
#[derive(Clone, Debug)]
pub(crate) struct Listpack<'a> {
    /// Elements that have not been read, without the end.
    rest: &'a [u8],
    /// How many elements must follow, if that is known.
    missing: Option<u16>,
}

impl<'a> Listpack<'a> {
    /// The listpack that `bytes` are. O(1).
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let Some((&[a, b, c, d, low, high], [elements @ .., END])) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err("a listpack without header or end");
        };
        if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() {
            return Err("a listpack of another length than it says");
        }
        let count = u16::from_le_bytes([low, high]);
        Ok(Listpack { rest: elements, missing: (count != COUNT_UNKNOWN).then_some(count) })
    }

    /// How many elements follow, 0 if that is unknown. At most one for each byte.
    pub(crate) fn len_hint(&self) -> usize {
        self.missing.map_or(0, |missing| usize::from(missing).min(self.rest.len()))
    }

    #[inline]
    fn read(&mut self) -> Piece<'a> {
        let start = self.rest;
        let (text, rest) = element(start).ok_or("an element that goes past the end of its listpack")?;
        let len = start.len() - rest.len();
        self.rest = end_of_element(len, rest).ok_or("an element of a listpack with a wrong length behind it")?;
        if let Some(missing) = &mut self.missing {
            *missing = missing.checked_sub(1).ok_or("a listpack with more elements than it says")?;
        }
        Ok(text)
    }
}

impl<'a> Iterator for Listpack<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            let is_short = self.missing.take().is_some_and(|missing| missing > 0);
            return is_short.then_some(Err("a listpack with fewer elements than it says"));
        }
        let piece = self.read();
        if piece.is_err() {
            (self.rest, self.missing) = (&[], None);
        }
        Some(piece)
    }
}

/// The first element and the bytes after its content.
#[inline]
fn element(bytes: &[u8]) -> Option<(Text<'_>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (string_len, rest) = match first {
        0..0x80 => return Some((Text::Int(i64::from(first)), rest)),
        0x80..INT_13_BITS => (usize::from(first & 0x3f), rest),
        INT_13_BITS..STRING_12_BITS => {
            let (&low, rest) = rest.split_first()?;
            let bits = u16::from(first & 0x1f) << 8 | u16::from(low);
            // The sign is the uppermost of the 13 bits.
            return Some((Text::Int(i64::from((bits << 3) as i16 >> 3)), rest));
        }
        STRING_12_BITS..STRING_32_BITS => {
            let (&low, rest) = rest.split_first()?;
            (usize::from(first & 0x0f) << 8 | usize::from(low), rest)
        }
        STRING_32_BITS => {
            let (len, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        INT_16 => return int::<2>(rest),
        INT_24 => return int::<3>(rest),
        INT_32 => return int::<4>(rest),
        INT_64 => return int::<8>(rest),
        _ => return None,
    };
    let (string, rest) = rest.split_at_checked(string_len)?;
    Some((Text::Bytes(string), rest))
}

/// An integer of `N` bytes, the lowest first.
#[inline]
pub(crate) fn int<const N: usize>(bytes: &[u8]) -> Option<(Text<'_>, &[u8])> {
    let (int, rest) = bytes.split_first_chunk::<N>()?;
    let mut wide = [0; 8];
    wide[8 - N..].copy_from_slice(int);
    Some((Text::Int(i64::from_le_bytes(wide) >> (64 - 8 * N)), rest))
}

/// The bytes after the length that ends an element of `len` bytes; `None` if that length is wrong.
#[inline]
fn end_of_element(len: usize, rest: &[u8]) -> Option<&[u8]> {
    if len < 0x80 {
        let (&back, rest) = rest.split_first()?;
        return (usize::from(back) == len).then_some(rest);
    }
    let expected = BackLen::new(len);
    rest.strip_prefix(expected.as_bytes())
}

/// The length at the end of an element.
struct BackLen {
    bytes: [u8; 5],
    len: usize,
}

impl BackLen {
    fn new(len: usize) -> Self {
        // Redis takes one byte more than it needs for the greatest length of two, three and four bytes.
        let bytes_len = match len {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        let mut bytes = [0; 5];
        for (index, byte) in bytes[..bytes_len].iter_mut().rev().enumerate() {
            let is_last_read = index + 1 == bytes_len;
            *byte = (len >> (7 * index) & 0x7f) as u8 | if is_last_read { 0 } else { 0x80 };
        }
        BackLen { bytes, len: bytes_len }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A listpack that is being built, in reusable memory.
#[derive(Debug, Default)]
pub(crate) struct ListpackBuilder {
    /// The listpack, and unused room after it with any content.
    bytes: Vec<u8>,
    len: usize,
    count: usize,
}

impl ListpackBuilder {
    const ROOM_MIN: usize = 256;

    /// Begins a new listpack.
    pub(crate) fn clear(&mut self) {
        (self.len, self.count) = (0, 0);
        self.room(HEADER_LEN);
        self.len = HEADER_LEN;
    }

    /// Drops the listpack, and memory beyond `kept_bytes_max` bytes.
    pub(crate) fn shrink_to(&mut self, kept_bytes_max: usize) {
        (self.len, self.count) = (0, 0);
        self.bytes.truncate(kept_bytes_max);
        self.bytes.shrink_to(kept_bytes_max);
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes so far.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len
    }

    /// The elements as they are encoded.
    pub(crate) fn elements(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..self.len]
    }

    /// Room for `len` bytes at the end. The caller writes the bytes first and then counts them: so an element costs one
    /// check of the room and a few plain stores.
    #[inline]
    fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if end > self.bytes.len() {
            self.grow(end);
        }
        &mut self.bytes[self.len..end]
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((2 * end).max(Self::ROOM_MIN), 0);
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends the elements of another one. O(bytes).
    pub(crate) fn append(&mut self, other: &ListpackBuilder) {
        self.extend(other.elements());
        self.count += other.count;
    }

    /// Appends a string, as an integer if it spells one. Amortised O(length).
    ///
    /// # Panics
    /// When the string has 4 GiB or more.
    #[inline]
    pub(crate) fn push(&mut self, text: Text<'_>) {
        match (text.as_int(), text) {
            (Some(int), _) | (None, Text::Int(int)) => self.push_int(int),
            (None, Text::Bytes(bytes)) => self.push_string(bytes),
        }
        self.count += 1;
    }

    #[inline]
    fn push_int(&mut self, int: i64) {
        let bytes = int.to_le_bytes();
        let (encoding, len) = match int {
            0..0x80 => return self.push_element(&[bytes[0], 1]),
            -0x1000..0x1000 => return self.push_element(&[INT_13_BITS | bytes[1] & 0x1f, bytes[0], 2]),
            -0x8000..0x8000 => (INT_16, 2),
            -0x80_0000..0x80_0000 => (INT_24, 3),
            -0x8000_0000..0x8000_0000 => (INT_32, 4),
            _ => (INT_64, 8),
        };
        let room = self.room(1 + 8 + 1);
        room[0] = encoding;
        room[1..9].copy_from_slice(&bytes);
        room[1 + len] = 1 + len as u8;
        self.len += 1 + len + 1;
    }

    /// Appends an element and its length.
    #[inline]
    fn push_element<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.room(N).copy_from_slice(bytes);
        self.len += N;
    }

    #[inline]
    fn push_string(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        if len >= 64 {
            return self.push_long_string(bytes);
        }
        let room = self.room(1 + len + 1);
        room[0] = 0x80 | len as u8;
        copy_short(&mut room[1..=len], bytes);
        room[1 + len] = 1 + len as u8;
        self.len += 1 + len + 1;
    }

    fn push_long_string(&mut self, bytes: &[u8]) {
        let start = self.len;
        match bytes.len() {
            len @ 0..4096 => self.extend(&[STRING_12_BITS | (len >> 8) as u8, len as u8]),
            len => {
                let len = u32::try_from(len).expect("an element is below 4 GiB");
                self.extend(&[STRING_32_BITS]);
                self.extend(&len.to_le_bytes());
            }
        }
        self.extend(bytes);
        self.extend(BackLen::new(self.len - start).as_bytes());
    }

    /// Ends the listpack and returns it. After this, call [`ListpackBuilder::clear`] to begin the next one.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.extend(&[END]);
        let len = u32::try_from(self.len).expect("a listpack is below 4 GiB");
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        self.bytes[4..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
        &self.bytes[..self.len]
    }
}

/// Copies a string, which is usually short, without a function call for the most common lengths. Both have the same
/// length.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    let len = from.len();
    match len {
        8..=16 => {
            to[..8].copy_from_slice(&from[..8]);
            to[len - 8..].copy_from_slice(&from[len - 8..]);
        }
        4..=7 => {
            to[..4].copy_from_slice(&from[..4]);
            to[len - 4..].copy_from_slice(&from[len - 4..]);
        }
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn built(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = ListpackBuilder::default();
        builder.clear();
        elements.iter().for_each(|element| builder.push(Text::Bytes(element)));
        builder.finish().to_vec()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
        Listpack::new(bytes)?.map(|piece| piece.map(Text::to_vec)).collect()
    }

    #[test]
    fn elements_of_every_form_are_written_and_read() {
        let ints = [
            0,
            127,
            128,
            -1,
            4095,
            -4096,
            4096,
            32767,
            -32768,
            32768,
            1 << 23,
            -(1 << 23),
            1 << 31,
            i64::MIN,
            i64::MAX,
        ];
        let mut elements: Vec<Vec<u8>> = ints.iter().map(|int: &i64| int.to_string().into_bytes()).collect();
        let lens = [0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 2_097_145, 2_097_146, 2_097_147];
        elements.extend(lens.map(|len| vec![b'x'; len]));
        elements.extend([&b"007"[..], b"-0", b"1.5"].map(<[u8]>::to_vec));
        assert_eq!(read(&built(&elements)), Ok(elements));
    }

    #[test]
    fn many_elements_have_no_count() {
        let elements = vec![b"1".to_vec(); 70_000];
        let bytes = built(&elements);
        assert_eq!(bytes[4..6], [0xff, 0xff]);
        assert_eq!(read(&bytes), Ok(elements));
    }

    #[test]
    fn bytes_are_those_of_the_published_format() {
        let elements = [&b"hello"[..], b"42", b"-100", b"1000000"].map(<[u8]>::to_vec);
        let expected = b"\x1a\0\0\0\x04\0\x85hello\x06\x2a\x01\xdf\x9c\x02\xf2\x40\x42\x0f\x04\xff";
        let bytes = built(&elements);
        assert_eq!(bytes[6..], expected[6..]);
        assert_eq!(bytes[0] as usize, bytes.len());
    }

    #[test]
    fn every_damaged_listpack_is_refused_or_read_to_its_end() {
        let bytes = built(&[&b"hello"[..], b"42", &[b'y'; 200], b"-100"].map(<[u8]>::to_vec));
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err());
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let _ = read(&changed);
            }
        }
        for (at, what) in [
            (0, "a listpack of another length than it says"),
            (4, "a listpack with more elements than it says"),
            (12, "an element of a listpack with a wrong length behind it"),
        ] {
            let mut changed = bytes.clone();
            changed[at] -= 1;
            assert_eq!(read(&changed), Err(what));
        }
        let mut changed = bytes;
        changed[4] += 1;
        assert_eq!(read(&changed), Err("a listpack with fewer elements than it says"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(elements in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..50)) {
            prop_assert_eq!(read(&built(&elements)), Ok(elements));
        }
    }
}

//! The packed forms of Redis before version 7: ziplists, zipmaps and intsets. They are only read.
//!
//! The formats are public. A ziplist is four bytes of total length, four of where its last entry begins, two of the
//! number of entries (65,535: not known), the entries, 255; an entry is the length of the previous entry, an encoding,
//! and the content. A zipmap is a byte of its number of pairs (254 and more: not known) and the pairs, each the length
//! and bytes of its field, the length of its value, a byte with the number of unused bytes after the value, the value;
//! a byte of 255 ends it. An intset is four bytes of the width of its integers, four of their number, and the integers
//! in ascending order. All numbers have the lowest byte first, except the lengths of a ziplist's strings.

use super::listpack::{Piece, int};
use super::text::Text;

const END: u8 = 0xff;

/// The entries of a ziplist, checked as they are read. An error ends the iteration.
#[derive(Clone, Debug)]
pub(crate) struct Ziplist<'a> {
    rest: &'a [u8],
    missing: Option<u16>,
    /// Where the last entry begins, relative to the beginning of `rest`.
    tail: usize,
    before_len: usize,
}

const ZIPLIST_HEADER_LEN: usize = 10;

impl<'a> Ziplist<'a> {
    /// The ziplist that `bytes` are. O(1).
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let Some((header, [entries @ .., END])) = bytes.split_first_chunk::<ZIPLIST_HEADER_LEN>() else {
            return Err("a ziplist without header or end");
        };
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if number(0) as usize != bytes.len() {
            return Err("a ziplist of another length than it says");
        }
        let Some(tail) = (number(4) as usize).checked_sub(ZIPLIST_HEADER_LEN).filter(|tail| *tail <= entries.len())
        else {
            return Err("a ziplist whose last entry is outside of it");
        };
        let count = u16::from_le_bytes([header[8], header[9]]);
        let missing = (count != u16::MAX).then_some(count);
        Ok(Ziplist { rest: entries, missing, tail, before_len: 0 })
    }

    /// How many entries follow, 0 if that is unknown. At most one for each byte.
    pub(crate) fn len_hint(&self) -> usize {
        self.missing.map_or(0, |missing| usize::from(missing).min(self.rest.len()))
    }

    fn read(&mut self) -> Piece<'a> {
        const PAST_END: &str = "an entry that goes past the end of its ziplist";
        let start = self.rest;
        let (before_len, rest) = small_len(start).ok_or(PAST_END)?;
        if before_len != self.before_len {
            return Err("an entry of a ziplist that is wrong about the one before");
        }
        let (text, rest) = entry(rest).ok_or(PAST_END)?;
        if let Some(missing) = &mut self.missing {
            *missing = missing.checked_sub(1).ok_or("a ziplist with more entries than it says")?;
        }
        (self.rest, self.before_len) = (rest, start.len() - rest.len());
        let step = if rest.is_empty() { 0 } else { self.before_len };
        let tail = self.tail.checked_sub(step).filter(|tail| !rest.is_empty() || *tail == 0);
        self.tail = tail.ok_or("a ziplist that is wrong about its last entry")?;
        Ok(text)
    }
}

impl<'a> Iterator for Ziplist<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            let is_short = self.missing.take().is_some_and(|missing| missing > 0);
            return is_short.then_some(Err("a ziplist with fewer entries than it says"));
        }
        let piece = self.read();
        if piece.is_err() {
            (self.rest, self.missing) = (&[], None);
        }
        Some(piece)
    }
}

/// A length of one byte, or of four after 254.
fn small_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (254, rest) => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*len) as usize, rest))
        }
        (255, _) => None,
        (len, rest) => Some((usize::from(*len), rest)),
    }
}

/// The content of an entry, after the length of the previous one, and the bytes that follow.
fn entry(bytes: &[u8]) -> Option<(Text<'_>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (string_len, rest) = match first {
        0..0x40 => (usize::from(first), rest),
        0x40..0x80 => {
            let (&low, rest) = rest.split_first()?;
            (usize::from(first & 0x3f) << 8 | usize::from(low), rest)
        }
        0x80..0xc0 => {
            let (len, rest) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*len) as usize, rest)
        }
        0xc0 => return int::<2>(rest),
        0xd0 => return int::<4>(rest),
        0xe0 => return int::<8>(rest),
        0xf0 => return int::<3>(rest),
        0xfe => return int::<1>(rest),
        // 0 to 12.
        0xf1..=0xfd => return Some((Text::Int(i64::from(first) - 0xf1), rest)),
        _ => return None,
    };
    let (string, rest) = rest.split_at_checked(string_len)?;
    Some((Text::Bytes(string), rest))
}

/// The fields and values of a zipmap, one after the other, checked as they are read. An error ends the iteration.
#[derive(Clone, Debug)]
pub(crate) struct Zipmap<'a> {
    rest: &'a [u8],
    missing: Option<u8>,
    is_value: bool,
}

impl<'a> Zipmap<'a> {
    /// The zipmap that `bytes` are. O(1).
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let [count, pairs @ .., END] = bytes else { return Err("a zipmap without header or end") };
        Ok(Zipmap { rest: pairs, missing: (*count < 254).then_some(*count), is_value: false })
    }

    fn read(&mut self) -> Piece<'a> {
        const PAST_END: &str = "a string that goes past the end of its zipmap";
        let (len, mut rest) = small_len(self.rest).ok_or(PAST_END)?;
        let mut unused_len = 0;
        if self.is_value {
            let (&unused, behind) = rest.split_first().ok_or(PAST_END)?;
            (unused_len, rest) = (usize::from(unused), behind);
        } else if let Some(missing) = &mut self.missing {
            *missing = missing.checked_sub(1).ok_or("a zipmap with more pairs than it says")?;
        }
        let (string, rest) = rest.split_at_checked(len).ok_or(PAST_END)?;
        self.rest = rest.get(unused_len..).ok_or(PAST_END)?;
        self.is_value = !self.is_value;
        Ok(Text::Bytes(string))
    }
}

impl<'a> Iterator for Zipmap<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            let is_short = self.missing.take().is_some_and(|missing| missing > 0);
            return is_short.then_some(Err("a zipmap with fewer pairs than it says"));
        }
        let piece = self.read();
        if piece.is_err() {
            (self.rest, self.missing) = (&[], None);
        }
        Some(piece)
    }
}

/// The integers of an intset, checked as they are read. An error ends the iteration.
#[derive(Clone, Debug)]
pub(crate) struct Intset<'a> {
    rest: &'a [u8],
    width: usize,
    before: Option<i64>,
}

const INTSET_HEADER_LEN: usize = 8;

impl<'a> Intset<'a> {
    /// The intset that `bytes` are. O(1).
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let Some((&[a, b, c, d, e, f, g, h], ints)) = bytes.split_first_chunk::<INTSET_HEADER_LEN>() else {
            return Err("an intset without header");
        };
        let width = u32::from_le_bytes([a, b, c, d]) as usize;
        let count = u32::from_le_bytes([e, f, g, h]) as usize;
        if !matches!(width, 2 | 4 | 8) {
            return Err("an intset of integers of unknown width");
        }
        if count.checked_mul(width) != Some(ints.len()) {
            return Err("an intset of another length than it says");
        }
        Ok(Intset { rest: ints, width, before: None })
    }

    /// How many integers follow.
    pub(crate) fn len(&self) -> usize {
        self.rest.len() / self.width
    }
}

impl<'a> Iterator for Intset<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let (text, rest) = match self.width {
            2 => int::<2>(self.rest),
            4 => int::<4>(self.rest),
            _ => int::<8>(self.rest),
        }?;
        self.rest = rest;
        let Text::Int(int) = text else { return None };
        if self.before.is_some_and(|before| before >= int) {
            self.rest = &[];
            return Some(Err("an intset that is not in ascending order"));
        }
        self.before = Some(int);
        Some(Ok(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Result<Vec<Vec<u8>>, &'static str>;

    fn texts<'a>(pieces: Result<impl Iterator<Item = Piece<'a>>, &'static str>) -> Read {
        pieces?.map(|piece| piece.map(Text::to_vec)).collect()
    }

    fn damaged(bytes: &[u8], read: fn(&[u8]) -> Read) {
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.to_vec();
                changed[at] ^= 1 << bit;
                let _ = read(&changed);
            }
        }
    }

    /// A ziplist of entries that are given without the length of the previous one.
    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let (mut body, mut before_len, mut tail) = (Vec::new(), 0usize, 10);
        for entry in entries {
            tail = 10 + body.len();
            match before_len {
                0..254 => body.push(before_len as u8),
                _ => {
                    body.push(254);
                    body.extend_from_slice(&(before_len as u32).to_le_bytes());
                }
            }
            body.extend_from_slice(entry);
            before_len = 10 + body.len() - tail;
        }
        let mut bytes = (11 + body.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(tail as u32).to_le_bytes());
        bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.push(END);
        bytes
    }

    #[test]
    fn ziplists_of_every_entry_are_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let huge = [&[0x80, 0, 0, 0x50, 0][..], &[b'y'; 0x5000]].concat();
        let entries: [&[u8]; 11] = [
            b"\x03abc",
            &long,
            &huge,
            b"\xc0\x00\x80",
            b"\xd0\xff\xff\xff\x7f",
            b"\xe0\0\0\0\0\0\0\0\x80",
            b"\xf0\xff\xff\xff",
            b"\xfe\x80",
            b"\xf1",
            b"\xfd",
            b"\x00",
        ];
        let read = texts(Ziplist::new(&ziplist(&entries))).unwrap();
        let (x, y) = ("x".repeat(300), "y".repeat(0x5000));
        let expected = ["abc", &x, &y, "-32768", "2147483647", "-9223372036854775808", "-1", "-128", "0", "12", ""]
            .map(|text| text.as_bytes().to_vec());
        assert_eq!(read, expected);
        damaged(&ziplist(&[b"\x03abc", &long, b"\xf3", b"\xc0\x00\x80"]), |bytes| texts(Ziplist::new(bytes)));
        assert_eq!(texts(Ziplist::new(&ziplist(&[]))), Ok(vec![]));
    }

    #[test]
    fn a_ziplist_that_contradicts_itself_is_refused() {
        let bytes = ziplist(&[b"\x03abc", b"\xf3"]);
        for (at, what) in [
            (4, "a ziplist that is wrong about its last entry"),
            (8, "a ziplist with more entries than it says"),
            (15, "an entry of a ziplist that is wrong about the one before"),
        ] {
            let mut changed = bytes.clone();
            changed[at] -= 1;
            assert_eq!(texts(Ziplist::new(&changed)), Err(what));
        }
    }

    #[test]
    fn zipmaps_are_read() {
        let bytes = b"\x02\x03foo\x03\0bar\x05hello\x05\x02worldxx\xff";
        let expected = ["foo", "bar", "hello", "world"].map(|text| text.as_bytes().to_vec());
        assert_eq!(texts(Zipmap::new(bytes)), Ok(expected.to_vec()));
        damaged(bytes, |bytes| texts(Zipmap::new(bytes)));
        let mut long = b"\xfe\xfe\x2c\x01\0\0".to_vec();
        long.extend_from_slice(&[b'f'; 300]);
        long.extend_from_slice(b"\x00\x00\xff");
        assert_eq!(texts(Zipmap::new(&long)), Ok(vec![vec![b'f'; 300], vec![]]));
        assert_eq!(texts(Zipmap::new(b"\x01\xff")), Err("a zipmap with fewer pairs than it says"));
        assert_eq!(texts(Zipmap::new(b"\x00\x01f\x01\0v\xff")), Err("a zipmap with more pairs than it says"));
    }

    #[test]
    fn intsets_of_every_width_are_read() {
        for (width, ints) in
            [(2, vec![]), (2, vec![-1, 2, 3]), (4, vec![-1, 40_000]), (8, vec![i64::MIN, 5]), (2, vec![-32768, 32767])]
        {
            let mut bytes = [(width as u32).to_le_bytes(), (ints.len() as u32).to_le_bytes()].concat();
            ints.iter().for_each(|int: &i64| bytes.extend_from_slice(&int.to_le_bytes()[..width]));
            let expected: Vec<_> = ints.iter().map(|int| int.to_string().into_bytes()).collect();
            assert_eq!(texts(Intset::new(&bytes)), Ok(expected));
            assert_eq!(Intset::new(&bytes).unwrap().len(), ints.len());
            damaged(&bytes, |bytes| texts(Intset::new(bytes)));
        }
        assert_eq!(
            texts(Intset::new(b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0")),
            Err("an intset that is not in ascending order")
        );
    }
}

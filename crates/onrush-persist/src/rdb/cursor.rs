//! The basic pieces of every file: lengths, strings, numbers.
//!
//! A length begins with a byte whose upper two bits give its form: 00 six bits, 01 fourteen bits (the upper ones
//! first), 10 four bytes after `0x80` or eight after `0x81` (the highest first), 11 not a length but the encoding of a
//! string: 0 to 2 an integer of one, two or four bytes (the lowest first), 3 LZF: the compressed length, the length,
//! the compressed bytes.

use super::RdbError;
use super::text::{Stored, Text};

pub(crate) type Result<T> = std::result::Result<T, RdbError>;

pub(crate) const LEN_14_BITS: u8 = 0x40;
pub(crate) const LEN_32_BITS: u8 = 0x80;
pub(crate) const LEN_64_BITS: u8 = 0x81;
pub(crate) const ENCODED: u8 = 0xc0;
pub(crate) const INT_8: u8 = 0;
pub(crate) const INT_16: u8 = 1;
pub(crate) const INT_32: u8 = 2;
pub(crate) const LZF: u8 = 3;

/// Most bytes of a string or a packed collection: more than any memory holds.
const STRING_LEN_MAX: u64 = 1 << 47;

/// A place in the bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begin in the file.
    start: u64,
}

/// A length, or the encoding of a string in its place.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], start: u64) -> Self {
        Cursor { bytes, at: 0, start }
    }

    /// Bytes taken so far.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.at
    }

    /// The place in the file.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// The bytes that are left.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// How many of the announced `len` elements to expect: at most one for each byte left.
    pub(crate) fn hint(&self, len: u64) -> usize {
        usize::try_from(len).unwrap_or(usize::MAX).min(self.bytes.len() - self.at)
    }

    #[cold]
    fn truncated(&self) -> RdbError {
        RdbError::Truncated { at: self.start + self.bytes.len() as u64 }
    }

    /// The error if fewer than `len` bytes are left. A `len` that no string can have is malformed, so that no reader
    /// waits for more bytes.
    #[cold]
    fn too_long(&self, len: u64) -> RdbError {
        if len > STRING_LEN_MAX { self.malformed("a length that no string has") } else { self.truncated() }
    }

    #[cold]
    pub(crate) fn malformed(&self, what: &'static str) -> RdbError {
        RdbError::Malformed { at: self.offset(), what }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let rest = self.rest();
        if len > rest.len() as u64 {
            return Err(self.too_long(len));
        }
        self.at += len as usize;
        Ok(&rest[..len as usize])
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest().first_chunk() {
            Some(array) => {
                self.at += N;
                Ok(*array)
            }
            None => Err(self.truncated()),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    fn length(&mut self) -> Result<Length> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            3 => Length::Encoded(first & 0x3f),
            _ if first == LEN_32_BITS => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            _ if first == LEN_64_BITS => Length::Plain(u64::from_be_bytes(self.array()?)),
            _ => return Err(self.malformed("a length of an unknown form")),
        })
    }

    /// A length or a number.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64> {
        match self.length()? {
            Length::Plain(len) => Ok(len),
            Length::Encoded(_) => Err(self.malformed("an encoded string in the place of a length")),
        }
    }

    /// A string as it is stored.
    #[inline]
    pub(crate) fn stored(&mut self) -> Result<Stored<'a>> {
        let encoding = match self.length()? {
            Length::Plain(len) => return Ok(Stored::Plain(Text::Bytes(self.take(len)?))),
            Length::Encoded(encoding) => encoding,
        };
        Ok(match encoding {
            INT_8 => Stored::Plain(Text::Int(i64::from(i8::from_le_bytes(self.array()?)))),
            INT_16 => Stored::Plain(Text::Int(i64::from(i16::from_le_bytes(self.array()?)))),
            INT_32 => Stored::Plain(Text::Int(i64::from(i32::from_le_bytes(self.array()?)))),
            LZF => {
                let (compressed_len, len) = (self.number()?, self.number()?);
                let bytes = self.take(compressed_len)?;
                let len = usize::try_from(len).map_err(|_| self.malformed(NOT_LZF))?;
                Stored::Compressed { bytes, len }
            }
            _ => return Err(self.malformed("a string of an unknown encoding")),
        })
    }

    /// A string, expanded into `scratch` if it is compressed.
    #[inline]
    pub(crate) fn text<'b>(&mut self, scratch: &'b mut Vec<u8>) -> Result<Text<'b>>
    where
        'a: 'b,
    {
        let at = self.offset();
        self.stored()?.text(scratch).ok_or(RdbError::Malformed { at, what: NOT_LZF })
    }

    /// The bytes of a string that is not a number: a packed collection.
    pub(crate) fn blob<'b>(&mut self, scratch: &'b mut Vec<u8>) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let at = self.offset();
        match self.text(scratch)? {
            Text::Bytes(bytes) => Ok(bytes),
            Text::Int(_) => Err(RdbError::Malformed { at, what: "a number in the place of a packed collection" }),
        }
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn millis(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A double in eight bytes.
    #[inline]
    pub(crate) fn double(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// A double as text after its length; the lengths 253 to 255 stand for NaN and the infinities.
    pub(crate) fn text_double(&mut self) -> Result<f64> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            len => {
                let at = self.offset();
                let digits = self.take(u64::from(len))?;
                parse_double(digits).ok_or(RdbError::Malformed { at, what: NO_SCORE })
            }
        }
    }

    /// Skips a string without reading its bytes. O(1).
    #[inline]
    pub(crate) fn skip_string(&mut self) -> Result<()> {
        self.stored().map(drop)
    }
}

pub(crate) const NOT_LZF: &str = "a compressed string that does not expand to its length";
pub(crate) const NO_SCORE: &str = "a score that is no number";

/// The double that some text spells.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut cursor = Cursor::new(bytes, 100);
        let text = cursor.text(&mut Vec::new())?.to_vec();
        assert!(cursor.is_at_end());
        Ok(text)
    }

    #[test]
    fn strings_of_every_form_are_read() {
        assert_eq!(read(b"\x03abc").unwrap(), b"abc");
        assert_eq!(read(b"\x40\x03abc").unwrap(), b"abc");
        assert_eq!(read(b"\x80\0\0\0\x03abc").unwrap(), b"abc");
        assert_eq!(read(b"\x81\0\0\0\0\0\0\0\x03abc").unwrap(), b"abc");
        assert_eq!(read(b"\xc0\xff").unwrap(), b"-1");
        assert_eq!(read(b"\xc1\x00\x80").unwrap(), b"-32768");
        assert_eq!(read(b"\xc2\xff\xff\xff\x7f").unwrap(), b"2147483647");
        assert_eq!(read(b"\xc3\x04\x05\x00a\x40\x00").unwrap(), b"aaaaa");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let error = |bytes| read(bytes).unwrap_err().to_string();
        assert_eq!(error(b"\x04abc"), "the data ends in the middle, at byte 104");
        assert_eq!(error(b"\x80\xff\xff\xff\xffabc"), "the data ends in the middle, at byte 108");
        assert_eq!(error(b"\x81\0\0\0\x01\0\0\0\0abc"), "the data ends in the middle, at byte 112");
        assert_eq!(error(b"\x81\0\x01\0\0\0\0\0\0abc"), "a length that no string has, at byte 109");
        assert_eq!(error(b"\x82abc"), "a length of an unknown form, at byte 101");
        assert_eq!(error(b"\xc4abc"), "a string of an unknown encoding, at byte 101");
        assert_eq!(
            error(b"\xc3\x04\x06\x00a\x40\x00"),
            "a compressed string that does not expand to its length, at byte 100"
        );
    }

    #[test]
    fn doubles_as_text_are_read() {
        let read = |bytes| Cursor::new(bytes, 0).text_double().unwrap();
        assert_eq!(read(b"\x043.25"), 3.25);
        assert_eq!(read(b"\x05-1e+9"), -1e9);
        assert_eq!(read(b"\xfe"), f64::INFINITY);
        assert_eq!(read(b"\xff"), f64::NEG_INFINITY);
        assert!(read(b"\xfd").is_nan());
        assert!(Cursor::new(b"\x031,5", 0).text_double().is_err());
    }
}

//! A string or a number: files store many strings as integers.

use super::lzf;

/// A string that is read or written. An integer stands for its decimal text, so it is formatted only where the text is
/// needed.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// The number that it spells.
    Int(i64),
}

impl<'a> Text<'a> {
    /// Its bytes; an integer is formatted into `buffer`.
    #[inline]
    pub fn as_bytes<'b>(self, buffer: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Text::Bytes(bytes) => bytes,
            Text::Int(number) => buffer.format(number).as_bytes(),
        }
    }

    /// Its bytes, copied.
    pub fn to_vec(self) -> Vec<u8> {
        self.as_bytes(&mut itoa::Buffer::new()).to_vec()
    }

    /// The integer that it spells, if it is spelled exactly as integers are formatted.
    #[inline]
    pub(crate) fn as_int(self) -> Option<i64> {
        match self {
            Text::Bytes(bytes) => parse_int(bytes),
            Text::Int(number) => Some(number),
        }
    }
}

impl PartialEq for Text<'_> {
    /// Whether both spell the same.
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Text::Int(a), Text::Int(b)) => a == b,
            (a, b) => a.as_bytes(&mut itoa::Buffer::new()) == b.as_bytes(&mut itoa::Buffer::new()),
        }
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Text::Bytes(bytes)
    }
}

/// The integer that `bytes` spell without leading zeros, blanks or a plus. O(length), at most 20.
#[inline]
fn parse_int(bytes: &[u8]) -> Option<i64> {
    let digits = match bytes {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => digits,
        _ => bytes,
    };
    if digits.len() > 19 || !matches!(digits, [b'1'..=b'9', ..]) {
        return None;
    }
    let mut value = 0_u64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // At most 19 digits: below 2^64.
        value = value * 10 + u64::from(digit);
    }
    if digits.len() == bytes.len() { i64::try_from(value).ok() } else { 0_i64.checked_sub_unsigned(value) }
}

/// A string as a file stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'a> {
    Plain(Text<'a>),
    Compressed { bytes: &'a [u8], len: usize },
}

impl<'a> Stored<'a> {
    /// The string, expanded into `scratch` if it is compressed. `None` if it does not expand.
    #[inline]
    pub(crate) fn text<'b>(self, scratch: &'b mut Vec<u8>) -> Option<Text<'b>>
    where
        'a: 'b,
    {
        match self {
            Stored::Plain(text) => Some(text),
            Stored::Compressed { bytes, len } => {
                lzf::expand_into(scratch, bytes, len).then_some(Text::Bytes(scratch.as_slice()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_common_spelling_is_an_integer() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN, i64::MAX - 1, -1_000_000] {
            assert_eq!(parse_int(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_number_equals_its_spelling() {
        assert_eq!(Text::Int(-12), Text::Bytes(b"-12"));
        assert_ne!(Text::Int(12), Text::Bytes(b"012"));
    }
}

//! Integers that byte strings spell.

/// The longest text of an `i64`.
pub(crate) const INT_LEN_MAX: usize = 20;

/// The integer that a text spells, if formatting the integer gives the same text: no sign but `-`, no leading zeros.
/// O(length).
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    if text.len() > INT_LEN_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        value = value.checked_mul(10)?;
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_text_is_an_integer() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_int(value.to_string().as_bytes()), Some(value));
        }
        for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "9223372036854775808", "-9223372036854775809"] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text:?}");
        }
    }
}

//! Numbers as the protocol and the commands spell them.

#[cfg(feature = "server")]
use crate::grisu::Digits;

/// Parses a decimal `i64` as strictly as Redis does: an optional `-`, no `+`, no leading zeros, no spaces.
///
/// Returns `None` for anything else, including values out of range. O(length).
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [] => None,
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        [b'-', rest @ ..] => parse_magnitude(rest).and_then(|magnitude| {
            if magnitude <= i64::MAX as u64 {
                Some(-(magnitude as i64))
            } else if magnitude == 1 << 63 {
                Some(i64::MIN)
            } else {
                None
            }
        }),
        _ => parse_magnitude(text).and_then(|magnitude| i64::try_from(magnitude).ok()),
    }
}

/// The value of digits that begin with 1 to 9.
#[inline]
fn parse_magnitude(digits: &[u8]) -> Option<u64> {
    let (&first, rest) = digits.split_first()?;
    if !(b'1'..=b'9').contains(&first) || rest.len() > 19 {
        return None;
    }
    let mut value = u64::from(first - b'0');
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Whole numbers up to this are written exactly in replies: half of the largest of 64 bits.
#[cfg(feature = "server")]
const PLAIN_MAX: f64 = (i64::MAX / 2) as f64;

/// Appends a double as Redis 7.2 and later have it in replies: a whole number with all its digits up to 2^62, another one
/// as [`push_shortest`] does. O(1).
#[cfg(feature = "server")]
#[inline]
pub fn push_double(out: &mut Vec<u8>, value: f64) {
    // Not -0.
    if value.abs() <= PLAIN_MAX && value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive()) {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        push_shortest(out, value);
    }
}

/// Appends a double as Redis 7.2 and later have it in digests and for arguments of scripts' commands: few digits that read back
/// to the same value ([`Digits`]), or `inf`, `-inf`, `nan`. There is an exponent if more than seven zeros would stand behind the
/// digits of a whole number, and if seven digits or more stand behind the point of another one that is below 0.001 or
/// from 10,000 on. O(1).
#[cfg(feature = "server")]
pub fn push_shortest(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    if value == 0.0 {
        return out.push(b'0');
    }
    let digits = Digits::of(value.abs());
    let (digits, scale) = (digits.as_bytes(), digits.scale);
    let count = digits.len() as i32;
    let exponent = scale + count - 1;
    if scale >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', scale as usize));
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        let zeros = (-(count + scale)).max(0);
        let (whole, fraction) = digits.split_at((count + scale).max(0) as usize);
        match whole {
            [] => out.push(b'0'),
            whole => out.extend_from_slice(whole),
        }
        out.push(b'.');
        out.extend(std::iter::repeat_n(b'0', zeros as usize));
        out.extend_from_slice(fraction);
    } else {
        let (first, others) = digits.split_at(1);
        out.extend_from_slice(first);
        if !others.is_empty() {
            out.push(b'.');
            out.extend_from_slice(others);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        out.extend_from_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
    }
}

/// Writes a number as `INCRBYFLOAT` stores it: at most 17 digits after the point, no exponent, no trailing zeros.
pub fn format_long_double(value: f64) -> String {
    let mut text = format!("{value:.17}");
    if text.contains('.') {
        let kept = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(kept);
    }
    if text == "-0" { "0".to_owned() } else { text }
}

/// Reads the whole text as a floating-point number, as C's `strtod` does: decimal or hexadecimal, `inf` and `infinity`
/// in any case. Refuses leading blanks, NaN, and numbers that are too large or too small for a `f64`. O(length).
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let value = parse_hex(digits)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let value: f64 = text.parse().ok()?;
    let spelled_infinite = || unsigned.starts_with(['i', 'I']);
    let mantissa = || unsigned.split(['e', 'E']).next().unwrap_or_default();
    let too_small = value == 0.0 && mantissa().bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let refused = value.is_nan() || value.is_infinite() && !spelled_infinite() || too_small;
    (!refused).then_some(value)
}

/// Hexadecimal digits with an optional point and an optional binary exponent.
fn parse_hex(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let value = value * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32));
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_strictly() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            ("", None),
            ("-", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_written_as_redis_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.1"),
            (100.0, "100"),
            (100.5, "100.5"),
            (0.05, "0.05"),
            (382.8293721197916, "382.82937211979163"),
            (2e18, "2000000000000000000"),
            (-4.6e18, "-4600000000000000000"),
            (1796052012123456768.0, "1796052012123456768"),
            (-71596021207396384.0, "-71596021207396384"),
            (4611686018427387904.0, "4611686018427387904"),
            (4611686018427389000.0, "4611686018427389000"),
            (4.7e18, "4.7e+18"),
            (1e20, "1e+20"),
            (18446744073709551616.0, "18446744073709552000"),
            (123456789012345678901.0, "123456789012345680000"),
            (1e-5, "0.00001"),
            (0.000001234, "1.234e-6"),
            (0.00012345678, "1.2345678e-4"),
            (0.001234567, "0.001234567"),
            (12345.123456, "12345.123456"),
            (1796048152.1234567, "1.7960481521234567e+9"),
            (1234567.5e-13, "1.2345675e-7"),
            (1.5e-7, "1.5e-7"),
            (1.25e300, "1.25e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut out = Vec::new();
            push_double(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}

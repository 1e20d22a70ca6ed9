//! Floating-point numbers with a mantissa of 64 bits, as INCRBYFLOAT and HINCRBYFLOAT use them.
//!
//! Redis adds in the `long double` of x86-64 (the x87 extended format: 64 bits of mantissa, 15 of exponent), and its
//! replies show it: 0.1 + 0.2 is 0.3. Rust has no such type, so the three things needed, reading, adding and
//! printing with 17 decimals, are done here on integers, each correctly rounded to nearest, ties to even.

use num_bigint::BigUint;

const MANTISSA_BITS: u64 = 64;

/// Bounds of the last bit's exponent; a number beyond them is infinite or zero.
const EXPONENT_MAX: i64 = 16383 - 63;
const EXPONENT_MIN: i64 = -16445;

/// The longest text that is read as a number, in bytes (as in Redis).
const TEXT_LEN_MAX: usize = 5 * 1024 - 1;

/// Decimals printed.
const DECIMALS: usize = 17;

/// A number `mantissa * 2^exponent`, or an infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    infinite: bool,
    mantissa: u64,
    exponent: i64,
}

impl LongDouble {
    const ZERO: Self = Self { negative: false, infinite: false, mantissa: 0, exponent: 0 };

    /// An integer.
    pub(crate) fn from_i64(value: i64) -> Self {
        Self::round(value < 0, BigUint::from(value.unsigned_abs()), 0, false)
    }

    /// Reads a number as C's `strtold` does when all of the text has to be used: decimal, hexadecimal or `inf`.
    ///
    /// `None` for anything else, for NaN, for leading white space, and for numbers so large or small that they round to
    /// infinity or zero.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > TEXT_LEN_MAX {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let (negative, digits) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if digits.eq_ignore_ascii_case("inf") || digits.eq_ignore_ascii_case("infinity") {
            return Some(Self { negative, infinite: true, ..Self::ZERO });
        }
        let hex = digits.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("0x"));
        let number = if hex { parse_hex(negative, &digits[2..])? } else { parse_decimal(negative, digits)? };
        (!number.infinite).then_some(number)
    }

    /// Whether it is an infinity.
    pub fn is_infinite(self) -> bool {
        self.infinite
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Whether it is less than another one. Both zeros are the same.
    pub(crate) fn is_less_than(self, other: Self) -> bool {
        self.checked_add(other.negated()).is_some_and(|rest| rest.negative && (rest.infinite || rest.mantissa > 0))
    }

    /// The sum; `None` for infinity minus infinity.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        match (self.infinite, other.infinite) {
            (true, true) => return (self.negative == other.negative).then_some(self),
            (true, false) => return Some(self),
            (false, true) => return Some(other),
            (false, false) => {}
        }
        let exponent = match (self.mantissa, other.mantissa) {
            (0, _) => other.exponent,
            (_, 0) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let scaled = |number: Self| match number.mantissa {
            0 => BigUint::ZERO,
            mantissa => BigUint::from(mantissa) << (number.exponent - exponent) as u64,
        };
        let (left, right) = (scaled(self), scaled(other));
        Some(if self.negative == other.negative {
            Self::round(self.negative, left + right, exponent, false)
        } else if left >= right {
            Self::round(self.negative && left != right, left - right, exponent, false)
        } else {
            Self::round(other.negative, right - left, exponent, false)
        })
    }

    /// `magnitude * 2^exponent`, a little more if `sticky`, to the nearest number.
    fn round(negative: bool, magnitude: BigUint, exponent: i64, sticky: bool) -> Self {
        let bits = magnitude.bits();
        if bits == 0 {
            return Self { negative, ..Self::ZERO };
        }
        let mut exponent = exponent + bits as i64 - MANTISSA_BITS as i64;
        let mut mantissa = if bits <= MANTISSA_BITS {
            low_u64(&magnitude) << (MANTISSA_BITS - bits)
        } else {
            let rounded = without_bits(&magnitude, bits - MANTISSA_BITS, sticky);
            if rounded.bits() > MANTISSA_BITS {
                exponent += 1;
                1 << 63
            } else {
                low_u64(&rounded)
            }
        };
        if exponent > EXPONENT_MAX {
            return Self { negative, infinite: true, ..Self::ZERO };
        }
        if exponent < EXPONENT_MIN {
            mantissa = mantissa.checked_shr((EXPONENT_MIN - exponent).min(64) as u32).unwrap_or(0);
            exponent = EXPONENT_MIN;
        }
        Self { negative, infinite: false, mantissa, exponent }
    }
}

impl std::fmt::Display for LongDouble {
    /// 17 decimals without trailing zeros.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        if self.infinite {
            return write!(f, "{sign}inf");
        }
        let scaled = BigUint::from(self.mantissa) * BigUint::from(10u8).pow(DECIMALS as u32);
        let rounded = if self.exponent >= 0 {
            scaled << self.exponent as u64
        } else {
            without_bits(&scaled, self.exponent.unsigned_abs(), false)
        };
        let digits = rounded.to_str_radix(10);
        let digits = format!("{digits:0>width$}", width = DECIMALS + 1);
        let (whole, decimals) = digits.split_at(digits.len() - DECIMALS);
        let decimals = decimals.trim_end_matches('0');
        match (whole, decimals) {
            ("0", "") => f.write_str("0"),
            (_, "") => write!(f, "{sign}{whole}"),
            _ => write!(f, "{sign}{whole}.{decimals}"),
        }
    }
}

/// A number, a little more if `sticky`, without so many of its lower bits, at least one: rounded to nearest, ties to even.
fn without_bits(value: &BigUint, dropped: u64, sticky: bool) -> BigUint {
    let kept = value >> dropped;
    let rest = value - (&kept << dropped);
    let half = BigUint::from(1u8) << (dropped - 1);
    let up = rest > half || rest == half && (sticky || kept.bit(0));
    kept + u8::from(up)
}

fn low_u64(value: &BigUint) -> u64 {
    value.iter_u64_digits().next().unwrap_or(0)
}

/// Splits off an exponent introduced by `mark`; a text without one has the exponent 0.
fn split_exponent(text: &str, mark: char) -> Option<(&str, i64)> {
    match text.split_once([mark, mark.to_ascii_uppercase()]) {
        None => Some((text, 0)),
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
            Some((mantissa, if exponent.starts_with('-') { -magnitude } else { magnitude }))
        }
    }
}

/// The digits of a mantissa without its point, and how many of them stood behind it.
fn mantissa_digits(mantissa: &str, radix: u32) -> Option<(String, i64)> {
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    (!digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))).then_some((digits, fraction.len() as i64))
}

fn parse_decimal(negative: bool, text: &str) -> Option<LongDouble> {
    let (mantissa, exponent) = split_exponent(text, 'e')?;
    let (digits, behind) = mantissa_digits(mantissa, 10)?;
    let magnitude = BigUint::parse_bytes(digits.as_bytes(), 10)?;
    if magnitude == BigUint::ZERO {
        return Some(LongDouble { negative, ..LongDouble::ZERO });
    }
    let exponent = exponent - behind;
    let order = exponent + magnitude.bits() as i64 * 3 / 10;
    if !(-5_200..=5_200).contains(&order) {
        return None;
    }
    let number = if exponent >= 0 {
        LongDouble::round(negative, magnitude * BigUint::from(10u8).pow(exponent as u32), 0, false)
    } else {
        let divisor = BigUint::from(10u8).pow(exponent.unsigned_abs() as u32);
        let shift = (divisor.bits() + 2 * MANTISSA_BITS).saturating_sub(magnitude.bits());
        let shifted = magnitude << shift;
        let quotient = &shifted / &divisor;
        let sticky = &quotient * &divisor != shifted;
        LongDouble::round(negative, quotient, -(shift as i64), sticky)
    };
    (number.mantissa != 0 || number.infinite).then_some(number)
}

fn parse_hex(negative: bool, text: &str) -> Option<LongDouble> {
    let (mantissa, exponent) = split_exponent(text, 'p')?;
    let (digits, behind) = mantissa_digits(mantissa, 16)?;
    let magnitude = BigUint::parse_bytes(digits.as_bytes(), 16)?;
    let zero = magnitude == BigUint::ZERO;
    let number = LongDouble::round(negative, magnitude, exponent - 4 * behind, false);
    (zero || number.mantissa != 0 || number.infinite).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(left: &str, right: &str) -> String {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).expect(text);
        parse(left).checked_add(parse(right)).map_or("nan".to_owned(), |sum| sum.to_string())
    }

    #[test]
    fn sums_are_those_of_an_extended_mantissa() {
        for (left, right, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.000000000000000005", "4.00000000000000001"),
            ("1", "-1", "0"),
            ("-1.5", "0.5", "-1"),
            ("0x10", "0x.8p1", "17"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("1e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("inf", "-1", "inf"),
            ("inf", "-inf", "nan"),
        ] {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
        }
    }

    #[test]
    fn what_strtold_refuses_is_refused() {
        for text in ["", " 1", "1 ", "nan", "1e", "1e5x", ".", "0x", "1e5000", "1e-5000", "--1", "1.2.3", "e5"] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}

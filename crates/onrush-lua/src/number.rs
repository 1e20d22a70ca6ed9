//! Numbers as text.

/// Appends a number as C's `printf("%.{precision}g")` spells it, `precision` from 1.
pub fn push_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    if push_special(out, value) {
        return;
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(trim(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else {
        let decimals = (precision as i32 - 1 - exponent) as usize;
        out.extend_from_slice(trim(&format!("{value:.decimals$}")).as_bytes());
    }
}

/// The digits without zeros at the end of a fraction.
fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Appends a number as an argument of a command.
pub(crate) fn push_argument(out: &mut Vec<u8>, value: f64) {
    if !push_special(out, value) {
        // 0 for -0.
        onrush_resp::push_double(out, value + 0.0);
    }
}

fn push_special(out: &mut Vec<u8>, value: f64) -> bool {
    if value.is_finite() {
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
    true
}

/// Converts a double to a 64-bit integer as C does on the processors that Redis runs on: a value that does not fit
/// becomes the smallest integer.
#[inline]
pub(crate) fn to_integer(value: f64) -> i64 {
    const BEYOND: f64 = (1_u64 << 63) as f64;
    if (-BEYOND..BEYOND).contains(&value) { value as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn general_numbers_are_spelled_as_by_c() {
        let cases = [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e14, "1e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (123_456_789_012_345_678.0, "1.2345678901235e+17"),
            (-0.0, "-0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e300, "1e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, spelled) in cases {
            assert_eq!(text(|out| push_general(out, value, 14)), spelled);
        }
        assert_eq!(text(|out| push_general(out, 2.34567, 3)), "2.35");
        assert_eq!(text(|out| push_general(out, 999.9, 3)), "1e+03");
    }

    #[test]
    fn arguments_are_spelled_as_by_redis_8() {
        let cases = [
            (1.5, "1.5"),
            (0.1, "0.1"),
            (1e17, "100000000000000000"),
            (-0.0, "0"),
            (2f64.powi(63), "9223372036854776000"),
            (-(2f64.powi(63)), "-9223372036854776000"),
            (1e300, "1e+300"),
            (1e-7, "1e-7"),
            (f64::INFINITY, "inf"),
            (-f64::NAN, "-nan"),
        ];
        for (value, spelled) in cases {
            assert_eq!(text(|out| push_argument(out, value)), spelled);
        }
    }

    #[test]
    fn what_does_not_fit_an_integer_becomes_the_smallest() {
        assert_eq!([1.9, -1.9, f64::NAN, 1e300, -1e300].map(to_integer), [1, -1, i64::MIN, i64::MIN, i64::MIN]);
    }
}

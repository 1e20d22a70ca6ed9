//! Words of the configuration: numbers, and why a value was not taken.

use std::borrow::Cow;

/// Why a value was refused, in the words that clients of Redis know.
pub type Reason = Cow<'static, str>;

/// Reads an integer the way Redis does: no plus sign, no white space, no leading zeros.
pub fn parse_integer(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = !digits.starts_with(['+', '0', '-']) || text == "0";
    if canonical { text.parse().ok() } else { None }
}

/// The shortest way to write a number of bytes with a power of 1024 as its unit.
pub fn with_unit(bytes: u64) -> String {
    for (unit, name) in [(1u64 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")] {
        if bytes != 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

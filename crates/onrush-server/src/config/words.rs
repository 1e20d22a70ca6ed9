//! Words of the configuration: numbers, and why a value was not taken.

use std::borrow::Cow;

/// Why a value was refused, in the words that clients of Redis know.
pub type Reason = Cow<'static, str>;

/// The shortest way to write a number of bytes with a power of 1024 as its unit.
pub fn with_unit(bytes: u64) -> String {
    for (unit, name) in [(1u64 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")] {
        if bytes != 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

//! Numbers with units.

/// Reads a number of bytes: digits, then nothing or `b`, `k`, `kb`, `m`, `mb`, `g` or `gb` in either case, where the
/// `b` makes it a power of 1024. No digits are 0, and what does not fit 64 bits is the greatest number that does.
pub fn parse_memory(word: &[u8]) -> Option<u64> {
    let digits_len = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = word.split_at(digits_len);
    let unit_bytes: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let count: u64 = match digits {
        [] => 0,
        digits => std::str::from_utf8(digits).ok()?.parse().unwrap_or(u64::MAX),
    };
    Some(count.saturating_mul(unit_bytes))
}

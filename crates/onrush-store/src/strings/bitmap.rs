//! Bits in byte strings: bit 0 is the highest of the first byte.

use std::cell::Cell;

/// How bit strings are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// Bits that are set in all.
    And,
    /// Bits that are set in any.
    Or,
    /// Bits that are set in an odd number.
    Xor,
    /// Bits that are not set in the one there is.
    Not,
    /// Bits that are set in the first and in none of the others.
    Diff,
    /// Bits that are set in any of the others and not in the first.
    Diff1,
    /// Bits that are set in the first and in any of the others.
    AndOr,
    /// Bits that are set in exactly one.
    One,
}

/// Number of bits that are set. O(bytes), 32 bytes at a time where the processor can.
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { count_ones_avx2(bytes) };
    }
    count_ones_portable(bytes)
}

/// The same code, for which the compiler may use wider registers: five times as fast on 1 MB.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_ones_avx2(bytes: &[u8]) -> u64 {
    count_ones_portable(bytes)
}

#[inline(always)]
fn count_ones_portable(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest: u64 = words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum();
    let word = |word: &[u8]| u64::from(u64::from_le_bytes(word.try_into().unwrap_or_default()).count_ones());
    rest + words.map(word).sum::<u64>()
}

/// Number of bits set among those from `start` to `end`, both included and within `bytes`. O(bytes).
pub fn count_ones_between(bytes: &[u8], start: usize, end: usize) -> u64 {
    let (first, last) = (start / 8, end / 8);
    let head = 0xff_u8 >> (start % 8);
    let tail = !(0x7f_u8 >> (end % 8));
    if first == last {
        return u64::from((bytes[first] & head & tail).count_ones());
    }
    let edges = (bytes[first] & head).count_ones() + (bytes[last] & tail).count_ones();
    count_ones(&bytes[first + 1..last]) + u64::from(edges)
}

/// Whether a bit is set; beyond the end none is.
#[inline]
pub fn get_bit(bytes: &[u8], at: usize) -> bool {
    bytes.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
}

/// The first bit with a value among those from `start` to `end`, both included and within `bytes`. O(bytes).
pub fn find_bit(bytes: &[u8], value: bool, start: usize, end: usize) -> Option<usize> {
    let skipped = if value { 0 } else { 0xff };
    let mut at = start;
    while at <= end {
        if at.is_multiple_of(8) && end - at >= 7 {
            // Whole bytes without the bit.
            let whole = &bytes[at / 8..=(end - 7) / 8];
            at += 8 * run_len(whole, skipped);
            if at > end {
                return None;
            }
        }
        if get_bit(bytes, at) == value {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// How many bytes at the front equal `byte`. O(bytes), `PART_LEN` bytes at a time.
fn run_len(bytes: &[u8], byte: u8) -> usize {
    /// Enough for the compiler to compare in wide registers, and little to look at again one by one.
    const PART_LEN: usize = 128;
    let is_run = |part: &&[u8]| part.iter().fold(0, |differing, other| differing | (other ^ byte)) == 0;
    let whole = PART_LEN * bytes.chunks_exact(PART_LEN).take_while(is_run).count();
    let rest = &bytes[whole..];
    whole + rest.iter().position(|&other| other != byte).unwrap_or(rest.len())
}

/// Bytes that are combined at once: they stay in the processor's first cache.
const BLOCK_LEN: usize = 16 * 1024;

thread_local! {
    /// Whether the next combination goes from the last block to the first. With alternating directions a combination
    /// finds the blocks that the one before touched last in the cache; starting at the front each time would find them
    /// just evicted.
    static BACKWARD: Cell<bool> = const { Cell::new(false) };
}

/// Combines bit strings; short ones count as if zeros followed. Only the memory of `result` is used, not its bytes.
/// O(bytes of all), 32 bytes at a time where the processor can.
pub fn combine(operation: BitOperation, sources: &[&[u8]], mut result: Vec<u8>) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    if result.capacity() < len {
        // Zeroed pages are free.
        result = vec![0; len];
    }
    result.resize(len, 0);
    let backward = BACKWARD.replace(!BACKWARD.get());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { combine_avx2(operation, sources, &mut result, backward) };
        return result;
    }
    combine_portable(operation, sources, &mut result, backward);
    result
}

/// The same code, for which the compiler may use wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn combine_avx2(operation: BitOperation, sources: &[&[u8]], result: &mut [u8], backward: bool) {
    combine_portable(operation, sources, result, backward);
}

#[inline(always)]
fn combine_portable(operation: BitOperation, sources: &[&[u8]], result: &mut [u8], backward: bool) {
    match operation {
        BitOperation::And => combine_by(sources, result, backward, |a, b| a & b),
        BitOperation::Or => combine_by(sources, result, backward, |a, b| a | b),
        BitOperation::Xor => combine_by(sources, result, backward, |a, b| a ^ b),
        BitOperation::Not => {
            if let Some(source) = sources.first() {
                result.iter_mut().zip(*source).for_each(|(byte, &source)| *byte = !source);
            }
        }
        BitOperation::Diff => combine_by(sources, result, backward, |a, b| a & !b),
        BitOperation::Diff1 => first_with_others(sources, result, backward, |first, others| !first & others),
        BitOperation::AndOr => first_with_others(sources, result, backward, |first, others| first & others),
        BitOperation::One => combine_one(sources, result),
    }
}

/// Combines the first source with all bits of the others.
#[inline(always)]
fn first_with_others(sources: &[&[u8]], result: &mut [u8], backward: bool, operation: impl Fn(u8, u8) -> u8 + Copy) {
    let Some((first, others)) = sources.split_first() else { return };
    if others.is_empty() {
        result.fill(0);
    }
    combine_by(others, result, backward, |a, b| a | b);
    let (covered, beyond) = result.split_at_mut(first.len());
    covered.iter_mut().zip(*first).for_each(|(byte, &first)| *byte = operation(first, *byte));
    beyond.iter_mut().for_each(|byte| *byte = operation(0, *byte));
}

/// Bits that are set in exactly one of the sources.
#[inline(always)]
fn combine_one(sources: &[&[u8]], result: &mut [u8]) {
    /// Bytes per step: the bits that are set more than once are kept for this many.
    const PART_LEN: usize = 1024;
    for (number, once) in result.chunks_mut(PART_LEN).enumerate() {
        let start = PART_LEN * number;
        let mut more = [0; PART_LEN];
        once.fill(0);
        for source in sources {
            let source = within(source, start, start + once.len());
            for ((once, more), &source) in once.iter_mut().zip(&mut more).zip(source) {
                *more |= *once & source;
                *once = (*once ^ source) & !*more;
            }
        }
    }
}

#[inline(always)]
fn combine_by(sources: &[&[u8]], result: &mut [u8], backward: bool, operation: impl Fn(u8, u8) -> u8 + Copy) {
    let Some((first, others)) = sources.split_first() else { return };
    let (second, others) = others.split_first().map_or((&[][..], others), |(second, others)| (*second, others));
    let is_alone = sources.len() == 1;
    let blocks = result.len().div_ceil(BLOCK_LEN);
    for number in 0..blocks {
        let start = BLOCK_LEN * if backward { blocks - 1 - number } else { number };
        let end = (start + BLOCK_LEN).min(result.len());
        let (a, b, result) = (within(first, start, end), within(second, start, end), &mut result[start..end]);
        if is_alone {
            let (covered, beyond) = result.split_at_mut(a.len());
            covered.copy_from_slice(a);
            beyond.fill(0);
            continue;
        }
        let both = a.len().min(b.len());
        let (covered, rest) = result.split_at_mut(both);
        covered.iter_mut().zip(&a[..both]).zip(&b[..both]).for_each(|((byte, &a), &b)| *byte = operation(a, b));
        // At most one of the two continues.
        let longer = if a.len() > both { &a[both..] } else { &b[both..] };
        let (covered, beyond) = rest.split_at_mut(longer.len());
        if a.len() > both {
            covered.iter_mut().zip(longer).for_each(|(byte, &longer)| *byte = operation(longer, 0));
        } else {
            covered.iter_mut().zip(longer).for_each(|(byte, &longer)| *byte = operation(0, longer));
        }
        beyond.fill(operation(0, 0));
        for source in others {
            let source = within(source, start, end);
            let (covered, beyond) = result.split_at_mut(source.len());
            covered.iter_mut().zip(source).for_each(|(byte, &other)| *byte = operation(*byte, other));
            beyond.iter_mut().for_each(|byte| *byte = operation(*byte, 0));
        }
    }
}

/// The part of a range of bytes that exists.
fn within(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    &bytes[start.min(bytes.len())..end.min(bytes.len())]
}

/// The unsigned number in `len` bits from `at` on, at most 64; beyond the end all bits are zero. O(len).
pub fn get_number(bytes: &[u8], at: usize, len: u32) -> u64 {
    (at..at + len as usize).fold(0, |number, at| number << 1 | u64::from(get_bit(bytes, at)))
}

/// Writes the lower `len` bits of a number from bit `at` on; they are within `bytes`. O(len).
pub fn set_number(bytes: &mut [u8], at: usize, len: u32, number: u64) {
    for index in 0..len as usize {
        set_bit(bytes, at + index, number >> (len as usize - 1 - index) & 1 == 1);
    }
}

/// Sets a bit that is within `bytes`.
#[inline]
pub fn set_bit(bytes: &mut [u8], at: usize, value: bool) {
    let mask = 0x80 >> (at % 8);
    if value {
        bytes[at / 8] |= mask;
    } else {
        bytes[at / 8] &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn bits(bytes: &[u8]) -> Vec<bool> {
        (0..bytes.len() * 8).map(|at| bytes[at / 8] >> (7 - at % 8) & 1 == 1).collect()
    }

    /// Counting and finding in random ranges of sparse and dense strings, against one bit at a time.
    #[test]
    fn agrees_with_single_bits() {
        let mut random = Random::new(6);
        for round in 0..if cfg!(miri) { 20 } else { 100_000 } {
            let len = 1 + random.below([3, 40, 700][round % 3].min(if round % 50 == 0 { 700 } else { 30 }));
            let fill = [0, 0xff, 0x10][random.below(3)];
            let mut bytes = vec![fill; len];
            (0..random.below(4)).for_each(|_| bytes[random.below(len)] = random.next() as u8);
            let all = bits(&bytes);
            let start = random.below(all.len());
            let end = start + random.below(all.len() - start);
            let expected = all[start..=end].iter().filter(|&&bit| bit).count() as u64;
            assert_eq!(count_ones_between(&bytes, start, end), expected);
            for value in [false, true] {
                let expected = (start..=end).find(|&at| all[at] == value);
                assert_eq!(find_bit(&bytes, value, start, end), expected, "{bytes:?} {value} {start} {end}");
            }
            let width = 1 + random.below(64) as u32;
            let number = random.next();
            bytes.resize(len + 8, 0);
            set_number(&mut bytes, start, width, number);
            assert_eq!(get_number(&bytes, start, width), number & (u64::MAX >> (64 - width)));
        }
        let long: Vec<u8> = (0..5_000).map(|_| random.next() as u8).collect();
        assert_eq!(count_ones(&long), long.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>());
    }

    #[test]
    fn short_sources_count_as_followed_by_zeros() {
        let sources: [&[u8]; 3] = [b"\xff\x0f\x01", b"\xf0", b"\xff\xff"];
        assert_eq!(combine(BitOperation::And, &sources, vec![7; 9]), b"\xf0\x00\x00");
        assert_eq!(combine(BitOperation::Or, &sources, vec![7; 9]), b"\xff\xff\x01");
        assert_eq!(combine(BitOperation::Xor, &sources, vec![7; 9]), b"\xf0\xf0\x01");
        assert_eq!(combine(BitOperation::Not, &sources[..1], Vec::new()), b"\x00\xf0\xfe");
    }

    #[test]
    fn combining_agrees_with_bytes_one_by_one() {
        let mut random = Random::new(5);
        let rounds = if cfg!(miri) { 3 } else { 300 };
        for round in 0..rounds {
            let long = if cfg!(miri) { BLOCK_LEN + BLOCK_LEN / 8 } else { 3 * BLOCK_LEN };
            let len_max = [40, long][usize::from(round % 10 == 0)];
            let strings: Vec<Vec<u8>> = (0..1 + random.below(4))
                .map(|_| (0..random.below(len_max)).map(|_| random.below(256) as u8).collect())
                .collect();
            let sources: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
            let byte = |source: &[u8], at: usize| source.get(at).copied().unwrap_or(0);
            let by = |operation: fn(u8, u8) -> u8| -> Vec<u8> {
                let at =
                    |at| sources[1..].iter().fold(byte(sources[0], at), |all, other| operation(all, byte(other, at)));
                (0..len).map(at).collect()
            };
            assert_eq!(combine(BitOperation::And, &sources, Vec::new()), by(|a, b| a & b));
            assert_eq!(combine(BitOperation::Or, &sources, vec![9; 50]), by(|a, b| a | b));
            assert_eq!(combine(BitOperation::Xor, &sources, Vec::new()), by(|a, b| a ^ b));
            assert_eq!(combine(BitOperation::Diff, &sources, vec![9; 50]), by(|a, b| a & !b));
            let bits = |at: usize| {
                let others = sources[1..].iter().fold(0, |all, other| all | byte(other, at));
                (byte(sources[0], at), others)
            };
            let first_with_others =
                |operation: fn(u8, u8) -> u8| (0..len).map(|at| operation(bits(at).0, bits(at).1)).collect::<Vec<u8>>();
            assert_eq!(combine(BitOperation::Diff1, &sources, vec![9; 50]), first_with_others(|a, b| !a & b));
            assert_eq!(combine(BitOperation::AndOr, &sources, vec![9; 50]), first_with_others(|a, b| a & b));
            let is_once = |at: usize| {
                let count = |bit: u8| sources.iter().filter(|source| byte(source, at) >> bit & 1 == 1).count();
                (0..8).filter(|&bit| count(bit) == 1).fold(0, |bits, bit| bits | 1 << bit)
            };
            assert_eq!(combine(BitOperation::One, &sources, vec![9; 50]), (0..len).map(is_once).collect::<Vec<u8>>());
        }
    }
}

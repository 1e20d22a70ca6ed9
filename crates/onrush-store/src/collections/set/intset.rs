//! Sorted integers in a run of bytes: a set of integers in its small form.
//!
//! The first byte is the width of all integers, 2, 4 or 8 bytes; they follow in ascending order, little-endian.

use crate::Packed;

/// The smallest width, in bytes, that holds an integer.
fn width_of(value: i64) -> u8 {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

/// Number of integers.
pub(super) fn len(bytes: &[u8]) -> usize {
    (bytes.len() - 1) / bytes[0] as usize
}

/// The integer at `index`, which must exist.
pub(super) fn get(bytes: &[u8], index: usize) -> i64 {
    let width = bytes[0] as usize;
    let at = &bytes[1 + index * width..][..width];
    match *at {
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => i64::from_le_bytes(at.try_into().unwrap_or_default()),
    }
}

/// Where an integer is, or where it belongs.
pub(super) fn search(bytes: &[u8], value: i64) -> Result<usize, usize> {
    if width_of(value) > bytes[0] {
        return Err(if value < 0 { 0 } else { len(bytes) });
    }
    let (mut low, mut high) = (0, len(bytes));
    while low < high {
        let middle = (low + high) / 2;
        match get(bytes, middle).cmp(&value) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Ok(middle),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

/// A set of this one integer.
pub(super) fn of(value: i64) -> Packed {
    let width = width_of(value);
    let mut packed = Packed::new();
    packed.push(&[&[width], &value.to_le_bytes()[..width as usize]]);
    packed
}

/// Adds an integer; returns whether it is new. O(integers), in place while the width stays.
pub(super) fn insert(packed: &mut Packed, value: i64) -> bool {
    let Err(index) = search(packed, value) else { return false };
    let needed = width_of(value);
    if needed > packed[0] {
        widen(packed, needed);
    }
    let width = packed[0] as usize;
    packed.insert(1 + index * width, &[&value.to_le_bytes()[..width]]);
    true
}

/// Whether an integer is greater than all others and no wider than they are.
pub(super) fn is_last(bytes: &[u8], value: i64) -> bool {
    width_of(value) <= bytes[0] && get(bytes, len(bytes) - 1) < value
}

/// Adds an integer for which [`is_last`] holds. Amortised O(1).
pub(super) fn push(packed: &mut Packed, value: i64) {
    let width = packed[0] as usize;
    packed.push(&[&value.to_le_bytes()[..width]]);
}

fn widen(packed: &mut Packed, width: u8) {
    let mut wide = Packed::with_capacity(1 + (len(packed) + 1) * width as usize);
    wide.push(&[&[width]]);
    for index in 0..len(packed) {
        wide.push(&[&get(packed, index).to_le_bytes()[..width as usize]]);
    }
    *packed = wide;
}

/// Removes the integer at `index`, which must exist. O(integers).
pub(super) fn remove_at(packed: &mut Packed, index: usize) {
    let width = packed[0] as usize;
    packed.remove(1 + index * width..1 + (index + 1) * width);
}

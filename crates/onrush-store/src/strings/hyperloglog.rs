//! HyperLogLogs: strings that estimate how many distinct elements were added, with a standard error of 0.81 %.
//!
//! The format is Redis's, so both servers read each other's bytes. A header of 16 bytes (`HYLL`, the encoding, three
//! bytes of zero, the estimate of last time as a little-endian integer whose highest bit says that it is out of date)
//! is followed by 16,384 registers of 6 bits: all of them (*dense*), or as runs (*sparse*):
//!
//! | first byte | run |
//! |---|---|
//! | `00llllll` | `l + 1` registers of 0 |
//! | `01llllll llllllll` | `l + 1` registers of 0 |
//! | `1vvvvvll` | `l + 1` registers of `v + 1` |
//!
//! An element is hashed by MurmurHash64A; its lowest 14 bits choose the register, which keeps the longest run of zeros
//! seen in the others, plus one. The estimator is Otmar Ertl's (*New cardinality estimation algorithms for HyperLogLog
//! sketches*, 2017), which needs no correction at either end.

use std::ops::Range;

/// Registers of a HyperLogLog.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of the hash in which zeros are counted.
const RUN_BITS: u32 = 64 - INDEX_BITS;
const REGISTER_BITS: usize = 6;
const HEADER_LEN: usize = 16;
const DENSE_LEN: usize = HEADER_LEN + REGISTERS * REGISTER_BITS / 8;
const MAGIC: &[u8] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Where the estimate is, and its byte that says whether it is current.
const ESTIMATE: Range<usize> = 8..16;
const OUT_OF_DATE: u8 = 0x80;
/// The greatest value of a register in a sparse one.
const SPARSE_VALUE_MAX: u8 = 32;
const ZERO_LEN_MAX: usize = 64;
const VALUE_LEN_MAX: usize = 4;
/// Seed of the hash.
const SEED: u64 = 0xadc8_3b19;

/// Registers that do not add up to 16,384.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// The registers of one or several HyperLogLogs, one byte each.
pub struct Registers(Box<[u8; REGISTERS]>);

/// A run of equal registers in a sparse HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What the registers hold.
    pub value: u8,
    /// How many they are.
    pub len: usize,
    /// Bytes the run takes.
    pub size: usize,
}

impl Run {
    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let first = *bytes.first().ok_or(Corrupt)?;
        Ok(match first >> 6 {
            0 => Run { value: 0, len: usize::from(first) + 1, size: 1 },
            1 => {
                let second = *bytes.get(1).ok_or(Corrupt)?;
                Run { value: 0, len: (usize::from(first & 0x3f) << 8 | usize::from(second)) + 1, size: 2 }
            }
            _ => Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, size: 1 },
        })
    }
}

/// The registers in front of, at and behind a changed one, encoded.
#[derive(Default)]
struct Pieces {
    bytes: [u8; 5],
    len: usize,
}

impl Pieces {
    fn zeros(&mut self, len: usize) {
        match len {
            0 => {}
            1..=ZERO_LEN_MAX => self.push((len - 1) as u8),
            _ => {
                self.push(0x40 | ((len - 1) >> 8) as u8);
                self.push((len - 1) as u8);
            }
        }
    }

    fn values(&mut self, value: u8, len: usize) {
        if len > 0 {
            self.push(values(value, len));
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

/// A run of up to four registers of 1 to 32.
fn values(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// A new, empty HyperLogLog: sparse.
pub fn empty() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[MAGIC.len()] = SPARSE;
    let mut all = Pieces::default();
    all.zeros(REGISTERS);
    bytes.extend_from_slice(&all.bytes[..all.len]);
    bytes
}

/// Whether a string may be a HyperLogLog. O(1): runs are checked when they are used.
pub fn is_hyperloglog(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_LEN
        && bytes.starts_with(MAGIC)
        && (bytes[MAGIC.len()] == SPARSE || bytes[MAGIC.len()] == DENSE && bytes.len() == DENSE_LEN)
}

/// Whether a HyperLogLog is dense.
pub fn is_dense(bytes: &[u8]) -> bool {
    bytes[MAGIC.len()] == DENSE
}

/// The stored estimate, if it is current. O(1).
pub fn estimate(bytes: &[u8]) -> Option<u64> {
    let estimate = u64::from_le_bytes(bytes[ESTIMATE].try_into().ok()?);
    (bytes[ESTIMATE.end - 1] & OUT_OF_DATE == 0).then_some(estimate)
}

/// Stores an estimate.
pub fn set_estimate(bytes: &mut [u8], estimate: u64) {
    bytes[ESTIMATE].copy_from_slice(&estimate.to_le_bytes());
}

/// Marks the estimate as out of date.
pub fn invalidate(bytes: &mut [u8]) {
    bytes[ESTIMATE.end - 1] |= OUT_OF_DATE;
}

/// Shows which registers of a sparse HyperLogLog have which value, run by run. It is corrupt unless these are all registers.
fn each_run(bytes: &[u8], mut show: impl FnMut(Range<usize>, u8)) -> Result<(), Corrupt> {
    let mut index = 0;
    for run in runs(bytes) {
        let Run { value, len, .. } = run?;
        if index + len > REGISTERS {
            return Err(Corrupt);
        }
        show(index..index + len, value);
        index += len;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// The runs of a sparse HyperLogLog, with an error at a run cut off.
pub fn runs(bytes: &[u8]) -> impl Iterator<Item = Result<Run, Corrupt>> {
    let mut rest = &bytes[HEADER_LEN..];
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let run = Run::decode(rest);
        rest = run.map_or(&[], |run| &rest[run.size..]);
        Some(run)
    })
}

/// Adds an element to a HyperLogLog; returns whether that changed a register, in which case the estimate is out of
/// date. A sparse one that would exceed `sparse_len_max` bytes, header included, becomes dense. O(1) for a dense one,
/// O(bytes) for a sparse one.
///
/// # Errors
/// [`Corrupt`]
pub fn add(bytes: &mut Vec<u8>, element: &[u8], sparse_len_max: usize) -> Result<bool, Corrupt> {
    let (index, value) = show(element);
    raise(bytes, index, value, sparse_len_max)
}

/// As [`add`], for a dense HyperLogLog, which keeps its length.
pub fn add_dense(bytes: &mut [u8], element: &[u8]) -> bool {
    let (index, value) = show(element);
    raise_dense(bytes, index, value)
}

/// Makes a register hold at least `value`.
fn raise(bytes: &mut Vec<u8>, index: usize, value: u8, sparse_len_max: usize) -> Result<bool, Corrupt> {
    if is_dense(bytes) {
        return Ok(raise_dense(bytes, index, value));
    }
    match raise_sparse(bytes, index, value, sparse_len_max)? {
        Some(is_raised) => Ok(is_raised),
        None => {
            make_dense(bytes)?;
            Ok(raise_dense(bytes, index, value))
        }
    }
}

fn raise_dense(bytes: &mut [u8], index: usize, value: u8) -> bool {
    let (at, shift) = (HEADER_LEN + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let second = bytes.get(at + 1).copied().unwrap_or(0);
    let word = u16::from_le_bytes([bytes[at], second]);
    if (word >> shift & 0x3f) as u8 >= value {
        return false;
    }
    let [low, high] = (word & !(0x3f << shift) | u16::from(value) << shift).to_le_bytes();
    bytes[at] = low;
    // The last register ends with the last byte.
    if let Some(byte) = bytes.get_mut(at + 1) {
        *byte = high;
    }
    invalidate(bytes);
    true
}

/// `None` if the sparse form has no room for it.
fn raise_sparse(bytes: &mut Vec<u8>, index: usize, value: u8, len_max: usize) -> Result<Option<bool>, Corrupt> {
    if value > SPARSE_VALUE_MAX {
        return Ok(None);
    }
    let (mut at, mut first, mut before) = (HEADER_LEN, 0, None);
    let run = loop {
        let run = Run::decode(&bytes[at..])?;
        if index < first + run.len {
            break run;
        }
        before = Some(at);
        (at, first) = (at + run.size, first + run.len);
    };
    if run.value >= value {
        return Ok(Some(false));
    }
    let (front, back) = (index - first, first + run.len - 1 - index);
    let mut pieces = Pieces::default();
    if run.value == 0 {
        pieces.zeros(front);
        pieces.values(value, 1);
        pieces.zeros(back);
    } else {
        pieces.values(run.value, front);
        pieces.values(value, 1);
        pieces.values(run.value, back);
    }
    if pieces.len > run.size && bytes.len() + pieces.len - run.size > len_max {
        return Ok(None);
    }
    bytes.splice(at..at + run.size, pieces.bytes[..pieces.len].iter().copied());
    join_runs(bytes, before.unwrap_or(HEADER_LEN))?;
    invalidate(bytes);
    Ok(Some(true))
}

/// Joins runs of the same value among the few that a change may have touched.
fn join_runs(bytes: &mut Vec<u8>, mut at: usize) -> Result<(), Corrupt> {
    // One in front, and at most three of the change with one behind.
    for _ in 0..5 {
        if at >= bytes.len() {
            break;
        }
        let run = Run::decode(&bytes[at..])?;
        let next = bytes.get(at + run.size).filter(|_| run.value > 0);
        if next.is_some_and(|next| next >> 6 >= 2) {
            let next = Run::decode(&bytes[at + 1..])?;
            if next.value == run.value && next.len + run.len <= VALUE_LEN_MAX {
                bytes[at + 1] = values(run.value, next.len + run.len);
                bytes.remove(at);
                continue;
            }
        }
        at += run.size;
    }
    Ok(())
}

/// Makes a sparse HyperLogLog dense; returns whether it was sparse. O(registers).
///
/// # Errors
/// [`Corrupt`], in which case nothing has changed.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if is_dense(bytes) {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_LEN];
    dense[..HEADER_LEN].copy_from_slice(&bytes[..HEADER_LEN]);
    dense[MAGIC.len()] = DENSE;
    each_run(bytes, |registers, value| {
        if value > 0 {
            registers.for_each(|index| _ = raise_dense(&mut dense, index, value));
        }
    })?;
    dense[ESTIMATE].copy_from_slice(&bytes[ESTIMATE]);
    *bytes = dense;
    Ok(true)
}

impl Default for Registers {
    fn default() -> Self {
        Registers(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    /// The registers of one HyperLogLog. O(registers).
    ///
    /// # Errors
    /// [`Corrupt`]
    pub fn of(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut registers = Self::default();
        registers.merge(bytes)?;
        Ok(registers)
    }

    /// Raises each register to that of another HyperLogLog: their union. O(registers).
    ///
    /// # Errors
    /// [`Corrupt`]
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        if is_dense(bytes) {
            let (triples, _) = bytes[HEADER_LEN..].as_chunks::<3>();
            let (quads, _) = self.0.as_chunks_mut::<4>();
            for (quad, [a, b, c]) in quads.iter_mut().zip(triples) {
                let from = [a & 0x3f, a >> 6 | b << 2 & 0x3f, b >> 4 | c << 4 & 0x3f, c >> 2];
                for (to, from) in quad.iter_mut().zip(from) {
                    *to = from.max(*to);
                }
            }
            return Ok(());
        }
        each_run(bytes, |registers, value| {
            self.0[registers].iter_mut().for_each(|register| *register = value.max(*register));
        })
    }

    /// The registers' values.
    pub fn values(&self) -> &[u8] {
        &self.0[..]
    }

    /// Raises the registers of a HyperLogLog to these, and marks its estimate as out of date.
    ///
    /// # Errors
    /// [`Corrupt`]
    pub fn raise_in(&self, bytes: &mut Vec<u8>, sparse_len_max: usize) -> Result<(), Corrupt> {
        for (index, &value) in self.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            raise(bytes, index, value, sparse_len_max)?;
        }
        invalidate(bytes);
        Ok(())
    }

    /// How many distinct elements there were, about. O(registers).
    pub fn estimate(&self) -> u64 {
        // Four tables: a register often equals the one before it, and counting in a single table would wait for the
        // previous addition.
        let mut counts = [[0_u32; 64]; 4];
        for quad in self.0.as_chunks::<4>().0 {
            for (counts, &value) in counts.iter_mut().zip(quad) {
                counts[usize::from(value & 0x3f)] += 1;
            }
        }
        let registers_of = |value: u32| f64::from(counts.iter().map(|counts| counts[value as usize]).sum::<u32>());
        let all = REGISTERS as f64;
        let mut sum = all * tau((all - registers_of(RUN_BITS + 1)) / all);
        for value in (1..=RUN_BITS).rev() {
            sum += registers_of(value);
            sum *= 0.5;
        }
        sum += all * sigma(registers_of(0) / all);
        // 1 / (2 ln 2)
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        (ALPHA * all * all / sum).round() as u64
    }
}

/// Ertl's sigma: the share of empty registers in the estimate.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Ertl's tau: the share of full registers in the estimate.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The effect of an element: a register's index, and the value that it must have at least.
fn show(element: &[u8]) -> (usize, u8) {
    let hash = murmur_hash_64a(element, SEED);
    let run = (hash >> INDEX_BITS | 1 << RUN_BITS).trailing_zeros() + 1;
    ((hash & (REGISTERS as u64 - 1)) as usize, run as u8)
}

/// Austin Appleby's MurmurHash64A (public domain), reading words as little-endian.
fn murmur_hash_64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ k >> R).wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPARSE_LEN_MAX: usize = 3_000;

    fn shown(elements: impl IntoIterator<Item = u64>, sparse_len_max: usize) -> Vec<u8> {
        let mut bytes = empty();
        for element in elements {
            add(&mut bytes, &element.to_le_bytes(), sparse_len_max).unwrap();
        }
        bytes
    }

    #[test]
    fn an_empty_one_counts_nothing() {
        let bytes = empty();
        assert!(is_hyperloglog(&bytes) && !is_dense(&bytes));
        assert_eq!(bytes.len(), HEADER_LEN + 2);
        assert_eq!((estimate(&bytes), Registers::of(&bytes).unwrap().estimate()), (Some(0), 0));
    }

    #[test]
    fn estimates_are_within_three_standard_errors() {
        for count in [1_u64, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
            let bytes = shown(0..count, SPARSE_LEN_MAX);
            assert_eq!(is_dense(&bytes), count >= 10_000, "{count}");
            let error = Registers::of(&bytes).unwrap().estimate().abs_diff(count) as f64 / count as f64;
            assert!(error < 0.0243, "{count}: {error}");
        }
    }

    #[test]
    fn it_becomes_dense_at_its_greatest_length_and_for_a_great_value() {
        let mut bytes = empty();
        let mut count = 0_u64;
        while !is_dense(&bytes) {
            assert!(bytes.len() <= 100);
            add(&mut bytes, &count.to_le_bytes(), 100).unwrap();
            count += 1;
        }
        assert!(count > 20);
        let mut bytes = empty();
        assert_eq!(raise(&mut bytes, 7, SPARSE_VALUE_MAX, SPARSE_LEN_MAX), Ok(true));
        assert!(!is_dense(&bytes));
        assert_eq!(raise(&mut bytes, 7, SPARSE_VALUE_MAX + 1, SPARSE_LEN_MAX), Ok(true));
        assert!(is_dense(&bytes) && Registers::of(&bytes).unwrap().values()[7] == 33);
    }

    #[test]
    fn runs_that_do_not_add_up_are_corrupt() {
        for runs in [&b""[..], b"\x7f", b"\x7f\xfe", b"\x7f\xff\x00", b"\x80"] {
            let mut bytes = empty();
            bytes.truncate(HEADER_LEN);
            bytes.extend_from_slice(runs);
            assert!(is_hyperloglog(&bytes) && Registers::of(&bytes).is_err());
            let before = bytes.clone();
            assert_eq!((make_dense(&mut bytes), bytes), (Err(Corrupt), before));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn both_encodings_hold_what_a_plain_array_holds(
            raises in proptest::collection::vec((0..REGISTERS, 1..=51_u8), 1..600),
            window in 1..REGISTERS,
            sparse_len_max in 0..2_000_usize,
        ) {
            let (mut bytes, mut model) = (empty(), vec![0; REGISTERS]);
            for (index, value) in raises {
                let index = index % window;
                let is_raised = raise(&mut bytes, index, value, sparse_len_max).unwrap();
                prop_assert_eq!(is_raised, model[index] < value);
                model[index] = value.max(model[index]);
            }
            let registers = Registers::of(&bytes).unwrap();
            prop_assert_eq!(registers.values(), &model);
            make_dense(&mut bytes).unwrap();
            let mut copy = empty();
            registers.raise_in(&mut copy, sparse_len_max).unwrap();
            for bytes in [bytes, copy] {
                let registers = Registers::of(&bytes).unwrap();
                prop_assert_eq!(registers.values(), &model);
            }
        }

        #[test]
        fn any_bytes_are_an_error_but_never_a_panic(
            runs in proptest::collection::vec(any::<u8>(), 0..300), element in any::<u64>(),
        ) {
            let mut bytes = empty();
            bytes.truncate(HEADER_LEN);
            bytes.extend_from_slice(&runs);
            _ = Registers::of(&bytes);
            _ = add(&mut bytes, &element.to_le_bytes(), SPARSE_LEN_MAX);
            _ = make_dense(&mut bytes);
        }
    }
}

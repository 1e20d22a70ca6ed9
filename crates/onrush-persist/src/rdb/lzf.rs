//! LZF: how RDB files compress strings.
//!
//! The format, as its author published it with liblzf: a byte below 32 says how many bytes less one follow as they are. Any
//! other begins a copy of bytes before: its upper three bits are the length less two (7: the next byte is added), its lower
//! five and the last byte the distance less one.

/// The most bytes that one compressed byte becomes: three bytes stand for a copy of [`COPY_LEN_MAX`].
const EXPANSION_MAX: usize = COPY_LEN_MAX / 3;

const COPY_LEN_MIN: usize = 3;
const COPY_LEN_MAX: usize = 2 + 7 + 255;
const DISTANCE_MAX: usize = 1 << 13;
const PLAIN_LEN_MAX: usize = 32;

/// Compressed bytes are this much shorter than what they stand for, or they are not used.
const GAIN_MIN: usize = 4;

const TABLE_BITS: u32 = 13;

/// Replaces `out` by the `len` bytes that were compressed; says whether they were. Takes memory for no more bytes than
/// `compressed` can hold. O(`len`).
#[must_use]
pub fn expand_into(out: &mut Vec<u8>, mut compressed: &[u8], len: usize) -> bool {
    out.clear();
    if len > compressed.len().saturating_mul(EXPANSION_MAX) {
        return false;
    }
    out.reserve(len);
    while let Some((&control, rest)) = compressed.split_first() {
        let made = if control < 32 { plain(out, control, rest) } else { copy(out, control, rest) };
        match made {
            Some(rest) if out.len() <= len => compressed = rest,
            _ => return false,
        }
    }
    out.len() == len
}

/// As [`expand_into`], in memory of its own.
pub fn expand(compressed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    expand_into(&mut out, compressed, len).then_some(out)
}

#[inline]
fn plain<'a>(out: &mut Vec<u8>, control: u8, rest: &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, rest) = rest.split_at_checked(usize::from(control) + 1)?;
    out.extend_from_slice(bytes);
    Some(rest)
}

#[inline]
fn copy<'a>(out: &mut Vec<u8>, control: u8, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    let mut len = usize::from(control >> 5) + 2;
    if control >> 5 == 7 {
        let (more, behind) = rest.split_first()?;
        len += usize::from(*more);
        rest = behind;
    }
    let (low, rest) = rest.split_first()?;
    let distance = (usize::from(control & 31) << 8 | usize::from(*low)) + 1;
    let start = out.len().checked_sub(distance)?;
    let mut missing = len;
    // A copy that overlaps what it makes repeats its first `distance` bytes.
    while missing > 0 {
        let step = missing.min(out.len() - start);
        out.extend_from_within(start..start + step);
        missing -= step;
    }
    Some(rest)
}

/// Compresses, one string after the other. Holds 32 KB.
pub struct Compressor {
    /// Where three bytes with a hash were seen last, plus `base`.
    places: Box<[u32]>,
    /// What was noted at this or below belongs to strings before.
    base: u32,
}

impl Default for Compressor {
    fn default() -> Self {
        Compressor { places: vec![0; 1 << TABLE_BITS].into(), base: 0 }
    }
}

impl Compressor {
    /// Appends the compressed form of `bytes` to `out` if it is shorter by at least 4 bytes, and says whether it is. Leaves `out` as
    /// it is otherwise. O(length).
    #[must_use]
    pub fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let (Some(len_max), Ok(len)) = (bytes.len().checked_sub(GAIN_MIN), u32::try_from(bytes.len())) else {
            return false;
        };
        if self.base.checked_add(len).is_none() {
            self.places.fill(0);
            self.base = 0;
        }
        let start = out.len();
        let fits = self.append(bytes, out, start + len_max);
        self.base += len;
        if !fits {
            out.truncate(start);
        }
        fits
    }

    fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>, end_max: usize) -> bool {
        let (mut at, mut plain_start) = (0, 0);
        while at + COPY_LEN_MIN <= bytes.len() {
            let Some(from) = self.seen(bytes, at) else {
                // The longer nothing repeats, the fewer places are looked at.
                at += 1 + ((at - plain_start) >> 6);
                continue;
            };
            let len = common_len(&bytes[from..], &bytes[at..]);
            push_plain(out, &bytes[plain_start..at]);
            push_copy(out, at - from, len);
            if out.len() > end_max {
                return false;
            }
            at += len;
            plain_start = at;
            if at + 2 <= bytes.len() && at + 1 < bytes.len() {
                self.note(bytes, at - 1);
            }
        }
        push_plain(out, &bytes[plain_start..]);
        out.len() <= end_max
    }

    /// Where the three bytes at `at` were seen before, near enough for a copy. Notes that they are here, too.
    #[inline]
    fn seen(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let noted = self.note(bytes, at);
        let from = noted.checked_sub(self.base + 1)? as usize;
        let is_near = at - from <= DISTANCE_MAX;
        (is_near && bytes[from..from + COPY_LEN_MIN] == bytes[at..at + COPY_LEN_MIN]).then_some(from)
    }

    #[inline]
    fn note(&mut self, bytes: &[u8], at: usize) -> u32 {
        let three = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], 0]);
        let slot = three.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS);
        std::mem::replace(&mut self.places[slot as usize], self.base + at as u32 + 1)
    }
}

fn common_len(from: &[u8], at: &[u8]) -> usize {
    let len_max = at.len().min(COPY_LEN_MAX);
    from[..len_max].iter().zip(&at[..len_max]).take_while(|(a, b)| a == b).count()
}

fn push_plain(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(PLAIN_LEN_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn push_copy(out: &mut Vec<u8>, distance: usize, len: usize) {
    let (len, distance) = (len - 2, distance - 1);
    if len < 7 {
        out.push((len << 5 | distance >> 8) as u8);
    } else {
        out.extend_from_slice(&[(7 << 5 | distance >> 8) as u8, (len - 7) as u8]);
    }
    out.push(distance as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn copies_may_overlap_what_they_make() {
        assert_eq!(expand(b"\x00a\x40\x00", 5).as_deref(), Some(&b"aaaaa"[..]));
        assert_eq!(expand(b"\x02abc\xe0\x01\x02", 13).as_deref(), Some(&b"abcabcabcabca"[..]));
        assert_eq!(expand(b"\x40\x00", 4), None);
        assert_eq!(expand(b"\x05a", 6), None);
    }

    #[test]
    fn a_length_that_cannot_be_takes_no_memory() {
        let mut out = Vec::new();
        assert!(!expand_into(&mut out, b"\x00a\xe0\xff\x00", usize::MAX));
        assert!(!expand_into(&mut out, b"\x00a\xe0\xff\x00", 5 * EXPANSION_MAX + 1));
        assert_eq!(out.capacity(), 0);
        assert_eq!(expand(b"\x00a\xe0\xff\x00", 265), Some(vec![b'a'; 265]));
    }

    #[test]
    fn what_does_not_gain_is_left_alone() {
        let mut out = b"before".to_vec();
        let mut compressor = Compressor::default();
        for bytes in [&b""[..], b"a", b"aaaa", b"abcdefghijklmnop"] {
            assert!(!compressor.compress(bytes, &mut out));
            assert_eq!(out, b"before");
        }
        assert!(compressor.compress(&[b'a'; 5000], &mut out));
        assert!(out.len() < 80);
        assert_eq!(expand(&out[6..], 5000), Some(vec![b'a'; 5000]));
    }

    #[test]
    fn strings_before_leave_nothing_behind() {
        let mut compressor = Compressor { base: u32::MAX - 1500, ..Compressor::default() };
        for round in 0..5u8 {
            let bytes: Vec<u8> = (0..1000u32).map(|index| (index % (7 + u32::from(round))) as u8).collect();
            let mut out = Vec::new();
            assert!(compressor.compress(&bytes, &mut out));
            assert_eq!(expand(&out, bytes.len()), Some(bytes));
        }
        assert!(compressor.base < 5000);
    }

    proptest! {
        #[test]
        fn what_is_compressed_expands_to_itself(
            words in prop::collection::vec((0..20u8, 1..40usize), 0..400),
            noise in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|&(word, len)| (0..len).map(move |at| word.wrapping_mul(at as u8))).collect();
            bytes.extend_from_slice(&noise);
            bytes.extend_from_within(..);
            let mut out = Vec::new();
            if Compressor::default().compress(&bytes, &mut out) {
                prop_assert!(out.len() + GAIN_MIN <= bytes.len());
                prop_assert_eq!(expand(&out, bytes.len()), Some(bytes));
            }
        }

        #[test]
        fn any_bytes_expand_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0..4000usize) {
            if let Some(out) = expand(&bytes, len) {
                prop_assert_eq!(out.len(), len);
            }
        }
    }
}

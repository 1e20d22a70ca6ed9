//! LZF: how RDB files compress strings.
//!
//! The format, as its author published it with liblzf: a byte below 32 is the number, less one, of plain bytes that
//! follow. Any other byte begins a copy of earlier bytes: its upper three bits are the length less two (7: the next
//! byte is added), its lower five bits and the last byte are the distance less one.

/// The most bytes that one compressed byte can become: three bytes make a copy of [`COPY_LEN_MAX`].
const EXPANSION_MAX: usize = COPY_LEN_MAX / 3;

const COPY_LEN_MIN: usize = 3;
const COPY_LEN_MAX: usize = 2 + 7 + 255;
const DISTANCE_MAX: usize = 1 << 13;
const PLAIN_LEN_MAX: usize = 32;

/// Compressed bytes are used only if they are this much shorter than the original.
const GAIN_MIN: usize = 4;

const TABLE_BITS: u32 = 13;
const TABLE_LEN: usize = 1 << TABLE_BITS;

/// Replaces `out` by the `len` bytes that were compressed; returns false if `compressed` is not valid. Allocates at
/// most what `compressed` can expand to. O(`len`).
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
    // A copy that overlaps its own output repeats its first `distance` bytes.
    while missing > 0 {
        let step = missing.min(out.len() - start);
        out.extend_from_within(start..start + step);
        missing -= step;
    }
    Some(rest)
}

/// Compresses one string after the other. Takes 32 KB of memory.
pub struct Compressor {
    /// For each hash, where three bytes with it were seen last, plus `base`.
    places: Box<[u32; TABLE_LEN]>,
    /// Places up to this value belong to earlier strings.
    base: u32,
}

impl Default for Compressor {
    fn default() -> Self {
        Compressor { places: Box::new([0; TABLE_LEN]), base: 0 }
    }
}

impl Compressor {
    /// Appends the compressed form of `bytes` to `out` if it is shorter by at least 4 bytes, and returns whether it is.
    /// Otherwise `out` stays as it is. O(length).
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
        out.resize(start + len_max + Sink::SLACK, 0);
        let mut sink = Sink { room: &mut out[start..], len: 0, len_max };
        let fits = self.append(bytes, &mut sink).is_some();
        let len_compressed = if fits { sink.len } else { 0 };
        out.truncate(start + len_compressed);
        self.base += len;
        fits
    }

    /// `None` if it becomes too long.
    fn append(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Option<()> {
        let (mut at, mut plain_start) = (0, 0);
        while let Some(three) = three_at(bytes, at) {
            let noted = self.note(three, at);
            // A place below the base wraps around to one that is too far away.
            let from = noted.wrapping_sub(self.base + 1) as usize;
            let is_near = at.wrapping_sub(from) <= DISTANCE_MAX && from < at;
            if !is_near || three_at(bytes, from) != Some(three) {
                // The longer no bytes repeat, the fewer places are tried.
                at += 1 + ((at - plain_start) >> 6);
                continue;
            }
            let len = COPY_LEN_MIN + common_len(&bytes[from + COPY_LEN_MIN..], &bytes[at + COPY_LEN_MIN..]);
            sink.push_plain(bytes, plain_start, at)?;
            sink.push_copy(at - from, len)?;
            at += len;
            plain_start = at;
            if let Some(three) = three_at(bytes, at - 1) {
                self.note(three, at - 1);
            }
        }
        sink.push_plain(bytes, plain_start, bytes.len())
    }

    /// Notes the place of three bytes, and returns their previous place.
    #[inline]
    fn note(&mut self, three: u32, at: usize) -> u32 {
        let slot = three.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS);
        std::mem::replace(&mut self.places[slot as usize], self.base + at as u32 + 1)
    }
}

/// The three bytes from `at` on, if a fourth follows.
#[inline(always)]
fn three_at(bytes: &[u8], at: usize) -> Option<u32> {
    let (four, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u32::from_le_bytes(*four) & 0xff_ffff)
}

/// How many bytes of both are equal, up to the most that a copy can have beyond its first three. Compares eight at a
/// time.
#[inline(always)]
fn common_len(from: &[u8], at: &[u8]) -> usize {
    let len_max = at.len().min(COPY_LEN_MAX - COPY_LEN_MIN);
    let mut len = 0;
    while len + 8 <= len_max
        && let (Some((a, _)), Some((b, _))) = (from[len..].split_first_chunk(), at[len..].split_first_chunk())
    {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return len + difference.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    while len < len_max && from[len] == at[len] {
        len += 1;
    }
    len
}

/// Where compressed bytes go.
struct Sink<'o> {
    /// Has [`Sink::SLACK`] bytes more than `len_max`.
    room: &'o mut [u8],
    len: usize,
    len_max: usize,
}

impl Sink<'_> {
    /// Bytes that may be written beyond the end of the output.
    const SLACK: usize = PLAIN_LEN_MAX + 8;

    /// Appends plain bytes, from `start` to `end`.
    #[inline(always)]
    fn push_plain(&mut self, bytes: &[u8], mut start: usize, end: usize) -> Option<()> {
        let plain_len = end - start;
        let len_after = self.len + plain_len + plain_len.div_ceil(PLAIN_LEN_MAX);
        if len_after > self.len_max {
            return None;
        }
        while start < end {
            let len = (end - start).min(PLAIN_LEN_MAX);
            self.room[self.len] = len as u8 - 1;
            let to = &mut self.room[self.len + 1..];
            // A copy of a fixed length takes a few instructions; bytes that it writes too many are overwritten.
            match bytes.get(start..start + PLAIN_LEN_MAX) {
                Some(from) => to[..PLAIN_LEN_MAX].copy_from_slice(from),
                None => to[..len].copy_from_slice(&bytes[start..start + len]),
            }
            self.len += 1 + len;
            start += len;
        }
        Some(())
    }

    #[inline(always)]
    fn push_copy(&mut self, distance: usize, len: usize) -> Option<()> {
        let (len, distance) = (len - 2, distance - 1);
        let to = &mut self.room[self.len..];
        if len < 7 {
            (to[0], to[1]) = ((len << 5 | distance >> 8) as u8, distance as u8);
            self.len += 2;
        } else {
            (to[0], to[1], to[2]) = ((7 << 5 | distance >> 8) as u8, (len - 7) as u8, distance as u8);
            self.len += 3;
        }
        (self.len <= self.len_max).then_some(())
    }
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

//! LZF: how Redis compresses strings in dumps. Only reading is needed.
//!
//! A byte below 32 says how many bytes less one follow as they are. Any other begins a copy of bytes before: its upper three
//! bits are the length less two (7: the next byte is added), its lower five and the last byte the distance less one.

/// The `len` bytes that were compressed; `None` if they were not.
pub(super) fn expand(mut compressed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    while let Some((&control, rest)) = compressed.split_first() {
        if control < 32 {
            let (plain, rest) = rest.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(plain);
            compressed = rest;
        } else {
            let mut rest = rest;
            let mut count = usize::from(control >> 5);
            if count == 7 {
                let (more, after) = rest.split_first()?;
                count += usize::from(*more);
                rest = after;
            }
            let (low, rest) = rest.split_first()?;
            let distance = usize::from(control & 31) << 8 | usize::from(*low);
            let start = out.len().checked_sub(distance + 1)?;
            for at in start..start + count + 2 {
                out.push(out[at]);
            }
            compressed = rest;
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_overlap_what_they_make() {
        assert_eq!(expand(b"\x00a\x40\x00", 5).as_deref(), Some(&b"aaaaa"[..]));
        assert_eq!(expand(b"\x02abc\xe0\x01\x02", 13).as_deref(), Some(&b"abcabcabcabca"[..]));
        assert_eq!(expand(b"\x40\x00", 4), None);
        assert_eq!(expand(b"\x05a", 6), None);
    }
}

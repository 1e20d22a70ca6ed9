//! What FUNCTION DUMP returns: for each library the opcode 245 and its text as a string of an RDB file; then the version of
//! the format in two bytes and the CRC-64 (Jones) of everything before in eight, the lowest byte first.

use std::sync::Arc;

use super::Library;
use super::lzf::expand;

const LIBRARY: u8 = 245;

/// The version of the format that is written: every server that has functions reads it.
const VERSION: u16 = 10;
/// The newest version that is read.
const VERSION_MAX: u16 = 12;

const FOOTER_LEN: usize = 2 + 8;

/// The payload for some libraries.
pub(crate) fn dump(libraries: &[Arc<Library>]) -> Vec<u8> {
    let mut payload = Vec::new();
    for library in libraries {
        payload.push(LIBRARY);
        push_len(&mut payload, library.text.len());
        payload.extend_from_slice(&library.text);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let check = crc64(&payload);
    payload.extend_from_slice(&check.to_le_bytes());
    payload
}

/// Why a payload is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Its version is too new, or it has been changed.
    Footer,
    /// There is something else than a library in it.
    Content,
}

/// The texts of the libraries in a payload.
pub(crate) fn restore(payload: &[u8]) -> Result<Vec<Vec<u8>>, Bad> {
    let (rest, footer) = payload.split_at_checked(payload.len().wrapping_sub(FOOTER_LEN)).ok_or(Bad::Footer)?;
    let (version, check) = footer.split_at(2);
    let checked = &payload[..payload.len() - check.len()];
    let is_known = u16::from_le_bytes([version[0], version[1]]) <= VERSION_MAX;
    if !is_known || check != crc64(checked).to_le_bytes() {
        return Err(Bad::Footer);
    }
    let mut reader = Reader(rest);
    let mut texts = Vec::new();
    while !reader.0.is_empty() {
        texts.push(reader.library().ok_or(Bad::Content)?);
    }
    Ok(texts)
}

/// Lengths below 64, below 16,384, and others.
fn push_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..64 => out.push(len as u8),
        64..0x4000 => out.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self, len: usize) -> Option<usize> {
        let bytes = self.take(len)?;
        usize::try_from(bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))).ok()
    }

    fn len(&mut self) -> Option<usize> {
        let first = self.byte()?;
        match first >> 6 {
            0 => Some(usize::from(first)),
            1 => Some(usize::from(first & 0x3f) << 8 | usize::from(self.byte()?)),
            _ if first == 0x80 => self.number(4),
            _ if first == 0x81 => self.number(8),
            _ => None,
        }
    }

    fn library(&mut self) -> Option<Vec<u8>> {
        const COMPRESSED: u8 = 0xc3;
        if self.byte()? != LIBRARY {
            return None;
        }
        if self.0.first() == Some(&COMPRESSED) {
            self.byte()?;
            let (compressed_len, len) = (self.len()?, self.len()?);
            return expand(self.take(compressed_len)?, len);
        }
        let len = self.len()?;
        self.take(len).map(<[u8]>::to_vec)
    }
}

/// CRC-64 with the polynomial of David Jones, bits reversed. O(length).
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL_REVERSED: u64 = 0x95ac_9329_ac4b_c9b5;
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < table.len() {
            let mut value = index as u64;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL_REVERSED } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    bytes.iter().fold(0, |check, byte| TABLE[usize::from(check as u8 ^ byte)] ^ check >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_that_of_jones() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_dumped_is_restored() {
        let texts = [vec![b'x'; 10], vec![b'y'; 300], vec![b'z'; 70_000]];
        let library = |text: &Vec<u8>| Arc::new(Library::new(1, Vec::new(), text.clone(), Vec::new()));
        let payload = dump(&texts.each_ref().map(library));
        assert_eq!(restore(&payload), Ok(texts.to_vec()));
        for at in [0, 5, payload.len() - 1] {
            let mut changed = payload.clone();
            changed[at] ^= 1;
            assert_eq!(restore(&changed), Err(Bad::Footer));
        }
        assert_eq!(restore(b"x"), Err(Bad::Footer));
        assert_eq!(dump(&[]), b"\n\0]\x9b\\@\x0f\x7f\xa2\xda");
    }

    #[test]
    fn any_content_is_read_without_harm() {
        for content in [
            &b"\xf5"[..],
            b"\xf5\x05abc",
            b"\xf5\xc3\x02\x05\x40\x00",
            b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xf4\x01a",
        ] {
            let mut payload = content.to_vec();
            payload.extend_from_slice(&VERSION.to_le_bytes());
            let check = crc64(&payload);
            payload.extend_from_slice(&check.to_le_bytes());
            assert_eq!(restore(&payload), Err(Bad::Content));
        }
    }
}

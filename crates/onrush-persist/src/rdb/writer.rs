//! Writing files, and the footer of DUMP's payloads.

use std::io::{self, Write};

use super::{VERSION_MAX, crc64, kind};

/// Writes a file: the header, encoded items, the end.
#[derive(Debug)]
pub struct FileWriter<W> {
    output: W,
    /// `None`: no checksum.
    sum: Option<u64>,
    len: u64,
}

impl<W: Write> FileWriter<W> {
    /// Writes the header. The version must be that of [`Encoder::version`](super::Encoder::version) for everything that
    /// the file will hold.
    ///
    /// # Errors
    /// The output fails, as for the other functions.
    pub fn new(output: W, version: u16, with_checksum: bool) -> io::Result<Self> {
        let mut writer = FileWriter { output, sum: with_checksum.then_some(0), len: 0 };
        writer.write(format!("REDIS{version:04}").as_bytes())?;
        Ok(writer)
    }

    /// Writes whole items. O(bytes).
    pub fn write(&mut self, items: &[u8]) -> io::Result<()> {
        if let Some(sum) = &mut self.sum {
            *sum = crc64::update(*sum, items);
        }
        self.len += items.len() as u64;
        self.output.write_all(items)
    }

    /// Bytes so far.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Writes the end and returns the output, which is neither flushed nor synced.
    pub fn finish(mut self) -> io::Result<W> {
        self.write(&[kind::END])?;
        self.output.write_all(&self.sum.unwrap_or(0).to_le_bytes())?;
        Ok(self.output)
    }
}

const FOOTER_LEN: usize = 2 + 8;

/// Appends the footer of a payload (DUMP, FUNCTION DUMP): the version in two bytes and the CRC-64 of all before in eight, the
/// lowest byte first. O(bytes).
pub fn seal_payload(payload: &mut Vec<u8>, version: u16) {
    payload.extend_from_slice(&version.to_le_bytes());
    let sum = crc64::crc64(payload);
    payload.extend_from_slice(&sum.to_le_bytes());
}

/// The payload without its footer; `None` if the version is unknown or the checksum is wrong. O(bytes).
pub fn open_payload(payload: &[u8]) -> Option<&[u8]> {
    let (body, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER_LEN)?)?;
    let (version, sum) = footer.split_first_chunk()?;
    let is_known = u16::from_le_bytes(*version) <= VERSION_MAX;
    (is_known && sum == crc64::crc64(&payload[..body.len() + 2]).to_le_bytes()).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_payload_opens_unless_it_is_changed() {
        let mut payload = b"\x00\x03abc".to_vec();
        seal_payload(&mut payload, 10);
        assert_eq!(open_payload(&payload), Some(&b"\x00\x03abc"[..]));
        for at in 0..payload.len() {
            assert_eq!(open_payload(&payload[..at]), None);
            let mut changed = payload.clone();
            changed[at] ^= 4;
            assert_eq!(open_payload(&changed), None);
        }
        let mut newer = b"\x00\x03abc".to_vec();
        seal_payload(&mut newer, VERSION_MAX + 1);
        assert_eq!(open_payload(&newer), None);
    }
}

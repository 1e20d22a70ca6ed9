//! Append-only files and their manifests.

use onrush_persist::aof::{AofError, Chunk, CommandReader, Manifest};

/// Any bytes as a file of commands: what is whole is the same however much comes at a time, and a file cut where it is whole is read to its end.
/// As a manifest: what is accepted is written and read again.
pub fn aof(data: &[u8]) {
    let (whole, valid_len, is_complete) = read(data, data.len().max(1));
    for step in [1, 7] {
        assert_eq!(read(data, step), (whole.clone(), valid_len, is_complete));
    }
    assert_eq!(read(&data[..valid_len], data.len().max(1)), (whole, valid_len, true));
    if let Ok(manifest) = Manifest::parse(data) {
        assert_eq!(Manifest::parse(manifest.text().as_bytes()).expect("what is written is read"), manifest);
    }
}

/// A source that gives few bytes at a time.
struct Slow(Vec<u8>, usize, usize);

impl std::io::Read for Slow {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.0[self.1..];
        let len = rest.len().min(buf.len()).min(self.2);
        buf[..len].copy_from_slice(&rest[..len]);
        self.1 += len;
        Ok(len)
    }
}

/// The commands, up to where the file is whole, and whether that is its end.
fn read(data: &[u8], step: usize) -> (Vec<u8>, usize, bool) {
    let mut reader = CommandReader::new(Box::new(Slow(data.to_vec(), 0, step)), Vec::new(), 0, "f".into(), true);
    let (mut chunk, mut whole) = (Chunk::default(), Vec::new());
    loop {
        match reader.next_chunk(&mut chunk) {
            Ok(true) => whole.extend_from_slice(chunk.bytes()),
            Ok(false) => return (whole, data.len(), true),
            Err(AofError::Truncated { valid_len, len, .. }) => {
                assert_eq!(len, data.len() as u64);
                return (whole, valid_len as usize, false);
            }
            Err(AofError::Corrupt { valid_len, at, .. }) => {
                assert!((valid_len..data.len() as u64).contains(&at));
                return (whole, valid_len as usize, false);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

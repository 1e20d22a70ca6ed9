//! Errors of files and payloads.

use std::fmt;
use std::io;

/// Why a file or a value cannot be read. Offsets count from the start of the file, or of the payload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdbError {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It does not begin as an RDB file does.
    #[error("the file does not begin as an RDB file does")]
    Signature,
    /// Its version is unknown.
    #[error("RDB version {0} is not known (versions 1 to {max} are)", max = super::VERSION_MAX)]
    Version(u32),
    /// It ends too early.
    #[error("the data ends in the middle, at byte {at}")]
    Truncated {
        /// Where bytes are missing.
        at: u64,
    },
    /// It has something invalid.
    #[error("{what}, at byte {at}")]
    Malformed {
        /// Its place, or the beginning of the string that contains it.
        at: u64,
        /// What it is.
        what: &'static str,
    },
    /// A collection has no elements. Some versions of Redis have written such keys by mistake; Redis skips them when it
    /// loads a file.
    #[error("a collection without elements, at byte {at}")]
    Empty {
        /// Where the value begins.
        at: u64,
    },
    /// A value belongs to a module.
    #[error("a value of the module type {id}, version {}, at byte {at}: modules are not supported", .id.version())]
    Module {
        /// Where the value begins.
        at: u64,
        /// The module and the version of its data, as in the file.
        id: ModuleId,
    },
    /// The checksum is wrong: the file's bytes have changed.
    #[error("the checksum is wrong: the file says {stored:016x}, its bytes have {computed:016x}")]
    Checksum {
        /// The sum at the end of the file.
        stored: u64,
        /// The sum of its bytes.
        computed: u64,
    },
}

/// A module's data type and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleId(pub u64);

impl ModuleId {
    /// The version of the data.
    pub fn version(self) -> u32 {
        (self.0 & 0x3ff) as u32
    }
}

/// The name of the type: nine characters.
impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for index in 0..9 {
            let letter = LETTERS[(self.0 >> (58 - 6 * index) & 63) as usize];
            write!(f, "{}", letter as char)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_as_its_author_named_it() {
        // "ReJSON-RL" with version 3.
        let letters = [17u64, 30, 9, 18, 14, 13, 62, 17, 11];
        let id = letters.iter().fold(0, |id, letter| id << 6 | letter) << 10 | 3;
        let text = RdbError::Module { at: 7, id: ModuleId(id) }.to_string();
        assert_eq!(text, "a value of the module type ReJSON-RL, version 3, at byte 7: modules are not supported");
    }
}

//! Shows the progress of a long check on standard error.

use std::io::Write;

/// Shorter files are done too soon to show progress.
const LEN_MIN: u64 = 256 << 20;

/// Reports each tenth of a file.
pub struct Progress {
    name: String,
    len: u64,
    tenths: u64,
}

impl Progress {
    /// For a file of `len` bytes.
    pub fn new(name: &str, len: u64) -> Self {
        Progress { name: name.to_owned(), len, tenths: 0 }
    }

    /// Notes that `offset` bytes have been checked.
    pub fn at(&mut self, offset: u64) {
        let tenths = offset.saturating_mul(10) / self.len.max(1);
        if self.len >= LEN_MIN && tenths > self.tenths {
            self.tenths = tenths;
            let _ = writeln!(std::io::stderr(), "{}: {}0 %", self.name, tenths);
        }
    }
}

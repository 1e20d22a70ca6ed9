//! Standard output and standard error. It is no error if the reader of either is gone: measuring goes on for the files.

use std::io::Write;

/// Shows a text at once on standard output.
pub fn show(text: &str) {
    let mut out = std::io::stdout();
    _ = out.write_all(text.as_bytes());
    _ = out.flush();
}

/// Shows a line on standard error.
pub fn complain(line: &str) {
    _ = writeln!(std::io::stderr(), "{line}");
}

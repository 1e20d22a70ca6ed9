//! `--askpass`: a password typed at the terminal, unseen.

use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;

use nix::sys::termios::{self, LocalFlags, SetArg};

use crate::fail::{Fail, system_message};

/// Asks and reads a line without echo; from anything but a terminal just the line.
///
/// # Errors
/// When standard input cannot be read.
pub fn read() -> Result<Vec<u8>, Fail> {
    let stdin = io::stdin();
    let before = termios::tcgetattr(stdin.as_fd()).ok();
    if let Some(mut hidden) = before.clone() {
        hidden.local_flags.remove(LocalFlags::ECHO);
        let _ = termios::tcsetattr(stdin.as_fd(), SetArg::TCSAFLUSH, &hidden);
        let _ = io::stderr().write_all(b"Please input password: ");
    }
    let mut line = Vec::new();
    let read = stdin.lock().read_until(b'\n', &mut line);
    if let Some(before) = before {
        let _ = termios::tcsetattr(stdin.as_fd(), SetArg::TCSAFLUSH, &before);
        let _ = io::stderr().write_all(b"\n");
    }
    read.map_err(|error| Fail::new(format!("Reading the password: {}", system_message(&error))))?;
    Ok(line.trim_ascii_end().to_vec())
}

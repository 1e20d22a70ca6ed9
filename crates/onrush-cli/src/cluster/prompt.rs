//! Questions to the user. Without an answer, at the end of standard input, the command fails instead of asking again.

use std::io::BufRead;

use super::log;
use crate::fail::{Fail, system_message};

/// The longest answer, in bytes.
const ANSWER_LEN_MAX: u64 = 64 << 10;

/// Asks and returns one line.
///
/// # Errors
/// When standard input is at its end.
pub fn line(question: &str) -> Result<String, Fail> {
    log::plain(question);
    let mut answer = Vec::new();
    let mut input = std::io::Read::take(std::io::stdin().lock(), ANSWER_LEN_MAX);
    let read = input.read_until(b'\n', &mut answer);
    read.map_err(|error| Fail::new(format!("Reading from standard input: {}", system_message(&error))))?;
    if answer.is_empty() {
        log::plain("\n");
        return Err(Fail::new("No answer: standard input is at its end."));
    }
    Ok(String::from_utf8_lossy(&answer).trim().to_owned())
}

/// Asks whether to go on; only "yes" is yes. With `is_sure` nothing is asked.
///
/// # Errors
/// When standard input is at its end.
pub fn confirm(question: &str, is_sure: bool) -> Result<bool, Fail> {
    Ok(is_sure || line(&format!("{question} (type 'yes' to accept): "))? == "yes")
}

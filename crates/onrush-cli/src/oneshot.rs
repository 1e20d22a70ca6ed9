//! Commands from the command line, with arguments from standard input if asked for, and scripts from files.

use std::io::Read;
use std::path::Path;

use crate::args::Options;
use crate::fail::{Fail, system_message};
use crate::session::{Session, print};

/// Runs the command of the command line.
///
/// # Errors
/// When it could not be sent, its reply did not come, or `-e` turns its error into one.
pub fn run(options: Options) -> Result<(), Fail> {
    let mut words = options.words.clone();
    if options.stdin_last {
        words.push(standard_input()?);
    } else if let Some(tag) = &options.stdin_tag {
        let Some(word) = words.iter_mut().find(|word| *word == tag) else {
            return Err(Fail::new("Using -X option but stdin tag not match."));
        };
        *word = standard_input()?;
    }
    if options.quoted_input {
        let unquoted: Option<Vec<_>> = words.iter().map(|word| onrush_resp::unquoted(word)).collect();
        let Some(unquoted) = unquoted else {
            print(b"Invalid quoted string\n");
            return Err(Fail::silent());
        };
        words = unquoted;
    }
    send(options, &words)
}

/// Runs a script: `file key … , argument …`.
///
/// # Errors
/// When the file cannot be read, and those of [`run`].
pub fn eval(options: Options, file: &Path) -> Result<(), Fail> {
    let words = script(&options, file)?;
    send(options, &words)
}

/// The command that runs a script with the keys and arguments of the command line.
///
/// # Errors
/// When the file cannot be read.
pub fn script(options: &Options, file: &Path) -> Result<Vec<Vec<u8>>, Fail> {
    let script = std::fs::read(file)
        .map_err(|error| Fail::new(format!("Can't open file '{}': {}", file.display(), system_message(&error))))?;
    let comma = options.words.iter().position(|word| word == b",");
    let keys = &options.words[..comma.unwrap_or(options.words.len())];
    let args = &options.words[comma.map_or(options.words.len(), |at| at + 1)..];
    let mut words = vec![b"EVAL".to_vec(), script, keys.len().to_string().into_bytes()];
    words.extend_from_slice(keys);
    words.extend_from_slice(args);
    Ok(words)
}

fn send(options: Options, words: &[Vec<u8>]) -> Result<(), Fail> {
    let repeat = options.repeat;
    if repeat == 0 {
        return Ok(());
    }
    // Why it stopped has been shown.
    Session::new(options).run(words, repeat).map_err(|_| Fail::silent())
}

fn standard_input() -> Result<Vec<u8>, Fail> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Fail::new(format!("Reading from standard input: {}", system_message(&error))))?;
    Ok(bytes)
}

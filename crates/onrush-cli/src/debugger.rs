//! The debugger of Lua scripts (`--ldb`), as far as the server has one: SCRIPT DEBUG.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use crate::args::Options;
use crate::connection::{Connection, ReadError};
use crate::fail::Fail;
use crate::format;
use crate::oneshot;
use crate::reply::Reply;
use crate::session::print;

/// The line by which the server tells that the script has ended.
const END: &[u8] = b"<endsession>";

/// Runs a script step by step: shows what the server tells of it, and passes on lines of standard input as the
/// debugger's commands. The end of the input, `quit` and `exit` leave it, and the server gives the script up.
///
/// # Errors
/// The server has no debugger, the file cannot be read, or the connection is lost.
pub fn run(options: &Options, file: &Path, in_place: bool) -> Result<(), Fail> {
    let script = oneshot::script(options, file)?;
    let mut connection = Connection::open_logged_in(&options.target)?;
    let mode = if in_place { "SYNC" } else { "YES" };
    if let Some(error) = connection.call(&["SCRIPT", "DEBUG", mode])?.error() {
        return Err(Fail::new(format!("The server has no debugger of scripts: {error}\nRun it without --ldb.")));
    }
    let what = if in_place { "blocks the server, and its writes stay" } else { "works on a copy of the data" };
    complain!("The debugger {what}; 'help' lists its commands, 'quit' leaves it.");
    connection.send(&script)?;
    loop {
        let reply = connection.read_reply()?;
        let lines = reply.items().unwrap_or(std::slice::from_ref(&reply));
        for line in lines.iter().filter(|line| line.bytes() != Some(END)) {
            show(line);
        }
        if lines.iter().any(|line| line.bytes() == Some(END)) {
            return finish(connection, options);
        }
        let Some(words) = next_command() else { return Ok(()) };
        connection.send(&words)?;
    }
}

fn show(line: &Reply) {
    let text = line.error().map_or_else(|| line.text(), |error| format!("(error) {error}"));
    print(format!("{text}\n"));
}

/// The script's own reply; there is none if the debugger gave it up.
fn finish(mut connection: Connection, options: &Options) -> Result<(), Fail> {
    match connection.read_reply() {
        Ok(reply) => print(format::reply(&reply, options, false)),
        Err(ReadError::Closed(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The words of the next line that has any; `None` when the user leaves.
fn next_command() -> Option<Vec<Vec<u8>>> {
    let mut input = std::io::stdin().lock();
    loop {
        if std::io::stdin().is_terminal() {
            print(b"lua debugger> ");
        }
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            return None;
        }
        match onrush_resp::split_words(&line) {
            None => complain!("Invalid argument(s)"),
            Some(words) if words.is_empty() => {}
            Some(words) if matches!(words[0].to_ascii_lowercase().as_slice(), b"quit" | b"exit") => return None,
            Some(words) => return Some(words),
        }
    }
}

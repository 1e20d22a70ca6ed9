//! `--askpass`: a password typed at the terminal, shown as stars.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, Config, Editor, Helper};

use crate::fail::{Fail, system_message};

/// Asks at the terminal, whatever standard output is; without a terminal, takes the first line of standard input. The
/// password is the whole line, blanks included. The terminal is restored, even after Ctrl-C.
///
/// # Errors
/// When nothing can be read, or the user gives up.
pub fn read() -> Result<Vec<u8>, Fail> {
    if !io::stdin().is_terminal() {
        return first_line(io::stdin().lock());
    }
    let failed = |error: ReadlineError| match error {
        ReadlineError::Eof | ReadlineError::Interrupted => Fail::silent(),
        error => Fail::new(format!("Reading the password: {error}")),
    };
    let config = Config::builder().behavior(Behavior::PreferTerm).auto_add_history(false).build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).map_err(failed)?;
    editor.set_helper(Some(Mask));
    editor.readline("Please input password: ").map(String::into_bytes).map_err(failed)
}

fn first_line(mut input: impl BufRead) -> Result<Vec<u8>, Fail> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line);
    read.map_err(|error| Fail::new(format!("Reading the password: {}", system_message(&error))))?;
    if line.ends_with(b"\n") {
        line.pop();
    }
    Ok(line)
}

/// Shows a star for each character.
struct Mask;

impl Highlighter for Mask {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned("*".repeat(line.chars().count()))
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

impl Completer for Mask {
    type Candidate = String;
}

impl Hinter for Mask {
    type Hint = String;
}

impl Validator for Mask {}
impl Helper for Mask {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_keeps_its_blanks() {
        let read = |bytes: &[u8]| first_line(bytes).ok();
        assert_eq!(read(b" a b \t\nnext"), Some(b" a b \t".to_vec()));
        assert_eq!(read(b"\xff\r\n"), Some(b"\xff\r".to_vec()));
        assert_eq!(read(b""), Some(Vec::new()));
    }
}

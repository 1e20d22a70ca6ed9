//! Commands line by line: from a terminal with history, completion and hints, or from any other standard input.

mod batch;
mod helper;
mod history;
mod terminal;

use std::io::{BufRead, IsTerminal};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use onrush_resp::split_words;

use self::batch::Batch;
use crate::args::Options;
use crate::fail::{Fail, system_message};
use crate::format::Output;
use crate::session::{Session, Stop, print};

/// A command that took at least this long shows its time.
const SLOW: Duration = Duration::from_millis(500);

/// The state between lines.
pub struct Repl {
    session: Session,
    hints: bool,
    batch: Option<Batch>,
}

/// Reads and runs commands up to the end of standard input.
///
/// # Errors
/// When standard input cannot be read.
pub fn run(options: Options) -> Result<(), Fail> {
    let repl = Repl { session: Session::new(options), hints: true, batch: None };
    if std::io::stdin().is_terminal() { terminal::run(repl) } else { repl.run_lines() }
}

impl Repl {
    fn connect(&mut self) {
        if let Err(error) = self.session.connect() {
            complain!("{error}");
        }
    }

    fn run_lines(mut self) -> Result<(), Fail> {
        self.session.make_interactive(None);
        self.connect();
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read.map_err(|error| Fail::new(format!("Reading from standard input: {}", system_message(&error))))? == 0
            {
                return Ok(());
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            if self.line(text).is_break() {
                return Ok(());
            }
        }
    }

    /// Runs one line, which may be the last.
    fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        let Some(words) = split_words(line) else {
            print(b"Invalid argument(s)\n");
            return ControlFlow::Continue(());
        };
        let Some(first) = words.first().map(|word| word.to_ascii_lowercase()) else {
            return ControlFlow::Continue(());
        };
        match (first.as_slice(), words.len()) {
            (b"quit" | b"exit", _) => return ControlFlow::Break(()),
            ([b':', ..], _) => self.preference(&words, ""),
            (b"restart", _) => print(b"Use 'restart' only in Lua debugging mode.\n"),
            (b"connect", 3) => {
                self.session.options.target.host = String::from_utf8_lossy(&words[1]).into_owned();
                self.session.options.target.socket = None;
                match u16::try_from(crate::args::leading_number(&words[2])) {
                    Ok(port) => {
                        self.session.options.target.port = port;
                        self.connect();
                    }
                    Err(_) => complain!("Invalid server port."),
                }
            }
            (b"clear", 1) => print(b"\x1b[H\x1b[2J"),
            (b"pipeline", 1) if self.batch.is_none() => self.batch = Some(Batch::default()),
            (b"run", 1) if self.batch.is_some() => self.run_batch(),
            (b"drop", 1) if self.batch.is_some() => self.batch = None,
            _ => self.command(words),
        }
        ControlFlow::Continue(())
    }

    fn command(&mut self, words: Vec<Vec<u8>>) {
        let Some((repeat, skip)) = repetition(&words) else {
            print(b"Invalid redis-cli repeat command option value.\n");
            return;
        };
        let words = &words[skip..];
        if let Some(batch) = &mut self.batch {
            batch.add(words, repeat);
            return;
        }
        let started = Instant::now();
        let done = self.session.run(words, repeat);
        self.after(done, started.elapsed());
    }

    fn run_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let started = Instant::now();
        let done = batch.run(&mut self.session);
        self.after(done, started.elapsed());
    }

    fn after(&mut self, done: Result<(), Stop>, took: Duration) {
        if matches!(done, Err(Stop::Cancelled)) {
            print(b"^C Cancelled; connecting anew.\n");
            self.connect();
        } else if took >= SLOW && self.session.options.output == Output::Standard {
            print(format!("({:.2}s)\n", took.as_secs_f64()));
        }
    }

    /// `:set hints` and the like; `place` goes before complaints.
    fn preference(&mut self, words: &[Vec<u8>], place: &str) {
        let lower: Vec<_> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let lower: Vec<&[u8]> = lower.iter().map(Vec::as_slice).collect();
        match lower.as_slice() {
            [b":set", b"hints"] => self.hints = true,
            [b":set", b"nohints"] => self.hints = false,
            [b":set", ..] => {
                let name = words.get(1).map_or_else(String::new, |word| String::from_utf8_lossy(word).into_owned());
                print(format!("{place}unknown redis-cli preference '{name}'\n"));
            }
            _ => {
                let name = String::from_utf8_lossy(&words[0]);
                print(format!("{place}unknown redis-cli internal command '{name}'\n"));
            }
        }
    }

    /// `host:port[db](TX)(subscribed mode)> `.
    fn prompt(&self) -> String {
        if let Some(batch) = &self.batch {
            return format!("pipeline({})> ", batch.len());
        }
        let session = &self.session;
        if session.connection.is_none() {
            return "not connected> ".to_owned();
        }
        let mut prompt = match &session.options.target.socket {
            Some(path) => format!("redis {}", path.display()),
            None => session.options.target.to_string(),
        };
        if session.db != 0 {
            prompt += &format!("[{}]", session.db);
        }
        if session.in_multi {
            prompt += "(TX)";
        }
        if session.subscribed {
            prompt += "(subscribed mode)";
        }
        prompt + "> "
    }
}

/// How often a command is to run, and how many words say so; `None` for a count that makes no sense.
fn repetition(words: &[Vec<u8>]) -> Option<(i64, usize)> {
    let text = std::str::from_utf8(&words[0]).unwrap_or_default();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if words.len() == 1 || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some((1, 0));
    }
    text.parse().ok().filter(|&count: &i64| count > 0).map(|count| (count, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_a_command_repeats_it() {
        let words = |line: &str| split_words(line.as_bytes()).unwrap();
        assert_eq!(repetition(&words("5 incr x")), Some((5, 1)));
        assert_eq!(repetition(&words("incr x")), Some((1, 0)));
        assert_eq!(repetition(&words("5")), Some((1, 0)));
        assert_eq!(repetition(&words("0 get a")), None);
        assert_eq!(repetition(&words("-1 get a")), None);
        assert_eq!(repetition(&words("99999999999999999999 get a")), None);
        assert_eq!(repetition(&words("5x get a")), Some((1, 0)));
    }
}

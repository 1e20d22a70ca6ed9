//! `pipeline` blocks: lines gathered, sent in one go, each reply shown with its time.

use std::sync::Arc;
use std::time::Duration;

use onrush_resp::quoted;

use crate::connection::encode;
use crate::format;
use crate::session::{Session, Stop, print};

/// The longest command that is shown whole above its reply.
const SHOWN_LEN_MAX: usize = 60;

/// Commands waiting for `run`.
#[derive(Default)]
pub struct Batch {
    commands: Vec<Repeated>,
}

/// A command, kept once however often it is sent.
struct Repeated {
    words: Vec<Vec<u8>>,
    times: u64,
}

/// Returns the place of the next command; a repeated command's place comes as often as it is repeated.
struct Turns {
    commands: Arc<Vec<Repeated>>,
    at: usize,
    done: u64,
}

impl Turns {
    fn new(commands: Arc<Vec<Repeated>>) -> Turns {
        Turns { commands, at: 0, done: 0 }
    }
}

impl Iterator for Turns {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.done == self.commands.get(self.at)?.times {
            (self.at, self.done) = (self.at + 1, 0);
        }
        self.done += 1;
        Some(self.at)
    }
}

impl Batch {
    /// How many commands wait.
    pub fn len(&self) -> u64 {
        self.commands.iter().fold(0, |sum, command| sum.saturating_add(command.times))
    }

    /// Adds a command, `repeat` times. Commands that change what comes back are refused with the reason.
    pub fn add(&mut self, words: &[Vec<u8>], repeat: i64) {
        const UNFIT: [&[u8]; 10] = [
            b"subscribe",
            b"psubscribe",
            b"ssubscribe",
            b"monitor",
            b"sync",
            b"psync",
            b"shutdown",
            b"hello",
            b"select",
            b"reset",
        ];
        let name = words[0].to_ascii_lowercase();
        if UNFIT.contains(&name.as_slice()) {
            let name = String::from_utf8_lossy(&name).to_uppercase();
            print(format!("{name} is not allowed in a pipeline block; run it alone.\n"));
            return;
        }
        self.commands.push(Repeated { words: words.to_vec(), times: repeat.unsigned_abs() });
    }

    /// Sends all and shows the replies as they come. Nothing is kept of what has been sent and shown.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn run(self, session: &mut Session) -> Result<(), Stop> {
        session.reconnect_if_dead()?;
        let count = self.len();
        let commands = Arc::new(self.commands);
        let mut to_send = Turns::new(commands.clone());
        let source = {
            let commands = commands.clone();
            move |out: &mut Vec<u8>| to_send.next().map(|at| encode(out, &commands[at].words)).is_some()
        };
        let Some(connection) = &mut session.connection else { return Err(Stop::Disconnected) };
        let (mut last, mut failed, mut noted) = (Duration::ZERO, 0_u64, Vec::new());
        let (mut turns, options) = (Turns::new(commands.clone()), &session.options);
        let done = connection.batch(source, count, |index, reply, time| {
            let Some(at) = turns.next() else { return };
            let words = &commands[at].words;
            last = time;
            failed += u64::from(reply.error().is_some());
            print(format!("[{}] {:.3} ms  {}\n", index + 1, time.as_secs_f64() * 1e3, shown(words)));
            print(format::reply(&reply, options, false));
            let name = words[0].to_ascii_lowercase();
            if matches!(name.as_slice(), b"multi" | b"exec" | b"discard" | b"auth") {
                // Only the last reply of a repeated command decides the session's state.
                noted.pop_if(|(_, before, _)| *before == at);
                noted.push((name, at, reply));
            }
        });
        done.map_err(|error| session.lost(error))?;
        for (name, at, reply) in noted {
            session.remember(&name, &commands[at].words, &reply);
        }
        print(format!("{count} replies in {:.3} ms, {failed} errors\n", last.as_secs_f64() * 1e3));
        Ok(())
    }
}

/// A command on one line, shortened.
fn shown(words: &[Vec<u8>]) -> String {
    let plain =
        |word: &[u8]| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'".contains(byte));
    let parts = words.iter().map(|word| if plain(word) { word.clone() } else { quoted(word).into_bytes() });
    let line = String::from_utf8_lossy(&parts.collect::<Vec<_>>().join(&b' ')).into_owned();
    match line.char_indices().nth(SHOWN_LEN_MAX) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_so_that_it_can_be_typed_again() {
        assert_eq!(
            shown(&[b"SET".to_vec(), b"a b".to_vec(), b"\x00".to_vec(), b"".to_vec()]),
            r#"SET "a b" "\x00" """#
        );
        assert!(shown(&[vec![b'x'; 100]]).ends_with('…'));
    }

    #[test]
    fn a_batch_refuses_what_changes_the_connection() {
        let mut batch = Batch::default();
        batch.add(&[b"MONITOR".to_vec()], 1);
        batch.add(&[b"INCR".to_vec(), b"x".to_vec()], 3);
        assert_eq!(batch.len(), 3);
    }

    #[test]
    fn a_command_repeated_is_kept_once() {
        let mut batch = Batch::default();
        batch.add(&[b"PING".to_vec()], i64::MAX);
        batch.add(&[b"ECHO".to_vec(), b"a".to_vec()], 2);
        batch.add(&[b"PING".to_vec()], 1);
        assert_eq!((batch.commands.len(), batch.len()), (3, i64::MAX.unsigned_abs() + 3));
        batch.commands.remove(0);
        assert_eq!(Turns::new(Arc::new(batch.commands)).collect::<Vec<_>>(), [0, 0, 1]);
    }
}

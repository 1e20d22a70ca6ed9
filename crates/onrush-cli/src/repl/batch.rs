//! `pipeline` blocks: lines gathered, sent in one go, each reply shown with its time.

use std::fmt::Write;
use std::time::Duration;

use crate::connection::encode;
use crate::format;
use crate::quote::quoted;
use crate::session::{Session, Stop, print};

/// The longest command that is shown whole above its reply.
const SHOWN_LEN_MAX: usize = 60;

/// Commands waiting for `run`.
#[derive(Default)]
pub struct Batch {
    commands: Vec<Vec<Vec<u8>>>,
}

impl Batch {
    /// How many commands wait.
    pub fn len(&self) -> usize {
        self.commands.len()
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
            print(format!("{name} cannot stand in a pipeline block; run it alone.\n").as_bytes());
            return;
        }
        for _ in 0..repeat {
            self.commands.push(words.to_vec());
        }
    }

    /// Sends all and shows the replies as they come.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn run(self, session: &mut Session) -> Result<(), Stop> {
        session.reconnect_if_dead()?;
        let mut bytes = Vec::new();
        self.commands.iter().for_each(|command| encode(&mut bytes, command));
        let Some(connection) = &mut session.connection else { return Err(Stop::Disconnected) };
        let (mut last, mut failed, mut noted) = (Duration::ZERO, 0, Vec::new());
        let options = &session.options;
        let done = connection.batch(bytes, self.commands.len(), |index, reply, time| {
            last = time;
            failed += usize::from(reply.error().is_some());
            let mut head = format!("[{}] {:.3} ms  ", index + 1, time.as_secs_f64() * 1e3);
            let _ = write!(head, "{}", shown(&self.commands[index]));
            print(head.as_bytes());
            print(b"\n");
            print(&format::reply(&reply, options, false));
            let name = self.commands[index][0].to_ascii_lowercase();
            if matches!(name.as_slice(), b"multi" | b"exec" | b"discard" | b"auth") {
                noted.push((name, index, reply));
            }
        });
        done.map_err(|error| session.lost(error))?;
        for (name, index, reply) in noted {
            session.remember(&name, &self.commands[index], &reply);
        }
        let count = self.commands.len();
        print(format!("{count} replies in {:.3} ms, {failed} errors\n", last.as_secs_f64() * 1e3).as_bytes());
        Ok(())
    }
}

/// A command on one line, shortened.
fn shown(words: &[Vec<u8>]) -> String {
    let plain =
        |word: &[u8]| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'".contains(byte));
    let parts = words.iter().map(|word| if plain(word) { word.clone() } else { quoted(word) });
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
}

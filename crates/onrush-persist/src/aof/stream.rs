//! Cutting the stream of commands that a primary sends to its replicas: whole commands and whole transactions.

use super::scan::{Frame, Progress, Step, Wrong, resume};

/// About the most bytes of a part; one command or transaction may have more.
const PART_LEN_MAX: usize = 1 << 20;

/// How `REPLCONF GETACK` begins, in any case.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n";

/// What the bytes of a stream begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Commands to execute; a transaction is complete, from MULTI to its EXEC.
    Commands {
        /// Their length in bytes.
        len: usize,
        /// How many they are, MULTI and EXEC included.
        count: usize,
    },
    /// The primary wants to know how far the replica is.
    AckWanted {
        /// The length of this request in bytes.
        len: usize,
    },
}

/// The bytes of a stream are no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a command: byte {at} should be {expected}")]
pub struct NoCommand {
    /// Where they stop to be one, from the first byte on that was not returned yet.
    pub at: usize,
    /// What should be there.
    pub expected: &'static str,
}

/// Finds the parts of a stream, one after the other. Looks at each argument once, however few bytes come at a time.
#[derive(Debug, Default)]
pub struct StreamScan {
    /// What was looked at: bytes and commands.
    at: usize,
    commands: usize,
    /// What was looked at of the command behind them.
    next: Progress,
    /// Whether that ends within a transaction.
    is_open: bool,
    /// What of it is whole: bytes and commands.
    whole_len: usize,
    whole_commands: usize,
    /// Whether it changes data, so that a command about its connection is none of it.
    of_primary: bool,
}

impl StreamScan {
    /// Of what a primary sends: a command about the connection (SUBSCRIBE, RESET, DISCARD and the like) or the server
    /// (SHUTDOWN, REPLICAOF) would change how all that follow are executed, and is an error.
    pub fn of_primary() -> Self {
        Self { of_primary: true, ..Self::default() }
    }

    /// The next part; `None` if more bytes are needed. `bytes` begin where the last part ended. O(bytes not seen before).
    ///
    /// # Errors
    /// They are no commands.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<Part>, NoCommand> {
        while self.whole_len < PART_LEN_MAX {
            let (len, frame) = match resume(&bytes[self.at..], &mut self.next) {
                Ok(Step::Incomplete) => break,
                Ok(Step::Command { len, frame }) => (len, frame),
                Ok(Step::Annotation { .. }) => return Err(NoCommand { at: self.at, expected: "*" }),
                Err(Wrong { at, expected }) => return Err(NoCommand { at: self.at + at, expected }),
            };
            if !self.is_open && is_getack(&bytes[self.at..self.at + len]) {
                if self.whole_len > 0 {
                    break;
                }
                *self = Self { of_primary: self.of_primary, ..Self::default() };
                return Ok(Some(Part::AckWanted { len }));
            }
            self.at += len;
            self.commands += 1;
            match frame {
                Frame::Begin => self.is_open = true,
                Frame::End => self.is_open = false,
                Frame::Alien if self.of_primary => {
                    return Err(NoCommand { at: self.at - len, expected: "a command that changes data" });
                }
                Frame::None | Frame::Alien => {}
            }
            if !self.is_open {
                (self.whole_len, self.whole_commands) = (self.at, self.commands);
            }
        }
        if self.whole_len == 0 {
            return Ok(None);
        }
        let part = Part::Commands { len: self.whole_len, count: self.whole_commands };
        self.at -= self.whole_len;
        self.commands -= self.whole_commands;
        (self.whole_len, self.whole_commands) = (0, 0);
        Ok(Some(part))
    }
}

fn is_getack(command: &[u8]) -> bool {
    command.get(..GETACK.len()).is_some_and(|start| start.eq_ignore_ascii_case(GETACK))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
    const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
    const ASK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\ngetack\r\n$1\r\n*\r\n";

    /// The parts of a stream of which `step` bytes come at a time.
    fn parts(stream: &[u8], step: usize) -> Vec<Part> {
        let (mut scan, mut parts) = (StreamScan::default(), Vec::new());
        let (mut buf, mut rest) = (Vec::new(), stream);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(step.min(rest.len()));
            buf.extend_from_slice(now);
            rest = later;
            while let Some(part) = scan.next(&buf).unwrap() {
                let (Part::Commands { len, .. } | Part::AckWanted { len }) = part;
                buf.drain(..len);
                parts.push(part);
            }
        }
        assert!(buf.is_empty());
        parts
    }

    #[test]
    fn commands_come_together_and_a_request_by_itself() {
        let stream = [SET, SET, ASK, SET].concat();
        let commands = |count| Part::Commands { len: count * SET.len(), count };
        assert_eq!(parts(&stream, usize::MAX), [commands(2), Part::AckWanted { len: ASK.len() }, commands(1)]);
        let alone = parts(&stream, 1);
        assert_eq!(alone, [commands(1), commands(1), Part::AckWanted { len: ASK.len() }, commands(1)]);
    }

    #[test]
    fn a_command_of_very_many_arguments_takes_no_longer_in_small_pieces() {
        const ARGS: usize = 300_000;
        let command = [format!("*{ARGS}\r\n").into_bytes(), b"$1\r\na\r\n".repeat(ARGS)].concat();
        let (mut scan, mut found) = (StreamScan::default(), None);
        // Each time from the beginning would be 4,500,000,000 arguments.
        for len in (0..=command.len()).step_by(70) {
            found = scan.next(&command[..len]).unwrap();
            assert!(found.is_none() || len == command.len());
        }
        found = found.or_else(|| scan.next(&command).unwrap());
        assert_eq!(found, Some(Part::Commands { len: command.len(), count: 1 }));
    }

    #[test]
    fn a_transaction_is_never_cut() {
        let stream = [SET, MULTI, SET, SET, EXEC, SET].concat();
        for step in 1..stream.len() {
            let parts = parts(&stream, step);
            let lens: Vec<usize> = parts
                .iter()
                .map(|part| match part {
                    Part::Commands { len, .. } | Part::AckWanted { len } => *len,
                })
                .collect();
            let ends = lens.iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            });
            let inside = SET.len() + 1..SET.len() + MULTI.len() + 2 * SET.len() + EXEC.len();
            ends.for_each(|end| assert!(!inside.contains(&end), "{step}: {end}"));
            let count: usize = parts
                .iter()
                .map(|part| match part {
                    Part::Commands { count, .. } => *count,
                    Part::AckWanted { .. } => 0,
                })
                .sum();
            assert_eq!(count, 6);
        }
    }

    #[test]
    fn what_is_no_command_is_told() {
        assert_eq!(StreamScan::default().next(b"SET a b\r\n").unwrap_err().at, 0);
        let mut scan = StreamScan::default();
        assert_eq!(scan.next(&[SET, b"#x\r\n"].concat()).unwrap_err(), NoCommand { at: SET.len(), expected: "*" });
        assert_eq!(StreamScan::default().next(&[MULTI, SET].concat()), Ok(None));
        let discard = b"*1\r\n$7\r\ndiscard\r\n";
        let wrong = StreamScan::of_primary().next(&[SET, MULTI, discard].concat()).unwrap_err();
        assert_eq!(wrong.at, SET.len() + MULTI.len());
        assert!(StreamScan::default().next(discard).unwrap().is_some());
    }
}

//! Clients that track keys beside a sequence: their invalidations are compared after each step.

use crate::argv;
use crate::argv::Argv;
use crate::client::Conn;
use crate::diff::Pair;
use crate::resp::{Value, pretty};

/// What ends everything that a client has been told so far.
const MARK: &[u8] = b"$4\r\nmark\r\n";

/// A client that is told of all changes, and one that is told of those of keys that it has read.
pub(crate) struct Trackers {
    broadcast: Pair,
    reader: Pair,
}

impl Trackers {
    /// With connections that speak RESP3.
    pub(crate) fn new(mut broadcast: Pair, mut reader: Pair) -> Self {
        for (pair, options) in [(&mut broadcast, &["BCAST"][..]), (&mut reader, &[])] {
            let argv = Argv::new(&[&["CLIENT", "TRACKING", "ON"], options].concat());
            for conn in [&mut pair.ours, &mut pair.oracle] {
                assert_eq!(conn.call(&argv).text(), "OK");
            }
        }
        Self { broadcast, reader }
    }

    /// Drops the messages they have got.
    pub(crate) fn start_over(&mut self) -> Result<(), String> {
        for pair in [&mut self.broadcast, &mut self.reader] {
            told(&mut pair.ours)?;
            told(&mut pair.oracle)?;
        }
        Ok(())
    }

    /// Has the second client read the keys of commands that come next. `teller` is a connection to Onrush that may be asked.
    pub(crate) fn read_keys<'a>(
        &mut self,
        teller: &mut Conn,
        commands: impl Iterator<Item = &'a Argv>,
    ) -> Result<(), String> {
        for command in commands {
            let words = [b"COMMAND".to_vec(), b"GETKEYS".to_vec()].into_iter().chain(command.0.iter().cloned());
            let reply = teller.try_call(&Argv(words.collect())).map_err(|error| error.to_string())?;
            let reply = Value::parse(&reply)?;
            let Some(keys) = reply.items().filter(|keys| !keys.is_empty()) else { continue };
            let keys = keys.iter().map(|key| key.bytes().unwrap_or_default().to_vec());
            let exists = Argv(std::iter::once(b"EXISTS".to_vec()).chain(keys).collect());
            for conn in [&mut self.reader.ours, &mut self.reader.oracle] {
                conn.send_command(&exists).map_err(|error| error.to_string())?;
            }
        }
        compare("to a client that reads the keys", &mut self.reader)
    }

    /// Compares the messages they have got since the last call.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        compare("to a client told of all keys", &mut self.broadcast)?;
        compare("to a client that has read the keys", &mut self.reader)
    }
}

fn compare(who: &str, pair: &mut Pair) -> Result<(), String> {
    let (ours, oracle) = (told(&mut pair.ours)?, told(&mut pair.oracle)?);
    same_told(who, &ours, &oracle)
}

/// Compares the messages of two clients.
pub(crate) fn same_told(who: &str, ours: &[Vec<u8>], oracle: &[Vec<u8>]) -> Result<(), String> {
    if ours == oracle {
        return Ok(());
    }
    let show = |told: &[Vec<u8>]| told.iter().map(|raw| pretty(raw) + "\n").collect::<String>();
    let (ours, oracle) = (show(ours), show(oracle));
    Err(format!("{who} comes\n{ours}and from the oracle\n{oracle}"))
}

/// All messages to a client, replies included.
fn told(conn: &mut Conn) -> Result<Vec<Vec<u8>>, String> {
    conn.send_command(&argv!["ECHO", "mark"]).map_err(|error| error.to_string())?;
    let mut told = Vec::new();
    loop {
        let raw = conn.read_reply().map_err(|error| format!("a client that tracks keys gets no reply: {error}"))?;
        if raw == MARK {
            return Ok(told);
        }
        told.push(raw);
    }
}

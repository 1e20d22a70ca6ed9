//! What a replica gets: the data set (`--rdb`, `--functions-rdb`), and the commands after it (`--replica`).

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use crate::args::Options;
use crate::connection::{Connection, ReadError, Socket, encode};
use crate::fail::{Fail, system_message};
use crate::format;
use crate::replacement::OutputFile;
use crate::reply::{Decoder, Reply};
use crate::session::print;
use crate::target::Target;

/// The length of the mark that ends a data set of unknown length.
const MARK_LEN: usize = 40;
/// The longest line before the data set.
const LINE_LEN_MAX: usize = 1024;
/// How often the server gets a sign of life.
const ACK_INTERVAL: Duration = Duration::from_secs(1);

/// How the data set ends.
enum Extent {
    Length(u64),
    Mark([u8; MARK_LEN]),
}

/// Bytes of the connection, with some read ahead.
struct Source {
    socket: Socket,
    ahead: Vec<u8>,
}

impl Source {
    fn open(connection: Connection) -> Source {
        let (socket, ahead) = connection.into_parts();
        Source { socket, ahead }
    }

    /// Some bytes more; an error at the end.
    fn more(&mut self) -> Result<Vec<u8>, Fail> {
        if !self.ahead.is_empty() {
            return Ok(std::mem::take(&mut self.ahead));
        }
        let mut bytes = vec![0; 64 << 10];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(Fail::new("Error: Server closed the connection")),
                Ok(len) => {
                    bytes.truncate(len);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An interactive session looks for Ctrl-C now and then; here Ctrl-C ends the program.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(Fail::new(format!("Error: {}", system_message(&error)))),
            }
        }
    }

    /// Sends SYNC and reads up to the first byte of the data set.
    fn sync(&mut self) -> Result<Extent, Fail> {
        let mut command = Vec::new();
        encode(&mut command, &["SYNC"]);
        let sent = self.socket.write_all(&command);
        sent.map_err(|error| Fail::new(format!("Error: {}", system_message(&error))))?;
        let mut head = Vec::new();
        loop {
            let bytes = self.more()?;
            head.extend_from_slice(&bytes);
            // A server that is still writing its data set sends empty lines meanwhile.
            let blank = head.iter().take_while(|byte| b"\r\n".contains(byte)).count();
            head.drain(..blank);
            let Some(end) = memchr::memchr(b'\n', &head) else {
                if head.len() > LINE_LEN_MAX {
                    return Err(Fail::new("SYNC with master failed: a line without end"));
                }
                continue;
            };
            self.ahead = head.split_off(end + 1);
            return extent(head.trim_ascii_end());
        }
    }

    /// Passes the data set to `take`; returns its length.
    fn data_set(&mut self, extent: &Extent, mut take: impl FnMut(&[u8]) -> Result<(), Fail>) -> Result<u64, Fail> {
        let mut len = 0;
        match extent {
            Extent::Length(total) => {
                while len < *total {
                    let bytes = self.more()?;
                    let wanted = usize::try_from(*total - len).unwrap_or(usize::MAX).min(bytes.len());
                    take(&bytes[..wanted])?;
                    self.ahead = bytes[wanted..].to_vec();
                    len += wanted as u64;
                }
            }
            Extent::Mark(mark) => {
                // The last bytes are held back, since the mark may begin in them.
                let mut held = Vec::new();
                loop {
                    held.extend_from_slice(&self.more()?);
                    if let Some(at) = memchr::memmem::find(&held, mark) {
                        take(&held[..at])?;
                        self.ahead = held.split_off(at + MARK_LEN);
                        return Ok(len + at as u64);
                    }
                    let sure = held.len().saturating_sub(MARK_LEN);
                    take(&held[..sure])?;
                    len += sure as u64;
                    held.drain(..sure);
                }
            }
        }
        Ok(len)
    }
}

fn extent(line: &[u8]) -> Result<Extent, Fail> {
    if let Some(mark) = line.strip_prefix(b"$EOF:") {
        let mark = mark.try_into().map_err(|_| Fail::new("SYNC with master failed: a mark of the wrong length"))?;
        return Ok(Extent::Mark(mark));
    }
    let length = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    length.map(Extent::Length).ok_or_else(|| {
        let said = String::from_utf8_lossy(line.strip_prefix(b"-").unwrap_or(line)).into_owned();
        Fail::new(format!("SYNC with master failed: {said}"))
    })
}

/// Sends the server a fact about its replica. A server without this option replies with an error, which only matters if
/// the caller needs the option.
fn announce(connection: &mut Connection, name: &str, value: &str) -> Result<bool, Fail> {
    complain!("sending REPLCONF {name} {value}");
    match connection.call(&["REPLCONF", name, value])?.error() {
        None => Ok(true),
        Some(error) => {
            complain!("REPLCONF {name} error: {error}");
            Ok(false)
        }
    }
}

/// Copies the data set to a file. A file that is there already stays until the copy is whole.
///
/// # Errors
/// When the server refuses or goes away, or the file cannot be written.
pub fn save(target: &Target, file: &Path, functions_only: bool) -> Result<(), Fail> {
    let mut connection = Connection::open_logged_in(target)?;
    announce(&mut connection, "capa", "eof")?;
    announce(&mut connection, "rdb-only", "1")?;
    if functions_only && !announce(&mut connection, "rdb-filter-only", "functions")? {
        return Err(Fail::new("Failed requesting functions only RDB from server, aborting"));
    }
    let mut source = Source::open(connection);
    let extent = source.sync()?;
    let shown = file.display();
    match &extent {
        Extent::Length(len) => complain!("SYNC sent to master, writing {len} bytes to '{shown}'"),
        Extent::Mark(_) => {
            complain!("SYNC sent to master, writing bytes of bulk transfer until EOF marker to '{shown}'")
        }
    }
    let failed =
        |what: &str, error: io::Error| Fail::new(format!("Error {what} '{shown}': {}", system_message(&error)));
    let len = if file.as_os_str() == "-" {
        let mut out = io::stdout().lock();
        let len = source.data_set(&extent, |bytes| out.write_all(bytes).map_err(|error| failed("writing", error)))?;
        out.flush().map_err(|error| failed("writing", error))?;
        len
    } else {
        let mut out = OutputFile::open(file).map_err(|error| failed("opening", error))?;
        let len = source.data_set(&extent, |bytes| out.write_all(bytes).map_err(|error| failed("writing", error)))?;
        out.finish().map_err(|error| failed("syncing", error))?;
        len
    };
    match extent {
        Extent::Length(_) => complain!("Transfer finished with success."),
        Extent::Mark(_) => complain!("Transfer finished with success after {len} bytes"),
    }
    Ok(())
}

/// Shows the commands a replica receives, until interrupted.
///
/// # Errors
/// When the server refuses or goes away.
pub fn run(options: &Options) -> Result<(), Fail> {
    let mut connection = Connection::open_logged_in(&options.target)?;
    announce(&mut connection, "capa", "eof")?;
    announce(&mut connection, "rdb-filter-only", "")?;
    follow(connection)
}

/// As [`run`], on a connection at hand.
///
/// # Errors
/// Those of [`run`].
pub fn follow(connection: Connection) -> Result<(), Fail> {
    let mut source = Source::open(connection);
    let extent = source.sync()?;
    match &extent {
        Extent::Length(len) => complain!("SYNC with master, discarding {len} bytes of bulk transfer..."),
        Extent::Mark(_) => complain!("SYNC with master, discarding bytes of bulk transfer until EOF marker..."),
    }
    let len = source.data_set(&extent, |_| Ok(()))?;
    complain!("SYNC done after {len} bytes. Logging commands from master.");
    if let Some(mut socket) = source.socket.try_clone() {
        complain!("sending REPLCONF ACK 0");
        std::thread::spawn(move || {
            let mut ack = Vec::new();
            encode(&mut ack, &["REPLCONF", "ACK", "0"]);
            while socket.write_all(&ack).is_ok() {
                std::thread::sleep(ACK_INTERVAL);
            }
        });
    }
    let (mut decoder, mut input, mut at) = (Decoder::default(), Vec::new(), 0);
    loop {
        let reply = decoder.next(&input, &mut at).map_err(ReadError::from)?;
        match reply {
            Some(reply) => print(shown(&reply)),
            None => {
                input.drain(..at);
                at = 0;
                input.extend_from_slice(&source.more()?);
            }
        }
    }
}

/// A command of the stream, as comma-separated values.
fn shown(command: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    format::csv(&mut out, command);
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_before_the_data_set_tells_its_end() {
        assert!(matches!(extent(b"$215"), Ok(Extent::Length(215))));
        let mark = [b"$EOF:".as_slice(), &[b'x'; MARK_LEN]].concat();
        assert!(matches!(extent(&mark), Ok(Extent::Mark(mark)) if mark == [b'x'; MARK_LEN]));
        assert!(extent(b"$EOF:short").is_err());
        let refused = extent(b"-NOAUTH log in").err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("SYNC with master failed: NOAUTH log in"));
    }
}

//! Receiving all data of a primary, and replacing what there is by it.
//!
//! What comes is checked and kept in a file without a name. Only data that is whole replaces the old one: a primary that
//! ends or lies in the middle of it changes nothing here. Where there is no data, there is nothing to keep: it is loaded as
//! it comes, and deleted if it turns out not to be whole.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use memchr::memmem;
use onrush_engine::loading::Present;
use onrush_engine::loading::empty::{empty, is_empty};
use onrush_engine::loading::load::{Expired, LoadError, Rules};
use onrush_engine::replication::history::Position;
use onrush_engine::replication::role::Transfer;
use onrush_persist::rdb::{FileReader, RdbError};

use super::link::{End, Link};
use super::{LOOK_PERIOD, alone};
use crate::data::append_only::{turn_off, turn_on};
use crate::data::loading::{Whole, check_rdb, load_rdb};
use crate::data::saving;
use crate::data::unnamed::unnamed_file;
use crate::process::server::Server;

/// The length of the mark behind data whose length is not told.
const MARK_LEN: usize = 40;

/// How often the primary is told that this replica is still there.
const ALIVE_PERIOD: Duration = Duration::from_secs(1);

/// How often the log tells how much has come.
const TELL_PERIOD: Duration = Duration::from_secs(5);

/// What went wrong with the data as it came.
fn broken(error: LoadError) -> End {
    match error {
        LoadError::File(RdbError::Io(error)) => End::failed("receiving the data")(error),
        other => End::Failed(format!("receiving the data: {other}")),
    }
}

/// Receives the data that a primary sends, as of `position`, and makes it the data of this server. Returns the epoch of the
/// history that this begins.
///
/// # Errors
/// It did not come, or was not whole. Unless loading failed, which is no fault of the primary, the data is as it was.
pub(super) fn receive(server: &'static Server, link: &mut Link, position: Position) -> Result<u64, End> {
    let started = Instant::now();
    let line = link.line().map_err(End::failed("waiting for the data"))?;
    let end = parse(&line)?;
    if is_empty(server.engine()) {
        tracing::info!("There is no data here: the primary's is loaded as it comes");
        let total = if let Length::Left(total) = &end { *total } else { 0 };
        let incoming = Incoming { server, link, file: None, end, is_over: false, len: 0, told_at: started };
        return replace(server, incoming, total, position, broken);
    }
    let mut file = unnamed_file(Path::new(&server.host.config.read().dir))
        .map_err(|error| End::Failed(format!("can't make a file for the data: {error}")))?;
    let mut incoming = Incoming { server, link, file: Some(&mut file), end, is_over: false, len: 0, told_at: started };
    let checked = FileReader::new(&mut incoming).map_err(Into::into).and_then(|reader| check_rdb(server, reader));
    let checked = checked.map(drop).map_err(broken);
    checked.and_then(|()| {
        // Bytes behind the data are passed over.
        io::copy(&mut incoming, &mut io::sink()).map_err(End::failed("receiving the data")).map(drop)
    })?;
    let len = incoming.len;
    tracing::info!(
        "The data of the primary has come: {:.1} MB in {:.3} s",
        len as f64 / 1e6,
        started.elapsed().as_secs_f64()
    );
    let failed = |why: &dyn Display| End::Failed(format!("loading the data: {why}"));
    file.seek(SeekFrom::Start(0)).map_err(|error| failed(&error))?;
    let input = Loading { file, link, told_at: Instant::now() };
    replace(server, input, len, position, |error| failed(&error))
}

/// How the data ends.
#[derive(Debug, PartialEq, Eq)]
enum Length {
    /// After so many bytes.
    Left(u64),
    /// With these bytes.
    Mark([u8; MARK_LEN]),
}

fn parse(line: &str) -> Result<Length, End> {
    let wrong = || {
        End::Failed(format!("waiting for the data: the primary sends {:?}", line.chars().take(200).collect::<String>()))
    };
    if line.starts_with('-') {
        return Err(wrong());
    }
    let length = line.strip_prefix('$').ok_or_else(wrong)?;
    match length.strip_prefix("EOF:") {
        Some(mark) => mark.as_bytes().try_into().map(Length::Mark).map_err(|_| wrong()),
        None => length.parse().map(Length::Left).map_err(|_| wrong()),
    }
}

/// Data on its way: what is read of it is in the file, too, if there is one.
struct Incoming<'a> {
    server: &'static Server,
    link: &'a mut Link,
    file: Option<&'a mut File>,
    end: Length,
    is_over: bool,
    /// Bytes so far.
    len: u64,
    told_at: Instant,
}

impl Incoming<'_> {
    /// How many of the bytes that have come belong to the data for sure; notes whether it is over with them.
    fn available(&mut self) -> usize {
        let bytes = self.link.bytes();
        match &self.end {
            Length::Left(left) => {
                let available = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                self.is_over = available as u64 == *left;
                available
            }
            Length::Mark(mark) => match memmem::find(bytes, mark) {
                Some(at) => {
                    self.is_over = true;
                    at
                }
                // The mark may have come in part.
                None => bytes.len().saturating_sub(MARK_LEN - 1),
            },
        }
    }

    /// Takes the first bytes of the data.
    fn take(&mut self, buf: &mut [u8], len: usize) -> io::Result<()> {
        buf[..len].copy_from_slice(&self.link.bytes()[..len]);
        if let Some(file) = &mut self.file {
            file.write_all(&buf[..len])?;
        }
        self.link.take(len);
        self.len += len as u64;
        if let Length::Left(left) = &mut self.end {
            *left -= len as u64;
        }
        let (read_bytes, last_io) = (self.len, self.link.last_io());
        let total_bytes = if let Length::Left(left) = &self.end { Some(read_bytes + left) } else { None };
        self.server.replication.role.set_link(|facts| {
            facts.transfer = Some(Transfer { total_bytes, read_bytes });
            facts.last_io = Some(last_io);
        });
        if self.told_at.elapsed() >= TELL_PERIOD {
            self.told_at = Instant::now();
            let of = total_bytes.map(|total| format!(" of {:.1}", total as f64 / 1e6)).unwrap_or_default();
            tracing::info!("Receiving the data of the primary: {:.1}{of} MB", read_bytes as f64 / 1e6);
        }
        Ok(())
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_over && matches!(self.end, Length::Left(0)) {
                return Ok(0);
            }
            let available = self.available();
            if available > 0 {
                let len = available.min(buf.len());
                self.take(buf, len)?;
                return Ok(len);
            }
            if self.is_over {
                // Behind the data there is only the mark.
                self.link.take(MARK_LEN);
                self.end = Length::Left(0);
                return Ok(0);
            }
            self.link.wait()?;
        }
    }
}

/// The file with the data, which tells the primary from time to time that this replica is still there.
struct Loading<'a> {
    file: File,
    link: &'a mut Link,
    told_at: Instant,
}

impl Read for Loading<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.told_at.elapsed() >= ALIVE_PERIOD {
            self.told_at = Instant::now();
            // If the link is gone, what comes next fails.
            let _ = self.link.send(b"\n");
        }
        self.file.read(buf)
    }
}

/// Makes the data that is read from `input` the data of this server. `total_bytes`: its length, 0 if that is not known.
fn replace(
    server: &'static Server,
    mut input: impl Read + Send,
    total_bytes: u64,
    position: Position,
    failed: impl Fn(LoadError) -> End,
) -> Result<u64, End> {
    if !server.snapshots.abort_and_wait("other data is loaded") {
        return Err(End::Failed("loading the data: a snapshot does not end".to_owned()));
    }
    on_saving_thread(server, turn_off);
    let held = server.host.replica.hold_stream();
    let replaced = begin_empty(server, total_bytes).and_then(|()| {
        let whole = Whole;
        let rules = Rules { expired: Expired::Loaded, present: Present::Refused };
        let loaded = FileReader::new(&mut input)
            .map_err(Into::into)
            .and_then(|reader| load_rdb(server, reader, rules))
            .map(drop);
        // Bytes behind the data are passed over.
        let loaded = loaded.and_then(|()| Ok(io::copy(&mut input, &mut io::sink()).map_err(RdbError::Io)?));
        if loaded.is_err() {
            // A part of the data is none.
            let alone = alone(server);
            empty(server.engine());
            drop(alone);
        }
        std::mem::forget(whole);
        let position = if loaded.is_ok() { position } else { Position { id: server.new_replid(), offset: 0 } };
        server.replication.history.take_over(position);
        server.replication.history.set_db(Some(server.loading.stream_db()));
        let (keys, changes) = (server.loading.progress().keys, server.stats.changes());
        server.loading.end();
        server.snapshots.note(|facts| facts.saved_changes = changes);
        let epoch = server.replication.history.epoch();
        loaded.map(|_| (keys, epoch)).map_err(failed)
    });
    drop(held);
    on_saving_thread(server, |server| {
        let config = server.host.config.read().clone();
        if config.appendonly
            && let Err(error) = turn_on(server, &config)
        {
            tracing::error!("Can't begin the append-only file with the data of the primary: {error}");
        }
    });
    replaced.map(|(keys, epoch)| {
        tracing::info!("The data of the primary is loaded: {keys} keys");
        epoch
    })
}

/// Begins to load into an empty keyspace. Until what has the keyspace lets go of it, clients are served.
///
/// # Errors
/// Another role was asked for before that.
fn begin_empty(server: &'static Server, total_bytes: u64) -> Result<(), End> {
    let alone = loop {
        if server.host.replica.is_asked() {
            return Err(End::Interrupted);
        }
        if let Some(alone) = server.alone_unless_busy() {
            break alone;
        }
        std::thread::sleep(LOOK_PERIOD);
    };
    server.loading.begin(server.clock.unix_ms() / 1000, total_bytes);
    empty(server.engine());
    drop(alone);
    Ok(())
}

/// Has the thread for files do something, and waits for it: no other change of the log comes in between.
fn on_saving_thread(server: &'static Server, work: impl FnOnce(&'static Server) + Send + 'static) {
    let (tell, told) = channel();
    saving::pass_on(Box::new(move |server| {
        work(server);
        // The other thread waits for it.
        let _ = tell.send(());
    }));
    let _ = server;
    // The thread ends with the process.
    let _ = told.recv();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_the_data_is_read_strictly() {
        let mark = "a".repeat(MARK_LEN);
        assert_eq!(parse("$12").unwrap(), Length::Left(12));
        assert_eq!(parse(&format!("$EOF:{mark}")).unwrap(), Length::Mark([b'a'; MARK_LEN]));
        for wrong in ["", "$", "$-1", "+OK", "-ERR no", "$EOF:short"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&format!("$EOF:{mark}b")).is_err());
    }
}

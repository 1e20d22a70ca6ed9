//! Receiving all data of a primary, and replacing what there is by it.
//!
//! What comes is checked and kept in a file without a name. Only data that is whole replaces the old one: a primary that
//! ends or lies in the middle of it changes nothing here. Where there is no data, there is nothing to keep: it is loaded as
//! it comes, and deleted if it turns out not to be whole.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use memchr::memmem;
use onrush_engine::loading::Present;
use onrush_engine::loading::empty::{empty, is_empty};
use onrush_engine::loading::load::{Expired, LoadError, Rules};
use onrush_engine::replication::history::{Epoch, Position};
use onrush_engine::replication::role::Transfer;
use onrush_persist::rdb::{FileReader, RdbError};
use onrush_persist::threads;

use super::link::{End, Link};
use super::{LOOK_PERIOD, alone};
use crate::data::append_only::{turn_off, turn_on_or_later};
use crate::data::loading::{Whole, check_rdb, load_rdb};
use crate::data::log_state::Owed;
use crate::data::saving;
use crate::data::unnamed::unnamed_file;
use crate::process::server::Server;

/// The length of the mark behind data whose length is not told.
const MARK_LEN: usize = 40;

/// Bytes that are written to the file at once, and most pieces that wait for it.
const PIECE_LEN: usize = 256 << 10;
const PIECES_MAX: usize = 16;

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
pub(super) fn receive(server: &'static Server, link: &mut Link, position: Position) -> Result<Epoch, End> {
    let started = Instant::now();
    let line = link.line().map_err(End::failed("waiting for the data"))?;
    let end = parse(&line)?;
    if is_empty(server.engine()) {
        tracing::info!("There is no data here: the primary's is loaded as it comes");
        let total = if let Length::Left(total) = &end { *total } else { 0 };
        let incoming = Incoming { server, link, file: None, end, is_over: false, len: 0, told_at: started };
        return replace(server, incoming, total, position, broken);
    }
    let file = Keeping::start(server).map_err(End::failed("receiving the data"))?;
    let mut incoming = Incoming { server, link, file: Some(file), end, is_over: false, len: 0, told_at: started };
    let checked = FileReader::new(&mut incoming).map_err(Into::into).and_then(|reader| check_rdb(server, reader));
    let checked = checked.map(drop).map_err(broken);
    checked.and_then(|()| {
        // Bytes behind the data are passed over.
        io::copy(&mut incoming, &mut io::sink()).map_err(End::failed("receiving the data")).map(drop)
    })?;
    let Incoming { file: kept, len, .. } = incoming;
    let kept = kept.ok_or_else(|| End::Failed("receiving the data: there is no file".to_owned()))?;
    let mut file = kept.finish().map_err(End::failed("receiving the data"))?;
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
    file: Option<Keeping>,
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
            file.push(&buf[..len])?;
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

/// A file without a name that another thread makes and writes: while a disk hangs, this server can get another role.
struct Keeping {
    server: &'static Server,
    pieces: SyncSender<Vec<u8>>,
    written: Receiver<io::Result<File>>,
    piece: Vec<u8>,
}

impl Keeping {
    /// # Errors
    /// The system has no thread to give.
    fn start(server: &'static Server) -> io::Result<Self> {
        let dir = PathBuf::from(&server.host.config.read().dir);
        let (pieces, coming) = sync_channel::<Vec<u8>>(PIECES_MAX);
        let (tell, written) = channel();
        let write = move || {
            let mut file = unnamed_file(&dir)?;
            coming.into_iter().try_for_each(|piece| file.write_all(&piece))?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        // Who started it may be gone by then.
        threads::start("replica-file", move || drop(tell.send(write())))?;
        Ok(Self { server, pieces, written, piece: Vec::with_capacity(PIECE_LEN) })
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() < PIECE_LEN {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_LEN));
        self.send(piece)
    }

    fn send(&self, mut piece: Vec<u8>) -> io::Result<()> {
        loop {
            match self.pieces.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => piece = back,
                Err(TrySendError::Disconnected(_)) => return self.end().map(drop),
            }
            self.look()?;
            std::thread::sleep(LOOK_PERIOD);
        }
    }

    /// Waits until all is written; returns the file, at its beginning.
    fn finish(mut self) -> io::Result<File> {
        let rest = std::mem::take(&mut self.piece);
        self.send(rest)?;
        (self.pieces, _) = sync_channel(0);
        self.end()
    }

    fn end(&self) -> io::Result<File> {
        loop {
            match self.written.recv_timeout(LOOK_PERIOD) {
                Ok(written) => return written,
                Err(RecvTimeoutError::Timeout) => self.look()?,
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    fn look(&self) -> io::Result<()> {
        match self.server.host.replica.is_asked() {
            // Not `Interrupted`, after which readers try again.
            true => Err(io::Error::other("another role was asked for")),
            false => Ok(()),
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
) -> Result<Epoch, End> {
    if !server.snapshots.abort_and_wait("other data is loaded") {
        return Err(End::Failed("loading the data: a snapshot does not end".to_owned()));
    }
    let log_off = |server: &'static Server| {
        turn_off(server);
        if server.host.config.read().appendonly {
            server.host.append_only.set_owed(Owed::Soon);
        }
    };
    if !on_saving_thread(|| server.host.replica.is_asked(), log_off) {
        return Err(End::Interrupted);
    }
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
        server.replication.take_over(position);
        server.replication.history.set_db(Some(server.loading.stream_db()));
        let (keys, changes) = (server.loading.progress().keys, server.stats.changes());
        server.loading.end();
        server.snapshots.note(|facts| facts.saved_changes = changes);
        let epoch = server.replication.history.epoch();
        loaded.map(|_| (keys, epoch)).map_err(failed)
    });
    drop(held);
    let log_on = |server: &'static Server| {
        if server.host.config.read().appendonly {
            turn_on_or_later(server);
        }
    };
    let told = tell_of(log_on);
    // Another role does not wait for the log of this data, as while the disk hangs: the thread for files does one after the
    // other.
    let is_asked = || server.host.replica.is_asked();
    while !is_asked() && told.recv_timeout(LOOK_PERIOD) == Err(RecvTimeoutError::Timeout) {}
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
    server.replication.role.set_link(|facts| facts.was_alike = None);
    empty(server.engine());
    drop(alone);
    Ok(())
}

/// Has the thread for files do something; says where it is told when that is done.
fn tell_of(work: impl FnOnce(&'static Server) + Send + 'static) -> Receiver<()> {
    let (tell, told) = channel();
    saving::pass_on(Box::new(move |server| {
        work(server);
        // Nobody may wait for it any more.
        let _ = tell.send(());
    }));
    told
}

/// Has the thread for files do something, and waits for it: no other change of the log comes in between. Returns whether it
/// is done: it is not if that has not begun before `gives_up`.
fn on_saving_thread(gives_up: impl Fn() -> bool, work: impl FnOnce(&'static Server) + Send + 'static) -> bool {
    let is_taken = Arc::new(AtomicBool::new(false));
    let taken = Arc::clone(&is_taken);
    let told = tell_of(move |server| {
        if !taken.swap(true, AcqRel) {
            work(server);
        }
    });
    loop {
        match told.recv_timeout(LOOK_PERIOD) {
            Err(RecvTimeoutError::Timeout) if gives_up() && !is_taken.swap(true, AcqRel) => return false,
            Err(RecvTimeoutError::Timeout) => {}
            // The thread ends with the process.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
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

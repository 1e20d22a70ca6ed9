//! From buffers to files, and from files to the medium.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::notes::{Note, StreamPlace};
use super::segment::{Bytes, Pending, Segment};
use super::writer::{AofStatus, BUFFER_BYTES_MAX, Failure, FsyncPolicy, Inner, State};
use crate::buffer::Buffer;
use crate::effects::{Plain, Record};
use crate::storage::StorageFile;

/// Most bytes that one system call writes.
const WRITE_LEN_MAX: usize = 1 << 20;

/// Most memory that an empty buffer keeps.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// A sync counts as delayed if written bytes wait this long for it.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Bytes that one thread has taken to write.
struct Taken {
    segment: u64,
    file: Arc<dyn StorageFile>,
    /// The length of the file.
    size: u64,
    pending: Pending,
}

/// A sync that is due.
struct ToSync {
    segment: u64,
    file: Arc<dyn StorageFile>,
    size: u64,
    lsn: u64,
}

impl Inner {
    /// Wakes the log's thread.
    pub fn wake(&self) {
        let waker = self.state.lock().waker.clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Takes records into the buffer. O(bytes); waits for no file.
    pub fn plain(&self, plain: Plain<'_>) {
        let mut state = self.state.lock();
        let unix_s = self.unix_s(&state);
        let State { segments, streams, .. } = &mut *state;
        if let Some(segment) = segments.back_mut() {
            let streamed = segment.plain(plain, unix_s);
            streams.grow(streamed, segment.size + segment.unwritten as u64);
        }
        self.note_fullness(state);
    }

    /// The time, if it is noted.
    fn unix_s(&self, state: &State) -> Option<u64> {
        state.timestamps.then(|| (self.unix_time_s)())
    }

    /// Takes a record into the buffer. O(bytes); waits for no file.
    pub fn record(&self, record: Record<'_>) {
        let mut state = self.state.lock();
        let unix_s = self.unix_s(&state);
        let State { segments, streams, last_incr, .. } = &mut *state;
        if let Some(segment) = segments.back_mut() {
            let streamed = segment.record(record, unix_s);
            let at = segment.size + segment.unwritten as u64;
            match Note::of(record) {
                None => streams.grow(streamed, at),
                Some(Note::Stream { offset, .. }) => {
                    let file = last_incr.as_ref().map_or("", |incr| &incr.name).into();
                    streams.begin(StreamPlace { file, at, offset });
                }
                Some(_) => streams.give_up(),
            }
        }
        self.note_fullness(state);
    }

    /// Notes, and tells, that too much waits.
    fn note_fullness(&self, mut state: MutexGuard<'_, State>) {
        if !state.is_full && state.unwritten() > BUFFER_BYTES_MAX {
            state.is_full = true;
            drop(state);
            self.tell_health();
        }
    }

    /// Reports the health if it has changed since the last report.
    pub fn tell_health(&self) {
        let mut told = self.told.lock();
        let (now, is_stopping) = {
            let state = self.state.lock();
            (state.health(), state.is_stopping)
        };
        if *told != now && !is_stopping {
            *told = now;
            (self.on_health)(&told);
        }
    }

    pub fn is_anybody_waiting(&self, state: &State) -> bool {
        state.policy == FsyncPolicy::Always
            || self.wanted.load(Ordering::Acquire) > self.durable.load(Ordering::Acquire)
    }

    /// Writes and syncs file after file as far as possible.
    pub fn write_and_sync(&self) {
        loop {
            self.write();
            let before = self.state.lock().segments.len();
            self.sync();
            if self.state.lock().segments.len() == before {
                return;
            }
        }
    }

    /// Writes the bytes that may be written now.
    pub fn write(&self) {
        let _turn = self.writing.lock();
        loop {
            let taken = self.state.lock().take();
            if !taken.is_some_and(|taken| self.write_taken(taken)) {
                break;
            }
        }
        let mut state = self.state.lock();
        let lsn = state.written_lsn();
        self.written.fetch_max(lsn, Ordering::AcqRel);
        state.note_delay();
        drop(state);
        self.progress.notify_all();
    }

    /// Writes taken bytes, piece by piece; returns whether all of them are in the file.
    fn write_taken(&self, Taken { segment: id, file, mut size, mut pending }: Taken) -> bool {
        loop {
            let before = pending.at;
            let outcome = write_piece(&*file, size, &mut pending);
            let written = pending.at - before;
            let is_done = pending.rest().is_empty();
            // An error after which all bytes are in the file is left to the sync.
            let outcome = if is_done { Ok(()) } else { outcome };
            // Memory is given back before others wait.
            let spare = if is_done { spare_of(pending.take()) } else { None };
            let mut state = self.state.lock();
            let state = &mut *state;
            if written > 0 && state.unsynced_since.is_none() {
                state.unsynced_since = Some(Instant::now());
                self.sync_wanted.notify_all();
            }
            let Some(segment) = state.segments.iter_mut().find(|other| other.id == id) else { return true };
            segment.size += written as u64;
            segment.unwritten -= written;
            size = segment.size;
            if is_done {
                segment.written_lsn = pending.lsn;
            }
            match outcome {
                Ok(()) if !is_done => state.note_fill(),
                Ok(()) => {
                    state.note_fill();
                    if let Some(spare) = spare {
                        state.spare = spare;
                    }
                    state.recover();
                    return true;
                }
                Err(error) => {
                    segment.pending = pending;
                    state.note_fill();
                    state.failed(Failure::Write, &error);
                    state.retry_at = Some(Instant::now() + self.retry_every);
                    return false;
                }
            }
        }
    }

    /// Syncs the written bytes, file after file, and reports what is durable.
    pub fn sync(&self) {
        let _turn = self.syncing.lock();
        let mut after = None;
        loop {
            let mut state = self.state.lock();
            let Some(ToSync { segment, file, size, lsn }) = state.next_unsynced(after) else { break };
            let began = Instant::now();
            state.sync_began = Some(began);
            drop(state);
            let outcome = file.sync();
            let mut state = self.state.lock();
            state.synced((segment, size, lsn), began, outcome);
            after = Some(segment);
        }
        self.tell_durable();
        self.progress.notify_all();
    }

    /// Reports what is durable. The caller holds `syncing`, so reports come in order.
    pub fn tell_durable(&self) {
        let mut state = self.state.lock();
        if !state.is_listed {
            return;
        }
        let lsn = state.durable_lsn();
        // A fully synced file is no longer a segment, so the next one may be written.
        while state.segments.len() > 1 && state.segments.front().is_some_and(Segment::is_synced) {
            if let Some(done) = state.segments.pop_front() {
                state.base_lsn = state.base_lsn.max(done.last_lsn);
                state.other_size += done.size;
            }
        }
        drop(state);
        if lsn > self.durable.load(Ordering::Acquire) {
            self.durable.store(lsn, Ordering::Release);
            (self.on_durable)(lsn);
        }
    }
}

impl State {
    /// The next bytes to be written: a file may be written if all before are synced and no sync of it has failed.
    fn take(&mut self) -> Option<Taken> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) && !self.is_stopping {
            return None;
        }
        let State { segments, spare, is_stopping, .. } = self;
        for segment in segments {
            if !segment.is_written() {
                return (segment.is_trusted || *is_stopping).then(|| {
                    let pending = segment.take(spare);
                    Taken { segment: segment.id, file: Arc::clone(&segment.file), size: segment.size, pending }
                });
            }
            if !segment.is_synced() {
                return None;
            }
        }
        None
    }

    /// The LSN up to which all records are in files.
    pub fn written_lsn(&mut self) -> u64 {
        let mut lsn = self.base_lsn;
        for segment in &mut self.segments {
            if segment.is_written() {
                // Records without commands have no bytes to be written.
                segment.written_lsn = segment.last_lsn;
            }
            lsn = lsn.max(segment.written_lsn);
            if !segment.is_written() {
                break;
            }
        }
        lsn
    }

    /// Notes that a write has succeeded.
    fn recover(&mut self) {
        self.retry_at = None;
        if self.segments.iter().all(|segment| segment.is_trusted) {
            self.status = AofStatus::Ok;
        }
    }

    fn note_delay(&mut self) {
        let waits = self.sync_began.is_some() && self.unsynced_since.is_some_and(|since| since.elapsed() > DELAY_MAX);
        if waits && !self.is_delay_counted && self.policy == FsyncPolicy::EverySecond {
            self.is_delay_counted = true;
            self.delayed_fsyncs += 1;
        }
    }

    /// The first file after segment `after` that has something to sync.
    fn next_unsynced(&mut self, after: Option<u64>) -> Option<ToSync> {
        for segment in self.segments.iter_mut().take_while(|segment| segment.is_trusted) {
            if segment.synced_size == segment.size {
                segment.synced_lsn = segment.synced_lsn.max(segment.written_lsn);
            } else if after.is_none_or(|after| segment.id > after) {
                let file = Arc::clone(&segment.file);
                return Some(ToSync { segment: segment.id, file, size: segment.size, lsn: segment.written_lsn });
            }
        }
        None
    }

    fn synced(&mut self, (id, size, lsn): (u64, u64, u64), began: Instant, outcome: io::Result<()>) {
        self.sync_began = None;
        self.is_delay_counted = false;
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.id == id) else { return };
        match outcome {
            Ok(()) => {
                segment.synced_size = segment.synced_size.max(size);
                segment.synced_lsn = segment.synced_lsn.max(lsn);
                let mut trusted = self.segments.iter().take_while(|segment| segment.is_trusted);
                self.unsynced_since = trusted.any(|segment| segment.synced_size < segment.size).then_some(began);
            }
            Err(error) => {
                segment.is_trusted = false;
                self.unsynced_since = None;
                self.failed(Failure::Sync, &error);
            }
        }
    }
}

/// The memory of bytes that are written, for others, if it is not shared.
fn spare_of(bytes: Bytes) -> Option<Buffer> {
    let Bytes::Copied(mut buffer) = bytes else { return None };
    buffer.clear();
    buffer.shrink_to(SPARE_BYTES_MAX);
    Some(buffer)
}

/// Appends the next piece of the pending bytes to a file of `size` bytes. After an error, `pending` says how many of them
/// are in the file.
fn write_piece(file: &dyn StorageFile, size: u64, pending: &mut Pending) -> io::Result<()> {
    let rest = pending.rest();
    let piece = &rest[..rest.len().min(WRITE_LEN_MAX)];
    let error = loop {
        match file.write(piece) {
            Ok(len) if len > 0 => {
                pending.at += len;
                return Ok(());
            }
            Ok(_) => break io::ErrorKind::WriteZero.into(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break error,
        }
    };
    // Some file systems write a part and still report an error.
    if let Ok(len) = file.len()
        && (size..=size + piece.len() as u64).contains(&len)
    {
        pending.at += (len - size) as usize;
    }
    Err(error)
}

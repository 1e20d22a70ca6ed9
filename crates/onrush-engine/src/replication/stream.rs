//! The stream of a primary: the records of its command log as commands that a replica executes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_alloc::Ebbs;
use onrush_persist::aof::Note;
use onrush_persist::{Effects, FOR_LOG, FOR_REPLICAS, Plain, Record, Sink, SinkId, SlowWork};
use onrush_store::schedule;

use super::Replication;
use super::history::{Epoch, Position};
use crate::shared::Shared;

/// Bytes of the stream that gather before the history gets them, about.
const GATHERED_BYTES_MAX: usize = 256 << 10;

/// From so many bytes on, records that have come together go to the history at once, rather than with others.
const DIRECT_BYTES_MIN: usize = 4 << 10;

/// Makes the stream from records. A record of several commands becomes a transaction.
pub(super) struct StreamSink {
    shared: &'static Shared,
    /// Bytes of the records since the last settle.
    bytes: Vec<u8>,
    /// The database that the stream has selected; `None`: it has to say it.
    db: Option<u32>,
    last_lsn: u64,
    /// The last record that the history has.
    passed_lsn: u64,
}

impl StreamSink {
    pub(super) fn new(shared: &'static Shared) -> Self {
        Self { shared, bytes: Vec::new(), db: None, last_lsn: 0, passed_lsn: 0 }
    }

    /// Gives the history what there is, which ends with a record, though that may have no bytes here.
    fn pass_on(&mut self) {
        if self.bytes.is_empty() && self.passed_lsn == self.last_lsn {
            return;
        }
        self.passed_lsn = self.last_lsn;
        self.shared.replication.history.append(&self.bytes, Some(self.last_lsn));
        self.bytes.clear();
        self.bytes.shrink_to(2 * GATHERED_BYTES_MAX);
    }

    fn pass_on_much(&mut self) {
        if self.bytes.len() >= GATHERED_BYTES_MAX {
            self.pass_on();
        }
    }

    fn select(&mut self, db: u32) {
        if self.db != Some(db) {
            push_select(&mut self.bytes, db);
            self.db = Some(db);
        }
    }
}

/// Appends SELECT.
pub(crate) fn push_select(bytes: &mut Vec<u8>, db: u32) {
    let mut number = itoa::Buffer::new();
    let number = number.format(db);
    bytes.extend_from_slice(format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len()).as_bytes());
}

impl Sink for StreamSink {
    fn record(&mut self, record: Record<'_>) {
        self.last_lsn = record.lsn;
        let commands = record.commands();
        let is_transaction = commands.len() > 1;
        for (nth, (db, command)) in commands.enumerate() {
            match db {
                FOR_LOG => {
                    self.db = None;
                    return;
                }
                FOR_REPLICAS => {}
                db => self.select(db),
            }
            if nth == 0 && is_transaction {
                self.bytes.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
            }
            self.bytes.extend_from_slice(command);
        }
        if is_transaction {
            self.bytes.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
        }
        self.pass_on_much();
    }

    fn plain(&mut self, plain: Plain<'_>) {
        self.select(plain.db);
        let bytes = plain.bytes();
        if bytes.len() < DIRECT_BYTES_MIN {
            self.bytes.extend_from_slice(bytes);
            self.last_lsn = plain.last_lsn();
            self.pass_on_much();
            return;
        }
        self.pass_on();
        (self.last_lsn, self.passed_lsn) = (plain.last_lsn(), plain.last_lsn());
        self.shared.replication.history.append(bytes, Some(self.last_lsn));
    }

    fn settle(&mut self) {
        self.pass_on();
        self.shared.replication.wake();
    }

    fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
        Some(Arc::new(FollowsEbbs::default()))
    }
}

/// Has the log's thread give memory back that the stream has needed, when much less is in use.
#[derive(Default)]
struct FollowsEbbs(Ebbs);

impl SlowWork for FollowsEbbs {
    fn work(&self) -> Option<Duration> {
        self.0.follow();
        None
    }
}

impl Replication {
    /// Whether clients wait for replicas that have acknowledged all that is in the stream, so that more must come to it. What
    /// comes while an acknowledgement is under way gathers, and goes to them together.
    pub fn must_send(&self) -> bool {
        !self.held.is_empty() && {
            let replicas = self.held.by_default().max(1) as usize;
            let offset = self.attached.acknowledged_by(replicas);
            offset.is_some_and(|offset| offset >= self.history.offset())
        }
    }

    /// Cuts the data for replicas that need all of it: the stream begins, and stays from here on until they have it. Returns
    /// where that is, and the epoch of the history. The caller has the whole keyspace.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn cut(&self, shared: &'static Shared) -> std::io::Result<(Position, Epoch)> {
        if !self.role.is_replica() {
            self.begin_stream(shared)?;
            self.note_position(shared);
        }
        self.history.pin();
        Ok((self.history.position(), self.history.epoch()))
    }

    /// Begins the stream with the next record, unless it has begun, or this is a replica, whose stream is its primary's. The
    /// caller has the whole keyspace.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn begin_stream(&self, shared: &'static Shared) -> std::io::Result<()> {
        let mut sink = self.sink.lock();
        if sink.is_none() && !self.role.is_replica() {
            let log: &Arc<_> = &shared.log;
            let made = Box::new(StreamSink::new(shared));
            // A simulation merges the log itself.
            *sink = Some(if schedule::is_simulated() { log.follow(made) } else { log.attach(made)? });
            self.is_streaming.store(true, Relaxed);
            self.history.keep(true);
            // What there was before is where it begins.
            self.history.append(&[], Some(shared.log.last_lsn()));
            self.note(shared, sink.as_ref());
        }
        Ok(())
    }

    /// Ends the stream of a primary: what comes next is that of another server, or is not kept. The caller has the whole
    /// keyspace.
    pub fn end_stream(&self, shared: &'static Shared) {
        let mut sink = self.sink.lock();
        if let Some(id) = sink.take() {
            // What is written from here on is no stream.
            self.note(shared, None);
            drop(shared.log.detach(id));
            self.is_streaming.store(false, Relaxed);
        }
    }

    /// Notes in the append-only file where the data is in its history, if it is at a place of it: the commands behind that
    /// are the stream, if this is a primary that keeps one. The stream says its database again: a replica may begin here.
    /// The caller has the whole keyspace, or executes the stream of this server's primary.
    pub fn note_position(&self, shared: &Shared) {
        let sink = self.sink.lock();
        if sink.is_some() || self.role.is_replica() && self.history.is_kept() && !self.role.is_executing() {
            self.note(shared, sink.as_ref());
        }
    }

    /// The caller holds the sink, so that nothing comes to the stream meanwhile.
    fn note(&self, shared: &Shared, sink: Option<&SinkId>) {
        if !shared.log.is_listening() {
            return;
        }
        if sink.is_some() || !self.role.is_replica() {
            // What is on its way is in the stream then.
            shared.log.flush();
        }
        let (id, offset, db) = self.history.place();
        let note = match sink {
            Some(_) => Note::Stream { id, offset },
            None => Note::Place { id, offset, db: db.unwrap_or(0) },
        };
        submit(shared, FOR_LOG, note.line().as_bytes());
        if sink.is_some() {
            shared.log.flush();
        }
    }

    /// Puts a command that changes no data into the stream, if this server makes one.
    pub fn tell_replicas(&self, shared: &Shared, command: &[u8]) {
        let sink = self.sink.lock();
        if sink.is_some() {
            submit(shared, FOR_REPLICAS, command);
            shared.log.flush();
        }
    }
}

fn submit(shared: &Shared, db: u32, bytes: &[u8]) {
    let mut effects = Effects::default();
    effects.encoded(db, bytes);
    shared.log.append(&mut effects);
}

//! The stream of a primary: the records of its command log as commands that a replica executes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_persist::{FOR_REPLICAS, Record, Sink, SlowWork};

use super::Replication;
use crate::shared::Shared;

/// Most memory that the buffer keeps, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Makes the stream from records. A record of several commands becomes a transaction.
pub(super) struct StreamSink {
    shared: &'static Shared,
    /// Bytes of the records since the last settle.
    bytes: Vec<u8>,
    /// The database that the stream has selected; `None`: it has to say it.
    db: Option<u32>,
    last_lsn: u64,
}

impl StreamSink {
    pub(super) fn new(shared: &'static Shared) -> Self {
        Self { shared, bytes: Vec::new(), db: None, last_lsn: 0 }
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
        if self.shared.replication.take_select() {
            self.db = None;
        }
        let commands = record.commands();
        let is_transaction = commands.len() > 1;
        for (nth, (db, command)) in commands.enumerate() {
            if db != FOR_REPLICAS {
                self.select(db);
            }
            if nth == 0 && is_transaction {
                self.bytes.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
            }
            self.bytes.extend_from_slice(command);
        }
        if is_transaction {
            self.bytes.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
        }
        self.last_lsn = record.lsn;
    }

    fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
        Some(Arc::new(Haste(self.shared)))
    }

    fn settle(&mut self) {
        let replication = &self.shared.replication;
        replication.history.append(&self.bytes, Some(self.last_lsn));
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        replication.wake();
    }
}

/// Has the log merged at once while a client waits for replicas.
struct Haste(&'static Shared);

impl SlowWork for Haste {
    fn work(&self) -> Option<Duration> {
        None
    }

    fn hurries(&self) -> bool {
        !self.0.replication.held.is_empty()
    }
}

impl Replication {
    /// Begins the stream with the next record, unless it has begun. The caller has the whole keyspace.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn begin_stream(&self, shared: &'static Shared) -> std::io::Result<()> {
        let mut sink = self.sink.lock();
        if sink.is_none() {
            let log: &Arc<_> = &shared.log;
            *sink = Some(log.attach(Box::new(StreamSink::new(shared)))?);
            self.is_streaming.store(true, Relaxed);
            self.history.keep(true);
            // What there was before is where it begins.
            self.history.append(&[], Some(shared.log.last_lsn()));
        }
        Ok(())
    }

    /// Ends the stream of a primary: what comes next is that of another server, or is not kept. The caller has the whole
    /// keyspace.
    pub fn end_stream(&self, shared: &'static Shared) {
        if let Some(sink) = self.sink.lock().take() {
            drop(shared.log.detach(sink));
            self.is_streaming.store(false, Relaxed);
        }
    }
}

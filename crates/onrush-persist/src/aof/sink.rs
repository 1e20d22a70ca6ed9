//! The connection between the command log and this log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Aof;
use super::segment::Segment;
use super::writer::Inner;
use crate::effects::{Plain, Record};
use crate::log::{CommandLog, Sink, SinkId, SlowWork};

/// Puts records into the buffer. The command log's thread does slow work without holding a lock of the command log.
struct AofSink(Arc<Aof>);

impl Sink for AofSink {
    fn record(&mut self, record: Record<'_>) {
        self.0.inner.record(record);
    }

    fn plain(&mut self, plain: Plain<'_>) {
        self.0.inner.plain(plain);
    }

    fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
        Some(Arc::clone(&self.0.inner) as Arc<dyn SlowWork>)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.stop()
    }
}

impl SlowWork for Inner {
    /// The work after each settle and from time to time: writes, and syncs if a client or thread waits for it. Returns
    /// when to call it again if nothing else happens.
    fn work(&self) -> Option<Duration> {
        self.write();
        if self.hurries() {
            self.write_and_sync();
        }
        self.tell_health();
        let mut state = self.state.lock();
        // Bytes of the next file wait until the file before it is synced.
        let waits = state.segments.len() > 1 && state.segments.front().is_some_and(Segment::is_written);
        if waits && !self.is_anybody_waiting(&state) && state.sync_began.is_none() {
            state.is_sync_due = true;
            self.sync_wanted.notify_all();
        }
        (state.retry_at.is_some() && state.unwritten() > 0).then_some(self.retry_every)
    }

    fn hurries(&self) -> bool {
        self.is_anybody_waiting(&self.state.lock())
    }

    fn is_behind(&self) -> bool {
        self.state.lock().unwritten() > 0
    }

    fn note_late(&self, is_late: bool) {
        (self.on_round)(self.written.load(Ordering::Acquire), is_late);
    }
}

impl Aof {
    /// The sink for a command log. [`Aof::attach`] makes one and attaches it.
    pub fn sink(self: &Arc<Self>) -> Box<dyn Sink> {
        Box::new(AofSink(Arc::clone(self)))
    }

    /// Attaches this log to a command log; the conditions are those of [`CommandLog::attach`]. The command log's last
    /// LSN must be the one that this log was made with. Finishing the sink ([`Sink::finish`]) stops this log.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn attach(self: &Arc<Self>, log: &Arc<CommandLog>) -> io::Result<SinkId> {
        let weak = Arc::downgrade(log);
        let wake = move || {
            if let Some(log) = weak.upgrade() {
                log.wake();
            }
        };
        self.inner.state.lock().waker = Some(Arc::new(wake));
        log.attach(self.sink())
    }

    /// Does the work of the command log's thread after each settle: writes, and makes due syncs. For callers without
    /// such a thread. Returns when to call it again if nothing else happens.
    pub fn work(&self) -> Option<Duration> {
        self.inner.work()
    }
}

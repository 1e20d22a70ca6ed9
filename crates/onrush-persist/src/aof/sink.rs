//! How the log gets the records of the command log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Aof;
use super::writer::Inner;
use crate::effects::Record;
use crate::log::{CommandLog, Sink, SinkId, SlowWork};

/// Brings records into the buffer. What may take long, the command log's thread does with no lock of the command log held.
struct AofSink(Arc<Aof>);

impl Sink for AofSink {
    fn record(&mut self, record: Record<'_>) {
        self.0.inner.record(record);
    }

    fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
        Some(Arc::clone(&self.0.inner) as Arc<dyn SlowWork>)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.stop()
    }
}

impl SlowWork for Inner {
    fn work(&self) -> Option<Duration> {
        Inner::work(self)
    }

    fn hurries(&self) -> bool {
        Inner::hurries(self)
    }
}

impl Aof {
    /// The sink for a command log. [`Aof::attach`] makes one and attaches it.
    pub fn sink(self: &Arc<Self>) -> Box<dyn Sink> {
        Box::new(AofSink(Arc::clone(self)))
    }

    /// Attaches it to a command log, as [`CommandLog::attach`] says; the log's last LSN is the one that this log was made with. Finishing the
    /// sink ([`Sink::finish`]) stops it.
    ///
    /// # Errors
    /// The system has no thread to give.
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

    /// Does now what the command log's thread does after each settle: writes, and syncs what is to be synced. For those who have no such
    /// thread. Returns when to do so again if nothing else happens.
    pub fn work(&self) -> Option<Duration> {
        self.inner.work()
    }
}

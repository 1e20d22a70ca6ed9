//! Where the time goes of a batch that takes more than one read, one slice and one write.

use std::time::{Duration, Instant};

use onrush_engine::observe::slow_batch::BatchTimes;

/// What comes behind a slice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// More of the batch, when it has its turn.
    GoesOn,
    /// More of it, when the client has read its replies.
    HasToBeRead,
    /// Nothing.
    IsExecuted,
}

/// Such a batch, from its first slice until its replies are written.
pub struct Underway {
    started: Instant,
    executing: Duration,
    /// How long its unread replies have kept it from being executed, and since when they do.
    stalled: Duration,
    stalled_since: Option<Instant>,
    /// When its last command was executed.
    executed: Option<Instant>,
    commands: u64,
    bytes: u64,
}

impl Underway {
    /// A batch that began at this time, with this much execution since then.
    pub fn new(started: Instant, executing: Duration) -> Self {
        Self { started, executing, stalled: Duration::ZERO, stalled_since: None, executed: None, commands: 0, bytes: 0 }
    }

    /// A slice of it was executed from `first` to `last`.
    pub fn add_slice(&mut self, first: Instant, last: Instant) {
        if let Some(since) = self.stalled_since.take() {
            self.stalled += first - since;
        }
        self.executing += last - first;
    }

    /// The slice has executed this many commands, of this many bytes.
    pub fn add(&mut self, commands: u32, bytes: usize, then: Then) {
        self.commands += u64::from(commands);
        self.bytes += bytes as u64;
        let now = Instant::now();
        self.executed = (then == Then::IsExecuted).then_some(now);
        self.stalled_since = (then == Then::HasToBeRead).then_some(now);
    }

    /// Its replies are written.
    pub fn end(&self) -> BatchTimes {
        let now = Instant::now();
        let executed = self.executed.unwrap_or(now);
        BatchTimes {
            waiting: (executed - self.started).saturating_sub(self.executing + self.stalled),
            executing: self.executing,
            syncing: Duration::ZERO,
            flushing: self.stalled + (now - executed),
            commands: self.commands,
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_is_accounted_for() {
        let ms = Duration::from_millis;
        let started = Instant::now() - ms(500);
        let mut batch = Underway::new(started, ms(100));
        batch.add(7, 70, Then::HasToBeRead);
        batch.stalled_since = Some(started + ms(200));
        batch.add_slice(started + ms(300), started + ms(350));
        batch.add(3, 30, Then::IsExecuted);
        batch.executed = Some(started + ms(450));
        let times = batch.end();
        assert_eq!((times.commands, times.bytes), (10, 100));
        assert_eq!((times.executing, times.waiting), (ms(150), ms(200)));
        assert!(times.flushing >= ms(150), "{times:?}");
        assert!(times.total() >= ms(500) && times.total() <= started.elapsed());
    }
}

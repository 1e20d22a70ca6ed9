//! The batch of a connection: what was executed and is not written, counted or published yet.

use std::time::{Duration, Instant};

use onrush_engine::batch::slice::{SliceEnd, SliceResult};
use onrush_engine::observe::slow_batch::BatchTimes;
use onrush_engine::observe::stats::ThreadStats;

use crate::net::underway::{Then, Underway};

/// See the module's text.
#[derive(Default)]
pub(super) struct Batch {
    /// Commands executed of a read that has more.
    commands: u32,
    /// Commands of reads that were executed and are not published.
    pub(super) unpublished_commands: u32,
    /// Time of the last slice in Unix milliseconds, until it is published.
    pub(super) unpublished_ms: Option<i64>,
    /// Commands whose replies are not all written.
    pub(super) unwritten_replies: u32,
    /// Commands and bytes of the last slice.
    slice: (u32, usize),
    /// Where its time goes, if it takes more than a slice or than a write.
    underway: Option<Box<Underway>>,
}

impl Batch {
    /// A slice of it was executed; `is_used_up`: nothing of what was read is left.
    #[inline]
    pub(super) fn note_slice(&mut self, result: &SliceResult, is_used_up: bool, stats: &ThreadStats) {
        self.commands += result.commands;
        self.unwritten_replies += result.commands;
        if is_used_up && self.commands > 0 {
            stats.pipeline.note_read(self.commands);
            self.unpublished_commands += std::mem::take(&mut self.commands);
        }
        self.unpublished_ms = Some(result.ended_ms);
    }

    /// It waits because a command asked for it: that is not slowness.
    pub(super) fn note_wait(&mut self) {
        self.underway = None;
    }

    /// Notes where the time of a slice has gone; `is_used_up` as above.
    pub(super) fn time_slice(&mut self, result: &SliceResult, is_used_up: bool) {
        self.slice = (result.commands, result.consumed);
        if result.end == SliceEnd::ReplyLimit && self.underway.is_none() {
            // The batch goes on when these replies are written, even if that is at once.
            self.underway = Some(Box::new(Underway::new(Instant::now(), Duration::ZERO)));
        }
        // A batch that is executed and written at once is not worth a look at the clock.
        let Some(underway) = &mut self.underway else { return };
        let then = match result.end {
            SliceEnd::ReplyLimit => Then::HasToBeRead,
            _ if is_used_up => Then::IsExecuted,
            _ => Then::GoesOn,
        };
        underway.add(result.commands, result.consumed, then);
    }

    /// Whether it takes more than a slice or than a write.
    #[inline]
    pub(super) fn is_underway(&self) -> bool {
        self.underway.is_some()
    }

    /// A slice took from `first` to `last`; `was_underway`: before it, the batch had taken long already.
    pub(super) fn note_span(&mut self, first: Instant, last: Instant, was_underway: bool, end: &SliceEnd) {
        if let Some(underway) = &mut self.underway {
            if was_underway {
                underway.add_slice(first, last);
            }
        } else if *end != SliceEnd::InputUsedUp {
            self.underway = Some(Box::new(Underway::new(first, last - first)));
        }
    }

    /// It took long to execute.
    pub(super) fn note_slow(&mut self, times: &BatchTimes) {
        if self.underway.is_none() {
            let since = times.waiting + times.executing;
            let started = Instant::now().checked_sub(since).unwrap_or_else(Instant::now);
            self.underway = Some(Box::new(Underway::new(started, times.executing)));
        }
    }

    /// All of it was executed, and replies are left to be written: from now on it takes long.
    pub(super) fn note_unwritten(&mut self) {
        if self.underway.is_none() && self.unwritten_replies > 0 {
            let (commands, bytes) = self.slice;
            let mut underway = Box::new(Underway::new(Instant::now(), Duration::ZERO));
            underway.add(commands, bytes, Then::IsExecuted);
            self.underway = Some(underway);
        }
    }

    /// Its replies are written; returns where its time went, if it took long. `last`: its last slice, if that was not
    /// noted.
    #[inline]
    pub(super) fn end(&mut self, last: Option<&SliceResult>) -> Option<BatchTimes> {
        let mut underway = self.underway.take()?;
        std::hint::cold_path();
        if let Some(last) = last {
            underway.add(last.commands, last.consumed, Then::IsExecuted);
        }
        Some(underway.end())
    }
}

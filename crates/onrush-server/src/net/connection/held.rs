//! Replies that wait until the changes they report are on disk.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::sync::atomic::Ordering::Acquire;

use onrush_engine::clients::durability::{Durability, Level};

use super::Connection;

/// The place in the stream of replies up to which they may be written, and the later places that wait.
#[derive(Default)]
pub(super) struct Held {
    /// Bytes written since this was made.
    pub(super) written: u64,
    /// Bytes that may have been written by now.
    allowed: u64,
    /// Ends of replies that wait, each with the LSN that has to be durable or written; both ascending.
    marks: VecDeque<Mark>,
}

struct Mark {
    end: u64,
    level: Level,
    lsn: u64,
}

impl Connection {
    /// How many bytes of replies may be written now.
    #[inline]
    pub(super) fn writable_bytes(&mut self) -> usize {
        if self.held.is_none() && !self.server.durability.delays(self.session.owed.wish) {
            // What comes next is judged for itself.
            self.session.owed.wish = self.session.durability;
            self.session.owed.has_seen_data = false;
            return usize::MAX;
        }
        cold_path();
        self.look_at_held()
    }

    /// Whether replies wait for the disk.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.allowed == held.written)
    }

    #[inline(never)]
    fn look_at_held(&mut self) -> usize {
        let durability = &self.server.durability;
        if durability.is_silent() {
            return 0;
        }
        let held = self.held.get_or_insert_default();
        let end = held.written + self.reply.len() as u64;
        let last_end = held.marks.back().map_or(held.allowed, |mark| mark.end);
        if end > last_end {
            let session = &mut self.session;
            let wish = std::mem::replace(&mut session.owed.wish, session.durability);
            let has_seen_data = std::mem::take(&mut session.owed.has_seen_data);
            let (level, lsn) = match durability.holds(wish) {
                // All changes that the replies report have been logged by now.
                true if has_seen_data => (Level::Durable, self.server.log.last_lsn()),
                false if durability.delays(wish) => (Level::Written, session.owed.changed_lsn),
                _ => (Level::Written, 0),
            };
            match held.marks.back_mut() {
                Some(mark) if mark.lsn >= lsn && mark.level >= level => mark.end = end,
                _ => held.marks.push_back(Mark { end, level, lsn }),
            }
        }
        held.release(durability);
        while !self.session.handle.waits_for_log.load(Acquire)
            && let Some(mark) = held.marks.front()
        {
            if durability.has_given_up(mark.lsn) {
                tracing::warn!(
                    "Closing client id={} addr={}: the log has ended before its writes were on the disk",
                    self.session.handle.id,
                    self.session.handle.addr
                );
                self.session.handle.kill();
                return 0;
            }
            if !durability.wake_at(mark.level, mark.lsn, &self.session.handle) {
                held.release(durability);
            }
        }
        let writable = (held.allowed - held.written) as usize;
        if held.marks.is_empty() && writable == self.reply.len() && writable == 0 {
            self.held = None;
        }
        writable
    }

    /// Notes that bytes of replies were written.
    #[inline]
    pub(super) fn note_written(&mut self, len: usize) {
        if let Some(held) = &mut self.held {
            cold_path();
            held.written += len as u64;
            if held.marks.is_empty() && held.written == held.allowed {
                self.held = None;
            }
        }
    }
}

impl Held {
    fn release(&mut self, durability: &Durability) {
        while let Some(mark) = self.marks.front()
            && durability.has(mark.level, mark.lsn)
        {
            self.allowed = mark.end;
            self.marks.pop_front();
        }
    }
}

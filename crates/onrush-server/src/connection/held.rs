//! Replies that wait until the changes they report are on disk.

use std::collections::VecDeque;
use std::hint::cold_path;

use super::Connection;

/// The place in the stream of replies up to which they may be written, and the later places that wait.
#[derive(Default)]
pub(super) struct Held {
    /// Bytes written since this was made.
    pub(super) written: u64,
    /// Bytes that may have been written by now.
    allowed: u64,
    /// Ends of replies that wait, each with the LSN that has to be durable; both ascending.
    marks: VecDeque<Mark>,
    /// Whether the connection is registered to be woken when the first of these LSNs is durable.
    is_known: bool,
}

struct Mark {
    end: u64,
    lsn: u64,
}

impl Connection {
    /// How many bytes of replies may be written now.
    #[inline]
    pub(super) fn writable_bytes(&mut self) -> usize {
        if self.held.is_none() && !self.server.durability.holds(self.session.durability) {
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
        let held = self.held.get_or_insert_default();
        let end = held.written + self.reply.len() as u64;
        let durable = durability.durable_lsn();
        let last_end = held.marks.back().map_or(held.allowed, |mark| mark.end);
        if end > last_end {
            // All changes that the replies report have been logged by now.
            let lsn = if durability.holds(self.session.durability) { self.server.log.last_lsn() } else { 0 };
            match held.marks.back_mut() {
                Some(mark) if mark.lsn >= lsn => mark.end = end,
                _ => held.marks.push_back(Mark { end, lsn }),
            }
        }
        held.release(durable);
        while !held.is_known
            && let Some(mark) = held.marks.front()
        {
            held.is_known = durability.wake_at(mark.lsn, &self.session.handle);
            if !held.is_known {
                held.release(durability.durable_lsn());
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
    fn release(&mut self, durable: u64) {
        while let Some(mark) = self.marks.front()
            && mark.lsn <= durable
        {
            self.allowed = mark.end;
            self.is_known = false;
            self.marks.pop_front();
        }
    }
}

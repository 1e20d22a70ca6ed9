//! What the commands of a chunk cost their slots, until the chunk is counted.
//!
//! The clock is read once for a chunk: its short commands share its time evenly, as they do in their own counters.
//! Commands that are not short are timed by themselves or in rows; those of a row share its time.

use crate::ctx::Ctx;
use crate::observe::slots::SlotUsage;
use crate::observe::stats::ThreadStats;

/// Commands of a row that are remembered by slot; what is timed together is shorter.
const ROW_LEN_MAX: usize = 64;

/// What commands of one slot that follow each other have brought and sent.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    slot: u16,
    /// Short commands.
    short: u64,
    bytes_in: u64,
    bytes_out: u64,
    /// Bytes that each replica is sent.
    bytes_replicated: u64,
    /// Time of commands that are not short.
    nanos: u64,
}

/// Bytes of a command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bytes {
    /// Of the command itself.
    pub(crate) sent: u64,
    /// Of its reply.
    pub(crate) replied: u64,
    /// Of what it leaves in the log.
    pub(crate) recorded: u64,
}

impl Bytes {
    /// Before a command is executed: how many there are so far of those that it adds to.
    pub(crate) fn before(ctx: &Ctx<'_>) -> Self {
        Self { sent: 0, replied: ctx.out.len() as u64, recorded: ctx.commit.recorded_bytes() }
    }

    /// Those of the command that was executed since; it has `sent` so many. The client of a log gets no reply.
    pub(crate) fn since(self, ctx: &Ctx<'_>, sent: u64) -> Self {
        let now = Self::before(ctx);
        let replied = if ctx.session.is_replay { 0 } else { now.replied.saturating_sub(self.replied) };
        Self { sent, replied, recorded: now.recorded - self.recorded }
    }
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct SlotNotes {
    notes: Vec<Note>,
    /// Short commands of the chunk, those without a slot as well.
    short: u64,
    /// Indexes of the notes of commands that are timed together with the next one.
    row: Vec<Option<usize>>,
}

impl SlotNotes {
    /// Notes commands of a slot: only their bytes.
    pub(crate) fn add(&mut self, slot: u16, bytes: Bytes) {
        self.note(slot, 0, bytes);
    }

    /// Notes short commands; `None`: they are of no slot.
    #[inline]
    pub(crate) fn add_short(&mut self, slot: Option<u16>, times: u64, bytes: Bytes) {
        self.short += times;
        if let Some(slot) = slot {
            self.note(slot, times, bytes);
        }
    }

    /// Notes a command that is not short; `took_ns`: the time of the row that ends with it, 0 if that goes on.
    pub(crate) fn add_long(&mut self, slot: Option<u16>, bytes: Bytes, took_ns: u64) {
        let note = slot.map(|slot| self.note(slot, 0, bytes));
        if self.row.len() < ROW_LEN_MAX {
            self.row.push(note);
        }
        self.end_row(took_ns);
    }

    /// Ends a row of commands that took so long together; 0: it goes on.
    pub(crate) fn end_row(&mut self, took_ns: u64) {
        if took_ns == 0 || self.row.is_empty() {
            return;
        }
        let each_ns = took_ns / self.row.len() as u64;
        for index in self.row.drain(..).flatten() {
            self.notes[index].nanos += each_ns;
        }
    }

    fn note(&mut self, slot: u16, short: u64, bytes: Bytes) -> usize {
        if self.notes.last().is_none_or(|last| last.slot != slot) {
            self.notes.push(Note { slot, short: 0, bytes_in: 0, bytes_out: 0, bytes_replicated: 0, nanos: 0 });
        }
        let index = self.notes.len() - 1;
        let note = &mut self.notes[index];
        note.short += short;
        note.bytes_in += bytes.sent;
        note.bytes_out += bytes.replied;
        note.bytes_replicated += bytes.recorded;
        index
    }

    /// Counts what was noted; `short_ns` is the time of the short commands. `replicas` tells how many replicas there are.
    #[cold]
    pub(crate) fn count(&mut self, stats: &ThreadStats, short_ns: u64, replicas: impl FnOnce() -> u64) {
        let each_ns = short_ns / self.short.max(1);
        let replicas = if self.notes.iter().any(|note| note.bytes_replicated > 0) { replicas() } else { 0 };
        for note in self.notes.drain(..) {
            let nanos = note.nanos + note.short * each_ns;
            let bytes_out = note.bytes_out + note.bytes_replicated * replicas;
            stats.slots.add(note.slot, SlotUsage { nanos, bytes_in: note.bytes_in, bytes_out });
        }
        self.row.clear();
        self.short = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::stats::Stats;

    fn bytes(sent: u64, replied: u64) -> Bytes {
        Bytes { sent, replied, recorded: 0 }
    }

    #[test]
    fn short_commands_share_the_time_of_their_chunk_and_others_that_of_their_row() {
        let stats = Stats::new(1, 0);
        let mut notes = SlotNotes::default();
        notes.add_short(Some(1), 3, bytes(30, 15));
        notes.add_short(None, 1, bytes(6, 7));
        notes.add_short(Some(2), 1, bytes(10, 5));
        notes.add_long(Some(2), bytes(100, 50), 0);
        notes.add_long(Some(1), bytes(100, 50), 0);
        notes.add_long(None, bytes(1, 1), 3_000);
        notes.add_long(Some(3), bytes(7, 7), 400);
        notes.add(3, Bytes { sent: 1, replied: 0, recorded: 11 });
        notes.count(&stats.threads[0], 500, || 2);
        let of = |slot| stats.slot(slot);
        assert_eq!(of(1), SlotUsage { nanos: 300 + 1_000, bytes_in: 130, bytes_out: 65 });
        assert_eq!(of(2), SlotUsage { nanos: 100 + 1_000, bytes_in: 110, bytes_out: 55 });
        assert_eq!(of(3), SlotUsage { nanos: 400, bytes_in: 8, bytes_out: 29 });
        notes.count(&stats.threads[0], 500, || 2);
        assert_eq!(of(3), SlotUsage { nanos: 400, bytes_in: 8, bytes_out: 29 });
    }
}

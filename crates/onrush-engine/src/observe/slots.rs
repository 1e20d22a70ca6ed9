//! What the commands of each slot have cost.
//!
//! Each thread that counts has a table of its own, so that counting never contends; CLUSTER SLOT-STATS adds them up.

use std::sync::OnceLock;

use onrush_cluster::slots::SLOTS;

use crate::observe::stats::Counter;

/// Sums of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUsage {
    /// Nanoseconds that its commands took.
    pub nanos: u64,
    /// Bytes of its commands.
    pub bytes_in: u64,
    /// Bytes of their replies, of messages on its channels, and of what replicas were sent of its changes.
    pub bytes_out: u64,
}

#[derive(Default)]
struct Row {
    nanos: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
}

/// The counts of one thread, by slot. It takes 384 KB once something was counted.
#[derive(Default)]
pub(crate) struct SlotTable(OnceLock<Box<[Row]>>);

impl SlotTable {
    /// Adds to the sums of a slot. Only the owning thread may call this.
    pub(crate) fn add(&self, slot: u16, usage: SlotUsage) {
        let rows = self.0.get_or_init(|| (0..SLOTS).map(|_| Row::default()).collect());
        let Some(row) = rows.get(usize::from(slot)) else { return };
        row.nanos.add(usage.nanos);
        row.bytes_in.add(usage.bytes_in);
        row.bytes_out.add(usage.bytes_out);
    }

    /// The sums of a slot.
    pub(crate) fn of(&self, slot: u16) -> SlotUsage {
        let Some(row) = self.row(slot) else { return SlotUsage::default() };
        SlotUsage { nanos: row.nanos.get(), bytes_in: row.bytes_in.get(), bytes_out: row.bytes_out.get() }
    }

    /// Forgets the sums of a slot; a concurrent addition may undo this.
    pub(crate) fn forget(&self, slot: u16) {
        if let Some(row) = self.row(slot) {
            row.nanos.reset();
            row.bytes_in.reset();
            row.bytes_out.reset();
        }
    }

    /// Forgets all sums, likewise.
    pub(crate) fn reset(&self) {
        (0..SLOTS).for_each(|slot| self.forget(slot));
    }

    fn row(&self, slot: u16) -> Option<&Row> {
        self.0.get()?.get(usize::from(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::stats::Stats;

    #[test]
    fn the_tables_of_all_threads_are_added_up_and_forgotten_together() {
        let stats = Stats::new(3, 0);
        assert_eq!(stats.slot(5), SlotUsage::default());
        let usage = SlotUsage { nanos: 1_500, bytes_in: 27, bytes_out: 5 };
        for (thread, slot) in [(0, 5), (2, 5), (2, 16_383), (2, 16_384)] {
            stats.threads[thread].slots.add(slot, usage);
        }
        assert_eq!(stats.slot(5), SlotUsage { nanos: 3_000, bytes_in: 54, bytes_out: 10 });
        stats.forget_slot(5);
        assert_eq!([5, 16_383].map(|slot| stats.slot(slot)), [SlotUsage::default(), usage]);
        stats.reset();
        assert_eq!(stats.slot(16_383), SlotUsage::default());
    }
}

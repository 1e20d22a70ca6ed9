//! How clients pipeline: how many commands a read brings, how many replies a write sends, and how many round trips that
//! saves.
//!
//! All counters have one writer. A connection whose replies go out with one write right after the commands of one read, as most
//! do, counts as an *exchange*: one addition for both.

use std::fmt::Write;

use crate::observe::stats::Counter;

/// Buckets of [`Sizes`]: the last one is for all sizes from `2^23` on.
const SIZES_LEN: usize = 24;

/// How often something had each size, by powers of two.
#[derive(Default)]
pub struct Sizes([Counter; SIZES_LEN]);

impl Sizes {
    /// Counts a size, which is not 0. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, size: u32) {
        self.0[((size | 1).ilog2() as usize).min(SIZES_LEN - 1)].add(1);
    }

    fn reset(&self) {
        self.0.iter().for_each(Counter::reset);
    }
}

/// What one thread counts.
#[derive(Default)]
pub struct PipelineStats {
    /// Commands of a read whose replies went out with one write.
    exchanges: Sizes,
    /// Commands of other reads.
    reads: Sizes,
    /// Replies of other writes.
    writes: Sizes,
    /// Commands executed.
    commands: Counter,
    /// Times that a connection had to give way to others, with commands or replies left.
    pub gave_way: Counter,
    /// Times that a connection's next command had to wait for a long command.
    pub held_back: Counter,
    /// Most bytes of commands that waited in a connection's query buffer.
    query_bytes_max: Counter,
    /// Most bytes of replies that a connection had to write.
    reply_bytes_max: Counter,
}

impl PipelineStats {
    /// Counts a read with this many commands whose replies were all written at once.
    #[inline]
    pub fn note_exchange(&self, commands: u32, reply_bytes: usize) {
        self.exchanges.add(commands);
        self.commands.add(commands.into());
        self.note_reply_bytes(reply_bytes as u64);
    }

    /// Counts a read with this many commands.
    pub fn note_read(&self, commands: u32) {
        self.reads.add(commands);
        self.commands.add(commands.into());
    }

    /// Counts a write that ended with the last of this many replies.
    pub fn note_write(&self, replies: u32) {
        self.writes.add(replies);
    }

    /// A connection has so many bytes of replies to write.
    #[inline]
    pub fn note_reply_bytes(&self, bytes: u64) {
        self.reply_bytes_max.raise(bytes);
    }

    /// A connection has so many bytes of commands that wait.
    pub fn note_query_bytes(&self, bytes: u64) {
        self.query_bytes_max.raise(bytes);
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&self) {
        self.exchanges.reset();
        self.reads.reset();
        self.writes.reset();
        let counters = [&self.commands, &self.gave_way, &self.held_back, &self.query_bytes_max, &self.reply_bytes_max];
        counters.iter().for_each(|counter| counter.reset());
    }
}

/// What all threads have counted.
#[derive(Default)]
pub struct Summary {
    reads: [u64; SIZES_LEN],
    writes: [u64; SIZES_LEN],
    /// Commands executed.
    pub commands: u64,
    /// See [`PipelineStats::gave_way`].
    pub gave_way: u64,
    /// See [`PipelineStats::held_back`].
    pub held_back: u64,
    /// Most bytes of commands that waited in a connection's query buffer.
    pub query_bytes_max: u64,
    /// Most bytes of replies that a connection had to write.
    pub reply_bytes_max: u64,
}

impl Summary {
    /// The sum over threads.
    pub fn of<'s>(threads: impl Iterator<Item = &'s PipelineStats>) -> Self {
        let mut sum = Self::default();
        for thread in threads {
            let sizes = [(&thread.exchanges, true, true), (&thread.reads, true, false), (&thread.writes, false, true)];
            for (sizes, are_reads, are_writes) in sizes {
                for (at, count) in sizes.0.iter().enumerate() {
                    sum.reads[at] += if are_reads { count.get() } else { 0 };
                    sum.writes[at] += if are_writes { count.get() } else { 0 };
                }
            }
            sum.commands += thread.commands.get();
            sum.gave_way += thread.gave_way.get();
            sum.held_back += thread.held_back.get();
            sum.query_bytes_max = sum.query_bytes_max.max(thread.query_bytes_max.get());
            sum.reply_bytes_max = sum.reply_bytes_max.max(thread.reply_bytes_max.get());
        }
        sum
    }

    /// Reads that brought commands.
    pub fn batches(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// Commands of a read, on average.
    pub(crate) fn mean_depth(&self) -> f64 {
        mean_depth(self.commands, self.batches())
    }

    /// How many reads brought one command, two or three, four to seven, and so on.
    pub(crate) fn reads(&self) -> &[u64] {
        &self.reads
    }

    /// How many writes took so many replies, likewise.
    pub(crate) fn writes(&self) -> &[u64] {
        &self.writes
    }

    /// Saved round trips: all commands of a read but the first needed none.
    pub(crate) fn round_trips_saved(&self) -> u64 {
        self.commands.saturating_sub(self.batches())
    }

    /// How many reads brought how many commands: `1=5,2=7,4=1`, where 4 stands for 4 to 7.
    pub(crate) fn commands_per_read(&self) -> String {
        tell(&self.reads)
    }

    /// How many writes took how many replies, likewise.
    pub(crate) fn replies_per_write(&self) -> String {
        tell(&self.writes)
    }
}

/// Commands of a batch on average; 0 if there was none.
pub(crate) fn mean_depth(commands: u64, batches: u64) -> f64 {
    commands as f64 / batches.max(1) as f64
}

fn tell(sizes: &[u64; SIZES_LEN]) -> String {
    let mut text = String::new();
    for (bits, count) in sizes.iter().enumerate().filter(|(_, count)| **count > 0) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a `String` does not fail.
        let _ = write!(text, "{comma}{}={count}", 1u64 << bits);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_by_powers_of_two() {
        let stats = [PipelineStats::default(), PipelineStats::default()];
        for commands in [1, 1, 2, 3, 4, 7, 8, u32::MAX] {
            stats[0].note_exchange(commands, 10);
        }
        stats[1].note_read(100);
        stats[1].note_write(30);
        stats[1].note_write(70);
        stats[1].note_reply_bytes(5);
        let sum = Summary::of(stats.iter());
        assert_eq!(sum.commands_per_read(), "1=2,2=2,4=2,8=1,64=1,8388608=1");
        assert_eq!(sum.replies_per_write(), "1=2,2=2,4=2,8=1,16=1,64=1,8388608=1");
        assert_eq!((sum.batches(), sum.reply_bytes_max), (9, 10));
        assert_eq!(sum.round_trips_saved(), 1 + 2 + 3 + 6 + 7 + 99 + u64::from(u32::MAX) - 1);
        stats.iter().for_each(PipelineStats::reset);
        assert_eq!(Summary::of(stats.iter()).commands_per_read(), "");
    }
}

//! Counters, one set for each thread so that counting never contends; INFO adds them up.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::observe::histogram::{Distribution, Histogram};
use crate::observe::pipeline::{PipelineStats, Summary};
use crate::observe::slots::{SlotTable, SlotUsage};

/// A counter with one writer and any number of readers: adding is a plain load and store.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Raises it to `n` if it is less. Only the owning thread may call this.
    #[inline]
    pub fn raise(&self, n: u64) {
        if self.0.load(Relaxed) < n {
            self.0.store(n, Relaxed);
        }
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Resets it to zero; a concurrent addition may undo this.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Which command a thread executes, for the watchdog: one plain store per command.
pub struct Executing(AtomicU32);

impl Default for Executing {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl Executing {
    /// Notes the number of a command.
    #[inline(always)]
    pub fn note(&self, command: u16) {
        self.0.store(command.into(), Relaxed);
    }

    /// Notes that no command is executed now.
    #[inline]
    pub fn clear(&self) {
        self.0.store(u32::MAX, Relaxed);
    }

    /// The number noted last; `None` if there is none now.
    pub fn last(&self) -> Option<u16> {
        u16::try_from(self.0.load(Relaxed)).ok()
    }
}

/// The counters of one command, for INFO's commandstats.
#[derive(Default)]
pub(crate) struct CommandCounters {
    /// Times executed.
    pub calls: Counter,
    /// Nanoseconds spent executing.
    pub nanos: Counter,
    /// Times refused before execution.
    pub rejected: Counter,
    /// Times execution ended in an error.
    pub failed: Counter,
    /// The histogram of single executions, once there was one.
    latency: OnceLock<Box<Histogram>>,
}

impl CommandCounters {
    /// Counts executions and their total time in nanoseconds. `tracks`: the time of each goes into the histogram.
    #[inline]
    pub(crate) fn count(&self, calls: u64, nanos: u64, tracks: bool) {
        self.calls.add(calls);
        self.nanos.add(nanos);
        if tracks && calls > 0 {
            self.track(nanos / calls, calls);
        }
    }

    #[inline]
    fn track(&self, nanos: u64, calls: u64) {
        self.latency.get_or_init(Histogram::new).add(nanos, calls);
    }

    /// The histogram of its times, if there is one.
    pub(crate) fn latency(&self) -> Option<&Histogram> {
        self.latency.get().map(|histogram| &**histogram)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one thread.
        #[derive(Default)]
        #[repr(align(128))]
        pub struct ThreadStats {
            $($(#[$doc])* pub $name: Counter,)*
            /// Changes to the keyspace, of all time: CONFIG RESETSTAT leaves it alone.
            pub changes: Counter,
            /// The thread's CPU time that `cpu_nanos` has taken in, of all time.
            cpu_noted_nanos: Counter,
            /// The clock of the thread's CPU time; 0 is none.
            cpu_clock: AtomicI32,
            /// The command that runs, or ran last.
            pub executing: Executing,
            /// How its connections pipeline.
            pub pipeline: PipelineStats,
            /// By slot.
            pub(crate) slots: SlotTable,
            /// By command id.
            pub(crate) commands: Box<[CommandCounters]>,
        }

        impl ThreadStats {
            fn new(commands_len: usize) -> Self {
                let commands = (0..commands_len).map(|_| CommandCounters::default()).collect();
                Self { commands, ..Self::default() }
            }

            fn reset(&self) {
                $(self.$name.reset();)*
                self.pipeline.reset();
                self.slots.reset();
                for command in &self.commands {
                    command.calls.reset();
                    command.nanos.reset();
                    command.rejected.reset();
                    command.failed.reset();
                    command.latency().inspect(|histogram| histogram.reset());
                }
            }
        }
    };
}

counters! {
    /// Commands executed.
    commands_processed,
    /// Bytes read from clients.
    net_input_bytes,
    /// Bytes written to clients.
    net_output_bytes,
    /// Read system calls that brought bytes.
    reads_processed,
    /// Write system calls.
    writes_processed,
    /// Lookups by read commands that found their key.
    keyspace_hits,
    /// Lookups by read commands that did not.
    keyspace_misses,
    /// Fields of hashes deleted because their time had come.
    expired_subkeys,
    /// Keys deleted because their time had come.
    expired_keys,
    /// Keys deleted because too much memory was in use.
    evicted_keys,
    /// Error replies.
    error_replies,
    /// Connections closed because their query buffer passed its limit.
    query_buffer_limit_disconnections,
    /// Connections closed because they left more unread than `client-output-buffer-limit` allows.
    output_buffer_limit_disconnections,
    /// Times a connection's execution was held back because its replies were not read.
    reply_limit_pauses,
    /// Protocol errors.
    protocol_errors,
    /// Rounds of a worker.
    rounds,
    /// Nanoseconds of CPU time, as of the last [`ThreadStats::note_cpu_time`].
    cpu_nanos,
    /// Nanoseconds spent executing commands.
    commands_nanos,
}

impl ThreadStats {
    /// Lets other threads read the calling thread's CPU time through this clock of the system. Call this when the
    /// thread starts.
    pub fn show_cpu_clock(&self, clock: Option<i32>) {
        self.cpu_clock.store(clock.unwrap_or(0), Relaxed);
    }

    /// The system's clock of the thread's CPU time, if it shows one.
    pub fn cpu_clock(&self) -> Option<i32> {
        Some(self.cpu_clock.load(Relaxed)).filter(|&clock| clock != 0)
    }

    /// Brings `cpu_nanos` up to date: the thread has used so much CPU time so far. Only the owning thread may call this.
    pub fn note_cpu_time(&self, nanos: u64) {
        self.cpu_nanos.add(nanos.saturating_sub(self.cpu_noted_nanos.get()));
        self.cpu_noted_nanos.0.store(nanos, Relaxed);
    }
}

/// Rates, from samples taken by the maintenance thread.
#[derive(Default, Clone, Copy)]
pub struct Samples {
    /// Commands per second.
    pub ops_per_s: u64,
    /// Bytes read per second.
    pub input_bytes_per_s: u64,
    /// Bytes written per second.
    pub output_bytes_per_s: u64,
    /// Bytes read from the primary per second.
    pub primary_bytes_per_s: u64,
    /// Bytes written to replicas per second.
    pub replicas_bytes_per_s: u64,
    /// Rounds of all workers per second.
    pub rounds_per_s: u64,
    /// What a round took, in microseconds.
    pub round_us: u64,
    /// Estimated share of keys with an expiry that are past it, in percent.
    pub expired_stale_perc: f64,
}

/// Counters of all threads, and shared counters of rare events.
#[derive(Default)]
pub struct Stats {
    /// By thread number.
    pub threads: Box<[ThreadStats]>,
    /// Connections accepted.
    pub connections_received: AtomicU64,
    /// Connections refused because of `maxclients`.
    pub connections_rejected: AtomicU64,
    /// Times a full pass of active expiry ran out of its time.
    pub expire_time_capped: AtomicU64,
    /// Microseconds spent in active expiry.
    pub expire_cycle_us: AtomicU64,
    /// Rates from the samples taken every 100 ms.
    pub samples: Mutex<Samples>,
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
}

/// Distinct error codes in INFO; more are counted together.
pub(crate) const ERROR_CODES_MAX: usize = 128;

impl Stats {
    /// Zeroed counters for `threads` threads and `commands` commands.
    pub fn new(threads: usize, commands: usize) -> Self {
        Self { threads: (0..threads).map(|_| ThreadStats::new(commands)).collect(), ..Self::default() }
    }

    /// The sum of one counter over all threads.
    pub fn sum(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        self.threads.iter().map(|thread| counter(thread).get()).sum()
    }

    /// How connections pipeline, on all threads.
    pub fn pipelining(&self) -> Summary {
        Summary::of(self.threads.iter().map(|thread| &thread.pipeline))
    }

    /// The times of a command, on all threads.
    pub fn latency(&self, command: u16) -> Distribution {
        Distribution::of(self.threads.iter().filter_map(|thread| thread.commands[command as usize].latency()))
    }

    /// What the commands of a slot have cost on all threads. O(threads).
    pub fn slot(&self, slot: u16) -> SlotUsage {
        self.threads.iter().map(|thread| thread.slots.of(slot)).fold(SlotUsage::default(), |sum, usage| SlotUsage {
            nanos: sum.nanos + usage.nanos,
            bytes_in: sum.bytes_in + usage.bytes_in,
            bytes_out: sum.bytes_out + usage.bytes_out,
        })
    }

    /// Forgets what the commands of a slot have cost. No thread may be inside of the gate. O(threads).
    pub(crate) fn forget_slot(&self, slot: u16) {
        self.threads.iter().for_each(|thread| thread.slots.forget(slot));
    }

    /// Changes to the keyspace so far.
    pub fn changes(&self) -> u64 {
        self.sum(|thread| &thread.changes)
    }

    /// Counts an error reply under its code.
    pub(crate) fn count_error(&self, code: &[u8]) {
        self.count_errors(code, 1);
    }

    /// Counts error replies with one code.
    pub(crate) fn count_errors(&self, code: &[u8], times: u64) {
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += times;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_vec(), times);
        }
    }

    /// Error codes and how often each was answered.
    pub fn errors(&self) -> Vec<(Vec<u8>, u64)> {
        self.errors.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for thread in &self.threads {
            thread.reset();
        }
        for counter in
            [&self.connections_received, &self.connections_rejected, &self.expire_time_capped, &self.expire_cycle_us]
        {
            counter.store(0, Relaxed);
        }
        self.errors.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_counted_once_and_begins_anew_at_a_reset() {
        let stats = Stats::new(1, 0);
        let thread = &stats.threads[0];
        thread.note_cpu_time(70);
        assert_eq!(thread.cpu_nanos.get(), 70);
        stats.reset();
        thread.note_cpu_time(70);
        assert_eq!(thread.cpu_nanos.get(), 0);
        thread.note_cpu_time(100);
        assert_eq!(thread.cpu_nanos.get(), 30);
    }
}

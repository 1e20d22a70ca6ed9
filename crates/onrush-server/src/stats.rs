//! Counters, one set for each thread so that counting never contends; INFO adds them up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::command::Command;
use crate::os;

/// A counter with one writer and any number of readers: adding is a plain load and store.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Back to zero; an addition at the same moment may win.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Which command a thread executes, for who watches: one plain store for each.
#[derive(Default)]
pub struct Executing(AtomicPtr<Command>);

impl Executing {
    /// Notes it.
    #[inline(always)]
    pub fn note(&self, command: &'static Command) {
        self.0.store(std::ptr::from_ref(command).cast_mut(), Relaxed);
    }

    /// Which of `commands` was noted last.
    pub fn find<'c>(&self, mut commands: impl Iterator<Item = &'c Command>) -> Option<&'c Command> {
        let noted = self.0.load(Relaxed).cast_const();
        commands.find(|command| std::ptr::eq(*command, noted))
    }
}

/// What INFO's commandstats tells of one command.
#[derive(Default)]
pub struct CommandCounters {
    /// Times executed.
    pub calls: Counter,
    /// Nanoseconds spent executing.
    pub nanos: Counter,
    /// Times refused before execution.
    pub rejected: Counter,
    /// Times execution ended in an error.
    pub failed: Counter,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one thread.
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
            /// By command id.
            pub commands: Box<[CommandCounters]>,
        }

        impl ThreadStats {
            fn new(commands_len: usize) -> Self {
                Self {
                    $($name: Counter::default(),)*
                    changes: Counter::default(),
                    cpu_noted_nanos: Counter::default(),
                    cpu_clock: AtomicI32::new(0),
                    executing: Executing::default(),
                    commands: (0..commands_len).map(|_| CommandCounters::default()).collect(),
                }
            }

            fn reset(&self) {
                $(self.$name.reset();)*
                for command in &self.commands {
                    command.calls.reset();
                    command.nanos.reset();
                    command.rejected.reset();
                    command.failed.reset();
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
    /// Keys deleted because their time had come.
    expired_keys,
    /// Keys deleted because too much memory was in use.
    evicted_keys,
    /// Error replies.
    error_replies,
    /// Connections closed because their query buffer passed its limit.
    query_buffer_limit_disconnections,
    /// Times a connection's execution was held back because its replies were not read.
    reply_limit_pauses,
    /// Protocol errors.
    protocol_errors,
    /// Commands refused because the client had not authenticated.
    auth_denied,
    /// Rounds of a worker.
    rounds,
    /// Nanoseconds of CPU time, as of the last [`ThreadStats::note_cpu_time`].
    cpu_nanos,
    /// Nanoseconds spent executing commands.
    commands_nanos,
}

impl ThreadStats {
    /// Lets others read how much CPU time the calling thread uses. To be called at its start.
    pub fn show_cpu_time(&self) {
        self.cpu_clock.store(os::thread_cpu_clock().unwrap_or(0), Relaxed);
    }

    /// CPU time the thread has used so far, in nanoseconds; 0 if it does not show it.
    pub fn cpu_clock_nanos(&self) -> u64 {
        match self.cpu_clock.load(Relaxed) {
            0 => 0,
            clock => os::clock_nanos(clock),
        }
    }

    /// Brings `cpu_nanos` up to date, with a system call. Only the owning thread may call this.
    pub fn note_cpu_time(&self) {
        let nanos = os::thread_cpu_nanos();
        self.cpu_nanos.add(nanos.saturating_sub(self.cpu_noted_nanos.get()));
        self.cpu_noted_nanos.0.store(nanos, Relaxed);
    }
}

/// Counters of all threads, and what is too rare to be worth a set each.
pub struct Stats {
    /// By thread number.
    pub threads: Box<[ThreadStats]>,
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
}

/// Distinct error codes INFO tells apart; more are counted together.
const ERROR_CODES_MAX: usize = 128;

impl Stats {
    /// Zeroed counters for `threads` threads and `commands` commands.
    pub fn new(threads: usize, commands: usize) -> Self {
        Self {
            threads: (0..threads).map(|_| ThreadStats::new(commands)).collect(),
            errors: Mutex::new(BTreeMap::new()),
        }
    }

    /// The sum of one counter over all threads.
    pub fn sum(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        self.threads.iter().map(|thread| counter(thread).get()).sum()
    }

    /// Changes to the keyspace so far.
    pub fn changes(&self) -> u64 {
        self.sum(|thread| &thread.changes)
    }

    /// Counts an error reply under its code.
    pub fn count_error(&self, code: &[u8]) {
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_vec(), 1);
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
        thread.note_cpu_time();
        let first = thread.cpu_nanos.get();
        stats.reset();
        while thread.cpu_nanos.get() == 0 {
            thread.note_cpu_time();
        }
        let all = os::thread_cpu_nanos();
        assert!(first > 0);
        assert!(first + thread.cpu_nanos.get() <= all, "{first} and {} of {all}", thread.cpu_nanos.get());
    }
}

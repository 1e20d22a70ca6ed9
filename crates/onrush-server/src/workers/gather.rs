//! How many workers are in use: as few as hold the load.
//!
//! The commands of connections on one worker form larger batches, and one thread wakes up instead of several. With more
//! workers than free processors the threads and the clients only take time from each other. So connections gather on
//! the first worker, spread to the next when it is busy and a processor is idle, and gather again when fewer workers
//! would do. The maintenance thread decides, from the processor time of the workers and of the machine; workers move
//! connections between rounds.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::process::os::{self, IdleClock};
use crate::process::server::Server;
use crate::workers::mailbox::{Mailbox, Order};

/// How often the load is looked at.
pub const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// From this share of a processor on a worker is busy.
const BUSY_MIN: f64 = 0.85;

/// Connections spread only with at least this many idle processors.
const IDLE_MIN: f64 = 0.3;

/// With fewer idle processors than this the workers slow each other down.
const IDLE_NONE: f64 = 0.1;

/// Most of a processor that each worker may need after gathering: normally, and while no processor is idle.
const GATHERED_MAX: f64 = 0.6;
const CROWDED_MAX: f64 = 1.25;

/// Consecutive looks that must agree before connections move.
const LOOKS_TO_SPREAD: u32 = 2;
const LOOKS_TO_GATHER: u32 = 4;

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Stay,
    Spread { from: usize },
    Gather,
}

/// What is known of the load of a period: shares of a processor.
#[derive(Debug)]
struct Load {
    /// What each worker has used.
    busy: Vec<f64>,
    /// What was left over on the machine.
    idle: f64,
}

impl Load {
    /// What would be better for this load than `used` workers.
    fn wish(&self, used: usize) -> Wish {
        let total: f64 = self.busy.iter().sum();
        let busiest = (0..used).max_by(|a, b| self.busy[*a].total_cmp(&self.busy[*b])).unwrap_or(0);
        if used < self.busy.len() && self.busy[busiest] >= BUSY_MIN && self.idle >= IDLE_MIN {
            return Wish::Spread { from: busiest };
        }
        let fewer = used.saturating_sub(1) as f64;
        let crowded = self.idle < IDLE_NONE && total <= fewer * CROWDED_MAX;
        if used > 1 && (total <= fewer * GATHERED_MAX || crowded) {
            return Wish::Gather;
        }
        Wish::Stay
    }
}

/// What a worker has used of its processor, in nanoseconds since its start.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    cpu: u64,
    /// Of it, for polls while it had nothing to do.
    polled: u64,
}

/// See the module's text.
pub struct Gather {
    server: &'static Server,
    workers: Arc<[Arc<Mailbox>]>,
    looked_at: Instant,
    known: Vec<Times>,
    idle: IdleClock,
    idle_nanos: Option<u64>,
    wish: Wish,
    /// How many consecutive looks have found it.
    times: u32,
}

impl Gather {
    /// Begins to look at the load.
    pub fn new(server: &'static Server, workers: Arc<[Arc<Mailbox>]>) -> Self {
        let idle = IdleClock::of_this_process();
        Self {
            server,
            looked_at: Instant::now(),
            known: vec![Times::default(); workers.len()],
            idle_nanos: idle.nanos(),
            idle,
            workers,
            wish: Wish::Stay,
            times: 0,
        }
    }

    /// Looks at the load; moves connections if enough consecutive looks agree.
    pub fn look(&mut self) {
        let elapsed = self.looked_at.elapsed();
        if self.workers.len() < 2 || elapsed < LOOK_PERIOD {
            return;
        }
        if !self.server.host.gathers.load(Relaxed) {
            self.use_all();
            return;
        }
        let Some(load) = self.load(elapsed) else { return };
        let used = self.server.host.workers_used.load(Relaxed);
        let wish = load.wish(used);
        self.times = if wish == self.wish { self.times + 1 } else { 1 };
        self.wish = wish;
        match wish {
            Wish::Stay => {}
            Wish::Spread { from } if self.times >= LOOKS_TO_SPREAD => {
                self.server.host.workers_used.store(used + 1, Relaxed);
                self.order(from, used, used + 1);
            }
            Wish::Gather if self.times >= LOOKS_TO_GATHER => {
                self.server.host.workers_used.store(used - 1, Relaxed);
                self.order(used - 1, 0, 1);
            }
            Wish::Spread { .. } | Wish::Gather => {}
        }
    }

    /// Uses all workers, as the configuration wants it.
    fn use_all(&mut self) {
        self.looked_at = Instant::now();
        let all = self.workers.len();
        let used = self.server.host.workers_used.swap(all, Relaxed);
        (used..all).for_each(|to| self.order(to % used.max(1), to, 2));
    }

    fn order(&mut self, from: usize, to: usize, share: usize) {
        self.times = 0;
        tracing::debug!("Worker {from} hands 1/{share} of its connections over to worker {to}");
        self.workers[from].order(Order { to: Arc::clone(&self.workers[to]), share });
    }

    fn load(&mut self, elapsed: Duration) -> Option<Load> {
        self.looked_at = Instant::now();
        let share = |nanos: u64| nanos as f64 / elapsed.as_nanos() as f64;
        let mut busy = Vec::with_capacity(self.workers.len());
        let mut idle_polls = 0;
        for (thread, before) in self.known.iter_mut().enumerate() {
            let now = Times {
                cpu: self.server.stats.threads[thread].cpu_clock().map_or(0, os::clock_nanos),
                polled: self.workers[thread].polled_nanos(),
            };
            let used = now.cpu.saturating_sub(before.cpu);
            // A worker that polls for want of work is idle. Others may have had its processor in between.
            let polled = (now.polled - before.polled).min(used);
            idle_polls += polled;
            busy.push(share(used - polled));
            *before = now;
        }
        let (before, now) = (self.idle_nanos, self.idle.nanos());
        self.idle_nanos = now;
        Some(Load { busy, idle: share(now?.saturating_sub(before?) + idle_polls) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(busy: &[f64], idle: f64, used: usize) -> Wish {
        Load { busy: busy.to_vec(), idle }.wish(used)
    }

    #[test]
    fn a_busy_worker_spreads_only_where_a_processor_is_idle() {
        assert_eq!(wish(&[0.95, 0.0], 0.6, 1), Wish::Spread { from: 0 });
        assert_eq!(wish(&[0.95, 0.0], 0.05, 1), Wish::Stay, "the clients have the other processor");
        assert_eq!(wish(&[0.5, 0.0], 1.4, 1), Wish::Stay);
        assert_eq!(wish(&[0.9, 0.95, 0.0, 0.0], 2.0, 2), Wish::Spread { from: 1 });
    }

    #[test]
    fn workers_that_fewer_could_stand_in_for_gather() {
        assert_eq!(wish(&[0.3, 0.2], 1.0, 2), Wish::Gather);
        assert_eq!(wish(&[0.5, 0.6], 0.0, 2), Wish::Gather, "they share a processor");
        assert_eq!(wish(&[0.7, 0.7], 0.0, 2), Wish::Stay);
        assert_eq!(wish(&[0.85, 0.85], 0.2, 2), Wish::Stay);
        assert_eq!(wish(&[0.0], 1.0, 1), Wish::Stay);
    }
}

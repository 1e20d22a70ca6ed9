//! The times of commands that are not short, with few readings of the clock: where one ends the next one begins, and
//! brief ones in a row are timed together.

use std::time::Instant;

use crate::batch::place::Place;
use crate::clock::Clock;

/// Most commands that are timed together.
const ROW_MAX: u32 = 16;

/// See the module's text.
pub(crate) struct Stopwatch {
    /// When the present row of commands began: the last reading of the clock.
    began: Instant,
    /// The same as Unix time.
    began_ns: i64,
    /// The command that begins there, or goes on with the row.
    next: Option<Place>,
    /// How many commands of the row have ended.
    ended: u32,
    /// Whether the present command is known to be brief.
    pub(crate) is_brief: bool,
    /// Nanoseconds measured since they were taken.
    measured_ns: u64,
}

impl Stopwatch {
    /// Nothing is timed yet. `now`: any moment.
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, began_ns: 0, next: None, ended: 0, is_brief: false, measured_ns: 0 }
    }

    /// Begins to time the command at `place`, unless it goes on with a row.
    #[inline]
    pub(crate) fn begin(&mut self, clock: &Clock, place: Place) {
        self.is_brief = false;
        if self.next.take() != Some(place) {
            debug_assert_eq!(self.ended, 0, "commands are not counted");
            self.began = clock.now();
            self.began_ns = clock.unix_us_at(self.began) * 1000;
            self.ended = 0;
        }
    }

    /// When the present command, or the row that it belongs to, began.
    #[inline]
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The same in Unix milliseconds.
    #[inline]
    pub(crate) fn began_ms(&self) -> i64 {
        self.began_ns / 1_000_000
    }

    /// How many commands before the present one have not been counted.
    #[inline]
    pub(crate) fn uncounted(&self) -> u32 {
        self.ended
    }

    /// Adds the present command to the row, if it is brief and the row is not long enough; the command at `next` goes
    /// on with it. Returns whether it did.
    #[inline]
    pub(crate) fn goes_on(&mut self, next: Place) -> bool {
        let goes_on = self.is_brief && self.ended + 1 < ROW_MAX;
        if goes_on {
            self.ended += 1;
            self.next = Some(next);
        }
        goes_on
    }

    /// Reads the clock: returns the nanoseconds since the row began, at least 1. What comes next begins now.
    #[inline]
    pub(crate) fn read(&mut self, clock: &Clock) -> u64 {
        let now = clock.now();
        let took_ns = ((now - self.began).as_nanos() as u64).max(1);
        (self.began, self.began_ns, self.ended) = (now, self.began_ns + took_ns as i64, 0);
        self.measured_ns += took_ns;
        took_ns
    }

    /// The command at `next` begins at the last reading.
    #[inline]
    pub(crate) fn chain(&mut self, next: Place) {
        self.next = Some(next);
    }

    /// Time passes that belongs to no command: the next one begins with a reading.
    #[inline]
    pub(crate) fn unchain(&mut self) {
        self.next = None;
    }

    /// Takes the nanoseconds measured so far.
    #[inline]
    pub(crate) fn take_measured(&mut self) -> u64 {
        std::mem::take(&mut self.measured_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TimeSource;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn place(run: usize) -> Place {
        Place { run, nth: 0 }
    }

    /// A clock of which each reading is a microsecond later.
    fn ticking() -> Clock {
        fn now() -> Instant {
            static READINGS: AtomicU64 = AtomicU64::new(0);
            *BASE + Duration::from_micros(READINGS.fetch_add(1, Relaxed))
        }
        Clock::new(TimeSource { now, unix_us: || 0 })
    }

    #[test]
    fn brief_commands_in_a_row_need_one_reading() {
        let clock = ticking();
        let mut watch = Stopwatch::new(*BASE);
        let mut counted = Vec::new();
        for run in 0..40 {
            watch.begin(&clock, place(run));
            watch.is_brief = run != 20;
            if !watch.is_brief && watch.uncounted() > 0 {
                counted.push((run, watch.uncounted()));
                watch.read(&clock);
            }
            if !watch.goes_on(place(run + 1)) {
                counted.push((run, watch.uncounted() + 1));
                assert_eq!(watch.read(&clock), 1000);
                watch.chain(place(run + 1));
            }
        }
        assert_eq!(counted, [(15, 16), (20, 4), (20, 1), (36, 16)]);
        assert_eq!((watch.uncounted(), watch.take_measured(), watch.take_measured()), (3, 4000, 0));
    }

    #[test]
    fn a_command_elsewhere_begins_with_a_reading() {
        let clock = ticking();
        let mut watch = Stopwatch::new(*BASE);
        watch.begin(&clock, place(1));
        let began = watch.began();
        watch.chain(place(2));
        watch.begin(&clock, place(3));
        assert!(watch.began() > began);
        let began = watch.began();
        watch.chain(place(4));
        watch.begin(&clock, place(4));
        assert_eq!(watch.began(), began);
        watch.unchain();
        watch.begin(&clock, place(5));
        assert!(watch.began() > began);
    }
}

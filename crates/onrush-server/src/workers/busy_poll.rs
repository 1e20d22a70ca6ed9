//! Polling for a moment before sleeping.
//!
//! Waking a sleeping thread costs the sender as much as sending, and the sleeper more than a few polls. So a worker
//! that has nothing to do asks the system again for up to `busy-poll-us` before it sleeps, as long as that pays: the
//! more often events came in time, the longer it goes on without success. A worker that it does not pay for, since its
//! clients take their time or need this processor themselves, only tries now and then.
//!
//! Where clients send one command at a time, there is little work between two sleeps, and long polls would take more
//! processor time than all of it. So these polls are shorter. With a single processor nobody can send while the worker
//! polls, so it does not.

use std::time::Duration;

/// Every so many sleeps one is preceded by polls, even if they do not pay.
const PROBE_EVERY: u8 = 32;

/// Successes count up to this number.
const CREDIT_MAX: u8 = 32;

/// What a successful probe counts: then some more attempts show whether it was chance.
const CREDIT_OF_PROBE: u8 = 4;

/// The part of the time for polls that a worker takes whose clients send one command at a time.
const UNPIPELINED_PART: u64 = 3;

/// Whether polling before sleeping pays, for one worker.
#[derive(Debug)]
pub struct BusyPoll {
    /// Successes less failures.
    credit: u8,
    /// Sleeps since the last probe.
    sleeps: u8,
    /// Whether the last round executed pipelines.
    is_pipelined: bool,
    /// Whether the senders have another processor.
    can_pay: bool,
}

impl BusyPoll {
    /// For a process that may use so many processors.
    pub fn new(processors: usize) -> Self {
        Self { credit: 0, sleeps: 0, is_pipelined: false, can_pay: processors > 1 }
    }

    /// Notes what the last round did: how many connections it served and how many commands it executed.
    #[inline]
    pub fn note_round(&mut self, connections: u64, commands: u64) {
        self.is_pipelined = commands * 2 >= connections * 3 && commands > 0;
    }

    /// How long to poll before the present sleep, of `most_us` microseconds.
    #[inline]
    pub fn time(&self, most_us: u64) -> Duration {
        if self.is_pipelined {
            return Duration::from_micros(most_us);
        }
        Duration::from_nanos(most_us * 1000 / UNPIPELINED_PART)
    }

    /// Whether to poll before the present sleep.
    #[inline]
    pub fn should_try(&mut self) -> bool {
        if self.credit > 0 {
            return true;
        }
        self.sleeps += 1;
        if self.sleeps < PROBE_EVERY {
            return false;
        }
        self.sleeps = 0;
        self.can_pay
    }

    /// Events came in time, or not.
    #[inline]
    pub fn note(&mut self, came: bool) {
        self.credit = match (self.credit, came) {
            (0, true) => CREDIT_OF_PROBE,
            (credit, true) => (credit + 1).min(CREDIT_MAX),
            (credit, false) => credit.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many sleeps are preceded by polls, of which every `nth` succeeds.
    fn tries(poll: &mut BusyPoll, sleeps: usize, nth: usize) -> usize {
        (0..sleeps)
            .filter(|n| {
                let tried = poll.should_try();
                if tried {
                    poll.note(n % nth == 0);
                }
                tried
            })
            .count()
    }

    #[test]
    fn it_goes_on_while_it_pays_and_stops_soon_when_not() {
        let mut poll = BusyPoll::new(2);
        assert!(tries(&mut poll, 1000, 1) > 1000 - usize::from(PROBE_EVERY));
        assert!(tries(&mut poll, 1000, 2000) < usize::from(CREDIT_MAX) + 1000 / usize::from(PROBE_EVERY) + 2);
        let mut rarely = BusyPoll::new(2);
        assert!(tries(&mut rarely, 10_000, 5) < 10_000 / 8);
        assert_eq!(tries(&mut BusyPoll::new(1), 1000, 1), 0);
    }

    #[test]
    fn it_takes_less_time_for_one_command_at_a_time() {
        let mut poll = BusyPoll::new(2);
        for (connections, commands, expected_us) in [(3, 3, 5), (3, 6, 15), (1, 2, 15), (0, 0, 5), (2, 100, 15)] {
            poll.note_round(connections, commands);
            assert_eq!(poll.time(15), Duration::from_micros(expected_us), "{connections} {commands}");
        }
        assert_eq!(poll.time(0), Duration::ZERO);
    }
}

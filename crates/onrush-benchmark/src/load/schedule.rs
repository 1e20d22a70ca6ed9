//! When the commands of an open loop are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::load::random::Random;
use crate::options::Arrivals;

/// The next command of each connection of a thread. A connection that cannot take its command keeps it, with the time
/// at which it was due; later commands are drawn when the connection goes on. So a stalled server costs no memory, and
/// no latency is left out.
#[derive(Debug)]
pub struct Schedule {
    /// When the next command of each connection is due, in nanoseconds.
    dues: Vec<f64>,
    /// Connections by that time, without those that cannot take their command.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    is_held: Vec<bool>,
    /// The mean time between two commands of one connection.
    gap_ns: f64,
    arrivals: Arrivals,
}

impl Schedule {
    /// For connections `first..first + len` of `all`, which share the rate.
    pub fn new(rate: f64, all: usize, first: usize, len: usize, arrivals: Arrivals, random: &mut Random) -> Schedule {
        let gap_ns = all as f64 / rate * 1e9;
        // The phases of even arrivals make all connections together even.
        let phase = |index: usize, random: &mut Random| match arrivals {
            Arrivals::Even => (first + index) as f64 / all as f64,
            Arrivals::Poisson => random.gap(),
        };
        let dues: Vec<f64> = (0..len).map(|index| phase(index, random) * gap_ns).collect();
        let queue = dues.iter().enumerate().map(|(index, due)| Reverse((*due as u64, index))).collect();
        Schedule { dues, queue, is_held: vec![false; len], gap_ns, arrivals }
    }

    /// When the next command is due that its connection can take.
    pub fn next_ns(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes the earliest command that is due by now: the time, and its connection, which is out of the queue until
    /// [`Schedule::sent`] or [`Schedule::release`].
    pub fn take(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        let Reverse((due, index)) = *self.queue.peek().filter(|Reverse((due, _))| *due <= now_ns)?;
        self.queue.pop();
        Some((due, index))
    }

    /// Notes that a taken command was sent, and schedules the connection's next one.
    pub fn sent(&mut self, index: usize, random: &mut Random) {
        self.dues[index] += self.gap_ns * if self.arrivals == Arrivals::Even { 1.0 } else { random.gap() };
        self.queue.push(Reverse((self.dues[index] as u64, index)));
    }

    /// Notes that a taken command must wait for its connection.
    pub fn hold(&mut self, index: usize) {
        self.is_held[index] = true;
    }

    /// Notes that the connection can take commands again.
    pub fn release(&mut self, index: usize) {
        if std::mem::take(&mut self.is_held[index]) {
            self.queue.push(Reverse((self.dues[index] as u64, index)));
        }
    }

    /// Ends the schedule: nothing more is due.
    pub fn end(&mut self) {
        self.queue.clear();
        self.is_held.fill(false);
    }

    /// How many commands of held connections were due between two times; for random arrivals, the average.
    pub fn held_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let held = self.dues.iter().zip(&self.is_held).filter(|(_, is_held)| **is_held).map(|(due, _)| *due);
        let count = |due: f64| {
            let (first, end) = (due.max(from_ns as f64), to_ns as f64);
            if first < end { 1 + ((end - first) / self.gap_ns) as u64 } else { 0 }
        };
        held.map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(arrivals: Arrivals, len: usize) -> Vec<u64> {
        let mut random = Random::new(1);
        let mut schedule = Schedule::new(1_000.0, 10, 0, 10, arrivals, &mut random);
        (0..len)
            .map(|_| {
                let (due, index) = schedule.take(u64::MAX).unwrap();
                schedule.sent(index, &mut random);
                due
            })
            .collect()
    }

    #[test]
    fn even_arrivals_are_even_over_all_connections() {
        let dues = dues(Arrivals::Even, 1_000);
        assert!(dues.windows(2).all(|pair| (999_000..=1_001_000).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn the_connections_of_two_threads_have_phases_of_their_own() {
        let first =
            |from: usize| Schedule::new(1_000.0, 10, from, 5, Arrivals::Even, &mut Random::new(1)).next_ns().unwrap();
        assert_eq!((first(0), first(5)), (0, 5_000_000));
    }

    #[test]
    fn poisson_arrivals_vary_as_they_should() {
        let dues = dues(Arrivals::Poisson, 20_000);
        let gaps: Vec<f64> = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The deviation of such gaps is their mean.
        assert!((mean - 1.0).abs() < 0.03 && (variance - 1.0).abs() < 0.08, "{mean} {variance}");
    }

    #[test]
    fn a_held_command_keeps_the_time_at_which_it_was_due() {
        let mut random = Random::new(1);
        let mut schedule = Schedule::new(1_000.0, 1, 0, 1, Arrivals::Even, &mut random);
        assert_eq!(schedule.take(0), Some((0, 0)));
        schedule.hold(0);
        assert_eq!((schedule.take(u64::MAX), schedule.next_ns()), (None, None));
        assert_eq!(schedule.held_between(0, 2_500_000), 3);
        schedule.release(0);
        assert_eq!(schedule.take(5_000_000), Some((0, 0)));
        schedule.sent(0, &mut random);
        assert_eq!(schedule.take(5_000_000), Some((1_000_000, 0)));
    }
}

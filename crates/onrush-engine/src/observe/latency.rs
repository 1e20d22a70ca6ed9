//! The latency monitor: for each kind of event that took long, its latest samples.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

/// Samples kept of an event, at most one for each second.
pub(crate) const SAMPLES_MAX: usize = 160;

/// Events that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A command, other than those of [`Event::FastCommand`].
    Command,
    /// A command that is flagged as fast: constant or logarithmic time.
    FastCommand,
    /// A run of eviction.
    EvictionCycle,
    /// A run of active expiry.
    ExpireCycle,
}

impl Event {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("command", Self::Command),
        ("fast-command", Self::FastCommand),
        ("eviction-cycle", Self::EvictionCycle),
        ("expire-cycle", Self::ExpireCycle),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, event)| *event == self).map_or("", |(name, _)| name)
    }

    /// The event of a name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, event)| *event)
    }
}

/// The longest of an event within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Unix time in seconds.
    pub at_s: i64,
    /// Milliseconds.
    pub took_ms: u64,
}

/// The samples of an event, the latest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The latest ones.
    pub samples: VecDeque<Sample>,
    /// The longest ever, in milliseconds.
    pub max_ms: u64,
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.max_ms = self.max_ms.max(sample.took_ms);
        match self.samples.back_mut() {
            Some(last) if last.at_s == sample.at_s => last.took_ms = last.took_ms.max(sample.took_ms),
            _ => {
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back(sample);
            }
        }
    }
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Monitor(Mutex<BTreeMap<Event, Series>>);

impl Monitor {
    /// Adds an event. The caller has seen that it took as long as `latency-monitor-threshold` says.
    pub(crate) fn add(&self, event: Event, at_s: i64, took: Duration) {
        self.0.lock().entry(event).or_default().add(Sample { at_s, took_ms: took.as_millis() as u64 });
    }

    /// The samples of all events that have some.
    pub(crate) fn all(&self) -> Vec<(Event, Series)> {
        self.0.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// The samples of one.
    pub(crate) fn of(&self, event: Event) -> Option<Series> {
        self.0.lock().get(&event).cloned()
    }

    /// Forgets an event; returns whether there was one.
    pub(crate) fn reset(&self, event: Event) -> bool {
        self.0.lock().remove(&event).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_and_the_oldest_ones_go() {
        let monitor = Monitor::default();
        let add = |at_s, ms| monitor.add(Event::Command, at_s, Duration::from_millis(ms));
        add(1, 500);
        for at in 10..10 + SAMPLES_MAX as i64 {
            add(at, 20);
            add(at, 30);
            add(at, 10);
        }
        let series = monitor.of(Event::Command).expect("samples");
        assert_eq!((series.samples.len(), series.max_ms), (SAMPLES_MAX, 500));
        assert_eq!(series.samples.front(), Some(&Sample { at_s: 10, took_ms: 30 }));
        assert!(monitor.reset(Event::Command) && !monitor.reset(Event::Command));
        assert!(monitor.all().is_empty());
    }
}

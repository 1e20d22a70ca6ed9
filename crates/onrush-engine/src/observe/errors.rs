//! Errors that are counted when it is certain that what has caused them is not undone and executed again.

use std::collections::BTreeMap;

use crate::observe::acl_log::Denial;
use crate::observe::stats::{ERROR_CODES_MAX, Stats};
use crate::shared::Shared;

/// Most denials that are told apart.
const DENIALS_MAX: usize = 128;

/// How often a command was refused, and how often it has failed.
#[derive(Default)]
struct Refusals {
    rejected: u64,
    failed: u64,
}

/// Counts of errors, by their codes and by the commands that they are about. Takes no memory without errors.
#[derive(Default)]
pub(crate) struct ErrorCounts(Option<Box<Counts>>);

#[derive(Default)]
struct Counts {
    codes: BTreeMap<Vec<u8>, u64>,
    /// Errors whose codes are too many to be told apart.
    others: u64,
    commands: BTreeMap<u16, Refusals>,
    /// What was denied to the user.
    denials: Vec<Denial>,
}

impl Counts {
    fn errors(&mut self, code: &[u8], times: u64) {
        if let Some(count) = self.codes.get_mut(code) {
            *count += times;
        } else if self.codes.len() < ERROR_CODES_MAX {
            self.codes.insert(code.to_vec(), times);
        } else {
            self.others += times;
        }
    }

    fn show(&self, stats: &Stats, thread: usize) {
        let own = &stats.threads[thread];
        own.error_replies.add(self.others + self.codes.values().sum::<u64>());
        self.codes.iter().for_each(|(code, times)| stats.count_errors(code, *times));
        for (command, refusals) in &self.commands {
            own.commands[*command as usize].rejected.add(refusals.rejected);
            own.commands[*command as usize].failed.add(refusals.failed);
        }
    }

    fn denied(&mut self, denial: Denial) {
        if let Some(known) = self.denials.iter_mut().find(|known| known.is_same(&denial)) {
            known.count += denial.count;
        } else if self.denials.len() < DENIALS_MAX {
            self.denials.push(denial);
        } else {
            self.denials[DENIALS_MAX - 1].count += denial.count;
        }
    }
}

impl ErrorCounts {
    fn counts(&mut self) -> &mut Counts {
        self.0.get_or_insert_default()
    }

    /// Counts an error under its code.
    #[cold]
    pub(crate) fn error(&mut self, code: &[u8]) {
        self.counts().errors(code, 1);
    }

    /// Counts a refusal of a command before it was executed.
    #[cold]
    pub(crate) fn rejected(&mut self, command: u16) {
        self.counts().commands.entry(command).or_default().rejected += 1;
    }

    /// Counts executions of a command that ended in an error.
    #[cold]
    pub(crate) fn failed(&mut self, command: u16, times: u64) {
        self.counts().commands.entry(command).or_default().failed += times;
    }

    /// Counts what was denied to the user.
    #[cold]
    pub(crate) fn denied(&mut self, denial: Denial) {
        self.counts().denied(denial);
    }

    /// Takes over all that `other` has counted.
    pub(crate) fn absorb(&mut self, other: Self) {
        let Some(other) = other.0 else { return };
        let own = self.counts();
        other.codes.iter().for_each(|(code, times)| own.errors(code, *times));
        own.others += other.others;
        other.denials.into_iter().for_each(|denial| own.denied(denial));
        for (command, Refusals { rejected, failed }) in other.commands {
            let refusals = own.commands.entry(command).or_default();
            refusals.rejected += rejected;
            refusals.failed += failed;
        }
    }

    /// Adds all to what INFO shows, as the thread of this number.
    pub(crate) fn show(&mut self, shared: &Shared, thread: usize) {
        let Some(counts) = self.0.take() else { return };
        counts.show(&shared.stats, thread);
        counts.denials.into_iter().for_each(|denial| shared.note_denial(denial));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_codes_takes_bounded_memory_and_is_counted_in_full() {
        let (mut first, mut all, stats) = (ErrorCounts::default(), ErrorCounts::default(), Stats::new(1, 2));
        for nth in 0..1000 {
            first.error(format!("E{nth}").as_bytes());
            first.error(b"E0");
        }
        first.failed(1, 2);
        let codes = &first.counts().codes;
        assert_eq!((codes.len(), codes[&b"E0"[..]]), (ERROR_CODES_MAX, 1001));
        all.error(b"E0");
        all.rejected(1);
        all.failed(1, 1);
        all.absorb(first);
        all.counts().show(&stats, 0);
        let counters = &stats.threads[0].commands[1];
        assert_eq!((counters.rejected.get(), counters.failed.get()), (1, 3));
        assert_eq!((stats.threads[0].error_replies.get(), stats.errors()[0].1), (2001, 1002));
        assert!(!all.is_empty() && ErrorCounts::default().is_empty());
    }
}

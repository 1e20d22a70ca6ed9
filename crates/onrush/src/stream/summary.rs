//! The result of a stream that is only counted.

use std::ops::Range;

use crate::error::{Fate, RedisError, RedisResult};
use crate::values::value::Value;

/// The result of a stream whose replies are only counted. Commands are named by their index in the stream, counted from
/// 0.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Commands that have an outcome: a reply, or an error, also one that kept them from being sent.
    pub replies: u64,
    /// Commands that failed.
    pub errors: u64,
    /// The first of them and its error.
    pub first_error: Option<(u64, RedisError)>,
    /// All commands that were sent and may have been executed or not ([`Fate::Unknown`]), in ascending order: a range
    /// or a few for each disconnect. At most [`RANGES_MAX`](Self::RANGES_MAX); beyond that, the last range also holds
    /// what lies between.
    pub unknown: Vec<Range<u64>>,
    /// All commands that were given up and not sent ([`Fate::NotSent`]), in the same way. What the stream has not taken
    /// from its source yet is not among them.
    pub not_sent: Vec<Range<u64>>,
}

impl Summary {
    /// Most ranges of [`unknown`](Self::unknown) and of [`not_sent`](Self::not_sent).
    pub const RANGES_MAX: usize = 1_024;

    pub(super) fn add_error(&mut self, index: u64, error: RedisError) {
        self.errors += 1;
        match error.fate() {
            Fate::Unknown => add_to_ranges(&mut self.unknown, index),
            Fate::NotSent => add_to_ranges(&mut self.not_sent, index),
            Fate::Replied => {}
        }
        if self.first_error.as_ref().is_none_or(|(first, _)| index < *first) {
            self.first_error = Some((index, error));
        }
    }

    /// Adds the errors among the outcomes of the commands from `first` on.
    pub(super) fn add_errors(&mut self, first: u64, outcomes: impl IntoIterator<Item = RedisResult<Value>>) {
        for (index, outcome) in (first..).zip(outcomes) {
            if let Err(error) = outcome {
                self.add_error(index, error);
            }
        }
    }

    /// The number of replies, if none was an error.
    ///
    /// # Errors
    /// The first error.
    pub fn into_result(self) -> RedisResult<u64> {
        match self.first_error {
            Some((_, error)) => Err(error),
            None => Ok(self.replies),
        }
    }
}

/// Adds a number to ranges that are in ascending order and do not touch. O(log n) for a number behind or beside the
/// last.
fn add_to_ranges(ranges: &mut Vec<Range<u64>>, number: u64) {
    let at = ranges.partition_point(|range| range.end < number);
    match ranges.get_mut(at) {
        Some(range) if range.start <= number + 1 => {
            *range = range.start.min(number)..range.end.max(number + 1);
        }
        _ => ranges.insert(at, number..number + 1),
    }
    let end = ranges[at].end;
    if let Some(next) = ranges.get(at + 1).filter(|next| next.start <= end).cloned() {
        ranges[at].end = next.end;
        ranges.remove(at + 1);
    }
    if ranges.len() > Summary::RANGES_MAX {
        if let (Some(last), Some(before)) = (ranges.pop(), ranges.last_mut()) {
            before.end = last.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_hold_the_numbers_that_were_added(numbers in proptest::collection::btree_set(0..300u64, 0..200), seed: u64) {
            let mut mixed: Vec<u64> = numbers.iter().copied().collect();
            mixed.sort_by_key(|number| number.wrapping_mul(seed | 1).rotate_left(7));
            let mut ranges = Vec::new();
            mixed.iter().for_each(|number| add_to_ranges(&mut ranges, *number));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(ranges.into_iter().flatten().eq(numbers));
        }
    }

    #[test]
    fn the_number_of_ranges_is_limited() {
        let mut ranges = Vec::new();
        (0..9_000).step_by(2).for_each(|number| add_to_ranges(&mut ranges, number));
        assert_eq!((ranges.len(), &ranges[1022..]), (Summary::RANGES_MAX, &[2044..2045, 2046..8999][..]));
        (0..9_000).rev().for_each(|number| add_to_ranges(&mut ranges, number));
        assert_eq!((ranges.len(), &ranges[0]), (1, &(0..9_000)));
    }
}

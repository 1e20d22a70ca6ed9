//! A sort that is done where only a part of the result is wanted.
//!
//! Which of several equal elements come first is up to the algorithm, and what is stored of the result (GEOSEARCHSTORE with
//! COUNT, SORT with BY and LIMIT) must be the same on a redis-server and on its replica. So this is the quicksort of Bentley
//! and McIlroy ("Engineering a Sort Function", Software: Practice and Experience 23(11), 1993), which Redis takes for that.

use std::cmp::Ordering;
use std::ops::Range;

/// So many elements or fewer are sorted by insertion.
const INSERTED_MAX: usize = 6;

/// From so many on the middle one of three is chosen, and of nine.
const OF_THREE_MIN: usize = 8;
const OF_NINE_MIN: usize = 41;

/// Sorts until the elements of `part` are those that a whole sort has there.
///
/// O(n log n) comparisons: an order that was made to need more of them is sorted otherwise, so that equal elements keep theirs.
pub fn sort_part<T>(items: &mut [T], part: Range<usize>, mut compare: impl FnMut(&T, &T) -> Ordering) {
    if part.is_empty() {
        return;
    }
    let depth_max = 2 * items.len().max(2).ilog2();
    let mut left = vec![(0..items.len(), depth_max)];
    while let Some((range, depth)) = left.pop() {
        let is_outside = range.end <= part.start || part.end <= range.start;
        if range.len() < 2 || is_outside {
            continue;
        }
        let these = &mut items[range.clone()];
        if depth == 0 {
            these.sort_by(&mut compare);
        } else if these.len() <= INSERTED_MAX {
            insert_all(these, &mut compare);
        } else {
            let (less, greater) = split(these, &mut compare);
            left.push((range.end - greater..range.end, depth - 1));
            left.push((range.start..range.start + less, depth - 1));
        }
    }
}

fn insert_all<T>(items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Puts what is less than a chosen element first and what is greater last; returns how many these are.
fn split<T>(items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> (usize, usize) {
    let len = items.len();
    let chosen = choose(items, compare);
    items.swap(0, chosen);
    // From the front: equal ones before `equal_end`, less ones before `next`. From the back: greater ones behind `last`, equal
    // ones behind `equal_start`.
    let (mut equal_end, mut next) = (1, 1);
    let (mut last, mut equal_start) = (len - 1, len - 1);
    loop {
        while next <= last {
            let order = compare(&items[next], &items[0]);
            if order.is_gt() {
                break;
            }
            if order.is_eq() {
                items.swap(equal_end, next);
                equal_end += 1;
            }
            next += 1;
        }
        while next <= last {
            let order = compare(&items[last], &items[0]);
            if order.is_lt() {
                break;
            }
            if order.is_eq() {
                items.swap(last, equal_start);
                equal_start -= 1;
            }
            last -= 1;
        }
        if next > last {
            break;
        }
        items.swap(next, last);
        (next, last) = (next + 1, last - 1);
    }
    let (less, greater) = (next - equal_end, equal_start - last);
    // The equal ones come between.
    let moved = equal_end.min(less);
    (0..moved).for_each(|at| items.swap(at, next - moved + at));
    let moved = greater.min(len - 1 - equal_start);
    (0..moved).for_each(|at| items.swap(next + at, len - moved + at));
    (less, greater)
}

/// Chooses the element to compare with.
fn choose<T>(items: &[T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let len = items.len();
    let (mut first, mut middle, mut last) = (0, len / 2, len - 1);
    if len >= OF_NINE_MIN {
        let step = len / 8;
        first = middle_of(items, [first, first + step, first + 2 * step], compare);
        middle = middle_of(items, [middle - step, middle, middle + step], compare);
        last = middle_of(items, [last - 2 * step, last - step, last], compare);
    }
    if len >= OF_THREE_MIN { middle_of(items, [first, middle, last], compare) } else { middle }
}

fn middle_of<T>(items: &[T], [a, b, c]: [usize; 3], compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let mut order = |a: usize, b: usize| compare(&items[a], &items[b]);
    match order(a, b).is_lt() {
        true if order(b, c).is_lt() => b,
        true if order(a, c).is_lt() => c,
        true => a,
        false if order(b, c).is_gt() => b,
        false if order(a, c).is_lt() => a,
        false => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_part_is_that_of_a_whole_sort(
            items in proptest::collection::vec(0u8..50, 0..300), start in 0usize..300, len in 0usize..300,
        ) {
            let mut whole = items.clone();
            whole.sort_unstable();
            let part = start.min(items.len())..(start + len).min(items.len());
            let mut sorted = items;
            sort_part(&mut sorted, part.clone(), Ord::cmp);
            prop_assert_eq!(&sorted[part.clone()], &whole[part]);
            sorted.sort_unstable();
            prop_assert_eq!(sorted, whole);
        }
    }

    /// The adversary of McIlroy ("A Killer Adversary for Quicksort", 1999): it decides what is less as it is asked.
    #[test]
    fn a_hostile_order_costs_no_square() {
        const LEN: usize = 20_000;
        let mut values = vec![usize::MAX; LEN];
        let (mut solid, mut candidate, mut asked) = (0, 0, 0u64);
        let mut items: Vec<usize> = (0..LEN).collect();
        sort_part(&mut items, 0..LEN, |&a, &b| {
            asked += 1;
            if values[a] == usize::MAX && values[b] == usize::MAX {
                values[if a == candidate { a } else { b }] = solid;
                solid += 1;
            }
            if values[a] == usize::MAX {
                candidate = a;
            } else if values[b] == usize::MAX {
                candidate = b;
            }
            values[a].cmp(&values[b])
        });
        assert!(asked < 100 * LEN as u64, "{asked}");
    }
}

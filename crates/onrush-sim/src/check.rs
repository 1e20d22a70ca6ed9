//! Whether a history can be explained: the checker for linearizability.
//!
//! It looks for an order of all calls in which each call has the reply that the model gives, no call comes before one
//! that had ended when it was sent, and the calls of a connection keep their order. It tries one call after the other
//! and steps back when it is stuck (Wing and Gong, "Testing and verifying concurrent objects", 1993), and never tries
//! again from a point that it has seen: the same calls done, the same state (Lowe, "Testing for linearizability",
//! 2017). As the calls of a connection keep their order, a number for each connection says which calls are done.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::history::{Call, Fate, History};
use crate::model::State;

/// Points that the checker looks at before it gives up: some ten seconds of a build without optimisation.
pub const POINTS_MAX: usize = 200_000;

/// What the checker has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Explained,
    /// There is none.
    Refused,
    /// It was not found within [`POINTS_MAX`].
    Undecided,
}

/// Looks for an order of the calls that explains them, from empty databases on.
pub fn check(history: &History) -> Verdict {
    let mut search = Search { history, seen: HashSet::new() };
    let start = Point { done: vec![0; history.lanes.len()], last_sent: 0, state: State::default() };
    let mut open = vec![start];
    while let Some(point) = open.pop() {
        if search.is_end(&point) {
            return Verdict::Explained;
        }
        if search.seen.len() > POINTS_MAX {
            return Verdict::Undecided;
        }
        search.go_on(&point, &mut open);
    }
    Verdict::Refused
}

/// In a history without such an order: the place of the first reply that nothing known at that moment explains.
pub fn first_refused(history: &History) -> u64 {
    let (mut explained, mut refused) = (0, history.now);
    while refused - explained > 1 {
        let middle = explained.midpoint(refused);
        if check(&history.until(middle)) == Verdict::Refused {
            refused = middle;
        } else {
            explained = middle;
        }
    }
    refused
}

/// The state of the search.
#[derive(Clone)]
struct Point {
    /// How many calls of each connection are done.
    done: Vec<u16>,
    /// The newest of the places where these calls were sent.
    last_sent: u64,
    state: State,
}

struct Search<'a> {
    history: &'a History,
    /// Points that were looked at, by their hashes.
    seen: HashSet<u64>,
}

impl Search<'_> {
    /// The next call of each connection, with the connection's number.
    fn next_calls<'p>(&'p self, point: &'p Point) -> impl Iterator<Item = (usize, &'p Call)> {
        let lanes = self.history.lanes.iter().zip(&point.done).enumerate();
        lanes.filter_map(|(lane, (calls, done))| {
            let call = calls.get(usize::from(*done))?;
            (call.fate != Fate::Waits).then_some((lane, call))
        })
    }

    /// Whether all executed calls are done, and all waiting calls have a reason to wait.
    fn is_end(&self, point: &Point) -> bool {
        self.next_calls(point).all(|(_, call)| call.fate == Fate::Lost)
            && self.history.lanes.iter().flatten().all(|call| call.fate != Fate::Waits || point.state.lets_wait(call))
    }

    /// Adds the points that may come next.
    fn go_on(&mut self, point: &Point, open: &mut Vec<Point>) {
        let must_end = |(_, call): (usize, &Call)| if call.fate == Fate::Lost { u64::MAX } else { call.ended };
        let first_end = self.next_calls(point).map(must_end).min().unwrap_or(u64::MAX);
        let mut next = Vec::new();
        for (lane, call) in self.next_calls(point) {
            if call.sent > first_end || call.ended < point.last_sent {
                continue;
            }
            for state in point.state.after(call) {
                let mut done = point.done.clone();
                done[lane] += 1;
                next.push((call.ended, Point { done, last_sent: point.last_sent.max(call.sent), state }));
            }
        }
        // The call that ended first is tried first.
        next.sort_by_key(|(ended, _)| std::cmp::Reverse(*ended));
        for (_, point) in next {
            let mut hasher = DefaultHasher::new();
            (&point.done, &point.state).hash(&mut hasher);
            if self.seen.insert(hasher.finish()) {
                open.push(point);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Side};
    use crate::history::Lsns;
    use crate::reply::Reply;

    /// Calls of connections, each with the places where it was sent and ended.
    fn history<const N: usize>(calls: [(usize, u64, u64, Command, Reply); N]) -> History {
        let mut history = History::default();
        for (lane, sent, ended, command, reply) in calls {
            history.lanes.resize_with(history.lanes.len().max(lane + 1), Vec::new);
            let fate = Fate::Replied(reply);
            history.lanes[lane].push(Call {
                command,
                db: 0,
                sent,
                ended,
                sent_ms: 0,
                ended_ms: 0,
                fate,
                lsns: Lsns::default(),
            });
            history.now = history.now.max(ended);
        }
        history
    }

    fn set(value: &str) -> Command {
        Command::Set { key: 0, value: value.to_owned(), only_new: false, get: false, expire_at_ms: None }
    }

    fn push(value: &str) -> Command {
        Command::Push { key: 0, side: Side::Right, values: vec![value.to_owned()] }
    }

    fn mset(value: &str) -> Command {
        Command::MSet { pairs: vec![(0, value.to_owned()), (1, value.to_owned())], only_new: false }
    }

    fn pop() -> Command {
        Command::Pop { key: 0, side: Side::Left }
    }

    fn blocking_pop(timeout_ms: i64) -> Command {
        Command::BlockingPop { keys: vec![0], side: Side::Left, timeout_ms }
    }

    fn bulk(text: &str) -> Reply {
        Reply::bulk(Some(text))
    }

    fn bulks(texts: &[&str]) -> Reply {
        Reply::Array(texts.iter().map(|text| bulk(text)).collect())
    }

    #[test]
    fn calls_at_the_same_time_come_in_any_order() {
        for seen in [bulk("a"), bulk("b"), Reply::Nil] {
            let calls =
                [(0, 1, 9, set("a"), Reply::ok()), (1, 2, 8, set("b"), Reply::ok()), (2, 3, 7, Command::Get(0), seen)];
            assert_eq!(check(&history(calls)), Verdict::Explained);
        }
    }

    #[test]
    fn a_lost_update_is_refused() {
        let twice = |second| {
            history([
                (0, 1, 4, Command::Incr(0), Reply::Int(1)),
                (1, 2, 3, Command::Incr(0), Reply::Int(second)),
                (0, 5, 6, Command::Get(0), bulk("2")),
            ])
        };
        assert_eq!(check(&twice(2)), Verdict::Explained);
        assert_eq!(check(&twice(1)), Verdict::Refused);
    }

    #[test]
    fn half_of_an_mset_is_refused() {
        let seen = |a, b| {
            history([
                (0, 1, 2, mset("a"), Reply::ok()),
                (0, 3, 9, mset("b"), Reply::ok()),
                (1, 4, 8, Command::MGet(vec![0, 1]), bulks(&[a, b])),
            ])
        };
        assert_eq!(check(&seen("a", "a")), Verdict::Explained);
        assert_eq!(check(&seen("b", "b")), Verdict::Explained);
        assert_eq!(check(&seen("b", "a")), Verdict::Refused);
    }

    #[test]
    fn a_stale_read_is_refused_at_its_reply() {
        let calls = [
            (0, 1, 2, set("a"), Reply::ok()),
            (0, 3, 4, set("b"), Reply::ok()),
            (1, 5, 6, Command::Get(0), bulk("a")),
            (1, 7, 8, Command::Get(0), bulk("b")),
        ];
        let stale = history(calls);
        assert_eq!(check(&stale), Verdict::Refused);
        assert_eq!(first_refused(&stale), 6);
    }

    #[test]
    fn an_element_that_is_popped_twice_or_lost_is_refused() {
        let popped = |first, second| {
            history([(0, 1, 2, push("x"), Reply::Int(1)), (0, 3, 6, pop(), first), (1, 4, 5, blocking_pop(1), second)])
        };
        let mut once = popped(bulk("x"), Reply::Nil);
        assert_eq!(check(&once), Verdict::Refused, "no time has passed");
        once.lanes[1][0].ended_ms = 1;
        assert_eq!(check(&once), Verdict::Explained);
        assert_eq!(check(&popped(bulk("x"), bulks(&["k0", "x"]))), Verdict::Refused);
        assert_eq!(check(&popped(Reply::Nil, Reply::Nil)), Verdict::Refused);
    }

    #[test]
    fn the_commands_of_a_pipeline_keep_their_order() {
        let seen = |first: &str, second: &str| {
            history([
                (0, 1, 9, set("a"), Reply::ok()),
                (0, 1, 9, set("b"), Reply::ok()),
                (1, 1, 9, Command::Get(0), bulk(first)),
                (1, 1, 9, Command::Get(0), bulk(second)),
            ])
        };
        assert_eq!(check(&seen("a", "b")), Verdict::Explained);
        assert_eq!(check(&seen("b", "a")), Verdict::Refused);
    }

    #[test]
    fn a_lost_call_may_have_happened_until_it_could_no_more() {
        let lost = |ended, seen| {
            let mut history = history([
                (0, 1, ended, set("a"), Reply::ok()),
                (1, 3, 4, Command::Get(0), Reply::Nil),
                (1, 6, 7, Command::Get(0), seen),
            ]);
            history.lanes[0][0].fate = Fate::Lost;
            check(&history)
        };
        assert_eq!(lost(u64::MAX, bulk("a")), Verdict::Explained);
        assert_eq!(lost(u64::MAX, Reply::Nil), Verdict::Explained);
        assert_eq!(lost(5, bulk("a")), Verdict::Explained);
        assert_eq!(lost(2, bulk("a")), Verdict::Refused, "it was over before the first GET was sent");
    }

    #[test]
    fn nobody_waits_for_a_key_that_is_a_list() {
        let mut waits = history([(0, 1, 9, blocking_pop(0), Reply::Nil), (1, 2, 3, push("x"), Reply::Int(1))]);
        waits.lanes[0][0].fate = Fate::Waits;
        assert_eq!(check(&waits), Verdict::Refused);
        waits.lanes[1].clear();
        assert_eq!(check(&waits), Verdict::Explained);
    }

    #[test]
    fn a_key_expires_at_some_time_within_a_call() {
        let seen = |first: Option<&str>, second: Option<&str>, ended_ms| {
            let expire_at_ms = Some(10);
            let set = Command::Set { key: 0, value: "a".to_owned(), only_new: false, get: false, expire_at_ms };
            let mut history = history([
                (0, 1, 2, set, Reply::ok()),
                (1, 3, 4, Command::Get(0), Reply::bulk(first)),
                (1, 5, 6, Command::Get(0), Reply::bulk(second)),
            ]);
            history.lanes[1].iter_mut().for_each(|call| call.ended_ms = ended_ms);
            check(&history)
        };
        assert_eq!(seen(Some("a"), None, 10), Verdict::Explained);
        assert_eq!(
            seen(None, Some("a"), 10),
            Verdict::Explained,
            "their threads may have taken the time in another order"
        );
        assert_eq!(seen(Some("a"), None, 9), Verdict::Refused);
    }

    #[test]
    fn nothing_is_written_during_a_pause() {
        let written = |ended_ms| {
            let mut history = history([
                (0, 1, 2, Command::Pause { timeout_ms: 10 }, Reply::ok()),
                (1, 3, 4, Command::Incr(0), Reply::Int(1)),
            ]);
            history.lanes[1][0].ended_ms = ended_ms;
            check(&history)
        };
        assert_eq!(written(9), Verdict::Refused);
        assert_eq!(written(10), Verdict::Explained);
    }
}

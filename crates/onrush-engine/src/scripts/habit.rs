//! What is known of a script from its earlier runs: what it has to have locked, and where it is best executed.
//!
//! A script begins with the locks of the keys that it was given. If it wants another key, what it has done is taken back and it is
//! executed again with the whole keyspace, as it is from then on. On a worker there is a way back, so that a script that takes long can go
//! to the thread for long commands at any time. One that changes what is too large for a way back goes there at once, unless it is
//! known to be short. What the text of a script proves needs neither: see [`super::proof`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::proof::Proof;
use crate::commit::Outside;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// It has worked on keys that it was not given.
    goes_outside: AtomicBool,
    /// It has changed what is too large for a way back.
    changes_much: AtomicBool,
    /// Its last run took long.
    is_long: AtomicBool,
    /// It was short where it could take as long as it wanted.
    is_short: AtomicBool,
}

/// What is known of a script.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// From its text.
    pub(crate) proof: Proof,
    /// From its earlier runs.
    pub(crate) habit: &'a Habit,
}

/// What a script is executed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The locks of the keys that it was given, and a way back if `has_way_back`.
    Declared { has_way_back: bool },
    /// The whole keyspace, and a way back if `has_way_back`.
    Keyspace { has_way_back: bool },
    /// Nothing here: it is executed on the thread for long commands.
    Elsewhere,
}

impl Habit {
    /// What it is to be executed with, on a thread that can have it executed elsewhere or cannot.
    pub(crate) fn scope(&self, proof: Proof, may_go_elsewhere: bool) -> Scope {
        let changes_much = self.changes_much.load(Relaxed);
        if !may_go_elsewhere {
            Scope::Keyspace { has_way_back: false }
        } else if self.is_long.load(Relaxed) {
            Scope::Elsewhere
        } else if !self.goes_outside.load(Relaxed) {
            Scope::Declared { has_way_back: !proof.keeps_to_keys }
        } else if changes_much && !self.is_short.load(Relaxed) {
            Scope::Elsewhere
        } else {
            Scope::Keyspace { has_way_back: !changes_much }
        }
    }

    /// It went outside of what it was executed with.
    pub(crate) fn note_outside(&self, outside: Outside) {
        // What is too large for a way back cannot be changed with the locks of some keys either.
        self.goes_outside.store(true, Relaxed);
        if outside == Outside::TooLarge {
            self.changes_much.store(true, Relaxed);
        }
    }

    /// It has taken long, or it was short where it may take as long as it wants.
    pub(crate) fn note_time(&self, is_long: bool) {
        self.is_long.store(is_long, Relaxed);
        self.is_short.store(!is_long, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: Scope = Scope::Declared { has_way_back: true };
    const ON_LONG_THREAD: Scope = Scope::Keyspace { has_way_back: false };

    fn scope(habit: &Habit, may_go_elsewhere: bool) -> Scope {
        habit.scope(Proof::default(), may_go_elsewhere)
    }

    #[test]
    fn what_is_proven_needs_no_way_back() {
        let (habit, proof) = (Habit::default(), Proof { keeps_to_keys: true, keeps_lists: true });
        assert_eq!(habit.scope(proof, true), Scope::Declared { has_way_back: false });
        assert_eq!(habit.scope(proof, false), ON_LONG_THREAD);
    }

    #[test]
    fn a_script_keeps_to_its_keys_until_it_does_not() {
        let habit = Habit::default();
        assert_eq!([true, false].map(|may| scope(&habit, may)), [DECLARED, ON_LONG_THREAD]);
        habit.note_outside(Outside::Undeclared);
        assert_eq!(
            [true, false].map(|may| scope(&habit, may)),
            [Scope::Keyspace { has_way_back: true }, ON_LONG_THREAD]
        );
    }

    #[test]
    fn what_changes_much_runs_on_a_worker_once_it_was_short_elsewhere() {
        let habit = Habit::default();
        habit.note_outside(Outside::TooLarge);
        assert_eq!(scope(&habit, true), Scope::Elsewhere);
        habit.note_time(false);
        assert_eq!(scope(&habit, true), Scope::Keyspace { has_way_back: false });
        habit.note_time(true);
        assert_eq!(scope(&habit, true), Scope::Elsewhere);
    }

    #[test]
    fn what_took_long_goes_elsewhere_until_it_was_short() {
        let habit = Habit::default();
        habit.note_time(true);
        assert_eq!([true, false].map(|may| scope(&habit, may)), [Scope::Elsewhere, ON_LONG_THREAD]);
        habit.note_time(false);
        assert_eq!(scope(&habit, true), DECLARED);
    }
}

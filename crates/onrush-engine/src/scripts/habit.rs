//! What earlier runs of a script have shown: which locks it needs, and where to execute it.
//!
//! A script begins with the locks of the keys that it was given. If it accesses another key, it is undone and executed
//! again with the whole keyspace; later runs have the whole keyspace from the start. On a worker there is a way back,
//! so a script that takes long can move to the thread for long commands at any time. A script that changes entries too
//! large for a way back goes to that thread at once, unless it is known to be short. A script whose text proves that it
//! keeps to its keys needs neither: see [`super::proof`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::proof::Proof;
use crate::commit::Outside;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// The script has worked on keys that it did not declare.
    goes_outside: AtomicBool,
    /// It has changed an entry that is too large for a way back.
    changes_much: AtomicBool,
    /// Its last run took long.
    is_long: AtomicBool,
    /// A run that was allowed to take long was short.
    is_short: AtomicBool,
}

/// Facts about a script.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// From its text.
    pub(crate) proof: Proof,
    /// From its earlier runs.
    pub(crate) habit: &'a Habit,
}

/// The locks and the way back that a script is executed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The locks of the keys that it was given, and a way back if `has_way_back`.
    Declared { has_way_back: bool },
    /// The whole keyspace, and a way back if `has_way_back`.
    Keyspace { has_way_back: bool },
    /// None here: the script is executed on the thread for long commands.
    Elsewhere,
}

impl Scope {
    /// Whether a script executed with it can be undone.
    pub(crate) fn has_way_back(self) -> bool {
        matches!(self, Self::Declared { has_way_back: true } | Self::Keyspace { has_way_back: true })
    }

    /// The scope for two scripts that are executed together.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Elsewhere, _) | (_, Self::Elsewhere) => Self::Elsewhere,
            (Self::Declared { has_way_back: a }, Self::Declared { has_way_back: b }) => {
                Self::Declared { has_way_back: a || b }
            }
            // A script that changes entries too large for a way back has none, so both together have none.
            (Self::Keyspace { has_way_back: a }, Self::Keyspace { has_way_back: b }) => {
                Self::Keyspace { has_way_back: a && b }
            }
            (keyspace @ Self::Keyspace { .. }, _) | (_, keyspace) => keyspace,
        }
    }
}

impl Habit {
    /// The scope of a script that is executed together with commands that cannot be undone.
    pub(crate) fn scope_without_way_back(&self, proof: Proof, may_go_elsewhere: bool) -> Scope {
        if !may_go_elsewhere {
            Scope::Keyspace { has_way_back: false }
        } else if proof.keeps_to_keys {
            Scope::Declared { has_way_back: false }
        } else if self.is_short.load(Relaxed) {
            Scope::Keyspace { has_way_back: false }
        } else {
            Scope::Elsewhere
        }
    }

    /// The scope of a script. `may_go_elsewhere`: this thread can pass it to the thread for long commands.
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

    /// Notes that a run went outside of its scope.
    pub(crate) fn note_outside(&self, outside: Outside) {
        // An entry too large for a way back cannot be changed with the locks of only some keys either.
        self.goes_outside.store(true, Relaxed);
        if outside == Outside::TooLarge {
            self.changes_much.store(true, Relaxed);
        }
    }

    /// Notes that a run took long, or that a run that may take any time was short.
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
    fn beside_what_cannot_be_taken_back_only_a_proof_keeps_a_script_to_its_keys() {
        let (habit, proof) = (Habit::default(), Proof { keeps_to_keys: true, keeps_lists: true });
        assert_eq!(habit.scope_without_way_back(proof, true), Scope::Declared { has_way_back: false });
        assert_eq!(habit.scope_without_way_back(Proof::default(), true), Scope::Elsewhere);
        habit.note_time(false);
        assert_eq!(habit.scope_without_way_back(Proof::default(), true), ON_LONG_THREAD);
        assert_eq!(habit.scope_without_way_back(proof, false), ON_LONG_THREAD);
    }

    #[test]
    fn scripts_that_are_executed_together_need_what_each_of_them_needs() {
        let keyspace = |has_way_back| Scope::Keyspace { has_way_back };
        let proven = Scope::Declared { has_way_back: false };
        assert_eq!([proven.and(proven), proven.and(DECLARED), DECLARED.and(proven)], [proven, DECLARED, DECLARED]);
        assert_eq!([keyspace(true).and(DECLARED), DECLARED.and(keyspace(false))], [keyspace(true), keyspace(false)]);
        assert_eq!([keyspace(true).and(keyspace(false)), keyspace(false).and(keyspace(true))], [keyspace(false); 2]);
        assert_eq!([Scope::Elsewhere.and(proven), keyspace(false).and(Scope::Elsewhere)], [Scope::Elsewhere; 2]);
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

//! What earlier runs of a script have shown: which locks it needs, and where to execute it.
//!
//! On a worker a script begins with the locks of the keys that it was given, and with undo. If it accesses another
//! key, it is undone and executed again with the whole keyspace; later runs have the whole keyspace from the start. If
//! it takes long, or changes entries too large for undo, it is undone and goes to the thread for long commands,
//! where its next runs go at once. So no script without undo is ever on a worker, but for those whose text proves
//! that they keep to their keys and end soon: see [`super::proof`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::proof::Proof;
use crate::error::Stop;

/// After a run that had to move to the thread for long commands, this many more runs go there at once. Then a worker
/// tries again.
const RUNS_ELSEWHERE: u32 = 100;

/// Longer texts are compiled and executed on the thread for long commands: a compiler cannot be interrupted.
pub(crate) const TEXT_BYTES_MAX: usize = 64 * 1024;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// The script has worked on keys that it did not declare.
    goes_outside: AtomicBool,
    /// How many more runs go to the thread for long commands at once.
    runs_elsewhere: AtomicU32,
    /// Whether all runs do.
    pub(super) is_large: bool,
}

/// Facts about a script.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// From its text.
    pub(crate) proof: Proof,
    /// From its earlier runs.
    pub(crate) habit: &'a Habit,
}

/// The locks that a script is executed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The locks of the keys that it was given, and undo if `has_undo`.
    Declared { has_undo: bool },
    /// The whole keyspace, and undo if `has_undo`.
    Keyspace { has_undo: bool },
    /// None here: the script is executed on the thread for long commands.
    Elsewhere,
}

impl Scope {
    /// Whether a script executed with it can be undone.
    pub(crate) fn has_undo(self) -> bool {
        matches!(self, Self::Declared { has_undo: true } | Self::Keyspace { has_undo: true })
    }

    /// The scope for two scripts that are executed together.
    pub(crate) fn and(self, other: Self) -> Self {
        let has_undo = self.has_undo() || other.has_undo();
        match (self, other) {
            (Self::Elsewhere, _) | (_, Self::Elsewhere) => Self::Elsewhere,
            (Self::Declared { .. }, Self::Declared { .. }) => Self::Declared { has_undo },
            (Self::Keyspace { .. }, _) | (_, Self::Keyspace { .. }) => Self::Keyspace { has_undo },
        }
    }
}

impl Habit {
    /// For a script, or a function of a library, with a text of this length.
    pub(crate) fn new(text_len: usize) -> Self {
        Self { is_large: text_len > TEXT_BYTES_MAX, ..Self::default() }
    }

    /// The scope of a script that is executed together with commands that cannot be undone. `may_go_elsewhere`: this
    /// thread can pass it to the thread for long commands.
    pub(crate) fn scope_without_undo(proof: Proof, may_go_elsewhere: bool) -> Scope {
        if !may_go_elsewhere {
            Scope::Keyspace { has_undo: false }
        } else if proof.keeps_to_keys {
            Scope::Declared { has_undo: false }
        } else {
            Scope::Elsewhere
        }
    }

    /// The scope of the next run of a script; `may_go_elsewhere` as above.
    pub(crate) fn scope(&self, proof: Proof, may_go_elsewhere: bool) -> Scope {
        if may_go_elsewhere && self.is_large {
            Scope::Elsewhere
        } else if !may_go_elsewhere || proof.keeps_to_keys {
            Self::scope_without_undo(proof, may_go_elsewhere)
        } else if self.goes_elsewhere() {
            Scope::Elsewhere
        } else if self.goes_outside.load(Relaxed) {
            Scope::Keyspace { has_undo: true }
        } else {
            Scope::Declared { has_undo: true }
        }
    }

    fn goes_elsewhere(&self) -> bool {
        self.runs_elsewhere.fetch_update(Relaxed, Relaxed, |runs| runs.checked_sub(1)).is_ok()
    }

    /// Notes why a run had to begin anew.
    pub(crate) fn note(&self, stop: &Stop) {
        match stop {
            Stop::Undeclared => self.goes_outside.store(true, Relaxed),
            _ => self.runs_elsewhere.store(RUNS_ELSEWHERE, Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: Scope = Scope::Declared { has_undo: true };
    const ON_LONG_THREAD: Scope = Scope::Keyspace { has_undo: false };
    const PROVEN: Proof = Proof { keeps_to_keys: true, keeps_lists: true, is_brief: true };

    fn scope(habit: &Habit, may_go_elsewhere: bool) -> Scope {
        habit.scope(Proof::default(), may_go_elsewhere)
    }

    #[test]
    fn what_is_proven_needs_no_undo() {
        let habit = Habit::default();
        habit.note(&Stop::Elsewhere);
        assert_eq!(habit.scope(PROVEN, true), Scope::Declared { has_undo: false });
        assert_eq!(habit.scope(PROVEN, false), ON_LONG_THREAD);
    }

    #[test]
    fn large_scripts_always_go_elsewhere() {
        let habit = Habit::new(TEXT_BYTES_MAX + 1);
        assert!((0..2 * RUNS_ELSEWHERE).all(|_| habit.scope(PROVEN, true) == Scope::Elsewhere));
        assert_eq!(habit.scope(PROVEN, false), ON_LONG_THREAD);
        assert_eq!(scope(&Habit::new(TEXT_BYTES_MAX), true), DECLARED);
    }

    #[test]
    fn a_script_keeps_to_its_keys_until_it_does_not() {
        let habit = Habit::default();
        assert_eq!([true, false].map(|may| scope(&habit, may)), [DECLARED, ON_LONG_THREAD]);
        habit.note(&Stop::Undeclared);
        assert_eq!([true, false].map(|may| scope(&habit, may)), [Scope::Keyspace { has_undo: true }, ON_LONG_THREAD]);
    }

    #[test]
    fn what_takes_long_or_changes_much_goes_elsewhere_and_is_tried_again_later() {
        let habit = Habit::default();
        habit.note(&Stop::Elsewhere);
        assert_eq!(scope(&habit, false), ON_LONG_THREAD);
        assert!((0..RUNS_ELSEWHERE).all(|_| scope(&habit, true) == Scope::Elsewhere));
        assert_eq!(scope(&habit, true), DECLARED);
    }

    #[test]
    fn beside_what_cannot_be_taken_back_only_a_proof_keeps_a_script_on_its_worker() {
        assert_eq!(Habit::scope_without_undo(PROVEN, true), Scope::Declared { has_undo: false });
        assert_eq!(Habit::scope_without_undo(Proof::default(), true), Scope::Elsewhere);
        assert_eq!(Habit::scope_without_undo(PROVEN, false), ON_LONG_THREAD);
        assert_eq!(Habit::scope_without_undo(Proof::default(), false), ON_LONG_THREAD);
    }

    #[test]
    fn scripts_that_are_executed_together_need_what_each_of_them_needs() {
        let keyspace = Scope::Keyspace { has_undo: true };
        let proven = Scope::Declared { has_undo: false };
        assert_eq!([proven.and(proven), proven.and(DECLARED), DECLARED.and(proven)], [proven, DECLARED, DECLARED]);
        assert_eq!([keyspace.and(DECLARED), proven.and(keyspace)], [keyspace; 2]);
        assert_eq!([Scope::Elsewhere.and(proven), keyspace.and(Scope::Elsewhere)], [Scope::Elsewhere; 2]);
    }
}

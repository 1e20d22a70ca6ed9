//! The commands of a commit can be undone: scripts and transactions begin anew with other locks.

use std::hint::cold_path;

use onrush_store::NewValue;

use super::undo::{Image, SHOWN_BYTES_MAX, Was};
use super::{Commit, Key};
use crate::error::Stop;
use crate::lazyfree::Garbage;
use crate::messages::show::show_line;
use crate::observe::errors::ErrorCounts;

impl Commit {
    /// From now on [`Commit::undo`] can undo the commands that run inside of this commit.
    pub(crate) fn begin_undo(&mut self) {
        let ready_before = self.record.ready.len();
        let undo = &mut self.record.undo;
        debug_assert!(!undo.is_on && undo.images.is_empty());
        undo.is_on = true;
        undo.ready_before = ready_before;
        self.record.look_for_changes();
    }

    /// Shows a line to all clients that monitor: at once, or when undo ends.
    pub(crate) fn show(&mut self, line: Vec<u8>) {
        let undo = &mut self.record.undo;
        if undo.is_on {
            undo.shown_bytes += line.len();
            undo.shown.push(line);
        } else {
            show_line(self.shared, self.thread, line);
        }
    }

    /// Counts errors of commands inside of this commit: at once, or when undo ends.
    #[cold]
    pub(crate) fn count_errors(&mut self, mut errors: ErrorCounts) {
        let undo = &mut self.record.undo;
        if undo.is_on {
            undo.errors.absorb(errors);
        } else {
            errors.show(self.shared, self.thread);
        }
    }

    /// Whether more lines wait to be shown, or more messages to be sent, than may wait: the commands must be executed where
    /// they are not undone.
    #[inline]
    pub(crate) fn tells_too_much(&self) -> bool {
        let undo = &self.record.undo;
        undo.shown_bytes > SHOWN_BYTES_MAX || undo.is_on && self.record.notices.has_too_many_messages()
    }

    /// Whether the commands inside of this commit can be undone.
    #[inline]
    pub(crate) fn has_undo(&self) -> bool {
        self.record.undo.is_on
    }

    /// From now on nothing can be undone: changes so far stay.
    pub(crate) fn end_undo(&mut self) {
        let undo = &mut self.record.undo;
        if undo.is_on {
            if !undo.expired.is_empty() {
                cold_path();
                self.left.expired.extend(undo.expired.drain(..).map(|(_, removed)| removed));
            }
            let shown = std::mem::take(&mut undo.shown);
            shown.into_iter().for_each(|line| show_line(self.shared, self.thread, line));
            if !undo.errors.is_empty() {
                cold_path();
                undo.errors.show(self.shared, self.thread);
            }
            undo.clear();
            self.record.look_for_changes();
        }
    }

    /// Why a command inside got an empty table instead of the one it wanted, if so: the key was not declared, or its entry
    /// is too large to be kept.
    #[inline]
    pub(crate) fn went_outside(&self) -> Option<Stop> {
        if !self.locks.went_outside() {
            return None;
        }
        cold_path();
        Some(if self.record.undo.is_full { Stop::Elsewhere } else { Stop::Undeclared })
    }

    /// Restores all keys to their state when undo began, and drops messages about their changes. Their locks
    /// are still held. O(what was kept).
    #[cold]
    pub(crate) fn undo(&mut self) {
        let mut undo = std::mem::take(&mut self.record.undo);
        for at in 0..undo.images.len() {
            let was = undo.images[at].was.take();
            let Image { db, hash, .. } = undo.images[at];
            let bytes = undo.name(at);
            let table = self.locks.table::<false>(&mut self.record, db, &Key { bytes, hash, shard: None });
            self.left.garbage.extend(table.remove(bytes, hash).map(Garbage::from));
            if let Some(Was { value, expire, clock }) = was {
                table.insert(bytes, hash, NewValue::Owned(value), expire, clock);
            }
        }
        for (db, removed) in undo.expired.drain(..) {
            let (bytes, hash) = (removed.key(), self.shared.keyspace.hash(removed.key()));
            let table = self.locks.table::<false>(&mut self.record, db, &Key { bytes, hash, shard: None });
            if table.get(bytes, hash).is_none() {
                table.insert_entry(removed, hash);
            } else {
                self.left.garbage.push(removed.into());
            }
        }
        self.record.ready.truncate(undo.ready_before);
        undo.clear();
        self.record.undo = undo;
        self.record.abandon();
    }
}

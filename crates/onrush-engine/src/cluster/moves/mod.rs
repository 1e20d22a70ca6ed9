//! Slots that move as a whole (CLUSTER MIGRATESLOTS).
//!
//! The source connects to the target as a client and sends commands: first those that make the keys, group by group of
//! slots, then those that clients have executed since a group's cut. When hardly anything is left, writes are held back, the
//! target says that it has all, takes the slots over, and the source gives them away. Until then no client of the target
//! sees them ([`Moves::hides`]); if the move fails, the target deletes what has come.
//!
//! This is what commands and the thread of the moves share.

pub mod import;
pub mod job;
pub mod stream;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use onrush_cluster::slots::{SLOTS, SlotSet};
use parking_lot::{Condvar, Mutex};

use crate::cluster::slot_bits::SlotBits;
use crate::ctx::Engine;
use job::{Job, Side, Stage};

/// Moves that may wait or go on at once.
pub const ACTIVE_MAX: usize = 1024;

/// What the thread of the moves is to do.
#[derive(Debug)]
pub enum Work {
    /// Send slots away.
    Export(Job),
    /// Delete what has come of a move that failed.
    CleanUp(Job),
}

/// See the module's text.
pub struct Moves {
    /// Those that go on, and the latest that are over, the oldest first.
    jobs: Mutex<VecDeque<Job>>,
    changed: Condvar,
    /// Moves that are over and stay in the list (`cluster-slot-migration-log-max-len`).
    pub over_max: AtomicUsize,
    /// Slots whose keys no client sees yet.
    hidden: SlotBits,
    has_hidden: AtomicBool,
    /// Taken by who hides or shows slots: whether some are hidden must not be told late.
    hiding: Mutex<()>,
    /// Counts the changes of what is hidden.
    hidden_version: AtomicU64,
    /// Slots that are another node's, or soon may be, and whose keys are still here.
    leaving: Mutex<SlotSet>,
    /// The file that says which slots are hidden or leaving, so that a node that starts again deletes their keys.
    marks: OnceLock<PathBuf>,
    /// Taken by who writes that file, also while it waits for the disk: what is newer must not be replaced by what is older.
    writing: Mutex<()>,
    /// Taken by who tells replicas what is hidden, for the same reason.
    telling: Mutex<()>,
    /// Whether so much waits for a target that writes are held back.
    is_behind: AtomicBool,
}

impl Default for Moves {
    fn default() -> Self {
        Self {
            jobs: Mutex::default(),
            changed: Condvar::new(),
            over_max: AtomicUsize::new(1000),
            hidden: SlotBits::default(),
            has_hidden: AtomicBool::new(false),
            hiding: Mutex::default(),
            hidden_version: AtomicU64::new(0),
            leaving: Mutex::new(SlotSet::new()),
            marks: OnceLock::new(),
            writing: Mutex::default(),
            telling: Mutex::default(),
            is_behind: AtomicBool::new(false),
        }
    }
}

impl Moves {
    /// All of them.
    pub fn all(&self) -> Vec<Job> {
        self.jobs.lock().iter().cloned().collect()
    }

    /// Adds moves, all or none. O(slots).
    ///
    /// # Errors
    /// A slot is in another one that goes on, or in two of them; or there are too many.
    pub fn add(&self, new: Vec<Job>) -> Result<(), String> {
        let mut jobs = self.jobs.lock();
        let active = jobs.iter().filter(|job| !job.stage.is_over());
        if active.clone().count() + new.len() > ACTIVE_MAX {
            return Err(format!("ERR There are {ACTIVE_MAX} migrations of slots already"));
        }
        let mut taken = SlotSet::new();
        active.for_each(|job| job.slots.iter().for_each(|slot| taken.add(slot)));
        for job in &new {
            for slot in job.slots.iter() {
                if taken.has(slot) {
                    return Err(format!("ERR Slot {slot} is in a migration already"));
                }
                taken.add(slot);
            }
        }
        jobs.extend(new);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for something to do, at most so long. A move that failed comes first; slots are sent in one move at a time.
    pub fn next(&self, at_most: Duration, now_s: i64) -> Option<Work> {
        let mut jobs = self.jobs.lock();
        if let Some(work) = Self::take(&mut jobs, now_s) {
            return Some(work);
        }
        self.changed.wait_for(&mut jobs, at_most);
        Self::take(&mut jobs, now_s)
    }

    fn take(jobs: &mut VecDeque<Job>, now_s: i64) -> Option<Work> {
        let failed = |job: &&mut Job| job.side == Side::Import && job.is_unwanted && !job.stage.is_over();
        if let Some(job) = jobs.iter_mut().find(failed) {
            job.is_unwanted = false;
            (job.stage, job.updated_s) = (Stage::CleansUp, now_s);
            return Some(Work::CleanUp(job.clone()));
        }
        if jobs.iter().any(|job| job.is_run) {
            return None;
        }
        let next = jobs.iter_mut().find(|job| job.stage == Stage::Waits)?;
        (next.stage, next.updated_s, next.is_run) = (Stage::Connects, now_s, true);
        Some(Work::Export(next.clone()))
    }

    /// A move is at another stage, or what is done for it has ended. One that is over stays in the list as long as there is room.
    pub fn set_stage(&self, name: &str, side: Side, stage: Stage, message: &str, now_s: i64) {
        let mut jobs = self.jobs.lock();
        if let Some(job) = find(&mut jobs, name, side) {
            job.is_run &= !stage.is_over();
            if !job.stage.is_over() {
                (job.stage, job.updated_s) = (stage, now_s);
                if !message.is_empty() {
                    message.clone_into(&mut job.message);
                }
            }
        }
        // The next one may begin.
        self.changed.notify_all();
        let mut over = jobs.iter().filter(|job| job.stage.is_over()).count();
        let most = self.over_max.load(Relaxed);
        jobs.retain(|job| {
            let goes = job.stage.is_over() && !job.is_run && over > most;
            over -= usize::from(goes);
            !goes
        });
    }

    /// The other node was heard of.
    pub fn note_heard(&self, name: &str, side: Side, now_s: i64) {
        if let Some(job) = find(&mut self.jobs.lock(), name, side) {
            job.heard_s = now_s;
        }
    }

    /// Cancels all moves from here that are not being handed over, and returns how many are. Whoever sends slots looks from time
    /// to time whether its move goes on, and always before the hand-over. O(moves).
    pub fn cancel_exports(&self, now_s: i64) -> usize {
        let mut jobs = self.jobs.lock();
        let mut handed_over = 0;
        for job in jobs.iter_mut().filter(|job| job.side == Side::Export && !job.stage.is_over()) {
            if job.stage == Stage::HandsOver {
                handed_over += 1;
            } else {
                (job.stage, job.updated_s) = (Stage::Cancelled, now_s);
            }
        }
        handed_over
    }

    /// Whether a client has ended a move from here.
    pub fn is_cancelled(&self, name: &str) -> bool {
        // One that is over may have made room for later ones.
        find(&mut self.jobs.lock(), name, Side::Export).is_none_or(|job| job.stage == Stage::Cancelled)
    }

    /// The stage of a move.
    #[cfg(test)]
    fn stage(&self, name: &str, side: Side) -> Option<Stage> {
        find(&mut self.jobs.lock(), name, side).map(|job| job.stage)
    }

    /// The connection of a move to here is closed: unless the slots were taken over, the move has failed, and what has come is
    /// to be deleted.
    pub(crate) fn end_import(&self, name: &str, why: &str) {
        let mut jobs = self.jobs.lock();
        if let Some(job) = find(&mut jobs, name, Side::Import)
            && !job.stage.is_over()
            && job.stage != Stage::CleansUp
        {
            job.is_unwanted = true;
            if job.message.is_empty() {
                why.clone_into(&mut job.message);
            }
            self.changed.notify_all();
        }
    }

    /// All moves to here have failed. Their connections execute nothing any more, and what has come is deleted when they are
    /// closed.
    pub(crate) fn fail_imports(&self, why: &str) {
        let mut jobs = self.jobs.lock();
        for job in jobs.iter_mut().filter(|job| job.side == Side::Import && !job.stage.is_over()) {
            job.failed.store(true, Relaxed);
            why.clone_into(&mut job.message);
        }
    }

    /// Whether clients do not see the keys of a slot: they come from another node, and are not all here.
    #[inline]
    pub fn hides(&self, slot: u16) -> bool {
        self.hidden.has(slot)
    }

    /// Whether it hides any.
    #[inline]
    pub fn hides_some(&self) -> bool {
        self.has_hidden.load(Relaxed)
    }

    /// Slots whose keys clients do not see.
    pub fn hidden(&self) -> SlotSet {
        (0..SLOTS).filter(|slot| self.hides(*slot)).collect()
    }

    /// Hides slots, or shows them again.
    pub fn hide(&self, slots: &SlotSet, is_hidden: bool) {
        let _alone = self.hiding.lock();
        slots.iter().for_each(|slot| self.hidden.set(slot, is_hidden));
        self.has_hidden.store(!self.hidden.is_empty(), Relaxed);
        self.hidden_version.fetch_add(1, Relaxed);
    }

    /// Hides exactly these slots: the primary of this node says so.
    pub fn hide_only(&self, slots: &SlotSet) {
        let hidden = self.hidden();
        self.hide(&hidden.difference(slots).collect(), false);
        self.hide(slots, true);
    }

    /// Counts the changes of what is hidden.
    pub fn hidden_version(&self) -> u64 {
        self.hidden_version.load(Relaxed)
    }

    /// Hidden slots that no move brings any more: the node that got them was this one's primary, and has failed.
    pub fn left_over(&self) -> SlotSet {
        let mut hidden = self.hidden();
        for job in self.jobs.lock().iter().filter(|job| job.side == Side::Import && !job.stage.is_over()) {
            job.slots.iter().for_each(|slot| hidden.remove(slot));
        }
        hidden
    }

    /// Slots are another node's, or soon may be: if this node ends before their keys are deleted, they are when it starts
    /// again, unless the slots are its own then. With `false`, that is over.
    pub fn leave(&self, slots: &[u16], is_leaving: bool) {
        let mut leaving = self.leaving.lock();
        for slot in slots {
            if is_leaving { leaving.add(*slot) } else { leaving.remove(*slot) }
        }
        self.hidden_version.fetch_add(1, Relaxed);
    }

    /// Whether a slot has gone, or goes, and keys of it are still here.
    pub fn is_leaving(&self, slot: u16) -> bool {
        self.leaving.lock().has(slot)
    }

    /// Whether keys may still be here of a slot that has gone, or that did not come as a whole.
    pub(crate) fn has_remains(&self, slot: u16) -> bool {
        self.is_leaving(slot) || self.hides(slot) && self.left_over().has(slot)
    }

    /// No slots leave any more: this node is a replica, whose keys are its primary's.
    pub fn leave_nothing(&self) {
        let mut leaving = self.leaving.lock();
        if !leaving.is_empty() {
            *leaving = SlotSet::new();
            self.hidden_version.fetch_add(1, Relaxed);
        }
    }

    /// Whether a slot comes here in a move that goes on.
    pub(crate) fn is_coming(&self, slot: u16) -> bool {
        let comes = |job: &Job| job.side == Side::Import && !job.stage.is_over() && job.slots.has(slot);
        self.jobs.lock().iter().any(comes)
    }

    /// Whether a slot is in a move that goes on.
    pub fn is_moving(&self, slot: u16) -> bool {
        self.jobs.lock().iter().any(|job| !job.stage.is_over() && job.slots.has(slot))
    }

    /// Ends moves to here whose sources have said nothing for so many seconds: they are gone, or cut off.
    pub fn end_silent_imports(&self, engine: &Engine, now_s: i64, at_most_s: i64) {
        let mut jobs = self.jobs.lock();
        let comes = |job: &&mut Job| job.side == Side::Import && !job.stage.is_over() && job.stage != Stage::CleansUp;
        for job in jobs.iter_mut().filter(comes).filter(|job| now_s - job.heard_s > at_most_s) {
            if !job.failed.swap(true, Relaxed) {
                job.message = format!("the source has said nothing for {at_most_s} s");
                // What has come is deleted when its connection is closed.
                if let Some(client) = engine.clients.get(job.client) {
                    client.kill();
                }
            }
        }
    }

    /// Slots whose keys are to be deleted if this node starts again and they are not its own.
    pub fn marked(&self) -> SlotSet {
        let mut marked = self.hidden();
        self.leaving.lock().iter().for_each(|slot| marked.add(slot));
        marked
    }

    /// The file that says which slots those are.
    pub fn marks(&self) -> &OnceLock<PathBuf> {
        &self.marks
    }

    /// Whether so much waits for a target that commands that write are held back.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Relaxed)
    }
}

fn find<'a>(jobs: &'a mut VecDeque<Job>, name: &str, side: Side) -> Option<&'a mut Job> {
    jobs.iter_mut().rev().find(|job| job.name == name && job.side == side)
}

#[cfg(test)]
mod tests {
    use super::*;

    use onrush_cluster::slots::{parse_ranges, ranges_text};

    fn job(name: &str, side: Side, slots: std::ops::Range<u16>) -> Job {
        Job::new(name.to_owned(), side, slots.collect(), "s", "t", 1)
    }

    #[test]
    fn a_slot_is_in_one_move_at_a_time_and_they_go_on_one_by_one() {
        let moves = Moves::default();
        moves.add(vec![job("a", Side::Export, 0..10), job("b", Side::Export, 10..20)]).unwrap();
        assert!(moves.add(vec![job("c", Side::Export, 19..21)]).unwrap_err().contains("Slot 19"));
        let Some(Work::Export(first)) = moves.next(Duration::ZERO, 2) else { panic!() };
        assert_eq!((first.name.as_str(), first.ranges().as_str(), first.stage), ("a", "0-9", Stage::Connects));
        assert!(moves.next(Duration::ZERO, 2).is_none());
        moves.set_stage("a", Side::Export, Stage::HandsOver, "", 3);
        assert_eq!(moves.cancel_exports(3), 1);
        assert_eq!(moves.stage("b", Side::Export), Some(Stage::Cancelled));
        assert!(moves.is_cancelled("b") && !moves.is_cancelled("a") && moves.is_cancelled("forgotten"));
        moves.set_stage("b", Side::Export, Stage::HandsOver, "", 4);
        assert!(moves.is_cancelled("b"));
        moves.add(vec![job("c", Side::Export, 15..16)]).unwrap();
        moves.set_stage("a", Side::Export, Stage::Done, "", 4);
        moves.set_stage("a", Side::Export, Stage::Failed, "too late", 5);
        assert_eq!(moves.stage("a", Side::Export), Some(Stage::Done));
        assert!(matches!(moves.next(Duration::ZERO, 6), Some(Work::Export(job)) if job.name == "c"));
        // It is over for clients, but its thread has not seen that yet.
        assert_eq!(moves.cancel_exports(7), 0);
        moves.add(vec![job("d", Side::Export, 15..16)]).unwrap();
        assert!(moves.next(Duration::ZERO, 7).is_none());
        moves.set_stage("c", Side::Export, Stage::Cancelled, "", 8);
        assert!(matches!(moves.next(Duration::ZERO, 8), Some(Work::Export(job)) if job.name == "d"));
        moves.add(vec![job("c", Side::Import, 19..21)]).unwrap();
    }

    #[test]
    fn what_has_come_of_a_move_that_fails_is_deleted_once() {
        let moves = Moves::default();
        let import = job("a", Side::Import, 5..7);
        moves.hide(&import.slots, true);
        moves.add(vec![import.clone()]).unwrap();
        assert!(moves.hides(5) && moves.hides_some() && !moves.hides(7));
        moves.end_import("a", "why");
        moves.end_import("a", "later");
        let Some(Work::CleanUp(job)) = moves.next(Duration::ZERO, 2) else { panic!() };
        assert_eq!((job.message.as_str(), job.slots()), ("why", vec![5, 6]));
        moves.end_import("a", "again");
        assert!(moves.next(Duration::ZERO, 2).is_none());
        moves.hide(&import.slots, false);
        assert!(!moves.hides_some());
    }

    #[test]
    fn what_is_hidden_is_told_as_text() {
        let moves = Moves::default();
        moves.hide(&[1, 2, 3, 99].into_iter().collect(), true);
        let text = ranges_text(&moves.hidden());
        assert_eq!(text, "1-3 99-99");
        assert_eq!(parse_ranges(&text).map(|slots| slots.len()), Some(4));
        assert!(parse_ranges("1-16384").is_none() && parse_ranges("x").is_none());
        moves.hide_only(&[2, 7].into_iter().collect());
        assert_eq!(ranges_text(&moves.hidden()), "2-2 7-7");
        moves.add(vec![job("a", Side::Import, 7..8)]).unwrap();
        assert_eq!(ranges_text(&moves.left_over()), "2-2");
    }

    #[test]
    fn the_oldest_that_are_over_go_first() {
        let moves = Moves::default();
        moves.over_max.store(2, Relaxed);
        for (nth, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let at = nth as u16 * 10;
            moves.add(vec![job(name, Side::Export, at..at + 10)]).unwrap();
        }
        ["b", "a", "d"].into_iter().for_each(|name| moves.set_stage(name, Side::Export, Stage::Done, "", 2));
        let names: Vec<_> = moves.all().into_iter().map(|job| job.name).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }
}

//! The edit point: everything that happens to a key because it changes, expires, or is evicted.

use std::sync::Arc;

use onrush_store::{Removed, Table, Type};

use super::journal::Journal;
use super::key::Key;
use super::notices::Notices;
use super::saving::Saving;
use super::undo::Undo;
use crate::messages::events::EventClass;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::tracking::invalidations::NOBODY;

/// What a thread's commits leave behind, and keep before a change.
///
/// A record is closed, that is, gets its number, and what clients are to learn is sent, while the locks of its keys are
/// held: at the end of the commit, or before a lock goes back in the middle of it.
pub(super) struct Recorder {
    shared: &'static Shared,
    /// Effects for the log.
    pub(super) journal: Journal,
    /// Messages for clients.
    pub(super) notices: Notices,
    /// What is kept so that changes can be undone, while they can.
    pub(super) undo: Undo,
    /// Entries for the snapshot under way.
    pub(super) saving: Saving,
    /// Keys that changed and that clients may wait for, with their databases.
    pub(super) ready: Vec<(u32, Vec<u8>)>,
    /// Whether the record stays open until an outer commit ends.
    is_held: bool,
    /// Whether the log has a follower, changes can be undone, or a snapshot is under way.
    sees_changes: bool,
}

impl Recorder {
    pub(super) fn new(shared: &'static Shared, thread: usize) -> Self {
        let mut recorder = Self {
            shared,
            journal: Journal::new(Arc::clone(&shared.log)),
            notices: Notices::new(shared, thread),
            undo: Undo::default(),
            saving: Saving::new(shared, thread),
            ready: Vec::new(),
            is_held: false,
            sees_changes: false,
        };
        recorder.look_for_changes();
        recorder
    }

    /// Updates who follows changes: the log, keyspace events, a snapshot.
    #[inline]
    pub(super) fn look(&mut self, settings: &Settings) {
        self.journal.look();
        self.notices.set_events(settings.events());
        self.saving.look();
        self.look_for_changes();
    }

    /// Drops the open record and its messages.
    pub(super) fn abandon(&mut self) {
        self.journal.abandon();
        self.notices.abandon();
        self.look_for_changes();
    }

    /// Whether it must see keys before they change.
    #[inline(always)]
    pub(super) fn sees_changes(&self) -> bool {
        self.sees_changes
    }

    /// Updates whether it must.
    pub(super) fn look_for_changes(&mut self) {
        self.sees_changes = self.journal.is_on() | self.undo.is_on() | self.saving.is_on();
    }

    /// Notes that a key of this table is about to be changed; returns false if it must not be, because the change could
    /// not be undone.
    pub(super) fn touch(&mut self, db: u32, key: &Key<'_>, table: &mut Table) -> bool {
        self.journal.touch(db, key.bytes);
        self.saving.save(db, key, table);
        !self.undo.is_on() || self.undo.keep(db, key.bytes, key.hash, table)
    }

    /// Notifies clients that watch or track a key that it has changed without a command.
    pub(super) fn changed_by_itself(&mut self, db: u32, key: &[u8]) {
        if !self.shared.watched.is_unobserved() {
            let hash = self.shared.keyspace.hash(key);
            self.shared.watched.changed(db, key, hash);
            self.notices.outdate(key, hash, NOBODY);
        }
    }

    /// Notes a key that has expired and was taken out of its table: in the list of such keys, or, if there is a way
    /// back, there.
    pub(super) fn expired(&mut self, db: u32, removed: Removed, list: &mut Vec<Removed>) {
        self.note_expired(db, &removed);
        if self.undo.is_on() {
            self.undo.bury(db, removed);
        } else {
            list.push(removed);
        }
    }

    /// A key has expired. Its lock is held.
    pub(super) fn note_expired(&mut self, db: u32, removed: &Removed) {
        let key = removed.key();
        // Nobody waits for the end of other values.
        if removed.ty() == Type::Stream {
            self.note_ready(db, key);
        }
        if !self.shared.watched.is_unobserved() {
            let hash = self.shared.keyspace.hash(key);
            self.shared.watched.expired(db, key, hash);
            self.notices.outdate(key, hash, NOBODY);
        }
        self.notices.notify(db, EventClass::Expired, "expired", key);
        self.journal.also(db, [&b"DEL"[..], key].into_iter());
    }

    /// Notes a key that has changed or is gone, if a client may wait for it. Its lock is held.
    pub(super) fn note_ready(&mut self, db: u32, key: &[u8]) {
        let waiters = &self.shared.waiters;
        if !waiters.is_empty() && waiters.may_have(self.shared.keyspace.hash(key)) {
            self.ready.push((db, key.to_vec()));
        }
    }

    /// With `true`, keeps the record open until a call with `false`: the effects of several commands inside of one
    /// commit are one record.
    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Gives the open record its number, if there is one, and sends its messages. Its locks are still held.
    #[inline(always)]
    pub(super) fn close(&mut self) {
        if self.journal.has_effects() | self.notices.has_any() {
            self.close_open();
        }
    }

    fn close_open(&mut self) {
        if self.is_held {
            return;
        }
        self.journal.close();
        self.notices.deliver();
    }
}

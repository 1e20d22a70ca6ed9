//! What a commit leaves in the command log.

use std::sync::Arc;

use onrush_persist::{CommandLog, Effects};
use onrush_store::{KeyHash, Removed, Table, Type, schedule};

use super::key::Key;
use super::rebuild::rebuild;
use super::undo::Undo;
use crate::batch::argv::Argv;
use crate::batch::kept::KEPT_BYTES_MAX;
use crate::messages::events::{EventClass, EventClasses};
use crate::messages::kind::Kind;
use crate::messages::outgoing::Outgoing;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::snapshot::Underway;
use crate::tracking::invalidations::{Invalidations, NOBODY};

/// Records a thread's commits while the log has a follower, and does nothing otherwise.
///
/// A record is closed, that is, gets its number, while the locks of its keys are held: at the end of the commit, or
/// before a lock goes back in the middle of it.
pub(super) struct Recorder {
    shared: &'static Shared,
    log: Arc<CommandLog>,
    /// Whether the log has a follower.
    is_on: bool,
    /// Keyspace events that are published.
    events: EventClasses,
    /// Whether the open record has effects or messages.
    is_open: bool,
    /// Whether the record stays open until an outer commit ends.
    is_held: bool,
    /// Whether the present command has recorded its effects by itself.
    is_rewritten: bool,
    effects: Effects,
    /// The LSN of the record that was closed last.
    last_lsn: u64,
    /// Whether the open record has effects.
    has_effects: bool,
    touched: Touched,
    /// What is kept so that changes can be undone, while they can.
    pub(super) undo: Undo,
    /// The snapshot that does not have all entries yet, and its number.
    snapshot: Option<Arc<Underway>>,
    snapshot_number: u64,
    /// Whether the log has a follower, changes can be undone, or a snapshot is under way.
    sees_changes: bool,
    thread: usize,
    /// Messages to send when the record is closed.
    outgoing: Outgoing,
    /// Notifications for clients that track keys, to send then.
    invalidations: Invalidations,
    /// New keys, with their databases, until their first event.
    fresh: Vec<(u32, Vec<u8>)>,
    /// Keys that changed and that clients may wait for, with their databases.
    pub(super) ready: Vec<(u32, Vec<u8>)>,
}

/// Most members, and about the most bytes, of a recorded command that names what another command has chosen: a reader
/// needs memory for one of them at a time.
const PIECE_MEMBERS_MAX: usize = 64 << 10;
const PIECE_BYTES_MAX: usize = 16 << 20;

/// Parts of `members` for one command each. O(members).
fn pieces<M: AsRef<[u8]>>(members: &[M]) -> impl Iterator<Item = &[M]> {
    let mut rest = members;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let is_within = |member: &&M| {
            bytes += member.as_ref().len();
            bytes <= PIECE_BYTES_MAX
        };
        let len = rest.iter().take(PIECE_MEMBERS_MAX).take_while(is_within).count();
        let (piece, left) = rest.split_at(len.max(1).min(rest.len()));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Keys that the present command has accessed for changing them.
#[derive(Default)]
struct Touched {
    /// Their bytes, one after the other.
    bytes: Vec<u8>,
    /// Their databases, and where they end.
    keys: Vec<(u32, usize)>,
}

impl Touched {
    #[inline]
    fn push(&mut self, db: u32, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.keys.push((db, self.bytes.len()));
    }

    #[inline]
    fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        *self = Self::default();
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let starts = [0].into_iter().chain(self.keys.iter().map(|(_, end)| *end));
        self.keys.iter().zip(starts).map(|((db, end), start)| (*db, &self.bytes[start..*end]))
    }
}

impl Recorder {
    pub(super) fn new(shared: &'static Shared, thread: usize) -> Self {
        let is_on = shared.log.is_listening();
        Self {
            shared,
            log: Arc::clone(&shared.log),
            is_on,
            events: shared.settings.events(),
            is_open: false,
            is_held: false,
            is_rewritten: false,
            effects: Effects::default(),
            last_lsn: 0,
            has_effects: false,
            touched: Touched::default(),
            undo: Undo::default(),
            snapshot: None,
            snapshot_number: 0,
            sees_changes: is_on,
            thread,
            outgoing: Outgoing::new(shared, thread),
            invalidations: Invalidations::new(shared, thread),
            fresh: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Whether the log has a follower.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The LSN of the record that was closed last.
    #[inline(always)]
    pub(super) fn last_lsn(&self) -> u64 {
        self.last_lsn
    }

    /// Whether keyspace events are published.
    #[inline(always)]
    pub(super) fn tells_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether events for new keys are published.
    #[inline(always)]
    pub(super) fn tells_new(&self) -> bool {
        self.events.contains(EventClasses::NEW)
    }

    /// Whether events for missing keys are published.
    #[inline(always)]
    pub(super) fn tells_misses(&self) -> bool {
        self.events.contains(EventClasses::KEY_MISS)
    }

    /// Updates whether the log has a follower and which events are published.
    #[inline]
    pub(super) fn look(&mut self, settings: &Settings) {
        self.is_on = self.log.is_listening();
        self.events = settings.events();
        if self.shared.snapshots.number() != self.snapshot_number {
            self.look_for_snapshot();
        }
        self.look_for_changes();
    }

    /// Whether it must see keys before they change.
    #[inline(always)]
    pub(super) fn sees_changes(&self) -> bool {
        self.sees_changes
    }

    /// Updates whether it must.
    pub(super) fn look_for_changes(&mut self) {
        self.sees_changes = self.is_on | self.undo.is_on() | (self.snapshot_number != 0);
    }

    #[cold]
    fn look_for_snapshot(&mut self) {
        self.snapshot_number = self.shared.snapshots.number();
        let is_on = self.snapshot_number != 0;
        self.snapshot = is_on.then(|| self.shared.snapshots.underway()).flatten();
    }

    /// Notes that a key of this table is about to be changed; returns false if it must not be, because the change could
    /// not be undone.
    pub(super) fn touch(&mut self, db: u32, key: &Key<'_>, table: &mut Table) -> bool {
        if self.is_on {
            self.touched.push(db, key.bytes);
        }
        if let Some(snapshot) = &self.snapshot {
            table.save_key(key.bytes, key.hash, |entry, frozen| snapshot.save(self.thread, db, entry, frozen));
        }
        !self.undo.is_on() || self.undo.keep(db, key.bytes, key.hash, table)
    }

    /// Notes a new key. Its event is published with the key's first other event, if there is one: a command may remove
    /// the key before.
    #[cold]
    pub(super) fn note_new(&mut self, db: u32, key: &[u8]) {
        self.fresh.push((db, key.to_vec()));
    }

    /// A new key is gone before its event was published.
    #[cold]
    pub(super) fn forget_new(&mut self, db: u32, key: &[u8]) {
        self.fresh.retain(|(other, name)| *other != db || name != key);
    }

    /// Publishes an event when the record is closed, if its class is published.
    pub(super) fn notify(&mut self, db: u32, class: EventClass, event: &'static str, key: &[u8]) {
        self.notify_new();
        if self.events.contains(class.flag()) {
            self.outgoing.publish_event(self.events, db, event, key);
        }
        self.is_open |= !self.outgoing.is_empty();
    }

    /// Publishes events for new keys when the record is closed.
    pub(super) fn notify_new(&mut self) {
        for (db, key) in std::mem::take(&mut self.fresh) {
            self.outgoing.publish_event(self.events, db, "new", &key);
        }
        self.is_open |= !self.outgoing.is_empty();
    }

    /// Notifies clients that track keys, when the record is closed, that `writer` has changed one.
    pub(super) fn outdate(&mut self, key: &[u8], hash: KeyHash, writer: u64) {
        self.invalidations.changed(key, hash, writer);
        self.is_open |= !self.invalidations.is_empty();
    }

    /// Notifies them that all keys may have changed.
    pub(super) fn outdate_everything(&mut self) {
        self.invalidations.everything_changed();
        self.is_open = true;
    }

    /// If too many keys are tracked, forgets some, but not this one.
    pub(super) fn forget_read(&mut self, key: &[u8], hash: KeyHash, max: usize) {
        self.invalidations.throw_out(hash, key, max);
        self.is_open |= !self.invalidations.is_empty();
    }

    /// Notifies clients that track prefixes of the keys that have changed. No lock of a shard may be held.
    #[inline]
    pub(super) fn broadcast(&mut self) {
        if self.invalidations.has_broadcasts() {
            self.invalidations.broadcast();
        }
    }

    /// Notifies clients that watch or track a key that it has changed without a command.
    pub(super) fn changed_by_itself(&mut self, db: u32, key: &[u8]) {
        if !self.shared.watched.is_unobserved() {
            let hash = self.shared.keyspace.hash(key);
            self.shared.watched.changed(db, key, hash);
            self.outdate(key, hash, NOBODY);
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
            self.outdate(key, hash, NOBODY);
        }
        self.notify(db, EventClass::Expired, "expired", key);
        if self.is_on {
            self.command(db, [&b"DEL"[..], key].into_iter());
        }
    }

    /// Notes a key that has changed or is gone, if a client may wait for it. Its lock is held.
    pub(super) fn note_ready(&mut self, db: u32, key: &[u8]) {
        let waiters = &self.shared.waiters;
        if !waiters.is_empty() && waiters.may_have(self.shared.keyspace.hash(key)) {
            self.ready.push((db, key.to_vec()));
        }
    }

    /// Saves an entry that was taken out of this table, if the snapshot under way does not have it.
    pub(super) fn save_removed(&self, db: u32, removed: &mut Removed, table: &Table) {
        if let Some(snapshot) = &self.snapshot
            && table.is_unsaved(removed)
        {
            let frozen = removed.freeze();
            snapshot.save(self.thread, db, removed, frozen);
        }
    }

    /// The snapshot that does not have all entries yet.
    pub(super) fn snapshot(&self) -> Option<&Arc<Underway>> {
        self.snapshot.as_ref()
    }

    /// Drops the open record and its messages.
    pub(super) fn abandon(&mut self) {
        self.effects.truncate_open(0);
        self.outgoing.clear();
        self.fresh.clear();
        self.touched.clear();
        (self.has_effects, self.is_rewritten) = (false, false);
        // The readers of a key are no longer known, so they are notified now, although the key is unchanged.
        self.is_open = !self.invalidations.is_empty();
        self.look_for_changes();
    }

    /// Records a part of the present command's effects.
    pub(super) fn also<'a>(&mut self, db: u32, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.is_on {
            self.command(db, args);
        }
    }

    /// Records that members of a key were removed: by one command, or by several if they are many.
    pub(super) fn removed<M: AsRef<[u8]>>(&mut self, db: u32, command: &'static [u8], key: &[u8], members: &[M]) {
        if !self.is_on {
            return;
        }
        for piece in pieces(members) {
            let members = piece.iter().map(AsRef::as_ref);
            let args: Vec<&[u8]> = [command, key].into_iter().chain(members).collect();
            self.command(db, args.into_iter());
        }
    }

    /// The present command is not recorded as it was sent: it records its effects, if any, in parts.
    #[inline]
    pub(super) fn logs_itself(&mut self) {
        self.is_rewritten = self.is_on;
    }

    /// Ends a command that changed something: it is recorded as it was sent, unless it has recorded its effects by
    /// itself.
    pub(super) fn sent(&mut self, db: u32, argv: &Argv<'_>) {
        if self.is_rewritten {
            return;
        }
        match argv.multibulk() {
            Some(multibulk) => {
                (self.is_open, self.has_effects) = (true, true);
                self.effects.encoded(db, multibulk);
            }
            None => self.command(db, argv.iter()),
        }
    }

    /// As [`Recorder::sent`], under another name.
    pub(super) fn sent_as(&mut self, db: u32, name: &[u8], argv: &Argv<'_>) {
        if self.is_on && !self.is_rewritten {
            let args: Vec<&[u8]> = [name].into_iter().chain(argv.iter().skip(1)).collect();
            self.command(db, args.into_iter());
            self.is_rewritten = true;
        }
    }

    fn command<'a>(&mut self, db: u32, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        (self.is_open, self.has_effects) = (true, true);
        self.effects.command(db, args);
    }

    /// Publishes a message when the record is closed; returns how many clients get it.
    pub(super) fn publish(
        &mut self,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
        owned: Option<&Arc<Vec<u8>>>,
    ) -> usize {
        let receivers = self.outgoing.publish(kind, channel, message, owned);
        self.is_open |= receivers > 0;
        receivers
    }

    /// Whether more messages wait for the end of the commit than may.
    #[inline]
    pub(super) fn has_too_many_messages(&self) -> bool {
        self.outgoing.is_full()
    }

    /// Sends the messages before the record is closed: there are too many to keep.
    #[cold]
    pub(super) fn send_messages(&mut self) {
        self.outgoing.deliver();
    }

    /// Clears what is remembered of the present command.
    pub(super) fn end_command(&mut self) {
        self.is_rewritten = false;
        self.touched.clear();
    }

    /// With `true`, keeps the record open until a call with `false`: the effects of several commands inside of one
    /// commit are one record.
    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Gives the open record its number, if there is one, and sends its messages. Its locks are still held.
    #[inline(always)]
    pub(super) fn close(&mut self) {
        if self.is_open {
            self.close_open();
        }
    }

    fn close_open(&mut self) {
        if self.is_held {
            return;
        }
        self.is_open = false;
        if std::mem::take(&mut self.has_effects) {
            schedule::point();
            self.last_lsn = self.log.close(&mut self.effects);
            schedule::point();
        }
        if !self.invalidations.is_empty() {
            self.invalidations.deliver();
        }
        if !self.outgoing.is_empty() {
            self.outgoing.deliver();
        }
    }

    /// Hands closed records to the log.
    #[inline]
    pub(super) fn submit(&mut self) {
        if !self.effects.is_empty() {
            self.log.submit(&mut self.effects);
        }
    }

    /// Records the keys that a command has touched as they are now: it panicked and could not record its effects.
    /// `table` finds a key's locked table.
    #[cold]
    pub(super) fn record_as_is<'t>(
        &mut self,
        now_ms: i64,
        table: impl Fn(u32, KeyHash) -> Option<&'t Table>,
        hash: impl Fn(&[u8]) -> KeyHash,
    ) {
        let touched = std::mem::take(&mut self.touched);
        for (db, key) in touched.iter() {
            let hash = hash(key);
            // A key whose lock has gone back was recorded before.
            let Some(table) = table(db, hash) else { continue };
            self.command(db, [&b"DEL"[..], key].into_iter());
            if let Some(entry) = table.get(key, hash).filter(|entry| !entry.is_expired(now_ms)) {
                rebuild(entry, &mut |args| self.command(db, args.iter().copied()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_members_and_large_ones_are_recorded_in_pieces() {
        let lens = |members: &[Vec<u8>]| pieces(members).map(<[_]>::len).collect::<Vec<_>>();
        let most = PIECE_MEMBERS_MAX;
        assert_eq!(lens(&[]), [0; 0]);
        assert_eq!(lens(&vec![vec![1]; most]), [most]);
        assert_eq!(lens(&vec![vec![1]; 2 * most + 1]), [most, most, 1]);
        let (half, large) = (vec![0; PIECE_BYTES_MAX / 2], vec![0; PIECE_BYTES_MAX + 1]);
        assert_eq!(lens(&[half.clone(), half.clone(), half.clone()]), [2, 1]);
        assert_eq!(lens(&[large.clone(), half, large]), [1, 1, 1]);
    }
}

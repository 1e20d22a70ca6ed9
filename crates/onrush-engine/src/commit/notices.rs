//! What a commit tells clients when its record is closed: messages, keyspace events, and that keys they track have
//! changed.

use std::sync::Arc;

use onrush_store::KeyHash;

use crate::messages::events::{EventClass, EventClasses};
use crate::messages::kind::Kind;
use crate::messages::outgoing::Outgoing;
use crate::shared::Shared;
use crate::tracking::invalidations::Invalidations;

/// See the module's text.
pub(super) struct Notices {
    /// Keyspace events that are published.
    events: EventClasses,
    /// Whether there is anything to deliver.
    has_any: bool,
    outgoing: Outgoing,
    invalidations: Invalidations,
    /// New keys, with their databases, until their first event.
    fresh: Vec<(u32, Vec<u8>)>,
}

impl Notices {
    pub(super) fn new(shared: &'static Shared, thread: usize) -> Self {
        Self {
            events: shared.settings.events(),
            has_any: false,
            outgoing: Outgoing::new(shared, thread),
            invalidations: Invalidations::new(shared, thread),
            fresh: Vec::new(),
        }
    }

    /// Changes which events are published.
    #[inline]
    pub(super) fn set_events(&mut self, events: EventClasses) {
        self.events = events;
    }

    /// Whether there is anything to deliver.
    #[inline(always)]
    pub(super) fn has_any(&self) -> bool {
        self.has_any
    }

    /// Sends everything. The locks of the record's keys are still held.
    pub(super) fn deliver(&mut self) {
        self.has_any = false;
        if !self.invalidations.is_empty() {
            self.invalidations.deliver();
        }
        if !self.outgoing.is_empty() {
            self.outgoing.deliver();
        }
    }

    /// Drops messages and events. The readers of a key are no longer known, so they are notified, although the key is
    /// unchanged.
    pub(super) fn abandon(&mut self) {
        self.outgoing.clear();
        self.fresh.clear();
        self.has_any = !self.invalidations.is_empty();
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
        self.has_any |= !self.outgoing.is_empty();
    }

    /// Publishes events for new keys when the record is closed.
    pub(super) fn notify_new(&mut self) {
        for (db, key) in std::mem::take(&mut self.fresh) {
            self.outgoing.publish_event(self.events, db, "new", &key);
        }
        self.has_any |= !self.outgoing.is_empty();
    }

    /// Notifies clients that track keys, when the record is closed, that `writer` has changed one.
    pub(super) fn outdate(&mut self, key: &[u8], hash: KeyHash, writer: u64) {
        self.invalidations.changed(key, hash, writer);
        self.has_any |= !self.invalidations.is_empty();
    }

    /// Notifies them that all keys may have changed.
    pub(super) fn outdate_everything(&mut self) {
        self.invalidations.everything_changed();
        self.has_any = true;
    }

    /// If too many keys are tracked, forgets some, but not this one.
    pub(super) fn forget_read(&mut self, key: &[u8], hash: KeyHash, max: usize) {
        self.invalidations.throw_out(hash, key, max);
        self.has_any |= !self.invalidations.is_empty();
    }

    /// Notifies clients that track prefixes of the keys that have changed. No lock of a shard may be held.
    #[inline]
    pub(super) fn broadcast(&mut self) {
        if self.invalidations.has_broadcasts() {
            self.invalidations.broadcast();
        }
    }

    /// Publishes a message on other nodes of the cluster when the record is closed.
    pub(super) fn publish_elsewhere(&mut self, kind: Kind, channel: &[u8], message: &[u8]) {
        self.outgoing.publish_elsewhere(kind, channel, message);
        self.has_any = true;
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
        self.has_any |= receivers > 0;
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
}

//! What a commit tells those who follow changes: the command log, keyspace events, tracking clients, messages.

use std::sync::Arc;

use onrush_store::KeyHash;

use super::Commit;
use crate::batch::argv::Argv;
use crate::messages::events::EventClass;
use crate::messages::kind::Kind;

impl Commit {
    /// Whether there is a follower of the command log.
    #[inline(always)]
    pub fn is_logged(&self) -> bool {
        self.record.journal.is_on()
    }

    /// Whether there is a follower of the command log, or keyspace events are published.
    #[inline(always)]
    pub(crate) fn is_observed(&self) -> bool {
        self.record.journal.is_on() || self.record.notices.tells_events()
    }

    /// Whether keyspace events are published.
    #[inline(always)]
    pub(crate) fn tells_events(&self) -> bool {
        self.record.notices.tells_events()
    }

    /// Publishes a keyspace event, if its class is published, when the commit ends.
    pub(crate) fn notify(&mut self, db: u32, class: EventClass, event: &'static str, key: &[u8]) {
        self.record.notices.notify(db, class, event, key);
    }

    /// Notifies clients that track keys, when the commit ends, that `writer` has changed one.
    pub(crate) fn outdate(&mut self, key: &[u8], hash: KeyHash, writer: u64) {
        self.record.notices.outdate(key, hash, writer);
    }

    /// Notifies them that all keys may have changed. This commit has the whole keyspace.
    pub(crate) fn outdate_everything(&mut self) {
        if self.shared.tracking.is_on() {
            self.record.notices.outdate_everything();
        }
    }

    /// If too many keys are tracked, forgets up to `max` of them, but not this one. Their clients are notified when the
    /// commit ends.
    pub(crate) fn forget_read(&mut self, key: &[u8], hash: KeyHash, max: usize) {
        self.record.notices.forget_read(key, hash, max);
    }

    /// Notifies clients that track prefixes of the keys that have changed since the last call. No locks of shards may
    /// be held.
    #[inline]
    pub(crate) fn broadcast(&mut self) {
        self.record.notices.broadcast();
    }

    /// Publishes events for new keys.
    pub(crate) fn notify_new(&mut self) {
        self.record.notices.notify_new();
    }

    /// Updates whether there is a follower of the command log and which events are published, after a command that may
    /// have changed this.
    #[inline]
    pub(crate) fn look_for_log(&mut self) {
        self.record.look(&self.shared.settings);
    }

    /// Records a part of the present command's effects, in its database.
    pub(crate) fn log_also(&mut self, args: &[&[u8]]) {
        self.record.journal.also(self.db, args.iter().copied());
    }

    /// Records, as a part of the present command's effects, that `command` has removed members of a key.
    pub(crate) fn log_removed<M: AsRef<[u8]>>(&mut self, command: &'static [u8], key: &[u8], members: &[M]) {
        self.record.journal.removed(self.db, command, key, members);
    }

    /// Records the present command under another name than it was sent with, unless it records its effects by itself.
    pub(crate) fn log_sent_as(&mut self, name: &[u8], argv: &Argv<'_>) {
        self.record.journal.sent_as(self.db, name, argv);
    }

    /// The present command is not recorded as it was sent.
    #[inline]
    pub(crate) fn logs_itself(&mut self) {
        self.record.journal.logs_itself();
    }

    /// Publishes a message on a channel; it is sent when the commit ends. `owned` is the message if it is in a buffer
    /// of its own. Replicas publish it, too. Returns how many clients of this server get it. O(subscribers + patterns).
    pub(crate) fn publish(
        &mut self,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
        owned: Option<&Arc<Vec<u8>>>,
    ) -> usize {
        if self.shared.cluster.is_some() {
            // The bus brings it to replicas, too.
            self.record.notices.publish_elsewhere(kind, channel, message);
        } else if self.shared.replication.is_streaming() {
            let name: &[u8] = if kind == Kind::Shard { b"SPUBLISH" } else { b"PUBLISH" };
            self.record.journal.for_replicas(&[name, channel, message]);
        }
        self.record.notices.publish(kind, channel, message, owned)
    }

    /// Sends the messages of the commands so far. No command may be under way, unless its effects so far are complete.
    pub(crate) fn tell(&mut self) {
        if !self.is_nested() {
            self.record.close();
        }
    }
}

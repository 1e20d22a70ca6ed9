//! The way of messages through a client's outbox.
//!
//! Publishers put references into it; the client's own worker moves the messages into the reply buffer while that is
//! short. A client whose unread bytes pass `client-output-buffer-limit` is closed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::Reply;

use super::outbox::{Contents, Parcel, Waiting};
use crate::clients::client::ClientHandle;
use crate::settings::OutputLimits;
use crate::shared::Shared;

/// Messages move from the outbox while a client has at most this many bytes of unread replies.
pub(crate) const TAKEN_BYTES_MAX: usize = 64 * 1024;

/// An outbox that is empty and has room for more parcels than this gives its memory back.
const KEPT_PARCELS_MAX: usize = 64;

impl ClientHandle {
    /// Puts a message into the outbox; the first message after the worker has emptied it wakes the connection. Closes a
    /// client that passes its limit. O(1).
    pub(crate) fn send(&self, parcel: &Arc<Parcel>, limits: &OutputLimits, shared: &'static Shared, thread: usize) {
        let mut contents = self.outbox.0.lock();
        if contents.is_closed {
            return;
        }
        contents.bytes += parcel.bytes.len();
        contents.parcels.push_back(Arc::clone(parcel));
        if self.is_over_limit(&mut contents, self.reply_bytes.load(Relaxed), limits, shared) {
            drop(contents);
            self.close_slow(shared, thread);
        } else if !std::mem::replace(&mut contents.is_told, true) {
            self.activity.note_mail();
            drop(contents);
            self.wake();
        }
    }

    fn is_over_limit(&self, contents: &mut Contents, reply_bytes: u64, limits: &OutputLimits, shared: &Shared) -> bool {
        let limit = if self.has_subscriptions() { limits.pubsub } else { limits.normal };
        let bytes = contents.bytes as u64 + reply_bytes;
        limit.is_passed(bytes, &mut contents.strained_since_ms, || shared.clock.unix_ms())
    }

    /// Closes the client, which has too many unread bytes, unless it is already being closed.
    #[cold]
    fn close_slow(&self, shared: &'static Shared, thread: usize) {
        if self.is_killed() {
            return;
        }
        let unread = self.waiting().bytes as u64 + self.reply_bytes.load(Relaxed);
        let class = if self.has_subscriptions() { "pubsub" } else { "normal" };
        tracing::warn!(
            "Closing client id={} addr={}: {unread} unread bytes passed client-output-buffer-limit {class}",
            self.id,
            self.addr
        );
        shared.stats.threads[thread].output_buffer_limit_disconnections.add(1);
        self.close_outbox();
        self.kill();
    }

    /// Whether the client, with this many unread bytes of replies, has passed its limit; closes it then. For its own
    /// worker and the maintenance thread. `thread`: the calling thread.
    pub fn closes_as_slow(&self, reply_bytes: u64, shared: &'static Shared, thread: usize) -> bool {
        let limits = shared.settings.output_limits();
        let is_over = self.is_over_limit(&mut self.outbox.0.lock(), reply_bytes, &limits, shared);
        if is_over {
            self.close_slow(shared, thread);
        }
        is_over
    }

    /// Moves messages into the client's replies: all of them if both together have at most `all_bytes_max` bytes,
    /// otherwise while the replies are short. For the client's own worker, between commands.
    pub fn take_mail(&self, out: &mut Reply, all_bytes_max: usize) {
        let mut contents = self.outbox.0.lock();
        let takes_all = contents.bytes + out.len() <= all_bytes_max;
        while takes_all || out.len() < TAKEN_BYTES_MAX {
            let Some(parcel) = contents.parcels.pop_front() else {
                contents.is_told = false;
                if contents.parcels.capacity() > KEPT_PARCELS_MAX {
                    contents.parcels = VecDeque::new();
                }
                self.activity.no_more_mail();
                return;
            };
            contents.bytes -= parcel.bytes.len();
            out.raw_shared(&parcel.bytes);
        }
    }

    /// Appends the client's own replies to the waiting messages. For the client's own worker.
    pub(crate) fn send_behind(&self, bytes: Vec<u8>, shared: &'static Shared, thread: usize) {
        self.send(&Parcel::new(bytes, &shared.messages.parcel_bytes), &shared.settings.output_limits(), shared, thread);
    }

    /// Whether messages wait in the outbox.
    pub fn waiting(&self) -> Waiting {
        let contents = self.outbox.0.lock();
        Waiting { parcels: contents.parcels.len(), bytes: contents.bytes }
    }

    /// Drops the outbox's messages, and all later ones.
    pub(crate) fn close_outbox(&self) {
        let mut contents = self.outbox.0.lock();
        let dropped = std::mem::take(&mut *contents);
        contents.is_closed = true;
        drop(contents);
        drop(dropped);
    }
}

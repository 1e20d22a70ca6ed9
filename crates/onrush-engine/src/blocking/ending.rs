//! How waiting ends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_cluster::slots::slot;
use onrush_resp::Reply;
use parking_lot::MutexGuard;

use super::state::State;
use super::waiter::{End, OnTimeout, Outcome, Waiter};
use crate::clients::client::ClientHandle;
use crate::clients::session::Session;
use crate::cluster::refusals::end_of_waiting;
use crate::cluster::routes::Routes;
use crate::error::CommandError;
use crate::observe::latency::Event;
use crate::observe::slow::{arguments, note_slow};
use crate::shared::Shared;

const ROLE_CHANGED: CommandError =
    CommandError::fixed("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)");
const UNBLOCKED: CommandError = CommandError::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// A waiter with at most this many keys leaves its queues as soon as it ends; with more keys it leaves them in the
/// background, and is skipped until then.
const LEAVE_AT_ONCE_MAX: usize = 1_000;

/// Closes a client's connection, without the replies that are still to come. When this returns, nothing that the client
/// waited for is executed any more. The caller holds no lock of a shard.
pub fn kill(shared: &'static Shared, client: &ClientHandle) {
    client.kill();
    if let Some(waiter) = shared.waiters.of(client) {
        waiter.forget(shared);
    }
}

/// Ends the waiting of all clients that wait for keys or replicas, because this server is a replica from now on. The caller
/// has the whole keyspace and holds no lock of a shard. O(clients).
pub fn unblock_all(shared: &'static Shared) {
    for client in shared.clients.all() {
        if let Some(waiter) = shared.waiters.of(&client)
            && (waiter.awaited().is_some() || matches!(waiter.on_timeout(), OnTimeout::Counts(_)))
        {
            waiter.finish(shared, |out| out.error_bytes(ROLE_CHANGED.as_bytes()));
        }
    }
}

/// Ends the waiting for keys that are other nodes' by these routes. O(clients).
pub(crate) fn redirect_all(shared: &'static Shared, routes: &Routes) {
    if shared.waiters.is_empty() {
        return;
    }
    for client in shared.clients.all() {
        let Some(waiter) = shared.waiters.of(&client) else { continue };
        let Some(key) = waiter.awaited().map(|awaited| waiter.command.argv().get(awaited.range.start)) else {
            continue;
        };
        if let Some(error) = end_of_waiting(client.is_encrypted(), routes, slot(key)) {
            waiter.finish(shared, |out| out.error_bytes(error.as_bytes()));
        }
    }
}

impl Waiter {
    /// Ends the waiting: the client has its reply, or gets none. `state` is this waiter's state; it waited until now.
    pub(super) fn end(self: &Arc<Self>, shared: &'static Shared, state: &mut State<End>, now: State<End>) {
        *state = now;
        let leaving = Leaving { shared, waiter: Arc::clone(self) };
        if self.awaited().is_some_and(|awaited| awaited.range.len() > LEAVE_AT_ONCE_MAX) {
            shared.lazyfree.free_later(Box::new(leaving), 0, 0);
        }
        // Until its connection has a turn, the client is neither waiting nor idle.
        self.client.activity.last_interaction_ms.store(shared.clock.unix_ms(), Relaxed);
        // This must come before the connection can see the reply: after that it may wait again.
        shared.waiters.end(self);
    }

    /// Ends the waiting with a reply that `reply` makes; returns whether the client still waited.
    pub(crate) fn finish(self: &Arc<Self>, shared: &'static Shared, reply: impl FnOnce(&mut Reply)) -> bool {
        self.finish_with(self.state.lock(), shared, reply)
    }

    /// As [`Waiter::finish`], but waits for no lock; returns false if the waiter's state is locked.
    pub(crate) fn try_finish(self: &Arc<Self>, shared: &'static Shared, reply: impl FnOnce(&mut Reply)) -> bool {
        let Some(state) = self.state.try_lock() else { return false };
        self.finish_with(state, shared, reply);
        true
    }

    fn finish_with(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<End>>,
        shared: &'static Shared,
        reply: impl FnOnce(&mut Reply),
    ) -> bool {
        if !state.is_waiting() {
            return false;
        }
        let mut out = Reply::with_buffer(Vec::new(), self.proto);
        reply(&mut out);
        let slept = self.slept(shared);
        self.note_slow(shared, slept.as_nanos() as u64);
        if !slept.is_zero() {
            shared.note_event(Event::Command, slept);
        }
        self.end(shared, &mut state, End::reply(out.take_bytes(), None));
        drop(state);
        self.client.wake();
        true
    }

    /// The time is over; returns whether the client still waited, and can get another reply than that of its command.
    pub fn time_out(self: &Arc<Self>, shared: &'static Shared) -> bool {
        !self.is_certain() && self.finish(shared, |out| self.on_timeout().append_to(out, shared))
    }

    /// CLIENT UNBLOCK with ERROR, likewise.
    pub(crate) fn unblock_with_error(self: &Arc<Self>, shared: &'static Shared) -> bool {
        !self.is_certain() && self.finish(shared, |out| out.error_bytes(UNBLOCKED.as_bytes()))
    }

    /// Adds the command to the slow log if it took long, the time of waiting left out: it has its reply, for which it
    /// took `nanos` more.
    pub(super) fn note_slow(&self, shared: &Shared, nanos: u64) {
        let took_ns = self.began_ns.load(Relaxed) + nanos;
        note_slow(shared, &self.client, took_ns, || {
            let argv = self.command.argv();
            let replaced = self.awaited().map_or(&[][..], |awaited| &awaited.sent);
            let sent = |index: usize| replaced.iter().find(|sent| sent.index == index).map(|sent| &sent.arg[..]);
            arguments(self.entry, &argv, sent)
        });
    }

    /// How long it has slept so far, which no other client does.
    pub(super) fn slept(&self, shared: &Shared) -> Duration {
        match self.on_timeout() {
            OnTimeout::Awake(since) => shared.clock.now().saturating_duration_since(since),
            _ => Duration::ZERO,
        }
    }

    /// The client is gone, or will be closed: when this returns, nothing is executed for it any more. No shard may be
    /// locked.
    pub fn forget(self: &Arc<Self>, shared: &'static Shared) {
        if self.is_offloaded() {
            // The command is or will be executed, unless the client was told to go, but it will not wait for keys then.
            let before = std::mem::replace(&mut *self.state.lock(), State::Gone);
            let State::Ended(end) = before else { return };
            if let Outcome::Waits(waiter) = end.outcome {
                waiter.forget(shared);
            }
            if let Some(mut lent) = end.lent {
                lent.end(shared);
            }
            return;
        }
        let mut state = self.state.lock();
        if state.is_waiting() {
            self.end(shared, &mut state, State::Gone);
        }
    }
}

impl Session {
    /// The connection ends: removes everything that it has registered.
    pub fn end(&mut self, shared: &'static Shared) {
        if let Some(waiter) = self.waiter.take() {
            waiter.forget(shared);
        }
        self.unwatch(&shared.watched);
    }
}

/// A waiter that has ended and still has to leave its queues.
struct Leaving {
    shared: &'static Shared,
    waiter: Arc<Waiter>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.waiters.remove(&self.waiter, |key| self.shared.keyspace.hash(key));
    }
}

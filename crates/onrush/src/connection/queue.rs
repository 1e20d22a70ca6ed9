//! State that the users of a connection and its driver share: the commands on their way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::Cache;
use crate::commands::script::Script;
use crate::connection::counters::{Counters, Tally};
use crate::connection::gate::{Class, Packed};
use crate::connection::own_writes::OwnWrites;
use crate::connection::scripts::{self, Scripts};
use crate::connection::sink::{Entry, Manner, Sink};
use crate::connection::subscriptions::{Change, Resubscription, Subscriptions, end_of};
use crate::error::{ErrorKind, Fate, RedisError, RedisResult, ServerError};
use crate::link::push::Outlet;
use crate::link::url::ProtocolVersion;
use crate::values::encode::{args_of, split_first};
use crate::values::value::{PushInfo, PushKind, Value};

/// Room for more entries than this is freed when they have gone.
pub(crate) const KEPT_ENTRIES_MAX: usize = 16 << 10;

/// The queue of a connection, and other state that its users and its driver share.
///
/// A command costs one short lock: its bytes are appended to the buffer that goes out. The driver swaps the whole buffer
/// for an empty one and writes it without the lock.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    room: Notify,
    room_wanted: AtomicBool,
    queue_bytes_max: usize,
    protocol: AtomicU8,
    /// The round trip to the server, in microseconds.
    round_trip_us: AtomicU32,
    pub outlet: Outlet,
    /// No task waits for what is in flight.
    abandoned: AtomicBool,
    /// The state of a leased connection.
    lease: Option<Account>,
    /// The cache of a shared connection.
    pub cache: Option<Arc<Cache>>,
    /// What a leased connection tells the cache of the shared one beside it.
    pub own_writes: Option<OwnWrites>,
    pub tally: Tally,
    /// Tells that the driver has left.
    ended: Notify,
}

/// Whether a leased connection is as it was when it was new.
#[derive(Debug, Default)]
struct Account {
    /// How many replies have come.
    replies: AtomicU64,
    /// Something is watched, or a transaction is open.
    watches: AtomicBool,
    /// A transaction that was begun by hand queues commands.
    queues: AtomicBool,
    /// It has changed for good: another login, another database, and the like.
    changed: AtomicBool,
    /// A transaction may have been executed, or another one begun by hand, since the holder last asked to forget that.
    executed: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The driver's waker, used when it waits for the first entry.
    waker: Option<Waker>,
    asleep: bool,
    tick: u32,
    /// While there is no connection: after how many ticks what waits for room is given up, and why.
    overdue: Option<(u32, RedisError)>,
    scripts: Scripts,
    /// The subscriptions, for later links.
    subscriptions: Subscriptions,
    /// How many replies everything queued so far brings.
    replies_due: u64,
    /// No user is left.
    deserted: bool,
    closed: Option<RedisError>,
    /// The driver has left.
    ended: bool,
}

/// Why the queue does not take a command.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no room now.
    Full,
    /// It will never take it: the connection is closed, or the command must not go over it.
    Never(RedisError),
}

/// What the driver finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Some,
    Empty,
    /// Empty, and nobody is left to fill it.
    Deserted,
}

impl Shared {
    pub(crate) fn new(queue_bytes_max: usize, outlet: Outlet, leased: bool) -> Shared {
        Shared { queue_bytes_max, outlet, lease: leased.then(Account::default), ..Shared::default() }
    }

    /// The cache that writes over this connection concern: its own, or that of the connection beside it.
    pub(crate) fn cache_to_tell(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref().or_else(|| self.own_writes.as_ref().map(|own_writes| &own_writes.cache))
    }

    /// Queues commands and wakes the driver if it sleeps. All commands of users, except subscriptions, enter here,
    /// through the gate. `whole`: if cut off before their end, they have no effect at all.
    #[inline]
    pub(crate) fn push(&self, packed: Packed<'_>, whole: bool, scripts: &[Script], sink: Sink) -> Result<(), Refused> {
        debug_assert_eq!(packed.count, sink.due());
        if packed.class != Class::PLAIN {
            self.admit(packed.class).map_err(Refused::Never)?;
        }
        let mut queue = self.queue.lock();
        self.check_room(&queue, packed.bytes.len())?;
        if !scripts.is_empty() {
            self.load_scripts(&mut queue, scripts)?;
        }
        if packed.class.is_own_business() {
            self.note_transaction(packed.bytes);
        }
        if let Some(own_writes) = &self.own_writes {
            own_writes.note_sent(packed.bytes, queue.replies_due);
        }
        let manner = Manner { whole, patient: packed.class.blocks(), own: false };
        queue.add(packed.bytes, packed.count, manner, sink);
        if let Some(cache) = &self.cache {
            // Done after queueing: reads queued from now on see the writes.
            drop(queue);
            cache.note_sent(packed.bytes);
        }
        Ok(())
    }

    /// Queues a command of the library's own, or a read that the cache has encoded.
    pub(crate) fn push_encoded(&self, bytes: &[u8], manner: Manner, sink: Sink) -> Result<(), Refused> {
        let mut queue = self.queue.lock();
        self.check_room(&queue, bytes.len())?;
        queue.add(bytes, sink.due(), manner, sink);
        Ok(())
    }

    /// Queues reads that the cache has encoded one after the other, each with its length.
    pub(crate) fn push_reads(&self, mut bytes: &[u8], reads: Vec<(usize, Sink)>) -> Result<(), Refused> {
        let mut queue = self.queue.lock();
        self.check_room(&queue, bytes.len())?;
        for (len, sink) in reads {
            let (one, rest) = bytes.split_at(len);
            queue.add(one, sink.due(), Manner::ONE, sink);
            bytes = rest;
        }
        Ok(())
    }

    /// Queues a (un)subscribe command. Ended subscriptions are noted at once, new ones when they are confirmed.
    pub(crate) fn push_subscription(&self, change: Change<'_>, bytes: &[u8], sink: Sink) -> Result<(), Refused> {
        let mut queue = self.queue.lock();
        self.check_room(&queue, bytes.len())?;
        queue.subscriptions.end(change);
        if let Some(account) = &self.lease {
            account.changed.store(true, Ordering::Relaxed);
        }
        queue.add(bytes, change.targets.len(), Manner::ONE, sink);
        Ok(())
    }

    /// Notes the subscription that a push confirms, or its end.
    pub(crate) fn note_confirmation(&self, push: &PushInfo) {
        let name = push.data.first().and_then(Value::as_bytes).filter(|_| push.kind.is_confirmation());
        if let Some(name) = name {
            self.queue.lock().subscriptions.confirm(&push.kind, name);
        }
    }

    /// Forgets a subscription that the server refuses to make again, and reports its end.
    pub(crate) fn lose_subscription(&self, kind: &PushKind, name: Box<[u8]>, why: ServerError) {
        let Some(kind) = end_of(kind) else { return };
        self.queue.lock().subscriptions.confirm(&kind, &name);
        let data = vec![Value::BulkString(name.into()), Value::ServerError(why)];
        self.outlet.send(PushInfo { kind, data });
    }

    /// Whether the server has confirmed any subscription that was not ended since.
    pub(crate) fn has_subscriptions(&self) -> bool {
        !self.queue.lock().subscriptions.is_empty()
    }

    /// Whether this is such a subscription.
    pub(crate) fn is_subscribed(&self, kind: &PushKind, name: &[u8]) -> bool {
        self.queue.lock().subscriptions.has(kind, name)
    }

    /// Commands that make all subscriptions again, for a new connection.
    pub(crate) fn resubscriptions(&self) -> Vec<Resubscription> {
        self.queue.lock().subscriptions.commands()
    }

    #[cold]
    fn admit(&self, class: Class) -> RedisResult<()> {
        class.admit(self.is_leased())?;
        if let Some(account) = &self.lease {
            account.watches.fetch_or(class.watches(), Ordering::Relaxed);
            account.executed.fetch_or(class.watches(), Ordering::Relaxed);
            account.changed.fetch_or(class.changes(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Queues SCRIPT LOAD before a script's first use; no task waits for its reply.
    #[cold]
    fn load_scripts(&self, queue: &mut Queue, scripts: &[Script]) -> Result<(), Refused> {
        let in_transaction = self.lease.as_ref().is_some_and(|account| account.queues.load(Ordering::Relaxed));
        for script in scripts {
            if in_transaction && !queue.scripts.has(script) {
                let text = "a script is loaded before its first use, and MULTI would queue that; load it before MULTI";
                return Err(Refused::Never(RedisError::new(ErrorKind::Client, text)));
            }
            if queue.scripts.is_new(script) {
                let mut bytes = Vec::new();
                scripts::load(script, &mut bytes);
                queue.add(&bytes, 1, Manner::ONE, Sink::Load(script.clone()));
            }
        }
        Ok(())
    }

    /// Notes whether commands by hand leave a transaction open on a leased connection.
    #[cold]
    fn note_transaction(&self, mut encoded: &[u8]) {
        let Some(account) = &self.lease else { return };
        while let Some((one, rest)) = split_first(encoded) {
            encoded = rest;
            let name = args_of(one).next().unwrap_or_default();
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("MULTI") {
                account.queues.store(true, Ordering::Relaxed);
            } else if is("EXEC") || is("DISCARD") || is("RESET") {
                account.queues.store(false, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn check_room(&self, queue: &Queue, len: usize) -> Result<(), Refused> {
        if let Some(error) = &queue.closed {
            return Err(Refused::Never(error.clone()));
        }
        // An entry that is larger than the queue's limit is accepted when the queue is empty.
        if queue.bytes.len() + len > self.queue_bytes_max && !queue.bytes.is_empty() {
            self.room_wanted.store(true, Ordering::Relaxed);
            return Err(Refused::Full);
        }
        Ok(())
    }

    /// Waits until the queue has room again.
    pub(crate) async fn room(&self, len: usize) {
        let freed = self.room.notified();
        tokio::pin!(freed);
        freed.as_mut().enable();
        {
            let queue = self.queue.lock();
            if queue.closed.is_some() || queue.bytes.is_empty() || queue.bytes.len() + len <= self.queue_bytes_max {
                return;
            }
            self.room_wanted.store(true, Ordering::Relaxed);
        }
        freed.await;
    }

    /// Whether the driver would find something to take.
    pub(crate) fn has_some(&self) -> bool {
        !self.queue.lock().entries.is_empty()
    }

    /// Moves everything queued to the driver; if there is nothing, the driver will be woken for the next entry.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>, entries: &mut impl Extend<Entry>, cx: &Context<'_>) -> Taken {
        let mut queue = self.queue.lock();
        if queue.entries.is_empty() {
            if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                queue.waker = Some(cx.waker().clone());
            }
            queue.asleep = true;
            return if queue.deserted { Taken::Deserted } else { Taken::Empty };
        }
        std::mem::swap(&mut queue.bytes, bytes);
        entries.extend(queue.entries.drain(..));
        if queue.entries.capacity() > KEPT_ENTRIES_MAX {
            queue.entries = Vec::new();
        }
        drop(queue);
        self.announce_room();
        Taken::Some
    }

    /// The queue's clock.
    pub(crate) fn now(&self) -> u32 {
        self.queue.lock().tick
    }

    /// Puts entries that were taken but not sent back to the front, in order.
    pub(crate) fn put_back(&self, bytes: &[u8], entries: Vec<Entry>) {
        let mut queue = self.queue.lock();
        queue.bytes.splice(0..0, bytes.iter().copied());
        queue.entries.splice(0..0, entries);
    }

    /// Fails the entries that have waited more than so many ticks, and gives up what has waited as long for room in the
    /// queue. Linear in the queue.
    pub(crate) fn expire(&self, ticks: Option<u32>, cause: &RedisError) {
        let Some(ticks) = ticks else { return };
        let mut queue = self.queue.lock();
        queue.overdue = Some((ticks, cause.clone().with_fate(Fate::NotSent)));
        self.announce_room();
        let now = queue.tick;
        let is_overdue = |tick: u32| now.wrapping_sub(tick) > ticks;
        // Those that are sent again come first, and are younger than their place.
        if !queue.entries.iter().any(|entry| is_overdue(entry.tick)) {
            return;
        }
        let (mut expired, mut kept) = (Vec::new(), Vec::new());
        let (bytes, mut at) = (std::mem::take(&mut queue.bytes), 0);
        for entry in std::mem::take(&mut queue.entries) {
            let end = at + entry.len;
            if is_overdue(entry.tick) {
                expired.push(entry);
            } else {
                queue.bytes.extend_from_slice(&bytes[at..end]);
                kept.push(entry);
            }
            at = end;
        }
        queue.entries = kept;
        drop(queue);
        self.announce_room();
        expired.into_iter().for_each(|entry| self.lose(entry, cause, 0));
    }

    /// Notes that there is a connection: what waits for room goes on waiting.
    pub(crate) fn note_connection(&self) {
        self.queue.lock().overdue = None;
    }

    /// Why what has waited for room since this tick is given up.
    fn given_up(&self, since: u32) -> Option<RedisError> {
        let queue = self.queue.lock();
        let (ticks, cause) = queue.overdue.as_ref()?;
        (queue.tick.wrapping_sub(since) > *ticks).then(|| cause.clone())
    }

    /// Advances the queue's clock and returns the time. It begins again after its end: only differences count.
    pub(crate) fn tick(&self) -> u32 {
        let mut queue = self.queue.lock();
        queue.tick = queue.tick.wrapping_add(1);
        queue.tick
    }

    pub(crate) fn is_deserted(&self) -> bool {
        self.queue.lock().deserted
    }

    /// Tells the driver that no user is left.
    pub(crate) fn desert(&self) {
        let mut queue = self.queue.lock();
        queue.deserted = true;
        queue.wake();
    }

    /// Tells the driver to close the connection, whatever is in flight, even if it waits for the peer to take more.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert_with(RedisError::closed);
        queue.deserted = true;
        queue.asleep = true;
        queue.wake();
    }

    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Registers the driver to be woken by events from now on.
    pub(crate) fn register_driver(&self, cx: &Context<'_>) {
        self.queue.lock().waker = Some(cx.waker().clone());
    }

    /// Whether it belongs to a lease, whose holder may change the connection's state.
    #[inline]
    pub(crate) fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Notes how many replies a leased connection has had, before the last of them is passed on.
    pub(crate) fn note_replies(&self, replies: u64) {
        if let Some(account) = &self.lease {
            account.replies.store(replies, Ordering::Release);
        }
        if let Some(own_writes) = &self.own_writes {
            own_writes.note_replies(replies);
        }
    }

    /// Notes whether a transaction may have been executed over a leased connection; returns what was noted before.
    pub(crate) fn note_executed(&self, may_be: bool) -> bool {
        self.lease.as_ref().is_some_and(|account| account.executed.swap(may_be, Ordering::Relaxed))
    }

    /// Whether a transaction may have been executed over a leased connection since the last [`Shared::note_executed`].
    pub(crate) fn may_have_executed(&self) -> bool {
        self.lease.as_ref().is_some_and(|account| account.executed.load(Ordering::Relaxed))
    }

    /// Whether a leased connection watches keys, or has an open transaction.
    pub(crate) fn watches(&self) -> bool {
        self.lease.as_ref().is_some_and(|account| account.watches.load(Ordering::Relaxed))
    }

    /// Notes the holder's declaration that no key is watched and no transaction open.
    pub(crate) fn vouch_unwatched(&self) {
        if let Some(account) = &self.lease {
            account.watches.store(false, Ordering::Relaxed);
        }
    }

    /// Whether replies are due on a leased connection.
    pub(crate) fn owes_replies(&self) -> bool {
        let replies = self.lease.as_ref().map(|account| account.replies.load(Ordering::Acquire));
        Some(self.queue.lock().replies_due) != replies
    }

    /// Whether a leased connection is as good as new: it owes no reply, and is in the state it was made in.
    pub(crate) fn is_as_new(&self) -> bool {
        let Some(account) = &self.lease else { return false };
        !self.is_closed()
            && !self.owes_replies()
            && !account.watches.load(Ordering::Relaxed)
            && !account.changed.load(Ordering::Relaxed)
            && !self.outlet.has_listeners()
    }

    /// Drops the cache, since reports of changes are missed from now on; or what a lease may have changed in that of
    /// the connection beside it.
    pub(crate) fn note_disconnection(&self) {
        if let Some(own_writes) = &self.own_writes {
            own_writes.note_loss();
        }
        if let Some(cache) = &self.cache {
            cache.flush();
        }
    }

    /// Takes no more commands; queued ones fail as not sent.
    pub(crate) fn close(&self, error: RedisError) {
        self.note_disconnection();
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert_with(|| error.clone());
        queue.bytes = Vec::new();
        let entries = std::mem::take(&mut queue.entries);
        drop(queue);
        entries.into_iter().for_each(|entry| self.lose(entry, &error, 0));
        self.outlet.close();
        self.room.notify_waiters();
    }

    /// Takes no more commands, and makes the driver leave when all queued and sent ones are answered.
    pub(crate) fn finish(&self) {
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert_with(RedisError::closed);
        queue.deserted = true;
        queue.wake();
    }

    /// Waits until the driver has left.
    pub(crate) async fn ended(&self) {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if !self.queue.lock().ended {
            ended.await;
        }
    }

    /// Fails an entry whose replies do not come.
    pub(crate) fn lose(&self, entry: Entry, error: &RedisError, written: usize) {
        self.tally.lost(entry.sink.due());
        entry.fail(error, written);
    }

    /// Notes replies that are due for commands that did not go through the queue.
    pub(crate) fn note_due(&self, replies: usize) {
        self.queue.lock().replies_due += replies as u64;
    }

    /// The counters as they are now.
    pub(crate) fn counters(&self) -> Counters {
        // Replies are read before commands: the command of a reply in between is then counted too.
        let counters = self.tally.counters();
        let queue = self.queue.lock();
        counters.of_commands(queue.replies_due, queue.bytes.len())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed.is_some()
    }

    /// How many bytes wait to be taken by the driver.
    pub(crate) fn queued_len(&self) -> usize {
        self.queue.lock().bytes.len()
    }

    /// The scripts that were loaded before, with the commands that load them again, for a new connection.
    pub(crate) fn reload_scripts(&self, out: &mut Vec<u8>) -> Vec<Script> {
        self.queue.lock().scripts.reload(out)
    }

    /// Forgets that a script is loaded, since the server says it is not.
    pub(crate) fn forget_script(&self, script: &Script) {
        self.queue.lock().scripts.forget(script);
    }

    /// Whether pushes are waited for, so that a silent loss of the server would go undetected.
    pub(crate) fn waits_for_news(&self) -> bool {
        self.cache.is_some()
            || self.outlet.is_lossless()
            || self.outlet.has_listeners()
            || !self.queue.lock().subscriptions.is_empty()
    }

    pub(crate) fn protocol(&self) -> ProtocolVersion {
        if self.protocol.load(Ordering::Relaxed) == 3 { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 }
    }

    pub(crate) fn set_protocol(&self, protocol: ProtocolVersion) {
        self.protocol.store(if protocol == ProtocolVersion::RESP3 { 3 } else { 2 }, Ordering::Relaxed);
    }

    /// Notes how long a request and its reply take.
    pub(crate) fn set_round_trip(&self, round_trip: Duration) {
        self.round_trip_us.store(u32::try_from(round_trip.as_micros()).unwrap_or(0), Ordering::Relaxed);
    }

    /// How long a request and its reply took when the connection was made; 0 if that is not known.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_micros(u64::from(self.round_trip_us.load(Ordering::Relaxed)))
    }

    #[cfg(test)]
    pub(crate) fn entries_capacity(&self) -> usize {
        self.queue.lock().entries.capacity()
    }

    fn announce_room(&self) {
        if self.room_wanted.load(Ordering::Relaxed) {
            self.room_wanted.store(false, Ordering::Relaxed);
            self.room.notify_waiters();
        }
    }
}

impl Queue {
    #[inline]
    fn add(&mut self, bytes: &[u8], replies: usize, manner: Manner, sink: Sink) {
        self.bytes.extend_from_slice(bytes);
        self.replies_due += replies as u64;
        self.entries.push(Entry { len: bytes.len(), tick: self.tick, manner, sink });
        self.wake();
    }

    #[inline]
    fn wake(&mut self) {
        if self.asleep {
            self.asleep = false;
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }
}

/// Closes the queue when the driver goes away for whatever reason, a runtime that shuts down included.
#[derive(Debug)]
pub(crate) struct CloseGuard(pub Arc<Shared>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.close(RedisError::closed());
        self.0.queue.lock().ended = true;
        self.0.ended.notify_waiters();
    }
}

/// Queues as soon as there is room for `len` bytes; without a connection that is waited for as long as in the queue.
///
/// # Errors
/// The command is not sent.
pub(crate) async fn when_room<T>(
    shared: &Shared,
    len: usize,
    mut push: impl FnMut() -> Result<T, Refused>,
) -> RedisResult<T> {
    let mut since = None;
    loop {
        match push() {
            Ok(waiting) => return Ok(waiting),
            Err(Refused::Full) => {}
            Err(Refused::Never(error)) => return Err(error),
        }
        let since = *since.get_or_insert_with(|| shared.now());
        shared.room(len).await;
        if let Some(error) = shared.given_up(since) {
            return Err(error);
        }
    }
}

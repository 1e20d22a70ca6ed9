//! What the users of a connection and its driver share: the commands on their way out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::encode::command;
use crate::error::{RedisError, RedisResult};
use crate::push::Outlet;
use crate::script::Script;
use crate::sink::{Entry, Manner, Sink};
use crate::url::ProtocolVersion;

/// The queue of a connection, and what else its users and its driver must agree on.
///
/// A command costs one short lock: its bytes are appended to the buffer that goes out. The driver swaps the whole buffer
/// for an empty one and writes it without the lock.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    room: Notify,
    room_wanted: AtomicBool,
    queue_bytes_max: usize,
    protocol: AtomicU8,
    /// How far away the server is, in microseconds.
    round_trip_us: AtomicU32,
    pub outlet: Outlet,
    pub subscriptions: Mutex<Subscriptions>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The driver's, to be woken when it waits for the first entry.
    waker: Option<Waker>,
    asleep: bool,
    tick: u32,
    /// The scripts that this connection has loaded, or will have before anything queued from now on.
    scripts: HashMap<[u8; 20], Script>,
    /// No user is left.
    deserted: bool,
    /// And nobody waits for what is in flight.
    abandoned: bool,
    closed: Option<RedisError>,
}

/// What is subscribed to, kept to subscribe again after a reconnect.
#[derive(Debug, Default, Clone)]
pub(crate) struct Subscriptions {
    pub channels: BTreeSet<Vec<u8>>,
    pub patterns: BTreeSet<Vec<u8>>,
    pub shard_channels: BTreeSet<Vec<u8>>,
}

/// A command the queue does not take.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no room now.
    Full,
    /// And there never will be.
    Closed(RedisError),
}

/// What the driver finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Some,
    Empty,
    /// Empty, and nobody is left to fill it.
    Deserted,
    /// And nobody waits for a reply.
    Abandoned,
}

impl Shared {
    pub(crate) fn new(queue_bytes_max: usize, outlet: Outlet) -> Shared {
        Shared {
            queue: Mutex::default(),
            room: Notify::new(),
            room_wanted: AtomicBool::new(false),
            queue_bytes_max,
            protocol: AtomicU8::new(0),
            round_trip_us: AtomicU32::new(0),
            outlet,
            subscriptions: Mutex::default(),
        }
    }

    /// Queues commands and wakes the driver if it sleeps.
    #[inline]
    pub(crate) fn push(&self, bytes: &[u8], manner: Manner, scripts: &[Script], sink: Sink) -> Result<(), Refused> {
        let mut queue = self.queue.lock();
        if let Some(error) = &queue.closed {
            return Err(Refused::Closed(error.clone()));
        }
        // One that is too big for the queue alone gets in when it is empty.
        if queue.bytes.len() + bytes.len() > self.queue_bytes_max && !queue.bytes.is_empty() {
            self.room_wanted.store(true, Ordering::Relaxed);
            return Err(Refused::Full);
        }
        if !scripts.is_empty() {
            queue.load_scripts(scripts);
        }
        queue.bytes.extend_from_slice(bytes);
        let tick = queue.tick;
        queue.entries.push(Entry { len: bytes.len(), tick, manner, sink });
        queue.wake();
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

    /// Moves all that is queued to the driver; when there is nothing, the driver will be woken for the next.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>, entries: &mut impl Extend<Entry>, cx: &Context<'_>) -> Taken {
        let mut queue = self.queue.lock();
        if queue.entries.is_empty() {
            if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                queue.waker = Some(cx.waker().clone());
            }
            queue.asleep = true;
            return match (queue.abandoned, queue.deserted) {
                (true, _) => Taken::Abandoned,
                (_, true) => Taken::Deserted,
                _ => Taken::Empty,
            };
        }
        std::mem::swap(&mut queue.bytes, bytes);
        entries.extend(queue.entries.drain(..));
        drop(queue);
        self.announce_room();
        Taken::Some
    }

    /// Puts back at the front what was taken and not sent, in order.
    pub(crate) fn put_back(&self, bytes: &[u8], entries: Vec<Entry>) {
        let mut queue = self.queue.lock();
        queue.bytes.splice(0..0, bytes.iter().copied());
        queue.entries.splice(0..0, entries);
    }

    /// Takes out what has waited in the queue since before `oldest`.
    pub(crate) fn expire(&self, oldest: u32) -> Vec<Entry> {
        let mut queue = self.queue.lock();
        let count = queue.entries.iter().take_while(|entry| entry.tick < oldest).count();
        let expired: Vec<Entry> = queue.entries.drain(..count).collect();
        let len: usize = expired.iter().map(|entry| entry.len).sum();
        queue.bytes.drain(..len);
        drop(queue);
        if count > 0 {
            self.announce_room();
        }
        expired
    }

    /// Moves the queue's clock on and gives the time.
    pub(crate) fn tick(&self) -> u32 {
        let mut queue = self.queue.lock();
        queue.tick += 1;
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

    /// Tells the driver to hang up, whatever is in flight.
    pub(crate) fn abandon(&self) {
        let mut queue = self.queue.lock();
        (queue.deserted, queue.abandoned) = (true, true);
        queue.wake();
    }

    /// Takes nothing any more; what is queued fails as not sent.
    pub(crate) fn close(&self, error: RedisError) {
        let mut queue = self.queue.lock();
        queue.closed.get_or_insert_with(|| error.clone());
        queue.bytes = Vec::new();
        let entries = std::mem::take(&mut queue.entries);
        drop(queue);
        entries.into_iter().for_each(|entry| entry.fail(&error, 0));
        self.outlet.close();
        self.room.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed.is_some()
    }

    /// How many bytes wait to be taken by the driver.
    pub(crate) fn queued_len(&self) -> usize {
        self.queue.lock().bytes.len()
    }

    /// Commands that load again every script that was loaded before, for a new connection.
    pub(crate) fn reload_scripts(&self, out: &mut Vec<u8>) -> usize {
        let queue = self.queue.lock();
        queue.scripts.values().for_each(|script| command(&[b"SCRIPT", b"LOAD", script.code().as_bytes()], out));
        queue.scripts.len()
    }

    /// Forgets that a script is loaded, since the server says it is not.
    pub(crate) fn forget_script(&self, script: &Script) {
        self.queue.lock().scripts.remove(script.digest());
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

    fn announce_room(&self) {
        if self.room_wanted.load(Ordering::Relaxed) {
            self.room_wanted.store(false, Ordering::Relaxed);
            self.room.notify_waiters();
        }
    }
}

impl Queue {
    #[inline]
    fn wake(&mut self) {
        if self.asleep {
            self.asleep = false;
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Puts SCRIPT LOAD ahead of a script's first use; nobody waits for its reply.
    #[cold]
    fn load_scripts(&mut self, scripts: &[Script]) {
        for script in scripts {
            if self.scripts.insert(*script.digest(), script.clone()).is_none() {
                let before = self.bytes.len();
                command(&[b"SCRIPT", b"LOAD", script.code().as_bytes()], &mut self.bytes);
                let len = self.bytes.len() - before;
                self.entries.push(Entry { len, tick: self.tick, manner: Manner::ONE, sink: Sink::Discard });
            }
        }
    }
}

impl Subscriptions {
    pub(crate) fn set_mut(&mut self, command: &str) -> &mut BTreeSet<Vec<u8>> {
        match command {
            "SUBSCRIBE" | "UNSUBSCRIBE" => &mut self.channels,
            "PSUBSCRIBE" | "PUNSUBSCRIBE" => &mut self.patterns,
            _ => &mut self.shard_channels,
        }
    }

    /// Commands that subscribe to all of it again, with the confirmations each brings.
    pub(crate) fn commands(&self) -> Vec<(Vec<u8>, usize)> {
        let all: [(&[u8], _); 3] =
            [(b"SUBSCRIBE", &self.channels), (b"PSUBSCRIBE", &self.patterns), (b"SSUBSCRIBE", &self.shard_channels)];
        let some = all.into_iter().filter(|(_, names)| !names.is_empty());
        some.map(|(name, names)| {
            let args: Vec<&[u8]> = std::iter::once(name).chain(names.iter().map(Vec::as_slice)).collect();
            let mut bytes = Vec::new();
            command(&args, &mut bytes);
            (bytes, names.len())
        })
        .collect()
    }
}

/// Closes the queue when the driver goes away for whatever reason, a runtime that shuts down included.
#[derive(Debug)]
pub(crate) struct CloseGuard(pub Arc<Shared>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.close(RedisError::closed());
    }
}

/// Queues, waiting for room.
pub(crate) async fn push_when_room<T>(
    shared: &Shared,
    bytes: &[u8],
    manner: Manner,
    scripts: &[Script],
    sink: impl Fn() -> (Sink, T),
) -> RedisResult<T> {
    loop {
        let (sink, waiting) = sink();
        match shared.push(bytes, manner, scripts, sink) {
            Ok(()) => return Ok(waiting),
            Err(Refused::Full) => shared.room(bytes.len()).await,
            Err(Refused::Closed(error)) => return Err(error),
        }
    }
}

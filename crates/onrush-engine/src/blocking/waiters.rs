//! The table of clients that wait, by key.
//!
//! A key's queue holds its waiters by ticket, which is the order of their arrival; adding, finding the first and
//! removing any one of them cost O(log waiters of the key). There is a queue for each kind of value, so that a push
//! looks only at clients that wait for its kind.
//!
//! A writer first asks a filter of counters whether a client may wait for the key: one load, no lock. Waiters are
//! added, and writers ask, under the lock of the key's shard; so a writer sees every waiter.
//!
//! Those who end a client's waiting from outside find it by the client.
//!
//! `models` explores the interleavings of threads in here.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use onrush_store::KeyHash;

use super::waiter::{Awaited, Waiter, WaitsFor};
use crate::clients::client::ClientHandle;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters of the filter. With fewer waited-for keys than that, it rules out most other keys.
const FILTER_LEN: usize = 4096;

/// Parts of the table with a lock each.
const STRIPES: usize = 64;

/// An empty part with room for more queues than this gives its memory back.
const KEPT_QUEUES_MAX: usize = 256;

/// Bytes of memory for a place that has a queue for itself, with its parts of tables that are half full.
pub(super) const PLACE_BYTES: usize = size_of::<KeyHash>() + 2 * (size_of::<(u64, Queue)>() + size_of::<(u64, u8)>());

/// A key, and the kind of value that clients wait for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'k> {
    pub(super) db: u32,
    pub(super) key: &'k [u8],
    pub(super) hash: KeyHash,
    pub(super) what: WaitsFor,
}

impl<'k> Wanted<'k> {
    fn of(awaited: &Awaited, key: &'k [u8], hash: KeyHash) -> Self {
        Self { db: awaited.db, key, hash, what: awaited.what }
    }

    /// The number of its queue. Two keys may share a number.
    fn queue(&self) -> u64 {
        self.number(self.what as u64)
    }

    /// The number of the key, whatever is waited for. Two keys may share a number.
    fn key_number(&self) -> u64 {
        self.number(0xff)
    }

    fn number(&self, what: u64) -> u64 {
        let salt = u64::from(self.db) << 8 | what;
        self.hash.bits() ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn is_wanted_by(&self, waiter: &Waiter, place: Place) -> bool {
        waiter.awaited().is_some_and(|awaited| awaited.what == self.what && awaited.db == self.db)
            && waiter.key(place.index as usize) == self.key
    }
}

/// The place of a waiter in a queue: by ticket. The index of its key distinguishes keys that share a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    ticket: u64,
    index: u32,
}

enum Queue {
    One(Place, Arc<Waiter>),
    Many(BTreeMap<Place, Arc<Waiter>>),
}

impl Queue {
    fn add(&mut self, wanted: &Wanted<'_>, place: Place, waiter: &Arc<Waiter>) {
        // A command may name a key twice.
        if let Self::One(first, other) = self {
            if first.ticket == place.ticket && wanted.is_wanted_by(waiter, *first) {
                return;
            }
            *self = Self::Many([(*first, Arc::clone(other))].into());
        }
        if let Self::Many(waiters) = self {
            let own = Place { index: 0, ..place }..=Place { index: u32::MAX, ..place };
            if !waiters.range(own).any(|(other, _)| wanted.is_wanted_by(waiter, *other)) {
                waiters.insert(place, Arc::clone(waiter));
            }
        }
    }

    /// Removes a waiter; returns whether it was there.
    fn remove(&mut self, place: Place) -> bool {
        match self {
            Self::One(first, _) if *first == place => {
                *self = Self::Many(BTreeMap::new());
                true
            }
            Self::One(..) => false,
            Self::Many(waiters) => waiters.remove(&place).is_some(),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Many(waiters) if waiters.is_empty())
    }

    fn after(&self, last: Option<Place>) -> impl Iterator<Item = (Place, &Arc<Waiter>)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let (one, many) = match self {
            Self::One(place, waiter) => (Some((*place, waiter)), None),
            Self::Many(waiters) => (None, Some(waiters.range((from, Bound::Unbounded)))),
        };
        let one = one.filter(move |(place, _)| last.is_none_or(|last| *place > last));
        one.into_iter().chain(many.into_iter().flatten().map(|(place, waiter)| (*place, waiter)))
    }
}

/// The numbers of queues are already hashes.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Queues = HashMap<u64, Queue, BuildHasherDefault<AsItIs>>;
type Kinds = HashMap<u64, u8, BuildHasherDefault<AsItIs>>;
type Clients = BTreeMap<u64, Arc<Waiter>>;

/// All clients that wait. See the module's text.
pub struct Waiters {
    waiting: AtomicUsize,
    /// Keys that clients wait for, and those among them whose end clients wait for.
    keys_len: AtomicUsize,
    groups_len: AtomicUsize,
    next_ticket: AtomicU64,
    filter: Box<[AtomicU32]>,
    stripes: Box<[Mutex<Queues>]>,
    /// By the number of a key: how many queues it has.
    kinds: Box<[Mutex<Kinds>]>,
    /// By the id of a client.
    clients: Box<[Mutex<Clients>]>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            keys_len: AtomicUsize::new(0),
            groups_len: AtomicUsize::new(0),
            next_ticket: AtomicU64::new(0),
            filter: (0..FILTER_LEN).map(|_| AtomicU32::new(0)).collect(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            kinds: (0..STRIPES).map(|_| Mutex::default()).collect(),
            clients: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Waiters {
    /// How many clients wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Whether no client waits. A thread that holds a key's lock sees every waiter on it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys that clients wait for.
    pub(crate) fn keys_len(&self) -> usize {
        self.keys_len.load(Relaxed)
    }

    /// Number of keys whose end clients wait for, too: those that are waited for by XREADGROUP.
    pub(crate) fn keys_with_groups_len(&self) -> usize {
        self.groups_len.load(Relaxed)
    }

    /// Counts a new queue.
    fn count_queue(&self, wanted: &Wanted<'_>) {
        let number = wanted.key_number();
        let mut kinds = self.kinds[(number >> 40) as usize % STRIPES].lock();
        let queues = kinds.entry(number).or_insert(0);
        *queues += 1;
        self.keys_len.fetch_add(usize::from(*queues == 1), Relaxed);
        self.groups_len.fetch_add(usize::from(wanted.what == WaitsFor::Group), Relaxed);
    }

    /// Counts a queue that is gone.
    fn uncount_queue(&self, wanted: &Wanted<'_>) {
        let number = wanted.key_number();
        let mut kinds = self.kinds[(number >> 40) as usize % STRIPES].lock();
        self.groups_len.fetch_sub(usize::from(wanted.what == WaitsFor::Group), Relaxed);
        let Some(queues) = kinds.get_mut(&number) else { return };
        *queues -= 1;
        if *queues == 0 {
            kinds.remove(&number);
            self.keys_len.fetch_sub(1, Relaxed);
            if kinds.is_empty() && kinds.capacity() > KEPT_QUEUES_MAX {
                *kinds = Kinds::default();
            }
        }
    }

    /// Whether a client may wait for a key with this hash, in any database. The lock of the key's shard is held.
    #[inline]
    pub(crate) fn may_have(&self, hash: KeyHash) -> bool {
        self.counter(hash).load(Relaxed) > 0
    }

    #[inline]
    fn counter(&self, hash: KeyHash) -> &AtomicU32 {
        &self.filter[(hash.bits() >> 24) as usize % FILTER_LEN]
    }

    fn stripe(&self, queue: u64) -> &Mutex<Queues> {
        &self.stripes[(queue >> 40) as usize % STRIPES]
    }

    /// The order of arrival of a client that begins to wait.
    pub(super) fn ticket(&self) -> u64 {
        self.next_ticket.fetch_add(1, Relaxed)
    }

    /// Adds a client to the queues of its keys, whose locks are held. O(keys).
    pub(super) fn add(&self, waiter: &Arc<Waiter>, hash: impl Fn(&[u8]) -> KeyHash) {
        let Some(awaited) = waiter.awaited() else { return };
        for index in awaited.range.clone() {
            let key = waiter.key(index);
            let wanted = Wanted::of(awaited, key, hash(key));
            let place = Place { ticket: awaited.ticket, index: index as u32 };
            self.counter(wanted.hash).fetch_add(1, Relaxed);
            let queue = wanted.queue();
            self.stripe(queue)
                .lock()
                .entry(queue)
                .and_modify(|queue| queue.add(&wanted, place, waiter))
                .or_insert_with(|| {
                    self.count_queue(&wanted);
                    Queue::One(place, Arc::clone(waiter))
                });
        }
    }

    fn client_stripe(&self, client: &ClientHandle) -> &Mutex<Clients> {
        &self.clients[client.id as usize % STRIPES]
    }

    /// A client begins to wait, before the locks of its keys go back. Who sees it counted finds it.
    pub(super) fn begin(&self, waiter: &Arc<Waiter>) {
        let mut clients = self.client_stripe(&waiter.client).lock();
        clients.insert(waiter.client.id, Arc::clone(waiter));
        waiter.client.note_waits(true);
        self.waiting.fetch_add(1, Relaxed);
    }

    /// What a client waits for.
    pub(crate) fn of(&self, client: &ClientHandle) -> Option<Arc<Waiter>> {
        self.client_stripe(client).lock().get(&client.id).cloned()
    }

    /// A client does not wait for this any more. It stays in the queues of its keys until [`Waiters::remove`].
    pub(super) fn end(&self, waiter: &Arc<Waiter>) {
        self.waiting.fetch_sub(1, Relaxed);
        let mut clients = self.client_stripe(&waiter.client).lock();
        if clients.get(&waiter.client.id).is_some_and(|known| Arc::ptr_eq(known, waiter)) {
            clients.remove(&waiter.client.id);
            waiter.client.note_waits(false);
        }
    }

    /// Removes a client that has ended from all queues. O(keys × log waiters of a key).
    pub(super) fn remove(&self, waiter: &Waiter, hash: impl Fn(&[u8]) -> KeyHash) {
        let Some(awaited) = waiter.awaited() else { return };
        for index in awaited.range.clone() {
            let key = waiter.key(index);
            let wanted = Wanted::of(awaited, key, hash(key));
            self.counter(wanted.hash).fetch_sub(1, Relaxed);
            let queue = wanted.queue();
            let mut queues = self.stripe(queue).lock();
            let Some(waiters) = queues.get_mut(&queue) else { continue };
            waiters.remove(Place { ticket: awaited.ticket, index: index as u32 });
            if waiters.is_empty() {
                queues.remove(&queue);
                self.uncount_queue(&wanted);
                if queues.is_empty() && queues.capacity() > KEPT_QUEUES_MAX {
                    *queues = Queues::default();
                }
            }
        }
    }

    /// The first client that waits for this behind `last`. O(log waiters).
    pub(super) fn next(&self, wanted: &Wanted<'_>, last: Option<Place>) -> Option<(Place, Arc<Waiter>)> {
        let queue = wanted.queue();
        let queues = self.stripe(queue).lock();
        let mut behind = queues.get(&queue)?.after(last);
        let found = behind.find(|(place, waiter)| wanted.is_wanted_by(waiter, *place));
        found.map(|(place, waiter)| (place, Arc::clone(waiter)))
    }

    /// Every key that clients wait for, with its database: for changes of whole databases. O(waiters).
    pub(crate) fn all_keys(&self) -> Vec<(u32, Vec<u8>)> {
        let mut keys = Vec::with_capacity(self.keys_len());
        for stripe in &self.stripes {
            for queue in stripe.lock().values() {
                // Most have the first one's key.
                let mut last: Option<(u32, &[u8])> = None;
                for (place, waiter) in queue.after(None) {
                    let Some(awaited) = waiter.awaited() else { continue };
                    let key = (awaited.db, waiter.key(place.index as usize));
                    if last != Some(key) {
                        keys.push((key.0, key.1.to_vec()));
                        last = Some(key);
                    }
                }
            }
        }
        keys
    }
}

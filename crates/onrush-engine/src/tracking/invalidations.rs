//! What a commit has to tell clients that track keys, until it ends.
//!
//! Who has read a key that changes is told when the record is closed, in a message for each key. Who is told of prefixes gets one
//! message for all keys with a prefix that have changed in a chunk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onrush_store::KeyHash;

use super::mode::Mode;
use super::prefixes::Prefix;
use super::table::Readers;
use crate::client::ClientHandle;
use crate::messages::outbox::Parcel;
use crate::messages::outgoing::push_bulk;
use crate::settings::OutputLimits;
use crate::shared::Shared;

/// Stands for the client that changes a key where it is none: the key has expired, or was evicted.
pub(crate) const NOBODY: u64 = 0;

/// The channel by which clients in RESP2 are told what is redirected to them.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Something that is to be told.
enum Told {
    /// A key has changed.
    Key { key: Box<[u8]>, readers: Readers, writer: u64 },
    /// All keys may have.
    Everything,
}

/// Keys with a prefix that have changed, with the clients that changed them last.
struct Changed {
    prefix: Arc<Prefix<ClientHandle>>,
    keys: BTreeMap<Box<[u8]>, u64>,
}

/// See the module's text.
pub(crate) struct Invalidations {
    teller: Teller,
    told: Vec<Told>,
    /// By prefix.
    changed: BTreeMap<Box<[u8]>, Changed>,
}

impl Invalidations {
    pub(crate) fn new(shared: &'static Shared, thread: usize) -> Self {
        Self { teller: Teller { shared, thread }, told: Vec::new(), changed: BTreeMap::new() }
    }

    /// Whether nothing has to be told when the record is closed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Notes that `writer` has changed a key, whose lock is held.
    pub(crate) fn changed(&mut self, key: &[u8], hash: KeyHash, writer: u64) {
        let tracking = &self.teller.shared.tracking;
        if let Some(readers) = tracking.table.take(key, hash) {
            self.told.push(Told::Key { key: key.into(), readers, writer });
        }
        if tracking.prefixes.len() > 0 {
            tracking.prefixes.of_key(key, |prefix| {
                let changed = self.changed.entry(prefix.name.clone());
                let changed = changed.or_insert_with(|| Changed { prefix: Arc::clone(prefix), keys: BTreeMap::new() });
                changed.keys.insert(key.into(), writer);
            });
        }
    }

    /// Throws keys out of the table while there are too many, `max` of them at most, but not this one.
    pub(crate) fn throw_out(&mut self, hash: KeyHash, other_than: &[u8], max: usize) {
        let tracking = &self.teller.shared.tracking;
        for _ in 0..max {
            if !tracking.is_over_limit() {
                return;
            }
            let Some((key, readers)) = tracking.table.throw_out(hash, other_than) else { return };
            self.told.push(Told::Key { key, readers, writer: NOBODY });
        }
    }

    /// Notes that a database was emptied. The whole keyspace is locked.
    pub(crate) fn everything_changed(&mut self) {
        let shared = self.teller.shared;
        shared.lazyfree.free_later(Box::new(shared.tracking.table.clear()), 0);
        self.told.push(Told::Everything);
    }

    /// Tells clients of what they have read.
    #[cold]
    pub(crate) fn deliver(&mut self) {
        let told = std::mem::take(&mut self.told);
        let limits = self.teller.shared.settings.output_limits();
        let members = self.teller.shared.tracking.members.lock();
        for told in told {
            match told {
                Told::Key { key, readers, writer } => {
                    let mut message = Message::of_keys([&*key].into_iter());
                    let clients = readers.iter().filter_map(|id| members.clients.get(&id));
                    for client in clients.filter(|client| concerns(client, writer)) {
                        self.teller.tell(client, &mut message, &limits);
                    }
                }
                Told::Everything => {
                    let mut message = Message { keys: None, push: None, published: None };
                    let clients = members.clients.values();
                    for client in clients.filter(|client| client.tracking.mode().contains(Mode::ON)) {
                        self.teller.tell(client, &mut message, &limits);
                    }
                }
            }
        }
    }

    /// Whether keys with prefixes have changed.
    #[inline]
    pub(crate) fn has_broadcasts(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Tells clients of keys with their prefixes. No lock of a shard is held.
    #[cold]
    pub(crate) fn broadcast(&mut self) {
        let limits = self.teller.shared.settings.output_limits();
        let _members = self.teller.shared.tracking.members.lock();
        for Changed { prefix, keys } in std::mem::take(&mut self.changed).into_values() {
            let writers: BTreeSet<u64> = keys.values().copied().collect();
            let mut common = Message::of_keys(keys.keys().map(|key| &**key));
            for client in prefix.clients.lock().values() {
                let is_spared = client.tracking.mode().contains(Mode::NOLOOP) && writers.contains(&client.id);
                if !is_spared {
                    self.teller.tell(client, &mut common, &limits);
                    continue;
                }
                let mut others =
                    keys.iter().filter(|(_, writer)| **writer != client.id).map(|(key, _)| &**key).peekable();
                if others.peek().is_some() {
                    let mut message = Message::of_keys(others.collect::<Vec<_>>().into_iter());
                    self.teller.tell(client, &mut message, &limits);
                }
            }
        }
    }
}

/// Whether a client that has read a key is told that `writer` has changed it.
fn concerns(client: &ClientHandle, writer: u64) -> bool {
    let mode = client.tracking.mode();
    let is_own = mode.contains(Mode::NOLOOP) && client.id == writer;
    mode.contains(Mode::ON) && !mode.contains(Mode::BCAST) && !is_own
}

/// A message, encoded once for each way of telling it.
struct Message {
    /// The keys as an array; `None` stands for all keys.
    keys: Option<Vec<u8>>,
    push: Option<Arc<Parcel>>,
    published: Option<Arc<Parcel>>,
}

impl Message {
    fn of_keys<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Self {
        let mut array = format!("*{}\r\n", keys.len()).into_bytes();
        keys.for_each(|key| push_bulk(&mut array, key));
        Self { keys: Some(array), push: None, published: None }
    }

    /// As a push of RESP3.
    fn push(&mut self, shared: &'static Shared) -> &Arc<Parcel> {
        let keys = &self.keys;
        self.push.get_or_insert_with(|| {
            let keys = keys.as_deref().unwrap_or(b"_\r\n");
            Parcel::new([b">2\r\n$10\r\ninvalidate\r\n", keys].concat(), &shared.messages.parcel_bytes)
        })
    }

    /// As a message of pub/sub in RESP2.
    fn published(&mut self, shared: &'static Shared) -> &Arc<Parcel> {
        let keys = &self.keys;
        self.published.get_or_insert_with(|| {
            let mut bytes = b"*3\r\n$7\r\nmessage\r\n".to_vec();
            push_bulk(&mut bytes, CHANNEL);
            bytes.extend_from_slice(keys.as_deref().unwrap_or(b"$-1\r\n"));
            Parcel::new(bytes, &shared.messages.parcel_bytes)
        })
    }
}

/// Who puts messages into outboxes.
#[derive(Clone, Copy)]
struct Teller {
    shared: &'static Shared,
    thread: usize,
}

impl Teller {
    /// Tells a client, or the one that it redirects to, if that can be told: RESP2 has messages for subscribers only.
    fn tell(self, client: &ClientHandle, message: &mut Message, limits: &OutputLimits) {
        let Self { shared, thread } = self;
        match client.tracking.redirect() {
            0 if client.is_resp3() => client.send(message.push(shared), limits, shared, thread),
            0 => {}
            id => match shared.clients.get(id) {
                Some(target) if target.is_resp3() => target.send(message.push(shared), limits, shared, thread),
                Some(target) if target.has_subscriptions() => {
                    target.send(message.published(shared), limits, shared, thread);
                }
                Some(_) => {}
                None => self.tell_broken(client, id, limits),
            },
        }
    }

    /// The client that messages are redirected to is gone.
    #[cold]
    fn tell_broken(self, client: &ClientHandle, redirect: u64, limits: &OutputLimits) {
        client.tracking.insert(Mode::BROKEN);
        if client.is_resp3() {
            let push = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{redirect}\r\n");
            client.send(
                &Parcel::new(push.into_bytes(), &self.shared.messages.parcel_bytes),
                limits,
                self.shared,
                self.thread,
            );
        }
    }
}

/// Throws keys out of the table that are too many, `max` at most, and tells who has read them. For the maintenance thread:
/// clients that read keep to the limit by themselves. `thread`: who asks.
pub fn trim(shared: &'static Shared, thread: usize, max: usize) {
    if shared.tracking.is_over_limit() {
        let mut invalidations = Invalidations::new(shared, thread);
        invalidations.throw_out(shared.keyspace.hash(&shared.draw_seed().to_le_bytes()), b"", max);
        invalidations.deliver();
    }
}

//! Messages of a commit for clients that track keys, until it ends.
//!
//! Clients that have read a changed key get a message for each key when the record is closed. Clients that track
//! prefixes get one message for all keys with a prefix that have changed in a chunk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onrush_store::KeyHash;

use super::mode::Mode;
use super::prefixes::Prefix;
use super::table::Readers;
use crate::clients::client::ClientHandle;
use crate::messages::outbox::Parcel;
use crate::messages::outgoing::push_bulk;
use crate::settings::OutputLimits;
use crate::shared::Shared;

/// Stands for the writer of a change that no client has made: the key has expired, or was evicted.
pub(crate) const NOBODY: u64 = 0;

/// The channel of redirected messages to clients in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A change to report.
enum Told {
    /// A key has changed.
    Key { key: Box<[u8]>, readers: Readers, writer: u64 },
    /// All keys may have changed.
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
    changed: BTreeMap<Arc<[u8]>, Changed>,
}

impl Invalidations {
    pub(crate) fn new(shared: &'static Shared, thread: usize) -> Self {
        Self { teller: Teller { shared, thread }, told: Vec::new(), changed: BTreeMap::new() }
    }

    /// Whether there is nothing to send when the record is closed.
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

    /// Drops keys from the table while there are too many, at most `max`, but not this one.
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
        shared.lazyfree.free_later(Box::new(shared.tracking.table.clear()), 0, 0);
        self.told.push(Told::Everything);
    }

    /// Sends messages to the readers of changed keys.
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

    /// Sends messages about prefixes to the clients that track them. No lock of a shard may be held.
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

/// Whether a client that has read a key gets a message when `writer` changes it.
fn concerns(client: &ClientHandle, writer: u64) -> bool {
    let mode = client.tracking.mode();
    let is_own = mode.contains(Mode::NOLOOP) && client.id == writer;
    mode.contains(Mode::ON) && !mode.contains(Mode::BCAST) && !is_own
}

/// A message, encoded once for each protocol.
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

/// Puts messages into outboxes.
#[derive(Clone, Copy)]
struct Teller {
    shared: &'static Shared,
    thread: usize,
}

impl Teller {
    /// Sends a message to a client, or to the client that it redirects to, if that client can get it: RESP2 has
    /// messages only for subscribers.
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
                None => self.tell_broken(client, id),
            },
        }
    }

    /// The client that messages are redirected to is gone.
    #[cold]
    fn tell_broken(self, client: &ClientHandle, redirect: u64) {
        client.tracking.insert(Mode::BROKEN);
        if client.is_resp3() {
            let push = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{redirect}\r\n");
            client.send_behind(push.into_bytes(), self.shared, self.thread);
        }
    }
}

/// Drops keys beyond the table's limit, at most `max`, and notifies their readers. For the maintenance thread: commands
/// that read keep the limit by themselves. `thread`: the calling thread.
pub fn trim(shared: &'static Shared, thread: usize, max: usize) {
    if shared.tracking.is_over_limit() {
        let mut invalidations = Invalidations::new(shared, thread);
        invalidations.throw_out(shared.keyspace.hash(&shared.draw_seed().to_le_bytes()), b"", max);
        invalidations.deliver();
    }
}

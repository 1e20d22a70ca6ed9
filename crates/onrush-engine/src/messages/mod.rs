//! Messages that clients get without a command for each: pub/sub.
//!
//! A client subscribes to channels and patterns (`subscriptions`); [`Messages`] knows who listens to what. A message
//! goes into the open record of its publisher's commit ([`outgoing`]) and is sent when that record is closed:
//! subscribers get a transaction's messages when the transaction is done. It is encoded once for each protocol and
//! shared by all its subscribers: each client has an outbox ([`outbox`]) of references, which only the client's own
//! worker empties into its reply buffer, between two commands.
//!
//! Order: a thread sends its messages one after the other, so a client gets the messages of one publisher in the order
//! of publication. No message of a channel comes before the confirmation of its subscription or after that of its end.
//!
//! Lock order: a part of the directory, then a channel's subscribers, then an outbox; a client's waker comes last.

mod channel;
pub mod delivery;
mod directory;
pub mod events;
pub mod kind;
pub(crate) mod monitors;
pub mod outbox;
pub(crate) mod outgoing;
pub(crate) mod show;
mod subscribers;
pub(crate) mod subscriptions;

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use crate::clients::client::ClientHandle;
use crate::formats::glob::{match_work, widened_len};
use channel::{Channel, NameHash, Names};
use directory::Directory;
use kind::Kind;
use monitors::Monitors;

/// What a channel's name has at most, and a part of a pattern behind a star: matching them with each other takes no time.
const USUAL_NAME_LEN: usize = 512;
const USUAL_WIDENED_LEN: usize = 64;

/// The patterns with subscribers.
struct Patterns {
    names: Names,
    /// All of them as they are now, once somebody has asked: matching takes too long to hold the lock meanwhile.
    all: OnceLock<Arc<AllPatterns>>,
}

struct AllPatterns {
    patterns: Box<[Arc<Channel>]>,
    /// [`widened_len`] of all together, and of those for which it is long.
    widened_len: usize,
    long_widened_len: usize,
}

impl Patterns {
    fn all(&self) -> Arc<AllPatterns> {
        let made = || {
            let patterns: Box<[Arc<Channel>]> = self.names.values().map(Arc::clone).collect();
            let lens = || patterns.iter().map(|pattern| widened_len(&pattern.name));
            let (widened_len, long_widened_len) = (lens().sum(), lens().filter(|&len| len > USUAL_WIDENED_LEN).sum());
            Arc::new(AllPatterns { patterns, widened_len, long_widened_len })
        };
        Arc::clone(self.all.get_or_init(made))
    }

    /// To add or to remove some.
    fn names(&mut self) -> &mut Names {
        self.all.take();
        &mut self.names
    }
}

/// Who listens to what. See the module's text.
pub struct Messages {
    channels: Directory,
    shard_channels: Directory,
    patterns: RwLock<Patterns>,
    patterns_len: AtomicUsize,
    /// Rises with every subscription that begins or ends.
    version: AtomicU64,
    /// Clients with subscriptions.
    clients: AtomicUsize,
    pub(crate) monitors: Monitors,
    /// Bytes of messages in outboxes, each counted once.
    pub(crate) parcel_bytes: AtomicU64,
    hash: NameHash,
}

impl Messages {
    /// No subscriptions. `seed` hashes the names of channels: somebody who knows it could choose names that make a
    /// table slow.
    pub(crate) fn new(seed: u64) -> Self {
        let hash = NameHash(seed);
        Self {
            channels: Directory::new(hash),
            shard_channels: Directory::new(hash),
            patterns: RwLock::new(Patterns { names: Names::with_hasher(hash), all: OnceLock::new() }),
            patterns_len: AtomicUsize::new(0),
            version: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            monitors: Monitors::default(),
            parcel_bytes: AtomicU64::new(0),
            hash,
        }
    }

    /// The number of channels of a kind with subscribers.
    pub fn len(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel => self.channels.len(),
            Kind::Shard => self.shard_channels.len(),
            Kind::Pattern => self.patterns_len.load(Relaxed),
        }
    }

    /// Whether no channel but shard channels has subscribers.
    fn is_deaf(&self) -> bool {
        self.len(Kind::Channel) + self.len(Kind::Pattern) == 0
    }

    /// Whether any client sees every command (MONITOR).
    #[inline]
    pub(crate) fn has_monitors(&self) -> bool {
        !self.monitors.is_empty()
    }

    /// How many clients have subscriptions.
    pub(crate) fn clients_len(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Bytes of messages that wait in outboxes, each counted once, however many clients will get it.
    pub fn waiting_bytes(&self) -> u64 {
        self.parcel_bytes.load(Relaxed)
    }

    /// The channels of a kind. O(channels).
    pub(crate) fn all(&self, kind: Kind) -> Vec<Arc<Channel>> {
        let mut found = Vec::new();
        let look = |channel: &Arc<Channel>| found.push(Arc::clone(channel));
        match kind {
            Kind::Channel => self.channels.for_each(look),
            Kind::Shard => self.shard_channels.for_each(look),
            Kind::Pattern => found.extend_from_slice(&self.patterns.read().all().patterns),
        }
        found
    }

    /// The clients that hear something of a kind that `may_hear` denies them. O(subscriptions).
    pub(crate) fn denied(&self, kind: Kind, may_hear: impl Fn(&ClientHandle, &[u8]) -> bool) -> Vec<Arc<ClientHandle>> {
        let mut denied = Vec::new();
        for channel in self.all(kind) {
            let subscribers = channel.subscribers.lock();
            denied.extend(subscribers.iter().filter(|client| !may_hear(client, &channel.name)).cloned());
        }
        denied
    }

    /// How many clients have subscribed to a channel by its name. O(1).
    pub(crate) fn subscribers_len(&self, kind: Kind, name: &[u8]) -> usize {
        self.find(kind, name).map_or(0, |channel| channel.subscribers.lock().len())
    }

    fn directory(&self, kind: Kind) -> &Directory {
        if kind == Kind::Shard { &self.shard_channels } else { &self.channels }
    }

    fn find(&self, kind: Kind, name: &[u8]) -> Option<Arc<Channel>> {
        self.directory(kind).find(name)
    }

    /// The patterns that a channel's name matches, within so many steps. O(patterns); one load if there are none.
    fn patterns_of(&self, name: &[u8], mut steps: usize) -> Vec<Arc<Channel>> {
        if self.patterns_len.load(Relaxed) == 0 {
            return Vec::new();
        }
        let all = self.patterns.read().all();
        all.patterns.iter().filter(|pattern| pattern.takes(name, &mut steps)).map(Arc::clone).collect()
    }

    /// As [`match_work`], for a channel's name and all patterns; usual ones count for long names only. O(1), unless patterns have
    /// come or gone; one load if there are none.
    pub(crate) fn match_work(&self, name: &[u8]) -> usize {
        if self.patterns_len.load(Relaxed) == 0 {
            return 0;
        }
        let all = self.patterns.read().all();
        match_work(if name.len() > USUAL_NAME_LEN { all.widened_len } else { all.long_widened_len }, name.len())
    }

    /// Adds a client to the subscribers of a channel; it must not be one yet. O(log subscribers).
    fn join(&self, kind: Kind, name: &[u8], client: &Arc<ClientHandle>) -> Arc<Channel> {
        let channel = match kind {
            Kind::Channel | Kind::Shard => self.directory(kind).join(kind, name, client),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                let channel = channel::join(patterns.names(), kind, name, client);
                self.patterns_len.store(patterns.names.len(), Relaxed);
                channel
            }
        };
        self.version.fetch_add(1, Release);
        channel
    }

    /// Removes a client from the subscribers of a channel: when this returns, none of its messages comes any more.
    /// O(log subscribers).
    fn leave(&self, channel: &Channel, client: &ClientHandle) {
        match channel.kind {
            Kind::Channel | Kind::Shard => self.directory(channel.kind).leave(channel, client),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                channel::leave(patterns.names(), channel, client);
                self.patterns_len.store(patterns.names.len(), Relaxed);
            }
        }
        self.version.fetch_add(1, Release);
    }

    fn version(&self) -> u64 {
        self.version.load(Acquire)
    }
}

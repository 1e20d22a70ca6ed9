//! What one client listens to.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Messages;
use super::channel::{self, Channel, NameHash, Names};
use super::kind::Kind;
use crate::clients::client::ClientHandle;
use crate::lazyfree::LazyFree;

/// When a connection ends, up to this many subscriptions end at once; more of them end in the background.
const LEFT_AT_ONCE_MAX: usize = 1_000;

/// The subscriptions of a client. They end when this is dropped: the client is gone then.
pub(crate) struct Subscriptions {
    lazyfree: &'static LazyFree,
    client: Arc<ClientHandle>,
    sets: Sets,
}

/// Channels by kind.
struct Sets {
    messages: &'static Messages,
    by_kind: [Names; 3],
}

impl Sets {
    fn len(&self) -> usize {
        self.by_kind.iter().map(Names::len).sum()
    }
}

impl Subscriptions {
    pub(crate) fn new(messages: &'static Messages, lazyfree: &'static LazyFree, client: &Arc<ClientHandle>) -> Self {
        messages.clients.fetch_add(1, Relaxed);
        let hash: NameHash = messages.hash;
        let sets = Sets { messages, by_kind: [(); 3].map(|()| Names::with_hasher(hash)) };
        Self { lazyfree, client: Arc::clone(client), sets }
    }

    /// The number in a subscription's confirmation: all subscriptions of its kind, where channels and patterns count
    /// together.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        let len = |kind: Kind| self.sets.by_kind[kind as usize].len();
        match kind {
            Kind::Channel | Kind::Pattern => len(Kind::Channel) + len(Kind::Pattern),
            Kind::Shard => len(Kind::Shard),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sets.len() == 0
    }

    pub(crate) fn contains(&self, kind: Kind, name: &[u8]) -> bool {
        self.sets.by_kind[kind as usize].contains_key(name)
    }

    /// All of a kind.
    pub(crate) fn all(&self, kind: Kind) -> Vec<Arc<Channel>> {
        self.sets.by_kind[kind as usize].values().map(Arc::clone).collect()
    }

    /// Adds a subscription that the client does not have yet.
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8]) {
        let channel = self.sets.messages.join(kind, name, &self.client);
        let names = &mut self.sets.by_kind[kind as usize];
        names.insert(Arc::clone(&channel.name), channel);
        self.client.note_listed(name);
        self.client.subscriptions[kind as usize].store(names.len() as u32, Relaxed);
    }

    /// Ends a subscription if it exists: when this returns, none of its messages comes any more.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) {
        let names = &mut self.sets.by_kind[kind as usize];
        if let Some(channel) = names.remove(name) {
            self.sets.messages.leave(&channel, &self.client);
            self.client.note_unlisted(name);
            channel::shrink(names);
            self.client.subscriptions[kind as usize].store(names.len() as u32, Relaxed);
        }
    }

    /// Ends all subscriptions of a client that stays connected.
    pub(crate) fn leave_all(&mut self) {
        leave_all(&mut self.sets, &self.client);
    }
}

fn leave_all(sets: &mut Sets, client: &ClientHandle) {
    for (names, count) in sets.by_kind.iter_mut().zip(&client.subscriptions) {
        names.drain().for_each(|(_, channel)| {
            client.note_unlisted(&channel.name);
            sets.messages.leave(&channel, client);
        });
        count.store(0, Relaxed);
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let messages = self.sets.messages;
        messages.clients.fetch_sub(1, Relaxed);
        if self.is_empty() {
            return;
        }
        self.client.close_outbox();
        let none = [(); 3].map(|()| Names::with_hasher(messages.hash));
        let sets = Sets { messages, by_kind: std::mem::replace(&mut self.sets.by_kind, none) };
        let leaving = Leaving { client: Arc::clone(&self.client), sets };
        if leaving.sets.len() > LEFT_AT_ONCE_MAX {
            self.lazyfree.free_later(Box::new(leaving), 0, 0);
        }
    }
}

/// Subscriptions of a client that is gone, to be ended in the background.
struct Leaving {
    client: Arc<ClientHandle>,
    sets: Sets,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        leave_all(&mut self.sets, &self.client);
    }
}

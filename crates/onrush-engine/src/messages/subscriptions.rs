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
    sets: Sets,
}

/// Channels by kind, which the client leaves when this is dropped.
struct Sets {
    client: Arc<ClientHandle>,
    messages: &'static Messages,
    by_kind: [Names; 3],
}

impl Sets {
    fn new(messages: &'static Messages, client: &Arc<ClientHandle>) -> Self {
        let hash: NameHash = messages.hash;
        Self { client: Arc::clone(client), messages, by_kind: [(); 3].map(|()| Names::with_hasher(hash)) }
    }

    fn len(&self) -> usize {
        self.by_kind.iter().map(Names::len).sum()
    }

    fn leave_all(&mut self) {
        let Self { client, messages, by_kind } = self;
        for (names, count) in by_kind.iter_mut().zip(&client.subscriptions) {
            names.drain().for_each(|(_, channel)| {
                client.note_unlisted(&channel.name);
                messages.leave(&channel, client);
            });
            count.store(0, Relaxed);
        }
    }
}

impl Subscriptions {
    pub(crate) fn new(messages: &'static Messages, lazyfree: &'static LazyFree, client: &Arc<ClientHandle>) -> Self {
        messages.clients.fetch_add(1, Relaxed);
        Self { lazyfree, sets: Sets::new(messages, client) }
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
        let Sets { client, messages, by_kind } = &mut self.sets;
        let channel = messages.join(kind, name, client);
        let names = &mut by_kind[kind as usize];
        names.insert(Arc::clone(&channel.name), channel);
        client.note_listed(name);
        client.subscriptions[kind as usize].store(names.len() as u32, Relaxed);
    }

    /// Ends a subscription if it exists: when this returns, none of its messages comes any more.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) {
        let Sets { client, messages, by_kind } = &mut self.sets;
        let names = &mut by_kind[kind as usize];
        if let Some(channel) = names.remove(name) {
            messages.leave(&channel, client);
            client.note_unlisted(name);
            channel::shrink(names);
            client.subscriptions[kind as usize].store(names.len() as u32, Relaxed);
        }
    }

    /// Ends all subscriptions of a client that stays connected.
    pub(crate) fn leave_all(&mut self) {
        self.sets.leave_all();
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let Sets { client, messages, .. } = &self.sets;
        messages.clients.fetch_sub(1, Relaxed);
        if self.is_empty() {
            return;
        }
        client.close_outbox();
        if self.sets.len() > LEFT_AT_ONCE_MAX {
            let none = Sets::new(messages, client);
            self.lazyfree.free_later(Box::new(std::mem::replace(&mut self.sets, none)), 0, 0);
        }
    }
}

impl Drop for Sets {
    fn drop(&mut self) {
        if self.len() > 0 {
            self.leave_all();
        }
    }
}

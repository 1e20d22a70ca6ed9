//! What one client tracks, as long as it does.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::mode::Mode;
use crate::clients::client::ClientHandle;
use crate::shared::Shared;

/// Prefixes that a client leaves at once when it ends tracking; more of them it leaves in the background.
const LEFT_AT_ONCE_MAX: usize = 1_000;

/// A client tracks keys until this is dropped.
pub(crate) struct Tracks {
    shared: &'static Shared,
    client: Arc<ClientHandle>,
    is_bcast: bool,
    prefixes: BTreeSet<Box<[u8]>>,
}

impl Tracks {
    /// Begins to track; [`Tracks::set`] comes next. A client tracks either prefixes or what it reads, to the end.
    pub(crate) fn new(shared: &'static Shared, client: &Arc<ClientHandle>, is_bcast: bool) -> Self {
        shared.tracking.members.join(client, !is_bcast);
        shared.watched.begin_observing();
        Self { shared, client: Arc::clone(client), is_bcast, prefixes: BTreeSet::new() }
    }

    /// Sets the options, and who gets the messages: the client itself, if that is 0.
    pub(crate) fn set(&self, options: Mode, redirect: u64) {
        let caching = self.client.tracking.mode() & Mode::CACHING;
        self.client.tracking.set(options | Mode::ON | caching, redirect);
    }

    /// The prefixes that it tracks.
    pub(crate) fn prefixes(&self) -> &BTreeSet<Box<[u8]>> {
        &self.prefixes
    }

    /// Adds a prefix, unless the client has it. O(log prefixes + log clients).
    pub(crate) fn add_prefix(&mut self, name: &[u8]) {
        if self.prefixes.insert(name.into()) {
            self.shared.tracking.prefixes.join(name, self.client.id, &self.client);
        }
    }
}

impl Drop for Tracks {
    fn drop(&mut self) {
        let Self { shared, client, .. } = self;
        client.tracking.set(Mode::empty(), 0);
        let tracking = &shared.tracking;
        // Nothing that was read is tracked any more.
        let forgotten = tracking.members.leave(client, !self.is_bcast, || tracking.table.clear());
        shared.watched.end_observing();
        if let Some(forgotten) = forgotten {
            shared.lazyfree.free_later(Box::new(forgotten), 0, 0);
        }
        let leaving = Leaving { shared, client: client.id, prefixes: std::mem::take(&mut self.prefixes) };
        if leaving.prefixes.len() > LEFT_AT_ONCE_MAX {
            shared.lazyfree.free_later(Box::new(leaving), 0, 0);
        }
    }
}

/// Prefixes of a client that no longer tracks, to be left in the background.
struct Leaving {
    shared: &'static Shared,
    client: u64,
    prefixes: BTreeSet<Box<[u8]>>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.prefixes.iter().for_each(|name| self.shared.tracking.prefixes.leave(name, self.client));
    }
}

//! What one client tracks, as long as it does.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Tracking;
use super::mode::Mode;
use crate::clients::client::ClientHandle;
use crate::lazyfree::LazyFree;
use crate::transactions::watched::Watched;

/// Prefixes that a client leaves at once when it ends tracking; more of them it leaves in the background.
const LEFT_AT_ONCE_MAX: usize = 1_000;

/// A client tracks keys until this is dropped.
pub(crate) struct Tracks {
    tracking: &'static Tracking,
    watched: &'static Watched,
    lazyfree: &'static LazyFree,
    client: Arc<ClientHandle>,
    is_bcast: bool,
    prefixes: BTreeSet<Arc<[u8]>>,
}

impl Tracks {
    /// Begins to track; [`Tracks::set`] comes next. A client tracks either prefixes or what it reads, to the end.
    pub(crate) fn new(
        tracking: &'static Tracking,
        watched: &'static Watched,
        lazyfree: &'static LazyFree,
        client: &Arc<ClientHandle>,
        is_bcast: bool,
    ) -> Self {
        tracking.members.join(client, !is_bcast);
        watched.begin_observing();
        Self { tracking, watched, lazyfree, client: Arc::clone(client), is_bcast, prefixes: BTreeSet::new() }
    }

    /// Sets the options, and who gets the messages: the client itself, if that is 0.
    pub(crate) fn set(&self, options: Mode, redirect: u64) {
        let caching = self.client.tracking.mode() & Mode::CACHING;
        self.client.tracking.set(options | Mode::ON | caching, redirect);
    }

    /// The prefixes that it tracks.
    pub(crate) fn prefixes(&self) -> &BTreeSet<Arc<[u8]>> {
        &self.prefixes
    }

    /// Adds a prefix, unless the client has it. O(log prefixes + log clients).
    pub(crate) fn add_prefix(&mut self, name: &[u8]) {
        if !self.prefixes.contains(name) {
            self.prefixes.insert(self.tracking.prefixes.join(name, self.client.id, &self.client));
            self.client.note_listed(name);
        }
    }
}

impl Drop for Tracks {
    fn drop(&mut self) {
        let Self { tracking, watched, lazyfree, client, .. } = self;
        client.tracking.set(Mode::empty(), 0);
        self.prefixes.iter().for_each(|name| client.note_unlisted(name));
        // Nothing that was read is tracked any more.
        let forgotten = tracking.members.leave(client, !self.is_bcast, || tracking.table.clear());
        watched.end_observing();
        if let Some(forgotten) = forgotten {
            lazyfree.free_later(Box::new(forgotten), 0, 0);
        }
        let leaving = Leaving { tracking, client: client.id, prefixes: std::mem::take(&mut self.prefixes) };
        if leaving.prefixes.len() > LEFT_AT_ONCE_MAX {
            lazyfree.free_later(Box::new(leaving), 0, 0);
        }
    }
}

/// Prefixes of a client that no longer tracks, to be left in the background.
struct Leaving {
    tracking: &'static Tracking,
    client: u64,
    prefixes: BTreeSet<Arc<[u8]>>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.prefixes.iter().for_each(|name| self.tracking.prefixes.leave(name, self.client));
    }
}

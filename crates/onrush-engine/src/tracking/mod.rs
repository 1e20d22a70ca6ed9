//! Client-side caching: clients keep copies of keys that they have read, and get a message when these change.
//!
//! A client that tracks keys (CLIENT TRACKING) gets one message when a key changes that it has read ([`table`]), or,
//! with BCAST, a message for every change of a key with its prefixes ([`prefixes`]). Messages go into the open record
//! of the commit that changes the key ([`invalidations`]).
//!
//! No change is missed: a command notes what it reads, and a command that changes a key looks for its readers, both
//! while they hold the lock of the key. So either the reader has the new value, or the writer finds the reader. A
//! client gets the message after the reply that it makes outdated: its own worker takes messages over only between
//! commands.
//!
//! Lock order: the members, then a prefix's clients, then the registry of clients or an outbox; the parts of the table stand alone.

pub(crate) mod invalidations;
mod members;
pub mod mode;
pub(crate) mod prefixes;
pub(crate) mod reads;
pub(crate) mod table;
pub(crate) mod tracks;

pub use invalidations::trim;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use members::Members;
use prefixes::Prefixes;
use table::Table;

use crate::clients::client::ClientHandle;

/// Which clients track which keys. See the module's text.
#[derive(Default)]
pub(crate) struct Tracking {
    members: Members,
    table: Table,
    prefixes: Prefixes<ClientHandle>,
    /// Most keys in the table; 0 is no limit.
    keys_max: AtomicUsize,
}

impl Tracking {
    /// Whether any client tracks keys.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.clients_len() > 0
    }

    /// How many clients track keys.
    pub(crate) fn clients_len(&self) -> usize {
        self.members.len()
    }

    /// How many keys are in the table.
    pub(crate) fn keys_len(&self) -> usize {
        self.table.keys_len()
    }

    /// The sum of the clients of all these keys.
    pub(crate) fn items_len(&self) -> usize {
        self.table.items.load(Relaxed)
    }

    /// How many prefixes clients track.
    pub(crate) fn prefixes_len(&self) -> usize {
        self.prefixes.len()
    }

    /// Sets the limit of keys in the table; 0 is no limit. Keys beyond it are dropped little by little.
    pub(crate) fn set_keys_max(&self, keys_max: usize) {
        self.keys_max.store(keys_max, Relaxed);
    }

    /// Whether the table has more keys than it may.
    pub(crate) fn is_over_limit(&self) -> bool {
        let keys_max = self.keys_max.load(Relaxed);
        keys_max > 0 && self.keys_len() > keys_max
    }

    /// Waits until all threads that are sending messages are done: later messages use the present clients.
    pub(crate) fn settle(&self) {
        if self.is_on() {
            self.members.settle();
        }
    }
}

//! Client-side caching: clients that keep copies of what they have read, and are told when it changes.
//!
//! A client that tracks keys (CLIENT TRACKING) is told once of each key that it has read and that changes then ([`table`]), or, with
//! BCAST, of every key with its prefixes that changes ([`prefixes`]). What is to be told is put into the open record of the commit
//! that changes the key ([`invalidations`]).
//!
//! No change is missed: a command notes what it reads, and a command that changes a key looks for who has read it, both while they
//! hold the lock of the key. So either the reader has the new value, or the writer finds the reader. A client gets the message
//! behind the reply that it makes outdated: its own worker takes messages over between commands only.
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

use crate::client::ClientHandle;

/// Who tracks what. See the module's text.
#[derive(Default)]
pub struct Tracking {
    members: Members,
    table: Table,
    prefixes: Prefixes<ClientHandle>,
    /// Most keys in the table; 0 is no limit.
    keys_max: AtomicUsize,
}

impl Tracking {
    /// Whether any client tracks keys.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.clients_len() > 0
    }

    /// How many clients track keys.
    pub fn clients_len(&self) -> usize {
        self.members.len()
    }

    /// How many keys are known to be read by clients.
    pub fn keys_len(&self) -> usize {
        self.table.keys_len()
    }

    /// How many clients those have, all keys together.
    pub fn items_len(&self) -> usize {
        self.table.items_len()
    }

    /// How many prefixes clients are told of.
    pub fn prefixes_len(&self) -> usize {
        self.prefixes.len()
    }

    /// Sets the most keys that are known to be read; 0 is no limit. More are thrown out bit by bit.
    pub(crate) fn set_keys_max(&self, keys_max: usize) {
        self.keys_max.store(keys_max, Relaxed);
    }

    /// Whether the table has more keys than it may.
    pub fn is_over_limit(&self) -> bool {
        let keys_max = self.keys_max.load(Relaxed);
        keys_max > 0 && self.keys_len() > keys_max
    }

    /// Waits until whoever is telling clients something is done: what comes then goes by the clients as they are now.
    pub(crate) fn settle(&self) {
        if self.is_on() {
            self.members.settle();
        }
    }
}

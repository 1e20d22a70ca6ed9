//! Channels by their names, in parts with a lock each: publishers on several workers seldom meet.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::channel::{self, Channel, NameHash, Names};
use super::kind::Kind;
use crate::clients::client::ClientHandle;

/// Parts of a directory; a power of two.
const STRIPES: usize = 64;

/// See the module's text.
pub(super) struct Directory {
    stripes: Box<[Mutex<Names>]>,
    len: AtomicUsize,
    hash: NameHash,
}

impl Directory {
    pub(super) fn new(hash: NameHash) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(Names::with_hasher(hash))).collect();
        Self { stripes, len: AtomicUsize::new(0), hash }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    fn stripe(&self, name: &[u8]) -> &Mutex<Names> {
        // The table of a part uses other bits of the hash.
        &self.stripes[(self.hash.hash_one(name) >> 40) as usize % STRIPES]
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<Arc<Channel>> {
        if self.len() == 0 {
            return None;
        }
        self.stripe(name).lock().get(name).map(Arc::clone)
    }

    pub(super) fn join(&self, kind: Kind, name: &[u8], client: &Arc<ClientHandle>) -> Arc<Channel> {
        let mut names = self.stripe(name).lock();
        let before = names.len();
        let channel = channel::join(&mut names, kind, name, client);
        self.len.fetch_add(names.len() - before, Relaxed);
        channel
    }

    pub(super) fn leave(&self, channel: &Channel, client: &ClientHandle) {
        let mut names = self.stripe(&channel.name).lock();
        let before = names.len();
        channel::leave(&mut names, channel, client);
        self.len.fetch_sub(before - names.len(), Relaxed);
    }

    /// Calls `look` for every channel.
    pub(super) fn for_each(&self, mut look: impl FnMut(&Arc<Channel>)) {
        for stripe in &self.stripes {
            stripe.lock().values().for_each(&mut look);
        }
    }
}

//! `maxmemory-clients`: when all clients together hold more memory than their share, the largest are disconnected.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::blocking::kill;
use crate::clients::client::ClientHandle;
use crate::ranked::Ranked;
use crate::shared::Shared;

/// After a look at all clients nobody looks for as long as the look took, but for no longer than this.
const REST_MAX: Duration = Duration::from_millis(1);

/// The bit of a percentage; a limit of so many bytes is none.
const IS_PERCENT: u64 = 1 << 63;

/// How much memory clients may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Bytes; 0 is no limit.
    Bytes(u64),
    /// Percent of `maxmemory`; without that, no limit.
    Percent(u64),
}

/// The share, and what was done to keep it.
#[derive(Default)]
pub struct ClientsShare {
    /// In one word, so that nobody sees half of a change: bytes, or percent with [`IS_PERCENT`].
    share: AtomicU64,
    /// Until when nobody looks again.
    rests_until: Mutex<Option<Instant>>,
    evicted: AtomicU64,
}

impl ClientsShare {
    /// Changes the share.
    pub(crate) fn set(&self, share: Share) {
        let word = match share {
            Share::Bytes(bytes) => bytes.min(IS_PERCENT - 1),
            Share::Percent(percent) => percent | IS_PERCENT,
        };
        self.share.store(word, Relaxed);
    }

    /// Clients that were disconnected.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&self) {
        self.evicted.store(0, Relaxed);
    }

    fn limit(&self, maxmemory: u64) -> u64 {
        let word = self.share.load(Relaxed);
        if word & IS_PERCENT == 0 {
            return word;
        }
        (u128::from(maxmemory) * u128::from(word - IS_PERCENT) / 100) as u64
    }
}

impl Shared {
    /// The bytes that clients may hold together; 0 is no limit.
    #[inline]
    pub fn clients_limit(&self) -> u64 {
        self.clients_share.limit(self.eviction.maxmemory())
    }

    /// Counts anew what a client holds, and disconnects the largest clients if all hold too much. A few loads if they do
    /// not; otherwise O(clients + evicted x log clients), not all the time.
    #[inline]
    pub fn count_client(&'static self, client: &ClientHandle) {
        self.clients.count(client);
        let limit = self.clients_limit();
        if limit > 0 {
            let held = self.clients.held_bytes() + self.messages.waiting_bytes();
            if held > limit {
                self.keep_clients_within(limit, held / 2 > limit);
            }
        }
    }

    /// Counts anew what all clients hold, and disconnects the largest if that is too much. O(clients).
    pub fn count_clients(&'static self) {
        let limit = self.clients_limit();
        if limit == 0 {
            return;
        }
        self.clients.count_all();
        self.keep_clients_within(limit, false);
    }

    /// `is_far_beyond`: waits for the one who looks, who may have been put to sleep by the system meanwhile; otherwise that
    /// one alone sees to it.
    #[cold]
    fn keep_clients_within(&'static self, limit: u64, is_far_beyond: bool) {
        let share = &self.clients_share;
        // Held by the one who looks.
        let looks = if is_far_beyond { Some(share.rests_until.lock()) } else { share.rests_until.try_lock() };
        let Some(mut rests_until) = looks else { return };
        let began = Instant::now();
        if rests_until.is_some_and(|until| began < until) {
            return;
        }
        self.evict_clients(limit);
        let ended = Instant::now();
        *rests_until = Some(ended + (ended - began).min(REST_MAX));
    }

    fn evict_clients(&'static self, limit: u64) {
        let share = &self.clients_share;
        let (mut own, mut waiting) = (0, 0);
        let mut largest = Vec::new();
        // The connections of those that were told to close hold nothing for long.
        for client in self.clients.all().into_iter().filter(|client| !client.is_killed()) {
            let held = Held { own: client.own_bytes(), waiting: client.waiting().bytes as u64, client };
            (own, waiting) = (own + held.own, waiting + held.waiting);
            if !(held.client.no_evict.load(Relaxed) || held.client.is_server()) {
                // By its size, then by its age, the youngest first.
                largest.push(Ranked { rank: (held.own + held.waiting, held.client.id), what: held });
            }
        }
        // Messages that several clients wait for are there once, as long as one of them waits.
        let once = self.messages.waiting_bytes();
        if own + waiting.min(once) <= limit {
            return;
        }
        // Few of many are taken: putting all in order would take longer than all else.
        let mut largest = BinaryHeap::from(largest);
        while own + waiting.min(once) > limit
            && let Some(Ranked { rank: (bytes, _), what: held }) = largest.pop()
        {
            let client = &held.client;
            (own, waiting) = (own - held.own, waiting - held.waiting);
            share.evicted.fetch_add(1, Relaxed);
            tracing::info!("Evicting client: id={} addr={} tot-mem={bytes}", client.id, client.addr);
            kill(self, client);
        }
    }
}

/// What a client holds, in bytes.
struct Held {
    own: u64,
    waiting: u64,
    client: Arc<ClientHandle>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_of_maxmemory() {
        let share = ClientsShare::default();
        for (set, maxmemory, limit) in [
            (Share::Bytes(0), 100, 0),
            (Share::Bytes(70), 0, 70),
            (Share::Percent(10), 0, 0),
            (Share::Percent(10), 1000, 100),
            (Share::Percent(100), u64::MAX, u64::MAX),
            (Share::Bytes(u64::MAX), 0, IS_PERCENT - 1),
        ] {
            share.set(set);
            assert_eq!(share.limit(maxmemory), limit, "{set:?}");
        }
    }
}

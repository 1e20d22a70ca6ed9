//! What the state of the node asks of this server.

use onrush_cluster::cluster::{Host, Now, PrimaryLink};

use crate::replication::role::LinkState;
use crate::shared::Shared;

/// The server.
pub struct Facts(pub &'static Shared);

impl Facts {
    /// The present time.
    pub fn now(&self) -> Now {
        let mono_ms = (self.0.clock.now() - self.0.started).as_millis() as u64;
        Now { mono_ms, wall_ms: self.0.clock.unix_ms() as u64 }
    }
}

impl Host for Facts {
    fn replication_offset(&self) -> u64 {
        self.0.replication.history.offset()
    }

    fn primary_link(&self) -> PrimaryLink {
        let link = self.0.replication.role.link();
        let age = |then| self.0.clock.now().saturating_duration_since(then).as_millis() as u64;
        let silent_ms = link.was_alike.map_or(u64::MAX, age);
        PrimaryLink { is_up: link.state == LinkState::Connected, silent_ms }
    }

    fn keys_in_slot(&self, slot: u16) -> u64 {
        self.0.keyspace.db(0).map_or(0, |db| db.shard(slot.into()).len() as u64)
    }

    fn has_keys(&self) -> bool {
        self.0.keyspace.db(0).is_some_and(|db| !db.is_empty())
    }
}

//! The server's role: a primary, or the replica of another server.
//!
//! One thread of the process changes it, between two parts of the stream and while it has the whole keyspace; the same
//! thread has the link to the primary and tells here how that is.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::CommandError;
use crate::settings::set_bits;

/// Writes that clients send to a replica.
pub(crate) const READ_ONLY: CommandError = CommandError::fixed("READONLY You can't write against a read only replica.");

/// Writes while there are too few replicas.
pub(crate) const LACKS: CommandError = CommandError::fixed("NOREPLICAS Not enough good replicas to write.");

/// Commands that need data which may be old.
pub(crate) const PRIMARY_DOWN: CommandError =
    CommandError::fixed("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

/// Where a primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// A name or an address; a name is looked up at each connection.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How far the link to the primary is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// There is none yet.
    #[default]
    Connect,
    /// It is being opened.
    Connecting,
    /// Both sides introduce themselves.
    Handshake,
    /// The data is received and loaded.
    Sync,
    /// The stream is followed.
    Connected,
}

impl LinkState {
    /// As ROLE tells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// The data on its way from the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Its length in bytes, if the primary has told it.
    pub total_bytes: Option<u64>,
    /// What has come.
    pub read_bytes: u64,
}

/// The link to the primary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// How far it is.
    pub state: LinkState,
    /// When something came over it.
    pub last_io: Option<Instant>,
    /// When the data here was that of the primary last; `None`: it never was, or is only a part of it.
    pub was_alike: Option<Instant>,
    /// Since when it is not connected; `None` if it is, or never was.
    pub down_since: Option<Instant>,
    /// Bytes of the stream that have come and are not executed yet.
    pub unread_bytes: u64,
    /// The data that is received.
    pub transfer: Option<Transfer>,
}

const IS_REPLICA: u8 = 1 << 0;
const TAKES_WRITES: u8 = 1 << 1;
const HIDES_STALE: u8 = 1 << 2;
const IS_CONNECTED: u8 = 1 << 3;
const COUNTS_MEMORY: u8 = 1 << 4;
const LACKS_REPLICAS: u8 = 1 << 5;
const EXECUTES: u8 = 1 << 6;

/// The role, the link to the primary if there is one, and what a replica does.
#[derive(Debug, Default)]
pub struct Role {
    /// What commands look at.
    bits: AtomicU8,
    primary: Mutex<Option<Primary>>,
    link: Mutex<Link>,
}

impl Role {
    fn set_bit(&self, bit: u8, is_on: bool) {
        set_bits(&self.bits, bit, is_on);
    }

    #[inline]
    fn has(&self, bit: u8) -> bool {
        self.bits.load(Relaxed) & bit != 0
    }

    /// What a replica does: `replica-read-only`, `replica-serve-stale-data`, `replica-ignore-maxmemory`.
    pub fn set_options(&self, options: ReplicaOptions) {
        self.set_bit(TAKES_WRITES, !options.is_read_only);
        self.set_bit(HIDES_STALE, !options.serves_stale_data);
        self.set_bit(COUNTS_MEMORY, !options.ignores_maxmemory);
    }

    /// Whether this server is a replica: nothing expires and nothing is evicted then but by its primary's word.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.has(IS_REPLICA)
    }

    /// As HELLO names it.
    pub(crate) fn name(&self) -> &'static str {
        if self.is_replica() { "replica" } else { "master" }
    }

    /// Whether clients may not write.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.bits.load(Relaxed) & (IS_REPLICA | TAKES_WRITES) == IS_REPLICA
    }

    /// Whether clients may not write, as this is a replica or has too few of them.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        let bits = self.bits.load(Relaxed);
        bits & (IS_REPLICA | TAKES_WRITES) == IS_REPLICA || bits & LACKS_REPLICAS != 0
    }

    /// Whether this is a primary with too few replicas (`min-replicas-to-write`).
    pub fn lacks_replicas(&self) -> bool {
        self.has(LACKS_REPLICAS)
    }

    /// Sets whether there are too few replicas.
    pub fn set_lacks_replicas(&self, lacks: bool) {
        if self.has(LACKS_REPLICAS) != lacks {
            self.set_bit(LACKS_REPLICAS, lacks);
        }
    }

    /// Whether clients of a replica may write.
    pub fn takes_writes(&self) -> bool {
        self.has(TAKES_WRITES)
    }

    /// Whether most commands are refused, as the data may be old.
    #[inline]
    pub fn is_cut_off(&self) -> bool {
        self.bits.load(Relaxed) & (IS_REPLICA | HIDES_STALE | IS_CONNECTED) == IS_REPLICA | HIDES_STALE
    }

    /// Whether a part of the primary's stream is being executed: the data is at no place of it then.
    pub fn is_executing(&self) -> bool {
        self.has(EXECUTES)
    }

    /// A part of the primary's stream is executed from here on, or no more.
    pub fn set_executing(&self, executes: bool) {
        self.set_bit(EXECUTES, executes);
    }

    /// Whether `maxmemory` means nothing here.
    #[inline]
    pub fn ignores_maxmemory(&self) -> bool {
        self.bits.load(Relaxed) & (IS_REPLICA | COUNTS_MEMORY) == IS_REPLICA
    }

    /// Where the primary is; `None` if this server is one.
    pub fn primary(&self) -> Option<Primary> {
        self.primary.lock().clone()
    }

    /// Sets the role. The caller has the whole keyspace, and no link is in use.
    pub fn set_primary(&self, primary: Option<Primary>) {
        self.set_link(|link| *link = Link { down_since: primary.as_ref().map(|_| Instant::now()), ..Link::default() });
        self.set_bit(IS_REPLICA, primary.is_some());
        *self.primary.lock() = primary;
    }

    /// Whether the data of the primary is on its way, or is loaded.
    pub(crate) fn is_syncing(&self) -> bool {
        self.is_replica() && self.link().state == LinkState::Sync
    }

    /// The link to the primary.
    pub fn link(&self) -> Link {
        *self.link.lock()
    }

    /// Tells how the link to the primary is.
    pub fn set_link(&self, change: impl FnOnce(&mut Link)) {
        let mut link = self.link.lock();
        change(&mut link);
        self.set_bit(IS_CONNECTED, link.state == LinkState::Connected);
    }
}

/// What a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// `replica-read-only`
    pub is_read_only: bool,
    /// `replica-serve-stale-data`
    pub serves_stale_data: bool,
    /// `replica-ignore-maxmemory`
    pub ignores_maxmemory: bool,
}

impl Default for ReplicaOptions {
    /// As in Redis.
    fn default() -> Self {
        Self { is_read_only: true, serves_stale_data: true, ignores_maxmemory: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_refuses_what_its_options_say() {
        let role = Role::default();
        let states =
            |role: &Role| [role.is_replica(), role.is_read_only(), role.is_cut_off(), role.ignores_maxmemory()];
        assert_eq!(states(&role), [false; 4]);
        role.set_primary(Some(Primary { host: "h".to_owned(), port: 1 }));
        assert_eq!(states(&role), [true, true, false, true]);
        role.set_options(ReplicaOptions { is_read_only: false, serves_stale_data: false, ignores_maxmemory: false });
        assert_eq!(states(&role), [true, false, true, false]);
        role.set_link(|link| link.state = LinkState::Connected);
        assert_eq!(states(&role), [true, false, false, false]);
        role.set_primary(None);
        assert_eq!(states(&role), [false; 4]);
    }
}

//! A worker's connections.

use std::time::Instant;

use crate::net::connection::Connection;

/// A connection and what its worker knows of it.
pub(crate) struct Place {
    pub(crate) connection: Connection,
    /// Whether it stands in a list of those that have a turn, in this round or a later one.
    pub(crate) is_ready: bool,
    /// Distinguishes it from earlier connections at the same place.
    pub(crate) number: u64,
    /// Its entry among the alarms.
    pub(crate) alarm: Option<Instant>,
}

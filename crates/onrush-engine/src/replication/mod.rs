//! Replication: the role of this server and the history of its data.

pub mod history;
pub mod role;

use history::History;
use role::Role;

/// What all threads share of replication.
#[derive(Debug)]
pub struct Replication {
    /// Whether this server is a primary or a replica.
    pub role: Role,
    /// What its data has been through.
    pub history: History,
}

impl Replication {
    /// A primary with this identifier of its history.
    pub(crate) fn new(id: String) -> Self {
        Self { role: Role::default(), history: History::new(id) }
    }
}

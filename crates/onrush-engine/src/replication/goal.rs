//! What WAIT and WAITAOF wait for.

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The last record that replicas must have.
    pub lsn: u64,
    /// So many of them.
    pub replicas: usize,
    /// Of WAITAOF: the disks of replicas count, and whether this server's must have the record.
    pub disks: Option<bool>,
}

//! What a replica says before it is one: REPLCONF and PSYNC.

/// What a replica has told about itself (REPLCONF).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The port that it listens on; 0: untold.
    pub port: u16,
    /// The address that it wants to be known by; empty: the one that it connects from.
    pub ip: String,
    /// Whether it takes data whose length is not told (`capa eof`).
    pub takes_mark: bool,
    /// Whether it says what it has executed without being asked (`capa onrush-acks`).
    pub tells: bool,
    /// Whether it wants the data alone (`rdb-only`).
    pub wants_data_only: bool,
    /// What of the data it wants then, if not all (`rdb-filter-only`).
    pub only: Option<Only>,
    /// Whether it knows that a history may have another name (`capa psync2`).
    pub knows_names: bool,
}

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// The libraries of functions.
    Functions,
    /// Nothing.
    Nothing,
}

/// What a replica asks for: PSYNC or SYNC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// Its history, and the first byte of the stream that it lacks; `None`: it has no data.
    pub from: Option<(String, u64)>,
    /// Whether it is told the history and the offset; not with SYNC, as before Redis 2.8.
    pub is_psync: bool,
    /// Whether it was this server's primary until now, and this server is to be one in its place (`FAILOVER`).
    pub hands_over: bool,
}

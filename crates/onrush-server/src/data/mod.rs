//! The data on the disk: snapshots, the append-only file, loading.

pub(crate) mod append_only;
pub(crate) mod backoff;
pub(crate) mod loading;
pub(crate) mod log_state;
pub(crate) mod position;
pub(crate) mod refusal;
pub(crate) mod replay;
pub(crate) mod saving;
pub(crate) mod snapshot_file;
pub(crate) mod unnamed;

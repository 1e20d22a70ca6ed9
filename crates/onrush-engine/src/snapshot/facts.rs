//! Facts about the snapshots so far, for INFO and for the save points.

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// When the data was last saved, in Unix seconds; 0 if it never was.
    pub saved_at_s: i64,
    /// Changes that there had been when the data was last saved.
    pub saved_changes: u64,
    /// Snapshots that were written.
    pub saves: u64,
    /// How long the last one took, in seconds.
    pub last_took_s: Option<u64>,
    /// When one was last begun in the background, in Unix seconds.
    pub tried_at_s: i64,
    /// Why the last one failed, if it did.
    pub failure: Option<String>,
    /// The most memory of entries that were encoded and not yet written, in bytes.
    pub held_bytes_max: usize,
    /// Keys that were loaded from the last file.
    pub loaded_keys: u64,
    /// Keys of that file that were left out, as they had expired.
    pub expired_keys: u64,
}

//! Where a command stands in a chunk.

/// Where a command stands in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of its run.
    pub(crate) run: usize,
    /// Its number in the run, from 0.
    pub(crate) nth: u32,
}

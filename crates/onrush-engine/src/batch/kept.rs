//! Limits on memory that threads keep for reuse.

/// Most bytes that a thread's list keeps for reuse; a larger list is freed after use.
pub(crate) const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Frees a list's memory if it is more than [`KEPT_BYTES_MAX`]; drops its content then.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *list = Vec::new();
    }
}

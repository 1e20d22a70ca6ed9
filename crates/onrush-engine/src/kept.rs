//! Memory that threads keep for its next use.

/// Bytes that a list of a thread keeps for its next use; a larger one is given back after its use.
pub(crate) const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Gives a list's memory back if it is more than [`KEPT_BYTES_MAX`]; whatever is in it is dropped then.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *list = Vec::new();
    }
}

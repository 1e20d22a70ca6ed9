//! Huge blocks of memory, straight from the system: they grow without being copied, take no more memory than was written
//! to, and are gone when they are freed.
//!
//! Lengths are in bytes. The system is asked for whole huge pages, so that it has a choice where to begin the block.

use std::ptr;

/// From this length on a block is worth being mapped by itself: what an allocator would do with it, too, but an allocator
/// copies it when it grows.
pub const BYTES_MIN: usize = 8 * 1024 * 1024;

const HUGE_PAGE: usize = 2 * 1024 * 1024;

/// The length that is mapped for a block; `None` when there is no such length.
fn mapped_len(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(HUGE_PAGE)
}

/// A block of zero bytes, aligned to pages; null if the system has none to give.
pub fn map(len: usize) -> *mut u8 {
    let Some(mapped) = mapped_len(len) else { return ptr::null_mut() };
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for a new mapping wherever the system likes, which touches nothing that is there.
    let at = unsafe { libc::mmap(ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    // SAFETY: advice on the mapping just made; it changes no contents. Nothing is lost where the system does not take it.
    unsafe { libc::madvise(at, mapped, libc::MADV_HUGEPAGE) };
    at.cast()
}

/// Makes a block longer or shorter; it may move. What is new of it may be anything that it held before. Null if the system has no room; then the
/// block is as it was. O(pages in use) where it moves.
///
/// # Safety
/// `at` is a block of `len` bytes that came from [`map`] or [`remap`]; nobody uses it during the call, or the old place of
/// it afterwards.
pub unsafe fn remap(at: *mut u8, len: usize, new_len: usize) -> *mut u8 {
    let (Some(mapped), Some(new_mapped)) = (mapped_len(len), mapped_len(new_len)) else { return ptr::null_mut() };
    if mapped == new_mapped {
        return at;
    }
    // SAFETY: the whole mapping and nothing else, per the caller.
    let moved = unsafe { libc::mremap(at.cast(), mapped, new_mapped, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED { ptr::null_mut() } else { moved.cast() }
}

/// Gives a block back to the system. O(pages in use).
///
/// # Safety
/// As for [`remap`]; nobody uses the block afterwards.
pub unsafe fn unmap(at: *mut u8, len: usize) {
    if let Some(mapped) = mapped_len(len) {
        // SAFETY: the whole mapping and nothing else, per the caller.
        unsafe { libc::munmap(at.cast(), mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_bytes_when_it_grows_and_shrinks() {
        let at = map(BYTES_MIN + 1);
        assert!(!at.is_null());
        // SAFETY: within the block, whose length each step knows.
        unsafe {
            at.write(1);
            at.add(BYTES_MIN).write(2);
            let at = remap(at, BYTES_MIN + 1, 5 * BYTES_MIN);
            assert_eq!((at.read(), at.add(BYTES_MIN).read(), at.add(5 * BYTES_MIN - 1).read()), (1, 2, 0));
            at.add(5 * BYTES_MIN - 1).write(3);
            let at = remap(at, 5 * BYTES_MIN, BYTES_MIN + 7);
            assert_eq!((at.read(), at.add(BYTES_MIN).read(), at.add(BYTES_MIN + 6).read()), (1, 2, 0));
            unmap(at, BYTES_MIN + 7);
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_refused() {
        assert!(map(usize::MAX).is_null());
    }
}

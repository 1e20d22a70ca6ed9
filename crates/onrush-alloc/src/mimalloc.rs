//! mimalloc as an allocator of Rust. Blocks with no more than a usual alignment, nearly all, come from its functions
//! without one, which take a third of the instructions.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as ffi;

/// mimalloc's heap.
pub struct MiMalloc;

/// All blocks are aligned to so much: mimalloc's sizes are multiples of a word, and its blocks lie one after another from
/// an aligned address on.
const ALIGN: usize = size_of::<usize>();

// SAFETY: mimalloc's functions keep to the contract: its blocks do not overlap, have the size asked for and the alignment,
// see `ALIGN`, and stay until they are freed or resized; `realloc` keeps what fits. Null means that there is no memory.
unsafe impl GlobalAlloc for MiMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any alignment that is a power of two may be asked for.
        let at = unsafe {
            match layout.align() {
                ..=ALIGN => ffi::mi_malloc(layout.size()),
                align => ffi::mi_malloc_aligned(layout.size(), align),
            }
        };
        at.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        let at = unsafe {
            match layout.align() {
                ..=ALIGN => ffi::mi_zalloc(layout.size()),
                align => ffi::mi_zalloc_aligned(layout.size(), align),
            }
        };
        at.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, _layout: Layout) {
        // SAFETY: the block is one of mimalloc's (the caller's promise).
        unsafe { ffi::mi_free(at.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the block is one of mimalloc's (the caller's promise).
        let new = unsafe {
            match layout.align() {
                ..=ALIGN => ffi::mi_realloc(at.cast(), new_size),
                align => ffi::mi_realloc_aligned(at.cast(), new_size, align),
            }
        };
        new.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_all_sizes_and_alignments_are_aligned_and_keep_their_bytes() {
        for align in [1, 2, 4, 8, 16, 64, 4096] {
            for size in (1..=80).chain([100, 1000, 5000, 100_000, 3_000_000]) {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: the size is not zero; each block is used within its size and freed once.
                unsafe {
                    let blocks = [MiMalloc.alloc(layout), MiMalloc.alloc_zeroed(layout), MiMalloc.alloc(layout)];
                    assert!(blocks.iter().all(|at| !at.is_null() && at.addr() % align == 0), "{layout:?}");
                    assert!((0..size).all(|index| blocks[1].add(index).read() == 0));
                    for (index, &at) in blocks.iter().enumerate() {
                        at.write_bytes(index as u8 + 1, size);
                        let larger = MiMalloc.realloc(at, layout, size * 2);
                        assert!(larger.addr() % align == 0, "{layout:?}");
                        assert!((0..size).all(|byte| larger.add(byte).read() == index as u8 + 1));
                        MiMalloc.dealloc(larger, Layout::from_size_align_unchecked(size * 2, align));
                    }
                }
            }
        }
    }
}

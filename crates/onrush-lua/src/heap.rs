//! The memory of a Lua state: all of it is allocated and counted here, and has a limit.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Lua asks for no stricter alignment than that of a double.
const ALIGN: usize = 8;

/// Counts what a Lua state has allocated, in bytes.
///
/// While Lua code runs, an allocation beyond the limit is refused, and Lua raises an error. While one of our functions
/// works on the state, every allocation is granted: an error would leave that function by a jump over its frames.
/// [`Heap::is_over`] is checked when the function returns, and by functions that build much.
pub(crate) struct Heap {
    used_bytes: Cell<usize>,
    max_bytes: Cell<usize>,
    /// How many of our functions are at work; 0 while Lua code runs.
    depth: Cell<u32>,
    is_over: Cell<bool>,
    /// Whether the limit was ever reached: then the state is not used again.
    was_over: Cell<bool>,
}

impl Heap {
    /// An empty heap. It begins inside of one of our functions, since one makes the state.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            used_bytes: Cell::new(0),
            max_bytes: Cell::new(max_bytes),
            depth: Cell::new(1),
            is_over: Cell::new(false),
            was_over: Cell::new(false),
        }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    pub(crate) fn set_max_bytes(&self, max_bytes: usize) {
        self.max_bytes.set(max_bytes);
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes.get()
    }

    /// Whether one of our functions has gone beyond the limit.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// As [`Heap::is_over`]; the caller raises the error now.
    pub(crate) fn take_over(&self) -> bool {
        self.is_over.replace(false)
    }

    /// Whether the limit was reached since the state was made.
    pub(crate) fn was_over(&self) -> bool {
        self.was_over.get()
    }

    /// Notes that one of our functions begins.
    #[inline]
    pub(crate) fn enter(&self) {
        self.depth.set(self.depth.get() + 1);
    }

    /// Notes that one of our functions ends.
    #[inline]
    pub(crate) fn leave(&self) {
        self.depth.set(self.depth.get() - 1);
    }

    /// Notes that Lua code begins; returns the depth to pass to [`Heap::end_lua`] when the code has ended, by an error
    /// or not.
    #[inline]
    pub(crate) fn begin_lua(&self) -> u32 {
        self.depth.replace(0)
    }

    /// Notes that the Lua code has ended.
    #[inline]
    pub(crate) fn end_lua(&self, depth: u32) {
        self.depth.set(depth);
    }

    /// The allocator in the form Lua expects: frees for a `new_size` of 0, otherwise allocates or resizes; null on
    /// failure.
    ///
    /// # Safety
    /// `block` is null, or came from this function of this heap with size `old_size`.
    pub(crate) unsafe fn resize(&self, block: *mut c_void, old_size: usize, new_size: usize) -> *mut c_void {
        let old_size = if block.is_null() { 0 } else { old_size };
        let used = (self.used_bytes.get() - old_size).saturating_add(new_size);
        if new_size > old_size && used > self.max_bytes.get() {
            self.was_over.set(true);
            if self.depth.get() == 0 {
                return ptr::null_mut();
            }
            self.is_over.set(true);
        }
        // SAFETY: sizes are not zero where a block is made or resized; they fit a layout, since Lua has checked them
        // against the range of a pointer; and the block was made with the old layout (the caller's promise).
        let new = unsafe {
            if new_size == 0 {
                if old_size > 0 {
                    dealloc(block.cast(), layout(old_size));
                }
                ptr::null_mut()
            } else if old_size == 0 {
                alloc(layout(new_size))
            } else {
                realloc(block.cast(), layout(old_size), new_size)
            }
        };
        if new_size == 0 || !new.is_null() {
            self.used_bytes.set(used);
        } else if self.depth.get() > 0 {
            // No Lua error may leave our own functions, and without memory they could not make a string for an error
            // either.
            std::alloc::handle_alloc_error(layout(new_size));
        }
        new.cast()
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and no size of Lua's is near `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

//! The memory of a Lua state: every byte of it passes here, is counted, and has a limit.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Lua asks for no stricter alignment than that of a double.
const ALIGN: usize = 8;

/// Counts what a Lua state has allocated, in bytes.
///
/// While Lua code runs, what goes beyond the limit is refused, and Lua raises an error. While one of our functions works on the
/// state, everything is granted: an error would leave that function by a jump over its frames. [`Heap::is_over`] is looked at
/// when the function returns, and by functions that build much.
pub(crate) struct Heap {
    used_bytes: Cell<usize>,
    max_bytes: Cell<usize>,
    /// How many of our functions are at work; 0 while Lua code runs.
    depth: Cell<u32>,
    is_over: Cell<bool>,
    /// Whether the limit was ever met: then the state is not used again.
    was_over: Cell<bool>,
}

impl Heap {
    /// An empty one. Our own function makes the state, so it begins inside of one.
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

    /// As [`Heap::is_over`]; the error is raised now.
    pub(crate) fn take_over(&self) -> bool {
        self.is_over.replace(false)
    }

    /// Whether the limit was met since the state was made.
    pub(crate) fn was_over(&self) -> bool {
        self.was_over.get()
    }

    /// One of our functions begins.
    #[inline]
    pub(crate) fn enter(&self) {
        self.depth.set(self.depth.get() + 1);
    }

    /// One of our functions ends.
    #[inline]
    pub(crate) fn leave(&self) {
        self.depth.set(self.depth.get() - 1);
    }

    /// Lua code begins; returns what [`Heap::end_lua`] is given when it has ended, by an error or not.
    #[inline]
    pub(crate) fn begin_lua(&self) -> u32 {
        self.depth.replace(0)
    }

    /// The Lua code has ended.
    #[inline]
    pub(crate) fn end_lua(&self, depth: u32) {
        self.depth.set(depth);
    }

    /// The allocator in the form Lua wants it: frees for a `new_size` of 0, otherwise allocates or resizes; null if it cannot.
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
        // SAFETY: sizes are not zero where a block is made or resized, they fit a layout as Lua has checked them against the
        // range of a pointer, and the old layout is the one that the block was made with (the caller's promise).
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
            // Our own functions cannot be left by an error of Lua, and the system has no memory for a string of ours either.
            std::alloc::handle_alloc_error(layout(new_size));
        }
        new.cast()
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and no size of Lua's is near `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

//! The allocator, and how much memory is in use.
//!
//! Blocks of 8 MB and more are mapped one by one ([`crate::huge`]), whatever the allocator. Every allocation is counted by its
//! size. Each thread counts for itself and passes its balance on when it has
//! grown by [`FLUSH_BYTES`], so the total is exact to that much per thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

pub mod huge;
#[cfg(debug_assertions)]
mod ledger;
#[cfg(feature = "mimalloc")]
mod mimalloc;

#[cfg(feature = "mimalloc")]
type Inner = mimalloc::MiMalloc;
#[cfg(feature = "mimalloc")]
const INNER: Inner = mimalloc::MiMalloc;
#[cfg(feature = "mimalloc")]
const NAME: &str = "mimalloc";

#[cfg(not(feature = "mimalloc"))]
type Inner = std::alloc::System;
#[cfg(not(feature = "mimalloc"))]
const INNER: Inner = std::alloc::System;
#[cfg(not(feature = "mimalloc"))]
const NAME: &str = "libc";

/// A thread passes its balance on when it is this many bytes.
const FLUSH_BYTES: i64 = 64 * 1024;

const _: () = assert!(huge::BYTES_MIN as i64 >= 2 * FLUSH_BYTES, "a huge block always passes the balance on");

/// The largest alignment of a huge block: the smallest page there is.
const HUGE_ALIGN_MAX: usize = 4096;

/// From this much memory in use on, in bytes, huge pages are worth having.
const HUGE_PAGES_BYTES_MIN: i64 = 16 * 1024 * 1024;

static HUGE_PAGES: AtomicBool = AtomicBool::new(false);

static ALLOCATED: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static BALANCE: Cell<i64> = const { Cell::new(0) };
}

/// The allocator with the counting around it.
pub struct Counting {
    inner: Inner,
}

impl Counting {
    /// The allocator, for `#[global_allocator]`.
    pub const NEW: Self = Self { inner: INNER };
}

#[cfg(test)]
#[global_allocator]
static GLOBAL: Counting = Counting::NEW;

/// Bytes allocated, exact to [`FLUSH_BYTES`] per thread. What a thread did before it allocated what is in the figure is seen
/// by who reads it.
pub fn allocated_bytes() -> u64 {
    ALLOCATED.load(Acquire).max(0) as u64
}

/// Passes on the calling thread's balance: [`allocated_bytes`] then is exact for what this thread has done.
pub fn settle() {
    // A thread that ends has no balance any more.
    let balance = BALANCE.try_with(|balance| balance.replace(0)).unwrap_or(0);
    if balance != 0 {
        ALLOCATED.fetch_add(balance, Release);
    }
}

/// The allocator's name, for INFO.
pub fn name() -> &'static str {
    NAME
}

/// How long freed memory stays with the allocator unless much was freed ([`watch_ebb`]). Given back at once it would be asked
/// for again while a database grows, and each piece of 64 KB that goes breaks up a huge page.
#[cfg(feature = "mimalloc")]
const KEPT_MS: std::ffi::c_long = 10_000;

/// To be called first in a process that serves.
pub fn set_up() {
    allow_huge_pages(false);
    #[cfg(feature = "mimalloc")]
    // SAFETY: sets a number that the allocator reads; what the environment says goes first.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT_MS);
    }
}

/// How long it stays while memory is short.
#[cfg(feature = "mimalloc")]
const KEPT_SHORT_MS: std::ffi::c_long = 5;

/// Whether memory is short.
static SHORT: AtomicBool = AtomicBool::new(false);

/// Whether memory is short, as [`give_back_soon`] was told.
pub fn is_short() -> bool {
    SHORT.load(Relaxed)
}

/// Whether freed memory goes back to the system soon, or stays with the allocator for a while as usual.
pub fn give_back_soon(soon: bool) {
    SHORT.store(soon, Relaxed);
    #[cfg(feature = "mimalloc")]
    // SAFETY: sets a number that the allocator reads.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, if soon { KEPT_SHORT_MS } else { KEPT_MS });
    }
    #[cfg(not(feature = "mimalloc"))]
    let _ = soon;
}

/// `mi_option_purge_delay`, which stands behind `mi_option_eager_commit_delay` in mimalloc's header.
#[cfg(feature = "mimalloc")]
const PURGE_DELAY: libmimalloc_sys::mi_option_t = libmimalloc_sys::mi_option_eager_commit_delay + 1;

/// Gives memory this thread has freed back to the system. O(pages of the thread's heap).
pub fn give_back() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: tidies the calling thread's heap, which is what the function is for; allocations stay where they are.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}

/// Takes back the blocks that other threads have freed of this thread's full pages, so that it need not do that with all of them
/// when it allocates; they stay with the allocator. O(blocks of those pages). `mi_collect` would look at all pages, also those that
/// nothing was freed of: with gigabytes in use that takes longer than all else.
pub fn take_back() {
    #[cfg(feature = "mimalloc")]
    {
        unsafe extern "C" {
            /// A function of the allocator for itself: with a version that has none, linking fails.
            fn _mi_heap_delayed_free_all(heap: *mut libmimalloc_sys::mi_heap_t);
        }
        // SAFETY: the function is for the thread that a heap belongs to, and the default heap is the calling thread's own. The
        // allocator calls it in the same way from `mi_collect`. Allocations stay where they are.
        unsafe { _mi_heap_delayed_free_all(libmimalloc_sys::mi_heap_get_default()) };
    }
}

/// What the calling thread's heap has of one size of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Blocks in use.
    pub used: usize,
    /// Bytes of the pages that hold blocks of this size, free blocks included.
    pub committed_bytes: usize,
}

/// The calling thread's heap by size of block, in ascending order; empty where the allocator does not tell.
/// O(pages of the heap).
pub fn size_classes() -> Vec<SizeClass> {
    #[cfg(feature = "mimalloc")]
    {
        mimalloc_size_classes()
    }
    #[cfg(not(feature = "mimalloc"))]
    Vec::new()
}

#[cfg(feature = "mimalloc")]
fn mimalloc_size_classes() -> Vec<SizeClass> {
    use libmimalloc_sys::{mi_heap_area_t, mi_heap_get_default, mi_heap_t, mi_heap_visit_blocks};

    /// More than there are; the visitor must not allocate.
    const CLASSES_MAX: usize = 256;

    unsafe extern "C" fn visit(
        _heap: *const mi_heap_t,
        area: *const mi_heap_area_t,
        _block: *mut std::ffi::c_void,
        _block_size: usize,
        classes: *mut std::ffi::c_void,
    ) -> bool {
        // SAFETY: the allocator passes an area that is whole, and the vector given to it below.
        let (area, classes) = unsafe { (&*area, &mut *classes.cast::<Vec<SizeClass>>()) };
        let at = classes.binary_search_by_key(&area.block_size, |class| class.block_bytes).unwrap_or_else(|at| {
            if classes.len() < classes.capacity() {
                classes.insert(at, SizeClass { block_bytes: area.block_size, used: 0, committed_bytes: 0 });
            }
            at
        });
        if let Some(class) = classes.get_mut(at) {
            class.used += area.used;
            class.committed_bytes += area.committed;
        }
        true
    }

    let mut classes: Vec<SizeClass> = Vec::with_capacity(CLASSES_MAX);
    // SAFETY: the heap is the calling thread's own, and the visitor neither allocates nor keeps what it is shown.
    unsafe { mi_heap_visit_blocks(mi_heap_get_default(), false, Some(visit), (&raw mut classes).cast()) };
    classes
}

/// Memory that may stay with the allocator after its use, in bytes, and the part of the most in use that may. Less of it may
/// while the server has little to do.
const EBB_BYTES_MIN: i64 = 16 * 1024 * 1024;
const EBB_RATIO: i64 = 8;
const CALM_EBB_BYTES_MIN: i64 = 1024 * 1024;
const CALM_EBB_RATIO: i64 = 64;

/// Most memory in use since the last ebb.
static HIGH: AtomicI64 = AtomicI64::new(0);

/// How often threads were asked to give memory back.
static EBBS: AtomicU32 = AtomicU32::new(0);

/// To be called regularly, by one thread: notes when much less memory is in use than before, so that every thread
/// should [`give_back`]. `calm`: the server has little to do, so that less is enough.
pub fn watch_ebb(calm: bool) {
    if RETURNING.load(Relaxed) > 0 && !is_short() {
        return;
    }
    let used = ALLOCATED.load(Relaxed);
    let high = HIGH.load(Relaxed).max(used);
    let (bytes_min, ratio) = if calm { (CALM_EBB_BYTES_MIN, CALM_EBB_RATIO) } else { (EBB_BYTES_MIN, EBB_RATIO) };
    if high - used >= bytes_min.max(high / ratio) {
        HIGH.store(used, Relaxed);
        ask_to_give_back();
    }
}

/// Threads that free much.
static RETURNING: AtomicU32 = AtomicU32::new(0);

/// While there is one, much is being freed, of which its owners [`take_back`] what there is again and again. Giving it back
/// meanwhile would cost time for each free block; in the end most pages are free as a whole.
#[derive(Debug)]
pub struct FreesMuch(());

impl Default for FreesMuch {
    fn default() -> Self {
        RETURNING.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for FreesMuch {
    fn drop(&mut self) {
        RETURNING.fetch_sub(1, Relaxed);
    }
}

/// Asks every worker to [`give_back`] soon.
pub fn ask_to_give_back() {
    EBBS.fetch_add(1, Relaxed);
}

/// How often threads were asked to [`give_back`] so far.
pub fn ebbs() -> u32 {
    EBBS.load(Relaxed)
}

/// The ebbs that one thread has dealt with.
#[derive(Debug)]
pub struct Ebbs {
    seen: AtomicU32,
}

impl Default for Ebbs {
    fn default() -> Self {
        Self { seen: AtomicU32::new(ebbs()) }
    }
}

impl Ebbs {
    /// To be called by that thread regularly: has it [`give_back`] if it was asked to since the last time.
    pub fn follow(&self) {
        let ebbs = ebbs();
        if self.seen.swap(ebbs, Relaxed) != ebbs {
            give_back();
        }
    }
}

/// Lets the system back what is allocated from now on with huge pages. Done by itself when much memory is in use; worth it
/// earlier for many small things that are read in no order.
pub fn use_huge_pages() {
    if !HUGE_PAGES.load(Relaxed) && !HUGE_PAGES.swap(true, Relaxed) {
        allow_huge_pages(true);
    }
}

/// Counts bytes that were allocated, or freed if negative. Says whether they may be those of a huge block: most are told
/// apart from those by the comparison that counting makes anyway.
#[inline]
fn count(bytes: i64) -> bool {
    // A thread that ends has no cell any more: then the total is counted directly.
    let counted = BALANCE.try_with(|balance| {
        let now = balance.get() + bytes;
        if now.abs() < FLUSH_BYTES {
            balance.set(now);
            return false;
        }
        balance.set(0);
        let total = ALLOCATED.fetch_add(now, Release) + now;
        if total > HIGH.load(Relaxed) {
            HIGH.store(total, Relaxed);
        }
        if total >= HUGE_PAGES_BYTES_MIN {
            use_huge_pages();
        }
        true
    });
    counted.unwrap_or_else(|_| {
        ALLOCATED.fetch_add(bytes, Release);
        true
    })
}

/// Whether a block is mapped by itself. Its layout alone says so, in every call about it.
#[inline]
fn is_huge(layout: Layout) -> bool {
    layout.size() >= huge::BYTES_MIN && layout.align() <= HUGE_ALIGN_MAX
}

// SAFETY: every call goes to the inner allocator as it came, but for huge blocks, which never meet it: the layout, which is the
// same from the call that makes a block to the one that frees it, tells them apart. Counting allocates nothing. No other
// function of this crate takes the address of a block, so none can ask the inner allocator about one that it does not know.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if count(layout.size() as i64) && is_huge(layout) {
            return alloc_huge(layout);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if count(layout.size() as i64) && is_huge(layout) {
            return alloc_huge(layout);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if count(-(layout.size() as i64)) && is_huge(layout) {
            #[cfg(debug_assertions)]
            ledger::remove(at, layout.size());
            // SAFETY: a huge block of this length, by its layout.
            return unsafe { huge::unmap(at, layout.size()) };
        }
        #[cfg(debug_assertions)]
        ledger::expect_none(at, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.size().max(new_size) >= huge::BYTES_MIN {
            // SAFETY: the caller's promise is passed on.
            return unsafe { self.realloc_huge(at, layout, new_size) };
        }
        count(new_size as i64 - layout.size() as i64);
        #[cfg(debug_assertions)]
        ledger::expect_none(at, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.realloc(at, layout, new_size) }
    }
}

/// A huge block, whose bytes are counted already; null if the system has none to give. A caller that can go on without the
/// block (`Vec::try_reserve`) gets it counted back.
#[cold]
fn alloc_huge(layout: Layout) -> *mut u8 {
    let at = huge::map(layout.size());
    if at.is_null() {
        count(-(layout.size() as i64));
        return at;
    }
    #[cfg(debug_assertions)]
    ledger::add(at, layout.size());
    at
}

impl Counting {
    /// As `realloc`, when the block is huge before or after it.
    ///
    /// # Safety
    /// As for `realloc`.
    #[cold]
    unsafe fn realloc_huge(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller has seen to it that the new size, rounded up to the alignment, is within bounds.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the block is as its layout says; where it changes sides, it is copied and the old one freed.
        unsafe {
            if is_huge(layout) && is_huge(new_layout) {
                // Once the block has moved, its old place may belong to another one.
                #[cfg(debug_assertions)]
                ledger::remove(at, layout.size());
                let moved = huge::remap(at, layout.size(), new_size);
                #[cfg(debug_assertions)]
                match moved.is_null() {
                    true => ledger::add(at, layout.size()),
                    false => ledger::add(moved, new_size),
                }
                if !moved.is_null() {
                    count(new_size as i64 - layout.size() as i64);
                }
                return moved;
            }
            let new = self.alloc(new_layout);
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(at, new, layout.size().min(new_size));
                self.dealloc(at, layout);
            }
            new
        }
    }
}

/// Says whether the system may back this process's memory with huge pages from now on, where it does so at all.
///
/// With little data they would only round memory up; with much they save misses of the address cache.
fn allow_huge_pages(allow: bool) {
    // The system reads each of them as a long, and refuses the call unless the last three are zero.
    const NONE: libc::c_ulong = 0;
    // SAFETY: sets a flag of the process. Where the system does not know it, nothing changes.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!allow), NONE, NONE, NONE) };
}

/// Resident memory of this process in bytes, 0 if the system does not tell.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * page_bytes()
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "mimalloc")]
    fn the_delay_of_purging_is_the_option_it_should_be() {
        // SAFETY: reads and sets a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 10, "mimalloc's own");
        set_up();
        assert_eq!(delay(), KEPT_MS);
    }

    /// Held by tests that allocate much or count what is allocated: the count is the process's.
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    #[test]
    fn blocks_become_huge_and_small_again_with_their_bytes() {
        let _alone = ALONE.lock();
        let lens = [100, 1 << 20, huge::BYTES_MIN - 1, huge::BYTES_MIN, 3 * huge::BYTES_MIN, huge::BYTES_MIN + 1, 1000];
        let mut bytes: Vec<u8> = (0..100).collect();
        for len in lens {
            bytes.resize(len.max(100), 7);
            bytes.shrink_to_fit();
            assert_eq!(bytes.capacity(), len.max(100));
            assert!(bytes[..100].iter().copied().eq(0..100) && bytes[100..].iter().all(|byte| *byte == 7), "{len}");
        }
        assert!(vec![0_u8; 2 * huge::BYTES_MIN].iter().all(|byte| *byte == 0));
    }

    /// A block that knows what it holds: it goes to other threads, and over the border of huge blocks in both directions.
    struct Block {
        at: *mut u8,
        layout: Layout,
        byte: u8,
    }

    // SAFETY: it owns its memory.
    unsafe impl Send for Block {}

    impl Block {
        fn new(layout: Layout, byte: u8, is_zeroed: bool) -> Self {
            // SAFETY: the length is not zero, and the block is written as far as it goes.
            unsafe {
                let at = if is_zeroed { GLOBAL.alloc_zeroed(layout) } else { GLOBAL.alloc(layout) };
                assert!(!at.is_null() && at.addr().is_multiple_of(layout.align()), "{layout:?}");
                let mut block = Self { at, layout, byte: 0 };
                if is_zeroed {
                    block.check();
                }
                block.byte = byte;
                block.fill();
                block
            }
        }

        /// Bytes at both ends and near the borders between pages tell whether all of it came along; the rest may be as it is.
        fn marked(&self) -> impl Iterator<Item = usize> + use<> {
            let len = self.layout.size();
            (0..len).step_by(500_009).chain([len - 1])
        }

        fn fill(&mut self) {
            // SAFETY: within the block.
            self.marked().for_each(|index| unsafe { self.at.add(index).write(self.byte) });
        }

        fn check(&self) {
            // SAFETY: within the block, and written.
            self.marked().for_each(|index| unsafe { assert_eq!(self.at.add(index).read(), self.byte) });
        }

        fn resize(&mut self, size: usize) {
            self.check();
            let kept = self.layout.size().min(size);
            let marked: Vec<usize> = self.marked().filter(|index| *index < kept).collect();
            // SAFETY: the block is as its layout says, and the new size is not zero.
            self.at = unsafe { GLOBAL.realloc(self.at, self.layout, size) };
            assert!(!self.at.is_null());
            // SAFETY: within what was kept.
            marked.into_iter().for_each(|index| unsafe { assert_eq!(self.at.add(index).read(), self.byte) });
            self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
            assert!(self.at.addr().is_multiple_of(self.layout.align()), "{:?}", self.layout);
            self.fill();
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            self.check();
            // SAFETY: the block is as its layout says.
            unsafe { GLOBAL.dealloc(self.at, self.layout) };
        }
    }

    /// Numbers that look like chance.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }

        /// Mostly near the border.
        fn size(&mut self) -> usize {
            match self.below(4) {
                0 => 1 + self.below(100_000),
                1 => huge::BYTES_MIN - 1 - self.below(3),
                2 => huge::BYTES_MIN + self.below(3),
                _ => huge::BYTES_MIN + self.below(2 * huge::BYTES_MIN),
            }
        }

        fn layout(&mut self) -> Layout {
            let align = [1, 8, HUGE_ALIGN_MAX, 2 * HUGE_ALIGN_MAX][self.below(4)];
            Layout::from_size_align(self.size(), align).unwrap()
        }
    }

    #[test]
    fn blocks_cross_the_border_on_any_thread_and_nothing_stays_counted() {
        const THREADS: usize = 3;
        const STEPS: usize = if cfg!(miri) { 20 } else { 400 };
        let _alone = ALONE.lock();
        settle();
        let before = allocated_bytes();
        let pool = parking_lot::Mutex::new(Vec::<Block>::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let pool = &pool;
                scope.spawn(move || {
                    let mut draw = Draw(thread as u64 + 1);
                    for step in 0..STEPS {
                        // Most blocks were made, and may be freed, by another thread.
                        let taken = {
                            let mut pool = pool.lock();
                            let len = pool.len();
                            (len > 6 || len > 0 && draw.below(2) == 0).then(|| pool.swap_remove(draw.below(len)))
                        };
                        let block = match taken {
                            Some(mut block) => {
                                if draw.below(4) == 0 {
                                    continue;
                                }
                                block.resize(draw.size());
                                block
                            }
                            None => Block::new(draw.layout(), step as u8, draw.below(2) == 0),
                        };
                        pool.lock().push(block);
                    }
                    settle();
                });
            }
        });
        drop(pool);
        settle();
        let after = allocated_bytes();
        assert!(after.abs_diff(before) < 1 << 20, "{before} bytes in use before, {after} after");
    }

    #[test]
    fn what_the_system_refuses_is_not_counted() {
        let _alone = ALONE.lock();
        settle();
        let before = allocated_bytes();
        let mut bytes: Vec<u8> = Vec::new();
        assert!(bytes.try_reserve_exact(isize::MAX as usize - 4 * HUGE_ALIGN_MAX).is_err());
        bytes.resize(2 * huge::BYTES_MIN, 1);
        assert!(bytes.try_reserve_exact(1 << 60).is_err());
        assert!(bytes.iter().all(|byte| *byte == 1));
        drop(bytes);
        settle();
        let after = allocated_bytes();
        assert!(after.abs_diff(before) < 1 << 20, "{before} bytes in use before, {after} after");
    }

    #[test]
    fn large_allocations_show_in_the_total() {
        let _alone = ALONE.lock();
        let before = allocated_bytes();
        let block = vec![1u8; 64 << 20];
        assert!(allocated_bytes() >= before + (60 << 20));
        watch_ebb(false);
        drop(block);
        assert!(allocated_bytes() < before + (60 << 20));
        let ebbs_before = ebbs();
        watch_ebb(false);
        assert!(ebbs() > ebbs_before);
    }

    #[test]
    fn huge_pages_are_allowed_and_forbidden() {
        const NONE: libc::c_ulong = 0;
        for allow in [false, true] {
            allow_huge_pages(allow);
            // SAFETY: reads a flag of the process.
            let disabled = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, NONE, NONE, NONE, NONE) };
            assert_eq!(disabled, i32::from(!allow));
        }
    }
}

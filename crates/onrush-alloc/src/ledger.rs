//! The huge blocks in use, in debug builds: a block that is freed with another length than it was made with would take
//! foreign memory along, or leave some. The process ends at such a call instead of later and elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks noted at most; what comes beyond is not checked.
const BLOCKS_MAX: usize = 4096;

/// All pages are at least as large.
const PAGE: usize = 4096;

struct Block {
    /// Its address; 0 where there is none.
    at: AtomicUsize,
    len: AtomicUsize,
}

static BLOCKS: [Block; BLOCKS_MAX] =
    [const { Block { at: AtomicUsize::new(0), len: AtomicUsize::new(0) } }; BLOCKS_MAX];

/// Blocks that found no place.
static UNKNOWN: AtomicUsize = AtomicUsize::new(0);

/// Notes a new huge block. O(blocks).
pub fn add(at: *mut u8, len: usize) {
    for block in &BLOCKS {
        if block.at.compare_exchange(0, at.addr(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return block.len.store(len, Ordering::Release);
        }
    }
    UNKNOWN.fetch_add(1, Ordering::Relaxed);
}

/// Forgets a huge block, which must have this length. O(blocks).
pub fn remove(at: *mut u8, len: usize) {
    match find(at) {
        Some(block) if block.len.load(Ordering::Acquire) == len => block.at.store(0, Ordering::Release),
        None if UNKNOWN.load(Ordering::Relaxed) > 0 => {}
        _ => end("a huge block is freed or resized that was not made so\n"),
    }
}

/// Checks that a block which is not huge by its length was not made as one. O(blocks) for an address at the beginning of a
/// page, else O(1).
pub fn expect_none(at: *mut u8, len: usize) {
    if at.addr().is_multiple_of(PAGE) && len < super::huge::BYTES_MIN && find(at).is_some() {
        end("a huge block is freed or resized as a small one\n");
    }
}

fn find(at: *mut u8) -> Option<&'static Block> {
    BLOCKS.iter().find(|block| block.at.load(Ordering::Acquire) == at.addr())
}

/// Ends the process without allocating.
fn end(why: &str) -> ! {
    // SAFETY: writes a text that is in place for the whole run.
    unsafe { libc::write(libc::STDERR_FILENO, why.as_ptr().cast(), why.len()) };
    std::process::abort()
}

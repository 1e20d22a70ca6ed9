//! `math.random`: the generator of POSIX's `lrand48`, which Redis uses so that the numbers are the same on every machine.

use std::cell::Cell;

/// The constants of POSIX's `drand48` family, and the state that it begins with.
const MULTIPLIER: u64 = 0x5_deec_e66d;
const INCREMENT: u64 = 0xb;
const STATE_BITS: u32 = 48;
const FIRST_STATE: u64 = 0x1234_abcd_330e;

/// The bits below the seed in the state.
const SEEDED_LOW: u64 = 0x330e;

/// One past the largest random number, less one: the largest `i32`, as in Redis.
const MAX: u64 = i32::MAX as u64;

/// The sequence continues from script to script. A script that sets a seed has a sequence of its own until it ends.
pub(crate) struct Random {
    state: Cell<u64>,
    /// The state to go on with after the script.
    kept: Cell<Option<u64>>,
}

impl Default for Random {
    fn default() -> Self {
        Self { state: Cell::new(FIRST_STATE), kept: Cell::new(None) }
    }
}

impl Random {
    /// A number from 0 up to but not including 1.
    pub(crate) fn next(&self) -> f64 {
        let state = self.state.get().wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & ((1 << STATE_BITS) - 1);
        self.state.set(state);
        ((state >> 17) % MAX) as f64 / MAX as f64
    }

    pub(crate) fn seed(&self, seed: u32) {
        if self.kept.get().is_none() {
            self.kept.set(Some(self.state.get()));
        }
        self.state.set(u64::from(seed) << 16 | SEEDED_LOW);
    }

    #[inline]
    pub(crate) fn end_script(&self) {
        if let Some(kept) = self.kept.take() {
            self.state.set(kept);
        }
    }
}

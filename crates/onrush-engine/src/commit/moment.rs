//! The moment of a commit: its present time, and how it notes accesses.

use std::sync::atomic::Ordering::Relaxed;

use onrush_store::{Random, Slot, clock};

use crate::settings::Settings;

/// See the module's text.
pub(crate) struct Moment {
    /// Unix time in milliseconds.
    pub(crate) now_ms: i64,
    /// Keys due at this time have expired: the present time, or the beginning of time while a log is replayed.
    pub(crate) due_ms: i64,
    is_replay: bool,
    /// The access clock for entries touched now.
    pub(crate) clock: AccessClock,
    /// One stream of random numbers for the life of the thread.
    pub(crate) random: Random,
}

/// How an access is noted in an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessClock {
    /// The LRU clock ([`clock::lru`], [`clock::lru_fine`]).
    Lru(u32),
    /// The same, but only changes leave a trace.
    Lrm(u32),
    /// A logarithmic counter of accesses that decays, and its settings.
    Lfu {
        /// The time in Unix milliseconds.
        now_ms: i64,
        /// `lfu-log-factor`.
        log_factor: u32,
        /// `lfu-decay-time` in minutes.
        decay_minutes: u32,
    },
    /// CLIENT NO-TOUCH: reads leave no trace.
    Untouched(u32),
}

impl AccessClock {
    /// The access clock at a time.
    pub(crate) fn at(settings: &Settings, now_ms: i64, no_touch: bool) -> Self {
        if !settings.lfu.load(Relaxed) {
            let is_fine = settings.fine_clock.load(Relaxed);
            let time = if is_fine { clock::lru_fine(now_ms) } else { clock::lru(now_ms) };
            return match (settings.lrm.load(Relaxed), no_touch) {
                (true, _) => Self::Lrm(time),
                (false, true) => Self::Untouched(time),
                (false, false) => Self::Lru(time),
            };
        }
        if no_touch {
            return Self::Untouched(clock::lfu(clock::LFU_INIT, now_ms));
        }
        Self::Lfu {
            now_ms,
            log_factor: settings.lfu_log_factor.load(Relaxed),
            decay_minutes: settings.lfu_decay_minutes.load(Relaxed),
        }
    }

    /// The clock of a new entry.
    #[inline]
    pub(crate) fn fresh(&self) -> u32 {
        match *self {
            Self::Lru(time) | Self::Lrm(time) | Self::Untouched(time) => time,
            Self::Lfu { now_ms, .. } => clock::lfu(clock::LFU_INIT, now_ms),
        }
    }

    #[inline(always)]
    pub(super) fn touch<const CHANGES: bool>(&self, slot: &mut Slot<'_>, random: &mut Random) {
        match self {
            Self::Lru(time) => {
                if slot.clock() != *time {
                    slot.set_clock(*time);
                }
            }
            _ => self.count_touch(slot, random, CHANGES),
        }
    }

    #[cold]
    fn count_touch(&self, slot: &mut Slot<'_>, random: &mut Random, is_change: bool) {
        match *self {
            Self::Lrm(time) if is_change => slot.set_clock(time),
            Self::Lru(_) | Self::Lrm(_) | Self::Untouched(_) => {}
            Self::Lfu { now_ms, log_factor, decay_minutes } => {
                slot.set_clock(clock::lfu_touch(slot.clock(), now_ms, decay_minutes, log_factor, random.next()));
            }
        }
    }
}

impl Moment {
    pub(super) fn new(seed: u64) -> Self {
        Self { now_ms: 0, due_ms: 0, is_replay: false, clock: AccessClock::Lru(0), random: Random::new(seed) }
    }

    /// Begins a chunk; `now_ms` is its present time.
    #[inline]
    pub(super) fn begin(&mut self, settings: &Settings, now_ms: i64) {
        (self.now_ms, self.due_ms, self.is_replay) = (now_ms, now_ms, false);
        self.clock = AccessClock::at(settings, now_ms, false);
    }

    /// Changes the present time.
    pub(super) fn set_time(&mut self, settings: &Settings, now_ms: i64) {
        if now_ms != self.now_ms {
            self.now_ms = now_ms;
            self.set_replay(self.is_replay);
            self.clock = AccessClock::at(settings, now_ms, matches!(self.clock, AccessClock::Untouched(_)));
        }
    }

    /// Begins or ends replaying a log: when its commands were first executed, nothing that they found had expired.
    #[inline]
    pub(super) fn set_replay(&mut self, is_replay: bool) {
        self.is_replay = is_replay;
        self.due_ms = if is_replay { i64::MIN } else { self.now_ms };
    }

    /// CLIENT NO-TOUCH is on, or off.
    #[inline]
    pub(super) fn set_no_touch(&mut self, settings: &Settings, no_touch: bool) {
        if no_touch || matches!(self.clock, AccessClock::Untouched(_)) {
            std::hint::cold_path();
            self.clock = AccessClock::at(settings, self.now_ms, no_touch);
        }
    }
}

//! Access clocks: the 24 bits that every entry carries for eviction and for OBJECT IDLETIME and FREQ.
//!
//! Under an LFU policy they are the minute of the last decay (16 bits) over a logarithmic access counter (8 bits).
//! Otherwise they are a time, in one of two units that the upper bit tells apart: *coarse* clocks count seconds and
//! wrap around after 97 days; *fine* ones count milliseconds and wrap around after 140 minutes. While eviction goes by
//! these clocks, every access sets a fine clock, so that the order of use is known even in a cache that turns over
//! within a second. [`coarsened`] turns fine clocks into coarse ones in time. All functions are pure: time and
//! randomness are arguments.

/// Set in a clock that counts milliseconds.
const FINE: u32 = 1 << 23;

/// Bits of a clock that count.
const TIME_MASK: u32 = FINE - 1;

/// Older fine clocks become coarse ones. The caller of [`coarsened`] must look at every entry again before its fine
/// clock wraps around: within [`COARSEN_PERIOD_MS`].
const FINE_AGE_MAX_MS: u32 = 30 * 60 * 1000;

/// Every entry with a fine clock must pass [`coarsened`] within this many milliseconds.
pub const COARSEN_PERIOD_MS: i64 = 60 * 60 * 1000;

const _: () = assert!(FINE_AGE_MAX_MS as i64 + COARSEN_PERIOD_MS < TIME_MASK as i64 * 3 / 4);

/// The LFU counter of a new entry: above 0, so that the entry is not evicted before it can be used.
pub const LFU_INIT: u8 = 5;

/// The coarse LRU clock at `now_ms`.
#[inline]
pub fn lru(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & TIME_MASK
}

/// The fine LRU clock at `now_ms`.
#[inline]
pub fn lru_fine(now_ms: i64) -> u32 {
    FINE | now_ms as u32 & TIME_MASK
}

/// Milliseconds since an entry with LRU clock `clock` was used: exact up to 140 minutes for a fine clock, to a second and
/// up to 97 days for a coarse one.
#[inline]
pub fn lru_idle_ms(clock: u32, now_ms: i64) -> u64 {
    if clock & FINE != 0 {
        return u64::from((now_ms as u32).wrapping_sub(clock) & TIME_MASK);
    }
    let seconds = lru(now_ms).wrapping_sub(clock) & TIME_MASK;
    u64::from(seconds) * 1000 + (now_ms % 1000) as u64
}

/// Seconds since an entry with LRU clock `clock` was used, up to 97 days.
#[inline]
pub fn lru_idle_seconds(clock: u32, now_ms: i64) -> u32 {
    (lru_idle_ms(clock, now_ms) / 1000) as u32
}

/// The LRU clock of an entry that was last used `idle_seconds` ago, as RESTORE's IDLETIME sets it.
pub fn lru_from_idle(idle_seconds: u32, now_ms: i64) -> u32 {
    lru(now_ms).wrapping_sub(idle_seconds.min(TIME_MASK)) & TIME_MASK
}

/// The coarse clock that takes the place of an old fine one; `None` for a clock that stays. LRU clocks only.
#[inline]
pub fn coarsened(clock: u32, now_ms: i64) -> Option<u32> {
    if clock & FINE == 0 {
        return None;
    }
    let idle_ms = (now_ms as u32).wrapping_sub(clock) & TIME_MASK;
    (idle_ms > FINE_AGE_MAX_MS).then(|| lru(now_ms - i64::from(idle_ms)))
}

/// The LFU clock with the given counter, last decayed now.
#[inline]
pub fn lfu(counter: u8, now_ms: i64) -> u32 {
    lfu_minutes(now_ms) << 8 | u32::from(counter)
}

fn lfu_minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xffff
}

/// The counter of an entry with LFU clock `clock`, less one for every `decay_minutes` (`lfu-decay-time`) since its
/// last decay; 0 never decays.
#[inline]
pub fn lfu_counter(clock: u32, now_ms: i64, decay_minutes: u32) -> u8 {
    let elapsed = lfu_minutes(now_ms).wrapping_sub(clock >> 8) & 0xffff;
    let decay = elapsed.checked_div(decay_minutes).unwrap_or(0);
    (clock & 0xff).saturating_sub(decay) as u8
}

/// How little an entry with LFU clock `clock` was used: greater for a lower counter, and with equal counters for each
/// minute since the last access.
#[inline]
pub fn lfu_disuse(clock: u32, now_ms: i64, decay_minutes: u32) -> u64 {
    let idle_minutes = lfu_minutes(now_ms).wrapping_sub(clock >> 8) & 0xffff;
    u64::from(u8::MAX - lfu_counter(clock, now_ms, decay_minutes)) << 16 | u64::from(idle_minutes)
}

/// The LFU clock of an entry after an access: decayed, then counted up with a probability that falls with the
/// counter and with `log_factor` (`lfu-log-factor`). `random` is any number, drawn for this access.
#[inline]
pub fn lfu_touch(clock: u32, now_ms: i64, decay_minutes: u32, log_factor: u32, random: u64) -> u32 {
    let counter = lfu_counter(clock, now_ms, decay_minutes);
    let base = u64::from(counter.saturating_sub(LFU_INIT));
    // Counts up once in `base * log_factor + 1` accesses.
    let odds = base * u64::from(log_factor) + 1;
    let hit = (u128::from(random) * u128::from(odds)) >> 64 == 0;
    lfu(counter.saturating_add(u8::from(hit)), now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    #[test]
    fn idle_time_survives_the_wrap_of_the_lru_clock() {
        let wrap_ms = (i64::from(TIME_MASK) + 1) * 1000;
        let clock = lru(wrap_ms - 3000);
        assert_eq!(lru_idle_seconds(clock, wrap_ms + 2000), 5);
        assert_eq!(lru_from_idle(5, wrap_ms + 2000), clock);
    }

    #[test]
    fn a_fine_clock_tells_milliseconds_across_its_wrap() {
        let wrap_ms = i64::from(TIME_MASK) + 1;
        for now_ms in [wrap_ms - 2, wrap_ms, 200 * wrap_ms + 17, 1_763_780_000_123] {
            let clock = lru_fine(now_ms - 7);
            assert_eq!(lru_idle_ms(clock, now_ms), 7);
            assert_eq!(lru_idle_seconds(clock, now_ms + 5000), 5);
        }
    }

    #[test]
    fn fine_clocks_become_coarse_with_age_and_stay_in_order() {
        let used_ms = 1_763_780_000_999;
        let clock = lru_fine(used_ms);
        assert_eq!(coarsened(clock, used_ms + i64::from(FINE_AGE_MAX_MS)), None);
        let later_ms = used_ms + i64::from(FINE_AGE_MAX_MS) + COARSEN_PERIOD_MS;
        let coarse = coarsened(clock, later_ms).expect("an old one");
        assert_eq!(coarsened(coarse, later_ms), None);
        // Up to a second too old, and valid for months.
        for now_ms in [later_ms, later_ms + 90 * 24 * 60 * MINUTE_MS] {
            let idle_ms = lru_idle_ms(coarse, now_ms) as i64;
            assert!((0..1000).contains(&(idle_ms - (now_ms - used_ms))), "{idle_ms}");
        }
    }

    #[test]
    fn the_lfu_counter_decays_by_one_per_period() {
        let clock = lfu(10, 0);
        assert_eq!(lfu_counter(clock, 3 * MINUTE_MS, 1), 7);
        assert_eq!(lfu_counter(clock, 3 * MINUTE_MS, 2), 9);
        assert_eq!(lfu_counter(clock, 3 * MINUTE_MS, 0), 10);
        assert_eq!(lfu_counter(clock, 300 * MINUTE_MS, 1), 0);
    }

    #[test]
    fn disuse_goes_by_the_counter_first_and_then_by_the_time() {
        let now_ms = 100 * MINUTE_MS;
        let of = |counter, minute| lfu_disuse(lfu(counter, minute * MINUTE_MS), now_ms, 0);
        let ascending = [of(255, 0), of(9, 100), of(9, 99), of(9, 0), of(8, 100), of(0, 100), of(0, 0)];
        assert!(ascending.is_sorted_by(|a, b| a < b), "{ascending:?}");
        assert!(lfu_disuse(lfu(9, 0), now_ms, 1) > of(1, 0));
    }

    #[test]
    fn the_lfu_counter_counts_ever_more_rarely() {
        assert_eq!(lfu_touch(lfu(LFU_INIT, 0), 0, 1, 10, u64::MAX) & 0xff, 6);
        let rare = lfu(LFU_INIT + 10, 0);
        assert_eq!(lfu_touch(rare, 0, 1, 10, u64::MAX), rare);
        assert_eq!(lfu_touch(rare, 0, 1, 10, u64::MAX / 102) & 0xff, 16);
        assert_eq!(lfu_touch(lfu(255, 0), 0, 1, 0, 0) & 0xff, 255);
    }
}

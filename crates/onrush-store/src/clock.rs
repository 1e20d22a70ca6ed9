//! Access clocks: the 24 bits that every entry carries for eviction and for OBJECT IDLETIME and FREQ.
//!
//! Under an LRU policy they are a time in seconds; under an LFU policy, the minute of the last decay (16 bits) over
//! a logarithmic access counter (8 bits). All functions are pure: time and randomness are arguments.

/// Bits of an access clock.
const CLOCK_MASK: u32 = 0x00ff_ffff;

/// The LFU counter of a new entry, so that it is not evicted before it had a chance.
pub const LFU_INIT: u8 = 5;

/// The LRU clock at `now_ms`: seconds, which wrap around after 194 days.
#[inline]
pub fn lru(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & CLOCK_MASK
}

/// Seconds since an entry with LRU clock `clock` was used, up to 194 days.
#[inline]
pub fn lru_idle_seconds(clock: u32, now_ms: i64) -> u32 {
    lru(now_ms).wrapping_sub(clock) & CLOCK_MASK
}

/// The LRU clock of an entry that was last used `idle_seconds` ago, as RESTORE's IDLETIME sets it.
pub fn lru_from_idle(idle_seconds: u32, now_ms: i64) -> u32 {
    lru(now_ms).wrapping_sub(idle_seconds.min(CLOCK_MASK)) & CLOCK_MASK
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
        let wrap_ms = (i64::from(CLOCK_MASK) + 1) * 1000;
        let clock = lru(wrap_ms - 3000);
        assert_eq!(lru_idle_seconds(clock, wrap_ms + 2000), 5);
        assert_eq!(lru_from_idle(5, wrap_ms + 2000), clock);
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
    fn the_lfu_counter_counts_ever_more_rarely() {
        assert_eq!(lfu_touch(lfu(LFU_INIT, 0), 0, 1, 10, u64::MAX) & 0xff, 6);
        let rare = lfu(LFU_INIT + 10, 0);
        assert_eq!(lfu_touch(rare, 0, 1, 10, u64::MAX), rare);
        assert_eq!(lfu_touch(rare, 0, 1, 10, u64::MAX / 102) & 0xff, 16);
        assert_eq!(lfu_touch(lfu(255, 0), 0, 1, 0, 0) & 0xff, 255);
    }
}

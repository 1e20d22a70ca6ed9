//! How much the random tests try: with `ONRUSH_TEST_NIGHTLY`, as in `make nightly`, all; otherwise as much as fits into
//! fifteen minutes for all tests together.

use std::time::UNIX_EPOCH;

/// Whether this is the nightly run.
pub fn is_nightly() -> bool {
    std::env::var_os("ONRUSH_TEST_NIGHTLY").is_some()
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The first seed: what `ONRUSH_TEST_SEED` says, or 1.
pub fn first_seed() -> u64 {
    from_env("ONRUSH_TEST_SEED").unwrap_or(1)
}

/// The seeds to try. At night the first `count` and as many fresh ones; otherwise a quarter of `count`: three of four are of
/// the first ones, and one is fresh. With `ONRUSH_TEST_SEED` those from there on and no fresh ones, `ONRUSH_TEST_SEQUENCES`
/// of them.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    some_seeds(count, count / 16)
}

/// As [`seeds`], with fresh ones at night only: for tests whose fresh ones still show what is not mended.
pub fn seeds_fresh_at_night(count: u64) -> impl Iterator<Item = u64> {
    some_seeds(count, 0)
}

fn some_seeds(count: u64, fresh_by_day: u64) -> impl Iterator<Item = u64> {
    let (usual, fresh) = if is_nightly() { (count, count) } else { (count.div_ceil(4) - fresh_by_day, fresh_by_day) };
    let count = from_env("ONRUSH_TEST_SEQUENCES").unwrap_or(usual);
    let first = from_env("ONRUSH_TEST_SEED");
    let fresh_count = if first.is_none() { fresh } else { 0 };
    let (fixed, fresh) = (first.unwrap_or(1), fresh_seed());
    (fixed..fixed + count).chain(fresh..fresh + fresh_count)
}

/// Another one each millisecond; a multiple of 8, as seeds also choose oracle and mode.
fn fresh_seed() -> u64 {
    UNIX_EPOCH.elapsed().map_or(8, |time| time.as_millis() as u64 & !7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_by_day_and_half_at_night_are_fresh() {
        let seeds: Vec<u64> = seeds(64).collect();
        let (fixed, fresh) = if is_nightly() { (64, 64) } else { (12, 4) };
        assert_eq!(seeds[..fixed], (1..=fixed as u64).collect::<Vec<_>>());
        let (first, last) = (seeds[fixed], seeds[seeds.len() - 1]);
        assert!(first > 1_000_000_000_000 && last == first + fresh - 1, "{seeds:?}");
    }
}

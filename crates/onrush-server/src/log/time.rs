//! Times in the log, in UTC.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time since the Unix epoch, as `20 Nov 2026 22:48:02.123`.
pub struct Timestamp(Duration);

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Timestamp {
    /// The present time.
    pub fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (year, month, day) = civil_date(seconds / 86_400);
        write!(
            f,
            "{day:02} {} {year} {:02}:{:02}:{:02}.{:03}",
            MONTHS[month],
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60,
            self.0.subsec_millis()
        )
    }
}

/// The date of a day counted from 1970-01-01 in the Gregorian calendar: the year, the month from 0, and the day from 1.
fn civil_date(days: u64) -> (u64, usize, u64) {
    const ERA: u64 = 146_097;
    const CENTURY: u64 = 36_524;
    const QUAD: u64 = 1_461;
    const YEAR: u64 = 365;
    // Counted from 1 March of the year 0, so that leap days come last in every cycle.
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let century = (day / CENTURY).min(3);
    let day = day - century * CENTURY;
    let (quad, day) = (day / QUAD, day % QUAD);
    let year_of_quad = (day / YEAR).min(3);
    let mut day = day - year_of_quad * YEAR;
    let mut month = 2;
    for len in [31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31] {
        if day < len {
            break;
        }
        day -= len;
        month += 1;
    }
    let year = era * 400 + century * 100 + quad * 4 + year_of_quad;
    (year + month / 12, (month % 12) as usize, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_redis_writes_them() {
        for (ms, text) in [
            (0, "01 Jan 1970 00:00:00.000"),
            (951_782_400_000, "29 Feb 2000 00:00:00.000"),
            (951_868_799_999, "29 Feb 2000 23:59:59.999"),
            (951_868_800_000, "01 Mar 2000 00:00:00.000"),
            (1_735_689_599_001, "31 Dec 2024 23:59:59.001"),
            (1_735_689_600_000, "01 Jan 2025 00:00:00.000"),
            (1_709_164_800_000, "29 Feb 2024 00:00:00.000"),
            (4_107_542_400_000, "01 Mar 2100 00:00:00.000"),
        ] {
            assert_eq!(Timestamp(Duration::from_millis(ms)).to_string(), text);
        }
    }
}

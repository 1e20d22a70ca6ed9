//! Lines that clients can cause again and again, at a bounded rate.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// At most so many lines of a kind in this time.
const LINES_MAX: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the log readable while clients fail again and again.
#[derive(Default)]
pub struct Complaints(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// When the first of the present lines was written.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Complaints {
    /// Nothing was told yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Told { since: None, lines: 0, left_out: 0 }))
    }

    /// Writes a line, unless there were too many a moment ago; the next one then says how many are left out.
    #[cold]
    pub fn tell(&self, text: fmt::Arguments<'_>) {
        let told = &mut *self.0.lock();
        if told.since.is_none_or(|since| since.elapsed() >= INTERVAL) {
            (told.since, told.lines) = (Some(Instant::now()), 0);
        }
        if told.lines == LINES_MAX {
            told.left_out += 1;
            return;
        }
        told.lines += 1;
        match std::mem::take(&mut told.left_out) {
            0 => tracing::warn!("{text}"),
            more => tracing::warn!("{text} ({more} more like this were left out)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let complaints = Complaints::new();
        (0..LINES_MAX + 4).for_each(|number| complaints.tell(format_args!("fault {number}")));
        assert_eq!(complaints.0.lock().left_out, 4);
        complaints.0.lock().since = Instant::now().checked_sub(INTERVAL);
        complaints.tell(format_args!("the next fault"));
        assert_eq!(complaints.0.lock().left_out, 0);
    }
}

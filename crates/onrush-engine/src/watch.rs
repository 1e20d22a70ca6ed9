//! What took long: it goes into the slow log and to the latency monitor.
//!
//! Commands that are not short are timed one by one. Short ones are timed as a chunk, which takes far less than a millisecond. So
//! with a threshold of a millisecond or more a chunk that took longer holds a slow command, and its entry names all suspects; with
//! a lower threshold short commands are executed and timed one by one as well ([`Watch::times_each`]).

use std::hint::cold_path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::argv::Argv;
use crate::client::ClientHandle;
use crate::command::{Command, Flags};
use crate::ctx::Ctx;
use crate::latency::Event;
use crate::shared::Shared;
use crate::slowlog::cut;

/// Chunks of short commands never take so long unless something is wrong.
const CHUNK_NANOS_MAX: u64 = 1_000_000;

/// Text in place of a password.
const SECRET: &[u8] = b"(redacted)";

/// What is watched. The defaults are Redis's.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Microseconds from which a command counts as slow; negative is never (`slowlog-log-slower-than`).
    pub slow_us: i64,
    /// Entries that the slow log keeps (`slowlog-max-len`).
    pub slowlog_len_max: usize,
    /// Milliseconds from which the latency monitor takes note of an event; 0 is never (`latency-monitor-threshold`).
    pub latency_ms: u64,
    /// Whether each command has a histogram of its times (`latency-tracking`).
    pub tracks: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { slow_us: 10_000, slowlog_len_max: 128, latency_ms: 0, tracks: true }
    }
}

/// [`WatchOptions`] as atomics.
#[derive(Default)]
pub struct Watch {
    /// Nanoseconds from which anything has to be noted at all.
    least_nanos: AtomicU64,
    times_each: AtomicBool,
    /// One of so many chunks is looked at for hot keys; 0 is none.
    hot_keys_sample: AtomicU32,
    tracks: AtomicBool,
    slow_us: AtomicI64,
    slowlog_len_max: AtomicUsize,
    latency_ms: AtomicU64,
}

impl Watch {
    /// Takes over changed options.
    pub(crate) fn store(&self, options: &WatchOptions) {
        let slow_ns = u64::try_from(options.slow_us).map_or(u64::MAX, |us| us.saturating_mul(1000));
        let latency_ns = match options.latency_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.slow_us.store(options.slow_us, Relaxed);
        self.slowlog_len_max.store(options.slowlog_len_max, Relaxed);
        self.latency_ms.store(options.latency_ms, Relaxed);
        self.tracks.store(options.tracks, Relaxed);
        self.least_nanos.store(slow_ns.min(latency_ns), Relaxed);
        self.settle_times_each();
    }

    /// Looks at one of so many chunks for hot keys from now on; 0 is none.
    pub(crate) fn sample_hot_keys(&self, ratio: u32) {
        self.hot_keys_sample.store(ratio, Relaxed);
        self.settle_times_each();
    }

    fn settle_times_each(&self) {
        self.times_each.store(self.all_are_timed() || self.hot_keys_sample.load(Relaxed) > 0, Relaxed);
    }

    /// Whether the slow log wants to know what each command takes.
    fn all_are_timed(&self) -> bool {
        u64::try_from(self.slow_us.load(Relaxed)).is_ok_and(|us| us < CHUNK_NANOS_MAX / 1000)
    }

    /// Whether hot keys are looked for.
    #[inline]
    pub(crate) fn looks_for_hot_keys(&self) -> bool {
        self.hot_keys_sample.load(Relaxed) > 0
    }

    /// Whether something that took so long has to be noted.
    #[inline]
    pub(crate) fn is_long(&self, nanos: u64) -> bool {
        nanos >= self.least_nanos.load(Relaxed)
    }

    /// Whether a chunk whose short commands took so long, all together, has to be noted.
    pub(crate) fn is_long_for_chunk(&self, nanos: u64) -> bool {
        // Where less is long the commands are timed one by one, apart from those before the threshold was set.
        nanos >= CHUNK_NANOS_MAX && self.is_long(nanos)
    }

    /// Whether the short commands of a chunk are executed and timed one by one. `random` draws a number.
    #[inline]
    pub(crate) fn times_each(&self, random: impl FnOnce() -> u64) -> bool {
        self.times_each.load(Relaxed) && self.times_this(random)
    }

    /// Whether commands may have to be timed one by one.
    #[inline]
    pub(crate) fn may_time_each(&self) -> bool {
        self.times_each.load(Relaxed)
    }

    #[cold]
    fn times_this(&self, random: impl FnOnce() -> u64) -> bool {
        let ratio = u64::from(self.hot_keys_sample.load(Relaxed));
        self.all_are_timed() || (ratio > 0 && random().is_multiple_of(ratio))
    }

    /// Whether commands have histograms.
    #[inline]
    pub(crate) fn tracks(&self) -> bool {
        self.tracks.load(Relaxed)
    }

    pub(crate) fn is_slow(&self, nanos: u64) -> bool {
        u64::try_from(self.slow_us.load(Relaxed)).is_ok_and(|slow_us| nanos / 1000 >= slow_us)
    }

    /// Entries that each slow log keeps.
    pub(crate) fn slowlog_len_max(&self) -> usize {
        self.slowlog_len_max.load(Relaxed)
    }

    /// Milliseconds from which an event is noted; `None` if none ever is.
    pub(crate) fn latency_threshold_ms(&self) -> Option<u64> {
        Some(self.latency_ms.load(Relaxed)).filter(|&ms| ms > 0)
    }
}

/// Takes note of the command that `ctx` has just executed, if it took long.
#[inline]
pub(crate) fn note_command(ctx: &Ctx<'_>, nanos: u64) {
    if ctx.engine.settings.watch.is_long(nanos) {
        cold_path();
        if !ctx.command.flags.contains(Flags::SKIP_SLOWLOG) {
            note_slow(ctx.engine, &ctx.session.handle, nanos, || arguments(ctx.command, &ctx.argv));
        }
        note_event(ctx.engine, event_of(ctx.command), Duration::from_nanos(nanos));
    }
}

/// The event that a slow command is.
pub(crate) fn event_of(command: &Command) -> Event {
    if command.flags.contains(Flags::FAST) { Event::FastCommand } else { Event::Command }
}

/// Adds an entry to the slow log, if so long is slow.
pub(crate) fn note_slow(shared: &Shared, client: &ClientHandle, nanos: u64, args: impl FnOnce() -> Vec<Vec<u8>>) {
    let watch = &shared.settings.watch;
    if watch.is_slow(nanos) {
        let (at_s, len_max) = (shared.clock.unix_us() / 1_000_000, watch.slowlog_len_max());
        shared.slowlog.add(client, args(), at_s, nanos / 1000, len_max);
    }
}

/// Tells the latency monitor of an event, if it took long.
pub fn note_event(shared: &Shared, event: Event, took: Duration) {
    let threshold_ms = shared.settings.watch.latency_threshold_ms();
    if threshold_ms.is_some_and(|ms| took.as_millis() >= u128::from(ms)) {
        shared.latency.add(event, shared.clock.unix_us() / 1_000_000, took);
    }
}

/// A command's arguments as the slow log keeps them: cut, and without passwords.
pub(crate) fn arguments(command: &Command, argv: &Argv<'_>) -> Vec<Vec<u8>> {
    let shown = |(index, arg)| if is_secret(command, argv, index) { SECRET } else { arg };
    cut(argv.len(), argv.iter().enumerate().map(shown))
}

/// Whether an argument must not be shown to others.
pub fn is_secret(command: &Command, argv: &Argv<'_>, index: usize) -> bool {
    let is = |at: usize, word: &[u8]| argv.get(at).eq_ignore_ascii_case(word);
    match &*command.full_name {
        "auth" => index > 0,
        "hello" => (index.saturating_sub(2)..index).any(|at| at > 1 && is(at, b"AUTH")),
        "acl|setuser" => index > 2,
        "config|set" if index > 2 && index % 2 == 1 => {
            let name = argv.get(index - 1).to_ascii_lowercase();
            [&b"pass"[..], b"auth", b"masteruser"].iter().any(|part| memchr::memmem::find(&name, part).is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandTable;
    use crate::commands::FAMILIES;
    use onrush_resp::ArgRange;

    fn shown(line: &str) -> String {
        let mut ranges = Vec::new();
        let mut at = 0;
        for word in line.split(' ') {
            ranges.push(ArgRange::new(at, word.len()));
            at += word.len() + 1;
        }
        let table = CommandTable::new(FAMILIES);
        let argv = Argv::new(line.as_bytes(), &ranges, &[]);
        let args = arguments(table.resolve(&argv).expect("a command"), &argv);
        String::from_utf8(args.join(&b' ')).expect("text")
    }

    #[test]
    fn passwords_are_not_shown() {
        for (line, expected) in [
            ("AUTH secret", "AUTH (redacted)"),
            ("AUTH default secret", "AUTH (redacted) (redacted)"),
            ("HELLO 3 AUTH default secret SETNAME me", "HELLO 3 AUTH (redacted) (redacted) SETNAME me"),
            ("HELLO 3 SETNAME me", "HELLO 3 SETNAME me"),
            ("CONFIG SET requirepass secret hz 10", "CONFIG SET requirepass (redacted) hz 10"),
            ("CONFIG SET hz 10 MasterAuth secret", "CONFIG SET hz 10 MasterAuth (redacted)"),
            ("ACL SETUSER me >secret on", "ACL SETUSER me (redacted) (redacted)"),
            ("SET auth secret", "SET auth secret"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }

    #[test]
    fn the_lower_threshold_says_what_is_long() {
        let watch = Watch::default();
        let check = |slow_us, latency_ms, least_nanos: u64, times_each| {
            watch.store(&WatchOptions { slow_us, latency_ms, ..WatchOptions::default() });
            assert_eq!(watch.least_nanos.load(Relaxed), least_nanos);
            assert_eq!(watch.times_each(|| 1), times_each);
        };
        check(10_000, 0, 10_000_000, false);
        check(10_000, 2, 2_000_000, false);
        check(-1, 0, u64::MAX, false);
        check(0, 5, 0, true);
        check(999, 5, 999_000, true);
        check(1_000, 5, 1_000_000, false);
        check(i64::MAX, 0, u64::MAX, false);
        watch.sample_hot_keys(3);
        assert_eq!([6, 7].map(|random| watch.times_each(|| random)), [true, false]);
        watch.sample_hot_keys(0);
        assert!(!watch.times_each(|| 6));
    }
}

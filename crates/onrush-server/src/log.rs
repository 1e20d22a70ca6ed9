//! The log: readable lines in the shape of Redis's, `pid:role day month year time level message`.
//!
//! `loglevel` names four levels: `warning` is tracing's error and warn, `notice` is info, `verbose` is debug and
//! `debug` is trace. Times are in UTC.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, Layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;

use crate::config::Config;

/// The level, to be changed while the server runs.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts logging to where the configuration says. Only the first call in a process has an effect.
///
/// # Errors
/// The log file cannot be opened.
pub fn init(config: &Config) -> io::Result<()> {
    let writer = match config.logfile.as_str() {
        "" => BoxMakeWriter::new(io::stdout),
        path => BoxMakeWriter::new(std::sync::Mutex::new(open(path)?)),
    };
    let (filter, handle) = reload::Layer::new(filter(config.loglevel));
    let lines = Layer::new().event_format(LogLine).with_writer(writer);
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        // Set once, as the subscriber is.
        let _ = LEVEL.set(handle);
    }
    Ok(())
}

/// Writes a line to standard output before the configuration is known, which says where the log goes.
pub fn tell_early(text: &str) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    println!("{}:C {} # {text}", std::process::id(), Timestamp(since_epoch));
}

fn open(path: &str) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Changes the level, by its name in the configuration.
pub fn set_level(loglevel: &str) {
    if let Some(level) = LEVEL.get() {
        // Fails only when the subscriber is gone, and then nothing logs.
        let _ = level.reload(filter(loglevel));
    }
}

fn filter(loglevel: &str) -> LevelFilter {
    match loglevel {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "warning" => LevelFilter::WARN,
        "nothing" => LevelFilter::OFF,
        _ => LevelFilter::INFO,
    }
}

/// The mark of a level in a line.
fn mark(level: Level) -> char {
    match level {
        Level::ERROR | Level::WARN => '#',
        Level::INFO => '*',
        Level::DEBUG => '-',
        Level::TRACE => '.',
    }
}

/// The format of a line.
struct LogLine;

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = mark(*event.metadata().level());
        write!(writer, "{}:M {} {level} ", std::process::id(), Timestamp(since_epoch))?;
        ctx.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// A time since the Unix epoch, as `20 Nov 2026 22:48:02.123`.
struct Timestamp(Duration);

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let Date { year, month, day } = civil_date(seconds / 86_400);
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

/// A day of the Gregorian calendar.
struct Date {
    year: u64,
    /// From 0.
    month: usize,
    /// From 1.
    day: u64,
}

/// The date of a day counted from 1970-01-01.
fn civil_date(days: u64) -> Date {
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
    Date { year: year + month / 12, month: (month % 12) as usize, day: day + 1 }
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

    #[test]
    fn every_loglevel_lets_its_own_lines_through() {
        for (name, lets, holds) in [
            ("debug", Some(Level::TRACE), None),
            ("verbose", Some(Level::DEBUG), Some(Level::TRACE)),
            ("notice", Some(Level::INFO), Some(Level::DEBUG)),
            ("warning", Some(Level::WARN), Some(Level::INFO)),
            ("nothing", None, Some(Level::ERROR)),
        ] {
            assert!(lets.is_none_or(|level| level <= filter(name)), "{name}");
            assert!(holds.is_none_or(|level| level > filter(name)), "{name}");
        }
    }
}

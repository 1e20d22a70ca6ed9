//! The log: readable lines in the shape of Redis's, `pid:role day month year time level message`.
//!
//! `loglevel` names five levels: `warning` is tracing's error and warn, `notice` is info, `verbose` is debug and
//! `debug` is trace; `nothing` is none. Times are in UTC.

mod complaints;
mod sink;
mod time;

use std::fmt::{self, Write};
use std::io;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::Config;
pub use complaints::Complaints;
use sink::{Line, Sink};
use time::Timestamp;

/// The level, to be changed while the server runs.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Whether the server is a replica; until it is set up, there is none.
static IS_REPLICA: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// Where the lines go.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Starts logging to where the configuration says. Only the first call in a process has an effect. Each line is written
/// by the thread that logs it until [`start_thread`].
///
/// # Errors
/// The log file cannot be opened.
pub fn init(config: &Config) -> io::Result<()> {
    let sink = Sink::open(config)?;
    let (filter, handle) = reload::Layer::new(filter(config.loglevel));
    let subscriber = tracing_subscriber::registry().with(filter).with(Lines);
    if SINK.set(sink).is_ok() && tracing::subscriber::set_global_default(subscriber).is_ok() {
        // Set once, as the subscriber is.
        let _ = LEVEL.set(handle);
    }
    Ok(())
}

/// Starts the thread that writes the lines, so that no other thread waits for a disk or for a reader. No process may be
/// forked after that.
///
/// # Errors
/// The system has no thread to give.
pub fn start_thread() -> io::Result<()> {
    SINK.get().map_or(Ok(()), Sink::start_thread)
}

/// Waits a moment until all lines are written. The end of the process does so anyway, unless it is no end in order.
pub fn wait() {
    if let Some(sink) = SINK.get() {
        sink.wait();
    }
}

/// Changes the level, by its name in the configuration.
pub fn set_level(loglevel: &str) {
    if let Some(level) = LEVEL.get() {
        // Fails only when the subscriber is gone, and then nothing logs.
        let _ = level.reload(filter(loglevel));
    }
}

/// Tells whom to ask for the server's role, which each line has. Only the first call in a process has an effect.
pub fn set_role(is_replica: impl Fn() -> bool + Send + Sync + 'static) {
    let _ = IS_REPLICA.set(Box::new(is_replica));
}

/// The start of a line at a level.
fn start(level: Level) -> String {
    let role = if IS_REPLICA.get().is_some_and(|is_replica| is_replica()) { 'S' } else { 'M' };
    format!("{}:{role} {} {} ", std::process::id(), Timestamp::now(), mark(level))
}

/// Writes a line to standard output before the configuration is known, which says where the log goes.
pub fn tell_early(text: &str) {
    println!("{}:C {} # {text}", std::process::id(), Timestamp::now());
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

/// Makes a line of each event.
struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(sink) = SINK.get() else { return };
        let level = *event.metadata().level();
        let mut text = start(level);
        let message_at = text.len();
        event.record(&mut Message(&mut text));
        if text[message_at..].contains(is_unreadable) {
            let message = readable(&text[message_at..]);
            text.replace_range(message_at.., &message);
        }
        text.push('\n');
        sink.push(Line { level, text, message_at });
    }
}

/// Adds an event's message and fields to a text.
struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// Whether a terminal may take a character for a command.
fn is_unreadable(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

fn readable(message: &str) -> String {
    let mut text = String::with_capacity(message.len() + 8);
    for character in message.chars() {
        match is_unreadable(character) {
            true => text.extend(character.escape_default()),
            false => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(readable("a\x1b[2J\rb\tc\nd\u{9b}\u{e9}"), "a\\u{1b}[2J\\rb\tc\nd\\u{9b}\u{e9}");
    }
}

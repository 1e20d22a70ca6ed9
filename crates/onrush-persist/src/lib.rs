//! Durability for Onrush: the command log, and the formats and snapshots that will read it. Knows no connections.
//!
//! The [`CommandLog`] is where every write's effect passes, in commit order. While nobody listens it costs one
//! relaxed load per batch.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Somebody who follows the effects of writes: an append-only file, a replica's stream, a test.
pub trait Sink: Send {
    /// Takes one effect: the command `args`, run in database `db`. Called with the locks of the command's shards
    /// held, so it must neither wait nor touch the keyspace.
    fn record(&mut self, db: u32, args: &[&[u8]]);
}

/// The stream of effects.
///
/// A command appends its effect while it holds its shards' locks, so effects on one key stand in the log in the
/// order in which they took place.
#[derive(Default)]
pub struct CommandLog {
    listening: AtomicBool,
    sinks: Mutex<Vec<Box<dyn Sink>>>,
}

impl CommandLog {
    /// A log nobody listens to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether effects have to be appended at all.
    #[inline]
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Adds a listener. To miss nothing the caller keeps commands from running meanwhile.
    pub fn attach(&self, sink: Box<dyn Sink>) {
        let mut sinks = self.sinks.lock();
        sinks.push(sink);
        self.listening.store(true, Ordering::Relaxed);
    }

    /// Appends one effect.
    pub fn append(&self, db: u32, args: &[&[u8]]) {
        for sink in self.sinks.lock().iter_mut() {
            sink.record(db, args);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Collect(Arc<Mutex<Vec<String>>>);

    impl Sink for Collect {
        fn record(&mut self, db: u32, args: &[&[u8]]) {
            let words: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
            self.0.lock().push(format!("{db} {}", words.join(" ")));
        }
    }

    #[test]
    fn listeners_get_every_effect_in_order() {
        let log = CommandLog::new();
        assert!(!log.is_listening());
        let seen = Arc::new(Mutex::new(Vec::new()));
        log.attach(Box::new(Collect(Arc::clone(&seen))));
        assert!(log.is_listening());
        log.append(0, &[b"SET", b"k", b"v"]);
        log.append(3, &[b"DEL", b"k"]);
        assert_eq!(*seen.lock(), ["0 SET k v", "3 DEL k"]);
    }
}

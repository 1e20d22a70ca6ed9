//! Metrics by the crate `metrics`, behind the feature of that name.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{ConnectionEvent, Ended, Latencies, OTHER, Observer};

/// An [`Observer`] that passes everything on to the recorder of the crate `metrics`:
///
/// - `onrush_command_duration_seconds`, a histogram, labelled `command` and `outcome` (`ok`, or the first word of the
///   server's error, `IO`, `TIMEOUT`, `CLOSED`, `CLIENT`);
/// - `onrush_connections_total`, a counter, labelled `server` and `event` (`connected`, `failed`, `lost`).
///
/// Beyond [`Latencies::NAMES_MAX`] names of commands, and as many outcomes, others count as `OTHER`.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    names: Arc<RwLock<HashSet<Arc<str>>>>,
}

impl Metrics {
    /// Passes on what happens from now on.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// The word, or that for all others if there are too many.
    fn word(&self, word: &str) -> Arc<str> {
        if let Some(known) = self.names.read().get(word) {
            return known.clone();
        }
        let mut names = self.names.write();
        let known: Arc<str> = if names.len() < 2 * Latencies::NAMES_MAX { word } else { OTHER }.into();
        names.insert(known.clone());
        known
    }
}

impl Observer for Metrics {
    fn ended(&self, ended: &Ended<'_>) {
        use crate::ErrorKind::*;
        let outcome = match ended.error {
            None => "ok",
            Some(error) => error.code().unwrap_or(match error.kind() {
                Io | Parse => "IO",
                Timeout => "TIMEOUT",
                Closed => "CLOSED",
                _ => "CLIENT",
            }),
        };
        let (command, outcome) = (self.word(ended.name), self.word(outcome));
        ::metrics::histogram!("onrush_command_duration_seconds", "command" => command, "outcome" => outcome)
            .record(ended.took.as_secs_f64());
    }

    fn connection(&self, server: &str, event: ConnectionEvent<'_>) {
        let event = match event {
            ConnectionEvent::Connected => "connected",
            ConnectionEvent::Failed(_) => "failed",
            ConnectionEvent::Lost(_) => "lost",
        };
        ::metrics::counter!("onrush_connections_total", "server" => server.to_owned(), "event" => event).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
    use parking_lot::Mutex;

    use super::*;
    use crate::RedisError;
    use crate::error::ServerError;

    /// Writes down which metrics are wanted.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Notes {
        fn add(&self, key: &Key) {
            let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect::<String>();
            self.0.lock().push(format!("{}{labels}", key.name()));
        }
    }

    impl Recorder for Notes {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            self.add(key);
            Counter::noop()
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            self.add(key);
            Histogram::noop()
        }
    }

    #[test]
    fn times_and_events_reach_the_recorder_under_their_labels() {
        let (notes, metrics) = (Notes::default(), Metrics::new());
        let (error, closed) = (RedisError::from(ServerError::new("WRONGTYPE no")), RedisError::closed());
        let ended = |error| Ended { name: "GET", commands: 1, took: Duration::from_millis(1), error };
        ::metrics::with_local_recorder(&notes, || {
            metrics.ended(&ended(None));
            metrics.ended(&ended(Some(&error)));
            metrics.ended(&ended(Some(&closed)));
            metrics.connection("db:1", ConnectionEvent::Connected);
        });
        let times = "onrush_command_duration_seconds command=GET";
        let want = [
            format!("{times} outcome=ok"),
            format!("{times} outcome=WRONGTYPE"),
            format!("{times} outcome=CLOSED"),
            "onrush_connections_total server=db:1 event=connected".to_owned(),
        ];
        assert_eq!(*notes.0.lock(), want);
    }

    #[test]
    fn the_number_of_labels_is_limited() {
        let metrics = Metrics::new();
        let words: HashSet<_> = (0..10_000).map(|n| metrics.word(&format!("WORD{n}"))).collect();
        assert_eq!(words.len(), 2 * Latencies::NAMES_MAX + 1);
    }
}

//! What is known of the append-only file.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use onrush_engine::process::{LogFacts, LogFileFacts};
use onrush_persist::SinkId;
use onrush_persist::aof::{Aof, AofStatus};
use parking_lot::Mutex;

/// The append-only file, if there is one, and what is known of its rewrites.
#[derive(Default)]
pub struct AppendOnly {
    running: Mutex<Option<Running>>,
    rewrites: Mutex<Rewrites>,
}

/// A file that is being written.
pub struct Running {
    /// What writes it.
    pub aof: Arc<Aof>,
    /// How it follows the command log.
    pub sink: SinkId,
}

/// The results of the rewrites so far.
#[derive(Default)]
struct Rewrites {
    done: u64,
    failures: u64,
    last_took_s: Option<u64>,
    failed_at: Option<Instant>,
}

impl AppendOnly {
    /// Something is written from here on.
    pub fn begin(&self, running: Running) {
        *self.running.lock() = Some(running);
    }

    /// Nothing is written any more; returns what was.
    pub fn end(&self) -> Option<Running> {
        self.running.lock().take()
    }

    /// What is being written, if anything.
    pub fn aof(&self) -> Option<Arc<Aof>> {
        self.running.lock().as_ref().map(|running| Arc::clone(&running.aof))
    }

    /// What INFO shows. `is_on`: `appendonly`.
    pub fn facts(&self, is_on: bool) -> LogFacts {
        let aof = self.aof();
        let rewrites = self.rewrites.lock();
        LogFacts {
            is_on,
            last_rewrite_s: rewrites.last_took_s,
            has_rewrite_failed: rewrites.failures > 0,
            rewrites: rewrites.done,
            failures: rewrites.failures,
            write_error: aof.as_ref().and_then(|aof| error_of(aof)),
            files: aof.map(|aof| {
                let facts = aof.facts();
                LogFileFacts {
                    size: facts.size,
                    base_size: facts.base_size,
                    buffer_len: facts.buffer_len,
                    pending_fsyncs: facts.pending_fsyncs,
                    delayed_fsyncs: facts.delayed_fsyncs,
                }
            }),
        }
    }

    /// When the last rewrite failed, if it did.
    pub fn failed_at(&self) -> Option<Instant> {
        self.rewrites.lock().failed_at
    }

    /// Notes the result of a rewrite.
    pub fn note_rewrite(&self, result: &io::Result<u64>, took_s: u64) {
        let mut rewrites = self.rewrites.lock();
        match result {
            Ok(_) => {
                rewrites.done += 1;
                rewrites.last_took_s = Some(took_s);
                (rewrites.failures, rewrites.failed_at) = (0, None);
            }
            Err(_) => {
                rewrites.failures += 1;
                rewrites.failed_at = Some(Instant::now());
            }
        }
    }
}

/// Why writing fails, if it does.
pub fn error_of(aof: &Aof) -> Option<String> {
    match aof.status() {
        AofStatus::Ok => None,
        // As Redis shows it: without the number that the standard library adds.
        AofStatus::Failed { message, .. } => message.split(" (os error").next().map(str::to_owned),
    }
}

//! What is known of the append-only file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use onrush_engine::process::{LogFacts, LogFileFacts};
use onrush_persist::SinkId;
use onrush_persist::aof::{Aof, AofStatus, Health};
use parking_lot::{Condvar, Mutex};

use crate::data::backoff::Backoff;

/// The append-only file, if there is one, and what is known of its rewrites.
#[derive(Default)]
pub struct AppendOnly {
    running: Mutex<Option<Running>>,
    rewrites: Mutex<Rewrites>,
    /// Why it takes no writes, if it does not.
    error: Mutex<Option<String>>,
    ending: Mutex<Ending>,
    ended: Condvar,
    /// Whether a log is still to be begun with the data of a primary.
    owed: Mutex<Owed>,
    /// Whether somebody makes files.
    is_made: Arc<AtomicBool>,
}

/// Whether a log is to be begun with the data of a primary: until then the files have the data before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owed {
    /// None is.
    #[default]
    Nothing,
    /// Once the data is loaded.
    Soon,
    /// A try has failed; there will be another one.
    Again,
}

/// The right to make files of a log: those that it begins with, and its bases. One has it at a time, so that a base which
/// comes late because of its disk never comes into the folder of another log.
pub struct Making(Arc<AtomicBool>);

impl Drop for Making {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// A file that is being written.
pub struct Running {
    /// What writes it.
    pub aof: Arc<Aof>,
    /// How it follows the command log.
    pub sink: SinkId,
}

/// The end of the last one.
#[derive(Default)]
struct Ending {
    /// Whether its last records are being written.
    is_under_way: bool,
    /// Whether it has ended without them, and who has ended it has not replied yet.
    is_untold: bool,
    /// How many have ended so.
    failures: u64,
}

/// The results of the rewrites so far.
#[derive(Default)]
struct Rewrites {
    done: u64,
    last_took_s: Option<u64>,
    tries: Backoff,
}

impl AppendOnly {
    /// Something is written from here on.
    pub fn begin(&self, running: Running) {
        *self.running.lock() = Some(running);
        self.forget_end();
    }

    /// No more records come; returns what was written. It ends when [`AppendOnly::note_end`] says so.
    pub fn end(&self) -> Option<Running> {
        let running = self.running.lock().take();
        if running.is_some() {
            self.ending.lock().is_under_way = true;
        }
        running
    }

    /// Notes whether the last records of the one that has ended were written.
    pub fn note_end(&self, result: &io::Result<()>) {
        let mut ending = self.ending.lock();
        ending.is_under_way = false;
        ending.is_untold = result.is_err();
        ending.failures += u64::from(result.is_err());
        self.ended.notify_all();
    }

    /// Who has ended it is about to reply.
    pub fn forget_end(&self) {
        self.ending.lock().is_untold = false;
    }

    /// Waits until another thread has ended it, if one does.
    ///
    /// # Errors
    /// Its last records were not written, or not in time.
    pub fn wait_for_end(&self, time: Duration) -> io::Result<()> {
        let mut ending = self.ending.lock();
        let (failures, was_untold) = (ending.failures, ending.is_untold);
        self.ended.wait_while_for(&mut ending, |ending| ending.is_under_way, time);
        match ending.is_under_way || was_untold || ending.failures > failures {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }

    /// What is being written, if anything.
    pub fn aof(&self) -> Option<Arc<Aof>> {
        self.running.lock().as_ref().map(|running| Arc::clone(&running.aof))
    }

    /// Whether a log is still to be begun with the data of a primary.
    pub fn owed(&self) -> Owed {
        *self.owed.lock()
    }

    /// Notes whether one is.
    pub fn set_owed(&self, owed: Owed) {
        *self.owed.lock() = owed;
    }

    /// Takes the right to make files; `None` if another one has it.
    pub fn make(&self) -> Option<Making> {
        (!self.is_made.swap(true, Acquire)).then(|| Making(Arc::clone(&self.is_made)))
    }

    /// Whether the first base is still to come: until then the log is of no use at the next start.
    pub fn lacks_base(&self) -> bool {
        self.aof().is_some_and(|aof| !aof.has_base())
    }

    /// Notes why it takes no writes, if it does not.
    pub fn note_error(&self, error: Option<String>) {
        *self.error.lock() = error;
    }

    /// What INFO shows. `is_coming`: it is being loaded.
    pub fn facts(&self, is_coming: bool) -> LogFacts {
        let files = self.aof().map(|aof| aof.facts());
        let rewrites = self.rewrites.lock();
        LogFacts {
            is_on: is_coming || files.is_some(),
            last_rewrite_s: rewrites.last_took_s,
            has_rewrite_failed: rewrites.tries.failures() > 0,
            rewrites: rewrites.done,
            failures: rewrites.tries.failures().into(),
            write_error: self.error.lock().clone(),
            stream_start: files.as_ref().and_then(|facts| facts.stream_start),
            files: files.map(|facts| LogFileFacts {
                size: facts.size,
                base_size: facts.base_size,
                buffer_len: facts.buffer_len,
                pending_fsyncs: facts.pending_fsyncs,
                delayed_fsyncs: facts.delayed_fsyncs,
            }),
        }
    }

    /// Whether a rewrite may be tried now.
    pub fn may_rewrite(&self) -> bool {
        self.rewrites.lock().tries.may_try()
    }

    /// Notes the result of a rewrite.
    pub fn note_rewrite(&self, result: &io::Result<u64>, took_s: u64) {
        let mut rewrites = self.rewrites.lock();
        rewrites.tries.note(result.is_ok());
        if result.is_ok() {
            rewrites.done += 1;
            rewrites.last_took_s = Some(took_s);
        }
    }
}

/// Why writing fails, if it does.
pub fn error_of(health: &Health) -> Option<String> {
    match &health.status {
        AofStatus::Ok => None,
        // As Redis shows it: without the number that the standard library adds.
        AofStatus::Failed { message, .. } => message.split(" (os error").next().map(str::to_owned),
    }
}

//! When the data is saved: at save points, on request, at the end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use onrush_engine::gate::Exclusive;
use onrush_engine::process::{NotBegun, Process};
use onrush_engine::snapshot::output::{NoResult, Output, Purpose};
use onrush_engine::snapshot::run::{self, At, begin};
use onrush_persist::threads;
use parking_lot::Mutex;

use crate::config::{Config, SavePoint};
use crate::data::append_only::{BUSY, create_base, turn_on_or_later};
use crate::data::backoff::Backoff;
use crate::data::log_state::Owed;
use crate::data::refusal;
use crate::process::server::Server;

/// How often the thread looks for something to do.
pub const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// How long a snapshot waits for the end of a part of a primary's stream.
const CUT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Starts the thread for snapshots.
///
/// # Errors
/// The system cannot create a thread.
pub fn start_thread(server: &'static Server) -> std::io::Result<()> {
    threads::start("snapshot", || run::serve(server)).map(drop)
}

/// Decides when and where the data is saved.
pub fn plan(config: &Config) -> String {
    let points = config.save.iter().map(|SavePoint { seconds, changes }| {
        let noun = if *changes == 1 { "change" } else { "changes" };
        format!("{seconds} s with {changes} {noun}")
    });
    let points: Vec<String> = points.collect();
    let snapshots = match points.is_empty() {
        true => "No snapshots are taken by themselves (save \"\")".to_owned(),
        false => format!(
            "The data is saved in {}/{} after {}, and at the end",
            config.dir,
            config.dbfilename,
            points.join(", ")
        ),
    };
    let log = match config.appendonly {
        true => format!("every change goes to {}/{}, synced: {}", config.dir, config.appenddirname, config.appendfsync),
        false => "there is no append-only file (appendonly no)".to_owned(),
    };
    format!("{snapshots}; {log}")
}

/// Work of the thread that decides when and where the data is saved.
pub type Work = Box<dyn FnOnce(&'static Server) + Send>;

/// The way to that thread.
static WORK: OnceLock<Sender<Work>> = OnceLock::new();

/// Has that thread do something that may wait for the disk.
pub fn pass_on(work: Work) {
    if let Some(thread) = WORK.get() {
        // The thread ends with the process.
        let _ = thread.send(work);
    }
}

/// Starts the thread that looks regularly whether a snapshot or a rewrite is due. Unlike the threads that serve clients, it
/// may wait for the disk.
///
/// # Errors
/// The system cannot create a thread.
pub fn start_looking(server: &'static Server) -> std::io::Result<()> {
    let (sender, work) = channel();
    // This is called once.
    let _ = WORK.set(sender);
    let mut saving = Saving { server, snapshots: Backoff::default(), logs: Backoff::default(), is_tried: false };
    threads::start("saving", move || {
        let mut looked = Instant::now();
        loop {
            // Clients that want something all the time do not keep it from looking.
            let left = LOOK_PERIOD.saturating_sub(looked.elapsed());
            match work.recv_timeout(left) {
                Ok(work) => work(server),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if looked.elapsed() >= LOOK_PERIOD {
                looked = Instant::now();
                if !server.loading.is_on() {
                    saving.look();
                }
            }
        }
    })
    .map(drop)
}

/// Does something with the whole keyspace; `None`, without having done it, if what has it takes too long. Beside long commands
/// the thread for these does it: behind one of them there may always be another one.
pub fn with_keyspace<T: Send + 'static>(
    server: &'static Server,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    with_keyspace_and(server, || Some(()), work)
}

/// As [`with_keyspace`], with what `hold` gives, which the thread that does it takes first; `None` if there is nothing. The
/// caller holds nothing while it waits: a long command may wait for that.
fn with_keyspace_and<H, T: Send + 'static>(
    server: &'static Server,
    hold: impl FnOnce() -> Option<H> + Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let all = move || {
        let _held = hold()?;
        let _alone = server.alone_unless_busy()?;
        Some(work())
    };
    if !server.offload.is_busy() {
        return all();
    }
    let (tell, told) = channel();
    let work = Mutex::new(Some((all, tell)));
    server.offload.run(move || {
        let work = work.lock().take();
        if let Some((all, tell)) = work {
            // The other thread waits for it.
            let _ = tell.send(all());
        }
    });
    told.recv().ok().flatten()
}

/// Looks whether a snapshot or a rewrite is due.
struct Saving {
    server: &'static Server,
    /// When to try a snapshot again that has failed.
    snapshots: Backoff,
    /// When to try again to begin a log that could not be begun.
    logs: Backoff,
    /// Whether a snapshot was begun whose end is not noted yet.
    is_tried: bool,
}

impl Saving {
    /// Begins a snapshot or a rewrite if one is due, and updates whether writes are refused.
    fn look(&mut self) {
        let server = self.server;
        refusal::look_at_snapshots(server, &server.host.config.read());
        if server.durability.take_due() {
            server.durability.ask(server.log.last_lsn());
        }
        if server.snapshots.underway().is_some() || server.is_keyspace_busy() {
            return;
        }
        let facts = server.snapshots.facts();
        if std::mem::take(&mut self.is_tried) || facts.failure.is_none() {
            self.snapshots.note(facts.failure.is_none());
        }
        if look_at_log(server, &mut self.logs) || !self.snapshots.may_try() {
            return;
        }
        let now_s = server.clock.unix_ms() / 1000;
        let since_s = now_s - facts.saved_at_s.max(server.started_unix_s());
        let changes = server.stats.changes().saturating_sub(facts.saved_changes);
        let is_due = |point: &SavePoint| changes >= point.changes && since_s > point.seconds as i64;
        let point = server.host.config.read().save.iter().copied().find(is_due);
        if server.snapshots.is_scheduled(Purpose::File) {
            self.begin_snapshot(now_s);
        } else if let Some(point) = point {
            tracing::info!("{changes} changes in {} seconds. Saving...", point.seconds);
            self.begin_snapshot(now_s);
        }
    }

    fn begin_snapshot(&mut self, now_s: i64) {
        let server = self.server;
        server.snapshots.note(|facts| facts.tried_at_s = now_s);
        let begun = create(server, Purpose::File).map(|output| cut(server, output, Purpose::File));
        // That the keyspace was not to be had says nothing of the disk.
        self.is_tried = begun != Some(false);
        if begun == Some(true) {
            tracing::info!("Background saving started");
        }
    }
}

/// Makes what a snapshot is written to; `None`, after a line in the log, if that fails.
fn create(server: &'static Server, purpose: Purpose) -> Option<Box<dyn Output>> {
    let created = server.host.create_snapshot(purpose).inspect_err(|error| {
        tracing::error!("Can't create a file for a snapshot: {error}");
        if purpose == Purpose::File {
            server.snapshots.note(|facts| facts.failure = Some(error.to_string()));
        }
    });
    created.ok()
}

/// Begins a snapshot that a client wants. Waits for the disk.
///
/// # Errors
/// Why it has not begun.
pub fn begin_now(server: &'static Server, purpose: Purpose) -> Result<(), NotBegun> {
    let is_second = || server.snapshots.underway().map(|underway| NotBegun::Second(underway.purpose));
    if let Some(second) = is_second() {
        return Err(second);
    }
    let output = create(server, purpose).ok_or(NotBegun::Failed)?;
    match cut(server, output, purpose) {
        true => Ok(()),
        false => Err(is_second().unwrap_or(NotBegun::Busy)),
    }
}

/// Begins a snapshot that the thread for snapshots goes on with; returns whether it has begun.
fn cut(server: &'static Server, output: Box<dyn Output>, purpose: Purpose) -> bool {
    let output = Arc::new(Mutex::new(Some(output)));
    let taken = Arc::clone(&output);
    // Between two parts of a primary's stream the data has a place in it. A part may wait for a script.
    let hold = || server.host.replica.hold_stream_for(CUT_WAIT_MAX);
    let begun = with_keyspace_and(server, hold, move || {
        let output = taken.lock().take();
        output.is_some_and(|output| begin(server, output, purpose, true).is_some())
    });
    if let Some(output) = output.lock().take() {
        output.abandon(&NoResult::Unwanted(BUSY.to_owned()));
    }
    begun.unwrap_or(false)
}

/// Rewrites the append-only file if that is due; returns whether this began a snapshot. `begins`: when to begin one again
/// that could not be begun.
fn look_at_log(server: &'static Server, begins: &mut Backoff) -> bool {
    let (is_wanted, percentage, min_size) = {
        let config = server.host.config.read();
        (config.appendonly, config.auto_aof_rewrite_percentage, config.auto_aof_rewrite_min_size)
    };
    let Some(aof) = server.host.append_only.aof() else {
        if is_wanted && server.host.append_only.owed() == Owed::Again {
            if begins.may_try() {
                begins.note(turn_on_or_later(server));
            }
            return false;
        }
        // Only a failed DEBUG LOADAOF leaves that. What there is in memory must not replace the log by itself.
        if is_wanted {
            refusal::note_lack(server, Some(refusal::NOT_LOADED));
            return false;
        }
        return server.snapshots.is_scheduled(Purpose::LogBase) && rewrite(server);
    };
    begins.note(true);
    let facts = aof.facts();
    let growth = facts.size.saturating_sub(facts.base_size).saturating_mul(100) / facts.base_size.max(1);
    let is_grown = percentage > 0 && facts.size > min_size && growth >= percentage;
    let is_due = is_grown || aof.needs_rewrite() || server.snapshots.is_scheduled(Purpose::LogBase);
    if !is_due || !server.host.append_only.may_rewrite() {
        return false;
    }
    if is_grown {
        tracing::info!("Starting automatic rewriting of AOF on {growth}% growth");
    }
    rewrite(server)
}

/// Begins a rewrite of the append-only file; returns whether it has begun.
fn rewrite(server: &'static Server) -> bool {
    match create_base(server) {
        Ok(output) => cut(server, output, Purpose::LogBase),
        Err(error) => {
            tracing::error!("Can't rewrite the append-only file: {error}");
            false
        }
    }
}

/// How long the end of the process waits for the end of a part of a primary's stream.
const STREAM_WAIT_MAX: Duration = Duration::from_millis(200);

/// Why the data is not saved at the end.
pub enum NotSaved {
    /// The disk does not answer, so nothing more is to be expected of it.
    Hangs,
    /// It failed; a later try may succeed.
    Failed(String),
}

/// Saves all data at the end of the process; `None` if a script takes too long, which must end first.
///
/// # Errors
/// It could not be saved.
pub fn save_at_end(server: &Server) -> Result<Option<Exclusive<'_>>, NotSaved> {
    loop {
        if !server.snapshots.abort_and_wait("the server ends") {
            return Err(NotSaved::Hangs);
        }
        server.host.peers.refuse();
        // Without it the data may be at no place of the stream, and does not say that it is.
        let _held = server.host.replica.hold_stream_for(STREAM_WAIT_MAX);
        let alone = server.alone_unless_busy();
        server.host.peers.allow();
        let Some(alone) = alone else { return Ok(None) };
        if server.loading.is_on() {
            tracing::warn!(
                "No final RDB snapshot: the data is being loaded, and is whole in the append-only file alone"
            );
            return Ok(Some(alone));
        }
        // Another thread may have begun one meanwhile.
        if server.snapshots.underway().is_some() {
            continue;
        }
        tracing::info!("Saving the final RDB snapshot before exiting.");
        server.host.note_closing(true);
        match save_alone(server) {
            Ok(()) => return Ok(Some(alone)),
            Err(reason) => {
                server.host.note_closing(false);
                return Err(NotSaved::Failed(reason));
            }
        }
    }
}

/// Saves all data. The caller has the whole keyspace, and no snapshot is under way.
fn save_alone(server: &Server) -> Result<(), String> {
    let output = server.host.create_snapshot(Purpose::File).map_err(|error| error.to_string())?;
    let underway = begin(server, output, Purpose::File, false).ok_or("another snapshot is under way")?;
    run::run(server, &underway, At::Alone)
}

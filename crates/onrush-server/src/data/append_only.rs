//! The append-only file of the process: turning it on and off, rewriting it, reporting its state.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SendError, channel, sync_channel};
use std::time::{Duration, Instant};

use onrush_engine::error::CommandError;
use onrush_engine::snapshot::output::{NoResult, Output, Purpose};
use onrush_engine::snapshot::run::{self, At, begin};
use onrush_persist::Sink;
use onrush_persist::aof::{Aof, AofOptions, FsyncPolicy, LoadedStreams, Manifest, REWRITE_NAME};
use onrush_persist::rdb::{FileOptions, SnapshotFile};
use onrush_persist::storage::{Disk, StorageFile};
use onrush_persist::threads;
use parking_lot::Mutex;

use crate::config::{Config, ConfigSetError};
use crate::data::log_state::{Making, Owed, Running};
use crate::data::refusal;
use crate::data::saving::{LOOK_PERIOD, with_keyspace};
use crate::data::snapshot_file::FileOutput;
use crate::process::host::{borrowed, error_reply};
use crate::process::server::Server;

/// Why neither a snapshot nor a log begins.
pub const BUSY: &str = "a script or a command has the keyspace for itself";

/// The folder of its files.
pub fn folder(config: &Config) -> PathBuf {
    PathBuf::from(&config.dir).join(&config.appenddirname)
}

/// When it is synced.
pub fn policy(config: &Config) -> FsyncPolicy {
    match config.appendfsync {
        "always" => FsyncPolicy::Always,
        "no" => FsyncPolicy::No,
        _ => FsyncPolicy::EverySecond,
    }
}

fn options(server: &'static Server, config: &Config, dir: PathBuf) -> AofOptions {
    let mut options = AofOptions::new(dir, config.appendfilename.as_str());
    options.policy = policy(config);
    options.timestamps = config.aof_timestamp_enabled;
    options.on_durable = Box::new(|lsn| {
        server.durability.advance(lsn);
        // Replicas get what is on the disk.
        if server.durability.is_always() && server.replication.is_streaming() {
            server.replication.wake();
        }
    });
    options.on_round = Box::new(|lsn, is_late| {
        server.durability.set_late(is_late);
        server.durability.advance_written(lsn);
    });
    options.on_health = Box::new(|health| refusal::note_health(server, health));
    options
}

/// Takes over settings that have changed.
pub fn refresh(server: &Server, config: &Config) {
    refusal::look_at_snapshots(server, config);
    refresh_wishes(server, config);
    if let Some(aof) = server.host.append_only.aof() {
        aof.set_policy(policy(config));
        aof.set_timestamps(config.aof_timestamp_enabled);
    }
}

/// Replies wait for the disk under `appendfsync always`, once there is a base.
fn refresh_wishes(server: &Server, config: &Config) {
    let has_base = server.host.append_only.aof().is_some_and(|aof| aof.has_base());
    server.durability.set_always(has_base && config.appendfsync == "always");
}

/// Continues a log in `dir` that has been loaded, with `streams` in it. No thread changes data meanwhile.
///
/// # Errors
/// The system's.
pub fn continue_log(
    server: &'static Server,
    dir: PathBuf,
    manifest: Manifest,
    streams: LoadedStreams,
) -> Result<(), String> {
    let config = server.host.config.read().clone();
    let alone = server.gate.exclusive(server.gate.take_turn());
    server.log.flush();
    let lsn = server.log.last_lsn();
    let aof =
        Aof::open(Arc::new(Disk), options(server, &config, dir), manifest, lsn).map_err(|error| error.to_string())?;
    let strays = aof.take_strays();
    for name in strays.removed {
        tracing::info!("Removed {name}: its process has ended during a rewrite");
    }
    for name in strays.kept {
        tracing::warn!(
            "{name} is not loaded: the manifest does not name it. It stays, as the manifest may have lost a line"
        );
    }
    aof.set_streams(streams);
    attach(server, aof, lsn)?;
    server.durability.turn_on();
    refusal::note_lack(server, None);
    drop(alone);
    Ok(())
}

fn attach(server: &'static Server, aof: Arc<Aof>, lsn: u64) -> Result<(), String> {
    let asked = Arc::clone(&aof);
    server.durability.prepare(lsn, aof.has_base(), Box::new(move |lsn| asked.want_durable(lsn)));
    let sink = aof.attach(&server.log).map_err(|error| error.to_string())?;
    server.host.append_only.begin(Running { aof, sink });
    server.replication.note_position(server.engine());
    refresh(server, &server.host.config.read());
    Ok(())
}

/// Begins a log with the present data, which the calling thread saves now; it replaces an existing log. For the start:
/// nothing else happens meanwhile.
///
/// # Errors
/// The system's; a snapshot is under way, or a script takes too long.
pub fn begin_log(server: &'static Server, making: Making) -> Result<(), String> {
    let config = server.host.config.read().clone();
    let (aof, output) = make_log(server, &config, Way::Start, making)?;
    let _alone = server.alone_unless_busy().ok_or(BUSY)?;
    follow(server, &aof)?;
    let underway = begin(server, output, Purpose::LogBase, false).ok_or("a snapshot is under way")?;
    run::run(server, &underway, At::Alone)
}

/// Makes the files of a log that is to begin.
fn make_log(
    server: &'static Server,
    config: &Config,
    way: Way,
    making: Making,
) -> Result<(Arc<Aof>, Box<dyn Output>), String> {
    let options = match way {
        // Nobody depends on what nothing follows.
        Way::Copy => AofOptions::new(folder(config), config.appendfilename.as_str()),
        Way::Start | Way::First | Way::Again => options(server, config, folder(config)),
    };
    // The last LSN is known only when the log follows.
    let aof = Aof::begin(Arc::new(Disk), options, 0);
    let aof = aof.map_err(|error| error.to_string())?;
    let output = BaseOutput::new(server, config, Arc::clone(&aof), way, making).inspect_err(|_| aof.discard());
    let output = output.map_err(|error| error.to_string())?;
    Ok((aof, Box::new(output)))
}

/// How long a log may take to begin: to wait for the disk of the one before, and to make its files.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(8);

/// Makes the files of a log that is to begin, until `deadline`: on a disk that takes no bytes none begins.
fn make_log_in_time(
    server: &'static Server,
    config: &Config,
    making: Making,
    deadline: Instant,
) -> Result<(Arc<Aof>, Box<dyn Output>), String> {
    // Nothing is buffered, so no result is in the channel when nobody waits for it any more.
    let (tell, told) = sync_channel(0);
    let config = config.clone();
    let make = move || {
        let made = make_log(server, &config, Way::First, making);
        if let Err(SendError(Ok((aof, output)))) = tell.send(made) {
            output.abandon(&NoResult::Unwanted("its disk has not answered in time".to_owned()));
            aof.discard();
        }
    };
    let thread = std::thread::Builder::new().name("log-begin".into()).spawn(make);
    thread.map_err(|error| error.to_string())?;
    told.recv_timeout(time_until(deadline)).unwrap_or_else(|_| Err("its disk does not answer".to_owned()))
}

fn time_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Has a log that begins get the records from here on. The caller has the whole keyspace.
fn follow(server: &'static Server, aof: &Arc<Aof>) -> Result<(), String> {
    server.log.flush();
    let lsn = server.log.last_lsn();
    aof.start_at(lsn);
    attach(server, Arc::clone(aof), lsn)
}

/// Changes the configuration, and turns the append-only file on or off if that says so. Waits for the disk.
///
/// # Errors
/// The error reply.
pub fn configure(server: &'static Server, pairs: &[(Vec<u8>, Vec<u8>)], is_local: bool) -> Result<(), CommandError> {
    let pairs = borrowed(pairs);
    let change = || {
        let before = server.host.config.read().clone();
        let change = before.set_many(&pairs, is_local)?;
        let turns_on = change.config.appendonly && server.host.append_only.aof().is_none();
        if turns_on {
            turn_on(server, &change.config).map_err(|error| {
                tracing::error!("Can't turn the append-only file on: {error}");
                ConfigSetError::failed("appendonly", "Unable to turn on AOF. Check server logs.")
            })?;
        }
        if before.appendonly && !change.config.appendonly && server.loading.is_on() {
            return Err(ConfigSetError::failed("appendonly", "The data is being loaded."));
        }
        if let Err(error) = server.host.set(&pairs, is_local) {
            if turns_on && !before.appendonly {
                turn_off(server);
            }
            return Err(error);
        }
        if !change.config.appendonly {
            turn_off(server);
        }
        Ok(())
    };
    change().map_err(|error| error_reply(&error, &pairs))
}

/// Begins a log with the present data, which the thread for snapshots saves. When this returns, the log is written; it
/// counts when that thread is done.
pub(crate) fn turn_on(server: &'static Server, config: &Config) -> Result<(), String> {
    if server.loading.is_on() {
        return Err("the data is being loaded".to_owned());
    }
    tracing::info!("Turning the append-only file on");
    let deadline = Instant::now() + BEGIN_WAIT_MAX;
    if !server.log.answers_within(time_until(deadline)) {
        return Err("the disk of the file before does not answer".to_owned());
    }
    let making = take_files(server, deadline)?;
    let (aof, output) = make_log_in_time(server, config, making, deadline)?;
    let output = Arc::new(Mutex::new(Some(output)));
    let (log, base) = (Arc::clone(&aof), Arc::clone(&output));
    let followed = with_keyspace(server, move || {
        follow(server, &log)?;
        if server.snapshots.underway().is_none()
            && let Some(output) = base.lock().take()
        {
            begin(server, output, Purpose::LogBase, true);
        }
        Ok(())
    });
    if let Some(output) = output.lock().take() {
        // The base comes later, as after a failed rewrite, if the log follows.
        output.abandon(&NoResult::Unwanted("another snapshot is under way".to_owned()));
    }
    let followed = followed.unwrap_or_else(|| Err(BUSY.to_owned()));
    match followed {
        Ok(()) => {
            server.durability.turn_on();
            // Who wants each write on the disk is refused until replies wait for it.
            server.write_refusal.set_lacks_log(false);
            refusal::note_lack(server, None);
            server.host.append_only.set_owed(Owed::Nothing);
        }
        Err(_) => aof.discard(),
    }
    followed
}

/// As [`turn_on`], with the data of a primary; if that fails, it is tried again later. Returns whether the log has begun.
pub(crate) fn turn_on_or_later(server: &'static Server) -> bool {
    let config = server.host.config.read().clone();
    let begun = turn_on(server, &config);
    if let Err(error) = &begun {
        server.host.append_only.set_owed(Owed::Again);
        refusal::note_lack(server, Some(refusal::NOT_BEGUN));
        tracing::error!("Can't begin the append-only file with the data of the primary: {error}. It is tried again");
    }
    begun.is_ok()
}

/// Takes the right to make the files of a log. A rewrite that has it, of a log that has ended or of none, is given up.
///
/// # Errors
/// Its disk does not answer.
fn take_files(server: &Server, deadline: Instant) -> Result<Making, String> {
    loop {
        if let Some(making) = server.host.append_only.make() {
            return Ok(making);
        }
        let is_rewritten = server.snapshots.underway().is_some_and(|underway| underway.purpose == Purpose::LogBase);
        let has_ended = is_rewritten && server.snapshots.abort_until("another append-only file is begun", deadline);
        if !has_ended && Instant::now() > deadline {
            return Err("a rewrite is under way and does not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the log, if there is one. Waits for the disk, but not for ever.
pub(crate) fn turn_off(server: &'static Server) {
    refusal::note_lack(server, None);
    server.host.append_only.set_owed(Owed::Nothing);
    if server.host.append_only.aof().is_none() {
        return;
    }
    tracing::info!("Turning the append-only file off");
    loop {
        let is_rewritten = server.snapshots.underway().is_some_and(|underway| underway.purpose == Purpose::LogBase);
        if is_rewritten {
            // One whose disk does not answer finds the log gone when it ends.
            let _ = server.snapshots.abort_and_wait("the append-only file is turned off");
        }
        let end = move || {
            let sink = detach(server);
            // Who wants each write on the disk is refused from the first write on that the log does not get.
            server.durability.begin_end();
            server.write_refusal.set_lacks_log(server.durability.is_wanted());
            sink
        };
        match with_keyspace(server, end) {
            Some(sink) => {
                finish(server, sink);
                return;
            }
            // A script takes too long.
            None => std::thread::sleep(LOOK_PERIOD),
        }
    }
}

/// Ends what was detached when the log was turned off.
fn finish(server: &'static Server, sink: Option<Box<dyn Sink>>) {
    let ended = sink.map_or(Ok(()), finish_in_time);
    // The process may end just now, and must not do so as if nothing were lost.
    server.host.append_only.note_end(&ended);
    if let Err(error) = &ended {
        tracing::error!("The end of the append-only file may be lost: {error}");
    }
    server.durability.turn_off(server.log.last_lsn(), ended.is_err());
    refusal::forget_log(server);
    server.host.append_only.forget_end();
}

/// Takes the log away from the command log; it gets no more records. No thread may be in the keyspace.
fn detach(server: &Server) -> Option<Box<dyn Sink>> {
    let Running { sink, .. } = server.host.append_only.end()?;
    let sink = server.log.detach(sink);
    if sink.is_none() {
        server.host.append_only.note_end(&Ok(()));
    }
    sink
}

/// How long the end of a log may take: then its thread is left alone with the disk.
const END_WAIT_MAX: Duration = Duration::from_secs(8);

/// Writes and syncs what a detached log has, within a bounded time.
fn finish_in_time(mut sink: Box<dyn Sink>) -> io::Result<()> {
    let (tell, told) = channel();
    // Without a thread it takes as long as the disk does.
    threads::start_or_do("log-end", move || {
        // Nobody listens any more if it took too long.
        let _ = tell.send(sink.finish());
    });
    told.recv_timeout(END_WAIT_MAX).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Ends the log before the process ends, or before the log is loaded anew: everything is on the disk when this returns,
/// also what a log has that another thread turns off just now. No thread may be in the keyspace. Takes a bounded time.
///
/// # Errors
/// Not everything is on the disk. Replies that wait for it go on waiting.
pub fn end_log(server: &Server) -> io::Result<()> {
    let ended = match detach(server) {
        Some(sink) => {
            let ended = finish_in_time(sink);
            server.host.append_only.note_end(&ended);
            ended
        }
        None => server.host.append_only.wait_for_end(END_WAIT_MAX),
    };
    if ended.is_ok() {
        server.durability.turn_off(server.log.last_lsn(), false);
    }
    ended
}

/// Makes what a rewrite is written to.
///
/// # Errors
/// The system's; there should be a log and is none.
pub fn create_base(server: &'static Server) -> io::Result<Box<dyn Output>> {
    let output = || {
        let making = server.host.append_only.make();
        let making = making.ok_or_else(|| io::Error::other("another thread makes files of the append-only file"))?;
        // No other log begins from here on.
        match server.host.append_only.aof() {
            Some(aof) => again(server, aof, making),
            None => copy(server, making),
        }
    };
    output().inspect_err(|error| server.host.append_only.note_rewrite(&Err(error.kind().into()), 0))
}

fn again(server: &'static Server, aof: Arc<Aof>, making: Making) -> io::Result<Box<dyn Output>> {
    aof.prepare_rewrite().map_err(io::Error::other)?;
    let config = server.host.config.read().clone();
    let output = BaseOutput::new(server, &config, Arc::clone(&aof), Way::Again, making);
    Ok(Box::new(output.inspect_err(|_| aof.abort_rewrite())?))
}

/// Makes the base of a log that nothing follows.
fn copy(server: &'static Server, making: Making) -> io::Result<Box<dyn Output>> {
    let config = server.host.config.read().clone();
    // After a failed DEBUG LOADAOF the files have data that the memory has not.
    if config.appendonly {
        let is_late = server.host.append_only.owed() == Owed::Again;
        return Err(io::Error::other(if is_late { refusal::NOT_BEGUN } else { refusal::NOT_LOADED }));
    }
    let (_, output) = make_log(server, &config, Way::Copy, making).map_err(io::Error::other)?;
    Ok(output)
}

/// Why a base is written.
enum Way {
    /// The log begins with it before the server serves clients. INFO does not count it, as in Redis.
    Start,
    /// The log begins with it.
    First,
    /// It takes the place of an earlier one.
    Again,
    /// Nobody writes a log. The files are as those of a log that has ended.
    Copy,
}

/// The base of the log while it is written.
struct BaseOutput {
    server: &'static Server,
    file: FileOutput,
    aof: Arc<Aof>,
    way: Way,
    is_rdb: bool,
    started: Instant,
    #[expect(dead_code, reason = "held until the base has its place: no other log takes the folder meanwhile")]
    making: Making,
}

impl BaseOutput {
    fn new(server: &'static Server, config: &Config, aof: Arc<Aof>, way: Way, making: Making) -> io::Result<Self> {
        let is_rdb = config.aof_use_rdb_preamble;
        let options =
            FileOptions { has_checksum: config.rdbchecksum, syncs_often: config.aof_rewrite_incremental_fsync, is_rdb };
        // The configured folder may have changed since; the files stay together.
        let target = aof.dir().join(REWRITE_NAME);
        let file = FileOutput::new(SnapshotFile::create(Arc::new(Disk), target, options)?);
        Ok(Self { server, file, aof, way, is_rdb, started: Instant::now(), making })
    }

    fn settle(&mut self) -> io::Result<u64> {
        let len = self.file.settle()?;
        let finished = match self.way {
            Way::Copy => self.aof.finish_copy(self.file.target(), self.is_rdb),
            Way::Start | Way::First | Way::Again => self.aof.finish_rewrite(self.file.target(), self.is_rdb),
        };
        finished.map_err(io::Error::other)?;
        Ok(len)
    }

    fn note(&self, result: &io::Result<u64>) {
        let counts = match self.way {
            Way::Start => false,
            // That a log which has ended gets no base is no failure.
            Way::First | Way::Again => self.is_current(),
            Way::Copy => true,
        };
        if counts {
            self.server.host.append_only.note_rewrite(result, self.started.elapsed().as_secs());
        }
    }

    /// Leaves the files of the log as they were.
    fn give_up(&self) {
        self.file.remove();
        self.aof.abort_rewrite();
        if matches!(self.way, Way::Copy) {
            self.aof.discard();
        }
    }

    /// Whether the log that this is the base of is still written.
    fn is_current(&self) -> bool {
        self.server.host.append_only.aof().is_some_and(|aof| Arc::ptr_eq(&aof, &self.aof))
    }
}

impl Output for BaseOutput {
    fn takes_commands(&self) -> bool {
        !self.is_rdb
    }

    fn begin(&mut self, version: u16) -> io::Result<()> {
        if matches!(self.way, Way::Again) {
            self.server.log.flush();
            self.aof.switch(self.server.log.last_lsn()).map_err(io::Error::other)?;
            self.server.replication.note_position(self.server.engine());
        }
        self.file.begin(version)
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.file.write(items)
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        let result = self.settle();
        self.note(&result);
        match &result {
            Ok(_) if self.is_current() => {
                // From now on the log has all the data, so what is acknowledged may depend on it.
                self.server.durability.note_base();
                self.server.durability.turn_on();
                refresh_wishes(self.server, &self.server.host.config.read());
            }
            Ok(_) => {}
            Err(_) => self.give_up(),
        }
        result
    }

    fn take_due_sync(&mut self) -> Option<Arc<dyn StorageFile>> {
        self.file.take_due_sync()
    }

    fn abandon(self: Box<Self>, why: &NoResult) {
        if matches!(why, NoResult::Failed(_)) {
            self.note(&Err(io::ErrorKind::Other.into()));
        }
        self.give_up();
    }
}

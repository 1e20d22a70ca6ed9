//! Loading the data at start, on all cores, while clients get LOADING errors.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use onrush_engine::loading::empty::empty;
use onrush_engine::loading::load::{LoadError, Rules, check_batch, load_batch, load_end};
use onrush_engine::observe::progress::Report;
use onrush_engine::replication::history::Position;
use onrush_persist::aof::{Chunk, Content, LoadedStreams, LogFile, Manifest, Reader};
use onrush_persist::rdb::{self, Batch, FileReader};
use onrush_persist::storage::{Disk, open_file};
use parking_lot::Mutex;

use crate::data::append_only::{begin_log, continue_log, end_log, folder};
use crate::data::log_state::Making;
use crate::data::replay::replay;
use crate::data::{position, refusal};
use crate::process::os;
use crate::process::server::Server;

/// Threads that decode, at most.
const THREADS_MAX: usize = 16;

/// Loads an RDB file. No other commands are executed meanwhile.
///
/// # Errors
/// It cannot be read, or is malformed; keys loaded by then stay.
pub fn load_file(server: &'static Server, path: &Path, rules: Rules) -> Result<(), LoadError> {
    let file = open_file(path).map_err(onrush_persist::rdb::RdbError::from)?;
    load_rdb(server, FileReader::new(file)?, rules).map(drop)
}

/// Checks that an RDB file can be loaded, as far as that depends on the file alone.
///
/// # Errors
/// As for [`load_file`].
pub fn check_file(server: &'static Server, path: &Path) -> Result<(), LoadError> {
    let file = open_file(path).map_err(onrush_persist::rdb::RdbError::from)?;
    check_rdb(server, FileReader::new(file)?).map(drop)
}

/// Checks an RDB file to its end; returns what reads behind it.
///
/// # Errors
/// As for [`check_file`].
pub(crate) fn check_rdb<R: Read>(
    server: &'static Server,
    mut reader: FileReader<R>,
) -> Result<FileReader<R>, LoadError> {
    if !server.host.config.read().rdbchecksum {
        reader = reader.without_checksum();
    }
    let mut batch = Batch::default();
    while reader.next_batch(&mut batch)? {
        check_batch(server.engine(), &batch)?;
    }
    Ok(reader)
}

/// Loads the items of an RDB file; returns what reads behind it.
///
/// # Errors
/// As for [`load_file`].
pub(crate) fn load_rdb<R: Read + Send>(
    server: &'static Server,
    mut reader: FileReader<R>,
    rules: Rules,
) -> Result<FileReader<R>, LoadError> {
    if !server.host.config.read().rdbchecksum {
        reader = reader.without_checksum();
    }
    server.loading.forget_kept();
    let threads = server.workers.clamp(1, THREADS_MAX);
    let (to_decode, batches) = sync_channel::<Batch>(threads);
    let (to_fill, spare) = sync_channel::<Batch>(2 * threads + 1);
    let batches = Mutex::new(batches);
    std::thread::scope(|scope| {
        let start = |_| {
            let (batches, to_fill) = (&batches, to_fill.clone());
            let decode = move || decode(server, batches, &to_fill, rules);
            std::thread::Builder::new().name("decode".into()).spawn_scoped(scope, decode).ok()
        };
        // The system may refuse some, or all.
        let decoders: Vec<_> = (0..threads).map_while(start).collect();
        if decoders.is_empty() {
            return read_and_decode(server, &mut reader, rules);
        }
        let read = read(server, &mut reader, to_decode, &spare);
        let decoded = decoders.into_iter().map(|decoder| match decoder.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // A malformed value is the error to report; that the reader has stopped only follows from it.
        decoded.collect::<Result<(), _>>().and(read)
    })?;
    load_end(server.engine())?;
    Ok(reader)
}

/// Reads the file, batch by batch; ends early if no thread decodes any more.
fn read<R: Read>(
    server: &Server,
    reader: &mut FileReader<R>,
    to_decode: SyncSender<Batch>,
    spare: &Receiver<Batch>,
) -> Result<(), LoadError> {
    let mut report = Report::new();
    loop {
        let mut batch = spare.try_recv().unwrap_or_default();
        if !reader.next_batch(&mut batch)? || to_decode.send(batch).is_err() {
            return Ok(());
        }
        tell(&mut report, server);
    }
}

/// Reads the file and decodes it on this thread alone.
fn read_and_decode<R: Read>(
    server: &'static Server,
    reader: &mut FileReader<R>,
    rules: Rules,
) -> Result<(), LoadError> {
    let (mut report, mut batch) = (Report::new(), Batch::default());
    while reader.next_batch(&mut batch)? {
        load_batch(server.engine(), &batch, rules)?;
        server.loading.add_bytes(batch.len_bytes() as u64);
        tell(&mut report, server);
    }
    Ok(())
}

fn decode(
    server: &'static Server,
    batches: &Mutex<Receiver<Batch>>,
    to_fill: &SyncSender<Batch>,
    rules: Rules,
) -> Result<(), LoadError> {
    loop {
        let next = batches.lock().recv();
        let Ok(batch) = next else { return Ok(()) };
        load_batch(server.engine(), &batch, rules)?;
        server.loading.add_bytes(batch.len_bytes() as u64);
        // One too many is dropped.
        let _ = to_fill.try_send(batch);
    }
}

/// Logs from time to time how far loading has come.
pub(crate) fn tell(report: &mut Report, server: &Server) {
    let progress = server.loading.progress();
    let (loaded, total) = (progress.loaded_bytes, progress.total_bytes);
    report.tell(loaded, total, |rate, left_s| {
        if total == 0 {
            // It comes over a link, and its length is not known.
            tracing::info!(
                "Loading: {} keys, {:.1} MB, {:.1} MB per second",
                progress.keys,
                loaded as f64 / 1e6,
                rate / 1e6
            );
            return;
        }
        tracing::info!(
            "Loading: {} keys, {:.0} % of {:.1} MB, {:.1} MB per second, about {left_s:.0} seconds left",
            progress.keys,
            loaded as f64 * 100.0 / total as f64,
            total as f64 / 1e6,
            rate / 1e6,
        );
    });
}

/// What was saved before.
pub enum Saved {
    /// Nothing.
    Nothing,
    /// A snapshot.
    Snapshot(PathBuf),
    /// An append-only file, in this folder.
    Log(PathBuf, Manifest),
}

/// Removes files of snapshots whose process was killed.
fn remove_leftovers(server: &Server) {
    let config = server.host.config.read().clone();
    let is_alive = |pid| pid != std::process::id() && os::is_alive(pid);
    for dir in [PathBuf::from(&config.dir), folder(&config)] {
        // The folder of the log may not be there yet.
        for name in rdb::remove_leftovers(&Disk, &dir, is_alive).unwrap_or_default() {
            tracing::info!("Removed {}: its process has ended before the file was complete", dir.join(name).display());
        }
    }
}

/// Finds what was saved before; if there is anything, the server refuses commands that need the data from here on.
///
/// # Errors
/// The system reports an error, or the saved data cannot be used.
pub fn begin_loading(server: &Server) -> Result<Saved, String> {
    remove_leftovers(server);
    let config = server.host.config.read().clone();
    let begin = |bytes| server.loading.begin(server.clock.unix_ms() / 1000, bytes);
    if config.appendonly {
        let dir = PathBuf::from(&config.dir);
        let manifest = Manifest::load_or_upgrade(&Disk, &dir, &folder(&config), &config.appendfilename)
            .map_err(|error| error.to_string())?;
        // Writes wait for the file, also if there is nothing in it yet.
        begin(0);
        let Some(manifest) = manifest else {
            if server.host.snapshot_path().exists() {
                tracing::warn!(
                    "appendonly is yes but there is no append-only file. So the server starts empty, as redis-server \
                     does, and does not load the snapshot {}",
                    server.host.snapshot_path().display()
                );
            }
            return Ok(Saved::Nothing);
        };
        return Ok(Saved::Log(folder(&config), manifest));
    }
    if config.dbfilename.is_empty() {
        // There is no such file; a snapshot then fails, as in Redis.
        return Ok(Saved::Nothing);
    }
    let path = server.host.snapshot_path();
    match std::fs::metadata(&path) {
        Ok(metadata) => {
            begin(metadata.len());
            Ok(Saved::Snapshot(path))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Saved::Nothing),
        Err(error) => Err(format!("Can't look at {}: {error}", path.display())),
    }
}

/// Loads what [`begin_loading`] has found, and begins or continues the append-only file.
///
/// # Errors
/// It cannot be loaded.
pub fn load_at_start(server: &'static Server, saved: Saved) -> Result<(), String> {
    if !server.loading.is_on() {
        return Ok(());
    }
    let started = Instant::now();
    let appends = server.host.config.read().appendonly;
    let manifest = match saved {
        Saved::Nothing => None,
        Saved::Snapshot(path) => {
            let total_bytes = server.loading.progress().total_bytes;
            tracing::info!("Loading {}, {:.1} MB", path.display(), total_bytes as f64 / 1e6);
            load_file(server, &path, Rules::SNAPSHOT).map_err(|error| format!("{}: {error}", path.display()))?;
            let progress = server.loading.progress();
            tracing::info!("Done loading RDB, keys loaded: {}, keys expired: {}.", progress.keys, progress.expired);
            None
        }
        Saved::Log(dir, manifest) => {
            let streams = load_log(server, &dir, &manifest)?;
            Some((dir, manifest, streams))
        }
    };
    tracing::info!("DB loaded from disk: {:.3} seconds", started.elapsed().as_secs_f64());
    let position = match &manifest {
        Some((_, _, streams)) => position::of_log(streams),
        None => server.loading.saved_position(),
    };
    match manifest {
        // The folder as it was when loading began: the configured one may have changed since.
        Some((dir, manifest, streams)) => continue_log(server, dir, manifest, streams)?,
        None if appends => begin_log(server, make_files(server)?)?,
        None => {}
    }
    let (progress, changes) = (server.loading.progress(), server.stats.changes());
    server.snapshots.note(|facts| {
        (facts.loaded_keys, facts.expired_keys) = (progress.keys, progress.expired);
        facts.saved_changes = changes;
    });
    if let Some(position) = position {
        position::restore(server, position).map_err(|error| error.to_string())?;
    }
    let alone = server.gate.exclusive(server.gate.take_turn());
    if server.host.config.read().durability_replicas > 0 || server.durability.may_wait_for_replicas() {
        server.replication.begin_stream(server.engine()).map_err(|error| error.to_string())?;
    }
    server.loading.end();
    drop(alone);
    Ok(())
}

/// Deletes all data and loads the append-only file, while commands that need the data are refused. If the files are not
/// whole, data and log stay as they are. If a command in them fails, the process ends, as it would at its start: the
/// files stay, and nothing else is written to them.
///
/// # Errors
/// There is none, or it is not whole.
pub fn reload_log(server: &'static Server) -> Result<(), String> {
    let name = server.host.config.read().appendfilename.clone();
    let Some(aof) = server.host.append_only.aof() else {
        return Err("there is no append-only file (appendonly is no)".to_owned());
    };
    // The folder where the file is now; the configured folder may have changed since.
    let dir = aof.dir().to_owned();
    drop(aof);
    server.snapshots.wait_for_end();
    let making = make_files(server)?;
    let _held = server.host.replica.hold_stream();
    server.loading.begin(server.clock.unix_ms() / 1000, 0);
    let whole = Whole;
    let keeps_stream = server.replication.history.is_kept();
    let reloaded = try_reload_log(server, &dir, &name, making);
    begin_history(server, keeps_stream);
    std::mem::forget(whole);
    server.loading.end();
    reloaded
}

/// The data has another history from here on: replicas, and a replica itself, need all of it.
fn begin_history(server: &'static Server, keeps_stream: bool) {
    let _alone = server.gate.exclusive(server.gate.take_turn());
    let replication = &server.replication;
    // One that goes on, as loading has failed early, does so as another.
    replication.end_stream(server.engine());
    replication.take_over(Position { id: server.new_replid(), offset: 0 });
    if (keeps_stream || server.durability.may_wait_for_replicas())
        && let Err(error) = replication.begin_stream(server.engine())
    {
        tracing::error!("Can't keep the stream for replicas: {error}");
        replication.history.keep(false);
    }
}

/// Ends the process if it is dropped, by a panic: half of the data is no data.
pub(crate) struct Whole;

impl Drop for Whole {
    fn drop(&mut self) {
        tracing::error!("Fatal error loading the DB: a thread panicked. Exiting.");
        std::process::exit(1);
    }
}

/// Takes the right to make the files of the log.
///
/// # Errors
/// A rewrite has just begun.
fn make_files(server: &Server) -> Result<Making, String> {
    server.host.append_only.make().ok_or_else(|| "a rewrite of the append-only file begins".to_owned())
}

fn try_reload_log(server: &'static Server, dir: &Path, name: &str, making: Making) -> Result<(), String> {
    let alone = server.gate.exclusive(server.gate.take_turn());
    let manifest = Manifest::load(&Disk, dir, name);
    let manifest = manifest.map_err(|error| error.to_string())?.ok_or("there is no manifest")?;
    let ended = end_log(server);
    // What was true of the old log is not of the next.
    refusal::forget_log(server);
    if let Err(error) = ended {
        server.durability.turn_off(server.log.last_lsn(), true);
        drop(alone);
        // The data is whole, the log is not.
        begin_log(server, making)?;
        return Err(error.to_string());
    }
    if let Err(reason) = check_log(server, dir, &manifest) {
        drop(alone);
        continue_log(server, dir.to_owned(), manifest, LoadedStreams::default())?;
        return Err(reason);
    }
    // What is loaded is not what replicas are told next.
    server.replication.end_stream(server.engine());
    empty(server.engine());
    drop(alone);
    let loaded = load_log(server, dir, &manifest)
        .and_then(|_| continue_log(server, dir.to_owned(), manifest, LoadedStreams::default()));
    if let Err(reason) = loaded {
        tracing::error!("Fatal error loading the DB: {reason}. Exiting.");
        std::process::exit(1);
    }
    Ok(())
}

/// Checks that the files of an append-only file are whole.
fn check_log(server: &'static Server, dir: &Path, manifest: &Manifest) -> Result<(), String> {
    let mut reader = Reader::new(Arc::new(Disk), dir, manifest).map_err(|error| error.to_string())?;
    while let Some(file) = reader.next_file().map_err(|error| error.to_string())? {
        let mut commands = match file.content {
            Content::Commands(commands) => commands,
            Content::Rdb(rdb) => {
                let rdb = check_rdb(server, rdb).map_err(|error| format!("{}: {error}", file.name))?;
                LogFile::behind(file.name, file.is_last, rdb)
            }
        };
        let mut chunk = Chunk::default();
        while commands.next_chunk(&mut chunk).map_err(|error| error.to_string())? {}
    }
    Ok(())
}

/// Loads the files of an append-only file, in order; returns what they say of the history that replicas follow.
fn load_log(server: &'static Server, dir: &Path, manifest: &Manifest) -> Result<LoadedStreams, String> {
    let config = server.host.config.read().clone();
    if server.replication.role.is_read_only() && server.replication.role.is_replica() {
        position::cut_behind(dir, manifest).map_err(|error| error.to_string())?;
    }
    let mut streams = LoadedStreams::default();
    let mut reader = Reader::new(Arc::new(Disk), dir, manifest).map_err(|error| error.to_string())?;
    server.loading.begin(server.clock.unix_ms() / 1000, reader.len_bytes());
    while let Some(file) = reader.next_file().map_err(|error| error.to_string())? {
        tracing::info!("Loading {}, {:.1} MB", file.path.display(), file.len as f64 / 1e6);
        let mut commands = match file.content {
            Content::Commands(commands) => commands,
            Content::Rdb(rdb) => {
                let rdb = load_rdb(server, rdb, Rules::LOG_BASE).map_err(|error| format!("{}: {error}", file.name))?;
                LogFile::behind(file.name.clone(), file.is_last, rdb)
            }
        };
        replay(server, &mut commands, &file.path, config.aof_load_truncated)?;
        streams.add(&file.name, &commands);
    }
    Ok(streams)
}

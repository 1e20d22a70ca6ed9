//! The append-only file of the process: turning it on and off, rewriting it, reporting its state.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use onrush_engine::snapshot::output::{NoResult, Output, Purpose};
use onrush_engine::snapshot::run::{self, At, begin};
use onrush_persist::aof::{Aof, AofOptions, FsyncPolicy, Manifest};
use onrush_persist::rdb::{FileOptions, SnapshotFile};
use onrush_persist::storage::{Disk, StorageFile};

use crate::config::Config;
use crate::log_state::Running;
use crate::server::Server;

/// Why neither a snapshot nor a log begins.
pub const BUSY: &str = "a script has the keyspace for itself";

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
    options.on_durable = Box::new(|lsn| server.durability.advance(lsn));
    options
}

/// Takes over settings that have changed.
pub fn refresh(server: &Server, config: &Config) {
    server.durability.set_always(config.appendfsync == "always");
    if let Some(aof) = server.host.append_only.aof() {
        aof.set_policy(policy(config));
        aof.set_timestamps(config.aof_timestamp_enabled);
    }
}

/// Continues a log in `dir` that has been loaded. No thread changes data meanwhile.
///
/// # Errors
/// The system's.
pub fn continue_log(server: &'static Server, dir: PathBuf, manifest: Manifest) -> Result<(), String> {
    let config = server.host.config.read().clone();
    let alone = server.gate.exclusive(server.gate.take_turn());
    server.log.flush();
    let lsn = server.log.last_lsn();
    let aof =
        Aof::open(Arc::new(Disk), options(server, &config, dir), manifest, lsn).map_err(|error| error.to_string())?;
    attach(server, aof, lsn)?;
    server.durability.turn_on();
    drop(alone);
    Ok(())
}

fn attach(server: &'static Server, aof: Arc<Aof>, lsn: u64) -> Result<(), String> {
    let asked = Arc::clone(&aof);
    server.durability.prepare(lsn, Box::new(move |lsn| asked.want_durable(lsn)));
    let sink = aof.attach(&server.log).map_err(|error| error.to_string())?;
    server.host.append_only.begin(Running { aof, sink });
    refresh(server, &server.host.config.read());
    Ok(())
}

/// Begins a log with the present data; it replaces an existing log. `waits`: the thread for snapshots saves the data;
/// otherwise the calling thread does so now.
///
/// # Errors
/// The system's; a snapshot is under way, or a script takes too long.
pub fn begin_log(server: &'static Server, waits: bool) -> Result<(), String> {
    let config = server.host.config.read().clone();
    let _alone = server.alone_unless_busy().ok_or(BUSY)?;
    if server.snapshots.underway().is_some() {
        return Err("a snapshot is under way".to_owned());
    }
    server.log.flush();
    let lsn = server.log.last_lsn();
    let aof = Aof::begin(Arc::new(Disk), options(server, &config, folder(&config)), lsn)
        .map_err(|error| error.to_string())?;
    let output = BaseOutput::new(server, &config, Arc::clone(&aof), Way::First).map_err(|error| error.to_string())?;
    attach(server, aof, lsn)?;
    let underway = begin(server, Box::new(output), Purpose::LogBase, waits).ok_or("a snapshot is under way")?;
    if !waits {
        run::run(server, &underway, At::Alone)?;
    }
    Ok(())
}

/// Ends the log: everything is on the disk when this returns. No thread may be in the keyspace.
///
/// # Errors
/// Not everything is on the disk.
pub fn end_log(server: &Server) -> io::Result<()> {
    let Some(Running { sink, .. }) = server.host.append_only.end() else { return Ok(()) };
    let ended = server.log.detach(sink).map_or(Ok(()), |mut sink| sink.finish());
    server.durability.turn_off();
    ended
}

/// Makes what a rewrite is written to.
///
/// # Errors
/// The system's; there is no log.
pub fn create_base(server: &'static Server) -> io::Result<Box<dyn Output>> {
    let Some(aof) = server.host.append_only.aof() else { return Err(io::Error::other("there is no append-only file")) };
    aof.prepare_rewrite().map_err(io::Error::other)?;
    let config = server.host.config.read().clone();
    match BaseOutput::new(server, &config, Arc::clone(&aof), Way::Again) {
        Ok(output) => Ok(Box::new(output)),
        Err(error) => {
            aof.abort_rewrite();
            Err(error)
        }
    }
}

/// Whether there was a log before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    First,
    Again,
}

/// The base of the log while it is written.
struct BaseOutput {
    server: &'static Server,
    file: SnapshotFile,
    aof: Arc<Aof>,
    way: Way,
    is_rdb: bool,
    started: Instant,
}

impl BaseOutput {
    fn new(server: &'static Server, config: &Config, aof: Arc<Aof>, way: Way) -> io::Result<Self> {
        let is_rdb = config.aof_use_rdb_preamble;
        let options =
            FileOptions { has_checksum: config.rdbchecksum, syncs_often: config.aof_rewrite_incremental_fsync, is_rdb };
        // The configured folder may have changed since; the files stay together.
        let target = aof.dir().join("temp-rewrite.aof");
        let file = SnapshotFile::create(Arc::new(Disk), target, options)?;
        Ok(Self { server, file, aof, way, is_rdb, started: Instant::now() })
    }

    fn settle(&mut self) -> io::Result<u64> {
        let len = self.file.settle()?;
        self.aof.finish_rewrite(self.file.target(), self.is_rdb).map_err(io::Error::other)?;
        Ok(len)
    }

    fn note(&self, result: &io::Result<u64>) {
        self.server.host.append_only.note_rewrite(result, self.started.elapsed().as_secs());
    }
}

impl Output for BaseOutput {
    fn takes_commands(&self) -> bool {
        !self.is_rdb
    }

    fn begin(&mut self, version: u16) -> io::Result<()> {
        if self.way == Way::Again {
            self.server.log.flush();
            self.aof.switch(self.server.log.last_lsn()).map_err(io::Error::other)?;
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
            // The first base may come from a later rewrite, if the first one fails.
            Ok(_) => self.server.durability.turn_on(),
            Err(_) => {
                self.file.remove();
                self.aof.abort_rewrite();
            }
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
        self.file.remove();
        self.aof.abort_rewrite();
    }
}

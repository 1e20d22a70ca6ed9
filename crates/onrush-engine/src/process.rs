//! What commands need of the process around the engine: its configuration, files and sockets, and ending it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::CommandError;
use crate::loading::Present;
use crate::replication::role::Primary;
use crate::snapshot::output::{Output, Purpose};

/// The process around the engine. Unless a method says otherwise, only commands that are not short call these methods,
/// and without a lock of a shard.
pub trait Process: Send + Sync {
    /// The file with all users (`aclfile`), if there is one.
    fn acl_file(&self) -> Option<PathBuf> {
        None
    }

    /// Reads a file; anything else than a file, which may have no end, is an error. Waits for the disk.
    ///
    /// # Errors
    /// The system's.
    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Replaces a file by one with this text: a crash leaves the old one or the new one. Waits for the disk.
    ///
    /// # Errors
    /// The system's.
    fn replace_file(&self, path: &Path, text: &[u8]) -> io::Result<()>;

    /// Fills all of `bytes` with unpredictable numbers (ACL GENPASS).
    ///
    /// # Errors
    /// The system's.
    fn fill_with_random(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// Directives whose names match one of the glob patterns, with their values (CONFIG GET).
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)>;

    /// Changes all of these directives or none (CONFIG SET). `is_local`: the client runs on this machine.
    ///
    /// # Errors
    /// The error to reply with.
    fn config_set(&self, pairs: &[(&[u8], &[u8])], is_local: bool) -> Result<(), CommandError>;

    /// Writes the configuration to its file (CONFIG REWRITE).
    ///
    /// # Errors
    /// The error to reply with.
    fn config_rewrite(&self) -> Result<(), CommandError>;

    /// Whether such a client may use DEBUG.
    fn allows_debug(&self, is_local: bool) -> bool;

    /// Makes the process end (SHUTDOWN). Returns before the end.
    fn shut_down(&self);

    /// As [`Process::shut_down`], once replicas have all or `shutdown-timeout` is over. `words`: `save`, `nosave`, `now`,
    /// `force`. Calls `done` if the process does not end.
    fn end_with_replicas(&self, _words: Vec<&'static str>, done: Done) {
        done(Err(NOT_THERE));
    }

    /// Whether the end waits for replicas at all.
    fn waits_at_end(&self) -> bool {
        false
    }

    /// The end that waits for replicas does not come; returns whether there was one (SHUTDOWN ABORT).
    fn abort_end(&self) -> bool {
        false
    }

    /// Whether the data is to be saved when the process ends.
    fn saves_at_end(&self) -> bool;

    /// Ends the process after the data was saved. The whole keyspace is locked. Returns only if there is no process to
    /// end.
    fn end(&self);

    /// From here on the whole keyspace is locked because the process ends, or (`false`) no longer: saving has failed. While
    /// it is, the process sees to it that the end comes, whatever the disk does.
    fn note_closing(&self, _is_closing: bool) {}

    /// Creates a file, which must not exist (DEBUG COMMAND-LOG). Waits for the disk.
    ///
    /// # Errors
    /// The system's.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn io::Write + Send>>;

    /// Creates the file that a snapshot is written to. The whole keyspace is locked.
    ///
    /// # Errors
    /// The system's.
    fn create_snapshot(&self, purpose: Purpose) -> io::Result<Box<dyn Output>>;

    /// Whether there is a thread that may wait for the disk and begins snapshots ([`Process::begin_snapshot`]).
    fn begins_snapshots(&self) -> bool {
        false
    }

    /// Has that thread begin a snapshot (BGSAVE, BGREWRITEAOF), which the thread for snapshots goes on with. Then it calls
    /// `done`.
    fn begin_snapshot(&self, _purpose: Purpose, done: Begun) {
        done(Err(NotBegun::Failed));
    }

    /// The error where nothing can wait, if CONFIG SET of these pairs has to wait, so that no worker must do it.
    fn config_waits(&self, _pairs: &[(&[u8], &[u8])]) -> Option<CommandError> {
        None
    }

    /// As [`Process::config_set`], for pairs that have to wait: another thread does it, and then calls `done`.
    fn config_set_later(&self, _pairs: Vec<(Vec<u8>, Vec<u8>)>, _is_local: bool, done: Done) {
        done(Err(NOT_THERE));
    }

    /// Why the process must not end now (SHUTDOWN without FORCE), if there is a reason.
    fn must_not_end(&self) -> Option<&'static str> {
        None
    }

    /// Loads the existing snapshot (DEBUG RELOAD). The whole keyspace is locked.
    ///
    /// # Errors
    /// Why it cannot be loaded; a part of it may have been.
    fn load_snapshot(&self, present: Present) -> Result<(), String>;

    /// Checks that the file of the last snapshot can be read; changes nothing.
    ///
    /// # Errors
    /// Why it cannot.
    fn check_snapshot(&self) -> Result<(), String> {
        Ok(())
    }

    /// Deletes all data and loads the append-only file (DEBUG LOADAOF). The calling thread has not entered the keyspace.
    ///
    /// # Errors
    /// Why it cannot be loaded; a part of it may have been.
    fn reload_log(&self) -> Result<(), String>;

    /// What INFO shows of the append-only file.
    fn log_facts(&self) -> LogFacts;

    /// Keeps the calling thread busy for some time (DEBUG STALL).
    fn stall(&self, time: Duration);

    /// Ends the process at once, as a fault does, without saving anything (DEBUG SEGFAULT).
    ///
    /// # Errors
    /// There is no process to end.
    fn crash(&self, _why: &str) -> Result<(), CommandError> {
        Err(NOT_THERE)
    }

    /// Whether the peer of a client's socket has closed it. Called for clients that wait, before they are served; `fd` is
    /// what the client's handle was made with.
    fn has_hung_up(&self, fd: i32) -> bool;

    /// What INFO shows of the configuration and of the connections.
    fn facts(&self) -> Facts;

    /// What INFO shows of the machine and the operating system.
    fn machine(&self) -> Machine;

    /// Makes this server a replica of another one, or a primary (REPLICAOF). The thread that follows a primary does it,
    /// and then calls `done`.
    fn follow(&self, _primary: Option<Primary>, done: Done) {
        done(Err(NOT_THERE));
    }

    /// The role that was asked for and is not there yet: its primary, if it has one.
    fn wanted_role(&self) -> Option<Option<Primary>> {
        None
    }

    /// CPU time of the process so far.
    fn cpu_times(&self) -> CpuTimes;

    /// CPU time of the calling thread so far, in nanoseconds.
    fn thread_cpu_nanos(&self) -> u64;

    /// Connects to another server, or reuses a kept connection unless `anew` (MIGRATE). The thread for long commands
    /// calls this and holds locks of shards.
    ///
    /// # Errors
    /// The system's; `ConnectionRefused` if nobody listens there.
    fn connect(&self, address: &PeerAddress<'_>, anew: bool) -> io::Result<Box<dyn Peer>>;

    /// Whether the thread for long commands gets an error at once wherever it waits for another server, now and from now
    /// on. Several callers may want that: each takes its wish back by itself.
    fn refuse_peers(&self, _refuses: bool) {}
}

/// The reply to SHUTDOWN if the process does not end.
pub const SHUTDOWN_FAILED: CommandError = CommandError::fixed("ERR Errors trying to SHUTDOWN. Check logs.");

/// What is called with the result of a change of the configuration.
pub type Done = Box<dyn FnOnce(Result<(), CommandError>) + Send>;

/// What is called when a snapshot has begun, or could not.
pub type Begun = Box<dyn FnOnce(Result<(), NotBegun>) + Send>;

/// Why a snapshot has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// Another one, for this purpose, is under way.
    Second(Purpose),
    /// A script takes too long.
    Busy,
    /// It cannot be written; why is logged.
    Failed,
}

/// Where another server is.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress<'a> {
    /// A name or an address.
    pub host: &'a [u8],
    /// The port as it was sent.
    pub port: &'a [u8],
    /// How long to wait for the connection, and for the other server at any moment.
    pub timeout: Duration,
}

/// A connection to another server.
pub trait Peer: Send {
    /// Whether it was kept from an earlier command: the other server may have closed it meanwhile.
    fn is_reused(&self) -> bool;

    /// The database that is selected there, if that is known.
    fn selected_db(&self) -> Option<i64>;

    /// Sends all of it.
    ///
    /// # Errors
    /// The system's; `TimedOut` or `WouldBlock` if less than 64 KB could be sent within the timeout.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Reads a line, which is returned without its end.
    ///
    /// # Errors
    /// The system's; `TimedOut` or `WouldBlock` if it does not come within the timeout, `UnexpectedEof` at the end,
    /// `InvalidData` if it is very long.
    fn receive_line(&mut self) -> io::Result<Vec<u8>>;

    /// Keeps the connection for a later command. All replies have been read.
    fn keep(self: Box<Self>, selected_db: Option<i64>);
}

/// What INFO shows of the configuration and of the connections.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Number of the process.
    pub process_id: u32,
    /// The port that the server listens on.
    pub port: u32,
    /// The listeners, as INFO shows them: `name=tcp,bind=127.0.0.1,port=6379`.
    pub listeners: Vec<String>,
    /// How long the end waits for replicas at most, if it waits.
    pub end_in: Option<Duration>,
    /// `hz`.
    pub hz: u64,
    /// Path of the program.
    pub executable: String,
    /// Path of the configuration file, empty if there is none.
    pub config_file: String,
    /// `maxclients`.
    pub maxclients: u64,
    /// `maxmemory-policy`.
    pub maxmemory_policy: &'static str,
    /// `repl-backlog-size` in bytes.
    pub repl_backlog_bytes: u64,
    /// `min-replicas-to-write`.
    pub replicas_min: u64,
    /// `replica-priority`.
    pub replica_priority: u64,
    /// `replica-announced`.
    pub is_replica_announced: bool,
    /// Workers that have connections.
    pub workers_used: usize,
    /// Connections to other servers that are kept for MIGRATE.
    pub peers_kept: usize,
    /// `latency-tracking-info-percentiles`.
    pub latency_percentiles: Vec<f64>,
}

/// What INFO shows of the append-only file.
#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// `appendonly`.
    pub is_on: bool,
    /// How long the last rewrite took, in seconds.
    pub last_rewrite_s: Option<u64>,
    /// Whether the last rewrite failed.
    pub has_rewrite_failed: bool,
    /// Successful rewrites.
    pub rewrites: u64,
    /// Failed rewrites since the last successful one.
    pub failures: u64,
    /// Why writing fails, if it does.
    pub write_error: Option<String>,
    /// The first offset of the stream for replicas that the files have.
    pub stream_start: Option<u64>,
    /// The files.
    pub files: Option<LogFileFacts>,
}

/// What INFO shows of the files of the append-only file.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFileFacts {
    /// Bytes of all files.
    pub size: u64,
    /// Bytes of all files when the last rewrite was done.
    pub base_size: u64,
    /// Bytes that wait to be written.
    pub buffer_len: usize,
    /// Syncs under way.
    pub pending_fsyncs: u64,
    /// How often a sync was late.
    pub delayed_fsyncs: u64,
}

/// What INFO shows of the machine and the operating system.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Kernel, release and architecture.
    pub os: String,
    /// How the process waits for sockets, as in `epoll`.
    pub multiplexing: &'static str,
    /// Memory in bytes; 0 if the system does not tell.
    pub memory_bytes: u64,
}

/// CPU time of the process so far, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// In the kernel.
    pub system_us: u64,
    /// In its own code.
    pub user_us: u64,
}

/// The process of an engine without one: no configuration, no sockets and no files. For tests, and for programs that
/// embed the engine.
pub struct NoProcess;

const NOT_THERE: CommandError =
    CommandError::fixed("ERR not supported where the engine is embedded in another program");

impl Process for NoProcess {
    fn read_file(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn replace_file(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn fill_with_random(&self, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn config_matching(&self, _: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }

    fn config_set(&self, _: &[(&[u8], &[u8])], _: bool) -> Result<(), CommandError> {
        Err(NOT_THERE)
    }

    fn config_rewrite(&self) -> Result<(), CommandError> {
        Err(NOT_THERE)
    }

    fn allows_debug(&self, _: bool) -> bool {
        true
    }

    fn shut_down(&self) {}

    fn create_file(&self, _: &Path) -> io::Result<Box<dyn io::Write + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn saves_at_end(&self) -> bool {
        false
    }

    fn end(&self) {}

    fn load_snapshot(&self, _: Present) -> Result<(), String> {
        Err(NOT_THERE.to_string())
    }

    fn reload_log(&self) -> Result<(), String> {
        Err(NOT_THERE.to_string())
    }

    fn log_facts(&self) -> LogFacts {
        LogFacts::default()
    }

    fn create_snapshot(&self, _: Purpose) -> io::Result<Box<dyn Output>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn stall(&self, _: Duration) {}

    fn has_hung_up(&self, _: i32) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn machine(&self) -> Machine {
        Machine::default()
    }

    fn cpu_times(&self) -> CpuTimes {
        CpuTimes::default()
    }

    fn thread_cpu_nanos(&self) -> u64 {
        0
    }

    fn connect(&self, _: &PeerAddress<'_>, _: bool) -> io::Result<Box<dyn Peer>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

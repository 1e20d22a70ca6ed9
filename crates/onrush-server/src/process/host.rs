//! The process around the engine: its configuration, and what commands ask of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use onrush_engine::ctx::Engine;
use onrush_engine::error::{self, CommandError};
use onrush_engine::loading::Present;
use onrush_engine::loading::load::Rules;
use onrush_engine::process::{Begun, CpuTimes, Done, Facts, LogFacts, Machine, Peer, PeerAddress, Process};
use onrush_engine::replication::role::Primary;
use onrush_engine::snapshot::output::{Output, Purpose};
use onrush_persist::rdb::{FileOptions, SnapshotFile};
use onrush_persist::storage::{Disk, not_a_file};
use onrush_persist::threads;
use parking_lot::{Mutex, RwLock};

use crate::cluster;
use crate::config::{Change, Config, ConfigSetError, Directive, UserLines, os_reason, replace_file};
use crate::data::loading::{check_file, load_file, reload_log};
use crate::data::log_state::{AppendOnly, Owed};
use crate::data::snapshot_file::FileOutput;
use crate::data::{append_only, saving};
use crate::net::listen_change::{Kind, Listening};
use crate::net::peers::Peers;
use crate::process::ending::{Ending, Wish};
use crate::process::files::Files;
use crate::process::options::options;
use crate::process::os;
use crate::process::server::Server;
use crate::{replica, replicas, tls};

/// A change of the configuration that another thread makes, since it waits.
struct LateChange {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    is_local: bool,
    done: Done,
}

/// The directives whose change waits, and for what.
const LATE: &[(&str, &str)] = &[
    (LOG_SWITCH, "it waits for the disk, which no transaction can"),
    ("bind", "it waits for name servers, which no transaction can"),
    ("port", "it waits for new sockets, which no transaction can"),
    ("dir", "it waits for the disk, which no transaction can"),
    ("durability-replicas", "it waits for the whole keyspace, which no transaction can"),
];

/// Most bytes of commands of one connection that wait, whatever the configuration allows: places in them are kept in 32 bits.
const QUERY_BYTES_MAX: u64 = 2 << 30;

const LOG_SWITCH: &str = "appendonly";

const NOT_BEGUN: CommandError = CommandError::fixed("ERR The server has not begun");

/// Why a change of one of these directives waits, if one does: the first one, and the reason.
fn waits<'a>(mut names: impl Iterator<Item = &'a [u8]> + Clone) -> Option<(String, &'static str)> {
    let late = LATE.iter().find(|(late, _)| names.clone().any(|name| is(name, late)));
    let late = late.map(|(name, why)| (name.to_string(), *why));
    late.or_else(|| {
        let name = names.find(|name| is_of_tls(name))?;
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        Some((name, "it waits for the disk, which no transaction can"))
    })
}

fn is_of_tls(name: &[u8]) -> bool {
    name.get(..TLS.len()).is_some_and(|start| is(start, TLS))
}

/// What the names of directives about TLS begin with.
const TLS: &str = "tls-";

/// Whether one of these directives is to be changed.
fn names(pairs: &[(Vec<u8>, Vec<u8>)], wanted: &[&str]) -> bool {
    pairs.iter().any(|(name, _)| wanted.iter().any(|wanted| is(name, wanted)))
}

/// The part of the process that several threads share.
pub struct Host {
    /// The configuration.
    pub config: RwLock<Config>,
    /// Path of the configuration file, if there is one.
    config_file: Option<PathBuf>,
    /// Held while the configuration changes, so that no concurrent change is lost.
    config_changes: Mutex<()>,
    /// The server around this and the engine, once there is one.
    server: OnceLock<&'static Server>,
    /// `client-query-buffer-limit` in bytes.
    pub query_limit_bytes: AtomicUsize,
    /// `gather-connections`.
    pub gathers: AtomicBool,
    /// `busy-poll-us`.
    pub busy_poll_us: AtomicU64,
    /// How many workers have connections: the first ones.
    pub workers_used: AtomicUsize,
    /// Connections there are now.
    pub connected: AtomicUsize,
    /// Where the server listens. Held while that changes, which takes as long as name servers take.
    listening: OnceLock<Mutex<Listening>>,
    /// Changes of the configuration that wait.
    changes: OnceLock<Sender<LateChange>>,
    /// The append-only file.
    pub append_only: AppendOnly,
    /// Files that are there while the server runs.
    pub files: Mutex<Files>,
    /// Handshakes of TLS.
    pub tls: tls::service::Service,
    /// Connections to other servers.
    pub peers: Arc<Peers>,
    /// What the thread that follows a primary is asked.
    pub replica: replica::Service,
    /// The way to the thread that serves replicas.
    pub replicas: replicas::Service,
    /// Which workers have not finished a round for a while.
    pub stuck: Box<[AtomicBool]>,
    /// Whether the process ends.
    pub is_ending: AtomicBool,
    /// Whether a thread keeps the whole keyspace locked because the process ends: clients get no replies any more.
    pub is_closing: AtomicBool,
    /// Has the file of nodes of a cluster take over what is to be in it soon, and writes nothing after that.
    pub end_of_nodes: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The end that waits for replicas.
    pub ending: Ending,
    /// Gets a message when the server is to stop.
    pub shutdown: tokio::sync::Notify,
}

impl Host {
    /// With this configuration; nothing runs yet.
    pub fn new(config: Config, config_file: Option<PathBuf>) -> Self {
        let host = Self {
            config_file,
            config_changes: Mutex::new(()),
            server: OnceLock::new(),
            query_limit_bytes: AtomicUsize::new(0),
            gathers: AtomicBool::new(false),
            busy_poll_us: AtomicU64::new(0),
            workers_used: AtomicUsize::new(if config.gather_connections { 1 } else { config.workers }),
            connected: AtomicUsize::new(0),
            listening: OnceLock::new(),
            changes: OnceLock::new(),
            append_only: AppendOnly::default(),
            files: Mutex::default(),
            tls: tls::service::Service::default(),
            peers: Arc::default(),
            replica: replica::Service::default(),
            replicas: replicas::Service::default(),
            stuck: (0..config.workers).map(|_| AtomicBool::new(false)).collect(),
            is_ending: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            end_of_nodes: OnceLock::new(),
            ending: Ending::default(),
            shutdown: tokio::sync::Notify::new(),
            config: RwLock::new(config),
        };
        host.refresh(&host.config.read());
        host
    }

    /// The worker for a new connection: one of those in use, unless they are all stuck and another one is not.
    pub fn worker_for(&self, id: u64) -> usize {
        let (all, used) = (self.stuck.len().max(1), self.workers_used.load(Relaxed));
        let used = used.clamp(1, all);
        let first = id as usize % used;
        let in_turn = (0..used).map(|nth| (first + nth) % used);
        let is_free = |worker: &usize| !self.stuck.get(*worker).is_some_and(|stuck| stuck.load(Relaxed));
        in_turn.chain(used..all).find(is_free).unwrap_or(first)
    }

    /// Sets the server that follows changes of the configuration, and that has the data. Call this once.
    pub fn set_server(&self, server: &'static Server) {
        // This is called once.
        let _ = self.server.set(server);
    }

    fn server(&self) -> Result<&'static Server, &'static str> {
        self.server.get().copied().ok_or("the server has not begun")
    }

    fn engine(&self) -> Option<&'static Engine> {
        self.server.get().map(|server| server.engine())
    }

    /// The file that the data is saved in.
    pub fn snapshot_path(&self) -> PathBuf {
        let config = self.config.read();
        Path::new(&config.dir).join(&config.dbfilename)
    }

    /// Takes over the settings of a changed configuration.
    fn refresh(&self, config: &Config) {
        self.query_limit_bytes.store(config.client_query_buffer_limit.min(QUERY_BYTES_MAX) as usize, Relaxed);
        self.gathers.store(config.gather_connections, Relaxed);
        self.busy_poll_us.store(config.busy_poll_us, Relaxed);
        if let Some(server) = self.server.get() {
            server.set(&options(config));
            cluster::configure(server.engine(), config);
            append_only::refresh(server, config);
        }
    }

    /// From now on the server can be told to listen elsewhere. Call this once.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start_changing(&'static self, listening: Listening) -> io::Result<()> {
        let (sender, changes) = channel::<LateChange>();
        threads::start("config", move || {
            for LateChange { pairs, is_local, done } in changes {
                done(self.set_and_listen(&pairs, is_local));
            }
        })?;
        // This is called once.
        let _ = (self.listening.set(Mutex::new(listening)), self.changes.set(sender));
        Ok(())
    }

    /// Changes the configuration and listens where it says. Waits for name servers, for the first thread, and for the log
    /// if it is turned on or off, so no thread may call this that others wait for.
    ///
    /// # Errors
    /// The error reply: nothing is changed.
    fn set_and_listen(&self, pairs: &[(Vec<u8>, Vec<u8>)], is_local: bool) -> Result<(), CommandError> {
        let Some(listening) = self.listening.get() else { return self.set_in_time(pairs, is_local) };
        let mut listening = listening.lock();
        let before = self.config.read().clone();
        let borrowed = borrowed(pairs);
        let reply = |error: ConfigSetError| error_reply(&error, &borrowed);
        let change = before.set_many(&borrowed, is_local).map_err(reply)?;
        let replaced = self.encrypt_as(&change).map_err(|directive| {
            reply(ConfigSetError::failed(directive, "Unable to update TLS configuration. Check server logs."))
        })?;
        let is_address = |directive: &&&Directive| matches!(directive.name, "bind" | "port" | "tls-port");
        let listens = match change.changed.iter().find(is_address) {
            Some(directive) => listening.change(&change.config).map_err(|error| {
                tracing::warn!("{error}. Nothing is changed.");
                let text = match directive.name {
                    "bind" => "Failed to bind to specified addresses.",
                    _ => "Unable to listen on this port. Check server logs.",
                };
                reply(ConfigSetError::failed(directive.name, text))
            }),
            None => Ok(()),
        };
        // Other directives may have changed meanwhile, but these only change here.
        let changed = listens.and_then(|()| {
            self.set_in_time(pairs, is_local).inspect_err(|_| {
                if let Err(error) = listening.change(&before) {
                    tracing::error!("Can't listen on the previous addresses again: {error}");
                }
            })
        });
        if let (Err(_), Some(before)) = (&changed, replaced) {
            self.tls.replace(before);
        }
        changed
    }

    /// Reads the files of TLS if the change concerns them, and uses them from now on. Returns what was used before.
    ///
    /// # Errors
    /// The name of a directive, after a line in the log: nothing is changed.
    fn encrypt_as(&self, change: &Change) -> Result<Option<Option<tls::Contexts>>, &'static str> {
        let concerned = change.changed.iter().find(|directive| is_of_tls(directive.name.as_bytes()));
        let Some(directive) = concerned.filter(|_| tls::is_used(&change.config)) else { return Ok(None) };
        match tls::Contexts::read(&change.config) {
            Ok(contexts) => Ok(Some(self.tls.replace(Some(contexts)))),
            Err(error) => {
                tracing::warn!("Failed to configure TLS: {error}. Nothing is changed.");
                Err(directive.name)
            }
        }
    }

    /// As [`Host::set`]; the thread for files does it if the log is turned on or off.
    ///
    /// # Errors
    /// The error reply: nothing is changed.
    fn set_in_time(&self, pairs: &[(Vec<u8>, Vec<u8>)], is_local: bool) -> Result<(), CommandError> {
        if !names(pairs, &[LOG_SWITCH]) {
            return self.config_set(&borrowed(pairs), is_local);
        }
        let (tell, told) = channel();
        switch_log(pairs.to_vec(), is_local, Box::new(move |result| _ = tell.send(result)));
        told.recv().unwrap_or(Err(NOT_BEGUN))
    }

    /// Changes the configuration, and does nothing that waits: the log is turned on already, or is turned off later, and
    /// the server listens where it is to listen.
    ///
    /// # Errors
    /// Why nothing is changed.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], is_local: bool) -> Result<(), ConfigSetError> {
        let _alone = self.config_changes.lock();
        // The lock keeps other changes out. Readers go on.
        let before = self.config.read().clone();
        let change = before.set_many(pairs, is_local)?;
        for (done, directive) in change.changed.iter().enumerate() {
            if let Err(error) = self.apply(directive, &change.config) {
                for directive in &change.changed[..done] {
                    // Directives that were applied before the failed one go back to their old values.
                    let _ = self.apply(directive, &before);
                }
                return Err(error);
            }
        }
        // In this order: who applies the configuration by itself holds it meanwhile, so the new one is applied last.
        *self.config.write() = change.config.clone();
        self.refresh(&change.config);
        // Loading, during which none begins, may have ended since it was applied.
        if change.config.durability_replicas > 0
            && let Some(engine) = self.engine()
            && let Err(error) = begin_stream(engine)
        {
            tracing::error!("Can't keep a stream for replicas: {error}");
        }
        // It replaces what ACL SETUSER has said, which could not be taken back.
        if let Some(engine) = self.engine()
            && change.changed.iter().any(|directive| directive.name == "requirepass")
        {
            engine.users.set_default_password(&change.config.requirepass);
        }
        Ok(())
    }

    /// The configuration with the primary that REPLICAOF has given: the role is kept in one place, which is not here.
    fn present_config(&self) -> Config {
        let config = self.config.read().clone();
        let Some(engine) = self.engine() else { return config };
        if engine.cluster.is_some() {
            // A node finds its primary in the file of nodes.
            return config;
        }
        match self.replica.wanted().unwrap_or_else(|| engine.replication.role.primary()) {
            Some(Primary { host, port }) => config.with_primary(&format!("{host} {port}")),
            None => config.with_primary(""),
        }
    }

    /// The users as CONFIG REWRITE writes them.
    fn user_lines(&self, config: &Config) -> UserLines {
        let Some(engine) = self.engine() else { return UserLines::default() };
        let all = config.aclfile.is_empty().then(|| engine.users.all().iter().map(|user| user.line()).collect());
        UserLines { all, plain_default: engine.users.plain_default(&config.requirepass) }
    }

    /// Ends the process. The whole keyspace is locked. `is_lost`: something that should have been saved was not.
    pub fn exit(&self, is_lost: bool) -> ! {
        self.note_closing(true);
        self.is_ending.store(true, Relaxed);
        let ended = self.server.get().map_or(Ok(()), |server| append_only::end_log(server));
        // Behind the data, as its disk may not answer.
        if let Some(end_of_nodes) = self.end_of_nodes.get() {
            end_of_nodes();
        }
        self.files.lock().remove();
        // All other threads end with the process.
        if let Err(error) = &ended {
            // Replies that wait for the disk are never sent.
            tracing::error!("The end of the append-only file is lost, exit code 1: {error}");
        }
        if is_lost || ended.is_err() {
            std::process::exit(1);
        }
        tracing::warn!("Onrush is now ready to exit, bye bye...");
        std::process::exit(0);
    }

    /// Does what a changed directive needs beyond its new value.
    fn apply(&self, directive: &Directive, config: &Config) -> Result<(), ConfigSetError> {
        let failed = |reason: String| ConfigSetError::failed(directive.name, reason);
        match directive.name {
            "dir" => {
                std::env::set_current_dir(&config.dir).map_err(|error| failed(os_reason(&error)))?;
                if let Some(aof) = self.append_only.aof() {
                    tracing::warn!(
                        "The append-only file stays in {} until appendonly is turned off and on",
                        aof.dir().display()
                    );
                }
                Ok(())
            }
            "durability-replicas" => {
                if let Some(engine) = self.engine().filter(|_| config.durability_replicas > 0) {
                    begin_stream(engine).map_err(|error| failed(error.to_string()))?;
                }
                Ok(())
            }
            "loglevel" => {
                crate::log::set_level(config.loglevel);
                Ok(())
            }
            "maxclients" => {
                let allowed = os::clients_allowed(config.maxclients, config.workers);
                if allowed == config.maxclients {
                    return Ok(());
                }
                Err(failed(format!(
                    "The operating system is not able to handle the specified number of clients, try with {allowed}"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Process for Host {
    fn acl_file(&self) -> Option<PathBuf> {
        let config = self.config.read();
        (!config.aclfile.is_empty()).then(|| PathBuf::from(&config.aclfile))
    }

    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        if std::fs::metadata(path)?.is_file() { std::fs::read(path) } else { Err(not_a_file()) }
    }

    fn replace_file(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        replace_file(path, text)
    }

    fn fill_with_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        File::open("/dev/urandom")?.read_exact(bytes)
    }

    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        self.present_config().get_matching(patterns)
    }

    fn config_set(&self, pairs: &[(&[u8], &[u8])], is_local: bool) -> Result<(), CommandError> {
        self.set(pairs, is_local).map_err(|error| error_reply(&error, pairs))
    }

    fn config_waits(&self, pairs: &[(&[u8], &[u8])]) -> Option<CommandError> {
        let (name, why) = waits(pairs.iter().map(|(name, _)| *name))?;
        Some(CommandError::text(ConfigSetError::failed(&name, why).to_string()))
    }

    fn config_set_later(&self, pairs: Vec<(Vec<u8>, Vec<u8>)>, is_local: bool, done: Done) {
        let is_of_log = names(&pairs, &[LOG_SWITCH])
            && !names(&pairs, &["bind", "port"])
            && !pairs.iter().any(|(name, _)| is_of_tls(name));
        match self.changes.get() {
            _ if is_of_log => switch_log(pairs, is_local, done),
            // The thread ends with the process.
            Some(changes) => _ = changes.send(LateChange { pairs, is_local, done }),
            None => done(Err(NOT_BEGUN)),
        }
    }

    fn begins_snapshots(&self) -> bool {
        true
    }

    fn begin_snapshot(&self, purpose: Purpose, done: Begun) {
        saving::pass_on(Box::new(move |server| done(saving::begin_now(server, purpose))));
    }

    fn must_not_end(&self) -> Option<&'static str> {
        // A replica gets the data again.
        let is_primary = self.server.get().is_some_and(|server| !server.replication.role.is_replica());
        let is_missed = self.append_only.lacks_base() || is_primary && self.append_only.owed() != Owed::Nothing;
        is_missed.then_some("Writing initial AOF, can't exit.")
    }

    fn config_rewrite(&self) -> Result<(), CommandError> {
        // A copy, so that the configuration is not locked while the disk works.
        let config = self.present_config();
        config.rewrite(self.config_file.as_deref(), &self.user_lines(&config)).map_err(|error| {
            tracing::warn!("CONFIG REWRITE failed: {error}");
            CommandError::text(error.to_string())
        })?;
        tracing::info!("CONFIG REWRITE executed with success.");
        Ok(())
    }

    fn allows_debug(&self, is_local: bool) -> bool {
        self.config.read().enable_debug_command.allows(is_local)
    }

    fn shut_down(&self) {
        self.shutdown.notify_one();
    }

    fn end_with_replicas(&self, words: Vec<&'static str>, done: Done) {
        self.ending.wish(Wish { words, done: Some(done) });
    }

    fn waits_at_end(&self) -> bool {
        self.config.read().shutdown_timeout > 0
    }

    fn abort_end(&self) -> bool {
        self.ending.abort()
    }

    fn saves_at_end(&self) -> bool {
        !self.config.read().save.is_empty()
    }

    fn end(&self) {
        self.exit(false);
    }

    fn note_closing(&self, is_closing: bool) {
        self.is_closing.store(is_closing, Relaxed);
    }

    fn load_snapshot(&self, present: Present) -> Result<(), String> {
        let rules = Rules { present, ..Rules::SNAPSHOT };
        load_file(self.server()?, &self.snapshot_path(), rules).map_err(|error| error.to_string())
    }

    fn check_snapshot(&self) -> Result<(), String> {
        check_file(self.server()?, &self.snapshot_path()).map_err(|error| error.to_string())
    }

    fn reload_log(&self) -> Result<(), String> {
        reload_log(self.server()?)
    }

    fn log_facts(&self) -> LogFacts {
        let is_loading = self.engine().is_some_and(|engine| engine.loading.is_on());
        self.append_only.facts(is_loading && self.config.read().appendonly)
    }

    fn create_snapshot(&self, purpose: Purpose) -> io::Result<Box<dyn Output>> {
        match purpose {
            Purpose::File => {}
            Purpose::LogBase => return append_only::create_base(self.server().map_err(io::Error::other)?),
            Purpose::Replicas => {
                return Ok(Box::new(replicas::PayloadOutput::new(self.server().map_err(io::Error::other)?)?));
            }
            // These make their outputs themselves.
            Purpose::Slots => return Err(io::ErrorKind::Unsupported.into()),
        }
        let options = {
            let config = self.config.read();
            FileOptions {
                has_checksum: config.rdbchecksum,
                // The watchdog looks whether the last snapshot goes on.
                syncs_often: config.rdb_save_incremental_fsync || self.is_closing.load(Relaxed),
                is_rdb: true,
            }
        };
        Ok(Box::new(FileOutput::new(SnapshotFile::create(Arc::new(Disk), self.snapshot_path(), options)?)))
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn io::Write + Send>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn stall(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn crash(&self, why: &str) -> Result<(), CommandError> {
        tracing::error!("{why}: the process ends at once");
        crate::log::wait();
        std::process::abort()
    }

    fn has_hung_up(&self, fd: i32) -> bool {
        os::is_hung_up(fd)
    }

    fn facts(&self) -> Facts {
        let config = self.config.read();
        let tcp = |kind: Kind| {
            let addresses: String = config.bind.iter().map(|address| format!(",bind={address}")).collect();
            let port = kind.port(&config);
            (port != 0).then(|| format!("name={}{addresses},port={port}", kind.name()))
        };
        let unix = (!config.unixsocket.is_empty()).then(|| format!("name=unix,bind={}", config.unixsocket));
        let listeners = [tcp(Kind::Plain), unix, tcp(Kind::Tls)].into_iter().flatten().collect();
        Facts {
            process_id: std::process::id(),
            port: if config.port != 0 { config.port } else { config.tls_port } as u32,
            listeners,
            end_in: self.ending.left(),
            hz: config.hz,
            executable: std::env::current_exe().unwrap_or_default().display().to_string(),
            config_file: self.config_file.as_deref().map(|file| file.display().to_string()).unwrap_or_default(),
            maxclients: config.maxclients,
            maxmemory_policy: config.maxmemory_policy,
            repl_backlog_bytes: config.repl_backlog_size,
            replica_priority: config.replica_priority,
            replicas_min: config.min_replicas_to_write,
            is_replica_announced: config.replica_announced,
            workers_used: self.workers_used.load(Relaxed),
            peers_kept: self.peers.count(),
            latency_percentiles: config.latency_tracking_info_percentiles.clone(),
        }
    }

    fn machine(&self) -> Machine {
        Machine {
            os: os::name(),
            multiplexing: if cfg!(target_os = "linux") { "epoll" } else { "kqueue" },
            memory_bytes: os::machine_memory_bytes(),
        }
    }

    fn follow(&self, primary: Option<Primary>, done: Done) {
        self.replica.ask(replica::Request { primary, ..Default::default() }, done);
    }

    fn wanted_role(&self) -> Option<Option<Primary>> {
        self.replica.wanted()
    }

    fn cpu_times(&self) -> CpuTimes {
        os::cpu_times()
    }

    fn thread_cpu_nanos(&self) -> u64 {
        os::thread_cpu_nanos()
    }

    fn connect(&self, address: &PeerAddress<'_>, anew: bool) -> io::Result<Box<dyn Peer>> {
        self.peers.connect(address, anew)
    }

    fn refuse_peers(&self, refuses: bool) {
        match refuses {
            true => self.peers.refuse(),
            false => self.peers.allow(),
        }
    }
}

/// Gives each write a place in the stream from here on, though there may be no replica. The calling thread has not entered
/// the gate.
///
/// # Errors
/// The system's; a script takes too long.
pub fn begin_stream(engine: &'static Engine) -> io::Result<()> {
    let replication = &engine.replication;
    if replication.role.is_replica() || replication.history.is_kept() {
        return Ok(());
    }
    let _alone = engine.alone_unless_busy().ok_or_else(|| io::Error::other("a script takes too long"))?;
    // What is loaded is no part of it: it begins behind that.
    if engine.loading.is_on() {
        return Ok(());
    }
    replication.begin_stream(engine)
}

/// Whether a name that was sent is this one.
fn is(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}

/// Has the thread for files change the configuration, as that turns the log on or off.
fn switch_log(pairs: Vec<(Vec<u8>, Vec<u8>)>, is_local: bool, done: Done) {
    saving::pass_on(Box::new(move |server| done(append_only::configure(server, &pairs, is_local))));
}

/// Pairs of CONFIG SET, as most functions take them.
pub fn borrowed(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    pairs.iter().map(|(name, value)| (&name[..], &value[..])).collect()
}

/// The error as a reply, which quotes an unknown name byte for byte even if it is no UTF-8.
pub fn error_reply(error: &ConfigSetError, pairs: &[(&[u8], &[u8])]) -> CommandError {
    let ConfigSetError::Unknown { name: unknown } = error else { return CommandError::text(error.to_string()) };
    let sent = pairs.iter().find(|(name, _)| String::from_utf8_lossy(name) == *unknown);
    let name = sent.map_or(unknown.as_bytes(), |(name, _)| name);
    CommandError::bytes(
        [b"ERR Unknown option or number of arguments for CONFIG SET - '", error::quoted(name), b"'"].concat(),
    )
}

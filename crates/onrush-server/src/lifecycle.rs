//! From start to end: what `onrush-server` does around serving.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use onrush_alloc as alloc;
use onrush_engine::long::LongWorker;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::listener::Listeners;
use crate::mailbox::Mailbox;
use crate::server::Server;
use crate::{cron, os, watchdog, worker};

/// Files a server needs open beside its clients' connections.
const RESERVED_FILES: u64 = 32;

/// Runs a server with this configuration until it is told to stop.
///
/// Goes to the background first if `daemonize` says so; no thread may run yet. Errors are logged; the exit code says whether there
/// were any.
pub fn run(mut config: Config, config_file: Option<PathBuf>) -> ExitCode {
    alloc::set_up();
    if let Err(error) = std::env::set_current_dir(&config.dir) {
        eprintln!("Can't chdir to '{}': {error}", config.dir);
        return ExitCode::FAILURE;
    }
    let daemonized = config.daemonize;
    if daemonized && let Err(error) = os::daemonize() {
        eprintln!("Can't go to the background: {error}");
        return ExitCode::FAILURE;
    }
    if let Err(error) = crate::log::init(&config) {
        eprintln!("Can't open the log file: {error}");
        return ExitCode::FAILURE;
    }
    adjust_maxclients(&mut config);
    match start(config, config_file, daemonized) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// How many clients the limit of open files allows, `wanted` at most; raises the limit where it may.
pub fn clients_allowed(wanted: u64) -> u64 {
    os::raise_open_files(wanted + RESERVED_FILES).saturating_sub(RESERVED_FILES).clamp(1, wanted)
}

/// Lowers `maxclients` to what the limit of open files allows.
fn adjust_maxclients(config: &mut Config) {
    let (wanted, allowed) = (config.maxclients, clients_allowed(config.maxclients));
    if allowed < wanted {
        tracing::warn!(
            "maxclients is lowered from {wanted} to {allowed}: this process may open no more files \
             (raise the limit with 'ulimit -n')"
        );
        config.lower_maxclients(allowed);
    }
}

fn start(config: Config, config_file: Option<PathBuf>, daemonized: bool) -> Result<(), String> {
    let text = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    tracing::info!(
        "Onrush {} is starting, pid={}, workers={}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.workers
    );
    if !config.users.is_empty() {
        return Err("ACL users are not supported yet: take the 'user' lines out of the configuration".to_owned());
    }
    let listeners = Listeners::bind(&config)?;
    let files = Files::create(&config, daemonized);
    let server = Server::new(config, config_file).map_err(text("Can't start"))?;
    let workers: Vec<Arc<Mailbox>> = (0..server.workers)
        .map(|thread| worker::start(server, thread))
        .collect::<Result<_, _>>()
        .map_err(text("Can't start a worker"))?;
    let workers: Arc<[Arc<Mailbox>]> = workers.into();
    start_long_thread(server).map_err(text("Can't start the thread for long commands"))?;
    watchdog::start(server, Arc::clone(&workers)).map_err(text("Can't start the watchdog"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(text("Can't start the maintenance thread"))?;
    runtime.block_on(serve(server, listeners, workers)).map_err(text("Can't serve"))?;
    // Whoever has the keyspace for himself keeps every batch from going on, so nothing is cut off half-way.
    let _alone = server.alone_unless_busy();
    files.remove();
    tracing::warn!("Onrush is now ready to exit, bye bye...");
    // Worker threads end with the process.
    std::process::exit(0);
}

/// Starts the thread for long commands.
fn start_long_thread(server: &'static Server) -> std::io::Result<()> {
    let run = || {
        if let Some(worker) = LongWorker::new(server) {
            worker.run();
        }
    };
    std::thread::Builder::new().name("long".into()).spawn(run)?;
    Ok(())
}

/// Serves until a signal or SHUTDOWN.
async fn serve(server: &'static Server, listeners: Listeners, workers: Arc<[Arc<Mailbox>]>) -> std::io::Result<()> {
    for ending in [SignalKind::terminate(), SignalKind::interrupt()] {
        end_at_second(ending)?;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Taken so that they do not end the process.
    let _hangup = signal(SignalKind::hangup())?;
    let (listening, changes) = tokio::sync::mpsc::unbounded_channel();
    // There is one such call.
    let _ = server.host.listening.set(listening);
    let mut accepting = tokio::spawn(listeners.serve(server, Arc::clone(&workers), changes));
    tokio::spawn(cron::run(server, workers));
    tracing::info!("Ready to accept connections on port {}", server.host.port.load(Relaxed));
    tokio::select! {
        _ = terminate.recv() => tracing::warn!("Received SIGTERM, shutting down..."),
        _ = interrupt.recv() => tracing::warn!("Received SIGINT, shutting down..."),
        ended = &mut accepting => ended??,
        () = server.host.shutdown.notified() => tracing::warn!("User requested shutdown..."),
    }
    accepting.abort();
    Ok(())
}

/// Has the second signal of a kind end the process with exit code 1 from within the signal's handler: also when no thread
/// gets to ending in order any more.
fn end_at_second(kind: SignalKind) -> std::io::Result<()> {
    let was_sent = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(kind.as_raw_value(), 1, Arc::clone(&was_sent))?;
    signal_hook::flag::register(kind.as_raw_value(), was_sent)?;
    Ok(())
}

/// Files that are there while the server runs.
struct Files(Vec<PathBuf>);

impl Files {
    /// Writes the pid file, by default only in the background; remembers the Unix socket.
    fn create(config: &Config, daemonized: bool) -> Self {
        let mut files = Vec::new();
        let pidfile = match config.pidfile.as_str() {
            "" if daemonized => "/var/run/onrush.pid",
            path => path,
        };
        if !pidfile.is_empty() {
            match std::fs::write(pidfile, format!("{}\n", std::process::id())) {
                Ok(()) => files.push(PathBuf::from(pidfile)),
                Err(error) => tracing::warn!("Failed to write PID file {pidfile}: {error}"),
            }
        }
        if !config.unixsocket.is_empty() {
            files.push(PathBuf::from(&config.unixsocket));
        }
        Self(files)
    }

    fn remove(&self) {
        for file in &self.0 {
            // It may be gone already, and there is nobody left to tell.
            let _ = std::fs::remove_file(file);
        }
    }
}

//! From start to end: what `onrush-server` does around serving.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use onrush_alloc as alloc;
use onrush_engine::gate::Exclusive;
use onrush_engine::long::worker::{LongTasks, LongWorker};
use onrush_engine::process::{Process, SHUTDOWN_FAILED};
use onrush_engine::settings::Hold;
use onrush_persist::threads;
use onrush_resp::REDIS_VERSION;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::cluster::Bus;
use crate::config::{Config, fatal_error, os_reason};
use crate::data::loading::{begin_loading, load_at_start};
use crate::data::saving::{self, NotSaved, save_at_end};
use crate::net::listener::Listeners;
use crate::net::metrics;
use crate::process::ending::Wish;
use crate::process::files::Files;
use crate::process::host::begin_stream;
use crate::process::os;
use crate::process::server::Server;
use crate::process::supervisor::Supervisor;
use crate::workers::mailbox::{self, Mailbox};
use crate::workers::{cron, watchdog, worker};
use crate::{replica, replicas, tls};

/// Runs a server with this configuration until a signal or SHUTDOWN stops it.
///
/// Goes to the background first if `daemonize` is on; no thread may run yet. Logs errors; the exit code shows whether
/// there were any.
pub fn run(mut config: Config, config_file: Option<PathBuf>) -> ExitCode {
    alloc::set_up();
    if let Err(error) = std::env::set_current_dir(&config.dir) {
        eprintln!("Can't chdir to '{}': {error}", config.dir);
        return ExitCode::FAILURE;
    }
    if let Err(error) = crate::log::init(&config) {
        eprintln!("\n{}\nCan't open the log file: {}", fatal_error(), os_reason(&error));
        return ExitCode::FAILURE;
    }
    threads::set_last_words(|reason| {
        tracing::error!("{reason}");
        crate::log::wait();
    });
    let supervisor = Supervisor::find(config.supervised);
    let daemonized = config.daemonize && !supervisor.is_there();
    if daemonized && let Err(error) = os::daemonize() {
        eprintln!("Can't go to the background: {error}");
        return ExitCode::FAILURE;
    }
    adjust_maxclients(&mut config);
    if let Err(error) = crate::log::start_thread() {
        eprintln!("Can't start the thread that writes the log: {error}");
        return ExitCode::FAILURE;
    }
    let started = start(config, config_file, daemonized, supervisor);
    match started {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Lowers `maxclients` to what the limit of open files allows.
fn adjust_maxclients(config: &mut Config) {
    let (wanted, allowed) = (config.maxclients, os::clients_allowed(config.maxclients, config.workers).max(1));
    if allowed < wanted {
        tracing::warn!(
            "maxclients is lowered from {wanted} to {allowed}: this process may not open more files \
             (raise the limit with 'ulimit -n')"
        );
        config.lower_maxclients(allowed);
    }
}

fn start(config: Config, config_file: Option<PathBuf>, daemonized: bool, supervisor: Supervisor) -> Result<(), String> {
    let text = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    tracing::info!(
        "Onrush {} is starting in place of Redis version={REDIS_VERSION}, bits={}, pid={}, workers={}",
        env!("CARGO_PKG_VERSION"),
        usize::BITS,
        std::process::id(),
        config.workers
    );
    for (directive, why) in config.without_effect() {
        tracing::warn!("{directive} has no effect: {why}");
    }
    // Programs that start a server by themselves look for this line and for those of its readiness.
    let mode = if config.cluster_enabled { "cluster" } else { "standalone" };
    tracing::info!("Running mode={mode}, port={}.", if config.port == 0 { config.tls_port } else { config.port });
    let contexts = match tls::is_used(&config) {
        true => Some(tls::Contexts::read(&config).map_err(|error| {
            tracing::warn!("Failed to configure TLS: {error}");
            "Failed to configure TLS. Check logs for more info."
        })?),
        false => None,
    };
    let listeners = Listeners::bind(&config)?;
    let bus = Bus::open(&config)?;
    let files = Files::create(&config, daemonized);
    let server = Server::new(config, config_file).map_err(text("Can't start"))?;
    crate::log::set_role(|| server.replication.role.is_replica());
    server.make_users()?;
    *server.host.files.lock() = files;
    server.host.tls.replace(contexts);
    let workers: Vec<Arc<Mailbox>> = (0..server.workers)
        .map(|thread| worker::start(server, thread))
        .collect::<Result<_, _>>()
        .map_err(text("Can't start a worker"))?;
    let workers: Arc<[Arc<Mailbox>]> = workers.into();
    let owners = Arc::clone(&workers);
    server.lazyfree.set_take_back(move || {
        let (used, maxmemory) = (server.used_memory(), server.eviction.maxmemory());
        let may_wait = maxmemory == 0 || used <= maxmemory;
        if may_wait {
            mailbox::have_all_take_back(&owners);
        }
        may_wait
    });
    start_long_thread(server).map_err(text("Can't start the thread for long commands"))?;
    saving::start_thread(server).map_err(text("Can't start the thread for snapshots"))?;
    replica::begin(server);
    replicas::start(server).map_err(text("Can't start the thread that serves replicas"))?;
    saving::start_looking(server).map_err(text("Can't start the thread that saves the data"))?;
    watchdog::start(server, Arc::clone(&workers)).map_err(text("Can't start the watchdog"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(text("Can't start the maintenance thread"))?;
    tracing::info!("Server initialized");
    let supervisor = Arc::new(supervisor);
    let serving = serve(server, listeners, bus, workers, Arc::clone(&supervisor));
    let is_lost = runtime.block_on(serving).map_err(text("Can't serve"))?;
    // New clients are refused from here on.
    runtime.shutdown_background();
    end(server, None, is_lost)
}

/// Ends the process. `alone`: the keyspace, if it is locked already. `is_lost`: something that should have been saved was
/// not.
fn end(server: &'static Server, alone: Option<Exclusive<'static>>, is_lost: bool) -> ! {
    server.host.is_ending.store(true, Relaxed);
    server.host.peers.refuse();
    // A thread that has the whole keyspace keeps every batch from going on, so no batch is cut off half-way.
    let alone = alone.or_else(|| server.alone_unless_busy());
    if alone.is_none() {
        // A script or a command that takes long may end now, and batches go on: what they do is not logged any more.
        server.durability.silence();
    }
    server.host.exit(is_lost)
}

/// Starts the thread for long commands. From now on workers pass commands to it, though the system may let it run only
/// later.
fn start_long_thread(server: &'static Server) -> std::io::Result<()> {
    if let Some(tasks) = LongTasks::open(server) {
        threads::start("long", || LongWorker::new(tasks).run())?;
    }
    Ok(())
}

/// Serves until a signal or SHUTDOWN. Returns whether something that should have been saved was not.
async fn serve(
    server: &'static Server,
    mut listeners: Listeners,
    bus: Option<Bus>,
    workers: Arc<[Arc<Mailbox>]>,
    supervisor: Arc<Supervisor>,
) -> std::io::Result<bool> {
    let sent = [end_at_second(SignalKind::terminate())?, end_at_second(SignalKind::interrupt())?];
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    os::survive_size_limit();
    // Caught, so that these signals do not end the process.
    let _hangup = signal(SignalKind::hangup())?;
    let saved = begin_loading(server).map_err(std::io::Error::other)?;
    if server.host.config.read().durability_replicas > 0 {
        begin_stream(server.engine())?;
    }
    if let Some(bus) = bus {
        bus.start(server).map_err(std::io::Error::other)?;
    }
    let (listening, changes) = listeners.open(&server.host.config.read());
    server.host.start_changing(listening)?;
    metrics::start(server)?;
    let kinds = listeners.kinds();
    let mut accepting = tokio::spawn(listeners.serve(server, Arc::clone(&workers), changes));
    cron::start(server, workers)?;
    tracing::info!("{}", saving::plan(&server.host.config.read()));
    let (tell, loaded) = oneshot::channel();
    let load = move || {
        load_at_start(server, saved)?;
        // Before, nobody knows where in its history the data is.
        replica::start(server).map_err(|error| format!("Can't start the thread that follows a primary: {error}"))
    };
    let loader = std::thread::Builder::new().name("load".into()).spawn(move || {
        // Nobody listens at the end of the process.
        let _ = tell.send(load());
    });
    loader.map_err(|error| std::io::Error::other(format!("no thread to load the data: {error}")))?;
    let waiting = Arc::clone(&supervisor);
    let mut loaded = tokio::spawn(async move {
        match loaded.await {
            Ok(Ok(())) => {
                kinds.for_each(|kind| tracing::info!("Ready to accept connections {kind}"));
                waiting.tell_ready();
            }
            failed => {
                let panicked = |_| "its thread has ended with a panic".to_owned();
                let reason = failed.map_or_else(panicked, |loaded| loaded.err().unwrap_or_default());
                tracing::error!("Fatal error loading the DB: {reason}. Exiting.");
                std::process::exit(1);
            }
        }
    });
    loop {
        let wish = tokio::select! {
            _ = terminate.recv() => {
                tracing::warn!("Received SIGTERM, shutting down...");
                Wish::of_signal(&server.host.config.read().shutdown_on_sigterm)
            }
            _ = interrupt.recv() => {
                tracing::warn!("Received SIGINT, shutting down...");
                Wish::of_signal(&server.host.config.read().shutdown_on_sigint)
            }
            wish = server.host.ending.next() => {
                tracing::warn!("User requested shutdown...");
                wish
            }
            ended = &mut accepting => {
                ended??;
                return Ok(false);
            }
            () = server.host.shutdown.notified() => {
                tracing::warn!("User requested shutdown...");
                return Ok(false);
            }
        };
        let goes_on = wish.has("now")
            || tokio::select! {
                goes_on = server.host.ending.wait_for_replicas(server) => goes_on,
                () = server.host.shutdown.notified() => return Ok(false),
            };
        if !goes_on {
            go_on(std::iter::once(wish).chain(server.host.ending.others()));
            sent.iter().for_each(|sent| sent.store(false, Relaxed));
            continue;
        }
        let is_lost = !wish.has("force") && !has_base_in_time(server).await;
        if is_lost {
            tracing::error!("The first base of the append-only file does not come. The end goes on, exit code 1");
        }
        supervisor.tell_end();
        let saves = wish.has("save") || !wish.has("nosave") && server.host.saves_at_end();
        if !saves || !loaded.is_finished() && server.loading.stay_on() {
            return Ok(is_lost);
        }
        // Clients write as soon as the data is there, a moment before all of the start is done.
        if !loaded.is_finished() {
            tokio::select! {
                _ = &mut loaded => {}
                () = server.host.shutdown.notified() => return Ok(is_lost),
            }
        }
        let saving = save_and_end(server, is_lost);
        let failed = tokio::select! {
            failed = saving => failed,
            () = server.host.shutdown.notified() => return Ok(is_lost),
        };
        match failed {
            Ok(NotSaved::Failed(reason)) if !wish.has("force") => {
                tracing::error!("Error trying to save the DB, can't exit: {reason}");
                supervisor.tell_ready();
                server.release_writes(Hold::End);
                go_on(std::iter::once(wish).chain(server.host.ending.others()));
                sent.iter().for_each(|sent| sent.store(false, Relaxed));
            }
            Ok(NotSaved::Failed(reason)) => {
                tracing::error!("Error trying to save the DB: {reason}");
                return Ok(is_lost);
            }
            // The thread is gone, with an error in the log.
            Ok(NotSaved::Hangs) | Err(_) => {
                tracing::error!("The data is not saved, exit code 1: a background save does not end");
                return Ok(true);
            }
        }
    }
}

/// Tells those who wished that the process ends that it does not.
fn go_on(wishes: impl Iterator<Item = Wish>) {
    wishes.filter_map(|wish| wish.done).for_each(|done| done(Err(SHUTDOWN_FAILED)));
}

/// How often the end of the process looks whether the first base of the append-only file is there, and how often it does.
const BASE_LOOK: Duration = Duration::from_millis(50);
const BASE_LOOKS_MAX: u32 = 100;

/// Waits a moment for the first base of the append-only file; returns whether there is one, or need not be.
async fn has_base_in_time(server: &'static Server) -> bool {
    for _ in 0..BASE_LOOKS_MAX {
        if server.host.must_not_end().is_none() {
            return true;
        }
        tokio::time::sleep(BASE_LOOK).await;
    }
    server.host.must_not_end().is_none()
}

/// How often the end of the process looks whether a script that takes too long has ended.
const SCRIPT_LOOK: Duration = Duration::from_millis(50);

/// Saves all data and ends the process, on a thread of its own: this one goes on to accept clients, which are refused once
/// the keyspace is locked for the end. Without a thread nobody is accepted meanwhile. The result is why the data could not
/// be saved.
fn save_and_end(server: &'static Server, is_lost: bool) -> oneshot::Receiver<NotSaved> {
    let (tell, told) = oneshot::channel();
    threads::start_or_do("end", move || match save_behind_scripts(server) {
        Ok(alone) => end(server, Some(alone), is_lost),
        // Who listens has ended the process otherwise.
        Err(why) => _ = tell.send(why),
    });
    told
}

/// Saves all data at the end of the process. While a script takes too long, clients can still come and end it.
///
/// # Errors
/// The data could not be saved.
fn save_behind_scripts(server: &'static Server) -> Result<Exclusive<'static>, NotSaved> {
    let mut is_told = false;
    loop {
        if let Some(alone) = save_at_end(server)? {
            return Ok(alone);
        }
        if !std::mem::replace(&mut is_told, true) {
            tracing::warn!("A script takes too long. The data is saved when the script has ended");
        }
        std::thread::sleep(SCRIPT_LOOK);
    }
}

/// Makes the second signal of a kind end the process with exit code 1 from within the signal's handler, even if all
/// threads hang. Returns the flag that the first signal sets.
fn end_at_second(kind: SignalKind) -> std::io::Result<Arc<AtomicBool>> {
    let was_sent = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(kind.as_raw_value(), 1, Arc::clone(&was_sent))?;
    signal_hook::flag::register(kind.as_raw_value(), Arc::clone(&was_sent))?;
    Ok(was_sent)
}

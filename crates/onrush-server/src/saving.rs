//! When the data is saved: at save points, on request, at the end.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use onrush_engine::error::CommandError;
use onrush_engine::gate::Exclusive;
use onrush_engine::process::Process;
use onrush_engine::snapshot::output::{NoResult, Purpose};
use onrush_engine::snapshot::run::{self, At, begin};
use onrush_engine::write_refusal::SNAPSHOT_FAILED;

use crate::append_only::{BUSY, begin_log, create_base, end_log};
use crate::config::{Config, SavePoint};
use crate::log_state::error_of;
use crate::server::Server;

/// Delay before the next snapshot after one has failed.
const RETRY_PERIOD_S: i64 = 5;

/// Delay before the next rewrite after one has failed.
const REWRITE_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// How often the thread looks for something to do.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Starts the thread for snapshots.
///
/// # Errors
/// The system cannot create a thread.
pub fn start_thread(server: &'static Server) -> std::io::Result<()> {
    std::thread::Builder::new().name("snapshot".into()).spawn(|| run::serve(server))?;
    Ok(())
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

/// Looks regularly whether a snapshot is due.
pub struct Saving {
    server: &'static Server,
    last: Instant,
    /// Upgrades while the thread for long commands is to begin what is due.
    passed_on: Weak<()>,
}

impl Saving {
    /// Before the first look.
    pub fn new(server: &'static Server) -> Self {
        Self { server, last: Instant::now(), passed_on: Weak::new() }
    }

    /// Begins a snapshot if one is due, and updates whether writes are refused.
    pub fn look(&mut self) {
        if self.last.elapsed() < LOOK_PERIOD {
            return;
        }
        self.last = Instant::now();
        let server = self.server;
        let has_failed = {
            let config = server.host.config.read();
            let stops_writes = config.stop_writes_on_bgsave_error && !config.save.is_empty();
            stops_writes && server.snapshots.facts().failure.is_some()
        };
        let log_error = server.host.append_only.aof().and_then(|aof| error_of(&aof));
        server.write_refusal.set(match log_error {
            _ if has_failed => Some(SNAPSHOT_FAILED),
            Some(error) => Some(CommandError::text(format!("MISCONF Errors writing to the AOF file: {error}"))),
            None => None,
        });
        if server.durability.take_due() {
            server.durability.ask(server.log.last_lsn());
        }
        let is_passed_on = self.passed_on.strong_count() > 0;
        if server.snapshots.underway().is_some() || server.is_script_busy() || is_passed_on {
            return;
        }
        if !server.offload.is_busy() {
            return begin_due(server);
        }
        // This thread does not wait for a long command, behind which there may always be another one.
        let passed_on = Arc::new(());
        self.passed_on = Arc::downgrade(&passed_on);
        server.offload.run(move || {
            let _until_it_is_dropped = &passed_on;
            begin_due(server);
        });
    }
}

/// Begins the snapshot or the rewrite that is due. The calling thread has not entered the gate.
fn begin_due(server: &'static Server) {
    if server.snapshots.underway().is_some() || look_at_log(server) {
        return;
    }
    let facts = server.snapshots.facts();
    let now_s = server.clock.unix_ms() / 1000;
    let may_try = facts.failure.is_none() || now_s - facts.tried_at_s >= RETRY_PERIOD_S;
    let since_s = now_s - facts.saved_at_s.max(server.started_unix_s());
    let changes = server.stats.changes().saturating_sub(facts.saved_changes);
    let is_due = |point: &SavePoint| changes >= point.changes && since_s > point.seconds as i64;
    let point = server.host.config.read().save.iter().copied().find(is_due);
    if server.snapshots.is_scheduled(Purpose::File) && may_try {
        begin_snapshot(server, now_s);
    } else if let Some(point) = point
        && may_try
    {
        tracing::info!("{changes} changes in {} seconds. Saving...", point.seconds);
        begin_snapshot(server, now_s);
    }
}

/// Turns the append-only file on or off as configured, and rewrites it if that is due; returns whether this began a
/// snapshot.
fn look_at_log(server: &'static Server) -> bool {
    let (is_wanted, percentage, min_size) = {
        let config = server.host.config.read();
        (config.appendonly, config.auto_aof_rewrite_percentage, config.auto_aof_rewrite_min_size)
    };
    let may_try = server.host.append_only.failed_at().is_none_or(|at| at.elapsed() >= REWRITE_RETRY_PERIOD);
    let Some(aof) = server.host.append_only.aof() else {
        if is_wanted && may_try {
            tracing::info!("Turning the append-only file on");
            if let Err(error) = begin_log(server, true) {
                tracing::error!("Can't turn the append-only file on: {error}");
            }
        }
        return is_wanted;
    };
    if !is_wanted {
        let Some(_alone) = server.alone_unless_busy() else { return false };
        tracing::info!("Turning the append-only file off");
        if let Err(error) = end_log(server) {
            tracing::error!("The end of the append-only file may be lost: {error}");
        }
        return false;
    }
    let facts = aof.facts();
    let growth = facts.size.saturating_sub(facts.base_size).saturating_mul(100) / facts.base_size.max(1);
    let is_grown = percentage > 0 && facts.size > min_size && growth >= percentage;
    let is_due = is_grown || aof.needs_rewrite() || server.snapshots.is_scheduled(Purpose::LogBase);
    if !is_due || !may_try {
        return false;
    }
    if is_grown {
        tracing::info!("Starting automatic rewriting of AOF on {growth}% growth");
    }
    match create_base(server) {
        Ok(output) => match server.alone_unless_busy() {
            Some(_alone) => begin(server, output, Purpose::LogBase, true).is_some(),
            None => {
                output.abandon(&NoResult::Unwanted(BUSY.to_owned()));
                false
            }
        },
        Err(error) => {
            tracing::error!("Can't rewrite the append-only file: {error}");
            false
        }
    }
}

fn begin_snapshot(server: &'static Server, now_s: i64) {
    server.snapshots.note(|facts| facts.tried_at_s = now_s);
    let output = match server.host.create_snapshot(Purpose::File) {
        Ok(output) => output,
        Err(error) => {
            tracing::error!("Can't create a file for a snapshot: {error}");
            server.snapshots.note(|facts| facts.failure = Some(error.to_string()));
            return;
        }
    };
    let Some(_alone) = server.alone_unless_busy() else {
        output.abandon(&NoResult::Unwanted(BUSY.to_owned()));
        return;
    };
    if begin(server, output, Purpose::File, true).is_some() {
        tracing::info!("Background saving started");
    }
}

/// Saves all data at the end of the process; `None` if a script takes too long, which must end first.
///
/// # Errors
/// It could not be saved.
pub fn save_at_end(server: &Server) -> Result<Option<Exclusive<'_>>, String> {
    loop {
        server.snapshots.abort_and_wait("the server ends");
        server.host.peers.interrupt();
        let Some(alone) = server.alone_unless_busy() else { return Ok(None) };
        // Another thread may have begun one meanwhile.
        if server.snapshots.underway().is_some() {
            continue;
        }
        tracing::info!("Saving the final RDB snapshot before exiting.");
        let output = server.host.create_snapshot(Purpose::File).map_err(|error| error.to_string())?;
        let underway = begin(server, output, Purpose::File, false).ok_or("another snapshot is under way")?;
        run::run(server, &underway, At::Alone)?;
        return Ok(Some(alone));
    }
}

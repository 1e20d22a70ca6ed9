//! When the data is saved: at save points, on request, at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onrush_engine::gate::Exclusive;
use onrush_engine::process::Process;
use onrush_engine::restrictions::SNAPSHOT_FAILED;
use onrush_engine::snapshot::output::Purpose;
use onrush_engine::snapshot::run::{self, At, begin};

use crate::server::Server;

/// After a snapshot that failed, the next one is begun so much later.
const RETRY_PERIOD_S: i64 = 5;

/// How often it is looked whether there is something to do.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Starts the thread for snapshots.
///
/// # Errors
/// The system has no thread to give.
pub fn start_thread(server: &'static Server) -> std::io::Result<()> {
    std::thread::Builder::new().name("snapshot".into()).spawn(|| run::serve(server))?;
    Ok(())
}

/// Looks regularly whether a snapshot is due.
pub struct Saving {
    server: &'static Server,
    last: Instant,
}

impl Saving {
    /// With nothing looked at yet.
    pub fn new(server: &'static Server) -> Self {
        Self { server, last: Instant::now() }
    }

    /// Begins a snapshot if one is due, and has writes refused or let in.
    pub fn look(&mut self) {
        if self.last.elapsed() < LOOK_PERIOD {
            return;
        }
        self.last = Instant::now();
        let server = self.server;
        let facts = server.snapshots.facts();
        let (points, stops_writes) = {
            let config = server.host.config.read();
            (config.save.clone(), config.stop_writes_on_bgsave_error)
        };
        let refuses = stops_writes && !points.is_empty() && facts.failure.is_some();
        server.write_refusal.set(refuses.then_some(SNAPSHOT_FAILED));
        if server.snapshots.underway().is_some() || server.offload.is_busy() {
            return;
        }
        let now_s = server.clock.unix_ms() / 1000;
        let may_try = facts.failure.is_none() || now_s - facts.tried_at_s >= RETRY_PERIOD_S;
        let since_s = now_s - facts.saved_at_s.max(server.started_unix_s());
        let changes = server.stats.changes().saturating_sub(facts.saved_changes);
        let point = points.iter().find(|point| changes >= point.changes && since_s > point.seconds as i64);
        if server.snapshots.is_scheduled() && may_try {
            self.begin(now_s);
        } else if let Some(point) = point
            && may_try
        {
            tracing::info!("{changes} changes in {} seconds. Saving...", point.seconds);
            self.begin(now_s);
        }
    }

    fn begin(&self, now_s: i64) {
        let server = self.server;
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
            output.abandon();
            return;
        };
        if begin(server, output, Purpose::File, true).is_some() {
            tracing::info!("Background saving started");
        }
    }
}

/// Saves all data at the end of the process.
///
/// # Errors
/// It could not be saved.
pub fn save_at_end(server: &Server) -> Result<Exclusive<'_>, String> {
    loop {
        while let Some(underway) = server.snapshots.underway() {
            underway.abort("the server ends");
            server.snapshots.wait_for_end();
        }
        let alone = server.gate.exclusive(server.gate.take_turn());
        // Somebody may have begun another one meanwhile.
        if server.snapshots.underway().is_some() {
            continue;
        }
        tracing::info!("Saving the final RDB snapshot before exiting.");
        let output = server.host.create_snapshot(Purpose::File).map_err(|error| error.to_string())?;
        let underway = begin(server, output, Purpose::File, false).ok_or("another snapshot is under way")?;
        run::run(server, &Arc::clone(&underway), At::Alone)?;
        return Ok(alone);
    }
}

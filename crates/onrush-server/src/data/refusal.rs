//! Whether writes are refused, or held back, because the data cannot be saved.

use onrush_persist::aof::Health;

use crate::config::Config;
use crate::data::log_state::error_of;
use crate::process::server::Server;

/// Why the log takes no writes if it is missing although there should be one: DEBUG LOADAOF has failed.
pub const NOT_LOADED: &str = "the append-only file could not be loaded";

/// As [`NOT_LOADED`]: the log of the data that came from a primary could not be begun so far.
pub const NOT_BEGUN: &str = "the append-only file could not be begun with the data of the primary";

/// Refuses writes if the last snapshot has failed and the configuration wants that.
pub fn look_at_snapshots(server: &Server, config: &Config) {
    let stops_writes = config.stop_writes_on_bgsave_error && !config.save.is_empty();
    server.write_refusal.set_snapshot_failed(stops_writes && server.snapshots.facts().failure.is_some());
}

/// The health of the log has changed: refuses writes if it fails, and holds them back if it takes no more. Waits for
/// nothing, and takes no lock that is held while records are passed to the log.
pub fn note_health(server: &Server, health: &Health) {
    let error = error_of(health);
    match &error {
        Some(error) => tracing::error!("Can't write the append-only file: {error}"),
        None if health.takes_more => tracing::info!("The append-only file takes all writes again"),
        None => tracing::warn!("The append-only file lags behind: writes wait until the disk has taken some"),
    }
    let was_full = server.settings.is_log_full();
    server.durability.set_failing(error.is_some(), server.log.last_lsn());
    note_error(server, error);
    server.settings.set_log_full(!health.takes_more);
    if was_full {
        // They go on, or are refused.
        wake_held_back(server);
    }
}

/// Notes why there is no log although there should be one, or that this is over.
pub fn note_lack(server: &Server, why: Option<&str>) {
    note_error(server, why.map(str::to_owned));
}

/// The log has ended: nothing about it is refused or held back any more.
pub fn forget_log(server: &Server) {
    note_error(server, None);
    server.settings.set_log_full(false);
    wake_held_back(server);
}

fn note_error(server: &Server, error: Option<String>) {
    server.write_refusal.set_log_error(error.as_deref());
    server.host.append_only.note_error(error);
}

/// Wakes the connections that are held back because the log is full: they look again.
fn wake_held_back(server: &Server) {
    server.clients.all().iter().for_each(|client| client.wake());
}

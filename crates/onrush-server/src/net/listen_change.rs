//! The way to listen elsewhere while the server runs.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::config::Config;

/// How long CONFIG SET waits for new sockets.
const CHANGE_WAIT_MAX: Duration = Duration::from_secs(5);

/// A request to listen where another configuration says.
pub struct ListenChange {
    pub(crate) config: Config,
    pub(crate) done: SyncSender<Result<(), String>>,
}

/// Asks the maintenance thread to listen where `config` says, and waits for the result.
///
/// # Errors
/// Why that failed; the server still listens where it did before.
pub fn listen_elsewhere(changes: &UnboundedSender<ListenChange>, config: &Config) -> Result<(), String> {
    let (done, result) = std::sync::mpsc::sync_channel(1);
    let sent = changes.send(ListenChange { config: config.clone(), done }).is_ok();
    match result.recv_timeout(CHANGE_WAIT_MAX) {
        Ok(result) if sent => result,
        _ => Err("The server is busy or shutting down".to_owned()),
    }
}

//! Files that exist while the server runs: the pid file and the Unix socket.

use std::path::PathBuf;

use crate::config::Config;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Files(Vec<PathBuf>);

impl Files {
    /// Writes the pid file, by default only in the background; remembers the Unix socket.
    pub fn create(config: &Config, daemonized: bool) -> Self {
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

    /// Removes them.
    pub fn remove(&self) {
        for file in &self.0 {
            // The file may be gone already, and nobody would read the error.
            let _ = std::fs::remove_file(file);
        }
    }
}

//! The options of a siege: time, server, seed, bounds.

use std::path::PathBuf;
use std::time::Duration;

use crate::server::onrush_bin;

/// How the server is set up for a part of the siege.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name that reports use.
    pub name: &'static str,
    /// Arguments added to the server's command line.
    pub args: &'static [&'static str],
    /// The server's `timeout`, if it has one: idle clients are closed after it, waiting ones are not.
    pub idle_timeout: Option<Duration>,
    /// Bytes a polite client may send before it reads.
    pub batch_bytes_max: usize,
}

/// The settings that share the time of a siege.
pub const SETTINGS: [Setting; 3] = [
    Setting { name: "defaults", args: &[], idle_timeout: None, batch_bytes_max: 4 << 20 },
    Setting { name: "one-worker", args: &["--workers", "1"], idle_timeout: None, batch_bytes_max: 4 << 20 },
    Setting {
        name: "odd-limits",
        args: &["--pipeline-reply-limit", "16kb", "--client-query-buffer-limit", "1mb", "--timeout", "3"],
        idle_timeout: Some(Duration::from_secs(3)),
        batch_bytes_max: 512 << 10,
    },
];

/// The bounds that the server must keep.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bound for 999 of 1,000 waits of polite clients.
    pub p999_max: Duration,
    /// Bound for every wait of a polite client.
    pub longest_max: Duration,
    /// Resident memory at any moment.
    pub peak_rss_bytes_max: u64,
    /// `used_memory` above that of the fresh server, when the siege is over and all data is gone.
    pub left_used_bytes_max: u64,
    /// Resident memory above that of the fresh server, likewise. The allocator may keep some of what it had.
    pub left_rss_bytes_max: u64,
    /// How long the server may take to end after SIGTERM.
    pub shutdown_max: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            p999_max: Duration::from_millis(100),
            longest_max: Duration::from_secs(1),
            peak_rss_bytes_max: 512 << 20,
            // Workers keep the places of the 10,000 connections they had, of less than 1 KB each.
            left_used_bytes_max: 12 << 20,
            left_rss_bytes_max: 64 << 20,
            shutdown_max: Duration::from_secs(1),
        }
    }
}

/// The options of a siege.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the hostile clients attack, all settings together.
    pub duration: Duration,
    /// All random choices follow from it.
    pub seed: u64,
    /// The server under siege.
    pub server_bin: PathBuf,
    /// Idle connections held open beside the busy ones.
    pub crowd_len: usize,
    /// Hostile clients by name; empty stands for all.
    pub foes: Vec<String>,
    /// Settings by name; empty stands for all.
    pub settings: Vec<String>,
    /// The bounds that the server must keep.
    pub bounds: Bounds,
    /// Time between lines of progress; `None` prints none.
    pub progress: Option<Duration>,
}

impl Options {
    /// All settings and foes against the Onrush of this workspace, for `duration`. The seed is `ONRUSH_SIEGE_SEED`, else the
    /// time of day.
    pub fn new(duration: Duration) -> Options {
        let seed = std::env::var("ONRUSH_SIEGE_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_millis() as u64);
        Options {
            duration,
            seed: seed.unwrap_or_else(now),
            server_bin: onrush_bin(),
            crowd_len: 9_000,
            foes: Vec::new(),
            settings: Vec::new(),
            bounds: Bounds::default(),
            progress: None,
        }
    }

    /// The settings to go through.
    pub fn chosen_settings(&self) -> Vec<&'static Setting> {
        SETTINGS
            .iter()
            .filter(|s| self.settings.is_empty() || self.settings.iter().any(|name| name == s.name))
            .collect()
    }

    /// Whether foes of this name take part.
    pub fn has_foe(&self, name: &str) -> bool {
        self.foes.is_empty() || self.foes.iter().any(|foe| foe == name)
    }
}

//! How a server of a round is set up.

use super::options::Options;
use crate::rng::Rng;

/// When the append-only file is synced; `None`: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before each reply.
    Always,
    /// Each second.
    Everysec,
    /// When the system likes to.
    No,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directives and their values.
    pub directives: Vec<(String, String)>,
    /// When the append-only file is synced, if there is one.
    pub log: Option<Fsync>,
    /// Whether a snapshot is saved at the end.
    pub saves: bool,
    /// Whether keys may be evicted that have no time to live.
    pub evicts_all: bool,
    /// Milliseconds after which a script is busy.
    pub busy_ms: u64,
}

impl Settings {
    /// Draws settings.
    pub fn draw(rng: &mut Rng, options: &Options) -> Settings {
        let mut directives: Vec<(String, String)> = Vec::new();
        let mut put = |name: &str, value: &str| directives.push((name.to_owned(), value.to_owned()));
        put("workers", rng.pick(&["1", "2", "3", "4"]));
        put("databases", rng.pick(&["16", "16", "2"]));
        put("gather-connections", rng.pick(&["yes", "yes", "no"]));
        put("appendonly", rng.pick(&["yes", "yes", "no"]));
        put("appendfsync", rng.pick(&["always", "everysec", "no"]));
        put("aof-use-rdb-preamble", rng.pick(&["yes", "no"]));
        put("save", rng.pick(&["", "1 1", "3600 1 300 100"]));
        put("maxmemory", rng.pick(&["0", "0", "150mb", "300mb"]));
        put(
            "maxmemory-policy",
            rng.pick(&["noeviction", "noeviction", "volatile-ttl", "allkeys-lru", "allkeys-random"]),
        );
        put("auto-aof-rewrite-min-size", rng.pick(&["64kb", "64mb"]));
        let busy_ms = [50, 100, 300][rng.below(3)];
        put("busy-reply-threshold", &busy_ms.to_string());
        directives.retain(|(name, _)| !options.settings.iter().any(|(other, _)| other == name));
        directives.extend(options.settings.iter().cloned());
        Settings::of(directives)
    }

    fn of(directives: Vec<(String, String)>) -> Settings {
        let value = |name: &str| {
            directives.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let fsync = match value("appendfsync") {
            "always" => Fsync::Always,
            "no" => Fsync::No,
            _ => Fsync::Everysec,
        };
        Settings {
            log: (value("appendonly") == "yes").then_some(fsync),
            saves: !value("save").is_empty(),
            evicts_all: value("maxmemory") != "0" && value("maxmemory-policy").starts_with("allkeys"),
            busy_ms: value("busy-reply-threshold").parse().unwrap_or(5000),
            directives,
        }
    }

    /// Arguments of the command line.
    pub fn args(&self) -> Vec<String> {
        self.directives.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
    }

    /// Whether acknowledged writes survive a kill, but for some time.
    pub fn logs(&self) -> bool {
        self.log.is_some()
    }

    /// Whether data survives SIGTERM.
    pub fn keeps(&self) -> bool {
        self.logs() || self.saves
    }

    /// All in one line.
    pub fn line(&self) -> String {
        let quoted = |(name, value): &(String, String)| format!("--{name} \"{value}\"");
        self.directives.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

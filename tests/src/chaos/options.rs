//! What a chaos run is told: time, seed, which faults and wrappings take part, how long things may take.

use std::path::PathBuf;
use std::time::Duration;

use crate::server::onrush_bin;

/// How long things may take. Each is multiplied by the factor by which the lack of processors slows the server down.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From a new connection to the reply to its first command, whatever happens to the server meanwhile.
    pub answer_max: Duration,
    /// From the end of a fault to the first acknowledged write.
    pub recovery_max: Duration,
    /// From SIGTERM, SHUTDOWN to the end of the process.
    pub end_max: Duration,
    /// From SCRIPT KILL's OK to the reply of the killed script.
    pub kill_max: Duration,
    /// From the first to the last of the acknowledged writes that `everysec` and `no` may lose at SIGKILL.
    pub loss_max: Duration,
    /// Resident memory at any time.
    pub rss_bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            answer_max: Duration::from_secs(2),
            recovery_max: Duration::from_secs(10),
            end_max: Duration::from_secs(10),
            kill_max: Duration::from_secs(2),
            loss_max: Duration::from_millis(200),
            rss_bytes_max: 2 << 30,
        }
    }
}

/// A fault of the server that the run itself makes, to prove that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// New connections get no reply.
    Stall,
    /// CONFIG SET is answered OK and not done.
    FalseOk,
    /// An acknowledged write is taken back.
    LostWrite,
    /// Half of a transfer is taken back.
    LostHalf,
    /// A reply too many.
    ExtraReply,
    /// The log loses its last bytes between SIGKILL and the start.
    CutLog,
    /// A byte in the middle of the log changes between SIGKILL and the start.
    DamagedLog,
    /// The process dies from a signal as by a wild pointer.
    Crash,
    /// The process stops, so that SIGTERM does not end it.
    Stopped,
}

impl Plant {
    /// All of them, by name.
    pub const ALL: [(&'static str, Plant); 9] = [
        ("stall", Plant::Stall),
        ("false-ok", Plant::FalseOk),
        ("lost-write", Plant::LostWrite),
        ("lost-half", Plant::LostHalf),
        ("extra-reply", Plant::ExtraReply),
        ("cut-log", Plant::CutLog),
        ("damaged-log", Plant::DamagedLog),
        ("crash", Plant::Crash),
        ("stopped", Plant::Stopped),
    ];
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it lasts; a round that has begun ends by itself.
    pub duration: Duration,
    /// The most rounds.
    pub rounds_max: u64,
    /// All random choices follow from it; the first round's seed is this one.
    pub seed: u64,
    /// The server.
    pub server_bin: PathBuf,
    /// Names of faults and ends that take part; empty stands for all.
    pub faults: Vec<String>,
    /// Names of wrappings of scripts that take part; empty stands for all.
    pub wrappings: Vec<String>,
    /// Names of faults, ends and wrappings that do not take part.
    pub without: Vec<String>,
    /// Directives with their values that hold for every server, over those drawn.
    pub settings: Vec<(String, String)>,
    /// Faults of a life of the server.
    pub acts: usize,
    /// How long things may take.
    pub bounds: Bounds,
    /// A fault of the server to make.
    pub plant: Option<Plant>,
    /// Whether to print what is done.
    pub progress: bool,
}

impl Options {
    /// Everything, against the Onrush of this workspace. The seed is `ONRUSH_CHAOS_SEED`, else the time of day.
    pub fn new(duration: Duration) -> Options {
        let seed = std::env::var("ONRUSH_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_millis() as u64);
        Options {
            duration,
            rounds_max: u64::MAX,
            seed: seed.unwrap_or_else(now),
            server_bin: onrush_bin(),
            faults: Vec::new(),
            wrappings: Vec::new(),
            without: Vec::new(),
            settings: Vec::new(),
            acts: 4,
            bounds: Bounds::default(),
            plant: None,
            progress: false,
        }
    }

    /// Whether a fault or an end of that name takes part.
    pub fn has_fault(&self, name: &str) -> bool {
        Self::has(&self.faults, name) && !self.without.iter().any(|other| other == name)
    }

    /// Whether a wrapping of that name takes part.
    pub fn has_wrapping(&self, name: &str) -> bool {
        Self::has(&self.wrappings, name) && !self.without.iter().any(|other| other == name)
    }

    fn has(names: &[String], name: &str) -> bool {
        names.is_empty() || names.iter().any(|other| other == name)
    }
}

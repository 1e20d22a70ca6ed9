//! Fail-overs by Redis's own Sentinel: three Sentinels, three servers, clients that write all the time. Each round draws a
//! fault by the seed; when all servers are back and have the same data, every acknowledged write has to be there.
//!
//! [`group`] has the processes, each a [`node`], on hosts of a [`network`] if asked; [`writers`] has the clients, [`report`]
//! what is told at the end.

pub mod cluster;
pub mod group;
pub mod network;
pub mod node;
pub mod report;
pub mod writers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use group::{Group, Kind};
use node::Login;
use report::{Report, Round};
use writers::Writers;

use crate::rng::Rng;
use crate::server::Oracle;

/// How long the first acknowledgement after a fault may take, and how long it takes to have everything back at most.
const PATIENCE: Duration = Duration::from_secs(90);

/// What happens to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Its process is killed, and started again after the fail-over.
    Kill,
    /// Its process stands still until another one is the primary, and goes on then.
    Stop,
    /// SENTINEL FAILOVER.
    Planned,
    /// SIGTERM, and a start at once.
    Restart,
    /// A replica is killed, and started again.
    ReplicaKill,
    /// The primary is cut off from everybody but a client on its host, which goes on writing, until another one is the
    /// primary.
    Cut,
}

impl Fault {
    /// All.
    pub const ALL: [Fault; 6] =
        [Fault::Kill, Fault::Stop, Fault::Planned, Fault::Restart, Fault::ReplicaKill, Fault::Cut];

    /// As it is chosen and told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Planned => "planned",
            Self::Restart => "restart",
            Self::ReplicaKill => "replica-kill",
            Self::Cut => "cut",
        }
    }

    /// Whether another server has to be the primary afterwards.
    fn changes_primary(self) -> bool {
        matches!(self, Self::Kill | Self::Stop | Self::Planned | Self::Cut)
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many rounds.
    pub rounds: u32,
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// How many replicas must have a write before its reply; 0: none.
    pub replicas: u32,
    /// What the servers are, one after the other.
    pub servers: [Kind; 3],
    /// Whose Sentinels there are.
    pub sentinels: Oracle,
    /// How they are logged in to.
    pub login: Login,
    /// Whether replicas and Sentinels use TLS.
    pub encrypted: bool,
    /// Whether each server is on a host of its own, which needs root; [`Fault::Cut`] needs it.
    pub network: bool,
    /// The faults to draw from.
    pub faults: Vec<Fault>,
    /// More lines for the configuration of every server that is Onrush.
    pub directives: Vec<String>,
    /// Whether each round is told when it is over.
    pub progress: bool,
    /// The binary of Onrush.
    pub onrush_bin: PathBuf,
}

/// Runs the rounds.
///
/// # Errors
/// What was waited for did not come: the text says what was seen last.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut rng = Rng::new(options.seed);
    let mut group = Group::start(options)?;
    group.settle(PATIENCE)?;
    let mut writers = Writers::start(&group, options.replicas);
    let mut report = Report::new(options);
    for number in 1..=options.rounds {
        let fault = options.faults[rng.below(options.faults.len())];
        let round = play(&mut group, &mut writers, fault, number, &mut rng);
        let round = round.map_err(|why| format!("round {number}, {}: {why}\n{}", fault.name(), group.logs()))?;
        if options.progress {
            println!("{round}");
        }
        report.add(round);
    }
    Ok(report)
}

fn play(group: &mut Group, writers: &mut Writers, fault: Fault, number: u32, rng: &mut Rng) -> Result<Round, String> {
    writers.go_on();
    writers.wait_for_ack(Instant::now(), PATIENCE)?;
    std::thread::sleep(Duration::from_millis(rng.between(200, 700) as u64));
    let primary = group.primary()?;
    writers.forget_pause();
    let began = Instant::now();
    match fault {
        Fault::Kill => group.kill(primary),
        Fault::Stop => group.signal(primary, "STOP"),
        Fault::Planned => group.fail_over()?,
        Fault::Restart => group.restart(primary)?,
        Fault::ReplicaKill => {
            let replica = (primary + 1 + rng.below(2)) % 3;
            group.kill(replica);
            std::thread::sleep(Duration::from_millis(rng.between(0, 1500) as u64));
            group.start_again(replica)?;
        }
        Fault::Cut => {
            writers.strand(group.place(primary))?;
            group.set_connected(primary, false)?;
        }
    }
    if fault.changes_primary() {
        group.wait_for_other_primary(primary, PATIENCE)?;
    }
    match fault {
        Fault::Kill => {
            std::thread::sleep(Duration::from_millis(rng.between(0, 500) as u64));
            group.start_again(primary)?;
        }
        Fault::Stop => {
            std::thread::sleep(Duration::from_millis(rng.between(0, 500) as u64));
            group.signal(primary, "CONT");
        }
        Fault::Cut => {
            std::thread::sleep(Duration::from_millis(rng.between(0, 500) as u64));
            group.set_connected(primary, true)?;
        }
        Fault::Planned | Fault::Restart | Fault::ReplicaKill => {}
    }
    writers.wait_for_ack(began, PATIENCE)?;
    group.wait_until_all_follow(PATIENCE)?;
    writers.rest(PATIENCE)?;
    group.settle(PATIENCE)?;
    let (acknowledged, unknown) = writers.counts();
    let lost = writers.lost(group)?;
    let round = Round { number, fault, pause: writers.longest_pause(), acknowledged, unknown, lost };
    writers.begin_anew(group)?;
    Ok(round)
}

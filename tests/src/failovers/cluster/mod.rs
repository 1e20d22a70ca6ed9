//! Fail-overs of a Redis Cluster: three primaries, three replicas, clients that write pipelines, and slots that move all the
//! while. Each round draws a primary and a fault by the seed. When all nodes are back and have the same data, every
//! acknowledged write has to be there, in its order.
//!
//! [`nodes`] has the processes, and [`facts`] what of them never changes; [`writers`] has the clients, [`key`] what one
//! expects of a key, [`mover`] moves slots, [`report`] has what is told at the end.

pub mod facts;
pub mod key;
pub mod mover;
pub mod nodes;
pub mod report;
pub mod writers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use facts::{Facts, NODES, SHARDS};
use mover::{Move, Mover};
use nodes::Nodes;
use report::{Report, Round};
use writers::{Verdict, Writers};

use super::group::Kind;
use super::node::wait;
use crate::rng::Rng;

/// How long each step of a round may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a replica may take that still reaches its primary; then the round goes on without a fail-over.
const PATIENCE_WITH_PARTS: Duration = Duration::from_secs(20);

/// When slots that a new primary did not take over are moved to it.
const GATHER_AFTER: Duration = Duration::from_secs(2);

/// What happens to a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process is killed, and started again with its folder after the fail-over.
    Kill,
    /// Its process stands still until its replica is the primary, and goes on then.
    Stop,
    /// It is cut off from everybody but a client on its host, which goes on writing, until its replica is the primary.
    Cut,
    /// It is cut off from the other shards, but not from its replica and clients, until its replica is the primary.
    Part,
}

impl Fault {
    /// All.
    pub const ALL: [Fault; 4] = [Fault::Kill, Fault::Stop, Fault::Cut, Fault::Part];

    /// As it is chosen and told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::Part => "part",
        }
    }

    /// Whether the nodes have to be on hosts of their own.
    pub fn needs_network(self) -> bool {
        matches!(self, Self::Cut | Self::Part)
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many rounds.
    pub rounds: u32,
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// How many replicas must have a write before its reply; 0: none. Each primary has one.
    pub replicas: u32,
    /// What the nodes are: first the primaries, then their replicas.
    pub kinds: [Kind; NODES],
    /// After how many milliseconds of silence a node may have failed.
    pub node_timeout_ms: u32,
    /// Whether each node is on a host of its own, which needs root.
    pub network: bool,
    /// The faults to draw from.
    pub faults: Vec<Fault>,
    /// More lines for the configuration of every node that is Onrush.
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
    let mut nodes = Nodes::start(options)?;
    let mut writers = Writers::start(nodes.facts(), options.replicas, rng.next_u64());
    let mover = Mover::start(nodes.facts(), writers.slots(), rng.next_u64());
    let mut report = Report::new(options);
    for number in 1..=options.rounds {
        let fault = options.faults[rng.below(options.faults.len())];
        let round = play(&mut nodes, &mut writers, &mover, (number, fault, options.replicas), &mut rng);
        let round = round.map_err(|why| format!("round {number}, {}: {why}\n{}", fault.name(), nodes.logs()))?;
        if options.progress {
            println!("{round}");
        }
        if round.lost + round.reordered > 0 {
            eprintln!("{}", nodes.logs());
        }
        report.add(round);
    }
    Ok(report)
}

fn play(
    nodes: &mut Nodes,
    writers: &mut Writers,
    mover: &Mover,
    (number, fault, replicas): (u32, Fault, u32),
    rng: &mut Rng,
) -> Result<Round, String> {
    let primary = nodes.primaries()?[rng.below(SHARDS)];
    let replica = Facts::twin(primary);
    let moved_before = mover.moved();
    writers.go_on();
    mover.go_on();
    writers.wait_for_ack(primary, Instant::now(), PATIENCE)?;
    std::thread::sleep(Duration::from_millis(rng.between(200, 900) as u64));
    [primary, replica].into_iter().for_each(|nth| writers.forget_first_ack(nth));
    let began = Instant::now();
    match fault {
        Fault::Kill => nodes.kill(primary),
        Fault::Stop => nodes.signal(primary, "STOP"),
        Fault::Cut => {
            writers.strand(primary, &nodes.view(primary)?)?;
            std::thread::sleep(Duration::from_millis(rng.between(20, 200) as u64));
            nodes.set_connected(primary, false)?;
        }
        Fault::Part => nodes.set_connected_with_other_shards(primary, false)?,
    }
    let know: Vec<usize> = (0..NODES).filter(|nth| *nth != primary).collect();
    // A replica that still reaches its primary may stop to take it for failed, and then asks for no votes again.
    let left_behind = match nodes.wait_for_primary(replica, &know, PATIENCE_WITH_PARTS) {
        Err(_) if fault == Fault::Part => 0,
        Err(_) => nodes.wait_for_primary(replica, &know, PATIENCE)?,
        Ok(left_behind) => left_behind,
    };
    let taken_over = began.elapsed();
    std::thread::sleep(Duration::from_millis(rng.between(0, 500) as u64));
    match fault {
        Fault::Kill => nodes.start_again(primary)?,
        Fault::Stop => nodes.signal(primary, "CONT"),
        Fault::Cut => nodes.set_connected(primary, true)?,
        Fault::Part => nodes.set_connected_with_other_shards(primary, true)?,
    }
    let healed_at = Instant::now();
    let follower = wait("one node of the shard follows the other", PATIENCE, || {
        // The old primary remains one as long as it has slots.
        let slots = if healed_at.elapsed() > GATHER_AFTER { nodes.left_behind(primary)? } else { Vec::new() };
        if !slots.is_empty() {
            // The new primary has no replica that it could wait for.
            nodes.hold_replies_for(replica, 0)?;
            let gathered = mover.gather(&slots, (primary, replica));
            nodes.hold_replies_for(replica, replicas)?;
            gathered?;
        }
        if healed_at.elapsed() > GATHER_AFTER {
            nodes.bring_back(primary)?;
        }
        nodes.follower(primary)
    })?;
    writers.wait_for_ack(Facts::twin(follower), began, PATIENCE)?;
    let written = writers.first_ack(Facts::twin(follower), began);
    mover.rest(PATIENCE)?;
    writers.rest(PATIENCE)?;
    nodes.settle(PATIENCE)?;
    let (verdict, moves) = (writers.judge(&nodes.view(0)?)?, mover.take_moves());
    let round = judge(nodes.facts(), verdict, &moves, began);
    nodes.flush()?;
    writers.forget();
    Ok(Round {
        number,
        fault,
        between: (primary, replica),
        taken_over,
        written,
        left_behind,
        is_still_primary: follower != primary,
        moved: mover.moved() - moved_before,
        ..round
    })
}

/// Whose fault a loss is, and what is told of it. A slot's state is not replicated by redis-server, and MIGRATE has its keys
/// at the other primary before they are at a replica: what was lost in a slot that was moved from or to a shard with a
/// redis-server in the round is its doing.
fn judge(facts: &Facts, verdict: Verdict, moves: &[Move], fault: Instant) -> Round {
    let of_slot = |slot: u16| moves.iter().filter(move |one| one.slot == slot);
    let has_partner = |nth: usize| !facts.waits_itself(nth) || !facts.waits_itself(Facts::twin(nth));
    let (mut lost, mut lost_by_partner, mut details) = (0, 0, Vec::new());
    for (key, slot, numbers) in &verdict.lost {
        let is_by_partner = of_slot(*slot).any(|one| has_partner(one.between.0) || has_partner(one.between.1));
        *(if is_by_partner { &mut lost_by_partner } else { &mut lost }) += numbers.len() as u64;
        let some = &numbers[..numbers.len().min(3)];
        details.push(format!("lost: {key}: {} writes, {some:?} …", numbers.len()));
        details.extend(of_slot(*slot).map(|one| one.text(fault)));
    }
    for (text, slot) in &verdict.wrong {
        details.push(format!("reordered: {text}"));
        details.extend(of_slot(*slot).map(|one| one.text(fault)));
    }
    Round {
        number: 0,
        fault: Fault::Kill,
        between: (0, 0),
        taken_over: Duration::ZERO,
        written: Duration::ZERO,
        left_behind: 0,
        is_still_primary: false,
        acknowledged: verdict.acknowledged,
        unknown: verdict.unknown,
        late: verdict.late,
        moved: 0,
        lost,
        lost_by_partner,
        reordered: verdict.wrong.len() as u64,
        details,
        strange: verdict.strange,
    }
}

//! Runs scenarios on both servers in turns and judges them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::declared;
use super::judge::{self, Fault};
use super::script::{Line, Scenario};
use super::side::{Cleanup, Side, Turn};
use crate::client::Conn;
use crate::resp::Value;
use crate::server::{Oracle, Server, onrush_bin};

/// How thoroughly to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sizes go from 1,000 up to this, by tens.
    pub size_max: usize,
    /// Turns of both servers at the largest size, one at the others; the first cleans up with FLUSHALL, the second
    /// with DEL, and so on.
    pub turns: usize,
    /// How often a fault is measured again before it counts.
    pub repeats: usize,
    /// Scenarios that run side by side.
    pub jobs: usize,
    /// How long a line may take.
    pub patience: Duration,
    /// How long memory may take to come back.
    pub settling: Duration,
    /// Scenarios that have not begun by then run at a tenth of the sizes.
    pub unhurried: Duration,
}

impl Settings {
    /// The effort of `make test`: a quadratic cost shows.
    pub const TEST: Settings = Settings { size_max: 10_000, ..Settings::LARGE };

    /// The effort of `make nightly`: so does what is paid for memory.
    pub const LARGE: Settings = Settings {
        size_max: 100_000,
        turns: 2,
        repeats: 3,
        jobs: 2,
        patience: Duration::from_secs(8),
        settling: Duration::from_secs(13),
        unhurried: Duration::from_secs(120),
    };

    /// The effort of `make audit`.
    pub const FULL: Settings = Settings {
        size_max: 1_000_000,
        turns: 2,
        repeats: 3,
        jobs: 1,
        patience: Duration::from_secs(60),
        settling: Duration::from_secs(13),
        unhurried: Duration::MAX,
    };
}

/// The results of a scenario.
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
    /// The server under test.
    pub ours: Side,
    /// The redis-server that has all of the commands, if there is one.
    pub theirs: Option<Side>,
    /// Undeclared faults.
    pub faults: Vec<Fault>,
    /// Declared faults, with the reasons.
    pub known: Vec<(Fault, &'static str)>,
    /// How long it took.
    pub took: Duration,
}

/// Runs the scenarios; `on_done` gets each outcome when it is complete. Returns the outcomes in the order of the
/// scenarios.
pub fn audit(scenarios: &[&Scenario], settings: &Settings, on_done: impl Fn(&Outcome) + Sync) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let started = Instant::now();
    let hurried = Settings { size_max: settings.size_max / 10, ..settings.clone() };
    let work = || {
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let settings = if started.elapsed() < settings.unhurried { settings } else { &hurried };
            let outcome = run(scenario, settings);
            on_done(&outcome);
            outcomes.lock().expect("nobody panicked").push(outcome);
        }
    };
    std::thread::scope(|scope| (0..settings.jobs).for_each(|_| drop(scope.spawn(work))));
    let mut outcomes = outcomes.into_inner().expect("nobody panicked");
    outcomes.sort_by_key(|outcome| scenarios.iter().position(|s| s.name == outcome.name));
    outcomes
}

/// Runs one scenario.
pub fn run(scenario: &Scenario, settings: &Settings) -> Outcome {
    let started = Instant::now();
    let lines = scenario.lines();
    let mut ours = Side::new(onrush_bin(), true, scenario);
    let mut theirs = oracle_for(&lines).map(|bin| Side::new(bin, false, scenario));
    let (mut faults, mut known) = (Vec::new(), Vec::new());
    for _ in 0..=settings.repeats {
        measure(scenario, &lines, &mut ours, &mut theirs, settings);
        (faults, known) = declared::split(scenario.name, judge::faults(&lines, &ours, theirs.as_ref()));
        if faults.iter().all(|fault| fault.kind == judge::Kind::Stopped) {
            break;
        }
    }
    if let Some(side) = &theirs {
        // A script that redis-server refuses is a mistake in the audit.
        let stops = side.stopped.iter().filter(|(line, _)| !ours.stopped.contains_key(line));
        for (line, (n, reason)) in stops.filter(|(_, (_, reason))| !reason.starts_with("no reply")) {
            let detail = format!("redis-server at {n}: {reason}");
            faults.push(Fault { what: lines[*line].text, kind: judge::Kind::Stopped, detail });
        }
    }
    ours.end();
    theirs.iter_mut().for_each(Side::end);
    Outcome { name: scenario.name, lines, ours, theirs, faults, known, took: started.elapsed() }
}

fn measure(scenario: &Scenario, lines: &[Line], ours: &mut Side, theirs: &mut Option<Side>, settings: &Settings) {
    let size_max = settings.size_max.min(scenario.size_max);
    let mut n = 1_000;
    let mut skipped = BTreeSet::new();
    while n <= size_max {
        let is_last = n * 10 > size_max;
        let turns = if is_last { settings.turns } else { 1 };
        for number in 0..turns {
            let cleanup = if number % 2 == 0 { Cleanup::Flush } else { Cleanup::Del };
            let probed = is_last && number + 1 == turns;
            let (patience, settling) = (settings.patience, settings.settling);
            let turn = Turn { n, cleanup, probed, patience, settling };
            if is_last {
                ours.end();
                theirs.iter_mut().for_each(Side::end);
            }
            run_again_without_stops(ours, lines, turn, &mut skipped);
            if let Some(theirs) = theirs {
                run_again_without_stops(theirs, lines, turn, &mut skipped);
            }
        }
        let longest = theirs.iter().map(|side| side.longest(n)).chain([ours.longest(n)]).max().unwrap_or_default();
        // A quadratic cost would take a hundred times as long at the next size.
        if longest > settings.patience / 12 {
            break;
        }
        n *= 10;
    }
}

/// One turn; if a line stops it, further turns leave that line out.
fn run_again_without_stops(side: &mut Side, lines: &[Line], turn: Turn, skipped: &mut BTreeSet<usize>) {
    for _ in 0..lines.len() {
        let stops = side.stopped.len();
        side.turn(lines, turn, skipped);
        skipped.extend(side.stopped_lines());
        if side.stopped.len() == stops {
            return;
        }
    }
}

/// The redis-server to compare with: the first available one that has all commands, if there is one.
fn oracle_for(lines: &[Line]) -> Option<PathBuf> {
    static OURS: OnceLock<BTreeSet<String>> = OnceLock::new();
    static THEIRS: OnceLock<Vec<(Oracle, BTreeSet<String>)>> = OnceLock::new();
    let names = |server: Server| command_names(&mut server.connect());
    let ours = OURS.get_or_init(|| names(Server::start_onrush(&[])));
    let theirs = THEIRS.get_or_init(|| {
        let there = Oracle::ALL.into_iter().filter(|oracle| *oracle == Oracle::Older || oracle.bin().exists());
        there.map(|oracle| (oracle, names(Server::start_oracle(oracle, &[])))).collect()
    });
    let needed = || lines.iter().flat_map(Line::command_names).filter(|name| ours.contains(name));
    theirs.iter().find(|(_, known)| needed().all(|name| known.contains(&name))).map(|(oracle, _)| oracle.bin())
}

/// The names of all commands of a server, and of all subcommands in the form `config|get`.
pub fn command_names(conn: &mut Conn) -> BTreeSet<String> {
    let reply = conn.run("COMMAND LIST");
    reply.items().expect("an array of names").iter().map(Value::text).collect()
}

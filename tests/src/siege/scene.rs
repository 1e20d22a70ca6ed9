//! The state of a round that its threads share: the server's port, the progress of the round, clients that may be
//! killed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::options::Setting;
use super::report::{Checked, Fault, Report};
use crate::rng::Rng;

/// A hostile client that others may kill.
#[derive(Clone, Debug)]
pub struct Prey {
    /// Its end of the connection, as CLIENT LIST shows it.
    pub addr: String,
    /// Its id, when it has asked for it.
    pub id: Option<i64>,
}

/// Prey that is remembered; older ones are overwritten.
const PREY_MAX: usize = 64;

/// What all threads of a round share.
pub struct Scene<'r> {
    /// The server's port.
    pub port: u16,
    /// How the server is set up.
    pub setting: &'static Setting,
    /// Where findings go.
    pub report: &'r Report,
    /// INCRs of `counter:*` that hostile clients have tried to send.
    pub foe_increments: AtomicU64,
    /// The greatest number of clients the server takes.
    pub clients_max: usize,
    /// Whether the server knows HPEXPIRE.
    pub has_field_ttl: bool,
    prey: Mutex<Vec<Prey>>,
    broken: Mutex<BTreeSet<&'static str>>,
    started: Instant,
    foes_leave: AtomicBool,
    polite_leave: AtomicBool,
}

impl<'r> Scene<'r> {
    /// The beginning of a round.
    pub fn new(port: u16, setting: &'static Setting, report: &'r Report) -> Scene<'r> {
        Scene {
            port,
            setting,
            report,
            foe_increments: AtomicU64::new(0),
            clients_max: 10_000,
            has_field_ttl: false,
            prey: Mutex::new(Vec::new()),
            broken: Mutex::new(BTreeSet::new()),
            started: Instant::now(),
            foes_leave: AtomicBool::new(false),
            polite_leave: AtomicBool::new(false),
        }
    }

    /// Time since the round began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Plays a part of a scenario. One that fails is broken: it cannot be settled.
    pub fn play(&self, scenario: &dyn Scenario, part: usize, rng: &mut Rng) {
        if let Err(fault) = scenario.play(self, part, rng) {
            self.broken.lock().expect("nobody panics with it").insert(scenario.name());
            self.report.fail(fault);
        }
    }

    /// Looks at what a scenario has left, unless it is broken.
    pub fn settle(&self, scenario: &dyn Scenario) {
        if !self.broken.lock().expect("nobody panics with it").contains(scenario.name()) {
            self.report.conclude(scenario.settle(self));
        }
    }

    /// Tells the hostile clients to leave.
    pub fn end_foes(&self) {
        self.foes_leave.store(true, Relaxed);
    }

    /// Tells the polite clients to come to an end.
    pub fn end_polite(&self) {
        self.polite_leave.store(true, Relaxed);
    }

    /// Whether hostile clients still have time.
    pub fn foes_stay(&self) -> bool {
        !self.foes_leave.load(Relaxed)
    }

    /// Whether polite clients still have time.
    pub fn polite_stay(&self) -> bool {
        !self.polite_leave.load(Relaxed)
    }

    /// Offers a client to the killers.
    pub fn offer(&self, prey: Prey, rng: &mut Rng) {
        let mut all = self.prey.lock().expect("nobody panics with it");
        if all.len() < PREY_MAX {
            all.push(prey);
        } else {
            all[rng.below(PREY_MAX)] = prey;
        }
    }

    /// A client to kill, if one was offered.
    pub fn prey(&self, rng: &mut Rng) -> Option<Prey> {
        let mut all = self.prey.lock().expect("nobody panics with it");
        if all.is_empty() {
            return None;
        }
        let index = rng.below(all.len());
        Some(all.swap_remove(index))
    }

    /// Takes in a fault without the commands that led to it.
    pub fn fail(&self, scenario: &'static str, expected: &str, got: String) {
        self.report.fail(Fault { scenario, expected: expected.to_owned(), got, trail: Vec::new() });
    }
}

/// Work of polite clients, in one or several threads, with every reply checked.
pub trait Scenario: Sync {
    /// The name that reports use.
    fn name(&self) -> &'static str;

    /// How many threads it wants.
    fn parts(&self) -> usize {
        1
    }

    /// Plays a part until the scene tells polite clients to leave.
    ///
    /// # Errors
    /// The server broke a promise, and going on makes no sense.
    fn play(&self, scene: &Scene<'_>, part: usize, rng: &mut Rng) -> Checked<()>;

    /// Checks the data when all parts have ended and all hostile clients have left.
    ///
    /// # Errors
    /// The server broke a promise.
    fn settle(&self, _scene: &Scene<'_>) -> Checked<()> {
        Ok(())
    }
}

//! Hostile and clumsy clients: hundreds of state machines on a few threads, none of which ever waits for a socket.

mod blockers;
mod crowd;
mod mutes;
mod nuisances;
mod readers;
mod talkers;
mod vanishers;
mod wire;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::options::Options;
use super::scene::Scene;
use crate::rng::Rng;

/// A hostile or clumsy client.
pub trait Foe: Send {
    /// Does one thing without waiting, and returns when to act again.
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration;
}

/// A kind of foe: its name, how many there are, and how one is made.
struct Kind {
    name: &'static str,
    count: usize,
    make: fn(&Options) -> Box<dyn Foe>,
}

const KINDS: &[Kind] = &[
    Kind { name: "crowd", count: 1, make: |options| Box::new(crowd::Crowd::new(options.crowd_len)) },
    Kind { name: "flood", count: 1, make: |_| Box::new(crowd::Flood::default()) },
    Kind { name: "hoarder-small", count: 10, make: |_| Box::new(readers::Hoarder::small()) },
    Kind { name: "hoarder-big", count: 10, make: |_| Box::new(readers::Hoarder::big()) },
    Kind { name: "dribbler", count: 20, make: |_| Box::new(readers::Dribbler::default()) },
    Kind {
        name: "half-closer",
        count: 10,
        make: |options| Box::new(readers::HalfCloser::new(options.has_foe("pauser"))),
    },
    Kind { name: "vanisher", count: 20, make: |_| Box::new(vanishers::Vanisher::default()) },
    Kind { name: "blocker", count: 40, make: |_| Box::new(blockers::Blocker::default()) },
    Kind { name: "feeder", count: 1, make: |_| Box::new(blockers::Feeder::default()) },
    Kind { name: "killer", count: 2, make: |_| Box::new(vanishers::Killer::default()) },
    Kind { name: "announcer", count: 20, make: |_| Box::new(talkers::Announcer::default()) },
    Kind { name: "babbler", count: 10, make: |_| Box::new(talkers::Babbler::default()) },
    Kind { name: "mute", count: 5, make: |_| Box::new(mutes::Mute::default()) },
    Kind { name: "pauser", count: 1, make: |_| Box::new(nuisances::Nuisance::pauser()) },
    Kind { name: "flusher", count: 1, make: |_| Box::new(nuisances::Nuisance::flusher()) },
    Kind { name: "configurer", count: 1, make: |_| Box::new(nuisances::Nuisance::configurer()) },
    Kind { name: "toiler", count: 1, make: |_| Box::new(nuisances::Nuisance::toiler()) },
];

/// Threads that hostile clients share.
pub const THREADS: usize = 2;

/// The names of all kinds.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// Lets every `THREADS`-th foe act until the scene tells foes to leave; then they vanish in whatever state they are.
pub fn storm(scene: &Scene<'_>, options: &Options, thread: usize, rng: &mut Rng) {
    let chosen = KINDS.iter().filter(|kind| options.has_foe(kind.name));
    let all = chosen.flat_map(|kind| std::iter::repeat_n(kind, kind.count)).enumerate();
    let mut foes: Vec<Box<dyn Foe>> =
        all.filter(|(index, _)| index % THREADS == thread).map(|(_, kind)| (kind.make)(options)).collect();
    let now = Instant::now();
    let mut due: BinaryHeap<Reverse<(Instant, usize)>> =
        (0..foes.len()).map(|index| Reverse((now + Duration::from_millis(rng.below(200) as u64), index))).collect();
    while scene.foes_stay() {
        let Some(Reverse((at, index))) = due.pop() else { return };
        let early = at.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            std::thread::sleep(early.min(Duration::from_millis(50)));
        }
        if Instant::now() < at {
            due.push(Reverse((at, index)));
            continue;
        }
        let pause = foes[index].act(scene, rng);
        due.push(Reverse((Instant::now() + pause, index)));
    }
}

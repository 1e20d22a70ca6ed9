//! The clients of a round: they work all the time, and each checks what it is told.

mod accounts;
mod counters;
mod messages;
mod noise;
mod pairing;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

pub use accounts::Accounts;
pub use counters::{COUNT as COUNTERS, Counters, Kept};

use super::options::Options;
use super::scene::{Scene, Talk};
use crate::resp::Value;
use crate::rng::Rng;

/// The name of the client that asks for durability and takes it back within a packet.
pub const PACKET_DURABILITY: &str = "packet-durability";

/// What the clients know of the data, for the checks after a start.
pub struct Model {
    /// Counters, each of one client.
    pub counters: Counters,
    /// Accounts with a fixed sum.
    pub accounts: Accounts,
}

/// A client: does something on its connection; returns whether the connection still serves.
pub type Step<'a> = Box<dyn FnMut(&mut Talk<'_, '_>) -> bool + Send + 'a>;

impl Model {
    /// The beginning.
    pub fn new() -> Model {
        Model { counters: Counters::new(), accounts: Accounts::new() }
    }

    /// All clients of a round that take part.
    pub fn clients<'a>(&'a self, scene: &'a Scene<'a>, options: &Options, rng: &mut Rng) -> Vec<Step<'a>> {
        self.counters.set_durable(scene.settings.logs() && options.has_fault(PACKET_DURABILITY));
        let mut draw = || Rng::new(rng.next_u64());
        let mut steps: Vec<Step<'a>> = Vec::new();
        steps.extend((0..counters::COUNT).map(|index| self.counters.client(scene, index, draw())));
        steps.extend((0..3).map(|way| self.accounts.mover(scene, way, draw())));
        steps.push(self.accounts.auditor(scene));
        steps.extend((0..3).map(|way| noise::client(scene, way, draw())));
        steps.push(pairing::client(scene, draw()));
        steps.push(pairing::tracker());
        steps.extend(messages::queue(scene));
        steps.extend(messages::channel(scene));
        if draw().percent(30) {
            steps.push(messages::monitor());
        }
        steps
    }
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

/// Lets a client work until the round is over.
pub fn work(scene: &Scene<'_>, mut step: Step<'_>) {
    while let Some(mut talk) = Talk::open(scene) {
        while scene.may_work() {
            scene.busy.fetch_add(1, SeqCst);
            // A pause that began in between is kept.
            let serves = scene.pause.load(SeqCst) || step(&mut talk);
            scene.busy.fetch_sub(1, SeqCst);
            if !serves {
                break;
            }
        }
    }
}

/// Waits until all clients rest; returns whether they do in time.
pub fn rest(scene: &Scene<'_>) -> bool {
    scene.pause.store(true, SeqCst);
    nobody_works(scene, || scene.lost.load(SeqCst))
}

/// Waits until all clients have seen that their server is gone; returns whether they do in time.
pub fn left(scene: &Scene<'_>) -> bool {
    nobody_works(scene, || false)
}

fn nobody_works(scene: &Scene<'_>, gives_up: impl Fn() -> bool) -> bool {
    let (began, load) = (Instant::now(), scene.load());
    while scene.busy.load(SeqCst) > 0 {
        if gives_up() || began.elapsed() > scene.stretched(scene.bounds.recovery_max, load) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    true
}

/// Whether a reply refuses a command without having done anything, for a reason that lies in the state of the server.
pub fn is_refusal(value: &Value) -> bool {
    let Value::Error(text) = value else { return false };
    let text = String::from_utf8_lossy(text);
    let starts = ["BUSY ", "LOADING ", "MISCONF ", "OOM ", "EXECABORT ", "NOREPLICAS"];
    starts.iter().any(|start| text.starts_with(start)) || text.contains("OOM ") || text.contains("MISCONF ")
}

//! Thousands of connections: idle ones, ones that wait for the same key, and more than the server accepts.

use std::time::Duration;

use super::Foe;
use super::wire::{Flow, Wire};
use crate::argv;
use crate::rng::Rng;
use crate::siege::scene::Scene;

/// The key that a part of the crowd waits for.
pub const MASS_KEY: &str = "food:mass";
/// Connections opened or closed in one act.
const STEP: usize = 40;
/// One in this many waits for [`MASS_KEY`].
const WAITER_EVERY: usize = 4;

/// Connections that are held; some close and others open.
pub struct Crowd {
    wires: Vec<Wire>,
    len_max: usize,
}

impl Crowd {
    /// A crowd of `len_max`.
    pub fn new(len_max: usize) -> Crowd {
        Crowd { wires: Vec::with_capacity(len_max), len_max }
    }

    fn join(&mut self, scene: &Scene<'_>, rng: &mut Rng) {
        let Some(mut wire) = Wire::connect(scene) else { return };
        let mut bytes = Vec::new();
        if rng.below(WAITER_EVERY) == 0 {
            argv!["BLPOP", MASS_KEY, "0"].encode(&mut bytes);
        } else if rng.percent(50) {
            argv!["PING"].encode(&mut bytes);
        }
        wire.send(&bytes);
        self.wires.push(wire);
    }
}

impl Foe for Crowd {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let is_growing = self.wires.len() < self.len_max;
        let leave = if is_growing { 0 } else { rng.below(STEP) };
        for _ in 0..leave {
            let index = rng.below(self.wires.len());
            self.wires.swap_remove(index).vanish(rng);
        }
        let join = STEP.min(self.len_max - self.wires.len());
        (0..join).for_each(|_| self.join(scene, rng));
        scene.report.count("connections in the crowd", join as u64);
        Duration::from_millis(if is_growing { 10 } else { 40 })
    }
}

/// Every few seconds opens more connections than the server accepts, and closes them again.
#[derive(Default)]
pub struct Flood {
    wires: Vec<Wire>,
    looks: usize,
}

impl Foe for Flood {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        if self.looks > 0 {
            self.look(scene);
            self.looks -= 1;
            if self.looks == 0 {
                self.wires.drain(..).for_each(|wire| wire.vanish(rng));
                return Duration::from_secs(3);
            }
            return Duration::from_millis(50);
        }
        // No more files may be opened by this process than the system allows; what cannot be opened is left out.
        self.wires.extend((0..STEP).filter_map(|_| Wire::connect(scene)));
        if self.wires.len() >= 1500 {
            scene.report.count("floods", 1);
            self.looks = 6;
        }
        Duration::from_millis(5)
    }
}

impl Flood {
    /// A refused connection must get the reason.
    fn look(&mut self, scene: &Scene<'_>) {
        let mut refused = 0;
        self.wires.retain_mut(|wire| {
            let mut received = Vec::new();
            if wire.receive(&mut received) == Flow::Stuck {
                return true;
            }
            refused += 1;
            if !received.is_empty() && received != b"-ERR max number of clients reached\r\n" {
                let got = String::from_utf8_lossy(&received).into_owned();
                scene.fail("flood", "a refused client is told why", got);
            }
            false
        });
        scene.report.count("connections refused", refused);
    }
}

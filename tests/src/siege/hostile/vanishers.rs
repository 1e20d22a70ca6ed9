//! Clients that vanish in the middle of a pipeline, and clients that kill others.

use std::time::Duration;

use super::Foe;
use super::wire::{Flow, Wire};
use crate::argv;
use crate::rng::Rng;
use crate::siege::polite::COUNTER_KEYS;
use crate::siege::scene::Scene;

/// Sends a pipeline that ends in the middle of a command, and vanishes a moment later.
#[derive(Default)]
pub struct Vanisher {
    wire: Option<Wire>,
}

impl Foe for Vanisher {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        if let Some(wire) = self.wire.take() {
            wire.vanish(rng);
            return Duration::from_millis(rng.below(60) as u64);
        }
        let Some(mut wire) = Wire::connect(scene) else { return Duration::from_millis(100) };
        let mut pipeline = Vec::new();
        let mut increments = 0;
        for _ in 0..rng.below(300) {
            let key = rng.below(100);
            match rng.below(6) {
                0 => {
                    increments += 1;
                    argv!["INCR", format!("counter:{}", key % COUNTER_KEYS)]
                }
                1 => argv!["SET", format!("vanish:{key}"), vec![b'v'; rng.below(2000)]],
                2 => argv!["GET", "hoard:big"],
                3 => argv!["LPUSH", format!("vanish:list:{key}"), "e"],
                4 => argv!["LTRIM", format!("vanish:list:{key}"), "0", "20"],
                _ => argv!["APPEND", format!("vanish:{key}"), "tail"],
            }
            .encode(&mut pipeline);
        }
        scene.foe_increments.fetch_add(increments, std::sync::atomic::Ordering::Relaxed);
        let whole = pipeline.len();
        argv!["SET", "vanish:never", vec![b'v'; 100_000]].encode(&mut pipeline);
        pipeline.truncate(whole + rng.below(pipeline.len() - whole));
        wire.send(&pipeline);
        if let Some(prey) = wire.prey()
            && rng.percent(20)
        {
            scene.offer(prey, rng);
        }
        scene.report.count("vanished in a pipeline", 1);
        self.wire = Some(wire);
        Duration::from_millis([0, 0, 1, 5, 30][rng.below(5)])
    }
}

/// Kills, or unblocks, clients that were offered as prey.
#[derive(Default)]
pub struct Killer {
    wire: Option<Wire>,
    scratch: Vec<u8>,
}

impl Foe for Killer {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            self.wire = Wire::connect(scene);
            return Duration::from_millis(5);
        };
        self.scratch.clear();
        if wire.receive(&mut self.scratch) == Flow::Over {
            self.wire = None;
            return Duration::from_millis(20);
        }
        let Some(prey) = scene.prey(rng) else { return Duration::from_millis(5) };
        let mut bytes = Vec::new();
        match (prey.id, rng.below(4)) {
            (Some(id), 0) => argv!["CLIENT", "UNBLOCK", id.to_string(), "ERROR"],
            (Some(id), 1) => argv!["CLIENT", "UNBLOCK", id.to_string()],
            (Some(id), 2) => argv!["CLIENT", "KILL", "ID", id.to_string()],
            _ => argv!["CLIENT", "KILL", "ADDR", prey.addr],
        }
        .encode(&mut bytes);
        wire.send(&bytes);
        scene.report.count("kills", 1);
        Duration::from_millis(2)
    }
}

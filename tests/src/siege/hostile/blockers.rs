//! Clients that wait for keys and vanish while they do, and one that keeps them supplied.

use std::time::Duration;

use super::Foe;
use super::wire::{Flow, Wire};
use crate::argv;
use crate::argv::Argv;
use crate::resp::{Value, reply_len};
use crate::rng::Rng;
use crate::siege::scene::Scene;

/// Waits, sometimes with commands in front and behind, and vanishes.
#[derive(Default)]
pub struct Blocker {
    wire: Option<Wire>,
    received: Vec<u8>,
    has_id: bool,
}

impl Foe for Blocker {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            let Some(mut wire) = Wire::connect(scene) else { return Duration::from_millis(100) };
            let mut bytes = Vec::new();
            argv!["CLIENT", "ID"].encode(&mut bytes);
            (0..rng.below(3)).for_each(|_| argv!["GET", "hoard:small"].encode(&mut bytes));
            (0..1 + rng.below(3)).for_each(|_| wait(rng).encode(&mut bytes));
            argv!["GET", "hoard:small"].encode(&mut bytes);
            wire.send(&bytes);
            self.received.clear();
            self.has_id = false;
            self.wire = Some(wire);
            scene.report.count("blocking clients", 1);
            return Duration::from_millis(rng.below(40) as u64);
        };
        if !self.has_id {
            wire.receive(&mut self.received);
            self.has_id = true;
            let mut prey = wire.prey();
            if let Some(prey) = &mut prey
                && let Ok(Some(len)) = reply_len(&self.received)
                && let Ok(Value::Int(id)) = Value::parse(&self.received[..len])
            {
                prey.id = Some(id);
            }
            if let Some(prey) = prey
                && rng.percent(50)
            {
                scene.offer(prey, rng);
            }
            return Duration::from_millis(rng.below(300) as u64);
        }
        if let Some(wire) = self.wire.take() {
            wire.vanish(rng);
        }
        Duration::from_millis(rng.below(20) as u64)
    }
}

fn wait(rng: &mut Rng) -> Argv {
    let (one, other) = (format!("food:{}", rng.below(10)), format!("food:{}", rng.below(10)));
    let (ranks, ate) = (format!("ranks:{}", rng.below(10)), format!("eaten:{}", rng.below(10)));
    match rng.below(10) {
        0 => argv!["BLPOP", one, other, "food:none", "0"],
        1 => argv!["BRPOP", one, other, "0.05"],
        2 => argv!["BLMOVE", one, other, "LEFT", "RIGHT", "0"],
        3 => argv!["BLMOVE", "queue:moved", "queue:foe", "RIGHT", "LEFT", "0"],
        4 => argv!["BRPOPLPUSH", "queue:moved", "queue:foe", "0"],
        5 => argv!["BZPOPMIN", ranks, "ranks:none", "0"],
        6 => argv!["BLMPOP", "0", "2", one, other, "RIGHT", "COUNT", "2"],
        7 => argv!["BZMPOP", "0", "1", ranks, "MIN"],
        8 => argv!["XREADGROUP", "GROUP", "foes", ate, "COUNT", "3", "BLOCK", "0", "STREAMS", "stream", ">"],
        _ => argv!["XREAD", "BLOCK", "0", "STREAMS", "stream", "other", "$", "$"],
    }
}

/// Pushes to what others wait for, and to a key that a crowd waits for.
#[derive(Default)]
pub struct Feeder {
    wire: Option<Wire>,
    scratch: Vec<u8>,
}

impl Foe for Feeder {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            self.wire = Wire::connect(scene);
            return Duration::from_millis(20);
        };
        self.scratch.clear();
        if wire.receive(&mut self.scratch) == Flow::Over {
            self.wire = None;
            return Duration::from_millis(20);
        }
        let mut bytes = Vec::new();
        for _ in 0..4 {
            let key = rng.below(10);
            match rng.below(6) {
                0 => argv!["ZADD", format!("ranks:{key}"), "1", rng.below(5).to_string()],
                1 => argv!["LPUSH", super::crowd::MASS_KEY, "e"],
                2 => argv!["LTRIM", format!("food:{key}"), "0", "10"],
                3 => argv!["SET", format!("food:{key}"), "another type"],
                4 => argv!["DEL", format!("food:{key}")],
                _ => argv!["RPUSH", format!("food:{key}"), "a", "b"],
            }
            .encode(&mut bytes);
        }
        wire.send(&bytes);
        scene.report.count("feedings", 4);
        Duration::from_millis(2)
    }
}

//! Clients that do permitted but costly things: pauses, flushes of a database of their own, settings, long commands.

use std::time::Duration;

use super::Foe;
use super::wire::{Flow, Wire};
use crate::argv;
use crate::argv::Argv;
use crate::rng::Rng;
use crate::siege::scene::Scene;

/// Sends what `next` makes, every `pause`, and reads the replies without looking at them.
pub struct Nuisance {
    wire: Option<Wire>,
    scratch: Vec<u8>,
    deed: &'static str,
    pause: Duration,
    first: fn() -> Vec<Argv>,
    next: fn(&mut Rng) -> Vec<Argv>,
}

impl Nuisance {
    fn new(deed: &'static str, pause_ms: u64, first: fn() -> Vec<Argv>, next: fn(&mut Rng) -> Vec<Argv>) -> Nuisance {
        Nuisance { wire: None, scratch: Vec::new(), deed, pause: Duration::from_millis(pause_ms), first, next }
    }

    /// Pauses all clients for up to 20 ms, three times a second.
    pub fn pauser() -> Nuisance {
        Nuisance::new("pauses", 300, Vec::new, |rng| {
            let mode = rng.pick(&["ALL", "WRITE"]);
            let pause = argv!["CLIENT", "PAUSE", (5 + rng.below(16)).to_string(), mode];
            if rng.percent(50) { vec![pause] } else { vec![pause, argv!["CLIENT", "UNPAUSE"]] }
        })
    }

    /// Fills, flushes and swaps databases 8 and 9.
    pub fn flusher() -> Nuisance {
        Nuisance::new("flushes", 20, Vec::new, |rng| {
            let mut commands = vec![argv!["SELECT", (8 + rng.below(2)).to_string()]];
            let value = vec![b'f'; 200];
            commands.extend((0..100).map(|_| argv!["SET", format!("flush:{}", rng.below(1000)), value]));
            commands.push(match rng.below(4) {
                0 => argv!["FLUSHDB", "SYNC"],
                1 => argv!["FLUSHDB", "ASYNC"],
                _ => argv!["SWAPDB", "8", "9"],
            });
            commands
        })
    }

    /// Changes settings to and fro.
    pub fn configurer() -> Nuisance {
        Nuisance::new("settings", 50, Vec::new, |rng| {
            let (name, values) = [
                ("hash-max-listpack-entries", ["128", "4"]),
                ("list-max-listpack-size", ["-2", "8"]),
                ("set-max-intset-entries", ["512", "2"]),
                ("slowlog-log-slower-than", ["10000", "-1"]),
                ("hz", ["10", "100"]),
                ("maxmemory", ["0", "8gb"]),
                ("lazyfree-lazy-user-del", ["yes", "no"]),
                ("pipeline-slice-us", ["1000", "200"]),
                ("tcp-keepalive", ["300", "10"]),
            ][rng.below(9)];
            vec![argv!["CONFIG", "SET", name, values[rng.below(2)]], argv!["CONFIG", "GET", "*"]]
        })
    }

    /// Works on large collections of its own and looks at every key.
    pub fn toiler() -> Nuisance {
        let first = || {
            let numbered = |name: &str, key: &str, from: usize| {
                let members = (from..from + 10_000).map(|i| format!("member:{i}").into_bytes());
                Argv([name.as_bytes().to_vec(), key.as_bytes().to_vec()].into_iter().chain(members).collect())
            };
            vec![
                argv!["DEL", "toil:list"],
                numbered("SADD", "toil:a", 0),
                numbered("SADD", "toil:b", 5000),
                numbered("RPUSH", "toil:list", 0),
            ]
        };
        Nuisance::new("long commands", 100, first, |rng| {
            vec![match rng.below(6) {
                0 => argv!["SUNIONSTORE", "toil:c", "toil:a", "toil:b"],
                1 => argv!["SORT", "toil:list", "ALPHA", "DESC", "STORE", "toil:sorted"],
                2 => argv!["KEYS", "*"],
                3 => argv!["SINTERSTORE", "toil:c", "toil:a", "toil:b"],
                4 => argv!["ZUNIONSTORE", "toil:z", "2", "toil:a", "toil:b"],
                _ => argv!["DEL", "toil:c", "toil:z", "toil:sorted"],
            }]
        })
    }
}

impl Foe for Nuisance {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let is_new = self.wire.is_none();
        if is_new {
            self.wire = Wire::connect(scene);
        }
        let Some(wire) = &mut self.wire else { return Duration::from_millis(100) };
        self.scratch.clear();
        while let Flow::Bytes(_) = wire.receive(&mut self.scratch) {}
        let commands = if is_new { (self.first)() } else { (self.next)(rng) };
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match wire.send(rest) {
                Flow::Bytes(len) => rest = &rest[len..],
                // Half a command is no use: begin anew.
                Flow::Stuck | Flow::Over => {
                    self.wire = None;
                    return self.pause;
                }
            }
        }
        scene.report.count(self.deed, 1);
        self.pause
    }
}

//! Clients that switch replies off and on in the middle of a pipeline, and check which bytes come.

use std::time::{Duration, Instant};

use super::Foe;
use super::wire::{Flow, Wire};
use crate::argv;
use crate::rng::Rng;
use crate::siege::scene::Scene;

/// CLIENT REPLY OFF, SKIP and ON.
#[derive(Default)]
pub struct Mute {
    wire: Option<Wire>,
    received: Vec<u8>,
    wanted: Vec<u8>,
    since: Option<Instant>,
}

impl Foe for Mute {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            let Some(mut wire) = Wire::connect(scene) else { return Duration::from_millis(100) };
            let pipeline = self.pipeline(rng);
            if wire.send(&pipeline) != Flow::Bytes(pipeline.len()) {
                return Duration::from_millis(100);
            }
            (self.wire, self.since) = (Some(wire), Some(Instant::now()));
            self.received.clear();
            return Duration::from_millis(2);
        };
        let flow = wire.receive(&mut self.received);
        let late = self.since.is_some_and(|since| since.elapsed() > Duration::from_secs(10));
        if self.received.len() < self.wanted.len() && flow != Flow::Over && !late {
            return Duration::from_millis(2);
        }
        let refused = self.received.starts_with(b"-ERR max number of clients") || self.received.is_empty() && !late;
        if self.received != self.wanted && !refused {
            let (got, wanted) = (String::from_utf8_lossy(&self.received), String::from_utf8_lossy(&self.wanted));
            scene.fail(
                "mute",
                "replies while they are on and none while they are off",
                format!("{got:?}, not {wanted:?}"),
            );
        }
        scene.report.count("muted pipelines", 1);
        self.wire = None;
        Duration::from_millis(rng.below(30) as u64)
    }
}

impl Mute {
    fn pipeline(&mut self, rng: &mut Rng) -> Vec<u8> {
        let (mut pipeline, mut on) = (Vec::new(), true);
        self.wanted.clear();
        for i in 0..rng.below(60) {
            let token = format!("{i}-{}", rng.below(1000));
            match rng.below(6) {
                0 => {
                    argv!["CLIENT", "REPLY", "OFF"].encode(&mut pipeline);
                    on = false;
                }
                1 => {
                    argv!["CLIENT", "REPLY", "ON"].encode(&mut pipeline);
                    self.wanted.extend_from_slice(b"+OK\r\n");
                    on = true;
                }
                2 => {
                    argv!["CLIENT", "REPLY", "SKIP"].encode(&mut pipeline);
                    argv!["ECHO", "skipped"].encode(&mut pipeline);
                }
                _ => {
                    argv!["ECHO", token].encode(&mut pipeline);
                    if on {
                        self.wanted.extend_from_slice(format!("${}\r\n{token}\r\n", token.len()).as_bytes());
                    }
                }
            }
        }
        argv!["CLIENT", "REPLY", "ON"].encode(&mut pipeline);
        self.wanted.extend_from_slice(b"+OK\r\n");
        pipeline
    }
}

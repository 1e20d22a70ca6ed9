//! Clients that read late, slowly, or never.

use std::time::{Duration, Instant};

use super::Foe;
use super::wire::{Flow, Wire};
use crate::argv;
use crate::rng::Rng;
use crate::siege::scene::Scene;

const SHORT: Duration = Duration::from_millis(2);

fn pause(rng: &mut Rng, ms_max: usize) -> Duration {
    Duration::from_millis(rng.below(ms_max) as u64)
}

/// Sends a long pipeline of GETs and never reads a reply.
pub struct Hoarder {
    key: &'static str,
    commands: usize,
    wire: Option<Wire>,
    unsent: Vec<u8>,
    sent: usize,
    until: Instant,
}

impl Hoarder {
    /// 100,000 GETs of a short value.
    pub fn small() -> Hoarder {
        Hoarder::new("hoard:small", 100_000)
    }

    /// 2,000 GETs of 100 KB each.
    pub fn big() -> Hoarder {
        Hoarder::new("hoard:big", 2_000)
    }

    fn new(key: &'static str, commands: usize) -> Hoarder {
        Hoarder { key, commands, wire: None, unsent: Vec::new(), sent: 0, until: Instant::now() }
    }
}

impl Foe for Hoarder {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        if Instant::now() > self.until {
            if let Some(wire) = self.wire.take() {
                wire.vanish(rng);
                return pause(rng, 500);
            }
            self.until = Instant::now() + Duration::from_millis(800) + pause(rng, 2500);
        }
        let Some(wire) = &mut self.wire else {
            self.wire = Wire::connect(scene);
            self.sent = 0;
            if self.unsent.is_empty() {
                let mut get = Vec::new();
                argv!["GET", self.key].encode(&mut get);
                self.unsent = get.repeat(self.commands);
            }
            scene.report.count("hoarders", 1);
            return SHORT;
        };
        let end = self.unsent.len().min(self.sent + (256 << 10));
        match wire.send(&self.unsent[self.sent..end]) {
            Flow::Bytes(len) => self.sent += len,
            Flow::Stuck => return 5 * SHORT,
            Flow::Over => {
                self.wire = None;
                return Duration::from_millis(100);
            }
        }
        if self.sent < self.unsent.len() {
            return SHORT;
        }
        if let Some(prey) = wire.prey()
            && rng.percent(40)
        {
            scene.offer(prey, rng);
        }
        self.until.saturating_duration_since(Instant::now()) + SHORT
    }
}

/// Sends byte by byte, and wants its replies nevertheless.
#[derive(Default)]
pub struct Dribbler {
    wire: Option<Wire>,
    command: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    wanted: Vec<u8>,
    since: Option<Instant>,
}

impl Foe for Dribbler {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            self.wire = Wire::connect(scene);
            (self.sent, self.since) = (0, None);
            self.received.clear();
            let token = format!("dribble-{}", rng.next_u64());
            self.command.clear();
            argv!["ECHO", token].encode(&mut self.command);
            self.wanted = format!("${}\r\n{token}\r\n", token.len()).into_bytes();
            return SHORT;
        };
        if self.sent < self.command.len() {
            if wire.send(&self.command[self.sent..=self.sent]) == Flow::Bytes(1) {
                self.sent += 1;
            }
            return Duration::from_millis(1 + rng.below(4) as u64);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let flow = wire.receive(&mut self.received);
        let is_refusal = self.received.starts_with(b"-ERR max number of clients");
        let late = since.elapsed() > Duration::from_secs(10);
        if self.received.len() >= self.wanted.len() || flow == Flow::Over || late {
            if self.received != self.wanted && !is_refusal {
                let got = format!("{:?} {flow:?} (late: {late})", String::from_utf8_lossy(&self.received));
                scene.fail("dribbler", "a reply to a command that came byte by byte", got);
            }
            scene.report.count("commands byte by byte", 1);
            self.wire = None;
        }
        Duration::from_millis(3)
    }
}

/// Sends a pipeline, closes its sending side, and wants every reply and then the end. Where others pause all clients, the
/// replies may end early: who closes its side during a pause is gone with the commands that wait.
pub struct HalfCloser {
    has_pauses: bool,
    wire: Option<Wire>,
    received: Vec<u8>,
    wanted: Vec<u8>,
    since: Option<Instant>,
}

impl HalfCloser {
    pub fn new(has_pauses: bool) -> Self {
        Self { has_pauses, wire: None, received: Vec::new(), wanted: Vec::new(), since: None }
    }
}

impl Foe for HalfCloser {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            let Some(mut wire) = Wire::connect(scene) else { return 50 * SHORT };
            let (mut pipeline, mut wanted) = (Vec::new(), Vec::new());
            for _ in 0..1 + rng.below(400) {
                let token = rng.next_u64().to_string();
                argv!["ECHO", token].encode(&mut pipeline);
                wanted.extend_from_slice(format!("${}\r\n{token}\r\n", token.len()).as_bytes());
            }
            if wire.send(&pipeline) != Flow::Bytes(pipeline.len()) {
                return 50 * SHORT;
            }
            wire.half_close();
            (self.wanted, self.since) = (wanted, Some(Instant::now()));
            self.received.clear();
            self.wire = Some(wire);
            return SHORT;
        };
        let flow = wire.receive(&mut self.received);
        let late = self.since.is_some_and(|since| since.elapsed() > Duration::from_secs(10));
        if flow != Flow::Over && !late {
            return SHORT;
        }
        let is_refusal = self.received.is_empty() || self.received.starts_with(b"-ERR max number of clients");
        let is_whole = self.received == self.wanted || self.has_pauses && self.wanted.starts_with(&self.received);
        if late || !is_whole && !is_refusal {
            let (got, wanted) = (self.received.len(), self.wanted.len());
            let got = format!("{got} of {wanted} bytes, {flow:?} (late: {late})");
            scene.fail("half-closer", "all replies and the end after half a close", got);
        }
        scene.report.count("half-closed pipelines", 1);
        self.wire = None;
        pause(rng, 50)
    }
}

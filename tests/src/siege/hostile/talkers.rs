//! Clients that announce data that never comes, and clients that send nonsense.

use std::time::Duration;

use super::Foe;
use super::wire::{Flow, Wire};
use crate::rng::Rng;
use crate::siege::scene::Scene;

/// Announces huge arguments or very many of them, sends hardly any, and holds on.
#[derive(Default)]
pub struct Announcer {
    wire: Option<Wire>,
}

impl Foe for Announcer {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        if let Some(wire) = self.wire.take() {
            wire.vanish(rng);
            return Duration::from_millis(rng.below(200) as u64);
        }
        let Some(mut wire) = Wire::connect(scene) else { return Duration::from_millis(100) };
        let announcement: &[u8] = match rng.below(6) {
            0 => b"*3\r\n$3\r\nSET\r\n$4\r\nhuge\r\n$500000000\r\nabc",
            1 => b"*1048576\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\n",
            2 => b"*2\r\n$500000000\r\n",
            3 => b"*1000000\r\n$400000000\r\nabc",
            4 => b"*3\r\n$6\r\nAPPEND\r\n$4\r\nhuge\r\n$33554432\r\n",
            _ => b"*2147483647\r\n$2147483647\r\n",
        };
        wire.send(announcement);
        if rng.percent(30) {
            wire.send(&vec![b'x'; rng.below(200_000)]);
        }
        scene.report.count("announcements", 1);
        self.wire = Some(wire);
        Duration::from_millis(300 + rng.below(1500) as u64)
    }
}

/// Sends bytes that are not RESP, and reads until the server closes the connection.
#[derive(Default)]
pub struct Babbler {
    wire: Option<Wire>,
    received: Vec<u8>,
    looks: usize,
}

impl Foe for Babbler {
    fn act(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> Duration {
        let Some(wire) = &mut self.wire else {
            let Some(mut wire) = Wire::connect(scene) else { return Duration::from_millis(100) };
            wire.send(&babble(rng));
            (self.wire, self.looks) = (Some(wire), 0);
            self.received.clear();
            scene.report.count("babbles", 1);
            return Duration::from_millis(2);
        };
        self.looks += 1;
        let has_enough = wire.receive(&mut self.received) == Flow::Over || self.looks > 10;
        if has_enough && let Some(wire) = self.wire.take() {
            wire.vanish(rng);
        }
        Duration::from_millis(5)
    }
}

fn babble(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => (0..rng.below(3000)).map(|_| rng.next_u64() as u8).collect(),
        1 => b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec(),
        2 => b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
        3 => b"*-5\r\n*0\r\n*abc\r\n".to_vec(),
        4 => b"*3\r\n:1\r\n+SET\r\n".to_vec(),
        5 => b"*1\r\n$99999999999999999999\r\n".to_vec(),
        6 => vec![b'a'; 70_000],
        _ => b"SET \"unbalanced\r\n*2\r\n$-1\r\n$3\r\nfoo".to_vec(),
    }
}

//! Every fuzz target for a moment: random bytes made of what the formats are made of.

use std::time::{Duration, Instant};

use onrush_fuzz::TARGETS;

const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"*1\r\n",
    b"*3\r\n",
    b"$3\r\n",
    b"$64\r\n",
    b"$70\r\n",
    // Replies.
    b"+OK\r\n",
    b"_\r\n",
    b"%1\r\n",
    b"|1\r\n",
    b">2\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"SET",
    b"*",
    b"?",
    b"[a-z]",
    b"[^",
    b"\\",
    b"\"",
    b"'",
    b" ",
    b"-",
    b"1",
    b"99999999999999999999",
    b"0.1",
    b"e10",
    b"0x1p3",
    b"inf",
    b"maxmemory 1gb\n",
    b"save 1 2\n",
    b"port ",
    b"key [NX | XX]",
    b"<a | b>",
    b"...",
    // A database, a key with an expiry, a small listpack, a compressed string, the end of a file.
    b"\xfe\x00",
    b"\xfc\0\0\0\0\0\0\0\0\x00\x01k",
    b"\x10\x01k\x0d\x0d\0\0\0\x02\0\x81f\x02\x81v\x02\xff",
    b"\xc3\x04\x05\x00a\x40\x00",
    b"\xff",
    // What stands in append-only files.
    b"*1\r\n$5\r\nMULTI\r\n",
    b"*1\r\n$4\r\nEXEC\r\n",
    b"*2\r\n$1\r\nA\r\n$0\r\n\r\n",
    b"#TS:1\r\n",
    b"file a seq 1 type b\n",
    b"file 'b c' seq 2 type i\n",
    // A file of nodes, and what a primary tells its replicas.
    b"1111111111111111111111111111111111111111 ",
    b"10.0.0.1:1@2 ",
    b"myself,master - 0 0 1 connected ",
    b"0-16383 ",
    b"[5-<-1111111111111111111111111111111111111111]\n",
    b"vars currentEpoch 3 lastVoteEpoch 2\n",
    b"vars currentEpoch 3 lastVoteEpoch 2 onrushOrphaned 0-99,200-200/300-300 onrushUnclaimed 7-9\n",
    b"onrush-slots 1111111111111111111111111111111111111111 1 0-5 -",
];

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..self.below(24) {
            match self.below(4) {
                0 => input.push(self.below(256) as u8),
                1 => {
                    let byte = self.below(256) as u8;
                    input.extend(std::iter::repeat_n(byte, self.below(80)));
                }
                _ => input.extend_from_slice(PIECES[self.below(PIECES.len())]),
            }
        }
        input
    }
}

#[test]
fn no_target_falls_over_in_a_moment() {
    let seconds = std::env::var("ONRUSH_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0.3);
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64);
    let seed = std::env::var("ONRUSH_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now).max(1);
    println!("ONRUSH_FUZZ_SEED={seed}");
    let mut random = Random(seed);
    for (name, target) in TARGETS {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        while Instant::now() < end {
            let input = random.input();
            let caught = std::panic::catch_unwind(|| target(&input));
            assert!(caught.is_ok(), "{name} fell over on {:?}", input.escape_ascii().to_string());
        }
    }
}

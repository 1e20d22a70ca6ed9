//! Crafted payloads for RESTORE: each is a value or an error, whatever its bytes are.
//!
//! They are payloads of real values, changed in a few places and sealed again. What is accepted is read whole, dumped and deleted.

use std::collections::BTreeMap;
use std::time::Instant;

use onrush_persist::rdb::{open_payload, seal_payload};
use onrush_tests::amount::{first_seed, is_nightly};
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server};

/// Payloads per round of the pipeline.
const BATCH: usize = 100;

/// Most memory that the server may use at the end beyond that at the beginning, in bytes.
const GROWTH_MAX: i64 = 32 << 20;

/// Makes values of all types in all forms.
const VALUES: &[&str] = &[
    "SET int 12345 PX 1000000",
    "SET short abc",
    "SETRANGE long 3000 x",
    "RPUSH list a 1 -70000 abcdefghijklmnopqrstuvwxyz 99999999999",
    "SADD ints 1 2 3 70000 9999999999",
    "SADD set a b c 1 2 3",
    "HSET hash f v g 1 h 99999999",
    "ZADD zset 1 a 2.5 b -inf c 1e300 d",
    "XADD stream 1-1 f v g w",
    "XADD stream 1-2 f v g w",
    "XADD stream 5-0 other 1",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group consumer COUNT 2 STREAMS stream >",
    "XGROUP CREATECONSUMER stream group idle",
    "XDEL stream 1-2",
    "PFADD hll a b c d",
    "HSET timed f v g 1",
    "HEXPIRE timed 100000 FIELDS 1 f",
    "XADD twice IDMP p i * f v",
];

const LARGE: &str = "for i = 1, 300 do local m = 'member:' .. i redis.call('RPUSH', 'l', m) redis.call('SADD', 's', m) \
                     redis.call('HSET', 'h', m, i) redis.call('ZADD', 'z', i / 3, m) redis.call('XADD', 'x', i .. '-1', 'f', m) \
                     redis.call('SADD', 'i', i * 1000003) end";

/// The payloads of real values, without their footers.
fn real_payloads() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let mut dump_all = |server: &Server| {
        let mut conn = server.connect();
        for command in VALUES {
            // Older servers do not have all of them.
            conn.run(command);
        }
        conn.call(&argv!["EVAL", LARGE, "0"]);
        let keys = conn.run("KEYS *");
        for key in keys.items().expect("an array") {
            let reply = conn.call(&argv!["DUMP", key.text()]);
            let payload = reply.bytes().expect("a payload").to_vec();
            bodies.push(open_payload(&payload).expect("a payload of a server").to_vec());
        }
    };
    dump_all(&Server::start_onrush(&[]));
    dump_all(&Server::start_onrush(&["--rdbcompression", "no"]));
    for oracle in Oracle::ALL {
        let plain = ["--hash-max-listpack-entries", "0", "--zset-max-listpack-entries", "0"];
        dump_all(&Server::start_oracle(oracle, &[]));
        dump_all(&Server::start_oracle(oracle, &plain));
    }
    bodies
}

/// A payload changed in a few places.
fn crafted(rng: &mut Rng, bodies: &[Vec<u8>]) -> Vec<u8> {
    const BYTES: [u8; 12] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xf0, 0xfe, 0xff];
    let mut body = bodies[rng.below(bodies.len())].clone();
    for _ in 0..1 + rng.below(4) {
        // Most of the structure stands in front.
        let len = if rng.percent(50) { body.len() } else { body.len().min(40) };
        let at = rng.below(len.max(1)).min(body.len().saturating_sub(1));
        match rng.below(8) {
            _ if body.is_empty() => body.push(BYTES[rng.below(BYTES.len())]),
            0 | 1 => body[at] ^= 1 << rng.below(8),
            2 | 3 => body[at] = BYTES[rng.below(BYTES.len())],
            4 => body.insert(at, BYTES[rng.below(BYTES.len())]),
            5 => _ = body.remove(at),
            6 => body.truncate(at),
            _ => {
                // The front of one and the end of another.
                let other = &bodies[rng.below(bodies.len())];
                body.truncate(at);
                body.extend_from_slice(&other[rng.below(other.len())..]);
            }
        }
    }
    let version = [10, 12, 11, 9, 6][rng.below(5)];
    seal_payload(&mut body, version);
    body
}

fn check_batch(conn: &mut Conn, payloads: &[Vec<u8>], seen: &mut BTreeMap<String, usize>) {
    let mut batch: Vec<Argv> = Vec::new();
    for payload in payloads {
        batch.push(argv!["RESTORE", "k", "0", payload, "REPLACE"]);
        batch.extend([argv!["DEBUG", "DIGEST-VALUE", "k"], argv!["DUMP", "k"], argv!["OBJECT", "ENCODING", "k"]]);
        batch.push(argv!["DEL", "k"]);
    }
    let replies = conn.try_pipeline(&batch).unwrap_or_else(|error| {
        let hex: Vec<String> = payloads.iter().map(|payload| payload.escape_ascii().to_string()).collect();
        panic!("{error}; one of\n{}", hex.join("\n"))
    });
    for (replies, payload) in replies.chunks(5).zip(payloads) {
        let shown = || payload.escape_ascii().to_string();
        let outcome = String::from_utf8_lossy(&replies[0]).trim().to_owned();
        let is_there = outcome == "+OK";
        assert!(is_there || outcome.starts_with("-ERR "), "{outcome} of {}", shown());
        assert!(replies[1].starts_with(b"*1\r\n"), "{}", shown());
        // What is empty, or has expired by its own account, is not there.
        if is_there && replies[4] == b":1\r\n" {
            let again = replies[2].splitn(2, |byte| *byte == b'\n').nth(1).and_then(|rest| rest.strip_suffix(b"\r\n"));
            assert!(again.and_then(open_payload).is_some(), "{}", shown());
        }
        *seen.entry(outcome).or_default() += 1;
    }
}

#[test]
fn whatever_stands_in_a_payload_it_is_a_value_or_an_error() {
    let count = std::env::var("ONRUSH_TEST_PAYLOADS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(if is_nightly() { 40_000 } else { 10_000 });
    let seed = first_seed();
    let bodies = real_payloads();
    assert!(bodies.len() > 80, "{}", bodies.len());
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut conn = server.connect();
    let mut rng = Rng::new(seed);
    let mut seen = BTreeMap::new();
    let used = conn.info_number("used_memory").expect("a number");
    let started = Instant::now();
    for _ in 0..count / BATCH {
        let payloads: Vec<Vec<u8>> = (0..BATCH).map(|_| crafted(&mut rng, &bodies)).collect();
        check_batch(&mut conn, &payloads, &mut seen);
        assert!(server.rss_kb() < 512 << 10, "{} KB", server.rss_kb());
    }
    println!("{count} payloads in {:?}: {seen:?}", started.elapsed());
    let accepted = seen.get("+OK").copied().unwrap_or(0);
    assert!(accepted > count / 20 && accepted < count, "{seen:?}");
    let grown = conn.info_number("used_memory").expect("a number") - used;
    assert!(grown < GROWTH_MAX, "{grown} bytes are kept");
    assert!(!server.log().contains("panicked"), "{}", server.log_tail());
}

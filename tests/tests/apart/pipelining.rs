//! The pipelining contract, a test per promise. Run with `--test-threads=1`: some tests measure time.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::latency::{Latencies, holds_once};
use onrush_tests::process;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Server, wait_until};

const MILLION: usize = 1_000_000;

fn start(workers: usize, args: &[&str]) -> Server {
    Server::start_onrush(&[&["--workers", &workers.to_string()], args].concat())
}

fn encode(argv: &Argv) -> Vec<u8> {
    let mut bytes = Vec::new();
    argv.encode(&mut bytes);
    bytes
}

/// Writes `count` copies of a command in pieces of about 64 kB.
fn write_copies(conn: &mut Conn, command: &[u8], count: usize) -> std::io::Result<()> {
    let per_piece = (64 * 1024 / command.len()).clamp(1, count);
    let piece = command.repeat(per_piece);
    for _ in 0..count / per_piece {
        conn.send(&piece)?;
    }
    conn.send(&command.repeat(count % per_piece))
}

#[test]
fn replies_come_in_order_at_every_depth() {
    for workers in [1, 2] {
        let server = start(workers, &[]);
        std::thread::scope(|scope| {
            for client in 0..6 {
                let server = &server;
                scope.spawn(move || {
                    let mut conn = server.connect();
                    for depth in [1, 2, 3, 15, 16, 17, 63, 64, 65, 100, 1_000, 10_000] {
                        in_order(&mut conn, client, depth);
                    }
                });
            }
        });
    }
}

/// Sends a batch in which every reply tells its place.
fn in_order(conn: &mut Conn, client: usize, depth: usize) {
    let place = |i: usize| format!("{client}:{depth}:{i}");
    let commands: Vec<Argv> = (0..depth)
        .map(|i| match i % 4 {
            0 => argv!["ECHO", place(i)],
            1 => argv!["INCR", format!("counter:{client}:{depth}")],
            2 => argv!["SET", format!("key:{client}"), place(i), "GET"],
            _ => argv!["GET", format!("key:{client}")],
        })
        .collect();
    conn.call(&argv!["SET", format!("key:{client}"), "before"]);
    let mut last = "before".to_owned();
    for (i, raw) in conn.pipeline(&commands).iter().enumerate() {
        let want = match i % 4 {
            0 => Value::Bulk(place(i).into_bytes()),
            1 => Value::Int(i as i64 / 4 + 1),
            2 => Value::Bulk(std::mem::replace(&mut last, place(i)).into_bytes()),
            _ => Value::Bulk(last.clone().into_bytes()),
        };
        let got = Value::parse(raw).expect("a complete reply");
        assert_eq!(got, want, "client {client}, depth {depth}, command {i}");
    }
}

#[test]
fn an_error_takes_its_own_place_only() {
    for workers in [1, 2] {
        let server = start(workers, &[]);
        let mut conn = server.connect();
        let mut commands = vec![argv!["SET", "text", "x"]];
        for i in 0..3_000 {
            commands.push(match i % 6 {
                0 => argv!["INCR", "n"],
                1 => argv!["INCR", "text"],
                2 => argv!["NOSUCH", "a"],
                3 => argv!["GET"],
                4 => argv!["SET", "a", "b", "EX", "0"],
                _ => argv!["GET", "text"],
            });
        }
        let replies = conn.pipeline(&commands);
        for (i, raw) in replies[1..].iter().enumerate() {
            let want = match i % 6 {
                0 => format!(":{}\r\n", i / 6 + 1),
                1 => "-ERR value is not an integer or out of range\r\n".into(),
                2 => "-ERR unknown command 'NOSUCH', with args beginning with: 'a' \r\n".into(),
                3 => "-ERR wrong number of arguments for 'get' command\r\n".into(),
                4 => "-ERR invalid expire time in 'set' command\r\n".into(),
                _ => "$1\r\nx\r\n".into(),
            };
            assert_eq!(String::from_utf8_lossy(raw), want, "reply {i}");
        }
    }
}

#[test]
fn a_million_commands_may_be_written_before_the_first_reply_is_read() {
    for workers in [1, 2] {
        let server = start(workers, &[]);
        let mut conn = server.connect();
        let value = "v".repeat(100);
        conn.call(&argv!["SET", "key", value]);

        write_copies(&mut conn, &encode(&argv!["SET", "key", value]), MILLION).expect("taken");
        conn.discard(5 * MILLION as u64).expect("a million +OK");

        write_copies(&mut conn, &encode(&argv!["GET", "key"]), MILLION).expect("taken");
        conn.discard(108 * MILLION as u64).expect("a million values");

        write_copies(&mut conn, &encode(&argv!["INCR", "n"]), MILLION).expect("taken");
        for i in 1..=MILLION {
            assert_eq!(conn.read_reply().expect("a reply"), format!(":{i}\r\n").into_bytes());
        }
        assert_eq!(conn.run("PING").text(), "PONG");
        assert_eq!(conn.buffered_len(), 0);
    }
}

#[test]
fn unread_replies_stop_execution_but_not_reading() {
    let server = start(1, &[]);
    let mut conn = server.connect();
    let count = 200_000;
    conn.call(&argv!["SET", "key", "v".repeat(1_000)]);
    let before_kb = server.rss_kb();
    write_copies(&mut conn, &encode(&argv!["GET", "key"]), count).expect("taken, though no reply is read");
    let mut cpu = Duration::ZERO;
    wait_until("the server rests", || {
        let last = std::mem::replace(&mut cpu, server.cpu_time());
        std::thread::sleep(Duration::from_millis(100));
        last == cpu
    });
    let grown_kb = server.rss_kb().saturating_sub(before_kb);
    assert!(grown_kb < 64 * 1024, "200 MB of replies, 5 MB of requests: grown by {grown_kb} kB");
    conn.discard(1_009 * count as u64).expect("every reply");
    assert_eq!(conn.run("PING").text(), "PONG");
}

#[test]
fn a_client_that_reads_while_it_writes_needs_constant_memory() {
    for workers in [1, 2] {
        let server = start(workers, &[]);
        let mut conn = server.connect();
        conn.call(&argv!["SET", "key", "v".repeat(100)]);
        let before_kb = server.rss_kb();
        let mut writer = conn.writer().expect("a second handle");
        let highest_kb = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                write_copies(&mut writer, &encode(&argv!["GET", "key"]), 3 * MILLION).expect("taken");
            });
            for _ in 0..30 {
                conn.discard(108 * MILLION as u64 / 10).expect("replies");
                highest_kb.fetch_max(server.rss_kb(), Ordering::Relaxed);
            }
        });
        let grown_kb = highest_kb.into_inner().saturating_sub(before_kb);
        assert!(grown_kb < 64 * 1024, "grown by {grown_kb} kB");
    }
}

#[test]
fn a_client_that_never_reads_is_closed_at_the_query_buffer_limit() {
    for workers in [1, 2] {
        let server = start(workers, &["--client-query-buffer-limit", "8mb"]);
        let mut probe = server.connect();
        probe.call(&argv!["SET", "key", "v".repeat(1_000)]);
        let get = argv!["GET", "key"];
        let before_kb = server.rss_kb();
        let mut closed = 0;
        holds_once(|| {
            let quiet = Latencies::measure(&mut probe, &get, |calls| calls < 5_000);
            let flooded = latencies_beside_floods(&server, &mut probe, &get);
            closed += flooded.closed;
            let grown_kb = flooded.highest_kb.saturating_sub(before_kb);
            assert!(grown_kb < 128 * 1024, "grown by {grown_kb} kB");
            let limit = (quiet.quantile(990) * 2).max(Duration::from_millis(3));
            let fits = flooded.latencies.quantile(990) < limit;
            if fits { Ok(()) } else { Err(format!("quiet: {quiet}\nflooded: {}", flooded.latencies)) }
        });
        let counter = probe.info_number("client_query_buffer_limit_disconnections");
        assert!(counter >= Some(closed as i64), "INFO counts {counter:?}, not {closed}");
        server.expect_log("query buffer");
    }
}

struct Flooded {
    latencies: Latencies,
    closed: u64,
    highest_kb: u64,
}

/// Calls `get` on one connection while others, one after the other, send what they can and never read.
fn latencies_beside_floods(server: &Server, probe: &mut Conn, get: &Argv) -> Flooded {
    let (stop, closed, highest_kb) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let latencies = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                closed.fetch_add(u64::from(flood(server, &stop)), Ordering::Relaxed);
                highest_kb.fetch_max(server.rss_kb(), Ordering::Relaxed);
            }
        });
        let deadline = Instant::now() + Duration::from_secs(15);
        let latencies = Latencies::measure(probe, get, |calls| {
            let enough = calls >= 5_000 && closed.load(Ordering::Relaxed) >= 2;
            !enough && Instant::now() < deadline
        });
        stop.store(true, Ordering::Relaxed);
        latencies
    });
    let (closed, highest_kb) = (closed.into_inner(), highest_kb.into_inner());
    assert!(closed >= 2, "the server closed {closed} connections");
    Flooded { latencies, closed, highest_kb }
}

/// Sends requests without reading until the server closes the connection (true) or `stop` is set.
fn flood(server: &Server, stop: &AtomicBool) -> bool {
    let mut conn = server.connect();
    conn.set_write_timeout(Duration::from_millis(100));
    let piece = encode(&argv!["GET", "key"]).repeat(2_000);
    let mut sent_len = 0;
    while !stop.load(Ordering::Relaxed) {
        match conn.send_some(&piece) {
            Ok(len) => sent_len += len,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        assert!(sent_len < 1 << 30, "a gigabyte taken and not a reply read");
    }
    false
}

#[test]
fn a_long_pipeline_takes_turns_with_others_on_its_worker() {
    let server = start(1, &[]);
    server.connect().call(&argv!["SET", "key", "v"]);
    holds_once(|| {
        let latencies = latencies_beside_pipelines(&server);
        let fits =
            latencies.quantile(999) < Duration::from_millis(8) && latencies.quantile(500) < Duration::from_millis(3);
        if fits { Ok(()) } else { Err(latencies.to_string()) }
    });
}

/// Calls GET on one connection while another sends one pipeline of a million commands after the other.
fn latencies_beside_pipelines(server: &Server) -> Latencies {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut conn = server.connect();
        let mut writer = conn.writer().expect("a second handle");
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                write_copies(&mut writer, &encode(&argv!["SET", "other", "v"]), MILLION).expect("taken");
            }
            writer.half_close();
        });
        scope.spawn(move || {
            while !matches!(conn.fill(), Ok(0)) {
                conn.forget()
            }
        });
        let mut probe = server.connect();
        let latencies = Latencies::measure(&mut probe, &argv!["GET", "key"], |calls| calls < 3_000);
        stop.store(true, Ordering::Relaxed);
        latencies
    })
}

#[test]
fn a_half_closed_socket_still_gets_its_replies() {
    for workers in [1, 2] {
        let server = start(workers, &[]);
        server.connect().call(&argv!["SET", "key", "v".repeat(10_000)]);
        for (command, reply_len, count) in [("PING", 7, 100_000), ("GET key", 10_010, 3_000)] {
            let mut conn = server.connect();
            write_copies(&mut conn, &encode(&Argv::parse(command).expect("a line")), count).expect("taken");
            conn.half_close();
            let got = conn.read_to_close().expect("closed after the last reply");
            assert_eq!(got.len(), reply_len * count, "{command}");
        }
    }
}

#[test]
fn a_vanished_client_leaves_nothing_behind() {
    let server = start(2, &[]);
    let mut probe = server.connect();
    probe.call(&argv!["SET", "key", "v".repeat(10_000)]);
    let files = process::open_files(server.pid());
    let mut round = || {
        let mut conns: Vec<Conn> = (0..50).map(|_| server.connect()).collect();
        for conn in &mut conns {
            write_copies(conn, &encode(&argv!["GET", "key"]), 500).expect("taken");
            conn.send(b"*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$100000\r\nhalf a value").expect("taken");
        }
        drop(conns);
        wait_until("only the probe is left", || probe.run("CLIENT LIST").text().lines().count() == 1);
        wait_until("INFO counts one client", || probe.info_number("connected_clients") == Some(1));
        wait_until("the sockets are closed", || process::open_files(server.pid()) <= files);
    };
    let before_kb = server.rss_kb();
    for _ in 0..15 {
        round();
    }
    wait_until("their memory has come back", || server.rss_kb() < before_kb + 32 * 1024);
    assert_eq!(probe.run("EXISTS other"), Value::Int(0));
}

#[test]
fn replies_can_be_switched_off_within_a_pipeline() {
    let server = start(1, &[]);
    let mut conn = server.connect();
    let mut bytes = encode(&argv!["CLIENT", "REPLY", "OFF"]);
    bytes.extend(encode(&argv!["INCR", "n"]).repeat(50_000));
    bytes.extend(encode(&argv!["CLIENT", "REPLY", "ON"]));
    bytes.extend(encode(&argv!["INCR", "n"]));
    for _ in 0..1_000 {
        bytes.extend(encode(&argv!["CLIENT", "REPLY", "SKIP"]));
        bytes.extend(encode(&argv!["INCR", "n"]));
    }
    bytes.extend(encode(&argv!["GET", "n"]));
    conn.send(&bytes).expect("taken");
    assert_eq!(conn.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(conn.read_reply().expect("a reply"), b":50001\r\n");
    assert_eq!(conn.read_reply().expect("a reply"), b"$5\r\n51001\r\n");
}

#[test]
fn commands_on_several_keys_are_atomic() {
    let server = start(2, &[]);
    let keys: Vec<String> = (0..10).map(|i| format!("key:{i}")).collect();
    let mset =
        |value: &str| Argv::new(&[vec!["MSET"], keys.iter().flat_map(|k| [k.as_str(), value]).collect()].concat());
    let mget = Argv::new(&[vec!["MGET"], keys.iter().map(String::as_str).collect()].concat());
    server.connect().call(&mset("start"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (server, stop, mset) = (&server, &stop, &mset);
            scope.spawn(move || {
                let mut conn = server.connect();
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    let commands: Vec<Argv> = (0..50).map(|i| mset(&format!("{writer}:{round}:{i}"))).collect();
                    conn.pipeline(&commands);
                    round += 1;
                }
            });
        }
        let mut conn = server.connect();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1_000 {
            for raw in conn.pipeline(&vec![mget.clone(); 20]) {
                let reply = Value::parse(&raw).expect("a complete reply");
                let values = reply.items().expect("an array");
                assert!(values.iter().all(|v| *v == values[0]), "half an MSET is visible: {reply}");
                seen.insert(values[0].text());
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(seen.len() > 10, "the writers hardly ran: {} values", seen.len());
    });
}

#[test]
fn counters_lose_no_increment_under_many_pipelines() {
    let server = start(2, &[]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut conn = server.connect();
                write_copies(&mut conn, &encode(&argv!["INCR", "n"]), 100_000).expect("taken");
                let replies: Vec<Vec<u8>> = (0..100_000).map(|_| conn.read_reply().expect("a reply")).collect();
                let number = |raw: &[u8]| Value::parse(raw).expect("a complete reply");
                let Value::Int(first) = number(&replies[0]) else { panic!("no integer") };
                let Value::Int(last) = number(&replies[99_999]) else { panic!("no integer") };
                assert!(last - first >= 99_999, "{first} to {last}");
            });
        }
    });
    assert_eq!(server.connect().run("GET n").text(), "400000");
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = start(2, &["--maxclients", "10"]);
    let mut conns: Vec<Conn> = (0..10).map(|_| server.connect()).collect();
    for conn in &mut conns {
        assert_eq!(conn.run("PING").text(), "PONG");
    }
    let got = server.connect().read_to_close().expect("closed");
    assert_eq!(String::from_utf8_lossy(&got), "-ERR max number of clients reached\r\n");
    assert!(conns[0].info_number("rejected_connections") >= Some(1));
    conns.pop();
    wait_until("there is room again", || {
        let mut conn = server.connect();
        conn.try_call(&argv!["PING"]).is_ok_and(|reply| reply == b"+PONG\r\n")
    });
}

#[test]
fn large_values_travel_in_pipelines() {
    for workers in [1, 2] {
        let server = start(workers, &[]);
        let mut conn = server.connect();
        let large: Vec<u8> = (0..10_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut commands = Vec::new();
        for i in 0..4 {
            let key = format!("large:{i}");
            commands.extend([
                argv!["SET", key, large],
                argv!["INCR", "n"],
                argv!["GET", key],
                argv!["APPEND", key, "tail"],
                argv!["GETRANGE", key, "-6", "-1"],
                argv!["STRLEN", key],
            ]);
        }
        let replies = conn.pipeline(&commands);
        for (i, chunk) in replies.chunks(6).enumerate() {
            assert_eq!(chunk[0], b"+OK\r\n");
            assert_eq!(chunk[1], format!(":{}\r\n", i + 1).into_bytes());
            let want = [b"$10000000\r\n", &large[..], b"\r\n"].concat();
            assert!(chunk[2] == want, "value {i} has changed on the way");
            assert_eq!(chunk[3], b":10000004\r\n");
            assert_eq!(chunk[4], [b"$6\r\n", &large[9_999_998..], b"tail\r\n"].concat());
            assert_eq!(chunk[5], b":10000004\r\n");
        }
    }
}

#[test]
fn the_contract_holds_on_unix_sockets() {
    let server = Launch::onrush().unix_socket().start();
    let mut conn = server.connect();
    write_copies(&mut conn, &encode(&argv!["INCR", "n"]), 100_000).expect("taken");
    for i in 1..=100_000 {
        assert_eq!(conn.read_reply().expect("a reply"), format!(":{i}\r\n").into_bytes());
    }
    write_copies(&mut conn, &encode(&argv!["PING"]), 1_000).expect("taken");
    conn.half_close();
    assert_eq!(conn.read_to_close().expect("closed").len(), 7_000);
}

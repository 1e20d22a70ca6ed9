//! Many connections that are ready at the same moment are served as one batch; the input and the end of one connection
//! do not affect the others.

use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, stall};

const CONNS: usize = 150;

/// A server with one worker, and connections to it.
fn crowd(args: &[&str]) -> (Server, Vec<Conn>) {
    let args = [&["--workers", "1", "--enable-debug-command", "yes"], args].concat();
    let server = Server::start_onrush(&args);
    let mut conns: Vec<Conn> = (0..CONNS).map(|_| server.connect()).collect();
    // All are accepted by now.
    conns.iter_mut().for_each(|conn| assert_eq!(conn.run("PING").text(), "PONG"));
    (server, conns)
}

/// Lets `send` write to the connections while the worker sleeps, so that it finds all of it at once.
fn at_once(server: &Server, send: impl FnOnce()) {
    let mut sleeper = server.connect();
    // Needed, and right, in one test only.
    sleeper.run("AUTH secret");
    sleeper.send_command(&argv!["DEBUG", stall(), "0.3"]).expect("taken");
    std::thread::sleep(Duration::from_millis(100));
    send();
    sleeper.read_reply().expect("OK");
}

fn encode(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Argv::parse(line).expect("a line").encode(&mut bytes);
    bytes
}

#[test]
fn every_connection_gets_its_own_replies_in_order() {
    let (server, mut conns) = crowd(&[]);
    // From one command to more than a chunk holds, cut in the middle of a command for some.
    let streams: Vec<Vec<u8>> = (0..CONNS)
        .map(|at| (0..at % 70).flat_map(|n| encode(&format!("ECHO {at}-{n}"))).chain(encode("INCR all")).collect())
        .collect();
    let cuts: Vec<usize> = streams.iter().enumerate().map(|(at, stream)| stream.len() - at % 9).collect();
    at_once(&server, || {
        for ((conn, stream), cut) in conns.iter_mut().zip(&streams).zip(&cuts) {
            conn.send(&stream[..*cut]).expect("taken");
        }
    });
    at_once(&server, || {
        for ((conn, stream), cut) in conns.iter_mut().zip(&streams).zip(&cuts) {
            conn.send(&stream[*cut..]).expect("taken");
        }
    });
    let mut counts = Vec::new();
    for (at, conn) in conns.iter_mut().enumerate() {
        for n in 0..at % 70 {
            let echoed = Value::parse(&conn.read_reply().expect("a reply")).expect("RESP");
            assert_eq!(echoed.text(), format!("{at}-{n}"));
        }
        match Value::parse(&conn.read_reply().expect("a reply")).expect("RESP") {
            Value::Int(count) => counts.push(count),
            other => panic!("INCR: {other}"),
        }
    }
    counts.sort_unstable();
    assert_eq!(counts, (1..=CONNS as i64).collect::<Vec<_>>());
}

#[test]
fn databases_protocols_and_reply_modes_stay_apart() {
    let (server, mut conns) = crowd(&[]);
    for (at, conn) in conns.iter_mut().enumerate() {
        conn.run(&format!("SELECT {}", at % 16));
        conn.run(if at % 2 == 0 { "HELLO 2" } else { "HELLO 3" });
    }
    at_once(&server, || {
        for (at, conn) in conns.iter_mut().enumerate() {
            let skip = if at % 3 == 0 { encode("CLIENT REPLY SKIP") } else { Vec::new() };
            let commands = [skip, encode(&format!("SADD s {at}")), encode("GET none")].concat();
            conn.send(&commands).expect("taken");
        }
    });
    for (at, conn) in conns.iter_mut().enumerate() {
        if at % 3 != 0 {
            assert_eq!(conn.read_reply().expect("a reply"), b":1\r\n");
        }
        let null: &[u8] = if at % 2 == 0 { b"$-1\r\n" } else { b"_\r\n" };
        assert_eq!(conn.read_reply().expect("a reply"), null);
        let members = (0..CONNS).filter(|other| other % 16 == at % 16).count();
        assert_eq!(conn.run("SCARD s"), Value::Int(members as i64));
    }
}

#[test]
fn what_ends_one_connection_ends_no_other() {
    let (server, mut conns) = crowd(&[]);
    let mut victim_ids = Vec::new();
    for conn in &mut conns {
        match conn.run("CLIENT ID") {
            Value::Int(id) => victim_ids.push(id),
            other => panic!("CLIENT ID: {other}"),
        }
    }
    // Every tenth connection comes to an end in one way or another; the one behind a killer is its victim.
    at_once(&server, || {
        for (at, conn) in conns.iter_mut().enumerate() {
            let commands = match at % 50 {
                10 => b"INCR odd\r\nGET\r\nDEBUG PANIC\r\nINCR never\r\n".to_vec(),
                20 => b"INCR odd\r\n*x\r\nINCR never\r\n".to_vec(),
                30 => b"INCR odd\r\nQUIT\r\nINCR never\r\n".to_vec(),
                40 => format!("INCR odd\r\nCLIENT KILL ID {}\r\nPING\r\n", victim_ids[at + 1]).into_bytes(),
                41 => b"INCR never\r\n".to_vec(),
                _ => b"INCR even\r\n".to_vec(),
            };
            conn.send(&commands).expect("taken");
        }
    });
    let mut even = 0;
    for (at, conn) in conns.iter_mut().enumerate() {
        match at % 50 {
            10 => assert!(conn.read_to_close().is_ok_and(|rest| !rest.contains(&b'+')), "panicked"),
            20 => {
                let rest = String::from_utf8(conn.read_to_close().expect("closed")).expect("text");
                assert!(rest.ends_with("-ERR Protocol error: invalid multibulk length\r\n"), "{rest}");
            }
            30 => assert!(conn.read_to_close().expect("closed").ends_with(b"+OK\r\n")),
            40 => {
                conn.read_reply().expect("of INCR");
                assert_eq!(conn.read_reply().expect("of CLIENT KILL"), b":1\r\n");
                assert_eq!(conn.read_reply().expect("of PING"), b"+PONG\r\n");
            }
            41 => assert!(conn.read_to_close().is_ok_and(|rest| rest.is_empty()), "killed"),
            _ => {
                even += 1;
                assert!(conn.read_reply().expect("a reply").starts_with(b":"));
            }
        }
    }
    let mut conn = server.connect();
    assert_eq!(conn.run("GET even").text(), even.to_string());
    assert_eq!(conn.run("GET odd").text(), "12");
    assert_eq!(conn.run("EXISTS never"), Value::Int(0));
    let info = conn.run("INFO stats").text().to_owned();
    let processed = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    let processed: usize = processed.expect("in INFO").trim().parse().expect("a number");
    assert!((even..=10 * CONNS).contains(&processed), "{processed} commands processed");
}

#[test]
fn who_waits_for_a_key_is_served_by_another_of_the_same_moment() {
    let (server, mut conns) = crowd(&[]);
    let (waiting, pushing) = conns.split_at_mut(CONNS / 2);
    at_once(&server, || {
        for (at, conn) in waiting.iter_mut().enumerate() {
            conn.send(format!("BLPOP list{at} 5\r\nPING\r\n").as_bytes()).expect("taken");
        }
        for (at, conn) in pushing.iter_mut().enumerate() {
            conn.send(format!("RPUSH list{at} {at}\r\n").as_bytes()).expect("taken");
        }
    });
    for (at, conn) in waiting.iter_mut().enumerate() {
        let popped = conn.read_reply().expect("a reply");
        assert!(popped.ends_with(format!("\r\n{at}\r\n").as_bytes()), "{}", String::from_utf8_lossy(&popped));
        assert_eq!(conn.read_reply().expect("a reply"), b"+PONG\r\n");
    }
    for conn in pushing {
        assert_eq!(conn.read_reply().expect("a reply"), b":1\r\n");
    }
}

#[test]
fn a_pause_holds_all_of_them_back_and_a_password_lets_none_in() {
    let (server, mut conns) = crowd(&[]);
    let mut other = server.connect();
    assert_eq!(other.run("CLIENT PAUSE 600").text(), "OK");
    for conn in &mut conns {
        conn.send(b"INCR n\r\nINCR n\r\n").expect("taken");
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(conns.iter_mut().all(|conn| conn.buffered_len() == 0));
    for conn in &mut conns {
        conn.read_reply().expect("a reply");
        conn.read_reply().expect("a reply");
    }
    assert_eq!(other.run("GET n").text(), (2 * CONNS).to_string());

    assert_eq!(other.run("CONFIG SET requirepass secret").text(), "OK");
    let mut strangers: Vec<Conn> = (0..CONNS).map(|_| server.connect()).collect();
    std::thread::sleep(Duration::from_millis(50));
    at_once(&server, || {
        for (at, conn) in strangers.iter_mut().enumerate() {
            let password = if at % 2 == 0 { "secret" } else { "wrong" };
            conn.send(format!("INCR n\r\nAUTH {password}\r\nECHO in\r\n").as_bytes()).expect("taken");
        }
    });
    for (at, conn) in strangers.iter_mut().enumerate() {
        assert!(conn.read_reply().expect("a reply").starts_with(b"-NOAUTH"));
        let (auth, echo) = (conn.read_reply().expect("a reply"), conn.read_reply().expect("a reply"));
        let starts: [&[u8]; 2] = if at % 2 == 0 { [b"+OK", b"$2"] } else { [b"-WRONGPASS", b"-NOAUTH"] };
        assert!(auth.starts_with(starts[0]) && echo.starts_with(starts[1]));
    }
}

/// The replies to commands that are repeated `times` times, on a fresh database.
fn replies_to_rows(server: &Server, lines: &[(&str, usize)]) -> Vec<u8> {
    let mut conn = server.connect();
    conn.run("FLUSHALL");
    let bytes: Vec<u8> = lines.iter().flat_map(|(line, times)| encode(line).repeat(*times)).collect();
    conn.send(&bytes).expect("taken");
    conn.half_close();
    conn.read_to_close().expect("closed after the last reply")
}

#[test]
fn rows_of_equal_commands_reply_as_one_by_one() {
    let (onrush, oracle) = (Server::start_onrush(&["--workers", "1"]), Server::start_redis(&[]));
    for lines in [
        &[("INCR counter", 1_000), ("GET counter", 300), ("DECR counter", 1_500)][..],
        &[("SET long-name 95", 1), ("INCR long-name", 20), ("APPEND long-name x", 3), ("INCR long-name", 200)],
        &[("SET counter 9223372036854775800", 1), ("INCR counter", 20), ("DECR counter", 20)],
        &[("SET counter -9223372036854775800", 1), ("DECRBY counter 3", 20), ("INCRBY counter 0", 5)],
        &[("INCRBY counter 9223372036854775807", 3), ("DECRBY counter -9223372036854775808", 3)],
        &[("INCRBY counter 7", 150), ("INCRBY counter x", 3), ("INCRBY counter 1000000000", 40)],
        &[("RPUSH counter x", 3), ("INCR counter", 40), ("LPOP counter", 40), ("INCR counter", 2)],
        &[("CLIENT REPLY SKIP", 1), ("INCR counter", 20), ("CLIENT REPLY OFF", 2), ("INCR counter", 20)],
        &[("CLIENT REPLY OFF", 1), ("INCR counter", 500), ("CLIENT REPLY ON", 1), ("INCR counter", 5)],
        &[("PING", 5_000), ("INCR counter extra", 40), ("NOSUCHCOMMAND", 40), ("PING", 3)],
        &[("SELECT 3", 40), ("INCR counter", 40), ("SELECT 0", 2), ("INCR counter", 40), ("QUIT", 40)],
        &[("MSET a 1 b 2", 40), ("MGET a b none", 40), ("DEL a", 40), ("DEL none other", 40)],
        &[("INCR counter", 129), ("INCR other-one", 127), ("INCR counter", 128), ("INCR other-one", 1)],
    ] {
        let (ours, theirs) = (replies_to_rows(&onrush, lines), replies_to_rows(&oracle, lines));
        let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        assert!(ours == theirs, "{lines:?}: from byte {at} on: {}", String::from_utf8_lossy(&ours[at..]));
    }
}

#[test]
fn rows_of_equal_commands_are_counted_and_noticed_one_by_one() {
    let server =
        Server::start_onrush(&["--workers", "1", "--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0"]);
    let mut conn = server.connect();
    conn.send(&encode("INCR counter").repeat(1_000)).expect("taken");
    (0..1_000).for_each(|_| _ = conn.read_reply().expect("a reply"));
    let stats = conn.run("INFO commandstats").text();
    assert!(stats.contains("cmdstat_incr:calls=1000,"), "{stats}");
    assert_eq!(conn.info_number("rdb_changes_since_last_save"), Some(1_000));
    // Every access counts with this factor, up to 255.
    assert_eq!(conn.run("OBJECT FREQ counter"), Value::Int(255));
    let info = conn.run("CLIENT INFO").text();
    assert!(info.contains(" cmd=client|info "), "{info}");
}

//! Names, patterns and keys that are long, odd, or there many times.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Server, skips_on_stand_in};

const MB: i64 = 1 << 20;

fn used(conn: &mut Conn) -> i64 {
    conn.info_number("used_memory").expect("a number")
}

#[test]
fn the_name_of_a_consumer_is_there_once() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let add: Vec<Argv> = (1..=1_000).map(|id| argv!["XADD", "s", format!("{id}-1"), "f", "v"]).collect();
    conn.pipeline(&add);
    conn.run("XGROUP CREATE s g 0");
    let (before, name) = (used(&mut conn), "c".repeat(100_000));
    conn.call(&argv!["XREADGROUP", "GROUP", "g", name, "COUNT", "1000", "STREAMS", "s", ">"]);
    let claimed = "d".repeat(100_000);
    conn.call(&argv!["XAUTOCLAIM", "s", "g", claimed, "0", "0", "COUNT", "1000", "JUSTID"]);
    let dump = conn.run("DUMP s");
    let restored = conn.call(&argv!["RESTORE", "t", "0", dump.bytes().expect("a payload").to_vec()]);
    assert_eq!(restored.text(), "OK");
    let grown = used(&mut conn) - before;
    assert!(grown < 4 * MB, "{grown}");
    assert_eq!(conn.run("XPENDING s g").items().map(|items| items[0].clone()), Some(Value::Int(1_000)));
}

/// A string whose hash as a key of a Lua table is 0, which Lua took for not known yet, 20 MB long.
const ZERO_HASH: &str = r"
    local s = '\60\185\251\44\71\197\166\230\49\85' .. string.rep('a', 50000000)
    local t, x = {}
    for i = 1, 300 do x = t[s] end
    return 'done'";

/// A full array with keys beyond it at the powers of two: its length is searched from the beginning.
const LONG_SEARCH: &str = r"
    local full, t = 2^22, {}
    local j = full + 1
    while j <= 2147483647 do t[j] = 1; j = j * 2 end
    for i = 1, full do t[i] = i end
    local n
    while true do n = #t end";

#[test]
fn no_lookup_of_a_script_takes_long_again_and_again() {
    let server = Server::start_onrush(&["--busy-reply-threshold", "200"]);
    let mut conn = server.connect();
    let began = Instant::now();
    assert_eq!(conn.call(&argv!["EVAL", ZERO_HASH, "0"]).text(), "done");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    conn.send_command(&argv!["EVAL", LONG_SEARCH, "0"]).expect("a connection");
    std::thread::sleep(Duration::from_secs(1));
    let (mut other, began) = (server.connect(), Instant::now());
    while other.run("SCRIPT KILL").is_error() {
        assert!(began.elapsed() < Duration::from_secs(10), "no script to kill");
    }
    assert!(Value::parse(&conn.read_reply().expect("a reply")).expect("a reply").is_error());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Long enough that matching one with the other takes some milliseconds.
fn slow_pattern(number: usize) -> String {
    format!("*{}b{number}", "a".repeat(1_400))
}

/// Clients of all workers get their replies in time while `slow` is under way on a connection.
fn nobody_waits(server: &Server, slow: &Argv, first: &Argv, others: &[&str]) {
    let mut conn = server.connect();
    conn.send_command(slow).expect("a connection");
    std::thread::sleep(Duration::from_millis(100));
    // It may have to wait for the slow one, but nobody behind it.
    let mut waits = server.connect();
    waits.send_command(first).expect("a connection");
    std::thread::sleep(Duration::from_millis(50));
    for line in others.iter().cycle().take(8) {
        let (mut other, began) = (server.connect(), Instant::now());
        assert!(!other.run(line).is_error(), "{line}");
        assert!(began.elapsed() < Duration::from_millis(700), "{line}: {:?}", began.elapsed());
    }
    conn.set_timeout(Duration::from_millis(1));
    assert!(conn.read_reply().is_err(), "it was not slow enough for this test");
    conn.set_timeout(Duration::from_secs(60));
    conn.read_reply().expect("a reply");
    waits.read_reply().expect("a reply");
}

#[test]
fn patterns_that_are_slow_to_match_hold_nobody_up() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut subscriber = server.connect();
    let mut subscribe = argv!["PSUBSCRIBE"];
    subscribe.0.extend((0..300).map(|number| slow_pattern(number).into_bytes()));
    subscriber.send_command(&subscribe).expect("a connection");
    (0..300).for_each(|_| _ = subscriber.read_reply().expect("a confirmation"));
    let publish = argv!["PUBLISH", "a".repeat(2_800), "m"];
    nobody_waits(&server, &publish, &argv!["PSUBSCRIBE", "x*"], &["PING", "SET a 1", "SUBSCRIBE c", "PUBLISH c m"]);
}

#[test]
fn events_of_a_long_key_find_their_patterns_in_bounded_time() {
    let server = Server::start_onrush(&["--notify-keyspace-events", "KEA"]);
    let (mut hostile, mut usual) = (server.connect(), server.connect());
    let mut subscribe = argv!["PSUBSCRIBE"];
    subscribe.0.extend((0..300).map(|number| slow_pattern(number).into_bytes()));
    hostile.send_command(&subscribe).expect("a connection");
    (0..300).for_each(|_| _ = hostile.read_reply().expect("a confirmation"));
    usual.run("PSUBSCRIBE __key*__:set");
    let (mut conn, began) = (server.connect(), Instant::now());
    assert_eq!(conn.call(&argv!["SET", "a".repeat(2_800), "v"]).text(), "OK");
    assert!(began.elapsed() < Duration::from_millis(700), "{:?}", began.elapsed());
    let event = Value::parse(&usual.read_reply().expect("an event")).expect("a message");
    assert_eq!(event.items().map(|items| items[2].text()), Some("__keyevent@0__:set".into()));
}

#[test]
fn elements_that_are_slow_to_match_hold_nobody_up() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for (add, scan, count) in [("HSET", "HSCAN", "HLEN"), ("SADD", "SSCAN", "SCARD"), ("ZADD", "ZSCAN", "ZCARD")] {
        let mut fill = argv![add, add];
        for number in 0..200 {
            let long = format!("{}{number}", "a".repeat(2_800)).into_bytes();
            match add {
                "HSET" => fill.0.extend([long, b"v".to_vec()]),
                "ZADD" => fill.0.extend([b"1".to_vec(), long]),
                _ => fill.0.push(long),
            }
        }
        conn.call(&fill);
        let slow = argv![scan, add, "0", "COUNT", "100000", "MATCH", slow_pattern(0)];
        nobody_waits(&server, &slow, &argv![count, add], &["PING", "GET a", "SET b 1"]);
    }
    // Usual scans stay where they are, and find what they should.
    let found = conn.call(&argv!["SSCAN", "SADD", "0", "COUNT", "100000", "MATCH", "*199"]);
    assert_eq!(found.items().and_then(|page| page[1].items()).map(<[Value]>::len), Some(1));
}

#[test]
fn who_may_not_read_finds_nothing_out_by_a_condition() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("SET w1 topsecret");
    conn.run("ACL SETUSER r on >p %R~ok* %W~w* +@all");
    conn.run("AUTH r p");
    for line in ["DELEX w1 IFEQ topsecret", "DELEX w1 IFNE x", "SET w1 x GET", "GET w1"] {
        assert!(conn.run(line).text().starts_with("NOPERM"), "{line}");
    }
    assert_eq!(conn.run("DELEX w1"), Value::Int(1));
}

#[test]
fn no_password_of_a_command_that_waits_is_in_the_slow_log() {
    let server = Launch::onrush().args(&["--slowlog-log-slower-than", "0", "--appendonly", "yes"]).start();
    let mut conn = server.connect();
    conn.run("SET k v");
    conn.run("CONFIG SET appendonly no masterauth tellnobody1");
    conn.run("CONFIG SET appendonly yes tls-key-file-pass tellnobody2");
    conn.run("MIGRATE 127.0.0.1 1 k 0 100 AUTH tellnobody3");
    conn.run("MIGRATE 127.0.0.1 1 k 0 100 AUTH2 somebody tellnobody4");
    let log = conn.run("SLOWLOG GET 100").to_string();
    assert!(log.contains("masterauth") && log.contains("MIGRATE"), "{log}");
    assert!(!log.contains("tellnobody"), "{log}");
}

#[test]
fn names_that_are_kept_for_a_client_are_counted() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let memory = |conn: &mut Conn| {
        let list = conn.run("CLIENT LIST ID 1000000 2 3 4 5 6 7 8 9").text();
        let of = list.lines().filter_map(|line| line.split(" tot-mem=").nth(1)?.split(' ').next()?.parse::<i64>().ok());
        of.max().unwrap_or(0)
    };
    let (mut tracker, before) = (server.connect(), used(&mut conn));
    tracker.run("HELLO 3");
    tracker.call(&argv!["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "p".repeat(10_000_000)]);
    let grown = used(&mut conn) - before;
    assert!((9 * MB..13 * MB).contains(&grown), "{grown}");
    assert!(memory(&mut conn) > 9 * MB, "{}", memory(&mut conn));
    tracker.run("CLIENT TRACKING OFF");
    tracker.call(&argv!["WATCH", "k".repeat(10_000_000)]);
    let grown = used(&mut conn) - before;
    assert!(memory(&mut conn) * 5 / 4 > grown, "{} of {grown}", memory(&mut conn));
    tracker.run("UNWATCH");
    let shown = tracker.run("CLIENT INFO").text();
    let left: i64 =
        shown.split(" tot-mem=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
    assert!(left < MB, "{left}");
}

#[test]
fn the_slow_log_keeps_the_beginning_of_a_name() {
    let server = Server::start_onrush(&["--slowlog-log-slower-than", "0"]);
    let mut conn = server.connect();
    conn.call(&argv!["CLIENT", "SETNAME", "n".repeat(5_000_000)]);
    let before = used(&mut conn);
    (0..50).for_each(|_| _ = conn.run("PING"));
    assert!(used(&mut conn) - before < 4 * MB, "{}", used(&mut conn) - before);
    let log = conn.run("SLOWLOG GET 1");
    let name = log.items().and_then(|all| all[0].items()).map(|entry| entry[5].text());
    assert_eq!(name.map(|name| name.len()), Some(128));
}

//! Commands that take long are executed beside the workers: no other client waits for them, and their own client sees
//! no difference.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::latency::holds_once;
use onrush_tests::process::peak_rss_kb;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

const MEMBERS: usize = 200_000;

fn start() -> Server {
    Server::start_onrush(&["--workers", "2", "--enable-debug-command", "yes"])
}

/// Makes a set of integers from `from` on.
fn fill(conn: &mut Conn, key: &str, from: usize, len: usize) {
    for part in (from..from + len).collect::<Vec<_>>().chunks(5_000) {
        let members = part.iter().map(|n| n.to_string().into_bytes());
        conn.call(&Argv([b"SADD".to_vec(), key.into()].into_iter().chain(members).collect()));
    }
}

fn started() -> (Server, Conn) {
    let server = start();
    let mut conn = server.connect();
    fill(&mut conn, "a", 0, MEMBERS);
    fill(&mut conn, "b", MEMBERS / 2, MEMBERS);
    (server, conn)
}

#[test]
fn a_pipeline_around_a_long_command_is_answered_in_order() {
    let (server, mut conn) = started();
    for protocol in ["2", "3"] {
        conn.call(&argv!["HELLO", protocol]);
        let replies = conn.pipeline(&[
            argv!["SET", "k", "before"],
            argv!["SUNIONSTORE", "u", "a", "b"],
            argv!["GET", "k"],
            argv!["SINTERSTORE", "i", "a", "b"],
            argv!["SCARD", "i"],
            argv!["SELECT", "1"],
            argv!["SUNIONSTORE", "u", "a", "b"],
            argv!["SELECT", "0"],
            argv!["SUNIONSTORE", "k:list", "a", "missing"],
            argv!["INCR", "k"],
            argv!["KEYS", "k"],
        ]);
        let texts: Vec<String> =
            replies.iter().map(|reply| String::from_utf8_lossy(reply).replace("\r\n", " ")).collect();
        let expected = [
            "+OK ",
            ":300000 ",
            "$6 before ",
            ":100000 ",
            ":100000 ",
            "+OK ",
            ":0 ",
            "+OK ",
            ":200000 ",
            "-ERR value is not an integer or out of range ",
            "*1 $1 k ",
        ];
        assert_eq!(texts, expected);
    }
    // A client that has closed its half gets all replies too.
    let mut half = server.connect();
    half.send(&[argv!["SDIFFSTORE", "d", "a", "b"], argv!["PING"]].iter().fold(Vec::new(), |mut bytes, argv| {
        argv.encode(&mut bytes);
        bytes
    }))
    .expect("sent");
    half.half_close();
    assert_eq!(half.read_to_close().expect("replies"), b":100000\r\n+PONG\r\n");
}

#[test]
fn replies_left_out_are_left_out_of_long_commands_too() {
    let (_server, mut conn) = started();
    let mut send = |argv: Argv| {
        let mut bytes = Vec::new();
        argv.encode(&mut bytes);
        conn.send(&bytes).expect("sent");
    };
    send(argv!["CLIENT", "REPLY", "SKIP"]);
    send(argv!["SUNIONSTORE", "u", "a", "b"]);
    send(argv!["PING", "1"]);
    send(argv!["CLIENT", "REPLY", "OFF"]);
    send(argv!["SUNIONSTORE", "u", "a", "b"]);
    send(argv!["SCARD", "u"]);
    send(argv!["CLIENT", "REPLY", "ON"]);
    send(argv!["SCARD", "u"]);
    let replies: Vec<Vec<u8>> = (0..3).map(|_| conn.read_reply().expect("a reply")).collect();
    assert_eq!(replies, [&b"$1\r\n1\r\n"[..], b"+OK\r\n", b":300000\r\n"]);
}

/// A transaction that is executed as a long command: so many commands, with `first` before them.
fn long_transaction(first: Argv) -> Vec<Argv> {
    let commands = std::iter::repeat_n(argv!["PING"], 10_001);
    [argv!["MULTI"], first].into_iter().chain(commands).chain([argv!["EXEC"]]).collect()
}

#[test]
fn what_a_long_transaction_changes_of_its_connection_holds_for_the_next_command() {
    let server = start();
    let mut conn = server.connect();
    conn.call(&argv!["HSET", "h", "f", "v"]);
    for (protocol, reply) in [("3", "%1\r\n$1\r\nf\r\n$1\r\nv\r\n"), ("2", "*2\r\n$1\r\nf\r\n$1\r\nv\r\n")] {
        let replies = conn.pipeline(&long_transaction(argv!["HELLO", protocol]));
        assert!(replies.last().expect("of EXEC").starts_with(b"*10002\r\n"));
        assert_eq!(conn.try_call(&argv!["HGETALL", "h"]).expect("a reply"), reply.as_bytes());
        let info = conn.call(&argv!["CLIENT", "INFO"]).text();
        assert!(info.contains(&format!(" resp={protocol} ")), "{info}");
    }
    // The reply of EXEC is judged by what its commands have said, too.
    for mode in ["OFF", "SKIP"] {
        let mut commands = long_transaction(argv!["CLIENT", "REPLY", mode]);
        let queued = commands.len() - 1;
        commands.extend([argv!["PING", "skipped"], argv!["CLIENT", "REPLY", "ON"], argv!["PING", "said"]]);
        let mut bytes = Vec::new();
        commands.iter().for_each(|argv| argv.encode(&mut bytes));
        conn.send(&bytes).expect("sent");
        for _ in 0..queued {
            conn.read_reply().expect("a reply");
        }
        let replies: Vec<Vec<u8>> = (0..2).map(|_| conn.read_reply().expect("a reply")).collect();
        assert_eq!(replies, [&b"+OK\r\n"[..], b"$4\r\nsaid\r\n"], "{mode}");
    }
}

#[test]
fn a_transaction_counts_against_the_limit_of_its_connection_while_it_is_executed() {
    let server = Server::start_onrush(&["--client-query-buffer-limit", "10mb"]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("bound").port().to_string();
    let (mut conn, mut probe) = (server.connect(), server.connect());
    probe.call(&argv!["SET", "k", "v"]);
    let large = argv!["SET", "a", "x".repeat(30_000)];
    let queued = std::iter::once(argv!["MULTI"]).chain(std::iter::repeat_n(large.clone(), 300));
    let mut bytes = Vec::new();
    queued.chain([argv!["MIGRATE", "127.0.0.1", port, "k", "0", "600000"], argv!["EXEC"]]).for_each(|argv| {
        argv.encode(&mut bytes);
    });
    conn.send(&bytes).expect("sent");
    let _silent = silent.accept().expect("the transaction is executed");
    assert_eq!(probe.info_number("client_query_buffer_limit_disconnections"), Some(0));
    for _ in 0..300 {
        // It may be closed before the last one.
        let _ = conn.send_command(&large);
    }
    wait_until("it is closed", || probe.info_number("client_query_buffer_limit_disconnections") == Some(1));
}

#[test]
fn others_do_not_wait_for_long_commands() {
    let (server, mut conn) = started();
    let over = AtomicBool::new(false);
    let waits = std::thread::scope(|scope| {
        let pingers: Vec<_> = (0..4)
            .map(|client| {
                let (server, over) = (&server, &over);
                scope.spawn(move || {
                    let mut conn = server.connect();
                    let mut waits = Vec::new();
                    while !over.load(Relaxed) {
                        let started = Instant::now();
                        match client % 2 {
                            0 => assert_eq!(conn.call(&argv!["PING"]).text(), "PONG"),
                            _ => assert_eq!(conn.call(&argv!["SET", format!("k{}", waits.len()), "v"]).text(), "OK"),
                        }
                        waits.push(started.elapsed());
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    waits
                })
            })
            .collect();
        let mut long = Duration::ZERO;
        for _ in 0..20 {
            let started = Instant::now();
            assert_eq!(conn.call(&argv!["SUNIONSTORE", "u", "a", "b"]), Value::Int(300_000));
            assert_eq!(conn.call(&argv!["SDIFFSTORE", "u", "a", "b"]), Value::Int(100_000));
            long = long.max(started.elapsed());
        }
        over.store(true, Relaxed);
        let mut waits: Vec<Duration> =
            pingers.into_iter().flat_map(|pinger| pinger.join().expect("no panic")).collect();
        waits.sort();
        eprintln!("long {long:?}, p99 {:?}, most {:?}", waits[waits.len() * 99 / 100], waits.last());
        waits
    });
    // With the command on a worker every pipeline of half the clients would wait for it: then p90 is its length.
    let p90 = waits[waits.len() * 90 / 100];
    assert!(p90 < Duration::from_millis(10), "{p90:?}");
}

/// How long a command takes until its reply begins, and the longest that others wait meanwhile.
fn beside(server: &Server, command: &Argv) -> (Duration, Duration) {
    let mut others: Vec<Conn> = (0..4).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|conn| assert_eq!(conn.run("PING").text(), "PONG"));
    let mut conn = server.connect();
    conn.send_command(command).expect("sent");
    conn.set_nonblocking(true);
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    while conn.fill().is_err() {
        for other in &mut others {
            let asked = Instant::now();
            assert_eq!(other.run("PING").text(), "PONG");
            longest = longest.max(asked.elapsed());
        }
    }
    (started.elapsed(), longest)
}

/// There may be too many of them for any memory.
#[test]
fn results_of_a_sort_are_kept_nowhere_but_in_its_reply() {
    const ELEMENTS: usize = 20_000;
    const PATTERNS: usize = 400;
    let server = start();
    let mut conn = server.connect();
    let push = Argv([b"RPUSH".to_vec(), b"l".to_vec()].into_iter().chain(vec![b"x".to_vec(); ELEMENTS]).collect());
    conn.call(&push);
    let patterns = (0..PATTERNS).flat_map(|_| [b"GET".to_vec(), b"no_pattern".to_vec()]);
    let sort = argv!["SORT", "l", "BY", "nosort"].0.into_iter().chain(patterns);
    conn.send_command(&Argv(sort.collect())).expect("sent");
    let results = ELEMENTS * PATTERNS;
    conn.discard((format!("*{results}\r\n").len() + results * "$-1\r\n".len()) as u64).expect("the reply");
    assert_eq!(conn.run("PING").text(), "PONG");
    let peak = peak_rss_kb(server.pid());
    assert!(peak < 170 << 10, "{peak} kB for {results} results");
}

/// What they cost is a number among their arguments, or the number of these.
#[test]
fn others_do_not_wait_for_long_commands_on_small_collections() {
    let server = start();
    let mut conn = server.connect();
    conn.pipeline(&[
        argv!["SADD", "s", "a", "b"],
        argv!["HSET", "h", "a", "1", "b", "2"],
        argv!["ZADD", "z", "1", "a"],
    ]);
    for _ in 0..20 {
        conn.call(&Argv([b"RPUSH".to_vec(), b"l".to_vec()].into_iter().chain(vec![b"x".to_vec(); 1_000]).collect()));
    }
    // None of them stands for a key.
    let patterns = (0..100).flat_map(|n| [b"GET".to_vec(), vec![b'p'; 500 + n]]);
    let sort = argv!["SORT", "l", "BY", "nosort", "GET", "#"];
    for command in [
        argv!["SRANDMEMBER", "s", "-5000000"],
        argv!["HRANDFIELD", "h", "-5000000", "WITHVALUES"],
        argv!["ZRANDMEMBER", "z", "-5000000"],
        Argv(sort.0.into_iter().chain(patterns).collect()),
    ] {
        holds_once(|| {
            let (took, longest) = beside(&server, &command);
            let is_short = longest < took / 2;
            let shown = command.0[0].escape_ascii();
            is_short.then_some(()).ok_or_else(|| format!("{shown} took {took:?}, others waited {longest:?}"))
        });
    }
}

#[test]
fn commands_on_keys_that_are_held_wait_and_nothing_is_lost() {
    let (server, mut conn) = started();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|client| {
                let (server, over) = (&server, &over);
                scope.spawn(move || {
                    let mut conn = server.connect();
                    let (counter, mut count) = (format!("count:{client}"), 0);
                    while !over.load(Relaxed) {
                        let replies = conn.pipeline(&[
                            argv!["INCR", &counter],
                            argv!["SISMEMBER", "a", "7"],
                            argv!["INCR", &counter],
                            argv!["SADD", "u", format!("x{client}")],
                            argv!["MSET", &counter, (count + 2).to_string(), "other", "1"],
                            argv!["OBJECT", "ENCODING", "u"],
                            argv!["INCR", &counter],
                        ]);
                        let numbers = [0, 2, 6].map(|at| String::from_utf8_lossy(&replies[at]).trim().to_owned());
                        assert_eq!(numbers, [1, 2, 3].map(|n| format!(":{}", count + n)));
                        assert_eq!(replies[1], b":1\r\n");
                        count += 3;
                    }
                    count
                })
            })
            .collect();
        for round in 0..15 {
            assert_eq!(conn.call(&argv!["SUNIONSTORE", "u", "a", "b"]), Value::Int(300_000));
            if round % 5 == 0 {
                assert_eq!(conn.call(&argv!["SWAPDB", "3", "4"]).text(), "OK");
            }
            let found = conn.call(&argv!["RANDOMKEY"]);
            assert!(!found.text().is_empty());
        }
        over.store(true, Relaxed);
        for (client, worker) in workers.into_iter().enumerate() {
            let count = worker.join().expect("no panic");
            assert_eq!(conn.call(&argv!["GET", format!("count:{client}")]).text(), count.to_string());
        }
    });
    wait_until("nobody is set aside", || server.connect().call(&argv!["PING"]).text() == "PONG");
}

#[test]
fn waiting_for_very_many_keys_is_as_waiting_for_few() {
    let server = start();
    let (mut waiting, mut conn) = (server.connect(), server.connect());
    let mut words: Vec<Vec<u8>> = vec![b"BLPOP".to_vec()];
    words.extend((0..20_000).map(|n| format!("q:{n}").into_bytes()));
    words.push(b"0".to_vec());
    let blpop = Argv(words.clone());
    let blocked = |conn: &mut Conn| conn.info_number("blocked_clients") == Some(1);
    // Served.
    waiting.send_command(&blpop).expect("sent");
    wait_until("it waits", || blocked(&mut conn));
    conn.call(&argv!["RPUSH", "q:19999", "x"]);
    assert_eq!(waiting.read_reply().expect("a reply"), b"*2\r\n$7\r\nq:19999\r\n$1\r\nx\r\n");
    // At once.
    conn.call(&argv!["RPUSH", "q:7", "y"]);
    assert_eq!(waiting.try_call(&blpop).expect("a reply"), b"*2\r\n$3\r\nq:7\r\n$1\r\ny\r\n");
    // Unblocked.
    let id = waiting.call(&argv!["CLIENT", "ID"]);
    let Value::Int(id) = id else { panic!("{id:?}") };
    waiting.send_command(&blpop).expect("sent");
    wait_until("it waits", || blocked(&mut conn));
    assert_eq!(conn.call(&argv!["CLIENT", "UNBLOCK", id.to_string(), "ERROR"]), Value::Int(1));
    assert!(waiting.read_reply().expect("a reply").starts_with(b"-UNBLOCKED"));
    // Timed out.
    *words.last_mut().expect("a timeout") = b"0.05".to_vec();
    assert_eq!(waiting.try_call(&Argv(words.clone())).expect("a reply"), b"*-1\r\n");
    // Killed: nothing is popped for it.
    waiting.send_command(&blpop).expect("sent");
    wait_until("it waits", || blocked(&mut conn));
    conn.call(&argv!["CLIENT", "KILL", "ID", id.to_string()]);
    conn.call(&argv!["RPUSH", "q:5", "z"]);
    assert_eq!(conn.call(&argv!["LLEN", "q:5"]), Value::Int(1));
    wait_until("nobody waits", || conn.info_number("blocked_clients") == Some(0));
}

#[test]
fn what_waits_of_a_client_that_is_told_to_go_is_not_executed() {
    // Six seconds of scripts, of which the order waits for one or two.
    const CLIENTS: i64 = 40;
    let script = "local t = redis.call('TIME') local e = t[1] * 1000 + t[2] / 1000 + 150 repeat local n = \
                  redis.call('TIME') until n[1] * 1000 + n[2] / 1000 > e return redis.call('INCR', 'n')";
    for order in ["ACL DELUSER u", "CLIENT KILL USER u"] {
        let (server, mut boss) = started();
        assert_eq!(boss.run("ACL SETUSER u on >p +@all ~*").text(), "OK");
        let mut crowd: Vec<Conn> = (0..CLIENTS).map(|_| server.connect()).collect();
        crowd.iter_mut().for_each(|conn| assert_eq!(conn.run("AUTH u p").text(), "OK"));
        crowd.iter_mut().for_each(|conn| conn.send_command(&argv!["EVAL", script, "0"]).expect("sent"));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!boss.run(order).is_error());
        let number = |conn: &mut Conn| match conn.run("INCRBY n 0") {
            Value::Int(number) => number,
            other => panic!("{other}"),
        };
        let before = number(&mut boss);
        crowd.iter_mut().for_each(|conn| _ = conn.read_to_close());
        std::thread::sleep(Duration::from_millis(500));
        // One may have been under way.
        let after = number(&mut boss);
        assert!(after <= before + 1 && after < CLIENTS - 1, "{order}: {before}, {after}");
    }
}

#[test]
fn a_client_that_is_killed_during_its_long_command_leaves_nothing_behind() {
    let (server, mut conn) = started();
    for _ in 0..10 {
        let mut victim = server.connect();
        let id = victim.call(&argv!["CLIENT", "ID"]);
        let Value::Int(id) = id else { panic!("{id:?}") };
        victim.send_command(&argv!["SUNIONSTORE", "u", "a", "b"]).expect("sent");
        let started = Instant::now();
        conn.call(&argv!["CLIENT", "KILL", "ID", id.to_string()]);
        assert!(started.elapsed() < Duration::from_secs(1));
    }
    let clients = |conn: &mut Conn| conn.info_number("connected_clients");
    wait_until("the victims are gone", || clients(&mut conn) == Some(1));
    assert_eq!(conn.call(&argv!["SUNIONSTORE", "u", "a", "b"]), Value::Int(300_000));
}

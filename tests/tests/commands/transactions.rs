//! MULTI, EXEC and WATCH: no client sees half of a transaction, and nothing is lost, whatever else goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

fn start() -> Server {
    Server::start_onrush(&["--workers", "2", "--enable-debug-command", "yes"])
}

/// Sends lines as one pipeline; returns the replies as text.
fn pipeline(conn: &mut Conn, lines: &[&str]) -> Vec<String> {
    let commands: Vec<Argv> = lines.iter().map(|line| Argv::parse(line).expect("a well-quoted line")).collect();
    conn.pipeline(&commands).iter().map(|raw| Value::parse(raw).expect("a reply").to_string()).collect()
}

fn last(conn: &mut Conn, lines: &[&str]) -> Value {
    let commands: Vec<Argv> = lines.iter().map(|line| Argv::parse(line).expect("a well-quoted line")).collect();
    Value::parse(conn.pipeline(&commands).last().expect("a reply")).expect("a reply")
}

#[test]
fn debug_that_is_not_allowed_is_not_queued_either() {
    let servers = [Server::start_onrush(&[]), Server::start_oracle(Oracle::Newer, &[])];
    let seen = servers.each_ref().map(|server| {
        let lines = ["DEBUG SLEEP 0", "MULTI", "DEBUG SLEEP 0", "DEBUG", "EXEC", "SUBSCRIBE a", "DEBUG SLEEP 0"];
        pipeline(&mut server.connect(), &lines)
    });
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0][2].contains("DEBUG command not allowed"), "{:?}", seen[0]);
}

/// How a reader looks at the two keys.
#[derive(Clone, Copy)]
enum Look {
    Together,
    InTransaction,
}

/// Two writers move the same amount from one key to another and back; readers see the sum unchanged each time.
#[test]
fn nobody_sees_half_of_a_transaction() {
    const OBSERVATIONS: u64 = 1_000_000;
    const BATCH: usize = 100;
    let server = start();
    server.connect().run("MSET left 1000 right 1000");
    let (seen, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut conn = server.connect();
                let (from, to) = if writer == 0 { ("left", "right") } else { ("right", "left") };
                let transfer = [argv!["MULTI"], argv!["DECRBY", from, "7"], argv!["INCRBY", to, "7"], argv!["EXEC"]];
                let batch: Vec<Argv> = transfer.iter().cycle().take(4 * BATCH / 10).cloned().collect();
                while !is_over.load(Relaxed) {
                    conn.pipeline(&batch);
                }
            });
        }
        for look in [Look::Together, Look::Together, Look::InTransaction] {
            let (server, seen, is_over) = (&server, &seen, &is_over);
            scope.spawn(move || {
                let mut conn = server.connect();
                let commands: Vec<Argv> = match look {
                    Look::Together => vec![argv!["MGET", "left", "right"]],
                    Look::InTransaction => {
                        vec![argv!["MULTI"], argv!["GET", "left"], argv!["GET", "right"], argv!["EXEC"]]
                    }
                };
                let batch: Vec<Argv> = commands.iter().cycle().take(commands.len() * BATCH).cloned().collect();
                while seen.load(Relaxed) < OBSERVATIONS {
                    for raw in conn.pipeline(&batch).iter().skip(commands.len() - 1).step_by(commands.len()) {
                        let reply = Value::parse(raw).expect("a reply");
                        let number = |item: &Value| item.text().parse::<i64>().expect("a number");
                        let sum: i64 = reply.items().expect("an array").iter().map(number).sum();
                        assert_eq!(sum, 2000);
                    }
                    seen.fetch_add(BATCH as u64, Relaxed);
                }
                is_over.store(true, Relaxed);
            });
        }
    });
}

/// The classic use of WATCH: every increment counts exactly once.
#[test]
fn optimistic_increments_are_neither_lost_nor_doubled() {
    const CLIENTS: usize = 4;
    const INCREMENTS: usize = 300;
    let server = start();
    server.connect().run("SET counter 0");
    let aborted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut conn = server.connect();
                for _ in 0..INCREMENTS {
                    loop {
                        conn.run("WATCH counter");
                        let value: i64 = conn.run("GET counter").text().parse().expect("a number");
                        let set = format!("SET counter {}", value + 1);
                        if last(&mut conn, &["MULTI", &set, "EXEC"]).items().is_some() {
                            break;
                        }
                        aborted.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(server.connect().run("GET counter").text(), (CLIENTS * INCREMENTS).to_string());
    assert!(aborted.load(Relaxed) > 0, "the clients were never in each other's way");
}

#[test]
fn a_change_of_a_neighbour_does_not_abort() {
    let server = start();
    let (mut conn, mut other) = (server.connect(), server.connect());
    for round in 0..200 {
        conn.run("WATCH watched");
        let sets: Vec<Argv> = (0..100).map(|key| argv!["SET", format!("other:{round}:{key}"), "v"]).collect();
        other.pipeline(&sets);
        assert_eq!(last(&mut conn, &["MULTI", "PING", "EXEC"]).items().map(<[Value]>::len), Some(1));
    }
}

#[test]
fn who_waits_is_served_when_the_transaction_is_done() {
    let server = start();
    let (mut conn, mut waiting) = (server.connect(), server.connect());
    waiting.send_command(&argv!["BLPOP", "q", "0"]).expect("sent");
    wait_until("it waits", || conn.info_number("blocked_clients") == Some(1));
    assert_eq!(last(&mut conn, &["MULTI", "RPUSH q a", "DEL q", "EXEC"]).items().map(<[Value]>::len), Some(2));
    assert_eq!(conn.info_number("blocked_clients"), Some(1), "what was there in the middle is nothing to wait for");
    last(&mut conn, &["MULTI", "RPUSH q a b", "LPOP q", "EXEC"]);
    assert_eq!(waiting.read_reply().expect("a reply"), b"*2\r\n$1\r\nq\r\n$1\r\nb\r\n");
}

#[test]
fn replies_are_left_out_as_asked() {
    let server = start();
    let mut conn = server.connect();
    conn.send(b"CLIENT REPLY OFF\r\nMULTI\r\nSET a 1\r\nINCR a\r\nEXEC\r\nCLIENT REPLY ON\r\nGET a\r\n").expect("sent");
    assert_eq!(conn.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(conn.read_reply().expect("a reply"), b"$1\r\n2\r\n");
    conn.send(b"MULTI\r\nCLIENT REPLY SKIP\r\nINCR a\r\nEXEC\r\nGET a\r\n").expect("sent");
    assert_eq!(conn.read_reply().expect("a reply"), b"+OK\r\n");
}

#[test]
fn what_is_queued_is_told_and_limited() {
    let server = Server::start_onrush(&["--client-query-buffer-limit", "4mb"]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    let Value::Int(id) = conn.run("CLIENT ID") else { panic!("CLIENT ID is a number") };
    let line = |other: &mut Conn| other.run(&format!("CLIENT LIST ID {id}")).text();
    assert!(line(&mut other).contains(" multi=-1 "));
    conn.run("WATCH w");
    conn.run("MULTI");
    let large = vec![b'v'; 100_000];
    for number in 0..10 {
        assert_eq!(conn.call(&argv!["SET", format!("k:{number}"), large]).text(), "QUEUED");
    }
    let told = line(&mut other);
    assert!(told.contains(" multi=10 ") && told.contains(" flags=x "), "{told}");
    let field = |name: &str| {
        let value = told.split(' ').find_map(|word| word.strip_prefix(name)).expect("the field is there");
        value.parse::<usize>().expect("a number")
    };
    assert!((1_000_000..1_100_000).contains(&field("argv-mem=")) && field("multi-mem=") >= 1_000_000, "{told}");
    other.run("SET w 1");
    assert!(line(&mut other).contains(" flags=xd "));
    // Too much is queued in the end.
    let closed = (0..100).any(|number| conn.try_call(&argv!["SET", format!("k:{number}"), large]).is_err());
    assert!(closed, "a transaction grows without end");
    wait_until("it is counted", || other.info_number("client_query_buffer_limit_disconnections") == Some(1));
    assert_eq!(other.run("DBSIZE"), Value::Int(1));
}

/// A transaction with commands that need the whole keyspace, while a long command runs.
#[test]
fn a_transaction_goes_on_elsewhere_beside_a_long_command() {
    let server = start();
    let mut conn = server.connect();
    for set in ["a", "b"] {
        for first in (0..400_000).step_by(10_000) {
            let members = (first..first + 10_000).map(|member| format!("{set}:{member}").into_bytes());
            let args: Vec<Vec<u8>> = [b"SADD".to_vec(), set.into()].into_iter().chain(members).collect();
            conn.call(&Argv::new(&args));
        }
    }
    for _ in 0..3 {
        let mut long = server.connect();
        long.send_command(&argv!["SUNIONSTORE", "d", "a", "b"]).expect("sent");
        let lines =
            ["SELECT 1", "MULTI", "SET k 1", "SELECT 2", "SET k 2", "FLUSHDB", "KEYS *", "SET k 3", "EXEC", "GET k"];
        let replies = pipeline(&mut conn, &lines);
        assert_eq!(replies.last().map(String::as_str), Some("(bulk of 1) 3"), "{replies:?}");
        assert_eq!(long.read_reply().expect("a reply"), b":800000\r\n");
        pipeline(&mut conn, &["FLUSHDB", "SELECT 1", "FLUSHDB", "SELECT 0"]);
    }
}

/// Locks are taken in one order, whatever the order of a transaction's keys: no client waits for ever.
#[test]
fn transactions_on_the_same_keys_in_any_order_end() {
    let server = start();
    let until = Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| {
        for client in 0..4_usize {
            let server = &server;
            scope.spawn(move || {
                let mut conn = server.connect();
                conn.set_timeout(Duration::from_secs(10));
                let mut round = client;
                while Instant::now() < until {
                    let key = |number: usize| format!("k{}", (round * (number + client + 1)) % 13);
                    let mut batch = vec![argv!["WATCH", key(3)], argv!["MULTI"]];
                    batch.extend((0..6).map(|number| argv!["INCR", key(number)]));
                    batch.push(match round % 50 {
                        0 => argv!["DBSIZE"],
                        _ => argv!["MSET", key(7), "1", key(8), "2"],
                    });
                    batch.push(argv!["EXEC"]);
                    conn.pipeline(&batch);
                    round += 1;
                }
            });
        }
    });
}

#[test]
fn a_panic_inside_of_a_transaction_ends_its_connection_only() {
    let server = start();
    let (mut conn, mut other) = (server.connect(), server.connect());
    let commands = [argv!["MULTI"], argv!["SET", "a", "1"], argv!["DEBUG", "PANIC"], argv!["EXEC"]];
    assert!(conn.try_pipeline(&commands).is_err());
    assert_eq!(last(&mut other, &["MULTI", "GET a", "SET a 2", "EXEC"]).items().map(<[Value]>::len), Some(2));
    assert_eq!(other.run("GET a").text(), "2");
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    let server = start();
    let mut other = server.connect();
    other.run("SET k 1");
    let mut used_after = |rounds: usize| {
        for _ in 0..rounds {
            let mut conns: Vec<Conn> = (0..20).map(|_| server.connect()).collect();
            for conn in &mut conns {
                let mut commands: Vec<Argv> = (0..100).map(|key| argv!["WATCH", format!("watched:{key}")]).collect();
                commands.push(argv!["MULTI"]);
                commands.extend((0..50).map(|key| argv!["SET", format!("k:{key}"), "value"]));
                conn.pipeline(&commands);
            }
        }
        wait_until("all are gone", || other.info_number("connected_clients") == Some(1));
        other.info_number("used_memory").expect("a number")
    };
    // Buffers and tables are made once.
    let before = used_after(10);
    let after = used_after(100);
    assert!(after < before + 300_000, "{before} bytes in use before, {after} after");
    assert_eq!(other.run("DBSIZE"), Value::Int(1));
}

/// What stands behind a transaction in its pipeline is logged for what it does itself.
#[test]
fn the_log_has_what_transactions_change_and_no_reads_behind_them() {
    let server = start();
    let mut conn = server.connect();
    let path = server.dir().join("commands.log");
    conn.call(&argv!["DEBUG", "COMMAND-LOG", "START", path.to_str().expect("a path of UTF-8")]);
    pipeline(&mut conn, &["SET k 0", "MULTI", "INCR k", "INCR k", "EXEC", "GET k", "STRLEN k", "INCR k"]);
    conn.run("DEBUG COMMAND-LOG STOP");
    let log = String::from_utf8(std::fs::read(&path).expect("the log")).expect("text");
    let count = |word: &str| log.matches(word).count();
    assert_eq!((count("INCR"), count("GET"), count("STRLEN")), (3, 0, 0), "{log}");
    assert_eq!(conn.run("GET k").text(), "3");
    let info = conn.run("INFO persistence").text();
    assert!(info.contains("rdb_changes_since_last_save:4\r\n"), "{info}");
}

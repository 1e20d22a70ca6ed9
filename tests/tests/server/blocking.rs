//! Commands that wait for keys.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Server, wait_until};

const WORKERS: [&str; 2] = ["1", "2"];

/// Waits until `count` clients wait.
fn until_waiting(conn: &mut Conn, count: usize) {
    wait_until("clients wait", || conn.info_number("blocked_clients") == Some(count as i64));
}

/// Sends a command without waiting for its reply.
fn send(conn: &mut Conn, argv: &Argv) {
    conn.send_command(argv).expect("a connection");
}

fn read(conn: &mut Conn) -> Vec<u8> {
    conn.read_reply().expect("a reply")
}

fn call(conn: &mut Conn, argv: &Argv) -> Vec<u8> {
    send(conn, argv);
    read(conn)
}

fn with_servers(test: impl Fn(&Server)) {
    for workers in WORKERS {
        test(&Server::start_onrush(&["--workers", workers]));
    }
}

#[test]
fn who_waited_longest_is_served_first() {
    with_servers(|server| {
        let mut pusher = server.connect();
        let mut waiting: Vec<Conn> = (0..3).map(|_| server.connect()).collect();
        for (index, conn) in waiting.iter_mut().enumerate() {
            send(conn, &argv!["BLPOP", "list", "0"]);
            until_waiting(&mut pusher, index + 1);
        }
        assert_eq!(call(&mut pusher, &argv!["RPUSH", "list", "a", "b"]), b":2\r\n");
        assert_eq!(call(&mut pusher, &argv!["LLEN", "list"]), b":0\r\n");
        assert_eq!(read(&mut waiting[0]), b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
        assert_eq!(read(&mut waiting[1]), b"*2\r\n$4\r\nlist\r\n$1\r\nb\r\n");
        until_waiting(&mut pusher, 1);
        call(&mut pusher, &argv!["LPUSH", "list", "c"]);
        assert_eq!(read(&mut waiting[2]), b"*2\r\n$4\r\nlist\r\n$1\r\nc\r\n");
        until_waiting(&mut pusher, 0);
    });
}

#[test]
fn keys_are_looked_at_in_the_order_given() {
    with_servers(|server| {
        let mut conn = server.connect();
        call(&mut conn, &argv!["RPUSH", "two", "2"]);
        call(&mut conn, &argv!["RPUSH", "one", "1"]);
        assert_eq!(call(&mut conn, &argv!["BRPOP", "none", "one", "two", "0"]), b"*2\r\n$3\r\none\r\n$1\r\n1\r\n");
        assert_eq!(call(&mut conn, &argv!["BRPOP", "none", "one", "two", "0"]), b"*2\r\n$3\r\ntwo\r\n$1\r\n2\r\n");
    });
}

#[test]
fn a_move_wakes_who_waits_for_its_destination() {
    with_servers(|server| {
        let (mut mover, mut last, mut pusher) = (server.connect(), server.connect(), server.connect());
        send(&mut mover, &argv!["BLMOVE", "from", "to", "LEFT", "RIGHT", "0"]);
        until_waiting(&mut pusher, 1);
        send(&mut last, &argv!["BLPOP", "to", "0"]);
        until_waiting(&mut pusher, 2);
        call(&mut pusher, &argv!["RPUSH", "from", "x"]);
        assert_eq!(read(&mut mover), b"$1\r\nx\r\n");
        assert_eq!(read(&mut last), b"*2\r\n$2\r\nto\r\n$1\r\nx\r\n");
        assert_eq!(call(&mut pusher, &argv!["EXISTS", "from", "to"]), b":0\r\n");
    });
}

#[test]
fn a_rename_wakes_who_waits_for_the_new_name() {
    with_servers(|server| {
        let (mut waiting, mut conn) = (server.connect(), server.connect());
        send(&mut waiting, &argv!["BZPOPMIN", "new", "0"]);
        until_waiting(&mut conn, 1);
        call(&mut conn, &argv!["ZADD", "old", "1.5", "m"]);
        call(&mut conn, &argv!["RENAME", "old", "new"]);
        assert_eq!(read(&mut waiting), b"*3\r\n$3\r\nnew\r\n$1\r\nm\r\n$3\r\n1.5\r\n");
    });
}

#[test]
fn another_type_does_not_end_the_wait() {
    with_servers(|server| {
        let (mut waiting, mut conn) = (server.connect(), server.connect());
        send(&mut waiting, &argv!["BLPOP", "key", "0"]);
        until_waiting(&mut conn, 1);
        call(&mut conn, &argv!["SADD", "key", "m"]);
        call(&mut conn, &argv!["DEL", "key"]);
        until_waiting(&mut conn, 1);
        call(&mut conn, &argv!["RPUSH", "key", "e"]);
        assert_eq!(read(&mut waiting), b"*2\r\n$3\r\nkey\r\n$1\r\ne\r\n");
    });
}

#[test]
fn timeouts_have_fractions() {
    with_servers(|server| {
        let mut conn = server.connect();
        let started = Instant::now();
        assert_eq!(call(&mut conn, &argv!["BLPOP", "none", "0.05"]), b"*-1\r\n");
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(50) && took < Duration::from_secs(5), "{took:?}");
        assert_eq!(call(&mut conn, &argv!["PING"]), b"+PONG\r\n");
    });
}

#[test]
fn a_waiting_client_can_be_unblocked() {
    with_servers(|server| {
        let (mut waiting, mut conn) = (server.connect(), server.connect());
        let id = call(&mut waiting, &argv!["CLIENT", "ID"]);
        let id = String::from_utf8_lossy(&id[1..id.len() - 2]).into_owned();
        send(&mut waiting, &argv!["BLPOP", "none", "0"]);
        until_waiting(&mut conn, 1);
        assert_eq!(call(&mut conn, &argv!["CLIENT", "UNBLOCK", &id]), b":1\r\n");
        assert_eq!(read(&mut waiting), b"*-1\r\n");
        assert_eq!(call(&mut conn, &argv!["CLIENT", "UNBLOCK", &id]), b":0\r\n");
        send(&mut waiting, &argv!["BLPOP", "none", "0"]);
        until_waiting(&mut conn, 1);
        assert_eq!(call(&mut conn, &argv!["CLIENT", "UNBLOCK", &id, "ERROR"]), b":1\r\n");
        assert_eq!(read(&mut waiting), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    });
}

#[test]
fn a_client_that_goes_away_is_forgotten_at_once() {
    with_servers(|server| {
        let (mut waiting, mut conn) = (server.connect(), server.connect());
        send(&mut waiting, &argv!["BLPOP", "list", "0"]);
        until_waiting(&mut conn, 1);
        drop(waiting);
        until_waiting(&mut conn, 0);
        call(&mut conn, &argv!["RPUSH", "list", "e"]);
        assert_eq!(call(&mut conn, &argv!["LRANGE", "list", "0", "-1"]), b"*1\r\n$1\r\ne\r\n");
    });
}

#[test]
fn only_the_later_commands_of_its_own_connection_wait() {
    with_servers(|server| {
        let (mut waiting, mut conn) = (server.connect(), server.connect());
        for command in [argv!["SET", "k", "1"], argv!["BLPOP", "list", "0"], argv!["INCR", "k"], argv!["GET", "k"]] {
            send(&mut waiting, &command);
        }
        assert_eq!(read(&mut waiting), b"+OK\r\n");
        until_waiting(&mut conn, 1);
        assert_eq!(call(&mut conn, &argv!["INCR", "k"]), b":2\r\n");
        // A longer pipeline goes on piling up behind.
        (0..10_000).for_each(|_| send(&mut waiting, &argv!["PING"]));
        call(&mut conn, &argv!["RPUSH", "list", "e"]);
        assert_eq!(read(&mut waiting), b"*2\r\n$4\r\nlist\r\n$1\r\ne\r\n");
        assert_eq!(read(&mut waiting), b":3\r\n");
        assert_eq!(read(&mut waiting), b"$1\r\n3\r\n");
        (0..10_000).for_each(|_| assert_eq!(read(&mut waiting), b"+PONG\r\n"));
    });
}

/// Many pushers and many waiters at once: every pushed element comes out once.
#[test]
fn nothing_is_lost_or_served_twice() {
    with_servers(|server| {
        const EACH: usize = 2_000;
        let poppers: Vec<_> = (0..4).map(|_| server.connect()).collect();
        let pushers: Vec<_> = (0..4).map(|_| server.connect()).collect();
        let mut popped: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = poppers
                .into_iter()
                .map(|mut conn| {
                    scope.spawn(move || {
                        let number = |_| {
                            let reply = call(&mut conn, &argv!["BRPOP", "queue", "0"]);
                            let text = String::from_utf8_lossy(&reply).into_owned();
                            text.lines().last().and_then(|line| line.parse::<usize>().ok()).expect("a number")
                        };
                        (0..EACH).map(number).collect::<Vec<_>>()
                    })
                })
                .collect();
            for (index, mut conn) in pushers.into_iter().enumerate() {
                scope.spawn(move || {
                    for n in 0..EACH {
                        call(&mut conn, &argv!["LPUSH", "queue", (index * EACH + n).to_string()]);
                    }
                });
            }
            threads.into_iter().flat_map(|thread| thread.join().expect("a popper")).collect()
        });
        popped.sort_unstable();
        assert!(popped.into_iter().eq(0..4 * EACH));
    });
}

#[test]
fn clients_that_wait_hold_little_memory() {
    with_servers(|server| {
        let mut conn = server.connect();
        let before = server.rss_kb();
        let mut crowd: Vec<_> = (0..500).map(|_| server.connect()).collect();
        crowd.iter_mut().for_each(|waiting| send(waiting, &argv!["BLPOP", "key", "0"]));
        until_waiting(&mut conn, 500);
        let each_kb = server.rss_kb().saturating_sub(before) / 500;
        assert!(each_kb < 40, "{each_kb} KB for each client that waits");
    });
}

#[test]
fn a_reader_of_the_last_entry_waits_while_there_is_none() {
    with_servers(|server| {
        let mut writer = server.connect();
        call(&mut writer, &argv!["XADD", "empty", "1-1", "f", "v"]);
        call(&mut writer, &argv!["XDEL", "empty", "1-1"]);
        for stream in ["absent", "empty"] {
            let mut reader = server.connect();
            send(&mut reader, &argv!["XREAD", "COUNT", "3", "BLOCK", "0", "STREAMS", stream, "+"]);
            until_waiting(&mut writer, 1);
            assert_eq!(call(&mut writer, &argv!["XADD", stream, "2-1", "f", "v"]), b"$3\r\n2-1\r\n");
            let entry = "*1\r\n*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
            let want = format!("*1\r\n*2\r\n${}\r\n{stream}\r\n{entry}", stream.len());
            assert_eq!(String::from_utf8(read(&mut reader)).expect("text"), want);
        }
    });
}

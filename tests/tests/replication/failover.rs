//! Planned fail-overs: FAILOVER of Onrush and of Redis, and what keeps them from their end.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

use crate::follows::{info, is_same, start_replica, wait_for_link};

const DEBUG: [&str; 4] = ["--save", "", "--enable-debug-command", "yes"];

fn start_replica_of_redis(primary: &Server, oracle: Oracle) -> Server {
    let port = primary.port().to_string();
    Server::start_oracle(oracle, &[&["--replicaof", "127.0.0.1", &port], &DEBUG[..]].concat())
}

/// Waits until a primary has a replica that follows.
fn wait_for_replica(primary: &mut Conn) {
    let online =
        |role: &Value| role.items().is_some_and(|items| items[2].items().is_some_and(|online| !online.is_empty()));
    wait_until("a replica follows", || online(&primary.run("ROLE")));
}

#[test]
fn what_failover_refuses_is_what_redis_refuses() {
    let (ours, theirs) = (Server::start_onrush(&DEBUG), Server::start_oracle(Oracle::Newer, &DEBUG));
    let (mut own, mut other) = (ours.connect(), theirs.connect());
    let mut check = |lines: &[&str]| {
        for line in lines {
            assert_eq!(own.run(line), other.run(line), "{line}");
        }
    };
    check(&[
        "FAILOVER",
        "FAILOVER ABORT",
        "FAILOVER TIMEOUT",
        "FAILOVER TIMEOUT 0",
        "FAILOVER TIMEOUT -1",
        "FAILOVER TIMEOUT x",
        "FAILOVER TO",
        "FAILOVER TO h",
        "FAILOVER TO h x",
        "FAILOVER TO h 1",
        "FAILOVER FORCE",
        "FAILOVER ABORT ABORT",
        "FAILOVER ABORT TIMEOUT 1",
        "FAILOVER NOW",
        "PSYNC 0123456789012345678901234567890123456789 1 FAILOVER",
    ]);
    let (first, second) = (start_replica(&ours, &[]), start_replica_of_redis(&theirs, Oracle::Newer));
    let (mut first, mut second) = (first.connect(), second.connect());
    wait_for_replica(&mut ours.connect());
    wait_for_replica(&mut theirs.connect());
    check(&[
        "FAILOVER TO h 1",
        "FAILOVER FORCE",
        "FAILOVER TO h 1 FORCE",
        "FAILOVER TIMEOUT 10 FORCE",
        "FAILOVER TO h 1 TIMEOUT 10 FORCE",
        "FAILOVER TO 127.0.0.1 -1",
        "FAILOVER ABORT",
    ]);
    for line in ["FAILOVER", "FAILOVER ABORT", "PSYNC 0123456789012345678901234567890123456789 1 FAILOVER"] {
        assert_eq!(first.run(line), second.run(line), "{line}");
    }
}

/// Counts at a primary until `is_over`; the last number that it was told. READONLY ends it.
fn count(mut conn: Conn, told: &AtomicI64, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        match conn.run("INCR count") {
            Value::Int(number) => told.store(number, Relaxed),
            reply => {
                assert!(reply.text().starts_with("READONLY"), "{reply:?}");
                return;
            }
        }
    }
}

#[test]
fn a_replica_takes_over_and_nothing_is_lost() {
    for (name, primary, replica) in [
        ("onrush to onrush", Server::start_onrush(&DEBUG), None),
        ("onrush to redis", Server::start_onrush(&DEBUG), Some(Oracle::Newer)),
        ("onrush to redis 7.0", Server::start_onrush(&DEBUG), Some(Oracle::Older)),
        ("onrush to valkey", Server::start_onrush(&DEBUG), Some(Oracle::Valkey)),
        ("redis to onrush", Server::start_oracle(Oracle::Newer, &DEBUG), None),
        ("redis 7.0 to onrush", Server::start_oracle(Oracle::Older, &DEBUG), None),
        ("valkey to onrush", Server::start_oracle(Oracle::Valkey, &DEBUG), None),
    ] {
        let replica = match replica {
            None => start_replica(&primary, &[]),
            Some(oracle) => start_replica_of_redis(&primary, oracle),
        };
        let (mut old, mut new) = (primary.connect(), replica.connect());
        wait_for_link(&mut new);
        wait_for_replica(&mut old);
        old.run("SELECT 3");
        old.run("SET key value");
        let (told, is_over) = (AtomicI64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let conn = primary.connect();
                scope.spawn(|| count(conn, &told, &is_over));
            }
            wait_until("it counts", || told.load(Relaxed) > 100);
            assert_eq!(old.run("FAILOVER").text(), "OK", "{name}");
            wait_until(name, || info(&mut new, "replication", "role") == "master");
            wait_until(name, || info(&mut old, "replication", "master_failover_state") == "no-failover");
            wait_for_link(&mut old);
            std::thread::sleep(Duration::from_millis(100));
            is_over.store(true, Relaxed);
        });
        assert!(new.run("GET count").text().parse::<i64>().is_ok_and(|has| has >= told.load(Relaxed)), "{name}");
        assert_eq!(info(&mut new, "stats", "sync_partial_ok"), "1", "{name}");
        assert_eq!(info(&mut new, "stats", "sync_full"), "0", "{name}");
        new.run("SET other value");
        assert!(is_same(&mut new, &mut old), "{name}");
        // And back again.
        if name == "onrush to onrush" {
            wait_for_replica(&mut new);
            assert!(new.run("FAILOVER TO 127.0.0.1 1").is_error());
            let port = primary.port().to_string();
            assert_eq!(new.call(&argv!["FAILOVER", "TO", "127.0.0.1", port, "TIMEOUT", "9999"]).text(), "OK");
            wait_until(name, || info(&mut old, "replication", "role") == "master");
            wait_for_link(&mut new);
            old.run("SET third value");
            assert!(is_same(&mut old, &mut new), "{name}");
        }
    }
}

#[test]
fn writes_wait_and_go_on_when_nobody_takes_over() {
    let primary = Server::start_onrush(&DEBUG);
    let replica = start_replica(&primary, &[]);
    let (mut ours, mut writer) = (primary.connect(), primary.connect());
    wait_for_replica(&mut ours);
    let port = replica.port().to_string();
    let state = |conn: &mut Conn| info(conn, "replication", "master_failover_state");
    replica.signal("STOP");
    ours.run("SET key 1");
    assert_eq!(ours.run("FAILOVER TIMEOUT 700").text(), "OK");
    assert_eq!(state(&mut ours), "waiting-for-sync");
    assert!(ours.run("FAILOVER").text().contains("already in progress"));
    assert!(ours.run("REPLICAOF NO ONE").text().contains("not allowed while failing over"));
    writer.send(b"SET key 2\r\n").expect("it is sent");
    assert_eq!(ours.run("GET key").text(), "1", "reads go on");
    assert_eq!(writer.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(state(&mut ours), "no-failover");
    // Without a time it waits until it is aborted.
    assert_eq!(ours.run("FAILOVER").text(), "OK");
    writer.send(b"SET key 3\r\n").expect("it is sent");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((ours.run("GET key").text(), ours.run("FAILOVER ABORT").text()), ("2".to_owned(), "OK".to_owned()));
    assert_eq!(writer.read_reply().expect("a reply"), b"+OK\r\n");
    // By force it becomes a replica of one that does not answer, and can still be a primary again.
    let forced = argv!["FAILOVER", "TO", "127.0.0.1", port, "FORCE", "TIMEOUT", "100"];
    assert_eq!(ours.call(&forced).text(), "OK");
    writer.send(b"SET key 4\r\n").expect("it is sent");
    wait_until("it is under way", || state(&mut ours) == "failover-in-progress");
    wait_until("it is a replica", || info(&mut ours, "replication", "role") == "slave");
    assert_eq!((ours.run("GET key").text(), ours.run("FAILOVER ABORT").text()), ("3".to_owned(), "OK".to_owned()));
    wait_until("it is a primary", || info(&mut ours, "replication", "role") == "master");
    assert_eq!(writer.read_reply().expect("a reply"), b"+OK\r\n", "it has waited for all of that");
    assert_eq!(state(&mut ours), "no-failover");
    replica.signal("CONT");
}

#[test]
fn a_replica_that_is_no_replica_any_more_refuses() {
    // Which of both it hears first is not ours to say, but almost always it is the order to be no replica.
    let refused = (0..5).any(|_| {
        let primary = Server::start_onrush(&DEBUG);
        let replica = start_replica(&primary, &[]);
        let (mut ours, mut theirs) = (primary.connect(), replica.connect());
        wait_for_replica(&mut ours);
        let port = replica.port().to_string();
        replica.signal("STOP");
        ours.run("SET key 1");
        ours.call(&argv!["FAILOVER", "TO", "127.0.0.1", port, "FORCE", "TIMEOUT", "100"]);
        theirs.send(b"REPLICAOF NO ONE\r\n").expect("it is sent");
        wait_until("it is a replica", || info(&mut ours, "replication", "role") == "slave");
        replica.signal("CONT");
        assert_eq!(theirs.read_reply().expect("a reply"), b"+OK\r\n");
        wait_until("both know who is the primary", || {
            let text = ours.run("INFO replication").text();
            text.contains("role:master") || text.contains("master_link_status:up")
        });
        if info(&mut ours, "replication", "role") == "slave" {
            assert_eq!(info(&mut theirs, "replication", "role"), "master", "it has taken over");
            return false;
        }
        assert_eq!(info(&mut ours, "replication", "master_failover_state"), "no-failover");
        assert_eq!(ours.run("SET key 2").text(), "OK");
        true
    });
    assert!(refused);
}

#[test]
fn the_end_waits_for_replicas() {
    let primary = Server::start_onrush(&DEBUG);
    for of_redis in [false, true] {
        let replica =
            if of_redis { start_replica_of_redis(&primary, Oracle::Newer) } else { start_replica(&primary, &[]) };
        let (mut ours, mut writer, mut control) = (primary.connect(), primary.connect(), primary.connect());
        wait_for_replica(&mut ours);
        replica.signal("STOP");
        ours.run("SET key 1");
        control.send(b"SHUTDOWN\r\n").expect("it is sent");
        wait_until("the end waits", || ours.run("INFO server").text().contains("shutdown_in_milliseconds:"));
        writer.send(b"SET key 2\r\n").expect("it is sent");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(ours.run("GET key").text(), "1");
        assert_eq!(ours.run("SHUTDOWN ABORT").text(), "OK");
        let reply = control.read_reply().expect("a reply");
        assert_eq!(reply, b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        assert_eq!(writer.read_reply().expect("a reply"), b"+OK\r\n");
        assert!(ours.run("SHUTDOWN ABORT").text().contains("No shutdown in progress"));
        replica.signal("CONT");
        let mut theirs = replica.connect();
        wait_until("it has all", || theirs.run("GET key").text() == "2");
        theirs.run("REPLICAOF NO ONE");
        wait_until("it is gone", || info(&mut ours, "replication", "connected_slaves") == "0");
    }
}

#[test]
fn what_replicas_lack_is_sent_before_the_end() {
    // By a signal, by a command, and when the time is over.
    for (how, timeout) in [("TERM", "10"), ("SHUTDOWN", "10"), ("SHUTDOWN", "1"), ("SHUTDOWN NOW", "10"), ("TERM", "0")]
    {
        let mut primary = Server::start_onrush(&["--save", "", "--shutdown-timeout", timeout]);
        let replica = start_replica(&primary, &[]);
        let mut ours = primary.connect();
        wait_for_replica(&mut ours);
        replica.signal("STOP");
        ours.run("SET key value");
        match how {
            "TERM" => primary.signal(how),
            _ => ours.send(format!("{how}\r\n").as_bytes()).expect("it is sent"),
        }
        let waits = timeout != "0" && how != "SHUTDOWN NOW";
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(primary.exited().is_none(), waits, "{how} {timeout}");
        if timeout == "10" {
            replica.signal("CONT");
        }
        assert!(primary.wait_exit().success(), "{how} {timeout}");
        replica.signal("CONT");
        if waits {
            let mut theirs = replica.connect();
            wait_until(&format!("{how} {timeout}"), || theirs.run("GET key").text() == "value");
        }
    }
}

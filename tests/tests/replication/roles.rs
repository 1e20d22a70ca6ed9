//! What a replica's clients may do, and how the role changes.

use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

use crate::follows::{info, is_same, start_primary, start_replica, wait_for_link};

/// How long it had no replicas while it was one counts for nothing.
#[test]
fn replicas_have_time_to_come_to_a_replica_that_becomes_the_primary() {
    let primary = start_primary(Oracle::Newer, &[]);
    let (second, third) = (start_replica(&primary, &["--repl-backlog-ttl", "3"]), start_replica(&primary, &[]));
    let (mut theirs, mut ours, mut last) = (primary.connect(), second.connect(), third.connect());
    [&mut ours, &mut last].into_iter().for_each(wait_for_link);
    // It had a replica, for a moment.
    let [first_port, second_port] = [&primary, &second].map(|server| server.port().to_string());
    last.call(&argv!["REPLICAOF", "127.0.0.1", second_port.as_str()]);
    wait_for_link(&mut last);
    last.call(&argv!["REPLICAOF", "127.0.0.1", first_port.as_str()]);
    wait_for_link(&mut last);
    theirs.run("SET key value");
    std::thread::sleep(Duration::from_millis(3500));
    assert!(is_same(&mut theirs, &mut ours) && is_same(&mut theirs, &mut last));
    ours.run("REPLICAOF NO ONE");
    std::thread::sleep(Duration::from_millis(1300));
    let full = info(&mut ours, "stats", "sync_full");
    last.call(&argv!["REPLICAOF", "127.0.0.1", second_port.as_str()]);
    wait_for_link(&mut last);
    assert_eq!(info(&mut ours, "stats", "sync_full"), full, "{}", second.log());
    assert!(is_same(&mut ours, &mut last));
    // Later it ends all the same.
    last.run("REPLICAOF NO ONE");
    let id = info(&mut ours, "replication", "master_replid");
    wait_until("the stream has ended", || info(&mut ours, "replication", "master_replid") != id);
}

#[test]
fn clients_of_a_replica_may_not_write() {
    let primary = start_primary(Oracle::Newer, &[]);
    let (replica, theirs) = (start_replica(&primary, &[]), start_replica_of_redis(&primary));
    let (mut ours, mut theirs, mut writer) = (replica.connect(), theirs.connect(), primary.connect());
    writer.run("SET key value");
    assert!(is_same(&mut writer, &mut ours));
    wait_for_link(&mut theirs);
    for line in [
        "SET key other",
        "INCR key",
        "GET key",
        "EVAL \"return redis.call('GET', 'key')\" 0",
        "EVAL \"return redis.call('SET', 'key', 1)\" 0",
        "EVAL \"#!lua\nreturn 1\" 0",
        "EVAL \"#!lua flags=no-writes\nreturn 1\" 0",
        "FUNCTION FLUSH",
        "PUBLISH channel message",
        "PFCOUNT nosuch",
        "SORT list STORE other",
        "BLPOP list 1",
        "FLUSHALL",
        "PING",
        "MULTI",
        "SET key other",
        "EXEC",
        "MULTI",
        "GET key",
        "EXEC",
        "WAIT 0 10",
        "WAITAOF 0 0 10",
        "EXPIRE key 100",
        "XREAD STREAMS s 0",
        "ROLE",
    ] {
        let (own, other) = (ours.run(line), theirs.run(line));
        match line {
            // Only the offset differs for a moment.
            "ROLE" => {
                assert_eq!(own.items().map(|items| items[..4].to_vec()), other.items().map(|items| items[..4].to_vec()))
            }
            _ => assert_eq!(own, other, "{line}"),
        }
    }
    // In one batch, and in runs of equal commands.
    let batch = vec![argv!["SET", "key", "other"]; 100];
    assert!(ours.pipeline(&batch).iter().all(|reply| reply.starts_with(b"-READONLY")));
    let batch: Vec<_> = (0..100).map(|_| argv!["GET", "key"]).collect();
    assert!(ours.pipeline(&batch).iter().all(|reply| reply == b"$5\r\nvalue\r\n"));
    ours.run("CONFIG SET replica-read-only no");
    assert_eq!(ours.run("SET own value").text(), "OK");
    assert_eq!(writer.run("EXISTS own"), Value::Int(0));
    ours.run("CONFIG SET replica-read-only yes");
    assert!(ours.run("SET own value").is_error());
    assert_eq!(
        ours.run("HELLO 3").pairs().map(|pairs| pairs.iter().any(|(_, value)| value.text() == "replica")),
        Some(true)
    );
}

fn start_replica_of_redis(primary: &Server) -> Server {
    let port = primary.port().to_string();
    Server::start_oracle(Oracle::Newer, &["--replicaof", "127.0.0.1", &port, "--save", ""])
}

#[test]
fn the_role_changes_there_and_back() {
    let primary = start_primary(Oracle::Newer, &[]);
    let replica = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    let port = primary.port().to_string();
    theirs.run("SET key value");
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    assert!(ours.run("REPLICAOF host port").text().contains("Invalid master port"));
    for host in ["", "a b", "a\n", "\u{85}"] {
        assert_eq!(ours.call(&argv!["REPLICAOF", host, "1"]).text(), "ERR Invalid master host", "{host:?}");
    }
    for _ in 0..20 {
        assert_eq!(ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
        assert_eq!(info(&mut ours, "replication", "role"), "slave");
        assert!(ours.run("SET a b").text().starts_with("READONLY"));
        let again = ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]);
        assert_eq!(again.text(), "OK Already connected to specified master");
        let id = info(&mut ours, "replication", "master_replid");
        assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
        assert_eq!(ours.run("SET a b").text(), "OK");
        assert_eq!(info(&mut ours, "replication", "role"), "master");
        assert_ne!(info(&mut ours, "replication", "master_replid"), id);
    }
    let marks = |role: &str, message: &str| {
        let start = format!("{}:{role} ", replica.pid());
        replica.log().lines().filter(|line| line.starts_with(&start) && line.contains(message)).count()
    };
    // The log is written behind the reply.
    wait_until("all is told", || marks("S", "is a replica of") == 20 && marks("M", "is a primary") == 20);
    assert_eq!((marks("S", "is a replica of"), marks("M", "is a replica of")), (20, 0));
    assert_eq!((marks("S", "is a primary"), marks("M", "is a primary")), (0, 20));
    ours.call(&argv!["SLAVEOF", "127.0.0.1", port.as_str()]);
    assert!(is_same(&mut theirs, &mut ours));
    // What Sentinel sends.
    for line in ["MULTI", "SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal", "EXEC"] {
        ours.run(line);
    }
    let mut ours = replica.connect();
    wait_until("it is a primary", || info(&mut ours, "replication", "role") == "master");
    assert_eq!(ours.run("GET key").text(), "value");
}

#[test]
fn roles_that_are_asked_for_at_once_come_one_after_the_other() {
    let others = [Server::start_onrush(&[]), Server::start_onrush(&[])];
    let server = Server::start_onrush(&["--min-replicas-to-write", "1"]);
    let mut ours = server.connect();
    let ports = others.each_ref().map(|other| other.port().to_string());
    let follow = |port: &str| format!("REPLICAOF 127.0.0.1 {port}");
    let run = |lines: &[String], conn: &mut Conn| {
        conn.run("MULTI");
        lines.iter().for_each(|line| assert_eq!(conn.run(line).text(), "QUEUED"));
        conn.run("EXEC")
    };
    let none = "REPLICAOF NO ONE".to_owned();
    for _ in 0..10 {
        run(&[follow(&ports[0]), follow(&ports[1]), none.clone()], &mut ours);
        wait_until("it is a primary", || info(&mut ours, "replication", "role") == "master");
        run(&[follow(&ports[0]), none.clone(), follow(&ports[0])], &mut ours);
        // The first of them makes it one for a moment.
        wait_until("it stays a replica", || {
            (0..10).all(|_| {
                std::thread::sleep(Duration::from_millis(10));
                info(&mut ours, "replication", "role") == "slave"
            })
        });
        ours.run("REPLICAOF NO ONE");
        let refused = ours.run("SET key value").text();
        assert!(refused.starts_with("NOREPLICAS"), "at once, though nobody has counted replicas before: {refused}");
    }
}

#[test]
fn nobody_waits_for_a_primary_that_is_not_there() {
    let replica = Server::start_onrush(&["--replicaof", "127.0.0.1", "1"]);
    let mut ours = replica.connect();
    ours.run("CONFIG SET replica-serve-stale-data no");
    let refused = ours.run("GET key");
    assert!(refused.text().starts_with("MASTERDOWN"), "{refused:?}");
    assert_eq!(ours.run("PING").text(), refused.text(), "as Sentinel expects it");
    assert_eq!(info(&mut ours, "replication", "master_link_status"), "down");
    assert!(ours.run("REPLICAOF 192.0.2.1 6379").text() == "OK", "it does not answer");
    assert!(ours.run("REPLICAOF a.name.that.is.not.there.invalid 6379").text() == "OK");
    assert_eq!(
        ours.run("CONFIG GET replicaof").items().map(|items| items[1].text()).as_deref(),
        Some("a.name.that.is.not.there.invalid 6379")
    );
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    assert_eq!(ours.run("GET key").bytes(), None);
}

#[test]
fn clients_that_wait_are_told_of_the_new_role() {
    let primary = start_primary(Oracle::Newer, &[]);
    let server = Server::start_onrush(&[]);
    let mut ours = server.connect();
    let waits: Vec<_> =
        [argv!["BLPOP", "list", "0"], argv!["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], argv!["WAIT", "1", "0"]]
            .into_iter()
            .map(|argv| {
                let mut conn = server.connect();
                conn.send_command(&argv).expect("it is sent");
                conn
            })
            .collect();
    wait_until("they wait", || ours.info_number("blocked_clients") == Some(3));
    ours.call(&argv!["REPLICAOF", "127.0.0.1", primary.port().to_string()]);
    for mut conn in waits {
        let reply = conn.read_reply().expect("a reply");
        assert!(reply.starts_with(b"-UNBLOCKED force unblock"), "{}", String::from_utf8_lossy(&reply));
    }
}

#[test]
fn expired_keys_are_hidden_until_the_primary_deletes_them() {
    let primary = start_primary(Oracle::Newer, &[]);
    let replica = start_replica(&primary, &[]);
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    wait_for_link(&mut ours);
    theirs.run("DEBUG SET-ACTIVE-EXPIRE 0");
    theirs.run("SET key value PX 1500");
    theirs.run("HSET hash field value other value");
    theirs.run("HPEXPIRE hash 1500 FIELDS 1 field");
    theirs.run("SET stays value");
    assert!(is_same(&mut theirs, &mut ours));
    std::thread::sleep(Duration::from_millis(1700));
    for (line, reply) in
        [("EXISTS key", 0), ("TTL key", -2), ("DBSIZE", 3), ("HEXISTS hash field", 0), ("TOUCH key", 0)]
    {
        assert_eq!(ours.run(line), Value::Int(reply), "{line}");
    }
    assert_eq!(ours.run("GET key").bytes(), None);
    assert_eq!(ours.run("SCAN 0 COUNT 100").items().and_then(|items| items[1].items()).map(<[_]>::len), Some(2));
    (0..200).for_each(|_| assert_ne!(ours.run("RANDOMKEY").text(), "key"));
    theirs.run("GET key");
    theirs.run("DEBUG SET-ACTIVE-EXPIRE 1");
    wait_until("the primary's word has come", || ours.run("DBSIZE") == Value::Int(2));
    assert!(is_same(&mut theirs, &mut ours));
}

//! Messages reach the subscribers of replicas.

use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, Server};

use crate::follows::{start_primary, start_replica, wait_for_link};

/// A client of a replica that gets messages on `c` and on channels that begin with `p`.
fn subscribe(replica: &Server) -> Conn {
    wait_for_link(&mut replica.connect());
    let mut conn = replica.connect();
    conn.set_timeout(Duration::from_secs(10));
    for command in [argv!["SUBSCRIBE", "c"], argv!["PSUBSCRIBE", "p*"], argv!["SSUBSCRIBE", "s"]] {
        conn.send_command(&command).expect("it is sent");
        conn.read_reply().expect("it is subscribed");
    }
    conn
}

/// The text of the next messages.
fn messages(conn: &mut Conn, count: usize) -> Vec<String> {
    let last = |reply: Vec<u8>| {
        let text = String::from_utf8(reply).expect("text");
        text.trim_end().rsplit("\r\n").next().expect("a line").to_owned()
    };
    (0..count).map(|_| last(conn.read_reply().expect("a message"))).collect()
}

/// Publishes in all the ways that there are; returns what subscribers get.
fn publish(conn: &mut Conn) -> Vec<&'static str> {
    conn.run("PUBLISH c alone");
    conn.run("PUBLISH pattern matched");
    conn.run("PUBLISH nobody unheard");
    conn.run("SPUBLISH s sharded");
    conn.run("MULTI");
    conn.run("SET key value");
    conn.run("PUBLISH c within");
    conn.run("EXEC");
    conn.run("MULTI");
    conn.run("PUBLISH c first");
    conn.run("PUBLISH c second");
    conn.run("EXEC");
    conn.call(&argv!["EVAL", "redis.call('PUBLISH', 'c', 'scripted'); return redis.call('INCR', 'n')", "0"]);
    vec!["alone", "matched", "sharded", "within", "first", "second", "scripted"]
}

#[test]
fn subscribers_of_replicas_get_what_is_published_at_the_primary() {
    let args = ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let mut primary = Server::start_onrush(&args);
    let port = primary.port().to_string();
    let theirs = ["--replicaof", "127.0.0.1", &port, "--save", ""];
    let first = start_replica(&primary, &[]);
    let chained = start_replica(&first, &[]);
    let others = Oracle::ALL.map(|oracle| Server::start_oracle(oracle, &theirs));
    let mut subscribers: Vec<Conn> = [&first, &chained].into_iter().chain(&others).map(subscribe).collect();
    let mut ours = primary.connect();
    ours.set_timeout(Duration::from_secs(10));
    let expected = publish(&mut ours);
    for conn in &mut subscribers {
        assert_eq!(messages(conn, expected.len()), expected);
    }
    // The log has no messages, and is loaded as ever.
    let digest = ours.run("DEBUG DIGEST");
    let dir = primary.dir().join("appendonlydir");
    primary.signal("TERM");
    assert!(primary.wait_exit().success());
    for file in std::fs::read_dir(dir).expect("the folder of the log").flatten() {
        let bytes = std::fs::read(file.path()).expect("a file");
        assert!(!bytes.windows(7).any(|bytes| bytes.eq_ignore_ascii_case(b"PUBLISH")), "{}", file.path().display());
    }
    let path = primary.dir().to_str().expect("a path");
    let again = Server::start_onrush(&[&args[..], &["--dir", path]].concat());
    assert_eq!(again.connect().run("DEBUG DIGEST"), digest);
}

#[test]
fn a_replica_of_redis_passes_messages_on() {
    for oracle in Oracle::PARTNERS {
        let primary = start_primary(oracle, &[]);
        let first = start_replica(&primary, &[]);
        let chained = start_replica(&first, &[]);
        let mut subscribers = [&first, &chained].map(subscribe);
        let mut conn = primary.connect();
        let expected = publish(&mut conn);
        for subscriber in &mut subscribers {
            assert_eq!(messages(subscriber, expected.len()), expected);
        }
    }
}

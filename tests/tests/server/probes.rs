//! Commands of clients and health checks for which no oracle can give the expected reply.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, skips_on_stand_in, wait_until};

fn texts(value: &Value) -> Vec<String> {
    value.items().expect("an array").iter().map(Value::text).collect()
}

/// Which client waits, if one does.
fn waiting(conn: &mut Conn) -> Option<String> {
    let list = conn.run("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains(" flags=b "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("id=")).map(str::to_owned)
}

#[test]
fn wait_waits_until_its_time_is_over_or_until_it_is_unblocked() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let started = Instant::now();
    assert_eq!(conn.run("WAIT 1 50"), Value::Int(0));
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!(conn.run("WAITAOF 0 1 1"), Value::Array(vec![Value::Int(0), Value::Int(0)]));
    let mut other = server.connect();
    for (how, reply) in [("", ":0\r\n"), (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")] {
        conn.send_command(&argv!["WAIT", "1", "0"]).expect("sent");
        let mut id = None;
        wait_until("the client waits", || {
            id = waiting(&mut other);
            id.is_some()
        });
        assert_eq!(other.run(&format!("CLIENT UNBLOCK {}{how}", id.expect("an id"))), Value::Int(1));
        assert_eq!(conn.read_reply().expect("a reply"), reply.as_bytes());
    }
}

#[test]
fn what_is_not_there_is_refused_clearly() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for (line, reply) in [
        ("BGSAVE now", "ERR syntax error"),
        ("CLIENT DURABILITY always", "ERR CLIENT DURABILITY ALWAYS needs the append-only file (appendonly yes)"),
        ("REPLICAOF localhost 65536", "ERR Invalid master port"),
        ("MODULE LOAD /a/path.so", "ERR MODULE command not allowed. This server has no modules."),
    ] {
        let got = conn.run(line);
        assert!(got.is_error(), "{line}: {got}");
        assert_eq!(got.text(), reply, "{line}");
    }
}

#[test]
fn lastsave_is_the_time_of_the_start() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let Value::Int(at) = conn.run("LASTSAVE") else { panic!("no number") };
    assert!((conn.info_number("rdb_last_save_time").expect("a field") - at).abs() <= 1);
    let Value::Array(time) = conn.run("TIME") else { panic!("no time") };
    let now: i64 = time[0].text().parse().expect("a number");
    assert!((0..60).contains(&(now - at)), "{at} {now}");
}

/// Both protocols, so that maps and sets are compared as well.
#[test]
fn a_password_shows_as_its_digest_as_in_redis() {
    let args = ["--requirepass", "secret"];
    let (ours, oracle) = (Server::start_onrush(&args), Server::start_oracle(Oracle::Newer, &args));
    for protocol in ["2", "3"] {
        let [mut ours, mut oracle] = [&ours, &oracle].map(|server| {
            let mut conn = server.connect();
            assert!(!conn.call(&argv!["HELLO", protocol, "AUTH", "default", "secret"]).is_error());
            conn
        });
        for line in [argv!["ACL", "LIST"], argv!["ACL", "GETUSER", "default"], argv!["ACL", "WHOAMI"]] {
            assert_eq!(ours.call(&line), oracle.call(&line), "{line}");
        }
    }
}

#[test]
fn failed_logins_stand_in_the_log() {
    let server = Server::start_onrush(&["--requirepass", "secret"]);
    let (mut conn, mut stranger) = (server.connect(), server.connect());
    assert!(!conn.run("AUTH secret").is_error());
    assert_eq!(texts(&conn.run("ACL LOG")), [""; 0]);
    for line in ["AUTH wrong", "AUTH wronger", "AUTH nobody secret", "HELLO 2 AUTH default wrong"] {
        assert!(stranger.run(line).is_error());
    }
    conn.run("HELLO 3");
    let log = conn.run("ACL LOG");
    let field = |entry: &Value, name: &str| {
        let pairs = entry.pairs().expect("a map");
        match pairs.iter().find(|(field, _)| field.text() == name).map(|(_, value)| value) {
            Some(Value::Int(number)) => number.to_string(),
            other => other.expect("a field").text(),
        }
    };
    let told = |entry: &Value| ["entry-id", "count", "reason", "object", "username"].map(|name| field(entry, name));
    let entries: Vec<_> = log.items().expect("entries").iter().map(told).collect();
    let expected = [
        ["2", "1", "auth", "HELLO", "default"],
        ["1", "1", "auth", "AUTH", "nobody"],
        ["0", "2", "auth", "AUTH", "default"],
    ];
    assert_eq!(entries, expected.map(|words| words.map(str::to_owned)));
    assert!(field(&log.items().expect("entries")[0], "client-info").starts_with("id="));
    assert_eq!(conn.run("ACL LOG 1").items().map(|entries| entries.len()), Some(1));
    assert_eq!(conn.run("ACL LOG RESET").text(), "OK");
    assert_eq!(conn.run("ACL LOG").items().map(|entries| entries.len()), Some(0));
    assert_eq!(conn.run("CONFIG SET acllog-max-len 0").text(), "OK");
    assert!(stranger.run("AUTH wrong").is_error());
    assert_eq!(conn.run("ACL LOG").items().map(|entries| entries.len()), Some(0));
}

#[test]
fn passwords_are_random_and_as_long_as_asked_for() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for (bits, digits) in [(1, 1), (4, 1), (5, 2), (256, 64), (4096, 1024)] {
        assert_eq!(conn.run(&format!("ACL GENPASS {bits}")).text().len(), digits);
    }
    let [one, other] = [(); 2].map(|()| conn.run("ACL GENPASS").text());
    assert_ne!(one, other);
    assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
}

#[test]
fn a_category_has_the_commands_that_are_in_it() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    for category in texts(&conn.run("ACL CAT")) {
        let of_acl = texts(&conn.call(&argv!["ACL", "CAT", category]));
        let of_command = texts(&conn.call(&argv!["COMMAND", "LIST", "FILTERBY", "ACLCAT", category]));
        assert_eq!(of_acl, of_command, "{category}");
    }
}

//! Very many fields of a hash that are due at once: no command pays for all of them, and none is seen any more.

use std::time::{Duration, Instant};

use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, skips_on_stand_in, wait_until};

const FIELDS: usize = 5_000;

/// A hash `h` of expired fields, with `live` beside them; active expiry is off.
fn backlog(server: &Server) -> Conn {
    let mut conn = server.connect();
    conn.run("DEBUG SET-ACTIVE-EXPIRE 0");
    let names: Vec<String> = (0..FIELDS).map(|n| format!("f{n}")).collect();
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let pairs: Vec<String> = names.iter().flat_map(|name| [name.clone(), "v".to_owned()]).collect();
    conn.call(&Argv::new(&[words(&["HSET", "h", "live", "1"]), pairs].concat()));
    conn.call(&Argv::new(&[words(&["HPEXPIRE", "h", "1", "FIELDS", &FIELDS.to_string()]), names].concat()));
    let expired = Instant::now() + Duration::from_millis(3);
    wait_until("the fields have expired", || Instant::now() > expired);
    conn
}

fn len(conn: &mut Conn) -> usize {
    shown(&conn.run("HLEN h")).parse().expect("a number")
}

#[test]
fn no_command_deletes_more_than_a_few_fields_and_none_sees_them() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut conn = backlog(&server);
    for (line, expected) in [
        ("HSET h f1 x", "1"),
        ("HSETNX h f2 x", "1"),
        ("HINCRBY h f3 2", "2"),
        ("HDEL h f1 f2 f3 f4", "3"),
        ("HGET h f5", "(nil)"),
        ("HGETALL h", "live 1"),
        ("HKEYS h", "live"),
        ("HVALS h", "1"),
        ("HRANDFIELD h", "live"),
        ("HRANDFIELD h 5", "live"),
        ("HRANDFIELD h -3 WITHVALUES", "live 1 live 1 live 1"),
        ("HTTL h FIELDS 2 f4000 live", "-2 -1"),
        ("HPEXPIRE h 100000 FIELDS 2 f4000 none", "-2 -2"),
        ("HPERSIST h FIELDS 1 f4000", "-2"),
        ("HGETDEL h FIELDS 1 f4001", "(nil)"),
        ("HGETEX h EX 100 FIELDS 1 f4002", "(nil)"),
        ("HSETEX h FXX EX 100 FIELDS 1 f4003 x", "0"),
        ("HSETEX h FNX KEEPTTL FIELDS 1 f4003 x", "1"),
        ("HTTL h FIELDS 1 f4003", "-1"),
        ("HDEL h f4003", "1"),
    ] {
        assert_eq!(shown(&conn.run(line)), expected, "{line}");
    }
    let left = len(&mut conn);
    assert!((FIELDS / 2..FIELDS).contains(&left), "{left} fields");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = conn.run(&format!("HSCAN h {cursor} NOVALUES"));
        let [next, names] = reply.items().expect("a cursor and names") else { panic!("{reply}") };
        found.extend(names.items().expect("names").iter().map(|name| name.text()));
        cursor = next.text();
        if cursor == "0" {
            break;
        }
    }
    // A scan may tell of a field twice while the table shrinks.
    found.dedup();
    assert_eq!(found, ["live"]);
    conn.run("DEBUG SET-ACTIVE-EXPIRE 1");
    wait_until("active expiry has deleted the fields", || len(&mut conn) == 1);
}

fn shown(reply: &Value) -> String {
    match reply {
        Value::Null(_) => "(nil)".to_owned(),
        Value::Int(number) => number.to_string(),
        reply => match reply.items() {
            Some(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
            None => reply.text(),
        },
    }
}

#[test]
fn nothing_is_deleted_while_writes_are_paused() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut conn = backlog(&server);
    conn.run("CLIENT PAUSE 100000 WRITE");
    conn.run("DEBUG SET-ACTIVE-EXPIRE 1");
    assert_eq!(len(&mut conn), FIELDS + 1);
    for (line, expected) in
        [("HGETALL h", "live 1"), ("HRANDFIELD h 3", "live"), ("HTTL h FIELDS 1 f7", "-2"), ("HGET h f7", "(nil)")]
    {
        assert_eq!(shown(&conn.run(line)), expected, "{line}");
    }
    assert_eq!(len(&mut conn), FIELDS + 1);
    conn.run("CLIENT UNPAUSE");
    wait_until("active expiry has deleted the fields", || len(&mut conn) == 1);
}

#[test]
fn the_log_gets_deletions_in_small_pieces() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&["--enable-debug-command", "yes", "--appendonly", "yes"]);
    let mut conn = backlog(&server);
    conn.run("HSET h x 1");
    conn.run("DEBUG SET-ACTIVE-EXPIRE 1");
    wait_until("active expiry has deleted the fields", || len(&mut conn) == 2);
    let digest = conn.run("DEBUG DIGEST").text();
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!(conn.run("DEBUG DIGEST").text(), digest);
    let log: Vec<u8> = std::fs::read_dir(server.dir().join("appendonlydir"))
        .expect("the folder of the log")
        .filter_map(|file| std::fs::read(file.expect("a file").path()).ok())
        .flatten()
        .collect();
    let text = String::from_utf8_lossy(&log);
    let longest = text.split("\r\n$4\r\nHDEL\r\n").map(|before| before.rsplit_once('*').map_or("", |(_, len)| len));
    let counts: Vec<usize> = longest.filter_map(|len| len.parse().ok()).collect();
    assert!(counts.len() > 5 && counts.iter().all(|&count| count < 600), "{counts:?}");
}

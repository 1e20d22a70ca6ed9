//! MONITOR: what is shown of the commands that are executed.

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, Server, wait_until};

/// Every command that another client sends, or its pipeline.
const LINES: &[&[&str]] = &[
    &["SET k v", "GET k", "GET none"],
    &["SELECT 3", r#"SET k "a \"b\" \\ \n\r\t\x07\x08\x00\xff""#],
    &["AUTH wrong"],
    &["AUTH default wrong"],
    &["HELLO 3 AUTH default pw SETNAME x"],
    &["HELLO 2"],
    &["CONFIG GET port", "NOSUCH x", "GET", "CLIENT ID", "COMMAND COUNT"],
    &["LPUSH k 1"],
    &["MULTI", "SET a 1", "CONFIG GET port", "INCR a", "EXEC"],
    &["MULTI", "SET a", "EXEC"],
    &["MULTI", "GET a", "DISCARD"],
    &[
        r#"EVAL "redis.call('SET', KEYS[1], 1) redis.pcall('CONFIG', 'GET', 'port') return redis.call('INCR', KEYS[1])" 1 n"#,
    ],
    &[
        r#"EVAL "redis.call('SELECT', 5) redis.pcall('SELECT', 99) redis.call('SET', KEYS[1], 1) redis.pcall('INCR', {})" 1 n"#,
        r#"EVAL "redis.call('SELECT', 4) redis.pcall('LPUSH', KEYS[1], 1) redis.call('SET', 'undeclared', 1)" 1 n"#,
        "SELECT 0",
    ],
    &["MULTI", "SELECT 6", r#"EVAL "redis.call('GET', 'n') redis.call('SELECT', 7)" 0"#, "GET n", "EXEC", "SELECT 0"],
    &["MULTI", r#"EVAL "return redis.call('GET', 'n')" 0"#, "EXEC", "EVALSHA nosuch 0"],
    &["BLPOP none 0.01"],
    &["PUBLISH a b", "FLUSHALL", "RESET"],
    &["SET k v", "SET k v", "SET k v"],
];

fn subject(line: &str) -> Argv {
    Argv::parse(line).expect("balanced quotes")
}

/// What `conn` is sent up to the line of an ECHO of its own, without times and addresses.
fn shown(conn: &mut Conn) -> Vec<String> {
    conn.send_command(&argv!["ECHO", "mark"]).expect("a connection");
    let mut lines = Vec::new();
    loop {
        let reply = conn.read_reply().expect("a reply or a line");
        let text = String::from_utf8_lossy(&reply).into_owned();
        let line = match text.split_once(" [") {
            Some((time, rest)) if time.starts_with('+') => {
                let (db, rest) = rest.split_once(' ').expect("a database");
                match rest.split_once("] ").expect("an address") {
                    ("lua", rest) => format!("{db} lua {rest}"),
                    (_, rest) => format!("{db} {rest}"),
                }
            }
            _ => text,
        };
        let is_last = line.contains("ECHO");
        lines.push(line);
        if is_last {
            return lines;
        }
    }
}

#[test]
fn commands_are_shown_as_by_redis_server() {
    let told = |server: &Server| -> Vec<Vec<String>> {
        let (mut monitor, mut conn) = (server.connect(), server.connect());
        conn.run("CONFIG SET requirepass pw");
        conn.run("AUTH pw");
        monitor.run("AUTH pw");
        assert_eq!(monitor.call(&argv!["MONITOR"]).to_string(), "(status) OK");
        let tell = |lines: &&[&str]| {
            conn.pipeline(&lines.iter().map(|line| subject(line)).collect::<Vec<_>>());
            shown(&mut monitor)
        };
        LINES.iter().map(tell).collect()
    };
    let oracle = told(&Server::start_oracle(Oracle::Newer, &[]));
    for workers in ["1", "2"] {
        let ours = Server::start_onrush(&["--workers", workers, "--gather-connections", "no"]);
        assert_eq!(told(&ours), oracle);
    }
}

#[test]
fn a_client_monitors_until_it_resets_or_goes() {
    let server = Server::start_onrush(&[]);
    let (mut monitor, mut conn) = (server.connect(), server.connect());
    monitor.run("MONITOR");
    let list = conn.run("CLIENT LIST").text();
    assert!(list.contains(" flags=O "), "{list}");
    assert_eq!(conn.run("CLIENT LIST TYPE normal").text().lines().count(), 2);
    assert_eq!(monitor.run("RESET").to_string(), "(status) RESET");
    conn.run("SET k v");
    assert_eq!(monitor.run("PING").to_string(), "(status) PONG", "nothing is shown any more");
    monitor.run("MONITOR");
    drop(monitor);
    wait_until("it is gone", || !conn.run("CLIENT LIST").text().contains(" flags=O "));
    assert_eq!(conn.run("GET k").text(), "v");
}

#[test]
fn a_client_that_monitors_is_refused_keys() {
    let servers =
        [Server::start_onrush(&[]), Server::start_oracle(Oracle::Older, &[]), Server::start_oracle(Oracle::Newer, &[])];
    let replies = servers.map(|server| {
        let mut conn = server.connect();
        let mut before = vec![conn.run("MULTI").to_string(), conn.run("SET k v").to_string()];
        before.extend(["EXEC", "MONITOR"].map(|line| conn.run(line).to_string()));
        // Commands that are executed are shown to their client, too: behind the reply in ours, before it in the oracles.
        let mut refused = |line: &str| {
            conn.send_command(&subject(line)).expect("a connection");
            loop {
                let reply = conn.read_reply().expect("a reply");
                if reply[0] != b'+' || !reply[1].is_ascii_digit() {
                    return String::from_utf8_lossy(&reply).into_owned();
                }
            }
        };
        let lines = [
            "GET k",
            "SET k x",
            "DEL k",
            "PUBLISH a b",
            "EVAL 'return 1' 0",
            "PFCOUNT k",
            "DBSIZE",
            "KEYS *",
            "PING",
            "SELECT 1",
            "MULTI",
            "GET k",
            "EXEC",
            "CLIENT SETNAME x",
        ];
        before.extend(lines.map(&mut refused));
        before.push(server.connect().run("GET k").to_string());
        before
    });
    assert_eq!(replies[0], replies[1]);
    assert_eq!(replies[0], replies[2]);
}

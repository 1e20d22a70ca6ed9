//! DEBUG, which tests of clients use: replies as those of redis-server 8.2, and what takes long disturbs nobody.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, skips_on_stand_in, wait_until};

const SETTINGS: &[&str] = &["--enable-debug-command", "yes"];

fn start(args: &[&str]) -> Server {
    Server::start_onrush(&[SETTINGS, &["--workers", "1"], args].concat())
}

/// Commands whose replies are equal byte by byte, one after the other on one connection.
const EQUAL: &[&str] = &[
    "DEBUG",
    "DEBUG nosuch",
    "DEBUG SLEEP",
    "DEBUG SLEEP 0",
    "DEBUG SLEEP 0.001",
    "DEBUG SLEEP -1",
    "DEBUG SLEEP abc",
    "DEBUG SLEEP 0 0",
    "DEBUG LOG",
    "DEBUG LOG message",
    "DEBUG LOG two words",
    "DEBUG STRINGMATCH-LEN 100 a*",
    "SET k:1 there",
    "DEBUG POPULATE 3 k",
    "MGET k:0 k:1 k:2 k:3",
    "DEBUG POPULATE 2 long 12",
    "GET long:1",
    "DEBUG POPULATE 2 short 3",
    "GET short:1",
    "DEBUG POPULATE 2",
    "GET key:1",
    "DEBUG POPULATE",
    "DEBUG POPULATE -1",
    "DEBUG POPULATE abc",
    "DEBUG POPULATE 1 k -1",
    "DEBUG POPULATE 1 k 1 1",
    "DEBUG SET-ACTIVE-EXPIRE 0",
    "DEBUG SET-ACTIVE-EXPIRE 1",
    "DEBUG SET-ACTIVE-EXPIRE abc",
    "DEBUG SET-ACTIVE-EXPIRE",
    "DEBUG OBJECT nosuch",
    "DEBUG OBJECT",
    "DEBUG DIGEST",
    "DEBUG DIGEST-VALUE nosuch k:1 k:1",
    "DEBUG DIGEST-VALUE",
    "DEBUG CHANGE-REPL-ID",
    "DEBUG CHANGE-REPL-ID x",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 100",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 100b",
    "DEBUG QUICKLIST-PACKED-THRESHOLD 5gb",
    "DEBUG QUICKLIST-PACKED-THRESHOLD x",
    "DEBUG QUICKLIST-PACKED-THRESHOLD",
    "DEBUG SET-DISABLE-DENY-SCRIPTS 0",
    "DEBUG SET-DISABLE-DENY-SCRIPTS",
    "DEBUG AOF-FLUSH-SLEEP 0",
    "DEBUG DICT-RESIZING 1",
    "DEBUG PAUSE-CRON 0",
    "DEBUG REPL-PAUSE clear",
    "DEBUG SET-SKIP-CHECKSUM-VALIDATION 0",
    "DEBUG CLIENT-EVICTION",
    "DEBUG RELOAD",
    "DEBUG RELOAD NOSAVE",
    "DEBUG RELOAD x",
    "DBSIZE",
    "DEBUG LOADAOF",
    "DEBUG LOADAOF x",
    "DEBUG ERROR text",
    "DEBUG ERROR",
    "DEBUG PROTOCOL string",
    "DEBUG PROTOCOL double",
    "DEBUG PROTOCOL set",
    "DEBUG PROTOCOL push",
    "DEBUG PROTOCOL x",
    "HELLO 3",
    "DEBUG PROTOCOL attrib",
    "DEBUG PROTOCOL bignum",
    "DEBUG PROTOCOL map",
    "DEBUG PROTOCOL null",
];

#[test]
fn replies_are_those_of_redis() {
    let replies = |server: &Server| {
        let mut conn = server.connect();
        let parse = |line: &&str| Argv::parse(line).expect("a command");
        let replies =
            EQUAL.iter().map(|line| (*line, conn.try_call(&parse(line)).expect("a reply"))).collect::<Vec<_>>();
        replies.into_iter().filter(|(line, _)| *line != "HELLO 3").collect::<Vec<_>>()
    };
    let (oracle, onrush) = (Server::start_oracle(Oracle::Newer, SETTINGS), start(&[]));
    for ((line, wanted), (_, ours)) in replies(&oracle).into_iter().zip(replies(&onrush)) {
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&wanted), "{line}");
    }
    // In RESP3 the message comes behind the reply.
    for server in [&oracle, &onrush] {
        let mut conn = server.connect();
        conn.run("HELLO 3");
        conn.send_command(&argv!["DEBUG", "PROTOCOL", "push"]).expect("taken");
        assert!(conn.read_reply().expect("the reply").starts_with(b"$40"));
        assert!(conn.read_reply().expect("the message").starts_with(b">2"));
    }
}

/// What DEBUG OBJECT tells of a key: the encoding, and the bytes of the value.
fn object(conn: &mut Conn, key: &str) -> (String, usize) {
    let line = conn.run(&format!("DEBUG OBJECT {key}")).text();
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).expect("a field").to_owned();
    (field("encoding:"), field("serializedlength:").parse().expect("a number"))
}

#[test]
fn strings_have_the_sizes_that_they_have_in_redis() {
    let (oracle, onrush) = (Server::start_oracle(Oracle::Newer, SETTINGS), start(&[]));
    let mut conns = [oracle.connect(), onrush.connect()];
    for value in ["7", "-200", "100000", "10000000000", "abc", &"abcdefg ".repeat(2)] {
        let told = conns.each_mut().map(|conn| {
            conn.call(&argv!["SET", "key", value]);
            object(conn, "key")
        });
        assert_eq!(told[1], told[0], "{value}");
    }
}

#[test]
fn other_values_have_the_size_of_their_payload() {
    if skips_on_stand_in() {
        return;
    }
    let server = start(&[]);
    let mut conn = server.connect();
    for (key, command) in [("l", "RPUSH l a b c"), ("h", "HSET h a 1"), ("z", "ZADD z 1 a"), ("x", "XADD x 1-1 a b")] {
        conn.run(command);
        let dump = conn.try_call(&argv!["DUMP", key]).expect("a payload");
        let body = dump.splitn(2, |&byte| byte == b'\n').nth(1).expect("a body").len() - 2;
        // The payload also has a type, a version and a checksum.
        assert_eq!(object(&mut conn, key).1, body - 1 - 2 - 8, "{command}");
    }
}

#[test]
fn a_change_of_the_replication_id_shows() {
    let server = start(&[]);
    let mut conn = server.connect();
    let id = |conn: &mut Conn| {
        let info = conn.run("INFO replication").text();
        info.lines().find_map(|line| line.strip_prefix("master_replid:")).expect("an id").trim().to_owned()
    };
    let before = id(&mut conn);
    assert_eq!(conn.run("DEBUG CHANGE-REPL-ID").text(), "OK");
    assert!(id(&mut conn) != before && id(&mut conn).len() == 40);
}

#[test]
fn what_is_not_there_says_so() {
    if skips_on_stand_in() {
        return;
    }
    let server = start(&[]);
    let mut conn = server.connect();
    for (command, reply) in [
        ("DEBUG HTSTATS 0", "ERR DEBUG HTSTATS is not supported: values and keys are not kept in Redis's structures"),
        ("DEBUG restart", "ERR DEBUG RESTART is not supported: the process does not start itself again"),
        (
            "DEBUG REPLICATE SET a b",
            "ERR DEBUG REPLICATE is not supported: replicas get what commands have done, and nothing else",
        ),
        (
            "DEBUG SET-DISABLE-DENY-SCRIPTS 1",
            "ERR DEBUG SET-DISABLE-DENY-SCRIPTS is not supported: what scripts may not call would break the promises of this server",
        ),
        ("DEBUG JMAP", "ERR DEBUG JMAP is not supported: the allocator is not jemalloc"),
        ("DEBUG HTSTATS", "ERR unknown subcommand or wrong number of arguments for 'HTSTATS'. Try DEBUG HELP."),
    ] {
        assert_eq!(conn.run(command).text(), reply);
    }
    assert_eq!(
        conn.run("DEBUG POPULATE 1 k 1000000000000").text(),
        "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
    );
}

#[test]
fn nobody_else_sleeps() {
    if skips_on_stand_in() {
        return;
    }
    let server = start(&["--save", "3600 1", "--appendonly", "yes"]);
    let mut sleeper = server.connect();
    sleeper.send_command(&argv!["DEBUG", "SLEEP", "60"]).expect("taken");
    sleeper.send_command(&argv!["SET", "behind", "1"]).expect("taken");
    let mut conn = server.connect();
    wait_until("it sleeps", || conn.info_number("blocked_clients") == Some(1));
    for command in ["PING", "SET a 1", "GET a", "EVAL 'return redis.call(\"INCR\", KEYS[1])' 1 n", "KEYS *", "SAVE"] {
        let started = Instant::now();
        assert!(!conn.run(command).is_error(), "{command}");
        assert!(started.elapsed() < Duration::from_secs(10), "{command} waits");
    }
    assert_eq!(conn.run("EXISTS behind"), Value::Int(0), "the client itself waits");
    // Another one can wake it.
    let id = sleeper_id(&mut conn);
    assert_eq!(conn.run(&format!("CLIENT UNBLOCK {id}")), Value::Int(1));
    assert_eq!(sleeper.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(sleeper.read_reply().expect("the next one"), b"+OK\r\n");
}

fn sleeper_id(conn: &mut Conn) -> String {
    let list = conn.run("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains("cmd=debug")).expect("the client that sleeps");
    line.split(' ').find_map(|field| field.strip_prefix("id=")).expect("an id").to_owned()
}

#[test]
fn the_server_ends_while_a_client_sleeps() {
    if skips_on_stand_in() {
        return;
    }
    for way in ["SIGTERM", "SHUTDOWN", "SHUTDOWN NOSAVE"] {
        let mut server = start(&["--save", "3600 1"]);
        let (mut sleeper, mut conn) = (server.connect(), server.connect());
        sleeper.send_command(&argv!["DEBUG", "SLEEP", "60"]).expect("taken");
        wait_until("it sleeps", || conn.info_number("blocked_clients") == Some(1));
        let started = Instant::now();
        match way {
            "SIGTERM" => server.signal("TERM"),
            command => conn.send_command(&Argv::parse(command).expect("a command")).expect("taken"),
        }
        assert_eq!(server.wait_exit().code(), Some(0), "{way}");
        assert!(started.elapsed() < Duration::from_secs(10), "{way}");
    }
}

#[test]
fn sleeping_is_slow() {
    let server = start(&["--slowlog-log-slower-than", "20000", "--latency-monitor-threshold", "20"]);
    let mut conn = server.connect();
    let started = Instant::now();
    assert_eq!(conn.run("DEBUG SLEEP 0.05").text(), "OK");
    assert!(started.elapsed() >= Duration::from_millis(50));
    let log = conn.run("SLOWLOG GET");
    let entry = log.items().expect("entries")[0].items().expect("an entry").to_vec();
    assert_eq!(entry[3].items().expect("arguments")[1].text(), "SLEEP");
    assert!(matches!(entry[2], Value::Int(50_000..)), "{log:?}");
    let latest = conn.run("LATENCY LATEST");
    let event = latest.items().expect("events")[0].items().expect("an event").to_vec();
    assert!(event[0].text() == "command" && matches!(event[3], Value::Int(50..)), "{latest:?}");
}

#[test]
fn others_are_served_while_very_many_keys_are_made() {
    if skips_on_stand_in() {
        return;
    }
    let server = start(&[]);
    let (mut maker, mut conn) = (server.connect(), server.connect());
    maker.send_command(&argv!["DEBUG", "POPULATE", "2000000"]).expect("taken");
    wait_until("it has begun", || matches!(conn.run("DBSIZE"), Value::Int(1..)));
    for command in ["PING", "SET a 1", "GET a", "DEL a"] {
        assert!(!conn.run(command).is_error());
    }
    assert!(matches!(conn.run("DBSIZE"), Value::Int(..2_000_000)), "it is not done yet");
    assert_eq!(maker.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(conn.run("DBSIZE"), Value::Int(2_000_000));
}

#[test]
fn a_crash_is_a_crash() {
    for word in ["SEGFAULT", "ASSERT", "OOM"] {
        let mut server = start(&[]);
        let mut conn = server.connect();
        conn.send_command(&argv!["DEBUG", word]).expect("taken");
        assert!(!server.wait_exit().success());
        assert!(skips_on_stand_in() || server.log().contains(&format!("DEBUG {word} was called")));
    }
}

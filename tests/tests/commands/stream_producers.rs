//! Streams as Redis 8.6 and 8.8 document them: messages that are not added twice (IDMP, IDMPAUTO, XCFGSET), and entries
//! that consumers give back (XNACK). No oracle has these, so the expected replies are here.

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, is_stand_in, wait_until};

const SYNTAX: &str = "ERR syntax error";

/// A reply in short: its items, those of arrays in brackets.
fn short(value: &Value) -> String {
    match (value, value.items()) {
        (Value::Int(number), _) => number.to_string(),
        (_, Some(items)) => format!("[{}]", items.iter().map(short).collect::<Vec<_>>().join(" ")),
        (other, None) => other.text(),
    }
}

fn check(conn: &mut Conn, lines: &[(&str, &str)]) {
    for (line, want) in lines {
        let reply = conn.run(line);
        assert_eq!(short(&reply), *want, "{line}");
    }
}

fn start() -> Option<Server> {
    (!is_stand_in()).then(|| Server::start_onrush(&["--enable-debug-command", "yes"]))
}

/// The fields of XINFO STREAM about producers' messages: producers and messages tracked, messages added, duplicates.
fn tracked(conn: &mut Conn, key: &str) -> Option<[i64; 4]> {
    let info = conn.run(&format!("XINFO STREAM {key}"));
    let items = info.items().expect("fields");
    let number = |name: &str| {
        let at = items.iter().position(|item| item.text() == name)?;
        match items[at + 1] {
            Value::Int(number) => Some(number),
            _ => None,
        }
    };
    let numbers = ["pids-tracked", "iids-tracked", "iids-added", "iids-duplicates"].map(number);
    numbers[0].map(|_| numbers.map(|number| number.expect("all or none")))
}

#[test]
fn a_message_is_added_once_for_each_producer() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    let first = conn.run("XADD s IDMP p a * f 1").text();
    assert!(first.contains('-'), "{first}");
    assert_eq!(conn.run("XADD s IDMP p a * f other-content").text(), first);
    assert_eq!(conn.run("XADD s NOMKSTREAM MAXLEN 10 IDMP p a * f 1").text(), first);
    let others =
        ["XADD s IDMP p b * f 1", "XADD s IDMP q a * f 1", "XADD s MAXLEN ~ 100 idmp r a * f 1", "XADD s * f 1"];
    for line in others {
        assert_ne!(conn.run(line).text(), first, "{line}");
    }
    check(&mut conn, &[("XLEN s", "5")]);
    assert_eq!(tracked(&mut conn, "s"), Some([3, 4, 4, 2]));
    // It stays known when its entry is gone.
    assert_eq!(short(&conn.run(&format!("XDEL s {first}"))), "1");
    assert_eq!(conn.run("XADD s IDMP p a * f 1").text(), first);
    // A key that is deleted forgets, a copy does not.
    conn.run("COPY s t");
    conn.run("DEL s");
    assert_eq!(conn.run("XADD t IDMP p a * f 1").text(), first);
    conn.run("XADD s IDMP p a * f 1");
    check(&mut conn, &[("XLEN s", "1"), ("XLEN t", "4")]);
}

#[test]
fn content_tells_messages_apart_where_producers_do_not() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    let first = conn.run("XADD s IDMPAUTO p * f 12 g 3").text();
    assert_eq!(conn.run("XADD s IDMPAUTO p MAXLEN 9 * f 12 g 3").text(), first);
    assert_eq!(conn.run("XADD s IDMPAUTO p * g 3 f 12").text(), first, "the order of fields does not matter");
    let others = [
        "XADD s IDMPAUTO p * f 1 2g 3",
        "XADD s IDMPAUTO p * f 3 g 12",
        "XADD s IDMPAUTO p * f 12 g 3 g 3",
        "XADD s IDMPAUTO p * f 12",
        "XADD s IDMPAUTO p * f 12 g 4",
        "XADD s IDMPAUTO q * f 12 g 3",
    ];
    for line in others {
        assert_ne!(conn.run(line).text(), first, "{line}");
    }
    check(&mut conn, &[("XLEN s", "7")]);
}

#[test]
fn a_stream_without_producers_shows_none() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    conn.run("XADD s * f 1");
    assert_eq!(tracked(&mut conn, "s"), None);
    check(&mut conn, &[("XCFGSET s IDMP-DURATION 7", "OK")]);
    assert_eq!(tracked(&mut conn, "s"), Some([0, 0, 0, 0]));
    let info = conn.run("XINFO STREAM s FULL");
    let texts: Vec<String> = info.items().expect("fields").iter().map(short).collect();
    let at = texts.iter().position(|text| text == "recorded-first-entry-id").expect("the field before");
    assert_eq!(texts[at + 2..at + 7], ["idmp-duration", "7", "idmp-maxsize", "100", "pids-tracked"]);
}

#[test]
fn options_are_checked() {
    let Some(server) = start() else { return };
    let given = "ERR IDMP and IDMPAUTO need * as the ID";
    let arity = "ERR wrong number of arguments for 'xadd' command";
    check(
        &mut server.connect(),
        &[
            ("XADD s IDMP p a 1-1 f 1", given),
            ("XADD s IDMPAUTO p 5-* f 1", given),
            ("XADD s IDMP '' a * f 1", "ERR producer ID must not be empty"),
            ("XADD s IDMPAUTO '' * f 1", "ERR producer ID must not be empty"),
            ("XADD s IDMP p '' * f 1", "ERR idempotent ID must not be empty"),
            ("XADD s IDMP p a *", arity),
            ("XADD s IDMP p a * f", arity),
            ("XADD s NOMKSTREAM NOMKSTREAM IDMP p", SYNTAX),
            ("XADD s NOMKSTREAM IDMP p a * f 1", ""),
            ("EXISTS s", "0"),
            ("XCFGSET s IDMP-DURATION 5", "ERR no such key"),
            ("SET string x", "OK"),
            ("XADD string IDMP p a * f 1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XCFGSET string IDMP-MAXSIZE 5", "WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XGROUP CREATE s g $ MKSTREAM", "OK"),
            ("XCFGSET s", SYNTAX),
            ("XCFGSET s IDMP-DURATION", SYNTAX),
            ("XCFGSET s IDMP-DURATION 5 IDMP-DURATION 5", SYNTAX),
            ("XCFGSET s OTHER 5", SYNTAX),
            ("XCFGSET s IDMP-DURATION 0", "ERR invalid duration"),
            ("XCFGSET s IDMP-DURATION 86401", "ERR invalid duration"),
            ("XCFGSET s IDMP-DURATION x", "ERR invalid duration"),
            ("XCFGSET s IDMP-DURATION 5 IDMP-MAXSIZE 0", "ERR invalid maxsize"),
            ("XCFGSET s IDMP-MAXSIZE 10001", "ERR invalid maxsize"),
            ("XCFGSET s IDMP-MAXSIZE 10000 IDMP-DURATION 86400", "OK"),
            ("XIDMPRECORD none p a 1-1", "ERR no such key"),
            ("XIDMPRECORD s p a 1-1", "ERR no such entry"),
            ("XADD s 1-1 f 1", "1-1"),
            ("XADD s 1-2 f 1", "1-2"),
            ("XIDMPRECORD s '' a 1-1", "ERR producer ID must not be empty"),
            ("XIDMPRECORD s p '' 1-1", "ERR idempotent ID must not be empty"),
        ],
    );
}

#[test]
fn a_record_says_which_entry_a_message_became() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    let (first, second) = (conn.run("XADD s * f 1").text(), conn.run("XADD s * f 2").text());
    let record = |id: &str| argv!["XIDMPRECORD", "s", "p", "a", id];
    assert_eq!(short(&conn.call(&record(&first))), "OK");
    assert_eq!(short(&conn.call(&record(&first))), "OK");
    assert_eq!(short(&conn.call(&record(&second))), "ERR idempotent ID already belongs to another entry");
    assert_eq!(conn.run("XADD s IDMP p a * f 1").text(), first);
    assert_eq!(tracked(&mut conn, "s"), Some([1, 1, 1, 1]));
}

#[test]
fn a_producer_is_known_with_as_many_messages_as_were_set() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    let ids: Vec<String> = (0..150).map(|n| conn.run(&format!("XADD s IDMP p {n} * f v")).text()).collect();
    assert_eq!(tracked(&mut conn, "s"), Some([1, 100, 150, 0]));
    assert_eq!(conn.run("XADD s IDMP p 50 * f v").text(), ids[50]);
    assert_ne!(conn.run("XADD s IDMP p 49 * f v").text(), ids[49]);
    // What changes nothing forgets nothing.
    check(&mut conn, &[("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 100", "OK")]);
    assert_eq!(conn.run("XADD s IDMP p 149 * f v").text(), ids[149]);
    check(&mut conn, &[("XCFGSET s IDMP-MAXSIZE 2", "OK")]);
    assert_eq!(tracked(&mut conn, "s"), Some([0, 0, 151, 2]));
    assert_ne!(conn.run("XADD s IDMP p 149 * f v").text(), ids[149]);
}

#[test]
fn a_duplicate_is_no_change() {
    let Some(server) = start() else { return };
    let (mut conn, mut other) = (server.connect(), server.connect());
    conn.run("XADD s IDMP p a * f 1");
    check(&mut other, &[("WATCH s", "OK")]);
    let before = conn.info_number("rdb_changes_since_last_save");
    conn.run("XADD s IDMP p a * f 1");
    assert_eq!(conn.info_number("rdb_changes_since_last_save"), before);
    check(&mut other, &[("MULTI", "OK"), ("XLEN s", "QUEUED"), ("EXEC", "[1]")]);
}

#[test]
fn messages_that_are_remembered_count_as_memory() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    let usage = |conn: &mut Conn| match conn.run("MEMORY USAGE s SAMPLES 0") {
        Value::Int(bytes) => bytes,
        other => panic!("{other}"),
    };
    conn.run("XADD s IDMP p 0 * f v");
    let before = usage(&mut conn);
    let name = "n".repeat(1000);
    (0..50).for_each(|n| _ = conn.run(&format!("XADD s MAXLEN 1 IDMP p {name}{n} * f v")));
    assert!(usage(&mut conn) > before + 50 * 1000, "{before} {}", usage(&mut conn));
}

#[test]
fn entries_that_are_given_back_belong_to_nobody() {
    let Some(server) = start() else { return };
    let read = "[[s [[1-0 [f v]] [2-0 [f v]] [3-0 [f v]]]]]";
    check(
        &mut server.connect(),
        &[
            ("XADD s 1 f v", "1-0"),
            ("XADD s 2 f v", "2-0"),
            ("XADD s 3 f v", "3-0"),
            ("XADD s 4 f v", "4-0"),
            ("XGROUP CREATE s g 0", "OK"),
            ("XREADGROUP GROUP g alice COUNT 3 STREAMS s >", read),
            ("XNACK s g FAIL IDS 3 1 2 4", "2"),
            ("XPENDING s g", "[3 1-0 3-0 [[alice 1]]]"),
            ("XPENDING s g - 2 9", "[[1-0  -1 1] [2-0  -1 1]]"),
            ("XPENDING s g IDLE 9223372036854775807 - + 9", "[[1-0  -1 1] [2-0  -1 1]]"),
            ("XPENDING s g - + 9 ''", "[]"),
            ("XREADGROUP GROUP g alice STREAMS s 0", "[[s [[3-0 [f v]]]]]"),
            // Whoever claims gets them, however long they have to be idle.
            ("XCLAIM s g bob 9223372036854775807 1 3", "[[1-0 [f v]]]"),
            ("XAUTOCLAIM s g bob 9223372036854775807 0 JUSTID", "[0-0 [2-0] []]"),
            ("XPENDING s g", "[3 1-0 3-0 [[alice 1] [bob 2]]]"),
            // They may be given back by anyone, and acknowledged while nobody has them.
            ("XNACK s g SILENT IDS 1 2", "1"),
            ("XACK s g 2", "1"),
            ("XNACK s g SILENT IDS 1 2", "0"),
            ("XGROUP DELCONSUMER s g bob", "1"),
            ("XPENDING s g", "[1 3-0 3-0 [[alice 1]]]"),
        ],
    );
}

#[test]
fn a_stream_shows_how_many_entries_were_given_back_if_any_were() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    check(
        &mut conn,
        &[
            ("XADD s 1 f v", "1-0"),
            ("XADD s 2 f v", "2-0"),
            ("XGROUP CREATE s g 0", "OK"),
            ("XREADGROUP GROUP g a STREAMS s >", "[[s [[1-0 [f v]] [2-0 [f v]]]]]"),
        ],
    );
    let nacked = |conn: &mut Conn| {
        let groups = conn.run("XINFO STREAM s FULL").pairs().expect("fields").pop().expect("groups").1;
        let group = groups.items().expect("groups")[0].pairs().expect("fields");
        group.into_iter().find(|(name, _)| name.text() == "nacked-count").map(|(_, count)| short(&count))
    };
    assert_eq!(nacked(&mut conn), None);
    check(&mut conn, &[("XNACK s g FAIL IDS 2 1 2", "2")]);
    assert_eq!(nacked(&mut conn).as_deref(), Some("2"));
    check(&mut conn, &[("XCLAIM s g b 0 1 2 JUSTID", "[1-0 2-0]")]);
    assert_eq!(nacked(&mut conn), None);
}

#[test]
fn giving_back_counts_as_the_mode_says() {
    let Some(server) = start() else { return };
    let most = i64::MAX.to_string();
    check(
        &mut server.connect(),
        &[
            ("XADD s 1 f v", "1-0"),
            ("XGROUP CREATE s g 0", "OK"),
            ("XREADGROUP GROUP g a STREAMS s >", "[[s [[1-0 [f v]]]]]"),
            ("XCLAIM s g a 0 1 RETRYCOUNT 5 JUSTID", "[1-0]"),
            ("XNACK s g SILENT IDS 1 1", "1"),
            ("XPENDING s g - + 1", "[[1-0  -1 4]]"),
            ("XNACK s g fail ids 1 1", "1"),
            ("XPENDING s g - + 1", "[[1-0  -1 4]]"),
            ("XNACK s g SILENT RETRYCOUNT 0 IDS 1 1", "1"),
            ("XNACK s g SILENT IDS 1 1", "1"),
            ("XPENDING s g - + 1", "[[1-0  -1 0]]"),
            ("XNACK s g FATAL IDS 1 1", "1"),
            ("XPENDING s g - + 1", &format!("[[1-0  -1 {most}]]")),
            // It is not delivered more often than can be told.
            ("XCLAIM s g b 0 1", "[[1-0 [f v]]]"),
            ("XAUTOCLAIM s g b 0 0", "[0-0 [[1-0 [f v]]] []]"),
            ("XNACK s g FAIL IDS 1 1", "1"),
            ("XPENDING s g - + 1", &format!("[[1-0  -1 {most}]]")),
            ("XNACK s g FATAL IDS 1 1 RETRYCOUNT 3", "1"),
            ("XPENDING s g - + 1", "[[1-0  -1 3]]"),
        ],
    );
}

#[test]
fn force_gives_back_what_nobody_had() {
    let Some(server) = start() else { return };
    let ids = "ERR Number of IDs must be a positive integer";
    let mismatch = "ERR The `numids` parameter must match the number of arguments";
    let missing = "NOGROUP No such key 's' or consumer group 'other'";
    check(
        &mut server.connect(),
        &[
            ("XADD s 1 f v", "1-0"),
            ("XADD s 2 f v", "2-0"),
            ("XADD s 3 f v", "3-0"),
            ("XGROUP CREATE s g 0", "OK"),
            ("XNACK s g FAIL IDS 1 1", "0"),
            ("XNACK s g FAIL IDS 2 1 9 FORCE", "1"),
            ("XNACK s g SILENT FORCE RETRYCOUNT 7 IDS 1 2", "1"),
            ("XNACK s g FATAL IDS 1 3 FORCE", "1"),
            ("XPENDING s g - + 9", &format!("[[1-0  -1 0] [2-0  -1 7] [3-0  -1 {}]]", i64::MAX)),
            ("XNACK s other FAIL IDS 1 1", missing),
            ("XNACK none g FAIL IDS 1 1", "NOGROUP No such key 'none' or consumer group 'g'"),
            ("XNACK s g LOUD IDS 1 1", SYNTAX),
            ("XNACK s g FAIL IDS 0 1", ids),
            ("XNACK s g FAIL IDS x 1", ids),
            ("XNACK s g FAIL IDS 2 1", mismatch),
            ("XNACK s g FAIL IDS 1 1 2", SYNTAX),
            ("XNACK s g FAIL IDS 1 1 RETRYCOUNT", SYNTAX),
            ("XNACK s g FAIL IDS 1 1 RETRYCOUNT -1", "ERR Invalid RETRYCOUNT option argument for XNACK"),
            ("XNACK s g FAIL IDS 1 x", "ERR Invalid stream ID specified as stream command argument"),
            ("XNACK s g FAIL IDS 1", "ERR wrong number of arguments for 'xnack' command"),
            ("XNACK s g FAIL RETRYCOUNT 1 FORCE FORCE FORCE", SYNTAX),
        ],
    );
}

#[test]
fn command_tells_their_arguments() {
    let Some(server) = start() else { return };
    let mut conn = server.connect();
    let mut info = |name: &str| {
        let reply = conn.run(&format!("COMMAND INFO {name}"));
        let items = reply.items().expect("a command")[0].items().expect("an entry").to_vec();
        items[1..6].iter().map(short).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(info("xcfgset"), "-2 [write fast] 1 1 1");
    assert_eq!(info("xidmprecord"), "5 [write denyoom fast] 1 1 1");
    assert_eq!(info("xnack"), "-7 [write fast] 1 1 1");
    let docs = short(&conn.run("COMMAND DOCS xadd xcfgset xnack"));
    for word in ["token IDMP ", "token IDMPAUTO", "token IDMP-MAXSIZE", "token SILENT", "token RETRYCOUNT"] {
        assert!(docs.contains(word), "{word}: {docs}");
    }
}

/// Executes the commands of a log on another server.
fn replay(server: &Server, log: &[u8]) -> Conn {
    let mut conn = server.connect();
    check(&mut conn, &[("FLUSHALL", "OK"), ("DEBUG REPLAY 1", "OK")]);
    assert!(!log.is_empty());
    let mut sent = log.to_vec();
    argv!["ECHO", "the-end"].encode(&mut sent);
    conn.send(&sent).expect("a server that reads");
    loop {
        let reply = conn.read_reply().expect("a reply");
        assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
        if reply.ends_with(b"the-end\r\n") {
            return conn;
        }
    }
}

#[test]
fn the_log_makes_the_same_streams() {
    let (Some(server), Some(other)) = (start(), start()) else { return };
    let mut conn = server.connect();
    let log = |conn: &mut Conn, name: &str, commands: &dyn Fn(&mut Conn)| {
        let path = server.dir().join(name);
        conn.call(&argv!["DEBUG", "COMMAND-LOG", "START", path.to_str().expect("a path of UTF-8")]);
        commands(conn);
        conn.run("DEBUG COMMAND-LOG STOP");
        std::fs::read(&path).expect("a log")
    };
    let changes = |conn: &mut Conn| {
        conn.run("XCFGSET s IDMP-MAXSIZE 3 IDMP-DURATION 1000");
        for n in 0..9 {
            conn.run(&format!("XADD s MAXLEN 4 IDMP p{} {} * f {n}", n % 2, n / 2));
            conn.run("XADD s MAXLEN 4 IDMPAUTO p * f same");
            conn.run(&format!("XADD t MAXLEN 0 IDMPAUTO p * f {n}"));
        }
        (1..9).for_each(|n| _ = conn.run(&format!("XADD g {n} f v")));
        conn.run("XGROUP CREATE g g 0");
        conn.run("XREADGROUP GROUP g a COUNT 6 STREAMS g >");
        conn.run("XNACK g g FATAL IDS 2 2 3");
        conn.run("XNACK g g SILENT IDS 2 4 8 FORCE");
        conn.run("XDEL g 3");
        conn.run("XCLAIM g g b 0 4");
    };
    let sent = log(&mut conn, "sent.log", &changes);
    let state = short(&conn.run("DEBUG STATE-DIGEST"));
    let pending = short(&conn.run("XPENDING g g - + 9"));
    assert!(pending.contains("[2-0  -1 9223372036854775807]"), "{pending}");
    // What was done, and what is there when a log begins.
    for log in [sent, log(&mut conn, "there.log", &|_| ())] {
        let mut replayed = replay(&other, &log);
        assert_eq!(short(&replayed.run("DEBUG STATE-DIGEST")), state, "{}", String::from_utf8_lossy(&log));
        for line in ["XADD s IDMP p0 4 * f v", "XADD s IDMPAUTO p * f same", "XADD t IDMPAUTO p * f 8"] {
            assert_eq!(replayed.run(line).text(), conn.run(line).text(), "{line}");
        }
    }
    let different = argv!["XADD", "s", "IDMP", "p0", "5", "*", "f", "v"];
    conn.call(&different);
    assert_ne!(short(&conn.run("DEBUG STATE-DIGEST")), state);
}

#[test]
fn snapshots_and_rewritten_logs_keep_what_producers_have_sent() {
    if start().is_none() {
        return;
    }
    let folder = TempDir::new();
    let path = folder.0.to_str().expect("a plain path").to_owned();
    let args = ["--dir", &path, "--enable-debug-command", "yes", "--appendonly", "yes", "--save", ""];
    let server = Launch::onrush().args(&args).start();
    let mut conn = server.connect();
    conn.run("SELECT 3");
    conn.run("XADD s 1-1 f v");
    conn.run("XCFGSET s IDMP-MAXSIZE 2000 IDMP-DURATION 5000");
    (0..2100).for_each(|n| _ = conn.run(&format!("XADD s IDMP p{} m{n} * f v", n % 2)));
    conn.run("XADD only IDMPAUTO p * f v");
    conn.run("XDEL s 1-1");
    let first = conn.run("XADD s IDMP p0 m0 * f v").text();
    let state = short(&conn.run("DEBUG STATE-DIGEST"));
    assert_eq!(conn.run("DEBUG RELOAD").text(), "OK");
    assert_eq!(short(&conn.run("DEBUG STATE-DIGEST")), state);
    conn.run("BGREWRITEAOF");
    wait_until("the log is rewritten", || {
        conn.run("INFO persistence").text().contains("aof_rewrite_in_progress:0")
            && std::fs::metadata(folder.0.join("appendonlydir/appendonly.aof.2.base.rdb")).is_ok()
    });
    server.signal("KILL");
    drop(server);
    let server = Launch::onrush().args(&args).start();
    let mut conn = server.connect();
    conn.run("SELECT 3");
    assert_eq!(short(&conn.run("DEBUG STATE-DIGEST")), state);
    assert_eq!(conn.run("XADD s IDMP p0 m0 * f v").text(), first);
    assert_eq!(conn.run("SAVE").text(), "OK");
    // redis-server has no IDMP, and loads the rest.
    drop(server);
    let reader = Launch::binary(Oracle::Newer.bin()).args(&["--dir", &path]).start();
    let mut redis = reader.connect();
    redis.run("SELECT 3");
    assert_eq!(redis.run("XLEN s").to_string(), "(integer) 2100");
}

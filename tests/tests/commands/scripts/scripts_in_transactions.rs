//! Scripts and functions between MULTI and EXEC: side by side with other work while they keep to the keys that they are
//! given; when they do not, the whole transaction begins anew, and no client sees it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, TempDir, wait_until};

fn start(workers: &str) -> Server {
    Server::start_onrush(&["--workers", workers, "--enable-debug-command", "yes"])
}

fn parse(raw: &[u8]) -> Value {
    Value::parse(raw).expect("a reply")
}

/// Executes commands as one transaction; returns what EXEC replies.
fn exec(conn: &mut Conn, commands: &[Argv]) -> Value {
    let batch: Vec<Argv> = [argv!["MULTI"]].iter().chain(commands).chain(&[argv!["EXEC"]]).cloned().collect();
    parse(conn.pipeline(&batch).last().expect("a reply"))
}

fn integers(reply: &Value) -> Vec<i64> {
    let items = reply.items().unwrap_or_else(|| panic!("an array and not {reply}"));
    let number = |item: &Value| match item {
        Value::Int(number) => *number,
        item => item.text().parse().unwrap_or_else(|_| panic!("a number in {reply}")),
    };
    items.iter().map(number).collect()
}

/// Ends what others do until then, also when an assertion fails.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A script of every kind: one whose text proves that it keeps to its keys, one that does so without a proof, one that does not.
const PROVEN: &str = "return redis.call('INCR', KEYS[1])";
const KEEPS: &str = "local key = KEYS[1] return redis.call('INCR', key)";
const LEAVES: &str = "redis.call('INCR', KEYS[1]) return redis.call('INCR', 'outside')";

const LIBRARY: &str =
    "#!lua name=counters\nredis.register_function('up', function(keys) return redis.call('INCR', keys[1]) end)";

/// While a command works for long with some keys, transactions with scripts on other keys do not wait for it.
#[test]
fn scripts_that_keep_to_their_keys_do_not_wait_for_a_long_command() {
    let server = start("2");
    let mut conn = server.connect();
    conn.call(&argv!["FUNCTION", "LOAD", LIBRARY]);
    for set in ["a", "b"] {
        for first in (0..400_000).step_by(10_000) {
            let members = (first..first + 10_000).map(|member| format!("{set}:{member}").into_bytes());
            let args: Vec<Vec<u8>> = [b"SADD".to_vec(), set.into()].into_iter().chain(members).collect();
            conn.call(&Argv::new(&args));
        }
    }
    let transaction = [argv!["EVAL", PROVEN, "1", "k"], argv!["EVAL", KEEPS, "1", "k"], argv!["FCALL", "up", "1", "k"]];
    let (mut long, is_over) = (server.connect(), AtomicBool::new(false));
    let (mut ended, mut begins) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let commands = scope.spawn(|| {
            let _until = Until(&is_over);
            let times = (0..5).map(|_| {
                let begun = Instant::now();
                assert_eq!(long.run("SUNIONSTORE d a b"), Value::Int(800_000));
                (begun, Instant::now())
            });
            times.collect::<Vec<_>>()
        });
        while !is_over.load(Relaxed) {
            let done = 3 * begins.len() as i64;
            begins.push(Instant::now());
            assert_eq!(integers(&exec(&mut conn, &transaction)), [done + 1, done + 2, done + 3]);
            ended.push(Instant::now());
        }
        let mut beside = Vec::new();
        for (begun, end) in commands.join().expect("the long commands") {
            // Neither the way there nor the way back.
            let (from, to) = (begun + (end - begun) / 4, end - (end - begun) / 4);
            beside.push(begins.iter().zip(&ended).filter(|(begun, ended)| **begun > from && **ended < to).count());
        }
        // Beside other work one takes milliseconds.
        assert!(beside.iter().sum::<usize>() > 10, "{beside:?} transactions while a command worked, five times");
    });
}

/// Whatever the scripts need, all that a transaction does is done once.
#[test]
fn a_transaction_that_begins_anew_is_executed_once() {
    let server = start("2");
    let mut conn = server.connect();
    let members: Vec<String> = (0..2000).flat_map(|n| [n.to_string(), format!("m:{n}")]).collect();
    let zadd: Vec<String> = ["ZADD".to_owned(), "large".to_owned()].into_iter().chain(members).collect();
    conn.call(&Argv::new(&zadd));
    for (name, script) in [
        ("proven", PROVEN),
        ("kept", KEEPS),
        ("outside", LEAVES),
        ("large", "redis.call('INCR', KEYS[1]) return redis.call('ZADD', 'large', 1, 'x' .. KEYS[1])"),
        ("many", "for i = 1, 500 do redis.call('INCR', 'many:' .. i) end return redis.call('INCR', KEYS[1])"),
        ("keyspace", "redis.call('DBSIZE') return redis.call('INCR', KEYS[1])"),
        (
            "database",
            "redis.call('SELECT', 3) redis.call('INCR', 'n') redis.call('SELECT', 0) return redis.call('INCR', KEYS[1])",
        ),
        (
            "publishes",
            "redis.call('PUBLISH', 'c', 'm') redis.call('INCR', 'outside') return redis.call('INCR', KEYS[1])",
        ),
        ("long", "local n = 0 while n < 3000000 do n = n + 1 end return redis.call('INCR', KEYS[1])"),
    ] {
        for beside in [argv!["INCR", "plain"], argv!["ZINCRBY", "large", "1", "m:1"]] {
            conn.run("DEL n plain list");
            for times in 1..=3_i64 {
                let before = [argv!["INCR", "plain"], beside.clone(), argv!["RPUSH", "list", "x"]];
                let scripted = [argv!["EVAL", script, "1", "n"], argv!["INCR", "plain"], argv!["LLEN", "list"]];
                let reply = exec(&mut conn, &[&before[..], &scripted].concat());
                let items = reply.items().unwrap_or_else(|| panic!("{name}: {reply}"));
                assert_eq!(items.len(), 6, "{name}: {reply}");
                assert!(!reply.to_string().contains("ERR"), "{name}: {reply}");
                assert_eq!((&items[2], &items[5]), (&Value::Int(times), &Value::Int(times)), "{name}: {reply}");
                if matches!(name, "proven" | "kept" | "many" | "keyspace" | "database" | "long") {
                    assert_eq!(items[3], Value::Int(times), "{name}: {reply}");
                }
                let plain = if beside == argv!["INCR", "plain"] { 3 } else { 2 };
                assert_eq!(items[4], Value::Int(plain * times), "{name}: {reply}");
            }
        }
    }
    assert_eq!(conn.run("ZSCORE large m:1").text(), (1 + 9 * 3).to_string());
    assert_eq!(conn.run("GET outside").text(), "12");
    assert_eq!(conn.run("GET many:500").text(), "6");
    conn.run("SELECT 3");
    assert_eq!(conn.run("GET n").text(), "6");
}

/// What a transaction changed itself before it was taken back does not abort it; what others change does, whenever that is.
#[test]
fn what_is_watched_stays_watched_when_a_transaction_begins_anew() {
    const CLIENTS: usize = 3;
    const INCREMENTS: usize = 200;
    let server = start("2");
    let mut conn = server.connect();
    conn.run("WATCH n outside");
    let reply = exec(&mut conn, &[argv!["INCR", "n"], argv!["EVAL", LEAVES, "1", "n"]]);
    assert_eq!(integers(&reply), [1, 1]);
    server.connect().run("INCR n");
    assert_eq!(
        exec(&mut conn, &[argv!["GET", "n"]]).items().map(<[Value]>::len),
        Some(1),
        "it is not watched any more"
    );
    conn.run("WATCH n");
    server.connect().run("INCR n");
    assert_eq!(exec(&mut conn, &[argv!["EVAL", LEAVES, "1", "n"]]).items(), None);
    conn.run("SET counter 0");
    let aborted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, aborted) = (&server, &aborted);
            scope.spawn(move || {
                let mut conn = server.connect();
                for round in 0..INCREMENTS {
                    // Another text each time: each is taken back once.
                    let script = format!(
                        "redis.call('SET', 'written', 1) return redis.call('SET', KEYS[1], ARGV[1]) -- {client} {round}"
                    );
                    loop {
                        conn.run("WATCH counter");
                        let value: i64 = conn.run("GET counter").text().parse().expect("a number");
                        let set = argv!["EVAL", script, "1", "counter", (value + 1).to_string()];
                        if exec(&mut conn, &[argv!["INCR", "tries"], set]).items().is_some() {
                            break;
                        }
                        aborted.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    let all = (CLIENTS * INCREMENTS).to_string();
    assert_eq!((conn.run("GET counter").text(), conn.run("GET tries").text()), (all.clone(), all));
    assert!(aborted.load(Relaxed) > 0, "the clients were never in each other's way");
}

/// Writers move amounts between accounts, partly by commands and partly by scripts that leave their keys; readers see the sum unchanged.
#[test]
fn nobody_sees_half_of_a_transaction_with_scripts() {
    const ACCOUNTS: usize = 6;
    const OBSERVATIONS: u64 = 20_000;
    let account = |number: usize| format!("account:{}", number % ACCOUNTS);
    let server = start("2");
    let mut conn = server.connect();
    (0..ACCOUNTS).for_each(|number| drop(conn.call(&argv!["SET", account(number), "1000"])));
    let (seen, sent, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (server, sent, is_over) = (&server, &sent, &is_over);
            scope.spawn(move || {
                let _until = Until(is_over);
                let mut conn = server.connect();
                let mut round = writer;
                while !is_over.load(Relaxed) {
                    round += 1;
                    let (from, to) = (account(round), account(round * 3 + 1));
                    let script = format!(
                        "redis.call('INCRBY', ARGV[1], 7) return redis.call('INCR', 'moves') -- {writer} {round}"
                    );
                    let keys = if round % 2 == 0 { vec![to.clone()] } else { vec![to.clone(), "moves".to_owned()] };
                    let head = ["EVAL".to_owned(), script, keys.len().to_string()];
                    let script = Argv::new(&[&head, keys.as_slice(), &[to]].concat());
                    let reply = exec(&mut conn, &[argv!["DECRBY", from, "7"], script]);
                    assert_eq!(integers(&reply).len(), 2);
                    sent.fetch_add(1, Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let _until = Until(&is_over);
            let mut conn = server.connect();
            let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
            let mget = Argv::new(&[&["MGET".to_owned()], names.as_slice()].concat());
            while !is_over.load(Relaxed) {
                for reply in conn.pipeline(&vec![mget.clone(); 50]) {
                    assert_eq!(integers(&parse(&reply)).iter().sum::<i64>(), 1000 * ACCOUNTS as i64);
                }
                if seen.fetch_add(50, Relaxed) > OBSERVATIONS {
                    is_over.store(true, Relaxed);
                }
            }
        });
    });
    assert_eq!(conn.run("GET moves").text(), sent.load(Relaxed).to_string(), "each is executed once");
}

/// A script that takes too long moves to another thread with its whole transaction, so that the clients of its worker
/// get BUSY, and can end it.
#[test]
fn a_script_without_end_in_a_transaction_can_be_killed() {
    let server = start("1");
    let (mut conn, mut other) = (server.connect(), server.connect());
    other.set_timeout(Duration::from_secs(10));
    other.run("CONFIG SET busy-reply-threshold 100");
    let endless = "redis.call('GET', KEYS[1]) while true do redis.pcall('GET', KEYS[1]) end";
    for command in
        [argv!["MULTI"], argv!["INCR", "n"], argv!["EVAL", endless, "1", "n"], argv!["INCR", "n"], argv!["EXEC"]]
    {
        conn.send_command(&command).expect("sent");
    }
    wait_until("others are told", || other.run("GET other").to_string().contains("BUSY"));
    assert_eq!(other.run("SCRIPT KILL").text(), "OK");
    let replies: Vec<Value> = (0..5).map(|_| parse(&conn.read_reply().expect("a reply"))).collect();
    let items = replies[4].items().expect("an array");
    assert_eq!((&items[0], &items[2]), (&Value::Int(1), &Value::Int(2)));
    assert!(items[1].to_string().contains("Script killed by user"), "{}", items[1]);
    assert_eq!(other.run("GET n").text(), "2");
}

/// MONITOR shows each command once, in order, whatever the transaction needed.
#[test]
fn who_monitors_sees_each_command_once() {
    let server = start("1");
    let (mut conn, mut monitor) = (server.connect(), server.connect());
    monitor.run("MONITOR");
    exec(&mut conn, &[argv!["INCR", "n"], argv!["EVAL", LEAVES, "1", "n"], argv!["GET", "n"]]);
    conn.call(&argv!["EVAL", LEAVES, "1", "n"]);
    conn.run("PING last");
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains("last")) {
        lines.push(String::from_utf8_lossy(&monitor.read_reply().expect("a line")).into_owned());
    }
    let words = [
        "\"MULTI\"",
        "\"INCR\" \"n\"",
        "\"EVAL\"",
        "lua] \"INCR\" \"n\"",
        "lua] \"INCR\" \"outside\"",
        "\"GET\" \"n\"",
        "\"EXEC\"",
    ];
    let again = ["\"EVAL\"", "lua] \"INCR\" \"n\"", "lua] \"INCR\" \"outside\"", "\"PING\""];
    let expected: Vec<&str> = words.iter().chain(&again).copied().collect();
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{expected} in {lines:#?}");
    }
}

/// Subscribers and waiting clients get what a transaction brings once, though it was taken back in between; and the command log has it
/// once.
#[test]
fn what_a_transaction_that_begins_anew_brings_comes_once() {
    let folder = TempDir::new();
    let dir = folder.0.to_str().expect("a path of text");
    let mut args =
        vec!["--workers", "2", "--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "KA"];
    args.extend(["--dir", dir, "--enable-debug-command", "yes"]);
    let server = Server::start_onrush(&args);
    let (mut conn, mut subscriber, mut waiter) = (server.connect(), server.connect(), server.connect());
    subscriber.run("SUBSCRIBE news __keyspace@0__:n");
    subscriber.read_reply().expect("the second confirmation");
    waiter.send_command(&argv!["BLPOP", "queue", "0"]).expect("sent");
    wait_until("a client waits", || conn.info_number("blocked_clients") == Some(1));
    let commands = [
        argv!["PUBLISH", "news", "first"],
        argv!["RPUSH", "queue", "a", "b"],
        argv!["EVAL", LEAVES, "1", "n"],
        argv!["PUBLISH", "news", "last"],
    ];
    assert_eq!(integers(&exec(&mut conn, &commands)), [1, 2, 1, 1]);
    assert!(parse(&waiter.read_reply().expect("an element")).to_string().contains(" a"));
    let heard: Vec<String> = (0..3).map(|_| parse(&subscriber.read_reply().expect("a message")).to_string()).collect();
    assert!(heard[0].contains("first") && heard[1].contains("incrby") && heard[2].contains("last"), "{heard:?}");
    assert_eq!(conn.run("LRANGE queue 0 -1").items().map(<[Value]>::len), Some(1));
    let digest = conn.run("DEBUG DIGEST");
    drop((conn, subscriber, waiter, server));
    let again = Server::start_onrush(&args);
    assert_eq!(again.connect().run("DEBUG DIGEST"), digest);
}

/// A server whose last snapshot has failed. Writes are refused once `stop-writes-on-bgsave-error` is on.
fn with_failed_snapshot() -> (Server, TempDir) {
    let folder = TempDir::new();
    let dir = folder.0.join("data");
    std::fs::create_dir(&dir).expect("a folder");
    let path = dir.to_str().expect("a plain path");
    let server =
        Server::start_onrush(&["--dir", path, "--save", "3600 1000000", "--stop-writes-on-bgsave-error", "no"]);
    std::fs::remove_dir_all(&dir).expect("removed");
    let mut conn = server.connect();
    conn.run("BGSAVE");
    wait_until("it fails", || conn.run("INFO persistence").text().contains("rdb_last_bgsave_status:err"));
    (server, folder)
}

#[test]
fn a_transaction_is_not_torn_when_writes_are_refused_from_its_middle_on() {
    let (server, _folder) = with_failed_snapshot();
    let mut conn = server.connect();
    let refuse = argv!["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"];
    let write = |key: &str| argv!["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", key];
    let declares = argv!["EVAL", "#!lua\nreturn redis.call('SET', KEYS[1], 1)", "1", "c"];
    for first in [argv!["SET", "a", "1"], write("a"), argv!["PING"]] {
        let reply = exec(&mut conn, &[first, refuse.clone(), write("b"), declares.clone()]);
        assert!(
            reply.items().expect("an array").iter().all(|reply| ["OK", "PONG"].contains(&&*reply.text())),
            "{reply}"
        );
        // The next one is refused.
        let reply = exec(&mut conn, &[argv!["SET", "a", "2"]]);
        assert!(reply.text().starts_with("EXECABORT"), "{reply}");
        assert!(conn.call(&write("b")).text().starts_with("MISCONF"));
        assert_eq!(conn.run("CONFIG SET stop-writes-on-bgsave-error no").text(), "OK");
    }
}

/// A program that declares to write is refused where a command that writes is, and so before its arguments are looked at.
#[test]
fn programs_that_declare_to_write_are_refused_while_they_are_queued() {
    const LIBRARY: &str = "#!lua name=declared\n\
        redis.register_function('writes', function(keys) return redis.call('SET', keys[1], 1) end)\n\
        redis.register_function{function_name='reads', callback=function() return 1 end, flags={'no-writes'}}";
    let (server, _folder) = with_failed_snapshot();
    let mut conn = server.connect();
    assert_eq!(conn.call(&argv!["FUNCTION", "LOAD", LIBRARY]).text(), "declared");
    let refused = [
        argv!["FCALL", "writes", "1", "a"],
        argv!["FCALL", "writes", "x", "a"],
        argv!["FCALL_RO", "writes", "1", "a"],
        argv!["EVAL", "#!lua\nreturn 1", "0"],
        argv!["EVAL_RO", "#!lua\nreturn 1", "0"],
    ];
    let queued = [
        argv!["FCALL", "reads", "0"],
        argv!["FCALL_RO", "reads", "0"],
        argv!["FCALL", "nosuch", "0"],
        argv!["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
        argv!["EVAL", "return 1", "0"],
    ];
    let mut check = |error: &str| {
        for command in &refused {
            assert!(conn.call(command).text().starts_with(error), "{command:?}");
            assert_eq!(conn.run("MULTI").text(), "OK");
            assert!(conn.call(command).text().starts_with(error), "{command:?}");
            assert!(conn.run("EXEC").text().starts_with("EXECABORT"), "{command:?}");
        }
        for command in &queued {
            assert_eq!(conn.run("MULTI").text(), "OK");
            assert_eq!(conn.call(command).text(), "QUEUED", "{command:?}");
            assert!(conn.run("EXEC").items().is_some(), "{command:?}");
        }
    };
    let mut other = server.connect();
    other.run("CONFIG SET stop-writes-on-bgsave-error yes");
    check("MISCONF");
    // Health checks are told by PING that writes are refused; scripts are not.
    assert!(other.run("PING").text().starts_with("MISCONF"));
    assert_eq!(other.call(&argv!["EVAL", "return redis.call('PING')", "0"]).text(), "PONG");
    other.run("CONFIG SET stop-writes-on-bgsave-error no");
    other.run("CONFIG SET maxmemory 1");
    check("OOM");
    let allowed = argv!["EVAL", "#!lua flags=allow-oom\nreturn 1", "0"];
    assert_eq!(integers(&exec(&mut other, &[allowed])), [1]);
}

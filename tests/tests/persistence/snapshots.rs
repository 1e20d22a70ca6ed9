//! Snapshots: the data saved while writers go on, and the data after a start.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Launch, Oracle, Server, wait_until};

fn start_on(folder: &Path, args: &[&str]) -> Server {
    let folder = folder.to_str().expect("a plain path").to_owned();
    Launch::onrush().args(&["--dir", &folder, "--enable-debug-command", "yes"]).args(args).start()
}

fn field(conn: &mut Conn, section: &str, name: &str) -> String {
    let text = conn.run(&format!("INFO {section}")).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
    line.trim().to_owned()
}

fn bgsave(conn: &mut Conn) {
    assert_eq!(conn.run("BGSAVE").text(), "Background saving started");
    wait_for_end(conn);
}

fn wait_for_end(conn: &mut Conn) {
    wait_until("the snapshot is written", || field(conn, "persistence", "rdb_bgsave_in_progress") == "0");
    assert_eq!(field(conn, "persistence", "rdb_last_bgsave_status"), "ok");
}

/// The sum of all keys `a:…`, of database 0.
fn sum(conn: &mut Conn, keys: usize) -> i64 {
    let names: Vec<String> = (0..keys).map(|n| format!("a:{n}")).collect();
    let argv = onrush_tests::argv::Argv::new(
        &std::iter::once("MGET").chain(names.iter().map(String::as_str)).collect::<Vec<_>>(),
    );
    let reply = conn.call(&argv);
    reply.items().expect("an array").iter().map(|item| item.text().parse::<i64>().expect("a number")).sum()
}

/// Moves amounts between accounts until it is told to stop, each time in another way.
fn move_amounts(server: &Server, keys: usize, seed: u64, stops: &AtomicBool) {
    const SCRIPT: &str = "redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1])";
    let mut conn = server.connect();
    let mut rng = Rng::new(seed);
    while !stops.load(Relaxed) {
        let mut batch = Vec::new();
        for _ in 0..20 {
            let (from, to) = (format!("a:{}", rng.below(keys)), format!("a:{}", rng.below(keys)));
            let amount = rng.below(1000).to_string();
            if rng.percent(50) {
                batch.extend([
                    argv!["MULTI"],
                    argv!["DECRBY", &from, &amount],
                    argv!["INCRBY", &to, &amount],
                    argv!["EXEC"],
                ]);
            } else {
                batch.push(argv!["EVAL", SCRIPT, "2", &from, &to, &amount]);
            }
            // Keys that come, go, and move.
            let key = format!("m:{}", rng.below(200));
            batch.push(argv!["SET", &key, "x"]);
            batch.push(argv!["RENAME", &key, &format!("r:{}", rng.below(200))]);
            batch.push(argv!["HSET", &format!("h:{}", rng.below(50)), &key, "y"]);
            batch.push(argv!["DEL", &format!("r:{}", rng.below(200))]);
        }
        conn.try_pipeline(&batch).expect("replies");
    }
}

#[test]
fn a_snapshot_has_each_transaction_whole_or_not_at_all() {
    const KEYS: usize = 2_000;
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    let fill: Vec<_> = (0..KEYS).map(|n| argv!["SET", &format!("a:{n}"), "1000"]).collect();
    conn.try_pipeline(&fill).expect("replies");
    // So that a snapshot takes long enough for writers to come before it.
    conn.run("DEBUG POPULATE 200000 filler 50");
    let stops = AtomicBool::new(false);
    for round in 0..3 {
        std::thread::scope(|scope| {
            stops.store(false, Relaxed);
            for writer in 0..3 {
                let (server, stops) = (&server, &stops);
                scope.spawn(move || move_amounts(server, KEYS, 10 * round + writer, stops));
            }
            std::thread::sleep(Duration::from_millis(50));
            for _ in 0..3 {
                bgsave(&mut conn);
                let again = start_on(&folder.0, &[]);
                assert_eq!(sum(&mut again.connect(), KEYS), 1000 * KEYS as i64, "in round {round}");
            }
            stops.store(true, Relaxed);
        });
    }
}

#[test]
fn a_snapshot_has_the_databases_as_they_were_whatever_is_done_to_them() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    for (db, keys) in [(0, 150_000), (1, 100_000), (3, 50_000)] {
        conn.run(&format!("SELECT {db}"));
        conn.run(&format!("DEBUG POPULATE {keys} in{db} 20"));
    }
    for others in
        [&["SWAPDB 0 3", "SWAPDB 1 0"][..], &["FLUSHDB", "SWAPDB 0 1"], &["SWAPDB 3 1", "SELECT 1", "FLUSHDB"]]
    {
        let sizes = |conn: &mut Conn| {
            [0, 1, 3].map(|db| {
                conn.run(&format!("SELECT {db}"));
                (conn.run("DBSIZE").to_string(), conn.run(&format!("EXISTS in{db}:7")).to_string())
            })
        };
        let before = sizes(&mut conn);
        let batch = format!("SELECT 0\r\nBGSAVE\r\n{}\r\n", others.join("\r\n"));
        conn.send(batch.as_bytes()).expect("sent");
        for _ in 0..2 + others.len() {
            conn.read_reply().expect("a reply");
        }
        wait_for_end(&mut conn);
        let again = start_on(&folder.0, &[]);
        assert_eq!(sizes(&mut again.connect()), before, "{others:?}");
    }
}

#[test]
fn flushing_everything_ends_a_snapshot_and_refuses_no_writes() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--save", "3600 1"]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 300000 key 50");
    conn.send(b"BGSAVE\r\nFLUSHALL\r\nSET kept 1\r\n").expect("sent");
    for _ in 0..3 {
        assert!(!onrush_tests::resp::Value::parse(&conn.read_reply().expect("a reply")).expect("a value").is_error());
    }
    wait_until("what is left is saved", || field(&mut conn, "persistence", "rdb_saves") != "0");
    assert_eq!(field(&mut conn, "persistence", "rdb_last_bgsave_status"), "ok");
    assert_eq!(conn.run("SET more 1").text(), "OK");
    let again = start_on(&folder.0, &[]);
    assert_eq!(again.connect().run("GET kept").text(), "1");
    assert_eq!(again.connect().run("GET key:1").text(), "");
}

#[test]
fn what_is_evicted_meanwhile_is_in_the_snapshot() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--maxmemory-policy", "allkeys-random"]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 200000 key 50");
    let script = "for i = 1, 30000 do redis.call('HSET', 'h', 'field' .. i, i) redis.call('ZADD', 'z', i, i) end";
    assert!(!conn.call(&argv!["EVAL", script, "0"]).is_error());
    let digest = conn.run("DEBUG DIGEST").text();
    conn.send(b"BGSAVE\r\nCONFIG SET maxmemory 10mb\r\n").expect("sent");
    for _ in 0..2 {
        conn.read_reply().expect("a reply");
    }
    wait_until("keys are evicted", || conn.info_number("evicted_keys").is_some_and(|keys| keys > 50_000));
    wait_for_end(&mut conn);
    let again = start_on(&folder.0, &[]);
    assert_eq!(again.connect().run("DEBUG DIGEST").text(), digest);
}

#[test]
fn a_reload_brings_all_data_back() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 10000 key 50");
    conn.run("HSET h a 1 b 2");
    conn.call(&argv!["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 7 end)"]);
    let digest = conn.run("DEBUG DIGEST").text();
    assert_eq!(conn.run("DEBUG RELOAD").text(), "OK");
    assert_eq!(
        (conn.run("DEBUG DIGEST").text(), conn.run("FCALL f 0").to_string()),
        (digest.clone(), "(integer) 7".into())
    );
    conn.run("SET more 1");
    assert_eq!(conn.run("DEBUG RELOAD NOSAVE").text(), "OK");
    assert_eq!(conn.run("DEBUG DIGEST").text(), digest);
    // Who watches a key, or has read it, is told.
    let mut watcher = server.connect();
    watcher.run("HELLO 3");
    watcher.run("CLIENT TRACKING ON");
    for command in ["WATCH h", "HGET h a", "MULTI", "PING"] {
        assert!(!watcher.run(command).is_error());
    }
    conn.run("DEBUG RELOAD");
    watcher.send_command(&argv!["EXEC"]).expect("sent");
    let told = [(); 2].map(|()| watcher.read_reply().expect("a reply"));
    assert_eq!(told, [&b">2\r\n$10\r\ninvalidate\r\n_\r\n"[..], b"_\r\n"]);
    assert!(conn.run("DEBUG LOADAOF").is_error());
    bgsave(&mut conn);
}

const LIBRARY: &str = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
const NEW_LIBRARY: &str = "#!lua name=l\nredis.register_function('f', function() return 2 end)";

/// A file with some keys, then other data, then a reload; what it answers and what there is then.
fn reloaded(conn: &mut Conn, options: &str) -> [String; 4] {
    conn.run("FLUSHALL");
    conn.run("FUNCTION FLUSH");
    conn.call(&argv!["FUNCTION", "LOAD", LIBRARY]);
    for command in ["RPUSH list a b", "SET both old", "HSET hash f 1", "SELECT 3", "SADD set 1 x", "SELECT 0", "SAVE"] {
        assert!(!conn.run(command).is_error(), "{command}");
    }
    for command in ["SET both new", "SET more 1 PX 100000000", "DEL list", "ZADD hash:2 1 m"] {
        assert!(!conn.run(command).is_error(), "{command}");
    }
    conn.call(&argv!["FUNCTION", "LOAD", "REPLACE", NEW_LIBRARY]);
    let reply = conn.run(&format!("DEBUG RELOAD {options}")).to_string();
    let [digest, size, called] = ["DEBUG DIGEST", "DBSIZE", "FCALL f 0"].map(|command| conn.run(command).to_string());
    [reply, digest, size, called]
}

#[test]
fn a_reload_keeps_deletes_and_merges_as_redis_does() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    for oracle in [Oracle::Older, Oracle::Newer] {
        let redis = Launch::redis_of(oracle.bin()).args(&["--enable-debug-command", "yes"]).start();
        let (mut ours, mut theirs) = (server.connect(), redis.connect());
        for options in [
            "",
            "NOSAVE",
            "MERGE",
            "merge nosave",
            "NOFLUSH MERGE",
            "MERGE NOFLUSH NOSAVE",
            "NOSAVE NOSAVE",
            "NOSUCH",
            "NOSAVE NOSUCH",
        ] {
            assert_eq!(reloaded(&mut ours, options), reloaded(&mut theirs, options), "{options} {oracle:?}");
        }
        // What the file does not have may stay beside it.
        for conn in [&mut ours, &mut theirs] {
            for command in ["FLUSHALL", "FUNCTION FLUSH", "SET a 1", "SAVE", "DEL a", "SET b 2"] {
                assert!(!conn.run(command).is_error(), "{command}");
            }
            assert_eq!(conn.run("DEBUG RELOAD NOSAVE NOFLUSH").text(), "OK");
        }
        assert_eq!(ours.run("MGET a b").to_string(), theirs.run("MGET a b").to_string());
        assert_eq!(ours.run("DEBUG DIGEST").text(), theirs.run("DEBUG DIGEST").text());
    }
}

#[test]
fn a_reload_without_deleting_refuses_what_is_there() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let mut conn = server.connect();
    for options in ["NOFLUSH", "NOFLUSH NOSAVE"] {
        let [reply, ..] = reloaded(&mut conn, options);
        assert!(reply.contains("Error trying to load the RDB dump"), "{options}: {reply}");
    }
    // A library is as good as a key.
    for command in ["FLUSHALL", "SAVE"] {
        conn.run(command);
    }
    assert!(conn.run("DEBUG RELOAD NOFLUSH").is_error());
    conn.run("FUNCTION FLUSH");
    conn.run("SAVE");
    conn.run("SET kept 1");
    assert_eq!(conn.run("DEBUG RELOAD NOFLUSH NOSAVE").text(), "OK");
    // Who watches a key is told, also of one that stays; so is the append-only file.
    conn.run("SAVE");
    conn.run("SET kept 2");
    let mut watcher = server.connect();
    for command in ["WATCH kept", "MULTI", "PING"] {
        assert!(!watcher.run(command).is_error());
    }
    assert_eq!(conn.run("DEBUG RELOAD NOFLUSH NOSAVE MERGE").text(), "OK");
    assert_eq!(watcher.run("EXEC").to_string(), "(null *)");
    assert_eq!(conn.run("GET kept").text(), "1");
    wait_until("the append-only file is rewritten", || {
        field(&mut conn, "persistence", "aof_rewrite_scheduled") == "0"
            && field(&mut conn, "persistence", "aof_rewrite_in_progress") == "0"
    });
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!(conn.run("GET kept").text(), "1");
}

#[test]
fn a_merge_ends_the_snapshot_that_needs_what_it_replaces() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 200000 key 50");
    conn.run("SAVE");
    let digest = conn.run("DEBUG DIGEST").text();
    conn.send(b"BGSAVE\r\nDEBUG RELOAD NOSAVE NOFLUSH MERGE\r\n").expect("sent");
    for _ in 0..2 {
        let reply = onrush_tests::resp::Value::parse(&conn.read_reply().expect("a reply")).expect("a value");
        assert!(!reply.is_error(), "{reply}");
    }
    assert_eq!(conn.run("DEBUG DIGEST").text(), digest);
    assert_eq!(field(&mut conn, "persistence", "rdb_bgsave_in_progress"), "0");
    bgsave(&mut conn);
    let again = start_on(&folder.0, &[]);
    assert_eq!(again.connect().run("DEBUG DIGEST").text(), digest);
}

/// Between what it saves and what it loads nothing is written.
#[test]
fn a_reload_takes_back_no_write() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--save", ""]);
    server.connect().run("DEBUG POPULATE 20000");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in 0..3 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut conn = server.connect();
                let mut last = 0;
                while !is_over.load(Relaxed) {
                    let Value::Int(next) = conn.run(&format!("INCR counter:{name}")) else { continue };
                    assert_eq!(next, last + 1);
                    last = next;
                }
            });
        }
        let mut conn = server.connect();
        for _ in 0..30 {
            assert_eq!(conn.run("DEBUG RELOAD").text(), "OK");
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn without_a_save_the_time_of_the_last_one_is_that_of_the_start() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    let first = conn.run("LASTSAVE");
    for _ in 0..120 {
        assert_eq!(conn.run("LASTSAVE"), first);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// What a snapshot has is copied when it changes, by the thread for long commands.
#[test]
fn nobody_waits_while_a_large_string_is_copied() {
    const LEN: usize = 256 << 20;
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--workers", "1"]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    let changes = [argv!["SETBIT", "s", "7", "1"], argv!["APPEND", "s", "x"], argv!["SETRANGE", "s", "0", "abc"]];
    for (nth, change) in changes.iter().enumerate() {
        assert_eq!(conn.call(&argv!["SETRANGE", "s", LEN.to_string(), nth.to_string()]), Value::Int(LEN as i64 + 1));
        let mut bytes = Vec::new();
        argv!["BGSAVE"].encode(&mut bytes);
        change.encode(&mut bytes);
        conn.send(&bytes).expect("sent");
        let is_done = AtomicBool::new(false);
        let pings = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    let reply = Value::parse(&conn.read_reply().expect("a reply")).expect("a value");
                    assert!(!reply.is_error(), "{reply}");
                }
                is_done.store(true, Relaxed);
            });
            let mut pings = 0;
            while !is_done.load(Relaxed) {
                assert_eq!(other.run("PING").text(), "PONG");
                pings += 1;
            }
            pings
        });
        assert!(pings > 10, "{change}: only {pings} others were served meanwhile");
        wait_for_end(&mut conn);
        assert!(!conn.run("DEL s").is_error());
    }
}

#[test]
fn large_values_are_saved_as_they_were_while_they_change() {
    const LEN: usize = 200_000;
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    let script = format!(
        "for i = 1, {LEN} do local m = 'm' .. i redis.call('RPUSH', 'l', m) redis.call('SADD', 's', m) \
         redis.call('HSET', 'h', m, i) redis.call('ZADD', 'z', i, m) redis.call('XADD', 'x', i .. '-1', 'f', i) end"
    );
    assert!(!conn.call(&argv!["EVAL", &script, "0"]).is_error());
    conn.call(&argv!["SET", "b", "b".repeat(10_000_000)]);
    let digest = conn.run("DEBUG DIGEST").text();
    let change = "for i = 1, 500 do local n = i * 397 local m = 'm' .. n redis.call('LSET', 'l', n, 'changed') \
                  redis.call('SREM', 's', m) redis.call('HSET', 'h', m, 'changed') redis.call('ZINCRBY', 'z', n, m) \
                  redis.call('XDEL', 'x', n .. '-1') end redis.call('SETRANGE', 'b', 7, 'changed')";
    let mut bytes = Vec::new();
    argv!["BGSAVE"].encode(&mut bytes);
    argv!["EVAL", change, "0"].encode(&mut bytes);
    conn.send(&bytes).expect("sent");
    for _ in 0..2 {
        let reply = onrush_tests::resp::Value::parse(&conn.read_reply().expect("a reply")).expect("a value");
        assert!(!reply.is_error(), "{reply}");
    }
    wait_for_end(&mut conn);
    assert_ne!(conn.run("DEBUG DIGEST").text(), digest);
    let again = start_on(&folder.0, &[]);
    assert_eq!(again.connect().run("DEBUG DIGEST").text(), digest);
}

#[test]
fn data_goes_to_redis_and_comes_back_with_functions_expiries_and_databases() {
    let folder = onrush_tests::server::TempDir::new();
    let path = folder.0.to_str().expect("a plain path").to_owned();
    let server = start_on(&folder.0, &["--save", "3600 1"]);
    let mut conn = server.connect();
    for command in [
        "SET s text EX 1000",
        "SET n 12",
        "RPUSH l a b c 4",
        "SADD set a b c",
        "SADD ints 1 2 3",
        "HSET h a 1 b 2",
        "ZADD z 1 a 2.5 b",
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "SELECT 9",
        "SET other 1",
    ] {
        assert!(!conn.run(command).is_error(), "{command}");
    }
    conn.call(&argv!["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 7 end)"]);
    let digest = conn.run("DEBUG DIGEST").text();
    server.signal("TERM");
    let mut server = server;
    assert!(server.wait_exit().success());
    for oracle in Oracle::ALL {
        let there = Server::start_oracle(oracle, &["--dir", &path, "--enable-debug-command", "yes"]);
        let mut conn = there.connect();
        assert_eq!(conn.run("FCALL f 0").to_string(), "(integer) 7");
        assert_eq!(conn.run("DEBUG DIGEST").text(), digest, "{oracle:?}");
        assert_eq!(conn.run("SAVE").text(), "OK");
        drop(there);
        let back = start_on(&folder.0, &[]);
        let mut conn = back.connect();
        assert_eq!(
            (conn.run("FCALL f 0").to_string(), conn.run("DEBUG DIGEST").text()),
            ("(integer) 7".into(), digest.clone())
        );
        conn.run("SAVE");
    }
}

#[test]
fn a_file_that_cannot_be_loaded_stops_the_start_and_stays() {
    let folder = onrush_tests::server::TempDir::new();
    let file = folder.0.join("dump.rdb");
    let path = folder.0.to_str().expect("a plain path").to_owned();
    {
        let server = start_on(&folder.0, &[]);
        let mut conn = server.connect();
        conn.run("DEBUG POPULATE 1000 key 50");
        assert_eq!(conn.run("SAVE").text(), "OK");
    }
    let good = std::fs::read(&file).expect("a file");
    for bad in [&good[..good.len() / 2], &[&good[..500], b"x", &good[501..]].concat(), b"REDIS9999", b"no file of ours"]
    {
        std::fs::write(&file, bad).expect("written");
        let mut server = Launch::onrush().args(&["--dir", &path]).spawn();
        assert_eq!(server.wait_exit().code(), Some(1));
        assert!(server.log().contains("Fatal error loading the DB"), "{}", server.log());
        assert_eq!(std::fs::read(&file).expect("a file"), bad);
    }
}

#[test]
fn a_disk_that_takes_nothing_refuses_writes_until_it_does() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--save", "3600 1", "--enable-protected-configs", "yes"]);
    let mut conn = server.connect();
    conn.run("SET k 1");
    let lost = folder.0.join("lost");
    std::fs::create_dir(&lost).expect("a folder");
    assert_eq!(conn.call(&argv!["CONFIG", "SET", "dir", lost.to_str().expect("a plain path")]).text(), "OK");
    std::fs::remove_dir(&lost).expect("removed");
    assert!(conn.run("BGSAVE").is_error());
    wait_until("writes are refused", || {
        conn.run("SET probe 2").text().starts_with("MISCONF Redis is configured to save")
    });
    assert!(conn.run("PING").text().starts_with("MISCONF"));
    assert!(conn.call(&argv!["EVAL", "return redis.call('SET', 'k', '3')", "0"]).text().contains("MISCONF"));
    assert_eq!(conn.run("GET k").text(), "1");
    conn.run("CONFIG SET stop-writes-on-bgsave-error no");
    wait_until("writes are let in", || conn.run("SET k 2").text() == "OK");
    conn.run("CONFIG SET stop-writes-on-bgsave-error yes");
    conn.call(&argv!["CONFIG", "SET", "dir", folder.0.to_str().expect("a plain path")]);
    bgsave(&mut conn);
    wait_until("writes are let in", || conn.run("SET k 3").text() == "OK");
}

#[test]
fn whether_a_failed_snapshot_refuses_writes_is_changed_at_once() {
    let folder = onrush_tests::server::TempDir::new();
    let server = start_on(&folder.0, &["--save", "3600 1"]);
    let mut conn = server.connect();
    conn.run("SET k 1");
    // A file cannot take the place of a folder.
    std::fs::create_dir(folder.0.join("dump.rdb")).expect("a folder");
    conn.run("BGSAVE");
    wait_until("writes are refused", || conn.run("SET k 2").text().starts_with("MISCONF "));
    for round in 0..20 {
        let set = |value| argv!["CONFIG", "SET", "stop-writes-on-bgsave-error", value];
        let write = argv!["SET", "k", "3"];
        let replies = conn.pipeline(&[set("no"), write.clone(), set("yes"), write]);
        let starts = [&b"+OK"[..], b"+OK", b"+OK", b"-MISCONF"];
        let are_as_set = replies.iter().zip(starts).all(|(reply, start)| reply.starts_with(start));
        assert!(are_as_set, "round {round}: {replies:?}");
    }
}

#[test]
fn save_points_and_the_end_save_what_has_changed() {
    let folder = onrush_tests::server::TempDir::new();
    let mut server = start_on(&folder.0, &["--save", "1 3"]);
    let mut conn = server.connect();
    for n in 0..3 {
        conn.run(&format!("SET k{n} v"));
    }
    wait_until("a save point saves", || field(&mut conn, "persistence", "rdb_saves") == "1");
    assert_eq!(field(&mut conn, "persistence", "rdb_changes_since_last_save"), "0");
    conn.run("SET k3 v");
    server.signal("TERM");
    assert!(server.wait_exit().success());
    let mut server = start_on(&folder.0, &["--save", "3600 1"]);
    assert_eq!(server.connect().run("DBSIZE").to_string(), "(integer) 4");
    server.connect().run("SET lost 1");
    let _ = server.connect().send(b"SHUTDOWN NOSAVE\r\n");
    assert!(server.wait_exit().success());
    let mut server = start_on(&folder.0, &["--save", "3600 1"]);
    assert_eq!(server.connect().run("DBSIZE").to_string(), "(integer) 4");
    server.connect().run("SET kept 1");
    let _ = server.connect().send(b"SHUTDOWN\r\n");
    assert!(server.wait_exit().success());
    let server = start_on(&folder.0, &[]);
    assert_eq!(server.connect().run("GET kept").text(), "1");
}

#[test]
fn clients_are_told_to_wait_while_data_is_loaded() {
    let folder = onrush_tests::server::TempDir::new();
    {
        let server = start_on(&folder.0, &[]);
        let mut conn = server.connect();
        conn.run("DEBUG POPULATE 2000000 key 100");
        assert_eq!(conn.run("SAVE").text(), "OK");
    }
    let path = folder.0.to_str().expect("a plain path").to_owned();
    let server = Launch::onrush().args(&["--dir", &path]).spawn();
    let mut conn = None;
    wait_until("it listens", || {
        conn = server.try_connect().ok();
        conn.is_some()
    });
    let mut conn = conn.expect("connected");
    let first = conn.run("GET key:1").text();
    assert!(first.starts_with("LOADING "), "{first}");
    assert_eq!(field(&mut conn, "persistence", "loading"), "1");
    wait_until("all is loaded", || !conn.run("GET key:1").text().starts_with("LOADING "));
    assert_eq!(conn.run("DBSIZE").to_string(), "(integer) 2000000");
}

/// A long command is always under way or waiting, so there is no moment without one.
#[test]
fn a_snapshot_begins_beside_long_commands_without_end() {
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let server = Server::start_onrush(&["--workers", "2", "--save", "1 1"]);
    let mut conn = server.connect();
    for set in ["a", "b"] {
        for part in 0..8 {
            let members: Vec<String> = (0..5_000).map(|n| format!("{set}{part}:{n}")).collect();
            let words = ["SADD", set].into_iter().chain(members.iter().map(String::as_str));
            conn.call(&argv::Argv::new(&words.collect::<Vec<_>>()));
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        for client in 0..3 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut conn = server.connect();
                while !is_over.load(Relaxed) {
                    conn.run(&format!("SUNIONSTORE d{client} a b"));
                }
            });
        }
        wait_until("a snapshot is saved", || field(&mut conn, "persistence", "rdb_saves") != "0");
    });
}

//! The append-only file: acknowledged writes survive, whenever the server dies.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, wait_until};

fn start_on(folder: &Path, args: &[&str]) -> Server {
    let folder = folder.to_str().expect("a plain path").to_owned();
    let own = ["--dir", &folder, "--appendonly", "yes", "--enable-debug-command", "yes"];
    Launch::onrush().args(&own).args(args).start()
}

fn field(conn: &mut Conn, name: &str) -> String {
    let text = conn.run("INFO persistence").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
    line.trim().to_owned()
}

fn number(conn: &mut Conn, command: &str) -> i64 {
    let raw = conn.call(&argv_of(command)).to_string();
    raw.trim_start_matches("(integer) ")
        .trim_start_matches("(bulk of ")
        .rsplit(' ')
        .next()
        .map_or(0, |word| word.parse().unwrap_or(0))
}

fn argv_of(command: &str) -> onrush_tests::argv::Argv {
    onrush_tests::argv::Argv::new(&command.split(' ').collect::<Vec<_>>())
}

fn rewrite(conn: &mut Conn) {
    assert_eq!(conn.run("BGREWRITEAOF").text(), "Background append only file rewriting started");
    wait_until("the rewrite is done", || field(conn, "aof_rewrite_in_progress") == "0");
    assert_eq!(field(conn, "aof_last_bgrewrite_status"), "ok");
}

/// Waits until all that the connection has written is on the disk.
fn wait_for_disk(conn: &mut Conn) {
    let synced = Value::Array(vec![Value::Int(1), Value::Int(0)]);
    wait_until("all is on the disk", || conn.run("WAITAOF 1 0 1000") == synced);
}

/// The writes that a writer has sent, and the acknowledged ones.
#[derive(Default)]
struct Counted {
    sent: AtomicI64,
    acknowledged: AtomicI64,
}

/// Writes pipelines until the server dies: a counter, a list that is as long, and two counters of a transaction.
fn write(server: &Server, writer: usize, counted: &Counted, depth: usize) {
    let Ok(mut conn) = server.try_connect() else { return };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        for _ in 0..depth {
            for argv in [
                argv_of(&format!("INCR c:{writer}")),
                argv_of(&format!("RPUSH l:{writer} x")),
                argv!["MULTI"],
                argv_of(&format!("INCR t:{writer}")),
                argv_of(&format!("INCR u:{writer}")),
                argv!["EXEC"],
            ] {
                argv.encode(&mut bytes);
            }
        }
        counted.sent.fetch_add(depth as i64, SeqCst);
        if conn.send(&bytes).is_err() {
            return;
        }
        for _ in 0..depth {
            for _ in 0..6 {
                if conn.read_reply().is_err() {
                    return;
                }
            }
            counted.acknowledged.fetch_add(1, SeqCst);
        }
    }
}

/// Requests rewrites and snapshots until the server dies.
fn rewrite_often(server: &Server, stops: &AtomicBool) {
    let Ok(mut conn) = server.try_connect() else { return };
    while !stops.load(SeqCst) {
        for command in ["BGREWRITEAOF", "BGSAVE SCHEDULE"] {
            if conn.try_call(&argv_of(command)).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(7));
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_server_is_killed() {
    const WRITERS: usize = 3;
    let cycles = std::env::var("ONRUSH_TEST_CYCLES").ok().and_then(|cycles| cycles.parse().ok()).unwrap_or(200);
    let folder = TempDir::new();
    let mut rng = Rng::new(1);
    // What was there before the last writers came, and what was sent and acknowledged since.
    let mut before = [[0; 4]; WRITERS];
    let mut since = [[0; 2]; WRITERS];
    for cycle in 0..cycles {
        let server = start_on(&folder.0, &["--appendfsync", "always"]);
        let counted: [Counted; WRITERS] = Default::default();
        let stops = AtomicBool::new(false);
        let mut conn = server.connect();
        for writer in 0..WRITERS {
            let ask = |name: &str| number(&mut conn, &format!("{name}{writer}"));
            let values = ["GET c:", "LLEN l:", "GET t:", "GET u:"].map(ask);
            let [sent, acknowledged] = since[writer];
            let grown: Vec<i64> = values.iter().zip(before[writer]).map(|(now, before)| now - before).collect();
            let what = format!("writer {writer} in cycle {cycle}: {grown:?} of {acknowledged} to {sent}");
            assert!(grown.iter().all(|grown| (acknowledged..=sent).contains(grown)), "{what}");
            assert_eq!(grown[2], grown[3], "half a transaction: {what}");
            assert!(grown.is_sorted_by(|a, b| a >= b) && grown[0] - grown[2] <= 1, "a hole: {what}");
            before[writer] = values;
        }
        std::thread::scope(|scope| {
            for (writer, counted) in counted.iter().enumerate() {
                let (server, depth) = (&server, 1 + rng.below(60));
                scope.spawn(move || write(server, writer, counted, depth));
            }
            scope.spawn(|| rewrite_often(&server, &stops));
            std::thread::sleep(Duration::from_millis(20 + rng.below(100) as u64));
            server.signal("KILL");
            stops.store(true, SeqCst);
        });
        for (writer, counted) in counted.iter().enumerate() {
            since[writer] = [counted.sent.load(SeqCst), counted.acknowledged.load(SeqCst)];
        }
    }
    assert!(before.iter().flatten().all(|count| *count > 0));
}

#[test]
fn what_is_synced_once_a_second_loses_at_most_the_last_moment_to_a_kill() {
    let folder = TempDir::new();
    for cycle in 0..5 {
        let server = start_on(&folder.0, &["--appendfsync", "everysec"]);
        let counted = Counted::default();
        let mut before = 0;
        let mut least = 0;
        std::thread::scope(|scope| {
            before = number(&mut server.connect(), "GET c:0");
            scope.spawn(|| write(&server, 0, &counted, 20));
            std::thread::sleep(Duration::from_millis(150));
            least = counted.acknowledged.load(SeqCst);
            std::thread::sleep(Duration::from_millis(300));
            server.signal("KILL");
        });
        let again = start_on(&folder.0, &[]);
        let grown = number(&mut again.connect(), "GET c:0") - before;
        let sent = counted.sent.load(SeqCst);
        assert!(least > 0 && (least..=sent).contains(&grown), "cycle {cycle}: {grown} of {least} to {sent}");
    }
}

#[test]
fn a_connection_has_the_durability_it_asks_for() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendfsync", "no"]);
    let mut conn = server.connect();
    assert_eq!(conn.run("CLIENT DURABILITY always").text(), "OK");
    for n in 1..=50 {
        assert_eq!(number(&mut conn, "INCR n"), n);
    }
    assert_eq!(conn.run("CLIENT DURABILITY no").text(), "OK");
    conn.run("SET k v");
    assert_eq!(conn.run("WAITAOF 1 0 5000").to_string(), "(array of 2)\n  (integer) 1\n  (integer) 0");
    assert!(conn.run("CLIENT DURABILITY sometimes").is_error());
    server.signal("KILL");
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    assert_eq!((number(&mut conn, "GET n"), conn.run("GET k").text()), (50, "v".to_owned()));
    drop(server);
    let server = Launch::onrush().start();
    let mut conn = server.connect();
    assert!(conn.run("CLIENT DURABILITY always").is_error());
    assert!(conn.run("WAITAOF 1 0 10").is_error());
}

#[test]
fn a_cut_end_is_loaded_without_it_or_refused_as_configured() {
    let folder = TempDir::new();
    {
        let server = start_on(&folder.0, &["--appendfsync", "always"]);
        let mut conn = server.connect();
        for n in 0..20 {
            conn.run(&format!("SET k{n} v"));
        }
    }
    let file = folder.0.join("appendonlydir/appendonly.aof.1.incr.aof");
    let whole = fs::read(&file).expect("a file");
    fs::write(&file, &whole[..whole.len() - 5]).expect("written");
    let path = folder.0.to_str().expect("a plain path").to_owned();
    let args = ["--dir", &path, "--appendonly", "yes", "--aof-load-truncated", "no"];
    let mut server = Launch::onrush().args(&args).spawn();
    assert_eq!(server.wait_exit().code(), Some(1));
    let server = start_on(&folder.0, &[]);
    assert_eq!(number(&mut server.connect(), "DBSIZE"), 19);
    server.connect().run("SET more 1");
    server.expect_log("aof-load-truncated");
    drop(server);
    let mut damaged = fs::read(&file).expect("a file");
    let at = damaged.len() / 2;
    damaged[at] = b'!';
    damaged[at + 1] = b'!';
    fs::write(&file, &damaged).expect("written");
    let mut server = Launch::onrush().args(&["--dir", &path, "--appendonly", "yes"]).spawn();
    assert_eq!(server.wait_exit().code(), Some(1));
    assert!(server.log().contains("incr.aof"), "{}", server.log());
    assert_eq!(fs::read(&file).expect("a file"), damaged);
}

#[test]
fn every_type_comes_back_from_the_file_and_goes_to_redis() {
    for preamble in ["yes", "no"] {
        let folder = TempDir::new();
        let server = start_on(&folder.0, &["--aof-use-rdb-preamble", preamble]);
        let mut conn = server.connect();
        for round in 0..2 {
            for command in [
                "SET s text EX 1000",
                "APPEND s more",
                "RPUSH l a b c 4",
                "LPOP l",
                "SADD set a b c",
                "SPOP set",
                "HSET h a 1 b 2",
                "HINCRBYFLOAT h a 0.1",
                "ZADD z 1 a 2.5 b",
                "ZPOPMIN z",
                "XADD x * f v",
                "XGROUP CREATE x g 0",
                "XREADGROUP GROUP g c STREAMS x >",
                "SELECT 9",
                "SET other 1 PX 500000",
                "SELECT 0",
                "PFADD p a b c",
                "SETBIT bits 7 1",
            ] {
                let reply = conn.run(command);
                assert!(round == 1 || !reply.is_error(), "{command}: {reply}");
            }
            conn.call(&argv!["EVAL", "for i = 1, 10 do redis.call('INCR', 'scripted') end", "0"]);
            if round == 0 {
                conn.call(&argv![
                    "FUNCTION",
                    "LOAD",
                    "#!lua name=l\nredis.register_function('f', function() return 7 end)"
                ]);
                rewrite(&mut conn);
            }
        }
        conn.run("WAITAOF 1 0 5000");
        let digest = conn.run("DEBUG DIGEST").text();
        server.signal("KILL");
        let again = start_on(&folder.0, &[]);
        let mut conn = again.connect();
        assert_eq!(
            (conn.run("DEBUG DIGEST").text(), conn.run("FCALL f 0").to_string()),
            (digest.clone(), "(integer) 7".into())
        );
        drop(again);
        let path = folder.0.to_str().expect("a plain path").to_owned();
        for oracle in Oracle::ALL {
            let args = ["--dir", &path, "--appendonly", "yes", "--enable-debug-command", "yes"];
            let there = Server::start_oracle(oracle, &args);
            assert_eq!(there.connect().run("DEBUG DIGEST").text(), digest, "{oracle:?}");
        }
        let back = start_on(&folder.0, &[]);
        assert_eq!(back.connect().run("DEBUG DIGEST").text(), digest);
    }
}

#[test]
fn it_is_turned_on_and_off_while_clients_write() {
    let folder = TempDir::new();
    let path = folder.0.to_str().expect("a plain path").to_owned();
    let server = Launch::onrush().args(&["--dir", &path, "--enable-debug-command", "yes"]).start();
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 100000 key 20");
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut conn = server.connect();
            while !stops.load(SeqCst) {
                let batch: Vec<_> = (0..50).map(|_| argv!["INCR", "n"]).collect();
                conn.try_pipeline(&batch).expect("replies");
            }
        });
        for _ in 0..4 {
            conn.run("CONFIG SET appendonly yes");
            wait_until("the file is there", || conn.run("CLIENT DURABILITY always").text() == "OK");
            conn.run("CLIENT DURABILITY default");
            conn.run("CONFIG SET appendonly no");
            wait_until("the file is left", || conn.run("CLIENT DURABILITY always").is_error());
        }
        conn.run("CONFIG SET appendonly yes");
        wait_until("the file is there", || conn.run("CLIENT DURABILITY always").text() == "OK");
        stops.store(true, SeqCst);
    });
    conn.run("WAITAOF 1 0 5000");
    let count = number(&mut conn, "GET n");
    server.signal("KILL");
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    assert_eq!((number(&mut conn, "GET n"), number(&mut conn, "DBSIZE")), (count, 100_001));
}

#[test]
fn the_file_is_loaded_again_on_request() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    for n in 0..500 {
        conn.run(&format!("INCR k{}", n % 7));
        conn.run(&format!("RPUSH l {n}"));
    }
    let digest = conn.run("DEBUG DIGEST").text();
    for _ in 0..2 {
        assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
        assert_eq!(conn.run("DEBUG DIGEST").text(), digest);
    }
    assert_eq!(number(&mut conn, "INCR k0"), 73);
    conn.run("WAITAOF 1 0 5000");
    server.signal("KILL");
    let server = start_on(&folder.0, &[]);
    assert_eq!(number(&mut server.connect(), "GET k0"), 73);
}

#[test]
fn no_transaction_contains_the_loading_of_data() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    conn.run("SET n 5");
    wait_for_disk(&mut conn);
    let lines = [
        "MULTI",
        "SET a b",
        "INCR n",
        "DEBUG LOADAOF",
        "DEBUG RELOAD",
        "DEBUG RELOAD NOSAVE NOFLUSH",
        "INCR n",
        "EXEC",
    ];
    let replies = lines.map(|line| conn.run(line));
    let replies = replies[7].items().expect("an array");
    assert!(replies[2..5].iter().all(|reply| reply.text().contains("no transaction can contain")), "{replies:?}");
    // One that goes to the thread for long commands keeps its locks, too.
    let fill = [argv!["MULTI"], argv!["DEBUG", "POPULATE", "30000"]].into_iter();
    let many: Vec<_> = fill.chain((0..10_001).map(|_| argv!["INCR", "n"])).chain([argv!["EXEC"]]).collect();
    let replies = conn.pipeline(&many);
    assert!(replies.last().expect("a reply").ends_with(b":10008\r\n"));
    wait_for_disk(&mut conn);
    assert_eq!((conn.run("GET a").text(), number(&mut conn, "DBSIZE")), ("b".to_owned(), 30_002));
    // POPULATE is not logged.
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!((conn.run("GET a").text(), number(&mut conn, "DBSIZE")), ("b".to_owned(), 2));
    assert_eq!(number(&mut conn, "GET n"), 10_008);
}

#[test]
fn it_is_rewritten_when_it_has_grown() {
    let folder = TempDir::new();
    let args = ["--auto-aof-rewrite-min-size", "100kb", "--auto-aof-rewrite-percentage", "100"];
    let server = start_on(&folder.0, &args);
    let mut conn = server.connect();
    let deadline = Instant::now() + Duration::from_secs(20);
    assert_eq!(field(&mut conn, "aof_rewrites"), "0", "the first base is none");
    while field(&mut conn, "aof_rewrites") == "0" && Instant::now() < deadline {
        let batch: Vec<_> = (0..1000).map(|_| argv!["SET", "k", "some value of some length"]).collect();
        conn.try_pipeline(&batch).expect("replies");
    }
    assert_ne!(field(&mut conn, "aof_rewrites"), "0");
}

#[test]
fn a_server_without_a_log_writes_the_base_of_one() {
    for preamble in ["yes", "no"] {
        let folder = TempDir::new();
        let path = folder.0.to_str().expect("a plain path");
        {
            let server = Launch::onrush().args(&["--dir", path, "--aof-use-rdb-preamble", preamble]).start();
            let mut conn = server.connect();
            for round in 1..=3 {
                conn.run(&format!("SET round {round}"));
                rewrite(&mut conn);
                assert_eq!(field(&mut conn, "aof_rewrites"), round.to_string());
                assert_eq!(field(&mut conn, "aof_enabled"), "0");
            }
            conn.run("SET later 1");
            // One in a transaction comes after it.
            conn.run("MULTI");
            conn.run("SET round 4");
            conn.run("BGREWRITEAOF");
            conn.run("EXEC");
            wait_until("the fourth is done", || field(&mut conn, "aof_rewrites") == "4");
            conn.run("SET round 5");
        }
        let files = fs::read_dir(folder.0.join("appendonlydir")).expect("a folder").count();
        assert_eq!(files, 2, "a base and the manifest");
        let redis = Launch::redis_of(Oracle::Newer.bin()).args(&["--dir", path, "--appendonly", "yes"]).start();
        let mut conn = redis.connect();
        assert_eq!((conn.run("GET round").text(), conn.run("GET later").text()), ("4".into(), "1".into()));
        drop(redis);
        let server = start_on(&folder.0, &[]);
        let mut conn = server.connect();
        assert_eq!((conn.run("GET round").text(), conn.run("GET later").text()), ("4".into(), "1".into()));
        conn.run("SET round 6");
        wait_for_disk(&mut conn);
        drop(server);
        assert_eq!(start_on(&folder.0, &[]).connect().run("GET round").text(), "6");
    }
}

#[test]
fn a_log_may_begin_while_the_base_of_another_is_written() {
    let folder = TempDir::new();
    let path = folder.0.to_str().expect("a plain path");
    {
        let server = Launch::onrush().args(&["--dir", path, "--enable-debug-command", "yes"]).start();
        let mut conn = server.connect();
        conn.run("DEBUG POPULATE 100000 key 100");
        for round in 0..4 {
            assert!(!conn.run("BGREWRITEAOF").is_error());
            assert_eq!(conn.run("CONFIG SET appendonly yes").text(), "OK");
            conn.run(&format!("SET round {round}"));
            wait_for_disk(&mut conn);
            if round < 3 {
                assert_eq!(conn.run("CONFIG SET appendonly no").text(), "OK");
            }
        }
    }
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    assert_eq!(conn.run("GET round").text(), "3");
    assert_eq!(conn.run("DBSIZE"), Value::Int(100_001));
}

/// A rewrite brings back the folder, if somebody has removed it.
#[test]
fn a_rewrite_makes_its_folder_again() {
    let folder = TempDir::new();
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = start_on(&folder.0, &args);
    let mut conn = server.connect();
    conn.run("SET a 1");
    fs::remove_dir_all(folder.0.join("appendonlydir")).expect("removed");
    assert_eq!(conn.run("BGREWRITEAOF").text(), "Background append only file rewriting started");
    wait_until("the file is rewritten", || {
        let info = conn.run("INFO persistence").text();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_last_bgrewrite_status:ok")
    });
    assert_eq!(conn.run("SET b 2").text(), "OK");
    server.signal("KILL");
    assert!(!server.wait_exit().success());
    let server = start_on(&folder.0, &args);
    let mut conn = server.connect();
    assert_eq!([conn.run("GET a").text(), conn.run("GET b").text()], ["1", "2"]);
}

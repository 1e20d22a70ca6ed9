//! Whatever clients do while data is loaded, and however slow that is: it goes on to its end, and nothing is lost.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Server, TempDir, wait_until};

/// Keys in the file, apart from a set and what it is sorted into.
const KEYS: usize = 100_000;
const INCR: &str = "appendonlydir/appendonly.aof.1.incr.aof";

fn launch(folder: &Path) -> Launch {
    let folder = folder.to_str().expect("a plain path");
    Launch::onrush().args(&["--dir", folder, "--appendonly", "yes", "--enable-debug-command", "yes"])
}

/// A folder with an append-only file that takes long to load: it has so many commands that take 50 us or more.
fn with_long_log(sorts: usize) -> TempDir {
    let folder = TempDir::new();
    let members = (0..500).map(|n| format!("member:{n}").into_bytes());
    let mut bytes = Vec::new();
    Argv([b"SADD".to_vec(), b"set".to_vec()].into_iter().chain(members).collect()).encode(&mut bytes);
    let sort = argv!["SORT", "set", "ALPHA", "STORE", "sorted"];
    for key in 0..KEYS {
        argv!["SET", format!("key:{key}"), "x".repeat(50)].encode(&mut bytes);
        if key % (KEYS / sorts) == 0 {
            sort.encode(&mut bytes);
        }
    }
    fs::create_dir(folder.0.join("appendonlydir")).expect("a folder");
    fs::write(folder.0.join(INCR), &bytes).expect("written");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(folder.0.join("appendonlydir/appendonly.aof.manifest"), manifest).expect("written");
    folder
}

fn is_loading(conn: &mut Conn) -> bool {
    conn.info_number("loading") == Some(1)
}

/// Waits until all that the connection has written is on the disk.
fn wait_for_disk(conn: &mut Conn) {
    assert_eq!(conn.run("WAITAOF 1 0 10000"), Value::Array(vec![Value::Int(1), Value::Int(0)]));
}

/// Starts a server that loads the file, and has begun to; with a connection.
fn start_to_load(folder: &TempDir) -> (Server, Conn) {
    let server = launch(&folder.0).spawn();
    let mut conn = None;
    wait_until("it listens", || {
        conn = server.try_connect().ok();
        conn.is_some()
    });
    let mut conn = conn.expect("connected");
    wait_until("commands are loaded", || conn.info_number("loading_loaded_bytes") > Some(0));
    assert!(is_loading(&mut conn), "it is still at it");
    assert!(conn.run("GET key:1").text().starts_with("LOADING "));
    (server, conn)
}

/// Waits for the end of the loading, which must have brought every key.
fn has_all_in_the_end(conn: &mut Conn) {
    wait_until("all is loaded", || conn.run("PING").text() == "PONG");
    assert_eq!(conn.run("DBSIZE"), Value::Int(KEYS as i64 + 2));
    assert_eq!(conn.run(&format!("STRLEN key:{}", KEYS - 1)), Value::Int(50));
}

#[test]
fn a_pause_does_not_hold_back_what_is_loaded() {
    let folder = with_long_log(10_000);
    for how in ["WRITE", "ALL"] {
        let (_server, mut conn) = start_to_load(&folder);
        assert_eq!(conn.run(&format!("CLIENT PAUSE 200 {how}")).text(), "OK");
        if how == "WRITE" {
            // The reply to this would come after the other pause.
            assert!(is_loading(&mut conn));
        }
        has_all_in_the_end(&mut conn);
        assert_eq!(conn.run("SET key:0 later").text(), "OK");
    }
}

#[test]
fn the_log_is_loaded_again_during_a_pause() {
    let folder = TempDir::new();
    let server = launch(&folder.0).start();
    let mut conn = server.connect();
    (0..100).for_each(|_| _ = conn.run("INCR n"));
    assert_eq!(conn.run("CLIENT PAUSE 60000 WRITE").text(), "OK");
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!(conn.run("GET n").text(), "100");
}

#[test]
fn what_was_queued_before_is_not_written_to_data_that_is_replaced() {
    let folder = with_long_log(20_000);
    let (server, mut admin) = start_to_load(&folder);
    has_all_in_the_end(&mut admin);
    let (mut writer, mut looker) = (server.connect(), server.connect());
    for (conn, line) in [(&mut writer, "SET lost 1"), (&mut looker, "CLIENT GETNAME")] {
        assert_eq!(conn.run("MULTI").text(), "OK");
        assert_eq!(conn.run(line).text(), "QUEUED");
    }
    admin.send(b"DEBUG LOADAOF\r\n").expect("sent");
    wait_until("it loads", || is_loading(&mut server.connect()));
    let refused = "EXECABORT Transaction discarded because of: LOADING Redis is loading the dataset in memory";
    assert_eq!(writer.run("EXEC").text(), refused);
    assert_eq!(looker.run("EXEC"), Value::Array(vec![Value::Null(b'$')]), "it needs no data");
    admin.set_timeout(Duration::from_secs(60));
    assert_eq!(admin.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(writer.run("EXISTS lost"), Value::Int(0));
}

#[test]
fn half_of_the_data_is_not_saved_at_the_end() {
    let folder = with_long_log(6_000);
    let mut server = launch(&folder.0).args(&["--save", "3600 1"]).start();
    let (mut admin, mut conn) = (server.connect(), server.connect());
    wait_until("it is loaded", || !is_loading(&mut conn));
    admin.send(b"DEBUG LOADAOF\r\n").expect("sent");
    wait_until("it loads", || is_loading(&mut conn));
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(0), "{}", server.log());
    assert!(!folder.0.join("dump.rdb").exists(), "{}", server.log());
    let server = launch(&folder.0).spawn();
    let mut conn = None;
    wait_until("it listens", || {
        conn = server.try_connect().ok();
        conn.is_some()
    });
    has_all_in_the_end(&mut conn.expect("connected"));
}

#[test]
fn what_is_written_in_the_first_moment_is_saved_at_the_end() {
    let folder = TempDir::new();
    let launch = || Launch::onrush().args(&["--dir", folder.0.to_str().expect("a plain path"), "--save", "3600 1"]);
    for round in 0..20 {
        let mut server = launch().spawn();
        let mut conn = None;
        wait_until("it listens", || {
            conn = server.try_connect().ok();
            conn.is_some()
        });
        let mut conn = conn.expect("connected");
        wait_until("the data is there", || conn.run(&format!("SET key:{round} {round}")).text() == "OK");
        server.signal("TERM");
        assert_eq!(server.wait_exit().code(), Some(0), "{}", server.log());
        let mut again = launch().start();
        assert_eq!(again.connect().run("DBSIZE"), Value::Int(round + 1), "{}", server.log());
        again.signal("TERM");
        again.wait_exit();
    }
}

#[test]
fn no_client_gets_what_was_pushed_and_popped_before() {
    let folder = TempDir::new();
    let server = launch(&folder.0).start();
    let (mut conn, mut waiter) = (server.connect(), server.connect());
    for line in ["RPUSH queue old", "LPOP queue", "RPUSH list a", "RPUSH list b"] {
        conn.run(line);
    }
    waiter.send(b"BLPOP queue 0\r\n").expect("sent");
    wait_until("it waits", || conn.info_number("blocked_clients") == Some(1));
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!(conn.info_number("blocked_clients"), Some(1));
    assert_eq!((conn.run("RPUSH queue new"), conn.run("LLEN list")), (Value::Int(1), Value::Int(2)));
    assert_eq!(waiter.read_reply().expect("a reply"), b"*2\r\n$5\r\nqueue\r\n$3\r\nnew\r\n");
}

#[test]
fn no_client_sees_or_kills_the_one_that_loads() {
    // It gets older than a second.
    let folder = with_long_log(20_000);
    let (server, mut conn) = start_to_load(&folder);
    let mut other = server.connect();
    let ids = [&mut conn, &mut other].map(|conn| conn.run("CLIENT ID").to_string().replace("(integer) ", "id="));
    let list = conn.run("CLIENT LIST").text();
    let mut listed: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    listed.sort_by_key(|id| ids.iter().position(|own| own == id));
    assert_eq!(listed, ids, "{list}");
    assert_eq!(conn.info_number("connected_clients"), Some(2));
    drop(other);
    wait_until("it is alone", || conn.run("CLIENT LIST").text().lines().count() == 1);
    while is_loading(&mut conn) {
        for filter in ["TYPE normal", "TYPE normal SKIPME yes", "USER default", "MAXAGE 1"] {
            assert_eq!(conn.run(&format!("CLIENT KILL {filter}")), Value::Int(0), "{filter}");
        }
        for id in (1..10).filter(|id| ids[0] != format!("id={id}")) {
            assert_eq!(conn.run(&format!("CLIENT KILL ID {id} ADDR local:{id}")), Value::Int(0), "{id}");
            assert!(conn.run(&format!("CLIENT TRACKING ON REDIRECT {id}")).is_error(), "{id}");
        }
    }
    has_all_in_the_end(&mut conn);
}

#[test]
fn the_log_is_not_turned_off_while_it_is_loaded() {
    let folder = with_long_log(10_000);
    let (_server, mut conn) = start_to_load(&folder);
    let reply = conn.run("CONFIG SET appendonly no");
    assert!(reply.is_error(), "{reply}");
    has_all_in_the_end(&mut conn);
    assert!(conn.run("CONFIG GET appendonly").to_string().contains("yes"));
    assert_eq!(conn.info_number("aof_enabled"), Some(1));
    assert_eq!(conn.run("SET later 1").text(), "OK");
    wait_for_disk(&mut conn);
    assert!(fs::read(folder.0.join(INCR)).expect("a file").ends_with(b"$5\r\nlater\r\n$1\r\n1\r\n"));
    // Now it can be.
    assert_eq!(conn.run("CONFIG SET appendonly no").text(), "OK");
}

#[test]
fn a_file_whose_line_the_manifest_has_lost_stays() {
    const COUNT: i64 = 1_000;
    let folder = TempDir::new();
    let server = launch(&folder.0).start();
    let mut conn = server.connect();
    assert_eq!(conn.run("SET before 1").text(), "OK");
    assert_eq!(conn.run("BGREWRITEAOF").text(), "Background append only file rewriting started");
    wait_until("it is rewritten", || conn.info_number("aof_rewrites") == Some(1));
    wait_until("it is done", || conn.info_number("aof_rewrite_in_progress") == Some(0));
    let sets: Vec<Argv> = (0..COUNT).map(|n| argv!["SET", format!("key:{n}"), "v"]).collect();
    assert!(conn.pipeline(&sets).iter().all(|reply| reply == b"+OK\r\n"));
    wait_for_disk(&mut conn);
    server.signal("KILL");
    drop((conn, server));
    let (manifest, incr) = ("appendonlydir/appendonly.aof.manifest", "appendonlydir/appendonly.aof.2.incr.aof");
    let [manifest, incr] = [manifest, incr].map(|name| folder.0.join(name));
    let lines = fs::read_to_string(&manifest).expect("a manifest");
    let commands = fs::read(&incr).expect("the commands");
    let (base, lost) = lines.split_at(lines.find('\n').expect("a line") + 1);
    assert!(base.contains("type b") && lost.contains("appendonly.aof.2.incr.aof"), "{lines}");
    fs::write(&manifest, base).expect("written");
    {
        let server = launch(&folder.0).start();
        let mut conn = server.connect();
        assert_eq!(conn.run("DBSIZE"), Value::Int(1));
        assert!(fs::read(&incr).is_ok_and(|now| now == commands), "it is as it was");
        server.expect_log("appendonly.aof.2.incr.aof is not loaded");
        assert_eq!(conn.run("SET after 1").text(), "OK");
        server.signal("KILL");
    }
    // The line is put back.
    fs::write(&manifest, &lines).expect("written");
    let server = launch(&folder.0).start();
    assert_eq!(server.connect().run("DBSIZE"), Value::Int(COUNT + 1));
}

/// Gives a process a third of its time until it is told to stop.
fn slow_down(server: &Server, over: &AtomicBool) {
    while !over.load(Relaxed) {
        server.signal("STOP");
        std::thread::sleep(Duration::from_millis(40));
        server.signal("CONT");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Loads a library that counts so many rounds before it registers its function, or fewer if that takes too long.
/// Returns how many, and how long that took.
fn load_library(conn: &mut Conn, mut rounds: u32) -> (u32, Duration) {
    loop {
        let code = format!(
            "#!lua name=lib\nlocal n = 0 for i = 1, {rounds} do n = n + i % 7 end \
             redis.register_function('sum', function() return n end)"
        );
        let started = Instant::now();
        let reply = conn.call(&argv!["FUNCTION", "LOAD", "REPLACE", code]);
        if !reply.is_error() {
            return (rounds, started.elapsed());
        }
        assert!(reply.text().contains("timeout"), "{reply}");
        rounds = rounds / 3 * 2;
    }
}

/// A new library has half a second. One that was saved was accepted, and now the machine may be busy.
fn library_is_loaded_again(appends: &str, save: fn(&mut Conn)) {
    let (few, took) = load_library(&mut Server::start_onrush(&[]).connect(), 2_000_000);
    let rounds = (f64::from(few) * 0.3 / took.as_secs_f64()) as u32;
    let folder = TempDir::new();
    let args = ["--dir", folder.0.to_str().expect("a plain path"), "--appendonly", appends];
    let server = Launch::onrush().args(&args).start();
    let mut conn = server.connect();
    load_library(&mut conn, rounds);
    let sum = conn.run("FCALL sum 0");
    assert!(matches!(sum, Value::Int(_)), "{sum}");
    save(&mut conn);
    server.signal("KILL");
    drop((conn, server));
    let mut server = Launch::onrush().args(&args).spawn();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let slow = &server;
        scope.spawn(|| slow_down(slow, &over));
        wait_until("it is ready or has ended", || {
            let log = slow.log();
            log.contains("Ready to accept connections") || log.contains("Fatal error")
        });
        over.store(true, Relaxed);
    });
    assert!(!server.log().contains("Fatal error") && server.exited().is_none(), "{}", server.log());
    assert_eq!(server.connect().run("FCALL sum 0"), sum);
}

#[test]
fn a_library_in_a_snapshot_is_loaded_however_long_that_takes() {
    library_is_loaded_again("no", |conn| assert_eq!(conn.run("SAVE").text(), "OK"));
}

#[test]
fn a_library_in_the_log_is_loaded_however_long_that_takes() {
    library_is_loaded_again("yes", wait_for_disk);
}

//! The append-only file on a disk that takes nothing: everything but writes goes on, nothing is acknowledged that is lost,
//! and the server recovers and ends by itself.
//!
//! The disk is "full" by a limit on the size of files, as in `full_disk`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::chaos::disk::{Disk, EIO, FOR_EVER_US, Library, Word};
use onrush_tests::client::Conn;
use onrush_tests::server::{Launch, Server, TempDir, wait_until};

const NO_REWRITE: &str =
    "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.";
const MISCONF: &str = "MISCONF Errors writing to the AOF file: File too large";

/// More than the time after which the log's thread writes what was changed.
const TILL_WRITTEN: Duration = Duration::from_millis(200);

fn start_on(folder: &Path, args: &[&str]) -> Server {
    let folder = folder.to_str().expect("a plain path").to_owned();
    Launch::onrush().args(&["--dir", &folder, "--enable-debug-command", "yes", "--save", ""]).args(args).start()
}

fn field(conn: &mut Conn, name: &str) -> String {
    let text = conn.run("INFO persistence").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
    line.trim().to_owned()
}

fn set(key: &str, len: usize) -> Argv {
    argv!["SET", key, "v".repeat(len)]
}

/// A new connection gets replies at once: to reads, to what needs no data, and to writes an error.
fn is_alive(server: &Server) {
    let started = Instant::now();
    let mut conn = server.connect();
    assert_eq!(conn.run("PING").text(), MISCONF, "so that health checks see it");
    assert_eq!(field(&mut conn, "aof_last_write_status"), "err");
    assert_eq!(conn.run("SET other 1").text(), MISCONF);
    assert!(conn.run("CONFIG GET appendonly").to_string().contains("yes"));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_value_that_does_not_fit_stops_no_reads_and_the_end_comes_with_an_exit_code() {
    let folder = TempDir::new();
    // A rewritten file would be small.
    let mut server = start_on(&folder.0, &["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]);
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    server.limit_files(Some(1 << 20));
    // More than the buffers hold.
    assert_eq!(conn.call(&set("large", 70 << 20)).text(), "OK");
    wait_until("writes are refused", || conn.run("SET b 1").text() == MISCONF);
    is_alive(&server);
    assert_eq!(conn.run("GET a").text(), "1");
    assert!(
        conn.call(&argv!["EVAL", "return redis.call('set', 'other', 1)", "1", "other"]).text().starts_with("MISCONF")
    );
    assert_eq!(conn.run("STRLEN large").to_string(), format!("(integer) {}", 70 << 20));
    // It recovers by itself, with everything that was acknowledged.
    server.limit_files(None);
    wait_until("writes are let in", || conn.run("SET b 1").text() == "OK");
    assert_eq!(conn.run("WAITAOF 1 0 20000").to_string().matches("(integer) 1").count(), 1);
    // And again; now the process has to end.
    server.limit_files(Some(1 << 20));
    conn.run("SET c 1");
    wait_until("writes are refused", || conn.run("SET d 1").text() == MISCONF);
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(10));
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let mut conn = server.connect();
    assert_eq!(conn.run("GET b").text(), "1");
    assert_eq!(conn.run("STRLEN large").to_string(), format!("(integer) {}", 70 << 20));
}

#[test]
fn keys_that_expire_stop_nothing_though_the_log_takes_no_more() {
    const KEYS: usize = 40_000;
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let mut conn = server.connect();
    // Their deletions are more than the buffers hold.
    let name = "n".repeat(2_000);
    let soon = 3_000;
    let bytes: Vec<u8> = (0..KEYS)
        .flat_map(|n| {
            let mut bytes = Vec::new();
            argv!["SET", format!("{name}:{n}"), "v", "PX", soon.to_string()].encode(&mut bytes);
            bytes
        })
        .collect();
    for part in bytes.chunks(1 << 20) {
        conn.send(part).expect("sent");
    }
    (0..KEYS).for_each(|_| assert_eq!(conn.read_reply().expect("a reply"), b"+OK\r\n"));
    assert_eq!(conn.run("WAITAOF 1 0 20000").to_string().matches("(integer) 1").count(), 1);
    server.limit_files(Some(1));
    wait_until("the log fails", || field(&mut conn, "aof_last_write_status") == "err");
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        assert!(conn.run("PING").is_error());
        assert_eq!(conn.call(&argv!["EXISTS", "none"]).to_string(), "(integer) 0");
    }
    assert_eq!(conn.call(&argv!["GET", format!("{name}:1")]).to_string(), "(null $)");
    is_alive(&server);
    server.limit_files(None);
    wait_until("writes are let in", || conn.run("SET b 1").text() == "OK");
    wait_until("the expired keys go", || conn.run("DBSIZE").to_string() == "(integer) 1");
}

#[test]
fn under_always_held_replies_are_dropped_at_the_end_and_others_come_meanwhile() {
    let folder = TempDir::new();
    let mut server = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", "always"]);
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    server.limit_files(Some(1));
    let mut held = server.connect();
    let mut bytes = Vec::new();
    argv!["SET", "b", "1"].encode(&mut bytes);
    held.send(&bytes).expect("sent");
    let mut other = server.connect();
    wait_until("the log fails", || field(&mut other, "aof_last_write_status") == "err");
    is_alive(&server);
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(1));
    held.set_timeout(Duration::from_secs(2));
    assert!(held.read_reply().is_err(), "it was not acknowledged");
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let mut conn = server.connect();
    assert_eq!(
        (conn.run("GET a").text(), conn.run("EXISTS b").to_string()),
        ("1".to_owned(), "(integer) 0".to_owned())
    );
}

/// A new connection gets a reply to a command within a moment; returns it.
fn ask(server: &Server, line: &str) -> String {
    let mut conn = server.connect();
    conn.set_timeout(Duration::from_secs(3));
    conn.run(line).text()
}

#[test]
fn under_always_what_looks_at_no_data_is_answered_while_the_disk_takes_nothing() {
    let folder = TempDir::new();
    let args = ["--appendonly", "yes", "--appendfsync", "always", "--busy-reply-threshold", "100"];
    let server = start_on(&folder.0, &args);
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    server.limit_files(Some(1));
    conn.send(b"SET b 1\r\n").expect("sent");
    let mut other = server.connect();
    wait_until("the log fails", || field(&mut other, "aof_last_write_status") == "err");
    for (line, reply) in [
        ("SCRIPT KILL", "NOTBUSY"),
        ("FUNCTION KILL", "NOTBUSY"),
        ("SHUTDOWN SAVE", "ERR Errors trying to SHUTDOWN"),
        ("CONFIG REWRITE", "ERR The server is running without a config file"),
        ("MEMORY DOCTOR", ""),
        ("WAITAOF 1 0 10", ""),
        ("SAVE", "ERR"),
        ("BGSAVE", "Background saving started"),
        ("PUBLISH channel message", ""),
    ] {
        let told = ask(&server, line);
        assert!(told.starts_with(reply), "{line}: {told}");
    }
    wait_until("there is no snapshot", || field(&mut other, "rdb_bgsave_in_progress") == "0");
    assert_eq!(ask(&server, "BGREWRITEAOF"), NO_REWRITE);
    let mut looping = server.connect();
    looping.send_command(&argv!["EVAL", "while true do end", "0"]).expect("sent");
    wait_until("the script is busy", || ask(&server, "ECHO a").starts_with("BUSY"));
    assert_eq!(ask(&server, "SCRIPT KILL"), "OK");
    wait_until("the script has ended", || ask(&server, "SCRIPT KILL").starts_with("NOTBUSY"));
}

/// A server with an append-only file on a disk that can hang, with one acknowledged write on it.
fn start_on_disk(library: &Library, folder: &Path, args: &[&str]) -> (Server, Disk) {
    let below = folder.canonicalize().expect("a folder");
    let disk = Disk::below(library, &below).expect("a page");
    let folder = below.to_str().expect("a plain path");
    let server = Launch::onrush().disk(&disk).args(&["--dir", folder, "--appendonly", "yes"]).args(args).start();
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    assert_eq!(conn.run("WAITAOF 1 0 10000").to_string().matches("(integer) 1").count(), 1);
    (server, disk)
}

#[test]
fn a_rewrite_on_a_disk_that_hangs_keeps_its_client_alone_and_not_the_end() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let (mut server, disk) = start_on_disk(&library, &folder.0, &["--save", "", "--enable-debug-command", "yes"]);
    // What a connection has changed may not be written yet when the disk stops: its later replies wait for that.
    server.connect().run("DEBUG POPULATE 30000");
    let mut conn = server.connect();
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    disk.set(Word::SyncDelayUs, FOR_EVER_US);
    let mut rewriting = server.connect();
    rewriting.send_command(&argv!["BGREWRITEAOF"]).expect("sent");
    rewriting.set_timeout(Duration::from_millis(300));
    assert!(rewriting.read_reply().is_err(), "its files are not there");
    // Who looks and long commands go on.
    let mut writer = server.connect();
    writer.send(b"SET b 1\r\n").expect("sent");
    wait_until("it is set", || conn.run("GET b").text() == "1");
    assert!(conn.run("KEYS key:1*").to_string().contains("key:1"));
    assert!(conn.run("CONFIG REWRITE").is_error());
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(12));
}

#[test]
fn a_script_that_has_begun_to_write_is_not_torn_in_two_when_the_disk_fails() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let (server, disk) = start_on_disk(&library, &folder.0, &["--save", ""]);
    let (mut script, mut other) = (server.connect(), server.connect());
    let text = "redis.call('DECRBY', KEYS[1], 1)
        local fails, rounds = false, 0
        repeat
            fails = redis.call('INFO', 'persistence'):find('aof_last_write_status:err')
            rounds = rounds + 1
        until fails or rounds == 500000
        return {redis.call('INCRBY', KEYS[2], 1), fails and 1 or 0}";
    // A write that is under way when the script begins, and fails when that has written.
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    other.send(b"SET x 1\r\n").expect("sent");
    wait_until("it is set", || script.run("GET x").text() == "1");
    script.send_command(&argv!["EVAL", text, "2", "from", "to"]).expect("sent");
    std::thread::sleep(Duration::from_millis(300));
    disk.set(Word::WriteErrno, EIO);
    disk.set(Word::WriteDelayUs, 0);
    script.set_timeout(Duration::from_secs(60));
    assert_eq!(script.read_reply().expect("a reply"), b"*2\r\n:1\r\n:1\r\n", "it has seen the failure");
    disk.heal();
    let mut conn = server.connect();
    assert_eq!(["GET from", "GET to"].map(|line| conn.run(line).text()), ["-1", "1"]);
}

/// Who sends a file and closes its side does not know of a log that is full for a moment.
#[test]
fn what_a_half_closed_client_has_sent_is_executed_though_a_full_log_holds_it_back() {
    const COMMANDS: usize = 100;
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let (server, disk) = start_on_disk(&library, &folder.0, &["--workers", "1"]);
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    let mut conn = server.connect();
    for n in 0..COMMANDS {
        conn.send_command(&set(&format!("key:{n}"), 1 << 20)).expect("sent");
    }
    conn.half_close();
    let mut other = server.connect();
    wait_until("writes are held back", || {
        other.set_timeout(Duration::from_millis(200));
        let is_held = other.try_call(&argv!["SET", "other", "value"]).is_err();
        if is_held {
            other = server.connect();
        }
        is_held
    });
    std::thread::sleep(Duration::from_millis(500));
    disk.set(Word::WriteDelayUs, 0);
    let replies = conn.read_to_close().expect("the replies");
    assert_eq!(replies.len(), COMMANDS * "+OK\r\n".len());
}

#[test]
fn no_log_begins_behind_one_whose_disk_does_not_answer() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let args = ["--save", "", "--enable-protected-configs", "yes"];
    let (server, disk) = start_on_disk(&library, &folder.0, &args);
    let (mut writer, mut conn) = (server.connect(), server.connect());
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    writer.send(b"SET b 1\r\n").expect("sent");
    wait_until("it is set", || conn.run("GET b").text() == "1");
    // The log's own thread has begun to write it by then, and not the one that ends the log.
    std::thread::sleep(TILL_WRITTEN);
    conn.set_timeout(Duration::from_secs(30));
    assert_eq!(conn.run("CONFIG SET appendonly no").text(), "OK");
    let good = TempDir::new();
    assert_eq!(conn.run(&format!("CONFIG SET dir {}", good.0.display())).text(), "OK");
    assert!(conn.run("CONFIG SET appendonly yes").text().contains("Unable to turn on AOF"));
    assert_eq!(field(&mut conn, "aof_enabled"), "0");
    disk.heal();
    wait_until("the disk answers", || conn.run("CONFIG SET appendonly yes").text() == "OK");
    assert_eq!(conn.run("SET c 1").text(), "OK");
    assert_eq!(conn.run("WAITAOF 1 0 20000").to_string().matches("(integer) 1").count(), 1);
}

#[test]
fn what_the_old_log_has_suffered_is_forgotten_when_it_is_loaded() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let args = ["--save", "", "--enable-debug-command", "yes", "--auto-aof-rewrite-percentage", "0"];
    let (server, disk) = start_on_disk(&library, &folder.0, &args);
    let mut conn = server.connect();
    conn.set_timeout(Duration::from_secs(20));
    disk.set(Word::SyncErrno, EIO);
    wait_until("writes are refused", || conn.run("SET b 1").text().starts_with("MISCONF"));
    disk.heal();
    // Of the old log nobody knows what the disk has. The data stays, and a new log begins.
    assert!(conn.run("DEBUG LOADAOF").text().starts_with("ERR Error trying to load the AOF files"));
    assert_eq!(conn.run("SET c 1").text(), "OK");
    assert_eq!(conn.run("WAITAOF 1 0 20000").to_string().matches("(integer) 1").count(), 1);
}

#[test]
fn the_end_waits_for_a_log_that_is_just_turned_off() {
    let library = Library::build().expect("a C compiler");
    for (delay_us, code) in [(1_500_000, 0), (FOR_EVER_US, 1)] {
        let folder = TempDir::new();
        let (mut server, disk) = start_on_disk(&library, &folder.0, &["--save", ""]);
        disk.set(Word::WriteDelayUs, delay_us);
        let (mut writer, mut conn, mut admin) = (server.connect(), server.connect(), server.connect());
        writer.send(b"SET b 1\r\n").expect("sent");
        wait_until("it is set", || conn.run("GET b").text() == "1");
        admin.send_command(&argv!["CONFIG", "SET", "appendonly", "no"]).expect("sent");
        wait_until("the log ends", || field(&mut conn, "aof_enabled") == "0");
        let started = Instant::now();
        server.signal("TERM");
        assert_eq!(server.wait_exit().code(), Some(code), "{}", server.log());
        assert!(started.elapsed() < Duration::from_secs(12));
        disk.heal();
        if code == 0 {
            let server = start_on(&folder.0, &["--appendonly", "yes"]);
            assert_eq!(server.connect().run("EXISTS b").to_string(), "(integer) 1", "it was acknowledged");
        }
    }
}

#[test]
fn the_end_comes_though_the_disk_takes_no_last_snapshot_and_new_clients_are_refused_meanwhile() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let (mut server, disk) = start_on_disk(&library, &folder.0, &["--save", "3600 1"]);
    let mut idle = server.connect();
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    server.signal("TERM");
    wait_until("new clients are refused", || {
        let mut conn = server.connect();
        conn.set_timeout(Duration::from_secs(1));
        conn.try_call(&argv!["PING"]).is_ok_and(|reply| reply == b"-ERR the server ends\r\n")
    });
    idle.set_timeout(Duration::from_secs(60));
    assert_eq!(idle.read_to_close().expect("closed at the end"), b"");
    assert_eq!(server.wait_exit().code(), Some(1), "{}", server.log());
    assert!(server.log().contains("the disk has not answered for 30 s"));
}

#[test]
fn the_end_comes_though_a_snapshot_does_not_end() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let args = ["--dir", below.to_str().expect("a plain path"), "--save", "3600 1"];
    let mut server = Launch::onrush().disk(&disk).args(&args).start();
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    assert_eq!(conn.run("BGSAVE").text(), "Background saving started");
    // One that has written nothing ends, and the last one hangs in its place, for longer.
    wait_until("it hangs", || disk.get(Word::Hanging) == 1);
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(1), "{}", server.log());
    assert!(started.elapsed() < Duration::from_secs(12));
}

#[test]
fn the_end_waits_five_seconds_for_the_first_base() {
    let folder = TempDir::new();
    let mut server = start_on(&folder.0, &["--rdbcompression", "no"]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 20000 key 100");
    server.limit_files(Some(100_000));
    assert_eq!(conn.run("CONFIG SET appendonly yes").text(), "OK");
    wait_until("the base fails", || field(&mut conn, "aof_last_bgrewrite_status") == "err");
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(1));
    assert!((4..15).contains(&started.elapsed().as_secs()));
    assert!(server.log().contains("The first base of the append-only file does not come"));
}

#[test]
fn the_log_is_turned_on_when_the_reply_says_so_or_not_at_all() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &[]);
    let mut conn = server.connect();
    fs::write(folder.0.join("appendonlydir"), "no folder").expect("a file");
    assert_eq!(
        conn.run("CONFIG SET appendonly yes").text(),
        "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs."
    );
    assert_eq!(field(&mut conn, "aof_enabled"), "0");
    assert!(conn.run("CONFIG GET appendonly").to_string().contains("no"));
    fs::remove_file(folder.0.join("appendonlydir")).expect("removed");
    for _ in 0..5 {
        assert_eq!(conn.run("CONFIG SET appendonly yes").text(), "OK");
        assert_eq!(field(&mut conn, "aof_enabled"), "1");
        assert_eq!(conn.run("SET a 1").text(), "OK");
        assert_eq!(conn.run("WAITAOF 1 0 5000").to_string().matches("(integer) 1").count(), 1);
        assert_eq!(conn.run("CONFIG SET appendonly no").text(), "OK");
        assert_eq!(field(&mut conn, "aof_enabled"), "0");
        assert!(conn.run("WAITAOF 1 0 5000").is_error());
    }
    let replies = ["MULTI", "CONFIG SET appendonly yes", "EXEC"].map(|command| conn.run(command).to_string());
    assert!(replies[2].contains("no transaction can"), "{replies:?}");
}

#[test]
fn no_log_begins_on_a_disk_that_takes_no_byte() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let args = ["--dir", below.to_str().expect("a plain path"), "--save", ""];
    let server = Launch::onrush().disk(&disk).args(&args).start();
    let mut conn = server.connect();
    for (word, value) in [(Word::Room, 0), (Word::WriteErrno, EIO), (Word::WriteDelayUs, FOR_EVER_US)] {
        disk.set(word, value);
        assert!(conn.run("CONFIG SET appendonly yes").text().starts_with("ERR CONFIG SET failed"), "{word:?}");
        assert_eq!(field(&mut conn, "aof_enabled"), "0");
        assert_eq!(conn.run("SET a 1").text(), "OK");
        disk.heal();
    }
}

#[test]
fn records_before_the_first_base_are_no_part_of_a_log() {
    let folder = TempDir::new();
    let mut server = start_on(&folder.0, &["--rdbcompression", "no"]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 20000 key 100");
    server.limit_files(Some(100_000));
    assert_eq!(conn.run("CONFIG SET appendonly yes").text(), "OK");
    wait_until("the base fails", || field(&mut conn, "aof_last_bgrewrite_status") == "err");
    assert_eq!(conn.run("SET late 1").text(), "OK");
    server.signal("KILL");
    server.wait_exit();
    let is_temporary = |name: &str| name.starts_with("temp-");
    let names = || fs::read_dir(folder.0.join("appendonlydir")).expect("a folder").map(|file| file.expect("a file"));
    assert!(names().all(|file| is_temporary(&file.file_name().to_string_lossy())));
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    server.expect_log(".incr.aof: its process has ended before the file was complete");
    assert!(!names().any(|file| is_temporary(&file.file_name().to_string_lossy())));
}

#[test]
fn a_first_base_that_does_not_fit_is_tried_again_and_the_end_waits_for_it() {
    let folder = TempDir::new();
    let mut server = start_on(&folder.0, &["--rdbcompression", "no"]);
    let mut conn = server.connect();
    conn.run("DEBUG POPULATE 20000 key 100");
    server.limit_files(Some(100_000));
    assert_eq!(conn.run("CONFIG SET appendonly yes").text(), "OK");
    wait_until("the base fails", || field(&mut conn, "aof_last_bgrewrite_status") == "err");
    assert_eq!(conn.run("SHUTDOWN NOSAVE").text(), "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(conn.run("WAITAOF 1 0 10").to_string().matches("(integer) 0").count(), 2);
    server.limit_files(None);
    assert_eq!(conn.run("WAITAOF 1 0 20000").to_string().matches("(integer) 1").count(), 1);
    assert_eq!(field(&mut conn, "aof_last_bgrewrite_status"), "ok");
    server.signal("TERM");
    assert_eq!(server.wait_exit().code(), Some(0));
    let left: Vec<_> = fs::read_dir(folder.0.join("appendonlydir")).expect("a folder").collect();
    assert_eq!(left.len(), 3, "{left:?}");
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    assert_eq!(server.connect().run("DBSIZE").to_string(), "(integer) 20000");
}

#[test]
fn a_log_that_grows_over_several_lives_is_rewritten() {
    let folder = TempDir::new();
    let args = ["--appendonly", "yes", "--auto-aof-rewrite-min-size", "100kb", "--auto-aof-rewrite-percentage", "100"];
    let mut rewrites = 0;
    for _ in 0..6 {
        let mut server = start_on(&folder.0, &args);
        let mut conn = server.connect();
        let before = field(&mut conn, "aof_current_size").parse::<u64>().expect("a number");
        (0..60).for_each(|n| assert_eq!(conn.call(&set(&format!("k:{n}"), 1_000)).text(), "OK"));
        if before > 250_000 {
            wait_until("it is rewritten", || field(&mut conn, "aof_rewrites") != "0");
        }
        rewrites += field(&mut conn, "aof_rewrites").parse::<u64>().expect("a number");
        server.signal("TERM");
        assert_eq!(server.wait_exit().code(), Some(0));
    }
    assert!(rewrites > 0);
}

#[test]
fn durability_is_judged_command_by_command() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    assert_eq!(conn.run("WAITAOF 1 0 5000").to_string().matches("(integer) 1").count(), 1);
    server.limit_files(Some(1));
    conn.send(b"CLIENT DURABILITY always\r\nSET b 1\r\nCLIENT DURABILITY no\r\n").expect("sent");
    conn.set_timeout(Duration::from_millis(300));
    assert!(conn.read_reply().is_err(), "the write is not on the disk");
    server.limit_files(None);
    conn.set_timeout(Duration::from_secs(10));
    (0..3).for_each(|_| assert_eq!(conn.read_reply().expect("a reply"), b"+OK\r\n"));
}

#[test]
fn who_wants_each_write_on_the_disk_gets_no_ok_once_there_is_no_log() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let (mut strict, mut other) = (server.connect(), server.connect());
    assert_eq!(strict.run("CLIENT DURABILITY always").text(), "OK");
    assert_eq!(strict.run("SET a 1").text(), "OK");
    assert_eq!(other.run("CONFIG SET appendonly no").text(), "OK");
    assert!(strict.run("SET a 2").text().starts_with("MISCONF CLIENT DURABILITY ALWAYS needs"));
    assert_eq!((strict.run("GET a").text(), strict.run("PING").text()), ("1".to_owned(), "PONG".to_owned()));
    assert_eq!(other.run("SET a 3").text(), "OK");
    assert_eq!(strict.run("CLIENT DURABILITY default").text(), "OK");
    assert_eq!(strict.run("SET a 4").text(), "OK");
    assert!(strict.run("CLIENT DURABILITY always").text().starts_with("ERR"));
    assert_eq!(other.run("CONFIG SET appendonly yes").text(), "OK");
    assert_eq!(strict.run("CLIENT DURABILITY always").text(), "OK");
    assert_eq!(strict.run("SET a 5").text(), "OK");
}

/// The disk of the file before takes most of the time, and then that of the next takes no bytes either.
#[test]
fn turning_the_log_on_waits_for_one_time_however_many_steps_hang() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let dir = below.to_str().expect("a plain path");
    let server = Launch::onrush().disk(&disk).args(&["--dir", dir, "--appendonly", "yes"]).start();
    let (mut conn, mut writer) = (server.connect(), server.connect());
    // Of these 14 s the end of the log takes 8, and its successor waits for 6. Then the next write hangs as long.
    disk.set(Word::WriteDelayUs, 14_000_000);
    writer.send(b"SET a 1\r\n").expect("sent");
    wait_until("it is set", || conn.run("GET a").text() == "1");
    std::thread::sleep(TILL_WRITTEN);
    conn.set_timeout(Duration::from_secs(30));
    assert_eq!(conn.run("CONFIG SET appendonly no").text(), "OK");
    let started = Instant::now();
    let reply = conn.run("CONFIG SET appendonly yes").text();
    assert!(reply.contains("Unable to turn on AOF"), "{reply}");
    assert!(started.elapsed() < Duration::from_secs(11), "{:?}", started.elapsed());
    disk.heal();
}

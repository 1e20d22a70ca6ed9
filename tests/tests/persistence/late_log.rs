//! What a killed process has acknowledged and not written, under `appendfsync everysec`: replies to writes wait while the
//! log's thread is late, so that this is little.

use std::io;
use std::path::Path;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::chaos::disk::{Disk, EIO, FOR_EVER_US, Library, Word};
use onrush_tests::client::Conn;
use onrush_tests::server::{Launch, Server, TempDir, wait_until};

/// How long a reply is waited for that must not come.
const NONE_FOR: Duration = Duration::from_millis(300);

/// More than the time after which a log is late.
const TILL_LATE: Duration = Duration::from_millis(150);

fn start_on(folder: &Path, disk: &Disk) -> Server {
    let folder = folder.to_str().expect("a plain path");
    Launch::onrush().disk(disk).args(&["--dir", folder, "--appendonly", "yes", "--workers", "2"]).start()
}

fn reply_within(conn: &mut Conn, time: Duration) -> io::Result<Vec<u8>> {
    conn.set_timeout(time);
    conn.read_reply()
}

#[test]
fn replies_to_writes_wait_for_a_log_that_is_late_and_others_do_not() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let mut server = start_on(&below, &disk);
    let (mut first, mut second, mut reader) = (server.connect(), server.connect(), server.connect());
    assert_eq!(first.run("SET a 1").text(), "OK");
    assert_eq!(first.run("WAITAOF 1 0 5000").to_string().matches("(integer) 1").count(), 1);

    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    first.send(b"SET a 2\r\n").expect("sent");
    wait_until("it is set", || reader.run("GET a").text() == "2");
    std::thread::sleep(TILL_LATE);
    second.send(b"SET b 1\r\nGET a\r\n").expect("sent");
    assert!(reply_within(&mut second, NONE_FOR).is_err(), "the first write is not in the file");
    // Who has written nothing waits for nothing.
    assert_eq!(reader.run("GET b").text(), "1");
    assert_eq!(server.connect().run("PING").text(), "PONG");
    for line in ["CLIENT DURABILITY no", "SET c 1"] {
        assert_eq!(reader.run(line).text(), "OK");
    }
    assert!(reply_within(&mut second, NONE_FOR).is_err(), "the first write is still not in the file");

    disk.heal();
    for conn in [&mut first, &mut second] {
        assert_eq!(reply_within(conn, Duration::from_secs(20)).expect("a reply"), b"+OK\r\n");
    }
    server.signal("KILL");
    server.wait_exit();
    let server = start_on(&below, &disk);
    let mut conn = server.connect();
    assert_eq!((conn.run("GET a").text(), conn.run("GET b").text()), ("2".to_owned(), "1".to_owned()));

    // A log that is in time again delays nothing.
    conn.set_timeout(Duration::from_secs(20));
    (0..20).for_each(|_| assert_eq!(conn.run("SET a 3").text(), "OK"));
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    wait_until("a reply comes before the write is over", || {
        conn.set_timeout(NONE_FOR);
        let comes = conn.try_call(&argv!["SET", "a", "4"]).is_ok();
        if !comes {
            // It was late by chance.
            disk.heal();
            conn = server.connect();
            assert_eq!(conn.run("SET a 3").text(), "OK");
            disk.set(Word::WriteDelayUs, FOR_EVER_US);
        }
        comes
    });
}

#[test]
fn long_commands_that_write_wait_for_a_late_log_and_who_has_read_waits_for_nothing() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let server = start_on(&below, &disk);
    let (mut writer, mut reader) = (server.connect(), server.connect());
    for part in (0..25_000).collect::<Vec<_>>().chunks(5_000) {
        let members = part.iter().map(|n: &u32| n.to_string().into_bytes());
        writer.call(&Argv([b"SADD".to_vec(), b"s".to_vec()].into_iter().chain(members).collect()));
    }
    assert_eq!(writer.run("WAITAOF 1 0 5000").to_string().matches("(integer) 1").count(), 1);
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    let mut first = server.connect();
    first.send(b"SET a 1\r\n").expect("sent");
    wait_until("it is set", || reader.run("GET a").text() == "1");
    std::thread::sleep(TILL_LATE);
    assert_eq!(reader.run("SUNION s nosuch").items().map(<[_]>::len), Some(25_000));
    assert_eq!(reader.run("GET a").text(), "1");
    let mut writer = server.connect();
    writer.send(b"SUNIONSTORE t s\r\n").expect("sent");
    assert!(reply_within(&mut writer, NONE_FOR).is_err(), "it is not in the file");
    disk.heal();
    assert_eq!(reply_within(&mut writer, Duration::from_secs(20)).expect("a reply"), b":25000\r\n");
}

#[test]
fn a_client_gets_out_of_always_while_the_disk_fails() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let server = Launch::onrush()
        .disk(&disk)
        .args(&["--dir", below.to_str().expect("a plain path"), "--appendonly", "yes", "--appendfsync", "always"])
        .start();
    let mut conn = server.connect();
    assert_eq!(conn.run("SET a 1").text(), "OK");
    disk.set(Word::SyncErrno, EIO);
    conn.send(b"SET a 2\r\n").expect("sent");
    assert!(reply_within(&mut conn, Duration::from_millis(200)).is_err(), "it is not on the disk");
    let mut other = server.connect();
    other.set_timeout(Duration::from_secs(20));
    for (line, reply) in [("CLIENT DURABILITY no", "OK"), ("GET a", "2"), ("CLIENT DURABILITY always", "OK")] {
        assert_eq!(other.run(line).text(), reply, "{line}");
    }
    other.send(b"GET a\r\n").expect("sent");
    assert!(reply_within(&mut other, Duration::from_millis(200)).is_err(), "the disk may take it back");
    disk.heal();
    other.set_timeout(Duration::from_secs(20));
    assert_eq!(other.read_reply().expect("a reply"), b"$1\r\n2\r\n");
}

#[test]
fn replies_that_wait_outlive_the_log_that_they_wait_for() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let server = start_on(&below, &disk);
    let mut admin = server.connect();
    admin.set_timeout(Duration::from_secs(20));
    for policy in ["always", "everysec"].into_iter().cycle().take(12) {
        admin.run(&format!("CONFIG SET appendfsync {policy}"));
        // Without a base the end of the log is a loss, and closes who waits for it.
        assert_eq!(admin.run("WAITAOF 1 0 10000").to_string().matches("(integer) 1").count(), 1);
        let mut conns: Vec<Conn> = (0..8).map(|_| server.connect()).collect();
        disk.set(Word::WriteDelayUs, 60_000);
        disk.set(Word::SyncDelayUs, 20_000);
        for _ in 0..3 {
            conns.iter_mut().for_each(|conn| conn.send(b"INCR a\r\nINCR a\r\n").expect("sent"));
            std::thread::sleep(Duration::from_millis(30));
        }
        // One log ends and the next begins, so that who is woken finds another one than it has waited for.
        admin.send(b"CONFIG SET appendonly no\r\nCONFIG SET appendonly yes\r\n").expect("sent");
        (0..2).for_each(|_| assert_eq!(admin.read_reply().expect("a reply"), b"+OK\r\n"));
        disk.heal();
        for conn in &mut conns {
            conn.set_timeout(Duration::from_secs(20));
            (0..6).for_each(|_| assert!(conn.read_reply().expect("a reply").starts_with(b":")));
        }
    }
}

fn encoded(commands: &[Argv]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|argv| argv.encode(&mut bytes));
    bytes
}

#[test]
fn replies_wait_though_a_later_command_replaces_the_state_of_their_connection() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let server = start_on(&below, &disk);
    let mut admin = server.connect();
    admin.set_timeout(Duration::from_secs(20));
    for part in (0..25_000).collect::<Vec<_>>().chunks(5_000) {
        let members = part.iter().map(|n: &u32| n.to_string().into_bytes());
        admin.call(&Argv([b"SADD".to_vec(), b"s".to_vec()].into_iter().chain(members).collect()));
    }
    let long = argv!["SUNIONSTORE", "t", "s"];
    for policy in ["everysec", "always"] {
        assert_eq!(admin.run(&format!("CONFIG SET appendfsync {policy}")).text(), "OK");
        // With 32 commands the last one begins a chunk of its own.
        for (before, last) in [1, 32].into_iter().flat_map(|count| [(count, argv!["RESET"]), (count, long.clone())]) {
            assert_eq!(admin.run("WAITAOF 1 0 10000").to_string().matches("(integer) 1").count(), 1);
            let mut conn = server.connect();
            if policy == "everysec" {
                assert_eq!(conn.run("CLIENT DURABILITY always").text(), "OK");
            }
            disk.set(Word::SyncDelayUs, FOR_EVER_US);
            let commands: Vec<Argv> = (0..before).map(|n| argv!["SET", format!("k{n}"), "v"]).chain([last]).collect();
            conn.send(&encoded(&commands)).expect("sent");
            let early = reply_within(&mut conn, NONE_FOR);
            assert!(early.is_err(), "{policy}: a reply to the first of {commands:?} before it is on the disk");
            disk.heal();
            conn.set_timeout(Duration::from_secs(10));
            commands.iter().for_each(|_| assert!(!conn.read_reply().expect("a reply").starts_with(b"-")));
        }
    }
    // As well for the file alone.
    assert_eq!(admin.run("CONFIG SET appendfsync everysec").text(), "OK");
    assert_eq!(admin.run("WAITAOF 1 0 10000").to_string().matches("(integer) 1").count(), 1);
    let (mut conn, mut reader) = (server.connect(), server.connect());
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    admin.send(b"SET a 1\r\n").expect("sent");
    wait_until("it is set", || reader.run("GET a").text() == "1");
    std::thread::sleep(TILL_LATE);
    conn.send(&encoded(&[argv!["SET", "a", "2"], argv!["RESET"]])).expect("sent");
    assert!(reply_within(&mut conn, NONE_FOR).is_err(), "the write is not in the file");
    disk.heal();
    conn.set_timeout(Duration::from_secs(20));
    (0..2).for_each(|_| assert!(!conn.read_reply().expect("a reply").starts_with(b"-")));
}

#[test]
fn who_wants_each_write_on_the_disk_gets_no_ok_while_the_log_ends() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let server = start_on(&below, &disk);
    let [mut strict, mut admin, mut writer, mut other] = [(); 4].map(|()| server.connect());
    assert_eq!(strict.run("CLIENT DURABILITY always").text(), "OK");
    assert_eq!(strict.run("SET a 1").text(), "OK");
    disk.set(Word::SyncDelayUs, FOR_EVER_US);
    writer.send(b"SET b 1\r\n").expect("sent");
    wait_until("it is set", || other.run("GET b").text() == "1");
    admin.send(b"CONFIG SET appendonly no\r\n").expect("sent");
    wait_until("the log gets nothing more", || other.run("INFO persistence").text().contains("aof_enabled:0"));
    assert!(strict.run("SET a 2").text().starts_with("MISCONF CLIENT DURABILITY ALWAYS needs"));
    assert!(other.run("CLIENT DURABILITY always").is_error());
    disk.heal();
    admin.set_timeout(Duration::from_secs(20));
    assert_eq!(admin.read_reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(strict.run("GET a").text(), "1");
}

#[test]
fn no_log_begins_while_the_base_of_the_one_before_may_still_come() {
    let library = Library::build().expect("a C compiler");
    let folder = TempDir::new();
    let below = folder.0.canonicalize().expect("a folder");
    let disk = Disk::below(&library, &below).expect("a page");
    let path = below.to_str().expect("a plain path");
    let start = |yes| {
        let args = ["--dir", path, "--save", "", "--aof-rewrite-incremental-fsync", "no", "--appendonly", yes];
        Launch::onrush().disk(&disk).args(&args).start()
    };
    let mut server = start("no");
    let mut conn = server.connect();
    conn.set_timeout(Duration::from_secs(60));
    assert_eq!(conn.run("SET state old").text(), "OK");
    disk.set(Word::BaseSyncsHang, 1);
    assert_eq!(conn.run("CONFIG SET appendonly yes").text(), "OK");
    wait_until("the base hangs", || disk.get(Word::Hanging) == 1);
    assert_eq!(conn.run("CONFIG SET appendonly no").text(), "OK");
    for line in ["SET state new", "SET gap 1"] {
        assert_eq!(conn.run(line).text(), "OK");
    }
    assert!(conn.run("CONFIG SET appendonly yes").text().contains("Unable to turn on AOF"));
    assert!(conn.run("CONFIG GET appendonly").to_string().contains("no"));
    disk.heal();
    wait_until("the disk answers", || conn.run("CONFIG SET appendonly yes").text() == "OK");
    assert_eq!(conn.run("SET last 1").text(), "OK");
    assert_eq!(conn.run("WAITAOF 1 0 20000").to_string().matches("(integer) 1").count(), 1);
    server.signal("KILL");
    server.wait_exit();
    let server = start("yes");
    let mut conn = server.connect();
    for (key, value) in [("state", "new"), ("gap", "1"), ("last", "1")] {
        assert_eq!(conn.call(&argv!["GET", key]).text(), value);
    }
    let files = std::fs::read_dir(below.join("appendonlydir")).expect("a folder").count();
    assert_eq!(files, 3, "a base, a file of commands and the manifest");
}

//! What a killed process has acknowledged and not written, under `appendfsync everysec`: replies to writes wait while the
//! log's thread is late, so that this is little.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use onrush_tests::chaos::disk::{Disk, EIO, Library, Word};
use onrush_tests::client::Conn;
use onrush_tests::server::{Launch, Server, TempDir};

/// How long each write takes.
const WRITE_TIME: Duration = Duration::from_millis(600);

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

    disk.set(Word::WriteDelayUs, WRITE_TIME.as_micros() as i64);
    let begun = Instant::now();
    assert_eq!(first.run("SET a 2").text(), "OK");
    assert!(begun.elapsed() < WRITE_TIME / 3, "one write is not late");
    std::thread::sleep(Duration::from_millis(100));
    second.send(b"SET b 1\r\nGET a\r\n").expect("sent");
    assert!(reply_within(&mut second, WRITE_TIME / 3).is_err(), "the first write is not in the file");
    // Who has written nothing waits for nothing.
    assert_eq!(reader.run("GET b").text(), "1");
    assert_eq!(server.connect().run("PING").text(), "PONG");
    for line in ["CLIENT DURABILITY no", "SET c 1"] {
        assert_eq!(reader.run(line).text(), "OK");
    }
    assert!(begun.elapsed() < WRITE_TIME, "nobody has waited");

    assert_eq!(reply_within(&mut second, Duration::from_secs(10)).expect("a reply"), b"+OK\r\n");
    assert!(begun.elapsed() >= WRITE_TIME, "the reply has come before the write was over");
    server.signal("KILL");
    server.wait_exit();
    disk.heal();
    let server = start_on(&below, &disk);
    let mut conn = server.connect();
    assert_eq!((conn.run("GET a").text(), conn.run("GET b").text()), ("2".to_owned(), "1".to_owned()));

    // A log that is in time again delays nothing.
    let begun = Instant::now();
    (0..20).for_each(|_| assert_eq!(conn.run("SET a 3").text(), "OK"));
    assert!(begun.elapsed() < Duration::from_secs(1));
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
    other.set_timeout(Duration::from_secs(2));
    for (line, reply) in [("CLIENT DURABILITY no", "OK"), ("GET a", "2"), ("CLIENT DURABILITY always", "OK")] {
        assert_eq!(other.run(line).text(), reply, "{line}");
    }
    other.send(b"GET a\r\n").expect("sent");
    assert!(reply_within(&mut other, Duration::from_millis(200)).is_err(), "the disk may take it back");
    disk.heal();
    other.set_timeout(Duration::from_secs(20));
    assert_eq!(other.read_reply().expect("a reply"), b"$1\r\n2\r\n");
}

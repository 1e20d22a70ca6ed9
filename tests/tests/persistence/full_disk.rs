//! A disk that is full, and then has room again: acknowledged writes stay, writes that cannot be kept are refused, and
//! the server goes on without help.
//!
//! The system has no disk to fill here, so files may not grow past a size for a while (RLIMIT_FSIZE): a write takes the bytes that still
//! fit, and the next one fails.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Launch, Server, TempDir, wait_until};

fn start_on(folder: &Path, args: &[&str]) -> Server {
    let folder = folder.to_str().expect("a plain path").to_owned();
    Launch::onrush().args(&["--dir", &folder, "--enable-debug-command", "yes"]).args(args).start()
}

fn field(conn: &mut Conn, name: &str) -> String {
    let text = conn.run("INFO persistence").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
    line.trim().to_owned()
}

/// The size of the files with commands.
fn log_len(folder: &Path) -> u64 {
    let files = fs::read_dir(folder.join("appendonlydir")).expect("a folder").map(|file| file.expect("a file"));
    let incrs = files.filter(|file| file.file_name().to_string_lossy().ends_with(".incr.aof"));
    incrs.map(|file| file.metadata().expect("its size").len()).max().expect("a file")
}

fn set(prefix: &str, n: usize) -> Argv {
    argv!["SET", format!("{prefix}:{n}"), "v".repeat(100)]
}

/// Reads replies until there is none for a while; returns how many commands were acknowledged. Errors are told apart.
fn read_what_comes(conn: &mut Conn) -> (usize, usize) {
    let (mut done, mut refused) = (0, 0);
    while let Ok(reply) = conn.read_reply() {
        match &reply[..1] {
            b"+" => done += 1,
            _ => {
                assert!(reply.starts_with(b"-MISCONF Errors writing to the AOF file"), "{}", reply.escape_ascii());
                refused += 1;
            }
        }
    }
    (done, refused)
}

fn has_all(conn: &mut Conn, prefix: &str, count: usize) -> bool {
    (0..count).all(|n| conn.call(&argv!["EXISTS", format!("{prefix}:{n}")]).to_string() == "(integer) 1")
}

/// Writes until the disk is full; returns how many writes were acknowledged, and the connection, which waits for more.
fn fill(server: &Server, folder: &Path, count: usize) -> (Conn, usize) {
    let mut writer = server.connect();
    for n in 0..10 {
        assert_eq!(writer.call(&set("before", n)).text(), "OK");
    }
    server.limit_files(Some(log_len(folder) + 20_050));
    writer.set_timeout(Duration::from_millis(700));
    let bytes: Vec<u8> = (0..count)
        .flat_map(|n| {
            let mut bytes = Vec::new();
            set("k", n).encode(&mut bytes);
            bytes
        })
        .collect();
    for part in bytes.chunks(bytes.len().div_ceil(100)) {
        writer.send(part).expect("sent");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (done, refused) = read_what_comes(&mut writer);
    assert!(done < count && done + refused <= count, "{done} {refused}");
    (writer, done)
}

#[test]
fn under_always_what_does_not_fit_is_not_acknowledged_and_goes_on_later() {
    const COUNT: usize = 2_000;
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", "always"]);
    let (mut writer, done) = fill(&server, &folder.0, COUNT);
    let mut other = server.connect();
    // Whoever knows nothing of those writes is not held up, and nobody can write.
    other.run("CLIENT DURABILITY no");
    wait_until("writes are refused", || {
        other.run("SET other 1").text().starts_with("MISCONF Errors writing to the AOF")
    });
    assert_eq!(field(&mut other, "aof_last_write_status"), "err");
    assert_eq!(other.run("EXISTS before:1").to_string(), "(integer) 1");
    assert!(other.run("PING").is_error(), "so that health checks see it");
    server.limit_files(None);
    wait_until("writes are let in", || other.run("SET other 1").text() == "OK");
    assert_eq!(field(&mut other, "aof_last_write_status"), "ok");
    let (later, _) = read_what_comes(&mut writer);
    assert!(later > 0, "what waited is acknowledged");
    let digest = other.run("DEBUG DIGEST").text();
    other.run("WAITAOF 1 0 5000");
    server.signal("KILL");
    let again = start_on(&folder.0, &["--appendonly", "yes"]);
    let mut conn = again.connect();
    assert!(has_all(&mut conn, "k", done + later));
    assert_eq!(conn.run("DEBUG DIGEST").text(), digest);
    again.expect_log("Ready to accept connections");
    assert!(!again.log().contains("is cut"), "no torn record in the middle or at the end");
}

#[test]
fn what_was_acknowledged_survives_a_kill_while_the_disk_is_full() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", "always"]);
    let (_writer, done) = fill(&server, &folder.0, 2_000);
    server.signal("KILL");
    let again = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", "always"]);
    let mut conn = again.connect();
    assert!(has_all(&mut conn, "before", 10) && has_all(&mut conn, "k", done));
    let keys = conn.info_number("db0:keys").unwrap_or(0);
    assert!(!has_all(&mut conn, "k", 2_000), "{keys}: the disk was full");
    assert_eq!(conn.run("SET more 1").text(), "OK");
}

#[test]
fn under_everysec_writes_are_refused_until_there_is_room() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", "everysec"]);
    let mut conn = server.connect();
    conn.run("SET a 1");
    conn.run("WAITAOF 1 0 5000");
    server.limit_files(Some(log_len(&folder.0) + 2_050));
    let mut acknowledged = 0;
    wait_until("writes are refused", || {
        let reply = conn.call(&set("k", acknowledged));
        acknowledged += usize::from(!reply.is_error());
        assert!(!reply.is_error() || reply.text().starts_with("MISCONF Errors writing to the AOF file"), "{reply}");
        reply.is_error()
    });
    assert_eq!(field(&mut conn, "aof_last_write_status"), "err");
    let replies = ["MULTI", "SET a 2", "EXEC"].map(|command| conn.run(command).text());
    assert!(replies[1].starts_with("MISCONF") && replies[2].starts_with("EXECABORT"), "{replies:?}");
    assert_eq!(conn.run("GET a").text(), "1");
    server.limit_files(None);
    wait_until("writes are let in", || conn.run("SET b 1").text() == "OK");
    assert_eq!(field(&mut conn, "aof_last_write_status"), "ok");
    assert_eq!(conn.run("WAITAOF 1 0 5000").to_string().matches("(integer) 1").count(), 1);
    let digest = conn.run("DEBUG DIGEST").text();
    server.signal("KILL");
    let again = start_on(&folder.0, &["--appendonly", "yes"]);
    assert_eq!(again.connect().run("DEBUG DIGEST").text(), digest);
}

#[test]
fn a_snapshot_that_does_not_fit_leaves_the_old_one() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--save", "3600 1000000", "--rdbcompression", "no"]);
    let mut conn = server.connect();
    conn.run("SET a 1");
    assert_eq!(conn.run("SAVE").text(), "OK");
    let old = fs::read(folder.0.join("dump.rdb")).expect("a file");
    conn.run("DEBUG POPULATE 20000 key 100");
    server.limit_files(Some(500_000));
    for command in ["SAVE", "BGSAVE"] {
        let reply = conn.run(command);
        assert_eq!(reply.is_error(), command == "SAVE", "{reply}");
        wait_until("the snapshot ends", || field(&mut conn, "rdb_bgsave_in_progress") == "0");
        assert_eq!(field(&mut conn, "rdb_last_bgsave_status"), "err");
        assert_eq!(fs::read(folder.0.join("dump.rdb")).expect("a file"), old);
        let files = fs::read_dir(&folder.0).expect("a folder").count();
        assert_eq!(files, 1, "no part of it is left");
    }
    wait_until("writes are refused", || conn.run("SET a 1").text().starts_with("MISCONF Redis is configured to save"));
    assert_eq!(conn.run("GET a").text(), "1");
    server.limit_files(None);
    assert_eq!(conn.run("BGSAVE").text(), "Background saving started");
    wait_until("the snapshot ends", || field(&mut conn, "rdb_bgsave_in_progress") == "0");
    assert_eq!(field(&mut conn, "rdb_last_bgsave_status"), "ok");
    wait_until("writes are let in", || conn.run("SET a 1").text() == "OK");
    let digest = conn.run("DEBUG DIGEST").text();
    server.signal("KILL");
    assert_eq!(start_on(&folder.0, &[]).connect().run("DEBUG DIGEST").text(), digest);
}

#[test]
fn a_rewrite_that_does_not_fit_changes_nothing() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", "always", "--rdbcompression", "no"]);
    let mut conn = server.connect();
    // Large once it is written whole, small as a command.
    for n in 0..40 {
        conn.call(&argv!["SETRANGE", format!("k:{n}"), "20000", "x"]);
    }
    server.limit_files(Some(300_000));
    assert!(!conn.run("BGREWRITEAOF").is_error());
    wait_until("the rewrite ends", || field(&mut conn, "aof_rewrite_in_progress") == "0");
    assert_eq!(field(&mut conn, "aof_last_bgrewrite_status"), "err");
    assert_eq!(conn.run("SET after 1").text(), "OK");
    // Where data is saved is configured anew; the log stays where it is.
    let elsewhere = TempDir::new();
    conn.call(&argv!["CONFIG", "SET", "dir", elsewhere.0.to_str().expect("a plain path")]);
    server.limit_files(None);
    assert!(!conn.run("BGREWRITEAOF").is_error());
    wait_until("the rewrite ends", || {
        field(&mut conn, "aof_rewrite_in_progress") == "0" && field(&mut conn, "aof_rewrite_scheduled") == "0"
    });
    assert_eq!(field(&mut conn, "aof_last_bgrewrite_status"), "ok");
    assert!(fs::read_dir(&elsewhere.0).expect("a folder").next().is_none());
    assert_eq!(conn.run("SET after 2").text(), "OK");
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    let digest = conn.run("DEBUG DIGEST").text();
    server.signal("KILL");
    let again = start_on(&folder.0, &["--appendonly", "yes"]);
    assert_eq!(again.connect().run("DEBUG DIGEST").text(), digest);
}

#[test]
fn what_a_killed_process_has_not_completed_is_removed() {
    let folder = TempDir::new();
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    let gone = server.pid();
    server.signal("KILL");
    drop(server);
    let alive = std::process::id();
    let log = folder.0.join("appendonlydir");
    let left = [folder.0.join(format!("temp-{gone}-3.rdb")), log.join(format!("temp-{gone}-4.rdb"))];
    let kept = [folder.0.join(format!("temp-{alive}-3.rdb")), folder.0.join("temp-1.rdb")];
    left.iter().chain(&kept).for_each(|path| fs::write(path, "REDIS0010").expect("written"));
    let server = start_on(&folder.0, &["--appendonly", "yes"]);
    assert!(left.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
    server.expect_log("Ready to accept connections");
    assert_eq!(server.log().matches("its process has ended before the file was complete").count(), 2);
}

#[test]
fn commands_that_wait_for_the_thread_for_long_commands_are_refused_as_others_are() {
    for policy in ["everysec", "always"] {
        let folder = TempDir::new();
        let server = start_on(&folder.0, &["--appendonly", "yes", "--appendfsync", policy]);
        let mut conn = server.connect();
        conn.run("SET k v");
        for part in (0..25_000).collect::<Vec<u32>>().chunks(5_000) {
            let members = part.iter().map(|n| n.to_string().into_bytes());
            conn.call(&Argv([b"SADD".to_vec(), b"s".to_vec()].into_iter().chain(members).collect()));
        }
        // A server that says nothing keeps the thread busy.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port().to_string();
        let mut busy = server.connect();
        busy.send_command(&argv!["MIGRATE", "127.0.0.1", &port, "k", "0", "60000"]).expect("sent");
        let (peer, _) = silent.accept().expect("a connection");
        let (mut union, mut many) = (server.connect(), server.connect());
        union.send_command(&argv!["SUNIONSTORE", "t", "s"]).expect("sent");
        assert_eq!(many.run("MULTI").text(), "OK");
        many.pipeline(&vec![argv!["INCR", "n"]; 10_001]);
        many.send_command(&argv!["EXEC"]).expect("sent");
        wait_until("both wait", || {
            let clients = conn.run("CLIENT LIST").text();
            clients.contains("cmd=sunionstore") && clients.contains("cmd=exec")
        });

        server.limit_files(Some(1));
        server.connect().send_command(&set("other", 1)).expect("sent");
        wait_until("the log fails", || field(&mut conn, "aof_last_write_status") == "err");
        drop(peer);
        let refusal = "MISCONF Errors writing to the AOF file: File too large";
        let read = |conn: &mut Conn| {
            conn.set_timeout(Duration::from_secs(10));
            String::from_utf8(conn.read_reply().expect("a reply")).expect("text")
        };
        assert_eq!(read(&mut union), format!("-{refusal}\r\n"), "{policy}");
        assert_eq!(read(&mut many), format!("-EXECABORT Transaction discarded because of: {refusal}\r\n"), "{policy}");
        server.limit_files(None);
        wait_until("writes are let in", || conn.run("PING").text() == "PONG");
        assert_eq!(conn.run("EXISTS t n").to_string(), "(integer) 0");
        assert_eq!(many.run("INCR n").to_string(), "(integer) 1");
    }
}

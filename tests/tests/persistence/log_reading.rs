//! What the server writes to the append-only file it reads, and it starts from no file with a part left out.

use std::fs;
use std::path::Path;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, wait_until};

fn launch(folder: &Path, args: &[&str]) -> Launch {
    let folder = folder.to_str().expect("a plain path");
    let own = ["--dir", folder, "--appendonly", "yes", "--enable-debug-command", "yes"];
    Launch::onrush().args(&own).args(args)
}

fn digest(conn: &mut Conn) -> String {
    conn.run("DEBUG DIGEST").text()
}

/// The names of numbered things, behind the words of a command.
fn many(words: &[&str], name: &str, count: usize) -> Argv {
    let words = words.iter().map(|word| (*word).to_owned());
    Argv::new(&words.chain((0..count).map(|n| format!("{name}{n}"))).collect::<Vec<_>>())
}

/// Kills a server and starts another one on its files; returns that one's log.
fn same_after_a_kill(folder: &Path, server: Server, before: &[&str], after: &[&str]) -> String {
    let digest_before = digest(&mut server.connect());
    server.signal("KILL");
    drop(server);
    let server = launch(folder, after).start();
    assert_eq!(digest(&mut server.connect()), digest_before, "{before:?}, then {after:?}");
    server.expect_log("Ready to accept connections");
    server.log()
}

#[test]
#[ignore = "nightly: a million arguments take half a minute"]
fn commands_of_a_million_arguments_come_back() {
    const COUNT: usize = 1_048_600;
    let folder = TempDir::new();
    let always = ["--appendfsync", "always"];
    let server = launch(&folder.0, &always).start();
    let mut conn = server.connect();
    conn.set_timeout(Duration::from_secs(60));
    assert_eq!(conn.call(&many(&["RPUSH", "list"], "x", COUNT)).to_string(), format!("(integer) {COUNT}"));
    conn.call(&many(&["SADD", "set"], "m", COUNT + 10));
    conn.call(&argv!["SPOP", "set", "1048590"]);
    assert_eq!(conn.run("SCARD set").to_string(), "(integer) 20");
    drop(conn);
    same_after_a_kill(&folder.0, server, &always, &[]);
}

#[test]
fn many_expired_fields_are_logged_in_pieces() {
    const COUNT: usize = 70_000;
    let folder = TempDir::new();
    let always = ["--appendfsync", "always"];
    let server = launch(&folder.0, &always).start();
    let mut conn = server.connect();
    conn.run("DEBUG SET-ACTIVE-EXPIRE 0");
    let pairs = (0..COUNT).flat_map(|n| [format!("f{n}"), "v".to_owned()]);
    let head = ["HSET", "hash", "stays", "v"].map(str::to_owned);
    conn.call(&Argv::new(&head.into_iter().chain(pairs).collect::<Vec<_>>()));
    conn.call(&many(&["HPEXPIRE", "hash", "1", "FIELDS", &COUNT.to_string()], "f", COUNT));
    wait_until("the fields have expired", || {
        conn.run(&format!("HGET hash f{}", COUNT - 1)).to_string().starts_with("(null")
    });
    // A command deletes the expired ones among those that it names.
    assert_eq!(conn.call(&many(&["HDEL", "hash"], "f", COUNT)).to_string(), "(integer) 0");
    drop(conn);
    let log = fs::read(folder.0.join("appendonlydir/appendonly.aof.1.incr.aof")).expect("a file");
    let deletions = log.windows(10).filter(|window| window == b"$4\r\nHDEL\r\n").count();
    assert_eq!(deletions, 2);
    same_after_a_kill(&folder.0, server, &always, &[]);
}

#[test]
fn values_and_keys_come_back_whatever_a_client_may_send_by_then() {
    let folder = TempDir::new();
    let always = ["--appendfsync", "always"];
    let server = launch(&folder.0, &always).start();
    let mut conn = server.connect();
    let long = "x".repeat(9 << 20);
    conn.call(&argv!["SET", "value", &long]);
    conn.call(&argv!["SET", &long, "key"]);
    conn.call(&argv!["MULTI"]);
    conn.call(&argv!["APPEND", "value", &long]);
    conn.call(&argv!["SETRANGE", "range", "3000000", "x"]);
    conn.call(&argv!["SETBIT", "bits", "30000000", "1"]);
    conn.call(&argv!["EXEC"]);
    // The reply to this one is more than a client may leave unread.
    conn.call(&argv!["GETSET", "value", "short\n-ERR no error"]);
    conn.call(&argv!["GETSET", "value", "short"]);
    drop(conn);
    let log = same_after_a_kill(&folder.0, server, &always, &["--proto-max-bulk-len", "1mb"]);
    assert!(!log.contains("no error") && !log.contains("fails"), "{log}");
}

#[test]
fn renamed_commands_are_logged_and_read_under_their_own_names() {
    let folder = TempDir::new();
    let swapped = ["--rename-command", "SET", "PUT", "--rename-command", "GET", "SET", "--rename-command", "DEL", ""];
    let always = ["--appendfsync", "always"];
    let server = launch(&folder.0, &always).args(&swapped).start();
    let mut conn = server.connect();
    for line in ["PUT gone 1 PX 1", "PUT a 1", "MULTI", "PUT b 2", "EXEC", "EVAL \"redis.call('PUT','c','3')\" 0"] {
        conn.run(line);
    }
    wait_until("the key has expired", || conn.run("DBSIZE").to_string() == "(integer) 3");
    assert_eq!(conn.run("SET a").to_string(), "(bulk of 1) 1");
    drop(conn);
    same_after_a_kill(&folder.0, server, &swapped, &swapped);
    let server = launch(&folder.0, &[]).start();
    same_after_a_kill(&folder.0, server, &[], &[]);
}

/// A folder with an append-only file of one part.
fn with_log(commands: &[&[&str]]) -> (TempDir, Vec<u8>) {
    let folder = TempDir::new();
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| Argv::new(command).encode(&mut bytes));
    fs::create_dir(folder.0.join("appendonlydir")).expect("a folder");
    fs::write(folder.0.join("appendonlydir/appendonly.aof.1.incr.aof"), &bytes).expect("written");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(folder.0.join("appendonlydir/appendonly.aof.manifest"), manifest).expect("written");
    (folder, bytes)
}

fn refused(commands: &[&[&str]], args: &[&str]) -> String {
    let (folder, bytes) = with_log(commands);
    let mut server = launch(&folder.0, args).spawn();
    assert_eq!(server.wait_exit().code(), Some(1), "{}", server.log());
    assert_eq!(fs::read(folder.0.join("appendonlydir/appendonly.aof.1.incr.aof")).expect("a file"), bytes);
    server.log()
}

const SET: &[&str] = &["SET", "a", "secret"];

#[test]
fn a_log_does_not_end_the_server_as_if_all_were_well() {
    for end in [&["SHUTDOWN", "NOSAVE"][..], &["SHUTDOWN"]] {
        let log = refused(&[SET, end, SET], &[]);
        assert!(log.contains("the command at byte 32 is SHUTDOWN"), "{log}");
    }
}

#[test]
fn a_command_that_is_not_known_or_fails_stops_the_start_with_its_name_and_place() {
    let log = refused(&[SET, &["NOSUCH", "secret"], SET], &[]);
    assert!(log.contains("Unknown command 'NOSUCH' reading the append only file "), "{log}");
    assert!(log.contains("at byte 32") && !log.contains("secret"), "{log}");
    // redis-server says the same.
    let (folder, _) = with_log(&[SET, &["NOSUCH", "secret"]]);
    let args = ["--dir", folder.0.to_str().expect("a plain path"), "--appendonly", "yes"];
    let mut redis = Launch::binary(Oracle::Older.bin()).args(&args).spawn();
    assert_eq!(redis.wait_exit().code(), Some(1));
    assert!(redis.log().contains("Unknown command 'NOSUCH' reading the append only file "), "{}", redis.log());

    let inside = refused(&[SET, &["MULTI"], SET, &["XGROUP", "NOSUCH", "k"], &["EXEC"]], &[]);
    assert!(inside.contains("Unknown command 'XGROUP'") && inside.contains("at byte 79"), "{inside}");
    let failing = refused(&[&["MULTI"], SET, &["RPUSH", "a", "secret"], &["EXEC"]], &[]);
    assert!(failing.contains("'RPUSH' at byte 47 fails (WRONGTYPE)") && !failing.contains("secret"), "{failing}");
    let database = refused(&[SET, &["SELECT", "20"], SET], &[]);
    assert!(database.contains("'SELECT' at byte 32 fails (ERR)"), "{database}");
    let missing = refused(&[&["EVALSHA", "0123456789012345678901234567890123456789", "0"]], &[]);
    assert!(missing.contains("'EVALSHA' at byte 0 fails (NOSCRIPT)"), "{missing}");
}

#[test]
fn a_script_that_fails_after_its_changes_is_loaded_as_it_was() {
    let script = "redis.call('SET','k','v') return redis.error_reply('secret')";
    let list = "return {redis.error_reply('secret'), 1}";
    let (folder, _) = with_log(&[SET, &["EVAL", script, "0"], &["EVAL", list, "0"], &["SET", "b", "1"]]);
    let server = launch(&folder.0, &[]).start();
    assert_eq!(server.connect().run("DBSIZE").to_string(), "(integer) 3");
    assert!(!server.log().contains("secret"), "{}", server.log());
}

#[test]
fn a_limit_of_memory_does_not_keep_data_from_being_loaded() {
    let commands: Vec<Vec<String>> =
        (0..3000).map(|n| vec!["SET".to_owned(), format!("k{n}"), "v".repeat(1000)]).collect();
    let commands: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let (folder, _) = with_log(&commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let server = launch(&folder.0, &["--maxmemory", "1mb"]).start();
    assert_eq!(server.connect().run("DBSIZE").to_string(), "(integer) 3000");
}

#[test]
fn a_failed_reload_leaves_the_data_and_the_files() {
    let folder = TempDir::new();
    let server = launch(&folder.0, &["--appendfsync", "always"]).start();
    let mut conn = server.connect();
    conn.run("SET first 1");
    assert_eq!(conn.run("SAVE").text(), "OK");
    (0..100).for_each(|n| _ = conn.run(&format!("SET k{n} {n}")));
    let before = digest(&mut conn);
    // A byte in the middle of each file is wrong.
    let (log, snapshot) = (folder.0.join("appendonlydir/appendonly.aof.1.incr.aof"), folder.0.join("dump.rdb"));
    let [good_log, good_snapshot] = [&log, &snapshot].map(|path| fs::read(path).expect("a file"));
    for (path, good) in [(&log, &good_log), (&snapshot, &good_snapshot)] {
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 0x55;
        fs::write(path, bad).expect("written");
    }
    for command in ["DEBUG LOADAOF", "DEBUG RELOAD NOSAVE"] {
        assert!(conn.run(command).to_string().contains("rror"), "{command}");
        assert_eq!(digest(&mut conn), before, "{command}");
    }
    fs::write(&log, &good_log).expect("written");
    // It is still the same log.
    conn.run("SET more 1");
    let after = digest(&mut conn);
    assert_eq!(conn.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!(digest(&mut conn), after);
    drop(conn);
    same_after_a_kill(&folder.0, server, &[], &[]);
}

#[test]
fn damaged_and_missing_files_stop_the_start_and_stay() {
    let folder = TempDir::new();
    let server = launch(&folder.0, &["--appendfsync", "always"]).start();
    let mut conn = server.connect();
    conn.run("SET before 1");
    conn.run("BGREWRITEAOF");
    let files = folder.0.join("appendonlydir");
    wait_until("the log is rewritten", || {
        conn.run("INFO persistence").text().contains("aof_rewrite_in_progress:0")
            && files.join("appendonly.aof.2.base.rdb").exists()
    });
    (0..20).for_each(|n| _ = conn.run(&format!("SET key{n} value")));
    server.signal("KILL");
    drop(server);
    let [manifest, base, incr] = ["appendonly.aof.manifest", "appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof"]
        .map(|name| files.join(name));
    let good = [&manifest, &base, &incr].map(|path| (path, fs::read(path).expect("a file")));
    let swallowing = String::from_utf8_lossy(&good[2].1).replacen("$5\r\nvalue", "$9995\r\nvalue", 1).into_bytes();
    let cut = good[1].1[..good[1].1.len() / 2].to_vec();
    let changes: [(&Path, Option<Vec<u8>>, &str); 8] = [
        (&manifest, None, "appendonly.aof.manifest is not in the folder"),
        (&manifest, Some(Vec::new()), "line 1 of the manifest"),
        (&base, None, "appendonly.aof.2.base.rdb is in the manifest but not in the folder"),
        (&base, Some(Vec::new()), "appendonly.aof.2.base.rdb: "),
        (&base, Some(cut), "appendonly.aof.2.base.rdb: the data ends in the middle"),
        (&base, Some(b"REDIS0099".to_vec()), "RDB version 99 is not known"),
        (&incr, None, "appendonly.aof.2.incr.aof is in the manifest but not in the folder"),
        (&incr, Some(swallowing), "appendonly.aof.2.incr.aof is damaged at byte"),
    ];
    for (path, content, why) in changes {
        match &content {
            Some(content) => fs::write(path, content).expect("written"),
            None => fs::remove_file(path).expect("removed"),
        }
        let mut server = launch(&folder.0, &[]).spawn();
        assert_eq!(server.wait_exit().code(), Some(1), "{why}");
        assert!(server.log().contains(why), "{why}: {}", server.log());
        assert_eq!(fs::read(path).ok(), content, "{why}");
        for (path, good) in &good {
            fs::write(path, good).expect("written");
        }
    }
    assert_eq!(launch(&folder.0, &[]).start().connect().run("DBSIZE").to_string(), "(integer) 21");
}

//! Append-only files in both directions: redis-server loads our files, and redis-check-aof finds them whole; our reader
//! reads a redis-server's files, and our writer continues them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use onrush_persist::aof::{Aof, AofError, AofOptions, Chunk, Content, FsyncPolicy, Manifest, Reader};
use onrush_persist::rdb::{Batch, Encoder, FileWriter, Item, KeyRecord, Text};
use onrush_persist::storage::Disk;
use onrush_persist::{CommandLog, Effects};
use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, wait_until};

const NAME: &str = "appendonly.aof";

fn folder(dir: &TempDir) -> PathBuf {
    dir.0.join("appendonlydir")
}

fn options(dir: &TempDir) -> (AofOptions, Receiver<u64>) {
    let (tell, told) = channel();
    let mut options = AofOptions::new(folder(dir), NAME);
    options.policy = FsyncPolicy::Always;
    options.timestamps = true;
    options.on_durable = Box::new(move |lsn| tell.send(lsn).unwrap_or_default());
    (options, told)
}

fn commit(log: &CommandLog, commands: &[(u32, &[&str])]) -> u64 {
    let mut effects = Effects::default();
    for (db, args) in commands {
        effects.command(*db, args.iter().map(|arg| arg.as_bytes()));
    }
    let lsn = log.close(&mut effects);
    log.submit(&mut effects);
    lsn
}

/// A snapshot with strings.
fn snapshot(dir: &TempDir, keys: &[(&str, &str)]) -> PathBuf {
    let mut encoder = Encoder::new(true);
    encoder.select_db(0);
    for (name, value) in keys {
        let key = KeyRecord { name: name.as_bytes(), ..KeyRecord::default() };
        encoder.key(&key).string(Text::Bytes(value.as_bytes()));
    }
    let path = dir.0.join("temp.rdb");
    let mut writer = FileWriter::new(fs::File::create(&path).unwrap(), encoder.version(), true).unwrap();
    writer.write(encoder.bytes()).unwrap();
    writer.finish().unwrap().sync_all().unwrap();
    path
}

fn redis(oracle: Oracle, dir: &TempDir) -> Server {
    let dir = dir.0.display().to_string();
    Launch::redis_of(oracle.bin()).args(&["--appendonly", "yes", "--dir", &dir]).start()
}

/// Whether redis-check-aof, which is a redis-server by another name, finds everything whole.
fn check_aof(oracle: Oracle, dir: &TempDir) -> bool {
    let manifest = folder(dir).join("appendonly.aof.manifest");
    let checked = Command::new(oracle.bin()).arg0("redis-check-aof").arg(manifest).output();
    let checked = checked.expect("redis-check-aof runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(said.contains("checking Multi Part AOF"), "{said}");
    checked.status.success()
}

fn get(conn: &mut Conn, key: &str) -> String {
    conn.call(&argv!["GET", key]).text()
}

/// Writes a log with a rewrite in its middle. It ends in the state that [`expect_state`] checks.
fn write_log(dir: &TempDir) {
    let (options, told) = options(dir);
    let disk = Arc::new(Disk);
    let aof = Aof::create(disk, options, &snapshot(dir, &[("first", "1")]), true, 0).unwrap();
    let log = CommandLog::new();
    let sink = aof.attach(&log).unwrap();
    commit(&log, &[(0, &["SET", "a", "1"])]);
    let lsn = commit(&log, &[(0, &["SET", "b", "2"]), (9, &["RPUSH", "list", "x", "", "z"])]);
    aof.prepare_rewrite().unwrap();
    log.flush();
    aof.switch(lsn).unwrap();
    commit(&log, &[(0, &["INCR", "a"]), (0, &["APPEND", "first", "23"])]);
    aof.finish_rewrite(&snapshot(dir, &[("first", "1"), ("a", "1"), ("b", "2")]), true).unwrap();
    let last = commit(&log, &[(3, &["SET", "c", "x\r\n*1\r\n$4\r\nEXEC\r\n"])]);
    while told.recv().unwrap() < last {}
    log.detach(sink).unwrap().finish().unwrap();
    assert_eq!(aof.durable_lsn(), last);
}

fn expect_state(server: &Server) {
    let mut conn = server.connect();
    assert_eq!([get(&mut conn, "first"), get(&mut conn, "a"), get(&mut conn, "b")], ["123", "2", "2"]);
    conn.call(&argv!["SELECT", "3"]);
    assert_eq!(get(&mut conn, "c"), "x\r\n*1\r\n$4\r\nEXEC\r\n");
}

#[test]
fn what_we_write_redis_finds_whole_and_loads() {
    for oracle in Oracle::ALL {
        let dir = TempDir::new();
        write_log(&dir);
        assert!(check_aof(oracle, &dir));
        let mut names: Vec<String> = fs::read_dir(folder(&dir))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"]);
        expect_state(&redis(oracle, &dir));
    }
}

/// The keys of the base, the commands after it, and the error that ends the reading.
fn read(dir: &TempDir) -> (Vec<String>, String, Option<AofError>) {
    let manifest = Manifest::load(&Disk, &folder(dir), NAME).unwrap().expect("a manifest");
    let mut reader = Reader::new(Arc::new(Disk), &folder(dir), &manifest).unwrap();
    let (mut keys, mut commands) = (Vec::new(), Vec::new());
    while let Some(file) = reader.next_file().unwrap() {
        match file.content {
            Content::Rdb(mut rdb) => {
                let mut batch = Batch::default();
                while rdb.next_batch(&mut batch).unwrap() {
                    let mut items = batch.items();
                    while let Some(item) = items.next().unwrap() {
                        if let Item::Key(key) = item {
                            keys.push(String::from_utf8(key.name.to_vec()).unwrap());
                        }
                    }
                }
            }
            Content::Commands(mut reader) => {
                let mut chunk = Chunk::default();
                loop {
                    match reader.next_chunk(&mut chunk) {
                        Ok(true) => commands.extend_from_slice(chunk.bytes()),
                        Ok(false) => break,
                        Err(error) => return (keys, String::from_utf8(commands).unwrap(), Some(error)),
                    }
                }
            }
        }
    }
    keys.sort();
    (keys, String::from_utf8(commands).unwrap(), None)
}

/// Ends a server in order, so that its files are whole.
fn end(mut server: Server) {
    server.signal("TERM");
    server.wait_exit();
}

#[test]
fn what_redis_writes_is_read_and_continued() {
    for oracle in Oracle::ALL {
        let dir = TempDir::new();
        let server = redis(oracle, &dir);
        let mut conn = server.connect();
        conn.run("SET a 1");
        conn.run("HSET h f v");
        conn.run("CONFIG SET aof-timestamp-enabled yes");
        conn.run("BGREWRITEAOF");
        wait_until("the rewrite is done", || {
            conn.info_number("aof_rewrite_in_progress") == Some(0) && conn.info_number("aof_rewrites") == Some(1)
        });
        for command in ["INCR a", "MULTI", "SET b 1", "SELECT 4", "SET c 1", "EXEC"] {
            conn.run(command);
        }
        end(server);
        let (keys, commands, error) = read(&dir);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(keys, ["a", "h"]);
        for part in ["INCR\r\n$1\r\na", "MULTI", "b\r\n$1\r\n1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n4\r\n", "EXEC"] {
            assert!(commands.contains(part), "{part} in {commands}");
        }
        assert!(!commands.contains('#'));

        // An incomplete end is reported; after a cut there, the log goes on.
        let manifest = Manifest::load(&Disk, &folder(&dir), NAME).unwrap().unwrap();
        let last = folder(&dir).join(&manifest.incrs.last().unwrap().name);
        let bytes = fs::read(&last).unwrap();
        fs::write(&last, &bytes[..bytes.len() - 3]).unwrap();
        let (_, whole, error) = read(&dir);
        let Some(AofError::Truncated { valid_len, .. }) = error else { panic!("{error:?}") };
        assert!(commands.starts_with(&whole) && !whole.contains("MULTI"));
        assert!(!check_aof(oracle, &dir));
        onrush_persist::aof::truncate(&Disk, &last, valid_len).unwrap();
        append(&dir, manifest);
        assert!(check_aof(oracle, &dir));
        let server = redis(oracle, &dir);
        let mut conn = server.connect();
        assert_eq!([get(&mut conn, "a"), get(&mut conn, "more")], ["2", "yes"]);
    }
}

fn append(dir: &TempDir, manifest: Manifest) {
    let (options, _told) = options(dir);
    let aof = Aof::open(Arc::new(Disk), options, manifest, 0).unwrap();
    let log = CommandLog::new();
    let sink = aof.attach(&log).unwrap();
    commit(&log, &[(0, &["SET", "more", "yes"])]);
    log.detach(sink).unwrap().finish().unwrap();
}

#[test]
fn a_log_of_one_file_is_taken_over() {
    let dir = TempDir::new();
    write_log(&dir);
    // Base and commands behind each other are what Redis 4 to 6 write.
    let part = |name: &str| fs::read(folder(&dir).join(name)).unwrap();
    let single = [part("appendonly.aof.2.base.rdb"), part("appendonly.aof.2.incr.aof")].concat();
    fs::remove_dir_all(folder(&dir)).unwrap();
    fs::write(dir.0.join(NAME), single).unwrap();
    let manifest = Manifest::load_or_upgrade(&Disk, &dir.0, &folder(&dir), NAME).unwrap().unwrap();
    assert!(!Path::new(&dir.0.join(NAME)).exists());
    append(&dir, manifest);
    assert!(check_aof(Oracle::Older, &dir));
    let server = redis(Oracle::Older, &dir);
    expect_state(&server);
    assert_eq!(get(&mut server.connect(), "more"), "yes");
}

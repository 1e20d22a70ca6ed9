//! The append-only file as the backlog: after deaths, and for replicas that were away for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, TempDir, wait_until};

use crate::follows::{info, is_same, start_replica, wait_for_link};

/// Onrush with a log in `dir`.
fn start(dir: &TempDir, args: &[&str]) -> Server {
    let dir = dir.0.to_str().expect("a path");
    let fixed = ["--dir", dir, "--appendonly", "yes", "--enable-debug-command", "yes", "--save", "", "--workers", "2"];
    Server::start_onrush(&[&fixed, args].concat())
}

fn start_redis_replica(primary: &Server, args: &[&str]) -> Server {
    let port = primary.port().to_string();
    let fixed = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--save", ""];
    Server::start_oracle(Oracle::Newer, &[&fixed, args].concat())
}

/// The log of a replica that its disk refuses behind a full sync begins once the disk takes it.
#[test]
fn a_log_that_the_disk_refuses_behind_a_full_sync_begins_later() {
    let dirs = [TempDir::new(), TempDir::new()];
    let primary = start(&dirs[0], &[]);
    let mut theirs = primary.connect();
    (0..100).for_each(|number| _ = theirs.call(&argv!["SET", format!("key:{number}"), "value"]));
    let mut replica = start(&dirs[1], &[]);
    let mut ours = replica.connect();
    ours.run("SET old data");
    let (folder, aside) = (dirs[1].0.join("appendonlydir"), dirs[1].0.join("aside"));
    std::fs::rename(&folder, &aside).expect("it is moved");
    std::fs::write(&folder, "no folder").expect("it is in the way");
    let port = primary.port().to_string();
    assert_eq!(ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
    let refused = "-MISCONF Errors writing to the AOF file: the append-only file could not be begun";
    wait_until("the log is missed", || ours.run("PING").to_string().contains(&refused[1..]));
    assert!(is_same(&mut theirs, &mut ours), "it follows all the same: {}", replica.log_tail());
    assert_eq!(info(&mut ours, "persistence", "aof_last_write_status"), "err");
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    assert!(ours.run("SET key:1 lost").to_string().contains(&refused[1..]));
    // The next start would have the data of the log before.
    assert!(ours.run("SHUTDOWN").to_string().contains("Errors trying to SHUTDOWN"));
    std::fs::remove_file(&folder).expect("it is removed");
    wait_until("the log begins", || ours.run("SET key:1 kept").text() == "OK");
    wait_until("it has a base", || info(&mut ours, "persistence", "aof_rewrite_in_progress") == "0");
    assert_eq!(info(&mut ours, "persistence", "aof_last_write_status"), "ok");
    ours.run("SET key:2 kept");
    wait_until("it is written", || ours.run("WAITAOF 1 0 1000").to_string().contains('1'));
    replica.signal("KILL");
    replica.wait_exit();
    let replica = start(&dirs[1], &[]);
    let mut ours = replica.connect();
    let values = ["key:0", "key:1", "key:2", "old"].map(|key| ours.call(&argv!["GET", key]));
    let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    assert_eq!(values, [bulk("value"), bulk("kept"), bulk("kept"), Value::Null(b'$')]);
}

/// Writes of all kinds in batches, until told to stop or until the server dies.
struct Load {
    ends: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin(server: &Server) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let writers = (0..3).map(|writer| {
            let (mut conn, ends) = (server.connect(), Arc::clone(&ends));
            conn.set_timeout(Duration::from_secs(8));
            std::thread::spawn(move || {
                for round in 0..1_000_000 {
                    if ends.load(Relaxed) || !write(&mut conn, writer, round) {
                        return;
                    }
                }
            })
        });
        Self { ends: Arc::clone(&ends), writers: writers.collect() }
    }

    fn end(self) {
        self.ends.store(true, Relaxed);
        self.writers.into_iter().for_each(|writer| writer.join().expect("it has written"));
    }
}

/// A batch; returns whether the server has answered.
fn write(conn: &mut Conn, writer: u32, round: u32) -> bool {
    let key = format!("{writer}:{}", round % 50);
    let script = "redis.call('SET', KEYS[1], ARGV[1]); redis.call('PUBLISH', 'c', ARGV[1]); return 1";
    let batch = [
        argv!["SELECT", (round % 3).to_string()],
        argv!["INCR", &key],
        argv!["MULTI"],
        argv!["RPUSH", format!("l{key}"), "y"],
        argv!["PUBLISH", "c", "x".repeat((round % 40) as usize)],
        argv!["EXEC"],
        argv!["MULTI"],
        argv!["LTRIM", format!("l{key}"), "-20", "-1"],
        argv!["SADD", format!("s{key}"), round.to_string()],
        argv!["EXEC"],
        argv!["SPOP", format!("s{key}")],
        argv!["EVAL", script, "1", format!("e{key}"), round.to_string()],
    ];
    conn.try_pipeline(&batch).is_ok()
}

fn kill(mut server: Server) {
    server.signal("KILL");
    server.wait_exit();
}

fn follow(replica: &mut Conn, primary: &Server) {
    let port = primary.port().to_string();
    assert_eq!(replica.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
}

#[test]
fn replicas_of_a_primary_that_is_killed_go_on_where_they_were() {
    kill_primaries("0");
}

#[test]
fn replicas_of_a_killed_primary_whose_replies_waited_for_them_go_on_where_they_were() {
    kill_primaries("1");
}

fn kill_primaries(durability_replicas: &str) {
    let dir = TempDir::new();
    let args = ["--appendfsync", "always", "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "16kb"];
    let args = [&args[..], &["--durability-replicas", durability_replicas]].concat();
    let mut primary = start(&dir, &args);
    let replicas = [start_replica(&primary, &[]), start_redis_replica(&primary, &[])];
    let mut conns = replicas.each_ref().map(Server::connect);
    conns.iter_mut().for_each(wait_for_link);
    for round in 0..3 {
        let load = Load::begin(&primary);
        std::thread::sleep(Duration::from_millis(400));
        if round == 1 {
            assert!(primary.connect().run("BGREWRITEAOF").text().contains("started"));
            std::thread::sleep(Duration::from_millis(300));
        }
        kill(primary);
        load.end();
        primary = start(&dir, &args);
        for conn in &mut conns {
            follow(conn, &primary);
        }
        let mut ours = primary.connect();
        ours.run("SET after kill");
        for conn in &mut conns {
            assert!(is_same(&mut ours, conn), "{}", primary.log_tail());
        }
        assert_eq!(info(&mut ours, "stats", "sync_full"), "0", "round {round}: {}", primary.log());
        assert_eq!(info(&mut ours, "stats", "sync_partial_ok"), "2");
    }
}

#[test]
fn a_replica_that_is_killed_goes_on_where_it_was() {
    let dirs = [TempDir::new(), TempDir::new()];
    let primary = start(&dirs[0], &["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"]);
    let port = primary.port().to_string();
    let replicaof = ["--replicaof", "127.0.0.1", &port];
    let mut replica = start(&dirs[1], &replicaof);
    wait_for_link(&mut replica.connect());
    wait_until("the log is complete", || info(&mut replica.connect(), "persistence", "aof_rewrite_in_progress") == "0");
    for _ in 0..3 {
        let load = Load::begin(&primary);
        std::thread::sleep(Duration::from_millis(400));
        kill(replica);
        std::thread::sleep(Duration::from_millis(100));
        load.end();
        replica = start(&dirs[1], &replicaof);
        let (mut theirs, mut ours) = (primary.connect(), replica.connect());
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
        assert_eq!(info(&mut theirs, "stats", "sync_full"), "1", "{}", replica.log());
    }
    // As a primary it serves those who were replicas of the same one.
    let digest = replica.connect().run("DEBUG DIGEST");
    kill(replica);
    let promoted = start(&dirs[1], &[]);
    let mut theirs = promoted.connect();
    assert_eq!(theirs.run("DEBUG DIGEST"), digest);
    let mut ours = primary.connect();
    follow(&mut ours, &promoted);
    theirs.run("SET after promotion");
    assert!(is_same(&mut theirs, &mut ours), "{}", promoted.log_tail());
}

#[test]
fn who_was_away_for_long_gets_what_is_on_the_disk() {
    let dirs = [TempDir::new(), TempDir::new(), TempDir::new()];
    let primary = start(&dirs[0], &["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "1mb"]);
    let port = primary.port().to_string();
    let save = ["--save", "3600 1"];
    let start_replicas = || {
        let dirs = [&dirs[1], &dirs[2]].map(|dir| dir.0.to_str().expect("a path"));
        let fixed = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--dir"];
        [
            Server::start_onrush(&[&fixed[..], &[dirs[0]], &save].concat()),
            Server::start_oracle(Oracle::Newer, &[&fixed[..], &[dirs[1]], &save].concat()),
        ]
    };
    let replicas = start_replicas();
    replicas.iter().for_each(|replica| wait_for_link(&mut replica.connect()));
    let mut ours = primary.connect();
    ours.run("SET before all");
    assert!(replicas.iter().all(|replica| is_same(&mut ours, &mut replica.connect())));
    for mut replica in replicas {
        replica.signal("TERM");
        assert!(replica.wait_exit().success());
    }
    let load = Load::begin(&primary);
    let value = "v".repeat(100_000);
    for number in 0..400 {
        ours.call(&argv!["SET", format!("large:{}", number % 20), value.as_str()]);
        ours.call(&argv!["PUBLISH", "c", "m".repeat(number * 100)]);
    }
    load.end();
    let first = info(&mut ours, "replication", "repl_backlog_first_byte_offset").parse::<u64>().expect("a number");
    let len = info(&mut ours, "replication", "repl_backlog_histlen").parse::<u64>().expect("a number");
    assert!(len > 40_000_000, "{first} {len}");
    let replicas = start_replicas();
    for replica in &replicas {
        assert!(is_same(&mut ours, &mut replica.connect()), "{}", primary.log_tail());
    }
    assert_eq!(info(&mut ours, "stats", "sync_full"), "2", "{}", primary.log_tail());
    assert_eq!(info(&mut ours, "stats", "sync_partial_ok"), "2");
    // They follow what comes next, which is in memory.
    let load = Load::begin(&primary);
    std::thread::sleep(Duration::from_millis(300));
    load.end();
    assert!(replicas.iter().all(|replica| is_same(&mut ours, &mut replica.connect())));
}

#[test]
fn redis_loads_a_log_with_notes() {
    let dir = TempDir::new();
    let mut primary = start(&dir, &["--repl-diskless-sync-delay", "0"]);
    let replica = start_replica(&primary, &[]);
    wait_for_link(&mut replica.connect());
    let load = Load::begin(&primary);
    std::thread::sleep(Duration::from_millis(300));
    load.end();
    let digest = primary.connect().run("DEBUG DIGEST");
    primary.signal("TERM");
    assert!(primary.wait_exit().success());
    let path = dir.0.to_str().expect("a path");
    let args = ["--dir", path, "--appendonly", "yes", "--enable-debug-command", "yes", "--save", ""];
    for oracle in Oracle::PARTNERS {
        let mut redis = Server::start_oracle(oracle, &args);
        assert_eq!(redis.connect().run("DEBUG DIGEST"), digest);
        redis.signal("TERM");
        redis.wait_exit();
    }
    let again = start(&dir, &[]);
    assert_eq!(again.connect().run("DEBUG DIGEST"), digest, "{}", again.log_tail());
}

//! A replica has the data of its primary: after a full sync, behind every family of commands, after cut links.

use std::time::Duration;

use onrush_tests::amount::seeds_fresh_at_night;
use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::diff::Action;
use onrush_tests::families::{FAMILIES, Generator};
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server, TempDir, wait_until};

const COMMANDS_PER_SEQUENCE: usize = 60;
const SEQUENCES: u64 = 24;

/// A primary that begins full syncs at once.
pub(super) fn start_primary(oracle: Oracle, args: &[&str]) -> Server {
    let fixed = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--save", ""];
    Server::start_oracle(oracle, &[&fixed, args].concat())
}

pub(super) fn start_replica(primary: &Server, args: &[&str]) -> Server {
    let port = primary.port().to_string();
    let fixed = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--save", ""];
    Server::start_onrush(&[&fixed, args].concat())
}

/// A field of a section of INFO.
pub(super) fn info(conn: &mut Conn, section: &str, field: &str) -> String {
    let text = conn.call(&argv!["INFO", section]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).trim().to_owned()
}

pub(super) fn wait_for_link(replica: &mut Conn) {
    wait_until("the link is up", || info(replica, "replication", "master_link_status") == "up");
}

/// Waits until the replica has executed all that the primary has sent; returns whether both have the same data then.
pub(super) fn is_same(primary: &mut Conn, replica: &mut Conn) -> bool {
    wait_for_link(replica);
    (0..50).any(|_| {
        wait_for_stream(primary, replica);
        if primary.call(&argv!["DEBUG", "DIGEST"]) == replica.call(&argv!["DEBUG", "DIGEST"]) {
            return true;
        }
        // A key may just have expired at the primary.
        std::thread::sleep(Duration::from_millis(20));
        false
    })
}

fn wait_for_stream(primary: &mut Conn, replica: &mut Conn) {
    wait_until("the replica has all of the stream", || {
        let sent = info(primary, "replication", "master_repl_offset");
        sent == info(replica, "replication", "slave_repl_offset")
    });
}

/// A new connection, since random commands may have killed those that were there.
pub(super) fn connect(server: &Server, password: Option<&str>) -> Conn {
    let mut conn = server.connect();
    if let Some(password) = password {
        assert_eq!(conn.call(&argv!["AUTH", password]).text(), "OK");
    }
    conn
}

/// Whether a redis-server and its replicas may have other data behind it: Redis 8 reads other numbers in SORT than all before
/// it and Onrush do, in hexadecimal or behind spaces; and Redis does not tell replicas that a BITFIELD that fails (OVERFLOW
/// FAIL) has made its string longer.
pub(super) fn leaves_other_data(argv: &Argv) -> bool {
    let has = |word: &str| argv.0.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let is = |name: &str| argv.0.first().is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()));
    is("SORT") && has("STORE") && !has("ALPHA") || is("BITFIELD") && has("FAIL")
}

/// The sequences of every family that `oracle` knows, from the first of them on after a full sync.
fn follow_families(oracle: Oracle) {
    // The probes change roles.
    for family in FAMILIES.iter().filter(|family| family.name != "probes") {
        let password = family.args.iter().position(|arg| *arg == "--requirepass").map(|at| family.args[at + 1]);
        let primary = start_primary(oracle, family.args);
        let auth = password.map_or_else(Vec::new, |password| vec!["--masterauth", password]);
        let replica = start_replica(&primary, &[&auth[..], family.args].concat());
        // The older one has digests of its own for some sorted sets, so another replica of it tells what its data is.
        let port = primary.port().to_string();
        let fixed = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--save", ""];
        let judge = (oracle != Oracle::Newer)
            .then(|| Server::start_oracle(Oracle::Newer, &[&fixed[..], &auth[..], family.args].concat()));
        let mut judge = judge.as_ref().map(|judge| connect(judge, password));
        let mut ours = connect(&replica, password);
        judge.iter_mut().chain([&mut ours]).for_each(wait_for_link);
        let mut generator = Generator::new(family, oracle);
        for seed in seeds_fresh_at_night(SEQUENCES) {
            let sequence = generator.sequence(&mut Rng::new(seed), 2, COMMANDS_PER_SEQUENCE);
            let mut conns: Vec<Option<Conn>> = (0..3).map(|_| None).collect();
            for step in &sequence.steps {
                let Action::Call { argv, .. } = &step.action else { continue };
                if leaves_other_data(argv) {
                    continue;
                }
                let conn = conns[step.conn].get_or_insert_with(|| primary.connect());
                conn.set_timeout(Duration::from_secs(8));
                if conn.try_call(argv).is_err() {
                    conns[step.conn] = None;
                }
            }
            let mut control = connect(&primary, password);
            if let Some(judge) = &mut judge {
                wait_for_stream(&mut control, judge);
                wait_for_stream(&mut control, &mut ours);
            }
            assert!(
                is_same(judge.as_mut().unwrap_or(&mut control), &mut ours),
                "{} with seed {seed}: the replica has other data\n{}",
                family.name,
                replica.log_tail()
            );
        }
        let log = replica.log();
        // Others let the counter of a group overflow, and send what no server takes.
        let is_known = |line: &str| oracle != Oracle::Newer && line.contains("'XGROUP'");
        // Valkey lets the time of a RESTORE overflow too. What fails behind that may need the key that is missing.
        let ends = |line: &str| {
            let is_restore = line.contains("'RESTORE'") || line.contains("'RESTORE-ASKING'");
            oracle == Oracle::Valkey && line.contains("fails here") && is_restore
        };
        let failed =
            log.lines().take_while(|line| !ends(line)).find(|line| line.contains("fails here") && !is_known(line));
        assert!(failed.is_none(), "{}: {failed:?}\n{log}", family.name);
    }
}

#[test]
fn a_replica_of_the_older_redis_follows_every_family() {
    follow_families(Oracle::Older);
}

#[test]
fn a_replica_of_the_newer_redis_follows_every_family() {
    follow_families(Oracle::Newer);
}

#[test]
fn a_replica_of_valkey_follows_every_family() {
    follow_families(Oracle::Valkey);
}

#[test]
fn a_primary_sends_the_limit_of_a_trim_that_was_approximate() {
    for oracle in Oracle::PARTNERS {
        let primary = start_primary(oracle, &[]);
        let replica = start_replica(&primary, &[]);
        let (mut theirs, mut ours) = (primary.connect(), replica.connect());
        wait_for_link(&mut ours);
        for n in 0..300 {
            theirs.call(&argv!["XADD", "s", "MAXLEN", "~", "100", "LIMIT", "150", "*", "n", n.to_string()]);
        }
        theirs.run("MULTI");
        theirs.run("XTRIM s MAXLEN ~ 20 LIMIT 100");
        theirs.run("XADD s MINID ~ 5 LIMIT 3 * n v");
        theirs.run("EXEC");
        wait_for_stream(&mut theirs, &mut ours);
        assert_eq!(ours.run("XLEN s"), theirs.run("XLEN s"));
        assert!(!replica.log().contains("fails here"), "{}", replica.log_tail());
    }
}

/// Commands that make a key of each type, some with times to live, in two databases, and a library.
pub(super) fn fill(conn: &mut Conn) {
    for line in [
        "SET string value EX 1000",
        "RPUSH list a b c",
        "HSET hash a 1 b 2",
        "SADD set a b 1",
        "SADD intset 1 2 3",
        "ZADD zset 1 a 2.5 b",
        "XADD stream 1-1 field value",
        "XGROUP CREATE stream group 0",
        "PFADD hll a b c",
        "SETBIT bits 1000 1",
        "SELECT 3",
        "SET other value",
        "SELECT 0",
        "DEBUG POPULATE 5000 key 100",
    ] {
        let reply = conn.run(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
    let library = "#!lua name=lib\nredis.register_function('f', function() return 'from the primary' end)";
    assert_eq!(conn.call(&argv!["FUNCTION", "LOAD", library]).text(), "lib");
}

#[test]
fn a_full_sync_replaces_all_data_in_both_forms() {
    for oracle in Oracle::PARTNERS {
        for diskless in ["yes", "no"] {
            let primary = start_primary(oracle, &["--repl-diskless-sync", diskless]);
            let mut theirs = primary.connect();
            fill(&mut theirs);
            let replica = Server::start_onrush(&["--enable-debug-command", "yes"]);
            let mut ours = replica.connect();
            ours.run("SET old value");
            ours.call(&argv!["FUNCTION", "LOAD", "#!lua name=old\nredis.register_function('g', function() end)"]);
            let mut watches = replica.connect();
            watches.run("WATCH string");
            watches.run("MULTI");
            watches.run("GET string");
            let port = primary.port().to_string();
            assert_eq!(ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
            assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
            assert_eq!(ours.run("EXISTS old"), Value::Int(0));
            assert!(ours.run("FCALL_RO f 0").is_error(), "it is no function without writes");
            assert_eq!(ours.call(&argv!["FUNCTION", "LIST"]).items().map(<[_]>::len), Some(1));
            assert_eq!(watches.run("EXEC"), Value::Null(b'*'), "the watched key has changed");
            assert_eq!(info(&mut theirs, "stats", "sync_full"), "1");
        }
    }
}

#[test]
fn a_link_that_is_cut_goes_on_where_it_was() {
    for oracle in Oracle::PARTNERS {
        let primary = start_primary(oracle, &["--repl-backlog-size", "16mb"]);
        let replica = start_replica(&primary, &["--workers", "2"]);
        let (mut theirs, mut ours) = (primary.connect(), replica.connect());
        wait_for_link(&mut ours);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let mut conn = primary.connect();
                std::thread::spawn(move || {
                    for number in 0..5_000 {
                        let key = format!("{writer}:{}", number % 50);
                        let batch = [argv!["INCR", &key], argv!["APPEND", format!("s{key}"), "x"], argv!["MULTI"]];
                        conn.pipeline(&[&batch[..], &[argv!["RPUSH", format!("l{key}"), "y"], argv!["EXEC"]]].concat());
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(150));
            theirs.run("CLIENT KILL TYPE replica");
            wait_for_link(&mut ours);
        }
        writers.into_iter().for_each(|writer| writer.join().expect("it has written"));
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
        assert_eq!(info(&mut theirs, "stats", "sync_full"), "1");
        let partial: u32 = info(&mut theirs, "stats", "sync_partial_ok").parse().expect("a number");
        assert!(partial >= 2, "{partial}\n{}", replica.log());
    }
}

#[test]
fn the_link_is_among_the_clients_of_both_sides() {
    let primary = start_primary(Oracle::Newer, &[]);
    let servers = [start_replica(&primary, &[]), {
        let port = primary.port().to_string();
        start_primary(Oracle::Newer, &["--replicaof", "127.0.0.1", &port])
    }];
    let mut theirs = primary.connect();
    servers.iter().for_each(|server| wait_for_link(&mut server.connect()));
    for server in &servers {
        let mut conn = server.connect();
        let full_syncs = info(&mut theirs, "stats", "sync_full");
        wait_until("it is idle", || {
            theirs.run("SELECT 3");
            theirs.run("INCR n");
            let line = conn.run("CLIENT LIST TYPE master").text();
            line.contains(" flags=M db=3 ") && line.contains(&format!("addr=127.0.0.1:{}", primary.port()))
        });
        assert_eq!(conn.run("CLIENT LIST TYPE master").text().lines().count(), 1);
        assert_eq!(info(&mut conn, "clients", "connected_clients"), "2", "the link counts");
        assert_eq!(conn.run("CLIENT KILL TYPE master"), Value::Int(1));
        wait_until("it is another one", || conn.run("CLIENT LIST TYPE master").text().contains(" flags=M "));
        assert!(is_same(&mut theirs, &mut conn), "{}", server.log_tail());
        assert_eq!(info(&mut theirs, "stats", "sync_full"), full_syncs);
        conn.run("REPLICAOF NO ONE");
        wait_until("it is gone", || conn.run("CLIENT LIST TYPE master").text().is_empty());
        conn.call(&argv!["REPLICAOF", "127.0.0.1", primary.port().to_string()]);
        wait_for_link(&mut conn);
    }
    assert_eq!(info(&mut theirs, "clients", "connected_clients"), "1");
    // The same of this server with a replica.
    let ours = Server::start_onrush(&[]);
    let mut conn = ours.connect();
    let before = info(&mut conn, "memory", "used_memory_overhead").parse::<u64>().unwrap();
    let replica = start_replica(&ours, &[]);
    // What is written before the cut is part of the data and not of the backlog.
    wait_until("it has all data", || conn.run("INFO replication").text().contains("state=online"));
    assert_eq!(info(&mut conn, "clients", "connected_clients"), "1");
    conn.call(&argv!["SET", "key", "x".repeat(1 << 20)]);
    for field in ["mem_replication_backlog", "mem_total_replication_buffers", "mem_clients_slaves"] {
        wait_until(field, || info(&mut conn, "memory", field) != "0");
    }
    wait_until("it is overhead", || {
        info(&mut conn, "memory", "used_memory_overhead").parse::<u64>().unwrap() > before + (1 << 20)
    });
    conn.call(&argv!["SET", "key", "x".repeat(1 << 20)]);
    let mut theirs = replica.connect();
    wait_until("it is counted", || info(&mut conn, "stats", "instantaneous_output_repl_kbps") != "0.00");
    conn.call(&argv!["SET", "key", "x".repeat(1 << 20)]);
    wait_until("it is counted", || info(&mut theirs, "stats", "instantaneous_input_repl_kbps") != "0.00");
}

#[test]
fn a_large_command_leaves_no_memory_behind() {
    const LEN: usize = 64 << 20;
    let primary = Server::start_onrush(&["--save", ""]);
    let replica = start_replica(&primary, &[]);
    let (mut ours, mut theirs) = (primary.connect(), replica.connect());
    wait_for_link(&mut theirs);
    let before = info(&mut theirs, "memory", "used_memory").parse::<usize>().expect("a number");
    assert_eq!(ours.call(&argv!["SET", "large", vec![b'x'; LEN]]).text(), "OK");
    let many = (0..200_000).flat_map(|n| [format!("key:{n}").into_bytes(), vec![b'v'; 100]]);
    let many = Argv([b"MSET".to_vec()].into_iter().chain(many).collect());
    assert_eq!(ours.call(&many).text(), "OK");
    assert_eq!(ours.run("FLUSHALL").text(), "OK");
    assert_eq!(ours.run("SET small v").text(), "OK");
    wait_until("it is there", || theirs.run("GET small").bytes().is_some());
    wait_until("the memory is given back", || {
        let now = info(&mut theirs, "memory", "used_memory").parse::<usize>().expect("a number");
        now < before + (8 << 20)
    });
}

#[test]
fn scripts_see_no_stale_data_either() {
    let mut replies = Vec::new();
    for oracle in [false, true] {
        let primary = Server::start_onrush(&["--save", ""]);
        let port = primary.port().to_string();
        let args = ["--replicaof", "127.0.0.1", &port, "--save", "", "--replica-serve-stale-data", "no"];
        let replica = if oracle { Server::start_oracle(Oracle::Newer, &args) } else { Server::start_onrush(&args) };
        let (mut ours, mut theirs) = (primary.connect(), replica.connect());
        wait_for_link(&mut theirs);
        let library = "#!lua name=l\nredis.register_function{function_name='f', callback=function() return \
                       redis.pcall('GET', 'a') end, flags={'no-writes'}}";
        assert!(!ours.call(&argv!["FUNCTION", "LOAD", library]).is_error());
        assert_eq!(ours.run("SET a stale").text(), "OK");
        wait_until("it is there", || theirs.run("GET a").bytes().is_some());
        drop(primary);
        wait_until("the link is down", || theirs.run("GET a").is_error());
        let get = "return redis.pcall('GET', 'a')";
        let scripts = [
            "",
            "#!lua\n",
            "#!lua flags=no-writes\n",
            "#!lua flags=allow-stale\n",
            "#!lua flags=allow-stale,no-writes\n",
        ];
        let mut asked: Vec<Argv> = Vec::new();
        for script in scripts {
            for name in ["EVAL", "EVAL_RO"] {
                asked.push(argv![name, format!("{script}{get}"), "0"]);
                asked.push(argv![name, format!("{script}return redis.call('PING')"), "0"]);
            }
        }
        asked.extend([argv!["FCALL", "f", "0"], argv!["FCALL_RO", "f", "0"], argv!["EVAL", "return 1", "0"]]);
        asked.extend([argv!["MULTI"], argv!["EVAL", get, "0"], argv!["EXEC"]]);
        replies.push(asked.iter().map(|argv| (argv.to_string(), theirs.call(argv))).collect::<Vec<_>>());
    }
    for (ours, theirs) in replies[0].iter().zip(&replies[1]) {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn a_backlog_that_is_too_small_means_another_full_sync() {
    let primary = start_primary(Oracle::Newer, &["--repl-backlog-size", "16kb", "--repl-backlog-ttl", "3600"]);
    let replica = start_replica(&primary, &[]);
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    wait_for_link(&mut ours);
    replica.signal("STOP");
    theirs.run("CLIENT KILL TYPE replica");
    for number in 0..100 {
        theirs.call(&argv!["SET", format!("key:{number}"), "x".repeat(1000)]);
    }
    replica.signal("CONT");
    wait_until("there was another full sync", || info(&mut theirs, "stats", "sync_full") == "2");
    assert!(is_same(&mut theirs, &mut ours));
}

#[test]
fn waiting_for_the_replica_ends_soon() {
    let primary = start_primary(Oracle::Newer, &[]);
    let replica = start_replica(&primary, &["--appendonly", "yes", "--appendfsync", "always"]);
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    wait_for_link(&mut ours);
    for number in 0..20 {
        theirs.call(&argv!["SET", "key", number.to_string()]);
        assert_eq!(theirs.run("WAIT 1 5000"), Value::Int(1));
    }
    theirs.run("SET key last");
    assert_eq!(theirs.run("WAITAOF 0 1 10000").items(), Some(&[Value::Int(0), Value::Int(1)][..]));
}

#[test]
fn a_replica_with_a_log_has_all_data_after_its_death() {
    let primary = start_primary(Oracle::Newer, &[]);
    let mut theirs = primary.connect();
    fill(&mut theirs);
    let port = primary.port().to_string();
    let replica = start_replica(&primary, &["--appendonly", "yes"]);
    let mut ours = replica.connect();
    for number in 0..1000 {
        theirs.call(&argv!["SET", format!("later:{number}"), "x"]);
    }
    assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
    let digest = ours.call(&argv!["DEBUG", "DIGEST"]);
    wait_until("the log is complete", || info(&mut ours, "persistence", "aof_rewrite_in_progress") == "0");
    ours.call(&argv!["REPLICAOF", "NO", "ONE"]);
    ours.call(&argv!["DEBUG", "LOADAOF"]);
    assert_eq!(ours.call(&argv!["DEBUG", "DIGEST"]), digest, "{}", replica.log_tail());
    assert_eq!(ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
    assert!(is_same(&mut theirs, &mut ours));
}

/// The stream waits for what has the replica's keyspace: a command that is refused for that would be lost.
#[test]
fn a_replica_that_is_busy_loses_nothing() {
    // The time that a script takes, in seconds; 0: a transaction that has the whole keyspace.
    for (threshold, is_of_redis, script_s) in [("200", true, 7), ("0", false, 2), ("20", false, 0)] {
        let primary = if is_of_redis {
            start_primary(Oracle::Newer, &[])
        } else {
            Server::start_onrush(&["--enable-debug-command", "yes", "--save", ""])
        };
        let replica = start_replica(&primary, &["--busy-reply-threshold", threshold, "--repl-timeout", "4"]);
        let (mut theirs, mut ours) = (primary.connect(), replica.connect());
        wait_for_link(&mut ours);
        theirs.run("EVAL \"for i = 1, 500 do redis.call('RPUSH', 'list', i) end\" 0");
        theirs.run("CONFIG SET repl-timeout 4");
        wait_for_stream(&mut theirs, &mut ours);
        let busy = std::thread::spawn(move || {
            ours.set_timeout(Duration::from_secs(60));
            match script_s {
                0 => {
                    let sort = argv!["SORT_RO", "list", "BY", "w_*", "GET", "v_*", "ALPHA"];
                    ours.pipeline(&[vec![argv!["MULTI"]], vec![sort; 500], vec![argv!["EXEC"]]].concat());
                }
                _ => {
                    let script = "local t = redis.call('TIME')[1] + ARGV[1] while redis.call('TIME')[1] + 0 < t do end";
                    ours.call(&argv!["EVAL_RO", script, "0", script_s.to_string()]);
                }
            }
            ours
        });
        // Some before it is busy, most while it is.
        for number in 0..300 {
            theirs.call(&argv!["SET", format!("key:{number}"), "value"]);
            theirs.pipeline(&[argv!["MULTI"], argv!["INCR", "one"], argv!["INCR", "two"], argv!["EXEC"]]);
            std::thread::sleep(Duration::from_millis(6));
        }
        let mut ours = busy.join().expect("it was busy");
        wait_for_stream(&mut theirs, &mut ours);
        assert!(is_same(&mut theirs, &mut ours), "threshold {threshold}: {}", replica.log_tail());
        assert_eq!(ours.run("GET two").text(), "300");
        // Nobody took the link for dead meanwhile.
        assert_eq!(info(&mut theirs, "stats", "sync_full"), "1", "{}", replica.log());
    }
}

/// A replica may begin with a file of its primary, though the stream was in another database at its cut.
#[test]
fn a_snapshot_of_the_primary_begins_a_replica() {
    let dirs = [TempDir::new(), TempDir::new(), TempDir::new()];
    let [dir, seeded, of_redis] = dirs.each_ref().map(|dir| dir.0.to_str().expect("a path"));
    let primary = Server::start_onrush(&["--dir", dir, "--enable-debug-command", "yes", "--save", ""]);
    let port = primary.port().to_string();
    let replica = start_replica(&primary, &[]);
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    wait_for_link(&mut ours);
    for db in ["3", "5"] {
        theirs.call(&argv!["SELECT", db]);
        (0..100).for_each(|number| _ = theirs.call(&argv!["SET", format!("key:{number}"), "value"]));
    }
    assert_eq!(theirs.run("SAVE").text(), "OK");
    (0..100).for_each(|number| _ = theirs.call(&argv!["APPEND", format!("key:{number}"), "more"]));
    for dir in [seeded, of_redis] {
        std::fs::copy(dirs[0].0.join("dump.rdb"), std::path::Path::new(dir).join("dump.rdb")).expect("copied");
    }
    let args = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--save", ""];
    let started = [
        Server::start_onrush(&[&["--dir", seeded], &args[..]].concat()),
        Server::start_oracle(Oracle::Newer, &[&["--dir", of_redis], &args[..]].concat()),
    ];
    for replica in &started {
        let mut ours = replica.connect();
        wait_for_link(&mut ours);
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
    }
    assert_eq!(info(&mut theirs, "stats", "sync_full"), "1", "{}", primary.log());
    assert_eq!(info(&mut theirs, "stats", "sync_partial_ok"), "2", "{}", primary.log());
}

/// A replica and a primary that are restarted, with and without a log: the stream goes on where it was.
#[test]
fn a_restart_ends_in_a_partial_resync() {
    for log in ["no", "yes"] {
        let dirs = [TempDir::new(), TempDir::new()];
        let start = |nth: usize, more: &[&str]| {
            let dir = dirs[nth].0.to_str().expect("a path");
            Server::start_onrush(
                &[&["--dir", dir, "--appendonly", log, "--enable-debug-command", "yes", "--save", "3600 1"], more]
                    .concat(),
            )
        };
        let mut primary = start(0, &[]);
        let port = primary.port().to_string();
        let replicaof = ["--replicaof", "127.0.0.1", &port];
        let mut replica = start(1, &replicaof);
        let (mut theirs, mut ours) = (primary.connect(), replica.connect());
        wait_for_link(&mut ours);
        theirs.run("SELECT 2");
        (0..100).for_each(|number| _ = theirs.call(&argv!["SET", format!("key:{number}"), "value"]));
        assert!(is_same(&mut theirs, &mut ours));
        replica.signal("TERM");
        assert!(replica.wait_exit().success());
        (0..100).for_each(|number| _ = theirs.call(&argv!["INCR", format!("count:{}", number % 7)]));
        let replica = start(1, &replicaof);
        let mut ours = replica.connect();
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
        assert_eq!(info(&mut theirs, "stats", "sync_full"), "1", "log {log}: {}", replica.log());
        assert_eq!(info(&mut theirs, "stats", "sync_partial_ok"), "1");
        // The primary, at another port.
        replica.signal("STOP");
        let id = info(&mut theirs, "replication", "master_replid");
        primary.signal("TERM");
        assert!(primary.wait_exit().success());
        replica.signal("CONT");
        let primary = start(0, &[]);
        let mut theirs = primary.connect();
        let port = primary.port().to_string();
        ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]);
        let replicaof = ["--replicaof", "127.0.0.1", &port];
        theirs.run("SET after restart");
        assert!(is_same(&mut theirs, &mut ours), "{}", primary.log_tail());
        assert_eq!(info(&mut theirs, "stats", "sync_full"), "0", "log {log}: {}", primary.log());
        assert_eq!(info(&mut theirs, "replication", "master_replid2"), id);
        // The log knows what has come since; the snapshot does not.
        let mut replica = replica;
        replica.signal("KILL");
        replica.wait_exit();
        let replica = start(1, &replicaof);
        let mut ours = replica.connect();
        theirs.run("SET after kill");
        assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
        if log == "yes" {
            assert_eq!(info(&mut theirs, "stats", "sync_full"), "0", "{}", replica.log());
        }
    }
}

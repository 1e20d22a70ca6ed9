//! Redis as the replica of Onrush, and Onrush in the middle of a chain.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use onrush_tests::amount::seeds_fresh_at_night;
use onrush_tests::argv;
use onrush_tests::client::Conn;
use onrush_tests::diff::Action;
use onrush_tests::families::{FAMILIES, Family, Generator};
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server, wait_until};

use crate::follows::{connect, fill, info, is_same, leaves_other_data, start_primary, start_replica, wait_for_link};

const COMMANDS_PER_SEQUENCE: usize = 60;
const SEQUENCES: u64 = 24;

/// Onrush as a primary.
fn start(args: &[&str]) -> Server {
    let fixed = ["--enable-debug-command", "yes", "--save", "", "--workers", "2"];
    Server::start_onrush(&[&fixed, args].concat())
}

/// A replica that is another server.
fn start_redis_replica(oracle: Oracle, primary: &Server, args: &[&str]) -> Server {
    let port = primary.port().to_string();
    let fixed = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--save", ""];
    // Its own replicas need not wait for others.
    let hasty = ["--repl-diskless-sync-delay", "0"];
    Server::start_oracle(oracle, &[&fixed[..], &hasty, args].concat())
}

/// Runs a family's sequences on a server and calls `check` behind each.
fn run_family(primary: &Server, family: &Family, oracle: Oracle, mut check: impl FnMut(u64)) {
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
        check(seed);
    }
}

/// A replica that is another server has the data that every family of commands makes here.
fn follow_families(oracle: Oracle) {
    for family in FAMILIES.iter().filter(|family| family.name != "probes") {
        let password = family.args.iter().position(|arg| *arg == "--requirepass").map(|at| family.args[at + 1]);
        let primary = start(family.args);
        let auth = password.map_or_else(Vec::new, |password| vec!["--masterauth", password]);
        let replica = start_redis_replica(oracle, &primary, &[&auth[..], family.args].concat());
        // The others have digests of their own for some sorted sets, so a replica of theirs tells what their data is.
        let judge = (oracle != Oracle::Newer)
            .then(|| start_redis_replica(Oracle::Newer, &replica, &[&auth[..], family.args].concat()));
        let mut theirs = connect(judge.as_ref().unwrap_or(&replica), password);
        wait_for_link(&mut theirs);
        run_family(&primary, family, oracle, |seed| {
            assert!(
                is_same(&mut connect(&primary, password), &mut theirs),
                "{} with seed {seed}: the replica has other data\n{}",
                family.name,
                replica.log_tail()
            );
        });
        let log = replica.log();
        assert!(!log.contains("CRITICAL"), "{}: {log}", family.name);
    }
}

#[test]
fn redis_follows_every_family() {
    follow_families(Oracle::Newer);
}

#[test]
fn valkey_follows_every_family() {
    follow_families(Oracle::Valkey);
}

#[test]
fn a_chain_of_three_has_the_same_data_everywhere() {
    for family in FAMILIES.iter().filter(|family| family.name != "probes" && family.args.is_empty()).take(8) {
        let first = start_primary(Oracle::Newer, &[]);
        let second = start_replica(&first, &[]);
        let third = start_redis_replica(Oracle::Newer, &second, &[]);
        let fourth = start_replica(&second, &[]);
        let [mut b, mut c, mut d] = [&second, &third, &fourth].map(Server::connect);
        [&mut b, &mut c, &mut d].into_iter().for_each(wait_for_link);
        run_family(&first, family, Oracle::Newer, |seed| {
            for replica in [&mut b, &mut c, &mut d] {
                assert!(is_same(&mut first.connect(), replica), "{} with seed {seed}", family.name);
            }
        });
        let id = info(&mut first.connect(), "replication", "master_replid");
        assert!(
            [&mut b, &mut c, &mut d]
                .map(|conn| info(conn, "replication", "master_replid"))
                .iter()
                .all(|own| *own == id)
        );
        // The middle one becomes the primary: those below go on where they were.
        assert_eq!(b.call(&argv!["REPLICAOF", "NO", "ONE"]).text(), "OK");
        b.run("SELECT 5");
        b.run("SET new value");
        [&mut c, &mut d].into_iter().for_each(wait_for_link);
        assert!(is_same(&mut b, &mut c) && is_same(&mut b, &mut d), "{}", fourth.log_tail());
        assert_eq!(info(&mut b, "stats", "sync_full"), "2", "{}", second.log());
        assert_eq!(info(&mut d, "replication", "master_replid2"), id);
    }
}

#[test]
fn the_partners_take_all_types_and_one_snapshot_serves_several() {
    let primary = start(&[]);
    let mut ours = primary.connect();
    fill(&mut ours);
    let replicas = Oracle::PARTNERS.map(|oracle| start_redis_replica(oracle, &primary, &[]));
    let mut theirs = replicas.each_ref().map(Server::connect);
    for conn in &mut theirs {
        wait_for_link(conn);
        assert!(is_same(&mut ours, conn));
        assert_eq!(conn.call(&argv!["FUNCTION", "LIST"]).items().map(<[_]>::len), Some(1));
    }
    wait_until("all are online", || {
        ours.run("ROLE").items().and_then(|items| items[2].items()).map(<[_]>::len) == Some(3)
    });
    assert_eq!(info(&mut ours, "replication", "connected_slaves"), "3");
    let list = ours.run("CLIENT LIST TYPE replica").text();
    assert_eq!(list.lines().filter(|line| line.contains(" flags=S ")).count(), 3, "{list}");
}

#[test]
fn a_replica_that_is_cut_off_goes_on_where_it_was() {
    let primary = start(&["--repl-backlog-size", "16mb"]);
    let replicas = Oracle::PARTNERS.map(|oracle| start_redis_replica(oracle, &primary, &[]));
    let mut ours = primary.connect();
    let mut theirs = replicas.each_ref().map(Server::connect);
    theirs.iter_mut().for_each(wait_for_link);
    let full = info(&mut ours, "stats", "sync_full");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let mut conn = primary.connect();
            std::thread::spawn(move || {
                for number in 0..5_000 {
                    let key = format!("{writer}:{}", number % 50);
                    let batch = [argv!["INCR", &key], argv!["APPEND", format!("s{key}"), "x"], argv!["MULTI"]];
                    let more = [
                        argv!["RPUSH", format!("l{key}"), "y"],
                        argv!["EXEC"],
                        argv!["SELECT", (number % 3).to_string()],
                    ];
                    conn.pipeline(&[&batch[..], &more].concat());
                }
            })
        })
        .collect();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(150));
        ours.run("CLIENT KILL TYPE replica");
        theirs.iter_mut().for_each(wait_for_link);
    }
    writers.into_iter().for_each(|writer| writer.join().expect("it has written"));
    for conn in &mut theirs {
        assert!(is_same(&mut ours, conn), "{}", primary.log_tail());
    }
    assert_eq!(info(&mut ours, "stats", "sync_full"), full);
    assert!(info(&mut ours, "stats", "sync_partial_ok").parse::<u32>().expect("a number") >= 4);
}

#[test]
fn what_a_slow_replica_lacks_is_in_files_and_meets_no_limit_of_memory() {
    let limits = ["--client-output-buffer-limit", "replica 40mb 20mb 1", "--repl-backlog-size", "16kb"];
    let primary = start(&limits);
    let replica = start_replica(&primary, &[]);
    let mut theirs = replica.connect();
    wait_for_link(&mut theirs);
    let mut ours = primary.connect();
    wait_until("it is online", || info(&mut ours, "replication", "slave0").contains("state=online"));
    let before = primary.rss_kb();
    replica.signal("STOP");
    let value = "v".repeat(1 << 20);
    for number in 0..200 {
        ours.call(&argv!["SET", format!("key:{}", number % 10), value.as_str()]);
    }
    // The soft limit has a second.
    std::thread::sleep(Duration::from_secs(3));
    let grown = primary.rss_kb().saturating_sub(before);
    replica.signal("CONT");
    assert!(is_same(&mut ours, &mut theirs), "{}", primary.log_tail());
    assert_eq!(info(&mut ours, "stats", "sync_full"), "1", "{}", primary.log());
    assert!(grown < 100 << 10, "{grown} KB");
}

#[test]
fn a_replica_that_passes_its_limit_is_closed_and_counted() {
    let primary = start(&["--client-output-buffer-limit", "replica 2mb 1mb 2"]);
    let replica = start_replica(&primary, &[]);
    wait_for_link(&mut replica.connect());
    let mut ours = primary.connect();
    wait_until("it is online", || info(&mut ours, "replication", "slave0").contains("state=online"));
    replica.signal("STOP");
    let value = "v".repeat(1 << 20);
    wait_until("it is closed", || {
        ours.call(&argv!["SET", "key", value.as_str()]);
        info(&mut ours, "replication", "connected_slaves") == "0"
    });
    assert_eq!(info(&mut ours, "stats", "client_output_buffer_limit_disconnections"), "1");
    assert_eq!(info(&mut ours, "stats", "sync_full"), "1");
    assert_eq!(ours.run("CONFIG RESETSTAT").text(), "OK");
    for field in ["client_output_buffer_limit_disconnections", "sync_full", "total_net_repl_output_bytes"] {
        assert_eq!(info(&mut ours, "stats", field), "0", "{field}");
    }
    replica.signal("CONT");
}

#[test]
fn a_full_sync_under_load_ends_though_the_backlog_is_small() {
    let primary = start(&["--repl-backlog-size", "16kb"]);
    let mut ours = primary.connect();
    ours.run("DEBUG POPULATE 200000 key 200");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (mut conn, stop) = (primary.connect(), std::sync::Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut rng = Rng::new(writer);
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let batch: Vec<_> = (0..200)
                        .map(|_| argv!["SET", format!("key:{}", rng.below(200_000)), "v".repeat(300)])
                        .collect();
                    conn.pipeline(&batch);
                }
            })
        })
        .collect();
    let replicas = [start_redis_replica(Oracle::Newer, &primary, &[]), start_replica(&primary, &[])];
    let mut theirs = replicas.each_ref().map(Server::connect);
    theirs.iter_mut().for_each(wait_for_link);
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("it has written"));
    for conn in &mut theirs {
        assert!(is_same(&mut ours, conn), "{}", primary.log_tail());
    }
    assert_eq!(info(&mut ours, "stats", "sync_full"), "2", "{}", primary.log());
}

#[test]
fn data_that_is_loaded_anew_goes_to_replicas_as_a_whole() {
    let primary = start(&["--appendonly", "yes"]);
    let replica = start_redis_replica(Oracle::Newer, &primary, &[]);
    let (mut ours, mut theirs) = (primary.connect(), replica.connect());
    wait_for_link(&mut theirs);
    (0..100).for_each(|number| _ = ours.call(&argv!["RPUSH", "list", number.to_string()]));
    assert!(is_same(&mut ours, &mut theirs));
    assert_eq!(ours.run("DEBUG LOADAOF").text(), "OK");
    ours.run("RPUSH list last");
    wait_until("all data has come anew", || info(&mut ours, "stats", "sync_full") == "2");
    assert!(is_same(&mut ours, &mut theirs));
    assert_eq!(theirs.run("LLEN list"), Value::Int(101));
}

#[test]
fn a_bitfield_that_fails_and_makes_its_string_longer_goes_to_replicas() {
    let primary = start(&[]);
    let redis = start_redis_replica(Oracle::Newer, &primary, &[]);
    let replica = start_replica(&primary, &[]);
    let mut ours = primary.connect();
    let mut theirs = [redis.connect(), replica.connect()];
    theirs.iter_mut().for_each(wait_for_link);
    ours.run("SET string 5.");
    for line in ["BITFIELD string OVERFLOW FAIL INCRBY u1 100 -6", "BITFIELD made OVERFLOW FAIL INCRBY u1 100 -6"] {
        assert_eq!(ours.run(line), Value::Array(vec![Value::Null(b'$')]), "{line}");
    }
    ours.run("APPEND string x");
    for conn in &mut theirs {
        assert!(is_same(&mut ours, conn), "{}", primary.log_tail());
        assert_eq!(conn.run("STRLEN string"), Value::Int(14));
        assert_eq!(conn.run("STRLEN made"), Value::Int(13));
    }
}

/// What servers find differently in a range goes to replicas by its ranks.
#[test]
fn ranges_that_servers_find_differently_go_to_replicas_by_rank() {
    let primary = start(&[]);
    let replicas: Vec<Server> = Oracle::PARTNERS.into_iter().map(|it| start_redis_replica(it, &primary, &[])).collect();
    let replica = start_replica(&primary, &[]);
    let mut ours = primary.connect();
    let mut theirs: Vec<Conn> = replicas.iter().chain([&replica]).map(Server::connect).collect();
    theirs.iter_mut().for_each(wait_for_link);
    let members: String = (0..300).map(|n| format!(" {} m{}", n % 7, n * 7919 % 300)).collect();
    for line in [
        &format!("ZADD large{members}"),
        "ZADD small 1 c 3 -1 4 1 5 d 6 2",
        "ZADD target 1 old",
        "ZRANGESTORE target small (b + BYLEX LIMIT 0 2",
        "ZRANGESTORE target small + [a BYLEX REV",
        "ZRANGESTORE other large [m1 (m5 BYLEX LIMIT 3 5",
        "ZRANGESTORE hex large 0x2 0x3 BYSCORE",
        "ZREMRANGEBYLEX large [m1 [m2",
        "ZREMRANGEBYLEX small [a [c",
        "ZREMRANGEBYSCORE large ' 1' 1",
        "ZREMRANGEBYSCORE large (0x4 0x5",
        "ZRANGESTORE hex large 0x50 0x60 BYSCORE",
        "ZRANGESTORE nothing large 0x50 0x60 BYSCORE",
        "ZREMRANGEBYLEX small - +",
        "ZREMRANGEBYSCORE large 0x0 0x1",
    ] {
        let reply = ours.run(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        for conn in &mut theirs {
            for key in ["small", "large", "target", "other", "hex", "nothing"] {
                let ask = argv!["ZRANGE", key, "0", "-1", "WITHSCORES"];
                wait_until(&format!("{key} is the same behind {line}"), || ours.call(&ask) == conn.call(&ask));
            }
        }
    }
}

/// Asks for all data without telling that it takes a mark, and reads the beginning of the reply.
fn sync(primary: &Server) -> (TcpStream, u64) {
    let mut stream = TcpStream::connect(("127.0.0.1", primary.port())).expect("a connection");
    std::io::Write::write_all(&mut stream, b"SYNC\r\n").expect("it is sent");
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a byte");
        match byte[0] {
            b'\r' => {}
            b'\n' if line.is_empty() => {}
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    let text = String::from_utf8(line).expect("a line");
    (stream, text.strip_prefix('$').expect("a length").parse().expect("a number"))
}

#[test]
fn data_with_its_length_told_is_a_file_and_the_stream_follows() {
    let primary = start(&[]);
    let mut ours = primary.connect();
    fill(&mut ours);
    let (mut stream, len) = sync(&primary);
    let mut file = vec![0; len as usize];
    stream.read_exact(&mut file).expect("the data");
    assert!(file.starts_with(b"REDIS0010"), "7.0 takes version 10");
    let path = primary.dir().join("copy.rdb");
    std::fs::write(&path, &file).expect("it is written");
    let copy = Server::start_redis(&[
        "--dir",
        primary.dir().to_str().expect("a path"),
        "--dbfilename",
        "copy.rdb",
        "--enable-debug-command",
        "yes",
    ]);
    let mut copied = copy.connect();
    assert_eq!(copied.call(&argv!["DEBUG", "DIGEST"]), ours.call(&argv!["DEBUG", "DIGEST"]));
    ours.run("SET key value");
    let wanted = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    let mut bytes = vec![0; wanted.len()];
    stream.read_exact(&mut bytes).expect("the stream");
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(wanted));
}

#[test]
fn a_replica_that_takes_nothing_or_sends_nonsense_is_closed() {
    let primary = start(&["--repl-timeout", "2"]);
    let mut ours = primary.connect();
    ours.run("DEBUG POPULATE 200000 key 200");
    let (stream, _) = sync(&primary);
    wait_until("the one that does not read is gone", || primary.log().contains("is silent for repl-timeout"));
    assert_eq!(info(&mut ours, "replication", "connected_slaves"), "0");
    drop(stream);
    for nonsense in [
        &b"SET key value\r\n"[..],
        b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\nv\r\n",
        b"*1\r\n$99999999\r\n",
        b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$9\r\n999999999\r\n",
    ] {
        let (mut stream, _) = sync(&primary);
        std::io::Write::write_all(&mut stream, nonsense).expect("it is sent");
        wait_until("it is gone", || info(&mut ours, "replication", "connected_slaves") == "0");
    }
    assert_eq!(ours.run("EXISTS key"), Value::Int(0), "what a replica sends is not executed");
}

#[test]
fn a_replica_that_loads_for_long_is_not_silent_while_it_sends_line_ends() {
    let primary = start(&["--repl-timeout", "2"]);
    let mut ours = primary.connect();
    fill(&mut ours);
    let (mut stream, len) = sync(&primary);
    let mut file = vec![0; len as usize];
    stream.read_exact(&mut file).expect("the data");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(400));
        std::io::Write::write_all(&mut stream, b"\n").expect("it is there");
    }
    assert_eq!(info(&mut ours, "replication", "connected_slaves"), "1", "{}", primary.log_tail());
    wait_until("it is silent", || info(&mut ours, "replication", "connected_slaves") == "0");
}

#[test]
fn a_hundred_replicas_at_once_share_their_data() {
    let primary = start(&[]);
    let mut ours = primary.connect();
    fill(&mut ours);
    let before = primary.rss_kb();
    let streams: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", primary.port())).expect("a connection");
            std::io::Write::write_all(&mut stream, b"SYNC\r\n").expect("it is sent");
            stream
        })
        .collect();
    wait_until("all have it", || {
        let text = ours.run("INFO replication").text();
        text.matches("state=online").count() == 100
    });
    let snapshots = primary.log().matches("Data for replicas is ready").count();
    assert!(snapshots <= 3, "{snapshots}");
    assert!(primary.rss_kb() < before + 100_000, "{before} -> {}", primary.rss_kb());
    drop(streams);
    wait_until("all are gone", || info(&mut ours, "replication", "connected_slaves") == "0");
}

/// Asks for all data and waits until the link ends; returns how long that took, and whether any data came.
fn try_to_sync(primary: &Server) -> (Duration, bool) {
    let asked = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", primary.port())).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    std::io::Write::write_all(&mut stream, b"SYNC\r\n").expect("it is sent");
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            // The primary is not silent meanwhile.
            Ok(1) if byte[0] == b'\n' => {}
            Ok(len) => return (asked.elapsed(), len == 1),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return (asked.elapsed(), false),
            Err(error) => panic!("{error} after {:?}", asked.elapsed()),
        }
    }
}

#[test]
fn a_disk_that_refuses_the_data_for_replicas_is_tried_less_and_less_often() {
    let primary = start(&["--repl-diskless-sync-delay", "0"]);
    let mut ours = primary.connect();
    ours.run("DEBUG POPULATE 200000 key 200");
    primary.limit_files(Some(1 << 20));
    for pause in [0, 1, 2] {
        let (took, has_data) = try_to_sync(&primary);
        assert!(!has_data && took >= Duration::from_millis(950 * pause), "{took:?} instead of {pause} s");
        assert_eq!(ours.run("SET key value").text(), "OK");
    }
    primary.limit_files(None);
    let (took, has_data) = try_to_sync(&primary);
    assert!(has_data && took >= Duration::from_millis(3800), "{took:?}");
    wait_until("the end of the one that has gone", || info(&mut ours, "replication", "connected_slaves") == "0");
    // What has worked once is not waited for.
    let (took, has_data) = try_to_sync(&primary);
    assert!(has_data && took < Duration::from_secs(4), "{took:?}");
}

//! Replies that wait for replicas: CLIENT DURABILITY and `durability-replicas`.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::chaos::disk::{Disk, FOR_EVER_US, Library, Word};
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Oracle, Server, TempDir, skips_on_stand_in, wait_until};

use crate::follows::{info, is_same, start_replica, wait_for_link};

fn start_redis_replica(primary: &Server) -> Server {
    let port = primary.port().to_string();
    Server::start_oracle(
        Oracle::Newer,
        &["--replicaof", "127.0.0.1", &port, "--save", "", "--enable-debug-command", "yes"],
    )
}

#[test]
fn replies_wait_for_replicas_and_commands_do_not() {
    for of_redis in [false, true] {
        let primary = Server::start_onrush(&["--save", "", "--enable-debug-command", "yes"]);
        let mut ours = primary.connect();
        let replica = if of_redis { start_redis_replica(&primary) } else { start_replica(&primary, &[]) };
        let mut theirs = replica.connect();
        wait_for_link(&mut theirs);
        assert_eq!(ours.run("CLIENT DURABILITY DEFAULT REPLICAS 1").text(), "OK");
        for number in 0..200 {
            assert_eq!(ours.run("INCR count"), Value::Int(number + 1));
            assert_eq!(theirs.run("GET count").text(), (number + 1).to_string(), "it is there before its reply");
        }
        let batch: Vec<_> =
            (0..1000).map(|number| argv!["SET", format!("key:{}", number % 10), number.to_string()]).collect();
        (0..20).for_each(|_| assert!(ours.pipeline(&batch).iter().all(|reply| reply == b"+OK\r\n")));
        assert!(is_same(&mut ours, &mut theirs));
        // The replica does not answer: replies wait, commands are executed, and other connections have no wish.
        replica.signal("STOP");
        ours.set_timeout(Duration::from_millis(300));
        assert!(ours.try_call(&argv!["SET", "held", "value"]).is_err());
        let mut other = primary.connect();
        assert_eq!(other.run("GET held").text(), "value");
        assert_eq!(other.run("SET free value").text(), "OK");
        replica.signal("CONT");
        ours.set_timeout(Duration::from_secs(20));
        assert_eq!(ours.read_reply().expect("a reply"), b"+OK\r\n");
        assert_eq!(ours.run("CLIENT DURABILITY DEFAULT REPLICAS 0").text(), "OK");
        drop(replica);
        assert_eq!(ours.run("SET free value").text(), "OK");
    }
}

#[test]
fn without_replicas_an_error_comes_in_time() {
    let primary =
        Server::start_onrush(&["--durability-replicas", "1", "--durability-replicas-timeout", "1000", "--save", ""]);
    let mut ours = primary.connect();
    assert_eq!(ours.run("GET key").bytes(), None, "reading waits for nothing");
    let started = Instant::now();
    ours.send(b"SET key value\r\nGET key\r\n").expect("it is sent");
    let text = String::from_utf8(ours.read_to_close().expect("the end")).expect("a text");
    assert!(text.starts_with("-NOREPLICAS What was written before this was executed here"), "{text}");
    assert_eq!(text.matches("\r\n").count(), 1, "{text}");
    assert!(started.elapsed() >= Duration::from_millis(990), "{:?}", started.elapsed());
    let mut ours = primary.connect();
    assert_eq!(ours.run("GET key").text(), "value");
    assert_eq!(ours.run("CONFIG SET durability-replicas 0").text(), "OK");
    assert_eq!(ours.run("SET key other").text(), "OK");
    let replica = start_replica(&primary, &[]);
    wait_for_link(&mut replica.connect());
    assert_eq!(ours.run("CONFIG SET durability-replicas 1").text(), "OK");
    wait_until("the replica follows", || {
        let mut conn = primary.connect();
        conn.run("SET key third").text() == "OK"
    });
    for line in [
        "CLIENT DURABILITY DEFAULT REPLICAS",
        "CLIENT DURABILITY DEFAULT REPLICAS -1",
        "CLIENT DURABILITY DEFAULT COPIES 1",
    ] {
        assert!(ours.run(line).is_error(), "{line}");
    }
}

#[test]
fn what_a_batch_wrote_waits_though_the_batch_ends_with_another_wish() {
    let primary = Server::start_onrush(&["--durability-replicas-timeout", "300", "--save", ""]);
    for begin in ["CLIENT DURABILITY DEFAULT REPLICAS 1", "CONFIG SET durability-replicas 1"] {
        for end in
            ["CLIENT DURABILITY DEFAULT REPLICAS 0", "RESET", "MULTI\r\nCLIENT DURABILITY DEFAULT REPLICAS 0\r\nEXEC"]
        {
            let mut ours = primary.connect();
            assert_eq!(ours.run(begin).text(), "OK");
            ours.send(format!("SET key value\r\n{end}\r\n").as_bytes()).expect("it is sent");
            let text = String::from_utf8(ours.read_to_close().expect("the end")).expect("a text");
            assert!(text.starts_with("-NOREPLICAS"), "{begin}, {end}: {text}");
        }
    }
    let mut ours = primary.connect();
    for line in ["CLIENT DURABILITY DEFAULT REPLICAS 0", "SET key value"] {
        assert_eq!(ours.run(line).text(), "OK", "what comes behind the wish waits for nothing");
    }
}

/// Sentinels publish, and take a primary that does not answer for dead.
#[test]
fn what_changes_no_data_waits_for_no_replica() {
    let primary = Server::start_onrush(&["--durability-replicas", "1", "--save", ""]);
    let mut ours = primary.connect();
    ours.set_timeout(Duration::from_secs(5));
    let replica = start_replica(&primary, &[]);
    wait_for_link(&mut replica.connect());
    wait_until("a write is acknowledged", || ours.run("SET key value").text() == "OK");
    replica.signal("STOP");
    for line in [
        "PUBLISH channel message",
        "PING",
        "MULTI",
        "PUBLISH channel message",
        "EXEC",
        "EVAL \"return redis.call('PUBLISH', 'a', 'b')\" 0",
    ] {
        assert!(!ours.run(line).is_error(), "{line}");
    }
    replica.signal("CONT");
}

#[test]
fn who_waits_at_a_primary_that_is_one_no_more_learns_of_it() {
    let primary =
        Server::start_onrush(&["--durability-replicas", "1", "--durability-replicas-timeout", "0", "--save", ""]);
    let other = Server::start_onrush(&["--save", ""]);
    let (mut ours, mut control) = (primary.connect(), primary.connect());
    ours.send(b"SET key value\r\n").expect("it is sent");
    wait_until("it is executed", || control.run("EXISTS key") == Value::Int(1));
    control.call(&argv!["REPLICAOF", "127.0.0.1", other.port().to_string()]);
    let text = String::from_utf8(ours.read_to_close().expect("the end")).expect("a text");
    assert!(text.contains("this server is no primary any more"), "{text}");
}

/// A server on a disk that can be told to hang.
struct Faulty {
    server: Server,
    disk: Disk,
    _library: Library,
    _folder: TempDir,
}

impl Faulty {
    fn start(args: &[&str]) -> Self {
        let library = Library::build().expect("a C compiler");
        let folder = TempDir::new();
        let below = folder.0.canonicalize().expect("a folder");
        let disk = Disk::below(&library, &below).expect("a page");
        let fixed = ["--dir", below.to_str().expect("a plain path"), "--save", "", "--enable-debug-command", "yes"];
        let server = Launch::onrush().disk(&disk).args(&fixed).args(args).start();
        Self { server, disk, _library: library, _folder: folder }
    }
}

#[test]
fn a_replica_whose_disk_hangs_while_data_comes_can_get_another_role() {
    if skips_on_stand_in() {
        return;
    }
    let Faulty { server: replica, disk, _library, _folder } = Faulty::start(&[]);
    let primary = Server::start_onrush(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
    let (mut ours, mut theirs) = (replica.connect(), primary.connect());
    ours.run("SET own 1");
    theirs.run("DEBUG POPULATE 200000 key 100");
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    ours.call(&argv!["REPLICAOF", "127.0.0.1", primary.port().to_string()]);
    wait_until("the data comes", || info(&mut ours, "replication", "master_sync_in_progress") == "1");
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!((ours.run("GET own").text().as_str(), ours.run("DBSIZE")), ("1", Value::Int(1)));
    disk.set(Word::WriteDelayUs, 0);
    ours.call(&argv!["REPLICAOF", "127.0.0.1", primary.port().to_string()]);
    wait_for_link(&mut ours);
    assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
}

#[test]
fn who_has_had_its_replies_goes_on_under_another_role() {
    let primary = Server::start_onrush(&["--durability-replicas", "1", "--save", "", "--enable-debug-command", "yes"]);
    let replica = start_replica(&primary, &[]);
    wait_for_link(&mut replica.connect());
    let (mut ours, mut control) = (primary.connect(), primary.connect());
    assert_eq!(ours.run("SET key value").text(), "OK");
    let port = replica.port().to_string();
    assert_eq!(control.call(&argv!["FAILOVER", "TO", "127.0.0.1", port.as_str()]).text(), "OK");
    wait_until("it is a replica", || info(&mut control, "replication", "role") == "slave");
    wait_for_link(&mut control);
    for _ in 0..3 {
        assert_eq!(ours.run("GET key").text(), "value", "{}", primary.log_tail());
    }
    assert!(ours.run("SET key other").text().starts_with("READONLY"));
    assert_eq!(control.run("REPLICAOF NO ONE").text(), "OK");
    assert_eq!(ours.run("GET key").text(), "value");
    ours.run("CLIENT DURABILITY DEFAULT REPLICAS 0");
    assert_eq!(ours.run("SET key other").text(), "OK");
}

#[test]
fn replies_are_given_up_in_time_though_what_a_replica_lacks_is_on_a_disk_that_hangs() {
    if skips_on_stand_in() {
        return;
    }
    let args = ["--repl-backlog-size", "16kb", "--durability-replicas-timeout", "1000"];
    let Faulty { server: primary, disk, _library, _folder } = Faulty::start(&args);
    let replica = start_replica(&primary, &[]);
    let mut theirs = replica.connect();
    wait_for_link(&mut theirs);
    let (mut ours, mut waits) = (primary.connect(), primary.connect());
    assert_eq!(waits.run("CLIENT DURABILITY DEFAULT REPLICAS 1").text(), "OK");
    assert_eq!(waits.run("SET key value").text(), "OK");
    disk.set(Word::WriteDelayUs, FOR_EVER_US);
    replica.signal("STOP");
    // More than there is room for in memory.
    let value = "v".repeat(1 << 20);
    (0..40).for_each(|number| _ = ours.call(&argv!["SET", format!("key:{}", number % 5), value.as_str()]));
    let began = Instant::now();
    let reply = waits.run("INCR count").text();
    assert!(reply.starts_with("NOREPLICAS"), "{reply}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(ours.run("INCR count"), Value::Int(2), "others go on");
    disk.set(Word::WriteDelayUs, 0);
    replica.signal("CONT");
    assert!(is_same(&mut ours, &mut theirs), "{}", primary.log_tail());
}

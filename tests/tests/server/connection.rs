//! Commands that affect other clients: lists, kills, pauses; and features that 7.2 has but the oracle lacks.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, skips_on_stand_in, stall, wait_until};

fn id(conn: &mut Conn) -> String {
    match conn.run("CLIENT ID") {
        Value::Int(id) => id.to_string(),
        other => panic!("CLIENT ID: {other}"),
    }
}

/// The value of a `name=value` word in a line of CLIENT LIST.
fn field(line: &str, name: &str) -> String {
    let mut values = line.split_whitespace().filter_map(|w| w.strip_prefix(name)?.strip_prefix('='));
    values.next().unwrap_or_else(|| panic!("no {name} in: {line}")).to_owned()
}

fn is_closed(conn: &mut Conn) -> bool {
    conn.set_timeout(Duration::from_millis(50));
    match conn.fill() {
        Ok(got) => got == 0,
        Err(e) => e.kind() == ErrorKind::ConnectionReset,
    }
}

/// Whether a reply comes within a tenth of a second.
fn replies_soon(conn: &mut Conn) -> bool {
    conn.set_timeout(Duration::from_millis(100));
    let got = conn.read_reply();
    conn.set_timeout(Duration::from_secs(20));
    got.is_ok()
}

#[test]
fn the_list_shows_every_client() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conns: Vec<Conn> = (0..5).map(|_| server.connect()).collect();
    for (i, conn) in conns.iter_mut().enumerate() {
        conn.run(&format!("CLIENT SETNAME name{i}"));
        conn.run(&format!("SELECT {i}"));
    }
    conns[3].run("HELLO 3");
    let list = conns[0].run("CLIENT LIST").text();
    assert_eq!(list.lines().count(), 5, "{list}");
    for (i, conn) in conns.iter_mut().enumerate() {
        let own = id(conn);
        let line = list.lines().find(|l| field(l, "id") == own).unwrap_or_else(|| panic!("no id={own}: {list}"));
        assert_eq!((field(line, "name"), field(line, "db")), (format!("name{i}"), i.to_string()));
        assert_eq!(field(line, "resp"), if i == 3 { "3" } else { "2" });
        assert!(field(line, "laddr").ends_with(&server.port().to_string()));
        assert!(field(line, "age").parse::<u32>().is_ok_and(|age| age < 60));
        let info = conn.run("CLIENT INFO").text();
        assert_eq!(field(&info, "addr"), field(line, "addr"));
        assert_eq!(field(&info, "cmd"), "client|info");
    }
    let (first, second) = (id(&mut conns[0]), id(&mut conns[1]));
    let two = conns[4].call(&argv!["CLIENT", "LIST", "ID", first, second]).text();
    assert_eq!(two.lines().map(|l| field(l, "id")).collect::<Vec<_>>(), [first, second]);
}

#[test]
fn clients_are_killed_by_id_address_and_filter() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut killer = server.connect();
    let mut victim = server.connect();
    let victim_id = id(&mut victim);
    assert_eq!(killer.call(&argv!["CLIENT", "KILL", "ID", victim_id]), Value::Int(1));
    wait_until("the client is closed", || is_closed(&mut victim));

    let mut victim = server.connect();
    let addr = field(&victim.run("CLIENT INFO").text(), "addr");
    assert_eq!(killer.call(&argv!["CLIENT", "KILL", addr]).text(), "OK");
    wait_until("the client is closed", || is_closed(&mut victim));
    assert_eq!(killer.call(&argv!["CLIENT", "KILL", addr]).text(), "ERR No such client");

    let mut victims: Vec<Conn> = (0..10).map(|_| server.connect()).collect();
    victims.iter_mut().for_each(|v| drop(v.run("PING")));
    assert_eq!(killer.run("CLIENT KILL TYPE normal"), Value::Int(10));
    for victim in &mut victims {
        wait_until("the client is closed", || is_closed(victim));
    }
    assert_eq!(killer.run("CLIENT KILL USER default SKIPME no"), Value::Int(1));
    wait_until("the killer is closed", || is_closed(&mut killer));
}

#[test]
fn a_client_that_kills_itself_still_gets_the_reply() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let own = id(&mut conn);
    let kill = argv!["CLIENT", "KILL", "ID", own, "SKIPME", "no"];
    assert_eq!(conn.call(&kill), Value::Int(1));
    assert!(conn.read_to_close().expect("closed").is_empty());
}

#[test]
fn a_pause_holds_writes_back_until_it_ends() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let (mut boss, mut other) = (server.connect(), server.connect());
    other.run("SET a 1");
    assert_eq!(boss.run("CLIENT PAUSE 100000 WRITE").text(), "OK");
    assert_eq!(other.run("GET a").text(), "1");
    assert!(other.run("SET a").is_error(), "this one writes nothing");
    other.send_command(&argv!["INCR", "a"]).expect("sent");
    other.send_command(&argv!["PING"]).expect("sent");
    assert!(!replies_soon(&mut other), "a write went through the pause");
    assert_eq!(boss.run("GET a").text(), "1");
    assert_eq!(boss.run("CLIENT UNPAUSE").text(), "OK");
    assert_eq!(other.read_reply().expect("the held reply"), b":2\r\n");
    assert_eq!(other.read_reply().expect("the reply behind it"), b"+PONG\r\n");
}

#[test]
fn who_goes_away_during_a_pause_is_gone_with_its_commands() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut boss = server.connect();
    assert_eq!(boss.run("CLIENT PAUSE 100000 WRITE").text(), "OK");
    let before = boss.info_number("total_connections_received").expect("a number");
    for _ in 0..40 {
        server.connect().send_command(&argv!["INCR", "n"]).expect("sent");
    }
    wait_until("all have come", || boss.info_number("total_connections_received") == Some(before + 40));
    wait_until("all are gone", || boss.info_number("connected_clients") == Some(1));
    assert_eq!(boss.run("CLIENT UNPAUSE").text(), "OK");
    assert_eq!(boss.run("EXISTS n"), Value::Int(0));
}

#[test]
fn a_pause_of_everything_ends_by_itself() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let (mut boss, mut other) = (server.connect(), server.connect());
    let started = Instant::now();
    assert_eq!(boss.run("CLIENT PAUSE 500").text(), "OK");
    other.send_command(&argv!["PING"]).expect("sent");
    assert_eq!(other.read_reply().expect("a reply after the pause"), b"+PONG\r\n");
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(5), "after {took:?}");
}

#[test]
fn pauses_in_a_pipeline_follow_each_other() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    conn.send(&b"CLIENT PAUSE 1 ALL\r\nPING\r\n".repeat(10)).expect("sent");
    for round in 0..10 {
        for want in [&b"+OK\r\n"[..], b"+PONG\r\n"] {
            let got = conn.read_reply().unwrap_or_else(|e| panic!("round {round}: {e}"));
            assert_eq!(got, want);
        }
    }
}

#[test]
fn a_random_key_is_found_during_a_pause_when_all_keys_have_expired() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let keys = ["a", "b", "c"];
    keys.iter().for_each(|key| _ = conn.run(&format!("SET {key} 1 PX 300")));
    conn.run("CLIENT PAUSE 100000 WRITE");
    for key in keys {
        wait_until("the key is gone", || matches!(conn.run(&format!("GET {key}")), Value::Null(_)));
    }
    let found = conn.run("RANDOMKEY").text();
    assert!(keys.contains(&found.as_str()), "{found:?}");
}

#[test]
fn expired_keys_stay_hidden_during_a_pause() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("SET a 1 PX 30");
    conn.run("CLIENT PAUSE 100000 WRITE");
    wait_until("the key is gone", || matches!(conn.run("GET a"), Value::Null(_)));
    conn.run("CLIENT UNPAUSE");
    wait_until("it is counted no more", || conn.run("DBSIZE") == Value::Int(0));
}

#[test]
fn what_7_2_has_is_there() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    conn.run("CLIENT SETINFO LIB-NAME mylib");
    conn.run("CLIENT SETINFO lib-ver 1.2.3");
    let flags = |conn: &mut Conn| field(&conn.run("CLIENT INFO").text(), "flags");
    let info = conn.run("CLIENT INFO").text();
    assert_eq!((field(&info, "lib-name"), field(&info, "lib-ver")), ("mylib".into(), "1.2.3".into()));
    assert_eq!(flags(&mut conn), "N");
    conn.run("CLIENT NO-EVICT ON");
    assert_eq!(flags(&mut conn), "e");
    conn.run("CLIENT NO-TOUCH ON");
    assert_eq!(flags(&mut conn), "eT");
    conn.run("RESET");
    assert_eq!(flags(&mut conn), "N");
}

#[test]
fn a_client_that_does_not_touch_leaves_idle_times_alone() {
    if skips_on_stand_in() {
        return;
    }
    let server = Server::start_onrush(&[]);
    let (mut quiet, mut conn) = (server.connect(), server.connect());
    quiet.run("CLIENT NO-TOUCH ON");
    conn.run("SET a 1");
    wait_until("the key has been idle for a second", || matches!(conn.run("OBJECT IDLETIME a"), Value::Int(1..)));
    quiet.run("GET a");
    assert!(matches!(conn.run("OBJECT IDLETIME a"), Value::Int(1..)));
    conn.run("GET a");
    assert_eq!(conn.run("OBJECT IDLETIME a"), Value::Int(0));
}

#[test]
fn a_pause_of_writes_holds_all_of_them_back() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    conn.run("XADD s 1-1 f v");
    conn.run("PFADD h a");
    for command in [
        "XGROUP CREATE s g $",
        "XGROUP CREATECONSUMER s g c",
        "XGROUP SETID s g 0",
        "XGROUP DESTROY s g",
        "PFCOUNT h",
        "SETRANGE x 1 y",
    ] {
        let mut writer = server.connect();
        assert_eq!(conn.run("CLIENT PAUSE 60000 WRITE").text(), "OK");
        writer.send_command(&Argv::parse(command).expect("words")).expect("a connection");
        assert!(!replies_soon(&mut writer), "{command} was not held back");
        assert_eq!(conn.run("XLEN s"), Value::Int(1), "reads go on");
        assert_eq!(conn.run("CLIENT UNPAUSE").text(), "OK");
        writer.read_reply().expect("executed after the pause");
    }
}

#[test]
fn a_pause_of_writes_holds_rows_of_equal_commands_back() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let (mut boss, mut other) = (server.connect(), server.connect());
    boss.run("SET a 0");
    assert_eq!(boss.run("CLIENT PAUSE 60000 WRITE").text(), "OK");
    other.send(&b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n".repeat(50)).expect("sent");
    assert!(!replies_soon(&mut other), "a row went through the pause");
    assert_eq!(boss.run("GET a").text(), "0");
    assert_eq!(boss.run("CLIENT UNPAUSE").text(), "OK");
    for nth in 1..=50 {
        assert_eq!(other.read_reply().expect("executed after the pause"), format!(":{nth}\r\n").as_bytes());
    }
}

#[test]
fn nothing_expires_during_a_pause() {
    let server = Server::start_onrush(&["--workers", "2"]);
    let mut conn = server.connect();
    conn.run("SET a 1 PX 20");
    conn.run("SET b 1 PX 20");
    assert_eq!(conn.run("CLIENT PAUSE 60000 WRITE").text(), "OK");
    wait_until("the time of the keys is over", || conn.run("EXISTS a") == Value::Int(0));
    wait_until("active expiry has had its turns", || conn.info_number("uptime_in_seconds") >= Some(1));
    assert_eq!(conn.run("DBSIZE"), Value::Int(2));
    assert_eq!(conn.run("CLIENT UNPAUSE").text(), "OK");
    wait_until("they expire after it", || conn.run("DBSIZE") == Value::Int(0));
}

#[test]
fn a_command_behind_a_slow_one_has_the_time_of_its_own_start() {
    let server = Server::start_onrush(&["--workers", "1", "--enable-debug-command", "yes"]);
    let mut conn = server.connect();
    let replies =
        conn.pipeline(&[argv!["DEBUG", stall(), "0.4"], argv!["SET", "key", "v", "PX", "300"], argv!["GET", "key"]]);
    assert_eq!(replies[2], b"$1\r\nv\r\n");
    assert_eq!(conn.run("GET key").text(), "v", "it has been there for less than its time");
}

/// Writers that go on until a flag stops them: pipelines of counters, new keys and stream entries, and commands on
/// whole databases.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Writers that only count and add, and those that also clear and swap databases.
const COUNTING: usize = 4;
const CLEARING: usize = 2;

impl Writers {
    fn start(server: &Server) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |nth: usize| {
            let (mut conn, stop) = (server.connect(), Arc::clone(&stop));
            std::thread::spawn(move || {
                for round in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut batch = Vec::new();
                    if nth < COUNTING {
                        for at in 0..200 {
                            batch.push(argv!["INCR", format!("counter:{}", at % 8)]);
                            batch.push(argv!["SET", format!("key:{nth}:{round}:{at}"), "v"]);
                        }
                        batch.push(argv!["XADD", "stream", "*", "f", "v"]);
                    } else {
                        batch.push(argv!["FLUSHDB", "ASYNC"]);
                        batch.push(argv!["SWAPDB", "0", "1"]);
                        batch.push(argv!["INCR", "counter:0"]);
                    }
                    conn.pipeline(&batch);
                }
            })
        };
        let threads = (0..COUNTING + CLEARING).map(thread).collect();
        Writers { stop, threads }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a writer without complaint"));
    }
}

#[test]
fn nothing_changes_any_more_once_a_pause_of_writes_has_replied() {
    const SAMPLE: &str = "MGET counter:0 counter:1 counter:2 counter:3 counter:4 counter:5 counter:6 counter:7";
    let server = Server::start_onrush(&["--workers", "4"]);
    let writers = Writers::start(&server);
    let mut conn = server.connect();
    let mut sample = || {
        let lines = [SAMPLE, "DBSIZE", "XLEN stream", "INFO persistence"].map(|line| Argv::parse(line).expect("words"));
        let mut replies = conn.pipeline(&lines);
        let info = String::from_utf8(replies.pop().expect("a reply")).expect("text");
        let changes = info.lines().find(|line| line.starts_with("rdb_changes_since_last_save:"));
        replies.push(changes.expect("in INFO").as_bytes().to_vec());
        replies
    };
    let mut boss = server.connect();
    let mut before = Vec::new();
    for round in 0..200 {
        assert_eq!(boss.run("CLIENT PAUSE 60000 WRITE").text(), "OK");
        let first = sample();
        assert_ne!(first, before, "the writers have been at work since the pause before");
        for _ in 0..4 {
            let later = sample();
            assert!(later == first, "round {round}: {:?} became {:?}", texts(&first), texts(&later));
        }
        before = first;
        assert_eq!(boss.run("CLIENT UNPAUSE").text(), "OK");
        wait_until("the writers go on", || sample() != before);
    }
    writers.stop();
}

fn texts(replies: &[Vec<u8>]) -> Vec<String> {
    replies.iter().map(|reply| String::from_utf8_lossy(reply).replace("\r\n", " ")).collect()
}

/// Identifiers of stream entries have the time of their writing, so they show writes during the pause.
#[test]
fn nothing_is_written_while_everything_is_paused() {
    const PAUSE_MS: u64 = 40;
    /// The server's clock has whole milliseconds, and a chunk takes its time when it begins.
    const SLACK_MS: u64 = 2;
    let server = Server::start_onrush(&["--workers", "4"]);
    let stop = AtomicBool::new(false);
    let mut pauses = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..COUNTING {
            let (mut conn, stop) = (server.connect(), &stop);
            scope.spawn(move || {
                let batch = vec![argv!["XADD", "stream", "MAXLEN", "~", "1000000", "*", "f", "v"]; 50];
                while !stop.load(Ordering::Relaxed) {
                    conn.pipeline(&batch);
                }
            });
        }
        let mut boss = server.connect();
        for _ in 0..20 {
            let sent_ms = unix_ms();
            assert_eq!(boss.run(&format!("CLIENT PAUSE {PAUSE_MS} ALL")).text(), "OK");
            let replied_ms = unix_ms();
            pauses.push((replied_ms + SLACK_MS, sent_ms + PAUSE_MS - SLACK_MS));
            // It is answered after the pause.
            assert_eq!(boss.run("PING").text(), "PONG");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut conn = server.connect();
    assert_ne!(conn.run("XLEN stream"), Value::Int(0));
    pauses.retain(|(from, to)| from < to);
    assert!(!pauses.is_empty(), "no pause was answered before its end");
    for (from, to) in pauses {
        let written = conn.run(&format!("XRANGE stream {from} {to} COUNT 1"));
        assert!(written.items().is_some_and(<[Value]>::is_empty), "paused from {from} to {to}: {written}");
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

#[test]
fn active_expiry_is_over_once_a_pause_has_replied() {
    let server = Server::start_onrush(&["--workers", "2", "--hz", "100"]);
    let (mut conn, mut boss) = (server.connect(), server.connect());
    let mut interrupted = 0;
    for round in 0..10 {
        let set = |at| argv!["SET", format!("key:{round}:{at}"), "v", "PX", "60"];
        conn.pipeline(&(0..50_000).map(set).collect::<Vec<_>>());
        let full = conn.run("DBSIZE");
        if full == Value::Int(0) {
            // The machine is so busy that all have expired already.
            continue;
        }
        wait_until("keys begin to expire", || conn.run("DBSIZE") != full);
        assert_eq!(boss.run("CLIENT PAUSE 60000 WRITE").text(), "OK");
        let first = conn.run("DBSIZE");
        interrupted += usize::from(first != Value::Int(0));
        for _ in 0..50 {
            assert_eq!(conn.run("DBSIZE"), first, "round {round}");
        }
        assert_eq!(boss.run("CLIENT UNPAUSE").text(), "OK");
        wait_until("all have expired", || conn.run("DBSIZE") == Value::Int(0));
    }
    assert!(interrupted > 0, "no pause came while keys expired");
}

/// Two connections that are on the same worker, which the first one sends to sleep for 2.5 s.
fn beside_a_sleeper(server: &Server) -> (Conn, Conn) {
    let (mut sleeper, mut beside) = (server.connect(), server.connect());
    beside.run("PING");
    sleeper.run("PING");
    sleeper.send_command(&argv!["DEBUG", stall(), "2.5"]).expect("taken");
    (sleeper, beside)
}

fn start_with_timeout() -> Server {
    Server::start_onrush(&["--workers", "1", "--timeout", "1", "--enable-debug-command", "yes"])
}

#[test]
fn a_client_is_not_idle_while_its_command_is_executed() {
    let server = start_with_timeout();
    let mut conn = server.connect();
    let replies = conn.pipeline(&[argv!["INCR", "n"], argv!["DEBUG", stall(), "2.5"], argv!["INCR", "n"]]);
    assert_eq!(replies, [&b":1\r\n"[..], b"+OK\r\n", b":2\r\n"]);
}

#[test]
fn a_command_that_has_arrived_is_executed_before_its_client_counts_as_idle() {
    let server = start_with_timeout();
    let (mut sleeper, mut conn) = beside_a_sleeper(&server);
    conn.send_command(&argv!["INCR", "n"]).expect("taken");
    assert_eq!(conn.read_reply().expect("a reply"), b":1\r\n");
    sleeper.read_reply().expect("awake");
    // Silence is what ends it.
    assert!(conn.read_to_close().expect("closed").is_empty());
}

#[test]
fn a_client_that_has_sent_a_command_that_waits_is_not_idle() {
    let server = start_with_timeout();
    let (mut sleeper, mut conn) = beside_a_sleeper(&server);
    conn.send_command(&argv!["BLPOP", "q", "2"]).expect("taken");
    sleeper.read_reply().expect("awake");
    assert_eq!(conn.read_reply().expect("the time is over"), b"*-1\r\n");
}

#[test]
fn what_is_executed_for_a_client_whose_time_is_up_is_answered() {
    const CONNS: u64 = 400;
    let server = Server::start_onrush(&["--workers", "2", "--timeout", "1"]);
    let mut conns: Vec<Conn> = (0..CONNS).map(|_| server.connect()).collect();
    conns.iter_mut().for_each(|conn| _ = conn.run("PING"));
    // The server looks once a second for clients that were silent for more than one: each is closed in the second that
    // follows the first one, and sends its command at some moment of both.
    let started = Instant::now();
    let mut answered = 0;
    for (nth, conn) in conns.iter_mut().enumerate() {
        let at = Duration::from_micros(900_000 + nth as u64 * (1_200_000 / CONNS));
        std::thread::sleep(at.saturating_sub(started.elapsed()));
        _ = conn.send_command(&argv!["INCR", "n"]);
    }
    for conn in &mut conns {
        if let Ok(reply) = conn.read_reply() {
            assert!(reply.starts_with(b":"));
            answered += 1;
        }
    }
    assert_eq!(server.connect().run("INCRBY n 0"), Value::Int(answered));
    wait_until("those that were served are idle again", || {
        server.connect().info_number("connected_clients") == Some(1)
    });
}

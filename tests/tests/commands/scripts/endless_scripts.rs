//! Scripts without end, wherever a script can stand: every worker goes on, and clients can end the script.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

/// Loops if it is told to, by its first argument.
const SCRIPT: &str = "if ARGV[1] == 'write' then redis.call('RPUSH', KEYS[1], 'x') end \
                      if ARGV[1] then while true do end end return 1";
const LOOP: &str = "while true do end";
const LIBRARY: &str = "#!lua name=lib\n\
                       redis.register_function('forever', function() while true do end end)\n\
                       redis.register_function('writes', function(keys) redis.call('SET', 'outside', 1) \
                       while true do end end)";

/// Longest time in which a new client must have a reply.
const REPLY_TIME_MAX: Duration = Duration::from_secs(2);

fn start(workers: &str) -> Server {
    let args = ["--workers", workers, "--busy-reply-threshold", "100", "--enable-debug-command", "yes"];
    let server = Server::start_onrush(&args);
    let mut conn = server.connect();
    assert_eq!(conn.call(&argv!["FUNCTION", "LOAD", LIBRARY]).text(), "lib");
    for _ in 0..20 {
        let mut push = argv!["RPUSH", "large"];
        push.0.extend((0..100).map(|_| vec![b'x'; 100]));
        conn.call(&push);
    }
    // The script is known to be short.
    for _ in 0..3 {
        assert_eq!(conn.call(&argv!["EVAL", SCRIPT, "1", "large"]), Value::Int(1));
    }
    server
}

/// Sends commands without reading their replies.
fn send(server: &Server, commands: &[Argv]) -> Conn {
    let mut conn = server.connect();
    commands.iter().for_each(|command| conn.send_command(command).expect("sent"));
    conn
}

/// A new client has a reply in time; returns it.
fn ask(server: &Server) -> String {
    let before = Instant::now();
    let reply = server.connect().run("PING").text();
    assert!(before.elapsed() < REPLY_TIME_MAX, "{reply} after {:?}", before.elapsed());
    reply
}

/// Waits until a script takes too long.
fn wait_until_busy(server: &Server, what: &str) {
    wait_until(what, || ask(server).starts_with("BUSY Redis is busy running a script"));
}

/// All the ways to begin a script that does not end, with the command that ends it.
fn ways() -> Vec<(&'static str, Vec<Argv>)> {
    vec![
        ("SCRIPT KILL", vec![argv!["EVAL", LOOP, "0"]]),
        ("SCRIPT KILL", vec![argv!["EVAL_RO", LOOP, "1", "k"]]),
        ("SCRIPT KILL", vec![argv!["MULTI"], argv!["EVAL", LOOP, "0"], argv!["EXEC"]]),
        ("SCRIPT KILL", vec![argv!["MULTI"], argv!["EVAL", LOOP, "1", "k"], argv!["EXEC"]]),
        ("SCRIPT KILL", vec![argv!["MULTI"], argv!["DBSIZE"], argv!["EVAL", LOOP, "0"], argv!["EXEC"]]),
        (
            "SCRIPT KILL",
            vec![argv!["MULTI"], argv!["CLIENT", "SETNAME", "me"], argv!["EVAL", LOOP, "0"], argv!["EXEC"]],
        ),
        ("SCRIPT KILL", vec![argv!["MULTI"], argv!["SUBSCRIBE", "ch"], argv!["EVAL_RO", LOOP, "0"], argv!["EXEC"]]),
        ("SCRIPT KILL", vec![argv!["MULTI"], argv!["FLUSHALL"], argv!["EVAL", LOOP, "0"], argv!["EXEC"]]),
        ("SCRIPT KILL", vec![argv!["WATCH", "k"], argv!["MULTI"], argv!["EVAL", LOOP, "0"], argv!["EXEC"]]),
        ("FUNCTION KILL", vec![argv!["FCALL", "forever", "0"]]),
        ("FUNCTION KILL", vec![argv!["MULTI"], argv!["FCALL", "forever", "0"], argv!["EXEC"]]),
        ("FUNCTION KILL", vec![argv!["MULTI"], argv!["DBSIZE"], argv!["FCALL", "forever", "0"], argv!["EXEC"]]),
        ("SCRIPT KILL", vec![argv!["EVAL", SCRIPT, "1", "large", "loop"]]),
        ("SHUTDOWN NOSAVE", vec![argv!["EVAL", SCRIPT, "1", "large", "write"]]),
        ("SHUTDOWN NOSAVE", vec![argv!["EVAL", SCRIPT, "1", "small", "write"]]),
        ("SHUTDOWN NOSAVE", vec![argv!["FCALL", "writes", "0"]]),
        ("SHUTDOWN NOSAVE", vec![argv!["MULTI"], argv!["EVAL", SCRIPT, "1", "large", "write"], argv!["EXEC"]]),
    ]
}

fn ends(server: &mut Server, how: &str, what: &str) {
    if how == "SHUTDOWN NOSAVE" {
        let before = Instant::now();
        let mut conn = server.connect();
        assert!(conn.run("SCRIPT KILL").text().starts_with("UNKILLABLE") || what.contains("FCALL"), "{what}");
        let _ = conn.send(b"SHUTDOWN NOSAVE\r\n");
        assert!(server.wait_exit().success(), "{what}");
        assert!(before.elapsed() < Duration::from_secs(5), "{what}");
    } else {
        assert_eq!(server.connect().run(how).text(), "OK", "{what}");
        // The reply comes when the script has ended.
        assert_eq!(ask(server), "PONG", "{what}");
    }
}

#[test]
fn a_script_without_end_keeps_no_worker_from_its_clients() {
    for workers in ["1", "2"] {
        let mut server = start(workers);
        for (how, commands) in ways() {
            for is_monitored in [false, true] {
                let what = format!("{commands:?}, monitored: {is_monitored}, {workers} workers").replace("\\n", "\n");
                let monitor = is_monitored.then(|| {
                    let mut monitor = server.connect();
                    assert_eq!(monitor.run("MONITOR").text(), "OK");
                    monitor
                });
                let _endless = send(&server, &commands);
                wait_until_busy(&server, &what);
                ends(&mut server, how, &what);
                drop(monitor);
                if how == "SHUTDOWN NOSAVE" {
                    server = start(workers);
                }
            }
        }
    }
}

/// The thread for long commands has the whole state of the connection, and gives it back.
#[test]
fn a_transaction_that_is_executed_elsewhere_leaves_the_state_that_it_should() {
    let server = start("2");
    let mut conn = server.connect();
    let slow = "local t = redis.call('TIME') repeat local n = redis.call('TIME') \
                until (n[1] - t[1]) * 1000000 + n[2] - t[2] > 50000 return 1";
    // What the transaction does to its connection stays.
    conn.run("MULTI");
    for command in [
        argv!["SELECT", "3"],
        argv!["SET", "k", "3"],
        argv!["CLIENT", "SETNAME", "me"],
        argv!["DBSIZE"],
        argv!["EVAL", slow, "0"],
        argv!["CLIENT", "GETNAME"],
    ] {
        assert_eq!(conn.call(&command).text(), "QUEUED");
    }
    let Value::Array(replies) = conn.run("EXEC") else { panic!("an array") };
    assert_eq!((replies[4].clone(), replies[5].text()), (Value::Int(1), "me".into()));
    assert_eq!([conn.run("GET k").text(), conn.run("CLIENT GETNAME").text()], ["3", "me"]);
    assert!(conn.run("CLIENT INFO").text().contains(" db=3 "));
    assert_eq!(conn.call(&argv!["EVAL", slow, "1", "k"]), Value::Int(1));
    // One that is aborted because of a watched key changes nothing.
    conn.run("WATCH k");
    let mut other = server.connect();
    other.run("SELECT 3");
    other.run("SET k 4");
    conn.run("MULTI");
    // The script is known to take long by now.
    for command in [argv!["SELECT", "5"], argv!["EVAL", slow, "1", "k"]] {
        assert_eq!(conn.call(&command).text(), "QUEUED");
    }
    assert!(matches!(conn.run("EXEC"), Value::Null(_)));
    assert_eq!(conn.run("GET k").text(), "4");
    assert!(conn.run("CLIENT INFO").text().contains(" db=3 "));
    // Nothing is watched any more.
    other.run("SET k 5");
    conn.run("MULTI");
    conn.run("GET k");
    assert_eq!(conn.run("EXEC"), Value::Array(vec![Value::Bulk(b"5".to_vec())]));
    // Subscriptions that it begins are its connection's.
    conn.run("MULTI");
    for command in [argv!["SUBSCRIBE", "ch"], argv!["EVAL", slow, "0"]] {
        conn.call(&command);
    }
    conn.send(b"EXEC\r\n").expect("sent");
    wait_until("it has subscribed", || other.run("PUBLISH ch news") == Value::Int(1));
    assert!(conn.read_reply().expect("the reply to EXEC").starts_with(b"*2\r\n"));
    assert!(conn.read_reply().expect("a message").ends_with(b"news\r\n"));
}

/// Each command is shown once, though the script begins anew on another thread.
#[test]
fn monitors_see_the_commands_of_a_long_script_once() {
    let server = start("2");
    let mut monitor = server.connect();
    assert_eq!(monitor.run("MONITOR").text(), "OK");
    let mut conn = server.connect();
    let slow = "redis.call('INCR', KEYS[1]) local t = redis.call('TIME') local n repeat n = redis.call('TIME') \
                until (n[1] - t[1]) * 1000000 + n[2] - t[2] > 30000 return redis.call('INCR', KEYS[1])";
    assert_eq!(conn.call(&argv!["EVAL", slow, "1", "count"]), Value::Int(2));
    conn.run("MULTI");
    conn.call(&argv!["EVAL", slow, "1", "count"]);
    assert_eq!(conn.run("EXEC"), Value::Array(vec![Value::Int(4)]));
    conn.run("ECHO end");
    let (mut scripts, mut changes) = (0, 0);
    loop {
        let line = String::from_utf8_lossy(&monitor.read_reply().expect("a line")).into_owned();
        scripts += usize::from(line.contains("\"EVAL\""));
        changes += usize::from(line.contains("lua] \"INCR\""));
        if line.contains("\"ECHO\"") {
            break;
        }
    }
    assert_eq!((scripts, changes), (2, 4));
}

/// Who waits for the thread that executes the script is told, as everybody is.
#[test]
fn commands_behind_a_script_without_end_are_refused() {
    let server = start("1");
    // It is known to take long from now on.
    let first = send(&server, &[argv!["EVAL", LOOP, "0"]]);
    wait_until_busy(&server, "the script takes too long");
    assert_eq!(server.connect().run("SCRIPT KILL").text(), "OK");
    drop(first);
    let mut conns: Vec<Conn> = (0..3).map(|_| server.connect()).collect();
    conns.iter_mut().for_each(|conn| assert_eq!(conn.run("PING").text(), "PONG"));
    conns[2].run("WATCH k");
    conns[2].run("MULTI");
    conns[2].call(&argv!["EVAL", LOOP, "0"]);
    // All of them are executed in one round.
    server.signal("STOP");
    for conn in &mut conns[..2] {
        conn.send_command(&argv!["EVAL", LOOP, "0"]).expect("sent");
    }
    conns[2].send(b"EXEC\r\n").expect("sent");
    server.signal("CONT");
    wait_until_busy(&server, "the script takes too long");
    let mut replies: Vec<String> = Vec::new();
    for conn in &mut conns {
        conn.set_timeout(Duration::from_millis(500));
        replies.extend(conn.read_reply().ok().map(|reply| String::from_utf8_lossy(&reply).into_owned()));
    }
    assert_eq!(replies.len(), 2, "the first one runs: {replies:?}");
    assert!(replies.iter().all(|reply| reply.contains("BUSY")), "{replies:?}");
    assert_eq!(server.connect().run("SCRIPT KILL").text(), "OK");
    assert_eq!(ask(&server), "PONG");
}

/// What has the whole keyspace need not be a script, nor a script that is asked often whether it should end.
#[test]
fn slow_commands_with_the_whole_keyspace_keep_no_worker_from_its_clients() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port().to_string();
    for workers in ["1", "2"] {
        let mut server = start(workers);
        assert_eq!(server.connect().run("DEBUG POPULATE 200000").text(), "OK");
        let keys: Vec<Argv> = (0..50).map(|_| argv!["KEYS", "*x*"]).collect();
        let transaction = [vec![argv!["MULTI"]], keys, vec![argv!["EXEC"]]].concat();
        let mut exec = send(&server, &transaction);
        exec.set_timeout(Duration::from_secs(90));
        wait_until("KEYS in a transaction takes too long", || ask(&server).starts_with("BUSY"));
        let kill = server.connect().run("SCRIPT KILL").text();
        assert!(kill.starts_with("NOTBUSY"), "{kill}");
        transaction.iter().for_each(|_| drop(exec.read_reply().expect("a reply")));
        assert_eq!(ask(&server), "PONG");
        let keys = "while true do redis.call('KEYS', '*x*') end";
        let mut conn = send(&server, &[argv!["EVAL", keys, "0"]]);
        wait_until_busy(&server, "KEYS in a script");
        wait_until("the script can be ended", || server.connect().run("SCRIPT KILL").text() == "OK");
        let reply = conn.read_reply().expect("the end of the script");
        assert!(reply.starts_with(b"-ERR Error running script: Script killed"), "{reply:?}");
        assert_eq!(ask(&server), "PONG");
        let migrate = "while true do redis.pcall('MIGRATE', '127.0.0.1', ARGV[1], KEYS[1], 0, 300, 'COPY') end";
        let _conn = send(&server, &[argv!["EVAL", migrate, "1", "key:1", &port]]);
        wait_until_busy(&server, "MIGRATE in a script");
        let cannot_be_killed = || server.connect().run("SCRIPT KILL").text().starts_with("UNKILLABLE");
        wait_until("it is known what runs", cannot_be_killed);
        let _ = server.connect().send(b"SHUTDOWN NOSAVE\r\n");
        assert!(server.wait_exit().success());
    }
}

/// Without a threshold commands wait, as long as the script takes; clients can still end it.
#[test]
fn without_a_threshold_commands_wait_for_a_script_that_can_be_ended() {
    let server = Server::start_onrush(&["--workers", "1", "--busy-reply-threshold", "0"]);
    let mut conn = server.connect();
    let _endless = send(&server, &[argv!["EVAL", LOOP, "0"]]);
    wait_until("the script can be ended", || server.connect().run("SCRIPT KILL").text() == "OK");
    assert_eq!(conn.run("PING").text(), "PONG");
}

/// The answer to a kill does not wait for the rest of the transaction.
#[test]
fn each_of_two_scripts_in_a_transaction_is_ended_by_a_kill_of_its_own() {
    for workers in ["1", "2"] {
        let server = start(workers);
        let transaction = [argv!["MULTI"], argv!["EVAL", LOOP, "0"], argv!["EVAL", LOOP, "0"], argv!["EXEC"]];
        let mut endless = send(&server, &transaction);
        for which in ["the first", "the second"] {
            wait_until_busy(&server, which);
            let mut killer = server.connect();
            killer.set_timeout(REPLY_TIME_MAX);
            killer.send(b"SCRIPT KILL\r\n").expect("sent");
            assert_eq!(killer.read_reply().expect(which), b"+OK\r\n");
        }
        assert_eq!(ask(&server), "PONG");
        let replies = (0..4).map(|_| endless.read_reply().expect("a reply"));
        let reply = String::from_utf8_lossy(&replies.last().expect("the last")).into_owned();
        assert_eq!(reply.matches("Script killed by user with SCRIPT KILL").count(), 2, "{reply}");
    }
}

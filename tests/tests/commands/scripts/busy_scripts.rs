//! Scripts that take long: other clients go on, get BUSY, and can end the script.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

const BUSY_SCRIPT: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

fn start(workers: &str) -> Server {
    Server::start_onrush(&["--workers", workers, "--busy-reply-threshold", "100"])
}

fn send(server: &Server, script: &str) -> Conn {
    let mut conn = server.connect();
    conn.send_command(&argv!["EVAL", script, "0"]).expect("sent");
    conn
}

fn wait_until_busy(conn: &mut Conn) {
    wait_until("the script takes too long", || conn.run("GET k").text() == BUSY_SCRIPT);
}

#[test]
fn a_script_without_end_is_told_and_killed() {
    for workers in ["1", "2"] {
        for script in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do redis.pcall('GET', 'k') end",
            "local f = function() while true do end end while true do xpcall(f, f) end",
            "while true do redis.pcall('PING') pcall(redis.call, 'NOSUCH') end",
            "local co = coroutine.wrap(function() while true do end end) while true do pcall(co) end",
        ] {
            let server = start(workers);
            let mut conn = server.connect();
            conn.run("SET k v");
            let mut busy = send(&server, script);
            wait_until_busy(&mut conn);
            // On every worker, in pipelines, transactions, and for who connects only now.
            for _ in 0..4 {
                let mut other = server.connect();
                assert_eq!(other.run("SET k w").text(), BUSY_SCRIPT, "{script}");
                assert_eq!(other.run("PING").text(), BUSY_SCRIPT);
                assert_eq!(other.run("MULTI").text(), "OK");
                assert_eq!(other.run("SET k w").text(), BUSY_SCRIPT);
                assert!(other.run("EXEC").text().starts_with("EXECABORT"));
            }
            assert!(conn.run("FUNCTION KILL").text().starts_with("BUSY"));
            assert_eq!(conn.run("SCRIPT KILL").text(), "OK");
            let reply = String::from_utf8(busy.read_reply().expect("a reply")).expect("text");
            assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{script}: {reply}");
            wait_until("others go on", || conn.run("GET k").text() == "v");
            assert!(conn.run("SCRIPT KILL").text().starts_with("NOTBUSY"));
            assert_eq!(busy.run("EVAL 'return 1' 0"), Value::Int(1));
        }
    }
}

#[test]
fn a_script_that_has_written_is_not_killed() {
    let server = start("2");
    let mut conn = server.connect();
    let script = "redis.call('SET', 'k', 'v') local t = redis.call('TIME') \
                  while redis.call('TIME')[1] - t[1] < 3 do end return redis.call('GET', 'k')";
    let mut busy = send(&server, script);
    // Its changes on its worker were undone, and it began anew on another thread, so every worker answers.
    wait_until_busy(&mut conn);
    for _ in 0..4 {
        let mut other = server.connect();
        // What a script has written is known from its next look at the clock on.
        wait_until("the script cannot be killed", || other.run("SCRIPT KILL").text().starts_with("UNKILLABLE"));
    }
    assert_eq!(busy.read_reply().expect("a reply"), b"$1\r\nv\r\n");
    assert_eq!(conn.run("GET k").text(), "v");
}

#[test]
fn a_function_without_end_is_killed_as_such() {
    let server = start("2");
    let mut conn = server.connect();
    let library = "#!lua name=lib\nredis.register_function('forever', function() while true do end end)";
    assert_eq!(conn.call(&argv!["FUNCTION", "LOAD", library]).text(), "lib");
    let mut busy = server.connect();
    busy.send_command(&argv!["FCALL", "forever", "0"]).expect("sent");
    wait_until("the function takes too long", || conn.run("GET k").text().starts_with("BUSY"));
    assert!(conn.run("SCRIPT KILL").text().starts_with("BUSY"));
    let Value::Array(stats) = conn.run("FUNCTION STATS") else { panic!("an array") };
    assert!(stats[1].to_string().contains("forever"), "{}", stats[1]);
    assert_eq!(conn.run("FUNCTION KILL").text(), "OK");
    let reply = String::from_utf8(busy.read_reply().expect("a reply")).expect("text");
    assert!(reply.contains("FUNCTION KILL"), "{reply}");
}

/// What SCRIPT KILL and FUNCTION KILL answer, by what runs and whether it has written.
#[test]
fn what_ends_a_script_or_a_function_answers_as_the_oracles_do() {
    const LIBRARY: &str = "#!lua name=lib\nredis.register_function('forever', function(keys, args) \
        if args[1] then redis.call('SET', keys[1], 1) end while true do end end)";
    const SCRIPT: &str = "if ARGV[1] then redis.call('SET', KEYS[1], 1) end while true do end";
    let calls = [
        argv!["EVAL", SCRIPT, "1", "k"],
        argv!["EVAL", SCRIPT, "1", "k", "writes"],
        argv!["FCALL", "forever", "1", "k"],
        argv!["FCALL", "forever", "1", "k", "writes"],
    ];
    let answers = |start: fn(&[&str]) -> Server, call: &Argv, kill: &str| {
        let server = start(&["--busy-reply-threshold", "100", "--save", ""]);
        let mut conn = server.connect();
        conn.call(&argv!["FUNCTION", "LOAD", LIBRARY]);
        let mut busy = server.connect();
        busy.send_command(call).expect("sent");
        wait_until("it takes too long", || conn.run("GET k").text().starts_with("BUSY"));
        let answer = conn.run(kill).text();
        // Nothing else ends one that has written.
        server.signal("KILL");
        answer
    };
    for call in &calls {
        for kill in ["SCRIPT KILL", "FUNCTION KILL"] {
            let ours = answers(Server::start_onrush, call, kill);
            for start in [
                |args: &[&str]| Server::start_oracle(Oracle::Older, args),
                |args: &[&str]| Server::start_oracle(Oracle::Newer, args),
            ] {
                assert_eq!(ours, answers(start, call, kill), "{kill} of {call:?}");
            }
        }
    }
}

/// A long script that only reads leaves its worker: connections there are answered while it runs.
#[test]
fn a_long_script_does_not_keep_its_worker() {
    let server = Server::start_onrush(&["--workers", "1", "--busy-reply-threshold", "50"]);
    let mut conn = server.connect();
    let mut busy = send(&server, "local n = 0 for i = 1, 100000000 do n = n + i end return n");
    wait_until_busy(&mut conn);
    conn.run("SCRIPT KILL");
    busy.read_reply().expect("a reply");
    // Its effects before it was moved do not count twice.
    assert_eq!(conn.run("EVAL \"return redis.call('INCR', 'n')\" 0"), Value::Int(1));
}

#[test]
fn the_server_ends_though_a_script_does_not() {
    for how in ["SHUTDOWN NOSAVE", "SIGTERM"] {
        let mut server = start("2");
        let mut conn = server.connect();
        let _busy = send(&server, "while true do end");
        wait_until_busy(&mut conn);
        let before = Instant::now();
        if how == "SIGTERM" {
            server.signal("TERM");
        } else {
            let _ = conn.send(b"SHUTDOWN NOSAVE\r\n");
        }
        assert!(server.wait_exit().success(), "{how}");
        assert!(before.elapsed() < Duration::from_secs(5), "{how}");
    }
}

/// The data is to be saved, so the script must end first.
#[test]
fn the_end_of_a_server_waits_for_a_script_which_clients_can_end() {
    for (how, saves) in [("SCRIPT KILL", true), ("SHUTDOWN NOSAVE", false)] {
        let args = ["--workers", "2", "--busy-reply-threshold", "100", "--save", "3600 1"];
        let mut server = Server::start_onrush(&args);
        let mut conn = server.connect();
        conn.run("SET k v");
        let _busy = send(&server, "while true do end");
        wait_until_busy(&mut conn);
        server.signal("TERM");
        server.expect_log("The data is saved when the script has ended");
        let mut comes_now = server.connect();
        comes_now.send(format!("{how}\r\n").as_bytes()).expect("sent");
        if saves {
            assert_eq!(comes_now.read_reply().expect("a reply"), b"+OK\r\n");
        }
        assert!(server.wait_exit().success(), "{how}");
        assert_eq!(server.log().contains("DB saved on disk: 1 keys"), saves, "{how}: {}", server.log());
    }
}

/// The time of a script in a transaction counts from its own beginning.
#[test]
fn a_short_script_in_a_transaction_does_not_take_too_long() {
    let server = start("2");
    let (mut conn, started) = (server.connect(), Instant::now());
    wait_until("the server is older than the threshold", || started.elapsed() > Duration::from_millis(150));
    let script = "local n = 0 for i = 1, 50000 do n = n + 1 end return n";
    conn.run("MULTI");
    assert_eq!(conn.call(&argv!["EVAL", script, "0"]).text(), "QUEUED");
    assert_eq!(conn.run("EXEC").items().map(<[Value]>::to_vec), Some(vec![Value::Int(50_000)]));
    assert!(!server.log().contains("busy-reply-threshold"), "{}", server.log());
}

/// The snapshot waits for the script, and is given up when the script takes too long. Its turn for the whole keyspace must
/// be given up, too.
#[test]
fn a_snapshot_that_a_script_keeps_from_its_begin_keeps_nobody_else_from_anything() {
    let server = Server::start_onrush(&["--workers", "2", "--busy-reply-threshold", "3000", "--save", "1 1"]);
    let script = "local t, i = redis.call('TIME')[1], 0 \
                  repeat for k = 1, 200 do i = i + 1 redis.call('SET', 'k' .. k, i) end \
                  until redis.call('TIME')[1] - t >= tonumber(ARGV[1]) return 1";
    let mut conn = server.connect();
    for _ in 0..3 {
        // It changes too much to be undone, and is known to be short: so a worker executes it to its end.
        assert_eq!(conn.call(&argv!["EVAL", script, "0", "0"]), Value::Int(1));
    }
    assert_eq!(conn.call(&argv!["EVAL", script, "0", "5"]), Value::Int(1));
    conn.set_timeout(Duration::from_secs(5));
    assert_eq!(conn.run("FLUSHALL").text(), "OK");
    assert_eq!(conn.call(&argv!["EVAL", "return redis.call('DBSIZE')", "0"]), Value::Int(0));
    wait_until("the snapshot is taken after all", || conn.info_number("rdb_saves") >= Some(1));
}

/// A script that runs on the thread for long commands keeps to the limit of memory, too.
#[test]
fn a_long_script_uses_no_memory_beyond_its_limit() {
    let server = Server::start_onrush(&["--workers", "1", "--maxmemory", "20mb"]);
    let mut conn = server.connect();
    let script = "local n = 0 for i = 1, 3000000 do n = n + i end \
                  for i = 1, 40 do redis.call('RPUSH', KEYS[1], ARGV[1]) end return redis.call('LLEN', KEYS[1])";
    let value = "x".repeat(10_000);
    let mut last = Value::Int(0);
    for _ in 0..200 {
        last = conn.call(&argv!["EVAL", script, "1", "list", value]);
        if last.is_error() {
            break;
        }
    }
    assert!(last.text().contains("OOM"), "{last:?}");
    let used = conn.info_number("used_memory").expect("a number");
    assert!(used < 25_000_000, "{used}");
}

/// Tasks of a short pause are executed when it is over, though other long commands never end.
#[test]
fn a_write_behind_a_pause_does_not_starve_beside_long_commands() {
    let server = Server::start_onrush(&["--workers", "1"]);
    let mut conn = server.connect();
    for set in ["a", "b"] {
        for start in (0..30_000).step_by(1000) {
            let mut add = argv!["SADD", set];
            add.0.extend((start..start + 1000).map(|member| format!("{set}{member}").into_bytes()));
            conn.call(&add);
        }
    }
    let busy: Vec<Conn> = (0..3)
        .map(|_| {
            let mut conn = server.connect();
            let sorts: Vec<u8> = b"SORT a ALPHA LIMIT 0 1\r\n".repeat(300);
            conn.send(&sorts).expect("sent");
            conn
        })
        .collect();
    let mut write = server.connect();
    write.send(b"SUNIONSTORE c a b\r\n").expect("sent");
    conn.run("CLIENT PAUSE 300 WRITE");
    write.read_reply().expect("a reply");
    // The others are not done.
    for mut conn in busy {
        conn.send(b"ECHO end\r\n").expect("sent");
        conn.set_timeout(Duration::from_millis(1));
        while let Ok(reply) = conn.read_reply() {
            assert!(!reply.ends_with(b"end\r\n"), "the write has come last");
        }
    }
}

/// Of several reasons to refuse a command, the one that redis-server finds first is told.
#[test]
fn a_subscriber_is_refused_as_such_also_while_a_script_takes_too_long() {
    const LINES: [&str; 9] =
        ["GET k", "SET k v", "PING", "EXEC", "MULTI", "NOSUCH", "GET", "PUBLISH a b", "UNSUBSCRIBE none"];
    let replies = |server: &Server| {
        let (mut conn, mut killer) = (server.connect(), server.connect());
        conn.run("SUBSCRIBE ch");
        let _busy = send(server, "while true do end");
        wait_until_busy(&mut killer);
        let replies = LINES.map(|line| conn.run(line).to_string());
        assert_eq!(killer.run("SCRIPT KILL").text(), "OK");
        replies
    };
    let oracle = Server::start_oracle(Oracle::Newer, &["--busy-reply-threshold", "100"]);
    assert_eq!(replies(&start("1")), replies(&oracle));
}

//! Scripts that are made to do harm: whatever they send, grow or match, memory stays bounded and others are served.

use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::latency::holds_once;
use onrush_tests::process::peak_rss_kb;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

/// Longest time that a client may wait for a reply that has nothing to do with the script.
const WAIT_MAX: Duration = Duration::from_millis(1_200);
/// The server by itself, messages that wait to be sent, and what a subscriber may leave unread: 32 MB and one part.
const MEMORY_MAX_KB: u64 = 200 << 10;

fn start(args: &[&str]) -> Server {
    Server::start_onrush(&[&["--workers", "2", "--busy-reply-threshold", "100"], args].concat())
}

fn wait_until_busy(server: &Server) {
    let mut conn = server.connect();
    wait_until("the script takes too long", || conn.run("PING").text().starts_with("BUSY "));
}

/// Sends commands without reading their replies.
fn send(server: &Server, commands: &[Argv]) -> Conn {
    let mut conn = server.connect();
    commands.iter().for_each(|command| conn.send_command(command).expect("sent"));
    conn
}

/// A client that reads no message.
fn subscriber(server: &Server, line: &str) -> Conn {
    let mut conn = server.connect();
    assert!(conn.run(line).items().is_some(), "{line}");
    conn
}

#[test]
fn a_script_that_only_publishes_can_be_killed() {
    for (command, subscribe) in [("PUBLISH", "SUBSCRIBE ch"), ("SPUBLISH", "SSUBSCRIBE ch"), ("PUBLISH", "PING")] {
        let server = start(&[]);
        let mut reader = server.connect();
        reader.run(subscribe);
        let script = format!("while true do redis.call('{command}', 'ch', 'message') end");
        let mut busy = send(&server, &[argv!["EVAL", script, "0"]]);
        wait_until_busy(&server);
        assert_eq!(server.connect().run("SCRIPT KILL").text(), "OK", "{script}");
        let reply = busy.read_reply().expect("a reply");
        assert!(String::from_utf8_lossy(&reply).contains("Script killed by user"), "{}", reply.escape_ascii());
        assert_eq!(server.connect().run("PING").text(), "PONG");
    }
}

/// Lets a script without end tell a subscriber that does not read, until that one is closed.
fn tell_without_end(subscribe: &str, commands: &[Argv]) {
    let server = start(&["--notify-keyspace-events", "KEA"]);
    let _deaf = subscriber(&server, subscribe);
    let _endless = send(&server, commands);
    wait_until("it has left too much unread", || {
        let is_closed = server.log().contains("unread bytes passed client-output-buffer-limit pubsub");
        is_closed || peak_rss_kb(server.pid()) > MEMORY_MAX_KB
    });
    let peak = peak_rss_kb(server.pid());
    assert!(peak < MEMORY_MAX_KB, "{peak} kB, {commands:?}");
}

const PUBLISHES: &str = "local s = string.rep('x', 1000) while true do redis.call('PUBLISH', 'ch', s) end";

#[test]
fn messages_of_a_script_without_end_need_little_memory() {
    tell_without_end("SUBSCRIBE ch", &[argv!["EVAL", PUBLISHES, "0"]]);
}

#[test]
fn messages_of_a_transaction_without_end_need_little_memory() {
    let writes = argv!["SET", "k", "v"];
    tell_without_end("SUBSCRIBE ch", &[argv!["MULTI"], writes, argv!["EVAL", PUBLISHES, "1", "k"], argv!["EXEC"]]);
}

#[test]
fn events_of_a_script_without_end_need_little_memory() {
    let script = "while true do redis.call('INCR', KEYS[1]) end";
    tell_without_end("PSUBSCRIBE *", &[argv!["EVAL", script, "1", "k"]]);
}

/// Waits for a message.
fn next_message(conn: &mut Conn) -> Vec<u8> {
    conn.read_reply().expect("a message")
}

/// The number of a message that is a number and points.
fn number(message: &[u8]) -> Option<usize> {
    let text = message.strip_suffix(b"\r\n")?.rsplit(|byte| *byte == b'\n').next()?;
    let digits = text.iter().take_while(|byte| **byte != b'.').count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Reads messages with the numbers from `from` to below `to`; each must be the next one.
fn read_messages(conn: &mut Conn, from: usize, to: usize) {
    for expected in from..to {
        let message = next_message(conn);
        assert_eq!(number(&message), Some(expected), "{}", message[..message.len().min(100)].escape_ascii());
    }
}

fn start_for_readers() -> (Server, Conn, Conn) {
    let server = start(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let (reader, conn) = (subscriber(&server, "SUBSCRIBE ch"), server.connect());
    (server, reader, conn)
}

#[test]
fn messages_come_while_their_script_runs() {
    let (server, mut reader, mut conn) = start_for_readers();
    let script = "local s = string.rep('.', 100) for i = 0, ARGV[1] - 1 do redis.call('PUBLISH', 'ch', i .. s) end \
                  while true do end";
    let count = 600_000;
    let mut busy = send(&server, &[argv!["EVAL", script, "0", count.to_string()]]);
    let mut expected = count / 4;
    read_messages(&mut reader, 0, expected);
    wait_until_busy(&server);
    assert_eq!(conn.run("SCRIPT KILL").text(), "OK");
    assert!(busy.read_reply().expect("a reply").starts_with(b"-ERR"));
    // What was published by then is published.
    conn.run("PUBLISH ch end");
    while let Some(number) = number(&next_message(&mut reader)) {
        assert_eq!(number, expected);
        expected += 1;
    }
    assert!(expected <= count, "{expected}");
}

/// Begins a transaction; its reply is to come.
fn execute(conn: &mut Conn, commands: impl Iterator<Item = Argv>) {
    let mut bytes = Vec::new();
    let commands = [argv!["MULTI"]].into_iter().chain(commands).chain([argv!["EXEC"]]);
    let count = commands.inspect(|command| command.encode(&mut bytes)).count();
    let mut writer = conn.writer().expect("a second handle");
    std::thread::scope(|scope| {
        scope.spawn(|| writer.send(&bytes).expect("sent"));
        (1..count).for_each(|_| assert_eq!(conn.read_reply().expect("a reply")[0], b'+'));
    });
}

fn next_value(conn: &mut Conn) -> Value {
    Value::parse(&conn.read_reply().expect("a reply")).expect("RESP")
}

/// More than are kept until a commit ends, of scripts and transactions that could be undone at first.
#[test]
fn very_many_and_very_long_messages_come_once_and_in_order() {
    let script = "local s = string.rep('.', ARGV[2]) for i = 0, ARGV[1] - 1 do redis.call('INCR', KEYS[1]) \
                  redis.call('PUBLISH', 'ch', i .. s) end return redis.call('GET', KEYS[1])";
    for (count, padding) in [(150_000, 100), (30, 1_000_000)] {
        let publish = |number: usize| argv!["PUBLISH", "ch", format!("{number}{}", ".".repeat(padding))];
        let (server, mut reader, mut conn) = start_for_readers();
        conn.send_command(&argv!["EVAL", script, "1", "n", count.to_string(), padding.to_string()]).expect("sent");
        read_messages(&mut reader, 0, count);
        assert_eq!(next_value(&mut conn).text(), count.to_string());

        let incr = || [argv!["INCR", "m"]].into_iter();
        execute(&mut conn, incr().chain((count..2 * count).map(publish)).chain(incr()));
        let replies = next_value(&mut conn);
        let replies = replies.items().expect("an array");
        assert_eq!((replies.len(), replies.last()), (count + 2, Some(&Value::Int(2))));
        assert!(replies[..=count].iter().all(|reply| *reply == Value::Int(1)));
        read_messages(&mut reader, count, 2 * count);

        // They do not wait for the end of the transaction, either.
        let endless = [argv!["EVAL", "while true do end", "0"]];
        execute(&mut conn, incr().chain((2 * count..3 * count).map(publish)).chain(endless));
        read_messages(&mut reader, 2 * count, 2 * count + count / 4);
        wait_until("the script is ended", || server.connect().run("SCRIPT KILL").text() == "OK");
        read_messages(&mut reader, 2 * count + count / 4, 3 * count);
        assert!(next_value(&mut conn).items().and_then(<[Value]>::last).is_some_and(Value::is_error));
        // Nothing comes twice.
        conn.call(&publish(3 * count));
        read_messages(&mut reader, 3 * count, 3 * count + 1);
    }
}

/// How long others wait at most until all of them are told that a script is busy, or the script has ended.
fn longest_wait(server: &Server, script: &Argv) -> Duration {
    let mut others: Vec<Conn> = (0..4).map(|_| server.connect()).collect();
    others.iter_mut().for_each(|conn| assert_eq!(conn.run("PING").text(), "PONG"));
    let mut conn = server.connect();
    conn.send_command(script).expect("sent");
    conn.set_nonblocking(true);
    let (mut longest, mut told) = (Duration::ZERO, 0);
    while told < others.len() && conn.fill().is_err() {
        told = 0;
        for other in &mut others {
            let asked = Instant::now();
            let reply = other.run("PING").text();
            longest = longest.max(asked.elapsed());
            told += usize::from(reply.starts_with("BUSY "));
            assert!(reply == "PONG" || reply.starts_with("BUSY "), "{reply}");
        }
    }
    longest
}

/// What makes them slow is not in their text.
#[test]
fn scripts_that_only_look_short_keep_nobody_waiting() {
    let grows = format!(
        "redis.call('SET', KEYS[1], 'x') local a = ARGV[1] {}local b {}return 1",
        "a=a..a ".repeat(6),
        "b=a..1 ".repeat(1_200)
    );
    let reads =
        format!("redis.call('SET', KEYS[1], 'x') {}return 1", "redis.call('LRANGE', KEYS[2], 0, -1) ".repeat(1_500));
    for command in [argv!["EVAL", grows, "2", "k", "list", "y".repeat(250_000)], argv!["EVAL", reads, "2", "k", "list"]]
    {
        holds_once(|| {
            let server = start(&[]);
            let elements = (0..10_000).map(|n| format!("{n:07}").into_bytes());
            let push = Argv([b"RPUSH".to_vec(), b"list".to_vec()].into_iter().chain(elements).collect());
            server.connect().pipeline(&vec![push; 5]);
            let longest = longest_wait(&server, &command);
            let shown = command.to_string();
            (longest < WAIT_MAX).then_some(()).ok_or_else(|| format!("{longest:?}, {}", shown.split_at(100).0))
        });
    }
}

#[test]
fn a_pattern_that_is_too_complex_is_an_error_whatever_stands_behind_it() {
    let server = start(&[]);
    for call in [
        "string.gsub('x', p, '', 1)",
        "string.match('x', p, 1, 1)",
        "string.match('x', p, 1, true)",
        "string.gmatch('x', p, 1, 1)()",
        "string.find('x', p, 1, false)",
        "string.gsub('x', p, '')",
    ] {
        let script = format!("local p = string.rep('a*', 1000000) return {call}");
        let reply = server.connect().call(&argv!["EVAL", script, "0"]);
        assert!(reply.text().contains("pattern too complex"), "{call}: {reply}");
    }
    let plain = "local p = string.rep('a*', 1000000) return string.find('x' .. p, p, 1, true)";
    assert_eq!(server.connect().call(&argv!["EVAL", plain, "0"]), Value::Int(2));
}

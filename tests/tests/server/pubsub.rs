//! Messages: which clients get them, in which order, and what happens to clients that do not read them.

use std::io::ErrorKind;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, Server, wait_until};

const MB: i64 = 1024 * 1024;

fn send(conn: &mut Conn, line: &str) {
    conn.send_command(&Argv::parse(line).expect("balanced quotes")).expect("a connection");
}

fn read(conn: &mut Conn) -> String {
    let raw = conn.read_reply().expect("a reply or a message");
    Value::parse(&raw).expect("RESP").to_string()
}

/// Everything that comes up to the reply of an ECHO, in both protocols.
fn read_up_to_echo(conn: &mut Conn) -> Vec<Vec<u8>> {
    conn.send_command(&argv!["ECHO", "the end"]).expect("a connection");
    let mut replies = Vec::new();
    loop {
        let reply = conn.read_reply().expect("a reply or a message");
        if reply == b"$7\r\nthe end\r\n" {
            return replies;
        }
        replies.push(reply);
    }
}

fn subscriber(server: &Server, lines: &[&str]) -> Conn {
    let mut conn = server.connect();
    for line in lines {
        send(&mut conn, line);
        read(&mut conn);
    }
    conn
}

fn subscribers_of(conn: &mut Conn, channel: &str) -> i64 {
    match &conn.run(&format!("PUBSUB NUMSUB {channel}")).items().expect("pairs")[1] {
        Value::Int(count) => *count,
        other => panic!("{other}"),
    }
}

/// A script of lines, each for one connection (`1> PING`), with every reply and message. Each line waits for one reply.
fn play(server: &Server, script: &str) -> Vec<String> {
    let mut conns: Vec<Conn> = (0..3).map(|_| server.connect()).collect();
    let mut seen = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (number, command) = line.split_once("> ").expect("a connection and a command");
        let conn = &mut conns[number.parse::<usize>().expect("a number") - 1];
        if command != "READ" {
            send(conn, command);
        }
        let reply = read(conn);
        let reply = if command.starts_with("HELLO") { "hello".to_owned() } else { reply };
        seen.push(format!("{line}: {reply}"));
    }
    for (index, conn) in conns.iter_mut().enumerate() {
        conn.set_timeout(Duration::from_millis(20));
        if let Ok(reply) = conn.read_reply() {
            seen.push(format!("{} has left: {}", index + 1, String::from_utf8_lossy(&reply)));
        }
    }
    seen
}

const SCRIPTS: &[&str] = &[
    "
    1> SUBSCRIBE a b
    1> READ
    2> PUBLISH a 1
    2> PUBLISH c 2
    2> PUBLISH b 3
    1> READ
    1> READ
    1> PING
    1> PING x
    1> GET a
    1> CONFIG GET maxmemory
    1> PSUBSCRIBE a*
    2> PUBLISH a 4
    1> READ
    1> READ
    1> UNSUBSCRIBE a
    2> PUBLISH a 5
    1> READ
    1> RESET
    2> PUBLISH a 6
    1> PING
    2> PUBSUB NUMPAT
    2> PUBSUB CHANNELS
    ",
    "
    1> HELLO 3
    1> SUBSCRIBE a
    1> PUBLISH a 1
    1> READ
    1> SET k v
    1> SSUBSCRIBE a
    2> SPUBLISH a 2
    2> PUBLISH a 3
    1> READ
    1> READ
    1> HELLO 2
    1> GET k
    2> PUBLISH a 4
    1> READ
    1> HELLO 3
    1> UNSUBSCRIBE
    1> SUNSUBSCRIBE
    1> SUNSUBSCRIBE
    1> GET k
    2> PUBLISH a 5
    ",
    "
    1> HELLO 3
    1> SUBSCRIBE a
    2> SUBSCRIBE a
    3> PUBLISH a 1
    1> READ
    2> READ
    2> UNSUBSCRIBE
    2> PUNSUBSCRIBE
    2> PING
    3> PUBLISH a 2
    1> READ
    3> CLIENT KILL TYPE pubsub
    ",
    "
    2> SUBSCRIBE a
    1> HELLO 3
    1> SUBSCRIBE b
    1> MULTI
    1> PUBLISH a 1
    1> PUBLISH b 2
    1> SET k v
    1> SUBSCRIBE c
    1> PUBLISH c 3
    1> EXEC
    1> READ
    1> READ
    1> PING
    2> READ
    1> MULTI
    1> UNSUBSCRIBE b
    1> PUBLISH b 4
    1> EXEC
    1> PING
    1> RESET
    1> MULTI
    1> SUBSCRIBE d
    1> GET k
    1> PING
    1> EXEC
    1> GET k
    1> PING
    1> MULTI
    ",
];

#[test]
fn messages_come_as_from_redis_server() {
    let oracle = Server::start_oracle(Oracle::Newer, &[]);
    for workers in ["1", "2"] {
        let ours = Server::start_onrush(&["--workers", workers, "--gather-connections", "no"]);
        for script in SCRIPTS {
            assert_eq!(play(&ours, script), play(&oracle, script));
        }
    }
}

#[test]
fn client_reply_leaves_messages_and_confirmations_alone() {
    let lines = [
        "CLIENT REPLY OFF",
        "SUBSCRIBE a",
        "PUBLISH a 1",
        "PING",
        "SUBSCRIBE",
        "CLIENT REPLY SKIP",
        "UNSUBSCRIBE a",
        "CLIENT REPLY ON",
        "CLIENT REPLY SKIP",
        "SUBSCRIBE a",
        "CLIENT REPLY SKIP",
        "PUBLISH a 2",
        "PING",
        "PING",
    ];
    let heard = |server: &Server| {
        let mut conn = server.connect();
        conn.run("HELLO 3");
        lines.iter().for_each(|line| send(&mut conn, line));
        read_up_to_echo(&mut conn)
    };
    let ours = Server::start_onrush(&[]);
    assert_eq!(heard(&ours), heard(&Server::start_oracle(Oracle::Newer, &[])));
}

#[test]
fn every_subscriber_gets_every_message_of_a_publisher_in_order() {
    const PUBLISHERS: usize = 3;
    const MESSAGES: usize = 2_000;
    for workers in ["1", "2"] {
        let server = Server::start_onrush(&["--workers", workers, "--gather-connections", "no"]);
        let kinds =
            [&["SUBSCRIBE c"][..], &["PSUBSCRIBE c*"], &["HELLO 3", "SUBSCRIBE c"], &["SUBSCRIBE c", "PSUBSCRIBE ?"]];
        let mut subscribers: Vec<Conn> = (0..12).map(|n| subscriber(&server, kinds[n % kinds.len()])).collect();
        let publish = |publisher: usize| {
            let mut conn = server.connect();
            let commands: Vec<Argv> =
                (0..MESSAGES).map(|n| argv!["PUBLISH", "c", format!("{publisher}:{n}")]).collect();
            for batch in commands.chunks(97) {
                assert!(conn.pipeline(batch).iter().all(|reply| reply == b":15\r\n"));
            }
        };
        std::thread::scope(|scope| {
            (0..PUBLISHERS).for_each(|publisher| drop(scope.spawn(move || publish(publisher))));
            for (index, conn) in subscribers.iter_mut().enumerate() {
                let copies = if index % kinds.len() == 3 { 2 } else { 1 };
                let mut next = [0; PUBLISHERS];
                for _ in 0..PUBLISHERS * MESSAGES * copies {
                    let message = Value::parse(&conn.read_reply().expect("a message")).expect("RESP");
                    let text = message.items().expect("a message").last().expect("its text").text();
                    let (publisher, number) = text.split_once(':').expect("a publisher and a number");
                    let next = &mut next[publisher.parse::<usize>().expect("a number")];
                    assert_eq!(number.parse::<usize>().expect("a number"), *next / copies, "subscriber {index}");
                    *next += 1;
                }
            }
        });
    }
}

#[test]
fn no_message_comes_behind_the_end_of_its_subscription() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        let server = &server;
        scope.spawn(move || {
            let mut conn = server.connect();
            let batch = vec![argv!["PUBLISH", "c", "x".repeat(3_000)]; 50];
            // Also if an assertion fails.
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                conn.pipeline(&batch);
            }
        });
        let mut conn = server.connect();
        for _ in 0..300 {
            send(&mut conn, "SUBSCRIBE c");
            assert!(read(&mut conn).contains("subscribe"), "a message before the confirmation");
            for _ in 0..3 {
                read(&mut conn);
            }
            send(&mut conn, "UNSUBSCRIBE c");
            while !read(&mut conn).contains("unsubscribe") {}
            send(&mut conn, "PING");
            assert_eq!(conn.read_reply().expect("a reply"), b"+PONG\r\n", "a message behind the confirmation");
        }
        stop.send(()).expect("a publisher");
    });
}

#[test]
fn messages_stand_between_the_replies_of_a_pipeline() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let mut conn = subscriber(&server, &["HELLO 3", "SUBSCRIBE c"]);
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let mut conn = server.connect();
            (0..200).for_each(|_| drop(conn.pipeline(&vec![argv!["PUBLISH", "c", "message"]; 20])));
        });
        let value = "v".repeat(100);
        let mut messages = 0;
        for _ in 0..100 {
            let commands: Vec<Argv> =
                (0..50).flat_map(|n| [argv!["SET", n.to_string(), &value], argv!["GET", n.to_string()]]).collect();
            let mut bytes = Vec::new();
            commands.iter().for_each(|command| command.encode(&mut bytes));
            conn.send(&bytes).expect("a connection");
            let mut replies = 0;
            while replies < commands.len() {
                let reply = conn.read_reply().expect("a reply or a message");
                if reply.starts_with(b">3\r\n$7\r\nmessage") {
                    messages += 1;
                } else {
                    let expected =
                        if replies % 2 == 0 { b"+OK\r\n".to_vec() } else { format!("$100\r\n{value}\r\n").into() };
                    assert_eq!(reply, expected);
                    replies += 1;
                }
            }
        }
        publisher.join().expect("a publisher");
        messages += read_up_to_echo(&mut conn).len();
        assert_eq!(messages, 4_000);
    });
}

#[test]
fn who_vanishes_leaves_nothing_behind() {
    let server = Server::start_onrush(&["--workers", "2", "--gather-connections", "no"]);
    let mut conn = server.connect();
    let many: Vec<String> = (0..5_000).map(|n| format!("many:{n}")).collect();
    let many = Argv::new(&[&["SUBSCRIBE".to_owned()], many.as_slice()].concat());
    let vanish: [fn(Conn); 3] = [
        drop,
        |conn| conn.reset_on_drop(),
        |mut conn| {
            conn.half_close();
            assert!(conn.read_to_close().expect("the end of the stream").is_empty());
        },
    ];
    for vanish in vanish {
        let mut listening = subscriber(&server, &["SUBSCRIBE c", "PSUBSCRIBE c*", "SSUBSCRIBE c"]);
        listening.send_command(&many).expect("a connection");
        (0..5_000).for_each(|_| drop(read(&mut listening)));
        assert_eq!(subscribers_of(&mut conn, "c"), 1);
        assert_eq!(conn.info_number("pubsub_channels"), Some(5_001));
        assert_eq!(conn.info_number("pubsub_clients"), Some(1));
        vanish(listening);
        wait_until("all subscriptions have ended", || {
            ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels", "pubsub_clients"]
                .iter()
                .all(|name| conn.info_number(name) == Some(0))
        });
        assert_eq!(conn.run("PUBLISH c x"), Value::Int(0));
    }
}

/// Publishes batches of messages of 10 KB until `done`; returns how many it took. Fails when 64 MB were not enough.
fn publish_until(conn: &mut Conn, done: impl Fn(&[Vec<u8>]) -> bool) -> usize {
    let batch = vec![argv!["PUBLISH", "c", "x".repeat(10_000)]; 20];
    (1..=320).find(|_| done(&conn.pipeline(&batch))).expect("an end in time") * batch.len()
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_at_the_hard_limit() {
    let server = Server::start_onrush(&[
        "--client-output-buffer-limit",
        "pubsub 2mb 0 0",
        "--workers",
        "2",
        "--gather-connections",
        "no",
    ]);
    let mut conn = server.connect();
    let (mut slow, mut fast) = (subscriber(&server, &["SUBSCRIBE c"]), subscriber(&server, &["SUBSCRIBE c"]));
    let published = std::thread::scope(|scope| {
        let (all, told) = std::sync::mpsc::channel::<usize>();
        let fast = &mut fast;
        scope.spawn(move || {
            let mut seen = 0;
            let mut total = None;
            while total.is_none_or(|total| seen < total) {
                fast.set_timeout(Duration::from_millis(50));
                match fast.read_reply() {
                    Ok(_) => seen += 1,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => panic!("{error} after {seen} messages"),
                }
                total = total.or_else(|| told.try_recv().ok());
            }
        });
        let published = publish_until(&mut conn, |replies| replies.iter().any(|reply| reply == b":1\r\n"));
        all.send(published).expect("a subscriber");
        published
    });
    assert!(published * 10_000 > 2 * MB as usize, "closed after {published} messages");
    assert!(slow.read_to_close().expect("an end").len() < published * 10_000);
    assert_eq!(conn.info_number("client_output_buffer_limit_disconnections"), Some(1));
    server.expect_log("passed client-output-buffer-limit pubsub");
    assert_eq!(subscribers_of(&mut conn, "c"), 1);
}

#[test]
fn a_subscriber_is_closed_when_it_has_been_at_the_soft_limit_for_too_long() {
    let server = Server::start_onrush(&["--client-output-buffer-limit", "pubsub 0 1mb 1"]);
    let mut conn = server.connect();
    let _slow = subscriber(&server, &["SUBSCRIBE c"]);
    let waiting = |conn: &mut Conn| {
        let list = conn.run("CLIENT LIST TYPE pubsub").text();
        let bytes = list.split(' ').find_map(|field| field.strip_prefix("omem=")).map(str::to_owned);
        bytes.map_or(0, |bytes| bytes.parse::<i64>().expect("a number"))
    };
    let batch = vec![argv!["PUBLISH", "c", "x".repeat(10_000)]; 20];
    // However much of it the sockets take yet, more than the limit stays.
    while waiting(&mut conn) < 16 * MB {
        conn.pipeline(&batch);
    }
    assert_eq!(conn.info_number("client_output_buffer_limit_disconnections"), Some(0), "closed before its time");
    // Nothing more is published: its time runs out all the same.
    wait_until("the subscriber is closed", || subscribers_of(&mut conn, "c") == 0);
    assert_eq!(conn.info_number("client_output_buffer_limit_disconnections"), Some(1));
}

#[test]
fn a_client_that_leaves_replies_unread_falls_under_the_normal_limit() {
    let server = Server::start_onrush(&["--client-output-buffer-limit", "normal 200kb 0 0"]);
    let (mut conn, mut slow) = (server.connect(), server.connect());
    conn.call(&argv!["SET", "k", "x".repeat(100_000)]);
    let mut bytes = Vec::new();
    (0..200).for_each(|_| argv!["GET", "k"].encode(&mut bytes));
    slow.send(&bytes).expect("a connection");
    wait_until("the client is closed", || conn.info_number("client_output_buffer_limit_disconnections") == Some(1));
    assert!(slow.read_to_close().expect("an end").len() < 200 * 100_000);
    server.expect_log("passed client-output-buffer-limit normal");
}

#[test]
fn what_slow_subscribers_have_not_read_is_there_once() {
    const SUBSCRIBERS: i64 = 50;
    let server = Server::start_onrush(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let mut conn = server.connect();
    let before = conn.info_number("used_memory").expect("a number");
    let slow: Vec<Conn> = (0..SUBSCRIBERS).map(|_| subscriber(&server, &["SUBSCRIBE c"])).collect();
    let batch = vec![argv!["PUBLISH", "c", "x".repeat(1_000)]; 100];
    let omem = |conn: &mut Conn| -> Vec<i64> {
        let list = conn.run("CLIENT LIST TYPE pubsub").text();
        list.split(' ')
            .filter_map(|field| field.strip_prefix("omem="))
            .map(|bytes| bytes.parse().expect("a number"))
            .collect()
    };
    while omem(&mut conn).iter().any(|bytes| *bytes < 4 * MB) {
        conn.pipeline(&batch);
    }
    let used = conn.info_number("used_memory").expect("a number") - before;
    let all = omem(&mut conn).iter().sum::<i64>();
    assert!(all > SUBSCRIBERS * 4 * MB);
    // Each has some 64 KB of its own, and all share the rest.
    assert!(used < all / 5, "{used} bytes are used for {all} that wait");
    let counted = conn.info_number("mem_clients_normal").expect("a number");
    assert!(counted > 4 * MB && counted < used + 4 * MB, "{counted} bytes of clients, {used} in use");
    drop(slow);
    wait_until("the memory is back", || {
        conn.info_number("used_memory").expect("a number") - before < MB
            && conn.info_number("pubsub_clients") == Some(0)
    });
}

#[test]
fn a_subscriber_far_behind_may_still_unsubscribe() {
    let server = Server::start_onrush(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let mut conn = server.connect();
    let mut slow = subscriber(&server, &["SUBSCRIBE c d"]);
    read(&mut slow);
    let batch = vec![argv!["PUBLISH", "c", "x".repeat(10_000)]; 100];
    (0..20).for_each(|_| drop(conn.pipeline(&batch)));
    send(&mut slow, "UNSUBSCRIBE c");
    wait_until("it has unsubscribed", || subscribers_of(&mut conn, "c") == 0);
    conn.run("PUBLISH d last");
    (0..2_000).for_each(|n| assert!(read(&mut slow).contains("xxx"), "message {n}"));
    // The other channel's message may overtake the confirmation, never the messages.
    let (first, second) = (read(&mut slow), read(&mut slow));
    assert!(first.contains("unsubscribe") != second.contains("unsubscribe"), "{first}\n{second}");
    assert!(first.contains("last") != second.contains("last"), "{first}\n{second}");
}

#[test]
fn an_idle_subscriber_is_not_closed() {
    let server = Server::start_onrush(&["--timeout", "1"]);
    let mut listening = subscriber(&server, &["SUBSCRIBE c"]);
    let mut idle = server.connect();
    assert!(idle.read_to_close().expect("an end").is_empty());
    let mut conn = server.connect();
    assert_eq!(conn.run("PUBLISH c x"), Value::Int(1));
    assert!(read(&mut listening).contains('x'));
}

#[test]
fn clients_are_listed_and_closed_by_their_subscriptions() {
    let server = Server::start_onrush(&[]);
    let mut conn = server.connect();
    let _listening = subscriber(&server, &["SUBSCRIBE a b", "PSUBSCRIBE c*", "SSUBSCRIBE d"]);
    let mut list = String::new();
    wait_until("it has subscribed", || {
        list = conn.run("CLIENT LIST TYPE pubsub").text();
        list.contains(" flags=P ") && list.contains(" sub=2 psub=1 ssub=1 ")
    });
    assert_eq!(list.lines().count(), 1);
    assert_eq!(conn.run("CLIENT LIST TYPE normal").text().lines().count(), 1);
    assert_eq!(conn.run("CLIENT KILL TYPE pubsub"), Value::Int(1));
    wait_until("it is gone", || conn.info_number("pubsub_clients") == Some(0));
}

#[test]
fn what_was_published_before_a_panic_is_told() {
    let server = Server::start_onrush(&["--enable-debug-command", "yes"]);
    let mut listening = subscriber(&server, &["SUBSCRIBE c"]);
    let mut conn = server.connect();
    conn.send(b"PUBLISH c told\r\nDEBUG PANIC\r\n").expect("a connection");
    assert!(read(&mut listening).contains("told"));
}

//! Primaries that send garbage, stop in the middle, or are silent: the replica keeps its data and tries again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use onrush_tests::argv;
use onrush_tests::resp::Value;
use onrush_tests::server::{Server, wait_until};

use crate::follows::info;

const ID: &str = "0123456789012345678901234567890123456789";
/// An empty file of version 9, without a checksum.
const EMPTY: &[u8] = b"REDIS0009\xff\0\0\0\0\0\0\0\0";

/// Reads a command.
fn read_command(from: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|len| *len > 0)?;
    let count: usize = line.trim().strip_prefix('*')?.parse().ok()?;
    (0..count)
        .map(|_| {
            let mut line = String::new();
            from.read_line(&mut line).ok()?;
            let len: usize = line.trim().strip_prefix('$')?.parse().ok()?;
            let mut bytes = vec![0; len + 2];
            from.read_exact(&mut bytes).ok()?;
            bytes.truncate(len);
            String::from_utf8(bytes).ok()
        })
        .collect()
}

/// Serves one replica up to PSYNC, then sends `answer`; returns what the replica has asked for, and the connection.
fn serve(listener: &TcpListener, answer: &[u8]) -> (Vec<String>, TcpStream) {
    let (mut stream, _) = listener.accept().expect("a replica");
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    loop {
        let command = read_command(&mut reader).expect("a command");
        if command[0] == "PSYNC" {
            // The replica may have hung up.
            let _ = stream.write_all(answer);
            return (command, stream);
        }
        stream.write_all(if command[0] == "PING" { b"+PONG\r\n" } else { b"+OK\r\n" }).expect("it is sent");
    }
}

fn full(payload: &[u8]) -> Vec<u8> {
    [format!("+FULLRESYNC {ID} 7\r\n").as_bytes(), payload].concat()
}

fn with_len(payload: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", payload.len()).as_bytes(), payload].concat()
}

#[test]
fn a_primary_that_lies_changes_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Server::start_onrush(&[]);
    let mut ours = server.connect();
    ours.run("SET key value");
    ours.call(&argv!["REPLICAOF", "127.0.0.1", listener.local_addr().expect("an address").port().to_string()]);
    let mark = "m".repeat(40);
    for (answer, told) in [
        (b"-ERR no\r\n".to_vec(), "replies \"-ERR no\""),
        (b"+CONTINUE nonsense\r\n".to_vec(), "PSYNC: the primary replies"),
        (full(b"+OK\r\n"), "the primary sends \"+OK\""),
        (full(b"$-5\r\n"), "the primary sends"),
        (full(&with_len(b"garbage that is no file")), "receiving the data"),
        (full(&with_len(&EMPTY[..EMPTY.len() - 4])), "receiving the data"),
        (full(format!("$EOF:{mark}\r\nREDIS0009").as_bytes()), "the primary has closed"),
        (full(b"$99999999999\r\nREDIS0009"), "the primary has closed"),
        (full(&with_len(b"REDIS0009\xfe\x00\x00\x01a\xff")), "receiving the data"),
        (vec![b'x'; 100_000], "a line does not end"),
    ] {
        let before = server.log().matches("failed").count();
        drop(serve(&listener, &answer));
        wait_until("the failure is told", || server.log().matches("failed").count() > before);
        assert!(server.log_tail().contains(told), "{told}: {}", server.log_tail());
        assert_eq!(ours.run("GET key").text(), "value");
    }
    // The first honest one is followed.
    let (_, mut stream) = serve(&listener, &full(&with_len(EMPTY)));
    wait_until("the data is replaced", || ours.run("DBSIZE") == Value::Int(0));
    stream
        .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n")
        .expect("sent");
    wait_until("whole commands are executed", || ours.run("GET a").text() == "b");
    let offset = (7 + 27).to_string();
    wait_until("they count", || info(&mut ours, "replication", "slave_repl_offset") == offset);
    // A transaction that is cut off is dropped, and asked for again.
    drop(stream);
    let (psync, mut stream) = serve(&listener, b"+CONTINUE\r\n");
    assert_eq!(psync, ["PSYNC", ID, &(7 + 27 + 1).to_string()]);
    stream.write_all(b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n*1\r\n$4\r\nEXEC\r\n").expect("sent");
    wait_until("the transaction is executed", || ours.run("GET c").text() == "1");
    // The history has another name.
    drop(stream);
    let name = "9".repeat(40);
    let (_, mut stream) = serve(&listener, format!("+CONTINUE {name}\r\n").as_bytes());
    wait_until("the history has its new name", || info(&mut ours, "replication", "master_replid") == name);
    assert_eq!(info(&mut ours, "replication", "master_replid2"), ID);
    // Bytes that are no commands would come again: all data is asked for. Until it comes, the old data stays.
    stream.write_all(b"garbage\r\n").expect("sent");
    let (psync, _stream) = serve(&listener, b"-NOMASTERLINK wait\r\n");
    assert!(psync[1] != name && psync[1] != ID, "{psync:?}");
    assert_eq!(ours.run("GET c").text(), "1");
}

#[test]
fn a_command_about_the_connection_is_no_part_of_a_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let server = Server::start_onrush(&["--replicaof", "127.0.0.1", &port]);
    let mut ours = server.connect();
    for line in ["SUBSCRIBE c", "RESET", "MULTI|SET d 1|DISCARD", "SHUTDOWN NOSAVE", "SELECT 99"] {
        let (_, mut stream) = serve(&listener, &full(&with_len(EMPTY)));
        for command in ["SELECT 3", "SET before 1"].into_iter().chain(line.split('|')).chain(["SET behind 1"]) {
            let args: Vec<&str> = command.split(' ').collect();
            let words: String = args.iter().map(|arg| format!("${}\r\n{arg}\r\n", arg.len())).collect();
            // The link may have ended.
            let _ = stream.write_all(format!("*{}\r\n{words}", args.len()).as_bytes());
        }
        let (psync, mut stream) = serve(&listener, &full(&with_len(EMPTY)));
        assert!(psync[1] != ID, "{line}: {psync:?}");
        // What follows is executed as ever, and nothing of what was behind it.
        stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n").expect("sent");
        wait_until("the new stream is followed", || ours.run("GET a").text() == "b");
        assert_eq!((ours.run("DBSIZE"), info(&mut ours, "replication", "role").as_str()), (Value::Int(1), "slave"));
        drop(stream);
    }
}

#[test]
fn data_that_breaks_off_leaves_nothing_where_nothing_was() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let server = Server::start_onrush(&[
        "--appendonly",
        "yes",
        "--enable-debug-command",
        "yes",
        "--replicaof",
        "127.0.0.1",
        &port,
    ]);
    let mut ours = server.connect();
    // One key, and the beginning of another.
    let begun = b"REDIS0009\xfe\x00\x00\x01a\x01b\x00\x01c";
    let mark = "m".repeat(40);
    for payload in [
        [format!("$EOF:{mark}\r\n").as_bytes(), begun].concat(),
        [b"$99\r\n", &begun[..]].concat(),
        with_len(begun),
        with_len(&[&begun[..], b"\xf3garbage garbage"].concat()),
    ] {
        let before = server.log().matches("receiving the data").count();
        let (_, mut stream) = serve(&listener, &full(&payload[..payload.len() - 3]));
        wait_until("it is loaded as it comes", || ours.run("GET a").text().starts_with("LOADING"));
        // The replica may have hung up.
        let _ = stream.write_all(&payload[payload.len() - 3..]);
        drop(stream);
        wait_until("it is not", || ours.run("DBSIZE") == Value::Int(0));
        assert_eq!(info(&mut ours, "persistence", "loading"), "0");
        wait_until("it is told", || server.log().matches("receiving the data").count() > before);
    }
    // What a library of functions is, is not data that may go.
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    assert_eq!(ours.call(&argv!["FUNCTION", "LOAD", library]).text(), "l");
    ours.call(&argv!["REPLICAOF", "127.0.0.1", &port]);
    drop(serve(&listener, &full(&with_len(begun))));
    drop(serve(&listener, &full(&with_len(&EMPTY[..EMPTY.len() - 4]))));
    assert_eq!(ours.run("FUNCTION LIST").items().map(<[_]>::len), Some(1));
    let honest = b"REDIS0009\xfe\x00\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0";
    let (_, stream) =
        serve(&listener, &full(&[format!("$EOF:{mark}\r\n").as_bytes(), honest, mark.as_bytes()].concat()));
    wait_until("it has the data", || ours.run("GET a").text() == "b");
    assert_eq!(ours.run("FUNCTION LIST").items().map(<[_]>::len), Some(0));
    drop(stream);
    // The append-only file has it, too.
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    assert_eq!(ours.run("DEBUG LOADAOF").text(), "OK");
    assert_eq!(ours.run("GET a").text(), "b");
}

#[test]
fn a_command_without_end_ends_the_link() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let server = Server::start_onrush(&["--client-query-buffer-limit", "1mb", "--replicaof", "127.0.0.1", &port]);
    let (_, mut stream) = serve(&listener, &full(&with_len(EMPTY)));
    stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$9000000000\r\n").expect("sent");
    let (piece, mut sent) = (vec![b'x'; 1 << 20], 0_u64);
    while sent < 9_000_000_000 && stream.write_all(&piece).is_ok() {
        sent += piece.len() as u64;
    }
    // What the sockets hold is not read any more.
    assert!(((1 << 30)..(1 << 30) + (64 << 20)).contains(&sent), "{sent}");
    wait_until("it is told", || server.log().contains("more bytes than client-query-buffer-limit (1073741824)"));
    let (psync, _stream) = serve(&listener, &full(&with_len(EMPTY)));
    assert_eq!(psync, ["PSYNC", "?", "-1"], "the same would come again, but all data has it");
    let mut ours = server.connect();
    wait_until("its memory is given back", || {
        info(&mut ours, "memory", "used_memory").parse::<u64>().unwrap() < 64 << 20
    });
}

#[test]
fn a_primary_that_is_silent_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let server = Server::start_onrush(&["--repl-timeout", "1", "--replicaof", "127.0.0.1", &port]);
    // Before PING is answered, in the data, and in the stream.
    let held = [
        listener.accept().expect("a replica").0,
        serve(&listener, &full(b"$100\r\nREDIS0009")).1,
        serve(&listener, &full(&with_len(EMPTY))).1,
        listener.accept().expect("it comes again").0,
    ];
    assert!(server.log().matches("is silent for repl-timeout").count() >= 3, "{}", server.log());
    let mut ours = server.connect();
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    drop(held);
}

#[test]
fn a_sync_that_hangs_is_ended_by_another_role() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Server::start_onrush(&[]);
    let mut ours = server.connect();
    ours.call(&argv!["REPLICAOF", "127.0.0.1", listener.local_addr().expect("an address").port().to_string()]);
    // There is no data here, so that the primary's is loaded as it comes: it does not come.
    let (_, _stream) = serve(&listener, &full(b"$99999999999\r\nREDIS0009"));
    wait_until("the data is on its way", || ours.run("GET a").text().starts_with("LOADING"));
    let asked = Instant::now();
    assert_eq!(ours.run("REPLICAOF NO ONE").text(), "OK");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    wait_until("it is a primary", || ours.run("SET a b").text() == "OK");
}

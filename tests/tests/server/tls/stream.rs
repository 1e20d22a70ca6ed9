//! What passes through an encrypted connection, and how it ends.

use std::time::{Duration, Instant};

use onrush::rustls::{self, HandshakeKind};
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::wait_until;

use super::TlsServer;
use super::authority::Authority;
use super::peer::{Peer, records, trust, trust_with};

/// More than a connection has as input and as output at a time.
const LARGE: usize = 3_000_000;

fn start(more: &[&str]) -> (TlsServer, Peer, Authority) {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, more);
    let peer = Peer::connect(server.tls_port(), &trust(&authority, Some("client"))).expect("a connection");
    (server, peer, authority)
}

#[test]
fn a_pipeline_is_one_batch_and_its_replies_one_record() {
    let (server, mut peer, _authority) = start(&[]);
    let mut plain = server.server.connect();
    peer.expect("PING", "+PONG\r\n");
    let reads = plain.info_number("total_reads_processed").expect("a number");
    peer.received.clear();
    peer.send(&b"*1\r\n$4\r\nPING\r\n".repeat(100));
    assert_eq!(peer.receive(700), b"+PONG\r\n".repeat(100));
    assert_eq!(records(&peer.received).len(), 1);
    // That of the last INFO counts, too.
    assert_eq!(plain.info_number("total_reads_processed"), Some(reads + 2));
}

#[test]
fn large_values_and_long_pipelines_pass_in_full_records() {
    let (_server, mut peer, _authority) = start(&[]);
    let value: Vec<u8> = (0..LARGE).map(|at| (at * 31 % 251) as u8).collect();
    let set = [format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE}\r\n").as_bytes(), &value, b"\r\n"].concat();
    peer.send(&set);
    assert_eq!(peer.receive(5), b"+OK\r\n");
    peer.received.clear();
    peer.send(b"GET k\r\n");
    let head = format!("${LARGE}\r\n");
    assert_eq!(peer.receive(head.len()), head.as_bytes());
    assert!(peer.receive(LARGE) == value);
    assert_eq!(peer.receive(2), b"\r\n");
    let count = records(&peer.received).len();
    assert!(count <= LARGE / (16 * 1024) + 20, "{count} records");

    // The values that are sent by reference stand between short replies.
    peer.send(&b"ECHO a\r\nGET k\r\nECHO b\r\n".repeat(20));
    for _ in 0..20 {
        assert_eq!(peer.receive(7 + head.len()), [b"$1\r\na\r\n", head.as_bytes()].concat());
        assert!(peer.receive(LARGE) == value);
        assert_eq!(peer.receive(9), b"\r\n$1\r\nb\r\n");
    }
    let count = 200_000;
    peer.send(&b"INCR n\r\n".repeat(count));
    let replies: String = (1..=count).map(|n| format!(":{n}\r\n")).collect();
    assert!(peer.receive(replies.len()) == replies.as_bytes());
}

#[test]
fn records_may_be_tiny_empty_or_come_in_pieces() {
    let (_server, mut peer, _authority) = start(&[]);
    let tiny: Vec<u8> = b"PING\r\n".repeat(500).iter().flat_map(|byte| peer.seal(&[*byte])).collect();
    peer.send_sealed(&tiny).expect("the server reads");
    assert_eq!(peer.receive(3500), b"+PONG\r\n".repeat(500));
    // A record of two commands and a half, byte by byte.
    let whole = peer.seal(b"SET a 1\r\nINCR a\r\nGET");
    for byte in whole {
        peer.send_sealed(&[byte]).expect("the server reads");
    }
    assert_eq!(peer.receive(9), b"+OK\r\n:2\r\n");
    peer.expect(" a", "$1\r\n2\r\n");
    // Cut in the middle of a record after the next one has begun.
    let two = [peer.seal(b"ECHO x\r\n"), peer.seal(b"ECHO y\r\n")].concat();
    let (first, second) = two.split_at(two.len() / 2 + 3);
    peer.send_sealed(first).expect("the server reads");
    assert_eq!(peer.receive(7), b"$1\r\nx\r\n");
    peer.send_sealed(second).expect("the server reads");
    assert_eq!(peer.receive(7), b"$1\r\ny\r\n");
}

#[test]
fn nothing_stays_behind_a_command_that_waits() {
    let (server, mut peer, _authority) = start(&[]);
    let mut plain = server.server.connect();
    for (wait, go) in [("BLPOP l 0", "RPUSH l v"), ("CLIENT PAUSE 300 ALL", "PING")] {
        // All of it comes with one read, as it was encrypted: no event tells of the rest.
        let batch = [format!("{wait}\r\n").as_bytes(), &b"PING\r\n".repeat(40_000)].concat();
        let sealed: Vec<u8> = batch.chunks(16 * 1024).flat_map(|part| peer.seal(part)).collect();
        peer.send_sealed(&sealed).expect("the server reads");
        plain.run("PING");
        plain.run(go);
        let head = if wait.starts_with("BLPOP") { &b"*2\r\n$1\r\nl\r\n$1\r\nv\r\n"[..] } else { b"+OK\r\n" };
        assert_eq!(peer.receive(head.len()), head);
        assert!(peer.receive(280_000) == b"+PONG\r\n".repeat(40_000));
    }
}

#[test]
fn connections_move_between_workers_with_a_record_half_read() {
    const CLIENTS: usize = 8;
    let (server, _peer, authority) = start(&["--workers", "3"]);
    let config = trust(&authority, Some("client"));
    let mut plain = server.server.connect();
    let mut peers: Vec<_> =
        (0..CLIENTS).map(|_| Peer::connect(server.tls_port(), &config).expect("a connection")).collect();
    for (round, gather) in ["yes", "no"].into_iter().cycle().take(6).enumerate() {
        let sealed: Vec<_> = peers.iter_mut().map(|peer| peer.seal(&b"INCR n\r\n".repeat(500))).collect();
        for (peer, sealed) in peers.iter_mut().zip(&sealed) {
            peer.send_sealed(&sealed[..sealed.len() / 2]).expect("the server reads");
        }
        plain.run(&format!("CONFIG SET gather-connections {gather}"));
        let used = if gather == "yes" { 1 } else { 3 };
        wait_until("the connections have moved", || plain.info_number("workers_used") == Some(used));
        for (peer, sealed) in peers.iter_mut().zip(&sealed) {
            peer.send_sealed(&sealed[sealed.len() / 2..]).expect("the server reads");
        }
        for peer in &mut peers {
            (0..500).for_each(|_| while peer.receive(1) != b"\n" {});
        }
        let count = (round + 1) * CLIENTS * 500;
        assert_eq!(plain.run("GET n").text(), count.to_string());
    }
}

#[test]
fn messages_come_from_other_connections() {
    let (server, mut peer, _authority) = start(&[]);
    let mut plain = server.server.connect();
    peer.expect("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n");
    for len in [1, 100, 40_000] {
        plain.run(&format!("PUBLISH ch {}", "m".repeat(len)));
        let wanted = format!("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n${len}\r\n{}\r\n", "m".repeat(len));
        assert_eq!(String::from_utf8_lossy(&peer.receive(wanted.len())), wanted);
    }
}

#[test]
fn the_end_is_announced() {
    let (server, mut quitting, authority) = start(&[]);
    let config = trust(&authority, Some("client"));
    let connect = || Peer::connect(server.tls_port(), &config).expect("a connection");
    quitting.send(b"PING\r\nQUIT\r\n");
    assert_eq!(quitting.receive_rest(), (b"+PONG\r\n+OK\r\n".to_vec(), true));

    let (mut killed, mut wrong) = (connect(), connect());
    killed.expect("CLIENT SETNAME victim", "+OK\r\n");
    let mut plain = server.server.connect();
    let id = plain.run("CLIENT LIST").text().lines().find_map(|line| {
        let id = line.split(' ').next().and_then(|id| id.strip_prefix("id="))?.to_owned();
        line.contains("name=victim").then_some(id)
    });
    plain.run(&format!("CLIENT KILL ID {}", id.expect("the victim")));
    assert_eq!(killed.receive_rest(), (Vec::new(), true));

    wrong.send(b"*1\r\n+\r\n");
    let (error, announced) = wrong.receive_rest();
    assert!(error.starts_with(b"-ERR Protocol error") && announced);
}

#[test]
fn a_client_that_says_no_more_still_gets_all_replies() {
    let (server, mut polite, authority) = start(&[]);
    let config = trust(&authority, Some("client"));
    let wanted = b"+PONG\r\n".repeat(50_000);
    polite.send(&b"PING\r\n".repeat(50_000));
    let goodbye = polite.goodbye();
    polite.send_sealed(&goodbye).expect("the server reads");
    assert!(polite.receive_rest() == (wanted.clone(), true));

    // What follows is no part of the stream.
    let mut chatty = Peer::connect(server.tls_port(), &config).expect("a connection");
    let all = [chatty.seal(b"PING\r\n"), chatty.goodbye(), vec![0x17; 30_000]].concat();
    chatty.send_sealed(&all).expect("the server reads");
    assert_eq!(chatty.receive_rest(), (b"+PONG\r\n".to_vec(), true));

    let mut rude = Peer::connect(server.tls_port(), &config).expect("a connection");
    rude.send(&b"PING\r\n".repeat(50_000));
    rude.cut();
    assert!(rude.receive_rest() == (wanted, true));

    // The handshake's end, commands and the end of the stream in one flight.
    let mut fast = Peer::connect(server.tls_port(), &config).expect("a connection");
    let all = [fast.seal(b"PING\r\n"), fast.goodbye()].concat();
    fast.send_sealed(&all).expect("the server reads");
    assert_eq!(fast.receive_rest(), (b"+PONG\r\n".to_vec(), true));
}

#[test]
fn messages_in_pieces_are_not_kept_without_end() {
    let (server, mut peer, authority) = start(&["--tls-protocols", "TLSv1.2"]);
    let mut other = Peer::connect(server.tls_port(), &trust(&authority, Some("client"))).expect("a connection");
    // A handshake message in the clear: the server takes its header for that of an encrypted one, which it is not.
    peer.send_sealed(&[0x16, 3, 3, 0, 4, 1, 0, 0xff, 0xff]).expect("the server reads");
    let failure = peer.failure();
    assert!(!failure.contains("timed out"), "{failure}");
    other.expect("PING", "+PONG\r\n");
}

#[test]
fn a_broken_record_ends_its_connection_only() {
    let (server, mut peer, authority) = start(&[]);
    let mut other = Peer::connect(server.tls_port(), &trust(&authority, Some("client"))).expect("a connection");
    let mut record = peer.seal(b"PING\r\n");
    *record.last_mut().expect("bytes") ^= 1;
    peer.send_sealed(&record).expect("the server reads");
    let failure = peer.failure();
    assert!(failure.contains("BadRecordMac"), "{failure}");
    server.server.expect_log("cannot decrypt peer's message");
    other.expect("PING", "+PONG\r\n");
}

#[test]
fn keys_may_change_but_not_without_end() {
    let (server, mut peer, authority) = start(&[]);
    for _ in 0..20 {
        let change = peer.change_keys();
        peer.send_sealed(&change).expect("the server reads");
        peer.expect("PING", "+PONG\r\n");
    }
    let flood: Vec<u8> = (0..5000).flat_map(|_| peer.change_keys()).collect();
    let _ = peer.send_sealed(&flood);
    let failure = peer.failure();
    assert!(!failure.contains("timed out"), "{failure}");
    let mut other = Peer::connect(server.tls_port(), &trust(&authority, Some("client"))).expect("a connection");
    other.expect("PING", "+PONG\r\n");
}

#[test]
fn a_client_that_does_not_read_meets_its_output_limit() {
    let (server, mut peer, _authority) = start(&["--client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let mut plain = server.server.connect();
    peer.expect("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n");
    let message = "m".repeat(100_000);
    wait_until("the client is closed", || plain.run(&format!("PUBLISH ch {message}")) == Value::Int(0));
    assert_eq!(plain.info_number("client_output_buffer_limit_disconnections"), Some(1));
}

#[test]
fn commands_that_wait_meet_the_query_limit() {
    let (server, mut peer, _authority) = start(&["--client-query-buffer-limit", "1mb"]);
    let mut plain = server.server.connect();
    peer.send(b"BLPOP none 0\r\n");
    let sealed: Vec<u8> = (0..200).flat_map(|_| peer.seal(&[b'x'; 16 * 1024])).collect();
    let _ = peer.send_sealed(&sealed);
    wait_until("the client is closed", || plain.info_number("client_query_buffer_limit_disconnections") == Some(1));
}

#[test]
fn older_clients_are_served_and_sessions_resumed() {
    let (server, _peer, authority) = start(&[]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = trust_with(&authority, &authority, Some("client"), &[version]);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut peer = Peer::connect(server.tls_port(), &config).expect("a connection");
            peer.expect("PING", "+PONG\r\n");
            assert_eq!(peer.kind(), Some(kind), "{version:?}");
        }
    }
    server.server.connect().run("CONFIG SET tls-session-caching no");
    let config = trust(&authority, Some("client"));
    for _ in 0..2 {
        let mut peer = Peer::connect(server.tls_port(), &config).expect("a connection");
        peer.expect("PING", "+PONG\r\n");
        assert_eq!(peer.kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn handshakes_that_stall_hold_up_nobody_and_end() {
    const STALLED: usize = 200;
    let (server, mut peer, authority) = start(&["--workers", "1"]);
    let config = trust(&authority, Some("client"));
    let begun = Instant::now();
    let mut stalled: Vec<Peer> = (0..STALLED).map(|_| Peer::begin(server.tls_port(), &config)).collect();
    for stalled in &mut stalled {
        let hello = stalled.seal(b"");
        stalled.send_sealed(&hello[..hello.len() / 2]).expect("the server reads");
    }
    let mut plain = server.server.connect();
    let mut times: Vec<Duration> = (0..100)
        .flat_map(|_| {
            let time = |ping: &mut dyn FnMut()| {
                let sent = Instant::now();
                ping();
                sent.elapsed()
            };
            [time(&mut || peer.expect("PING", "+PONG\r\n")), time(&mut || _ = plain.run("PING"))]
        })
        .collect();
    times.sort_unstable();
    // The machine may be busy with other tests.
    assert!(times[150] < Duration::from_millis(5), "{:?}", &times[150..]);
    let mut last = Peer::connect(server.tls_port(), &config).expect("a connection beside the stalled ones");
    last.expect("PING", "+PONG\r\n");
    for stalled in &mut stalled {
        let (rest, _) = stalled.receive_rest();
        assert!(rest.is_empty());
    }
    let took = begun.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(19)).contains(&took), "{took:?}");
    server.server.expect_log("the handshake took longer than 10 s");
}

#[test]
fn an_idle_connection_takes_little_memory() {
    const COUNT: usize = 400;
    const MAX_KB: u64 = 24;
    let (server, mut peer, authority) = start(&["--workers", "1"]);
    let config = trust(&authority, Some("client"));
    let connect = |count: usize| -> Vec<Peer> {
        let mut peers: Vec<_> =
            (0..count).map(|_| Peer::connect(server.tls_port(), &config).expect("a connection")).collect();
        for peer in &mut peers {
            peer.send(&b"PING\r\n".repeat(1000));
            assert_eq!(peer.receive(7000).len(), 7000);
        }
        peers
    };
    // What is made on first use is there from now on.
    drop(connect(20));
    peer.expect("PING", "+PONG\r\n");
    let before = server.server.rss_kb();
    let peers = connect(COUNT);
    let more = server.server.rss_kb() - before;
    assert!(more / peers.len() as u64 <= MAX_KB, "{more} KB for {COUNT} connections");
}

#[test]
fn half_a_record_is_counted() {
    let (server, mut peer, _authority) = start(&[]);
    let mut plain = server.server.connect();
    peer.expect("CLIENT SETNAME tls", "+OK\r\n");
    let mut held = || -> u64 {
        let list = plain.run("CLIENT LIST").text();
        let line = list.lines().find(|line| line.contains("name=tls")).expect("the client");
        let memory = line.split(' ').find_map(|field| field.strip_prefix("tot-mem=")).expect("a field");
        memory.parse().expect("a number")
    };
    let before = held();
    assert!(before > 4 * 1024, "{before}");
    let record = peer.seal(&b"PING\r\n".repeat(2000));
    peer.send_sealed(&record[..record.len() - 1]).expect("the server reads");
    // What the first command has left is gone.
    wait_until("the record is counted", || held() >= before + 10_000);
    peer.send_sealed(&record[record.len() - 1..]).expect("the server reads");
    assert_eq!(peer.receive(14_000).len(), 14_000);
    wait_until("nothing is left", || held() <= before);
}

#[test]
fn a_handshake_counts_as_a_client() {
    let (server, peer, authority) = start(&["--maxclients", "3"]);
    let config = trust(&authority, Some("client"));
    drop(peer);
    let mut stalled: Vec<Peer> = Vec::new();
    let refused = || {
        let mut conn = Conn::tcp(server.server.port()).expect("a connection");
        conn.try_call(&onrush_tests::argv!["PING"]).is_ok_and(|reply| reply.starts_with(b"-ERR max number of clients"))
    };
    // One that comes while another is looked for may be refused instead.
    wait_until("the server is full", || {
        stalled.extend((0..3).map(|_| Peer::begin(server.tls_port(), &config)));
        refused()
    });
    drop(stalled);
    wait_until("there is room again", || !refused());
    Peer::connect(server.tls_port(), &config).expect("a connection").expect("PING", "+PONG\r\n");
}

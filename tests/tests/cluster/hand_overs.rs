//! The moment in which slots get another owner by CLUSTER MIGRATESLOTS, when it does not go well: something stands between the
//! source and the target, and keeps what it likes to itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_tests::certificates::certificates;
use onrush_tests::client::Conn;
use onrush_tests::port::Port;
use onrush_tests::resp::Value;
use onrush_tests::server::{TempDir, wait_until};

use crate::moves::{end_of_move, moves, tag};
use crate::nodes::{Node, Nodes};

/// What does not come through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// The source's word that the target takes over, and what it says behind that.
    Take,
    /// The target's answer to that; the word itself comes through when it may.
    Answer,
    /// What the source says behind so many bytes. Nobody reads it.
    BehindBytes(usize),
}

/// What stands between a source and its target.
struct Between {
    lost: Lost,
    has_asked: AtomicBool,
    has_answered: AtomicBool,
    passed: AtomicUsize,
    /// What waits goes on.
    goes_on: AtomicBool,
}

impl Between {
    /// Comes between a node and those that connect to it from now on, as soon as one node knows of it. The directive says which of
    /// the node's ports is another one.
    fn come(target: &Node, port: u16, directive: &str, source: &Node, lost: Lost) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let number = listener.local_addr().expect("it is bound").port();
        let between = Arc::new(Self {
            lost,
            has_asked: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            passed: AtomicUsize::new(0),
            goes_on: AtomicBool::new(false),
        });
        let shared = Arc::clone(&between);
        std::thread::spawn(move || shared.serve(&listener, port));
        assert_eq!(target.text(&format!("CONFIG SET {directive} {number}")), "OK");
        let id = target.id();
        wait_until("the source has heard of it", || source.knows_port(&id, number));
        between
    }

    /// One connection after the other; a replica of the target connects, too.
    fn serve(self: &Arc<Self>, listener: &TcpListener, port: u16) {
        for source in listener.incoming().map_while(Result::ok) {
            let Ok(target) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let shared = Arc::clone(self);
            std::thread::spawn(move || shared.connect(&source, &target));
        }
    }

    fn connect(&self, source: &TcpStream, target: &TcpStream) {
        let has_asked = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pass(target, |bytes| {
                    if has_asked.load(Relaxed) {
                        self.has_answered.fetch_or(contains(bytes, b"TAKEN"), Relaxed);
                        return true;
                    }
                    let mut source = source;
                    source.write_all(bytes).is_ok()
                });
                let _ = source.shutdown(Shutdown::Both);
            });
            pass(source, |bytes| {
                has_asked.fetch_or(contains(bytes, b"TAKE\r\n"), Relaxed);
                self.has_asked.fetch_or(has_asked.load(Relaxed), Relaxed);
                let waits = || match self.lost {
                    Lost::BehindBytes(len) => self.passed.load(Relaxed) > len,
                    Lost::Answer => has_asked.load(Relaxed),
                    Lost::Take => false,
                };
                while waits() && !self.goes_on.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                self.passed.fetch_add(bytes.len(), Relaxed);
                let is_lost = self.lost == Lost::Take && has_asked.load(Relaxed);
                let mut target = target;
                is_lost || target.write_all(bytes).is_ok()
            });
            let _ = target.shutdown(Shutdown::Both);
        });
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

fn pass(mut from: &TcpStream, mut to: impl FnMut(&[u8]) -> bool) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if !to(&bytes[..len]) {
            return;
        }
    }
}

impl Node {
    fn knows_port(&self, id: &str, port: u16) -> bool {
        self.text("CLUSTER NODES").lines().any(|line| line.starts_with(id) && line.contains(&format!(":{port}@")))
    }

    fn patient(&self) -> Conn {
        let mut conn = self.server.connect();
        conn.set_timeout(Duration::from_secs(20));
        conn
    }
}

/// Writes 1 to a key, and starts a move of its slot and others from the first node to the second, which something stands before;
/// ends when the target is to take over. Returns the key.
fn start(nodes: &Nodes, lost: Lost) -> (Arc<Between>, String) {
    let (source, target, key) = (&nodes.0[0], &nodes.0[1], tag(0..=99, 0));
    assert_eq!(source.text(&format!("SET {key} 1")), "OK");
    let between = Between::come(target, target.server.port(), "cluster-announce-port", source, lost);
    let said = source.text(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 99 NODE {}", target.id()));
    assert_eq!(said, "OK");
    wait_until("the target is to take over", || between.has_asked.load(Relaxed));
    (between, key)
}

#[test]
fn a_source_whose_target_says_nothing_holds_writes_and_keeps_its_slots() {
    let nodes = Nodes::onrush(3, 0);
    let source = &nodes.0[0];
    let (_between, key) = start(&nodes, Lost::Take);
    let began = Instant::now();
    assert_eq!(source.text("CLUSTER CANCELSLOTMIGRATIONS").split(' ').next(), Some("ERR"));
    assert_eq!(source.patient().run(&format!("INCR {key}")), Value::Int(2));
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    let failed = ("failed".to_owned(), "the target has not said that it has taken over".to_owned());
    assert_eq!(end_of_move(source), failed);
    assert_eq!(nodes.0[1].text("CONFIG SET cluster-announce-port 0"), "OK");
    nodes.wait_until_well();
    assert_eq!(nodes.client().call(&key, &format!("INCR {key}")), ":3");
    assert_eq!(nodes.owner(0), 0);
}

#[test]
fn a_source_that_is_not_told_hears_on_the_bus_that_its_target_has_taken_over() {
    let nodes = Nodes::onrush(3, 0);
    let source = &nodes.0[0];
    let (between, key) = start(&nodes, Lost::Answer);
    between.goes_on.store(true, Relaxed);
    assert!(source.patient().run(&format!("INCR {key}")).text().starts_with("MOVED"));
    assert_eq!(end_of_move(source), ("success".to_owned(), String::new()));
    assert_eq!(nodes.0[1].run(&format!("INCR {key}")), Value::Int(2));
}

#[test]
fn a_source_that_is_alone_does_not_know_whose_the_slots_are_and_refuses_instead_of_waiting() {
    let nodes = Nodes::onrush(3, 0);
    let source = &nodes.0[0];
    let (_between, key) = start(&nodes, Lost::Take);
    nodes.0[1..].iter().for_each(|node| node.server.signal("STOP"));
    let said = source.patient().run(&format!("INCR {key}")).text();
    assert!(said.starts_with("CLUSTERDOWN"), "{said}");
    // More than enough for a source that is with others.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(moves(source)[0]["state"], "taking-over");
    assert!(source.patient().run(&format!("INCR {key}")).text().starts_with("CLUSTERDOWN"));
    nodes.0[1..].iter().for_each(|node| node.server.signal("CONT"));
    assert_eq!(end_of_move(source).0, "failed");
    assert_eq!(nodes.0[1].text("CONFIG SET cluster-announce-port 0"), "OK");
    nodes.wait_until_well();
    assert_eq!(nodes.client().call(&key, &format!("INCR {key}")), ":2");
    assert_eq!(nodes.owner(0), 0);
}

#[test]
fn a_replica_of_a_target_that_dies_has_what_its_primary_has_just_taken() {
    let nodes = Nodes::form(3, 3, |_| None, &["--enable-debug-command", "yes"]);
    let (source, replica) = (&nodes.0[0], &nodes.0[4]);
    let (between, key) = start(&nodes, Lost::Answer);
    // The target itself does not tell it on the bus.
    assert_eq!(source.text("DEBUG DROP-CLUSTER-PACKET-FILTER 1"), "OK");
    between.goes_on.store(true, Relaxed);
    wait_until("the target has taken over", || between.has_answered.load(Relaxed));
    nodes.0[1].server.signal("KILL");
    assert_eq!(source.text("DEBUG DROP-CLUSTER-PACKET-FILTER -1"), "OK");
    let said = source.patient().run(&format!("INCR {key}")).text();
    assert!(said.starts_with("MOVED") || said.starts_with("CLUSTERDOWN"), "{said}");
    wait_until("the replica has taken over", || replica.text("INFO replication").contains("role:master"));
    // Another node may tell the source of the target just before it dies.
    let (state, message) = end_of_move(source);
    assert!(state == "success" || message == "the slots have got another owner", "{state} {message}");
    assert_eq!(nodes.client().call(&key, &format!("INCR {key}")), ":2");
    assert_eq!(replica.text(&format!("GET {key}")), "2");
}

/// What came from it is as good as it was.
#[test]
fn a_replica_takes_over_from_a_primary_that_dies_as_its_address_changes() {
    let nodes = Nodes::form(3, 3, |_| None, &[]);
    let (primary, replica) = (&nodes.0[1], &nodes.0[4]);
    // Nobody is there.
    let port = Port::choose();
    assert_eq!(primary.text(&format!("CONFIG SET cluster-announce-port {}", port.number())), "OK");
    replica.server.expect_log(&format!("This replica follows 127.0.0.1:{} from now on", port.number()));
    primary.server.signal("KILL");
    wait_until("the replica has taken over", || replica.text("INFO replication").contains("role:master"));
}

#[test]
fn a_target_that_reads_nothing_more_is_given_up_also_over_tls() {
    for is_encrypted in [false, true] {
        let folder = TempDir::new();
        let file = |name: &str| folder.0.join(name).to_str().expect("a path").to_owned();
        let ports: Vec<Port> = (0..2).map(|_| Port::choose()).collect();
        let nodes = if is_encrypted {
            certificates(&folder.0);
            let (ca, cert, key) = (file("ca.crt"), file("server.crt"), file("server.key"));
            let tls =
                ["--tls-cluster", "yes", "--tls-ca-cert-file", &ca, "--tls-cert-file", &cert, "--tls-key-file", &key];
            Nodes::form(2, 0, |_| None, &tls)
        } else {
            Nodes::form(2, 0, |_| None, &[])
        };
        let (source, target) = (&nodes.0[0], &nodes.0[1]);
        let (port, directive) = match is_encrypted {
            true => (ports[1].number(), "cluster-announce-tls-port"),
            false => (target.server.port(), "cluster-announce-port"),
        };
        if is_encrypted {
            for (node, port) in nodes.0.iter().zip(&ports) {
                assert_eq!(node.text(&format!("CONFIG SET tls-port {}", port.number())), "OK");
            }
        }
        let (key, value) = (tag(0..=99, 0), "x".repeat(1 << 20));
        for nth in 0..32 {
            assert_eq!(source.text(&format!("SET {{{key}}}{nth} {value}")), "OK");
        }
        let between = Between::come(target, port, directive, source, Lost::BehindBytes(1 << 20));
        let said = source.text(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 99 NODE {}", target.id()));
        assert_eq!(said, "OK");
        let end = end_of_move(source);
        assert_eq!(end, ("failed".to_owned(), "the target takes nothing".to_owned()), "{is_encrypted}");
        assert_eq!(source.text(&format!("SET {{{key}}}0 1")), "OK");
        between.goes_on.store(true, Relaxed);
        wait_until("the target has deleted what had come", || target.run("DBSIZE") == Value::Int(0));
    }
}

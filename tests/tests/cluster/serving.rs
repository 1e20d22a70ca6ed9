//! A cluster of Onrush, and of Onrush and its partners: made by the tools of Redis, moved, failed over, restarted.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_cluster::slots::slot;
use onrush_tests::argv::Argv;
use onrush_tests::resp::Value;
use onrush_tests::server::{Launch, Oracle, wait_until};

use crate::nodes::{Node, Nodes, tool};
use crate::pipelined;

fn fill(nodes: &Nodes, keys: usize) {
    let mut client = nodes.client();
    for key in 0..keys {
        assert_eq!(client.call(&format!("key:{key}"), &format!("SET key:{key} {key}")), "+OK");
    }
}

fn expect_all(nodes: &Nodes, keys: usize) {
    let mut client = nodes.client();
    for key in 0..keys {
        let len = key.to_string().len();
        assert_eq!(client.call(&format!("key:{key}"), &format!("GET key:{key}")), format!("${len} {key}"));
    }
}

#[test]
fn the_tools_of_redis_make_check_and_change_a_cluster() {
    let kinds = [None, Some(Oracle::Newer), None, Some(Oracle::Older), None, None];
    let started: Vec<Node> = kinds.iter().map(|kind| Node::start(*kind, &[])).collect();
    let addresses: Vec<String> = started.iter().map(Node::address).collect();
    let mut args = vec!["create"];
    args.extend(addresses.iter().map(String::as_str));
    // The tool does not know other ports of the bus than those of Redis's rule.
    let (_, said) = tool(&["check", &addresses[0]]);
    assert!(said.contains("[ERR] Not all 16384 slots are covered by nodes"), "{said}");
    drop(started);
    // The tool gives up when a node has stood still for longer than this and is careful with its slots.
    let nodes = Nodes::form(3, 3, |at| kinds[at], &["--cluster-node-timeout", "5000"]);
    fill(&nodes, 1_000);
    let address = nodes.0[0].address();
    let (good, said) = nodes.tool(&["check", &address]);
    assert!(good && said.contains("[OK] All 16384 slots covered."), "{said}");
    let (from, to) = (nodes.0[0].id(), nodes.0[2].id());
    let reshard =
        ["reshard", &address, "--cluster-from", &from, "--cluster-to", &to, "--cluster-slots", "500", "--cluster-yes"];
    let (good, said) = nodes.tool(&reshard);
    assert!(good, "{said}");
    let (good, said) = nodes.tool(&["rebalance", &address, "--cluster-threshold", "1"]);
    assert!(good, "{said}");
    nodes.wait_until_well();
    let (good, said) = nodes.tool(&["check", &address]);
    assert!(good && said.contains("[OK] All 16384 slots covered.") && said.contains("1000 keys"), "{said}");
    expect_all(&nodes, 1_000);
    let (good, said) = nodes.tool(&["call", &address, "PING"]);
    assert!(good && said.matches("PONG").count() == 6, "{said}");
}

/// Slots go to and fro, one after the other, as tools move them.
fn move_slots(nodes: &Nodes, ends: &AtomicBool) -> usize {
    let mut moved = 0;
    for turn in 0.. {
        for slot in (0..16_384).step_by(97) {
            if ends.load(Relaxed) {
                return moved;
            }
            let from = nodes.owner(slot);
            let to = (from + 1 + turn % 2) % 3;
            move_slot(nodes, slot, from, to);
            moved += 1;
        }
    }
    moved
}

fn move_slot(nodes: &Nodes, slot: u16, from: usize, to: usize) {
    let (source, target) = (&nodes.0[from], &nodes.0[to]);
    assert_eq!(target.text(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", source.id())), "OK");
    assert_eq!(source.text(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", target.id())), "OK");
    loop {
        let keys = source.run(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
        let keys: Vec<String> = keys.items().expect("an array").iter().map(Value::text).collect();
        if keys.is_empty() {
            break;
        }
        let port = target.server.port();
        let said = source.text(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 REPLACE KEYS {}", keys.join(" ")));
        assert!(said == "OK" || said == "NOKEY", "{said}");
    }
    for node in [target, source, &nodes.0[3 - from - to]] {
        let mut said = String::new();
        // On a machine with much to do a node may find that it has been away for longer than the others wait for it.
        wait_until("the slot has a new owner", || {
            said = node.text(&format!("CLUSTER SETSLOT {slot} NODE {}", target.id()));
            !said.starts_with("CLUSTERDOWN This node has been away")
        });
        assert!(said == "OK", "{said}: slot {slot} from {from} to {to}");
    }
}

/// Appends numbers to lists, each key by one writer, until told to end; returns how many were acknowledged by key.
pub fn append(nodes: &Nodes, writer: usize, ends: &AtomicBool) -> (Vec<usize>, usize, usize) {
    const KEYS: usize = 40;
    let mut client = nodes.client();
    let mut lens = vec![0; KEYS];
    'all: loop {
        for (nth, len) in lens.iter_mut().enumerate() {
            if ends.load(Relaxed) {
                break 'all;
            }
            let key = format!("list:{writer}:{nth}");
            let reply = client.once(&key, &Argv::new(&["RPUSH", &key, &len.to_string()]));
            *len += 1;
            assert_eq!(reply, Some(format!(":{len}")), "{key}");
        }
    }
    (lens, client.moved, client.asked)
}

/// Looks whether all that was acknowledged is there, in order; returns how many pushes and redirections there were.
pub fn check_appended(nodes: &Nodes, written: &[(Vec<usize>, usize, usize)]) -> (usize, usize) {
    let mut client = nodes.client();
    let (mut pushed, mut redirected) = (0, 0);
    for (writer, (lens, moved, asked)) in written.iter().enumerate() {
        for (nth, len) in lens.iter().enumerate() {
            let key = format!("list:{writer}:{nth}");
            let reply = client.call(&key, &format!("LRANGE {key} 0 -1"));
            let found: Vec<&str> = reply.split(' ').skip(2).step_by(2).collect();
            let expected: Vec<String> = (0..*len).map(|number| number.to_string()).collect();
            assert_eq!(found, expected, "{key}");
            pushed += len;
        }
        redirected += moved + asked;
    }
    (pushed, redirected)
}

#[test]
fn nothing_is_lost_or_changes_places_while_slots_move_under_writers() {
    let nodes = Nodes::onrush(3, 0);
    let ends = AtomicBool::new(false);
    let (moved, written) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let (nodes, ends) = (&nodes, &ends);
                    move || match writer {
                        0 | 1 => append(nodes, writer, ends),
                        _ => pipelined::append(nodes, writer, ends),
                    }
                })
            })
            .collect();
        let mover = scope.spawn(|| move_slots(&nodes, &ends));
        std::thread::sleep(Duration::from_secs(6));
        ends.store(true, Relaxed);
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
        (mover.join().expect("the mover"), written)
    });
    let (pushed, redirected) = check_appended(&nodes, &written);
    assert!(moved > 5 && pushed > 1_000 && redirected > 5, "{moved} slots, {pushed} pushes, {redirected} redirections");
}

#[test]
fn a_replica_takes_over_from_a_killed_primary_which_comes_back_as_its_replica() {
    let mut nodes = Nodes::onrush(3, 3);
    fill(&nodes, 300);
    let killed = nodes.0[1].id();
    wait_until("the replicas have all", || (0..3).all(|at| nodes.0[at].run("DBSIZE") == nodes.0[at + 3].run("DBSIZE")));
    nodes.0[1].server.signal("KILL");
    wait_until("the replica takes over", || {
        let role = nodes.0[4].text("INFO replication");
        role.contains("role:master") && nodes.0[4].text("CLUSTER INFO").contains("cluster_state:ok")
    });
    let gone = nodes.0.remove(1);
    wait_until("all nodes know", || {
        let line =
            |node: &Node| node.text("CLUSTER NODES").lines().find(|line| line.starts_with(&killed)).map(str::to_owned);
        nodes.0.iter().all(|node| line(node).is_some_and(|line| line.contains("master,fail")))
    });
    expect_all(&nodes, 300);
    drop(gone);
}

#[test]
fn a_replica_that_never_had_the_data_does_not_take_over() {
    let nodes = Nodes::onrush(3, 1);
    fill(&nodes, 300);
    let (stopped, replica) = (&nodes.0[1], &nodes.0[3]);
    let id = stopped.id();
    stopped.server.signal("STOP");
    assert_eq!(replica.text(&format!("CLUSTER REPLICATE {id}")), "OK");
    let line = |node: &Node| node.text("CLUSTER NODES").lines().find(|line| line.starts_with(&id)).map(str::to_owned);
    wait_until("the primary has failed", || line(replica).is_some_and(|line| line.contains("master,fail ")));
    // An election takes about two seconds.
    std::thread::sleep(Duration::from_secs(5));
    assert!(replica.text("INFO replication").contains("role:slave"));
    assert_eq!(replica.text("CONFIG SET cluster-replica-validity-factor 0"), "OK");
    wait_until("it takes over, as its operator wants", || replica.text("INFO replication").contains("role:master"));
    stopped.server.signal("CONT");
}

/// Whether a socket of this machine is connected to a port of it, as proc(5) tells.
fn is_connected_to(port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
    sockets.contains(&format!(" 0100007F:{port:04X} {ESTABLISHED} "))
}

#[test]
fn a_command_that_waits_for_another_server_neither_stops_writes_for_long_nor_hides_that_the_cluster_is_down() {
    let nodes = Nodes::onrush(3, 1);
    let elsewhere = Launch::onrush().start();
    let (node, replica) = (&nodes.0[0], &nodes.0[3]);
    // Both slots are the first node's.
    assert!(slot(b"moved-3") < 5_461 && slot(b"written-0") < 5_461);
    let said = |line: &str| node.text(line);
    assert_eq!(said("SET moved-3 1"), "OK");
    elsewhere.signal("STOP");
    let port = elsewhere.port();
    std::thread::scope(|scope| {
        let moves = scope.spawn(move || node.text(&format!("MIGRATE 127.0.0.1 {port} moved-3 0 40000")));
        wait_until("it is moved", || is_connected_to(port));
        // A fail-over that an operator wants does not come about, and writes go on.
        assert_eq!(replica.text("CLUSTER FAILOVER"), "OK");
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        assert_eq!(said("SET written-0 1"), "OK");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(!moves.is_finished());
        // Others may take over once this node is alone.
        nodes.0[1..].iter().for_each(|other| other.server.signal("STOP"));
        wait_until("the cluster is down", || said("SET written-0 2").starts_with("CLUSTERDOWN"));
        assert!(!moves.is_finished());
        nodes.0[1..].iter().for_each(|other| other.server.signal("CONT"));
        elsewhere.signal("CONT");
        assert_eq!(moves.join().expect("a reply"), "OK");
    });
    wait_until("the cluster is up", || said("SET written-0 3") == "OK");
}

#[test]
fn a_node_whose_slots_another_takes_serves_none_of_them_though_a_command_is_under_way() {
    let nodes = Nodes::onrush(3, 1);
    let elsewhere = Launch::onrush().start();
    let (node, replica) = (&nodes.0[0], &nodes.0[3]);
    assert_eq!(node.text("SET moved-3 1"), "OK");
    elsewhere.signal("STOP");
    let port = elsewhere.port();
    std::thread::scope(|scope| {
        let moves = scope.spawn(move || node.text(&format!("MIGRATE 127.0.0.1 {port} moved-3 0 40000")));
        wait_until("it is moved", || is_connected_to(port));
        assert_eq!(node.text("SET written-0 1"), "OK");
        assert_eq!(replica.text("CLUSTER FAILOVER TAKEOVER"), "OK");
        wait_until("it serves", || replica.text("SET written-0 2") == "OK");
        let to = format!(" 127.0.0.1:{}", replica.server.port());
        wait_until("it knows", || node.text("CLUSTER NODES").contains("myself,slave"));
        for command in ["SET written-0 3", "EVAL \"return redis.call('SET', KEYS[1], 3)\" 1 written-0", "GET written-0"]
        {
            let reply = node.text(command);
            assert!(reply.starts_with("MOVED ") && reply.ends_with(&to), "{command}: {reply}");
        }
        let reply = node.text("EVAL \"return redis.call('SET', 'written-0', 3)\" 0");
        assert!(reply.contains("Script attempted to access a non local key in a cluster node"), "{reply}");
        assert!(!moves.is_finished());
        elsewhere.signal("CONT");
        let _ = moves.join();
    });
    wait_until("it follows", || node.text("INFO replication").contains("master_link_status:up"));
    assert_eq!(replica.text("GET written-0"), "2");
}

/// A folder stands where a node has its file of nodes: no new one can be written.
struct InTheWay(PathBuf);

impl InTheWay {
    fn of(node: &Node) -> Self {
        let file = node.server.dir().join("nodes.conf");
        std::fs::rename(&file, file.with_extension("away")).expect("the file goes");
        std::fs::create_dir_all(file.join("full")).expect("a folder");
        Self(file)
    }

    fn goes(self) {
        std::fs::remove_dir_all(&self.0).expect("the folder goes");
        std::fs::rename(self.0.with_extension("away"), &self.0).expect("the file is back");
    }
}

#[test]
fn a_node_that_cannot_write_its_file_executes_nothing_until_it_can() {
    // With a replica that takes over, and without one.
    for replicas in [3, 0] {
        let nodes = Nodes::onrush(3, replicas);
        let (node, replica) = (&nodes.0[0], nodes.0.get(3));
        assert!(slot(b"moved-3") < 5_461);
        assert_eq!(node.text("SET moved-3 1"), "OK");
        wait_until("a replica has it", || replica.is_none_or(|replica| replica.run("DBSIZE") == Value::Int(1)));
        let in_the_way = InTheWay::of(node);
        let mut waits = node.server.connect();
        waits.send_command(&Argv::new(&["CLUSTER", "SAVECONFIG"])).expect("it is sent");
        wait_until("it executes nothing", || node.text("SET moved-3 2").starts_with("CLUSTERDOWN"));
        let Some(replica) = replica else {
            in_the_way.goes();
            wait_until("it goes on", || node.text("SET moved-3 3") == "OK");
            assert_eq!(waits.read_reply().expect("a reply"), b"+OK\r\n");
            continue;
        };
        wait_until("its replica takes over", || replica.text("SET moved-3 3") == "OK");
        in_the_way.goes();
        wait_until("it follows the new primary", || {
            let said = node.text("SET moved-3 4");
            assert_ne!(said, "OK");
            said.starts_with("MOVED")
        });
        assert_eq!(replica.text("GET moved-3"), "3");
    }
}

#[test]
fn a_planned_fail_over_loses_nothing_with_every_partner() {
    for partner in [None, Some(Oracle::Older), Some(Oracle::Newer)] {
        let nodes = Nodes::form(3, 3, |at| if at >= 3 { partner } else { None }, &[]);
        let ends = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut client = nodes.client();
                let mut len = 0;
                while !ends.load(Relaxed) {
                    len += 1;
                    assert_eq!(client.once("counter", &Argv::new(&["INCR", "counter"])), Some(format!(":{len}")));
                }
                len
            });
            // There and back.
            let (first, second) = (nodes.owner(slot(b"counter")), nodes.owner(slot(b"counter")) + 3);
            for (from, to) in [(first, second), (second, first)] {
                wait_until("the fail-over", || {
                    nodes.0[to].run("CLUSTER FAILOVER");
                    std::thread::sleep(Duration::from_millis(700));
                    nodes.0[to].text("INFO replication").contains("role:master")
                });
                wait_until("the old primary follows", || {
                    nodes.0[from].text("INFO replication").contains("master_link_status:up")
                });
            }
            ends.store(true, Relaxed);
            writer.join().expect("the writer")
        });
        let mut client = nodes.client();
        assert_eq!(client.call("counter", "GET counter"), format!("${} {written}", written.to_string().len()));
        assert!(written > 100, "{partner:?}: {written}");
    }
}

#[test]
fn strangers_on_the_bus_are_sent_away_and_change_nothing() {
    let node = Node::start(None, &[]);
    let before = node.text("CLUSTER NODES");
    let endless = [&b"RCmb"[..], &u32::MAX.to_be_bytes()].concat();
    let short = [&b"RCmb"[..], &9_u32.to_be_bytes()].concat();
    for said in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n", &endless, &short, b"RCmb"] {
        let mut stranger = TcpStream::connect(("127.0.0.1", node.bus_port())).expect("the bus");
        stranger.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stranger.write_all(said).expect("it is sent");
        let mut heard = Vec::new();
        // It may be closed with something unread.
        let closed = stranger.read_to_end(&mut heard);
        let is_late = closed.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(!is_late && heard.is_empty(), "{}", said.escape_ascii());
    }
    assert_eq!(node.text("CLUSTER NODES"), before);
}

#[test]
fn commands_behind_a_transaction_find_the_owner_that_it_has_made() {
    let node = Node::start(None, &[]);
    assert_eq!(node.text("CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    wait_until("the node is up", || node.text("CLUSTER INFO").contains("cluster_state:ok"));
    let mut conn = node.server.connect();
    let of_key = slot(b"key");
    for nth in 0..200 {
        // So `redis-cli --cluster fix` makes a node the owner of a slot.
        assert_eq!(conn.run("MULTI").text(), "OK");
        for line in
            [format!("CLUSTER DELSLOTS {of_key}"), format!("CLUSTER ADDSLOTS {of_key}"), "CLUSTER BUMPEPOCH".to_owned()]
        {
            assert_eq!(conn.run(&line).text(), "QUEUED");
        }
        let said = conn.run("EXEC");
        assert_eq!(said.items().map(<[Value]>::len), Some(3), "{said:?}");
        assert_eq!(conn.run(&format!("SET key {nth}")).text(), "OK");
    }
}

#[test]
fn links_end_and_messages_are_lost_as_debug_asks_for() {
    let nodes = Nodes::form(2, 0, |_| None, &["--enable-debug-command", "yes"]);
    let (node, other) = (&nodes.0[0], nodes.0[1].id());
    assert_eq!(node.text("DEBUG CLUSTERLINK KILL all abc"), "ERR Unknown node abc");
    assert_eq!(node.text(&format!("DEBUG CLUSTERLINK KILL both {other}")), "ERR Unknown direction both");
    let links = || -> Vec<String> {
        let links = node.run("CLUSTER LINKS");
        let mut links: Vec<String> = links.items().unwrap_or_default().iter().map(made).collect();
        links.sort();
        links
    };
    wait_until("both links are there", || links().len() == 2);
    let before = links();
    assert_eq!(node.text(&format!("DEBUG CLUSTERLINK KILL all {other}")), "OK");
    wait_until("both links are there again", || {
        let now = links();
        now.len() == 2 && now.iter().all(|link| !before.contains(link))
    });
    // Messages of channels are lost.
    let mut subscriber = node.server.connect();
    subscriber.run("SUBSCRIBE channel");
    assert_eq!(node.text("DEBUG DROP-CLUSTER-PACKET-FILTER 4"), "OK");
    nodes.0[1].run("PUBLISH channel lost");
    wait_until("it has come", || node.text("CLUSTER INFO").contains("cluster_stats_messages_publish_received:1"));
    assert_eq!(node.text("DEBUG DROP-CLUSTER-PACKET-FILTER -1"), "OK");
    nodes.0[1].run("PUBLISH channel found");
    let heard = subscriber.read_reply().expect("a message");
    assert!(heard.ends_with(b"found\r\n"), "{}", heard.escape_ascii());
}

/// Which way a link goes, and since when.
fn made(link: &Value) -> String {
    let fields = link.items().unwrap_or_default();
    format!("{:?} {:?}", fields[1], fields[5])
}

#[test]
fn a_script_that_may_write_goes_from_a_replica_to_its_primary() {
    let nodes = Nodes::form(1, 1, |_| None, &[]);
    assert_eq!(nodes.0[0].text("SET a 1"), "OK");
    let mut replica = nodes.0[1].server.connect();
    replica.run("READONLY");
    wait_until("the replica has it", || replica.run("GET a").text() == "1");
    for (declares, reads) in [("", true), ("#!lua flags=no-writes\\n", true), ("#!lua\\n", false)] {
        let said = replica.run(&format!(r#"EVAL "{declares}return redis.call('get',KEYS[1])" 1 a"#));
        assert_eq!(said.text(), if reads { "1".to_owned() } else { format!("MOVED 15495 {}", nodes.0[0].address()) });
    }
}

#[test]
fn directives_of_the_cluster_hold_for_the_next_command() {
    let nodes = Nodes::form(2, 0, |_| None, &[]);
    for (nth, node) in nodes.0.iter().enumerate() {
        assert_eq!(node.text(&format!("CONFIG SET cluster-announce-hostname node{nth}.example")), "OK");
    }
    wait_until("both know the names", || {
        nodes.0.iter().all(|node| (0..2).all(|nth| node.text("CLUSTER NODES").contains(&format!(",node{nth}.example"))))
    });
    let (mut conn, port) = (nodes.0[0].server.connect(), nodes.0[1].server.port());
    for _ in 0..50 {
        for (kind, host) in [("hostname", "node1.example"), ("unknown-endpoint", ""), ("ip", "127.0.0.1")] {
            assert_eq!(conn.run(&format!("CONFIG SET cluster-preferred-endpoint-type {kind}")).text(), "OK");
            assert_eq!(conn.run("GET a").text(), format!("MOVED 15495 {host}:{port}"));
        }
    }
    assert_eq!(conn.run("CLUSTER DELSLOTS 0").text(), "OK");
    assert_eq!(conn.run("CLUSTER DELSLOTS 0").text(), "ERR Slot 0 is already unassigned");
    for _ in 0..50 {
        for (value, reply) in [("yes", "CLUSTERDOWN The cluster is down"), ("no", "OK")] {
            let replies = conn.pipeline(&[
                Argv::parse(&format!("CONFIG SET cluster-require-full-coverage {value}")).unwrap(),
                Argv::parse("SET b 1").unwrap(),
            ]);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end()[1..].to_owned();
            assert_eq!(text(&replies[1]), reply, "{value}");
        }
    }
}

#[test]
fn a_node_that_has_just_come_gets_one_slot_after_the_other() {
    let slow = ["--cluster-node-timeout", "15000"];
    let mut nodes = Nodes::form(2, 0, |_| None, &slow);
    nodes.0.push(Node::start(None, &slow));
    nodes.meet(&nodes.0[2]);
    nodes.wait_until_known();
    // It has seen no majority so far, but there was nothing that anybody could have taken from it.
    let [source, id] = [0, 2].map(|nth| nodes.0[nth].id());
    for slot in 0..10 {
        assert_eq!(nodes.0[2].text(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}")), "OK");
        assert_eq!(nodes.0[2].text(&format!("CLUSTER SETSLOT {slot} NODE {id}")), "OK", "{slot}");
    }
}

//! Slots that move as a whole: CLUSTER MIGRATESLOTS and what belongs to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_cluster::slots::slot;
use onrush_tests::resp::Value;
use onrush_tests::server::wait_until;

use crate::nodes::{Node, Nodes};
use crate::pipelined;
use crate::serving::{append, check_appended};

/// The moves of slots of a node, the latest first.
pub fn moves(node: &Node) -> Vec<HashMap<String, String>> {
    let all = node.run("CLUSTER GETSLOTMIGRATIONS");
    let of = |value: &Value| {
        let parts = value.items().expect("an array");
        parts.chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
    };
    all.items().expect("an array").iter().map(of).collect()
}

/// Waits until the latest move of a node is over; returns its state and its message.
pub fn end_of_move(node: &Node) -> (String, String) {
    let mut end = (String::new(), String::new());
    wait_until("a move of slots is over", || {
        let last = moves(node).swap_remove(0);
        end = (last["state"].clone(), last["message"].clone());
        ["success", "failed", "cancelled"].contains(&end.0.as_str())
    });
    end
}

fn move_whole(nodes: &Nodes, from: usize, to: usize, first: u16, last: u16) {
    let (source, target) = (&nodes.0[from], &nodes.0[to]);
    let mut tries = 0;
    loop {
        let said = source.text(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {}", target.id()));
        assert_eq!(said, "OK");
        let end = end_of_move(source);
        tries += 1;
        // On a busy machine a node stands still for so long that it takes nothing for a moment.
        if !end.1.starts_with("CLUSTERDOWN This node has been away") || tries == 10 {
            assert_eq!(end, ("success".to_owned(), String::new()));
            // For the same reason it may refuse commands.
            let ask = format!("EXISTS {{{}}}", tag(first..=last, 0));
            return wait_until("the target takes commands", || matches!(target.run(&ask), Value::Int(_)));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A tag whose slot is in a range.
pub fn tag(slots: std::ops::RangeInclusive<u16>, nth: usize) -> String {
    let tags = (0..).map(|number| format!("t{number}")).filter(|tag| slots.contains(&slot(tag.as_bytes())));
    tags.into_iter().nth(nth).expect("a tag")
}

#[test]
fn every_type_comes_as_it_was_and_leaves_nothing_behind() {
    let nodes = Nodes::form(3, 0, |_| None, &["--enable-debug-command", "yes"]);
    let mut client = nodes.client();
    let tag = tag(0..=99, 0);
    let fill = [
        ("s", "SET K 'a string'"),
        ("n", "SET K 42 PX 100000000"),
        ("l", "RPUSH K a b 3 d"),
        ("h", "HSET K f v n 1"),
        ("t", "HSET K f v g w"),
        ("i", "SADD K 1 2 3"),
        ("w", "SADD K a b c"),
        ("z", "ZADD K 1 a 2.5 b inf c"),
        ("p", "PFADD K a b c"),
        ("x", "XADD K 1-1 f v"),
        ("x", "XGROUP CREATE K g 0"),
        ("x", "XREADGROUP GROUP g c STREAMS K >"),
    ];
    let key = |name: &str| format!("{{{tag}}}{name}");
    for (name, line) in fill {
        let said = client.call(&key(name), &line.replace(" K ", &format!(" {} ", key(name))));
        assert!(!said.starts_with('-'), "{line}: {said}");
    }
    client.call(&key("t"), &format!("HPEXPIRE {} 100000000 FIELDS 1 f", key("t")));
    for large in 0..2000 {
        client.call(&key("big"), &format!("HSET {} field:{large} value:{large}", key("big")));
    }
    let names = ["s", "n", "l", "h", "i", "w", "z", "p", "big"];
    let before: Vec<Value> = names.iter().map(|name| digest(&nodes.0[0], &key(name))).collect();
    move_whole(&nodes, 0, 1, 0, 99);
    let after: Vec<Value> = names.iter().map(|name| digest(&nodes.0[1], &key(name))).collect();
    assert_eq!(before, after);
    let ttl = nodes.0[1].run(&format!("PTTL {}", key("n")));
    assert!(matches!(ttl, Value::Int(90_000_000..=100_000_000)), "{ttl:?}");
    let ttl = nodes.0[1].run(&format!("HPTTL {} FIELDS 2 f g", key("t")));
    assert!(matches!(ttl.items().expect("an array")[0], Value::Int(90_000_000..)), "{ttl:?}");
    let pending = nodes.0[1].run(&format!("XPENDING {} g", key("x")));
    assert_eq!(pending.items().expect("an array")[0], Value::Int(1));
    wait_until("the source has deleted them", || nodes.0[0].run("DBSIZE") == Value::Int(0));
    assert!(nodes.0[0].text(&format!("GET {}", key("s"))).starts_with("MOVED"));
    nodes.wait_until_well();
    let side = |node: &Node| (moves(node)[0]["operation"].clone(), moves(node)[0]["slot_ranges"].clone());
    assert_eq!(side(&nodes.0[0]), ("EXPORT".to_owned(), "0-99".to_owned()));
    assert_eq!(side(&nodes.0[1]), ("IMPORT".to_owned(), "0-99".to_owned()));
}

fn digest(node: &Node, key: &str) -> Value {
    let value = node.run(&format!("DEBUG DIGEST-VALUE {key}"));
    assert_ne!(value.items().expect("an array")[0].text(), "0".repeat(40), "{key}");
    value
}

#[test]
fn nothing_is_lost_or_changes_places_while_slots_move_as_a_whole_under_writers() {
    let nodes = Nodes::onrush(3, 0);
    let ends = AtomicBool::new(false);
    let (moved, written) = std::thread::scope(|scope| {
        let writer = |writer| {
            let (nodes, ends) = (&nodes, &ends);
            scope.spawn(move || match writer {
                0 | 1 => append(nodes, writer, ends),
                _ => pipelined::append(nodes, writer, ends),
            })
        };
        let writers: Vec<_> = (0..4).map(writer).collect();
        let mover = scope.spawn(|| {
            let mut moved = 0;
            for turn in 0.. {
                let (from, to) = [(0, 1), (1, 2), (2, 0)][turn % 3];
                if ends.load(Relaxed) {
                    break;
                }
                move_whole(&nodes, from, to, 0, 5000);
                moved += 1;
            }
            moved
        });
        std::thread::sleep(Duration::from_secs(5));
        ends.store(true, Relaxed);
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
        (mover.join().expect("the mover"), written)
    });
    let (pushed, redirected) = check_appended(&nodes, &written);
    assert!(moved > 2 && pushed > 1_000 && redirected > 5, "{moved} moves, {pushed} pushes, {redirected} redirections");
}

#[test]
fn slots_that_have_just_come_go_on_to_a_node_that_has_not_heard_of_it() {
    let nodes = Nodes::form(3, 0, |_| None, &["--enable-debug-command", "yes"]);
    // It hears of them only by pings, which come every half second.
    assert_eq!(nodes.0[2].text("DEBUG DROP-CLUSTER-PACKET-FILTER 1"), "OK");
    for slot in 0..3 {
        move_whole(&nodes, 0, 1, slot, slot);
        move_whole(&nodes, 1, 2, slot, slot);
    }
    assert_eq!(nodes.0[2].text("DEBUG DROP-CLUSTER-PACKET-FILTER -1"), "OK");
    nodes.wait_until_well();
}

#[test]
fn a_slot_in_a_migration_gets_no_other_owner() {
    let nodes = Nodes::onrush(3, 0);
    let (source, target) = (&nodes.0[0], &nodes.0[1]);
    let conn = establish(&nodes, 0, 1, "0 9");
    for to in [format!("IMPORTING {}", source.id()), format!("NODE {}", target.id())] {
        assert_eq!(target.text(&format!("CLUSTER SETSLOT 5 {to}")), "ERR Slot 5 is in a migration already");
    }
    assert_eq!(target.text("CLUSTER SETSLOT 5 STABLE"), "OK");
    for (command, slot) in
        [("DELSLOTS 5", 5), ("ADDSLOTS 20 5", 5), ("DELSLOTSRANGE 3 20", 3), ("ADDSLOTSRANGE 9 20", 9)]
    {
        assert_eq!(target.text(&format!("CLUSTER {command}")), format!("ERR Slot {slot} is in a migration already"));
    }
    conn.close();
    assert_eq!(end_of_move(target).0, "failed");
    assert_eq!(target.text(&format!("CLUSTER SETSLOT 5 IMPORTING {}", source.id())), "OK");
}

#[test]
fn a_source_that_says_nothing_is_given_up() {
    let nodes = Nodes::form(3, 0, |_| None, &["--repl-timeout", "2"]);
    let target = &nodes.0[1];
    let own = tag(0..=9, 0);
    let mut conn = establish(&nodes, 0, 1, "0 9");
    assert_eq!(conn.run(&format!("SET {own} 1")).text(), "OK");
    let (state, message) = end_of_move(target);
    assert_eq!((state.as_str(), message.as_str()), ("failed", "the source has said nothing for 2 s"));
    assert_eq!(target.run("DBSIZE"), Value::Int(0));
    assert!(conn.try_call(&onrush_tests::argv::Argv::new(&["CLUSTER", "SYNCSLOTS", "TAKE", "1000", "0"])).is_err());
    assert!(nodes.0[0].text(&format!("GET {own}")).is_empty());
}

/// What the source of a move says to its target, up to the moment where the keys go.
fn establish(nodes: &Nodes, from: usize, to: usize, slots: &str) -> onrush_tests::client::Conn {
    let mut conn = nodes.0[to].server.connect();
    static MOVES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("{:040}", MOVES.fetch_add(1, Relaxed));
    let said = conn.run(&format!("CLUSTER SYNCSLOTS ESTABLISH {name} {} {slots}", nodes.0[from].id()));
    assert_eq!(said.text(), "ESTABLISHED");
    conn
}

#[test]
fn what_has_not_come_as_a_whole_is_seen_by_nobody_and_goes_with_the_source() {
    let nodes = Nodes::form(3, 0, |_| None, &["--cluster-slot-migration-log-max-len", "2"]);
    let target = &nodes.0[1];
    let own = tag(6000..=10_000, 0);
    assert_eq!(target.text(&format!("SET {own} v")), "OK");
    let mut source = establish(&nodes, 0, 1, "0 99 200 200");
    let keys: Vec<String> = (0..50).map(|nth| tag(0..=99, nth)).collect();
    for key in &keys {
        assert_eq!(source.run(&format!("SET {key} v EX 1000")).text(), "OK");
    }
    assert_eq!(target.run("DBSIZE"), Value::Int(1));
    assert_eq!(target.run("KEYS *").items().map(<[_]>::len), Some(1));
    assert_eq!(target.run(&format!("KEYS {}", keys[0])).items().map(<[_]>::len), Some(0));
    let scanned = target.run("SCAN 0 COUNT 100000");
    assert_eq!(scanned.items().and_then(|parts| parts[1].items()).map(<[_]>::len), Some(1));
    assert_eq!(target.text("RANDOMKEY"), own);
    assert!(target.text("INFO keyspace").contains("db0:keys=1,expires=0"));
    assert!(target.text(&format!("GET {}", keys[0])).starts_with("MOVED"));
    assert_eq!(moves(target)[0]["state"], "snapshotting");
    // The same slots come over one connection at a time.
    let name = "9123456789012345678901234567890123456789";
    let said = target.text(&format!("CLUSTER SYNCSLOTS ESTABLISH {name} {} 99 99", nodes.0[0].id()));
    assert!(said.starts_with("TRYAGAIN Keys of slot 99 that have gone from here, or come with another"), "{said}");
    // What is not prepared is not taken.
    let mut early = establish(&nodes, 0, 1, "300 300");
    assert_eq!(early.run("CLUSTER SYNCSLOTS TAKE 1000 0").text(), "ERR the source may not wait for this any more");
    assert_eq!(end_of_move(target).0, "failed");
    drop(source);
    wait_until("both are over", || moves(target).iter().all(|last| last["state"] == "failed"));
    assert_eq!(moves(target)[1]["message"], "the source has closed the connection");
    let count = |slot: u16| target.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
    assert!((0..=99).all(|slot| count(slot) == Value::Int(0)));
    assert_eq!(target.run("DBSIZE"), Value::Int(1));
    // A flush ends a move, too.
    let mut source = establish(&nodes, 0, 1, "0 99");
    assert_eq!(source.run(&format!("SET {} v", keys[0])).text(), "OK");
    assert_eq!(target.text("FLUSHALL"), "OK");
    // Nothing comes behind that.
    assert!(source.run(&format!("SET {} v", keys[0])).text().starts_with("MOVED"));
    assert!(source.run("CLUSTER SYNCSLOTS PREPARE").text().contains("has failed"));
    assert_eq!(end_of_move(target), ("failed".to_owned(), "the data was flushed".to_owned()));
    assert!((0..=99).all(|slot| count(slot) == Value::Int(0)));
    assert_eq!(moves(target).len(), 2, "the oldest has gone");
}

#[test]
fn a_move_that_cannot_be_or_is_not_wanted_leaves_all_as_it_was() {
    let nodes = Nodes::onrush(3, 1);
    let (source, ids) = (&nodes.0[0], nodes.0.iter().map(Node::id).collect::<Vec<_>>());
    let nobody = "0".repeat(40);
    for (line, said) in [
        (format!("SLOTSRANGE 0 99 NODE {nobody}"), format!("ERR Unknown node {nobody}")),
        (format!("SLOTSRANGE 0 99 NODE {}", ids[0]), "ERR Can't migrate slots to this node itself".to_owned()),
        (format!("SLOTSRANGE 0 99 NODE {}", ids[3]), "ERR Target node is not a master".to_owned()),
        (
            format!("SLOTSRANGE 99 0 NODE {}", ids[1]),
            "ERR start slot number 99 is greater than end slot number 0".to_owned(),
        ),
        (format!("SLOTSRANGE 0 16384 NODE {}", ids[1]), "ERR Invalid or out of range slot".to_owned()),
        (format!("SLOTSRANGE 0 16383 NODE {}", ids[1]), "ERR I'm not the owner of hash slot 5461".to_owned()),
        (format!("SLOTSRANGE 0 5 3 9 NODE {}", ids[1]), "ERR Slot 3 specified multiple times".to_owned()),
        (format!("SLOTSRANGE 0 1 2 NODE {}", ids[1]), "ERR Invalid or out of range slot".to_owned()),
        (format!("SLOTS 0 1 NODE {}", ids[1]), "ERR syntax error".to_owned()),
        (
            format!("SLOTSRANGE 0 5 NODE {} SLOTSRANGE 5 6 NODE {}", ids[1], ids[2]),
            "ERR Slot 5 is in a migration already".to_owned(),
        ),
    ] {
        assert_eq!(source.text(&format!("CLUSTER MIGRATESLOTS {line}")), said, "{line}");
    }
    assert!(moves(source).is_empty());
    assert_eq!(source.text("CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    // The target stops: the source goes on with its slots.
    let key = tag(0..=99, 0);
    assert_eq!(source.text(&format!("SET {key} v")), "OK");
    nodes.0[1].server.signal("STOP");
    let said = source.text(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 99 NODE {}", ids[1]));
    assert_eq!(said, "OK");
    let said = source.text(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 50 50 NODE {}", ids[2]));
    assert_eq!(said, "ERR Slot 50 is in a migration already");
    assert_eq!(source.text("CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    assert_eq!(moves(source)[0]["state"], "cancelled");
    nodes.0[1].server.signal("CONT");
    let began = Instant::now();
    assert_eq!(source.text(&format!("SET {key} w")), "OK");
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(nodes.client().call(&key, &format!("GET {key}")), "$1 w");
}

#[test]
fn what_had_come_to_a_target_that_is_killed_is_gone_when_it_starts_again() {
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut nodes = Nodes::form(3, 0, |_| None, &log);
    let (own, key) = (tag(6000..=10_000, 0), tag(0..=99, 0));
    assert_eq!(nodes.0[1].text(&format!("SET {own} v")), "OK");
    let mut source = establish(&nodes, 0, 1, "0 99");
    assert_eq!(source.run(&format!("SET {key} v")).text(), "OK");
    nodes.0[1].server.signal("KILL");
    nodes.0[1].server.wait_exit();
    let dir = nodes.0[1].server.dir().to_str().expect("a path").to_owned();
    let again = Node::start(None, &[&log[..], &["--dir", &dir]].concat());
    wait_until("the data is loaded", || again.text("DBSIZE") == "1" || again.run("DBSIZE") == Value::Int(1));
    assert_eq!(again.run(&format!("CLUSTER COUNTKEYSINSLOT {}", slot(key.as_bytes()))), Value::Int(0));
    let line = again.text("CLUSTER NODES");
    assert!(!line.contains("-<-"), "{line}");
    assert!(again.server.log().contains("were on their way when this node ended"));
}

#[test]
fn replicas_of_the_target_hide_what_comes_and_delete_it_when_they_take_over() {
    let nodes = Nodes::onrush(3, 3);
    let (target, replica) = (&nodes.0[1], &nodes.0[4]);
    let (own, key) = (tag(6000..=10_000, 0), tag(0..=99, 0));
    assert_eq!(target.text(&format!("SET {own} v")), "OK");
    let mut source = establish(&nodes, 0, 1, "0 99");
    assert_eq!(source.run(&format!("SET {key} v")).text(), "OK");
    let count = |node: &Node| node.run(&format!("CLUSTER COUNTKEYSINSLOT {}", slot(key.as_bytes())));
    wait_until("the replica has it", || count(replica) == Value::Int(1));
    // It knew that before the key came.
    assert_eq!(replica.run("DBSIZE"), Value::Int(1));
    target.server.signal("KILL");
    wait_until("the replica has taken over", || replica.text("INFO replication").contains("role:master"));
    wait_until("it has deleted what had come", || count(replica) == Value::Int(0));
    assert_eq!(replica.text(&format!("GET {own}")), "v");
}

/// Writes so many keys into the slot of a tag.
fn fill_slot(node: &Node, tag: &str, keys: usize) {
    let script = "for n = 1, ARGV[1] do redis.call('set', KEYS[1] .. n, n) end";
    let mut conn = node.server.connect();
    conn.run(&format!("EVAL \"{script}\" 1 {{{tag}}} {keys}"));
    assert_eq!(node.run(&format!("CLUSTER COUNTKEYSINSLOT {}", slot(tag.as_bytes()))), Value::Int(keys as i64));
}

#[test]
fn a_slot_that_comes_back_while_others_are_still_deleted_keeps_its_keys() {
    let nodes = Nodes::onrush(3, 0);
    let (large, small) = (tag(0..=99, 0), tag(200..=299, 0));
    fill_slot(&nodes.0[0], &large, 200_000);
    move_whole(&nodes, 0, 1, 0, 299);
    // Most of them are still to be deleted, if this machine is not much faster than others.
    fill_slot(&nodes.0[1], &small, 100);
    move_whole(&nodes, 1, 0, 200, 299);
    let of_small = slot(small.as_bytes());
    assert_eq!(nodes.0[0].run(&format!("CLUSTER COUNTKEYSINSLOT {of_small}")), Value::Int(100));
    wait_until("what has gone is deleted", || nodes.0[0].run("DBSIZE") == Value::Int(100));
    assert_eq!(nodes.0[0].text(&format!("GET {{{small}}}100")), "100");
    wait_until("the other node has deleted it", || nodes.0[1].run("DBSIZE") == Value::Int(200_000));
}

#[test]
fn a_replica_that_takes_over_deletes_the_rest_of_slots_that_have_gone() {
    let nodes = Nodes::onrush(3, 3);
    let large = tag(0..=99, 0);
    fill_slot(&nodes.0[0], &large, 200_000);
    let (own, replica) = (tag(3000..=4000, 0), &nodes.0[3]);
    assert_eq!(nodes.0[0].text(&format!("SET {own} v")), "OK");
    wait_until("the replica has all", || replica.run("DBSIZE") == Value::Int(200_001));
    move_whole(&nodes, 0, 1, 0, 99);
    // What is left is told with the stream. On a machine that is much faster than others, nothing is left by then.
    wait_until("the replica hides what has gone", || replica.run("DBSIZE") == Value::Int(1));
    let count = format!("CLUSTER COUNTKEYSINSLOT {}", slot(large.as_bytes()));
    nodes.0[0].server.signal("KILL");
    wait_until("the replica has taken over", || replica.text("INFO replication").contains("role:master"));
    wait_until("the rest is deleted", || replica.run(&count) == Value::Int(0));
    assert_eq!(replica.text(&format!("GET {own}")), "v");
    assert_eq!(nodes.0[1].run("DBSIZE"), Value::Int(200_000));
}

#[test]
fn keys_on_their_way_expire_where_they_come_from() {
    let nodes = Nodes::onrush(3, 0);
    let (target, tag) = (&nodes.0[1], tag(0..=99, 0));
    let mut source = establish(&nodes, 0, 1, "0 99");
    let key = |name: &str| format!("{{{tag}}}{name}");
    for name in ["kept", "counted", "longer"] {
        assert_eq!(source.run(&format!("SET {} 5 PX 50", key(name))).text(), "OK");
    }
    assert_eq!(source.run(&format!("HSET {} f v g w", key("hash"))), Value::Int(2));
    source.run(&format!("HPEXPIRE {} 50 FIELDS 1 f", key("hash")));
    // Several turns of the cycle that deletes what has expired.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(source.run(&format!("PERSIST {}", key("kept"))), Value::Int(1));
    assert_eq!(source.run(&format!("INCR {}", key("counted"))), Value::Int(6));
    assert_eq!(source.run(&format!("PEXPIRE {} 100000", key("longer"))), Value::Int(1));
    assert_eq!(source.run(&format!("HPERSIST {} FIELDS 1 f", key("hash"))).items().map(<[_]>::len), Some(1));
    assert_eq!(source.run("CLUSTER SYNCSLOTS PREPARE").text(), "PREPARED");
    assert_eq!(source.run("CLUSTER SYNCSLOTS TAKE 1000 100").text(), "TAKEN");
    assert_eq!(target.text(&format!("GET {}", key("kept"))), "5");
    assert_eq!(target.text(&format!("GET {}", key("longer"))), "5");
    assert_eq!(target.text(&format!("HGET {} f", key("hash"))), "v");
    // What the source has not deleted in time expires here.
    assert_eq!(target.run(&format!("EXISTS {}", key("counted"))), Value::Int(0));
}

#[test]
fn two_nodes_that_move_slots_to_each_other_lose_none() {
    let nodes = Nodes::onrush(3, 0);
    let tags = [tag(0..=999, 0), tag(6000..=6999, 0)];
    let mut ranges = [(0, 999), (6000, 6999)];
    (0..2).for_each(|nth| fill_slot(&nodes.0[nth], &tags[nth], 500));
    for round in 0..12 {
        for (from, (first, last)) in ranges.iter().enumerate() {
            let to = nodes.0[1 - from].id();
            // The other node may not have heard yet of the round before.
            wait_until("the slots may move", || {
                nodes.0[from].text(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {to}")) == "OK"
            });
        }
        (0..2).for_each(|nth| {
            wait_until("both are over", || {
                moves(&nodes.0[nth]).iter().all(|last| ["success", "failed"].contains(&last["state"].as_str()))
            })
        });
        for (nth, node) in nodes.0.iter().enumerate().take(2) {
            let failed: Vec<_> = moves(node).into_iter().filter(|last| last["state"] == "failed").collect();
            assert!(failed.is_empty(), "round {round}, node {nth}: {failed:?}");
        }
        ranges.swap(0, 1);
    }
    nodes.wait_until_well();
    for (nth, tag) in tags.iter().enumerate() {
        let count = format!("CLUSTER COUNTKEYSINSLOT {}", slot(tag.as_bytes()));
        assert_eq!(nodes.0[nth].run(&count), Value::Int(500));
        assert_eq!(nodes.0[nth].text(&format!("GET {{{tag}}}500")), "500");
    }
}

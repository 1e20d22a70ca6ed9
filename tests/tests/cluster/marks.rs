//! Slots that are on their way by CLUSTER SETSLOT, while one of the two ends fails.

use onrush_cluster::slots::slot;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, wait_until};

use crate::nodes::{Node, Nodes};

fn is_primary(node: &Node) -> bool {
    node.text("INFO replication").contains("role:master")
}

fn own_line(node: &Node) -> String {
    let text = node.text("CLUSTER NODES");
    text.lines().find(|line| line.contains("myself")).expect("a line").to_owned()
}

#[test]
fn a_replica_that_takes_over_goes_on_with_slots_that_are_on_their_way() {
    // Nodes 3 and 6 follow node 0, node 4 follows node 1.
    let nodes = Nodes::form(3, 4, |at| (at == 6).then_some(Oracle::Newer), &[]);
    let [source, target, replica, theirs] = [0, 1, 3, 6].map(|at| &nodes.0[at]);
    theirs.text("CONFIG SET cluster-replica-no-failover yes");
    let (gone, stays) = (tag_of(0, 0), tag_of(0, 1));
    let (coming, slots) = (tag_of(5_461, 0), |key: &str| slot(key.as_bytes()));
    for (from, to, key) in [(source, target, &gone), (target, source, &coming)] {
        let slot = slots(key);
        assert_eq!(to.text(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id())), "OK");
        assert_eq!(from.text(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id())), "OK");
    }
    let mut conn = source.server.connect();
    conn.run(&format!("SET {stays} v"));
    assert_eq!(conn.run("WAIT 2 5000"), Value::Int(2));
    source.server.signal("KILL");
    wait_until("the replica has taken over", || is_primary(replica));
    let line = own_line(replica);
    let marks = [format!("[{}->-{}]", slots(&gone), target.id()), format!("[{}-<-{}]", slots(&coming), target.id())];
    assert!(marks.iter().all(|mark| line.contains(mark)), "{line}");
    // A key that may have gone is not made anew here.
    wait_until("it serves", || replica.text(&format!("GET {stays}")) == "v");
    let said = replica.run(&format!("SET {gone} v")).text();
    assert_eq!(said, format!("ASK {} {}", slots(&gone), target.address()));
    let mut conn = replica.server.connect();
    conn.run("ASKING");
    assert_eq!(conn.run(&format!("SET {coming} v")).text(), "OK");
    // The other end goes on with the new node.
    let marks = [format!("[{}-<-{}]", slots(&gone), replica.id()), format!("[{}->-{}]", slots(&coming), replica.id())];
    wait_until("the target knows", || marks.iter().all(|mark| own_line(target).contains(mark)));
    // A redis-server takes what it is told for nothing.
    let log = theirs.server.log();
    assert!(!log.contains("sending an error"), "{log}");
    // The move ends as any.
    assert_eq!(target.text(&format!("CLUSTER SETSLOT {} NODE {}", slots(&gone), target.id())), "OK");
    assert_eq!(replica.text(&format!("CLUSTER SETSLOT {} NODE {}", slots(&gone), target.id())), "OK");
    wait_until("the slot is the target's", || target.text(&format!("SET {gone} v")) == "OK");
}

/// The nth tag whose slot is one of a third of all, from the first slot of it on.
fn tag_of(first: u16, nth: usize) -> String {
    let tags = (0..).map(|number| format!("t{number}"));
    tags.filter(|tag| (first..first + 5_000).contains(&slot(tag.as_bytes()))).nth(nth).expect("a tag")
}

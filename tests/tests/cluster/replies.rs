//! What a node of a cluster replies, held against redis-server 8.2 byte by byte.

use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, wait_until};

use crate::nodes::Node;

/// Slots 100 to 16383 are here; that of `x` (16287) is nobody's. `a` is 15495, `b` 3300, `c` 7365.
fn node(partner: Option<Oracle>) -> Node {
    let node = Node::start(partner, &[]);
    assert_eq!(node.text("CLUSTER ADDSLOTSRANGE 100 16286 16288 16383"), "OK");
    assert_eq!(node.text("CONFIG SET cluster-require-full-coverage no"), "OK");
    wait_until("the node is up", || node.text("CLUSTER INFO").contains("cluster_state:ok"));
    node
}

const COMMANDS: &str = r##"
SET a 1
GET a
GET x
MGET a b
MGET a {a}1
MGET x a
DEL a b
MOVE a 1
COPY a {a}b DB 1
COPY a {a}b
RPUSH {a}l 1
SORT {a}l BY x*
SORT {a}l GET x*
SORT {a}l GET #
SORT {a}l BY {a}*
SORT {a}l BY {a}* GET {a}*
SORT {a}l BY nosort
SORT {a}l GET abc
SORT {a}l GET {a*}
SORT {a}l BY *{a}
SWAPDB 0 1
SELECT 1
SELECT 0
SELECT 20
EVAL "return redis.call('get','b')" 1 a
EVAL "return redis.call('get','b')" 0
EVAL "redis.call('get','b') return redis.call('get','a')" 0
EVAL "return redis.call('mget','a','b')" 0
EVAL "return redis.call('get','x')" 0
EVAL "return redis.call('spublish','a','b')" 0
EVAL "return redis.call('select',1)" 0
EVAL "return 1" 2 a b
EVAL "return 1" 1 x
EVAL "#!lua\nreturn redis.call('get','b')" 1 a
EVAL "#!lua\nredis.call('get','b') return redis.call('get','a')" 0
EVAL "#!lua flags=allow-cross-slot-keys\nredis.call('get','b') return redis.call('get','a')" 0
EVAL "#!lua flags=no-cluster\nreturn 1" 0
MULTI
GET a
GET b
EXEC
MULTI
GET a
MGET a b
EXEC
MULTI
SET {a}2 1
GET {a}2
EXEC
MULTI
GET x
EXEC
WATCH a b
WATCH a
UNWATCH
CLUSTER COUNTKEYSINSLOT 15495
CLUSTER COUNTKEYSINSLOT 16384
CLUSTER COUNTKEYSINSLOT x
CLUSTER GETKEYSINSLOT 15495 -1
CLUSTER GETKEYSINSLOT 1 10
CLUSTER GETKEYSINSLOT x 1
CLUSTER KEYSLOT {user}.a
CLUSTER FOO
CLUSTER ADDSLOTS x
CLUSTER ADDSLOTS 1 1
CLUSTER ADDSLOTS 500
CLUSTER ADDSLOTSRANGE 5
CLUSTER ADDSLOTSRANGE 5 4
CLUSTER DELSLOTS 5
CLUSTER DELSLOTS 500 500
CLUSTER DELSLOTSRANGE 5 4
CLUSTER SETSLOT 5 NODE abc
CLUSTER SETSLOT 5 FOO
CLUSTER SETSLOT 500 MIGRATING abc
CLUSTER SETSLOT 500 IMPORTING abc
CLUSTER SETSLOT 5 MIGRATING abc
CLUSTER SETSLOT 5 IMPORTING abc
CLUSTER SETSLOT x STABLE
CLUSTER SETSLOT 500 STABLE
CLUSTER FORGET abc
CLUSTER REPLICATE abc
CLUSTER FAILOVER
CLUSTER FAILOVER FOO
CLUSTER FAILOVER FORCE 1
CLUSTER RESET SOFT 1
CLUSTER MEET 127.0.0.1 1 2 3
FAILOVER
FAILOVER ABORT
FAILOVER TO 127.0.0.1 1
FAILOVER x
CLUSTER COUNT-FAILURE-REPORTS abc
CLUSTER REPLICAS abc
CLUSTER SLAVES abc
CLUSTER SET-CONFIG-EPOCH x
CLUSTER SET-CONFIG-EPOCH -1
CLUSTER RESET FOO
CLUSTER RESET
CLUSTER FLUSHSLOTS
CLUSTER MEET 1.2.3 77
CLUSTER MEET 127.0.0.1 0
CLUSTER MEET 127.0.0.1 60000
CLUSTER MEET 127.0.0.1 x
CLUSTER MEET 127.0.0.1 5000 x
CLUSTER BUMPEPOCH
CLUSTER BUMPEPOCH
CLUSTER SAVECONFIG
READONLY
READWRITE
ASKING
GET a
REPLICAOF 127.0.0.1 5
SLAVEOF NO ONE
SPUBLISH a hello
SPUBLISH x hello
PUBLISH x hello
SSUBSCRIBE a b
SSUBSCRIBE x
SSUBSCRIBE a
SUNSUBSCRIBE a b
SUNSUBSCRIBE
XREAD STREAMS a b 0 0
PFCOUNT a b
SINTERCARD 2 a b
MSET a 1 b 2
RENAME a b
OBJECT ENCODING x
MIGRATE 127.0.0.1 1 a 1 10
MIGRATE 127.0.0.1 1 "" 0 10 KEYS a b
RESTORE-ASKING x 0 y
CONFIG GET cluster-enabled
INFO cluster
FCALL f 1 x
FCALL f 0
COMMAND INFO restore-asking
COMMAND GETKEYS spublish a b
"##;

fn ask(conn: &mut Conn, command: &Argv) -> String {
    let reply = conn.try_call(command).expect("a reply");
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn a_node_replies_as_redis_server_does() {
    for hello in ["HELLO 2", "HELLO 3"] {
        let (ours, theirs) = (node(None), node(Some(Oracle::Newer)));
        let (mut our_conn, mut their_conn) = (ours.server.connect(), theirs.server.connect());
        our_conn.run(hello);
        their_conn.run(hello);
        let mut wrong = Vec::new();
        for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
            let command = Argv::parse(line).expect("a command");
            let (ours, theirs) = (ask(&mut our_conn, &command), ask(&mut their_conn, &command));
            if ours != theirs {
                wrong.push(format!("{line}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
            }
        }
        assert!(wrong.is_empty(), "{hello}\n{}", wrong.join("\n"));
    }
}

/// What differs from node to node: names, ports, times.
fn without_names(text: &str, node: &Node) -> String {
    text.replace(&node.id(), "<id>").replace(&node.server.port().to_string(), "<port>")
}

#[test]
fn a_node_shows_itself_as_redis_server_does() {
    let (ours, theirs) = (node(None), node(Some(Oracle::Newer)));
    for line in ["CLUSTER NODES", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER INFO", "CLUSTER LINKS"] {
        let command = Argv::parse(line).expect("a command");
        let [ours, theirs] = [&ours, &theirs].map(|node| {
            let mut text = without_names(&ask(&mut node.server.connect(), &command), node);
            // The port of the bus.
            while let Some(at) = text.find('@') {
                let end = at + 1 + text[at + 1..].find(' ').unwrap_or(0);
                text.replace_range(at..end, "");
            }
            text.split_once("\r\n").map(|(_, rest)| rest.to_owned()).unwrap_or(text)
        });
        assert_eq!(ours, theirs, "{line}");
    }
}

/// In Redis it makes a replica the primary of its slots.
#[test]
fn nobody_hands_over_by_psync_in_a_cluster() {
    let node = node(None);
    let reply = node.server.connect().run("PSYNC abc 1 FAILOVER").to_string();
    assert!(reply.contains("ERR PSYNC FAILOVER not allowed in cluster mode."), "{reply}");
}

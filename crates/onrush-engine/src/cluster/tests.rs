//! Commands of a node that has half of the slots, and one that is under way each way.

use std::sync::Arc;

use crate::batch::runner::Runner;
use crate::clients::local::LocalClient;
use crate::cluster::routes::testing::routes;
use crate::cluster::routes::{NOBODY, Routes};
use crate::command::CommandTable;
use crate::commands::FAMILIES;
use crate::ctx::Engine;
use crate::shared::Parts;

/// A node and a client of it.
struct Node {
    engine: &'static Engine,
    runner: Runner,
    client: LocalClient,
}

impl Node {
    /// It has the slots of `a` (15495) and `c` (7365); the next node has that of `b` (3300); that of `x` (16287) is nobody's.
    fn new() -> Self {
        let parts = Parts { is_clustered: true, ..Parts::default() };
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(&parts, CommandTable::new(FAMILIES))));
        let mut node = Self { engine, runner: Runner::new(engine, 0), client: LocalClient::new(engine) };
        node.change(|_| {});
        node
    }

    fn change(&mut self, change: impl FnOnce(&mut Routes)) {
        let mut routes = routes(&[(0..=4999, 1), (5000..=16_383, 0)]);
        routes.owners[16_287] = NOBODY;
        change(&mut routes);
        let here = (0..16_384).filter(|slot| routes.owner(*slot) == routes.here);
        routes.own = here.collect();
        self.engine.cluster.as_ref().unwrap().publish(Arc::new(routes));
    }

    fn run(&mut self, commands: &str) -> String {
        let replies = self.client.run(&mut self.runner, format!("{commands}\n"));
        String::from_utf8_lossy(&replies).trim_end().replace("\r\n", " ")
    }
}

#[test]
fn keys_are_served_where_they_belong() {
    let mut node = Node::new();
    assert_eq!(node.run("SET a 1\nGET a\nMGET a {a}1"), "+OK $1 1 *2 $1 1 $-1");
    assert_eq!(node.run("SET b 1\nGET a\nGET b"), "-MOVED 3300 10.0.0.1:7001 $1 1 -MOVED 3300 10.0.0.1:7001");
    assert_eq!(node.run("GET x"), "-CLUSTERDOWN Hash slot not served");
    assert_eq!(node.run("MSET a 1 c 2"), "-CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(node.run("SELECT 1"), "-ERR SELECT is not allowed in cluster mode");
    assert_eq!(node.run("CLUSTER COUNTKEYSINSLOT 15495"), ":1");
    assert_eq!(node.run("CLUSTER GETKEYSINSLOT 15495 5"), "*1 $1 a");
}

#[test]
fn many_equal_commands_are_looked_at_one_by_one_where_slots_are_elsewhere() {
    let mut node = Node::new();
    let commands = "*2\r\n$4\r\nINCR\r\n$1\r\nb\r\n".repeat(20);
    let replies = node.client.run(&mut node.runner, &commands);
    assert_eq!(String::from_utf8_lossy(&replies), "-MOVED 3300 10.0.0.1:7001\r\n".repeat(20));
}

#[test]
fn a_transaction_keeps_to_one_slot() {
    let mut node = Node::new();
    assert_eq!(node.run("MULTI\nSET a 1\nGET {a}\nEXEC"), "+OK +QUEUED +QUEUED *2 +OK $-1");
    assert_eq!(
        node.run("MULTI\nGET a\nGET c\nEXEC"),
        "+OK +QUEUED +QUEUED -CROSSSLOT Keys in request don't hash to the same slot"
    );
    assert_eq!(
        node.run("MULTI\nGET a\nGET b\nEXEC\nGET a"),
        "+OK +QUEUED -MOVED 3300 10.0.0.1:7001 -EXECABORT Transaction discarded because of previous errors. $1 1"
    );
    // The slot goes after the commands were queued.
    assert_eq!(node.run("MULTI\nGET a"), "+OK +QUEUED");
    node.change(|routes| routes.owners[15_495] = 2);
    assert_eq!(node.run("EXEC\nPING"), "-MOVED 15495 10.0.0.1:7002 +PONG");
}

#[test]
fn scripts_stay_where_their_keys_are() {
    let mut node = Node::new();
    let not_local = "-ERR Script attempted to access a non local key in a cluster node";
    assert_eq!(node.run("EVAL 'return redis.call(\"set\",KEYS[1],1)' 1 a"), "+OK");
    assert_eq!(node.run("EVAL 'return 1' 1 b"), "-MOVED 3300 10.0.0.1:7001");
    assert!(node.run("EVAL 'return redis.call(\"get\",\"b\")' 0").starts_with(not_local));
    assert_eq!(node.run("EVAL 'redis.call(\"get\",\"c\") return redis.call(\"get\",\"a\")' 0"), "$1 1");
    let keeps = "-ERR Script attempted to access keys that do not hash to the same slot";
    let script = "#!lua\nredis.call('get','a') return redis.call('get','c')";
    let call = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len());
    let replies = node.client.run(&mut node.runner, call);
    assert!(String::from_utf8_lossy(&replies).starts_with(keeps), "{}", String::from_utf8_lossy(&replies));
}

#[test]
fn a_slot_that_leaves_is_served_as_long_as_its_keys_are_here() {
    let mut node = Node::new();
    node.run("SET a 1");
    node.change(|routes| routes.migrating.extend([(15_495, 1)]));
    assert_eq!(node.run("INCR a\nGET a"), ":2 $1 2");
    assert_eq!(node.run("GET {a}2"), "-ASK 15495 10.0.0.1:7001");
    assert_eq!(node.run("SET {a}2 1"), "-ASK 15495 10.0.0.1:7001");
    assert_eq!(node.run("MGET a {a}2"), "-TRYAGAIN Multiple keys request during rehashing of slot");
    assert_eq!(node.run("MULTI\nINCR a\nEXEC"), "+OK +QUEUED *1 :3");
    assert_eq!(
        node.run("MULTI\nINCR {a}2\nEXEC\nPING"),
        "+OK -ASK 15495 10.0.0.1:7001 -EXECABORT Transaction discarded because of previous errors. +PONG"
    );
    assert_eq!(node.run("EVAL 'return redis.call(\"incr\",KEYS[1])' 1 a"), ":4");
    assert_eq!(node.run("EVAL 'return 1' 1 {a}2"), "-ASK 15495 10.0.0.1:7001");
    assert_eq!(node.run("DEL a\nINCR a"), ":1 -ASK 15495 10.0.0.1:7001");
}

#[test]
fn a_slot_that_comes_is_served_to_who_asks() {
    let mut node = Node::new();
    node.change(|routes| routes.importing.extend([(3300, 1)]));
    assert_eq!(node.run("SET b 1"), "-MOVED 3300 10.0.0.1:7001");
    assert_eq!(node.run("ASKING\nSET b 1\nGET b"), "+OK +OK -MOVED 3300 10.0.0.1:7001");
    assert_eq!(node.run("ASKING\nGET a\nGET b"), "+OK $-1 -MOVED 3300 10.0.0.1:7001");
    assert_eq!(
        node.run("ASKING\nMGET b {b}2\nASKING\nASKING\nMGET b b"),
        "+OK -TRYAGAIN Multiple keys request during rehashing of slot +OK +OK *2 $1 1 $1 1"
    );
}

#[test]
fn a_replica_reads_for_who_asks_for_it() {
    let mut node = Node::new();
    node.change(|routes| (routes.here, routes.is_replica) = (1, true));
    assert_eq!(node.run("GET b\nREADONLY\nGET b"), "-MOVED 3300 10.0.0.1:7001 +OK $-1");
    assert_eq!(node.run("SET b 1\nGET a"), "-MOVED 3300 10.0.0.1:7001 -MOVED 15495 10.0.0.1:7000");
    assert_eq!(node.run("MULTI\nGET b\nEXEC"), "+OK +QUEUED *1 $-1");
    assert_eq!(
        node.run("MGET b {b}2\nMGET a b\nGET a"),
        "*2 $-1 $-1 -CROSSSLOT Keys in request don't hash to the same slot -MOVED 15495 10.0.0.1:7000"
    );
    assert_eq!(node.run("GET b\nREADWRITE\nGET b"), "$-1 +OK -MOVED 3300 10.0.0.1:7001");
    assert_eq!(node.run("READONLY\nGET b"), "+OK $-1");
    assert_eq!(node.run("GET b\nRESET\nGET b"), "$-1 +RESET -MOVED 3300 10.0.0.1:7001");
    node.change(|routes| routes.is_up = false);
    assert_eq!(node.run("READONLY\nGET b"), "+OK -CLUSTERDOWN The cluster is down");
}

#[test]
fn subscribers_leave_the_channels_of_a_slot_that_goes() {
    let mut node = Node::new();
    assert_eq!(node.run("SSUBSCRIBE a\nSSUBSCRIBE c"), "*3 $10 ssubscribe $1 a :1 *3 $10 ssubscribe $1 c :2");
    let mut gone = routes(&[(0..=4999, 1), (5000..=16_383, 0)]);
    gone.owners[15_495] = 2;
    super::change::change_routes(node.engine, Arc::new(gone));
    let mail = String::from_utf8_lossy(&node.client.take_replies()).replace("\r\n", " ");
    assert_eq!(mail.trim_end(), "*3 $12 sunsubscribe $1 a :1");
    assert_eq!(node.run("SUNSUBSCRIBE c"), "*3 $12 sunsubscribe $1 c :0");
}

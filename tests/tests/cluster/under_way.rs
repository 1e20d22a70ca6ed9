//! A slot that is on its way by CLUSTER SETSLOT: who executes which command, beside redis-server.

use onrush_cluster::slots::slot;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::server::{Oracle, wait_until};

use crate::nodes::Nodes;

/// `s` is the node that the slot leaves, `t` the one that it comes to; the keys `{m}h…` are here, `{m}g…` have gone, and
/// `{m}n…` are nowhere. `{n}` is of another slot of `s`, `{o}` of one of `t`.
const COMMANDS: &str = r##"
s GET {m}h
s SET {m}h 1
s GET {m}g
s SET {m}g 1
s SET {m}n 1
s MGET {m}h {m}hl
s MGET {m}h {m}g
s MGET {m}g {m}n
s MGET {m}h {n}
s MGET {n} {n}2
s DEL {m}h2 {m}g
s DEL {m}g {m}n
s EXISTS {m}h {m}n
s RENAME {m}h {m}n
s COPY {m}h {m}n
s LMOVE {m}hl {m}n LEFT RIGHT
s SORT {m}hl STORE {m}n
s PFMERGE {m}h {m}g
s OBJECT ENCODING {m}h
s OBJECT ENCODING {m}g
s TYPE {m}g
s TTL {m}g
s DUMP {m}g
s KEYS {m}hl
s BLPOP {m}hl 1
s BLPOP {m}g 1
s BLPOP {m}hl {m}g 1
s BLPOP {m}hs {m}g 1
s BLMPOP 1 2 {m}hl {m}hl LEFT
s XREAD STREAMS {m}g 0
s XREADGROUP GROUP g c STREAMS {m}g >
s WATCH {m}h
s UNWATCH
s WATCH {m}g
s WATCH {m}h {m}g
s EVAL "return redis.call('GET', KEYS[1])" 1 {m}h
s EVAL "return redis.call('GET', KEYS[1])" 1 {m}g
s EVAL "return 1" 2 {m}h {m}g
s EVAL "return redis.call('GET', '{m}g')" 1 {m}h
s EVAL "return redis.call('GET', '{m}h')" 0
s EVAL "#!lua\nreturn redis.call('GET', '{m}g')" 0
s EVAL "return redis.call('GET', '{m}n')" 1 {n}
s SPUBLISH {m}g message
s CLUSTER COUNTKEYSINSLOT <slot>
s CLUSTER KEYSLOT {m}g
s READONLY
s GET {m}g
s READWRITE
s ASKING
s GET {m}g
s GET {m}h
s MULTI
s GET {m}h
s GET {m}h
s EXEC
s MULTI
s GET {m}g
s GET {m}h
s EXEC
s MULTI
s GET {m}h
s GET {m}g
s EXEC
s MULTI
s MGET {m}h {m}g
s EXEC
s MULTI
s SET {m}n 1
s EXEC
s MULTI
s PING
s GET {n}
s EXEC
s MULTI
s GET {m}h
s GET {n}
s EXEC
s MULTI
s DEL {m}h3
s GET {m}h3
s EXEC
s MULTI
s GET {m}h
s GET {o}
s EXEC
s MULTI
s GET {m}g
s DISCARD
s GET {n}
s WATCH {m}h
s MULTI
s INCR {m}h
s EXEC
s MULTI
s EVAL "return redis.call('GET', KEYS[1])" 1 {m}g
s EXEC
s MULTI
s EVAL "return redis.call('GET', KEYS[1])" 1 {m}h
s EXEC
t GET {m}h
t GET {m}g
t MGET {m}g {m}h
t ASKING
t GET {m}g
t GET {m}g
t ASKING
t GET {m}n
t ASKING
t SET {m}g2 1
t ASKING
t MGET {m}g {m}g2
t ASKING
t MGET {m}g {m}h
t ASKING
t MGET {m}h {m}n
t ASKING
t DEL {m}g2 {m}n
t ASKING
t DEL {m}g2
t ASKING
t ASKING
t GET {m}g
t ASKING
t PING
t GET {m}g
t ASKING
t NOSUCH
t GET {m}g
t ASKING
t GET
t GET {m}g
t ASKING
t MULTI
t GET {m}g
t SET {m}g3 1
t EXEC
t GET {m}g
t ASKING
t MULTI
t GET {m}g
t MGET {m}g {m}h
t EXEC
t GET {m}g
t ASKING
t MULTI
t GET {m}g
t GET {o}
t EXEC
t ASKING
t MULTI
t GET {m}g
t DISCARD
t GET {m}g
t MULTI
t ASKING
t GET {m}g
t EXEC
t ASKING
t WATCH {m}g
t MULTI
t GET {m}g
t EXEC
t ASKING
t WATCH {m}g
t ASKING
t MULTI
t GET {m}g
t EXEC
t ASKING
t EVAL "return redis.call('GET', KEYS[1])" 1 {m}g
t ASKING
t EVAL "return redis.call('GET', KEYS[1])" 1 {m}n
t ASKING
t EVAL "return redis.call('SET', KEYS[1], 1)" 1 {m}n
t ASKING
t EVAL "return redis.call('MGET', KEYS[1], KEYS[2])" 2 {m}g {m}h
t EVAL "return redis.call('GET', KEYS[1])" 1 {m}g
t ASKING
t EVAL "return redis.call('GET', '{m}g')" 0
t ASKING
t BLPOP {m}gl 1
t ASKING
t BLPOP {m}gl {m}h 1
t BLPOP {m}gl 1
t ASKING
t SPUBLISH {m}g message
t SPUBLISH {m}g message
t SSUBSCRIBE {m}g
t ASKING
t SSUBSCRIBE {m}g
t SUNSUBSCRIBE {m}g
t ASKING
t RENAME {m}g {m}g4
t ASKING
t RENAME {m}g4 {m}g
t ASKING
t COPY {m}g {m}n2
t RESTORE-ASKING {m}n3 0 x
t CLUSTER COUNTKEYSINSLOT <slot>
t KEYS {m}gl
t READONLY
t GET {m}g
t READWRITE
t GET {o}
"##;

/// Two nodes with a slot open between them.
struct Open {
    nodes: Nodes,
    slot: u16,
    words: [(&'static str, String); 4],
}

/// A tag with a slot of a half of all, the nth of them.
fn tag(second_half: bool, nth: usize) -> String {
    let tags = (0..).map(|number| format!("{{t{number}}}"));
    tags.filter(|tag| (slot(tag.as_bytes()) >= 8_192) == second_half).nth(nth).expect("a tag")
}

fn ask(conn: &mut Conn, line: &str) -> String {
    let reply = conn.try_call(&Argv::parse(line).expect("a command")).expect("a reply");
    String::from_utf8_lossy(&reply).into_owned()
}

impl Open {
    fn new(kind: Option<Oracle>) -> Self {
        let nodes = Nodes::form(2, 0, |_| kind, &[]);
        let (leaves, stays, other) = (tag(false, 0), tag(false, 1), tag(true, 0));
        let slot = slot(leaves.as_bytes());
        let words = [("{m}", leaves), ("{n}", stays), ("{o}", other), ("<slot>", slot.to_string())];
        let open = Self { nodes, slot, words };
        let (source, target) = (&open.nodes.0[0], &open.nodes.0[1]);
        assert_eq!(target.text(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", source.id())), "OK");
        let (mut here, mut there) = open.conns("HELLO 2");
        for line in ["SET {m}h 1", "SET {m}h2 1", "SET {m}h3 1", "RPUSH {m}hl 3 1 2", "SET {m}hs 1", "SET {n} 1"] {
            assert!(!ask(&mut here, &open.line(line)).starts_with('-'), "{line}");
        }
        for line in ["SET {m}g 1", "RPUSH {m}gl 1 2", "SET {o} 1"] {
            ask(&mut there, "ASKING");
            assert!(!ask(&mut there, &open.line(line)).starts_with('-'), "{line}");
        }
        assert_eq!(source.text(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", target.id())), "OK");
        open
    }

    /// A connection to each node.
    fn conns(&self, hello: &str) -> (Conn, Conn) {
        let mut conns = [0, 1].map(|nth| self.nodes.0[nth].server.connect());
        conns.iter_mut().for_each(|conn| drop(conn.run(hello)));
        conns.into()
    }

    fn line(&self, line: &str) -> String {
        self.words.iter().fold(line.to_owned(), |line, (word, with)| line.replace(word, with))
    }

    /// What the nodes say to all commands, one by one or in one pipeline for each node.
    fn say(&self, hello: &str, is_pipelined: bool) -> Vec<String> {
        let (mut here, mut there) = self.conns(hello);
        let mut said = Vec::new();
        for (node, conn) in [("s ", &mut here), ("t ", &mut there)] {
            let commands: Vec<Argv> = COMMANDS
                .lines()
                .filter_map(|line| line.strip_prefix(node))
                .map(|line| Argv::parse(&self.line(line)).expect("a command"))
                .collect();
            let at_once = if is_pipelined { commands.len() } else { 1 };
            commands.chunks(at_once).for_each(|chunk| said.extend(conn.try_pipeline(chunk).expect("replies")));
        }
        let addresses = [0, 1].map(|nth| self.nodes.0[nth].address());
        let same = |reply: Vec<u8>| {
            let reply = String::from_utf8_lossy(&reply).replace(&addresses[0], "<s>").replace(&addresses[1], "<t>");
            reply.replace(&format!(" {} ", self.slot), " <slot> ")
        };
        said.into_iter().map(same).collect()
    }
}

#[test]
fn commands_of_a_slot_on_its_way_are_answered_as_by_redis_server() {
    for (hello, is_pipelined) in [("HELLO 2", false), ("HELLO 2", true), ("HELLO 3", false), ("HELLO 3", true)] {
        let (ours, theirs) = (Open::new(None), Open::new(Some(Oracle::Newer)));
        let wrong: Vec<String> = (COMMANDS.lines().filter(|line| !line.is_empty()))
            .zip(ours.say(hello, is_pipelined).into_iter().zip(theirs.say(hello, is_pipelined)))
            .enumerate()
            .filter(|(_, (_, (ours, theirs)))| ours != theirs)
            .map(|(nth, (line, (ours, theirs)))| format!("{nth} {line}\n  ours:   {ours:?}\n  theirs: {theirs:?}"))
            .collect();
        assert!(wrong.is_empty(), "{hello}, pipelined: {is_pipelined}\n{}", wrong.join("\n"));
    }
}

#[test]
fn who_waits_for_a_group_of_a_stream_that_leaves_is_sent_after_it() {
    let said = [None, Some(Oracle::Newer)].map(|kind| {
        let nodes = Nodes::form(2, 0, |_| kind, &[]);
        let (source, target, key) = (&nodes.0[0], &nodes.0[1], tag(false, 0));
        let slot = slot(key.as_bytes());
        assert_eq!(source.text(&format!("XGROUP CREATE {key} g $ MKSTREAM")), "OK");
        let mut waiting = source.server.connect();
        let mut admin = source.server.connect();
        let mut bytes = Vec::new();
        Argv::parse(&format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {key} >")).expect("a command").encode(&mut bytes);
        waiting.send(&bytes).expect("it is sent");
        wait_until("it waits", || admin.run("INFO clients").text().contains("blocked_clients:1"));
        assert_eq!(target.text(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", source.id())), "OK");
        assert_eq!(source.text(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", target.id())), "OK");
        assert_eq!(source.text(&format!("MIGRATE 127.0.0.1 {} {key} 0 5000", target.server.port())), "OK");
        let said = String::from_utf8_lossy(&waiting.read_reply().expect("a reply")).into_owned();
        said.replace(&target.address(), "<t>")
    });
    assert_eq!(said[0], said[1]);
    assert!(said[0].starts_with("-ASK "), "{said:?}");
}

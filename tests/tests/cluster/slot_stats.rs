//! CLUSTER SLOT-STATS, held against redis-server 8.2, and HOTKEYS by slot.

use onrush_tests::argv;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;
use onrush_tests::resp::Value;
use onrush_tests::server::{Oracle, skips_on_stand_in, wait_until};

use crate::nodes::{Node, Nodes};

/// The slot of `a`, and of `{a}` with anything.
const SLOT: u16 = 15_495;

/// All slots are here but 0 to 99. `a` is 15495, `b` 3300.
fn node(partner: Option<Oracle>, more: &[&str]) -> Node {
    let more = [&["--cluster-require-full-coverage", "no"], more].concat();
    let node = Node::start(partner, &more);
    assert_eq!(node.text("CLUSTER ADDSLOTSRANGE 100 16383"), "OK");
    wait_until("the node is up", || node.text("CLUSTER INFO").contains("cluster_state:ok"));
    node
}

fn counting(partner: Option<Oracle>) -> Node {
    node(partner, &["--cluster-slot-stats-enabled", "yes"])
}

/// What is told of a slot, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stats {
    keys: i64,
    cpu_us: i64,
    bytes_in: i64,
    bytes_out: i64,
}

fn stats_of(conn: &mut Conn, slot: u16) -> Option<Stats> {
    let reply = conn.run(&format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot}"));
    let [row] = reply.items()? else { return None };
    let [_, told] = row.items()? else { panic!("{row:?}") };
    let mut stats = Stats::default();
    for (name, value) in told.pairs().expect("names and numbers") {
        let Value::Int(value) = value else { panic!("{value:?}") };
        match name.text().as_str() {
            "key-count" => stats.keys = value,
            "cpu-usec" => stats.cpu_us = value,
            "network-bytes-in" => stats.bytes_in = value,
            "network-bytes-out" => stats.bytes_out = value,
            name => panic!("{name}"),
        }
    }
    Some(stats)
}

fn stats(conn: &mut Conn) -> Stats {
    stats_of(conn, SLOT).expect("the slot is here")
}

fn ask(conn: &mut Conn, line: &str) -> String {
    let command = Argv::parse(line).expect("a command");
    String::from_utf8_lossy(&conn.try_call(&command).expect("a reply")).into_owned()
}

const CALLS: &str = "
CLUSTER SLOT-STATS
CLUSTER SLOT-STATS ORDERBY
CLUSTER SLOT-STATS foo 1
CLUSTER slot-Stats foo 1 2
CLUSTER SLOT-STATS SLOTSRANGE 1
CLUSTER SLOT-STATS SLOTSRANGE 1 2 3
CLUSTER SLOT-STATS SLOTSRANGE 2 1
CLUSTER SLOT-STATS SLOTSRANGE -1 1
CLUSTER SLOT-STATS SLOTSRANGE 1 16384
CLUSTER SLOT-STATS SLOTSRANGE x 1
CLUSTER SLOT-STATS SLOTSRANGE 1 x
CLUSTER SLOT-STATS SLOTSRANGE 1 1
CLUSTER SLOT-STATS SLOTSRANGE 98 101
CLUSTER SLOT-STATS slotsrange 15494 15496
CLUSTER SLOT-STATS ORDERBY foo
CLUSTER SLOT-STATS ORDERBY foo LIMIT x
CLUSTER SLOT-STATS ORDERBY memory-bytes LIMIT 1
CLUSTER SLOT-STATS ORDERBY cpu-usec LIMIT 2 ASC
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 3
CLUSTER SLOT-STATS orderby KEY-COUNT limit 3 desc
CLUSTER SLOT-STATS ORDERBY key-count ASC LIMIT 3
CLUSTER SLOT-STATS ORDERBY network-bytes-in LIMIT 2
CLUSTER SLOT-STATS ORDERBY network-bytes-out DESC LIMIT 2
CLUSTER SLOT-STATS ORDERBY key-count
CLUSTER SLOT-STATS ORDERBY key-count LIMIT
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 0
CLUSTER SLOT-STATS ORDERBY key-count LIMIT -1
CLUSTER SLOT-STATS ORDERBY key-count LIMIT x
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 16385
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 99999999999999999999
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 LIMIT
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 LIMIT 2
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 0 LIMIT 2
CLUSTER SLOT-STATS ORDERBY key-count ASC DESC
CLUSTER SLOT-STATS ORDERBY key-count DESC DESC
CLUSTER SLOT-STATS ORDERBY key-count foo
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 foo
CONFIG GET cluster-slot-stats*
COMMAND INFO cluster|slot-stats
";

#[test]
fn the_command_replies_as_redis_server_does() {
    for (hello, enabled) in [("HELLO 2", "no"), ("HELLO 3", "yes")] {
        let [mut ours, mut theirs] = [None, Some(Oracle::Newer)].map(|partner| {
            let node = node(partner, &["--cluster-slot-stats-enabled", enabled]);
            let mut conn = node.server.connect();
            conn.run(hello);
            for line in ["SET a 1", "SET {a}2 1", "SET b 1", "GET c", "CONFIG GET cluster-slot-stats-enabled"] {
                conn.run(line);
            }
            (conn, node)
        });
        for line in CALLS.lines().filter(|line| !line.is_empty()) {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|(conn, _)| without_times(&ask(conn, line)));
            assert_eq!(ours, theirs, "{line}");
        }
    }
}

/// A reply with zeros in place of times.
fn without_times(reply: &str) -> String {
    let mut lines: Vec<&str> = reply.split("\r\n").collect();
    for at in 1..lines.len() {
        if lines[at - 1] == "cpu-usec" {
            lines[at] = ":0";
        }
    }
    lines.join("\r\n")
}

/// Commands one after the other, each with what it is to count the same as redis-server.
const COUNTED: &str = r##"
SET a 1
GET a
MGET a {a}1 {a}2
MSET {a}1 x {a}2 y
INCR a
INCR {a}1
LPUSH a 1
GET
GET a b
SET a
NOSUCH a
PING
EXISTS a b
DEL a b
APPEND a 0123456789
OBJECT ENCODING a
OBJECT FREQ a
TYPE a
ZADD {a}z 1 m 2 n
ZUNION 2 {a}z {a}y
ZUNIONSTORE {a}y 1 {a}z
ZRANGE {a}z 0 -1
SORT {a}z
BLPOP {a}l 0.01
RPUSH {a}l 1 2 3
BLPOP {a}l 0
XADD {a}x 1-1 f v
XREAD STREAMS {a}x 0
XREAD COUNT 1 STREAMS {a}x 0-0
GEOADD {a}g 1 2 m
WATCH a
UNWATCH
EVAL "#!lua\nreturn 1" 1 a
EVAL "return 1" 0
EVAL "return 1" 1 a
FCALL nosuch 1 a
SPUBLISH a hello
PUBLISH a hello
PFADD {a}h x
PFCOUNT {a}h {a}none
COPY a {a}copy
RENAME {a}copy {a}renamed
EXPIRE a 100
TTL a
DUMP none{a}
CLUSTER COUNTKEYSINSLOT 15495
CLUSTER KEYSLOT a
KEYS *
DBSIZE
COMMAND GETKEYS GET a
DEL a {a}1 {a}2
"##;

#[test]
fn commands_count_their_bytes_as_redis_server_counts_them() {
    let [mut ours, mut theirs] = [None, Some(Oracle::Newer)].map(|partner| {
        let node = counting(partner);
        (node.server.connect(), node)
    });
    let mut wrong = Vec::new();
    for line in COUNTED.lines().filter(|line| !line.is_empty()) {
        let [ours, theirs] = [&mut ours, &mut theirs].map(|(conn, _)| {
            conn.run("CONFIG RESETSTAT");
            let reply = ask(conn, line);
            let Stats { keys, bytes_in, bytes_out, .. } = stats(conn);
            (keys, bytes_in, bytes_out, reply.len())
        });
        if ours != theirs {
            wrong.push(format!("{line}: ours {ours:?}, theirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "keys, bytes in, bytes out, length of the reply\n{}", wrong.join("\n"));
}

#[test]
fn a_pipeline_counts_what_its_commands_count_one_by_one() {
    let node = counting(None);
    let mut conn = node.server.connect();
    let mut batch: Vec<Argv> = Vec::new();
    for n in 0..300 {
        batch.push(argv!["SET", format!("{{a}}{}", n % 7), n.to_string()]);
        batch.push(argv!["PING"]);
        batch.push(argv!["GET", "b"]);
        batch.extend((0..n % 5).map(|_| argv!["INCR", "{a}count"]));
        if n % 10 == 0 {
            batch.push(argv!["EVAL", "return redis.call('get', KEYS[1])", "1", "{a}count"]);
            batch.push(argv!["SET", "{a}large", "x".repeat(40_000)]);
            batch.push(argv!["OBJECT", "ENCODING", "a"]);
            batch.push(argv!["INCR", "{a}large"]);
            batch.push(argv!["GET", "a", "b"]);
        }
    }
    for command in &batch {
        conn.try_call(command).expect("a reply");
    }
    let once = stats(&mut conn);
    conn.run("FLUSHALL");
    conn.run("CONFIG RESETSTAT");
    conn.pipeline(&batch);
    let piped = stats(&mut conn);
    assert_eq!(Stats { cpu_us: 0, ..piped }, Stats { cpu_us: 0, ..once });
    assert!(piped.cpu_us > 0 && once.cpu_us > 0, "{piped:?} {once:?}");
}

/// The bytes of a transaction: those of its commands with keys, of EXEC and of MULTI; and of EXEC's reply.
#[test]
fn a_transaction_counts_once_however_it_is_executed() {
    let node = counting(None);
    let mut conn = node.server.connect();
    let len = |words: &str| {
        let mut bytes = Vec::new();
        Argv::parse(words).expect("a command").encode(&mut bytes);
        bytes.len() as i64
    };
    let lines = ["MULTI", "SET a 12", "PING", "GET a", "EXEC"];
    let bytes_in = lines.iter().filter(|line| **line != "PING").map(|line| len(line)).sum();
    let bytes_out = "*3\r\n+OK\r\n+PONG\r\n$2\r\n12\r\n".len() as i64;
    let expected = Stats { keys: 1, cpu_us: 0, bytes_in, bytes_out };
    let commands: Vec<Argv> = lines.iter().map(|line| Argv::parse(line).expect("a command")).collect();
    for way in ["one by one", "together"] {
        conn.run("CONFIG RESETSTAT");
        match way {
            "together" => drop(conn.pipeline(&commands)),
            _ => commands.iter().for_each(|command| drop(conn.try_call(command))),
        }
        assert_eq!(Stats { cpu_us: 0, ..stats(&mut conn) }, expected, "{way}");
    }
    conn.run("CONFIG RESETSTAT");
    for line in ["MULTI", "SET a 12", "SET b 1", "EXEC"] {
        conn.run(line);
    }
    let queued = Stats { keys: 1, bytes_in: len("SET a 12"), ..Stats::default() };
    assert_eq!(stats(&mut conn), queued, "what was queued counts, the rest was refused");
}

#[test]
fn the_time_of_a_slot_is_that_of_its_commands() {
    let node = counting(None);
    let mut conn = node.server.connect();
    let members: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    conn.call(&Argv::new(&[vec!["SADD".to_owned(), "{b}set".to_owned()], members].concat()));
    conn.run("CONFIG RESETSTAT");
    for _ in 0..20 {
        conn.run("SORT {b}set LIMIT 0 1");
        conn.run("GET a");
    }
    let [slow, quick] = [3_300, SLOT].map(|slot| stats_of(&mut conn, slot).expect("the slot is here").cpu_us);
    assert!(slow > 20 * quick.max(1), "{slow} {quick}");
    let first = ask(&mut conn, "CLUSTER SLOT-STATS ORDERBY cpu-usec LIMIT 1");
    assert!(first.contains(":3300\r\n"), "{first}");
    let sorts = conn.run("INFO commandstats").text();
    let usec = sorts.split_once("cmdstat_sort:calls=20,usec=").and_then(|(_, rest)| rest.split(',').next());
    let usec: i64 = usec.expect("a time").parse().expect("a number");
    assert!((usec - slow).abs() <= 20 + usec / 10, "SORT took {usec}, its slot {slow}");
}

#[test]
fn clients_that_wait_count_when_they_are_served() {
    for partner in [None, Some(Oracle::Newer)] {
        let node = counting(partner);
        let (mut waits, mut conn) = (node.server.connect(), node.server.connect());
        waits.send_command(&argv!["BLPOP", "a", "0"]).expect("it is sent");
        wait_until("it waits", || conn.run("INFO clients").text().contains("blocked_clients:1"));
        conn.run("RPUSH a 1");
        waits.read_reply().expect("a reply");
        let Stats { keys, bytes_in, bytes_out, .. } = stats(&mut conn);
        assert_eq!((keys, bytes_in, bytes_out), (0, 29 + 29, 18 + 4), "{partner:?}");
    }
}

#[test]
fn messages_count_for_the_slot_of_their_sharded_channel() {
    for partner in [None, Some(Oracle::Newer)] {
        let node = counting(partner);
        let (mut hears, mut conn) = (node.server.connect(), node.server.connect());
        hears.run("SSUBSCRIBE a");
        let subscribed = stats(&mut conn);
        conn.run("CONFIG RESETSTAT");
        conn.run("SPUBLISH a hello");
        let message = hears.read_reply().expect("a message");
        conn.run("PUBLISH a hello");
        let published = stats(&mut conn);
        assert_eq!((subscribed.bytes_in, subscribed.bytes_out), (28, 32), "{partner:?}");
        assert_eq!((published.bytes_in, published.bytes_out), (36, 4 + message.len() as i64), "{partner:?}");
    }
}

#[test]
fn counts_stay_while_they_are_off_and_go_with_their_slot() {
    for partner in [None, Some(Oracle::Newer)] {
        let node = counting(partner);
        let mut conn = node.server.connect();
        conn.run("SET a 1");
        let counted = stats(&mut conn);
        assert_eq!((counted.bytes_in, counted.bytes_out), (27, 5));
        conn.run("CONFIG SET cluster-slot-stats-enabled no");
        conn.run("SET a 1");
        assert_eq!(stats(&mut conn), Stats { keys: 1, ..Stats::default() });
        conn.run("CONFIG SET cluster-slot-stats-enabled yes");
        assert_eq!(stats(&mut conn), counted, "{partner:?}");
        conn.run("DEL a");
        conn.run(&format!("CLUSTER DELSLOTS {SLOT}"));
        assert_eq!(stats_of(&mut conn, SLOT), None);
        conn.run(&format!("CLUSTER ADDSLOTS {SLOT}"));
        assert_eq!(stats(&mut conn), Stats::default(), "{partner:?}");
        conn.run("SET a 1");
        conn.run("CONFIG RESETSTAT");
        assert_eq!(stats(&mut conn), Stats { keys: 1, ..Stats::default() }, "{partner:?}");
    }
}

#[test]
fn what_goes_to_replicas_counts_there_and_here() {
    if skips_on_stand_in() {
        return;
    }
    let nodes = Nodes::form(1, 1, |_| None, &["--cluster-slot-stats-enabled", "yes"]);
    let [mut primary, mut replica] = [0, 1].map(|at: usize| nodes.0[at].server.connect());
    let commands: Vec<Argv> = (0..100).map(|n| argv!["SET", "a", (100 + n).to_string()]).collect();
    primary.pipeline(&commands);
    primary.run("WAIT 1 0");
    let (sent, replied) = (100 * 29, 100 * 5);
    let here = stats(&mut primary);
    assert_eq!((here.bytes_in, here.bytes_out), (sent, replied + sent));
    wait_until("the replica has counted", || stats(&mut replica).bytes_in == sent);
    assert_eq!(stats(&mut replica).bytes_out, 0);
    replica.run("GET a");
    assert_eq!(stats(&mut replica).bytes_out, 0, "it was sent elsewhere");
    replica.run("READONLY");
    replica.run("GET a");
    assert_eq!(stats(&mut replica).bytes_out, 9);
}

#[test]
fn without_a_cluster_there_is_nothing_to_count() {
    let server = onrush_tests::server::Server::start_onrush(&["--cluster-slot-stats-enabled", "yes"]);
    let mut conn = server.connect();
    conn.run("SET a 1");
    let refused = conn.run("CLUSTER SLOT-STATS SLOTSRANGE 0 1").text();
    assert_eq!(refused, "ERR This instance has cluster support disabled");
}

#[test]
fn hot_keys_are_looked_for_in_some_slots() {
    if skips_on_stand_in() {
        return;
    }
    let node = node(None, &[]);
    let mut conn = node.server.connect();
    for wrong in ["SLOTS", "SLOTS 0", "SLOTS 2 1", "SLOTS 1 16384", "SLOTS x 1", "SLOTS 1 1 SLOTS 1 2", "SLOTS 1 1 2"] {
        assert!(conn.run(&format!("HOTKEYS START METRICS 1 NET {wrong}")).is_error(), "{wrong}");
    }
    let started = conn.run(&format!("HOTKEYS START METRICS 2 CPU NET SLOTS 4 {SLOT} 7 5 6"));
    assert_eq!(started.text(), "OK");
    let batch: Vec<Argv> = (0..200).map(|n| argv!["GET", ["a", "b", "{a}2"][n % 3]]).collect();
    conn.pipeline(&batch);
    let reply = conn.run("HOTKEYS GET");
    let pairs = reply.items().expect("one element")[0].pairs().expect("fields");
    let field = |name: &str| {
        let found = pairs.iter().find(|(field, _)| field.text() == name);
        found.map(|(_, value)| value.clone()).unwrap_or_else(|| panic!("no {name}"))
    };
    let names: Vec<String> = field("by-net-bytes").items().expect("keys").iter().step_by(2).map(Value::text).collect();
    assert_eq!(names, ["{a}2", "a"]);
    let numbers = |value: &Value| -> Vec<i64> {
        let number = |value: &Value| if let Value::Int(number) = value { *number } else { panic!("{value:?}") };
        value.items().expect("numbers").iter().map(number).collect()
    };
    let ranges: Vec<Vec<i64>> = field("selected-slots").items().expect("ranges").iter().map(numbers).collect();
    assert_eq!(ranges, [vec![5, 7], vec![SLOT.into()]]);
    let [Value::Int(selected), Value::Int(all)] =
        ["net-bytes-all-commands-selected-slots", "net-bytes-all-commands-all-slots"].map(field)
    else {
        panic!("no numbers")
    };
    assert!(0 < selected && selected < all, "{selected} {all}");
    assert!(pairs.iter().any(|(name, _)| name.text() == "all-commands-selected-slots-us"));
    assert!(pairs.iter().all(|(name, _)| !name.text().starts_with("sampled")));
}

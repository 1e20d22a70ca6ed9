//! The bus of a cluster: what comes over it, what a node's file says, what a primary tells its replicas.

use std::fmt::Write;

use onrush_cluster::cluster::told::Told;
use onrush_cluster::cluster::{Action, Cluster, Host, LinkId, Now, Options, PrimaryLink};
use onrush_cluster::message::{self, Body, Extension, Gossip, Greeting, Header, Message, MessageFlags, PREFIX_LEN};
use onrush_cluster::node::{Address, Flags, NodeId};
use onrush_cluster::nodes_conf::NodesConf;

const BEGIN_MS: u64 = 1_700_000_000_000;
/// Links in, and then links to the other nodes and their successors.
const ACCEPTED: usize = 6;
const LINKS: u64 = 16;

struct Still;

impl Host for Still {
    fn replication_offset(&self) -> u64 {
        0
    }

    fn primary_link(&self) -> PrimaryLink {
        PrimaryLink { is_up: true, silent_ms: 0 }
    }

    fn keys_in_slot(&self, slot: u16) -> u64 {
        u64::from(slot % 2)
    }

    fn has_keys(&self) -> bool {
        false
    }
}

fn name(nth: u8) -> NodeId {
    let digit = b"0123456789abcdef"[usize::from(nth % 16)];
    NodeId::from_bytes(&[digit; 40]).expect("a name")
}

/// Three shards of two nodes; the first primary is this node, the others are named 1 to 5.
fn conf() -> NodesConf {
    let mut text = String::new();
    for nth in 0..6_u8 {
        let first = u16::from(nth % 3) * 5_000;
        let (myself, role, primary) = match nth {
            0 => ("myself,", "master", "-".to_owned()),
            1 | 2 => ("", "master", "-".to_owned()),
            _ => ("", "slave", name(nth - 3).to_string()),
        };
        let slots = if nth < 3 { format!(" {first}-{}", first + 4_999) } else { String::new() };
        let (id, epoch) = (name(nth), nth % 3 + 1);
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "{id} 10.0.0.{nth}:{}@{} {myself}{role} {primary} 0 0 {epoch} connected{slots}", nth, 100);
    }
    text.push_str("vars currentEpoch 3 lastVoteEpoch 2\n");
    NodesConf::parse(&text).expect("a file of nodes")
}

/// A message as a node sends it; `nth` says whose and of which kind.
fn template(sender: u8, kind: u8) -> Vec<u8> {
    let sender = sender % 8;
    let address = Address { ip: String::new(), port: sender.into(), other_port: 0, bus_port: 100 };
    let (flags, primary) = match sender {
        3..=5 => (Flags::REPLICA, Some(name(sender - 3))),
        _ => (Flags::PRIMARY, None),
    };
    let first = u16::from(sender % 3) * 5_000;
    let slots = if sender < 6 { (first..first + 5_000).collect() } else { Default::default() };
    let header = Header {
        sender: name(sender),
        address: address.clone(),
        flags,
        is_down: kind & 0x40 != 0,
        message_flags: MessageFlags::EXTENSIONS,
        current_epoch: 3,
        config_epoch: u64::from(sender % 3) + 1,
        offset: 0,
        slots,
        primary,
    };
    let other = name(kind >> 4);
    let greeting = |greeting| Body::Greeting {
        greeting,
        gossip: vec![Gossip {
            id: other,
            ping_sent_s: 0,
            pong_received_s: 1_700_000_000,
            address: address.clone(),
            flags,
        }],
        extensions: vec![
            Extension::Hostname("a.example".to_owned()),
            Extension::Shard(other),
            Extension::Forgotten { id: other, ttl_s: 60 },
        ],
    };
    let body = match kind % 11 {
        0 => greeting(Greeting::Ping),
        1 => greeting(Greeting::Pong),
        2 => greeting(Greeting::Meet),
        3 => Body::Fail(other),
        4 => Body::Publish { is_sharded: false, channel: b"channel".to_vec(), message: b"message".to_vec() },
        5 => Body::AuthRequest,
        6 => Body::AuthAck,
        7 => Body::Update { config_epoch: 9, id: other, slots: (0..50).collect() },
        8 => Body::ManualFailover,
        9 => Body::Module { id: 1, kind: 2, data: vec![3; 4] },
        _ => Body::Publish { is_sharded: true, channel: Vec::new(), message: Vec::new() },
    };
    let mut bytes = Vec::new();
    Message { header, body }.encode(&mut bytes);
    bytes
}

/// A message as it came: `None` if the link would be closed for it.
fn decode(bytes: &[u8]) -> Option<Message> {
    let prefix: [u8; PREFIX_LEN] = *bytes.first_chunk()?;
    let len = message::len(prefix).ok()?;
    let decoded = Message::decode(bytes).ok()?;
    assert_eq!(len, bytes.len());
    // What was understood goes out as it was understood.
    let mut again = Vec::new();
    decoded.encode(&mut again);
    assert_eq!(Message::decode(&again).as_ref(), Ok(&decoded));
    Some(decoded)
}

/// What the node asks for makes sense; its connections come about at once.
fn check(cluster: &mut Cluster, now: Now) {
    for action in cluster.take_actions() {
        match action {
            Action::Connect { link, .. } => cluster.connected(link, now, &Still),
            Action::Send { message, .. } => {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                assert!(Message::decode(&bytes).is_ok(), "what is sent can be read");
            }
            Action::TellReplicas { text, .. } => assert!(Told::parse(&text).is_some(), "what is told can be read"),
            _ => {}
        }
    }
}

/// Messages with some bytes changed, and time, come to a node. It keeps its name and its epoch does not go back; what it saves
/// and sends can be read.
pub fn bus(data: &[u8]) {
    drop(decode(data));
    let mut now = Now { mono_ms: 1, wall_ms: BEGIN_MS };
    let options = Options { node_timeout_ms: 500, ..Options::default() };
    let mut cluster = Cluster::restore(options, 1, &conf(), now).expect("a node");
    let myself = cluster.my_id();
    (0..ACCEPTED).for_each(|_| _ = cluster.accepted("10.0.0.1", "10.0.0.9", now));
    let mut epoch = cluster.current_epoch();
    let mut rest = data.iter().copied();
    while let Some(op) = rest.next() {
        let mut next = || rest.next().unwrap_or(0);
        if op < 16 {
            let passed_ms = 8 * u64::from(next()) + 1;
            now = Now { mono_ms: now.mono_ms + passed_ms, wall_ms: now.wall_ms + passed_ms };
            cluster.tick(now, &Still);
        } else {
            let mut bytes = template(op, next());
            let link = LinkId(u64::from(next()) % LINKS + 1);
            for _ in 0..op >> 5 {
                // Slots are most of a message, and seldom what is interesting.
                let at = usize::from(next()) | usize::from(next() & 15) << 8;
                let at = if (60..2_000).contains(&at) { at % 60 } else { at % bytes.len() };
                bytes[at] ^= next();
            }
            if let Some(message) = decode(&bytes) {
                cluster.received(link, &message, now, &Still);
            }
        }
        check(&mut cluster, now);
        assert_eq!(cluster.my_id(), myself);
        assert!(cluster.current_epoch() >= epoch);
        epoch = cluster.current_epoch();
    }
    let text = cluster.nodes_conf().to_string();
    let conf = NodesConf::parse(&text).expect("what is saved can be read");
    assert!(Cluster::restore(Options::default(), 2, &conf, now).is_ok(), "{text}");
    drop((cluster.info_text(true), cluster.nodes_text(), cluster.slots(), cluster.shards(), cluster.links()));
}

/// A file of nodes, or what a primary told: read or refused, and what was read is written the same.
pub fn nodes_conf(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(conf) = NodesConf::parse(text) {
        let written = conf.to_string();
        assert_eq!(NodesConf::parse(&written).as_ref(), Ok(&conf), "{written}");
        let now = Now { mono_ms: 1, wall_ms: BEGIN_MS };
        if let Ok(mut cluster) = Cluster::restore(Options::default(), 1, &conf, now) {
            cluster.tick(now, &Still);
            check(&mut cluster, now);
            drop(cluster.nodes_text());
        }
    }
    if let Some(told) = Told::parse(text) {
        assert_eq!(Told::parse(&told.text()), Some(told));
    }
}

//! A node that gets anything from anybody keeps its own rules.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::actions::{Action, LinkId, Now};
use super::super::commands::Failover;
use super::super::receive::{EPOCH_MAX, EPOCH_TAKEN_MAX};
use super::super::{Cluster, Options};
use super::Asked;
use super::mesh::Mesh;
use crate::message::{Body, Extension, Gossip, Greeting, Header, Message, MessageFlags};
use crate::node::{Address, Flags, NodeId};
use crate::slots::SlotSet;

fn name(nth: u8) -> NodeId {
    NodeId::from_bytes(&[b"0123456789abcdef"[usize::from(nth % 16)]; 40]).unwrap()
}

/// An event, with links and nodes by number.
#[derive(Clone, Debug)]
enum Event {
    Accept,
    Connected(u64),
    Closed(u64),
    Pass(u64),
    Message(u64, Box<Message>),
    Meet(u8),
    Forget(u8),
    Replicate(u8),
    Failover,
    AddSlots(u16),
    Import(u16, u8),
    Own(u16, u8),
    Reset(bool),
}

fn id() -> impl Strategy<Value = NodeId> {
    // 7 stands for this node.
    (0..8_u8).prop_map(|nth| if nth == 7 { Cluster::new(Options::default(), 1).my_id() } else { name(nth) })
}

fn address() -> impl Strategy<Value = Address> {
    ("(|10\\.0\\.0\\.[1-4]|a,b)", 0..3_u16, 0..3_u16).prop_map(|(ip, port, bus_port)| Address {
        ip,
        port,
        other_port: 0,
        bus_port,
    })
}

fn slots() -> impl Strategy<Value = SlotSet> {
    prop_oneof![Just(SlotSet::new()), (0..40_u16, 0..40_u16).prop_map(|(first, len)| (first..first + len).collect())]
}

fn epoch() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..6_u64, 1 => Just(u64::MAX), 1 => Just(EPOCH_MAX), 1 => Just(EPOCH_TAKEN_MAX)]
}

fn flags() -> impl Strategy<Value = Flags> {
    any::<u16>().prop_map(Flags::from_bits_retain)
}

fn header() -> impl Strategy<Value = Header> {
    let parts =
        (id(), address(), flags(), any::<u8>(), epoch(), epoch(), 0..5_u64, slots(), proptest::option::of(id()));
    parts.prop_map(|(sender, address, flags, bits, current_epoch, config_epoch, offset, slots, primary)| Header {
        sender,
        address,
        flags,
        is_down: false,
        message_flags: MessageFlags::from_bits_retain(bits),
        current_epoch,
        config_epoch,
        offset,
        slots,
        primary,
    })
}

fn body() -> impl Strategy<Value = Body> {
    let gossip = (id(), address(), flags(), any::<u32>()).prop_map(|(id, address, flags, pong_received_s)| Gossip {
        id,
        ping_sent_s: 0,
        pong_received_s,
        address,
        flags,
    });
    let extension = prop_oneof![
        "[a-z, ]{0,5}".prop_map(Extension::Hostname),
        (id(), any::<u64>()).prop_map(|(id, ttl_s)| Extension::Forgotten { id, ttl_s }),
        id().prop_map(Extension::Shard),
    ];
    let greeting = prop_oneof![Just(Greeting::Ping), Just(Greeting::Pong), Just(Greeting::Meet)];
    prop_oneof![
        6 => (greeting, vec(gossip, 0..4), vec(extension, 0..3))
            .prop_map(|(greeting, gossip, extensions)| Body::Greeting { greeting, gossip, extensions }),
        1 => id().prop_map(Body::Fail),
        1 => Just(Body::AuthRequest),
        1 => Just(Body::AuthAck),
        1 => Just(Body::ManualFailover),
        2 => (epoch(), id(), slots()).prop_map(|(config_epoch, id, slots)| Body::Update { config_epoch, id, slots }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Accept),
        4 => (1..20_u64).prop_map(Event::Connected),
        1 => (1..20_u64).prop_map(Event::Closed),
        4 => (1..3_000_u64).prop_map(Event::Pass),
        20 => (1..20_u64, header(), body()).prop_map(|(link, header, body)| Event::Message(link, Box::new(Message { header, body }))),
        1 => (0..8_u8).prop_map(Event::Meet),
        1 => (0..8_u8).prop_map(Event::Forget),
        1 => (0..8_u8).prop_map(Event::Replicate),
        1 => Just(Event::Failover),
        1 => (0..80_u16).prop_map(Event::AddSlots),
        1 => (0..80_u16, 0..8_u8).prop_map(|(slot, nth)| Event::Import(slot, nth)),
        1 => (0..80_u16, 0..8_u8).prop_map(|(slot, nth)| Event::Own(slot, nth)),
        1 => any::<bool>().prop_map(Event::Reset),
    ]
}

fn apply(cluster: &mut Cluster, event: Event, now: Now) {
    let asked = Asked::default();
    match event {
        Event::Accept => drop(cluster.accepted("10.0.0.1", "10.0.0.9", now)),
        Event::Connected(link) => cluster.connected(LinkId(link), now, &asked),
        Event::Closed(link) => cluster.closed(LinkId(link), now),
        Event::Pass(_) => cluster.tick(now, &asked),
        Event::Message(link, message) => cluster.received(LinkId(link), &message, now, &asked),
        event => drop(command(cluster, event, now)),
    }
}

/// What clients ask for. A refusal is as good as anything else here.
fn command(cluster: &mut Cluster, event: Event, now: Now) -> Result<(), String> {
    let asked = Asked::default();
    match event {
        Event::Meet(nth) => cluster.meet(&format!("10.0.0.{nth}"), 1, Some(2), now),
        Event::Forget(nth) => cluster.forget(name(nth).as_str(), now),
        Event::Replicate(nth) => cluster.replicate(name(nth).as_str(), now, &asked),
        Event::Failover => cluster.failover(Failover::Force, now, &asked),
        Event::AddSlots(slot) => cluster.add_slots(&[slot], now),
        Event::Import(slot, nth) => cluster.set_slot_importing(slot, name(nth).as_str(), now),
        Event::Own(slot, nth) => cluster.set_slot_node(slot, name(nth).as_str(), now, &asked),
        Event::Reset(is_hard) => cluster.reset(is_hard, now, &asked),
        _ => Ok(()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn anything_may_come(events in vec(event(), 1..150)) {
        let mut cluster = Cluster::new(Options { node_timeout_ms: 500, ..Options::default() }, 1);
        let mut now = Now { mono_ms: 1, wall_ms: 1_700_000_000_000 };
        for (nth, event) in events.into_iter().enumerate() {
            if let Event::Pass(time_ms) = &event {
                now = Now { mono_ms: now.mono_ms + time_ms, wall_ms: now.wall_ms + time_ms };
            }
            apply(&mut cluster, event, now);
            cluster.check_consistency();
            prop_assert!(cluster.current_epoch() <= EPOCH_TAKEN_MAX + 2 * (nth as u64 + 1));
            let actions = cluster.take_actions();
            let votes = actions.iter().any(|action| matches!(action, Action::Send { message, .. } if message.body == Body::AuthAck));
            let first_saves = actions.first() == Some(&Action::Save { sync: true });
            prop_assert!(!votes || first_saves);
        }
        // What it would save, it could read.
        let text = cluster.nodes_conf().to_string();
        let conf = crate::nodes_conf::NodesConf::parse(&text);
        prop_assert!(conf.is_ok(), "{:?}: {}", conf, text);
        let again = Cluster::restore(Options::default(), 2, &conf.unwrap(), now);
        prop_assert!(again.is_ok(), "{:?}: {}", again.err(), text);
        drop((cluster.info_text(true), cluster.nodes_text(), cluster.slots(), cluster.shards(), cluster.links(), cluster.routes()));
    }
}

#[test]
fn lies_about_this_node_and_about_epochs_have_no_effect() {
    let mut mesh = Mesh::formed(3, 1);
    let own = mesh.id(0);
    let link = mesh.members[0]
        .cluster
        .links()
        .into_iter()
        .find(|link| !link.is_outgoing && link.node == mesh.id(1))
        .unwrap()
        .id;
    let header = mesh.members[1].cluster.header();
    let (now, asked, epoch) = (mesh.now(), Asked::default(), mesh.members[0].cluster.current_epoch());
    let slots = || (0..16_384).collect::<SlotSet>();
    let mut high = header.clone();
    high.current_epoch = u64::MAX;
    for (header, body) in [
        (header.clone(), Body::Fail(own)),
        (header.clone(), Body::Update { config_epoch: 99, id: own, slots: slots() }),
        (header.clone(), Body::Update { config_epoch: u64::MAX, id: mesh.id(2), slots: slots() }),
        (high, Body::AuthRequest),
        (header.clone(), Body::AuthRequest),
        (header, Body::AuthAck),
    ] {
        mesh.at(0).received(link, &Message { header, body }, now, &asked);
    }
    assert_eq!(mesh.members[0].cluster.current_epoch(), epoch);
    assert_eq!(mesh.owner(0, 100), Some(own));
    assert!(mesh.line(0, 0).unwrap().contains("myself,master "));
    mesh.members[0].cluster.check_consistency();
}
